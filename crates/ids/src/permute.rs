//! The keyed permutation: a bijection on the m-bit numbers, for every m from 0 to 128.
//!
//! Random values would collide, so Kent permutes the values of a counter. The permutation hides order and volume from
//! casual observers. It is not a cipher, and identifiers are not secrets.

use siphasher::sip::SipHasher24;

use crate::{slot::ClusterKey, wide::wide};

/// The number of SipHash values that key a permutation.
const HASHES: u64 = 8;
/// The largest width of a permutation in bits.
pub const MAX_BITS: u32 = u128::BITS;

/// The permutation for one key, label, parameter and width. Creating it takes eight SipHashes; applying it takes three
/// multiplications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permutation {
    /// A mask that is XORed first, then three odd factors.
    constants: [u128; 4],
    bits: u32,
}

impl Permutation {
    /// Creates a permutation of the numbers below `2^bits`; `bits` above 128 means 128.
    pub fn new(key: &ClusterKey, label: &[u8; 8], param: u64, bits: u32) -> Self {
        let bits = bits.min(MAX_BITS);
        let hasher = SipHasher24::new_with_key(key.bytes());
        let mut message = [0; 24];
        message[..8].copy_from_slice(label);
        message[8..16].copy_from_slice(&param.to_le_bytes());
        let mut hash = |round: u64| {
            message[16..].copy_from_slice(&round.to_le_bytes());
            u128::from(hasher.hash(&message))
        };
        let mut constants = [0; 4];
        for (constant, round) in constants.iter_mut().zip((0..HASHES).step_by(2)) {
            *constant = (hash(round) | hash(round + 1) << 64) & mask(bits);
        }
        constants[1..].iter_mut().for_each(|factor| *factor |= 1);
        Self { constants, bits }
    }

    /// Returns the image of the low bits of `index`.
    pub fn apply(&self, index: u128) -> u128 {
        let [xored, factors @ ..] = &self.constants;
        factors.iter().fold((index ^ xored) & mask(self.bits), |x, factor| self.fold(x.wrapping_mul(*factor)))
    }

    /// Returns the index whose image is the low bits of `value`.
    pub fn invert(&self, value: u128) -> u128 {
        let [xored, factors @ ..] = &self.constants;
        let unmixed = factors.iter().rev().fold(value & mask(self.bits), |x, factor| {
            // OK because twice the shift is at least the width, so `fold` is its own inverse.
            self.fold(x).wrapping_mul(inverse(*factor)) & mask(self.bits)
        });
        (unmixed ^ xored) & mask(self.bits)
    }

    /// Returns the same permutation in 64-bit arithmetic, which is several times faster. The width must be at most 64.
    pub(crate) fn narrow(&self) -> NarrowPermutation {
        debug_assert!(self.bits <= u64::BITS, "the permutation does not fit 64 bits");
        let mask = mask(self.bits) as u64; // OK because the width is at most 64
        NarrowPermutation { constants: self.constants.map(|constant| constant as u64), mask, shift: self.shift() }
    }

    /// Truncates a product to the width, and XORs its upper half into the lower half.
    fn fold(&self, x: u128) -> u128 {
        let x = x & mask(self.bits);
        x ^ x >> self.shift()
    }

    const fn shift(&self) -> u32 {
        self.bits.div_ceil(2)
    }
}

/// A [`Permutation`] of at most 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NarrowPermutation {
    constants: [u64; 4],
    mask: u64,
    shift: u32,
}

impl NarrowPermutation {
    /// Returns the image of the low bits of `index`.
    #[inline(always)]
    pub(crate) fn apply(&self, index: u64) -> u64 {
        let [xored, factors @ ..] = &self.constants;
        factors.iter().fold((index ^ xored) & self.mask, |x, factor| {
            let x = x.wrapping_mul(*factor) & self.mask;
            x ^ x >> self.shift
        })
    }

    /// Calls `put` for each place with the image of its index. The indexes count up from `first`. The permutation must
    /// have exactly `BITS` bits, at most 32: with a constant width, the compiler can vectorize the loop.
    #[inline(always)]
    pub(crate) fn map_bits<const BITS: u32, T>(&self, first: u32, places: &mut [T], put: impl Fn(&mut T, u32)) {
        debug_assert_eq!(u128::from(self.mask), mask(BITS), "the permutation has another width");
        let mask = const { mask(BITS) as u32 }; // OK because the width is at most 32
        let [xored, a, b, c] = self.constants.map(|constant| constant as u32); // OK because the width is at most 32
        for (place, offset) in places.iter_mut().zip(0..) {
            let mut x = ((first + offset) ^ xored) & mask;
            for factor in [a, b, c] {
                x = x.wrapping_mul(factor) & mask;
                x ^= x >> BITS.div_ceil(2);
            }
            put(place, x);
        }
    }
}

