//! The character schemes of EXTUUID 2012: the characters that a name may have, and the bits that it takes.
//!
//! In the schemes A, B and C, every character has its own bits. In D and F, a name is one number, and its first
//! character is the most significant digit. Scheme E (six-bit EBCDIC) has a code but is not supported.

use alloc::string::String;
use core::fmt;

use super::{
    bits::{bit_length, mask},
    reason::Reason,
};

/// A set of characters for names. Only [`Scheme::A`] distinguishes upper and lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Letters of both cases, digits, `.` and `_`: 6 bits each.
    A,
    /// Letters, digits and most of ASCII's punctuation: 6 bits each.
    B,
    /// Letters and `._+-*/`: 5 bits each.
    C,
    /// Letters, packed in base 26.
    D,
    /// Letters, digits, `.` and `_`, packed in base 38.
    F,
}

/// The placeholder in an alphabet for an unassigned code. It never matches a name, because it is not printable.
const UNASSIGNED: u8 = 0;
/// The character that pads a name to a fixed length. It has the same code in the schemes A, B and C.
const PADDING: u8 = b'_';

impl Scheme {
    /// Every supported scheme, in the order in which the parser tries them for a name.
    pub const ALL: [Self; 5] = [Self::A, Self::B, Self::C, Self::D, Self::F];

    /// Returns the scheme with this letter, or `None`. There is no scheme for `E` or for a lower-case letter.
    pub fn by_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.letter() == letter)
    }

    /// Returns the scheme's letter.
    pub const fn letter(self) -> char {
        match self {
            Self::A => 'A',
            Self::B => 'B',
            Self::C => 'C',
            Self::D => 'D',
            Self::F => 'F',
        }
    }

    /// Returns the scheme with this code of three bits.
    pub(super) const fn by_code(code: u8) -> Result<Self, Reason> {
        match code {
            0 => Ok(Self::A),
            1 => Ok(Self::B),
            2 => Ok(Self::C),
            3 => Ok(Self::D),
            4 => Err(Reason::UnsupportedScheme),
            5 => Ok(Self::F),
            _ => Err(Reason::ReservedScheme),
        }
    }

    /// Returns the scheme's code of three bits.
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::A => 0,
            Self::B => 1,
            Self::C => 2,
            Self::D => 3,
            Self::F => 5,
        }
    }

    /// Returns the characters, in the order of their codes.
    const fn alphabet(self) -> &'static [u8] {
        match self {
            Self::A => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ._0123456789abcdefghijklmnopqrstuvwxyz",
            Self::B => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ._0123456789!@#$%^&+-*/\\~,'`<=>?|\0[]()",
            Self::C => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ._+-*/",
            Self::D => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            Self::F => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ._0123456789",
        }
    }

    /// Returns the size of the alphabet: a power of two if every character has its own bits.
    const fn base(self) -> u128 {
        self.alphabet().len() as u128
    }

    /// Returns the number of bits that a name of `len` characters takes, or `None` if no EXTUUID has enough bits.
    pub(super) const fn width(self, len: usize) -> Option<u32> {
        let (mut last, mut left) = (0_u128, len);
        while left > 0 {
            if bit_length(last) > 120 {
                return None;
            }
            last = last * self.base() + (self.base() - 1);
            left -= 1;
        }
        Some(bit_length(last))
    }

    /// Returns the character as the scheme writes it, or `None` if the scheme does not have it.
    pub(super) fn fold(self, byte: u8) -> Option<u8> {
        let byte = if self == Self::A { byte } else { byte.to_ascii_uppercase() };
        (byte != UNASSIGNED && self.alphabet().contains(&byte)).then_some(byte)
    }

    /// Packs a name of the scheme's characters into a number of [`width`](Self::width) bits.
    pub(super) fn pack(self, name: impl IntoIterator<Item = u8>) -> u128 {
        let digit = |byte: u8| self.alphabet().iter().zip(0..).find(|(known, _)| **known == byte);
        name.into_iter().fold(0, |packed, byte| {
            packed * self.base() + digit(byte).map_or(0, |(_, digit)| digit) // OK because the width was checked
        })
    }

    /// Packs a name like [`pack`](Self::pack), with the name padded to `len` characters.
    pub(super) fn pack_padded(self, name: &str, len: usize) -> u128 {
        self.pack(name.bytes().chain(core::iter::repeat(PADDING)).take(len))
    }

    /// Unpacks a name of `len` characters from a number.
    pub(super) fn unpack(self, packed: u128, len: usize) -> Result<String, Reason> {
        let mut name = String::with_capacity(len);
        let mut unit = (0..len).fold(1_u128, |unit, _| unit.saturating_mul(self.base()));
        if packed >= unit {
            return Err(Reason::PackedOverflow);
        }
        let mut rest = packed;
        for _ in 0..len {
            unit /= self.base();
            let digit = (rest / unit) as usize; // OK because the digit is below the base
            rest %= unit;
            match self.alphabet().get(digit) {
                None | Some(&UNASSIGNED) => return Err(Reason::UnassignedCode),
                Some(byte) => name.push(char::from(*byte)),
            }
        }
        Ok(name)
    }

    /// Unpacks a name like [`unpack`](Self::unpack), without the padding.
    pub(super) fn unpack_padded(self, packed: u128, len: usize) -> Result<String, Reason> {
        let mut name = self.unpack(packed, len)?;
        name.truncate(name.trim_end_matches(char::from(PADDING)).len());
        Ok(name)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.letter())
    }
}

