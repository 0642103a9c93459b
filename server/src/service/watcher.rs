//! What all watches share: a bounded queue of events, and why a watch ends.

use std::{sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt};

use kent_engine::{
    auth::{Caller, Denied},
    engine::Engine,
    status,
};
use kent_transport::callers::Session;
use tokio::{
    select,
    sync::{
        OwnedSemaphorePermit,
        mpsc::{self, error::SendTimeoutError},
    },
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// The maximum number of messages that wait for a watcher.
const WAITING_MAX: usize = 16;
/// The longest time that a watcher may take to accept a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a watch ends.
pub(super) enum End {
    /// The watcher has disconnected, or the daemon is stopping.
    Gone,
    /// The watcher gets this status.
    Status(Box<Status>),
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

/// The messages to a watcher.
#[derive(Clone, Debug)]
pub(super) struct Events<M>(mpsc::Sender<Result<M, Status>>);

impl<M> Events<M> {
    /// Sends a message. If the watcher does not accept it, the watch ends. `seen` is the revision after which the
    /// watcher may resume, or 0 if it has to start with a snapshot.
    pub(super) async fn send(&self, message: M, seen: u64) -> Result<(), End> {
        match self.0.send_timeout(Ok(message), SEND_TIMEOUT).await {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Closed(_)) => Err(End::Gone),
            Err(SendTimeoutError::Timeout(_)) => Err(status::watcher_too_slow(seen).into()),
        }
    }

    /// Waits until the watcher has disconnected.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }
}

/// Answers a watch with the messages of `run`, until the caller loses its permission or the daemon stops.
pub(super) fn watch<M: Send + 'static, R: Future<Output = Result<(), End>> + Send + 'static>(
    engine: Arc<Engine>,
    (session, watching): (Session, Arc<OwnedSemaphorePermit>),
    is_allowed: impl Fn(&Caller) -> Result<(), Denied> + Send + Sync + 'static,
    run: impl FnOnce(Events<M>) -> R,
) -> impl Stream<Item = Result<M, Status>> + Send + 'static {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let draining = engine.draining().clone().cancelled_owned();
    let (running, tasks) = (run(Events(sender.clone())), engine.tasks().clone());
    tasks.spawn_work(async move {
        let _watching = watching;
        let lost = session.lost(engine, is_allowed);
        let ended = select! {
            biased;
            denied = lost => Err(End::from(status::from_denied(&denied))),
            ended = running => ended,
        };
        if let Err(End::Status(status)) = ended {
            // OK because a watcher that has disconnected needs no status.
            let _ = sender.send_timeout(Err(*status), SEND_TIMEOUT).await;
        }
    });
    ReceiverStream::new(receiver).take_until(draining)
}
