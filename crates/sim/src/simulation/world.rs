//! Simulated clocks and chance: everything comes from one seed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kent_ids::UnixNanos;
use kentd::{clock::Clock, entropy::Entropy};
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use tokio::time::Instant;

/// Chance, shared by all that happens in a run; who asks when is as repeatable as the rest.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Arc<Mutex<StdRng>>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&self, low: u64, high: u64) -> u64 {
        self.lock().random_range(low..=high)
    }

    /// True so often in a thousand.
    pub(crate) fn per_mille(&self, often: u64) -> bool {
        self.between(0, 999) < often
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        let last = of.len().checked_sub(1)?;
        // OK because an index of a slice in hand fits.
        of.get(self.between(0, last as u64) as usize)
    }

    /// A time from `low` to `high` milliseconds.
    pub(crate) fn millis(&self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// Sixteen random bytes.
    pub(crate) fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        bytes
    }

    /// A generator of its own.
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

/// The wall clock of one machine, which anything may happen to, and its time since boot.
#[derive(Debug)]
pub(crate) struct Machine {
    boot: Instant,
    /// What the wall clock is ahead of the truth at boot, whatever happens later, in nanoseconds.
    constant: i128,
    /// By how many millionths it goes too fast.
    drift: i128,
    /// What something has set it ahead, in nanoseconds.
    off: Mutex<i128>,
}

/// When every run begins: 2026-11-21.
const BEGINNING: i128 = 1_795_219_200_000_000_000;
const MILLION: i128 = 1_000_000;

impl Machine {
    pub(crate) fn new(boot: Instant, constant: i128, drift: i128) -> Self {
        Self { boot, constant, drift, off: Mutex::new(0) }
    }

    /// Sets the wall clock this many nanoseconds ahead of what it would show by itself.
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
