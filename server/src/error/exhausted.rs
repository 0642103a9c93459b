//! The error of a full region, with the command that makes it larger.

use std::fmt;

use kent_regions::Count;

use super::arguments;

/// A full region, and how far it can be expanded.
#[derive(Clone, Debug)]
pub(crate) struct Exhausted {
    /// The space.
    pub(crate) space: String,
    /// The region.
    pub(crate) region: String,
    /// The limit on its suffixes: 2^s, or its cap.
    pub(crate) capacity: Count,
    /// Whether its cap limits it, so that an expansion changes nothing.
    pub(crate) is_capped: bool,
    /// The number of suffixes that are issued or reserved.
    pub(crate) reserved: u128,
    /// The requested number of identifiers.
    pub(crate) requested: u64,
    /// The number that the caller needs in this request and later ones: at least `requested`.
    pub(crate) wanted: u64,
    /// The width of its suffix in bits.
    pub(crate) suffix_bits: u8,
    /// The number of bits by which it can be expanded.
    pub(crate) expandable_bits: u8,
}

impl Exhausted {
    /// The number of suffixes with which everything that the caller needs could be granted.
    fn needed(&self) -> u128 {
        self.reserved.saturating_add(self.wanted.into())
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { space, region, capacity, reserved, requested, wanted, expandable_bits, .. } = self;
        let (is, command) = (if self.is_capped { "at its cap" } else { "full" }, arguments(region, space));
        write!(
            f,
            "region {region:?} of space {space:?} is {is}: {reserved} of {capacity} suffixes are issued or reserved, {requested} more were requested"
        )?;
        if wanted > requested {
            write!(f, ", of {wanted} in all")?;
        }
        f.write_str("; ")?;
        if self.is_capped {
            return write!(
                f,
                "raise the cap (UpdateRegion, kent region set {command} --cap {}) or remove it (kent region set {command} --no-cap)",
                self.needed()
            );
        }
        // The smallest width with enough suffixes.
        let missing = Count::Below(self.needed()).bits().saturating_sub(self.suffix_bits).max(1);
        match expandable_bits {
            0 => write!(f, "it cannot be expanded further"),
            bits if missing > *bits => write!(f, "it can be expanded by {bits} bits only"),
            bits => write!(
                f,
                "it can be expanded by up to {bits} bits (ExpandRegion, kent region expand {command} --by {missing})"
            ),
        }
    }
}
