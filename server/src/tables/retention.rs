//! Forgets what is kept for a time only: in the background, a page at a time.
//!
//! Every replica does it. They may do it at the same time: each removes only what lies below a floor that is durable.

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

/// What is forgotten, and where.
#[derive(Debug)]
pub(crate) struct Retention {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) requests: Arc<Requests>,
    pub(crate) directory: Arc<Directory>,
    /// The edits of each table that are kept.
    pub(crate) history_keep: u64,
}

/// Which edits were forgotten of each table when it was last looked at, by the key of the space.
#[derive(Debug, Default)]
struct Edits(HashMap<String, Forgotten>);

/// It is looked for what is due this often, and for short retentions more often.
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// After a page the store is left alone for as many times as long as the page took.
const REST: u32 = 3;

impl Retention {
    /// Forgets what is due, until `stop`.
    pub(crate) async fn keep(self, retention: Duration, stop: CancellationToken) {
        let interval = (retention / 10).min(INTERVAL_MAX);
        let mut edits = Edits::default();
        let keeping = async {
            loop {
                time::sleep(interval).await;
                if let Err(error) = self.forget(&mut edits).await {
                    warn!(%error, "what is due could not be forgotten yet");
                }
            }
        };
        // OK because the next run goes on where this one broke off.
        stop.run_until_cancelled(keeping).await;
    }

    async fn forget(&self, edits: &mut Edits) -> Result<(), StoreFailure> {
        while self.rested(self.requests.forget(&*self.store)).await? {}
        for space in self.directory.spaces() {
            let present = space.read(Table::revision).0;
            let is_first = !edits.0.contains_key(space.key());
            let known = edits.0.get(space.key()).copied().unwrap_or_default();
            if known.excess(present, self.history_keep) == 0 && !is_first {
                continue;
            }
            loop {
                let (forgotten, more) = self.rested(history::forget(&*self.store, &space, self.history_keep)).await?;
                edits.0.insert(space.key().to_owned(), forgotten);
                if !more {
                    break;
                }
            }
        }
        Ok(())
    }

    /// A step of forgetting, and then a rest: others want the store as well.
    async fn rested<T>(&self, step: impl Future<Output = Result<T, StoreFailure>>) -> Result<T, StoreFailure> {
        let began = self.clock.steady();
        let done = step.await;
        time::sleep(REST * self.clock.steady().saturating_sub(began)).await;
        done
    }
}

#[cfg(test)]
mod tests;
