//! Lines of positions: every format issues identifiers along one line.
//!
//! A time-based format is a line `position = tick * 2^C + counter`. A [`Line`] turns an instant into the first position
//! of that instant's tick; a format turns a position into an identifier.

use core::fmt;

use crate::time::{NANOS_PER_SECOND, UnixNanos, UnixSeconds};

/// A number on the line of one source; a pure function of the format turns it into an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u128);

impl Position {
    /// The first position of every line.
    pub const ZERO: Self = Self(0);

    /// Creates the position with this number.
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// Returns the position's number.
    pub const fn get(self) -> u128 {
        self.0
    }

    /// Returns the position `count` places later, or `None` if its number does not fit in 128 bits.
    pub const fn checked_add(self, count: u128) -> Option<Self> {
        match self.0.checked_add(count) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Returns the position `count` places later, or position `u128::MAX` if its number does not fit in 128 bits.
    pub(crate) const fn saturating_add(self, count: u128) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// Returns the number of positions from `earlier` (inclusive) to this position (exclusive), or zero if `earlier` is
    /// not earlier.
    pub const fn since(self, earlier: Self) -> u128 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The positions of one time-based format: `position = tick * 2^counter_bits + counter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    tick_nanos: u64,
    origin: UnixNanos,
    ticks: u128,
    counter_bits: u32,
}

impl Line {
    /// Creates a line of `2^tick_bits` ticks. Tick 0 begins at `origin`. Each tick lasts `tick_nanos` nanoseconds and
    /// holds `2^counter_bits` positions.
    ///
    /// # Panics
    /// Panics like [`Line::of_ticks`].
    pub const fn new(tick_nanos: u64, origin: UnixNanos, tick_bits: u32, counter_bits: u32) -> Self {
        Self::of_ticks(tick_nanos, origin, 1 << tick_bits, counter_bits)
    }

    /// Creates a line like [`Line::new`], but with `ticks` ticks, for formats that store seconds but have ticks shorter
    /// than a second.
    ///
    /// # Panics
    ///
    /// Panics if a tick does not divide a second, or if the origin is not a whole number of ticks from 1970-01-01:
    /// windows are whole seconds, and their arithmetic must be exact. Also panics if the line does not fit in 127 bits.
    /// The lines of the built-in formats are constants, so the compiler evaluates these checks. The line of a custom
    /// layout is made at run time, after the layout has checked the same conditions.
    pub const fn of_ticks(tick_nanos: u64, origin: UnixNanos, ticks: u128, counter_bits: u32) -> Self {
        assert!(tick_nanos > 0 && NANOS_PER_SECOND % tick_nanos as i128 == 0, "a tick must divide a second");
        assert!(origin.get() % tick_nanos as i128 == 0, "the origin must be a whole number of ticks");
        assert!(counter_bits < 64 && ticks.ilog2() + counter_bits < 127, "the line must fit in 127 bits");
        Self { tick_nanos, origin, ticks, counter_bits }
    }

    /// Returns the length of a tick in nanoseconds.
    pub const fn tick_nanos(&self) -> u64 {
        self.tick_nanos
    }

    /// Returns the instant at which tick 0 begins.
    pub const fn origin(&self) -> UnixNanos {
        self.origin
    }

    /// Returns the number of low bits of a position. These bits count the positions within a tick.
    pub const fn counter_bits(&self) -> u32 {
        self.counter_bits
    }

    /// Returns the position after the last position of the line: the number of ticks, times `2^counter_bits`.
    pub const fn end(&self) -> Position {
        Position(self.ticks << self.counter_bits)
    }

    /// Returns the first position of the tick that contains `at`, or `None` if the format has no such tick.
    pub fn floor(&self, at: UnixNanos) -> Option<Position> {
        self.first_of_tick(self.ticks(at))
    }

    /// Returns the first position *after* the tick that begins at the whole second `second`: `(ticks(second) + 1) *
    /// 2^C`.
    ///
    /// A slot whose record moves from r to r' may issue the ticks of (r, r'], that is, the positions from
    /// `after_second(r)` (inclusive) to `after_second(r')` (exclusive). Instants outside the line are clamped to its
    /// ends.
    pub fn after_second(&self, second: UnixSeconds) -> Position {
        let tick = self.ticks(second.nanos()) + 1;
        if tick <= 0 {
            return Position::ZERO;
        }
        self.first_of_tick(tick).unwrap_or(self.end())
    }

    /// Returns the instant at which the position's tick begins.
    pub fn instant(&self, position: Position) -> UnixNanos {
        let tick = position.0 >> self.counter_bits;
        // OK because a position of the line has fewer than 127 bits; a position of another line saturates.
        let ticks = i128::try_from(tick).unwrap_or(i128::MAX);
        self.origin.offset(ticks.saturating_mul(i128::from(self.tick_nanos)))
    }

    fn ticks(&self, at: UnixNanos) -> i128 {
        let nanos = at.offset(-self.origin.get()).get();
        match u64::try_from(nanos) {
            // Fast path: for five centuries after the origin, the division is a single 64-bit instruction.
            Ok(nanos) => (nanos / self.tick_nanos).into(),
            Err(_) => nanos.div_euclid(self.tick_nanos.into()),
        }
    }

    fn first_of_tick(&self, tick: i128) -> Option<Position> {
        let tick = u128::try_from(tick).ok()?;
        (tick < self.ticks).then(|| Position(tick << self.counter_bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLIS: Line = Line::new(1_000_000, UnixNanos::new(0), 48, 22);
    const SECONDS: Line = Line::new(1_000_000_000, UnixNanos::new(0), 32, 20);

    #[test]
    fn ok_a_window_holds_the_ticks_after_its_start_up_to_its_end() {
        let (r0, r1) = (UnixSeconds::new(100), UnixSeconds::new(102));
        assert_eq!(MILLIS.after_second(r0), Position::new(100_001 << 22));
        assert_eq!(MILLIS.after_second(r1), Position::new(102_001 << 22));
        assert_eq!(SECONDS.after_second(r0), Position::new(101 << 20));
        assert_eq!(SECONDS.after_second(r1), Position::new(103 << 20));
    }

    #[test]
    fn ok_an_instant_outside_the_line_has_no_floor_and_a_clamped_window() {
        assert_eq!(MILLIS.floor(UnixNanos::new(-1)), None);
        assert_eq!(MILLIS.after_second(UnixSeconds::new(-5)), Position::ZERO);
        assert_eq!(SECONDS.floor(UnixSeconds::new(1 << 32).nanos()), None);
        assert_eq!(SECONDS.after_second(UnixSeconds::new(1 << 40)), SECONDS.end());
    }

    #[test]
    fn ok_the_instant_of_a_position_is_the_start_of_its_tick() {
        let at = UnixNanos::new(1_763_667_000_123_456_789);
        let floor = MILLIS.floor(at).expect("inside the line");
        assert_eq!(floor, Position::new(7_397_355_553_283_899_392));
        assert_eq!(MILLIS.instant(floor), UnixNanos::new(1_763_667_000_123_000_000));
    }
}
