//! The time by which counters are paid for, and what a restored store may issue.

use std::sync::{Arc, Mutex, PoisonError};

use kent_ids::{Position, UnixNanos};
use kent_issue::{Bound, PaceClock, Stored};
use kent_proto::stored::{self, Restored};
use kent_regions::{Count, Pace};
use kent_store::Store;
use tokio::time;

use crate::{
    error::AllocateError,
    host::{clock::Clock, deadline::Patience},
    issuing::{record::Record, slots::Slots},
    records::{counters::restores, failure::StoreFailure},
};

/// What counters are paid by. One for all counters of a daemon.
#[derive(Debug)]
pub(crate) struct Pacing {
    clock: Arc<dyn Clock>,
    slots: Arc<Slots>,
    time: Mutex<PaceClock>,
    /// Oldest first.
    restores: Vec<Restored>,
}

impl Pacing {
    /// Reads whether the store was restored.
    pub(crate) async fn load(
        store: &dyn Store,
        clock: Arc<dyn Clock>,
        slots: Arc<Slots>,
    ) -> Result<Arc<Self>, StoreFailure> {
        let restores = restores(store).await?;
        Ok(Arc::new(Self { clock, slots, time: Mutex::default(), restores }))
    }

    /// Refuses while another clock may have issued from what was lost.
    pub(crate) fn check_restored(&self) -> Result<(), AllocateError> {
        let Some(until) = self.restores.iter().map(|restored| restored.lapse.until).max() else { return Ok(()) };
        match self.slots.believed() {
            Some(now) if now >= until => Ok(()),
            now => Err(AllocateError::Restored { until, now }),
        }
    }

    /// What a counter's record says. One that is missing after a restore may have been lost: it is where it can have come to.
    pub(crate) fn known(&self, read: Stored<stored::Counter>, record: &Record) -> Stored<stored::Counter> {
        if read.version != 0 {
            return read;
        }
        let (first, capacity) = (Count::Below(record.first.get()), Count::Below(record.capacity.get()));
        let value = match record.is_of_table {
            true => stored::Counter::of_region(first, &self.restores),
            false => stored::Counter::of_series(first, &self.restores, record.pace, capacity),
        };
        Stored { version: read.version, value }
    }

    /// Waits until the pace allows what it refused, if the caller has the patience.
    pub(crate) async fn wait(
        &self,
        reserved: Result<(), AllocateError>,
        patience: Patience,
    ) -> Result<(), AllocateError> {
        match reserved {
            Err(AllocateError::TooFast { wait: Some(wait), .. }) if wait <= patience.left(self.clock.steady()) => {
                time::sleep(wait).await;
                Ok(())
            }
            reserved => reserved,
        }
    }

    /// What bounds a reservation from a counter whose record says that it is paid until `paid`.
    pub(crate) fn bound(&self, capacity: Position, pace: Pace, paid: UnixNanos) -> Bound {
        let (wall, steady) = (self.slots.believed(), self.clock.steady());
        let mut time = self.time.lock().unwrap_or_else(PoisonError::into_inner);
        time.read(wall, steady);
        Bound { capacity, pace, time: time.catch_up(paid) }
    }
}
