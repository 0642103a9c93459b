//! Series: identifiers that a durable counter counts, without a time in them.
//!
//! Every number of the counter is one identifier, for ever, so that the counter alone is what must never go back.

use alloc::{
    format,
    string::{String, ToString},
};
use core::{fmt, str::FromStr};

use crate::{
    error::{CodecError, ErrorCode},
    id::Id,
    line::Position,
    permute::{NarrowPermutation, Permutation},
    slot::ClusterKey,
    uid11::Uid11,
};

/// The token of the series of 64-bit values that look random.
const FULL_RAND: &str = "uid11-fullrand";
/// The label and the parameter of its permutation. Changing them would let values repeat.
const FULL_RAND_LABEL: &[u8; 8] = b"fullrnd1";
const FULL_RAND_PARAM: u64 = 0;

/// Identifiers that a durable counter counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Series {
    /// `uid11-fullrand`: each 64-bit value once, in the order of a keyed permutation.
    FullRand,
}

impl Series {
    /// The series' name: its token in requests, metrics and logs.
    pub fn token(&self) -> String {
        self.to_string()
    }

    /// The number that the first identifier has.
    pub const fn first(&self) -> Position {
        match self {
            Self::FullRand => Position::ZERO,
        }
    }

    /// One past the number that the last identifier has.
    pub const fn end(&self) -> Position {
        match self {
            Self::FullRand => Position::new(1 << u64::BITS),
        }
    }

    /// How many octets an identifier takes.
    pub const fn width_bytes(&self) -> usize {
        match self {
            Self::FullRand => 8,
        }
    }

    /// Whether the identifiers depend on the cluster's key.
    pub const fn uses_key(&self) -> bool {
        matches!(self, Self::FullRand)
    }

    /// What turns numbers into identifiers; `key` is only looked at if [`uses_key`](Self::uses_key).
    pub(crate) fn encoder(&self, key: &ClusterKey) -> SeriesEncoder {
        match self {
            Self::FullRand => {
                let permutation = Permutation::new(key, FULL_RAND_LABEL, FULL_RAND_PARAM, u64::BITS);
                SeriesEncoder::FullRand(permutation.narrow())
            }
        }
    }

    /// The identifier with this number; `key` is only looked at if [`uses_key`](Self::uses_key).
    ///
    /// # Errors
    ///
    /// `range` for a number that no identifier has.
    pub fn encode(&self, key: &ClusterKey, position: Position) -> Result<Id, CodecError> {
        if position < self.first() || position >= self.end() {
            let message = format!("{self} counts from {} to below {}: not {position}", self.first(), self.end());
            return Err(CodecError::new(ErrorCode::Range, message));
        }
        let mut values = [0];
        self.encoder(key).fill(position, &mut values);
        Ok(self.id(values[0]))
    }

    /// The identifier with this value.
    pub(crate) fn id(&self, value: u128) -> Id {
        match self {
            Self::FullRand => Id::Uid11(Uid11::new(value as u64)), // OK because it has 64 bits
        }
    }
}

/// A series with what its identifiers have in common worked out beforehand.
#[derive(Clone, Debug)]
pub(crate) enum SeriesEncoder {
    FullRand(NarrowPermutation),
}

impl SeriesEncoder {
    /// The values of the identifiers with the numbers from `first` on, all of which are the series'.
    pub(crate) fn fill(&self, first: Position, values: &mut [u128]) {
        match self {
            Self::FullRand(permutation) => {
                let mut number = first.get() as u64; // OK because the series has 64 bits
                for value in values {
                    *value = permutation.apply(number).into();
                    number = number.wrapping_add(1);
                }
            }
        }
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FullRand => f.pad(FULL_RAND),
        }
    }
}

impl FromStr for Series {
    type Err = CodecError;

    /// The series of this name, or `bad-format`.
    fn from_str(token: &str) -> Result<Self, CodecError> {
        match token {
            FULL_RAND => Ok(Self::FullRand),
            _ => Err(CodecError::new(ErrorCode::BadFormat, format!("there is no series {token:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: ClusterKey = ClusterKey::new([7; 16]);

    #[test]
    fn ok_series_round_trip() {
        assert_eq!("uid11-fullrand".parse(), Ok(Series::FullRand));
        assert_eq!(Series::FullRand.to_string(), "uid11-fullrand");
    }

    #[test]
    fn err_numbers_beyond_the_series() {
        let last = Position::new((1 << 64) - 1);
        assert!(Series::FullRand.encode(&KEY, last).is_ok());
        let error = Series::FullRand.encode(&KEY, Position::new(1 << 64)).expect_err("beyond");
        assert_eq!(error.code(), ErrorCode::Range);
    }
}
