//! The certificates of a case: two CAs, one certificate per daemon, and one for the client.

use std::{fs, io, path::Path, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
        server::WebPkiClientVerifier,
    },
};

use crate::script::TlsSpec;

/// The CAs of a case.
pub(crate) struct Cas {
    right: Ca,
    other: Ca,
}

struct Ca {
    certificate: CertificateDer<'static>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
struct Leaf {
    pem: String,
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Cas {
    /// Makes the CAs. Writes `ca.pem`, `other-ca.pem`, `client.pem` and `client.key` into the directory.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let cas = Self { right: Ca::new("Kent conformance")?, other: Ca::new("Another")? };
        let client = cas.right.sign("client", ExtendedKeyUsagePurpose::ClientAuth)?;
        fs::write(folder.join("ca.pem"), &cas.right.pem)?;
        fs::write(folder.join("other-ca.pem"), &cas.other.pem)?;
        fs::write(folder.join("client.pem"), &client.pem)?;
        fs::write(folder.join("client.key"), client.key.serialize_pem())?;
        Ok(cas)
    }

    /// Returns the TLS acceptor of a daemon.
    pub(crate) fn acceptor(&self, spec: &TlsSpec) -> io::Result<TlsAcceptor> {
        let ca = if spec.ca == "other" { &self.other } else { &self.right };
        let leaf = ca.sign(&spec.name, ExtendedKeyUsagePurpose::ServerAuth)?;
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone());
        let config = config.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let config = match spec.client_cert {
            true => {
                let mut roots = RootCertStore::empty();
                roots.add(self.right.certificate.clone()).map_err(io::Error::other)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                config.with_client_cert_verifier(verifier.map_err(io::Error::other)?)
            }
            false => config.with_no_client_auth(),
        };
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(leaf.key.serialize_der()));
        let mut config = config.with_single_cert(vec![leaf.certificate], key).map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl Ca {
    fn new(name: &str) -> io::Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        let (pem, certificate) = (certificate.pem(), certificate.der().clone());
        Ok(Self { certificate, pem, issuer: Issuer::new(params, key) })
    }

    fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> io::Result<Leaf> {
        let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        Ok(Leaf { pem: certificate.pem(), certificate: certificate.der().clone(), key })
    }
}
