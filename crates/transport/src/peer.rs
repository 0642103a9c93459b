//! The other end of a connection: its address, and its verified certificate.

use std::{sync::Arc, time::Duration};

use kent_engine::{
    auth::{Credentials, KnownCaller, NamedCertificate},
    host::address::Address,
};
use tokio::sync::Semaphore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use x509_cert::{
    der::{Decode, Error},
    ext::pkix::{SubjectAltName, name::GeneralName},
};

/// The other end of a connection. Every request on the connection carries this value.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The address of the other end.
    pub address: Address,
    /// The certificate of the other end, verified, if it presented one.
    pub certificate: Option<Arc<Certificate>>,
    /// Whether the other end is the daemon's own user.
    is_local: bool,
    connection: Arc<Shared>,
}

/// What all calls of a connection share.
#[derive(Debug)]
struct Shared {
    /// What the connection remembers about its last caller.
    known: KnownCaller,
    /// Permits for the pieces of large answers that the other end has not read yet.
    unread: Arc<Semaphore>,
}

/// The maximum number of pieces of large answers that a connection has in memory: 1 MiB.
const UNREAD_MAX: usize = 64;

impl Peer {
    /// Describes the other end of a new connection.
    pub fn new(address: Address, certificate: Option<Certificate>) -> Self {
        let is_local = match address {
            Address::Tcp(_) => false,
            Address::Unix(process) => is_own_user(process.uid),
        };
        let shared = Shared { known: KnownCaller::default(), unread: Arc::new(Semaphore::new(UNREAD_MAX)) };
        Self { address, certificate: certificate.map(Arc::new), is_local, connection: Arc::new(shared) }
    }

    /// What the connection remembers about its last caller.
    #[inline]
    pub fn known(&self) -> &KnownCaller {
        &self.connection.known
    }

    /// The permits for pieces of large answers on the connection.
    pub fn unread(&self) -> Arc<Semaphore> {
        self.connection.unread.clone()
    }

    /// The credentials of a call with this `authorization` header.
    pub fn credentials<'c>(&'c self, header: Option<&'c [u8]>) -> Credentials<'c> {
        Credentials {
            header,
            certificate: self.certificate.as_ref().and_then(|certificate| certificate.named()),
            is_nameless: self.certificate.as_ref().is_some_and(|certificate| certificate.name.is_none()),
            is_local: self.is_local,
            address: Some(self.address),
            known: Some(&self.connection.known),
        }
    }
}

/// The header `authorization` of a call.
#[inline]
pub fn authorization(headers: &HeaderMap) -> Option<&[u8]> {
    // A constant would be created and dropped by each call.
    static NAME: HeaderName = AUTHORIZATION;
    headers.get(&NAME).map(HeaderValue::as_bytes)
}

/// Returns the unverified name that a caller gives in `kent-principal`.
pub fn on_behalf_of(headers: &HeaderMap) -> String {
    let bytes = headers.get("kent-principal").map(HeaderValue::as_bytes).unwrap_or_default();
    // Control characters could manipulate the terminal of a person who reads the history.
    let visible = String::from_utf8_lossy(bytes).chars().filter(|symbol| !symbol.is_control()).collect::<String>();
    visible.chars().take(PRINCIPAL_CHARS_MAX).collect()
}

/// The maximum length of the name that a caller gives, in characters.
const PRINCIPAL_CHARS_MAX: usize = 100;

/// Whether `uid` is the daemon's user, or root, who can become any user.
fn is_own_user(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// The parts of a caller's certificate that the daemon uses. The certificate is signed by a CA that the daemon trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The name of the caller: the first URI of the subject's alternative names, as in SPIFFE, else the first DNS name.
    pub name: Option<String>,
    /// The end of the certificate's validity, as a time since the Unix epoch.
    pub(crate) not_after: Duration,
}

