//! The error of every codec: a code, an offset in the text, and a message for people.

use alloc::borrow::Cow;
use core::fmt;

/// The error codes of the line protocol. Other programs rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The line is not a JSON object.
    BadJson,
    /// The verb is unknown.
    BadVerb,
    /// An input is missing or of the wrong type.
    BadInput,
    /// A number does not fit its field.
    Range,
    /// The format is unknown, or cannot be used here.
    BadFormat,
    /// The layout of `uuidv7-draft01` is unknown.
    BadLayout,
    /// The precision is unknown.
    BadPrecision,
    /// The width of `uuidv8-draft01` is unknown.
    BadWidth,
    /// The uid11 profile is unknown.
    BadProfile,
    /// The text has the wrong length.
    BadLength,
    /// A hyphen of a UUID is missing or in the wrong place.
    BadHyphen,
    /// A character is not a hexadecimal digit.
    BadHex,
    /// The UUID does not have the variant of RFC 9562.
    WrongVariant,
    /// The UUID does not have the requested version.
    WrongVersion,
    /// The bits that identify the generator are all zero.
    NodeZero,
    /// Bits that must be zero are not zero.
    ReservedBits,
    /// A character is not in the alphabet.
    BadSymbol,
    /// The text represents a value above the format's maximum.
    Overflow,
    /// No identifier has this prefix.
    PrefixOutOfRange,
    /// The text has no known form.
    Unrecognised,
    /// The text has more bytes than the limit.
    TextTooLong,
    /// The text is not canonical.
    NotCanonical,
    /// The text begins like a known form, but the rest does not match it.
    BadSyntax,
    /// The text is not a number.
    BadNumber,
    /// The name is too long for every scheme that allows its characters.
    SymbolTooLong,
    /// The name is empty, and no scheme is given.
    EmptySymbol,
    /// The character scheme is known but not supported.
    UnsupportedScheme,
    /// A serial number is zero.
    ZeroSerial,
    /// A number does not fit in the remaining bits.
    NumberTooBig,
    /// The number has too many decimals.
    Precision,
    /// The number of decimals is not in the range from 0 to 31.
    BadDecimals,
    /// A count or width of a vector is invalid.
    BadDims,
    /// The number of values differs from the stated count.
    CountMismatch,
    /// The context must be a number, but is not one.
    ContextNotNumeric,
    /// The context does not fit in the bits available for it.
    BadContext,
    /// No standard vector stores the values exactly.
    NoRepresentation,
    /// The number is too large or too small for its floating-point format.
    FloatRange,
    /// A unit's exponent is not a fraction of numbers from 1 to 7.
    ExponentRange,
    /// The text is not a number with units.
    BadQuant,
    /// The text is not a time.
    BadTime,
    /// The time is too large for its precision.
    TimeRange,
    /// The date is before 1582-10-15.
    DateBeforeEpoch,
    /// The text is not an amount of money.
    NotMoney,
}

impl ErrorCode {
    /// Returns the code's name in the line protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadJson => "bad-json",
            Self::BadVerb => "bad-verb",
            Self::BadInput => "bad-input",
            Self::Range => "range",
            Self::BadFormat => "bad-format",
            Self::BadLayout => "bad-layout",
            Self::BadPrecision => "bad-precision",
            Self::BadWidth => "bad-width",
            Self::BadProfile => "bad-profile",
            Self::BadLength => "bad-length",
            Self::BadHyphen => "bad-hyphen",
            Self::BadHex => "bad-hex",
            Self::WrongVariant => "wrong-variant",
            Self::WrongVersion => "wrong-version",
            Self::NodeZero => "node-zero",
            Self::ReservedBits => "reserved-bits",
            Self::BadSymbol => "bad-symbol",
            Self::Overflow => "overflow",
            Self::PrefixOutOfRange => "prefix-out-of-range",
            Self::Unrecognised => "unrecognised",
            Self::TextTooLong => "text-too-long",
            Self::NotCanonical => "not-canonical",
            Self::BadSyntax => "bad-syntax",
            Self::BadNumber => "bad-number",
            Self::SymbolTooLong => "symbol-too-long",
            Self::EmptySymbol => "empty-symbol",
            Self::UnsupportedScheme => "unsupported-scheme",
            Self::ZeroSerial => "zero-serial",
            Self::NumberTooBig => "number-too-big",
            Self::Precision => "precision",
            Self::BadDecimals => "bad-decimals",
            Self::BadDims => "bad-dims",
            Self::CountMismatch => "count-mismatch",
            Self::ContextNotNumeric => "context-not-numeric",
            Self::BadContext => "bad-context",
            Self::NoRepresentation => "no-representation",
            Self::FloatRange => "float-range",
            Self::ExponentRange => "exponent-range",
            Self::BadQuant => "bad-quant",
            Self::BadTime => "bad-time",
            Self::TimeRange => "time-range",
            Self::DateBeforeEpoch => "date-before-epoch",
            Self::NotMoney => "not-money",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error from a codec. Codecs have no side effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecError {
    code: ErrorCode,
    at: Option<usize>,
    message: Cow<'static, str>,
}

impl CodecError {
    /// Creates an error with this code. The message states the problem and the allowed values.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, at: None, message: message.into() }
    }

    /// Adds the offset of the offending byte in the text, counted from 0.
    #[must_use]
    pub const fn at(mut self, offset: usize) -> Self {
        self.at = Some(offset);
        self
    }

    /// Returns the error code.
    pub const fn code(&self) -> ErrorCode {
        self.code
    }

    /// Returns the offset of the offending byte, counted from 0, if the error is at one byte.
    pub const fn position(&self) -> Option<usize> {
        self.at
    }

    /// Returns the description of the error, without the position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Adds `bytes` to the offset, for text whose first `bytes` bytes were removed before parsing.
    pub(crate) fn shifted(mut self, bytes: usize) -> Self {
        self.at = self.at.map(|at| at + bytes);
        self
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.at.map_or(Ok(()), |at| write!(f, " (at offset {at})"))
    }
}

impl core::error::Error for CodecError {}

/// The error for a number that does not fit its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {value}, but must be from 0 to {max}")]
pub struct OutOfRange {
    /// The name of the number.
    pub what: &'static str,
    /// The value of the number.
    pub value: u128,
    /// The largest value that fits.
    pub max: u128,
}

impl OutOfRange {
    /// Rejects a `value` of more than `bits` bits; `bits` is at most 127.
    pub(crate) const fn check(what: &'static str, value: u128, bits: u32) -> Result<(), Self> {
        let max = (1 << bits) - 1;
        if value > max { Err(Self { what, value, max }) } else { Ok(()) }
    }
}

impl From<OutOfRange> for CodecError {
    fn from(error: OutOfRange) -> Self {
        Self::new(ErrorCode::Range, alloc::format!("{error}"))
    }
}

/// One byte of an input, formatted for messages.
pub(crate) struct Byte(pub(crate) u8);

impl fmt::Display for Byte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b' '..=b'~' => write!(f, "'{}'", char::from(self.0)),
            byte => write!(f, "byte 0x{byte:02x}"),
        }
    }
}
