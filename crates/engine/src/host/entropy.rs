//! Random bits. This is the only file of the daemon that draws random bits for stored data.

use std::fmt::Debug;

use rand::Rng;

/// The daemon's source of random bits. The simulator has its own source, so that a run is repeatable.
pub trait Entropy: Debug + Send + Sync + 'static {
    /// Fills `bytes` with random bits of cryptographic quality.
    fn fill(&self, bytes: &mut [u8]);
}

/// The thread's random number generator, which the operating system seeds.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

/// 128 random bits.
pub fn bytes(entropy: &dyn Entropy) -> [u8; 16] {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    bytes
}

/// 64 random bits.
pub fn number(entropy: &dyn Entropy) -> u64 {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
