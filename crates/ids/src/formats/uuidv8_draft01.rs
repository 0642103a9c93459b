//! `uuidv8-draft01`: a timestamp of 32, 48, 60 or 64 bits from any source, a counter and a node
//! (draft-peabody-dispatch-new-uuid-format-01, section 4.5).
//!
//! The width is not in the identifier, so a reader must supply it. In Kent, the timestamps of these four widths are
//! seconds, milliseconds, ticks of UUID version 1, and nanoseconds. The node begins with the slot. After a 32-bit or
//! 48-bit timestamp, eight more bits of the counter precede the slot.

use alloc::{format, vec::Vec};

use uuid::Uuid;

use super::{Family, Layout, Mint, Scratch, each_tick, gregorian};
use crate::{
    dce,
    error::{CodecError, ErrorCode},
    field::{BitRange, Field, Inputs},
    id::Id,
    line::{Line, Position},
    slot::{Slot, SlotConstants},
    time::UnixNanos,
};

const VERSION: u128 = 8 << 76;
const VARIANT: u128 = 0b10 << 62;

/// The width of the node after a wide timestamp (60 or 64 bits).
const NODE_BITS: u32 = 54;
/// The width of the counter after a wide timestamp. After a narrow timestamp, this field is part of the node.
const SEQ_BITS: u32 = 8;
/// The width of the node after a narrow timestamp (32 or 48 bits).
const LONG_NODE_BITS: u32 = SEQ_BITS + NODE_BITS;
/// The width of the counter after a narrow timestamp.
const LONG_SEQ_BITS: u32 = 12;
const TAIL_BITS: u32 = NODE_BITS - Slot::BITS;

/// The width of the timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    W32,
    W48,
    W60,
    W64,
}

impl Width {
    const fn bits(self) -> u32 {
        match self {
            Self::W32 => 32,
            Self::W48 => 48,
            Self::W60 => 60,
            Self::W64 => 64,
        }
    }

    const fn seq_bits(self) -> u32 {
        match self {
            Self::W32 | Self::W48 => LONG_SEQ_BITS,
            Self::W60 | Self::W64 => SEQ_BITS,
        }
    }

    const fn node_bits(self) -> u32 {
        match self {
            Self::W32 | Self::W48 => LONG_NODE_BITS,
            Self::W60 | Self::W64 => NODE_BITS,
        }
    }

    /// Returns the number of counter bits in an identifier that Kent issues.
    const fn counter_bits(self) -> u32 {
        match self {
            Self::W32 | Self::W48 => LONG_SEQ_BITS + SEQ_BITS,
            Self::W60 | Self::W64 => SEQ_BITS,
        }
    }

    const fn token(self) -> &'static str {
        match self {
            Self::W32 => "uuidv8-draft01-32",
            Self::W48 => "uuidv8-draft01-48",
            Self::W60 => "uuidv8-draft01-60",
            Self::W64 => "uuidv8-draft01-64",
        }
    }

    fn from_inputs(inputs: &dyn Inputs) -> Result<Self, CodecError> {
        if !inputs.has("width") {
            let message =
                "width is missing: name uuidv8-draft01-32, -48, -60 or -64, or set the width to 32, 48, 60 or 64";
            return Err(CodecError::new(ErrorCode::BadInput, message));
        }
        match inputs.int("width")? {
            32 => Ok(Self::W32),
            48 => Ok(Self::W48),
            60 => Ok(Self::W60),
            64 => Ok(Self::W64),
            other => {
                let message = format!("{other} is not a valid width: use 32, 48, 60 or 64");
                Err(CodecError::new(ErrorCode::BadWidth, message))
            }
        }
    }

    const fn assemble(self, ts: u64, seq: u64, node: u64) -> u128 {
        let (ts, seq, node) = (ts as u128, seq as u128, node as u128);
        let bits = match self {
            Self::W32 => ts << 96 | seq << 64 | node,
            Self::W48 => ts << 80 | seq << 64 | node,
            Self::W60 => wide_time(ts) | seq << NODE_BITS | node,
            Self::W64 => wide_time(ts >> 4) | seq << NODE_BITS | node,
        };
        bits | VERSION | VARIANT
    }

    /// Returns the timestamp, the counter and the node.
    ///
    /// # Errors
    ///
    /// Fails with `reserved-bits` if the width is 32 but the 16 bits after the timestamp are not zero.
    fn take_apart(self, value: u128) -> Result<(u64, u32, u64), CodecError> {
        let low = value as u64 & ((1 << LONG_NODE_BITS) - 1); // OK because the mask keeps the low half
        let high = (value >> 64) as u64;
        let long_seq = (high & 0xfff) as u32; // OK because 12 bits are left
        let short_seq = (low >> NODE_BITS) as u32; // OK because 8 bits are left
        let wide = high >> 16 << 12 | high & 0xfff;
        match self {
            Self::W32 if high >> 16 & 0xffff != 0 => {
                let message = "bits 32 to 47 are not zero, so the timestamp does not have 32 bits";
                Err(CodecError::new(ErrorCode::ReservedBits, message))
            }
            Self::W32 => Ok((high >> 32, long_seq, low)),
            Self::W48 => Ok((high >> 16, long_seq, low)),
            Self::W60 => Ok((wide, short_seq, low & ((1 << NODE_BITS) - 1))),
            Self::W64 => Ok((wide << 4, short_seq, low & ((1 << NODE_BITS) - 1))),
        }
    }
}

