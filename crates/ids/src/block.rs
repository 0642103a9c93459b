//! Blocks: a run of positions of one source, given to exactly one client, in about a hundred bytes.
//!
//! Whoever has a block can [`walk`](Block::walk) it, identifier after identifier, or [pack](Block::pack_into) it into bytes;
//! both go through one function, so that they cannot differ but in their random tails. Blocks whose runs do not overlap
//! hold no identifier in common, whatever tails are drawn. The identifiers of a block ascend (xids from millisecond to
//! millisecond).

mod maker;

use alloc::vec::Vec;

use rand_core::Rng;
use thiserror::Error;

use self::maker::{LARGE_LOT, Maker};
use crate::{
    formats::Format,
    id::{Id, IdKind},
    line::Position,
    series::Series,
    slot::{ClusterKey, Slot, SlotConstants},
    source::RegionConstants,
    time::UnixNanos,
};

/// How many identifiers a walk makes at once: enough to spread the cost of a dynamic call and of asking for randomness, few
/// enough that a walk stays small (1 KiB).
const LOT: usize = 64;

/// A run of positions of one source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    source: BlockSource,
    first: Position,
    count: u64,
}

/// Whose positions a block holds, and the constants that make them identifiers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BlockSource {
    /// A format's, granted through a slot.
    Slot(Format, SlotConstants),
    /// A region's suffixes.
    Region(RegionConstants),
    /// A series' numbers, with the cluster's key, which is only looked at if the series uses it.
    Series(Series, ClusterKey),
}

/// Which of two blocks of the same subject is the newer: refuse one whose token is lower than one already seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fencing {
    /// Whose token it is.
    pub subject: FencingSubject,
    /// The slot's epoch, or the table's revision.
    pub token: u64,
}

/// Whose fencing tokens can be compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FencingSubject {
    /// A slot.
    Slot(Slot),
    /// The region with this number in its space, which a block does not name.
    Region(u64),
}

impl FencingSubject {
    /// The slot's or the region's number.
    pub const fn number(self) -> u64 {
        match self {
            Self::Slot(slot) => slot.get() as u64,
            Self::Region(number) => number,
        }
    }
}

/// Why a run of positions is no block.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BlockError {
    /// It has no position.
    #[error("a block holds at least one position")]
    Empty,
    /// It reaches beyond the format's line.
    #[error("{count} positions from {first} on reach beyond the line of {format}, which ends at {}", format.line().end())]
    BeyondLine {
        /// The format.
        format: Format,
        /// The first position.
        first: Position,
        /// How many.
        count: u64,
    },
    /// It reaches beyond the region's suffixes.
    #[error("{count} positions from {first} on reach beyond the {suffix_bits} bits of the region's suffix")]
    BeyondSuffix {
        /// The first position.
        first: Position,
        /// How many.
        count: u64,
        /// The width of the suffix.
        suffix_bits: u8,
    },
    /// It reaches beyond the series' numbers.
    #[error("{count} positions from {first} on are not all numbers of {series}")]
    BeyondSeries {
        /// The series.
        series: Series,
        /// The first position.
        first: Position,
        /// How many.
        count: u64,
    },
    /// The space's width is not 1 to 128, or the suffix is wider than the space.
    #[error("an identifier has 1 to 128 bits, and a suffix no more than that: not {bits} and {suffix_bits}")]
    BadWidth {
        /// The width of the space.
        bits: u8,
        /// The width of the suffix.
        suffix_bits: u8,
    },
    /// The base does not fit the space, or has bits where the suffix goes.
    #[error("the base {base:#x} must be below 2^{bits} and end in {suffix_bits} zero bits")]
    BadBase {
        /// The base.
        base: u128,
        /// The width of the space.
        bits: u8,
        /// The width of the suffix.
        suffix_bits: u8,
    },
}

impl Block {
    /// The `count` positions of `format` from `first` on, as granted through a slot.
    ///
    /// # Errors
    ///
    /// [`BlockError::Empty`] or [`BlockError::BeyondLine`].
    pub fn slot(format: Format, constants: SlotConstants, first: Position, count: u64) -> Result<Self, BlockError> {
        let last = last_of(first, count)?;
        match last {
            Some(last) if last < format.line().end() => {
                Ok(Self { source: BlockSource::Slot(format, constants), first, count })
            }
            _ => Err(BlockError::BeyondLine { format, first, count }),
        }
    }

