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
use kent_issue::{Chunk, Counter, CounterPlan, CounterRefusal, Stored};
use kent_proto::stored;
use kent_regions::Count;
use kent_store::{CommitError, Key, Store, Txn, Version, Versioned};
use tracing::warn;

use crate::{error::StoreFailure, rate::Rate, strict};

/// The counter of one region or series.
#[derive(Debug)]
pub(crate) struct Cell {
    counter: Mutex<Counter>,
    rate: Mutex<Rate>,
    /// Requests for grants that must be durable first.
    strict: Mutex<strict::Queue>,
    /// Whether the next chunk is being reserved while the present one is used.
    is_ahead: AtomicBool,
    /// Held while a chunk is reserved, or while an edit decides about what is issued.
    pub(crate) reserving: tokio::sync::Mutex<()>,
}

/// The durable side of a counter: where it is, and what bounds it.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: Key,
    /// Another record that must not have changed when a chunk is reserved.
    pub(crate) guard: Option<(Key, Version)>,
    /// Where the counter begins.
    pub(crate) first: Position,
    /// One past the last position that can be granted.
    pub(crate) capacity: Position,
}

/// How an attempt to reserve a chunk ended.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// So many positions are reserved now.
    Reserved(Count),
    /// Somebody else wrote this record first.
    Conflict(Key),
    /// There is no room for as many.
    Full(CounterRefusal),
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

    /// True for whoever must see to it that the next chunk is reserved, and then say [`Cell::end_ahead`].
    pub(crate) fn begin_ahead(&self) -> bool {
        !self.is_ahead.load(Relaxed) && !self.is_ahead.swap(true, Relaxed)
    }

    /// The next chunk is no longer being reserved.
    pub(crate) fn end_ahead(&self) {
        self.is_ahead.store(false, Relaxed);
    }

    /// Uses the queue of requests for durable grants, for a moment.
    pub(crate) fn with_queue<T>(&self, act: impl FnOnce(&mut strict::Queue) -> T) -> T {
        act(&mut self.strict.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tries to reserve a chunk that holds `count`. The caller holds `reserving`.
    pub(crate) async fn try_reserve(
        &self,
        store: &dyn Store,
        record: &Record,
        count: NonZeroU64,
        now: Duration,
    ) -> Result<Attempt, StoreFailure> {
        let read = read_counter(store, &record.key).await?;
        let value = position(read.value).max(record.first);
        let read = Stored { version: read.version, value };
        let plan = match self.with(|counter| counter.plan_chunk(read, count.get(), record.capacity, now)) {
            Ok(plan) => plan,
            Err(full) => return Ok(Attempt::Full(full)),
        };
        self.commit(store, record, plan).await
    }

    /// Tries to reserve the next chunk before the present one is used up, and says how many positions are reserved then; not if
    /// there is no need, or somebody else draws from the counter. The caller holds `reserving`.
    pub(crate) async fn try_reserve_ahead(
        &self,
        store: &dyn Store,
        record: &Record,
        now: Duration,
    ) -> Result<Option<Count>, StoreFailure> {
        let read = read_counter(store, &record.key).await?;
        let read = Stored { version: read.version, value: position(read.value) };
        let Some(plan) = self.with(|counter| counter.plan_ahead(read, record.capacity, now)) else { return Ok(None) };
        match self.commit(store, record, plan).await? {
            Attempt::Reserved(reserved) => Ok(Some(reserved)),
            Attempt::Conflict(_) | Attempt::Full(_) => Ok(None),
        }
    }

    async fn commit(&self, store: &dyn Store, record: &Record, plan: CounterPlan) -> Result<Attempt, StoreFailure> {
        let reserved = Count::Below(plan.reserved().get());
        let guard = Version::new(plan.guard());
        let txn = Txn::new().expect(record.key.clone(), guard);
        let txn = match &record.guard {
            Some((key, version)) => txn.expect(key.clone(), *version),
            None => txn,
        };
        match store.commit(txn.put(record.key.clone(), stored::encode_counter(reserved))).await {
            Ok(made) => {
                self.with(|counter| counter.on_committed(plan, made.version.get()));
                Ok(Attempt::Reserved(reserved))
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
    pub(crate) fn rest_of(&self, read: Stored<Count>) -> Count {
        match read.value {
            Count::Max => Count::Max,
            Count::Below(reserved) => {
                let read = Stored { version: read.version, value: Position::new(reserved) };
                Count::Below(self.with(|counter| counter.rest_of(read)).get())
            }
        }
    }

    /// Gives the rest of the chunk in hand back, if nobody has reserved since, and says how many positions are reserved then.
    /// Nothing is granted from it any more, whatever the store answers; if it does not take it back, it is a gap.
    pub(crate) async fn give_back(&self, store: &dyn Store, key: &Key) -> Option<Count> {
        let plan = self.with(|counter| counter.plan_give_back())?;
        let reserved = Count::Below(plan.reserved().get());
        let txn = Txn::new().expect(key.clone(), Version::new(plan.guard()));
        match store.commit(txn.put(key.clone(), stored::encode_counter(reserved))).await {
            Ok(_) => Some(reserved),
            Err(error) => {
                warn!(%key, %error, "the rest of a chunk is a gap");
                None
            }
        }
    }
}

/// Reads a counter: how many positions are reserved, and the version to compare.
pub(crate) async fn read_counter(store: &dyn Store, key: &Key) -> Result<Stored<Count>, StoreFailure> {
    match store.get(key).await? {
        Some(Versioned { version, value }) => {
            Ok(Stored { version: version.get(), value: stored::decode_counter(&value)? })
        }
        None => Ok(Stored { version: 0, value: Count::ZERO }),
    }
}

/// A counter as a position; 2^128 is as good as the last one.
fn position(count: Count) -> Position {
    Position::new(count.get().unwrap_or(u128::MAX))
}
