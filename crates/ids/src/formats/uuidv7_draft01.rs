//! `uuidv7-draft01`: 36 bits of seconds since 1970, a binary fraction of the second, a counter and random bits
//! (draft-peabody-dispatch-new-uuid-format-01, section 4.4).
//!
//! The 86 bits after the seconds begin with the fraction. Its width is the generator's choice and is not in the
//! identifier. The draft promises that a reader need not know the width: it may read any number of digits, and the
//! digits that the generator stored are correct. So the field is a binary *fraction* (bit i is worth 2^-i), not a
//! count. The generator rounds the fraction up, because readers round down, and rounding down twice would lose a unit.

use alloc::{format, string::ToString, vec::Vec};

use uuid::Uuid;

use super::{Family, Layout, Mint, Scratch, each_tick};
use crate::{
    dce,
    error::{CodecError, ErrorCode},
    field::{BitRange, Field, Inputs},
    id::Id,
    line::{Line, Position},
    slot::{Slot, SlotConstants},
    time::{NANOS_PER_SECOND, UnixNanos},
};

const SECOND_BITS: u32 = 36;
/// The number of bits after the seconds, without the version and the variant.
const REST_BITS: u32 = 86;
const VERSION: u128 = 7 << 76;
const VARIANT: u128 = 0b10 << 62;

/// A layout of the bits after the seconds, with the number of decimal digits to which its fraction is exact.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SubsecLayout {
    name: &'static str,
    token: &'static str,
    /// The fraction is a whole number of units of 10^-digits s.
    digits: u32,
    fraction_bits: u32,
    seq_bits: u32,
    line: Line,
    bits: &'static [BitRange],
}

impl SubsecLayout {
    const fn new(
        [name, token]: [&'static str; 2],
        digits: u32,
        [fraction_bits, seq_bits]: [u32; 2],
        bits: &'static [BitRange],
    ) -> Self {
        let units = 10_u64.pow(digits);
        let ticks = (1 << SECOND_BITS) * units as u128;
        // Readers round down, so a fraction that was rounded up must stay in its unit, whatever bits follow it.
        assert!(1_u128 << fraction_bits > 2 * units as u128, "a step of the fraction is less than half a unit");
        let line = Line::of_ticks(NANOS_PER_SECOND as u64 / units, UnixNanos::new(0), ticks, seq_bits);
        Self { name, token, digits, fraction_bits, seq_bits, line, bits }
    }

    const fn rand_bits(&self) -> u32 {
        REST_BITS - self.fraction_bits - self.seq_bits
    }

    const fn tail_bits(&self) -> u32 {
        self.rand_bits() - Slot::BITS
    }

    const fn units_per_second(&self) -> u64 {
        10_u64.pow(self.digits)
    }

    /// Makes the identifier whose fraction is `units` units of the layout.
    const fn assemble(&self, seconds: u64, units: u64, seq: u64, rand: u64) -> u128 {
        let fraction = ((units as u128) << self.fraction_bits).div_ceil(self.units_per_second() as u128);
        let rest = (fraction << self.seq_bits | seq as u128) << self.rand_bits() | rand as u128;
        join(seconds, rest)
    }
}

/// Milliseconds: the default layout.
static MILLIS: SubsecLayout = SubsecLayout::new(
    ["ms", "uuidv7-draft01-ms"],
    3,
    [12, 12],
    &[
        BitRange::new(0, 35, "unixts"),
        BitRange::new(36, 47, "subsec"),
        BitRange::new(48, 51, "version"),
        BitRange::new(52, 63, "seq"),
        BitRange::new(64, 65, "variant"),
        BitRange::new(66, 127, "rand"),
    ],
);
static MICROS: SubsecLayout = SubsecLayout::new(
    ["us", "uuidv7-draft01-us"],
    6,
    [24, 14],
    &[
        BitRange::new(0, 35, "unixts"),
        BitRange::new(36, 47, "subsec"),
        BitRange::new(48, 51, "version"),
        BitRange::new(52, 63, "subsec"),
        BitRange::new(64, 65, "variant"),
        BitRange::new(66, 79, "seq"),
        BitRange::new(80, 127, "rand"),
    ],
);
static NANOS: SubsecLayout = SubsecLayout::new(
    ["ns", "uuidv7-draft01-ns"],
    9,
    [38, 8],
    &[
        BitRange::new(0, 35, "unixts"),
        BitRange::new(36, 47, "subsec"),
        BitRange::new(48, 51, "version"),
        BitRange::new(52, 63, "subsec"),
        BitRange::new(64, 65, "variant"),
        BitRange::new(66, 79, "subsec"),
        BitRange::new(80, 87, "seq"),
        BitRange::new(88, 127, "rand"),
    ],
);

/// The bit ranges of an identifier of unknown layout.
static BITS: [BitRange; 6] = [
    BitRange::new(0, 35, "unixts"),
    BitRange::new(36, 47, "subsec_a"),
    BitRange::new(48, 51, "version"),
    BitRange::new(52, 63, "subsec_b"),
    BitRange::new(64, 65, "variant"),
    BitRange::new(66, 127, "subsec_seq_node"),
];

/// Joins the seconds and the 86 bits after them with the version and the variant.
const fn join(seconds: u64, rest: u128) -> u128 {
    (seconds as u128) << 92 | VERSION | VARIANT | low_bits(rest)
}

/// Returns the 86 bits after the seconds, without the version and the variant.
const fn rest(value: u128) -> u128 {
    (value >> 80 & 0xfff) << 74 | (value >> 64 & 0xfff) << 62 | value & ((1 << 62) - 1)
}

/// Returns the number of decimal places of the second for a precision.
fn precision(name: &str) -> Result<u32, CodecError> {
    match name {
        "s" => Ok(0),
        "ms" => Ok(3),
        "us" => Ok(6),
        "ns" => Ok(9),
        _ => {
            let message = format!("{name:?} is not a valid precision: use s, ms, us or ns");
            Err(CodecError::new(ErrorCode::BadPrecision, message))
        }
    }
}

fn layout_by_name(name: &str) -> Result<&'static SubsecLayout, CodecError> {
    [&MILLIS, &MICROS, &NANOS].into_iter().find(|layout| layout.name == name).ok_or_else(|| {
        CodecError::new(ErrorCode::BadLayout, format!("{name:?} is not a valid layout: use ms, us or ns"))
    })
}

