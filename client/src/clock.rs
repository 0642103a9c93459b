//! The clock that measures the age of identifiers.
//!
//! It advances while the process is stopped and while the machine sleeps, because identifiers age in that time. No
//! other module reads a clock to measure an age.

use std::time::Duration;

/// Returns the time since boot.
#[cfg(target_os = "linux")]
#[inline]
pub(crate) fn now() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    // `Instant` does not advance while the machine sleeps.
    let time = clock_gettime(ClockId::Boottime);
    // OK because this clock starts at zero and is never negative.
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Blocks the thread for at most `duration`, including the time that the machine sleeps.
#[cfg(target_os = "linux")]
pub(crate) fn sleep(duration: Duration) {
    use rustix::{
        thread::clock_nanosleep_relative,
        time::{ClockId, Timespec},
    };
    // OK because the only possible error is a signal, which shortens the sleep.
    let _ = Timespec::try_from(duration).map(|duration| clock_nanosleep_relative(ClockId::Boottime, &duration));
}

/// Returns the time since the first call. Whether this time advances while the machine sleeps depends on the operating
/// system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn now() -> Duration {
    static START: std::sync::OnceLock<tokio::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(tokio::time::Instant::now).elapsed()
}

/// Blocks the thread for `duration`.
#[cfg(not(target_os = "linux"))]
pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}
