//! Blocks: runs of positions of one source. A block is granted to exactly one client, and takes about a hundred bytes,
//! whatever its count.
//!
//! A block can be [walked](Block::walk), one identifier after another, or [packed](Block::pack_into) into bytes. Both
//! use the same function, so the results differ only in their random tails. Two blocks of one source whose runs do not
//! overlap have no identifier in common, whatever their random tails. The identifiers of a block ascend, except those
//! of `uuidv1`, `xid`, `uid11-fullrand` and scrambled regions. Xids ascend from one millisecond to the next, but not
//! within a millisecond. For a custom layout, [`Layout::ascends`](crate::layout::Layout::ascends) returns the order.

mod maker;

use alloc::{
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use rand_core::Rng;
use thiserror::Error;

use self::maker::{LARGE_BATCH, Maker};
use crate::{
    error::CodecError,
    formats::Format,
    id::{Id, IdKind},
    layout::{Granted, LayoutConstants},
    line::Position,
    series::Series,
    slot::{ClusterKey, Slot, SlotConstants},
    source::RegionConstants,
    time::UnixNanos,
};

/// The number of identifiers that a walk computes in one batch: enough to amortize a dynamic call and a request for
/// random bytes, but few enough to keep a walk small (1 KiB).
const BATCH: usize = 64;

/// A run of positions of one source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    source: BlockSource,
    first: Position,
    count: u64,
}

/// The source of a block's positions, with the constants that turn them into identifiers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BlockSource {
    /// Positions of a format, granted through a slot.
    Slot(Format, SlotConstants),
    /// Suffixes of a region.
    Region(RegionConstants),
    /// Numbers of a series, with the cluster's key, which is used only if the series needs it.
    Series(Series, ClusterKey),
    /// Positions of a custom layout. The constants are large, so the parts of a split block share them.
    Layout(Arc<LayoutConstants>),
}

/// The fencing token of a block. Of two blocks with the same subject, the block with the lower token is outdated:
/// reject that block once you have seen the higher token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fencing {
    /// The slot or region that the token belongs to.
    pub subject: FencingSubject,
    /// The slot's epoch, or the table's revision.
    pub token: u64,
}

/// The slot or region of a fencing token. Only tokens of the same subject can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FencingSubject {
    /// A slot.
    Slot(Slot),
    /// The region with this number in its space. A block does not name its space.
    Region(u64),
}

impl FencingSubject {
    /// Returns the slot's or the region's number.
    pub const fn number(self) -> u64 {
        match self {
            Self::Slot(slot) => slot.get() as u64,
            Self::Region(number) => number,
        }
    }
}

/// An error from creating a [`Block`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BlockError {
    /// The run is empty.
    #[error("a block holds at least one position")]
    Empty,
    /// The run goes past the last position of the format's line.
    #[error("{count} positions from {first} go past the end of {format}, whose positions are below {}", format.line().end())]
    BeyondLine {
        /// The format.
        format: Format,
        /// The first position.
        first: Position,
        /// The number of positions.
        count: u64,
    },
    /// The run goes past the last suffix of the region.
    #[error("{count} positions from {first} do not fit the region's suffix of {suffix_bits} bits")]
    BeyondSuffix {
        /// The first position.
        first: Position,
        /// The number of positions.
        count: u64,
        /// The width of the suffix in bits.
        suffix_bits: u8,
    },
    /// The run is not within the numbers of the series.
    #[error("{count} positions from {first} are not all within {series}")]
    BeyondSeries {
        /// The series.
        series: Series,
        /// The first position.
        first: Position,
        /// The number of positions.
        count: u64,
    },
    /// The run goes past the last position of the layout.
    #[error(
        "{count} positions from {first} go past the end of the layout {:?}, whose positions are below {end}",
        layout
    )]
    BeyondLayout {
        /// The text of the layout.
        layout: String,
        /// The first position.
        first: Position,
        /// The number of positions.
        count: u64,
        /// One more than the last position of the layout.
        end: Position,
    },
    /// The constants do not fit the layout.
    #[error(transparent)]
    BadLayoutConstants(#[from] CodecError),
    /// The space's width is not from 1 to 128, or the suffix is wider than the space.
    #[error(
        "the space has {bits} bits and the suffix {suffix_bits}: a space has 1 to 128 bits, and a suffix is not wider than its space"
    )]
    BadWidth {
        /// The width of the space in bits.
        bits: u8,
        /// The width of the suffix in bits.
        suffix_bits: u8,
    },
    /// The base does not fit the space, or has ones among the bits of the suffix.
    #[error("the base {base:#x} must be below 2^{bits} and end in {suffix_bits} zero bits")]
    BadBase {
        /// The base: the prefix followed by zeros.
        base: u128,
        /// The width of the space in bits.
        bits: u8,
        /// The width of the suffix in bits.
        suffix_bits: u8,
    },
}

