//! uid11 1.0: 64-bit identifiers as 11 symbols of Base58, most significant digit first.
//!
//! The alphabet is in ASCII order and texts have one length, so texts sort octet by octet as their values do.

use core::{fmt, str};

use crate::error::{CodecError, ErrorCode};

/// A 64-bit identifier whose text is 11 symbols of Base58.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid11(u64);

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const BASE: u64 = 58;
/// Symbols of a text.
const LEN: usize = 11;
/// What a symbol that is not in the alphabet maps to.
const NONE: u8 = 0xff;

/// The digit of each octet.
const DIGITS: [u8; 256] = {
    let mut digits = [NONE; 256];
    let mut digit = 0;
    while digit < ALPHABET.len() {
        digits[ALPHABET[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
};

impl Uid11 {
    /// The identifier with this value.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The 11 symbols, as ASCII.
    pub fn text(self) -> [u8; LEN] {
        let mut text = [ALPHABET[0]; LEN];
        let mut rest = self.0;
        for symbol in text.iter_mut().rev() {
            *symbol = ALPHABET[(rest % BASE) as usize]; // OK because the remainder is below 58
            rest /= BASE;
        }
        text
    }

    /// Reads exactly 11 symbols.
    ///
    /// # Errors
    ///
    /// `bad-length`, then `bad-symbol`, then `overflow` (the text stands for 2^64 or more).
    pub fn parse(text: &[u8]) -> Result<Self, CodecError> {
        if text.len() != LEN {
            return Err(CodecError::new(ErrorCode::BadLength, "a uid11 has 11 symbols"));
        }
        let mut value = 0u128;
        for (at, symbol) in text.iter().enumerate() {
            let digit = DIGITS[usize::from(*symbol)];
            if digit == NONE {
                return Err(CodecError::at(ErrorCode::BadSymbol, at, "not in the Base58 alphabet (no 0, I, O or l)"));
            }
            value = value * u128::from(BASE) + u128::from(digit);
        }
        u64::try_from(value)
            .map(Self)
            .map_err(|_| CodecError::new(ErrorCode::Overflow, "the text stands for more than 2^64 - 1"))
    }
}

impl fmt::Display for Uid11 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        // OK because the alphabet is ASCII.
        f.pad(str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}
