//! The keyed permutation: a bijection of 0..2^m that looks random to a casual eye.
//!
//! An allocator that drew random tails would collide; one that counts, and sends the count through a bijection, cannot. It
//! hides order and volume; it is no cipher.

use core::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::parts::ClusterKey;

/// A bijection of `0..2^bits` onto itself, made from a key, a label and a parameter. Making one costs eight SipHashes, using
/// it three multiplications.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    bits: u32,
    mask: u128,
    xor: u128,
    factors: [u128; 3],
}

impl Permutation {
    /// The permutation of `bits`-bit numbers, 0 to 128 (more counts as 128), for this key, label and parameter.
    pub fn new(key: &ClusterKey, label: &[u8; 8], param: u64, bits: u32) -> Self {
        let bits = bits.min(128);
        let mask = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
        let words: [u64; 8] = core::array::from_fn(|round| hash(key, label, param, round as u64));
        let constant = |j: usize| (u128::from(words[2 * j]) | u128::from(words[2 * j + 1]) << 64) & mask;
        Self { bits, mask, xor: constant(0), factors: [constant(1) | 1, constant(2) | 1, constant(3) | 1] }
    }

    /// Where `index` goes. Bits above the width are ignored.
    pub fn apply(&self, index: u128) -> u128 {
        let mut x = (index & self.mask) ^ self.xor;
        for factor in self.factors {
            x = x.wrapping_mul(factor) & self.mask;
            x ^= self.fold(x);
        }
        x
    }

    /// What goes to `value`. Bits above the width are ignored.
    pub fn invert(&self, value: u128) -> u128 {
        let mut x = value & self.mask;
        for factor in self.factors.into_iter().rev() {
            x ^= self.fold(x);
            x = x.wrapping_mul(inverse(factor)) & self.mask;
        }
        x ^ self.xor
    }

    /// The upper half moved to the lower: xoring it in is its own inverse, since twice the shift is at least the width.
    fn fold(&self, x: u128) -> u128 {
        x.checked_shr(self.bits.div_ceil(2)).unwrap_or(0)
    }
}

fn hash(key: &ClusterKey, label: &[u8; 8], param: u64, round: u64) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key.octets());
    hasher.write(label);
    hasher.write(&param.to_le_bytes());
    hasher.write(&round.to_le_bytes());
    hasher.finish()
}

/// The inverse of an odd number modulo 2^128, by Newton's iteration: each step doubles the number of right bits, from 3.
fn inverse(odd: u128) -> u128 {
    let mut x = odd;
    for _ in 0..6 {
        x = x.wrapping_mul(2u128.wrapping_sub(odd.wrapping_mul(x)));
    }
    x
}
