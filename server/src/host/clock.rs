//! The clocks. This is the only file of the daemon that reads them.

use std::{
    fmt::Debug,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use kent_ids::UnixNanos;
use rustix::time::{ClockId, clock_gettime};

/// Where the daemon gets the time from; tests and the simulator bring their own.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The wall clock: what goes into identifiers. It may step in either direction at any moment.
    fn wall(&self) -> UnixNanos;

    /// A clock that never goes back and counts while the machine sleeps, too, since some moment in the past: what durations
    /// are measured with, and what the wall clock is compared with.
    fn steady(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Duration,
}

impl SystemClock {
    /// The machine's clocks, the steady one counting from now.
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

/// The standard library's steady clock stands still while the machine sleeps; this one does not.
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    // OK because this clock counts up from zero.
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
