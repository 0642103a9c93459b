//! The named fields of an identifier, and the inputs from which a format makes an identifier.

use alloc::{format, string::String, vec::Vec};

use crate::{
    dce,
    error::{CodecError, ErrorCode},
    time::UnixNanos,
};

/// A labeled range of an identifier's bits. Bit 0 is the most significant; both ends are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRange {
    /// The first bit.
    pub first: u8,
    /// The last bit.
    pub last: u8,
    /// The name of the range.
    pub label: &'static str,
}

impl BitRange {
    /// Creates the range of the bits from `first` to `last`.
    pub const fn new(first: u8, last: u8, label: &'static str) -> Self {
        Self { first, last, label }
    }
}

/// One field of an identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's name in the line protocol.
    pub name: &'static str,
    /// The field's value.
    pub value: FieldValue,
    /// A description for people.
    pub meaning: &'static str,
}

/// The value of a field. Each variant has its own form in the line protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// The number in a narrow field, written as a JSON integer.
    Small(u32),
    /// The number in a wide field, written as a decimal string, because JSON readers round integers above 2^53.
    Large(i128),
    /// A boolean.
    Flag(bool),
    /// A string: hexadecimal digits or a name.
    Text(String),
    /// An instant in RFC 3339 form; `None` outside the years 1 to 9999.
    Time(Option<String>),
    /// A group of fields, written as a JSON object.
    Group(Vec<Field>),
}

impl Field {
    /// Creates a field with a narrow number.
    pub(crate) fn small(name: &'static str, value: impl Into<u32>, meaning: &'static str) -> Self {
        Self { name, value: FieldValue::Small(value.into()), meaning }
    }

    /// Creates a field with a wide number.
    pub(crate) fn large(name: &'static str, value: impl Into<i128>, meaning: &'static str) -> Self {
        Self { name, value: FieldValue::Large(value.into()), meaning }
    }

    /// Creates a field with a boolean.
    pub(crate) fn flag(name: &'static str, value: bool, meaning: &'static str) -> Self {
        Self { name, value: FieldValue::Flag(value), meaning }
    }

    /// Creates a field with a string: hexadecimal digits or a name.
    pub(crate) fn text(name: &'static str, value: String, meaning: &'static str) -> Self {
        Self { name, value: FieldValue::Text(value), meaning }
    }

    /// Creates a group of fields.
    pub(crate) fn group(name: &'static str, fields: Vec<Self>, meaning: &'static str) -> Self {
        Self { name, value: FieldValue::Group(fields), meaning }
    }

    /// Creates the field of the identifier's time, with `digits` decimal places of the second.
    pub(crate) fn time(at: UnixNanos, digits: u32, meaning: &'static str) -> Self {
        Self { name: "time", value: FieldValue::Time(at.rfc3339(digits)), meaning }
    }
}

/// Named values: the fields from which to make an identifier, or the options for reading an identifier.
pub trait Inputs {
    /// Returns whether there is a value with this name.
    fn has(&self, name: &'static str) -> bool;

    /// Returns the number with this name.
    ///
    /// # Errors
    ///
    /// Fails with `bad-input` if no number has this name, and with `range` if its absolute value is not below 2^127.
    fn int(&self, name: &'static str) -> Result<i128, CodecError>;

    /// Returns the string with this name.
    ///
    /// # Errors
    /// Fails with `bad-input` if no string has this name.
    fn text(&self, name: &'static str) -> Result<&str, CodecError>;

    /// Returns the number with this name, which must be below `2^bits`; `bits` is at most 64.
    ///
    /// # Errors
    ///
    /// Fails with `bad-input` if no number has this name, and with `range` if it does not fit.
    fn uint(&self, name: &'static str, bits: u32) -> Result<u64, CodecError> {
        let value = self.int(name)?;
        match u64::try_from(value) {
            Ok(fitting) if fitting.checked_shr(bits).unwrap_or(0) == 0 => Ok(fitting),
            _ => {
                let message = format!("{name} is {value}, but must be from 0 to 2^{bits} - 1");
                Err(CodecError::new(ErrorCode::Range, message))
            }
        }
    }

    /// Returns the number with this name, given as `2 * bytes` hexadecimal digits; `bytes` is at most 16.
    ///
    /// # Errors
    ///
    /// Fails with `bad-input` if no string has this name, and with `bad-length` or `bad-hex` if it is malformed.
    fn hex(&self, name: &'static str, bytes: usize) -> Result<u128, CodecError> {
        dce::parse_hex(self.text(name)?, bytes)
    }
}

/// Inputs without any values, for reading formats that need no options.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoInputs;

impl Inputs for NoInputs {
    fn has(&self, _name: &'static str) -> bool {
        false
    }

    fn int(&self, name: &'static str) -> Result<i128, CodecError> {
        Err(missing(name))
    }

    fn text(&self, name: &'static str) -> Result<&str, CodecError> {
        Err(missing(name))
    }
}

fn missing(name: &str) -> CodecError {
    CodecError::new(ErrorCode::BadInput, format!("{name} is missing"))
}
