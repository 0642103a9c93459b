//! Errors from reading and checking the settings.

use std::{net::SocketAddr, path::PathBuf};

use kent_tls::{CertificateError, Unfit};
use kent_transport::tls::TlsError;
use thiserror::Error;

/// Why the settings are rejected.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The settings file cannot be read.
    #[error("the configuration file {} cannot be read", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The settings file is not valid TOML, names an unknown setting, or has a value of the wrong type.
    #[error("{}:{line}:{column}: {problem} (`kentd --help` lists the settings)", path.display())]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The number of the character in the line, from 1.
        column: usize,
        /// The problem.
        problem: String,
    },
    /// A value is out of range.
    #[error("{setting} is {value}, but must be {allowed}")]
    OutOfRange {
        /// The setting's name.
        setting: String,
        /// Its value.
        value: String,
        /// The allowed values.
        allowed: String,
    },
    /// The value of an environment variable is out of range.
    #[error("{error}; the value comes from the variable {variable}")]
    Variable {
        /// The variable.
        variable: String,
        /// What is wrong with the value.
        error: Box<ConfigError>,
    },
    /// A setting needs another one, or conflicts with it.
    #[error("{setting} needs {needed}")]
    Needs {
        /// The setting.
        setting: &'static str,
        /// The requirement.
        needed: &'static str,
    },
    /// A file that a setting names cannot be read.
    #[error("the file {} of {setting} cannot be read", path.display())]
    File {
        /// The setting.
        setting: &'static str,
        /// Its value.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The certificates for etcd cannot be used.
    #[error("the certificates for etcd (store-ca, store-cert and store-key) cannot be used")]
    EtcdTls(#[source] CertificateError),
    /// The certificates for the collector of traces cannot be used.
    #[error("the collector of traces cannot be verified (otlp-ca)")]
    CollectorTls(#[source] CertificateError),
    /// A file for etcd does not have the required contents.
    #[error("{setting} needs a PEM file with {needed}")]
    EtcdPem {
        /// The setting.
        setting: &'static str,
        /// The required contents.
        needed: &'static str,
        /// The contents found.
        source: Unfit,
    },
    /// Two ports have the same address.
    #[error(
        "{} and {} are both {address}: give two ports, such as --listen 127.0.0.1:7600 --http 127.0.0.1:7601 --redis 127.0.0.1:6379",
        settings[0], settings[1]
    )]
    SamePort {
        /// The settings of the ports.
        settings: [&'static str; 2],
        /// The address.
        address: SocketAddr,
    },
    /// The address is not a loopback address, and the daemon neither uses TLS nor authenticates callers.
    #[error(
        "{setting} is {address}, which other machines can reach, but this daemon has no TLS and does not authenticate callers; use a \
         loopback address, set --tls-cert and --tls-key or --auth required, or add --insecure to allow it"
    )]
    Exposed {
        /// The setting's name.
        setting: &'static str,
        /// Its value.
        address: SocketAddr,
    },
}
