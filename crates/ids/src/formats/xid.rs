//! `xid`: milliseconds since 2011-11-11T11:11:11.111Z and 22 bits that look random (uid11 1.0).
//!
//! Random bits would make collisions likely (11 % at 1000 identifiers in one millisecond). Kent therefore computes the
//! 22 bits as a keyed permutation of the slot and the counter, with a new permutation in each millisecond: no two xids
//! of a millisecond are equal, and they do not reveal how many xids exist.

use alloc::vec::Vec;

use super::{Batch, Family, Layout, Mint, Scratch, each_tick};
use crate::{
    error::{CodecError, OutOfRange},
    field::{BitRange, Field, Inputs},
    id::Id,
    line::{Line, Position},
    permute::{NarrowPermutation, Permutation},
    slot::{ClusterKey, Slot, SlotConstants},
    time::UnixNanos,
    uid11::Uid11,
    wide::wide,
};

const TIME_BITS: u32 = 42;
const RAND_BITS: u32 = 22;
const _: () = assert!(TIME_BITS + RAND_BITS == u64::BITS, "the fields fill the uid11");
const COUNTER_BITS: u32 = RAND_BITS - Slot::BITS;

pub(super) const NANOS_PER_MILLI: u64 = 1_000_000;
/// 2011-11-11T11:11:11.111Z, the origin of the time scale, in milliseconds since 1970.
pub(super) const ORIGIN_UNIX_MS: u64 = 1_321_009_871_111;
pub(super) const ORIGIN: UnixNanos = UnixNanos::new(ORIGIN_UNIX_MS as i128 * NANOS_PER_MILLI as i128);
/// The number of decimal places of a second that a millisecond resolves.
pub(super) const TIME_DIGITS: u32 = 3;

static LINE: Line = Line::new(NANOS_PER_MILLI, ORIGIN, TIME_BITS, COUNTER_BITS);

static BITS: [BitRange; 2] = [BitRange::new(0, 41, "ts"), BitRange::new(42, 63, "rand")];

/// The fields of an xid. Every uid11 can be read as an xid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid {
    value: u64,
}

impl Xid {
    /// The width of the time in bits.
    pub const TIME_BITS: u32 = TIME_BITS;
    /// The width in bits of the field that distinguishes the xids of one millisecond.
    pub const RAND_BITS: u32 = RAND_BITS;

    /// Creates the xid with these fields, of 42 and 22 bits; `ts` counts milliseconds since 2011-11-11T11:11:11.111Z.
    ///
    /// # Errors
    ///
    /// Fails with [`OutOfRange`] for the first value that does not fit.
    pub fn new(ts: u64, rand: u32) -> Result<Self, OutOfRange> {
        OutOfRange::check("ts", ts.into(), TIME_BITS)?;
        OutOfRange::check("rand", rand.into(), RAND_BITS)?;
        Ok(Self { value: ts << RAND_BITS | u64::from(rand) })
    }

    /// Returns the milliseconds since 2011-11-11T11:11:11.111Z, below 2^42.
    pub const fn ts(self) -> u64 {
        self.value >> RAND_BITS
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z.
    pub const fn unix_ms(self) -> u64 {
        ORIGIN_UNIX_MS + self.ts()
    }

    /// Returns the 22 bits that distinguish the xids of one millisecond.
    pub const fn rand(self) -> u32 {
        (self.value & ((1 << RAND_BITS) - 1)) as u32 // OK because 22 bits are left
    }

    /// Returns the instant at which the millisecond begins.
    pub fn instant(self) -> UnixNanos {
        UnixNanos::new(i128::from(self.unix_ms()) * i128::from(NANOS_PER_MILLI))
    }

    /// Returns the permutation of the 22 bits in the millisecond `ts`. Its argument is `slot * 2^16 + counter`.
    pub fn tails(key: &ClusterKey, ts: u64) -> Permutation {
        Permutation::new(key, b"xidperm1", ts, RAND_BITS)
    }
}

impl From<Uid11> for Xid {
    fn from(uid11: Uid11) -> Self {
        Self { value: uid11.get() }
    }
}

impl From<Xid> for Uid11 {
    fn from(xid: Xid) -> Self {
        Self::new(xid.value)
    }
}

pub(crate) struct XidFormat;

impl Layout for XidFormat {
    fn token(&self) -> &'static str {
        "xid"
    }

