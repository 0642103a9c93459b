//! Runtimes with one thread each, among which connections are divided. A connection stays on its thread, so no work is
//! passed between processors.

use std::{
    future::Future,
    io,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use tokio::{
    net::{TcpStream, UnixStream},
    runtime::{self, Handle},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{listen::Socket, threads::Threads};

/// Threads, each with its own runtime. The threads end when this value is dropped.
#[derive(Debug)]
pub struct Lanes {
    lanes: Vec<Lane>,
    next: AtomicUsize,
    running: TaskTracker,
    _end: DropGuard,
}

/// The runtime of one thread.
#[derive(Clone, Debug)]
pub struct Lane {
    runtime: Handle,
}

impl Lanes {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// If a thread or a runtime cannot be started.
    pub fn start(name: &str, threads: Threads) -> io::Result<Self> {
        let (end, mut lanes) = (CancellationToken::new(), Vec::new());
        threads.start(name, || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
            lanes.push(Lane { runtime: runtime.handle().clone() });
            let end = end.clone();
            Ok(move || runtime.block_on(end.cancelled_owned()))
        })?;
        Ok(Self { lanes, next: AtomicUsize::new(0), running: TaskTracker::new(), _end: end.drop_guard() })
    }

    /// The lane for the next connection.
    pub fn next(&self) -> Option<&Lane> {
        self.lanes.get(self.next.fetch_add(1, Relaxed) % self.lanes.len())
    }

    /// Runs a task on a lane.
    pub fn spawn(&self, lane: &Lane, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.running.spawn_on(task, &lane.runtime));
    }

    /// Waits until all tasks are done. No task may be spawned after this call.
    pub async fn finish(&self) {
        self.running.close();
        self.running.wait().await;
    }
}

impl Lane {
    pub(super) fn new(runtime: Handle) -> Self {
        Self { runtime }
    }

    /// Moves a socket to the runtime of this thread. The runtime then waits for the socket's bytes.
    ///
    /// # Errors
    ///
    /// If the socket cannot be registered.
    pub fn adopt(&self, socket: Socket) -> io::Result<Socket> {
        match socket {
            Socket::Tcp(socket) => {
                let socket = socket.into_std()?;
                let _runtime = self.runtime.enter();
                TcpStream::from_std(socket).map(Socket::Tcp)
            }
            Socket::Unix(socket) => {
                let socket = socket.into_std()?;
                let _runtime = self.runtime.enter();
                UnixStream::from_std(socket).map(Socket::Unix)
            }
        }
    }
}
