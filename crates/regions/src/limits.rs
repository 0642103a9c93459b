//! Limits on the width of identifiers and on the texts of a region.

/// The maximum width of identifiers in bits.
pub const BITS_MAX: u8 = 128;

/// The maximum length in bytes of a label's name, and of its value.
pub const LABEL_BYTES_MAX: usize = 63;

/// The maximum total length in bytes of a region's owner, description and labels.
pub const TEXT_BYTES_MAX: usize = 4096;
