//! An identifier of any format: a value of a fixed width with one canonical text.

use core::fmt;

use uuid::Uuid;

use crate::uid11::Uid11;

/// One identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// A UUID (RFC 9562): 128 bits, written as 8-4-4-4-12 lower-case hexadecimal digits.
    Uuid(Uuid),
    /// A uid11: 64 bits, written as 11 base-58 characters that sort like the values.
    Uid11(Uid11),
    /// An identifier of an n-bit space, written as a decimal number.
    Number {
        /// The value, below 2^bits.
        value: u128,
        /// The width n of the space's identifiers: 1 to 128.
        bits: u8,
    },
}

/// The kind of an identifier, without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// UUIDs.
    Uuid,
    /// uid11s.
    Uid11,
    /// Identifiers of a space.
    Number {
        /// Their width in bits: 1 to 128.
        bits: u8,
    },
}

impl IdKind {
    /// Returns the identifier of this kind with this value.
    #[inline]
    pub const fn id(self, value: u128) -> Id {
        match self {
            Self::Uuid => Id::Uuid(Uuid::from_u128(value)),
            Self::Uid11 => Id::Uid11(Uid11::new(value as u64)), // OK because a uid11 has 64 bits
            Self::Number { bits } => Id::Number { value, bits },
        }
    }
}

impl Id {
    /// Returns the value as a number: the bytes in big-endian order.
    pub const fn to_u128(&self) -> u128 {
        match self {
            Self::Uuid(uuid) => uuid.as_u128(),
            Self::Uid11(uid11) => uid11.get() as u128,
            Self::Number { value, .. } => *value,
        }
    }

    /// Returns the size of the identifier in bytes: 16 for a UUID, 8 for a uid11, `ceil(bits / 8)` for a number.
    pub const fn width_bytes(&self) -> usize {
        match self {
            Self::Uuid(_) => 16,
            Self::Uid11(_) => 8,
            Self::Number { bits, .. } => bits.div_ceil(8) as usize,
        }
    }

    /// Writes the value into `out`, most significant byte first.
    ///
    /// # Panics
    ///
    /// Panics if `out` is not exactly [`width_bytes`](Self::width_bytes) long.
    pub fn write_be(&self, out: &mut [u8]) {
        let bytes = self.to_u128().to_be_bytes();
        out.copy_from_slice(&bytes[bytes.len() - self.width_bytes()..]);
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => uuid.hyphenated().fmt(f),
            Self::Uid11(uid11) => uid11.fmt(f),
            Self::Number { value, .. } => value.fmt(f),
        }
    }
}

impl From<Uid11> for Id {
    fn from(uid11: Uid11) -> Self {
        Self::Uid11(uid11)
    }
}

impl From<Uuid> for Id {
    fn from(uuid: Uuid) -> Self {
        Self::Uuid(uuid)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec};

    use super::*;

    #[track_caller]
    fn check(id: Id, text: &str, bytes: &[u8]) {
        assert_eq!(id.to_string(), text);
        let mut out = vec![0xaa; id.width_bytes()];
        id.write_be(&mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn ok_text_and_bytes() {
        let uuid = Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
        check(Id::Uuid(uuid), "00112233-4455-6677-8899-aabbccddeeff", uuid.as_bytes());
        check(Id::Uid11(Uid11::new(1 << 63)), "NQm6nKp8qFD", &[0x80, 0, 0, 0, 0, 0, 0, 0]);
        check(Id::Number { value: 0x1ff, bits: 9 }, "511", &[1, 0xff]);
        check(Id::Number { value: 0, bits: 1 }, "0", &[0]);
        check(Id::Number { value: u128::MAX, bits: 128 }, "340282366920938463463374607431768211455", &[0xff; 16]);
    }
}
