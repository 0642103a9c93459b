//! Turns an accepted socket into a connection, directly or by a TLS handshake.
//!
//! Handshakes run on separate threads, because a thread that serves connections answers grants within microseconds, and
//! a handshake takes a millisecond. Handshakes are limited in number and time.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use kent_engine::{
    audit::{By, Event, Outcome},
    host::{
        address::Address,
        clock::{Clock, SystemClock},
        tasks::Tasks,
    },
};
use kent_tls::explained;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::CertificateDer},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use super::{
    admission::Admission,
    connection::{Connection, Ended},
    listen::Socket,
    peer::{Certificate, Peer},
    tls::{Tls, TlsError, TlsFiles, time_left},
};

/// The maximum number of concurrent handshakes of a port. Each handshake takes about 40 KB of memory.
pub const HANDSHAKES_MAX: usize = 1024;

/// The longest time that a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How the sockets of a port become connections.
#[derive(Debug)]
pub struct Handshakes {
    admission: Admission,
    secure: Option<Secure>,
}

/// What a port needs for TLS.
#[derive(Debug)]
struct Secure {
    tls: Tls,
    port: PortKind,
    clock: Arc<dyn Clock>,
    tasks: Tasks,
    /// The running handshakes and some that have ended, oldest first.
    running: VecDeque<AbortOnDropHandle<()>>,
}

/// A port. Each port has its own TLS configuration.
#[derive(Clone, Copy, Debug)]
pub enum PortKind {
    /// The gRPC port.
    Grpc,
    /// The HTTP port.
    Http,
    /// The Redis port.
    Redis,
}

impl Handshakes {
    /// Creates handshakes without TLS or limits, which pass sockets on directly.
    pub fn plain() -> Self {
        Self { admission: Admission::unlimited(), secure: None }
    }

    /// Creates handshakes with TLS for a gRPC port without a daemon, for benchmarks. The handshakes run on the caller's
    /// runtime.
    ///
    /// # Errors
    ///
    /// [`TlsError`].
    pub fn secure(files: TlsFiles) -> Result<Self, TlsError> {
        let (tls, clock) = (Tls::open(files)?, Arc::new(SystemClock::new()));
        Ok(Self::new(Admission::unlimited(), Some(&tls), PortKind::Grpc, clock, &Tasks::on_this_runtime()))
    }

    /// Creates handshakes, with TLS if it is configured.
    pub fn new(admission: Admission, tls: Option<&Tls>, port: PortKind, clock: Arc<dyn Clock>, tasks: &Tasks) -> Self {
        let secure =
            |tls: &Tls| Secure { tls: tls.clone(), port, clock, tasks: tasks.clone(), running: VecDeque::new() };
        Self { admission, secure: tls.map(secure) }
    }

    /// Passes the connection to `pass_on` when it is ready. A socket is closed if it exceeds the limits of the port or
    /// its handshake fails.
    pub fn begin(&mut self, socket: Socket, address: Address, pass_on: impl FnOnce(Connection) + Send + 'static) {
        match (socket, &mut self.secure) {
            (Socket::Tcp(socket), Some(secure)) => secure.begin(socket, address, &self.admission, pass_on),
            // A Unix socket needs no TLS: the kernel protects its data from other users, and reports which user
            // connected.
            (socket, _) => {
                if let Some(seat) = self.admission.admit(&address) {
                    pass_on(Connection::plain(socket, Peer::new(address, None), seat));
                }
            }
        }
    }
}

impl Secure {
    fn begin(
        &mut self,
        socket: TcpStream,
        address: Address,
        admission: &Admission,
        pass_on: impl FnOnce(Connection) + Send + 'static,
    ) {
        if self.running.len() >= HANDSHAKES_MAX {
            self.running.retain(|handshake| !handshake.is_finished());
        }
        if self.running.len() >= HANDSHAKES_MAX {
            // Abort the oldest handshake, which is the most likely to have stalled. If new sockets were refused
            // instead, idle clients could block all new connections.
            self.running.pop_front();
        }
        let config = match self.port {
            PortKind::Grpc => self.tls.grpc(),
            PortKind::Http => self.tls.http(),
            PortKind::Redis => self.tls.redis(),
        };
        let (tls, clock, admission) = (self.tls.clone(), self.clock.clone(), admission.clone());
        let port = self.port;
        self.running.push_back(self.tasks.spawn_handshake(async move {
            match time::timeout(
                HANDSHAKE_TIMEOUT,
                shake_hands((&tls, port), config, socket, (address, &admission), &*clock),
            )
            .await
            {
                Ok(Ok(connection)) => {
                    admission.handshakes().done.inc();
                    pass_on(connection);
                }
                Ok(Err(Broken { error, socket })) => {
                    admission.handshakes().failed.inc();
                    debug!(peer = %address, error = explained(&error), "the TLS handshake failed");
                    // Write the audit line before the caller sees the end of the connection, so that a stop right
                    // afterward does not lose the line.
                    deny(address, &explained(&error));
                    if let Some(socket) = socket {
                        close(socket).await;
                    }
                }
                Err(_) => {
                    admission.handshakes().timed_out.inc();
                    debug!(peer = %address, "the TLS handshake took too long");
                    deny(address, "the handshake took too long");
                }
            }
        }));
    }
}

