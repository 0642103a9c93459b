//! Limits the pace of counters, and what they issue after a restore.

use std::sync::{Arc, Mutex, PoisonError};

use kent_ids::UnixNanos;
use kent_issue::{Bound, PaceClock, Stored};
use kent_proto::stored::{self, Restored};
use kent_regions::Count;
use tokio::time;

use crate::{
    error::AllocateError,
    host::{clock::Clock, deadline::WaitLimit},
    issuing::{record::Record, slots::Slots},
};

/// The state that limits the pace of a daemon's counters.
#[derive(Debug)]
pub(crate) struct Pacing {
    clock: Arc<dyn Clock>,
    slots: Arc<Slots>,
    time: Mutex<PaceClock>,
    /// The restores of this store, oldest first.
    restores: Vec<Restored>,
}

impl Pacing {
    /// Creates the state for a store with these restores in its history.
    pub(crate) fn new(clock: Arc<dyn Clock>, slots: Arc<Slots>, restores: Vec<Restored>) -> Self {
        Self { clock, slots, time: Mutex::default(), restores }
    }

    /// Fails until the wait after a restore is over.
    pub(crate) fn check_restored(&self) -> Result<(), AllocateError> {
        Ok(self.slots.check_restored()?)
    }

    /// Returns the value of a counter's record. If a restore may have lost the record, the returned value is past
    /// everything that may have been issued, or is marked as unsure.
    pub(crate) fn effective(&self, read: Stored<stored::Counter>, record: &Record) -> Stored<stored::Counter> {
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

    /// If the pace refused a reservation, waits until the pace allows it, unless the wait would exceed `wait_limit`.
    pub(crate) async fn wait(
        &self,
        reserved: Result<(), AllocateError>,
        wait_limit: WaitLimit,
    ) -> Result<(), AllocateError> {
        match reserved {
            Err(AllocateError::TooFast { wait: Some(wait), .. }) if wait <= wait_limit.left(self.clock.steady()) => {
                time::sleep(wait).await;
                Ok(())
            }
            reserved => reserved,
        }
    }

    /// Returns the bound for a reservation from the counter of `record`, which has used its pace until the time `paid`.
    pub(crate) fn bound(&self, record: &Record, paid: UnixNanos) -> Bound {
        let (wall, steady) = (self.slots.trusted_now(), self.clock.steady());
        let mut time = self.time.lock().unwrap_or_else(PoisonError::into_inner);
        time.read(wall, steady);
        let Record { capacity, pace, stride, .. } = *record;
        Bound { capacity, pace, time: time.catch_up(paid), stride }
    }
}