/// The format without a fixed layout. The layout is an input when making a UUID, and an option when reading one.
pub(crate) struct AnyLayout;

/// The format with a fixed layout.
pub(crate) struct OneLayout(&'static SubsecLayout);

pub(crate) static UUID_V7_DRAFT01_MS: OneLayout = OneLayout(&MILLIS);
pub(crate) static UUID_V7_DRAFT01_US: OneLayout = OneLayout(&MICROS);
pub(crate) static UUID_V7_DRAFT01_NS: OneLayout = OneLayout(&NANOS);

impl Layout for AnyLayout {
    fn token(&self) -> &'static str {
        "uuidv7-draft01"
    }

    fn family(&self) -> Family {
        Family::Uuid { version: 7, default: false }
    }

    fn bits(&self) -> &'static [BitRange] {
        &BITS
    }

    fn read(&self, value: u128, options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        dce::expect_version(Uuid::from_u128(value), &[7])?;
        let layout = if options.has("layout") { Some(layout_by_name(options.text("layout")?)?) } else { None };
        read(value, layout, options)
    }

    fn time(&self, value: u128) -> Option<UnixNanos> {
        Some(instant(value, MILLIS.digits))
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        let layout = if inputs.has("layout") { layout_by_name(inputs.text("layout")?)? } else { &MILLIS };
        make(layout, inputs)
    }
}

