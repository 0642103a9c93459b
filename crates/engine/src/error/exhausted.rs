//! The error for a region with too few suffixes left, with the command that expands the region.

use std::fmt;

use kent_ids::{Stride, counted, counted_be, grouped};
use kent_regions::Count;

use super::arguments;

/// A region with too few suffixes left, and how far it can be expanded.
#[derive(Clone, Debug)]
pub struct Exhausted {
    /// The space.
    pub space: String,
    /// The region.
    pub region: String,
    /// The maximum number of suffixes of the region: 2^s, or its cap.
    pub capacity: Count,
    /// Whether the cap is the limit, so that an expansion would not help.
    pub is_capped: bool,
    /// The number of suffixes that are issued or reserved.
    pub reserved: u128,
    /// The requested number of identifiers.
    pub requested: u64,
    /// The number of identifiers that the caller needs in this request and later ones: at least `requested`.
    pub wanted: u64,
    /// Which suffixes the region issues.
    pub stride: Stride,
    /// The width of the region's suffix in bits.
    pub suffix_bits: u8,
    /// The number of bits by which the region can be expanded.
    pub expandable_bits: u8,
}

const fn bits_noun(bits: u8) -> &'static str {
    if bits == 1 { "bit" } else { "bits" }
}

impl Exhausted {
    /// The capacity that suffices for all identifiers that the caller needs.
    fn needed(&self) -> u128 {
        self.reserved.saturating_add(self.stride.span(self.wanted))
    }

    /// The number of identifiers that the region can still grant.
    fn left(&self) -> u128 {
        let suffixes = match self.capacity {
            Count::Below(capacity) => capacity.saturating_sub(self.reserved),
            Count::Max => (u128::MAX - self.reserved).saturating_add(1),
        };
        suffixes / u128::from(self.stride.step())
    }

    /// The command that helps if no expansion suffices.
    fn elsewhere(&self) -> String {
        format!(": create another region (kent region create NAME --suffix BITS --space {})", self.space)
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { space, region, capacity, reserved, requested, wanted, expandable_bits, .. } = self;
        let command = arguments(region, space);
        let (reserved, capacity) = (grouped(reserved), counted_be(capacity, "suffix"));
        write!(f, "region {region:?} of space {space:?} ")?;
        match (self.left(), self.is_capped) {
            (0, is_capped) => {
                let is = if is_capped { "at its cap" } else { "full" };
                write!(f, "is {is}: {reserved} of {capacity} issued or reserved, and {} more", grouped(requested))?;
            }
            (left, is_capped) => {
                let below = if is_capped { " below its cap" } else { "" };
                let left = counted(left, "identifier");
                write!(
                    f,
                    "has {left} left{below} ({reserved} of {capacity} issued or reserved), but {}",
                    grouped(requested)
                )?;
            }
        }
        f.write_str(if *requested == 1 { " was requested" } else { " were requested" })?;
        if wanted > requested {
            write!(f, ", of {} in all", grouped(wanted))?;
        }
        f.write_str("; ")?;
        if self.is_capped {
            return write!(
                f,
                "raise the cap (UpdateRegion, kent region set {command} --cap {}) or remove it (kent region set {command} --no-cap)",
                self.needed()
            );
        }
        // The number of bits to add for enough suffixes.
        let missing = Count::Below(self.needed()).bits().saturating_sub(self.suffix_bits).max(1);
        match expandable_bits {
            0 => write!(f, "it cannot be expanded further{}", self.elsewhere()),
            bits if missing > *bits => {
                write!(f, "it can be expanded by {bits} {} only{}", bits_noun(*bits), self.elsewhere())
            }
            bits => write!(
                f,
                "it can be expanded by up to {bits} {} (ExpandRegion, kent region expand {command} --by {missing})",
                bits_noun(*bits)
            ),
        }
    }
}
