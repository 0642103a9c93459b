//! `uuidv4`: 122 random bits (RFC 9562, section 5.4).
//!
//! Kent does not issue this format: two random UUIDs almost certainly differ, but Kent could not guarantee that.

use alloc::vec::Vec;

use uuid::Uuid;

use super::{Family, Layout};
use crate::{
    dce,
    error::CodecError,
    field::{BitRange, Field, Inputs},
    id::Id,
};

pub(crate) struct UuidV4Format;

/// The version and the variant, and the mask of their bits.
const MARK: u128 = 4 << 76 | 0b10 << 62;
const MARK_MASK: u128 = 0xf << 76 | 0b11 << 62;

static BITS: [BitRange; 5] = [
    BitRange::new(0, 47, "random"),
    BitRange::new(48, 51, "version"),
    BitRange::new(52, 63, "random"),
    BitRange::new(64, 65, "variant"),
    BitRange::new(66, 127, "random"),
];

impl Layout for UuidV4Format {
    fn token(&self) -> &'static str {
        "uuidv4"
    }

    fn family(&self) -> Family {
        Family::Uuid { version: 4, default: true }
    }

    fn bits(&self) -> &'static [BitRange] {
        &BITS
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        dce::expect_version(Uuid::from_u128(value), &[4]).map(|_| Vec::new())
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        Ok(Id::Uuid(Uuid::from_u128(inputs.hex("random", 16)? & !MARK_MASK | MARK)))
    }
}
