//! Whether requests for identifiers have arrived recently. If so, large answers leave time for the next ones.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// The time of the last request for identifiers, in steps of 2^24 ns (17 ms) of the steady clock, plus one; 0 if there
/// was none.
///
/// Threads that grant share this value. In steps, it changes so rarely that they do not wait for each other.
#[derive(Debug, Default)]
pub struct Arrivals(AtomicU64);

/// The number of steps for which a request counts as recent: 0.1 s.
const RECENT: u64 = 6;

impl Arrivals {
    /// Records a request that arrived at this time on the steady clock.
    pub fn note(&self, now: Duration) {
        let step = step(now);
        if self.0.load(Relaxed) != step {
            self.0.store(step, Relaxed);
        }
    }

    /// Returns whether a request has arrived within the last 0.1 s.
    pub fn is_recent(&self, now: Duration) -> bool {
        let last = self.0.load(Relaxed);
        last != 0 && step(now).saturating_sub(last) <= RECENT
    }
}

fn step(now: Duration) -> u64 {
    // OK because a steady clock counts from the start of the system, and 2^64 ns are 584 years.
    ((now.as_nanos() as u64) >> 24) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_request_is_recent_for_a_tenth_of_a_second() {
        let arrivals = Arrivals::default();
        let at = |millis| Duration::from_millis(millis);
        assert!(!arrivals.is_recent(at(0)), "there was no request");
        for millis in [0, 5000, 5001] {
            arrivals.note(at(millis));
            assert!([0, 50, 99].iter().all(|later| arrivals.is_recent(at(millis + later))), "{millis}");
            assert!(!arrivals.is_recent(at(millis + 120)), "{millis}");
        }
        assert!(arrivals.is_recent(at(4990)), "another thread read the clock earlier");
    }
}
