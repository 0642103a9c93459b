//! Makes the identifiers of a block in batches. Walking and packing share this code, so their results differ only in
//! random tails.

use rand_core::Rng;

use super::{Block, BlockSource};
use crate::{
    formats::{Batch, Scratch, write_bytes},
    line::Position,
    permute::Scrambler,
    series::SeriesEncoder,
    source::{RegionConstants, Suffixes},
    stride::Stride,
    wide::wide,
};

/// The batch size for a caller that takes all identifiers: a batch with its bytes (8 KiB) fits in the L1 cache.
pub(super) const LARGE_BATCH: usize = 256;

/// Makes the values of a block in batches.
#[derive(Clone, Debug)]
pub(super) struct Maker {
    source: BlockSource,
    next: Position,
    pub(super) left: u64,
    scratch: Scratch,
    encoder: Option<SeriesEncoder>,
    scrambler: Scrambler,
}

impl Maker {
    pub(super) fn new(block: &Block) -> Self {
        let encoder = match &block.source {
            BlockSource::Series(series, key) => Some(series.encoder(key)),
            BlockSource::Slot(..) | BlockSource::Region(_) | BlockSource::Layout(_) => None,
        };
        let source = block.source.clone();
        let (scratch, scrambler) = (Scratch::default(), Scrambler::default());
        Self { source, next: block.first, left: block.count, scratch, encoder, scrambler }
    }

    /// Makes the next identifiers as bytes, `width` bytes each, and returns their number: zero if none are left.
    pub(super) fn make_bytes(
        &mut self,
        rng: &mut impl Rng,
        width: usize,
        values: &mut [u128; LARGE_BATCH],
        bytes: &mut [u8; LARGE_BATCH * 16],
    ) -> usize {
        let made = usize::try_from(self.left).unwrap_or(usize::MAX).min(LARGE_BATCH);
        if made == 0 {
            return 0;
        }
        let bytes = &mut bytes[..made * width]; // OK because there are at most LARGE_BATCH of at most 16 bytes
        match &self.source {
            BlockSource::Slot(format, constants) => {
                let mut tails = [0; LARGE_BATCH];
                let tails = &mut tails[..made];
                draw_tails::<LARGE_BATCH>(rng, format.tail_bits(), tails);
                format.fill_bytes(constants, self.next, &mut self.scratch, Batch { tails, values, bytes });
            }
            BlockSource::Region(RegionConstants { base, suffixes: Suffixes::EVERY, .. }) if width == 8 => {
                let first = (base | self.next.get()) as u64; // OK because an identifier of 8 bytes is below 2^64
                wide(
                    #[inline(always)]
                    || {
                        for (bytes, offset) in bytes.as_chunks_mut().0.iter_mut().zip(0..) {
                            *bytes = (first + offset).to_be_bytes();
                        }
                    },
                );
            }
            BlockSource::Region(_) | BlockSource::Series(..) | BlockSource::Layout(_) => {
                let made = self.make(rng, values);
                write_bytes(&values[..made], width, bytes);
                return made;
            }
        }
        self.advance(made);
        made
    }

    /// Makes the next values and returns their number: zero if none are left.
    pub(super) fn make<const N: usize>(&mut self, rng: &mut impl Rng, values: &mut [u128; N]) -> usize {
        let made = usize::try_from(self.left).unwrap_or(usize::MAX).min(values.len());
        let values = &mut values[..made];
        match &self.source {
            BlockSource::Slot(format, constants) => {
                let mut tails = [0; N];
                draw_tails::<N>(rng, format.tail_bits(), &mut tails[..made]);
                values.iter_mut().zip(tails).for_each(|(value, tail)| *value = u128::from(tail));
                format.fill(constants, self.next, &mut self.scratch, values);
            }
            BlockSource::Region(constants) => {
                let base = constants.base; // the suffix bits of the base are zero, and scrambling changes only suffix bits
                match constants.suffixes {
                    Suffixes::EVERY => count(base | self.next.get(), values),
                    Suffixes::Counted(stride) => step(base, stride, self.next.get(), values),
                    Suffixes::Scrambled(key) => {
                        self.scrambler.fill(&key, self.next.get(), values);
                        values.iter_mut().for_each(|value| *value |= base);
                    }
                }
            }
            BlockSource::Layout(constants) => {
                let mut tails = [0; N];
                draw_tails::<N>(rng, constants.layout.tail_bits(), &mut tails[..made]);
                values.iter_mut().zip(tails).for_each(|(value, tail)| *value = u128::from(tail));
                constants.fill(self.next, &mut self.scratch, values);
            }
            BlockSource::Series(..) => {
                if let Some(encoder) = &self.encoder {
                    encoder.fill(self.next, values);
                }
            }
        }
        self.advance(made);
        made
    }

