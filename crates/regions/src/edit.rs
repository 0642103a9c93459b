//! Edits of a table, as their authors write them.

use alloc::{string::String, vec::Vec};

use crate::{
    attributes::{Order, Patch, Policy},
    count::Count,
    pace::Pace,
    prefix::Prefix,
};

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
        /// How it begins.
        start: Start,
    },
    /// Moves `by` bits from the zone to the suffix.
    Expand {
        /// Which region.
        name: String,
        /// k.
        by: u8,
    },
    /// Expands the region as its policy says, if that is due before `count` more are granted.
    ExpandIfDue {
        /// Which region.
        name: String,
        /// How many suffixes are wanted.
        count: u64,
    },
    /// Moves `by` bits from the suffix to the zone.
    Shrink {
        /// Which region.
        name: String,
        /// k.
        by: u8,
    },
    /// Lengthens a top-level region's prefix by `by` zeros, and gives freed prefixes to new regions (Kent 1992, 3.2).
    Split {
        /// Which region.
        name: String,
        /// k.
        by: u8,
        /// Regions to make on the freed prefixes.
        new_regions: Vec<NewRegion>,
    },
    /// Makes subregions, `by` bits below their parent (Kent 1992, 3.3).
    Subdivide {
        /// The parent.
        name: String,
        /// k.
        by: u8,
        /// The subregions.
        new_regions: Vec<NewRegion>,
        /// Take the all-zero extension although others stay unassigned.
        reserve_others: bool,
    },
    /// Makes the suffixes of a region a space of their own, with an empty table (Kent 1992, end of 3.3).
    Delegate {
        /// Which region.
        name: String,
    },
    /// Changes what is kept with a region beside its place.
    Update {
        /// Which region.
        name: String,
        /// What changes.
        patch: Patch,
    },
}

/// Where a new top-level region goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this prefix; the zone is what is left.
    At(Prefix),
    /// Where it wastes least, with this zone.
    Chosen {
        /// z.
        zone: Zone,
        /// Where no prefix is free, whom to split.
        donor: Donate,
    },
}

/// Which region is split to make room for a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Donate {
    /// None.
    Never,
    /// The one that loses least.
    Best,
    /// This one.
    Named(String),
}

/// How large a zone a new region asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// So many bits.
    Exactly(u8),
    /// So many bits, or as many as the best free block leaves below that.
    UpTo(u8),
}

/// How a new region begins: all that its grants depend on, so that none is made before it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Suffixes below this count as issued.
    pub next: Count,
    /// In which order its suffixes are issued.
    pub order: Order,
    /// How fast; `None` for the default of its suffix.
    pub pace: Option<Pace>,
    /// Whether nothing is granted for now.
    pub sealed: bool,
    /// What it does by itself.
    pub policy: Policy,
}

/// A region that a split or a subdivision makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRegion {
    /// Its name.
    pub name: String,
    /// s; only the all-zero subregion may leave it out, and takes its parent's then.
    pub suffix: Option<u8>,
    /// The k bits after the old prefix; without them the lowest free ones, in the order given.
    pub extension: Option<Prefix>,
    /// How it begins. The all-zero subregion goes on with its parent's counter: it has its parent's order, pace and policy, whatever
    /// this says, and its parent's seal and counter are kept.
    pub start: Start,
}

impl Edit {
    /// Whether it says where a region's counter goes on.
    pub const fn names_a_floor(&self) -> bool {
        matches!(self, Self::Update { patch: Patch { next: Some(_), .. }, .. })
    }

    /// The operation's name: `create`, `expand`, `shrink`, `split`, `subdivide`, `delegate`, or for an update what it is
    /// mainly about: `rename`, `seal`, `unseal`, `note` or `update`.
    pub const fn operation(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Expand { .. } | Self::ExpandIfDue { .. } => "expand",
            Self::Shrink { .. } => "shrink",
            Self::Split { .. } => "split",
            Self::Subdivide { .. } => "subdivide",
            Self::Delegate { .. } => "delegate",
            Self::Update { patch: Patch { name: Some(_), .. }, .. } => "rename",
            Self::Update { patch: Patch { sealed: Some(true), .. }, .. } => "seal",
            Self::Update { patch: Patch { sealed: Some(false), .. }, .. } => "unseal",
            Self::Update { patch: Patch { next: Some(_), .. }, .. } => "note",
            Self::Update { .. } => "update",
        }
    }

    /// The name of the region that the edit is about.
    pub fn subject(&self) -> &str {
        match self {
            Self::Create { name, .. }
            | Self::Expand { name, .. }
            | Self::ExpandIfDue { name, .. }
            | Self::Shrink { name, .. }
            | Self::Split { name, .. }
            | Self::Subdivide { name, .. }
            | Self::Delegate { name }
            | Self::Update { name, .. } => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_an_edit_says_what_it_does_and_to_whom() {
        let name = || String::from("r");
        let update = |patch| Edit::Update { name: name(), patch };
        let create = Edit::Create { name: name(), suffix: 4, place: Place::At(Prefix::EMPTY), start: Start::default() };
        for (edit, operation) in [
            (create, "create"),
            (Edit::Expand { name: name(), by: 1 }, "expand"),
            (Edit::ExpandIfDue { name: name(), count: 1 }, "expand"),
            (Edit::Shrink { name: name(), by: 1 }, "shrink"),
            (Edit::Split { name: name(), by: 1, new_regions: Vec::new() }, "split"),
            (Edit::Subdivide { name: name(), by: 1, new_regions: Vec::new(), reserve_others: false }, "subdivide"),
            (Edit::Delegate { name: name() }, "delegate"),
            (update(Patch { name: Some("s".into()), sealed: Some(true), ..Patch::default() }), "rename"),
            (update(Patch { sealed: Some(true), ..Patch::default() }), "seal"),
            (update(Patch { sealed: Some(false), ..Patch::default() }), "unseal"),
            (update(Patch { next: Some(Count::ZERO), ..Patch::default() }), "note"),
            (update(Patch { owner: Some("ops".into()), ..Patch::default() }), "update"),
        ] {
            assert_eq!((edit.operation(), edit.subject()), (operation, "r"));
            assert_eq!(edit.names_a_floor(), operation == "note", "{operation}");
        }
    }
}
