//! Serials: consecutive numbers of one symbol, each an EXTUUID.
//!
//! The scheme depends only on the symbol, so it never changes while the numbers grow. It is the first scheme that has
//! the symbol's characters and leaves 63 bits for the numbers, or else the scheme that leaves the most bits. The scheme
//! determines the spelling of the symbol, so two spellings that the scheme does not distinguish share their numbers.

use alloc::string::{String, ToString};
use core::fmt;

use thiserror::Error;

use super::{Ext, decode::SYMSERIAL_BITS, encode, scheme::Scheme};

/// The serial numbers of one symbol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serials {
    scheme: Scheme,
    name: String,
    number_bits: u32,
}

/// An error from [`Serials::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SerialError {
    /// The symbol is empty.
    #[error("the symbol is empty: write it after the colon, as in serial:ISSN")]
    Empty,
    /// The scheme is unknown or not supported.
    #[error("the scheme is not one of A, B, C, D and F: omit its letter, as in serial:ISSN")]
    NoSuchScheme,
    /// No allowed scheme has all characters of the symbol.
    #[error(
        "no allowed scheme has all characters of the symbol: it may have A-Z a-z 0-9 . _ and, without a difference between upper and lower \
         case, also ! @ # $ % ^ & + - * / \\ ~ , ' ` < = > ? | [ ] ( ), as in serial:ISSN"
    )]
    BadSymbol,
    /// The symbol leaves no bits for numbers.
    #[error(
        "the symbol is too long: it leaves no bits for numbers; it may have up to 18 characters, up to 21 of A-Z 0-9 . _, or up to 23 \
         of A-Z, as in serial:ISSN"
    )]
    TooLong,
}

/// [`Serials::new`] chooses the first scheme that leaves at least this number of bits for numbers.
const ENOUGH_BITS: u32 = 63;

impl Serials {
    /// Creates the serials of this symbol. If a letter is given, uses the scheme with this letter.
    ///
    /// # Errors
    ///
    /// Fails with a [`SerialError`] if the symbol or the letter is not valid.
    pub fn new(name: &str, letter: Option<char>) -> Result<Self, SerialError> {
        if name.is_empty() {
            return Err(SerialError::Empty);
        }
        let named = letter.map(|letter| Scheme::by_letter(letter).ok_or(SerialError::NoSuchScheme)).transpose()?;
        let candidates = named.as_ref().map_or(&Scheme::ALL[..], core::slice::from_ref);
        let mut refusal = SerialError::BadSymbol;
        let mut best: Option<Self> = None;
        for scheme in candidates {
            let folded: Option<String> = name.bytes().map(|byte| scheme.fold(byte).map(char::from)).collect();
            let Some(folded) = folded else { continue };
            let left = scheme.width(folded.len()).and_then(|width| SYMSERIAL_BITS.checked_sub(width));
            let Some(number_bits) = left.filter(|left| *left >= 1) else {
                refusal = SerialError::TooLong;
                continue;
            };
            let found = Self { scheme: *scheme, name: folded, number_bits };
            if number_bits >= ENOUGH_BITS {
                return Ok(found);
            }
            if best.as_ref().is_none_or(|best| best.number_bits < number_bits) {
                best = Some(found);
            }
        }
        best.ok_or(refusal)
    }

    /// Returns the scheme of the symbol.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns whether the symbol would get this scheme if no letter were given.
    pub fn has_default_scheme(&self) -> bool {
        Self::new(&self.name, None).is_ok_and(|default| default == *self)
    }

    /// Returns the symbol, as its scheme writes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the largest number.
    pub const fn largest(&self) -> u128 {
        (1 << self.number_bits) - 1
    }

    /// Returns the EXTUUID of a number from 1 to [`largest`](Self::largest), or `None` for any other number.
    pub fn ext(&self, number: u128) -> Option<Ext> {
        (1..=self.largest()).contains(&number).then(|| encode::symserial(self.scheme, &self.name, number))
    }
}

impl fmt::Display for Serials {
    /// Writes the scheme and the symbol as in the name of a source: `A:ISSN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme, self.name)
    }
}

impl From<SerialError> for String {
    fn from(error: SerialError) -> Self {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, letter: Option<char>, shown: &str, max: u128) {
        let serials = Serials::new(name, letter).expect(name);
        assert_eq!((serials.to_string().as_str(), serials.largest()), (shown, max));
        assert_eq!(Serials::new(serials.name(), Some(serials.scheme().letter())), Ok(serials.clone()));
        for number in [1, max] {
            let expected = alloc::format!("extuuid:serial{}:{number}", serials);
            assert_eq!(serials.ext(number).map(|ext| ext.to_string()), Some(expected));
        }
        assert_eq!((serials.ext(0), serials.ext(max + 1)), (None, None));
    }

    #[test]
    fn ok_the_scheme_leaves_enough_bits() {
        check("ISSN", None, "A:ISSN", (1 << 88) - 1);
        check("gbp", None, "A:gbp", (1 << 94) - 1);
        check("GBP$", None, "B:GBP$", (1 << 88) - 1);
        check("gbp$", None, "B:GBP$", (1 << 88) - 1);
        // Nine characters leave 58 bits in scheme A, and 67 bits in scheme C.
        check("ABCDEFGHI", None, "C:ABCDEFGHI", (1 << 67) - 1);
        check("ABCDEFGHIJKLMNOPQRSTUVW", None, "D:ABCDEFGHIJKLMNOPQRSTUVW", 7);
        check("abcdefghi9", None, "F:ABCDEFGHI9", (1 << 59) - 1);
        check("GBP", Some('D'), "D:GBP", (1 << 97) - 1);
    }

    #[test]
    fn err_names() {
        assert_eq!(Serials::new("", None), Err(SerialError::Empty));
        assert_eq!(Serials::new("a b", None), Err(SerialError::BadSymbol));
        assert_eq!(Serials::new("a:b", None), Err(SerialError::BadSymbol));
        assert_eq!(Serials::new("GBP1", Some('D')), Err(SerialError::BadSymbol));
        assert_eq!(Serials::new("GBP", Some('E')), Err(SerialError::NoSuchScheme));
        assert_eq!(Serials::new("ABCDEFGHIJKLMNOPQRSTUVWX", None), Err(SerialError::TooLong));
    }
}
