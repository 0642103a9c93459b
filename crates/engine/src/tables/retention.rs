//! Removes expired request IDs and old edits in the background, a page at a time.
//!
//! All replicas can do this at the same time, because each replica removes only records below a durable floor.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kent_issue::Forgotten;
use kent_regions::Table;
use kent_store::Store;
use tokio::time;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{
    host::clock::Clock,
    issuing::requests::Requests,
    records::failure::StoreFailure,
    tables::{directory::Directory, history},
};

/// The retention task.
#[derive(Debug)]
pub(crate) struct Retention {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) requests: Arc<Requests>,
    pub(crate) directory: Arc<Directory>,
    /// The number of edits to keep for each table.
    pub(crate) history_keep: u64,
}

/// The forgotten part of each table's history as of the last check, by the key of the space.
#[derive(Debug, Default)]
struct Edits(HashMap<String, Forgotten>);

/// The maximum interval between two checks; with a short retention, checks are more frequent.
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// After each page, the task pauses for this multiple of the time that the page took.
const PAUSE_FACTOR: u32 = 3;

impl Retention {
    /// Removes expired records until `stop`.
    pub(crate) async fn keep(self, retention: Duration, stop: CancellationToken) {
        let interval = (retention / 10).min(INTERVAL_MAX);
        let mut edits = Edits::default();
        let keeping = async {
            loop {
                time::sleep(interval).await;
                if let Err(error) = self.forget(&mut edits).await {
                    warn!(%error, "cannot remove expired records yet");
                }
            }
        };
        // OK because the next run continues where this one stopped.
        stop.run_until_cancelled(keeping).await;
    }

    async fn forget(&self, edits: &mut Edits) -> Result<(), StoreFailure> {
        while self.run_and_pause(self.requests.forget(&*self.store)).await? {}
        for space in self.directory.spaces() {
            let present = space.read(Table::revision).0;
            let is_first = !edits.0.contains_key(space.key());
            let known = edits.0.get(space.key()).copied().unwrap_or_default();
            if known.excess(present, self.history_keep) == 0 && !is_first {
                continue;
            }
            loop {
                let (forgotten, more) =
                    self.run_and_pause(history::forget(&*self.store, &space, self.history_keep)).await?;
                edits.0.insert(space.key().to_owned(), forgotten);
                if !more {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Runs a step and then pauses, so that other tasks can use the store.
    async fn run_and_pause<T>(&self, step: impl Future<Output = Result<T, StoreFailure>>) -> Result<T, StoreFailure> {
        let began = self.clock.steady();
        let done = step.await;
        time::sleep(PAUSE_FACTOR * self.clock.steady().saturating_sub(began)).await;
        done
    }
}