/// Returns the image of `index` under the permutation of this key, label, parameter and width: see [`Permutation`].
pub fn permute(key: &ClusterKey, label: &[u8; 8], param: u64, bits: u32, index: u128) -> u128 {
    Permutation::new(key, label, param, bits).apply(index)
}

/// Returns the index whose image is `value`: see [`Permutation`].
pub fn unpermute(key: &ClusterKey, label: &[u8; 8], param: u64, bits: u32, value: u128) -> u128 {
    Permutation::new(key, label, param, bits).invert(value)
}

const OCTAVES: &[u8; 8] = b"octaves1";

/// Returns the suffix of a counter in a region whose order is scrambled. Each octave `2^m` to `2^(m+1) - 1` is permuted
/// separately, so the first `2^s` counters have exactly the suffixes below `2^s`, for every s.
pub fn scramble(key: &ClusterKey, counter: u128) -> u128 {
    in_octave(counter, |bits, index| permute(key, OCTAVES, u64::from(bits), bits, index))
}

/// Returns the counter of a suffix: the inverse of [`scramble`].
pub fn unscramble(key: &ClusterKey, suffix: u128) -> u128 {
    in_octave(suffix, |bits, value| unpermute(key, OCTAVES, u64::from(bits), bits, value))
}

/// Applies [`scramble`] to runs of counters, and caches the permutation of the last octave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrambler {
    last: Option<Octave>,
}

/// The counters `2^bits` to `2^(bits+1) - 1`.
#[derive(Clone, Copy, Debug)]
struct Octave {
    bits: u32,
    permutation: Permutation,
}

impl Scrambler {
    /// Fills `values` with the suffixes of consecutive counters, starting at `first`.
    pub(crate) fn fill(&mut self, key: &ClusterKey, first: u128, values: &mut [u128]) {
        let (mut counter, mut rest) = (first, values);
        while !rest.is_empty() {
            let (now, later) = match counter.checked_ilog2() {
                None => {
                    let (zero, later) = rest.split_at_mut(1);
                    zero.fill(0);
                    (zero, later)
                }
                Some(bits) => {
                    // The number of counters left in the octave.
                    let left =
                        usize::try_from(mask(bits + 1) - counter).map_or(usize::MAX, |more| more.saturating_add(1));
                    let (now, later) = rest.split_at_mut(left.min(rest.len()));
                    self.octave(key, bits).fill(counter, now);
                    (now, later)
                }
            };
            counter = counter.wrapping_add(now.len() as u128);
            rest = later;
        }
    }

    fn octave(&mut self, key: &ClusterKey, bits: u32) -> Octave {
        match self.last {
            Some(octave) if octave.bits == bits => octave,
            _ => *self.last.insert(Octave { bits, permutation: Permutation::new(key, OCTAVES, u64::from(bits), bits) }),
        }
    }
}

impl Octave {
    /// Fills `values` with the suffixes of consecutive counters, starting at `first`. All counters must be in this
    /// octave.
    fn fill(&self, first: u128, values: &mut [u128]) {
        let top = 1 << self.bits;
        if self.bits <= u64::BITS {
            let (narrow, first) = (self.permutation.narrow(), first as u64); // OK because the permutation uses only its low bits, at most 64
            wide(
                #[inline(always)]
                || {
                    for (value, offset) in values.iter_mut().zip(0..) {
                        *value = top | u128::from(narrow.apply(first + offset));
                    }
                },
            );
        } else {
            for (value, offset) in values.iter_mut().zip(0..) {
                *value = top | self.permutation.apply(first + offset);
            }
        }
    }
}

fn in_octave(number: u128, permute: impl FnOnce(u32, u128) -> u128) -> u128 {
    match number.checked_ilog2() {
        None => 0,
        Some(octave) => 1 << octave | permute(octave, number), // OK because the permutation uses only the low bits of the number
    }
}

const fn mask(bits: u32) -> u128 {
    match bits {
        0 => 0,
        _ => u128::MAX >> (MAX_BITS - bits),
    }
}

