//! The clocks. This is the only file of the daemon that reads them.

use std::{
    fmt::Debug,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use kent_ids::UnixNanos;

/// Where the daemon gets the time from; tests and the simulator bring their own.
pub(crate) trait Clock: Debug + Send + Sync + 'static {
    /// The wall clock: what goes into identifiers. It may step in either direction at any moment.
    fn wall(&self) -> UnixNanos;

    /// A clock that never goes back, since some moment in the past: what durations are measured with.
    fn steady(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Debug)]
pub(crate) struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// The machine's clocks, the steady one counting from now.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
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
        self.start.elapsed()
    }
}
