//! Settings for TLS on all ports.

use std::path::PathBuf;

use kent_transport::tls::TlsFiles;
use serde::{Deserialize, Serialize};

use super::error::ConfigError;

/// The settings for TLS.
#[derive(Clone, Debug, Default, Deserialize, Serialize, clap::Args)]
#[serde(rename_all = "kebab-case")]
#[command(next_help_heading = "TLS")]
pub struct TlsSettings {
    /// PEM file with the certificate of all ports, followed by those of intermediate CAs; turns TLS on. The daemon
    /// rereads its TLS files when they change.
    #[arg(long, env = "KENT_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// PEM file with the private key of --tls-cert.
    #[arg(long, env = "KENT_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// PEM file with the CAs of callers. Every caller of the gRPC port, the Redis port and the HTTP API then needs a
    /// certificate signed by one of these CAs.
    #[arg(long, env = "KENT_TLS_CLIENT_CA", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,

    /// PEM file with the revocation lists of the CAs of --tls-client-ca. Once the next update of a list has passed, the
    /// daemon rejects all callers with certificates of its CA.
    #[arg(long, env = "KENT_TLS_CRL", value_name = "FILE")]
    pub tls_crl: Option<PathBuf>,
}

impl TlsSettings {
    /// Merges two sets of settings: a value in `self` overrides the one in `below`.
    pub(super) fn over(self, below: Self) -> Self {
        Self {
            tls_cert: self.tls_cert.or(below.tls_cert),
            tls_key: self.tls_key.or(below.tls_key),
            tls_client_ca: self.tls_client_ca.or(below.tls_client_ca),
            tls_crl: self.tls_crl.or(below.tls_crl),
        }
    }

    /// Returns the files of the certificates, if TLS is on, and checks that they can be used.
    pub(super) fn files(&self) -> Result<Option<TlsFiles>, ConfigError> {
        let needs = |setting, needed| Err(ConfigError::Needs { setting, needed });
        let (cert, key) = match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => (cert.clone(), key.clone()),
            (Some(_), None) => return needs("tls-cert", "tls-key"),
            (None, Some(_)) => return needs("tls-key", "tls-cert"),
            (None, None) if self.tls_client_ca.is_some() => return needs("tls-client-ca", "tls-cert and tls-key"),
            (None, None) if self.tls_crl.is_some() => return needs("tls-crl", "tls-client-ca"),
            (None, None) => return Ok(None),
        };
        if self.tls_crl.is_some() && self.tls_client_ca.is_none() {
            return needs("tls-crl", "tls-client-ca");
        }
        let files = TlsFiles { cert, key, client_ca: self.tls_client_ca.clone(), crl: self.tls_crl.clone() };
        files.check()?;
        Ok(Some(files))
    }
}
