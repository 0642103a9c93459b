//! Reasons why fields do not form a valid layout.

use alloc::string::String;

use thiserror::Error;

use super::{
    MAX_LAYOUT_BITS,
    field::FieldKind,
    instant::{Epoch, Tick},
};
use crate::{slot::Slot, time::UnixNanos, words::counted};

/// An example of a layout, for errors.
const EXAMPLE: &str = "zero:1 time:41:1ms@2015-01-01 slot:10 counter:12";

/// An error from reading or creating a [`Layout`](super::Layout).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// There are no fields.
    #[error("a layout has at least one field, as in {EXAMPLE:?}")]
    Empty,
    /// The kind of a field is unknown.
    #[error(
        "there is no field {name:?}: use zero, const, time, slot, counter, random, permuted, shard or tag, as in {EXAMPLE:?}"
    )]
    UnknownKind {
        /// The name.
        name: String,
    },
    /// The text of a field does not have the form of its kind.
    #[error("{text:?} is not a field: write {}", form(kind))]
    BadField {
        /// The text of the field.
        text: String,
        /// The kind, with any details.
        kind: FieldKind,
    },
    /// The tick of a time is not valid.
    #[error(
        "{text:?} is not a tick: write a number and ns, us, ms, s, min, h or d, from 1ns to 1d, as in time:41:10ms"
    )]
    BadTick {
        /// The text of the tick.
        text: String,
    },
    /// The epoch of a time is not valid.
    #[error(
        "{text:?} is not an epoch: write a date, or a date and a time in UTC, as in time:41:1ms@2015-01-01 or time:41:1ms@2010-11-04T01:42:54.657Z"
    )]
    BadEpoch {
        /// The text of the epoch.
        text: String,
    },
    /// The width of a field is outside the range of its kind.
    #[error("{} has {bits} bits, but must have 1 to {}, as in {}", kind.name(), kind.max_bits(), kind.example())]
    FieldWidth {
        /// The kind.
        kind: FieldKind,
        /// The width in bits.
        bits: u32,
    },
    /// The fields are wider than an identifier can be.
    #[error(
        "the layout is too wide: its fields have {bits} bits in total, but an identifier has at most {MAX_LAYOUT_BITS}"
    )]
    TooWide {
        /// The width of all fields in bits.
        bits: u32,
    },
    /// The fields do not have the requested width.
    #[error(
        "the fields have {bits} bits in total, but the identifiers must have {wanted}: {}",
        match bits < wanted {
            true => alloc::format!("add {}, for example zero:{} in front", counted(wanted - bits, "bit"), wanted - bits),
            false => alloc::format!("make fields narrower by {}", counted(bits - wanted, "bit")),
        }
    )]
    WrongBits {
        /// The width of all fields in bits.
        bits: u32,
        /// The requested width in bits.
        wanted: u32,
    },
    /// A kind occurs twice, or a shard and a tag occur together.
    #[error(
        "{name} occurs twice: a layout has each field at most once, except zero and const; shard and tag count as the \
         same field"
    )]
    Twice {
        /// The kind's name.
        name: &'static str,
    },
    /// The value of a constant does not fit its field.
    #[error("const:{bits}:{value} does not fit: {} can hold at most {}", counted(bits, "bit"), max_of(*bits))]
    ConstTooLarge {
        /// The value.
        value: u128,
        /// The width in bits.
        bits: u8,
    },
    /// The base of the slots does not fit its field.
    #[error(
        "slot:{bits}:{base} does not fit: the base is the number of slot 0, and {} can hold at most {}",
        counted(bits, "bit"),
        max_of(*bits)
    )]
    BaseTooLarge {
        /// The base.
        base: u64,
        /// The width in bits.
        bits: u8,
    },
    /// The tick is not from 1 ns to 1 day.
    #[error("a tick lasts from 1 ns to 1 day, as in time:41:1ms, but here it lasts {tick_nanos} ns")]
    TickRange {
        /// The length of the tick in nanoseconds.
        tick_nanos: u64,
    },
    /// The epoch is outside the years 1 to 9999, so it cannot be written.
    #[error("the epoch must be in the years 1 to 9999, as in time:41:1ms@2015-01-01")]
    EpochRange,
    /// The time from 1970-01-01 to the epoch is not a whole number of parts of a tick.
    #[error(
        "the epoch {} must be a whole multiple of {} from 1970-01-01, because ticks are counted in these steps: use {}",
        Epoch(*epoch),
        Tick(*step_nanos),
        Epoch(nearest(*epoch, *step_nanos))
    )]
    EpochNotWhole {
        /// The epoch.
        epoch: UnixNanos,
        /// The length of a part of a tick, in nanoseconds.
        step_nanos: u64,
    },
    /// A counter and a permuted field occur together.
    #[error("counter and permuted exclude each other: permuted is the counter after a permutation; leave out counter")]
    TwoCounters,
    /// Neither a time nor a counter makes the identifiers differ.
    #[error("nothing makes two identifiers differ: add a time and a counter, or a counter alone, as in {EXAMPLE:?}")]
    NothingCounts,
    /// A layout without a time has a slot.
    #[error(
        "slot needs a time: without one, all identifiers come from one durable counter, which no two slots share; leave out slot, or add a time, as in time:41:1ms@2015-01-01"
    )]
    SlotWithoutTime,
    /// The permuted field is too narrow for the slot in it.
    #[error(
        "permuted:{bits} is too narrow: it holds the slot, which takes {} bits, unless the layout has a field slot; use permuted:{} or wider",
        Slot::BITS,
        Slot::BITS + 1
    )]
    PermutedTooNarrow {
        /// The width in bits.
        bits: u8,
    },
    /// The counter is too wide for a layout with a time.
    #[error("with a time, the counter has at most {max} bits, as in counter:12, but here it has {bits}")]
    CounterTooWide {
        /// The width in bits.
        bits: u32,
        /// The largest width in bits.
        max: u32,
    },
    /// The counter cannot be divided among the parts of a tick.
    #[error(
        "ticks of {} need a counter of at least {needed} bits: Kent reserves time in whole seconds, so it divides each tick into {parts} parts with their own counters; use a shorter tick, or a wider counter, as in counter:{needed}",
        Tick(*tick_nanos)
    )]
    CounterTooNarrow {
        /// The length of the tick in nanoseconds.
        tick_nanos: u64,
        /// The number of parts of a tick.
        parts: u64,
        /// The smallest width in bits.
        needed: u32,
    },
}

