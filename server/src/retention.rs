//! Forgets what is kept for a time only: in the background, a page at a time.
//!
//! Every replica does it. They may do it at the same time: each removes only what lies below a floor that is durable.

use std::{sync::Arc, time::Duration};

use kent_store::Store;
use tokio::time;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{clock::Clock, error::StoreFailure, requests::Requests};

/// What is forgotten, and where.
#[derive(Debug)]
pub(crate) struct Retention {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) requests: Arc<Requests>,
}

/// It is looked for what is due this often, and for short retentions more often.
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// After a page the store is left alone for as many times as long as the page took.
const REST: u32 = 3;

impl Retention {
    /// Forgets what is due, until `stop`.
    pub(crate) async fn keep(self, retention: Duration, stop: CancellationToken) {
        let interval = (retention / 10).min(INTERVAL_MAX);
        let keeping = async {
            loop {
                time::sleep(interval).await;
                if let Err(error) = self.forget().await {
                    warn!(%error, "what is due could not be forgotten yet");
                }
            }
        };
        // OK because what breaks off in the middle is gone on with by whoever is next.
        stop.run_until_cancelled(keeping).await;
    }

    async fn forget(&self) -> Result<(), StoreFailure> {
        loop {
            let began = self.clock.steady();
            let more = self.requests.forget(&*self.store).await?;
            if !more {
                return Ok(());
            }
            // Others want the store as well.
            time::sleep(REST * self.clock.steady().saturating_sub(began)).await;
        }
    }
}

#[cfg(test)]
mod tests;
