//! The daemon and the bare transport over TLS, with a certificate for the measurement.

use std::{fs, sync::Arc};

use kent_tls::{Certificates, Pem, Pems};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio_rustls::rustls::ClientConfig;

use crate::{arena::Arena, process::Served};

/// The servers over TLS, and how a caller trusts them.
pub(crate) struct Secure {
    pub(crate) bare: Served,
    pub(crate) daemon: Served,
    pub(crate) config: Arc<ClientConfig>,
}

impl Secure {
    pub(crate) fn start(arena: &Arena) -> anyhow::Result<Self> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
        let (path, key_path) = (arena.data().join("cert.pem"), arena.data().join("key.pem"));
        fs::write(&path, cert.pem())?;
        fs::write(&key_path, signing_key.serialize_pem())?;
        let (path, key_path) = (path.display().to_string(), key_path.display().to_string());
        let pems = Pems { ca: Some(Pem::Text(cert.pem().into_bytes())), identity: None };
        let certificates = Certificates::open(pems)?;
        let store = arena.data().join("secure").join("store");
        let arguments = ["--tls-cert", &path, "--tls-key", &key_path];
        Ok(Self {
            bare: Served::bare_with(&["--cert", &path, "--key", &key_path])?,
            daemon: Served::kentd_with(arena.options.kentd.as_ref(), &store, &arguments)?,
            config: arena.runtime.block_on(certificates.refresh())?,
        })
    }
}