/// Every alphabet has the length given in EXTUUID 2012, so a character's position is its code.
const _: () = assert!(
    Scheme::A.base() == 64
        && Scheme::B.base() == 64
        && Scheme::C.base() == 32
        && Scheme::D.base() == 26
        && Scheme::F.base() == 38
        && mask(6) == 63
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ok_widths_are_those_of_the_specification() {
        let d = [5, 10, 15, 19, 24, 29, 33, 38, 43, 48, 52, 57, 62, 66, 71, 76, 80, 85, 90, 95, 99, 104, 109];
        let f = [6, 11, 16, 21, 27, 32, 37, 42, 48, 53, 58, 63, 69, 74, 79, 84, 90, 95, 100, 105, 111];
        for (scheme, widths) in [(Scheme::D, &d[..]), (Scheme::F, &f[..])] {
            for (len, width) in (1..).zip(widths) {
                assert_eq!(scheme.width(len), Some(*width), "{scheme} {len}");
            }
        }
        for len in 0..=20 {
            assert_eq!(Scheme::A.width(len), Some(6 * len as u32));
            assert_eq!(Scheme::B.width(len), Some(6 * len as u32));
            assert_eq!(Scheme::C.width(len), Some(5 * len as u32));
        }
        for scheme in Scheme::ALL {
            assert_eq!(scheme.width(0), Some(0));
            assert_eq!((scheme.width(31), scheme.width(usize::MAX)), (None, None));
        }
    }

    #[test]
    fn ok_positions_are_those_of_the_specification() {
        for (scheme, byte, position) in [
            (Scheme::A, b'Z', 25),
            (Scheme::A, b'_', 0x1b),
            (Scheme::A, b'z', 63),
            (Scheme::B, b'_', 0x1b),
            (Scheme::B, b'9', 0x25),
            (Scheme::B, b'$', 41),
            (Scheme::B, b'|', 0x3a),
            (Scheme::B, b'[', 0x3c),
            (Scheme::B, b')', 0x3f),
            (Scheme::C, b'/', 31),
            (Scheme::C, b'_', 0x1b),
            (Scheme::D, b'Z', 0x19),
            (Scheme::F, b'9', 0x25),
        ] {
            assert_eq!(scheme.pack([byte]), position, "{scheme} {}", char::from(byte));
            assert_eq!(scheme.unpack(position, 1).map(String::into_bytes), Ok([byte].to_vec()));
        }
    }

    #[test]
    fn ok_all_schemes_but_a_fold_case() {
        assert_eq!(Scheme::ALL.map(|scheme| scheme.fold(b'g')), [b'g', b'G', b'G', b'G', b'G'].map(Some));
        assert_eq!(Scheme::ALL.map(|scheme| scheme.fold(b'G')), [Some(b'G'); 5]);
        for byte in [0, b' ', b':', 0x7f, 0x80, 0xff] {
            assert_eq!(Scheme::ALL.map(|scheme| scheme.fold(byte)), [None; 5], "{byte:#x}");
        }
    }

    #[test]
    fn err_numbers_that_are_not_a_packed_name() {
        assert_eq!(Scheme::B.unpack(0x3b, 1), Err(Reason::UnassignedCode));
        assert_eq!(Scheme::B.unpack(0x3b << 6, 2), Err(Reason::UnassignedCode));
        assert_eq!(Scheme::D.unpack(26, 1), Err(Reason::PackedOverflow));
        assert_eq!(Scheme::F.unpack(38 * 38, 2), Err(Reason::PackedOverflow));
        assert_eq!(Scheme::F.unpack(38 * 38 - 1, 2), Ok("99".into()));
        assert_eq!(Scheme::D.unpack(0, 0), Ok("".into()));
    }

    #[test]
    fn ok_padding_is_removed() {
        assert_eq!(Scheme::B.unpack_padded(Scheme::B.pack_padded("A_B", 5), 5), Ok("A_B".into()));
        assert_eq!(Scheme::C.pack_padded("", 2), 0x1b << 5 | 0x1b);
        assert_eq!(Scheme::C.unpack_padded(0x1b << 5 | 0x1b, 2), Ok("".into()));
    }

    proptest! {
        #[test]
        fn ok_unpacking_inverts_packing(scheme in prop::sample::select(&Scheme::ALL[..]), name in "[ -~]{0,17}") {
            let name: String = name.bytes().filter_map(|byte| scheme.fold(byte)).map(char::from).collect();
            let packed = scheme.pack(name.bytes());
            prop_assert!(bit_length(packed) <= scheme.width(name.len()).expect("at most 102 bits"));
            prop_assert_eq!(scheme.unpack(packed, name.len()), Ok(name));
        }
    }
}