    /// The `count` suffixes of a region from `first` on.
    ///
    /// # Errors
    ///
    /// [`BlockError::Empty`], [`BlockError::BadWidth`], [`BlockError::BadBase`] or [`BlockError::BeyondSuffix`].
    pub fn region(constants: RegionConstants, first: Position, count: u64) -> Result<Self, BlockError> {
        let RegionConstants { base, bits, suffix_bits, .. } = constants;
        let last = last_of(first, count)?;
        if !(1..=128).contains(&bits) || suffix_bits > bits {
            return Err(BlockError::BadWidth { bits, suffix_bits });
        }
        if base > max_of(bits) || base & max_of(suffix_bits) != 0 {
            return Err(BlockError::BadBase { base, bits, suffix_bits });
        }
        match last {
            Some(last) if last.get() <= max_of(suffix_bits) => {
                Ok(Self { source: BlockSource::Region(constants), first, count })
            }
            _ => Err(BlockError::BeyondSuffix { first, count, suffix_bits }),
        }
    }

    /// The `count` numbers of a series from `first` on; `key` is only looked at if the series uses it.
    ///
    /// # Errors
    ///
    /// [`BlockError::Empty`] or [`BlockError::BeyondSeries`].
    pub fn series(series: Series, key: ClusterKey, first: Position, count: u64) -> Result<Self, BlockError> {
        match last_of(first, count)? {
            Some(last) if first >= series.first() && last < series.end() => {
                Ok(Self { source: BlockSource::Series(series, key), first, count })
            }
            _ => Err(BlockError::BeyondSeries { series, first, count }),
        }
    }

    /// Whose positions these are, with their constants.
    pub const fn source(&self) -> &BlockSource {
        &self.source
    }

    /// The format, if the block is one of a format whose identifiers hold the time.
    pub const fn format(&self) -> Option<Format> {
        match &self.source {
            BlockSource::Slot(format, _) => Some(*format),
            BlockSource::Region(_) | BlockSource::Series(..) => None,
        }
    }

    /// The slot's constants, if the block was granted through one.
    pub const fn slot_constants(&self) -> Option<&SlotConstants> {
        match &self.source {
            BlockSource::Slot(_, constants) => Some(constants),
            BlockSource::Region(_) | BlockSource::Series(..) => None,
        }
    }

    /// The region's constants, if the block is a region's.
    pub const fn region_constants(&self) -> Option<&RegionConstants> {
        match &self.source {
            BlockSource::Slot(..) | BlockSource::Series(..) => None,
            BlockSource::Region(constants) => Some(constants),
        }
    }

    /// The first position.
    pub const fn first(&self) -> Position {
        self.first
    }

    /// The last position.
    pub const fn last(&self) -> Position {
        self.first.saturating_add(self.count as u128 - 1) // OK because a block has a position, and its last one fits
    }

    /// How many positions: at least 1.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// What the block's identifiers are.
    pub fn kind(&self) -> IdKind {
        match &self.source {
            BlockSource::Slot(format, _) => format.kind(),
            BlockSource::Region(constants) => IdKind::Number { bits: constants.bits },
            BlockSource::Series(series, _) => series.kind(),
        }
    }

    /// How many bytes each identifier takes when packed.
    pub fn width_bytes(&self) -> usize {
        match &self.source {
            BlockSource::Slot(format, _) => format.width_bytes(),
            BlockSource::Region(constants) => usize::from(constants.bits.div_ceil(8)),
            BlockSource::Series(series, _) => series.width_bytes(),
        }
    }

    /// The block's fencing token, and whose it is. A series has none: its counter never changes hands.
    pub const fn fencing(&self) -> Option<Fencing> {
        match &self.source {
            BlockSource::Slot(_, constants) => {
                Some(Fencing { subject: FencingSubject::Slot(constants.slot), token: constants.epoch.get() })
            }
            BlockSource::Region(constants) => {
                Some(Fencing { subject: FencingSubject::Region(constants.number), token: constants.revision })
            }
            BlockSource::Series(..) => None,
        }
    }

    /// The instant at which the first position's tick begins, or `None` for identifiers that hold no time.
    pub fn instant(&self) -> Option<UnixNanos> {
        match &self.source {
            BlockSource::Slot(format, _) => Some(format.line().instant(self.first)),
            BlockSource::Region(_) | BlockSource::Series(..) => None,
        }
    }

