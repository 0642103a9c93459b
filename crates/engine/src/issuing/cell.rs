//! The durable counter of a region or series, and this daemon's chunk of it.

use std::{
    num::NonZeroU64,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use kent_ids::Position;
use kent_issue::{Chunk, Counter, CounterPlan, CounterRefusal, NotPlanned, Reserved, Stored};
use kent_proto::stored;
use kent_regions::Count;
use kent_store::{CommitError, Key, Store, Txn, Version};
use tokio::sync::Notify;
use tracing::warn;

use crate::{
    issuing::{pacing::Pacing, queue::Queue, rate::Rate, record::Record},
    records::{
        counters::{position, read_counter},
        failure::StoreFailure,
    },
};

/// The counter of one region or series.
#[derive(Debug)]
pub struct Cell {
    counter: Mutex<Counter>,
    rate: Mutex<Rate>,
    /// The queue of strict grants.
    strict: Mutex<Queue>,
    /// Notified of changes to the turns at the counter.
    pub(crate) turned: Notify,
    /// Whether the next chunk is being reserved before the current one is used up.
    is_ahead: AtomicBool,
    /// Held while a chunk is reserved or returned, and during an edit that depends on the number of issued positions.
    pub reserving: tokio::sync::Mutex<()>,
}

/// The outcome of an attempt to reserve a chunk.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The chunk is reserved; this is the counter's new value.
    Reserved(Stored<Count>),
    /// Another daemon, or an edit, changed this record first.
    Conflict(Key),
    /// The capacity or the pace of the counter does not allow the chunk.
    Refused(CounterRefusal),
    /// The position of the counter is unknown because of a restore.
    Unsure,
}

/// The number of chunks that this process reserved because a request waited for one.
static ON_DEMAND: AtomicU64 = AtomicU64::new(0);

/// The number of chunks that this process reserved before the current one was used up.
static AHEAD: AtomicU64 = AtomicU64::new(0);

/// The number of chunks that this process has reserved, for each reason.
pub(crate) fn reservations() -> impl Iterator<Item = (&'static str, u64)> {
    [("on_demand", &ON_DEMAND), ("ahead", &AHEAD)].into_iter().map(|(reason, count)| (reason, count.load(Relaxed)))
}

impl Cell {
    /// Creates a counter without a chunk.
    pub(crate) fn new(policy: Chunk) -> Self {
        Self {
            counter: Mutex::new(Counter::new(policy)),
            rate: Mutex::default(),
            strict: Mutex::default(),
            turned: Notify::new(),
            is_ahead: AtomicBool::new(false),
            reserving: tokio::sync::Mutex::default(),
        }
    }

