//! The fields of a layout, and their text form.

use core::fmt;

use super::instant::{Epoch, Tick};
use crate::time::UnixNanos;

/// One field of a layout. Its text is `KIND:BITS`, followed by `:DETAIL` for some kinds: see [`FieldKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayoutField {
    /// The kind, with its details.
    pub kind: FieldKind,
    /// The width in bits, at least 1.
    pub bits: u8,
}

/// The kind of a field. Each kind except `zero` and `const` occurs at most once in a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// `zero:1`: bits that are always zero.
    Zero,
    /// `const:4:7`: bits with a fixed value.
    Const {
        /// The value, below 2^bits.
        value: u128,
    },
    /// `time:41:1ms@2015-01-01`: the number of ticks since the epoch, in at most 64 bits.
    Time {
        /// The length of a tick in nanoseconds: 1 ns to 1 day.
        tick_nanos: u64,
        /// The instant at which tick 0 begins.
        epoch: UnixNanos,
    },
    /// `slot:10`, or `slot:10:512` with a base: the base plus the number of the slot. A base lets Kent use machine
    /// numbers that other generators do not use.
    Slot {
        /// The number of slot 0.
        base: u64,
    },
    /// `counter:12`: counts the identifiers of a tick, or all identifiers if the layout has no time.
    Counter,
    /// `random:46`: random bits, at most 64.
    Random,
    /// `permuted:22`: a keyed permutation of the counter, as in Kent's xid. The value is [`permute`](crate::permute())
    /// of the counter with the label `layout01`, the tick as the parameter (0 without a time) and the field's width. If
    /// the layout has a time and no field for the slot, the upper 6 bits of the permuted number are the slot, and its
    /// other bits are the counter.
    Permuted,
    /// `shard:13`: a number that the request supplies, such as Instagram's logical shard.
    Shard,
    /// `tag:8`: the same as `shard`, under a neutral name.
    Tag,
}

impl FieldKind {
    /// Returns the name of the kind.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::Const { .. } => "const",
            Self::Time { .. } => "time",
            Self::Slot { .. } => "slot",
            Self::Counter => "counter",
            Self::Random => "random",
            Self::Permuted => "permuted",
            Self::Shard => "shard",
            Self::Tag => "tag",
        }
    }

    /// Returns an example of a field of this kind, for errors.
    pub(super) const fn example(&self) -> &'static str {
        match self {
            Self::Zero => "zero:1",
            Self::Const { .. } => "const:4:7",
            Self::Time { .. } => "time:41:1ms@2015-01-01",
            Self::Slot { .. } => "slot:10",
            Self::Counter => "counter:12",
            Self::Random => "random:46",
            Self::Permuted => "permuted:22",
            Self::Shard => "shard:13",
            Self::Tag => "tag:8",
        }
    }

    /// Returns the largest width of a field of this kind in bits.
    pub(super) const fn max_bits(&self) -> u8 {
        match self {
            Self::Zero | Self::Const { .. } => super::MAX_LAYOUT_BITS,
            // Ticks, counters, tags and random tails are computed in 64-bit arithmetic.
            Self::Time { .. }
            | Self::Slot { .. }
            | Self::Counter
            | Self::Random
            | Self::Permuted
            | Self::Shard
            | Self::Tag => 64,
        }
    }

    /// Returns whether a layout may have several fields of this kind.
    pub(super) const fn may_repeat(&self) -> bool {
        matches!(self, Self::Zero | Self::Const { .. })
    }
}

impl fmt::Display for LayoutField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.bits)?;
        match self.kind {
            FieldKind::Const { value } => write!(f, ":{value}"),
            FieldKind::Time { tick_nanos, epoch } => write!(f, ":{}@{}", Tick(tick_nanos), Epoch(epoch)),
            FieldKind::Slot { base: base @ 1.. } => write!(f, ":{base}"),
            FieldKind::Zero
            | FieldKind::Slot { base: 0 }
            | FieldKind::Counter
            | FieldKind::Random
            | FieldKind::Permuted
            | FieldKind::Shard
            | FieldKind::Tag => Ok(()),
        }
    }
}
