//! Floors: where a source continues, so that it never issues an identifier that another generator has issued.
//!
//! A floor is the greatest identifier that may be in use. Floors only raise a source; they never lower it.

use core::time::Duration;

use kent_ids::{Position, UnixNanos, UnixSeconds};
use thiserror::Error;

/// Why a source cannot continue above a floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadFloor {
    /// The source has no numbers above the floor.
    #[error("the last number of the source is {}", last.get())]
    NothingAbove {
        /// The last number.
        last: Position,
    },
    /// The time of the floor has not passed, so new identifiers could have the same time.
    #[error("the time of the floor has not passed yet: wait for {} ms", wait.as_millis())]
    NotPassed {
        /// The time until the floor has passed.
        wait: Duration,
    },
}

/// Returns the counter after its numbers up to and including `floor` are skipped. `next` is the number at which the
/// counter continues now, and `end` is the number after its last one.
///
/// # Errors
///
/// Fails with [`BadFloor::NothingAbove`] if no number is left above the floor.
pub fn counter_above(floor: u128, next: Position, end: Position) -> Result<Position, BadFloor> {
    match floor.checked_add(1).map(Position::new).filter(|above| *above < end) {
        Some(above) => Ok(above.max(next)),
        None => Err(BadFloor::NothingAbove { last: Position::new(end.get().saturating_sub(1)) }),
    }
}

/// Returns the second through which all slots must be reserved, so that no slot ever issues an identifier whose time is
/// before `end`, the end of the floor's tick. `now` is the time of the daemon that keeps its slot. This daemon absorbs
/// steps back of up to `tolerance`, and leaves its slot after a larger one. Every other daemon must be fenced.
///
/// # Errors
///
/// Fails with [`BadFloor::NotPassed`] if the daemon that keeps its slot could still issue a time before `end`.
pub fn slots_above(end: UnixNanos, now: UnixNanos, tolerance: Duration) -> Result<UnixSeconds, BadFloor> {
    let passed = end.offset(i128::try_from(tolerance.as_nanos()).unwrap_or(i128::MAX));
    match u64::try_from(passed.get().saturating_sub(now.get())) {
        Ok(wait) if wait > 0 => Err(BadFloor::NotPassed { wait: Duration::from_nanos(wait) }),
        Err(_) if passed > now => Err(BadFloor::NotPassed { wait: Duration::MAX }),
        _ => Ok(end.ceil_seconds()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_counter_continues_above_the_floor_and_never_goes_back() {
        for (floor, next, end, expected) in [
            (0, 0, 100, Ok(1)),
            (0, 1, 100, Ok(1)),
            (4711, 0, 10_000, Ok(4712)),
            (4711, 4711, 10_000, Ok(4712)),
            (4711, 9000, 10_000, Ok(9000)),
            (98, 0, 100, Ok(99)),
            (99, 0, 100, Err(99)),
            (u128::MAX, 0, 100, Err(99)),
        ] {
            let raised = counter_above(floor, Position::new(next), Position::new(end));
            let expected =
                expected.map(Position::new).map_err(|last| BadFloor::NothingAbove { last: Position::new(last) });
            assert_eq!(raised, expected, "{floor} {next}");
        }
    }

    #[test]
    fn ok_slots_are_reserved_through_a_floor_only_after_it_has_passed() {
        let (tolerance, second) = (Duration::from_millis(500), 1_000_000_000);
        let at = |millis: i128| UnixNanos::new(millis * 1_000_000);
        for (end, now, expected) in [
            (1_000, 1_500, Ok(1)),
            (1_001, 1_501, Ok(2)),
            (1_000, 1_499, Err(1_000_000)),
            (60_000, 0, Err(60 * second + 500_000_000)),
            (-5_000, 0, Ok(-5)),
        ] {
            let reserved = slots_above(at(end), at(now), tolerance);
            let expected =
                expected.map(UnixSeconds::new).map_err(|wait| BadFloor::NotPassed { wait: Duration::from_nanos(wait) });
            assert_eq!(reserved, expected, "{end} {now}");
        }
        let never = slots_above(UnixNanos::new(i128::MAX), at(0), tolerance);
        assert_eq!(never, Err(BadFloor::NotPassed { wait: Duration::MAX }));
    }
}
