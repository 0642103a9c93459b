//! What an identifier holds, as values with names: the shape in which formats are inspected and made from fields.

use alloc::{format, string::String, vec::Vec};

use crate::{
    dce,
    error::{CodecError, ErrorCode},
    time::UnixNanos,
};

/// Some of an identifier's bits, and what they are. Bit 0 is the most significant; both ends are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRange {
    /// The first bit.
    pub first: u8,
    /// The last bit.
    pub last: u8,
    /// What the bits are.
    pub label: &'static str,
}

impl BitRange {
    /// The bits from `first` to `last`.
    pub const fn new(first: u8, last: u8, label: &'static str) -> Self {
        Self { first, last, label }
    }
}

/// One thing that an identifier holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in the line protocol.
    pub name: &'static str,
    /// Its value.
    pub value: FieldValue,
    /// What it is, for people.
    pub meaning: &'static str,
}

/// The value of a field, by how the line protocol writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A number of a narrow field: a JSON integer.
    Small(u32),
    /// A number of a wide field: a decimal string, since JSON readers round integers beyond 2^53.
    Large(i128),
    /// Yes or no.
    Flag(bool),
    /// Hexadecimal digits, or a name.
    Text(String),
    /// An instant in RFC 3339 form; `None` outside the years 1 to 9999.
    Time(Option<String>),
    /// Fields that belong together: a JSON object.
    Group(Vec<Field>),
}

impl Field {
    /// A number of a narrow field.
    pub(crate) fn small(name: &'static str, value: impl Into<u32>, meaning: &'static str) -> Self {
        Self { name, value: FieldValue::Small(value.into()), meaning }
    }

    /// A number of a wide field.
    pub(crate) fn large(name: &'static str, value: impl Into<i128>, meaning: &'static str) -> Self {
        Self { name, value: FieldValue::Large(value.into()), meaning }
    }

    /// Yes or no.
    pub(crate) fn flag(name: &'static str, value: bool, meaning: &'static str) -> Self {
        Self { name, value: FieldValue::Flag(value), meaning }
    }

    /// Hexadecimal digits, or a name.
    pub(crate) fn text(name: &'static str, value: String, meaning: &'static str) -> Self {
        Self { name, value: FieldValue::Text(value), meaning }
    }

    /// Fields that belong together.
    pub(crate) fn group(name: &'static str, fields: Vec<Self>, meaning: &'static str) -> Self {
        Self { name, value: FieldValue::Group(fields), meaning }
    }

    /// The identifier's time, to so many digits of the second.
    pub(crate) fn time(at: UnixNanos, digits: u32, meaning: &'static str) -> Self {
        Self { name: "time", value: FieldValue::Time(at.rfc3339(digits)), meaning }
    }
}

/// Values by name, from which an identifier is made, or which say how to read one.
pub trait Inputs {
    /// Whether there is a value of this name.
    fn has(&self, name: &'static str) -> bool;

    /// The number of this name.
    ///
    /// # Errors
    ///
    /// `bad-input` if there is no such number, `range` if it is not within 2^127 of zero.
    fn int(&self, name: &'static str) -> Result<i128, CodecError>;

    /// The text of this name.
    ///
    /// # Errors
    ///
    /// `bad-input` if there is no such text.
    fn text(&self, name: &'static str) -> Result<&str, CodecError>;

    /// The number of this name, below `2^bits`; `bits` is at most 64.
    ///
    /// # Errors
    ///
    /// `bad-input` if there is no such number, `range` if it does not fit.
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

    /// The number of this name that `2 * bytes` hexadecimal digits spell; `bytes` is at most 16.
    ///
    /// # Errors
    ///
    /// `bad-input` if there is no such text, `bad-length` or `bad-hex` if it is malformed.
    fn hex(&self, name: &'static str, bytes: usize) -> Result<u128, CodecError> {
        dce::parse_hex(self.text(name)?, bytes)
    }
}

/// No values at all: for reading formats whose bits say everything.
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
