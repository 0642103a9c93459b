//! Pace: how fast a counter may move, on average. It is fixed when the counter begins, since a restore relies on it.

use core::{fmt, num::NonZeroU64};

/// The most identifiers a second that a counter may hand out, on average.
///
/// A restore from a backup skips what the counter may have handed out since: its pace times the time. So a pace never changes, and
/// one that is far above the real use costs suffixes at a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pace(NonZeroU64);

/// The slowest and the fastest pace by default, as powers of two.
const DEFAULT_BITS_MIN: u8 = 20;
const DEFAULT_BITS_MAX: u8 = 30;
/// By default a counter lasts for at least 2^20 seconds, twelve days, at its full pace.
const LASTS_BITS: u8 = 20;

impl Pace {
    /// A pace of this many identifiers a second.
    pub const fn per_second(count: NonZeroU64) -> Self {
        Self(count)
    }

    /// The default for a counter of 2^bits numbers: 2^20 a second up to 2^40 numbers, 2^30 from 2^50 on.
    pub const fn for_bits(bits: u8) -> Self {
        let bits = bits.saturating_sub(LASTS_BITS);
        let bits = if bits < DEFAULT_BITS_MIN { DEFAULT_BITS_MIN } else { bits };
        let bits = if bits > DEFAULT_BITS_MAX { DEFAULT_BITS_MAX } else { bits };
        match NonZeroU64::new(1 << bits) {
            Some(count) => Self(count),
            None => Self(NonZeroU64::MAX), // OK because a power of two is not zero.
        }
    }

    /// Identifiers a second.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} a second", self.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn ok_the_default_leaves_twelve_days_within_its_bounds() {
        for (suffix, bits) in [(0, 20), (20, 20), (40, 20), (41, 21), (49, 29), (50, 30), (64, 30), (128, 30)] {
            assert_eq!(Pace::for_bits(suffix).get(), 1 << bits, "{suffix} bits");
        }
    }

    #[test]
    fn ok_a_pace_is_shown_with_its_unit() {
        assert_eq!(Pace::for_bits(20).to_string(), "1048576 a second");
    }
}