/// A handshake that failed.
struct Broken {
    error: std::io::Error,
    /// The socket, if the caller must still read an answer from it.
    socket: Option<TcpStream>,
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Self { error, socket: None }
    }
}

/// Writes a failed handshake to the audit log.
fn deny(address: Address, note: &str) {
    let by = By { peer: address.to_string(), ..By::default() };
    Event::new("connect", &by, "").refusal("UNAUTHENTICATED", "TLS_HANDSHAKE").note(note).record(Outcome::Denied);
}

/// Closes a connection after the caller has had time to read the last answer, such as an alert. If bytes from the
/// caller were left unread, the system would reset the connection, and the answer could get lost.
pub async fn close(mut socket: impl AsyncRead + AsyncWrite + Unpin) {
    let unread = async {
        socket.shutdown().await?;
        let (mut bytes, mut left) = ([0; 1024], UNREAD_BYTES_MAX);
        while left > 0 {
            match socket.read(&mut bytes).await? {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
        std::io::Result::Ok(())
    };
    // OK because the connection ends in any case.
    let _ = time::timeout(CLOSE_TIMEOUT, unread).await;
}

/// The longest time that a caller may take to read the last answer, and the maximum number of bytes that the caller may
/// send meanwhile.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
const UNREAD_BYTES_MAX: usize = 16 * 1024;

/// The answer to a caller that speaks HTTP without TLS.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
    This port speaks TLS: use https:// (curl --cacert FILE, kent --ca FILE).\n";

/// The answer to a caller that speaks the Redis protocol without TLS.
const PLAIN_REDIS: &[u8] = b"-ERR this port speaks TLS: redis-cli --tls --cacert FILE\r\n";

/// Answers a caller that speaks HTTP/1.1 or the Redis protocol without TLS. A TLS handshake begins neither with a letter
/// nor with `*`. HTTP/2 begins with `PRI`, and its callers would not understand the answer, so they get none.
async fn expect_tls(mut socket: TcpStream, port: PortKind) -> Result<TcpStream, Broken> {
    let mut first = [0; 3];
    socket.peek(&mut first).await?;
    if matches!(port, PortKind::Redis) && (first[0] == b'*' || first[0].is_ascii_alphabetic()) {
        socket.write_all(PLAIN_REDIS).await?;
        let error = std::io::Error::other("the caller speaks the Redis protocol without TLS");
        return Err(Broken { error, socket: Some(socket) });
    }
    if first[0].is_ascii_uppercase() && !first.starts_with(b"PR") {
        socket.write_all(PLAIN).await?;
        let error = std::io::Error::other("the caller speaks HTTP without TLS");
        return Err(Broken { error, socket: Some(socket) });
    }
    Ok(socket)
}

async fn shake_hands(
    (tls, port): (&Tls, PortKind),
    config: Arc<ServerConfig>,
    socket: TcpStream,
    (address, admission): (Address, &Admission),
    clock: &dyn Clock,
) -> Result<Connection, Broken> {
    let socket = expect_tls(socket, port).await?;
    let stream = match TlsAcceptor::from(config.clone()).accept(socket).into_fallible().await {
        Ok(stream) => stream,
        Err((error, socket)) => return Err(Broken { error, socket: Some(socket) }),
    };
    // Handshakes have a separate limit, so that idle sockets do not use up the connections of callers at the same
    // address.
    let seat = admission.admit(&address).ok_or_else(|| std::io::Error::other("the port has too many connections"))?;
    let chain: &[CertificateDer<'_>] = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let Some(first) = chain.first() else {
        return Ok(Connection::tls(stream, Peer::new(address, None), None, seat));
    };
    let certificate = Certificate::read(first).map_err(std::io::Error::other)?;
    let (revoked, left) = (tls.register(&config, chain, clock), time_left(&certificate, clock));
    let ended: Ended = Box::pin(async move {
        tokio::select! {
            () = revoked.cancelled() => {}
            () = time::sleep(left) => {}
        }
    });
    Ok(Connection::tls(stream, Peer::new(address, Some(certificate)), Some(ended), seat))
}
