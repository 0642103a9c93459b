//! A token bucket in one atomic number, so threads share it without a lock.
//!
//! This is the generic cell rate algorithm: the number is the time at which the bucket will be full again. A full
//! bucket holds what flows into it in one second. A charge larger than the bucket's content leaves a debt, and the
//! bucket admits nothing until the debt is paid.

use core::{
    num::NonZeroU64,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// The amount that a principal may still take under a rate limit. A new bucket is full.
#[derive(Debug, Default)]
pub struct Bucket {
    /// The time at which the bucket will be full, in nanoseconds on the caller's clock.
    full_at: AtomicU64,
}

/// The rate at which a bucket fills, with the times that each charge needs.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    per_second: NonZeroU64,
    /// The time in which one unit flows into the bucket, in nanoseconds, rounded up.
    one: u64,
    /// The time in which all units but one flow into an empty bucket, in nanoseconds.
    all_but_one: u64,
}

/// The amount that one call has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The time in which the same amount flows into the bucket, in nanoseconds.
    cost: u64,
    /// The time of the charge, in nanoseconds.
    at: u64,
}

/// A second in nanoseconds: the time in which an empty bucket fills.
const SECOND: u64 = 1_000_000_000;

impl Rate {
    /// The rate of a limit.
    pub const fn new(per_second: NonZeroU64) -> Self {
        let one = SECOND.div_ceil(per_second.get());
        // Costs are rounded up, so emptying a full bucket one unit at a time costs a little more than a second.
        let (all, most) = (one.saturating_mul(per_second.get()), SECOND + one / 2);
        Self { per_second, one, all_but_one: if all < most { all } else { most }.saturating_sub(one) }
    }

    /// The units that flow into the bucket in a second.
    pub const fn per_second(&self) -> NonZeroU64 {
        self.per_second
    }

    /// The time in which `count` units flow into a bucket, in nanoseconds, rounded up.
    fn cost(&self, count: u64) -> u64 {
        let rate = self.per_second.get();
        match count.checked_mul(SECOND) {
            Some(scaled) => scaled.div_ceil(rate),
            None => u64::try_from((u128::from(count) * u128::from(SECOND)).div_ceil(rate.into())).unwrap_or(u64::MAX),
        }
    }
}

impl Bucket {
    /// Takes `count` units at `now` if the bucket holds at least one unit, even if this leaves a debt. In any period,
    /// callers take at most the rate's units per second, plus the content of a full bucket, plus one charge.
    ///
    /// # Errors
    ///
    /// The time until the bucket holds one unit.
    #[inline]
    pub fn charge(&self, rate: &Rate, count: u64, now: Duration) -> Result<Charge, Duration> {
        let at = nanos(now);
        let cost = if count == 1 { rate.one } else { rate.cost(count) };
        let latest = at.saturating_add(rate.all_but_one);
        let take = |full_at| (full_at <= latest).then_some(at.max(full_at).saturating_add(cost));
        match self.full_at.fetch_update(Relaxed, Relaxed, take) {
            Ok(_) => Ok(Charge { cost, at }),
            Err(full_at) => Err(Duration::from_nanos(full_at - latest)), // OK because `full_at > latest`
        }
    }

    /// Refunds the charge of a failed call, minus the amount that has flowed into the bucket since then. Without the
    /// charge, the bucket might have been full, and that amount would not have flowed in.
    pub fn refund(&self, Charge { cost, at }: Charge, now: Duration) {
        let left = cost.saturating_sub(nanos(now).saturating_sub(at));
        // OK because the update never fails: the closure always returns a value.
        let _ = self.full_at.fetch_update(Relaxed, Relaxed, |full_at| Some(full_at.saturating_sub(left)));
    }

    /// Whether the bucket is full, like a new one.
    pub fn is_full(&self, now: Duration) -> bool {
        self.full_at.load(Relaxed) <= nanos(now)
    }
}

