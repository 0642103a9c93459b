//! Threads that serve connections, each with a runtime of its own.
//!
//! A connection stays with one thread: a call is read, answered and written there, and nothing is handed from processor to
//! processor. Connections go to the threads in turn, so that two of one client are served by two processors.

use std::{convert::Infallible, io, thread, time::Duration};

use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime, select,
    sync::mpsc,
    time,
};
use tokio_stream::{StreamExt, wrappers::UnboundedReceiverStream};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};
use tonic::{
    body::Body,
    codegen::{
        Service,
        http::{Request, Response},
    },
    transport::Server,
};
use tracing::{error, warn};

/// How long accepting pauses after a failure: too many open files are not fewer at once.
const PAUSE: Duration = Duration::from_millis(50);

/// A client that was silent for so long is asked whether it is there, so often, before its connection is ended.
const SILENCE: Duration = Duration::from_secs(30);
const PROBE: Duration = Duration::from_secs(5);
const PROBES: u32 = 4;
/// What was sent to a client is not acknowledged for so long: it is gone.
const UNHEARD_MILLIS: u32 = 50_000;

/// Threads that serve the connections of one port.
#[derive(Debug)]
pub struct Workers {
    lanes: Vec<mpsc::UnboundedSender<std::net::TcpStream>>,
    running: TaskTracker,
    ended: CancellationToken,
}

impl Workers {
    /// Starts `count` threads, each with a transport and a service of its own. They end when `stop` is cancelled and the
    /// calls in flight are answered and `work`, which calls leave behind, is done.
    ///
    /// # Errors
    ///
    /// Those of starting threads and runtimes.
    pub fn start<S>(
        count: usize,
        transport: &Server,
        service: &S,
        stop: &CancellationToken,
        work: &TaskTracker,
    ) -> io::Result<Self>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send + 'static,
    {
        let (running, ended) = (TaskTracker::new(), CancellationToken::new());
        let mut lanes = Vec::new();
        for number in 0..count {
            let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
            let (lane, connections) = mpsc::unbounded_channel();
            let (stop, work) = (stop.clone(), work.clone());
            let (transport, service) = (transport.clone(), service.clone());
            let worker = Worker { connections, transport, service, stop, work, _running: running.token() };
            // Fires also when the thread panics.
            let ended = ended.clone().drop_guard();
            thread::Builder::new().name(format!("grpc-{number}")).spawn(move || {
                let _ended = ended;
                runtime.block_on(worker.serve());
            })?;
            lanes.push(lane);
        }
        running.close();
        Ok(Self { lanes, running, ended })
    }

    /// Accepts connections until `stop` is cancelled, and returns when the threads have ended; earlier if one of them ends
    /// that should not.
    pub async fn accept(self, listener: TcpListener, stop: &CancellationToken) {
        for lane in self.lanes.iter().cycle() {
            let accepted = select! {
                () = stop.cancelled() => break,
                () = self.ended.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((connection, _)) => {
                    // Whoever is gone already is none of the others' business.
                    if let Ok(connection) = set_up(&connection).and_then(|()| connection.into_std()) {
                        // OK because a thread that has ended is noticed above.
                        drop(lane.send(connection));
                    }
                }
                Err(error) => {
                    warn!(%error, "a connection was not accepted");
                    time::sleep(PAUSE).await;
                }
            }
        }
        drop(listener);
        self.running.wait().await;
    }
}

fn set_up(connection: &TcpStream) -> io::Result<()> {
    // Without TCP_NODELAY a small reply waits for the delayed acknowledgement of the one before: 40 ms.
    connection.set_nodelay(true)?;
    // The kernel sees to it that a client whose machine is gone does not stay for ever. HTTP/2 has a ping for that, which looks
    // at the clock with every frame.
    set_socket_keepalive(connection, true)?;
    set_tcp_keepidle(connection, SILENCE)?;
    set_tcp_keepintvl(connection, PROBE)?;
    set_tcp_keepcnt(connection, PROBES)?;
    Ok(set_tcp_user_timeout(connection, UNHEARD_MILLIS)?)
}

/// What one thread needs.
struct Worker<S> {
    connections: mpsc::UnboundedReceiver<std::net::TcpStream>,
    transport: Server,
    service: S,
    stop: CancellationToken,
    work: TaskTracker,
    _running: TaskTrackerToken,
}

impl<S> Worker<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    async fn serve(self) {
        // Not before it has arrived here: a connection belongs to the runtime that makes it.
        let connections = UnboundedReceiverStream::new(self.connections).map(TcpStream::from_std);
        let stop = self.stop.cancelled_owned();
        let served = self.transport.serve_with_incoming_shutdown(self.service, connections, stop).await;
        if let Err(error) = served {
            error!(%error, "the gRPC port failed");
        }
        self.work.close();
        self.work.wait().await;
    }
}
