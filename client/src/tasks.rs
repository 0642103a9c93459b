//! Starts the background tasks and threads of the client. No other module starts any.

use std::thread;

use tokio::{runtime::Handle, task::AbortHandle};

use crate::{error::Error, origin::Origin};

/// A task that is aborted when this value is dropped.
#[derive(Debug)]
pub(crate) struct Work {
    origin: Origin,
    task: AbortHandle,
}

impl Work {
    /// Starts a task on the runtime of the caller.
    ///
    /// # Errors
    ///
    /// [`Error::NoRuntime`] outside of a runtime.
    pub(crate) fn start(origin: Origin, work: impl Future<Output = ()> + Send + 'static) -> Result<Self, Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        Ok(Self { origin, task: runtime.spawn(work).abort_handle() })
    }
}

/// Runs CPU-bound work on a blocking thread of the runtime. Returns `None` if the runtime is shutting down.
pub(crate) async fn offload<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Starts a thread for work that must run even while all threads of the runtime are busy. Returns false if the system
/// cannot start a thread.
pub(crate) fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    thread::Builder::new().name(name.to_owned()).spawn(work).is_ok()
}

impl Drop for Work {
    fn drop(&mut self) {
        // A forked child has none of the runtime's threads, and one of them may have held a lock that `abort` needs.
        if !self.origin.is_elsewhere() {
            self.task.abort();
        }
    }
}
