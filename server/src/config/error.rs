//! Why settings cannot be used.

use std::{net::SocketAddr, path::PathBuf};

use thiserror::Error;

/// A setting that cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration file {} cannot be read", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("the configuration file {} is wrong", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A value is outside its range.
    #[error("{setting} is {value}, but must be {allowed}")]
    OutOfRange {
        /// The setting's name.
        setting: String,
        /// What it was set to.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// Settings that need each other.
    #[error("{setting} needs {needed}")]
    Needs {
        /// The setting.
        setting: &'static str,
        /// What it needs.
        needed: &'static str,
    },
    /// A file that a setting names cannot be read.
    #[error("the file {} of {setting} cannot be read", path.display())]
    File {
        /// The setting.
        setting: &'static str,
        /// Its value.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Without TLS and authentication the daemon is for this machine only.
    #[error(
        "{setting} is {address}, which other machines can reach, and this daemon has neither TLS nor authentication; use a \
         loopback address, or say --insecure if that is meant"
    )]
    Exposed {
        /// The setting's name.
        setting: &'static str,
        /// What it was set to.
        address: SocketAddr,
    },
}
