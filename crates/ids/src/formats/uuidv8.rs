//! `uuidv8`: 122 bits defined by their generator (RFC 9562, section 5.8).
//!
//! Kent does not issue this format: the generator defines the meaning of the bits, and whether two UUIDs can be equal.

use alloc::vec::Vec;

use uuid::Uuid;

use super::{Family, Layout};
use crate::{
    dce,
    error::CodecError,
    field::{BitRange, Field, Inputs},
    id::Id,
};

pub(crate) struct UuidV8Format;

const A_BITS: u32 = 48;
const B_BITS: u32 = 12;
const C_BITS: u32 = 62;

static BITS: [BitRange; 5] = [
    BitRange::new(0, 47, "custom_a"),
    BitRange::new(48, 51, "version"),
    BitRange::new(52, 63, "custom_b"),
    BitRange::new(64, 65, "variant"),
    BitRange::new(66, 127, "custom_c"),
];

impl Layout for UuidV8Format {
    fn token(&self) -> &'static str {
        "uuidv8"
    }

    fn family(&self) -> Family {
        Family::Uuid { version: 8, default: true }
    }

    fn bits(&self) -> &'static [BitRange] {
        &BITS
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        let uuid = Uuid::from_u128(value);
        dce::expect_version(uuid, &[8])?;
        let (high, low) = uuid.as_u64_pair();
        let b = (high & ((1 << B_BITS) - 1)) as u32; // OK because 12 bits are left
        Ok(Vec::from([
            Field::large("custom_a", high >> 16, "48 bits defined by the generator"),
            Field::small("custom_b", b, "12 bits defined by the generator"),
            Field::large("custom_c", low & ((1 << C_BITS) - 1), "62 bits defined by the generator"),
        ]))
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        let a = inputs.uint("custom_a", A_BITS)?;
        let b = inputs.uint("custom_b", B_BITS)?;
        let c = inputs.uint("custom_c", C_BITS)?;
        Ok(Id::Uuid(Uuid::from_u64_pair(a << 16 | 8 << 12 | b, 0b10 << C_BITS | c)))
    }
}
