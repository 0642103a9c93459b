//! The pace of counters. It bounds how far a counter advances in a period, so that a restore can skip all numbers that
//! may have been issued.
//!
//! A counter's record has a time until which the counter is *paid*: if the counter issued at its pace, it would use up
//! all reserved numbers by that time. Reserving n numbers moves that time forward by n / pace, starting from the
//! current time if the paid time has passed. The result is never more than [`BURST`] after the current time. So between
//! the reading of a record and a later time t, at most pace * (t + BURST - paid) more numbers are reserved (see
//! [`Lapse`]). This bound also holds for daemons that reserve from a copy of the record.

use core::time::Duration;

use kent_ids::{Series, UnixNanos};
use kent_regions::{Count, Pace};
use thiserror::Error;

/// The maximum time by which a counter may be paid ahead of the clock. It determines the burst that an idle counter can
/// issue. At the slowest default pace, 1024 s allow 2^30 numbers, the maximum of one lease.
pub const BURST: Duration = Duration::from_secs(1024);

/// The error when a counter would advance faster than its pace allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("the counter would advance faster than its pace allows")]
pub struct TooFast {
    /// The wait until the pace allows the request, or `None` if it never does, because the request is larger than one
    /// burst.
    pub wait: Option<Duration>,
}

const SECOND: u128 = 1_000_000_000;

/// Returns the pace of a series. The pace is not stored, because it follows from the length of the series.
pub fn series_pace(series: &Series) -> Pace {
    Pace::for_bits(Count::Below(series.end().get()).bits())
}

/// Returns the time until which a counter is paid after it reserves `count` numbers at `now`.
///
/// # Errors
///
/// Fails with [`TooFast`] if the pace does not allow the reservation.
pub fn pay(pace: Pace, paid: UnixNanos, now: UnixNanos, count: u128) -> Result<UnixNanos, TooFast> {
    if count == 0 {
        return Ok(paid);
    }
    let cost = count.checked_mul(SECOND).map(|nanos| nanos.div_ceil(pace.get().into()));
    let Some(cost) = cost.and_then(|cost| i128::try_from(cost).ok()).filter(|cost| *cost <= nanos(BURST)) else {
        return Err(TooFast { wait: None });
    };
    let after = paid.max(now).offset(cost);
    let late = after.get() - now.offset(nanos(BURST)).get();
    match late > 0 {
        true => Err(TooFast { wait: Some(Duration::from_nanos(u64::try_from(late).unwrap_or(u64::MAX))) }),
        false => Ok(after),
    }
}

/// Returns how many numbers the pace allows a counter to reserve at `now`.
pub fn affordable(pace: Pace, paid: UnixNanos, now: UnixNanos) -> u128 {
    let left = now.offset(nanos(BURST)).get().saturating_sub(paid.max(now).get());
    // OK because a burst has fewer than 2^40 nanoseconds, and a pace has fewer than 2^64 numbers per second.
    u128::try_from(left).unwrap_or(0) * u128::from(pace.get()) / SECOND
}

/// Returns the maximum number of positions that daemons could have reserved since they read a record that was paid
/// until `paid`, if their clocks never passed `until`.
fn reserved_by(pace: Pace, paid: UnixNanos, until: UnixNanos) -> u128 {
    let most = until.offset(nanos(BURST)).get().saturating_sub(paid.get());
    u128::try_from(most).unwrap_or(0).saturating_mul(pace.get().into()).div_ceil(SECOND)
}

/// The period from a backup to its restore. The reservations made in this period are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lapse {
    /// No daemon's clock was before this time when the daemon wrote a record that is not in the backup.
    pub since: UnixNanos,
    /// No daemon's clock was past this time when the daemon wrote a record that is not in the backup.
    pub until: UnixNanos,
}

/// The maximum time by which the issuing daemons' clocks may have been behind the clock of the daemon that made the
/// backup. It does not depend on `--clock-error`, so all restores of one backup assume the same bound.
const SLACK: Duration = Duration::from_secs(3600);

impl Lapse {
    /// Returns the beginning of the lapse of a backup. `taken` is the time of the backup, by the clock of the daemon
    /// that made the backup.
    pub fn begin(taken: UnixNanos) -> UnixNanos {
        taken.offset(-nanos(SLACK))
    }

    /// Returns the lapse from a backup to its restore. `taken` is the time of the backup, by the clock of the daemon
    /// that made the backup. No counter in the backup is paid beyond `paid`. The clock of the restoring host shows
    /// `now`, and no lost daemon's clock was ahead of the host's clock by more than `error`.
    ///
    /// # Errors
    ///
    /// Fails with the latest known time of a lost daemon's clock, if that clock was ahead by more than `error`.
    pub fn since_backup(taken: UnixNanos, paid: UnixNanos, now: UnixNanos, error: Duration) -> Result<Self, UnixNanos> {
        // A counter is paid at most BURST ahead of the clock of the daemon that reserved.
        let latest = taken.max(paid.offset(-nanos(BURST)));
        let error = nanos(error);
        if latest > now.offset(error) {
            return Err(latest);
        }
        Ok(Self { since: Self::begin(taken), until: now.max(latest).offset(error) })
    }

