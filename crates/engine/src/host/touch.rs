//! When the store was last reached: a replica that has not reached it for longer than its window may have missed
//! changes of other replicas.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use super::clock::Clock;

/// When the store was last reached.
#[derive(Debug)]
pub struct Touch {
    clock: Arc<dyn Clock>,
    window: Duration,
    /// The start of the last complete refresh, in milliseconds on the steady clock.
    steady: AtomicU64,
    /// The start of the last complete refresh, in milliseconds on the wall clock. Both times are needed: while the
    /// machine is paused, either of its clocks may stop, but time continues for the other replicas.
    wall: AtomicI64,
}

/// The longest window that the settings allow.
pub const WINDOW_MAX: Duration = Duration::from_secs(3600);

/// The value before the first refresh.
const NEVER: u64 = u64::MAX;

impl Touch {
    pub(crate) fn new(clock: Arc<dyn Clock>, window: Duration) -> Self {
        Self { clock, window, steady: AtomicU64::new(NEVER), wall: AtomicI64::new(0) }
    }

    /// The longest time for which a replica uses what it has read without reaching the store again.
    pub(crate) fn window(&self) -> Duration {
        self.window
    }

    /// Whether the last refresh began less than a window ago.
    pub(crate) fn is_recent(&self) -> bool {
        self.ago().is_some_and(|ago| ago < self.window)
    }

    /// The time since the last refresh began, on the clock that shows the longer time, or `None` before the first
    /// refresh.
    pub(crate) fn ago(&self) -> Option<Duration> {
        let reached = self.steady.load(Ordering::Acquire);
        if reached == NEVER {
            return None;
        }
        let steady = self.clock.steady().saturating_sub(Duration::from_millis(reached));
        let wall = self.wall_millis().saturating_sub(self.wall.load(Ordering::Relaxed));
        Some(steady.max(Duration::from_millis(u64::try_from(wall).unwrap_or(0))))
    }

    /// Records a complete refresh that began at `steady` on the steady clock and at `wall_millis` on the wall clock.
    pub(crate) fn set(&self, steady: Duration, wall_millis: i64) {
        self.wall.store(wall_millis, Ordering::Relaxed);
        // OK because the machine has been up for less than 500 million years.
        self.steady.store(u64::try_from(steady.as_millis()).unwrap_or(NEVER - 1), Ordering::Release);
    }

    /// The wall clock in milliseconds.
    pub(crate) fn wall_millis(&self) -> i64 {
        // OK because the time is within millions of years of 1970.
        i64::try_from(self.clock.wall().get() / 1_000_000).unwrap_or(i64::MAX)
    }
}