impl Block {
    /// Creates a block of `count` positions of `format` starting at `first`, granted through a slot.
    ///
    /// # Errors
    ///
    /// Fails with [`BlockError::Empty`] or [`BlockError::BeyondLine`].
    pub fn slot(format: Format, constants: SlotConstants, first: Position, count: u64) -> Result<Self, BlockError> {
        let last = last_of(first, count)?;
        match last {
            Some(last) if last < format.line().end() => {
                Ok(Self { source: BlockSource::Slot(format, constants), first, count })
            }
            _ => Err(BlockError::BeyondLine { format, first, count }),
        }
    }

    /// Creates a block of `count` positions of a region, starting at `first`.
    ///
    /// # Errors
    ///
    /// Fails with [`BlockError::Empty`], [`BlockError::BadWidth`], [`BlockError::BadBase`] or
    /// [`BlockError::BeyondSuffix`].
    pub fn region(constants: RegionConstants, first: Position, count: u64) -> Result<Self, BlockError> {
        let RegionConstants { base, bits, suffix_bits, .. } = constants;
        let last = last_of(first, count)?;
        if !(1..=128).contains(&bits) || suffix_bits > bits {
            return Err(BlockError::BadWidth { bits, suffix_bits });
        }
        if base > max_of(bits) || base & max_of(suffix_bits) != 0 {
            return Err(BlockError::BadBase { base, bits, suffix_bits });
        }
        // A permutation maps the positions below each power of two to themselves.
        let greatest = last.and_then(|last| constants.suffixes.stride().number(last.get()));
        match greatest {
            Some(greatest) if greatest <= max_of(suffix_bits) => {
                Ok(Self { source: BlockSource::Region(constants), first, count })
            }
            _ => Err(BlockError::BeyondSuffix { first, count, suffix_bits }),
        }
    }

    /// Creates a block of `count` suffixes of a region whose counter has reached `next`: the suffixes of the region's
    /// stride that follow, or the same number of positions in a scrambled order. All of them are in the run of
    /// [`Stride::span`](crate::Stride::span) counter values that starts at `next`.
    ///
    /// # Errors
    ///
    /// Like those of [`Block::region`].
    pub fn region_from(constants: RegionConstants, next: Position, count: u64) -> Result<Self, BlockError> {
        let first = constants.suffixes.stride().index_from(next.get());
        Self::region(constants, Position::new(first), count)
    }

    /// Creates a block of `count` numbers of a series, starting at `first`. The `key` is used only if the series needs
    /// it.
    ///
    /// # Errors
    ///
    /// Fails with [`BlockError::Empty`] or [`BlockError::BeyondSeries`].
    pub fn series(series: Series, key: ClusterKey, first: Position, count: u64) -> Result<Self, BlockError> {
        match last_of(first, count)? {
            Some(last) if first >= series.first() && last < series.end() => {
                Ok(Self { source: BlockSource::Series(series, key), first, count })
            }
            _ => Err(BlockError::BeyondSeries { series, first, count }),
        }
    }

