//! Prefixes: the leading bits that the identifiers of a region share.

use core::{fmt, str::FromStr};

use kent_ids::counted;
use thiserror::Error;

/// Up to 128 leading bits of an identifier, written as zeros and ones.
///
/// Prefixes are ordered like the intervals that they represent: by the first identifier, outer before inner.
///
/// Packed, because the alignment of a `u128` would enlarge a prefix from 17 to 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(Rust, packed)]
pub struct Prefix {
    /// The bits, aligned to the left and followed by zeros.
    left: u128,
    len: u8,
}

/// An error in a prefix or an extension.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadPrefix {
    /// A character other than 0 and 1.
    #[error("a prefix consists of 0s and 1s, but character {} of this one is {found:?}", at + 1)]
    Character {
        /// The character.
        found: char,
        /// Its index, counted from 0.
        at: usize,
    },
    /// Too many bits.
    #[error("a prefix here has at most {max} {}, but this one has {len}", bits(*max))]
    TooLong {
        /// The actual number of bits.
        len: usize,
        /// The largest number of bits allowed.
        max: u8,
    },
    /// The wrong number of bits.
    #[error("an extension here must have {expected} {}, but {found} has {}", bits(*expected), found.len())]
    Length {
        /// The required number of bits.
        expected: u8,
        /// The extension.
        found: Prefix,
    },
    /// A new region requests the all-zero extension of a split, which stays with the region that is split.
    #[error("the all-zero extension stays with the region that is split")]
    AllZero,
    /// All extensions of this length are assigned.
    #[error(
        "there {} only {} for new regions, and none is left",
        if *max == 1 { "is" } else { "are" },
        counted(max, "extension")
    )]
    NoneLeft {
        /// The number of extensions for new regions.
        max: u64,
    },
}

pub(crate) const fn bits(count: u8) -> &'static str {
    if count == 1 { "bit" } else { "bits" }
}

impl Prefix {
    /// The maximum length of a prefix in bits.
    pub const MAX_LEN: u8 = 128;

    /// The empty prefix, which every identifier has.
    pub const EMPTY: Self = Self { left: 0, len: 0 };

    /// Returns the prefix made of the low `len` bits of `value`. Higher bits of `value` are ignored, and a `len` above
    /// 128 counts as 128.
    pub const fn new(value: u128, len: u8) -> Self {
        let len = if len > Self::MAX_LEN { Self::MAX_LEN } else { len };
        Self::aligned(if len == 0 { 0 } else { value << (128 - len as u32) }, len)
    }

    /// Returns the prefix made of the high `len` bits of `left`, whose other bits are zero.
    const fn aligned(left: u128, len: u8) -> Self {
        Self { left, len }
    }

    /// Returns the number of bits, 0 to 128.
    #[expect(clippy::len_without_is_empty, reason = "the length of a prefix is a number of bits")]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// Returns the bits, as the low bits of a number.
    pub const fn value(self) -> u128 {
        if self.len == 0 { 0 } else { self.left >> (128 - self.len as u32) }
    }

    /// Returns the first n-bit identifier that has this prefix: the prefix, then zeros. `bits` must be at least the
    /// prefix's length.
    pub const fn base(self, bits: u8) -> u128 {
        if bits == 0 { 0 } else { self.left >> (128 - bits as u32) }
    }

    /// Returns the last n-bit identifier that has this prefix: the prefix, then ones. `bits` must be at least the
    /// prefix's length.
    pub(crate) const fn last(self, bits: u8) -> u128 {
        self.last_inside().base(bits)
    }

    /// Returns this prefix followed by another.
    pub const fn join(self, more: Self) -> Self {
        let right = if self.len >= 128 { 0 } else { more.left >> self.len };
        let len = self.len.saturating_add(more.len);
        Self::aligned(self.left | right, if len > Self::MAX_LEN { Self::MAX_LEN } else { len })
    }

    /// Returns this prefix followed by `count` zeros.
    pub const fn zeros(self, count: u8) -> Self {
        self.join(Self::new(0, count))
    }

    /// Returns the bits after the first `len`.
    pub const fn rest(self, len: u8) -> Self {
        if len >= self.len { Self::EMPTY } else { Self::aligned(self.left << len, self.len - len) }
    }

    /// Returns the first `len` bits.
    pub(crate) const fn first(self, len: u8) -> Self {
        if len >= self.len { self } else { Self::aligned(self.left & high(len), len) }
    }

    /// Returns the bit after the first `len`: 0 or 1. `len` must be less than 128.
    pub(crate) const fn bit(self, len: u8) -> usize {
        (self.left >> (127 - len as u32) & 1) as usize // OK because a bit fits
    }

    /// Returns this prefix followed by a 0 or, if `is_upper`, by a 1.
    pub(crate) const fn half(self, is_upper: bool) -> Self {
        self.join(Self::new(is_upper as u128, 1))
    }

    /// Returns the prefix that differs only in the last bit. The empty prefix has no sibling.
    pub(crate) const fn sibling(self) -> Option<Self> {
        match self.len {
            0 => None,
            len => Some(Self::aligned(self.left ^ 1 << (128 - len as u32), len)),
        }
    }

    /// Returns the last of all prefixes that begin with this one.
    pub(crate) const fn last_inside(self) -> Self {
        Self::aligned(self.left | !high(self.len), Self::MAX_LEN)
    }

    /// Returns whether this prefix begins with `outer` (every prefix begins with itself).
    pub const fn starts_with(self, outer: Self) -> bool {
        self.len >= outer.len && (self.left ^ outer.left) & high(outer.len) == 0
    }

    /// Returns whether one of the two prefixes begins with the other, so that their intervals overlap.
    pub const fn relates_to(self, other: Self) -> bool {
        self.starts_with(other) || other.starts_with(self)
    }