/// Returns the number whose product with `odd` is 1 modulo 2^128.
const fn inverse(odd: u128) -> u128 {
    // OK because an odd number is its own inverse modulo 8, and each Newton step doubles the number of correct bits: 3,
    // 6, 12, 24, 48, 96, 192.
    let mut inverse = odd;
    let mut step = 0;
    while step < 6 {
        inverse = inverse.wrapping_mul(2u128.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use proptest::prelude::*;

    use super::*;

    const KEY: ClusterKey = ClusterKey::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

    #[test]
    fn ok_siphash_is_siphash_2_4() {
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(SipHasher24::new_with_key(KEY.bytes()).hash(&message), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn ok_small_widths_are_bijections() {
        for bits in 0..=14 {
            let permutation = Permutation::new(&KEY, b"octaves1", 3, bits);
            let mut seen = vec![false; 1 << bits];
            for index in 0..1 << bits {
                let value = permutation.apply(index);
                assert_eq!(permutation.invert(value), index, "{bits} bits");
                let seen = &mut seen[usize::try_from(value).expect("small")];
                assert!(!*seen, "{value} occurs twice in {bits} bits");
                *seen = true;
            }
        }
    }

    #[test]
    fn ok_a_run_is_mapped_like_single_indices() {
        fn check<const BITS: u32>() {
            let permutation = Permutation::new(&KEY, b"octaves1", 3, BITS);
            for first in [0, 7, mask(BITS) - 99] {
                let mut values = [0; 100];
                permutation.narrow().map_bits::<BITS, _>(first as u32, &mut values, |place, value| *place = value);
                let one_by_one = (first..).map(|index| permutation.apply(index));
                assert!(values.into_iter().map(u128::from).eq(one_by_one.take(100)), "{BITS} bits from {first} on");
            }
        }
        check::<7>();
        check::<22>();
        check::<32>();
    }

    #[test]
    fn ok_the_first_counters_fill_the_lowest_suffixes() {
        for bits in 0..=12 {
            let mut suffixes: Vec<u128> = (0..1 << bits).map(|counter| scramble(&KEY, counter)).collect();
            suffixes.sort_unstable();
            assert!(suffixes.into_iter().eq(0..1 << bits), "{bits} bits");
        }
    }

    /// Returns the suffixes of `count` counters starting at `first`, scrambled in batches of `batch`.
    fn filled(first: u128, count: usize, batch: usize) -> Vec<u128> {
        let (mut scrambler, mut suffixes) = (Scrambler::default(), vec![u128::MAX; count]);
        for (batch, first) in suffixes.chunks_mut(batch).zip((first..).step_by(batch)) {
            scrambler.fill(&KEY, first, batch);
        }
        suffixes
    }

    #[test]
    fn ok_a_run_across_any_octave_border_is_scrambled_like_single_counters() {
        for bits in 0..128 {
            let border = 1_u128 << bits;
            for before in [0, 1, 2, 3, 63, 64, 65, 255, 256, 257, 300] {
                let first = border.saturating_sub(before);
                let one_by_one: Vec<u128> = (first..).take(600).map(|counter| scramble(&KEY, counter)).collect();
                for batch in [1, 64, 256, 600] {
                    assert_eq!(filled(first, 600, batch), one_by_one, "{before} before 2^{bits}, by {batch}");
                }
            }
        }
    }

    #[test]
    fn ok_a_run_up_to_the_last_counter_is_scrambled_like_single_counters() {
        let first = u128::MAX - 599;
        let one_by_one: Vec<u128> = (first..=u128::MAX).map(|counter| scramble(&KEY, counter)).collect();
        let (mut scrambler, mut suffixes) = (Scrambler::default(), vec![0; 600]);
        scrambler.fill(&KEY, first, &mut suffixes);
        assert_eq!(suffixes, one_by_one);
    }

    #[test]
    fn ok_scrambling_never_leaves_the_octave() {
        for bits in 0..128 {
            let border = 1_u128 << bits;
            for counter in border.saturating_sub(300)..=border.saturating_add(300) {
                let suffix = scramble(&KEY, counter);
                assert_eq!(suffix.checked_ilog2(), counter.checked_ilog2(), "{counter}");
                assert_eq!(unscramble(&KEY, suffix), counter);
            }
        }
    }

    #[test]
    fn ok_a_run_over_the_first_octaves_fills_each_exactly() {
        let mut suffixes = filled(0, 1 << 17, 256);
        for bits in 0..17 {
            let octave = &mut suffixes[1 << bits..2 << bits];
            octave.sort_unstable();
            assert!(octave.iter().copied().eq(1 << bits..2 << bits), "{bits} bits");
        }
        assert_eq!(suffixes[0], 0);
    }

    proptest! {
        #[test]
        fn ok_invert_undoes_apply(key: [u8; 16], label: [u8; 8], param: u64, bits in 0..=MAX_BITS, number: u128) {
            let permutation = Permutation::new(&ClusterKey::new(key), &label, param, bits);
            let index = number & mask(bits);
            let value = permutation.apply(index);
            prop_assert!(value <= mask(bits));
            prop_assert_eq!(permutation.invert(value), index);
            prop_assert_eq!(permutation.apply(permutation.invert(index)), index);
            if bits <= u64::BITS {
                prop_assert_eq!(u128::from(permutation.narrow().apply(index as u64)), value);
            }
        }

        #[test]
        fn ok_unscramble_undoes_scramble(key: [u8; 16], number: u128, shift in 0..128u32) {
            let (key, counter) = (ClusterKey::new(key), number >> shift);
            let suffix = scramble(&key, counter);
            prop_assert_eq!(suffix.checked_ilog2(), counter.checked_ilog2());
            prop_assert_eq!(unscramble(&key, suffix), counter);
        }
    }
}
