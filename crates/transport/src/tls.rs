//! The certificates of the ports. They are read as one configuration, and read again when their files change.
//!
//! Sessions are not resumed. rustls does not look at the caller's certificate again when a session is resumed, so a
//! certificate that has expired or was revoked in the meantime would still be accepted. gRPC connections are
//! long-lived, so full handshakes cost little.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak},
    time::Duration,
};

use kent_engine::{causes::chain, host::clock::Clock};
use kent_ids::UnixNanos;
use kent_tls::Unfit;
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::{
    select,
    signal::unix::{SignalKind, signal},
    time,
};
use tokio_rustls::rustls::{
    self, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, UnixTime},
    server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::CertifiedKey,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use x509_cert::{
    Version,
    der::Decode,
    ext::pkix::{BasicConstraints, SubjectAltName},
};

use super::{
    expiry::{CertificateMetrics, Expiry},
    peer::Certificate,
    revocation,
};

/// The files of the certificates, in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The daemon's certificate, followed by the certificates of intermediate CAs.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The CAs that sign the certificates of callers. If this is set, every caller of the gRPC port and of the
    /// Redis port needs a certificate.
    pub client_ca: Option<PathBuf>,
    /// The certificates that these CAs have revoked.
    pub crl: Option<PathBuf>,
}

/// Why the certificates cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("the file {} of {setting} cannot be read", path.display())]
    File {
        /// The setting.
        setting: &'static str,
        /// Its value.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A file does not contain what its setting needs.
    #[error("{setting} needs a PEM file with {needed}")]
    Pem {
        /// The setting.
        setting: &'static str,
        /// What the file should contain.
        needed: &'static str,
        /// What is wrong with the file's contents.
        source: Unfit,
    },
    /// The certificate and the key do not belong together, or rustls does not support them.
    #[error("the certificate {} (tls-cert) cannot be used with the key {} (tls-key)", cert.display(), key.display())]
    Pair {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The problem.
        source: rustls::Error,
    },
    /// A CA's certificate cannot be used.
    #[error("the certificate of a CA in {} (tls-client-ca) cannot be used", path.display())]
    Ca {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A certificate in the CA file is not a CA certificate.
    #[error(
        "tls-client-ca needs a PEM file with the certificates of CAs: {} holds the certificate of {subject:?}, which is not a CA; \
         give the certificate of the CA that signed it", path.display()
    )]
    NotACa {
        /// The file.
        path: PathBuf,
        /// The subject of the certificate.
        subject: String,
    },
    /// A list of revoked certificates has a version that rustls cannot read.
    #[error(
        "the list of revoked certificates {} (tls-crl) has version 1, but version 2 is needed: `openssl ca -gencrl` writes it with the \
         option -crlexts SECTION", path.display()
    )]
    OldList {
        /// The file.
        path: PathBuf,
    },
    /// The key belongs to another certificate of the file.
    #[error(
        "the key {} (tls-key) matches certificate {number} of {} (tls-cert), but must match the first one: put the daemon's \
         certificate before those of CAs", key.display(), cert.display()
    )]
    Order {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The place of the certificate in its file, from 1.
        number: usize,
    },
    /// The CAs or the revocation list cannot be used.
    #[error("the CAs of tls-client-ca and the revoked certificates of tls-crl cannot be used")]
    Verifier(#[from] VerifierBuilderError),
    /// The TLS protocol versions are not supported.
    #[error("TLS cannot be set up")]
    Setup(#[from] rustls::Error),
}

/// The interval at which the files are compared with the configuration in use.
pub const POLL: Duration = Duration::from_secs(1);

/// The certificates in use, and the connected callers that have certificates.
#[derive(Clone, Debug)]
pub struct Tls {
    files: TlsFiles,
    current: Arc<RwLock<Arc<Loaded>>>,
    callers: Arc<Mutex<Vec<Caller>>>,
    metrics: CertificateMetrics,
}

/// The contents of the files, and the configurations built from them.
#[derive(Debug)]
struct Loaded {
    contents: Contents,
    /// For the gRPC port, on which callers need a certificate if there is a CA for them.
    grpc: Arc<ServerConfig>,
    /// For the HTTP port, whose probes have no certificates.
    http: Arc<ServerConfig>,
    /// For the Redis port, which asks for certificates like the gRPC port.
    redis: Arc<ServerConfig>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    expiry: Expiry,
    /// What is wrong with files that can be used.
    flaws: Vec<String>,
}

#[derive(PartialEq, Eq)]
struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
    crl: Option<Vec<u8>>,
}

