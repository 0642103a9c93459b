//! One identifier of any format.

use core::fmt;

use uuid::Uuid;

use crate::uid11::Uid11;

/// One identifier, with as much of its format as its width and text need.
///
/// `Display` gives the canonical text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// 128 bits, printed as 8-4-4-4-12 hexadecimal digits.
    Uuid(Uuid),
    /// 64 bits, printed as 11 symbols of Base58.
    Uid11(Uid11),
    /// An identifier of an n-bit space, printed in decimal.
    Number {
        /// The identifier.
        value: u128,
        /// The width n, 1 to 128.
        bits: u8,
    },
}

impl Id {
    /// The identifier as an unsigned integer.
    pub const fn to_u128(self) -> u128 {
        match self {
            Self::Uuid(uuid) => uuid.as_u128(),
            Self::Uid11(id) => id.get() as u128,
            Self::Number { value, .. } => value,
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => uuid.fmt(f),
            Self::Uid11(id) => id.fmt(f),
            Self::Number { value, .. } => value.fmt(f),
        }
    }
}
