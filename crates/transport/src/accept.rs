//! Accepts the connections of a port whose callers are divided among lanes.

use std::{pin::Pin, sync::Arc, time::Duration};

use kent_engine::host::address::Address;
use tokio::{net::TcpListener, select, sync::mpsc, time};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{connection::Connection, handshake::Handshakes, lanes::Lanes, listen::Socket};

/// The pause after a failure to accept a connection. If too many files are open, an immediate retry would fail as well.
const PAUSE: Duration = Duration::from_millis(50);

/// The future of a port that serves. It is boxed, so that the crate of the port compiles it with its own optimization
/// level. Otherwise the daemon's crate would compile it, and that crate is not optimized in the release profile.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves each connection on a lane with `serve` until `stop` is canceled, and returns when all connections have ended.
pub fn accept<F: Future<Output = ()> + Send + 'static>(
    sockets: TcpListener,
    handshakes: Handshakes,
    lanes: Arc<Lanes>,
    stop: CancellationToken,
    serve: impl Fn(Connection) -> F + Send + 'static,
) -> Serving {
    Box::pin(accept_until(sockets, handshakes, lanes, stop, serve))
}

async fn accept_until<F: Future<Output = ()> + Send + 'static>(
    sockets: TcpListener,
    mut handshakes: Handshakes,
    lanes: Arc<Lanes>,
    stop: CancellationToken,
    serve: impl Fn(Connection) -> F,
) {
    let (pass_on, mut ready) = mpsc::unbounded_channel::<(Connection, _)>();
    loop {
        select! {
            () = stop.cancelled() => break,
            // OK because `pass_on` lives as long as the loop.
            Some((connection, lane)) = ready.recv() => lanes.spawn(&lane, serve(connection)),
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
