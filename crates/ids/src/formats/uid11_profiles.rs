//! The profiles of uid11 other than `xid` (uid11 1.0): `uid11-fullrand`, `uid11-snowish` and `uid11-ts-seq-rand`.
//!
//! An identifier does not contain its profile, so a reader must know it. Times have the same origin as in an xid.

use alloc::vec::Vec;

use super::{Family, Layout, Mint, Scratch, each_tick, xid};
use crate::{
    error::{CodecError, ErrorCode},
    field::{BitRange, Field, Inputs},
    id::Id,
    line::{Line, Position},
    slot::{Slot, SlotConstants},
    time::UnixNanos,
    uid11::Uid11,
};

/// 64 bits that look random and have no structure. Kent issues them as a [`Series`](crate::Series), because they hold
/// no time.
pub(crate) struct FullRandFormat;

/// A reserved bit, milliseconds, a machine and a counter, as in Twitter's Snowflake.
pub(crate) struct SnowishFormat;

/// Milliseconds, a counter and random bits.
pub(crate) struct TsSeqRandFormat;

const SEQ_BITS: u32 = 12;
const SNOWISH_TIME_BITS: u32 = 41;
const MACHINE_BITS: u32 = 10;
const _: () = assert!(1 + SNOWISH_TIME_BITS + MACHINE_BITS + SEQ_BITS == u64::BITS, "the fields fill the uid11");
const TIME_BITS: u32 = 42;
const RAND_BITS: u32 = 10;
const _: () = assert!(TIME_BITS + SEQ_BITS + RAND_BITS == u64::BITS, "the fields fill the uid11");
const TAIL_BITS: u32 = RAND_BITS - Slot::BITS;

static SNOWISH_LINE: Line = Line::new(xid::NANOS_PER_MILLI, xid::ORIGIN, SNOWISH_TIME_BITS, SEQ_BITS);
static TS_SEQ_RAND_LINE: Line = Line::new(xid::NANOS_PER_MILLI, xid::ORIGIN, TIME_BITS, SEQ_BITS);

static FULL_RAND_BITS: [BitRange; 1] = [BitRange::new(0, 63, "rand")];
static SNOWISH_BITS: [BitRange; 4] = [
    BitRange::new(0, 0, "reserved"),
    BitRange::new(1, 41, "ts"),
    BitRange::new(42, 51, "machine"),
    BitRange::new(52, 63, "seq"),
];
static TS_SEQ_RAND_BITS: [BitRange; 3] =
    [BitRange::new(0, 41, "ts"), BitRange::new(42, 53, "seq"), BitRange::new(54, 63, "rand")];

impl Layout for FullRandFormat {
    fn token(&self) -> &'static str {
        "uid11-fullrand"
    }

    fn family(&self) -> Family {
        Family::Uid11 { profile: "fullrand" }
    }

    fn bits(&self) -> &'static [BitRange] {
        &FULL_RAND_BITS
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        let meaning = "64 bits that look random; in Kent, a permutation of a counter";
        Ok(Vec::from([Field::large("rand", value as u64, meaning)])) // OK because a uid11 has 64 bits
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        inputs.uint("rand", u64::BITS).map(|value| Id::Uid11(Uid11::new(value)))
    }
}

impl Layout for SnowishFormat {
    fn token(&self) -> &'static str {
        "uid11-snowish"
    }

    fn family(&self) -> Family {
        Family::Uid11 { profile: "snowish" }
    }

    fn bits(&self) -> &'static [BitRange] {
        &SNOWISH_BITS
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        let value = value as u64; // OK because a uid11 has 64 bits
        if value >> 63 != 0 {
            let message = "the first bit is 1, but this profile reserves it and requires 0";
            return Err(CodecError::new(ErrorCode::ReservedBits, message));
        }
        let ts = value >> (MACHINE_BITS + SEQ_BITS);
        let machine = value >> SEQ_BITS & ((1 << MACHINE_BITS) - 1);
        let seq = value & ((1 << SEQ_BITS) - 1);
        let [time, ts, unix_ms] = time_fields(ts);
        Ok(Vec::from([
            time,
            ts,
            unix_ms,
            Field::small("machine", machine as u32, "the generator; in Kent, the slot"), // OK because the machine has 10 bits
            Field::small("seq", seq as u32, "a counter within the millisecond"), // OK because the counter has 12 bits
        ]))
    }

    fn time(&self, value: u128) -> Option<UnixNanos> {
        Some(instant(value as u64 >> (MACHINE_BITS + SEQ_BITS))) // OK because a uid11 has 64 bits
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        let ts = inputs.uint("ts", SNOWISH_TIME_BITS)?;
        let machine = inputs.uint("machine", MACHINE_BITS)?;
        let seq = inputs.uint("seq", SEQ_BITS)?;
        Ok(Id::Uid11(Uid11::new(ts << (MACHINE_BITS + SEQ_BITS) | machine << SEQ_BITS | seq)))
    }

    fn mint(&'static self) -> Option<&'static dyn Mint> {
        Some(self)
    }
}