    /// For a counter that is paid until `paid`, returns the maximum number of positions that it could have reserved
    /// during the lapse, and its new paid-until time. With that time, the counter issues nothing before
    /// [`until`](Self::until).
    pub fn skip(&self, pace: Pace, paid: UnixNanos) -> (u128, UnixNanos) {
        (reserved_by(pace, paid.max(self.since), self.until), self.until.offset(nanos(BURST)))
    }
}

/// The clock of the pace rules. It never goes back or stands still.
///
/// It is never ahead of the fastest wall clock that a daemon of the store has ever used to pay for a counter, and a
/// restore allows for that wall clock. A wrong clock therefore only costs speed: while the wall clock is behind or not
/// trusted, this clock runs at half the speed of a steady clock. At full speed, it would move ahead of every wall
/// clock, because a fast oscillator gains a little each time that the wall clock is stepped back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PaceClock {
    /// The latest time, and the steady clock's time at that moment.
    latest: Option<(UnixNanos, Duration)>,
}

impl PaceClock {
    /// Returns the time, given the wall clock (`None` if it is not trusted) and a steady clock.
    pub fn read(&mut self, wall: Option<UnixNanos>, steady: Duration) -> UnixNanos {
        let continued = self.latest.map(|(time, at)| time.offset(nanos(steady.saturating_sub(at)) / 2));
        // Without any clock, the time is earlier than any real time, so new counters keep their pace and get no burst.
        let now = wall.max(continued).unwrap_or(UnixNanos::new(-nanos(BURST)));
        self.latest = Some((now, steady));
        now
    }

    /// Advances to the earliest time at which a daemon could have written a record that is paid until `paid`, if that
    /// time is later than ours. Call this method right after [`read`](Self::read). Returns the new time.
    pub fn catch_up(&mut self, paid: UnixNanos) -> UnixNanos {
        let theirs = paid.offset(-nanos(BURST));
        match &mut self.latest {
            Some((time, _)) => {
                *time = theirs.max(*time);
                *time
            }
            None => theirs,
        }
    }
}

