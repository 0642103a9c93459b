//! Threads that serve connections, each with its own runtime.
//!
//! A connection stays on one thread, which also answers its grants, so a grant is not passed between processors. Calls
//! that may take long run elsewhere: see `offload`.
//! Connections go to the threads in turn, so that two connections of one client use two processors.

use std::{future, io, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt};
use tokio::{runtime, select, sync::mpsc, time};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};
use tracing::{debug, warn};

use super::{
    connection::Connection, handshake::Handshakes, lanes::Lane, listen::Listeners, preface::expect_http2,
    threads::Threads, turns::Turns,
};

/// The pause after a failure to accept a connection: the usual cause, too many open files, does not end immediately.
const PAUSE: Duration = Duration::from_millis(50);

/// Threads that serve the connections of one port.
#[derive(Debug)]
pub struct Workers {
    lanes: Vec<Entry>,
    running: TaskTracker,
    ended: CancellationToken,
}

/// One thread, and the channel to it.
#[derive(Clone, Debug)]
struct Entry {
    lane: Lane,
    connections: mpsc::UnboundedSender<Connection>,
}

impl Workers {
    /// Starts the threads, each with its own copy of `server`. After `stop` is canceled, the threads end when the calls
    /// in flight are answered and `work`, which outlives calls, is done.
    ///
    /// # Errors
    ///
    /// If a thread or a runtime cannot be started.
    pub fn start(
        threads: Threads,
        server: &impl Serve,
        stop: &CancellationToken,
        work: &TaskTracker,
    ) -> io::Result<Self> {
        let (running, ended) = (TaskTracker::new(), CancellationToken::new());
        let mut lanes = Vec::new();
        threads.start("grpc", || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
            let (to_worker, connections) = mpsc::unbounded_channel();
            let lane = Entry { lane: Lane::new(runtime.handle().clone()), connections: to_worker };
            let (server, stop, work) = (server.clone(), stop.clone(), work.clone());
            let worker = Worker { connections, server, stop, work, _running: running.token() };
            // Dropping the guard cancels the token, even when the thread panics.
            let ended = ended.clone().drop_guard();
            lanes.push(lane);
            Ok(move || {
                let _ended = ended;
                runtime.block_on(worker.serve());
            })
        })?;
        running.close();
        Ok(Self { lanes, running, ended })
    }

    /// Accepts connections until `stop` is canceled, and returns when the threads have ended, or as soon as one of them
    /// ends unexpectedly.
    pub async fn accept(self, listeners: impl Into<Listeners>, mut handshakes: Handshakes, stop: &CancellationToken) {
        let mut listeners = listeners.into();
        for lane in self.lanes.iter().cycle() {
            let accepted = select! {
                () = stop.cancelled() => break,
                () = self.ended.cancelled() => return,
                accepted = listeners.accept() => accepted,
            };
            match accepted {
                Ok((socket, address)) => {
                    // A socket that is already closed must not affect the other sockets.
                    if let Ok(socket) = socket.set_up().and_then(|()| lane.lane.adopt(socket)) {
                        let connections = lane.connections.clone();
                        // OK because this loop ends when a thread has ended.
                        handshakes.begin(socket, address, move |connection| drop(connections.send(connection)));
                    }
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    time::sleep(PAUSE).await;
                }
            }
        }
        drop((listeners, handshakes));
        self.running.wait().await;
    }
}

/// Serves HTTP/2 connections on one thread.
pub trait Serve: Clone + Send + 'static {
    /// Serves the connections until `stop` is canceled, and returns when their calls are answered.
    fn serve(
        self,
        connections: impl Stream<Item = Connection> + Send,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + Send;
}

/// The state of one thread.
struct Worker<S> {
    connections: mpsc::UnboundedReceiver<Connection>,
    server: S,
    stop: CancellationToken,
    work: TaskTracker,
    _running: TaskTrackerToken,
}

impl<S: Serve> Worker<S> {
    async fn serve(self) {
        let turns = Arc::new(Turns::default());
        // The port limits the number of connections, so no limit is needed here.
        let begun = UnboundedReceiverStream::new(self.connections).map(expect_http2).buffer_unordered(usize::MAX);
        let connections = begun.filter_map(|begun| {
            let connection = begun.inspect_err(|error| debug!(%error, "a connection of the gRPC port failed")).ok();
            future::ready(connection.map(|connection| connection.in_turn(&turns)))
        });
        select! {
            () = self.server.serve(connections, self.stop) => {}
            never = turns.run() => match never {},
        }
        self.work.close();
        self.work.wait().await;
    }
}