    /// Returns whether all bits are zero.
    pub const fn is_zero(self) -> bool {
        self.left == 0
    }

    /// Returns whether the n-bit identifier has this prefix.
    pub const fn holds(self, id: u128, bits: u8) -> bool {
        let left = if bits == 0 { 0 } else { id << (128 - bits as u32) };
        (left ^ self.left) & high(self.len) == 0
    }
}

/// Returns a number whose highest `len` bits are set.
const fn high(len: u8) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - len as u32) }
}

impl Ord for Prefix {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.left, self.len).cmp(&(other.left, other.len))
    }
}

impl PartialOrd for Prefix {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The alternate form (`{:#}`) of the empty prefix is `(none)`.
impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() && self.len == 0 {
            return f.write_str("(none)");
        }
        (0..self.len).try_for_each(|at| f.write_str(if self.left >> (127 - at) & 1 == 1 { "1" } else { "0" }))
    }
}

impl FromStr for Prefix {
    type Err = BadPrefix;

    fn from_str(text: &str) -> Result<Self, BadPrefix> {
        if let Some((at, found)) = text.chars().enumerate().find(|(_, found)| !matches!(found, '0' | '1')) {
            return Err(BadPrefix::Character { found, at });
        }
        match u8::try_from(text.len()) {
            Ok(len) if len <= Self::MAX_LEN => {
                let value = text.bytes().fold(0, |value, bit| value << 1 | u128::from(bit == b'1'));
                Ok(Self::new(value, len))
            }
            _ => Err(BadPrefix::TooLong { len: text.len(), max: Self::MAX_LEN }),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    #[test]
    fn ok_text_reads_back() {
        for text in ["", "0", "1", "101101", &"10".repeat(64)] {
            assert_eq!(prefix(text).to_string(), text);
            assert_eq!(usize::from(prefix(text).len()), text.len());
        }
    }

    #[test]
    fn err_other_characters_are_reported_with_their_index() {
        assert_eq!("10x1".parse::<Prefix>(), Err(BadPrefix::Character { found: 'x', at: 2 }));
        assert_eq!("1".repeat(129).parse::<Prefix>(), Err(BadPrefix::TooLong { len: 129, max: 128 }));
    }

    #[test]
    fn ok_parts_and_relations() {
        let p = prefix("101101");
        assert_eq!(p.join(prefix("01")), prefix("10110101"));
        assert_eq!(p.zeros(2), prefix("10110100"));
        assert_eq!(prefix("10110101").rest(6), prefix("01"));
        assert_eq!(p.base(64), 0b101101 << 58);
        assert!(prefix("10110101").starts_with(p) && p.relates_to(prefix("10")) && !p.relates_to(prefix("100")));
        assert!(p.holds(0xb400_0000_0000_0000, 64) && !p.holds(0xb800_0000_0000_0000, 64));
        assert!(Prefix::EMPTY.holds(u128::MAX, 128) && Prefix::EMPTY.base(128) == 0);
        assert_eq!((p.last(8), p.last(6), Prefix::EMPTY.last(128)), (0b1011_0111, 0b101101, u128::MAX));
    }

    #[test]
    fn ok_the_bits_are_a_number() {
        for (text, value) in [("", 0), ("0", 0), ("1", 1), ("0110", 6), (&"1".repeat(128), u128::MAX)] {
            assert_eq!(prefix(text).value(), value);
            assert_eq!(prefix(text).is_zero(), value == 0);
        }
    }

    #[test]
    fn ok_a_prefix_is_not_within_a_longer_one() {
        for (outer, inner) in [("1", "10"), ("0", "00"), ("", "0")].map(|(outer, inner)| (prefix(outer), prefix(inner)))
        {
            assert!(inner.starts_with(outer) && !outer.starts_with(inner));
            assert!(inner.relates_to(outer) && outer.relates_to(inner));
        }
    }

    #[test]
    fn err_messages_use_singular_and_plural() {
        let says = |expected| BadPrefix::Length { expected, found: prefix("0") }.to_string();
        assert_eq!(says(1), "an extension here must have 1 bit, but 0 has 1");
        assert_eq!(says(2), "an extension here must have 2 bits, but 0 has 1");
    }

    #[test]
    fn ok_joins_are_truncated_to_128_bits() {
        let (ones, zeros) = ("1".repeat(128), "0".repeat(128));
        assert_eq!(prefix(&ones).join(prefix("01")), prefix(&ones));
        assert_eq!(prefix(&ones).zeros(255), prefix(&ones));
        assert_eq!(Prefix::EMPTY.zeros(255), prefix(&zeros));
        assert_eq!(prefix("1").zeros(255).len(), 128);
        assert_eq!(prefix("1").join(prefix(&ones)), prefix(&ones));
        assert_eq!(Prefix::new(u128::MAX, 255), prefix(&ones));
    }

    #[test]
    fn ok_neighbors() {
        assert_eq!(prefix("1011").first(2), prefix("10"));
        assert_eq!(prefix("1011").first(200), prefix("1011"));
        assert_eq!((prefix("10").sibling(), Prefix::EMPTY.sibling()), (Some(prefix("11")), None));
        assert_eq!(prefix(&"1".repeat(128)).sibling(), Some(Prefix::new(u128::MAX - 1, 128)));
        assert_eq!(prefix("1").last_inside(), prefix(&"1".repeat(128)));
        assert_eq!(prefix("01").last_inside(), Prefix::new(u128::MAX >> 1, 128));
    }

    #[test]
    fn ok_order_is_that_of_the_intervals_outer_before_inner() {
        let ordered = ["", "0", "00", "01", "1", "10", "100", "101", "11"].map(prefix);
        assert!(ordered.is_sorted());
    }
}