    /// Adds a grant of `count` identifiers to the rate.
    pub(crate) fn granted(&self, count: u64, now: Duration) {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner).add(count, now);
    }

    /// The mean rate of grants over the last five minutes, in identifiers per second.
    pub(crate) fn rate(&self, now: Duration) -> f64 {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner).per_second(now)
    }

    /// Runs `act` with the counter locked.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Counter) -> T) -> T {
        act(&mut self.counter.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Cuts `count` positions below `limit` off the chunk, if it holds enough. Returns the first position, and whether
    /// the next chunk should be reserved.
    pub(crate) fn cut(&self, count: u128, limit: Position) -> Option<(Position, bool)> {
        self.with(|counter| Some((counter.grant_below(limit, count).ok()?, counter.is_low())))
    }

    /// Returns true if the caller must start reserving the next chunk and then call [`Cell::end_ahead`].
    pub(crate) fn begin_ahead(&self) -> bool {
        !self.is_ahead.load(Relaxed) && !self.is_ahead.swap(true, Relaxed)
    }

    /// Allows [`Cell::begin_ahead`] to return true again, after a chunk was reserved.
    pub(crate) fn end_ahead(&self) {
        self.is_ahead.store(false, Relaxed);
    }

    /// Runs `act` with the queue of strict grants locked.
    pub(crate) fn with_queue<T>(&self, act: impl FnOnce(&mut Queue) -> T) -> T {
        act(&mut self.strict.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins the work of the leader of the queue.
    pub(crate) fn lead(self: &Arc<Self>) -> Lead {
        Lead { cell: self.clone(), has_ended: false }
    }

    /// Tries to reserve a chunk for at least `count` identifiers. The caller must hold the `reserving` lock.
    pub(crate) async fn try_reserve(
        &self,
        store: &dyn Store,
        pacing: &Pacing,
        record: &Record,
        count: NonZeroU64,
        now: Duration,
    ) -> Result<Attempt, StoreFailure> {
        let Stored { version, value: read } = pacing.effective(read_counter(store, &record.key).await?, record);
        if read.unsure {
            return Ok(Attempt::Unsure);
        }
        let bound = pacing.bound(record, read.paid);
        let value = Reserved { below: position(read.reserved).max(record.first), paid: read.paid };
        let read = Stored { version, value };
        let plan = match self.with(|counter| counter.plan_chunk(read, count.get(), &bound, now)) {
            Ok(plan) => plan,
            Err(NotPlanned::RolledBack(broken)) => return Err(StoreFailure::rolled_back(&record.key, broken)),
            Err(NotPlanned::Refused(refusal)) => return Ok(Attempt::Refused(refusal)),
        };
        self.commit(store, record, plan, &ON_DEMAND).await
    }

    /// Checks that a counter's record was not rolled back: see [`Counter::check`].
    pub(crate) fn check(&self, key: &Key, reserved: Position) -> Result<(), StoreFailure> {
        let checked = self.with(|counter| counter.check(reserved));
        checked.map_err(|broken| StoreFailure::rolled_back(key, broken))
    }

    /// Lets the next strict commit compare the counter that another replica has written, instead of a read. If the
    /// counter was rolled back, that commit conflicts, and the read after it fails.
    pub(crate) fn saw(&self, counter: Stored<stored::Counter>) {
        if self.with(|known| known.check(position(counter.value.reserved))).is_ok() {
            self.with_queue(|queue| queue.saw(counter));
        }
    }

    /// Tries to reserve the next chunk before the current chunk is used up, and returns the counter's new value.
    /// Returns `None` if it reserves nothing: no new chunk is needed, the pace or the capacity allows none, another
    /// daemon also reserves from the counter, an edit changed the region, or the counter's position is unknown. The
    /// caller must hold the `reserving` lock.
    pub(crate) async fn try_reserve_ahead(
        &self,
        store: &dyn Store,
        pacing: &Pacing,
        record: &Record,
        now: Duration,
    ) -> Result<Option<Stored<Count>>, StoreFailure> {
        let Stored { version, value: read } = read_counter(store, &record.key).await?;
        let bound = pacing.bound(record, read.paid);
        let read = Stored { version, value: Reserved { below: position(read.reserved), paid: read.paid } };
        let Some(plan) = self.with(|counter| counter.plan_ahead(read, &bound, now)) else { return Ok(None) };
        match self.commit(store, record, plan, &AHEAD).await? {
            Attempt::Reserved(reserved) => Ok(Some(reserved)),
            Attempt::Conflict(_) | Attempt::Refused(_) | Attempt::Unsure => Ok(None),
        }
    }

    async fn commit(
        &self,
        store: &dyn Store,
        record: &Record,
        plan: CounterPlan,
        count: &AtomicU64,
    ) -> Result<Attempt, StoreFailure> {
        let guard = Version::new(plan.guard());
        let txn = Txn::new().expect(record.key.clone(), guard);
        let counter = to_record(&plan);
        let txn = record.guards.iter().fold(txn, |txn, (key, version)| txn.expect(key.clone(), *version));
        match store.commit(txn.put(record.key.clone(), stored::encode_counter(&counter))).await {
            Ok(made) => {
                let version = made.version.get();
                self.with(|counter| counter.on_committed(plan, version));
                count.fetch_add(1, Relaxed);
                Ok(Attempt::Reserved(Stored { version, value: counter.reserved }))
            }
            Err(CommitError::Conflict { key, .. }) => Ok(Attempt::Conflict(key)),
            // If a commit with an unknown outcome succeeded, the reserved chunk becomes a gap, because the next attempt
            // reads the counter again.
            Err(error) => {
                if let CommitError::Unknown(unknown) = &error {
                    warn!(key = %record.key, %unknown, "the outcome of a reservation is unknown; the reservation may leave a gap");
                }
                Err(error.into())
            }
        }
    }

    /// The number of positions that would be reserved if the rest of the chunk were returned.
    pub(crate) fn rest_of(&self, read: Stored<stored::Counter>) -> Count {
        match read.value.reserved {
            Count::Max => Count::Max,
            Count::Below(reserved) => {
                let read = Stored { version: read.version, value: Position::new(reserved) };
                Count::Below(self.with(|counter| counter.rest_of(read)).get())
            }
        }
    }

    /// Returns the rest of the chunk to the store, unless another daemon has reserved a chunk in the meantime. Returns
    /// the counter's new value, or `None` if nothing was left or the commit failed. Nothing more is granted from the
    /// chunk. If the commit fails, the rest of the chunk becomes a gap.
    pub(crate) async fn give_back(&self, store: &dyn Store, key: &Key) -> Option<Stored<Count>> {
        let plan = self.with(|counter| counter.plan_give_back())?;
        let counter = to_record(&plan);
        let txn = Txn::new().expect(key.clone(), Version::new(plan.guard()));
        match store.commit(txn.put(key.clone(), stored::encode_counter(&counter))).await {
            Ok(made) => Some(Stored { version: made.version.get(), value: counter.reserved }),
            Err(error) => {
                warn!(%key, %error, "cannot return the rest of a chunk; the rest becomes a gap");
                None
            }
        }
    }
}

/// The record that a plan writes.
fn to_record(plan: &CounterPlan) -> stored::Counter {
    let Reserved { below, paid } = plan.reserved();
    stored::Counter { reserved: Count::Below(below.get()), paid, unsure: false }
}

/// The work of a leader. If it is dropped before it has ended, such as by a panic, the waiting requests are told that
/// their outcome is unknown.
pub(crate) struct Lead {
    cell: Arc<Cell>,
    has_ended: bool,
}

impl Lead {
    /// Ends the work: the queue has no leader any more.
    pub(crate) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if !self.has_ended {
            self.cell.with_queue(Queue::abandon);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::{budgets::Charge, error::AllocateError, host::deadline::WaitLimit, issuing::queue::QueuedRequest};

    #[tokio::test]
    async fn err_a_leader_panics() {
        let cell = Arc::new(Cell::new(Chunk::default()));
        let add = || {
            let request = QueuedRequest { count: NonZeroU64::MIN, request: None, charge: Charge::default() };
            cell.with_queue(|queue| queue.add(request, WaitLimit::new(Duration::ZERO, None)))
        };
        let (waiting, must_lead) = add();
        assert!(must_lead);
        let lead = || {
            let _lead = cell.lead();
            panic!("this panic is part of the test");
        };
        catch_unwind(AssertUnwindSafe(lead)).expect_err("it panics");
        assert!(matches!(waiting.await, Err(AllocateError::OutcomeUnknown)));
        let (_waiting, must_lead) = add();
        assert!(must_lead);
        cell.lead().end();
        assert!(!cell.with_queue(|queue| queue.is_empty()), "the end of a leader removes nothing");
    }
}
