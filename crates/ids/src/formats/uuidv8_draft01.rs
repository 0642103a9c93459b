//! `uuidv8-draft01`: a timestamp of 32, 48, 60 or 64 bits from any source, a counter and a node
//! (draft-peabody-dispatch-new-uuid-format-01, section 4.5).
//!
//! The width is not stored, so a reader must be told it. Allocated, the timestamps are seconds, milliseconds, ticks of version
//! 1 and nanoseconds; the node begins with the slot, after more bits of the counter where it has room for them.

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

/// The node of the wide timestamps.
const NODE_BITS: u32 = 54;
/// The counter of the wide timestamps, which stands where the node of the narrow ones begins.
const SEQ_BITS: u32 = 8;
/// The node of the narrow timestamps.
const LONG_NODE_BITS: u32 = SEQ_BITS + NODE_BITS;
/// The counter of the narrow timestamps.
const LONG_SEQ_BITS: u32 = 12;
const TAIL_BITS: u32 = NODE_BITS - Slot::BITS;

/// How wide the timestamp is.
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

    /// How many bits of the counter an allocated identifier has.
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
        match inputs.int("width")? {
            32 => Ok(Self::W32),
            48 => Ok(Self::W48),
            60 => Ok(Self::W60),
            64 => Ok(Self::W64),
            other => {
                let message = format!("there is no width {other}: there are 32, 48, 60 and 64");
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

    /// The timestamp, the counter and the node.
    ///
    /// # Errors
    ///
    /// `reserved-bits` if there is anything where a timestamp of 32 bits has nothing.
    fn take_apart(self, value: u128) -> Result<(u64, u32, u64), CodecError> {
        let low = value as u64 & ((1 << LONG_NODE_BITS) - 1); // OK because the low half is wanted
        let high = (value >> 64) as u64;
        let long_seq = (high & 0xfff) as u32; // OK because 12 bits are left
        let short_seq = (low >> NODE_BITS) as u32; // OK because 8 bits are left
        let wide = high >> 16 << 12 | high & 0xfff;
        match self {
            Self::W32 if high >> 16 & 0xffff != 0 => {
                let message = "the bits 32 to 47 are not zero: the timestamp does not have 32 bits";
                Err(CodecError::new(ErrorCode::ReservedBits, message))
            }
            Self::W32 => Ok((high >> 32, long_seq, low)),
            Self::W48 => Ok((high >> 16, long_seq, low)),
            Self::W60 => Ok((wide, short_seq, low & ((1 << NODE_BITS) - 1))),
            Self::W64 => Ok((wide << 4, short_seq, low & ((1 << NODE_BITS) - 1))),
        }
    }
}

/// Sixty bits of a timestamp, around the version.
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
/// Sixteen nanoseconds, of which 60 bits are kept, since 1970.
static LINE_64: Line = Line::new(16, UnixNanos::new(0), 60, Width::W64.counter_bits());

/// The format without a width: it is an input of making, and an option of reading.
pub(crate) struct AnyWidth;

/// The format with one width.
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
        Field::small("width", width.bits(), "how wide the timestamp is, as whoever asked says"),
        Field::large("ts", ts, "a timestamp of whoever made it; in 64 bits, the low four are lost"),
        Field::small("seq", seq, "a counter"),
        Field::large("node", node, "who made it, or random bits"),
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
        Vec::from([Field::small("kent_slot", slot, "if Kent issued it: the slot that did (bits 74-79)")])
    }

    fn fill(&self, constants: &SlotConstants, first: Position, _scratch: &mut Scratch, values: &mut [u128]) {
        let width = self.0;
        let slot = u64::from(constants.slot.get()) << TAIL_BITS;
        each_tick(first, width.counter_bits(), values, |tick, counter, values| {
            let tick = tick as u64; // OK because the line's ticks have 60 bits at most
            let ts = if width == Width::W64 { tick << 4 } else { tick };
            for (counter, value) in (counter..).zip(values) {
                let tail = *value as u64; // OK because a tail has 48 bits
                let (seq, in_node) = match width {
                    Width::W32 | Width::W48 => (counter >> SEQ_BITS, (counter & ((1 << SEQ_BITS) - 1)) << NODE_BITS),
                    Width::W60 | Width::W64 => (counter, 0),
                };
                // Where the counter and the slot leave the node zero, a tail of zero becomes 1. Tails need not be unique.
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
        fn ok_fields_survive(
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
