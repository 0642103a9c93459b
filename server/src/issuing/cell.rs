//! One durable counter, as far as this daemon has reserved: what regions' counters and series share.

use std::{
    num::NonZeroU64,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use kent_ids::Position;
use kent_issue::{Chunk, Counter, CounterPlan, CounterRefusal, Reserved, Stored};
use kent_proto::stored;
use kent_regions::Count;
use kent_store::{CommitError, Key, Store, Txn, Version};
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
pub(crate) struct Cell {
    counter: Mutex<Counter>,
    rate: Mutex<Rate>,
    /// Requests for grants that must be durable first.
    strict: Mutex<Queue>,
    /// Whether the next chunk is being reserved while the present one is used.
    is_ahead: AtomicBool,
    /// Held while a chunk is reserved, or while an edit decides about what is issued.
    pub(crate) reserving: tokio::sync::Mutex<()>,
}

/// How an attempt to reserve a chunk ended.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The counter's record says this now.
    Reserved(Stored<Count>),
    /// Another daemon, or an edit, wrote this record first.
    Conflict(Key),
    /// The counter does not allow it.
    Refused(CounterRefusal),
    /// After a restore it is not known how far the counter had come.
    Unsure,
}

impl Cell {
    /// A counter without a chunk.
    pub(crate) fn new(policy: Chunk) -> Self {
        Self {
            counter: Mutex::new(Counter::new(policy)),
            rate: Mutex::default(),
            strict: Mutex::default(),
            is_ahead: AtomicBool::new(false),
            reserving: tokio::sync::Mutex::default(),
        }
    }

    /// Takes note of a grant of `count`.
    pub(crate) fn granted(&self, count: u64, now: Duration) {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner).add(count, now);
    }

    /// Positions a second that were granted over the last minutes.
    pub(crate) fn rate(&self, now: Duration) -> f64 {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner).per_second(now)
    }

    /// Uses the counter, for a moment.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Counter) -> T) -> T {
        act(&mut self.counter.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Cuts `count` positions off the chunk in hand, if it holds as many: the first, and whether the next chunk should be reserved.
    pub(crate) fn cut(&self, count: NonZeroU64) -> Option<(Position, bool)> {
        self.with(|counter| Some((counter.grant(count.get()).ok()?, counter.is_low())))
    }

    /// True for whoever must see to it that the next chunk is reserved, and then say [`Cell::end_ahead`].
    pub(crate) fn begin_ahead(&self) -> bool {
        !self.is_ahead.load(Relaxed) && !self.is_ahead.swap(true, Relaxed)
    }

    /// The next chunk is no longer being reserved.
    pub(crate) fn end_ahead(&self) {
        self.is_ahead.store(false, Relaxed);
    }

    /// Uses the queue of requests for durable grants, for a moment.
    pub(crate) fn with_queue<T>(&self, act: impl FnOnce(&mut Queue) -> T) -> T {
        act(&mut self.strict.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tries to reserve a chunk that holds `count`. The caller holds `reserving`.
    pub(crate) async fn try_reserve(
        &self,
        store: &dyn Store,
        pacing: &Pacing,
        record: &Record,
        count: NonZeroU64,
        now: Duration,
    ) -> Result<Attempt, StoreFailure> {
        let Stored { version, value: read } = pacing.known(read_counter(store, &record.key).await?, record);
        if read.unsure {
            return Ok(Attempt::Unsure);
        }
        let bound = pacing.bound(record.capacity, record.pace, read.paid);
        let value = Reserved { below: position(read.reserved).max(record.first), paid: read.paid };
        let read = Stored { version, value };
        let plan = match self.with(|counter| counter.plan_chunk(read, count.get(), &bound, now)) {
            Ok(plan) => plan,
            Err(refusal) => return Ok(Attempt::Refused(refusal)),
        };
        self.commit(store, record, plan).await
    }

    /// Tries to reserve the next chunk before the present one is used up, and says what the record says then; not if there is no
    /// need, or another daemon draws from the counter. The caller holds `reserving`.
    pub(crate) async fn try_reserve_ahead(
        &self,
        store: &dyn Store,
        pacing: &Pacing,
        record: &Record,
        now: Duration,
    ) -> Result<Option<Stored<Count>>, StoreFailure> {
        let Stored { version, value: read } = read_counter(store, &record.key).await?;
        let bound = pacing.bound(record.capacity, record.pace, read.paid);
        let read = Stored { version, value: Reserved { below: position(read.reserved), paid: read.paid } };
        let Some(plan) = self.with(|counter| counter.plan_ahead(read, &bound, now)) else { return Ok(None) };
        match self.commit(store, record, plan).await? {
            Attempt::Reserved(reserved) => Ok(Some(reserved)),
            Attempt::Conflict(_) | Attempt::Refused(_) | Attempt::Unsure => Ok(None),
        }
    }

    async fn commit(&self, store: &dyn Store, record: &Record, plan: CounterPlan) -> Result<Attempt, StoreFailure> {
        let guard = Version::new(plan.guard());
        let txn = Txn::new().expect(record.key.clone(), guard);
        let counter = written(&plan);
        let txn = match &record.guard {
            Some((key, version)) => txn.expect(key.clone(), *version),
            None => txn,
        };
        match store.commit(txn.put(record.key.clone(), stored::encode_counter(&counter))).await {
            Ok(made) => {
                let version = made.version.get();
                self.with(|counter| counter.on_committed(plan, version));
                Ok(Attempt::Reserved(Stored { version, value: counter.reserved }))
            }
            Err(CommitError::Conflict { key, .. }) => Ok(Attempt::Conflict(key)),
            // Whatever an unknown commit reserved is a gap: the next attempt reads where the counter is now.
            Err(error) => {
                if let CommitError::Unknown(unknown) = &error {
                    warn!(key = %record.key, %unknown, "a reservation may be a gap");
                }
                Err(error.into())
            }
        }
    }

    /// How many positions would be reserved if the rest of the chunk in hand were given back.
    pub(crate) fn rest_of(&self, read: Stored<stored::Counter>) -> Count {
        match read.value.reserved {
            Count::Max => Count::Max,
            Count::Below(reserved) => {
                let read = Stored { version: read.version, value: Position::new(reserved) };
                Count::Below(self.with(|counter| counter.rest_of(read)).get())
            }
        }
    }

    /// Gives the rest of the chunk in hand back, if nobody has reserved since, and says how many positions are reserved then.
    /// Nothing is granted from it any more, whatever the store answers; if it does not take it back, it is a gap.
    pub(crate) async fn give_back(&self, store: &dyn Store, key: &Key) -> Option<Stored<Count>> {
        let plan = self.with(|counter| counter.plan_give_back())?;
        let counter = written(&plan);
        let txn = Txn::new().expect(key.clone(), Version::new(plan.guard()));
        match store.commit(txn.put(key.clone(), stored::encode_counter(&counter))).await {
            Ok(made) => Some(Stored { version: made.version.get(), value: counter.reserved }),
            Err(error) => {
                warn!(%key, %error, "the rest of a chunk is a gap");
                None
            }
        }
    }
}

/// What a plan writes.
fn written(plan: &CounterPlan) -> stored::Counter {
    let Reserved { below, paid } = plan.reserved();
    stored::Counter { reserved: Count::Below(below.get()), paid, unsure: false }
}
