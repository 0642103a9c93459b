//! The one place of the client that reads a clock for ages.
//!
//! It counts on while the process is stopped and while the machine sleeps, so that identifiers age meanwhile.

use std::time::Duration;

/// How long the machine runs.
#[cfg(target_os = "linux")]
#[inline]
pub(crate) fn now() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    // `Instant` stands still while the machine sleeps.
    let time = clock_gettime(ClockId::Boottime);
    // OK because this clock counts up from zero.
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Lets the thread sleep, at most so long, and not longer for a sleep of the machine.
#[cfg(target_os = "linux")]
pub(crate) fn sleep(duration: Duration) {
    use rustix::{
        thread::clock_nanosleep_relative,
        time::{ClockId, Timespec},
    };
    // OK because a sleep that a signal ends early is only shorter, and no other error is possible.
    let _ = Timespec::try_from(duration).map(|duration| clock_nanosleep_relative(ClockId::Boottime, &duration));
}

/// How long the process has measured time. Whether a sleep of the machine counts is up to the system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn now() -> Duration {
    static START: std::sync::OnceLock<tokio::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(tokio::time::Instant::now).elapsed()
}

/// Lets the thread sleep.
#[cfg(not(target_os = "linux"))]
pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}
