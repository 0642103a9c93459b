//! Why a text or a value is no identifier of a format: a code for programs, and words for people.

use core::fmt;

/// What went wrong. The names are the wire's: see [`as_str`](Self::as_str).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// `range`: a value outside its field.
    Range,
    /// `bad-format`: no such format.
    BadFormat,
    /// `bad-profile`: no such uid11 profile.
    BadProfile,
    /// `bad-length`: too short or too long.
    BadLength,
    /// `bad-hyphen`: a hyphen is missing.
    BadHyphen,
    /// `bad-hex`: not a hexadecimal digit.
    BadHex,
    /// `wrong-variant`: not a UUID of the DCE variant.
    WrongVariant,
    /// `wrong-version`: another version than was asked for.
    WrongVersion,
    /// `bad-symbol`: not a symbol of the alphabet.
    BadSymbol,
    /// `overflow`: more than the identifier can hold.
    Overflow,
    /// `prefix-out-of-range`: no identifier has the prefix.
    PrefixOutOfRange,
    /// `bad-input`: the question does not make sense.
    BadInput,
    /// `bad-verb`: no such question.
    BadVerb,
    /// `bad-json`: not a JSON object.
    BadJson,
}

impl ErrorCode {
    /// The code as programs know it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::BadFormat => "bad-format",
            Self::BadProfile => "bad-profile",
            Self::BadLength => "bad-length",
            Self::BadHyphen => "bad-hyphen",
            Self::BadHex => "bad-hex",
            Self::WrongVariant => "wrong-variant",
            Self::WrongVersion => "wrong-version",
            Self::BadSymbol => "bad-symbol",
            Self::Overflow => "overflow",
            Self::PrefixOutOfRange => "prefix-out-of-range",
            Self::BadInput => "bad-input",
            Self::BadVerb => "bad-verb",
            Self::BadJson => "bad-json",
        }
    }
}

/// A refusal to encode or decode. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodecError {
    code: ErrorCode,
    at: Option<usize>,
    message: &'static str,
}

impl CodecError {
    /// An error without a position.
    pub const fn new(code: ErrorCode, message: &'static str) -> Self {
        Self { code, at: None, message }
    }

    /// An error at an octet of the input, counted from 0.
    pub const fn at(code: ErrorCode, at: usize, message: &'static str) -> Self {
        Self { code, at: Some(at), message }
    }

    /// The code.
    pub const fn code(&self) -> ErrorCode {
        self.code
    }

    /// At which octet of the input, counted from 0.
    pub const fn position(&self) -> Option<usize> {
        self.at
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{} (at octet {at})", self.message),
            None => f.write_str(self.message),
        }
    }
}

impl core::error::Error for CodecError {}
