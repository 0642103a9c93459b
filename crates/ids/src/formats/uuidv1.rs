//! `uuidv1`: ticks with the low bits first, clock sequence, node (DCE 1.1; RFC 9562, section 5.1).

use alloc::vec::Vec;

use uuid::Uuid;

use super::{Family, Gregorian, Layout};
use crate::{
    dce,
    error::CodecError,
    field::{BitRange, Field, Inputs},
    id::Id,
};

pub(crate) struct UuidV1Format;

static BITS: [BitRange; 7] = [
    BitRange::new(0, 31, "time_low"),
    BitRange::new(32, 47, "time_mid"),
    BitRange::new(48, 51, "version"),
    BitRange::new(52, 63, "time_high"),
    BitRange::new(64, 65, "variant"),
    BitRange::new(66, 79, "clock_seq"),
    BitRange::new(80, 127, "node"),
];

impl Layout for UuidV1Format {
    fn token(&self) -> &'static str {
        "uuidv1"
    }

    fn family(&self) -> Family {
        Family::Uuid { version: 1, default: true }
    }

    fn bits(&self) -> &'static [BitRange] {
        &BITS
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        let uuid = Uuid::from_u128(value);
        dce::expect_version(uuid, &[1])?;
        Gregorian::from_uuid(uuid).map(|it| it.fields())
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        Gregorian::from_inputs(inputs).map(|it| Id::Uuid(it.to_v1()))
    }
}