impl Certificate {
    /// Reads a certificate. The common name is ignored, because a CA may sign any string there.
    ///
    /// # Errors
    ///
    /// If the bytes are not an X.509 certificate.
    pub(crate) fn read(der: &CertificateDer<'_>) -> Result<Self, Error> {
        let certificate = x509_cert::Certificate::from_der(der)?;
        let certificate = certificate.tbs_certificate();
        let names = certificate.get_extension::<SubjectAltName>().ok().flatten();
        let names = names.map(|(_, names)| names.0).unwrap_or_default();
        let uri = names.iter().find_map(|name| match name {
            GeneralName::UniformResourceIdentifier(uri) => Some(uri),
            _ => None,
        });
        let dns = names.iter().find_map(|name| match name {
            GeneralName::DnsName(dns) => Some(dns),
            _ => None,
        });
        Ok(Self {
            name: uri.or(dns).map(|name| name.as_str().to_owned()),
            not_after: certificate.validity().not_after.to_unix_duration(),
        })
    }

    /// The certificate as a credential, if it has a name.
    fn named(&self) -> Option<NamedCertificate<'_>> {
        let expires = i64::try_from(self.not_after.as_millis()).unwrap_or(i64::MAX);
        self.name.as_deref().map(|name| NamedCertificate { name, expires })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};
    use tonic::codegen::http::HeaderName;

    use kent_engine::host::address::Process;

    use super::*;

    #[test]
    fn ok_a_caller_names_itself_in_utf_8_without_control_characters() {
        for (bytes, expected) in [
            (&b"ann"[..], "ann"),
            ("Ren\u{e9}".as_bytes(), "Ren\u{e9}"),
            ("a\u{84}\tb".as_bytes(), "ab"),
            (b"\xff", "\u{fffd}"),
            (&[b'x'; 200], &"x".repeat(100)),
        ] {
            let value = HeaderValue::from_bytes(bytes).expect("a header");
            let headers = HeaderMap::from_iter([(HeaderName::from_static("kent-principal"), value)]);
            assert_eq!(on_behalf_of(&headers), expected, "{bytes:?}");
        }
        assert_eq!(on_behalf_of(&HeaderMap::new()), "");
    }

    fn read(names: &[SanType]) -> Certificate {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "admin");
        params.subject_alt_names = names.to_vec();
        params.not_after = date_time_ymd(2030, 1, 1);
        let certificate = params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate");
        Certificate::read(certificate.der()).expect("well-formed")
    }

    #[test]
    fn ok_a_caller_is_named_by_its_uri_or_its_dns_name() {
        let dns = |name: &str| SanType::DnsName(name.try_into().expect("ASCII"));
        let uri = |name: &str| SanType::URI(name.try_into().expect("ASCII"));
        let cases = [
            (vec![], None),
            (vec![dns("orders.example")], Some("orders.example")),
            (vec![dns("orders.example"), uri("spiffe://example/orders")], Some("spiffe://example/orders")),
            (vec![SanType::IpAddress([127, 0, 0, 1].into())], None),
        ];
        for (names, expected) in cases {
            let certificate = read(&names);
            assert_eq!(certificate.name.as_deref(), expected, "{names:?}");
            assert_eq!(certificate.not_after.as_secs(), 1_893_456_000);
        }
    }

    #[test]
    fn ok_only_the_daemons_own_user_and_root_are_local() {
        let own = rustix::process::geteuid().as_raw();
        let unix = |uid| Address::Unix(Process { pid: Some(1), uid, gid: 0 });
        let tcp = Address::Tcp(([127, 0, 0, 1], 1).into());
        for (address, expected) in [(unix(own), true), (unix(0), true), (unix(own + 1), false), (tcp, false)] {
            assert_eq!(Peer::new(address, None).credentials(None).is_local, expected, "{address}");
        }
    }

    #[test]
    fn err_other_bytes() {
        assert!(Certificate::read(&CertificateDer::from_slice(b"certificate")).is_err());
    }
}
