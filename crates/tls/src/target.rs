//! A server to connect to: plainly, or under TLS with the certificates that the files hold at that moment.

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
    /// The address for people and for requests.
    uri: Uri,
    secure: Option<Secure>,
}

/// What a connection under TLS needs.
#[derive(Clone, Debug)]
struct Secure {
    certificates: Certificates,
    /// The name that the server's certificate must have.
    name: ServerName<'static>,
    /// The time in which the connection must be made, with its handshake.
    limit: Duration,
}

/// The host of an address is not one that a certificate can have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{host:?} is not a host that a certificate can name")]
pub struct BadHost {
    /// The host.
    pub host: String,
}

/// The error of a connection that must be made within a time.
#[derive(Debug, Error)]
#[error("no connection within {0:?}")]
struct Late(Duration);

/// The error of a server that speaks TLS, but not gRPC.
#[derive(Debug, Error)]
#[error("the server does not speak HTTP/2")]
struct NotHttp2;

impl Target {
    /// A server without TLS.
    pub fn plain(endpoint: Endpoint) -> Self {
        Self { uri: endpoint.uri().clone(), endpoint, secure: None }
    }

    /// A server under TLS, at an `https` address. A connection with its handshake must be made within `limit`. `settings` are
    /// those of HTTP/2.
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
        // IPv6 addresses have brackets in URIs only.
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare).map_err(|_| bad())?.to_owned();
        // tonic refuses `https` if it does not make TLS itself, so only requests have that scheme.
        let endpoint = Endpoint::from_shared(format!("http://{authority}")).map_err(|_| bad())?;
        let endpoint = settings(endpoint.origin(uri.clone()));
        let secure = Secure { certificates: certificates.clone(), name, limit };
        Ok(Self { endpoint, uri: uri.clone(), secure: Some(secure) })
    }

    /// The address.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// If no connection can be made.
    pub async fn connect(&self) -> Result<Channel, TransportError> {
        match &self.secure {
            None => self.endpoint.connect().await,
            Some(secure) => self.endpoint.connect_with_connector(connector(secure.clone())).await,
        }
    }

    /// A channel that connects at its first use, and again when the connection is lost.
    pub fn connect_lazy(&self) -> Channel {
        match &self.secure {
            None => self.endpoint.connect_lazy(),
            Some(secure) => self.endpoint.connect_with_connector_lazy(connector(secure.clone())),
        }
    }
}

/// Makes connections under TLS.
fn connector(
    secure: Secure,
) -> impl Service<Uri, Response = TokioIo<TlsStream<TcpStream>>, Error = StdError, Future: Send> + Send + 'static {
    let mut http = HttpConnector::new();
    http.set_nodelay(true);
    // Divided among the addresses of a host, so that one that is silent leaves time for the others.
    http.set_connect_timeout(Some(secure.limit));
    service_fn(move |uri| {
        let (secure, http) = (secure.clone(), http.clone());
        async move {
            // tonic's own timeout is not an error of the connection, so callers could not see that nothing was sent.
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
            assert_eq!(target.map(|target| target.uri().clone()).ok(), expected.then_some(uri));
        }
    }
}
