//! `uuidv7`: milliseconds since 1970 and 74 free bits (RFC 9562, section 5.7).
//!
//! In Kent, the free bits are a counter of 22 bits (method 1 of RFC 9562, section 6.2: in rand_a and the top of
//! rand_b), the slot, and a random tail of 46 bits. When the counter overflows, it continues in the next millisecond.

use alloc::vec::Vec;

use uuid::Uuid;

use super::{Batch, Family, Layout, Mint, Scratch, each_tick};
use crate::{
    dce,
    error::{CodecError, OutOfRange},
    field::{BitRange, Field, Inputs},
    id::Id,
    line::{Line, Position},
    slot::{Slot, SlotConstants},
    time::UnixNanos,
    wide::wide,
};

const TIME_BITS: u32 = 48;
const RAND_A_BITS: u32 = 12;
const RAND_B_BITS: u32 = 62;
const _: () = assert!(TIME_BITS + 4 + RAND_A_BITS + 2 + RAND_B_BITS == 128, "the fields fill the UUID");

const COUNTER_BITS: u32 = 22;
/// The number of the counter's bits that are in rand_b.
const COUNTER_LOW_BITS: u32 = COUNTER_BITS - RAND_A_BITS;
const TAIL_BITS: u32 = RAND_B_BITS - COUNTER_LOW_BITS - Slot::BITS;

const VERSION: u64 = 7 << RAND_A_BITS;
const VARIANT: u64 = 0b10 << RAND_B_BITS;
const NANOS_PER_MILLI: u64 = 1_000_000;
/// The number of decimal places of a second that a millisecond resolves.
const TIME_DIGITS: u32 = 3;

static LINE: Line = Line::new(NANOS_PER_MILLI, UnixNanos::new(0), TIME_BITS, COUNTER_BITS);

static BITS: [BitRange; 5] = [
    BitRange::new(0, 47, "unix_ms"),
    BitRange::new(48, 51, "version"),
    BitRange::new(52, 63, "rand_a"),
    BitRange::new(64, 65, "variant"),
    BitRange::new(66, 127, "rand_b"),
];

/// The fields of a UUID of version 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UuidV7 {
    unix_ms: u64,
    rand_a: u16,
    rand_b: u64,
}

impl UuidV7 {
    /// Creates the fields from these values, of 48, 12 and 62 bits; `unix_ms` counts milliseconds since
    /// 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    ///
    /// Fails with [`OutOfRange`] for the first value that does not fit.
    pub fn new(unix_ms: u64, rand_a: u16, rand_b: u64) -> Result<Self, OutOfRange> {
        OutOfRange::check("unix_ms", unix_ms.into(), TIME_BITS)?;
        OutOfRange::check("rand_a", rand_a.into(), RAND_A_BITS)?;
        OutOfRange::check("rand_b", rand_b.into(), RAND_B_BITS)?;
        Ok(Self { unix_ms, rand_a, rand_b })
    }

    /// Returns the fields of a UUID of version 7.
    ///
    /// # Errors
    ///
    /// Fails with the first of these codes that applies: `wrong-variant`, `wrong-version`.
    pub fn from_uuid(uuid: Uuid) -> Result<Self, CodecError> {
        dce::expect_version(uuid, &[7])?;
        let (high, low) = uuid.as_u64_pair();
        let rand_a = (high & ((1 << RAND_A_BITS) - 1)) as u16; // OK because 12 bits are left
        Ok(Self { unix_ms: high >> 16, rand_a, rand_b: low & ((1 << RAND_B_BITS) - 1) })
    }

    /// Returns the UUID with these fields.
    pub const fn to_uuid(&self) -> Uuid {
        Uuid::from_u64_pair(self.unix_ms << 16 | VERSION | self.rand_a as u64, VARIANT | self.rand_b)
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z, below 2^48.
    pub const fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    /// Returns the 12 free bits after the version.
    pub const fn rand_a(&self) -> u16 {
        self.rand_a
    }

    /// Returns the 62 free bits after the variant.
    pub const fn rand_b(&self) -> u64 {
        self.rand_b
    }

    /// Returns the instant at which the millisecond begins.
    pub fn instant(&self) -> UnixNanos {
        UnixNanos::new(i128::from(self.unix_ms) * i128::from(NANOS_PER_MILLI))
    }
}

pub(crate) struct UuidV7Format;

impl Layout for UuidV7Format {
    fn token(&self) -> &'static str {
        "uuidv7"
    }

    fn family(&self) -> Family {
        Family::Uuid { version: 7, default: true }
    }

