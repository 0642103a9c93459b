//! From an accepted socket to a connection: directly, or by a TLS handshake.
//!
//! Handshakes run on the runtime of calls, because a thread that serves connections answers grants within microseconds and a
//! handshake takes a thousand. They are limited in number and time.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpStream, time};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::CertificateDer},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use super::{
    connection::{Connection, Ended},
    peer::{Certificate, Peer},
    tls::{Tls, TlsError, TlsFiles, time_left},
};
use crate::{
    audit::{By, Event, Outcome},
    host::{
        clock::{Clock, SystemClock},
        tasks::Tasks,
    },
};

/// The maximum number of concurrent handshakes of a port. Each takes some 40 KB of memory.
const HANDSHAKES_MAX: usize = 1024;

/// The longest time that a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How the sockets of a port become connections.
#[derive(Debug)]
pub struct Handshakes(Option<Secure>);

/// What a port needs for TLS.
#[derive(Debug)]
struct Secure {
    tls: Tls,
    port: PortKind,
    clock: Arc<dyn Clock>,
    tasks: Tasks,
    /// The handshakes that run, and some that have ended; the oldest first.
    running: VecDeque<AbortOnDropHandle<()>>,
}

/// A port, whose configuration of TLS differs from the other's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PortKind {
    Grpc,
    Http,
}

impl Handshakes {
    /// Without TLS.
    pub fn plain() -> Self {
        Self(None)
    }

    /// With TLS on a gRPC port that has no daemon, for measurements. It needs a runtime, on which the handshakes run.
    ///
    /// # Errors
    ///
    /// [`TlsError`].
    pub fn secure(files: TlsFiles) -> Result<Self, TlsError> {
        Ok(Self::new(Some(&Tls::open(files)?), PortKind::Grpc, Arc::new(SystemClock::new()), &Tasks::new()))
    }

    /// With TLS, where it is configured.
    pub(crate) fn new(tls: Option<&Tls>, port: PortKind, clock: Arc<dyn Clock>, tasks: &Tasks) -> Self {
        let secure =
            |tls: &Tls| Secure { tls: tls.clone(), port, clock, tasks: tasks.clone(), running: VecDeque::new() };
        Self(tls.map(secure))
    }

    /// Passes the connection on when it is ready. A socket whose handshake fails is closed.
    pub(crate) fn begin(
        &mut self,
        socket: TcpStream,
        address: SocketAddr,
        pass_on: impl FnOnce(Connection) + Send + 'static,
    ) {
        match &mut self.0 {
            None => pass_on(Connection::plain(socket, Peer::new(address, None))),
            Some(secure) => secure.begin(socket, address, pass_on),
        }
    }
}

impl Secure {
    fn begin(&mut self, socket: TcpStream, address: SocketAddr, pass_on: impl FnOnce(Connection) + Send + 'static) {
        if self.running.len() >= HANDSHAKES_MAX {
            self.running.retain(|handshake| !handshake.is_finished());
        }
        if self.running.len() >= HANDSHAKES_MAX {
            // The oldest is the one that makes least progress. If new sockets were refused instead, silent callers could lock all
            // others out.
            self.running.pop_front();
        }
        let config = match self.port {
            PortKind::Grpc => self.tls.grpc(),
            PortKind::Http => self.tls.http(),
        };
        let (tls, clock) = (self.tls.clone(), self.clock.clone());
        self.running.push_back(self.tasks.spawn_call(async move {
            match time::timeout(HANDSHAKE_TIMEOUT, shake_hands(&tls, config, socket, address, &*clock)).await {
                Ok(Ok(connection)) => pass_on(connection),
                Ok(Err(error)) => {
                    debug!(peer = %address, %error, "the TLS handshake failed");
                    deny(address, &error.to_string());
                }
                Err(_) => {
                    debug!(peer = %address, "the TLS handshake took too long");
                    deny(address, "the handshake took too long");
                }
            }
        }));
    }
}

/// Writes a failed handshake to the audit log.
fn deny(address: SocketAddr, note: &str) {
    let by = By { peer: address.to_string(), ..By::default() };
    Event::new("connect", &by, "").refusal("UNAUTHENTICATED", "TLS_HANDSHAKE").note(note).record(Outcome::Denied);
}

async fn shake_hands(
    tls: &Tls,
    config: Arc<ServerConfig>,
    socket: TcpStream,
    address: SocketAddr,
    clock: &dyn Clock,
) -> std::io::Result<Connection> {
    let stream = TlsAcceptor::from(config.clone()).accept(socket).await?;
    let chain: &[CertificateDer<'_>] = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let Some(first) = chain.first() else {
        return Ok(Connection::tls(stream, Peer::new(address, None), None));
    };
    let certificate = Certificate::read(first).map_err(std::io::Error::other)?;
    let (revoked, left) = (tls.register(&config, chain, clock), time_left(&certificate, clock));
    let ended: Ended = Box::pin(async move {
        tokio::select! {
            () = revoked.cancelled() => {}
            () = time::sleep(left) => {}
        }
    });
    Ok(Connection::tls(stream, Peer::new(address, Some(certificate)), Some(ended)))
}