    /// Cuts the block in two, the first part having `count` positions; `None` if either would have none.
    pub fn split_at(&self, count: u64) -> Option<(Self, Self)> {
        if count == 0 || count >= self.count {
            return None;
        }
        let front = Self { count, ..self.clone() };
        let first = self.first.saturating_add(count.into()); // OK because the block goes on beyond it
        Some((front, Self { source: self.source.clone(), first, count: self.count - count }))
    }

    /// Takes at most `count` positions (at least one) off the front; the rest is `None` if they are all there are.
    pub fn take_front(self, count: u64) -> (Self, Option<Self>) {
        match self.split_at(count.max(1)) {
            Some((front, rest)) => (front, Some(rest)),
            None => (self, None),
        }
    }

    /// The block's identifiers in the order of their positions, with random tails drawn from `rng`.
    pub fn walk<R: Rng>(&self, rng: R) -> Walk<R> {
        Walk { kind: self.kind(), maker: Maker::new(self), rng, values: [0; LOT], next: 0, made: 0 }
    }

    /// Appends the block's identifiers to `out`, each as [`width_bytes`](Self::width_bytes) bytes, most significant first.
    pub fn pack_into<R: Rng>(&self, rng: R, out: &mut Vec<u8>) {
        out.reserve(self.packed_len());
        self.pack(rng, |bytes| out.extend_from_slice(bytes));
    }

    /// How many bytes the block's identifiers take together.
    pub fn packed_len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX).saturating_mul(self.width_bytes())
    }

    /// Hands the block's identifiers on, some at a time, each as [`width_bytes`](Self::width_bytes) bytes, most significant
    /// first.
    pub fn pack<R: Rng>(&self, mut rng: R, mut take: impl FnMut(&[u8])) {
        let (mut maker, width) = (Maker::new(self), self.width_bytes());
        let (mut values, mut bytes) = ([0; LARGE_LOT], [0; LARGE_LOT * 16]);
        loop {
            match maker.make_bytes(&mut rng, width, &mut values, &mut bytes) {
                0 => return,
                made => take(&bytes[..made * width]),
            }
        }
    }

    /// Hands the block's identifiers on as numbers, some at a time: what [`Id::to_u128`] says of each.
    pub fn values<R: Rng>(&self, mut rng: R, mut take: impl FnMut(&[u128])) {
        let (mut maker, mut values) = (Maker::new(self), [0; LARGE_LOT]);
        loop {
            match maker.make(&mut rng, &mut values) {
                0 => return,
                made => take(&values[..made]),
            }
        }
    }
}

/// The last of `count` positions, if 128 bits can number it.
fn last_of(first: Position, count: u64) -> Result<Option<Position>, BlockError> {
    let more = count.checked_sub(1).ok_or(BlockError::Empty)?;
    Ok(first.checked_add(more.into()))
}

/// The largest number of `bits` bits, at most 128.
const fn max_of(bits: u8) -> u128 {
    match bits {
        0 => 0,
        _ => u128::MAX >> (128 - bits),
    }
}

/// The identifiers of a block, in the order of their positions: see [`Block::walk`].
#[derive(Clone, Debug)]
pub struct Walk<R> {
    kind: IdKind,
    maker: Maker,
    rng: R,
    /// What is made beforehand, of which `next..made` is still to come.
    values: [u128; LOT],
    next: usize,
    made: usize,
}

impl<R> Walk<R> {
    /// How many identifiers are still to come.
    pub const fn left(&self) -> u64 {
        self.maker.left + (self.made - self.next) as u64
    }
}

impl<R: Rng> Iterator for Walk<R> {
    type Item = Id;

    #[inline]
    fn next(&mut self) -> Option<Id> {
        if self.next == self.made {
            self.made = self.maker.make(&mut self.rng, &mut self.values);
            self.next = 0;
        }
        let value = *self.values[..self.made].get(self.next)?;
        self.next += 1;
        Some(self.kind.id(value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left());
        (left.unwrap_or(usize::MAX), left.ok())
    }
}

/// On a machine of 64 bits, where every count fits `usize`.
impl<R: Rng> ExactSizeIterator for Walk<R> {}

impl<R: Rng> core::iter::FusedIterator for Walk<R> {}

#[cfg(test)]
mod tests;
