//! Blocks: a lease of a thousand or a billion identifiers in a hundred octets.
//!
//! Whoever has a block can walk it: position to identifier is a pure function, so both sides of the wire give the same
//! identifiers (but for random tails, which each draws itself; the rest of the identifier is unique without them).

use alloc::vec::Vec;

use rand_core::Rng;
use thiserror::Error;

use crate::{
    format::Format,
    id::Id,
    line::Position,
    parts::{ClockSeq, ClusterKey, Node, Slot, SlotEpoch},
    time::UnixNanos,
};

/// A run of positions of one source, given to exactly one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    kind: Kind,
    first: Position,
    count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Slot(Format, SlotConstants),
    Region(RegionConstants),
}

/// What the identifiers of a slot have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotConstants {
    /// The slot.
    pub slot: Slot,
    /// The fencing token.
    pub epoch: SlotEpoch,
    /// The node field, for v6.
    pub node: Node,
    /// The clock sequence, for v6.
    pub clock_seq: ClockSeq,
    /// The key of the permutation, for xid.
    pub key: ClusterKey,
}

/// What the identifiers of a region have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionConstants {
    /// The prefix followed by zeros, `bits` wide.
    pub base: u128,
    /// The width of the space's identifiers, 1 to 128.
    pub bits: u8,
    /// The width of the suffix.
    pub suffix_bits: u8,
    /// The region's stable number.
    pub number: u64,
    /// The revision of the table: the fencing token.
    pub revision: u64,
}

/// A block that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BlockError {
    /// A block has at least one identifier.
    #[error("a block has at least one identifier")]
    Empty,
    /// The run leaves the line of its format, or the suffix of its region.
    #[error("positions {first} and {count} more leave the source's range")]
    OutsideSource {
        /// The first position.
        first: Position,
        /// How many.
        count: u64,
    },
    /// The widths of a region do not fit together.
    #[error("a base or suffix does not fit identifiers of {bits} bits")]
    BadRegion {
        /// The width of the identifiers.
        bits: u8,
    },
}

impl Block {
    /// A block of a time-based format.
    ///
    /// # Errors
    ///
    /// [`BlockError`] if it is empty or leaves the format's line.
    pub fn slot(format: Format, constants: SlotConstants, first: Position, count: u64) -> Result<Self, BlockError> {
        Self::checked(Kind::Slot(format, constants), first, count, format.line().end().get() - 1)
    }

    /// A block of a region's suffixes.
    ///
    /// # Errors
    ///
    /// [`BlockError`] if it is empty, leaves the suffix, or the widths do not fit together.
    pub fn region(constants: RegionConstants, first: Position, count: u64) -> Result<Self, BlockError> {
        let RegionConstants { base, bits, suffix_bits, .. } = constants;
        let last = mask(suffix_bits);
        if !(1..=128).contains(&bits) || suffix_bits > bits || base & !mask(bits) != 0 || base & last != 0 {
            return Err(BlockError::BadRegion { bits });
        }
        Self::checked(Kind::Region(constants), first, count, last)
    }

    fn checked(kind: Kind, first: Position, count: u64, last: u128) -> Result<Self, BlockError> {
        let more = count.checked_sub(1).ok_or(BlockError::Empty)?;
        match first.checked_add(more.into()) {
            Some(end) if end.get() <= last => Ok(Self { kind, first, count }),
            _ => Err(BlockError::OutsideSource { first, count }),
        }
    }

    /// The first position.
    pub const fn first(&self) -> Position {
        self.first
    }

    /// How many positions.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The format, if it is a time-based one.
    pub const fn format(&self) -> Option<Format> {
        match self.kind {
            Kind::Slot(format, _) => Some(format),
            Kind::Region(_) => None,
        }
    }

    /// The slot's constants, if the format is time-based.
    pub const fn slot_constants(&self) -> Option<&SlotConstants> {
        match &self.kind {
            Kind::Slot(_, constants) => Some(constants),
            Kind::Region(_) => None,
        }
    }

    /// The region's constants, if it is a region's block.
    pub const fn region_constants(&self) -> Option<&RegionConstants> {
        match &self.kind {
            Kind::Slot(..) => None,
            Kind::Region(constants) => Some(constants),
        }
    }

    /// The time of the first identifier, if the format is time-based.
    pub fn instant(&self) -> Option<UnixNanos> {
        self.format().map(|format| format.line().instant(self.first))
    }