/// Returns the duration in nanoseconds. The result is less than 2^94.
fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::num::NonZeroU64;

    use proptest::prelude::*;

    use super::*;

    const NOW: UnixNanos = UnixNanos::new(1_800_000_000 * 1_000_000_000);

    fn pace(count: u64) -> Pace {
        Pace::per_second(NonZeroU64::new(count).expect("a pace"))
    }

    fn after(seconds: i128) -> UnixNanos {
        NOW.offset(seconds * 1_000_000_000)
    }

    #[test]
    fn ok_an_idle_counter_issues_one_burst_and_then_keeps_its_pace() {
        let idle = UnixNanos::new(0);
        assert_eq!(affordable(pace(10), idle, NOW), 10_240);
        assert_eq!(pay(pace(10), idle, NOW, 10_241), Err(TooFast { wait: None }));
        let paid = pay(pace(10), idle, NOW, 10_240).expect("a burst");
        assert_eq!(paid, after(1024));
        assert_eq!(affordable(pace(10), paid, NOW), 0);
        assert_eq!(pay(pace(10), paid, NOW, 1), Err(TooFast { wait: Some(Duration::from_millis(100)) }));
        assert_eq!(pay(pace(10), paid, after(1), 10), Ok(after(1025)));
        assert_eq!(
            pay(pace(10), paid, after(2000), 10),
            Ok(after(2001)),
            "unused pace does not accumulate beyond the burst"
        );
    }

    #[test]
    fn err_more_than_any_counter_has_is_rejected() {
        assert_eq!(pay(pace(u64::MAX), NOW, NOW, u128::MAX), Err(TooFast { wait: None }));
    }

    #[test]
    fn ok_the_clock_never_goes_back_nor_stands_still() {
        let (mut clock, at) = (PaceClock::default(), Duration::from_secs);
        let unknown = clock.read(None, at(5));
        assert_eq!(affordable(pace(1000), UnixNanos::new(0), unknown), 0, "the time is not known yet");
        assert_eq!(clock.read(Some(NOW), at(6)), NOW);
        assert_eq!(clock.read(Some(after(-3600)), at(8)), after(1), "half the speed: the wall clock was set back");
        assert_eq!(clock.read(None, at(10)), after(2));
        assert_eq!(clock.catch_up(after(1024)), after(2), "no clock was ahead of ours");
        assert_eq!(clock.catch_up(after(1024 + 60)), after(60));
        assert_eq!(clock.read(Some(after(3)), at(12)), after(61));
    }

    #[test]
    fn ok_a_lapse_allows_for_wrong_clocks() {
        let lapse = |paid, now, error| Lapse::since_backup(NOW, after(paid), after(now), Duration::from_secs(error));
        let of = |since, until| Ok(Lapse { since: after(since), until: after(until) });
        assert_eq!(lapse(1024, 100, 3600), of(-3600, 100 + 3600));
        assert_eq!(lapse(1024, 100, 1), of(-3600, 101), "all lapses of a backup have the same beginning");
        assert_eq!(lapse(1024, 100, 7200), of(-3600, 7300));
        assert_eq!(lapse(1024, -100, 3600), of(-3600, 3600), "a lost clock was right or ahead");
        assert_eq!(lapse(1024 + 60, 0, 3600), of(-3600, 3660), "a lost clock was ahead of the backup's clock");
    }

    #[test]
    fn err_a_clock_further_behind_than_the_stated_error_is_rejected() {
        let lapse = |paid, now| Lapse::since_backup(NOW, after(paid), after(now), Duration::from_secs(60));
        assert!(lapse(0, -60).is_ok());
        assert_eq!(lapse(0, -61), Err(NOW));
        assert_eq!(lapse(1024 + 61, 0), Err(after(61)));
    }

    /// The largest error of a clock in seconds. Two clocks differ by at most twice this value.
    const WRONG: i128 = 1800;
    /// The clock error in seconds that a restore allows for.
    const ERROR: i128 = 2 * WRONG;

    /// Returns the lapse when a host whose clock shows `now` restores the state of `NOW`.
    fn restored_at(now: i128) -> Lapse {
        Lapse { since: after(-ERROR), until: after(now + ERROR) }
    }

    #[test]
    fn ok_a_restore_skips_exactly_the_largest_possible_reservation() {
        // The clock of the daemon that made the backup was ahead. The clock of the daemon that kept reserving was
        // behind at first, and later ahead.
        for paid in [UnixNanos::new(0), after(-ERROR), after(-1000), after(1024)] {
            let (read, mut now, mut paid_until, mut reserved) = (paid, -ERROR, paid, 0);
            while now <= 5000 {
                let count = affordable(pace(1000), paid_until, after(now));
                paid_until = pay(pace(1000), paid_until, after(now), count).expect("affordable");
                (reserved, now) = (reserved + count, now + 100);
            }
            // The restoring host's clock is behind the daemon's clock.
            let (skipped, paid_then) = restored_at(now - 100 - ERROR).skip(pace(1000), read);
            assert_eq!(skipped, reserved, "paid until {paid:?}");
            assert_eq!(
                affordable(pace(1000), paid_then, after(now - 100)),
                0,
                "the counter issues nothing until the end of the lapse"
            );
            assert_eq!(affordable(pace(1000), paid_then, after(now - 100 + 1)), 1000);
        }
    }

    const CLOCKS: &[i128] = &[-WRONG, 0, WRONG];

    /// Generates the usual clock error of a store's daemon, and the daemon's steps. Each step has the seconds that
    /// pass, an optional other clock error, and whether the daemon reserves all numbers that its pace allows.
    fn store() -> impl Strategy<Value = (i128, Vec<(i128, Option<i128>, bool)>)> {
        let seconds = prop::sample::select(&[1_i128, 500, 1000, 4000]);
        let jumps = prop::option::weighted(0.1, prop::sample::select(CLOCKS));
        let steps = prop::collection::vec((seconds, jumps, prop::bool::weighted(0.9)), 1..12);
        (prop::sample::select(CLOCKS), steps)
    }

    proptest! {
        /// One backup is restored several times, on hosts whose clocks are wrong by up to half an hour. No two stores
        /// reserve the same number.
        #[test]
        fn ok_a_restore_skips_all_reservations(
            read in prop::sample::select(&[-10_000_i128, 0, WRONG + 1024]),
            stores in prop::collection::vec((prop::sample::select(CLOCKS), store()), 2..6),
        ) {
            let (pace, read, mut time, mut most) = (pace(1000), after(read), 0, 0);
            for (number, (host, (usual, steps))) in stores.into_iter().enumerate() {
                // The first store is the one that was backed up, by a daemon whose clock was ahead.
                let lapse = Lapse { since: after(WRONG - ERROR), until: after(time + host + ERROR) };
                let (mut reserved, mut paid) = if number == 0 { (0, read) } else { lapse.skip(pace, read) };
                let mut ended = 0;
                for (seconds, jump, reserves) in steps {
                    let now = after(time + jump.unwrap_or(usual));
                    let count = affordable(pace, paid, now);
                    if reserves && count > 0 {
                        paid = pay(pace, paid, now, count).expect("affordable");
                        prop_assert!(reserved >= most, "number {reserved} was reserved before: all below {most} were");
                        reserved += count;
                        ended = reserved;
                    }
                    time += seconds;
                }
                most = most.max(ended);
            }
        }
    }
}
