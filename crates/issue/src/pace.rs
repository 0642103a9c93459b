//! Paying for reservations: what bounds how far a counter moves in a stretch of time, so that a restore can skip all of it.
//!
//! A counter's record says until when it is *paid*: at its pace, all that is reserved would have been issued by then. Reserving n
//! numbers moves that moment by n / pace, from the present on if it has passed, and never beyond [`BURST`] after the present. So
//! whatever happens after a record was read, by a later time t at most pace * (t + BURST - paid) numbers more are reserved
//! ([`Lapse`]), also where others reserve from a copy of the record.

use core::time::Duration;

use kent_ids::{Series, UnixNanos};
use kent_regions::{Count, Pace};
use thiserror::Error;

/// How far ahead of the present a counter may be paid: what it issues at once after a rest. 1024 s at the slowest default pace are
/// 2^30 numbers, as many as one lease holds.
pub const BURST: Duration = Duration::from_secs(1024);

/// A counter would move faster than its pace allows. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("the counter would move faster than its pace allows")]
pub struct TooFast {
    /// When the pace allows it; `None` if never, since more was asked for than a counter may issue at once.
    pub wait: Option<Duration>,
}

const SECOND: u128 = 1_000_000_000;

/// How fast a series may move: it is never written down, since it follows from the series' length.
pub fn series_pace(series: &Series) -> Pace {
    Pace::for_bits(Count::Below(series.end().get()).bits())
}

/// Until when a counter is paid after a reservation of `count` numbers at `now`.
///
/// # Errors
///
/// [`TooFast`].
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

/// How many numbers can be paid for at `now`.
pub fn affordable(pace: Pace, paid: UnixNanos, now: UnixNanos) -> u128 {
    let left = now.offset(nanos(BURST)).get().saturating_sub(paid.max(now).get());
    // OK because a burst has fewer than 2^40 nanoseconds, and a pace fewer than 2^64 numbers.
    u128::try_from(left).unwrap_or(0) * u128::from(pace.get()) / SECOND
}

/// The most numbers that can have been reserved after a record was paid until `paid`, by daemons none of whose clocks was past
/// `until`.
fn reserved_by(pace: Pace, paid: UnixNanos, until: UnixNanos) -> u128 {
    let most = until.offset(nanos(BURST)).get().saturating_sub(paid.get());
    u128::try_from(most).unwrap_or(0).saturating_mul(pace.get().into()).div_ceil(SECOND)
}

/// A stretch of time whose reservations are not known: from a backup to its restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lapse {
    /// No clock of a daemon was past this when the last record that is known was written.
    pub since: UnixNanos,
    /// No clock of a daemon was past this when the last record was written that is not known.
    pub until: UnixNanos,
}

/// Clocks that issued may have been behind the one that a backup was made by. This does not follow `--clock-error`, so that all
/// restores of one backup have the same bound.
const SLACK: Duration = Duration::from_secs(3600);

impl Lapse {
    /// Where it begins for a backup that was `taken` then, by the clock of the daemon that made it.
    pub fn begin(taken: UnixNanos) -> UnixNanos {
        taken.offset(-nanos(SLACK))
    }

    /// From a backup to its restore. By the clock of the daemon that made it, it was `taken` then, and no counter in it is paid further
    /// than until `paid`. The clock of the restoring host says `now`, and no lost clock was ahead of it by more than `error`.
    ///
    /// # Errors
    ///
    /// The latest time that a lost clock is known to have said, if that was ahead by more.
    pub fn since_backup(taken: UnixNanos, paid: UnixNanos, now: UnixNanos, error: Duration) -> Result<Self, UnixNanos> {
        // No counter is paid further ahead of a clock that issued than this.
        let latest = taken.max(paid.offset(-nanos(BURST)));
        let error = nanos(error);
        if latest > now.offset(error) {
            return Err(latest);
        }
        Ok(Self { since: Self::begin(taken), until: now.max(latest).offset(error) })
    }