    /// Creates a block of `count` positions of a custom layout, starting at `first`.
    ///
    /// # Errors
    ///
    /// Fails with [`BlockError::Empty`], [`BlockError::BadLayoutConstants`] or [`BlockError::BeyondLayout`].
    pub fn layout(constants: LayoutConstants, first: Position, count: u64) -> Result<Self, BlockError> {
        let last = last_of(first, count)?;
        constants.check()?;
        let end = constants.layout.end();
        match last {
            Some(last) if last < end => Ok(Self { source: BlockSource::Layout(Arc::new(constants)), first, count }),
            _ => Err(BlockError::BeyondLayout { layout: constants.layout.to_string(), first, count, end }),
        }
    }

    /// Returns the source of the positions, with its constants.
    pub const fn source(&self) -> &BlockSource {
        &self.source
    }

    /// Returns the format, if the block holds positions of a time-based format.
    pub const fn format(&self) -> Option<Format> {
        match &self.source {
            BlockSource::Slot(format, _) => Some(*format),
            BlockSource::Region(_) | BlockSource::Series(..) | BlockSource::Layout(_) => None,
        }
    }

    /// Returns the slot's constants, if the block was granted through a slot.
    pub fn slot_constants(&self) -> Option<&SlotConstants> {
        match &self.source {
            BlockSource::Slot(_, constants) => Some(constants),
            BlockSource::Layout(constants) => match &constants.granted {
                Granted::Slot(constants) => Some(constants),
                Granted::Counter(_) => None,
            },
            BlockSource::Region(_) | BlockSource::Series(..) => None,
        }
    }

    /// Returns the region's constants, if the block holds suffixes of a region.
    pub const fn region_constants(&self) -> Option<&RegionConstants> {
        match &self.source {
            BlockSource::Slot(..) | BlockSource::Series(..) | BlockSource::Layout(_) => None,
            BlockSource::Region(constants) => Some(constants),
        }
    }

    /// Returns the layout's constants, if the block holds positions of a custom layout.
    pub fn layout_constants(&self) -> Option<&LayoutConstants> {
        match &self.source {
            BlockSource::Slot(..) | BlockSource::Region(_) | BlockSource::Series(..) => None,
            BlockSource::Layout(constants) => Some(constants),
        }
    }

    /// Returns the first position.
    pub const fn first(&self) -> Position {
        self.first
    }

    /// Returns the last position.
    pub const fn last(&self) -> Position {
        self.first.saturating_add(self.count as u128 - 1) // OK because a block is not empty, and its last position fits
    }

    /// Returns the number of positions, at least 1.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the kind of the block's identifiers.
    pub fn kind(&self) -> IdKind {
        match &self.source {
            BlockSource::Slot(format, _) => format.kind(),
            BlockSource::Region(constants) => IdKind::Number { bits: constants.bits },
            BlockSource::Series(series, _) => series.kind(),
            BlockSource::Layout(constants) => IdKind::Number { bits: constants.layout.bits() },
        }
    }

    /// Returns the size of a packed identifier in bytes.
    pub fn width_bytes(&self) -> usize {
        match &self.source {
            BlockSource::Slot(format, _) => format.width_bytes(),
            BlockSource::Region(constants) => usize::from(constants.bits.div_ceil(8)),
            BlockSource::Series(series, _) => series.width_bytes(),
            BlockSource::Layout(constants) => usize::from(constants.layout.bits().div_ceil(8)),
        }
    }

    /// Returns the block's fencing token and its subject, or `None` for a series and for a layout without a time, which
    /// have neither a slot nor a region.
    pub fn fencing(&self) -> Option<Fencing> {
        match &self.source {
            BlockSource::Slot(_, constants) => Some(fencing_of(constants)),
            BlockSource::Layout(_) => self.slot_constants().map(fencing_of),
            BlockSource::Region(constants) => {
                Some(Fencing { subject: FencingSubject::Region(constants.number), token: constants.revision })
            }
            BlockSource::Series(..) => None,
        }
    }

