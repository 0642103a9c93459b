//! `uuidv1`: ticks with the low bits first, a clock sequence and a node (DCE 1.1; RFC 9562, section 5.1).
//!
//! Kent issues this format from the same sequence of positions as `uuidv6`, so converting identifiers between the two
//! formats never produces a duplicate.

use alloc::vec::Vec;

use uuid::Uuid;

use super::{
    Family, Gregorian, Layout, Mint, Scratch,
    gregorian::{LINE, SEQUENCE_KEY, high_of_v1, issued_fields, low_half},
};
use crate::{
    dce,
    error::CodecError,
    field::{BitRange, Field, Inputs},
    id::Id,
    line::{Line, Position},
    slot::{Node, SlotConstants},
    time::UnixNanos,
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

    fn time(&self, value: u128) -> Option<UnixNanos> {
        Gregorian::from_uuid(Uuid::from_u128(value)).ok().map(|it| it.instant())
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        Gregorian::from_inputs(inputs).map(|it| Id::Uuid(it.to_v1()))
    }

    fn mint(&'static self) -> Option<&'static dyn Mint> {
        Some(self)
    }
}

impl Mint for UuidV1Format {
    fn line(&self) -> &'static Line {
        &LINE
    }

    fn sequence_key(&self) -> &'static str {
        SEQUENCE_KEY
    }

    fn tail_bits(&self) -> u32 {
        0
    }

    fn uses_node(&self) -> bool {
        true
    }

    fn issued(&self, value: u128) -> Vec<Field> {
        issued_fields(Node::truncate(value as u64)) // OK because the node is the low 48 bits
    }

    fn fill(&self, constants: &SlotConstants, first: Position, _scratch: &mut Scratch, values: &mut [u128]) {
        let low = u128::from(low_half(constants.clock_seq, constants.node));
        let first = first.get() as u64; // OK because the line has 60 bits
        for (ticks, value) in (first..).zip(values) {
            *value = u128::from(high_of_v1(ticks)) << 64 | low;
        }
    }
}
