//! `uuidv6`: ticks with the high bits first, a clock sequence and a node (RFC 9562, section 5.6).
//!
//! In Kent, each tick of 100 ns is one position. The node belongs to the slot and distinguishes slots. The clock
//! sequence belongs to the slot and stays the same until the slot changes owner. No bits are random.

use alloc::vec::Vec;

use uuid::Uuid;

use super::{
    Family, Gregorian, Layout, Mint, Scratch,
    gregorian::{LINE, SEQUENCE_KEY, high_of_v6, issued_fields, low_half},
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

pub(crate) struct UuidV6Format;

static BITS: [BitRange; 7] = [
    BitRange::new(0, 31, "time_high"),
    BitRange::new(32, 47, "time_mid"),
    BitRange::new(48, 51, "version"),
    BitRange::new(52, 63, "time_low"),
    BitRange::new(64, 65, "variant"),
    BitRange::new(66, 79, "clock_seq"),
    BitRange::new(80, 127, "node"),
];

impl Layout for UuidV6Format {
    fn token(&self) -> &'static str {
        "uuidv6"
    }

    fn family(&self) -> Family {
        Family::Uuid { version: 6, default: true }
    }

    fn bits(&self) -> &'static [BitRange] {
        &BITS
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        let uuid = Uuid::from_u128(value);
        dce::expect_version(uuid, &[6])?;
        Gregorian::from_uuid(uuid).map(|it| it.fields())
    }

    fn time(&self, value: u128) -> Option<UnixNanos> {
        Gregorian::from_uuid(Uuid::from_u128(value)).ok().map(|it| it.instant())
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        Gregorian::from_inputs(inputs).map(|it| Id::Uuid(it.to_v6()))
    }

    fn mint(&'static self) -> Option<&'static dyn Mint> {
        Some(self)
    }
}

impl Mint for UuidV6Format {
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
            *value = u128::from(high_of_v6(ticks)) << 64 | low;
        }
    }
}
