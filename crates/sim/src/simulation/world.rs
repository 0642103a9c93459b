//! Simulated clocks and randomness, all derived from one seed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kent_ids::UnixNanos;
use kentd::{clock::Clock, entropy::Entropy};
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use tokio::time::Instant;

/// The random generator that all parts of a run share. The order in which they draw from the generator is
/// deterministic.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Arc<Mutex<StdRng>>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// Returns a random number from `low` to `high`, both included.
    pub(crate) fn between(&self, low: u64, high: u64) -> u64 {
        self.lock().random_range(low..=high)
    }

    /// Returns true with the given probability in thousandths.
    pub(crate) fn per_mille(&self, probability: u64) -> bool {
        self.between(0, 999) < probability
    }

    /// Returns a random element of a slice, or `None` if the slice is empty.
    pub(crate) fn pick<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        let last = of.len().checked_sub(1)?;
        // OK because every index of a slice fits into usize.
        of.get(self.between(0, last as u64) as usize)
    }

    /// Returns a random duration from `low` to `high` milliseconds.
    pub(crate) fn millis(&self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// Returns sixteen random bytes.
    pub(crate) fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        bytes
    }

    /// Returns a new generator, seeded from this one.
    pub(crate) fn rng(&self) -> StdRng {
        StdRng::seed_from_u64(self.lock().random())
    }

    fn lock(&self) -> MutexGuard<'_, StdRng> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entropy for Dice {
    fn fill(&self, bytes: &mut [u8]) {
        self.lock().fill_bytes(bytes);
    }
}

/// The wall clock of one machine, which faults may set, and its time since boot.
#[derive(Debug)]
pub(crate) struct Machine {
    boot: Instant,
    /// The constant offset of the wall clock from true time in nanoseconds.
    constant: i128,
    /// The drift of the wall clock in millionths.
    drift: i128,
    /// The additional offset that a fault has set, in nanoseconds.
    off: Mutex<i128>,
}

/// The true time at which every run begins: 2026-11-21.
const BEGINNING: i128 = 1_795_219_200_000_000_000;
const MILLION: i128 = 1_000_000;

impl Machine {
    pub(crate) fn new(boot: Instant, constant: i128, drift: i128) -> Self {
        Self { boot, constant, drift, off: Mutex::new(0) }
    }

    /// Sets the additional offset of the wall clock, in nanoseconds.
    pub(crate) fn set_off(&self, off: i128) {
        *self.off.lock().unwrap_or_else(PoisonError::into_inner) = off;
    }
}

impl Clock for Machine {
    fn wall(&self) -> UnixNanos {
        let elapsed = i128::try_from(self.boot.elapsed().as_nanos()).unwrap_or(i128::MAX / MILLION / MILLION);
        let shown = elapsed + elapsed * self.drift / MILLION + self.constant;
        UnixNanos::new(BEGINNING + shown + *self.off.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn steady(&self) -> Duration {
        self.boot.elapsed()
    }
}
