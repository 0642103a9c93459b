//! The clocks. This is the only file of the daemon that reads the clocks.

use std::{
    fmt::Debug,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use kent_ids::UnixNanos;
use rustix::time::{ClockId, clock_gettime};

/// The daemon's source of time. Tests and the simulator have their own implementations.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The wall clock, for the timestamps in identifiers. The wall clock may step in either direction at any moment.
    fn wall(&self) -> UnixNanos;

    /// A clock that never goes back and keeps running while the machine sleeps; its zero is an arbitrary moment in the
    /// past. The daemon measures durations with this clock, and compares the wall clock with it.
    fn steady(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Duration,
}

impl SystemClock {
    /// The machine's clocks; the steady clock starts at zero.
    pub fn new() -> Self {
        Self { start: since_boot() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn wall(&self) -> UnixNanos {
        let nanos = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i128::try_from(after.as_nanos()).unwrap_or(i128::MAX),
            Err(before) => -i128::try_from(before.duration().as_nanos()).unwrap_or(i128::MAX),
        };
        UnixNanos::new(nanos)
    }

    fn steady(&self) -> Duration {
        since_boot().saturating_sub(self.start)
    }
}

/// The processor time that this process has used.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // OK because this clock is never negative.
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Reads the boot-time clock, because [`std::time::Instant`] stops while the machine sleeps.
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    // OK because this clock is never negative.
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
