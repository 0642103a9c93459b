//! A sequence: the positions `next..ceiling` that one daemon may grant of one source.
//!
//! The ceiling is what is durable, `next` lives in memory: after a crash a sequence starts at the ceiling, never below it.

use kent_ids::Position;
use thiserror::Error;

/// The positions from `next` (included) to `ceiling` (excluded), which nobody else may grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sequence {
    next: Position,
    ceiling: Position,
}

/// Fewer positions are left below the ceiling than were asked for. Nothing was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{left} positions are left below the ceiling")]
pub struct Exhausted {
    /// How many are left, counted from the floor that was asked for.
    pub left: u128,
}

impl Sequence {
    /// A sequence that may grant the positions of `next..ceiling`.
    ///
    /// The caller vouches that the ceiling is durable, and that nobody else was ever given these positions.
    pub const fn new(next: Position, ceiling: Position) -> Self {
        Self { next, ceiling }
    }

    /// Cuts `count` positions off, at `floor` or later, and returns the first.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] if they would reach the ceiling; the sequence is then unchanged.
    pub fn grant(&mut self, floor: Position, count: u64) -> Result<Position, Exhausted> {
        let first = self.next.max(floor);
        let left = self.ceiling.since(first);
        if u128::from(count) > left {
            return Err(Exhausted { left });
        }
        // OK because the sum is at most the ceiling.
        self.next = Position::new(first.get() + u128::from(count));
        Ok(first)
    }

    /// Moves the ceiling up to `ceiling`, and `next` up to `start` if it lies below; neither ever goes down.
    ///
    /// The caller vouches that the ceiling is durable, and that nobody else was given the positions of `start..ceiling`.
    pub fn raise(&mut self, start: Position, ceiling: Position) {
        self.next = self.next.max(start);
        self.ceiling = self.ceiling.max(ceiling);
    }

    /// Gives up all that is left: `ceiling = next`. What is given up may be handed to somebody else only afterwards.
    pub fn close(&mut self) {
        self.ceiling = self.next;
    }

    /// The first position that has not been granted.
    pub const fn next(&self) -> Position {
        self.next
    }

    /// The first position that may not be granted.
    pub const fn ceiling(&self) -> Position {
        self.ceiling
    }

    /// How many positions are left.
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
    fn ok_a_floor_skips_positions_and_a_refusal_changes_nothing() {
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
        assert_eq!(sequence.grant(at(u128::MAX), u64::MAX), Err(Exhausted { left: 0 }));
    }
}
