//! `uuidv2`: version 1 with a local identifier in place of the low bits of the time, and a domain in place of the low
//! bits of the clock sequence (DCE Security).
//!
//! Kent does not issue this format: a tick lasts 429.5 s and has only 64 identifiers for each domain, local identifier
//! and node.

use alloc::vec::Vec;

use uuid::Uuid;

use super::{
    Family, Layout,
    gregorian::{LINE, TICK_BITS, high_of_v1, node_fields, ticks_of_v1, time_fields},
};
use crate::{
    dce,
    error::CodecError,
    field::{BitRange, Field, Inputs},
    id::Id,
    line::Position,
    slot::Node,
    time::UnixNanos,
};

pub(crate) struct UuidV2Format;

const LOCAL_ID_BITS: u32 = 32;
const CLOCK_SEQ_HI_BITS: u32 = 6;
const DOMAIN_BITS: u32 = 8;
const VARIANT: u64 = 0b10 << 62;

static BITS: [BitRange; 8] = [
    BitRange::new(0, 31, "local_id"),
    BitRange::new(32, 47, "time_mid"),
    BitRange::new(48, 51, "version"),
    BitRange::new(52, 63, "time_high"),
    BitRange::new(64, 65, "variant"),
    BitRange::new(66, 71, "clock_seq_hi"),
    BitRange::new(72, 79, "domain"),
    BitRange::new(80, 127, "node"),
];

impl Layout for UuidV2Format {
    fn token(&self) -> &'static str {
        "uuidv2"
    }

    fn family(&self) -> Family {
        Family::Uuid { version: 2, default: true }
    }

    fn bits(&self) -> &'static [BitRange] {
        &BITS
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        let uuid = Uuid::from_u128(value);
        dce::expect_version(uuid, &[2])?;
        let (high, low) = uuid.as_u64_pair();
        let local_id = (high >> LOCAL_ID_BITS) as u32; // OK because 32 bits are left
        let [clock_seq_hi, domain] = [(low >> 56) as u8 & 0x3f, (low >> Node::BITS) as u8]; // OK because each value is one byte
        let more = [
            Field::small("local_id", local_id, "the generator's user, group or organization"),
            Field::small("domain", domain, "the kind of local identifier: 0 a person, 1 a group, 2 an organization"),
            Field::small("clock_seq_hi", clock_seq_hi, "changes when the clock goes back or state is lost"),
        ];
        let ticks = ticks_of_v1(high & u64::from(u32::MAX));
        Ok(time_fields(ticks).into_iter().chain(more).chain(node_fields(Node::truncate(low))).collect())
    }

    fn time(&self, value: u128) -> Option<UnixNanos> {
        let (high, _) = Uuid::from_u128(value).as_u64_pair();
        Some(LINE.instant(Position::new(ticks_of_v1(high & u64::from(u32::MAX)).into())))
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        let ticks = inputs.uint("ticks", TICK_BITS)?;
        let local_id = inputs.uint("local_id", LOCAL_ID_BITS)?;
        let clock_seq_hi = inputs.uint("clock_seq_hi", CLOCK_SEQ_HI_BITS)?;
        let domain = inputs.uint("domain", DOMAIN_BITS)?;
        let node = inputs.hex("node", 6)? as u64; // OK because the node has 48 bits
        let time = high_of_v1(ticks) & u64::from(u32::MAX) & !(0xf << 12);
        let low = VARIANT | clock_seq_hi << 56 | domain << Node::BITS | node;
        Ok(Id::Uuid(Uuid::from_u64_pair(local_id << LOCAL_ID_BITS | 2 << 12 | time, low)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::NoInputs;

    proptest! {
        #[test]
        fn ok_any_uuid_of_version_2_is_read(value: u128) {
            let value = value & !(0xf << 76) & !(0b11 << 62) | 2 << 76 | 0b10 << 62;
            let fields = UuidV2Format.read(value, &NoInputs).expect("version 2");
            prop_assert_eq!(fields.len(), 9);
        }
    }
}
