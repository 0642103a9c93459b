//! Checks the age of prefetched identifiers without reading the clock for each of them.
//!
//! Once a client holds identifiers that age, a background thread publishes the time twenty times per second. A thread
//! that has read the clock can take a few identifiers in quick succession (`lot.rs`) without another read, until the
//! published time changes. The published time alone is not enough, because it does not advance while the process is
//! stopped.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{clock, tasks};

/// The interval at which the thread publishes the time.
const INTERVAL: Duration = Duration::from_millis(50);

/// An identifier that expires within this time needs a read of the clock, because the published time can lag by up to
/// half of this margin.
const MARGIN: Duration = Duration::from_millis(100);

/// The maximum age of identifiers, and the last published time.
#[derive(Debug)]
pub(crate) struct Ages {
    max: Duration,
    /// The last published time, in milliseconds.
    lately: AtomicU64,
    /// Set by the first use: true if a thread publishes the time, false if the thread could not be started.
    watched: OnceLock<bool>,
}

/// The result of an age check of prefetched identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// The identifiers are too old: discard them.
    Old,
    /// The identifiers are young enough now.
    Young,
    /// The identifiers are young enough until the published time is no longer this value.
    YoungFor(u64),
}

impl Ages {
    pub(crate) fn new(max: Duration) -> Arc<Self> {
        Arc::new(Self { max, lately: AtomicU64::new(0), watched: OnceLock::new() })
    }

    /// Returns the last published time, in milliseconds.
    #[inline]
    pub(crate) fn lately(&self) -> u64 {
        self.lately.load(Relaxed)
    }

    /// Checks the age at `now` of identifiers that were requested at `asked`.
    pub(crate) fn of(self: &Arc<Self>, asked: Duration, now: Duration) -> Age {
        // Read before the comparison: if the published time changes in between, the result expires early, not late.
        let lately = self.lately();
        match self.max.checked_sub(now.saturating_sub(asked)) {
            None => Age::Old,
            Some(left) if left > MARGIN && self.is_watched() => Age::YoungFor(lately),
            Some(_) => Age::Young,
        }
    }

    /// Returns true if an identifier that was requested at `asked` is young enough now.
    pub(crate) fn is_young(&self, asked: Duration) -> bool {
        clock::now().saturating_sub(asked) <= self.max
    }

    fn is_watched(self: &Arc<Self>) -> bool {
        *self.watched.get_or_init(|| {
            let weak = Arc::downgrade(self);
            tasks::thread("kent-age", move || watch(&weak))
        })
    }

    pub(crate) fn publish(&self, now: Duration) {
        self.lately.store(u64::try_from(now.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Creates an `Ages` without a thread. The test publishes the time.
    #[cfg(test)]
    pub(crate) fn unwatched(max: Duration) -> Arc<Self> {
        let ages = Self::new(max);
        ages.watched.set(true).expect("new");
        ages
    }
}

/// Publishes the time while `ages` is in use.
fn watch(ages: &Weak<Ages>) {
    while let Some(ages) = ages.upgrade() {
        ages.publish(clock::now());
        drop(ages);
        clock::sleep(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ok_an_age_is_young_until_the_published_time_changes() {
        let ages = Ages::unwatched(SECOND * 10);
        ages.publish(SECOND * 5);
        assert_eq!(ages.of(SECOND * 5, SECOND * 5), Age::YoungFor(5000));
        assert_eq!(ages.of(SECOND * 5, SECOND * 15 - MARGIN), Age::Young);
        assert_eq!(ages.of(SECOND * 5, SECOND * 15 - MARGIN - Duration::from_nanos(1)), Age::YoungFor(5000));
        assert_eq!(ages.of(SECOND * 5, SECOND * 15), Age::Young);
        assert_eq!(ages.of(SECOND * 5, SECOND * 15 + Duration::from_nanos(1)), Age::Old);
    }

    #[test]
    fn ok_the_time_is_published_repeatedly() {
        let ages = Ages::new(SECOND * 10);
        assert_eq!(ages.of(clock::now(), clock::now()), Age::YoungFor(0));
        for _ in 0..3 {
            let before = ages.lately();
            while ages.lately() == before {
                std::thread::yield_now();
            }
            assert!(u128::from(ages.lately()) <= clock::now().as_millis());
        }
    }

    #[test]
    fn ok_an_unlimited_age_never_expires() {
        let ages = Ages::unwatched(Duration::MAX);
        assert_eq!(ages.of(Duration::ZERO, SECOND * 1_000_000), Age::YoungFor(0));
        assert!(ages.is_young(Duration::ZERO));
    }

    #[test]
    fn ok_an_age_of_a_nanosecond_expires_immediately() {
        let ages = Ages::unwatched(Duration::from_nanos(1));
        assert!(!ages.is_young(Duration::ZERO));
    }
}
