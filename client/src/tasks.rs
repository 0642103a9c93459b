//! The one place of the client that starts work in the background.

use std::thread;

use tokio::{runtime::Handle, task::AbortHandle};

use crate::{error::Error, origin::Origin};

/// Work that is given up when this is dropped.
#[derive(Debug)]
pub(crate) struct Work {
    origin: Origin,
    task: AbortHandle,
}

impl Work {
    /// Starts work on the runtime of the caller.
    ///
    /// # Errors
    ///
    /// [`Error::NoRuntime`] outside of a runtime.
    pub(crate) fn start(origin: Origin, work: impl Future<Output = ()> + Send + 'static) -> Result<Self, Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        Ok(Self { origin, task: runtime.spawn(work).abort_handle() })
    }
}

/// Does what keeps a processor busy beside the runtime's own threads.
pub(crate) async fn offload<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Starts a thread for what must go on although all threads of a runtime are busy. False if the system has none left.
pub(crate) fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    thread::Builder::new().name(name.to_owned()).spawn(work).is_ok()
}

impl Drop for Work {
    fn drop(&mut self) {
        // A forked child has no threads of the runtime, and one may have held its locks.
        if !self.origin.is_elsewhere() {
            self.task.abort();
        }
    }
}