    fn family(&self) -> Family {
        Family::Uid11 { profile: "xid" }
    }

    fn bits(&self) -> &'static [BitRange] {
        &BITS
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        let xid = Xid { value: value as u64 }; // OK because a uid11 has 64 bits
        Ok(Vec::from([
            Field::time(xid.instant(), TIME_DIGITS, "creation time, by the clock of its generator"),
            Field::large("ts", xid.ts(), "milliseconds since 2011-11-11T11:11:11.111Z"),
            Field::large("unix_ms", xid.unix_ms(), "milliseconds since 1970-01-01T00:00:00Z"),
            Field::small("rand", xid.rand(), "22 bits that look random; in Kent, a permutation of slot and counter"),
        ]))
    }

    fn time(&self, value: u128) -> Option<UnixNanos> {
        Some(Xid { value: value as u64 }.instant()) // OK because a uid11 has 64 bits
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        let ts = inputs.uint("ts", TIME_BITS)?;
        let rand = inputs.uint("rand", RAND_BITS)? as u32; // OK because the field has 22 bits
        Ok(Id::Uid11(Xid::new(ts, rand)?.into()))
    }

    fn mint(&'static self) -> Option<&'static dyn Mint> {
        Some(self)
    }
}

impl Mint for XidFormat {
    fn line(&self) -> &'static Line {
        &LINE
    }

    fn tail_bits(&self) -> u32 {
        0
    }

    fn uses_key(&self) -> bool {
        true
    }

    fn fill(&self, constants: &SlotConstants, first: Position, scratch: &mut Scratch, values: &mut [u128]) {
        each_run(constants, first, scratch, values, |ts, tails, index, values| {
            wide(
                #[inline(always)]
                || {
                    tails.map_bits::<RAND_BITS, _>(index, values, |value, tail| {
                        *value = u128::from(ts | u64::from(tail))
                    })
                },
            );
        });
    }

    fn fill_bytes(&self, constants: &SlotConstants, first: Position, scratch: &mut Scratch, batch: Batch<'_>) {
        each_run(constants, first, scratch, batch.bytes.as_chunks_mut::<8>().0, |ts, tails, index, bytes| {
            wide(
                #[inline(always)]
                || {
                    tails.map_bits::<RAND_BITS, _>(index, bytes, |bytes, tail| {
                        *bytes = (ts | u64::from(tail)).to_be_bytes()
                    })
                },
            );
        });
    }
}

/// Splits a run at the ends of milliseconds. Calls `fill` for each part with the upper bits, the permutation, the first
/// index to permute, and the places to fill.
fn each_run<'a, T>(
    constants: &SlotConstants,
    first: Position,
    scratch: &mut Scratch,
    places: &'a mut [T],
    mut fill: impl FnMut(u64, NarrowPermutation, u32, &'a mut [T]),
) {
    let slot = u32::from(constants.slot.get()) << COUNTER_BITS;
    each_tick(first, COUNTER_BITS, places, |ts, counter, places| {
        let ts = ts as u64; // OK because the line's ticks have 42 bits
        let tails = scratch.permutation(ts, || Xid::tails(&constants.key, ts).narrow());
        fill(ts << RAND_BITS, tails, slot | counter as u32, places); // OK because a counter has 16 bits
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn err_fields_beyond_their_width() {
        assert!(Xid::new((1 << 42) - 1, (1 << 22) - 1).is_ok());
        assert!(Xid::new(1 << 42, 0).is_err());
        assert!(Xid::new(0, 1 << 22).is_err());
    }

    proptest! {
        #[test]
        fn ok_fields_round_trip(value: u64) {
            let xid = Xid::from(Uid11::new(value));
            prop_assert_eq!(Xid::new(xid.ts(), xid.rand()), Ok(xid));
            prop_assert_eq!(Uid11::from(xid).get(), value);
        }
    }
}
