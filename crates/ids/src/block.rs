//! Blocks: a run of positions of one source, given to exactly one client, in about a hundred bytes.
//!
//! Whoever has a block can [`walk`](Block::walk) it, identifier after identifier, or [pack](Block::pack_into) it into bytes;
//! both go through one function, so that they cannot differ but in their random tails. Blocks whose runs do not overlap
//! hold no identifier in common, whatever tails are drawn. The identifiers of a block ascend (xids from millisecond to
//! millisecond).

use alloc::vec::Vec;

use rand_core::Rng;
use thiserror::Error;

use crate::{
    formats::{Format, Scratch},
    id::Id,
    line::Position,
    slot::Slot,
    source::{RegionConstants, SlotConstants},
    time::UnixNanos,
};

/// How many identifiers are made at once: enough to spread the cost of a dynamic call and of asking for randomness, few
/// enough that a walk stays small (1 KiB).
const LOT: usize = 64;

/// A run of positions of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    source: BlockSource,
    first: Position,
    count: u64,
}

/// Whose positions a block holds, and the constants that make them identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockSource {
    /// A format's, granted through a slot.
    Slot(Format, SlotConstants),
    /// A region's suffixes.
    Region(RegionConstants),
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
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

    /// Whose positions these are, with their constants.
    pub const fn source(&self) -> &BlockSource {
        &self.source
    }

    /// The format, unless the block is a region's.
    pub const fn format(&self) -> Option<Format> {
        match &self.source {
            BlockSource::Slot(format, _) => Some(*format),
            BlockSource::Region(_) => None,
        }
    }

    /// The slot's constants, unless the block is a region's.
    pub const fn slot_constants(&self) -> Option<&SlotConstants> {
        match &self.source {
            BlockSource::Slot(_, constants) => Some(constants),
            BlockSource::Region(_) => None,
        }
    }

    /// The region's constants, if the block is a region's.
    pub const fn region_constants(&self) -> Option<&RegionConstants> {
        match &self.source {
            BlockSource::Slot(..) => None,
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

    /// How many octets each identifier takes when packed.
    pub fn width_bytes(&self) -> usize {
        match &self.source {
            BlockSource::Slot(format, _) => format.width_bytes(),
            BlockSource::Region(constants) => usize::from(constants.bits.div_ceil(8)),
        }
    }

    /// The block's fencing token, and whose it is.
    pub const fn fencing(&self) -> Fencing {
        match &self.source {
            BlockSource::Slot(_, constants) => {
                Fencing { subject: FencingSubject::Slot(constants.slot), token: constants.epoch.get() }
            }
            BlockSource::Region(constants) => {
                Fencing { subject: FencingSubject::Region(constants.number), token: constants.revision }
            }
        }
    }

    /// The instant at which the first position's tick begins, or `None` for a region, which holds no time.
    pub fn instant(&self) -> Option<UnixNanos> {
        match &self.source {
            BlockSource::Slot(format, _) => Some(format.line().instant(self.first)),
            BlockSource::Region(_) => None,
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
        Walk { maker: Maker::new(self), rng, values: [0; LOT], next: 0, made: 0 }
    }

    /// Appends the block's identifiers to `out`, each as [`width_bytes`](Self::width_bytes) octets, most significant first.
    pub fn pack_into<R: Rng>(&self, mut rng: R, out: &mut Vec<u8>) {
        let width = self.width_bytes();
        let total = usize::try_from(self.count).unwrap_or(usize::MAX).saturating_mul(width);
        out.reserve(total);
        let (mut maker, mut values) = (Maker::new(self), [0; LOT]);
        loop {
            let made = maker.make(&mut rng, &mut values);
            match (width, &values[..made]) {
                (_, []) => return,
                (16, values) => values.iter().for_each(|value| out.extend_from_slice(&value.to_be_bytes())),
                // OK because an identifier of 8 octets is below 2^64.
                (8, values) => values.iter().for_each(|value| out.extend_from_slice(&(*value as u64).to_be_bytes())),
                (_, values) => {
                    values.iter().for_each(|value| out.extend_from_slice(&value.to_be_bytes()[16 - width..]))
                }
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

/// Makes a block's values lot by lot: what walking and packing share.
#[derive(Clone, Debug)]
struct Maker {
    source: BlockSource,
    next: Position,
    left: u64,
    scratch: Scratch,
}

impl Maker {
    fn new(block: &Block) -> Self {
        Self { source: block.source.clone(), next: block.first, left: block.count, scratch: Scratch::default() }
    }

    /// Makes the next values, and says how many; none at the end.
    fn make(&mut self, rng: &mut impl Rng, values: &mut [u128; LOT]) -> usize {
        let made = usize::try_from(self.left).unwrap_or(LOT).min(LOT);
        let values = &mut values[..made];
        match &self.source {
            BlockSource::Slot(format, constants) => {
                draw_tails(rng, format.tail_bits(), values);
                format.fill(constants, self.next, &mut self.scratch, values);
            }
            BlockSource::Region(constants) => {
                let first = constants.base | self.next.get(); // OK because the base is zero where the suffix goes
                for (value, offset) in values.iter_mut().zip(0..) {
                    *value = first + offset;
                }
            }
        }
        self.left -= made as u64;
        self.next = self.next.saturating_add(made as u128);
        made
    }
}

/// Draws a number of `bits` bits (at most 64) for each value, in one request for randomness.
fn draw_tails(rng: &mut impl Rng, bits: u32, values: &mut [u128]) {
    if bits == 0 {
        return;
    }
    let mut octets = [0; LOT * 8];
    let octets = &mut octets[..values.len() * 8]; // OK because there are at most LOT values
    rng.fill_bytes(octets);
    let (words, _) = octets.as_chunks::<8>();
    for (value, word) in values.iter_mut().zip(words) {
        *value = u128::from(u64::from_le_bytes(*word) >> (u64::BITS - bits));
    }
}

/// The identifiers of a block, in the order of their positions: see [`Block::walk`].
#[derive(Clone, Debug)]
pub struct Walk<R> {
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

    fn id(&self, value: u128) -> Id {
        match &self.maker.source {
            BlockSource::Slot(format, _) => format.id(value),
            BlockSource::Region(constants) => Id::Number { value, bits: constants.bits },
        }
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
        Some(self.id(value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left());
        (left.unwrap_or(usize::MAX), left.ok())
    }
}

/// On a machine of 64 bits, where every count fits `usize`.
impl<R: Rng> ExactSizeIterator for Walk<R> {}

impl<R: Rng> core::iter::FusedIterator for Walk<R> {}