    /// Octets of one identifier when packed.
    pub fn width_bytes(&self) -> usize {
        match &self.kind {
            Kind::Slot(format, _) => format.width_bytes(),
            Kind::Region(constants) => usize::from(constants.bits).div_ceil(8),
        }
    }

    /// Cuts the block after its first `count` identifiers; either part is `None` if it would be empty.
    pub fn split_at(self, count: u64) -> (Option<Self>, Option<Self>) {
        let count = count.min(self.count);
        // OK because a position inside the block was checked when it was made.
        let middle = Position::new(self.first.get() + u128::from(count));
        let part = |first, count| (count > 0).then(|| Self { kind: self.kind.clone(), first, count });
        (part(self.first, count), part(middle, self.count - count))
    }

    /// The identifiers, in order. Random tails come from `rng`, which should be a CSPRNG.
    pub fn walk<R: Rng>(&self, rng: R) -> Walk<R> {
        Walk { block: self.clone(), rng, buffer: [0; BULK], at: 0, filled: 0 }
    }

    /// Appends the identifiers as big-endian octets, [`width_bytes`](Self::width_bytes) each.
    pub fn pack_into<R: Rng>(&self, rng: R, out: &mut Vec<u8>) {
        let width = self.width_bytes();
        out.reserve(width.saturating_mul(usize::try_from(self.count).unwrap_or(0)));
        let mut walk = self.walk(rng);
        while walk.refill() {
            for value in &walk.buffer[..walk.filled] {
                out.extend_from_slice(&value.to_be_bytes()[16 - width..]);
            }
            walk.at = walk.filled;
        }
    }

    fn id(&self, value: u128) -> Id {
        match &self.kind {
            Kind::Slot(format, _) => format.mint().id(value),
            Kind::Region(constants) => Id::Number { value, bits: constants.bits },
        }
    }

    /// Writes the values of the first identifiers and takes them off the block.
    fn fill<R: Rng>(&mut self, rng: &mut R, values: &mut [u128]) {
        match &self.kind {
            Kind::Slot(format, constants) => {
                let mut random = [0u64; BULK];
                let tails = if format.mint().has_tail() { values.len() } else { 0 };
                draw(rng, &mut random[..tails]);
                format.mint().fill(constants, self.first, &random[..tails], values);
            }
            Kind::Region(constants) => {
                for (value, suffix) in values.iter_mut().zip(self.first.get()..) {
                    *value = constants.base | suffix;
                }
            }
        }
        // OK because no more values are asked for than the block has.
        self.count -= values.len() as u64;
        self.first = Position::new(self.first.get().saturating_add(values.len() as u128));
    }
}

/// How many identifiers are made at once: enough to pay for one call through the format's table, and 2 KiB of memory.
const BULK: usize = 64;

const fn mask(bits: u8) -> u128 {
    if bits >= 128 { u128::MAX } else { (1 << bits) - 1 }
}

/// Draws random words in one go.
fn draw<R: Rng>(rng: &mut R, words: &mut [u64]) {
    let mut octets = [0u8; BULK * 8];
    let octets = &mut octets[..words.len() * 8];
    rng.fill_bytes(octets);
    for (word, chunk) in words.iter_mut().zip(octets.chunks_exact(8)) {
        *word = chunk.try_into().map_or(0, u64::from_le_bytes); // OK because every chunk has 8 octets
    }
}

/// The identifiers of a block, in order. It allocates nothing.
#[derive(Clone, Debug)]
pub struct Walk<R> {
    /// What has not been made yet.
    block: Block,
    rng: R,
    buffer: [u128; BULK],
    at: usize,
    filled: usize,
}

impl<R: Rng> Walk<R> {
    /// Makes the next identifiers; false at the end.
    fn refill(&mut self) -> bool {
        let count = usize::try_from(self.block.count).unwrap_or(BULK).min(BULK);
        self.block.fill(&mut self.rng, &mut self.buffer[..count]);
        (self.at, self.filled) = (0, count);
        count > 0
    }

    /// How many identifiers are left.
    pub const fn left(&self) -> u64 {
        self.block.count + (self.filled - self.at) as u64 // OK because the buffer holds 64 at most
    }
}

impl<R: Rng> Iterator for Walk<R> {
    type Item = Id;

    #[inline]
    fn next(&mut self) -> Option<Id> {
        if self.at == self.filled && !self.refill() {
            return None;
        }
        let value = self.buffer[self.at];
        self.at += 1;
        Some(self.block.id(value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left());
        (left.unwrap_or(usize::MAX), left.ok())
    }
}
