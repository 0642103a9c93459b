//! The text form of identifiers with a custom layout: digits of several bases, a fixed or minimal width, and a prefix.
//!
//! Reading is strict: it accepts only what writing produces, so each identifier has exactly one text. It does not trim
//! whitespace or ignore case.

mod digits;

use alloc::{borrow::ToOwned, format, string::String};
use core::{fmt, str::FromStr};

use thiserror::Error;

pub use self::digits::Digits;
use crate::error::{CodecError, ErrorCode};

/// The maximum length of a prefix, including its separator, in bytes.
pub const MAX_PREFIX_LEN: usize = 64;
/// The characters that may end a prefix.
const SEPARATORS: [char; 4] = ['_', '-', '.', ':'];
const PREFIX: &str = "prefix:";

/// How the identifiers of a layout are written.
///
/// The text form, which [`FromStr`] reads and [`Display`](fmt::Display) writes, is the name of the digits, followed by
/// `fixed` or `minimal` if that is not the usual width of these digits, and by `prefix:PREFIX` if there is a prefix:
/// `decimal`, `base62 minimal`, `base58 prefix:ord_`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spelling {
    digits: Digits,
    width: Width,
    prefix: String,
}

/// The number of digits in the text form of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// The number of digits that the largest value needs, with leading zeros.
    Fixed,
    /// The number of digits that the value needs, without leading zeros.
    Minimal,
}

/// An error from reading or creating a [`Spelling`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpellingError {
    /// The digits are unknown.
    #[error("there is no text form {name:?}: use one of {}, as in decimal", known())]
    UnknownDigits {
        /// The name.
        name: String,
    },
    /// A word is neither a width nor a prefix.
    #[error(
        "{word:?} is not known after the digits: use fixed, minimal or prefix:PREFIX, as in \"base58 prefix:ord_\""
    )]
    UnknownWord {
        /// The word.
        word: String,
    },
    /// The width or the prefix occurs twice.
    #[error("{what} occurs twice: name each at most once, as in \"base58 minimal prefix:ord_\"")]
    Twice {
        /// What occurs twice.
        what: &'static str,
    },
    /// Only a fixed width is possible with these digits.
    #[error("{digits} has a fixed width: leave out minimal, or use decimal, hex, crockford, base36, base58 or base62")]
    AlwaysFixed {
        /// The digits.
        digits: Digits,
    },
    /// The prefix is not valid.
    #[error(
        "the prefix {prefix:?} is not valid: a prefix begins with a letter, has letters, digits and _, ends with one of _ - . :, and has at most {MAX_PREFIX_LEN} characters, as in ord_"
    )]
    BadPrefix {
        /// The prefix.
        prefix: String,
    },
    /// The digits cannot represent identifiers of this width.
    #[error(
        "{digits} writes identifiers of {wanted} bits, but the layout has {bits}: use another text form, as in hex"
    )]
    WrongBits {
        /// The digits.
        digits: Digits,
        /// The width of the layout in bits.
        bits: u8,
        /// The width that the digits can represent, in bits.
        wanted: u8,
    },
}

fn known() -> String {
    Digits::ALL.map(|digits| digits.name()).join(", ")
}

impl Spelling {
    /// Creates a spelling with these digits, in their usual width, without a prefix.
    pub const fn new(digits: Digits) -> Self {
        Self { digits, width: digits.usual_width(), prefix: String::new() }
    }

    /// Returns the spelling with this width.
    ///
    /// # Errors
    ///
    /// Fails with [`SpellingError::AlwaysFixed`] if these digits have no minimal width.
    pub fn with_width(self, width: Width) -> Result<Self, SpellingError> {
        match width {
            Width::Minimal if !self.digits.may_be_minimal() => Err(SpellingError::AlwaysFixed { digits: self.digits }),
            width => Ok(Self { width, ..self }),
        }
    }

    /// Returns the spelling with this prefix, which includes its separator, as in `ord_`. An empty string means no
    /// prefix.
    ///
    /// # Errors
    ///
    /// Fails with [`SpellingError::BadPrefix`] if the prefix is not valid.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, SpellingError> {
        let name = prefix.strip_suffix(SEPARATORS).unwrap_or_default();
        let is_valid = prefix.len() <= MAX_PREFIX_LEN
            && name.starts_with(|symbol: char| symbol.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match prefix.is_empty() || is_valid {
            true => Ok(Self { prefix: prefix.to_owned(), ..self }),
            false => Err(SpellingError::BadPrefix { prefix: prefix.chars().take(2 * MAX_PREFIX_LEN).collect() }),
        }
    }

