//! The text form of uid11 1.0: a 64-bit value as 11 base-58 characters that sort like the values.
//!
//! The alphabet is in ASCII order, the most significant digit comes first, and the text is padded with `1` to 11
//! characters, so comparing bytes compares values. Because 58^11 is about 1.35 * 2^64, some strings of 11 characters
//! have no value; they are rejected, not wrapped. The parser does not trim whitespace and does not ignore case.

use alloc::format;
use core::{
    fmt,
    str::{self, FromStr},
};

use crate::error::{Byte, CodecError, ErrorCode};

/// The 58 digits, in ASCII order.
const ALPHABET: &[u8; BASE as usize] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const BASE: u64 = 58;
/// The number of characters of a uid11: the fewest that hold 64 bits.
pub const SYMBOLS: usize = 11;

/// The entry of [`DIGITS`] for a byte that is not a digit.
const NO_DIGIT: u8 = u8::MAX;
/// The value of each byte as a digit.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < ALPHABET.len() {
        digits[ALPHABET[digit] as usize] = digit as u8; // OK because there are 58 digits
        digit += 1;
    }
    digits
};

/// A 64-bit identifier whose text is 11 base-58 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid11(u64);

impl Uid11 {
    /// Creates the identifier with this value. Every value is valid.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// Reads the 11 characters of a uid11.
    ///
    /// # Errors
    ///
    /// Fails with the first of these codes that applies: `bad-length` unless there are 11 bytes, `bad-symbol` for a
    /// byte that is not in the alphabet, and `overflow` for text above `jpXCZedGfVQ`, which is 2^64 - 1.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, CodecError> {
        let text = text.as_ref();
        if text.len() != SYMBOLS {
            return Err(bad_length(format!(
                "a uid11 has {SYMBOLS} characters, but this text has {} bytes",
                text.len()
            )));
        }
        u64::try_from(value_of(text)?).map(Self).map_err(|_| {
            let message = format!("the text is above {}, the largest uid11", Self(u64::MAX));
            CodecError::new(ErrorCode::Overflow, message)
        })
    }

    /// Returns the value.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the 11 characters, in ASCII.
    pub fn text(self) -> [u8; SYMBOLS] {
        let mut symbols = [ALPHABET[0]; SYMBOLS];
        let mut rest = self.0;
        for symbol in symbols.iter_mut().rev() {
            *symbol = ALPHABET[(rest % BASE) as usize]; // OK because the remainder is below 58
            rest /= BASE;
        }
        symbols
    }
}

impl fmt::Display for Uid11 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(str::from_utf8(&self.text()).unwrap_or_default()) // OK because the alphabet is ASCII
    }
}

impl FromStr for Uid11 {
    type Err = CodecError;

    /// See [`Uid11::parse`].
    fn from_str(text: &str) -> Result<Self, CodecError> {
        Self::parse(text)
    }
}

/// The values whose text begins with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixRange {
    /// The smallest value.
    pub lo: u64,
    /// The largest value.
    pub hi: u64,
    /// Whether `hi` was reduced to 2^64 - 1, because some strings with the prefix have no value.
    pub clamped: bool,
}

/// Returns the values whose text begins with `prefix`: exactly those from `lo` to `hi`.
///
/// # Errors
///
/// Fails with the first of these codes that applies: `bad-length` unless there are 1 to 11 bytes, `bad-symbol`, and
/// `prefix-out-of-range` if no value begins with the prefix.
pub fn prefix_range(prefix: impl AsRef<[u8]>) -> Result<PrefixRange, CodecError> {
    let prefix = prefix.as_ref();
    if !(1..=SYMBOLS).contains(&prefix.len()) {
        return Err(bad_length(format!(
            "a prefix has 1 to {SYMBOLS} characters, but this one has {} bytes",
            prefix.len()
        )));
    }
    // OK because there are at most 11 characters, and 58^11 is below 2^65: no number here comes near 2^128.
    let size = u128::from(BASE).pow((SYMBOLS - prefix.len()) as u32);
    let first = value_of(prefix)? * size;
    let lo = u64::try_from(first).map_err(|_| {
        let message = format!("no uid11 has this prefix: {} is the largest", Uid11(u64::MAX));
        CodecError::new(ErrorCode::PrefixOutOfRange, message)
    })?;
    let hi = u64::try_from(first + size - 1);
    Ok(PrefixRange { lo, hi: hi.unwrap_or(u64::MAX), clamped: hi.is_err() })
}

/// Reads up to 11 characters as a number: below 58^11, which is below 2^65.
fn value_of(symbols: &[u8]) -> Result<u128, CodecError> {
    // Each half fits in 64 bits, and the processor can compute both in parallel.
    let (upper, lower) = symbols.split_at(symbols.len().saturating_sub(LOWER));
    let (upper, lower) = (digits(upper), digits(lower));
    if (upper.0 | lower.0) & NO_DIGIT_BIT != 0 {
        return Err(bad_symbol(symbols));
    }
    Ok(u128::from(upper.1) * u128::from(BASE.pow(LOWER as u32)) + u128::from(lower.1))
}

