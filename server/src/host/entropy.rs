//! Chance. This is the only file of the daemon that draws it for what is stored.

use std::fmt::Debug;

use rand::Rng;

/// Where the daemon gets random bits from; the simulator brings its own, so that a run can be repeated.
pub trait Entropy: Debug + Send + Sync + 'static {
    /// Fills bytes with random bits, good enough for keys.
    fn fill(&self, bytes: &mut [u8]);
}

/// The operating system's, through a generator of this thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

/// 128 random bits.
pub(crate) fn bytes(entropy: &dyn Entropy) -> [u8; 16] {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    bytes
}

/// 64 random bits.
pub(crate) fn number(entropy: &dyn Entropy) -> u64 {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