/// A connected caller with a certificate.
#[derive(Debug)]
struct Caller {
    chain: Vec<CertificateDer<'static>>,
    /// Canceled when the certificate is no longer accepted; dropped with the connection.
    revoked: Weak<CancellationToken>,
}

impl TlsFiles {
    /// Checks that the files can be used.
    ///
    /// # Errors
    ///
    /// [`TlsError`].
    pub fn check(&self) -> Result<(), TlsError> {
        Loaded::new(self, self.read()?).map(|_| ())
    }

    /// Returns a warning for each file that has expired at `now`, and for each file that has less effect than it seems.
    ///
    /// # Errors
    ///
    /// [`TlsError`].
    pub fn warnings(&self, now: UnixNanos) -> Result<Vec<String>, TlsError> {
        let Loaded { expiry, flaws, .. } = Loaded::new(self, self.read()?)?;
        let warning = |(setting, file): (_, &Path)| {
            format!("the file {} of {setting} has expired, so TLS connections may fail; replace it", file.display())
        };
        Ok(expiry.expired(now).map(warning).chain(flaws).collect())
    }

    fn read(&self) -> Result<Contents, TlsError> {
        let read = |setting, path: &PathBuf| {
            fs::read(path).map_err(|source| TlsError::File { setting, path: path.clone(), source })
        };
        Ok(Contents {
            cert: read("tls-cert", &self.cert)?,
            key: read("tls-key", &self.key)?,
            client_ca: self.client_ca.as_ref().map(|path| read("tls-client-ca", path)).transpose()?,
            crl: self.crl.as_ref().map(|path| read("tls-crl", path)).transpose()?,
        })
    }
}

impl Loaded {
    fn new(files: &TlsFiles, contents: Contents) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let (verifier, mut flaws) = match (&files.client_ca, &contents.client_ca) {
            (Some(path), Some(pem)) => {
                let crl = files.crl.as_ref().zip(contents.crl.as_deref());
                let (verifiers, flaws) = verifiers(path, pem, crl, &provider)?;
                (Some(verifiers), flaws)
            }
            _ => (None, Vec::new()),
        };
        let (required, optional) = verifier.unzip();
        flaws.extend(nameless(files, &contents));
        Ok(Self {
            grpc: Arc::new(config(files, &contents, &provider, required.clone(), &[b"h2"])?),
            http: Arc::new(config(files, &contents, &provider, optional, &[b"http/1.1"])?),
            redis: Arc::new(config(files, &contents, &provider, required.clone(), &[])?),
            verifier: required,
            expiry: Expiry::of(
                (&files.cert, &contents.cert),
                files.client_ca.as_deref().zip(contents.client_ca.as_deref()),
                files.crl.as_deref().zip(contents.crl.as_deref()),
            ),
            flaws,
            contents,
        })
    }

    /// Logs which files have expired at `now`, and which have less effect than they seem.
    fn warn(&self, now: UnixNanos) {
        self.expiry.warn(now);
        for flaw in &self.flaws {
            warn!("{flaw}");
        }
    }
}

/// The verifiers of the gRPC port, which requires client certificates, and of the HTTP port, which does not.
type Verifiers = (Arc<dyn ClientCertVerifier>, Arc<dyn ClientCertVerifier>);

/// Returns the verifiers, and a warning for each revocation list that was not issued by one of the CAs.
fn verifiers(
    path: &Path,
    cas: &[u8],
    crl: Option<(&PathBuf, &[u8])>,
    provider: &Arc<CryptoProvider>,
) -> Result<(Verifiers, Vec<String>), TlsError> {
    let mut roots = RootCertStore::empty();
    let unfit = |source| TlsError::Pem { setting: "tls-client-ca", needed: "the certificates of CAs", source };
    let cas = kent_tls::certificates(cas, path.display()).map_err(unfit)?;
    for ca in &cas {
        roots.add(ca.clone()).map_err(|error| TlsError::Ca { path: path.to_owned(), source: error.into() })?;
        check_ca(path, ca)?;
    }
    let crls = match crl {
        Some((path, pem)) => {
            let unfit = |source| TlsError::Pem { setting: "tls-crl", needed: "lists of revoked certificates", source };
            let lists = kent_tls::revoked(pem, path.display()).map_err(unfit)?;
            match revocation::has_old(&lists) {
                true => return Err(TlsError::OldList { path: path.clone() }),
                false => lists,
            }
        }
        None => Vec::new(),
    };
    let flaw = |issuer| {
        format!(
            "a list of revoked certificates (tls-crl) was issued by {issuer}, which is not one of the CAs of tls-client-ca, so it revokes no \
             certificate that they signed"
        )
    };
    let flaws = revocation::strangers(&cas, &crls).map(flaw).collect();
    let builder = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    // A CA without a list counts as having revoked nothing.
    let builder = builder.with_crls(crls).allow_unknown_revocation_status().enforce_revocation_expiration();
    Ok(((builder.clone().build()?, builder.allow_unauthenticated().build()?), flaws))
}

