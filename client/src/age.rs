//! How old identifiers in hand may be, without a look at the clock for each.
//!
//! A thread publishes the time twenty times a second, while a client has identifiers that age. Who has looked at the clock may
//! trust that look until the published time changes, for a few identifiers that are taken in quick succession (`lot.rs`).
//! The published time alone would not do: it stands still while the process is stopped.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{clock, tasks};

/// Between two looks of the thread at the clock.
const LOOK: Duration = Duration::from_millis(50);

/// What becomes too old within this is looked at each time: the published time may be behind by half as much.
const MARGIN: Duration = Duration::from_millis(100);

/// The largest age, and the time as it was published last.
#[derive(Debug)]
pub(crate) struct Ages {
    max: Duration,
    /// In milliseconds.
    lately: AtomicU64,
    /// Whether a thread publishes the time.
    watched: OnceLock<bool>,
}

/// What the clock says of something in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// It must not be given out.
    Old,
    /// It may be given out now.
    Young,
    /// It may be given out now, and as long as this is the published time.
    YoungFor(u64),
}

impl Ages {
    pub(crate) fn new(max: Duration) -> Arc<Self> {
        Arc::new(Self { max, lately: AtomicU64::new(0), watched: OnceLock::new() })
    }

    /// The time that was published last.
    #[inline]
    pub(crate) fn lately(&self) -> u64 {
        self.lately.load(Relaxed)
    }

    /// What is to be said now of what was asked for then.
    pub(crate) fn of(self: &Arc<Self>, asked: Duration, now: Duration) -> Age {
        // Before the clock is compared: the published time may change meanwhile, which ends the trust early.
        let lately = self.lately();
        match self.max.checked_sub(now.saturating_sub(asked)) {
            None => Age::Old,
            Some(left) if left > MARGIN && self.is_watched() => Age::YoungFor(lately),
            Some(_) => Age::Young,
        }
    }

    /// Whether an identifier that was asked for then may still be given out.
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

    /// The test publishes.
    #[cfg(test)]
    pub(crate) fn unwatched(max: Duration) -> Arc<Self> {
        let ages = Self::new(max);
        ages.watched.set(true).expect("new");
        ages
    }
}

/// Publishes the time as long as the ages are in use.
fn watch(ages: &Weak<Ages>) {
    while let Some(ages) = ages.upgrade() {
        ages.publish(clock::now());
        drop(ages);
        clock::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ok_what_is_young_is_so_until_the_published_time_changes() {
        let ages = Ages::unwatched(SECOND * 10);
        ages.publish(SECOND * 5);
        assert_eq!(ages.of(SECOND * 5, SECOND * 5), Age::YoungFor(5000));
        assert_eq!(ages.of(SECOND * 5, SECOND * 15 - MARGIN), Age::Young);
        assert_eq!(ages.of(SECOND * 5, SECOND * 15 - MARGIN - Duration::from_nanos(1)), Age::YoungFor(5000));
        assert_eq!(ages.of(SECOND * 5, SECOND * 15), Age::Young);
        assert_eq!(ages.of(SECOND * 5, SECOND * 15 + Duration::from_nanos(1)), Age::Old);
    }

    #[test]
    fn ok_the_time_is_published_again_and_again() {
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
    fn ok_an_age_without_end_never_ends() {
        let ages = Ages::unwatched(Duration::MAX);
        assert_eq!(ages.of(Duration::ZERO, SECOND * 1_000_000), Age::YoungFor(0));
        assert!(ages.is_young(Duration::ZERO));
    }

    #[test]
    fn ok_an_age_of_a_nanosecond_is_over_at_once() {
        let ages = Ages::unwatched(Duration::from_nanos(1));
        assert!(!ages.is_young(Duration::ZERO));
    }
}
