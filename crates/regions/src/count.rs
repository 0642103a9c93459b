//! Counts of suffixes. They go up to 2^128 inclusive, because a region can span a whole 128-bit space.

use core::{fmt, str::FromStr};

/// A number of suffixes, 0 to 2^128.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Count {
    /// Fewer than 2^128.
    Below(u128),
    /// 2^128.
    Max,
}

impl Default for Count {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Count {
    /// Zero.
    pub const ZERO: Self = Self::Below(0);

    /// Returns 2^`bits`, or 2^128 if `bits` is above 128.
    pub const fn power_of_two(bits: u8) -> Self {
        if bits >= 128 { Self::Max } else { Self::Below(1 << bits) }
    }

    /// Returns the number of suffixes up to and including `suffix`.
    pub const fn through(suffix: u128) -> Self {
        match suffix.checked_add(1) {
            Some(count) => Self::Below(count),
            None => Self::Max,
        }
    }

    /// Returns the number, or `None` if it is 2^128.
    pub const fn get(self) -> Option<u128> {
        match self {
            Self::Below(count) => Some(count),
            Self::Max => None,
        }
    }

    /// Returns the nearest float, for reports.
    pub const fn to_f64(self) -> f64 {
        match self {
            Self::Below(count) => count as f64,
            Self::Max => u128::MAX as f64,
        }
    }

    /// Returns the sum of this count and `more`, or `None` if the sum is above 2^128.
    pub const fn checked_add(self, more: u128) -> Option<Self> {
        match (self, more) {
            (_, 0) => Some(self),
            (Self::Max, _) => None,
            (Self::Below(count), _) => match count.checked_add(more) {
                Some(sum) => Some(Self::Below(sum)),
                None if count.wrapping_add(more) == 0 => Some(Self::Max),
                None => None,
            },
        }
    }

    /// Returns this count minus `other`, or zero if `other` is larger.
    pub const fn saturating_sub(self, other: Self) -> Self {
        match (self, other) {
            (Self::Max, Self::Below(0)) => Self::Max,
            (Self::Max, Self::Below(other)) => Self::Below(other.wrapping_neg()),
            (_, Self::Max) => Self::ZERO,
            (Self::Below(count), Self::Below(other)) => Self::Below(count.saturating_sub(other)),
        }
    }

    /// Returns whether the suffix is below this count.
    pub const fn includes(self, suffix: u128) -> bool {
        match self {
            Self::Below(count) => suffix < count,
            Self::Max => true,
        }
    }

    /// Returns the smallest s for which 2^s is at least this count.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Below(0) => 0,
            // OK because the difference is at most 128.
            Self::Below(count) => (u128::BITS - (count - 1).leading_zeros()) as u8,
            Self::Max => 128,
        }
    }
}

impl From<u128> for Count {
    fn from(count: u128) -> Self {
        Self::Below(count)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Below(count) => count.fmt(f),
            Self::Max => f.pad(MAX),
        }
    }
}

impl FromStr for Count {
    type Err = core::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == MAX { Ok(Self::Max) } else { text.parse().map(Self::Below) }
    }
}

/// 2^128 in decimal.
const MAX: &str = "340282366920938463463374607431768211456";

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn ok_counts_reach_two_to_the_128() {
        assert_eq!(Count::power_of_two(128).to_string(), MAX);
        assert_eq!(MAX.parse(), Ok(Count::Max));
        assert_eq!(Count::through(u128::MAX), Count::Max);
        assert_eq!(Count::Below(u128::MAX).checked_add(1), Some(Count::Max));
        assert_eq!(Count::Below(u128::MAX).checked_add(2), None);
        assert_eq!(Count::Max.checked_add(0), Some(Count::Max));
        assert!(Count::Below(u128::MAX) < Count::Max);
    }

    #[test]
    fn ok_differences_of_counts() {
        let (zero, two, all_but_two) = (Count::ZERO, Count::Below(2), Count::Below(u128::MAX - 1));
        for (count, other, difference) in [
            (Count::Below(7), Count::Below(5), two),
            (two, Count::Below(7), zero),
            (Count::Max, zero, Count::Max),
            (Count::Max, all_but_two, two),
            (Count::Max, two, all_but_two),
            (Count::Max, Count::Max, zero),
            (two, Count::Max, zero),
        ] {
            assert_eq!(count.saturating_sub(other), difference, "{count} - {other}");
        }
    }

    #[test]
    fn ok_a_count_includes_the_suffixes_below_it() {
        assert!(Count::Below(8).includes(7) && !Count::Below(8).includes(8) && !Count::Below(8).includes(9));
        assert!(Count::Max.includes(u128::MAX));
    }

    #[test]
    fn ok_a_count_is_written_as_a_number() {
        for number in [0, 1, 7, u128::MAX] {
            let count = Count::from(number);
            assert_eq!((count.get(), count.to_string()), (Some(number), number.to_string()));
            assert_eq!(number.to_string().parse(), Ok(count));
        }
        assert_eq!(Count::Max.get(), None);
        assert!("-1".parse::<Count>().is_err());
    }

    #[test]
    fn ok_bits_are_the_smallest_suffix_that_holds_a_count() {
        for (count, bits) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (513, 10), (1 << 127, 127)] {
            assert_eq!(Count::Below(count).bits(), bits, "{count}");
        }
        assert_eq!(Count::Max.bits(), 128);
    }
}