impl Layout for OneLayout {
    fn token(&self) -> &'static str {
        self.0.token
    }

    fn family(&self) -> Family {
        Family::Uuid { version: 7, default: false }
    }

    fn bits(&self) -> &'static [BitRange] {
        self.0.bits
    }

    fn read(&self, value: u128, options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        dce::expect_version(Uuid::from_u128(value), &[7])?;
        read(value, Some(self.0), options)
    }

    fn time(&self, value: u128) -> Option<UnixNanos> {
        Some(instant(value, self.0.digits))
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        make(self.0, inputs)
    }

    fn mint(&'static self) -> Option<&'static dyn Mint> {
        Some(self)
    }
}

/// Returns the time, rounded down to this number of decimal places of the second.
fn instant(value: u128, digits: u32) -> UnixNanos {
    let (seconds, units) = (value >> 92, floor_units(rest(value), REST_BITS, digits));
    // OK because the seconds have 36 bits and the units are below 10^9.
    UnixNanos::new(seconds as i128 * NANOS_PER_SECOND + units as i128 * i128::from(10_u64.pow(9 - digits)))
}

/// Returns the fields, in the requested precision. The default is the precision of the layout, or milliseconds without
/// a layout.
fn read(value: u128, layout: Option<&SubsecLayout>, options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
    let named = if options.has("precision") { Some(options.text("precision")?) } else { None };
    let name = named.unwrap_or(layout.unwrap_or(&MILLIS).name);
    let digits = precision(name)?;
    let (seconds, rest) = (value >> 92, rest(value));
    let units = floor_units(rest, REST_BITS, digits);
    let mut fields = Vec::from([
        Field::time(instant(value, digits), digits, "creation time, by the clock of its generator"),
        Field::large("unixts", seconds as i128, "seconds since 1970-01-01T00:00:00Z"),
        Field::text("precision", name.to_string(), "the requested precision of the second"),
        Field::large("subsec", units as i128, "the fraction of the second, in units of the precision"),
        Field::text("subsec86", format!("{rest:022x}"), "the 86 bits that begin with the fraction"),
    ]);
    if let Some(layout) = layout {
        fields.push(Field::group(
            "layout",
            layout_fields(layout, rest),
            "the fields of these bits in the requested layout",
        ));
    }
    Ok(fields)
}

fn layout_fields(layout: &SubsecLayout, rest: u128) -> Vec<Field> {
    let fraction = rest >> (REST_BITS - layout.fraction_bits);
    let seq = rest >> layout.rand_bits() & ((1 << layout.seq_bits) - 1);
    let rand = rest & ((1 << layout.rand_bits()) - 1);
    let units = floor_units(fraction, layout.fraction_bits, layout.digits);
    Vec::from([
        Field::text("name", layout.name.to_string(), "the layout"),
        Field::large("subsec_bits", fraction as i128, "the stored bits of the fraction of the second, as a number"),
        Field::large("subsec", units as i128, "the fraction of the second, in the layout's unit"),
        Field::small("seq", seq as u32, "a counter"), // OK because the counter has at most 14 bits
        Field::large("rand", rand as i128, "random bits; in Kent, the first six are the slot"),
    ])
}

/// Converts a binary fraction of `bits` bits (at most 86) into units of 10^-digits, rounded down.
const fn floor_units(fraction: u128, bits: u32, digits: u32) -> u128 {
    (fraction * 10_u128.pow(digits)) >> bits
}

fn make(layout: &SubsecLayout, inputs: &dyn Inputs) -> Result<Id, CodecError> {
    let nanos = inputs.int("unix_ns")?;
    let (seconds, fraction) = (nanos.div_euclid(NANOS_PER_SECOND), nanos.rem_euclid(NANOS_PER_SECOND));
    let seconds = u64::try_from(seconds).ok().filter(|seconds| seconds >> SECOND_BITS == 0).ok_or_else(|| {
        CodecError::new(ErrorCode::Range, format!("unix_ns is {nanos}, but its seconds must be from 0 to 2^36 - 1"))
    })?;
    let seq = inputs.uint("seq", layout.seq_bits)?;
    let rand = inputs.uint("rand", layout.rand_bits())?;
    if rand == 0 {
        return Err(node_zero());
    }
    let units = fraction as u64 / 10_u64.pow(9 - layout.digits); // OK because the fraction is below 10^9
    Ok(Id::Uuid(Uuid::from_u128(layout.assemble(seconds, units, seq, rand))))
}