    /// Returns the instant at which the first position's tick begins, or `None` if the identifiers hold no time.
    pub fn instant(&self) -> Option<UnixNanos> {
        match &self.source {
            BlockSource::Slot(format, _) => Some(format.line().instant(self.first)),
            BlockSource::Layout(constants) => constants.layout.instant(self.first),
            BlockSource::Region(_) | BlockSource::Series(..) => None,
        }
    }

    /// Splits the block in two; the first part has `count` positions. Returns `None` if either part would be empty.
    pub fn split_at(&self, count: u64) -> Option<(Self, Self)> {
        if count == 0 || count >= self.count {
            return None;
        }
        let front = Self { count, ..self.clone() };
        let first = self.first.saturating_add(count.into()); // OK because the block has more than `count` positions
        Some((front, Self { source: self.source.clone(), first, count: self.count - count }))
    }

    /// Splits off up to `count` positions (at least one) from the front. The rest is `None` if nothing is left.
    pub fn take_front(self, count: u64) -> (Self, Option<Self>) {
        match self.split_at(count.max(1)) {
            Some((front, rest)) => (front, Some(rest)),
            None => (self, None),
        }
    }

    /// Iterates over the identifiers in the order of their positions, with random tails from `rng`.
    pub fn walk<R: Rng>(&self, rng: R) -> Walk<R> {
        Walk { kind: self.kind(), maker: Maker::new(self), rng, values: [0; BATCH], next: 0, made: 0 }
    }

    /// Appends the block's identifiers to `out`, each as [`width_bytes`](Self::width_bytes) bytes, most significant
    /// first.
    pub fn pack_into<R: Rng>(&self, rng: R, out: &mut Vec<u8>) {
        out.reserve(self.packed_len());
        self.pack(rng, |bytes| out.extend_from_slice(bytes));
    }

    /// Returns the total size of the packed identifiers in bytes.
    pub fn packed_len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX).saturating_mul(self.width_bytes())
    }

    /// Calls `take` with each batch of identifiers in turn, each identifier as [`width_bytes`](Self::width_bytes)
    /// bytes, most significant first.
    pub fn pack<R: Rng>(&self, mut rng: R, mut take: impl FnMut(&[u8])) {
        let (mut maker, width) = (Maker::new(self), self.width_bytes());
        let (mut values, mut bytes) = ([0; LARGE_BATCH], [0; LARGE_BATCH * 16]);
        loop {
            match maker.make_bytes(&mut rng, width, &mut values, &mut bytes) {
                0 => return,
                made => take(&bytes[..made * width]),
            }
        }
    }

    /// Calls `take` with each batch of identifiers in turn, each identifier as the number that [`Id::to_u128`] returns.
    pub fn values<R: Rng>(&self, mut rng: R, mut take: impl FnMut(&[u128])) {
        let (mut maker, mut values) = (Maker::new(self), [0; LARGE_BATCH]);
        loop {
            match maker.make(&mut rng, &mut values) {
                0 => return,
                made => take(&values[..made]),
            }
        }
    }
}

fn fencing_of(constants: &SlotConstants) -> Fencing {
    Fencing { subject: FencingSubject::Slot(constants.slot), token: constants.epoch.get() }
}

/// Returns the last of `count` positions, or `None` if its number does not fit in 128 bits.
fn last_of(first: Position, count: u64) -> Result<Option<Position>, BlockError> {
    let more = count.checked_sub(1).ok_or(BlockError::Empty)?;
    Ok(first.checked_add(more.into()))
}

/// Returns the largest number that has `bits` bits; `bits` is at most 128.
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
    /// The current batch. The walk has not returned its items `next..made` yet.
    values: [u128; BATCH],
    next: usize,
    made: usize,
}

impl<R> Walk<R> {
    /// Returns the number of remaining identifiers.
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

/// The length is exact on a 64-bit machine, where every count fits in a `usize`.
impl<R: Rng> ExactSizeIterator for Walk<R> {}

impl<R: Rng> core::iter::FusedIterator for Walk<R> {}

#[cfg(test)]
pub(crate) mod tests;
