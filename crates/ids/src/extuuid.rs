//! EXTUUID 2012: values in the 122 free bits of a UUID, such as names, serial numbers, fixed-point numbers, quantities
//! with units, floats, times and vectors of numbers.
//!
//! An [`Ext`] is 122 bits. Every [`Ext`] has exactly one canonical text, and the minimal parser accepts nothing else.
//! The smart parser also accepts the forms that people write. Bits without a typed form are kept and printed raw, with
//! a reason, so every combination of 122 bits is valid. All arithmetic is exact and uses no floating point.
//!
//! The UUIDs have version 8. EXTUUID 2012 used version 6, which RFC 9562 later assigned to another format. This module
//! reads and writes EXTUUIDs of version 6 only on request.

mod bits;
mod decode;
mod encode;
mod money;
mod parse;
mod print;
mod quant;
mod real;
mod reason;
mod scheme;
mod serial;
mod shortest;
mod standard;
mod text;
mod time;
mod value;

use alloc::{format, vec::Vec};

use uuid::Uuid;

pub use self::{
    money::{Money, parse_money},
    parse::{parse, parse_minimal},
    real::{Binary, Real},
    reason::Reason,
    scheme::Scheme,
    serial::{SerialError, Serials},
    standard::{Context, Standard, StandardKind},
    value::{Quant, Time, Units, Value},
};
use crate::{
    dce,
    error::{Byte, CodecError, ErrorCode, OutOfRange},
    field::BitRange,
};

/// An EXTUUID: 122 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ext(u128);

/// The number of hexadecimal digits of the bits. The first digit is 0 to 3.
pub const HEX_DIGITS: usize = 31;

/// The UUID version.
const VERSION: u8 = 8;
/// The UUID version of EXTUUID 2012, which RFC 9562 assigned to another format.
const LEGACY_VERSION: u8 = 6;

impl Ext {
    /// Creates an EXTUUID from its 122 bits.
    ///
    /// # Errors
    ///
    /// Fails with [`OutOfRange`] for more than 122 bits.
    pub const fn new(bits: u128) -> Result<Self, OutOfRange> {
        match OutOfRange::check("the EXTUUID", bits, bits::EXT_BITS) {
            Ok(()) => Ok(Self(bits)),
            Err(error) => Err(error),
        }
    }

    /// Creates an EXTUUID from the low 122 bits of `bits`.
    pub(crate) const fn truncate(bits: u128) -> Self {
        Self(bits & bits::mask(bits::EXT_BITS))
    }

    /// Returns the bits.
    pub const fn get(self) -> u128 {
        self.0
    }

    /// Reads 31 hexadecimal digits of either case.
    ///
    /// # Errors
    ///
    /// Fails with `bad-hex` unless the text consists of 31 hexadecimal digits, of which the first is 0 to 3.
    pub fn from_hex(text: impl AsRef<[u8]>) -> Result<Self, CodecError> {
        let text = text.as_ref();
        if text.len() != HEX_DIGITS {
            let message = format!("an EXTUUID has {HEX_DIGITS} hexadecimal digits, but this text has {}", text.len());
            return Err(CodecError::new(ErrorCode::BadHex, message));
        }
        let mut bits = 0;
        for (offset, byte) in text.iter().enumerate() {
            match char::from(*byte).to_digit(16) {
                Some(digit) if offset > 0 || digit <= 3 => bits = bits << 4 | u128::from(digit),
                Some(_) => {
                    let message = "the first digit of an EXTUUID is 0 to 3";
                    return Err(CodecError::new(ErrorCode::BadHex, message).at(offset));
                }
                None => {
                    let message = format!("{} is not a hexadecimal digit", Byte(*byte));
                    return Err(CodecError::new(ErrorCode::BadHex, message).at(offset));
                }
            }
        }
        Ok(Self(bits))
    }

    /// Reads the bits from a UUID of version 8 or, if `allow_v6` is true, of version 6 (EXTUUID 2012).
    ///
    /// # Errors
    ///
    /// Fails with the first of these codes that applies: `wrong-variant`, `wrong-version`.
    pub fn from_uuid(uuid: Uuid, allow_v6: bool) -> Result<Self, CodecError> {
        let versions: &[u8] = if allow_v6 { &[VERSION, LEGACY_VERSION] } else { &[VERSION] };
        dce::expect_version(uuid, versions)?;
        let value = uuid.as_u128();
        let (a, b, c) = (value >> 80, value >> 64 & bits::mask(12), value & bits::mask(62));
        Ok(Self(a << 74 | b << 62 | c))
    }

    /// Returns the UUID of version 8 with these bits.
    pub const fn to_uuid(self) -> Uuid {
        self.with_version(VERSION)
    }

    /// Returns the UUID of version 6 with these bits, for readers of EXTUUID 2012. Other readers see a time-based UUID.
    pub const fn to_legacy_uuid(self) -> Uuid {
        self.with_version(LEGACY_VERSION)
    }

    const fn with_version(self, version: u8) -> Uuid {
        let (a, b, c) = (self.0 >> 74, self.0 >> 62 & bits::mask(12), self.0 & bits::mask(62));
        Uuid::from_u128(a << 80 | (version as u128) << 76 | b << 64 | 0b10 << 62 | c)
    }

    /// Returns the typed value of the bits.
    pub fn value(self) -> Value {
        decode::decode(self).0
    }

    /// Returns the fields of the UUID as bit ranges, most significant first, without gaps.
    pub fn layout(self) -> Vec<BitRange> {
        decode::decode(self).1
    }
}

#[cfg(test)]
mod tests;