/// Places 60 bits of a timestamp around the version.
const fn wide_time(ts: u128) -> u128 {
    ts >> 12 << 80 | (ts & 0xfff) << 64
}

static BITS: [BitRange; 6] = [
    BitRange::new(0, 47, "timestamp"),
    BitRange::new(48, 51, "version"),
    BitRange::new(52, 63, "time_or_seq"),
    BitRange::new(64, 65, "variant"),
    BitRange::new(66, 73, "seq_or_node"),
    BitRange::new(74, 127, "node"),
];
static BITS_32: [BitRange; 6] = [
    BitRange::new(0, 31, "ts"),
    BitRange::new(32, 47, "zero"),
    BitRange::new(48, 51, "version"),
    BitRange::new(52, 63, "seq"),
    BitRange::new(64, 65, "variant"),
    BitRange::new(66, 127, "node"),
];
static BITS_48: [BitRange; 5] = [
    BitRange::new(0, 47, "ts"),
    BitRange::new(48, 51, "version"),
    BitRange::new(52, 63, "seq"),
    BitRange::new(64, 65, "variant"),
    BitRange::new(66, 127, "node"),
];
static BITS_60: [BitRange; 6] = [
    BitRange::new(0, 47, "ts"),
    BitRange::new(48, 51, "version"),
    BitRange::new(52, 63, "ts"),
    BitRange::new(64, 65, "variant"),
    BitRange::new(66, 73, "seq"),
    BitRange::new(74, 127, "node"),
];

/// Seconds since 1970.
static LINE_32: Line = Line::new(1_000_000_000, UnixNanos::new(0), 32, Width::W32.counter_bits());
/// Milliseconds since 1970.
static LINE_48: Line = Line::new(1_000_000, UnixNanos::new(0), 48, Width::W48.counter_bits());
/// Ticks of 100 ns since 1582.
static LINE_60: Line = Line::new(gregorian::TICK_NANOS, gregorian::ORIGIN, 60, Width::W60.counter_bits());
/// Units of 16 nanoseconds since 1970, in 60 bits.
static LINE_64: Line = Line::new(16, UnixNanos::new(0), 60, Width::W64.counter_bits());

/// The format without a fixed width. The width is an input when making a UUID, and an option when reading one.
pub(crate) struct AnyWidth;

/// The format with a fixed width.
pub(crate) struct OneWidth(Width);

pub(crate) static UUID_V8_DRAFT01_32: OneWidth = OneWidth(Width::W32);
pub(crate) static UUID_V8_DRAFT01_48: OneWidth = OneWidth(Width::W48);
pub(crate) static UUID_V8_DRAFT01_60: OneWidth = OneWidth(Width::W60);
pub(crate) static UUID_V8_DRAFT01_64: OneWidth = OneWidth(Width::W64);

impl Layout for AnyWidth {
    fn token(&self) -> &'static str {
        "uuidv8-draft01"
    }

    fn family(&self) -> Family {
        Family::Uuid { version: 8, default: false }
    }

    fn bits(&self) -> &'static [BitRange] {
        &BITS
    }

    fn read(&self, value: u128, options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        dce::expect_version(Uuid::from_u128(value), &[8])?;
        read(Width::from_inputs(options)?, value)
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        make(Width::from_inputs(inputs)?, inputs)
    }
}

