//! The source of a handle. The source may change once its region closes.

use std::sync::{Arc, Mutex, PoisonError};

use kent_proto::v1::{AllocateRequest, Encoding};

use tracing::info;

use crate::error::Error;

/// A source. If its region is closed, a source with `follows_heirs` moves to the region that continues the numbers.
#[derive(Debug)]
pub(crate) struct Source {
    /// The name that the program set. Requests with a request ID use this name even after a move, because the heir
    /// would grant a second block for the same ID.
    pub(crate) first: Arc<str>,
    name: Mutex<Arc<str>>,
    follows_heirs: bool,
}

/// The maximum number of moves within one call. The daemon names the last heir, so a second move is needed only if that region has closed
/// in the meantime.
const MOVES_MAX: usize = 16;

impl Source {
    pub(crate) fn new(name: &str, follows_heirs: bool) -> Self {
        let first: Arc<str> = name.into();
        Self { name: Mutex::new(first.clone()), first, follows_heirs }
    }

    /// Returns the current name.
    pub(crate) fn name(&self) -> Arc<str> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a call for the current source. If its region is closed and the source follows heirs, calls again for the
    /// heir.
    pub(crate) async fn ask<T, F>(&self, mut call: impl FnMut(Arc<str>) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut moves = 0;
        loop {
            let name = self.name();
            let error = match call(name.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match error.heir().filter(|_| self.follows_heirs && moves < MOVES_MAX) {
                Some(heir) => self.move_to(&name, heir.into()),
                None => return Err(error),
            }
            moves += 1;
        }
    }

    /// Moves to the heir, unless another call has already done so.
    fn move_to(&self, closed: &Arc<str>, heir: Arc<str>) {
        let mut name = self.name.lock().unwrap_or_else(PoisonError::into_inner);
        if *name == *closed {
            info!(closed = &**closed, heir = &*heir, "the region is closed; following its heir");
            *name = heir;
        }
    }
}

/// Returns a request for a block of a source.
pub(crate) fn lease(source: &str, count: u64) -> AllocateRequest {
    AllocateRequest { source: source.to_owned(), count, encoding: Encoding::Lease.into(), ..AllocateRequest::default() }
}
