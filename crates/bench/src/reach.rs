//! Callers of a daemon with TLS that make all kinds of calls.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, ensure};
use kent_client::{Client, Daemon, Error};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

use crate::{process::Served, secure::ServerCertificate};

/// What callers need to reach a daemon with TLS.
#[derive(Clone)]
pub(crate) struct Reach {
    address: String,
    http: String,
    ca: PathBuf,
    tls: TlsConnector,
}

impl Reach {
    /// Returns the way to a daemon whose certificate is in this directory.
    pub(crate) async fn new(served: &Served, certificate: &ServerCertificate, dir: &Path) -> anyhow::Result<Self> {
        let mut config = certificate.certificates.refresh().await?.as_ref().clone();
        // Requests to the HTTP port use HTTP/1.1.
        config.alpn_protocols.clear();
        Ok(Self {
            address: served.address.clone(),
            http: served.http.clone().context("the daemon has no HTTP port")?,
            ca: dir.join("cert.pem"),
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Opens a new connection.
    pub(crate) async fn connect(&self) -> Result<Daemon, Error> {
        let client = Client::builder().endpoint(format!("https://{}", self.address)).ca_file(&self.ca).build();
        // OK because the settings are valid.
        client.expect("a client").connect().await
    }

    /// Sends a request to the HTTP port, and returns the answer.
    pub(crate) async fn http(&self, request: &str) -> anyhow::Result<String> {
        let socket = TcpStream::connect(&self.http).await?;
        let mut stream = self.tls.connect(ServerName::try_from("127.0.0.1")?, socket).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{}", answer.lines().next().unwrap_or_default());
        Ok(answer)
    }

    /// Sends a GET request for `path` to the HTTP port, and returns the answer.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<String> {
        self.http(&format!("GET {path} HTTP/1.1\r\nHost: kent\r\nConnection: close\r\n\r\n")).await
    }
}
