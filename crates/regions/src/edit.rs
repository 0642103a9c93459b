//! Edits of a table, as their authors write them.

use alloc::{string::String, vec::Vec};

use crate::{count::Count, prefix::Prefix};

/// An edit of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Makes a top-level region.
    Create {
        /// Its name.
        name: String,
        /// s.
        suffix: u8,
        /// Where it goes.
        place: Place,
        /// Suffixes below this count as issued.
        next: Count,
    },
    /// Moves `by` bits from the zone to the suffix.
    Expand {
        /// Which region.
        name: String,
        /// k.
        by: u8,
    },
    /// Moves `by` bits from the suffix to the zone.
    Shrink {
        /// Which region.
        name: String,
        /// k.
        by: u8,
    },
    /// Lengthens a top-level region's prefix by `by` zeros, and gives freed prefixes to newcomers (Kent 1992, 3.2).
    Split {
        /// Which region.
        name: String,
        /// k.
        by: u8,
        /// Regions to make on the freed prefixes.
        newcomers: Vec<Newcomer>,
    },
    /// Makes subregions, `by` bits below their parent (Kent 1992, 3.3).
    Subdivide {
        /// The parent.
        name: String,
        /// k.
        by: u8,
        /// The subregions.
        newcomers: Vec<Newcomer>,
        /// Take the all-zero extension although others stay unassigned.
        reserve_others: bool,
    },
}

/// Where a new top-level region goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this prefix; the zone is what is left.
    At(Prefix),
    /// Where it wastes least, with this zone.
    Chosen {
        /// z.
        zone: Zone,
        /// Where no prefix is free, split the region that loses least.
        auto_split: bool,
    },
}

/// How large a zone a new region asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// So many bits.
    Exactly(u8),
    /// So many bits, or as many as the best free block leaves below that.
    UpTo(u8),
}

/// A region that a split or a subdivision makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// Its name.
    pub name: String,
    /// s; only the all-zero subregion may leave it out, and takes its parent's then.
    pub suffix: Option<u8>,
    /// The k bits after the old prefix; without them the lowest free ones, in the order given.
    pub extension: Option<Prefix>,
}

impl Edit {
    /// The operation's name: `create`, `expand`, `shrink`, `split` or `subdivide`.
    pub const fn operation(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Expand { .. } => "expand",
            Self::Shrink { .. } => "shrink",
            Self::Split { .. } => "split",
            Self::Subdivide { .. } => "subdivide",
        }
    }

    /// The name of the region that the edit is about.
    pub fn subject(&self) -> &str {
        match self {
            Self::Create { name, .. }
            | Self::Expand { name, .. }
            | Self::Shrink { name, .. }
            | Self::Split { name, .. }
            | Self::Subdivide { name, .. } => name,
        }
    }
}
