//! Servers with TLS or tokens, and the credentials of their callers.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use kent_client::{
    Client,
    proto::{CallerLimits, CreateTokenRequest},
};
use kent_tls::{Certificates, Pem, Pems};
use rcgen::{CertifiedKey, generate_simple_self_signed};

use crate::{
    arena::Arena,
    lean::{Caller, Token},
    process::Served,
};

/// The contenders with TLS or tokens: their names, servers and callers.
pub(crate) struct Secure(Vec<(&'static str, Arc<Served>, Caller)>);

/// The files with a server's certificate and key.
pub(crate) struct ServerCertificate {
    path: String,
    key_path: String,
    /// The certificates that callers trust.
    pub(crate) certificates: Certificates,
}

impl Secure {
    pub(crate) fn start(arena: &Arena) -> anyhow::Result<Self> {
        let (kentd, certificate) = (arena.options.kentd.as_ref(), ServerCertificate::write(arena.data())?);
        let store = |name: &str| store(arena.data(), name);
        let guarded = Arc::new(Served::kentd_with(kentd, &store("guarded"), &["--auth", "required"])?);
        let token = arena.runtime.block_on(token(&store("guarded"), "bench", CallerLimits::default()))?;
        let with_token = |is_indexed| Caller { tls: None, token: Some(Token { secret: token.clone(), is_indexed }) };
        let (literal, indexed) = (with_token(false), with_token(true));
        let bare = Served::bare()?;
        let bare_tls = Served::bare_with(&certificate.bare_arguments())?;
        let daemon = Served::kentd_with(kentd, &store("secure"), &certificate.arguments())?;
        let tls = arena.runtime.block_on(certificate.certificates.refresh())?;
        let over_tls = Caller { tls: Some(tls), token: None };
        Ok(Self(vec![
            ("bare, token", Arc::new(bare), literal.clone()),
            ("kentd, token", guarded.clone(), literal),
            ("kentd, indexed token", guarded, indexed),
            ("bare, tls", Arc::new(bare_tls), over_tls.clone()),
            ("kentd, tls", Arc::new(daemon), over_tls),
        ]))
    }

    pub(crate) fn contenders(&self) -> &[(&'static str, Arc<Served>, Caller)] {
        &self.0
    }
}

impl ServerCertificate {
    /// Creates a certificate for 127.0.0.1, and writes it to this directory.
    pub(crate) fn write(dir: &Path) -> anyhow::Result<Self> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
        let (path, key_path) = (dir.join("cert.pem"), dir.join("key.pem"));
        fs::write(&path, cert.pem())?;
        fs::write(&key_path, signing_key.serialize_pem())?;
        let pems = Pems { ca: Some(Pem::Text(cert.pem().into_bytes())), identity: None };
        let certificates = Certificates::open(pems)?;
        Ok(Self { path: path.display().to_string(), key_path: key_path.display().to_string(), certificates })
    }

    /// Changes the file of the certificate, so that a server that watches the file loads it again.
    pub(crate) fn touch(&self, number: u64) -> anyhow::Result<()> {
        let pem = fs::read_to_string(&self.path)?;
        let certificate: String =
            pem.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        // Text outside of the PEM block is ignored. The file is replaced at once, as administrators should do.
        let next = format!("{}.next", self.path);
        fs::write(&next, format!("# {number}\n{certificate}"))?;
        Ok(fs::rename(next, &self.path)?)
    }

    /// Returns the arguments of a bare transport with this certificate.
    pub(crate) fn bare_arguments(&self) -> [&str; 4] {
        ["--cert", &self.path, "--key", &self.key_path]
    }

    /// Returns the arguments of a daemon with this certificate.
    pub(crate) fn arguments(&self) -> [&str; 4] {
        ["--tls-cert", &self.path, "--tls-key", &self.key_path]
    }
}

/// Returns the path for the store of another daemon. The daemon's witness is next to the store.
pub(crate) fn store(dir: &Path, name: &str) -> PathBuf {
    dir.join(name).join("store")
}

/// Creates a token for leases and packed identifiers of all sources, through the Unix socket in the daemon's store
/// directory, and returns the token's secret. The daemon's `--caller-limits` apply where `limits` sets no limit.
pub(crate) async fn token(store: &Path, name: &str, limits: CallerLimits) -> anyhow::Result<String> {
    let client = Client::new(format!("unix:{}", store.join("kent.sock").display()))?;
    let request = CreateTokenRequest {
        name: name.to_owned(),
        permissions: ["lease:*", "allocate:*"].map(str::to_owned).into(),
        limits: Some(limits),
        ..CreateTokenRequest::default()
    };
    Ok(client.connect().await?.access().create_token(request).await?.into_inner().secret)
}
