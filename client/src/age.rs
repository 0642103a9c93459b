//! How old identifiers in hand may be, without a look at the clock for each.
//!
//! A thread publishes the time twenty times a second, while a client has identifiers that age. Who takes one compares that
//! number; only in the last tenth of a second before it becomes too old does it look at the clock itself.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use tokio::time::Instant;

use crate::tasks;

/// Between two looks at the clock.
const LOOK: Duration = Duration::from_millis(50);

/// How much earlier than necessary the clock is looked at: twice as much as the published time may be behind.
const MARGIN: Duration = Duration::from_millis(100);

/// The largest age, and the time as it was published last.
#[derive(Debug)]
pub(crate) struct Ages {
    max: Duration,
    start: Instant,
    /// Milliseconds since `start`.
    lately: AtomicU64,
    /// Whether somebody publishes the time.
    watched: OnceLock<bool>,
}

impl Ages {
    pub(crate) fn new(max: Duration) -> Arc<Self> {
        let (start, lately) = (Instant::now(), AtomicU64::new(0));
        Arc::new(Self { max, start, lately, watched: OnceLock::new() })
    }

    /// The time that was published last.
    #[inline]
    pub(crate) fn lately(&self) -> u64 {
        self.lately.load(Relaxed)
    }

    /// Until when what was asked for then is surely young enough, in published time: 0 if only the clock can tell. `None` if
    /// it is too old already.
    pub(crate) fn good_until(self: &Arc<Self>, asked: Instant) -> Option<u64> {
        if asked.elapsed() > self.max {
            return None;
        }
        let since_start = asked.saturating_duration_since(self.start);
        let sure = since_start.saturating_add(self.max).saturating_sub(MARGIN);
        let sure = u64::try_from(sure.as_millis()).unwrap_or(u64::MAX);
        Some(if self.max > MARGIN * 2 && self.is_watched() { sure } else { 0 })
    }

    /// Whether an identifier that was asked for then may still be given out.
    pub(crate) fn is_young(&self, asked: Instant) -> bool {
        asked.elapsed() <= self.max
    }

    fn is_watched(self: &Arc<Self>) -> bool {
        *self.watched.get_or_init(|| {
            self.publish();
            let weak = Arc::downgrade(self);
            tasks::thread("kent-age", move || watch(&weak))
        })
    }

    fn publish(&self) {
        self.lately.store(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX), Relaxed);
    }
}

/// Publishes the time until nobody needs it any more.
fn watch(ages: &Weak<Ages>) {
    loop {
        thread::sleep(LOOK);
        match ages.upgrade() {
            Some(ages) => ages.publish(),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ok_the_published_time_tells_when_to_look() {
        let ages = Ages::new(Duration::from_secs(10));
        let sure = ages.good_until(ages.start).expect("young");
        assert_eq!(sure, 9900);
        assert!(ages.lately() <= sure);
        while ages.lately() == 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn ok_an_age_without_end_never_ends() {
        let ages = Ages::new(Duration::MAX);
        assert_eq!((ages.good_until(ages.start), ages.is_young(ages.start)), (Some(u64::MAX), true));
    }

    #[tokio::test]
    async fn ok_a_short_age_is_looked_at_each_time_and_an_old_one_is_over() {
        let ages = Ages::new(Duration::from_millis(150));
        assert_eq!(ages.good_until(ages.start), Some(0));
        let ages = Ages::new(Duration::from_nanos(1));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!((ages.good_until(ages.start), ages.is_young(ages.start)), (None, false));
    }
}