    /// How many numbers a counter may have reserved meanwhile, whose record says that it is paid until `paid`; and until when it is
    /// paid if it has. From then on it issues nothing before [`until`](Self::until).
    pub fn skip(&self, pace: Pace, paid: UnixNanos) -> (u128, UnixNanos) {
        (reserved_by(pace, paid.max(self.since), self.until), self.until.offset(nanos(BURST)))
    }
}

/// The time by which reservations are paid for. It never goes back, and runs at least as fast as a steady clock.
///
/// It is never ahead of the fastest clock by which the counters of a store were ever paid for, which is what a restore has to allow
/// for. A wrong clock thus costs nothing but speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PaceClock {
    /// The latest time, and what the steady clock said then.
    latest: Option<(UnixNanos, Duration)>,
}

impl PaceClock {
    /// The time, given what the wall clock says, as far as it is believed, and a steady clock.
    pub fn read(&mut self, wall: Option<UnixNanos>, steady: Duration) -> UnixNanos {
        let went_on = self.latest.map(|(time, at)| time.offset(nanos(steady.saturating_sub(at))));
        // Without any clock to go by, it is before everything: new counters keep their pace, and have no burst.
        let now = wall.max(went_on).unwrap_or(UnixNanos::new(-nanos(BURST)));
        self.latest = Some((now, steady));
        now
    }