fn node_zero() -> CodecError {
    CodecError::new(ErrorCode::NodeZero, "the random bits are all zero, which the draft forbids")
}

impl Mint for OneLayout {
    fn line(&self) -> &'static Line {
        &self.0.line
    }

    fn tail_bits(&self) -> u32 {
        self.0.tail_bits()
    }

    fn check(&self, slot: Slot, _position: Position, tail: u64) -> Result<(), CodecError> {
        if slot.get() == 0 && tail == 0 { Err(node_zero()) } else { Ok(()) }
    }

    fn issued(&self, value: u128) -> Vec<Field> {
        let slot = (value >> self.0.tail_bits()) as u32 & ((1 << Slot::BITS) - 1); // OK because the mask keeps 6 bits
        let meaning = "if Kent issued it: its slot (the first six bits of rand)";
        Vec::from([Field::small("kent_slot", slot, meaning)])
    }

    fn fill(&self, constants: &SlotConstants, first: Position, _scratch: &mut Scratch, values: &mut [u128]) {
        let layout = self.0;
        let units = u128::from(layout.units_per_second());
        let slot = u128::from(constants.slot.get()) << layout.tail_bits();
        each_tick(first, layout.seq_bits, values, |tick, counter, values| {
            let (seconds, units) = ((tick / units) as u64, (tick % units) as u64); // OK because the line has 36 bits of seconds
            let head = layout.assemble(seconds, units, 0, 0);
            for (seq, value) in (counter..).zip(values) {
                // In slot 0, a tail of zero would make rand zero, which the draft forbids. Such a tail becomes 1: tails
                // need not be unique.
                let rand = (slot | *value).max(1);
                *value = head | low_bits(u128::from(seq) << layout.rand_bits() | rand);
            }
        });
    }
}

/// Moves the 86 bits to their places in the UUID.
const fn low_bits(rest: u128) -> u128 {
    (rest >> 74) << 80 | (rest >> 62 & 0xfff) << 64 | rest & ((1 << 62) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_layout() -> impl Strategy<Value = &'static SubsecLayout> {
        prop::sample::select(Vec::from([&MILLIS, &MICROS, &NANOS]))
    }

    proptest! {
        #[test]
        fn ok_a_reader_without_the_layout_reads_the_generators_digits(
            layout in any_layout(), seconds in 0..1u64 << 36, nanos in 0..1_000_000_000_u64, seq: u64, rand: u64, digits in 0..=3_u32,
        ) {
            let (seq, rand) = (seq & ((1 << layout.seq_bits) - 1), rand & ((1 << layout.rand_bits()) - 1));
            let units = nanos / 10_u64.pow(9 - layout.digits);
            let value = layout.assemble(seconds, units, seq, rand);
            prop_assert_eq!(value >> 92, u128::from(seconds));
            let digits = (3 * digits).min(layout.digits);
            let read = floor_units(rest(value), REST_BITS, digits);
            prop_assert_eq!(read, u128::from(nanos / 10_u64.pow(9 - digits)));
            prop_assert_eq!(dce::version(Uuid::from_u128(value)), Some(7));
        }

        #[test]
        fn ok_later_units_sort_later(layout in any_layout(), a in 0..1_000_000_000_u64, b in 0..1_000_000_000_u64) {
            let [a, b] = [a, b].map(|nanos| nanos / 10_u64.pow(9 - layout.digits));
            let (lowest, highest) = (layout.assemble(0, a, 0, 0), layout.assemble(0, b, (1 << layout.seq_bits) - 1, 1));
            prop_assert_eq!(a > b, lowest > highest);
        }

        #[test]
        fn ok_parts_join_to_the_whole(value: u128) {
            let value = value & !(0xf << 76) & !(0b11 << 62) | VERSION | VARIANT;
            prop_assert_eq!(join((value >> 92) as u64, rest(value)), value);
            prop_assert_eq!(join(0, rest(value)), VERSION | VARIANT | low_bits(rest(value)));
        }
    }
}
