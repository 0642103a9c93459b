//! Pace: the maximum average rate of a counter. It is fixed when the counter is created, because a restore relies on
//! it.

use core::{fmt, num::NonZeroU64};

use kent_ids::grouped;

/// The largest average number of identifiers per second that a counter may issue.
///
/// A restore from a backup skips the identifiers that the counter may have issued since the backup: its pace times the
/// age of the backup. Therefore a pace never changes, and a pace far above the actual rate wastes suffixes in a
/// restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pace(NonZeroU64);

/// The smallest and the largest default pace, as powers of two.
const DEFAULT_BITS_MIN: u8 = 20;
const DEFAULT_BITS_MAX: u8 = 30;
/// Between these bounds, the default pace uses up a counter in 2^20 seconds (twelve days).
const LASTS_BITS: u8 = 20;

impl Pace {
    /// Returns a pace of this many identifiers per second.
    pub const fn per_second(count: NonZeroU64) -> Self {
        Self(count)
    }

    /// Returns the default pace of a counter of 2^`bits` numbers: 2^20 per second up to 2^40 numbers, 2^30 per second
    /// from 2^50 numbers, and 2^(`bits` - 20) in between.
    pub const fn for_bits(bits: u8) -> Self {
        let bits = bits.saturating_sub(LASTS_BITS);
        let bits = if bits < DEFAULT_BITS_MIN { DEFAULT_BITS_MIN } else { bits };
        let bits = if bits > DEFAULT_BITS_MAX { DEFAULT_BITS_MAX } else { bits };
        match NonZeroU64::new(1 << bits) {
            Some(count) => Self(count),
            None => Self(NonZeroU64::MAX), // OK because a power of two is not zero.
        }
    }

    /// Returns the number of identifiers per second.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per second", grouped(self.0))
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
        assert_eq!(Pace::for_bits(20).to_string(), "1_048_576 per second");
    }
}