impl Layout for TsSeqRandFormat {
    fn token(&self) -> &'static str {
        "uid11-ts-seq-rand"
    }

    fn family(&self) -> Family {
        Family::Uid11 { profile: "ts-seq-rand" }
    }

    fn bits(&self) -> &'static [BitRange] {
        &TS_SEQ_RAND_BITS
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        let value = value as u64; // OK because a uid11 has 64 bits
        let seq = value >> RAND_BITS & ((1 << SEQ_BITS) - 1);
        let rand = value & ((1 << RAND_BITS) - 1);
        let [time, ts, unix_ms] = time_fields(value >> (SEQ_BITS + RAND_BITS));
        Ok(Vec::from([
            time,
            ts,
            unix_ms,
            Field::small("seq", seq as u32, "a counter within the millisecond"), // OK because the counter has 12 bits
            Field::small("rand", rand as u32, "random bits; in Kent, the first six are the slot"), // OK because the field has 10 bits
        ]))
    }

    fn time(&self, value: u128) -> Option<UnixNanos> {
        Some(instant(value as u64 >> (SEQ_BITS + RAND_BITS))) // OK because a uid11 has 64 bits
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        let ts = inputs.uint("ts", TIME_BITS)?;
        let seq = inputs.uint("seq", SEQ_BITS)?;
        let rand = inputs.uint("rand", RAND_BITS)?;
        Ok(Id::Uid11(Uid11::new((ts << SEQ_BITS | seq) << RAND_BITS | rand)))
    }

    fn mint(&'static self) -> Option<&'static dyn Mint> {
        Some(self)
    }
}

fn instant(ts: u64) -> UnixNanos {
    UnixNanos::new(i128::from(xid::ORIGIN_UNIX_MS + ts) * i128::from(xid::NANOS_PER_MILLI))
}

fn time_fields(ts: u64) -> [Field; 3] {
    let unix_ms = xid::ORIGIN_UNIX_MS + ts;
    [
        Field::time(instant(ts), xid::TIME_DIGITS, "creation time, by the clock of its generator"),
        Field::large("ts", ts, "milliseconds since 2011-11-11T11:11:11.111Z"),
        Field::large("unix_ms", unix_ms, "milliseconds since 1970-01-01T00:00:00Z"),
    ]
}

impl Mint for SnowishFormat {
    fn line(&self) -> &'static Line {
        &SNOWISH_LINE
    }

    fn tail_bits(&self) -> u32 {
        0
    }

    fn issued(&self, value: u128) -> Vec<Field> {
        let machine = (value >> SEQ_BITS) as u32 & ((1 << MACHINE_BITS) - 1); // OK because the mask keeps 10 bits
        match machine < u32::from(Slot::COUNT) {
            true => Vec::from([Field::small("kent_slot", machine, "if Kent issued it: its slot (bits 42-51)")]),
            false => Vec::new(),
        }
    }

    fn fill(&self, constants: &SlotConstants, first: Position, _scratch: &mut Scratch, values: &mut [u128]) {
        let machine = u128::from(constants.slot.get()) << SEQ_BITS;
        each_tick(first, SEQ_BITS, values, |ts, counter, values| {
            let head = ts << (MACHINE_BITS + SEQ_BITS) | machine;
            for (seq, value) in (counter..).zip(values) {
                *value = head | u128::from(seq);
            }
        });
    }
}

impl Mint for TsSeqRandFormat {
    fn line(&self) -> &'static Line {
        &TS_SEQ_RAND_LINE
    }

    fn tail_bits(&self) -> u32 {
        TAIL_BITS
    }

    fn issued(&self, value: u128) -> Vec<Field> {
        let slot = (value >> TAIL_BITS) as u32 & ((1 << Slot::BITS) - 1); // OK because the mask keeps 6 bits
        Vec::from([Field::small("kent_slot", slot, "if Kent issued it: its slot (bits 54-59)")])
    }

    fn fill(&self, constants: &SlotConstants, first: Position, _scratch: &mut Scratch, values: &mut [u128]) {
        let slot = u128::from(constants.slot.get()) << TAIL_BITS;
        // A position is the timestamp followed by the counter, exactly as in the identifier.
        for (position, value) in (first.get()..).zip(values) {
            *value |= position << RAND_BITS | slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{FieldValue, NoInputs};

    /// The fields of an identifier, as inputs for making it again.
    struct Fields(Vec<Field>);

    impl Inputs for Fields {
        fn has(&self, name: &'static str) -> bool {
            self.0.iter().any(|field| field.name == name)
        }

        fn int(&self, name: &'static str) -> Result<i128, CodecError> {
            let found = self.0.iter().find(|field| field.name == name);
            match found.map(|field| &field.value) {
                Some(FieldValue::Small(value)) => Ok((*value).into()),
                Some(FieldValue::Large(value)) => Ok(*value),
                _ => NoInputs.int(name),
            }
        }

        fn text(&self, name: &'static str) -> Result<&str, CodecError> {
            NoInputs.text(name)
        }
    }

    proptest! {
        #[test]
        fn ok_making_inverts_reading(value: u64) {
            for layout in [&FullRandFormat as &dyn Layout, &SnowishFormat, &TsSeqRandFormat] {
                let value = if layout.token() == "uid11-snowish" { value >> 1 } else { value };
                let fields = layout.read(value.into(), &NoInputs).expect("every value has fields");
                prop_assert_eq!(layout.make(&Fields(fields)), Ok(Id::Uid11(Uid11::new(value))));
            }
        }
    }
}