impl Layout for OneWidth {
    fn token(&self) -> &'static str {
        self.0.token()
    }

    fn family(&self) -> Family {
        Family::Uuid { version: 8, default: false }
    }

    fn bits(&self) -> &'static [BitRange] {
        match self.0 {
            Width::W32 => &BITS_32,
            Width::W48 => &BITS_48,
            Width::W60 | Width::W64 => &BITS_60,
        }
    }

    fn read(&self, value: u128, _options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        dce::expect_version(Uuid::from_u128(value), &[8])?;
        read(self.0, value)
    }

    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        make(self.0, inputs)
    }

    fn mint(&'static self) -> Option<&'static dyn Mint> {
        Some(self)
    }
}

fn read(width: Width, value: u128) -> Result<Vec<Field>, CodecError> {
    let (ts, seq, node) = width.take_apart(value)?;
    Ok(Vec::from([
        Field::small("width", width.bits(), "the width of the timestamp in bits, as given by the caller"),
        Field::large("ts", ts, "a timestamp defined by the generator; a 64-bit timestamp loses its low four bits"),
        Field::small("seq", seq, "a counter"),
        Field::large("node", node, "the generator, or random bits"),
    ]))
}

fn make(width: Width, inputs: &dyn Inputs) -> Result<Id, CodecError> {
    let ts = inputs.uint("ts", width.bits())?;
    let seq = inputs.uint("seq", width.seq_bits())?;
    let node = inputs.uint("node", width.node_bits())?;
    match node {
        0 => Err(node_zero()),
        _ => Ok(Id::Uuid(Uuid::from_u128(width.assemble(ts, seq, node)))),
    }
}

fn node_zero() -> CodecError {
    CodecError::new(ErrorCode::NodeZero, "the node is zero, which the draft forbids")
}

impl Mint for OneWidth {
    fn line(&self) -> &'static Line {
        match self.0 {
            Width::W32 => &LINE_32,
            Width::W48 => &LINE_48,
            Width::W60 => &LINE_60,
            Width::W64 => &LINE_64,
        }
    }

    fn tail_bits(&self) -> u32 {
        TAIL_BITS
    }

    fn check(&self, slot: Slot, position: Position, tail: u64) -> Result<(), CodecError> {
        let in_node = position.get() & ((1 << (self.0.counter_bits() - self.0.seq_bits())) - 1);
        if slot.get() == 0 && tail == 0 && in_node == 0 { Err(node_zero()) } else { Ok(()) }
    }

    fn issued(&self, value: u128) -> Vec<Field> {
        let slot = (value >> TAIL_BITS) as u32 & ((1 << Slot::BITS) - 1); // OK because the mask keeps 6 bits
        Vec::from([Field::small("kent_slot", slot, "if Kent issued it: its slot (bits 74-79)")])
    }

    fn fill(&self, constants: &SlotConstants, first: Position, _scratch: &mut Scratch, values: &mut [u128]) {
        let width = self.0;
        let slot = u64::from(constants.slot.get()) << TAIL_BITS;
        each_tick(first, width.counter_bits(), values, |tick, counter, values| {
            let tick = tick as u64; // OK because the line's ticks have at most 60 bits
            let ts = if width == Width::W64 { tick << 4 } else { tick };
            for (counter, value) in (counter..).zip(values) {
                let tail = *value as u64; // OK because a tail has 48 bits
                let (seq, in_node) = match width {
                    Width::W32 | Width::W48 => (counter >> SEQ_BITS, (counter & ((1 << SEQ_BITS) - 1)) << NODE_BITS),
                    Width::W60 | Width::W64 => (counter, 0),
                };
                // If the node would be zero, which the draft forbids, the tail becomes 1: tails need not be unique.
                *value = width.assemble(ts, seq, (in_node | slot | tail).max(1));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ok_fields_round_trip(
            width in prop::sample::select(&[Width::W32, Width::W48, Width::W60, Width::W64][..]), ts: u64, seq: u64, node: u64,
        ) {
            let cut = |value: u64, bits: u32| value & (u64::MAX >> (64 - bits));
            let (ts, seq, node) = (cut(ts, width.bits()), cut(seq, width.seq_bits()), cut(node, width.node_bits()));
            let value = width.assemble(ts, seq, node);
            let kept = if width == Width::W64 { ts & !0xf } else { ts };
            prop_assert_eq!(width.take_apart(value), Ok((kept, seq as u32, node)));
            prop_assert_eq!(dce::version(Uuid::from_u128(value)), Some(8));
        }
    }
}
