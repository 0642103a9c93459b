//! The Redis port: sequences for tools that know Redis but neither gRPC nor HTTP.
//!
//! `INCR` issues the next identifier of a region in counted order. The services answer within the process, so
//! permissions, limits, budgets, the audit log and the metrics are those of the gRPC port. The port is closed unless a
//! setting opens it.

mod command;
mod connection;
mod failure;
mod issued;
mod reply;
mod request;
mod session;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use kent_engine::{engine::Engine, host::address::Address};
use kent_transport::{
    allocator::AllocatorService, connection::Connection, handshake::Handshakes, lanes::Lanes, listen::Socket,
    port::InnerPort,
};
use tokio::{net::TcpListener, select, sync::mpsc, time};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;
use tracing::warn;

use self::session::Session;

/// The services behind the port.
pub(crate) struct Services {
    engine: Arc<Engine>,
    /// Answers all calls except those for identifiers.
    port: InnerPort,
    /// Issues runs of integers.
    integers: AllocatorService,
    /// The number of the last connection.
    connections: AtomicI64,
}

/// The pause after a failure to accept a connection. If too many files are open, an immediate retry would fail as well.
const PAUSE: Duration = Duration::from_millis(50);

impl Services {
    /// `port` answers the calls that read regions.
    pub(crate) fn new(engine: Arc<Engine>, port: InnerPort) -> Self {
        let integers = AllocatorService::of_integers(engine.clone());
        Self { engine, port, integers, connections: AtomicI64::new(0) }
    }

    /// A number for a new connection.
    fn number(&self) -> i64 {
        self.connections.fetch_add(1, Relaxed).wrapping_add(1)
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Services")
    }
}

/// Serves until `stop` is canceled, and returns when the commands in progress have been answered.
pub(crate) async fn serve(
    sockets: TcpListener,
    mut handshakes: Handshakes,
    services: Arc<Services>,
    lanes: Arc<Lanes>,
    stop: CancellationToken,
) {
    let (pass_on, mut ready) = mpsc::unbounded_channel::<(Connection, _)>();
    loop {
        select! {
            () = stop.cancelled() => break,
            // OK because `pass_on` lives as long as the loop.
            Some((connection, lane)) = ready.recv() => {
                let session = Session::new(services.clone(), connection.connect_info());
                lanes.spawn(&lane, connection::serve(connection, session, stop.clone()));
            }
            accepted = sockets.accept() => match accepted {
                Ok((socket, address)) => {
                    let (socket, pass_on) = (Socket::from(socket), pass_on.clone());
                    let Some(lane) = lanes.next().cloned() else { continue };
                    // A socket that is already closed must not affect the other sockets.
                    if let Ok(socket) = socket.set_up().and_then(|()| lane.adopt(socket)) {
                        // OK because the receiver lives as long as the port.
                        let pass_on = move |connection| drop(pass_on.send((connection, lane)));
                        handshakes.begin(socket, Address::Tcp(address), pass_on);
                    }
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    time::sleep(PAUSE).await;
                }
            }
        }
    }
    drop((sockets, handshakes));
    lanes.finish().await;
}