/// Returns the form of a field of this kind, with an example.
fn form(kind: &FieldKind) -> &'static str {
    match kind {
        FieldKind::Zero => "zero:BITS, as in zero:1",
        FieldKind::Const { .. } => {
            "const:BITS:VALUE, or const:VALUE in binary or hexadecimal, as in const:4:7, const:0b0111 or const:0x7"
        }
        FieldKind::Time { .. } => "time:BITS:TICK@EPOCH, as in time:41:1ms@2015-01-01",
        FieldKind::Slot { .. } => "slot:BITS or slot:BITS:BASE, as in slot:10 or slot:10:512",
        FieldKind::Counter => "counter:BITS, as in counter:12",
        FieldKind::Random => "random:BITS, as in random:46",
        FieldKind::Permuted => "permuted:BITS, as in permuted:22",
        FieldKind::Shard => "shard:BITS, as in shard:13",
        FieldKind::Tag => "tag:BITS, as in tag:8",
    }
}

/// Returns the last instant at or before `epoch` that is a whole number of steps from 1970-01-01.
fn nearest(epoch: UnixNanos, step_nanos: u64) -> UnixNanos {
    epoch.offset(-epoch.get().rem_euclid(step_nanos.max(1).into()))
}

/// Returns the largest number that has `bits` bits.
fn max_of(bits: u8) -> u128 {
    u128::MAX.checked_shr(u128::BITS.saturating_sub(bits.into())).unwrap_or(0)
}
