//! Attempts to make the core issue an identifier twice, found by adversarial code review.

use std::{num::NonZeroU64, time::Duration};

use kent_ids::{Format, Position, Stride, UnixNanos, UnixSeconds};
use kent_issue::{Bound, Chunk, Counter, Reserved, Stored};
use kent_regions::Pace;

use super::world::{Daemon, Ledger, Records};

const SECOND: i128 = 1_000_000_000;
const START: i128 = 1_800_000_000 * SECOND;

fn pace(count: u64) -> Pace {
    Pace::per_second(NonZeroU64::new(count).expect("a pace"))
}

/// Clocks at the limits of 64-bit seconds, around 1970 and around each format's last tick.
#[test]
fn ok_clocks_at_their_limits_neither_panic_nor_repeat() {
    for format in Format::all() {
        let last = format.line().instant(format.line().end());
        let extremes =
            [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX].map(|second| UnixSeconds::new(second).nanos());
        let around = [-2, -1, 0, 1].map(|seconds| last.offset(seconds * SECOND));
        let year_2262 = [-1, 0, 1].map(|nanos| UnixNanos::new(i128::from(i64::MAX) + nanos));
        let (mut records, mut ledger) = (Records::default(), Ledger::default());
        for (run, now) in extremes.into_iter().chain(around).chain(year_2262).cycle().take(42).enumerate() {
            let mut daemon = Daemon::start(u8::try_from(run).expect("few"));
            if daemon.issuer.plan_take(records.all(), &[], now, 7).is_err() {
                continue;
            }
            daemon.take(&mut records, now);
            for count in [1, 700, 1 << 10] {
                for later in [0, SECOND / 3, SECOND, 2 * SECOND] {
                    let now = now.offset(later);
                    if let Ok(granted) = daemon.grant(format.token(), count, now) {
                        ledger.record(format.token(), &granted);
                    }
                    daemon.extend(&mut records, now);
                }
            }
            if let Some(plan) = daemon.issuer.plan_give_back() {
                records.commit(&plan);
            }
        }
    }
}

/// Two counters issue suffixes up to the end of the largest region.
#[test]
fn ok_a_counter_at_the_end_of_128_bits_neither_panics_nor_repeats() {
    let bound = |seconds: i128| Bound {
        capacity: Position::new(u128::MAX),
        pace: pace(1 << 30),
        time: UnixNanos::new(START + seconds * SECOND),
        stride: Stride::EVERY,
    };
    let mut stored =
        Stored { version: 1, value: Reserved { below: Position::new(u128::MAX - 5000), paid: UnixNanos::new(0) } };
    let (mut one, mut other, mut granted) =
        (Counter::new(Chunk::default()), Counter::new(Chunk::default()), Vec::new());
    for round in 0..10_000_u64 {
        let counter = if round % 3 == 0 { &mut other } else { &mut one };
        let count = 1 + round % 9;
        if let Ok(first) = counter.grant(count.into()) {
            granted.extend((0..u128::from(count)).map(|offset| first.get() + offset));
        } else if let Ok(plan) = counter.plan_chunk(stored, count, &bound(round.into()), Duration::from_millis(round)) {
            stored = Stored { version: stored.version + 1, value: plan.reserved() };
            counter.on_committed(plan, stored.version);
        }
    }
    let all = granted.len();
    granted.sort_unstable();
    granted.dedup();
    assert_eq!(granted.len(), all, "a suffix was granted twice");
    assert!(all > 4000 && granted.iter().all(|suffix| *suffix < u128::MAX), "{all}");
}

/// A record below what this daemon has granted shows that the store was rolled back.
#[test]
fn err_a_counter_does_not_continue_below_what_it_has_granted() {
    let bound = Bound {
        capacity: Position::new(1 << 40),
        pace: pace(1 << 20),
        time: UnixNanos::new(START),
        stride: Stride::EVERY,
    };
    let read =
        |version, below| Stored { version, value: Reserved { below: Position::new(below), paid: UnixNanos::new(0) } };
    let mut counter = Counter::new(Chunk::default());
    let plan = counter.plan_chunk(read(7, 5000), 1000, &bound, Duration::ZERO).expect("a chunk");
    counter.on_committed(plan, 8);
    assert_eq!(counter.grant(1000), Ok(Position::new(5000)));
    // etcd was rolled back to a snapshot, and other clients have written since then, so its revision is higher again.
    let Ok(plan) = counter.plan_chunk(read(9, 4000), 2000, &bound, Duration::ZERO) else { return };
    counter.on_committed(plan, 10);
    let first = counter.grant(2000).expect("granted");
    assert!(first >= Position::new(6000), "from {first} on, although 5000 to 5999 were granted before");
}

/// A record below what this daemon has reserved also shows a rollback, even before another daemon reserves those
/// numbers again.
#[test]
fn err_a_counter_does_not_continue_below_what_it_has_reserved() {
    let bound = Bound {
        capacity: Position::new(1 << 40),
        pace: pace(1 << 20),
        time: UnixNanos::new(START),
        stride: Stride::EVERY,
    };
    let read =
        |version, below| Stored { version, value: Reserved { below: Position::new(below), paid: UnixNanos::new(0) } };
    let mut counter = Counter::new(Chunk::default());
    let plan = counter.plan_chunk(read(7, 5000), 1000, &bound, Duration::ZERO).expect("a chunk");
    counter.on_committed(plan, 8);
    assert_eq!(counter.grant(10), Ok(Position::new(5000)));
    let early = counter.plan_chunk(read(9, 5500), 2000, &bound, Duration::ZERO);
    assert!(early.is_err(), "granted up to 5010, reserved up to {}", counter.ceiling());
    // Numbers that the counter gives back are no longer reserved.
    let back = counter.plan_give_back().expect("a rest");
    assert_eq!(back.reserved().below, Position::new(5010));
    let plan = counter.plan_chunk(read(9, 5010), 2000, &bound, Duration::ZERO).expect("a chunk");
    assert_eq!(plan.guard(), 9);
}
