//! A sequence: the positions `next..ceiling` of one source that one daemon may grant.
//!
//! The ceiling is durable, while `next` is only in memory. After a crash, a sequence starts at the ceiling, never
//! below.

use kent_ids::Position;
use thiserror::Error;

/// The positions from `next` (included) to `ceiling` (excluded). No other daemon may grant them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sequence {
    next: Position,
    ceiling: Position,
}

/// The error when fewer positions are left than requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the request needs more than the {left} positions left below the ceiling")]
pub struct Exhausted {
    /// The number of positions left, counted from the requested floor.
    pub left: u128,
}

impl Sequence {
    /// Creates a sequence that may grant the positions `next..ceiling`.
    ///
    /// The caller guarantees that the ceiling is durable, and that no other daemon ever gets these positions.
    pub const fn new(next: Position, ceiling: Position) -> Self {
        Self { next, ceiling }
    }

    /// Grants `count` positions at `floor` or later, and returns the first.
    ///
    /// # Errors
    ///
    /// Fails with [`Exhausted`] if the positions would exceed the ceiling; the sequence is then unchanged.
    pub fn grant(&mut self, floor: Position, count: u128) -> Result<Position, Exhausted> {
        let first = self.next.max(floor);
        let left = self.ceiling.since(first);
        if count > left {
            return Err(Exhausted { left });
        }
        // OK because the sum is at most the ceiling.
        self.next = Position::new(first.get() + count);
        Ok(first)
    }

    /// Raises the ceiling to `ceiling`, and `next` to `start`. Neither ever goes down.
    ///
    /// The caller guarantees that the ceiling is durable, and that no other daemon gets the positions `start..ceiling`.
    pub fn raise(&mut self, start: Position, ceiling: Position) {
        self.next = self.next.max(start);
        self.ceiling = self.ceiling.max(ceiling);
    }

    /// Gives up the remaining positions: `ceiling = next`. Call this method before another daemon can get them.
    pub fn close(&mut self) {
        self.ceiling = self.next;
    }

    /// Returns the first position that has not been granted.
    pub const fn next(&self) -> Position {
        self.next
    }

    /// Returns the first position that may not be granted.
    pub const fn ceiling(&self) -> Position {
        self.ceiling
    }

    /// Returns the number of positions left.
    pub const fn left(&self) -> u128 {
        self.ceiling.since(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u128) -> Position {
        Position::new(number)
    }

    #[test]
    fn ok_grants_are_adjacent_and_stop_at_the_ceiling() {
        let mut sequence = Sequence::new(at(10), at(20));
        assert_eq!(sequence.grant(at(0), 4), Ok(at(10)));
        assert_eq!(sequence.grant(at(0), 6), Ok(at(14)));
        assert_eq!(sequence.grant(at(0), 1), Err(Exhausted { left: 0 }));
    }

    #[test]
    fn ok_a_floor_skips_positions_and_an_error_changes_nothing() {
        let mut sequence = Sequence::new(at(10), at(20));
        assert_eq!(sequence.grant(at(15), 6), Err(Exhausted { left: 5 }));
        assert_eq!(sequence.grant(at(12), 3), Ok(at(12)));
        assert_eq!(sequence.grant(at(30), 1), Err(Exhausted { left: 0 }));
        assert_eq!(sequence.next(), at(15));
    }

    #[test]
    fn ok_a_closed_sequence_grants_nothing() {
        let mut sequence = Sequence::new(at(10), at(20));
        sequence.close();
        assert_eq!(sequence.grant(at(0), 1), Err(Exhausted { left: 0 }));
        assert_eq!(sequence.grant(at(u128::MAX), u64::MAX.into()), Err(Exhausted { left: 0 }));
    }
}
