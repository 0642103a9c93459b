//! Checks every interleaving, with up to three preemptions, of threads that share one counter: threads that grant, one
//! that prefetches a chunk, and an edit that gives back the rest of the chunk or seals the region.
//!
//! The code under test is `kent_issue::Counter`. The locks copy those of `crates/engine/src/issuing/cell.rs` and
//! `crates/engine/src/tables/space.rs`, with types from loom. Unlike shuttle, loom is exhaustive within this bound, and
//! it also explores the reorderings that `Relaxed` atomics allow.

use std::{sync::PoisonError, time::Duration};

use kent_ids::{Position, Stride, UnixNanos};
use kent_issue::{Bound, Chunk, Counter, CounterPlan, Reserved, Stored};
use kent_regions::Pace;
use loom::{
    model::Builder,
    sync::{
        Arc, Mutex, MutexGuard, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

/// The counter of one region, in a daemon and in the store.
struct Shared {
    counter: Mutex<Counter>,
    /// Held while a chunk is reserved, and while an edit settles the counter.
    reserving: Mutex<()>,
    is_ahead: AtomicBool,
    /// The number of threads that are prefetching a chunk.
    ahead: AtomicUsize,
    /// Whether the region is sealed, according to the table.
    sealed: RwLock<bool>,
    /// Whether the seal is confirmed. If so, no thread may grant.
    in_effect: AtomicBool,
    store: Mutex<Stored<Reserved>>,
    granted: Mutex<Vec<u128>>,
}

const CAPACITY: Position = Position::new(1024);
/// The paid-until time of every counter.
const TIME: UnixNanos = UnixNanos::new(0);
const CHUNK: Chunk = Chunk { min: 2, max: 4 };

fn bound() -> Bound {
    Bound { capacity: CAPACITY, pace: Pace::for_bits(10), time: TIME, stride: Stride::EVERY }
}

impl Shared {
    /// Returns a busy counter with two numbers left in its chunk, so that the next grant starts a prefetch.
    fn new() -> Arc<Self> {
        let shared = Self {
            counter: Mutex::new(Counter::new(CHUNK)),
            reserving: Mutex::new(()),
            is_ahead: AtomicBool::new(false),
            ahead: AtomicUsize::new(0),
            sealed: RwLock::new(false),
            in_effect: AtomicBool::new(false),
            store: Mutex::new(Stored { version: 0, value: Reserved { below: Position::ZERO, paid: TIME } }),
            granted: Mutex::new((0..4).collect()),
        };
        for now in 0..2 {
            shared.reserve(|counter, read| counter.plan_chunk(read, 1, &bound(), Duration::from_millis(now)).ok());
        }
        assert!(shared.counter().grant(4).is_ok());
        Arc::new(shared)
    }

    fn counter(&self) -> MutexGuard<'_, Counter> {
        self.counter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self) -> MutexGuard<'_, Stored<Reserved>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a chunk like `Cell::try_reserve` and `Cell::try_reserve_ahead`: reads, plans, commits, and raises the
    /// ceiling.
    fn reserve(&self, plan: impl FnOnce(&mut Counter, Stored<Reserved>) -> Option<CounterPlan>) {
        let _reserving = self.reserving.lock();
        let read = *self.store();
        let Some(plan) = plan(&mut self.counter(), read) else { return };
        if let Some(version) = self.commit(&plan) {
            self.counter().on_committed(plan, version);
        }
    }

    fn commit(&self, plan: &CounterPlan) -> Option<u64> {
        let mut store = self.store();
        if store.version != plan.guard() {
            return None;
        }
        *store = Stored { version: store.version + 1, value: plan.reserved() };
        Some(store.version)
    }

    /// Records a grant, and checks that its position was not granted before.
    fn record(&self, first: Position) {
        assert!(!self.in_effect.load(Relaxed), "granted although the seal is in effect");
        let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!granted.contains(&first.get()), "{first:?} was granted twice");
        granted.push(first.get());
    }

    /// Grants like `Counters::grant_from_chunk`: checks the seal and cuts the chunk under a lock that also blocks
    /// edits.
    fn grant(&self) {
        let sealed = self.sealed.read().unwrap_or_else(PoisonError::into_inner);
        if *sealed {
            return;
        }
        self.cut();
        drop(sealed);
    }

    /// Checks the seal and cuts the chunk, without holding the lock across both steps.
    fn grant_unchecked(&self) {
        if !*self.sealed.read().unwrap_or_else(PoisonError::into_inner) {
            self.cut();
        }
    }

    fn cut(&self) {
        let granted = {
            let mut counter = self.counter();
            counter.grant(1).map(|first| (first, counter.is_low()))
        };
        let Ok((first, is_low)) = granted else { return };
        self.record(first);
        if is_low && !self.is_ahead.load(Relaxed) && !self.is_ahead.swap(true, Relaxed) {
            assert_eq!(self.ahead.fetch_add(1, Relaxed), 0, "two threads prefetch concurrently");
            self.reserve(|counter, read| counter.plan_ahead(read, &bound(), Duration::from_millis(5)));
            self.ahead.fetch_sub(1, Relaxed);
            self.is_ahead.store(false, Relaxed);
        }
    }

    /// Settles the counter like `Directory::settle`, and checks that it is above every granted position.
    fn settle(&self) -> Position {
        let _reserving = self.reserving.lock();
        let rest = self.counter().plan_give_back();
        if let Some(rest) = rest {
            self.commit(&rest);
        }
        let settled = self.store().value.below;
        let granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(granted.iter().all(|position| *position < settled.get()), "{granted:?} of {settled:?}");
        settled
    }

    /// Seals the region, and then marks the seal as in effect.
    fn seal(&self) {
        *self.sealed.write().unwrap_or_else(PoisonError::into_inner) = true;
        self.in_effect.store(true, Relaxed);
    }
}

/// Runs threads on one counter in every interleaving with up to three preemptions.
fn explore(threads: &'static [fn(&Shared)]) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let shared = Shared::new();
        let running: Vec<_> = threads
            .iter()
            .map(|act| {
                let shared = shared.clone();
                thread::spawn(move || act(&shared))
            })
            .collect();
        for thread in running {
            assert!(thread.join().is_ok());
        }
        let (granted, reserved) =
            (shared.granted.lock().unwrap_or_else(PoisonError::into_inner), shared.store().value.below);
        assert!(granted.iter().all(|position| *position < reserved.get()), "{granted:?} beyond {reserved:?}");
    });
}

#[test]
fn ok_threads_grant_while_one_prefetches() {
    explore(&[|shared| (0..2).for_each(|_| shared.grant()), |shared| (0..2).for_each(|_| shared.grant())]);
}

#[test]
fn ok_a_settled_counter_covers_every_grant() {
    explore(&[
        |shared| (0..2).for_each(|_| shared.grant()),
        |shared| shared.grant(),
        |shared| {
            shared.settle();
        },
    ]);
}

#[test]
fn ok_nothing_is_granted_once_a_seal_is_in_effect() {
    explore(&[|shared| shared.grant(), |shared| shared.grant(), Shared::seal]);
}

/// Shows that without the lock, a thread can pause between the check of the seal and the cut.
#[test]
#[should_panic(expected = "granted although the seal is in effect")]
fn err_a_thread_that_pauses_after_its_check_grants_from_a_sealed_region() {
    explore(&[Shared::grant_unchecked, Shared::seal]);
}