    /// Returns the digits.
    pub const fn digits(&self) -> Digits {
        self.digits
    }

    /// Returns the number of digits in the text form of an identifier.
    pub const fn width(&self) -> Width {
        self.width
    }

    /// Returns the prefix with its separator; empty if there is no prefix.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns whether identifiers in text form, compared byte by byte, sort like their values: the width is fixed, and
    /// the digits are in ASCII order.
    pub fn sorts(&self) -> bool {
        self.width == Width::Fixed && self.digits.sorts()
    }

    /// Checks that the digits can represent identifiers of `bits` bits.
    ///
    /// # Errors
    ///
    /// Fails with [`SpellingError::WrongBits`] if they cannot.
    pub const fn check_bits(&self, bits: u8) -> Result<(), SpellingError> {
        match self.digits.only_bits() {
            Some(wanted) if wanted != bits => Err(SpellingError::WrongBits { digits: self.digits, bits, wanted }),
            _ => Ok(()),
        }
    }

    /// Returns the text of an identifier. `bits` must be 1 to 128 and pass [`check_bits`](Self::check_bits), and
    /// `value` must be below 2^bits.
    pub fn text(&self, value: u128, bits: u8) -> String {
        let mut text = self.prefix.clone();
        self.digits.write(value, bits, self.width, &mut text);
        text
    }

    /// Reads the text of an identifier of `bits` bits, 1 to 128.
    ///
    /// # Errors
    ///
    /// Fails with `bad-syntax` if the prefix is missing, with `bad-length` for another number of digits, with
    /// `bad-symbol` for a character that is not a digit, with `overflow` for a value that does not fit in `bits` bits,
    /// and with `not-canonical` for a value that is not written as [`text`](Self::text) writes it.
    pub fn parse(&self, text: &str, bits: u8) -> Result<u128, CodecError> {
        let digits = text.strip_prefix(self.prefix.as_str()).ok_or_else(|| {
            CodecError::new(ErrorCode::BadSyntax, format!("the text does not begin with {}", self.prefix))
        })?;
        self.digits.parse(digits.as_bytes(), bits, self.width).map_err(|error| error.shifted(self.prefix.len()))
    }
}

impl fmt::Display for Spelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.digits.name())?;
        if self.width != self.digits.usual_width() {
            f.write_str(match self.width {
                Width::Fixed => " fixed",
                Width::Minimal => " minimal",
            })?;
        }
        match self.prefix.is_empty() {
            true => Ok(()),
            false => write!(f, " {PREFIX}{}", self.prefix),
        }
    }
}

impl FromStr for Spelling {
    type Err = SpellingError;

    fn from_str(text: &str) -> Result<Self, SpellingError> {
        let mut words = text.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let digits = Digits::by_name(name).ok_or_else(|| SpellingError::UnknownDigits { name: shown(name) })?;
        let (mut spelling, mut has_width) = (Self::new(digits), false);
        for word in words {
            spelling = match (word, word.strip_prefix(PREFIX)) {
                ("fixed" | "minimal", _) if has_width => return Err(SpellingError::Twice { what: "the width" }),
                (_, Some(_)) if !spelling.prefix.is_empty() => return Err(SpellingError::Twice { what: "the prefix" }),
                ("fixed", _) => spelling.with_width(Width::Fixed),
                ("minimal", _) => spelling.with_width(Width::Minimal),
                (_, Some("")) => Err(SpellingError::BadPrefix { prefix: String::new() }),
                (_, Some(prefix)) => spelling.with_prefix(prefix),
                (word, None) => Err(SpellingError::UnknownWord { word: shown(word) }),
            }?;
            has_width |= ["fixed", "minimal"].contains(&word);
        }
        Ok(spelling)
    }
}

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Returns the part of an input that an error quotes, so that messages stay short.
fn shown(text: &str) -> String {
    text.chars().take(MAX_PREFIX_LEN).collect()
}

#[cfg(test)]
mod tests;
