//! One daemon's share of a budget. Grants take from the share without asking the store.

use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The identifiers that a daemon may grant against a budget, because the store already counts them as used.
#[derive(Debug, Default)]
pub struct Share {
    left: AtomicU64,
    /// Identifiers that the next commit returns to the store. They are not granted.
    recalled: AtomicU64,
}

/// The size of the next share that a daemon reserves, computed from how long the last share lasted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizing {
    last: Option<(u64, Duration)>,
}

/// A share that lasts for less than this is followed by a larger one.
const LASTS_MIN: Duration = Duration::from_secs(1);
/// A share that lasts for more than this is followed by a smaller one.
const LASTS_MAX: Duration = Duration::from_secs(4);

impl Share {
    /// The number of identifiers that may be granted.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// Takes `count` identifiers, or nothing if fewer are left.
    pub fn take(&self, count: u64) -> bool {
        self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(count)).is_ok()
    }

    /// Adds identifiers that were reserved, or that were taken but not granted.
    pub fn put(&self, count: u64) {
        self.left.fetch_add(count, Ordering::AcqRel);
    }

    /// Stops grants from the share. The next commit returns the rest of the share to the store.
    pub fn recall(&self) {
        self.keep_recalled(self.left.swap(0, Ordering::AcqRel));
    }

    /// Whether any identifiers are waiting to be returned to the store.
    pub fn is_recalled(&self) -> bool {
        self.recalled.load(Ordering::Acquire) > 0
    }

    /// Takes the recalled identifiers, for a commit that returns them to the store. If the commit is known to have
    /// failed, the caller puts them back with [`keep_recalled`](Self::keep_recalled).
    pub fn take_recalled(&self) -> u64 {
        self.recalled.swap(0, Ordering::AcqRel)
    }

    /// Keeps these identifiers until the next commit returns them to the store.
    pub fn keep_recalled(&self, count: u64) {
        self.recalled.fetch_add(count, Ordering::AcqRel);
    }
}

impl Sizing {
    /// The size of a share that would last a few seconds; 0 before the first share. `now` is a time of the steady
    /// clock.
    pub fn wish(&self, now: Duration) -> u64 {
        let Some((size, since)) = self.last else { return 0 };
        match now.saturating_sub(since) {
            lasted if lasted < LASTS_MIN => size.saturating_mul(2),
            lasted if lasted > LASTS_MAX => size / 2,
            _ => size,
        }
    }

    /// Records that a share of this size was reserved at `now`.
    pub fn reserved(&mut self, size: u64, now: Duration) {
        self.last = Some((size, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_share_grants_what_it_holds() {
        let share = Share::default();
        assert!(share.take(0) && !share.take(1));
        share.put(10);
        assert!(share.take(7) && !share.take(4) && share.left() == 3);
        share.put(7);
        share.recall();
        assert!(!share.take(1) && share.is_recalled());
        assert_eq!((share.take_recalled(), share.take_recalled(), share.is_recalled()), (10, 0, false));
    }

    #[test]
    fn ok_a_share_is_sized_for_some_seconds() {
        let seconds = Duration::from_secs;
        let mut sizing = Sizing::default();
        assert_eq!(sizing.wish(seconds(9)), 0);
        sizing.reserved(100, seconds(10));
        for (now, size) in [(10, 200), (11, 100), (14, 100), (15, 50), (5, 200)] {
            assert_eq!(sizing.wish(seconds(now)), size, "{now}");
        }
    }
}