    fn bits(&self) -> &'static [BitRange] {
        &BITS
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        let fields = UuidV7::from_uuid(Uuid::from_u128(value))?;
        Ok(Vec::from([
            Field::time(fields.instant(), TIME_DIGITS, "creation time, by the clock of its generator"),
            Field::large("unix_ms", fields.unix_ms, "milliseconds since 1970-01-01T00:00:00Z"),
            Field::small("rand_a", fields.rand_a, "12 free bits; in Kent, the upper bits of the counter"),
            Field::large(
                "rand_b",
                fields.rand_b,
                "62 free bits; in Kent, 10 of the counter, 6 of the slot, 46 random bits",
            ),
        ]))
    }

    fn time(&self, value: u128) -> Option<UnixNanos> {
        UuidV7::from_uuid(Uuid::from_u128(value)).ok().map(|it| it.instant())
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        let unix_ms = inputs.uint("unix_ms", TIME_BITS)?;
        let rand_a = inputs.uint("rand_a", RAND_A_BITS)? as u16; // OK because the field has 12 bits
        let rand_b = inputs.uint("rand_b", RAND_B_BITS)?;
        Ok(Id::Uuid(UuidV7::new(unix_ms, rand_a, rand_b)?.to_uuid()))
    }

    fn mint(&'static self) -> Option<&'static dyn Mint> {
        Some(self)
    }
}

impl Mint for UuidV7Format {
    fn line(&self) -> &'static Line {
        &LINE
    }

    fn tail_bits(&self) -> u32 {
        TAIL_BITS
    }

    fn issued(&self, value: u128) -> Vec<Field> {
        let slot = (value >> TAIL_BITS) as u32 & ((1 << Slot::BITS) - 1); // OK because the mask keeps 6 bits
        let counter_low = (value >> (TAIL_BITS + Slot::BITS)) as u32 & ((1 << COUNTER_LOW_BITS) - 1); // OK because the mask keeps 10 bits
        let counter_high = (value >> u64::BITS) as u32 & ((1 << RAND_A_BITS) - 1); // OK because the mask keeps 12 bits
        let counter = counter_high << COUNTER_LOW_BITS | counter_low;
        Vec::from([
            Field::small(
                "kent_counter",
                counter,
                "if Kent issued it: its number in the millisecond (bits 52-63, 66-75)",
            ),
            Field::small("kent_slot", slot, "if Kent issued it: its slot (bits 76-81)"),
        ])
    }

    fn fill(&self, constants: &SlotConstants, first: Position, _scratch: &mut Scratch, values: &mut [u128]) {
        each_run(constants, first, values, |high, low, values| {
            for (value, index) in values.iter_mut().zip(0..) {
                *value |= u128::from(high) << 64 | u128::from(low + (index << STEP_SHIFT));
            }
        });
    }

    fn fill_bytes(&self, constants: &SlotConstants, first: Position, _scratch: &mut Scratch, batch: Batch<'_>) {
        let mut tails = batch.tails;
        each_run(constants, first, batch.bytes.as_chunks_mut::<8>().0.as_chunks_mut::<2>().0, |high, low, halves| {
            let (now, later) = tails.split_at(halves.len());
            tails = later;
            wide(
                #[inline(always)]
                || {
                    let high = high.to_be_bytes();
                    for ((halves, tail), index) in halves.iter_mut().zip(now).zip(0..) {
                        *halves = [high, ((low + (index << STEP_SHIFT)) | tail).to_be_bytes()];
                    }
                },
            );
        });
    }
}

/// The bit position of the low half of the counter, above the slot and the tail.
const STEP_SHIFT: u32 = Slot::BITS + TAIL_BITS;

/// Splits a run where the low half of the counter wraps. Within each part, the upper halves of the UUIDs are equal, and
/// the lower halves without their tails increase by a constant step.
#[inline(always)]
fn each_run<'a, T>(
    constants: &SlotConstants,
    first: Position,
    places: &'a mut [T],
    mut fill: impl FnMut(u64, u64, &'a mut [T]),
) {
    let slot = u64::from(constants.slot.get()) << TAIL_BITS;
    each_tick(first, COUNTER_LOW_BITS, places, |above, counter_low, places| {
        let unix_ms = (above >> RAND_A_BITS) as u64; // OK because the line's ticks have 48 bits
        let counter_high = above as u64 & ((1 << RAND_A_BITS) - 1); // OK because the mask keeps 12 bits
        let high = unix_ms << 16 | VERSION | counter_high;
        fill(high, VARIANT | counter_low << STEP_SHIFT | slot, places);
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn err_fields_beyond_their_width() {
        assert!(UuidV7::new((1 << 48) - 1, (1 << 12) - 1, (1 << 62) - 1).is_ok());
        assert!(UuidV7::new(1 << 48, 0, 0).is_err());
        assert!(UuidV7::new(0, 1 << 12, 0).is_err());
        assert!(UuidV7::new(0, 0, 1 << 62).is_err());
    }

    proptest! {
        #[test]
        fn ok_fields_round_trip(unix_ms in 0..1u64 << 48, rand_a in 0..1u16 << 12, rand_b in 0..1u64 << 62) {
            let fields = UuidV7::new(unix_ms, rand_a, rand_b).expect("the widths fit");
            prop_assert_eq!(UuidV7::from_uuid(fields.to_uuid()), Ok(fields));
        }

        #[test]
        fn ok_any_uuid_of_version_7_round_trips(value: u128) {
            let uuid = Uuid::from_u128(value & !(0xf << 76) & !(0b11 << 62) | 7 << 76 | 0b10 << 62);
            prop_assert_eq!(UuidV7::from_uuid(uuid).expect("version 7").to_uuid(), uuid);
        }
    }
}