    fn advance(&mut self, made: usize) {
        self.left -= made as u64;
        self.next = self.next.saturating_add(made as u128);
    }
}

/// Writes consecutive numbers.
fn count(first: u128, values: &mut [u128]) {
    let (high, low) = (first >> u64::BITS << u64::BITS, first as u64);
    match low.checked_add(values.len() as u64) {
        // Fast path: 64-bit arithmetic is enough if nothing carries into the upper half.
        Some(_) => values.iter_mut().zip(0..).for_each(|(value, offset)| *value = high | u128::from(low + offset)),
        None => values.iter_mut().zip(0..).for_each(|(value, offset)| *value = first + offset),
    }
}

/// Writes the numbers of a stride from an index on, each with the ones of `base`, which has none where the numbers do.
fn step(base: u128, stride: Stride, index: u128, values: &mut [u128]) {
    // OK because the suffixes of a block fit, so the last number does.
    let first = base | stride.number(index).unwrap_or(u128::MAX);
    let step = u128::from(stride.step());
    values.iter_mut().zip(0..).for_each(|(value, index)| *value = first.wrapping_add(index * step));
}

/// Draws `bits` random bits (at most 64) for each of up to `N` tails, with one call to the generator.
fn draw_tails<const N: usize>(rng: &mut impl Rng, bits: u32, tails: &mut [u64]) {
    if bits == 0 {
        return;
    }
    let (mask, mut bytes) = (u64::MAX >> (u64::BITS - bits), [[0; 8]; N]);
    // Drawing random bytes accounts for most of the cost of making an identifier. Four tails of at most 48 bits fit
    // into three words.
    let (fours, rest) = tails.split_at_mut(if bits <= 48 { tails.len() & !3 } else { 0 });
    let bytes = &mut bytes[..fours.len() / 4 * 3 + rest.len()]; // OK because N tails need at most N words
    rng.fill_bytes(bytes.as_flattened_mut());
    let (threes, words) = bytes.split_at(fours.len() / 4 * 3);
    wide(
        #[inline(always)]
        || {
            for (four, three) in fours.as_chunks_mut::<4>().0.iter_mut().zip(threes.as_chunks::<3>().0) {
                let [a, b, c] = [0, 1, 2].map(|word| u64::from_le_bytes(three[word]));
                *four = [a & mask, (a >> 48 | b << 16) & mask, (b >> 32 | c << 32) & mask, c >> 16 & mask];
            }
            for (tail, word) in rest.iter_mut().zip(words) {
                *tail = u64::from_le_bytes(*word) & mask;
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::{super::tests::Seeded, *};

    /// Returns the bytes as masked numbers of `width` bytes each, least significant byte first.
    fn cut(bytes: &[u8], width: usize, mask: u64) -> Vec<u64> {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        bytes.chunks(width).map(|bytes| number(bytes) & mask).collect()
    }

    #[test]
    fn ok_tails_take_the_random_bytes_in_order() {
        for (bits, mask) in [(1, 1), (46, (1 << 46) - 1), (48, (1 << 48) - 1), (49, (1 << 49) - 1), (64, u64::MAX)] {
            for count in 0..10 {
                let (mut tails, mut rng) = ([0; 16], Seeded(7));
                draw_tails::<16>(&mut rng, bits, &mut tails[..count]);
                // Four tails of at most 48 bits take three words, and every other tail takes one.
                let in_fours = if bits <= 48 { count / 4 * 4 } else { 0 };
                let (mut bytes, mut again) = ([0; 128], Seeded(7));
                let (fours, rest) = bytes[..in_fours * 6 + (count - in_fours) * 8].split_at_mut(in_fours * 6);
                again.fill_bytes(fours);
                again.fill_bytes(rest);
                let expected = [cut(fours, 6, mask), cut(rest, 8, mask), Vec::from([0; 16])].concat();
                assert_eq!(tails, expected[..16], "{count} of {bits} bits");
                assert_eq!(
                    rng.next_u64(),
                    again.next_u64(),
                    "{count} tails of {bits} bits draw more bytes than needed"
                );
            }
        }
        let (mut tails, mut rng) = ([0; 3], Seeded(7));
        draw_tails::<3>(&mut rng, 0, &mut tails);
        assert_eq!((tails, rng.next_u64()), ([0; 3], Seeded(7).next_u64()), "a tail of zero bits draws nothing");
    }

    #[test]
    fn ok_counting_carries_beyond_64_bits() {
        let border = u128::from(u64::MAX);
        for first in [0, border - 7, border - 8, border - 3, (8 << 64) - 4, u128::MAX - 7] {
            let mut values = [0; 8];
            count(first, &mut values);
            assert!(values.iter().copied().eq(first..=first + 7), "{first:#x}");
        }
    }
}