/// Rejects a certificate that is not a CA certificate, such as a caller's. rustls does not check the certificates that
/// it trusts, so such a caller could sign certificates with the names of others.
fn check_ca(path: &Path, ca: &CertificateDer<'_>) -> Result<(), TlsError> {
    let unreadable = |error: x509_cert::der::Error| TlsError::Ca { path: path.to_owned(), source: error.into() };
    let ca = x509_cert::Certificate::from_der(ca).map_err(unreadable)?;
    let ca = ca.tbs_certificate();
    let constraints = ca.get_extension::<BasicConstraints>().map_err(unreadable)?;
    // Certificates of version 1 do not say whether they are CA certificates.
    if ca.version() == Version::V1 || constraints.is_some_and(|(_, constraints)| constraints.ca) {
        return Ok(());
    }
    Err(TlsError::NotACa { path: path.to_owned(), subject: ca.subject().to_string() })
}

fn config(
    files: &TlsFiles,
    contents: &Contents,
    provider: &Arc<CryptoProvider>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    protocols: &[&[u8]],
) -> Result<ServerConfig, TlsError> {
    let chain = kent_tls::certificates(&contents.cert, files.cert.display()).map_err(|source| TlsError::Pem {
        setting: "tls-cert",
        needed: "a certificate",
        source,
    })?;
    let key = kent_tls::private_key(&contents.key, files.key.display()).map_err(|source| TlsError::Pem {
        setting: "tls-key",
        needed: "a private key",
        source,
    })?;
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let unfit = |source| {
        let (cert, key) = (files.cert.clone(), files.key.clone());
        match matching(&chain, contents, provider) {
            Some(at @ 1..) => TlsError::Order { cert, key, number: at.saturating_add(1) },
            _ => TlsError::Pair { cert, key, source },
        }
    };
    let mut config = builder.with_single_cert(chain.clone(), key).map_err(unfit)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Returns a warning if the daemon's certificate names no host.
fn nameless(files: &TlsFiles, contents: &Contents) -> Option<String> {
    let chain = kent_tls::certificates(&contents.cert, "").ok()?;
    let certificate = x509_cert::Certificate::from_der(chain.first()?).ok()?;
    let has_names = !matches!(certificate.tbs_certificate().get_extension::<SubjectAltName>(), Ok(None));
    (!has_names).then(|| {
        format!(
            "the certificate {} (tls-cert) has no subject alternative names, so clients accept it for no host: a common name does not count",
            files.cert.display()
        )
    })
}

/// Returns the index of the certificate that belongs to the key.
fn matching(chain: &[CertificateDer<'static>], contents: &Contents, provider: &CryptoProvider) -> Option<usize> {
    let matches = |certificate: &CertificateDer<'static>| {
        let key = kent_tls::private_key(&contents.key, "").ok()?;
        let key = provider.key_provider.load_private_key(key).ok()?;
        CertifiedKey::new(vec![certificate.clone()], key).keys_match().ok()
    };
    chain.iter().position(|certificate| matches(certificate).is_some())
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// [`TlsError`].
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let (loaded, metrics) = (Loaded::new(&files, files.read()?)?, CertificateMetrics::default());
        metrics.set(&loaded.expiry);
        Ok(Self { files, current: Arc::new(RwLock::new(Arc::new(loaded))), callers: Arc::default(), metrics })
    }

    /// The configuration for the next connection of the gRPC port.
    pub(crate) fn grpc(&self) -> Arc<ServerConfig> {
        self.current().grpc.clone()
    }

    /// The configuration for the next connection of the HTTP port.
    pub(crate) fn http(&self) -> Arc<ServerConfig> {
        self.current().http.clone()
    }

    /// The configuration for the next connection of the Redis port.
    pub(crate) fn redis(&self) -> Arc<ServerConfig> {
        self.current().redis.clone()
    }

    /// Registers the metrics of the certificates.
    pub fn register_metrics(&self, kent: &mut Registry) {
        self.metrics.register(kent);
    }

    /// The settings and files in use, and when each expires, as a time since 1970.
    pub fn ends(&self) -> Vec<(&'static str, PathBuf, Duration)> {
        self.current().expiry.ends().map(|(setting, path, end)| (setting, path.to_owned(), end)).collect()
    }

    fn current(&self) -> Arc<Loaded> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Registers a caller whose handshake used `config`. The token is canceled when the caller's certificate is no
    /// longer accepted.
    pub(crate) fn register(
        &self,
        config: &Arc<ServerConfig>,
        chain: &[CertificateDer<'_>],
        clock: &dyn Clock,
    ) -> Arc<CancellationToken> {
        let token = Arc::new(CancellationToken::new());
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        self.callers().push(Caller { chain, revoked: Arc::downgrade(&token) });
        let current = self.current();
        if ![&current.grpc, &current.http, &current.redis].iter().any(|known| Arc::ptr_eq(config, known)) {
            // The files changed during the handshake, and the check after that change may have missed this caller.
            self.end_rejected(clock.wall());
        }
        token
    }

    fn callers(&self) -> MutexGuard<'_, Vec<Caller>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the files again when they change, and on SIGHUP, until `stop` is canceled. If the files cannot be used,
    /// nothing changes.
    pub async fn follow_files(self, clock: Arc<dyn Clock>, stop: CancellationToken) {
        let mut hangup = signal(SignalKind::hangup()).ok();
        let mut rejected = None;
        self.current().warn(clock.wall());
        loop {
            let hung_up = async {
                match &mut hangup {
                    Some(hangup) => hangup.recv().await,
                    None => std::future::pending().await,
                }
            };
            let by_signal = select! {
                () = stop.cancelled() => return,
                _ = hung_up => true,
                () = time::sleep(POLL) => false,
            };
            self.reload(&*clock, &mut rejected, by_signal);
        }
    }

    /// Uses the files if they have changed. `rejected` is the problem that was logged last, so that each problem is
    /// logged only once.
    fn reload(&self, clock: &dyn Clock, rejected: &mut Option<String>, by_signal: bool) {
        let loaded = match self.files.read() {
            Ok(contents) if contents == self.current().contents => {
                *rejected = None;
                if by_signal {
                    info!("the certificates have not changed");
                }
                self.forget_gone();
                return;
            }
            Ok(contents) => Loaded::new(&self.files, contents),
            Err(error) => Err(error),
        };
        match loaded {
            Ok(loaded) => {
                *rejected = None;
                self.metrics.set(&loaded.expiry);
                loaded.warn(clock.wall());
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
                let ended = self.end_rejected(clock.wall());
                info!(cert = %self.files.cert.display(), ended, "the certificates have changed and are in use");
            }
            Err(error) => {
                let problem = chain(&error);
                if by_signal || rejected.as_ref() != Some(&problem) {
                    warn!(problem, "the certificates have changed but cannot be used; the previous ones stay in use");
                }
                *rejected = Some(problem);
            }
        }
    }

    /// Ends the connections of callers whose certificates are no longer accepted, and returns their number.
    fn end_rejected(&self, now: UnixNanos) -> usize {
        let now = UnixTime::since_unix_epoch(since_epoch(now));
        let mut callers = self.callers();
        // Read under the lock, so that the last of several checks uses the newest configuration.
        let loaded = self.current();
        let Some(verifier) = &loaded.verifier else { return 0 };
        let is_accepted = |caller: &mut Caller| {
            let [certificate, intermediates @ ..] = &*caller.chain else { return false };
            verifier.verify_client_cert(certificate, intermediates, now).is_ok()
        };
        let rejected = callers.extract_if(.., |caller| !is_accepted(caller));
        rejected.filter_map(|caller| caller.revoked.upgrade()).inspect(|token| token.cancel()).count()
    }

    /// Forgets callers whose connections are closed.
    fn forget_gone(&self) {
        self.callers().retain(|caller| caller.revoked.strong_count() > 0);
    }
}

/// The time left until a certificate expires. A certificate is valid until the end of the second that `not_after`
/// names.
pub(crate) fn time_left(certificate: &Certificate, clock: &dyn Clock) -> Duration {
    certificate.not_after.saturating_add(Duration::from_secs(1)).saturating_sub(since_epoch(clock.wall()))
}

fn since_epoch(now: UnixNanos) -> Duration {
    Duration::from_nanos(u64::try_from(now.get()).unwrap_or(0))
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Contents")
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::OnceLock,
        thread::{self, JoinHandle},
    };

    use kent_engine::host::clock::SystemClock;
    use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair};
    use tempfile::TempDir;
    use tokio_rustls::rustls::{
        DigitallySignedStruct, Error, SignatureScheme, client::danger::HandshakeSignatureValid,
        server::danger::ClientCertVerified,
    };

    use super::*;

    /// The daemon's certificates, without a CA for callers.
    fn opened() -> (TempDir, Tls) {
        let dir = tempfile::tempdir().expect("a directory");
        let signed = rcgen::generate_simple_self_signed(vec!["kent".to_owned()]).expect("signed");
        let (cert, key) = (dir.path().join("cert"), dir.path().join("key"));
        fs::write(&cert, signed.cert.pem()).expect("written");
        fs::write(&key, signed.signing_key.serialize_pem()).expect("written");
        (dir, Tls::open(TlsFiles { cert, key, client_ca: None, crl: None }).expect("valid"))
    }

    /// Replaces the verifier of callers' certificates, as a new revocation list does.
    fn exchange(tls: &Tls, verifier: Arc<dyn ClientCertVerifier>) {
        let contents = tls.files.read().expect("read");
        let loaded = Loaded { verifier: Some(verifier), ..Loaded::new(&tls.files, contents).expect("valid") };
        *tls.current.write().expect("not poisoned") = Arc::new(loaded);
    }

    /// A verifier with an older or a newer revocation list.
    #[derive(Debug)]
    enum Verifier {
        /// Accepts all certificates. During its first check, a newer list revokes all certificates, which causes a
        /// second check.
        Older { tls: Tls, second: OnceLock<Option<JoinHandle<usize>>> },
        /// Accepts no certificate.
        Newer,
    }

    fn begin_second_check(tls: &Tls) -> Option<JoinHandle<usize>> {
        exchange(tls, Arc::new(Verifier::Newer));
        let own = tls.clone();
        let check = move || own.end_rejected(SystemClock::new().wall());
        match tls.callers.try_lock() {
            // The first check does not hold the lock, so the second check can end during the first one.
            Ok(unlocked) => {
                drop(unlocked);
                check();
                None
            }
            Err(_) => Some(thread::spawn(check)),
        }
    }

    #[test]
    fn err_the_certificate_of_a_caller_is_not_that_of_a_ca() {
        let (dir, tls) = opened();
        for (is_ca, expected) in [
            (IsCa::Ca(BasicConstraints::Unconstrained), None),
            (IsCa::NoCa, Some("which is not a CA")),
            (IsCa::ExplicitNoCa, Some("holds the certificate of \"CN=ann\", which is not a CA; give the")),
        ] {
            let mut params = CertificateParams::default();
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, "ann");
            params.is_ca = is_ca;
            let signed = params.self_signed(&KeyPair::generate().expect("a key")).expect("signed");
            let ca = dir.path().join("ca");
            fs::write(&ca, signed.pem()).expect("written");
            let files = TlsFiles { client_ca: Some(ca), ..tls.files.clone() };
            let error = files.check().err().map(|error| error.to_string());
            assert_eq!(error.is_some(), expected.is_some(), "{error:?}");
            assert!(error.unwrap_or_default().contains(expected.unwrap_or_default()), "{expected:?}");
        }
    }

    #[test]
    fn ok_an_expired_file_is_named() {
        let (_dir, tls) = opened();
        let expired = |now| tls.files.warnings(UnixNanos::new(now)).expect("valid");
        assert_eq!(expired(SystemClock::new().wall().get()), Vec::<String>::new());
        let expected = format!("the file {} of tls-cert has expired, so TLS", tls.files.cert.display());
        assert!(matches!(&*expired(i128::MAX), [warning] if warning.starts_with(&expected)), "{expected}");
    }

    #[test]
    fn ok_a_check_with_an_older_list_saves_no_caller_that_the_newer_one_revokes() {
        let (_dir, tls) = opened();
        let first = Arc::new(Verifier::Older { tls: tls.clone(), second: OnceLock::new() });
        exchange(&tls, first.clone());
        let config = tls.grpc();
        let caller = tls.register(&config, &[CertificateDer::from_slice(b"caller")], &SystemClock::new());
        tls.end_rejected(SystemClock::new().wall());
        drop(config);
        let Some(Verifier::Older { second, .. }) = Arc::into_inner(first) else { panic!("still in use") };
        if let Some(second) = second.into_inner().expect("the first check has begun") {
            second.join().expect("no panic");
        }
        assert!(caller.is_cancelled());
    }

    impl ClientCertVerifier for Verifier {
        fn root_hint_subjects(&self) -> &[rustls::DistinguishedName] {
            &[]
        }

        fn verify_client_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: UnixTime,
        ) -> Result<ClientCertVerified, Error> {
            match self {
                Self::Older { tls, second } => {
                    second.get_or_init(|| begin_second_check(tls));
                    Ok(ClientCertVerified::assertion())
                }
                Self::Newer => Err(Error::DecryptError),
            }
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::DecryptError)
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::DecryptError)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            Vec::new()
        }
    }
}