/// The maximum number of characters in the lower half of the text. The upper half has at most 5.
const LOWER: usize = 6;

/// A bit that is set in [`NO_DIGIT`] but in no digit.
const NO_DIGIT_BIT: u8 = 1 << 7;

/// Returns the bitwise OR of the digits of at most 6 characters, and their value in base 58.
#[inline]
fn digits(symbols: &[u8]) -> (u8, u64) {
    symbols.iter().fold((0, 0), |(bits, number), symbol| {
        let digit = DIGITS[usize::from(*symbol)];
        (bits | digit, number * BASE + u64::from(digit))
    })
}

/// Creates the error for the first character that is not a digit.
#[cold]
fn bad_symbol(symbols: &[u8]) -> CodecError {
    let bad = symbols.iter().enumerate().find(|(_, symbol)| DIGITS[usize::from(**symbol)] == NO_DIGIT);
    let (offset, symbol) = bad.unwrap_or((0, &0)); // OK because at least one is not a digit
    let message = format!("{} is not in the base 58 alphabet (no 0, I, O or l)", Byte(*symbol));
    CodecError::new(ErrorCode::BadSymbol, message).at(offset)
}

fn bad_length(message: alloc::string::String) -> CodecError {
    CodecError::new(ErrorCode::BadLength, message)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, value: u64) {
        assert_eq!(Uid11(value).to_string(), text);
        assert_eq!(text.parse(), Ok(Uid11(value)));
    }

    #[track_caller]
    fn check_err(text: impl AsRef<[u8]>, code: ErrorCode, message: &str) {
        let error = Uid11::parse(text).expect_err("no value");
        assert_eq!((error.code(), error.to_string().as_str()), (code, message));
    }

    #[test]
    fn ok_values_and_their_texts() {
        check("11111111111", 0);
        check("11111111112", 1);
        check("1111111111z", 57);
        check("11111111121", 58);
        check("1111111NVpb", 0x0040_0000);
        check("113q8KFkAEs", 0x0001_4997_0000_0000);
        check("NQm6nKp8qFD", 1 << 63);
        check("jpXCZedGfVQ", u64::MAX);
    }

    #[test]
    fn err_texts_that_are_not_a_uid11() {
        check_err("", ErrorCode::BadLength, "a uid11 has 11 characters, but this text has 0 bytes");
        check_err("1111111111é", ErrorCode::BadLength, "a uid11 has 11 characters, but this text has 12 bytes");
        let alphabet = "is not in the base 58 alphabet (no 0, I, O or l)";
        check_err("O1111111110", ErrorCode::BadSymbol, &format!("'O' {alphabet} (at offset 0)"));
        check_err("1111111111\n", ErrorCode::BadSymbol, &format!("byte 0x0a {alphabet} (at offset 10)"));
        check_err([0xff; 11], ErrorCode::BadSymbol, &format!("byte 0xff {alphabet} (at offset 0)"));
        let overflow = "the text is above jpXCZedGfVQ, the largest uid11";
        check_err("jpXCZedGfVR", ErrorCode::Overflow, overflow);
        check_err("zzzzzzzzzzz", ErrorCode::Overflow, overflow);
    }

    #[test]
    fn ok_one_symbol_prefixes_partition_the_values() {
        let mut next = 0;
        for (digit, symbol) in ALPHABET.iter().enumerate() {
            match prefix_range([*symbol]) {
                Ok(range) => {
                    assert_eq!(u128::from(range.lo), next);
                    assert_eq!(range.clamped, *symbol == b'j');
                    next = u128::from(range.hi) + 1;
                }
                Err(error) => {
                    assert_eq!(error.code(), ErrorCode::PrefixOutOfRange);
                    assert!(digit >= 43, "no uid11 begins with k to z");
                }
            }
        }
        assert_eq!(next, 1 << 64);
    }

    proptest! {
        #[test]
        fn ok_parsing_inverts_printing(value: u64) {
            prop_assert_eq!(Uid11::parse(Uid11(value).text()), Ok(Uid11(value)));
        }

        #[test]
        fn ok_texts_are_ordered_as_values(a: u64, b: u64) {
            prop_assert_eq!(Uid11(a).text().cmp(&Uid11(b).text()), a.cmp(&b));
        }

        #[test]
        fn ok_a_prefix_holds_exactly_its_texts(value: u64, other: u64, symbols in 1..=SYMBOLS) {
            let text = Uid11(value).text();
            let range = prefix_range(&text[..symbols]).expect("a value has this prefix");
            prop_assert!((range.lo..=range.hi).contains(&value));
            let shares = Uid11(other).text()[..symbols] == text[..symbols];
            prop_assert_eq!((range.lo..=range.hi).contains(&other), shares);
        }

        #[test]
        fn ok_no_input_panics(text: alloc::vec::Vec<u8>) {
            let _ = Uid11::parse(&text);
            let _ = prefix_range(&text);
        }
    }
}