    /// Takes note of a record that was paid by a clock ahead of ours, at a moment at which [`read`](Self::read) was asked: we go on
    /// from what that clock must have said.
    pub fn heed(&mut self, paid: UnixNanos) -> UnixNanos {
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

/// Nanoseconds; a duration has fewer than 2^94 of them.
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
    fn ok_a_rested_counter_issues_a_burst_at_once_and_then_keeps_its_pace() {
        let rested = UnixNanos::new(0);
        assert_eq!(affordable(pace(10), rested, NOW), 10_240);
        assert_eq!(pay(pace(10), rested, NOW, 10_241), Err(TooFast { wait: None }));
        let paid = pay(pace(10), rested, NOW, 10_240).expect("a burst");
        assert_eq!(paid, after(1024));
        assert_eq!(affordable(pace(10), paid, NOW), 0);
        assert_eq!(pay(pace(10), paid, NOW, 1), Err(TooFast { wait: Some(Duration::from_millis(100)) }));
        assert_eq!(pay(pace(10), paid, after(1), 10), Ok(after(1025)));
        assert_eq!(pay(pace(10), paid, after(2000), 10), Ok(after(2001)), "what was not used in time is gone");
    }

    #[test]
    fn err_more_than_any_counter_has_is_refused() {
        assert_eq!(pay(pace(u64::MAX), NOW, NOW, u128::MAX), Err(TooFast { wait: None }));
    }

    #[test]
    fn ok_the_clock_never_goes_back_nor_stands_still() {
        let (mut clock, at) = (PaceClock::default(), Duration::from_secs);
        let unknown = clock.read(None, at(5));
        assert_eq!(affordable(pace(1000), UnixNanos::new(0), unknown), 0, "nothing is known yet");
        assert_eq!(clock.read(Some(NOW), at(6)), NOW);
        assert_eq!(clock.read(Some(after(-3600)), at(7)), after(1), "the wall clock was set back");
        assert_eq!(clock.read(None, at(8)), after(2));
        assert_eq!(clock.heed(after(1024)), after(2), "no clock was ahead of ours");
        assert_eq!(clock.heed(after(1024 + 60)), after(60));
        assert_eq!(clock.read(Some(after(3)), at(9)), after(61));
    }

    #[test]
    fn ok_a_lapse_allows_for_clocks_that_are_wrong() {
        let lapse = |paid, now, error| Lapse::since_backup(NOW, after(paid), after(now), Duration::from_secs(error));
        let of = |since, until| Ok(Lapse { since: after(since), until: after(until) });
        assert_eq!(lapse(1024, 100, 3600), of(-3600, 100 + 3600));
        assert_eq!(lapse(1024, 100, 1), of(-3600, 101), "all restores of a backup have the same beginning");
        assert_eq!(lapse(1024, 100, 7200), of(-3600, 7300));
        assert_eq!(lapse(1024, -100, 3600), of(-3600, 3600), "a lost clock was right, or ahead");
        assert_eq!(lapse(1024 + 60, 0, 3600), of(-3600, 3660), "a lost clock was ahead of the one of the backup");
    }

    #[test]
    fn err_a_clock_that_is_further_behind_than_promised_is_refused() {
        let lapse = |paid, now| Lapse::since_backup(NOW, after(paid), after(now), Duration::from_secs(60));
        assert!(lapse(0, -60).is_ok());
        assert_eq!(lapse(0, -61), Err(NOW));
        assert_eq!(lapse(1024 + 61, 0), Err(after(61)));
    }

    /// How far clocks are wrong at the most, and so twice this between any two of them.
    const WRONG: i128 = 1800;
    /// What a restore allows for.
    const ERROR: i128 = 2 * WRONG;

    /// A restore of what was known at `NOW`, by a host whose clock says `now`.
    fn restored_at(now: i128) -> Lapse {
        Lapse { since: after(-ERROR), until: after(now + ERROR) }
    }

    #[test]
    fn ok_a_restore_skips_exactly_the_most_that_can_have_been_reserved() {
        // The clock that the record was read by was ahead; the one of the daemon that went on was behind, and then ahead.
        for paid in [UnixNanos::new(0), after(-ERROR), after(-1000), after(1024)] {
            let (read, mut now, mut paid_until, mut reserved) = (paid, -ERROR, paid, 0);
            while now <= 5000 {
                let count = affordable(pace(1000), paid_until, after(now));
                paid_until = pay(pace(1000), paid_until, after(now), count).expect("affordable");
                (reserved, now) = (reserved + count, now + 100);
            }
            // The host's clock is behind that one.
            let (skipped, paid_then) = restored_at(now - 100 - ERROR).skip(pace(1000), read);
            assert_eq!(skipped, reserved, "paid until {paid:?}");
            assert_eq!(affordable(pace(1000), paid_then, after(now - 100)), 0, "it waits until then");
            assert_eq!(affordable(pace(1000), paid_then, after(now - 100 + 1)), 1000);
        }
    }

    const CLOCKS: &[i128] = &[-WRONG, 0, WRONG];

    /// How far a store's clock is wrong as a rule; and seconds that pass, what it is wrong by then if it is something else, and
    /// whether all that is affordable is reserved.
    fn store() -> impl Strategy<Value = (i128, Vec<(i128, Option<i128>, bool)>)> {
        let seconds = prop::sample::select(&[1_i128, 500, 1000, 4000]);
        let jumps = prop::option::weighted(0.1, prop::sample::select(CLOCKS));
        let steps = prop::collection::vec((seconds, jumps, prop::bool::weighted(0.9)), 1..12);
        (prop::sample::select(CLOCKS), steps)
    }

    proptest! {
        /// A backup is restored again and again, on hosts whose clocks are wrong by up to half an hour either way. What any of the
        /// stores reserves, no other one does.
        #[test]
        fn ok_a_restore_skips_whatever_was_reserved(
            read in prop::sample::select(&[-10_000_i128, 0, WRONG + 1024]),
            stores in prop::collection::vec((prop::sample::select(CLOCKS), store()), 2..6),
        ) {
            let (pace, read, mut time, mut most) = (pace(1000), after(read), 0, 0);
            for (number, (host, (usual, steps))) in stores.into_iter().enumerate() {
                // The first store is the one that the backup was made of, by a clock that was ahead.
                let lapse = Lapse { since: after(WRONG - ERROR), until: after(time + host + ERROR) };
                let (mut reserved, mut paid) = if number == 0 { (0, read) } else { lapse.skip(pace, read) };
                let mut ended = 0;
                for (seconds, jump, reserves) in steps {
                    let now = after(time + jump.unwrap_or(usual));
                    let count = affordable(pace, paid, now);
                    if reserves && count > 0 {
                        paid = pay(pace, paid, now, count).expect("it was said to be affordable");
                        prop_assert!(reserved >= most, "{reserved} was reserved before, up to {most}");
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