/// The time in nanoseconds. A `u64` is enough, because 2^64 nanoseconds are 584 years.
#[inline]
fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(SECOND).saturating_add(u64::from(time.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::{sync::atomic::AtomicU64, thread, vec::Vec};

    use proptest::prelude::*;

    use super::*;

    fn rate(per_second: u64) -> Rate {
        Rate::new(NonZeroU64::new(per_second).expect("not 0"))
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn ok_a_full_bucket_has_exactly_a_second_worth() {
        for per_second in [1, 2, 3, 7, 500, 999, 10_000] {
            let (bucket, rate) = (Bucket::default(), rate(per_second));
            let admitted = (0..2 * per_second).filter(|_| bucket.charge(&rate, 1, ms(5000)).is_ok()).count();
            assert_eq!(admitted as u64, per_second);
            assert!(bucket.charge(&rate, 1, ms(6001)).is_ok(), "{per_second}");
        }
    }

    #[test]
    fn ok_a_charge_larger_than_a_second_worth_passes_and_the_next_one_waits() {
        let (bucket, rate) = (Bucket::default(), rate(1000));
        assert!(bucket.charge(&rate, 5000, ms(0)).is_ok());
        assert_eq!(bucket.charge(&rate, 1, ms(0)), Err(ms(4001)));
        // A refused charge takes nothing.
        assert_eq!(bucket.charge(&rate, 9000, ms(4000)), Err(ms(1)));
        assert!(!bucket.is_full(ms(4999)) && bucket.is_full(ms(5000)));
        assert!(bucket.charge(&rate, 1, ms(4001)).is_ok() && bucket.charge(&rate, 1, ms(4001)).is_err());
    }

    #[test]
    fn ok_what_is_given_back_can_be_taken_again() {
        let (bucket, rate) = (Bucket::default(), rate(1000));
        let taken = bucket.charge(&rate, 3000, ms(100)).expect("full");
        bucket.refund(taken, ms(100));
        assert!(bucket.is_full(ms(100)));
        // The amount that has flowed in since the charge is not refunded.
        let taken = bucket.charge(&rate, 1500, ms(100)).expect("full");
        bucket.refund(taken, ms(1100));
        assert!(!bucket.is_full(ms(1099)) && bucket.is_full(ms(1100)));
        bucket.refund(taken, ms(9000));
        assert!(bucket.is_full(ms(1100)));
    }

    #[test]
    fn ok_a_change_of_the_rate_keeps_the_debt_as_a_time() {
        let bucket = Bucket::default();
        assert!(bucket.charge(&rate(10), 30, ms(0)).is_ok());
        assert_eq!(bucket.charge(&rate(1000), 1, ms(0)), Err(ms(2001)));
    }

    #[test]
    fn ok_the_largest_numbers_do_not_overflow() {
        for (per_second, count) in [(1, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX, 1), (1, 1)] {
            let bucket = Bucket::default();
            assert!(bucket.charge(&rate(per_second), count, Duration::MAX).is_ok());
            let taken = bucket.charge(&rate(per_second), count, ms(0));
            assert!(taken.is_err(), "{per_second} {count}");
        }
    }

    #[test]
    fn ok_threads_together_take_no_more_than_one_alone() {
        let (bucket, rate, admitted) = (Bucket::default(), rate(10_000), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let taken = bucket.charge(&rate, 2, ms(1000));
                        if let Ok(taken) = taken {
                            // Every other charge is refunded, so that other threads can take it.
                            match admitted.fetch_add(1, Relaxed) % 2 {
                                0 => bucket.refund(taken, ms(1000)),
                                _ => continue,
                            }
                        }
                    }
                });
            }
        });
        // Half of the admitted charges were kept. Together with the charges that still fit, they take 10,000 units.
        let kept = (0..20_000).take_while(|_| bucket.charge(&rate, 2, ms(1000)).is_ok()).count() as u64;
        let total = 2 * (admitted.load(Relaxed) / 2 + kept);
        assert_eq!(total, 10_000);
    }

    /// Generates the steps of a sequence: how much time passes, how much is taken, and after how many more steps the
    /// call fails, if it fails.
    fn steps() -> impl Strategy<Value = Vec<(u64, u64, Option<usize>)>> {
        let step = (0..400_000_000_u64, 1..3_000_u64, prop::option::weighted(0.3, 0..6_usize));
        prop::collection::vec(step, 1..60)
    }

    proptest! {
        #[test]
        fn ok_no_more_is_taken_than_the_rate_allows(per_second in 1..5_000_u64, steps in steps()) {
            let (bucket, rate) = (Bucket::default(), rate(per_second));
            let (mut now, mut failing) = (0, Vec::new());
            let mut kept: Vec<(u64, u64)> = Vec::new();
            for (step, (passed, count, fails_after)) in steps.into_iter().enumerate() {
                now += passed;
                let at = Duration::from_nanos(now);
                failing.retain(|(fails_at, charge)| {
                    let is_left = *fails_at > step;
                    if !is_left {
                        bucket.refund(*charge, at);
                    }
                    is_left
                });
                match (bucket.charge(&rate, count, at), fails_after) {
                    (Ok(charge), Some(after)) => failing.push((step + after, charge)),
                    (Ok(_), None) => kept.push((now, count)),
                    (Err(_), _) => {}
                }
            }
            // The bound holds in every contiguous part of the sequence.
            for first in 0..kept.len() {
                let (mut total, mut largest) = (0_u128, 0);
                for &(at, count) in &kept[first..] {
                    total += u128::from(count);
                    largest = largest.max(count);
                    let time = u128::from(at - kept[first].0);
                    let flowed = (time * u128::from(per_second)).div_ceil(SECOND.into());
                    prop_assert!(total <= flowed + u128::from(per_second) + u128::from(largest));
                }
            }
        }

        #[test]
        fn ok_a_bucket_admits_after_the_time_that_it_names_and_not_before(per_second in 1..2_000_000_000_u64, count in 1..1_000_000_u64) {
            let (bucket, rate) = (Bucket::default(), rate(per_second));
            let wait = (0..).find_map(|_| bucket.charge(&rate, count.max(per_second / 3), ms(7)).err()).expect("empty at some time");
            prop_assert!(bucket.charge(&rate, 1, ms(7) + wait - Duration::from_nanos(1)).is_err());
            prop_assert!(bucket.charge(&rate, 1, ms(7) + wait).is_ok());
        }
    }
}
