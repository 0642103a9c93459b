//! A fast generator for the random tails of identifiers.
//!
//! The generator is AES-128 in counter mode. On processors with AES instructions, it is several times faster than
//! ChaCha, which would take most of the time needed to make a UUIDv7. Part of the output reveals nothing about the
//! rest. Uniqueness never depends on these bits: identifiers are unique because of their positions.

use core::{convert::Infallible, fmt};

use aes::{
    Aes128, Block,
    cipher::{BlockCipherEncrypt, KeyInit},
};
use rand_core::{Rng, TryRng};

/// The size of the buffer in bytes: the cipher is fastest with many blocks in flight.
const BUFFER: usize = 2048;

/// The sizes of the two parts of a seed, in bytes: the key and the first value of the counter.
const KEY: usize = 16;
const COUNTER: usize = 16;

/// A cryptographically strong generator of random bytes.
pub struct Tails {
    cipher: Aes128,
    /// The value that the next block encrypts.
    counter: u128,
    bytes: [u8; BUFFER],
    /// The number of `bytes` that have been returned.
    used: usize,
}

impl Tails {
    /// Creates a generator from 32 bytes of `seed`. Its output is as unpredictable as those bytes.
    pub fn from_rng(seed: &mut impl Rng) -> Self {
        let (mut key, mut counter) = ([0; KEY], [0; COUNTER]);
        seed.fill_bytes(&mut key);
        seed.fill_bytes(&mut counter);
        let counter = u128::from_le_bytes(counter);
        Self { cipher: Aes128::new(&key.into()), counter, bytes: [0; BUFFER], used: BUFFER }
    }

    fn refill(&mut self) {
        // OK because the buffer is a whole number of blocks.
        let (blocks, _) = Block::slice_as_chunks_mut(&mut self.bytes);
        write(&self.cipher, &mut self.counter, blocks);
        self.used = 0;
    }

    /// Returns the next `N` bytes.
    fn next<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    fn fill(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            if self.used == BUFFER {
                if out.len() >= BUFFER / 2 {
                    // A large request is written in place, without a copy through the buffer.
                    let (blocks, rest) = Block::slice_as_chunks_mut(out);
                    write(&self.cipher, &mut self.counter, blocks);
                    out = rest;
                    continue;
                }
                self.refill();
            }
            let ready = &self.bytes[self.used..];
            let taken = out.len().min(ready.len());
            let (now, later) = out.split_at_mut(taken);
            now.copy_from_slice(&ready[..taken]);
            self.used += taken;
            out = later;
        }
    }
}

/// Writes the next blocks.
///
/// The crate `ctr` would do the same, but it is only fast with optimization level 3: its loop over the blocks in flight
/// must be unrolled. With level 2, which small programs use, it takes four times as long.
fn write(cipher: &Aes128, counter: &mut u128, blocks: &mut [Block]) {
    for block in &mut *blocks {
        *block = counter.to_le_bytes().into();
        *counter = counter.wrapping_add(1);
    }
    cipher.encrypt_blocks(blocks);
}

impl TryRng for Tails {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::from_le_bytes(self.next()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_le_bytes(self.next()))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        self.fill(out);
        Ok(())
    }
}

/// Prints no state, because the state would reveal the next bytes.
impl fmt::Debug for Tails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tails").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// A generator that returns only zeros.
    struct Zeros;

    impl TryRng for Zeros {
        type Error = Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            Ok(0)
        }

        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            Ok(0)
        }

        fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
            out.fill(0);
            Ok(())
        }
    }

    #[test]
    fn ok_the_output_is_aes_128_of_a_counter() {
        // AES-128 of 0 and of 1, in little endian, under a zero key: `openssl enc -aes-128-ecb`.
        let mut bytes = [0; 32];
        Tails::from_rng(&mut Zeros).fill_bytes(&mut bytes);
        let (blocks, _) = bytes.as_chunks();
        let expected = [0x66e9_4bd4_ef8a_2c3b_884c_fa59_ca34_2b2e, 0x4771_1816_e91d_6ff0_59bb_bf2b_f58e_0fd3];
        assert_eq!(blocks.iter().copied().map(u128::from_be_bytes).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn ok_requests_of_any_size_give_the_same_stream() {
        let mut whole = [0; 3 * BUFFER + 5];
        Tails::from_rng(&mut Zeros).fill_bytes(&mut whole);
        for size in [1, 7, 8, BUFFER - 1, BUFFER, BUFFER + 1] {
            let (mut rng, mut pieces) = (Tails::from_rng(&mut Zeros), [0; 3 * BUFFER + 5]);
            pieces.chunks_mut(size).for_each(|piece| rng.fill_bytes(piece));
            assert_eq!(pieces, whole, "in pieces of {size}");
        }
    }

    #[test]
    fn ok_numbers_take_the_next_bytes() {
        let (mut rng, mut whole) = (Tails::from_rng(&mut Zeros), [0; 24]);
        Tails::from_rng(&mut Zeros).fill_bytes(&mut whole);
        let mut numbers = Vec::from(rng.next_u64().to_le_bytes());
        numbers.extend(rng.next_u32().to_le_bytes());
        numbers.extend(rng.next_u64().to_le_bytes());
        numbers.extend(rng.next_u32().to_le_bytes());
        assert_eq!(numbers, whole);
    }

    #[test]
    fn ok_half_of_the_bits_are_set() {
        let mut bytes = [0; 1 << 16];
        Tails::from_rng(&mut Zeros).fill_bytes(&mut bytes);
        let set: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        // For 2^19 bits, the standard deviation is 362, and six standard deviations are 2172.
        assert!(set.abs_diff(1 << 18) < 2172, "{set}");
    }
}
