//! Instants on the Unix time scale, without leap seconds.

use core::fmt;

/// Nanoseconds since 1970-01-01T00:00:00Z, without leap seconds; negative before that instant.
///
/// The range (years -5e21 to 5e21) includes every instant of every format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixNanos(i128);

impl UnixNanos {
    /// Creates the instant `nanos` nanoseconds after 1970-01-01T00:00:00Z.
    pub const fn new(nanos: i128) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since 1970-01-01T00:00:00Z.
    pub const fn get(self) -> i128 {
        self.0
    }

    /// Returns the whole second that contains this instant (rounded down).
    pub const fn floor_seconds(self) -> UnixSeconds {
        UnixSeconds(saturate(self.0.div_euclid(NANOS_PER_SECOND)))
    }

    /// Returns the first whole second at or after this instant (rounded up).
    pub const fn ceil_seconds(self) -> UnixSeconds {
        UnixSeconds(saturate(-(-self.0).div_euclid(NANOS_PER_SECOND)))
    }

    /// Returns this instant moved by `nanos`, which may be negative.
    pub const fn offset(self, nanos: i128) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

/// Whole seconds since 1970-01-01T00:00:00Z: the unit in which a slot's window is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(i64);

impl UnixSeconds {
    /// Creates the instant `seconds` seconds after 1970-01-01T00:00:00Z.
    pub const fn new(seconds: i64) -> Self {
        Self(seconds)
    }

    /// Returns the seconds since 1970-01-01T00:00:00Z.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Returns the same instant in nanoseconds.
    pub const fn nanos(self) -> UnixNanos {
        UnixNanos(self.0 as i128 * NANOS_PER_SECOND)
    }

    /// Returns this instant moved by `seconds`, which may be negative.
    pub const fn offset(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds))
    }
}

impl fmt::Display for UnixSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
    }
}

/// Nanoseconds in a second.
pub(crate) const NANOS_PER_SECOND: i128 = 1_000_000_000;

const fn saturate(seconds: i128) -> i64 {
    if seconds > i64::MAX as i128 {
        i64::MAX
    } else if seconds < i64::MIN as i128 {
        i64::MIN
    } else {
        seconds as i64 // OK because the bounds were just checked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_floor_rounds_down_and_ceil_rounds_up() {
        for (nanos, floor, ceil) in [
            (0, 0, 0),
            (1, 0, 1),
            (999_999_999, 0, 1),
            (1_000_000_000, 1, 1),
            (1_000_000_001, 1, 2),
            (-1, -1, 0),
            (-1_000_000_000, -1, -1),
        ] {
            let at = UnixNanos::new(nanos);
            assert_eq!(at.floor_seconds().get(), floor, "floor of {nanos}");
            assert_eq!(at.ceil_seconds().get(), ceil, "ceil of {nanos}");
        }
    }
}
