//! How wide identifiers may be, and how long the texts about a region.

/// The widest identifiers, in bits.
pub const BITS_MAX: u8 = 128;

/// The most bytes of a region's owner, description and labels together.
pub const TEXT_BYTES_MAX: usize = 4096;
