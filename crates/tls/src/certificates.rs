//! Loads and reloads the CAs against which servers are verified, and the client's own certificate.

use std::{
    fmt, fs,
    io::{Error as IoError, ErrorKind},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use thiserror::Error;
use tokio::{task, time};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, crypto::ring};
use tracing::{info, warn};

use crate::contents::{self, Unfit};
use crate::explained::explained;

/// A certificate or a key in PEM.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// The PEM text itself, which never changes.
    Text(Vec<u8>),
    /// A file, which is read again for every connection.
    File(PathBuf),
}

/// The certificates and the key that a client uses for TLS.
#[derive(Clone, Debug, Default)]
pub struct Pems {
    /// The CAs against which servers are verified. The default is the CAs of the system.
    pub ca: Option<Pem>,
    /// The client's certificate and its key, for servers that ask for a certificate.
    pub identity: Option<(Pem, Pem)>,
}

/// Reasons that certificates cannot be used.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}, the file with {role}: {problem}", path.display())]
    File {
        /// What the file should contain.
        role: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: IoError,
    },
    /// A file or text does not contain what is needed.
    #[error("{role}: {problem}")]
    Content {
        /// What the file or text should contain.
        role: &'static str,
        /// The problem.
        problem: Unfit,
    },
    /// The certificate and the key do not match, or are of a kind that rustls does not support.
    #[error("{certificate} cannot be used with {key}: {}", explained(problem))]
    Pair {
        /// The certificate and its file.
        certificate: String,
        /// The key and its file.
        key: String,
        /// The problem.
        problem: rustls::Error,
    },
    /// There is no usable CA, so no server could be verified.
    #[error("{what}: there is no certificate that rustls can use")]
    NoCa {
        /// The CAs and their file.
        what: String,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// The certificates of a client, shared by its connections.
#[derive(Clone, Debug)]
pub struct Certificates(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pems: Pems,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    contents: Contents,
    config: Arc<ClientConfig>,
    /// The last problem with the files, so that each problem is logged once.
    problem: Option<String>,
}

/// The PEM data, as last read.
#[derive(PartialEq, Eq)]
struct Contents {
    ca: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// The name of HTTP/2, the protocol of gRPC, in the TLS handshake (ALPN).
pub(crate) const PROTOCOL: &[u8] = b"h2";

const CA: &str = "the CAs";
const CERTIFICATE: &str = "the certificate";
const KEY: &str = "the key";

impl Pem {
    fn read(&self, role: &'static str) -> Result<Vec<u8>, CertificateError> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => {
                fs::read(path).map_err(|problem| CertificateError::File { role, path: path.clone(), problem })
            }
        }
    }

    /// Returns where the text comes from, for messages.
    fn place(&self) -> String {
        match self {
            Self::Text(_) => "the text".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// Returns the role of the text and its file, for messages.
    fn describe(&self, role: &str) -> String {
        match self {
            Self::Text(_) => role.to_owned(),
            Self::File(path) => format!("{role} in {}", path.display()),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The text may be a private key.
            Self::Text(_) => f.write_str("Text"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl Pems {
    fn read(&self) -> Result<Contents, CertificateError> {
        let identity = match &self.identity {
            Some((certificate, key)) => Some((certificate.read(CERTIFICATE)?, key.read(KEY)?)),
            None => None,
        };
        Ok(Contents { ca: self.ca.as_ref().map(|ca| ca.read(CA)).transpose()?, identity })
    }

    /// Returns the files. There are none if all certificates and keys were given as text.
    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let (certificate, key) = self.identity.as_ref().map(|(certificate, key)| (certificate, key)).unzip();
        [self.ca.as_ref(), certificate, key].into_iter().flatten().filter_map(|pem| match pem {
            Pem::Text(_) => None,
            Pem::File(path) => Some(path),
        })
    }

    fn config(&self, contents: &Contents) -> Result<ClientConfig, CertificateError> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots(contents)?);
        let mut config = match (&self.identity, &contents.identity) {
            (Some((certificate, key)), Some((chain, secret))) => {
                let chain = contents::certificates(chain, certificate.place()).map_err(unfit(CERTIFICATE))?;
                let secret = contents::private_key(secret, key.place()).map_err(unfit(KEY))?;
                builder.with_client_auth_cert(chain, secret).map_err(|problem| CertificateError::Pair {
                    certificate: certificate.describe(CERTIFICATE),
                    key: key.describe(KEY),
                    problem,
                })?
            }
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(config)
    }

    fn roots(&self, contents: &Contents) -> Result<RootCertStore, CertificateError> {
        let cas = match (&self.ca, &contents.ca) {
            (Some(ca), Some(text)) => contents::certificates(text, ca.place()).map_err(unfit(CA))?,
            // OK to ignore errors, because a system CA that cannot be read is not trusted.
            _ => rustls_native_certs::load_native_certs().certs,
        };
        let mut roots = RootCertStore::empty();
        // Skip CAs that rustls rejects, which system CA bundles often contain.
        match roots.add_parsable_certificates(cas) {
            (0, _) => {
                let what = self.ca.as_ref().map_or_else(|| "the CAs of the system".to_owned(), |ca| ca.describe(CA));
                Err(CertificateError::NoCa { what })
            }
            _ => Ok(roots),
        }
    }
}

fn unfit(role: &'static str) -> impl FnOnce(Unfit) -> CertificateError {
    move |problem| CertificateError::Content { role, problem }
}

impl Certificates {
    /// Reads and checks the certificates.
    ///
    /// # Errors
    ///
    /// [`CertificateError`].
    pub fn open(pems: Pems) -> Result<Self, CertificateError> {
        let contents = pems.read()?;
        let config = Arc::new(pems.config(&contents)?);
        let state = Mutex::new(State { contents, config, problem: None });
        Ok(Self(Arc::new(Inner { pems, state })))
    }

    /// Reads the files again, and returns the configuration for the next connection. If the files cannot be used, the
    /// previous configuration stays in use and the reason is logged.
    ///
    /// # Errors
    ///
    /// Fails if the runtime shuts down.
    pub async fn refresh(&self) -> Result<Arc<ClientConfig>, IoError> {
        if self.0.pems.files().next().is_none() {
            return Ok(self.state().config.clone());
        }
        let own = self.clone();
        // Do not block the runtime: the files may be on a disk that hangs.
        task::spawn_blocking(move || own.read_again())
            .await
            .map_err(|error| IoError::new(ErrorKind::Interrupted, error))
    }

    /// Reads the files again at this interval, until the future is dropped. This logs problems before a new connection
    /// needs the files.
    pub async fn follow(&self, interval: Duration) {
        loop {
            time::sleep(interval).await;
            // OK because `refresh` fails only if the runtime shuts down.
            let _ = self.refresh().await;
        }
    }

    fn read_again(&self) -> Arc<ClientConfig> {
        let pems = &self.0.pems;
        let mut state = self.state();
        let read = match pems.read() {
            Ok(contents) if contents == state.contents => {
                state.problem = None;
                return state.config.clone();
            }
            Ok(contents) => pems.config(&contents).map(|config| (contents, config)),
            Err(error) => Err(error),
        };
        let files: Vec<_> = pems.files().collect();
        match read {
            Ok((contents, config)) => {
                *state = State { contents, config: Arc::new(config), problem: None };
                info!(?files, "the certificates have changed; new connections use them");
            }
            Err(error) => {
                let problem = error.to_string();
                if state.problem.as_ref() != Some(&problem) {
                    warn!(problem, "the certificates have changed but cannot be used; the previous ones stay in use");
                }
                state.problem = Some(problem);
            }
        }
        state.config.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contents")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    /// Returns a self-signed certificate and its key.
    fn signed() -> (String, String) {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["a".to_owned()]).expect("signed");
        (cert.pem(), signing_key.serialize_pem())
    }

    fn write(dir: &Path, (certificate, key): &(String, String)) {
        fs::write(dir.join("cert"), certificate).expect("written");
        fs::write(dir.join("key"), key).expect("written");
    }

    fn files(dir: &Path) -> Pems {
        let file = |name| Pem::File(dir.join(name));
        Pems { ca: Some(file("cert")), identity: Some((file("cert"), file("key"))) }
    }

    #[tokio::test]
    async fn ok_files_are_read_again_and_used_if_they_can_be() {
        let dir = tempfile::tempdir().expect("a directory");
        let (old, new) = (signed(), signed());
        write(dir.path(), &old);
        let certificates = Certificates::open(files(dir.path())).expect("valid");
        let first = certificates.refresh().await.expect("read");
        // The new certificate is written before its key.
        write(dir.path(), &(new.0.clone(), old.1.clone()));
        assert!(Arc::ptr_eq(&first, &certificates.refresh().await.expect("read")), "the pair does not match");
        assert!(certificates.state().problem.as_ref().is_some_and(|problem| problem.contains("cannot be used with")));
        fs::remove_file(dir.path().join("key")).expect("removed");
        assert!(Arc::ptr_eq(&first, &certificates.refresh().await.expect("read")), "the key is gone");
        write(dir.path(), &new);
        let second = certificates.refresh().await.expect("read");
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&second, &certificates.refresh().await.expect("read")), "nothing has changed");
        assert_eq!(certificates.state().problem, None);
    }

    #[test]
    fn err_certificates_that_cannot_be_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let text = |text: &str| Pem::Text(text.as_bytes().to_vec());
        let ((certificate, key), (other, _)) = (signed(), signed());
        write(dir.path(), &(other.clone(), key.clone()));
        let shown = dir.path().display();
        let pair = |certificate: &str, key: &str| Some((text(certificate), text(key)));
        let absent = Some(Pem::File(dir.path().join("absent")));
        for (pems, expected) in [
            (Pems { ca: Some(text("CA")), identity: None }, "the CAs: the text is not in PEM".to_owned()),
            (
                Pems { ca: absent, identity: None },
                format!("cannot read {shown}/absent, the file with the CAs: No such file"),
            ),
            (Pems { ca: None, identity: pair("a", &key) }, "the certificate: the text is not in PEM".to_owned()),
            (Pems { ca: None, identity: pair(&certificate, "a") }, "the key: the text is not in PEM".to_owned()),
            (
                Pems { ca: None, identity: pair(&other, &key) },
                "the certificate cannot be used with the key: ".to_owned(),
            ),
            (
                files(dir.path()),
                format!("the certificate in {shown}/cert cannot be used with the key in {shown}/key: "),
            ),
        ] {
            let ca = pems.ca.or_else(|| Some(text(&certificate)));
            let error = Certificates::open(Pems { ca, ..pems }).expect_err("refused").to_string();
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
