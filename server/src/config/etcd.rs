//! Settings for etcd: TLS certificates and credentials.

use std::{
    fs,
    path::{Path, PathBuf},
};

use kent_store::{EtcdAddress, EtcdCredentials, EtcdPassword};
use kent_tls::{Certificates, Needed, Pem, Pems};
use serde::{Deserialize, Serialize};

use super::error::ConfigError;

/// The settings for etcd.
#[derive(Clone, Debug, Default, Deserialize, Serialize, clap::Args)]
#[serde(rename_all = "kebab-case")]
#[command(next_help_heading = "etcd")]
pub struct EtcdSettings {
    /// PEM file with the CA certificates that verify etcd; required for `etcds://`. The daemon rereads this file,
    /// --store-cert and --store-key when they change.
    #[arg(long, env = "KENT_STORE_CA", value_name = "FILE")]
    pub store_ca: Option<PathBuf>,

    /// PEM file with the client certificate, if etcd requires one.
    #[arg(long, env = "KENT_STORE_CERT", value_name = "FILE")]
    pub store_cert: Option<PathBuf>,

    /// PEM file with the private key of --store-cert.
    #[arg(long, env = "KENT_STORE_KEY", value_name = "FILE")]
    pub store_key: Option<PathBuf>,

    /// User name for etcd, if etcd requires authentication.
    #[arg(long, env = "KENT_STORE_USER", value_name = "NAME")]
    pub store_user: Option<String>,

    /// File with the password of --store-user.
    #[arg(long, env = "KENT_STORE_PASSWORD_FILE", value_name = "FILE")]
    pub store_password_file: Option<PathBuf>,
}

impl EtcdSettings {
    /// Merges two sets of settings: a value in `self` overrides the one in `below`.
    pub(super) fn over(self, below: Self) -> Self {
        Self {
            store_ca: self.store_ca.or(below.store_ca),
            store_cert: self.store_cert.or(below.store_cert),
            store_key: self.store_key.or(below.store_key),
            store_user: self.store_user.or(below.store_user),
            store_password_file: self.store_password_file.or(below.store_password_file),
        }
    }

    /// Reads the files that the settings name for the etcd cluster at `address`.
    pub(crate) fn read(
        &self,
        address: &EtcdAddress,
    ) -> Result<(Option<Certificates>, Option<EtcdCredentials>), ConfigError> {
        let tls = match (&self.store_ca, address.is_tls()) {
            (Some(ca), true) => {
                let pems = Pems { ca: Some(Pem::File(ca.clone())), identity: self.identity()? };
                self.check_files()?;
                Some(Certificates::open(pems).map_err(ConfigError::EtcdTls)?)
            }
            (None, true) => return Err(ConfigError::Needs { setting: "a store at etcds://", needed: "store-ca" }),
            (Some(_), false) => {
                let needed = "a store at etcds:// (--store etcds://HOST:PORT/PREFIX)";
                return Err(ConfigError::Needs { setting: "store-ca", needed });
            }
            (None, false) => None,
        };
        Ok((tls, self.credentials()?))
    }

    /// Rejects these settings if the store is not on etcd.
    pub(super) fn check_unused(&self) -> Result<(), ConfigError> {
        let settings = [
            ("store-ca", self.store_ca.is_some()),
            ("store-cert", self.store_cert.is_some()),
            ("store-key", self.store_key.is_some()),
            ("store-user", self.store_user.is_some()),
            ("store-password-file", self.store_password_file.is_some()),
        ];
        match settings.iter().find(|(_, is_set)| *is_set) {
            Some((setting, _)) => {
                Err(ConfigError::Needs { setting, needed: "a store in etcd (--store etcd://HOST:PORT/PREFIX)" })
            }
            None => Ok(()),
        }
    }

    /// Checks each file separately, so that an error names its setting.
    fn check_files(&self) -> Result<(), ConfigError> {
        for (setting, path, needed, content) in [
            ("store-ca", &self.store_ca, "the certificates of CAs", Needed::Certificate),
            ("store-cert", &self.store_cert, "a certificate", Needed::Certificate),
            ("store-key", &self.store_key, "a private key", Needed::Key),
        ] {
            let Some(path) = path else { continue };
            let unfit = |source| ConfigError::EtcdPem { setting, needed, source };
            content.check(&file(setting, path)?, path.display()).map_err(unfit)?;
        }
        Ok(())
    }

    fn identity(&self) -> Result<Option<(Pem, Pem)>, ConfigError> {
        match (&self.store_cert, &self.store_key) {
            (Some(certificate), Some(key)) => Ok(Some((Pem::File(certificate.clone()), Pem::File(key.clone())))),
            (None, None) => Ok(None),
            _ => Err(ConfigError::Needs { setting: "store-cert", needed: "store-key, and store-key needs store-cert" }),
        }
    }

    fn credentials(&self) -> Result<Option<EtcdCredentials>, ConfigError> {
        match (&self.store_user, &self.store_password_file) {
            (Some(user), Some(path)) => {
                // Read the file now as well, so that the daemon does not start if the file is missing.
                if file("store-password-file", path)?.trim_ascii().is_empty() {
                    return Err(ConfigError::OutOfRange {
                        setting: "store-password-file".to_owned(),
                        value: format!("{}, which is empty", path.display()),
                        allowed: "a file with the password of store-user".to_owned(),
                    });
                }
                Ok(Some(EtcdCredentials { user: user.clone(), password: EtcdPassword::File(path.clone()) }))
            }
            (None, None) => Ok(None),
            _ => {
                let needed = "store-password-file, and store-password-file needs store-user";
                Err(ConfigError::Needs { setting: "store-user", needed })
            }
        }
    }
}

fn file(setting: &'static str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    fs::read(path).map_err(|source| ConfigError::File { setting, path: path.to_owned(), source })
}
