//! A server to connect to, over plain TCP, a Unix socket or TLS. Each TLS connection uses the certificates that are in
//! the files at that time.

use std::time::Duration;

use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use thiserror::Error;
use tokio::{net::TcpStream, time};
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::pki_types::ServerName};
use tonic::{
    codegen::{Service, StdError, http::Uri},
    transport::{Channel, Endpoint, Error as TransportError},
};
use tower::{ServiceExt, service_fn};

use crate::certificates::{Certificates, PROTOCOL};

/// A server to connect to.
#[derive(Clone, Debug)]
pub struct Target {
    endpoint: Endpoint,
    /// The server's address, for messages.
    address: String,
    secure: Option<Secure>,
}

/// The settings of a TLS connection.
#[derive(Clone, Debug)]
struct Secure {
    certificates: Certificates,
    /// The name that the server's certificate must have.
    name: ServerName<'static>,
    /// The time limit for the connection and its handshake.
    limit: Duration,
}

/// The error for a host that cannot appear in a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{host:?} is not a host that a certificate can name")]
pub struct BadHost {
    /// The host.
    pub host: String,
}

/// The error for an address that is not that of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{address:?} is not the address of a Unix socket, unix:PATH")]
pub struct NotASocket {
    /// The address.
    pub address: String,
}

/// The error for a connection that was not made within its time limit.
#[derive(Debug, Error)]
#[error("no connection within {0:?}")]
struct Late(Duration);

/// The error for a server that speaks TLS but not HTTP/2.
#[derive(Debug, Error)]
#[error("the server does not speak HTTP/2")]
struct NotHttp2;

impl Target {
    /// Returns a server without TLS.
    pub fn plain(endpoint: Endpoint) -> Self {
        Self { address: endpoint.uri().to_string(), endpoint, secure: None }
    }

    /// Returns a server with TLS, at an `https` address. `limit` is the time limit for a connection and its handshake.
    /// `settings` sets the options of HTTP/2.
    ///
    /// # Errors
    ///
    /// [`BadHost`].
    pub fn secure(
        uri: &Uri,
        certificates: &Certificates,
        limit: Duration,
        settings: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Result<Self, BadHost> {
        let host = uri.host().unwrap_or_default();
        let bad = || BadHost { host: host.to_owned() };
        let authority = uri.authority().ok_or_else(bad)?;
        // IPv6 addresses are in brackets only in URIs.
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare).map_err(|_| bad())?.to_owned();
        // tonic refuses an `https` endpoint unless it does TLS itself, so only the origin of the requests has that
        // scheme.
        let endpoint = Endpoint::from_shared(format!("http://{authority}")).map_err(|_| bad())?;
        let endpoint = settings(endpoint.origin(uri.clone()));
        let secure = Secure { certificates: certificates.clone(), name, limit };
        Ok(Self { endpoint, address: uri.to_string(), secure: Some(secure) })
    }

    /// Returns the server behind a Unix socket, at `unix:PATH`. Such a connection never uses TLS.
    ///
    /// # Errors
    ///
    /// Fails if the address is not that of a Unix socket.
    pub fn unix(address: &str, settings: impl FnOnce(Endpoint) -> Endpoint) -> Result<Self, NotASocket> {
        let bad = || NotASocket { address: address.to_owned() };
        let path = address.strip_prefix("unix:").ok_or_else(bad)?;
        if path.trim_start_matches("//").is_empty() {
            return Err(bad());
        }
        let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|_| bad())?;
        Ok(Self { endpoint: settings(endpoint), address: address.to_owned(), secure: None })
    }

    /// The address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Opens a connection to the server.
    ///
    /// # Errors
    ///
    /// Fails if no connection can be made.
    pub async fn connect(&self) -> Result<Channel, TransportError> {
        match &self.secure {
            None => self.endpoint.connect().await,
            Some(secure) => self.endpoint.connect_with_connector(connector(secure.clone())).await,
        }
    }

    /// Returns a channel that connects at its first use, and again when the connection is lost.
    pub fn connect_lazy(&self) -> Channel {
        match &self.secure {
            None => self.endpoint.connect_lazy(),
            Some(secure) => self.endpoint.connect_with_connector_lazy(connector(secure.clone())),
        }
    }
}

/// Returns a connector that makes connections with TLS.
fn connector(
    secure: Secure,
) -> impl Service<Uri, Response = TokioIo<TlsStream<TcpStream>>, Error = StdError, Future: Send> + Send + 'static {
    let mut http = HttpConnector::new();
    http.set_nodelay(true);
    // The time is divided among the addresses of a host, so that an address that does not answer leaves time for the
    // others.
    http.set_connect_timeout(Some(secure.limit));
    service_fn(move |uri| {
        let (secure, http) = (secure.clone(), http.clone());
        async move {
            // tonic does not report its own timeout as a connection error, so callers could not tell that nothing was
            // sent.
            let limit = secure.limit;
            time::timeout(limit, connect(secure, http, uri)).await.unwrap_or_else(|_| Err(Late(limit).into()))
        }
    })
}

async fn connect(secure: Secure, http: HttpConnector, uri: Uri) -> Result<TokioIo<TlsStream<TcpStream>>, StdError> {
    let socket = http.oneshot(uri).await?.into_inner();
    let config = secure.certificates.refresh().await?;
    let stream = TlsConnector::from(config).connect(secure.name, socket).await?;
    match stream.get_ref().1.alpn_protocol() {
        Some(protocol) if protocol == PROTOCOL => Ok(TokioIo::new(stream)),
        _ => Err(NotHttp2.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pems;

    #[test]
    fn ok_and_err_hosts() {
        let authority = rcgen::generate_simple_self_signed(vec!["ca".to_owned()]).expect("signed").cert.pem();
        let ca = Some(crate::Pem::Text(authority.into_bytes()));
        let certificates = Certificates::open(Pems { ca, identity: None }).expect("valid");
        for (uri, expected) in [
            ("https://a.example:1", true),
            ("https://127.0.0.1:1", true),
            ("https://[::1]:1", true),
            ("https://-:1", false),
        ] {
            let uri: Uri = uri.parse().expect("a URI");
            let target = Target::secure(&uri, &certificates, Duration::from_secs(1), |endpoint| endpoint);
            assert_eq!(target.map(|target| target.address().to_owned()).ok(), expected.then(|| uri.to_string()));
        }
    }

    #[test]
    fn ok_and_err_sockets() {
        for (address, expected) in [
            ("unix:/run/kent.sock", true),
            ("unix:///run/kent.sock", true),
            ("unix:kent.sock", true),
            ("unix:", false),
            ("unix://", false),
            ("/run/kent.sock", false),
        ] {
            let target = Target::unix(address, |endpoint| endpoint);
            assert_eq!(target.as_ref().map(Target::address).ok(), expected.then_some(address));
        }
    }
}
