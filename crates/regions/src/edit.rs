//! The edits of a table.

use alloc::{string::String, vec::Vec};

use crate::{
    attributes::{Order, Patch, Policy, Texts},
    change::Change,
    count::Count,
    pace::Pace,
    prefix::Prefix,
    region::Region,
};

/// An edit of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Creates a top-level region.
    Create {
        /// The name of the region.
        name: String,
        /// The width of its suffix in bits (s).
        suffix: u8,
        /// Its place.
        place: Place,
        /// Its initial attributes.
        start: Start,
    },
    /// Moves `by` bits from the zone to the suffix.
    Expand {
        /// The name of the region.
        name: String,
        /// The number of bits (k).
        by: u8,
    },
    /// Expands the region as its policy says, if an expansion is due before `count` more suffixes are granted.
    ExpandIfDue {
        /// The name of the region.
        name: String,
        /// The number of suffixes to grant.
        count: u64,
    },
    /// Moves `by` bits from the suffix to the zone.
    Shrink {
        /// The name of the region.
        name: String,
        /// The number of bits (k).
        by: u8,
    },
    /// Lengthens a top-level region's prefix by `by` zeros, and creates new regions on the freed prefixes (Kent 1992,
    /// 3.2).
    Split {
        /// The name of the region.
        name: String,
        /// The number of bits (k).
        by: u8,
        /// The new regions on the freed prefixes.
        new_regions: Vec<NewRegion>,
    },
    /// Creates subregions, whose prefixes are `by` bits longer than their parent's (Kent 1992, 3.3).
    Subdivide {
        /// The name of the parent.
        name: String,
        /// The number of bits (k).
        by: u8,
        /// The subregions.
        new_regions: Vec<NewRegion>,
        /// Whether the all-zero extension may be assigned although other extensions stay unassigned.
        reserve_others: bool,
    },
    /// Turns the suffixes of a region into a separate space with an empty table (Kent 1992, end of 3.3).
    Delegate {
        /// The name of the region.
        name: String,
    },
    /// Ends a delegation: the suffixes belong to the region again. The caller checks that the delegated space is empty.
    Undelegate {
        /// The name of the region.
        name: String,
    },
    /// Deletes a region from which nothing was ever issued or reserved.
    Delete {
        /// The name of the region.
        name: String,
        /// For an external region: whether the caller knows that none of its numbers is in use.
        unused: bool,
    },
    /// Changes the attributes of a region.
    Update {
        /// The name of the region.
        name: String,
        /// The changes.
        patch: Patch,
    },
    /// Creates regions with the attributes and counters that they have in another table.
    Import {
        /// The regions, at least one.
        regions: Vec<Imported>,
    },
    /// Reverts a past edit: every region that the edit changed returns to its earlier state, if no later edit has
    /// changed one of these regions.
    Revert {
        /// The changes of the past edit. For an all-zero subregion that the edit created, `issued` must be the counter
        /// that the subregion inherited.
        changes: Vec<Change>,
    },
}

/// A region to import from another table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The region. Its number, its parent and `since` are ignored.
    pub region: Region,
    /// The name of its parent, which already exists or is imported by the same edit.
    pub parent: Option<String>,
    /// Whether more of its suffixes may have been issued than its counter says, because the store of the table was
    /// restored from a backup.
    pub needs_floor: bool,
}

/// The place of a new top-level region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Uses this prefix. The remaining bits become the zone.
    At(Prefix),
    /// Uses the free prefix that wastes the least space, with this zone.
    Chosen {
        /// The width of the zone (z).
        zone: Zone,
        /// The region to split if no prefix is free.
        donor: Donate,
    },
}

/// The region to split so that a prefix becomes free for a new region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Donate {
    /// No region.
    Never,
    /// The region with the largest zone, leftmost on a tie.
    Best,
    /// The region with this name.
    Named(String),
}

/// The requested width of a new region's zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// Exactly this many bits.
    Exactly(u8),
    /// This many bits, or fewer if no free block is large enough.
    UpTo(u8),
}

/// The initial attributes of a new region. They are set by the edit that creates the region, because they affect even
/// its first grant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Suffixes below this one count as issued.
    pub next: Count,
    /// The order in which its suffixes are issued.
    pub order: Order,
    /// The pace; `None` for the default pace for its suffix width.
    pub pace: Option<Pace>,
    /// Whether it is sealed. A sealed region grants nothing until it is unsealed.
    pub sealed: bool,
    /// The policy.
    pub policy: Policy,
    /// The descriptive texts.
    pub texts: Texts,
}

/// A region that a split or a subdivision creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRegion {
    /// The name of the region.
    pub name: String,
    /// The width of its suffix in bits (s). The width may be omitted only for the all-zero subregion, which then
    /// inherits its parent's width.
    pub suffix: Option<u8>,
    /// The k bits after the old prefix. By default, each new region in turn gets the lowest free extension. A region
    /// gets the all-zero extension by default only in a subdivision that assigns all extensions or has
    /// `reserve_others`.
    pub extension: Option<Prefix>,
    /// Its initial attributes. An all-zero subregion continues its parent's counter, so it always has the parent's
    /// order, pace and policy, and a counter that is at least the parent's. A seal on the parent covers all of its
    /// subregions.
    pub start: Start,
}

impl Edit {
    /// Returns whether the edit is an update that declares suffixes as issued.
    pub const fn names_a_floor(&self) -> bool {
        matches!(self, Self::Update { patch: Patch { next: Some(_), .. }, .. })
    }

    /// Returns whether the edit may forbid grants that were allowed before: it sets a seal, a cap, a step or a strict
    /// policy, or declares suffixes as issued. The daemon that makes such an edit therefore waits for the other daemons to
    /// apply it.
    pub const fn stops_grants(&self) -> bool {
        let Self::Update { patch, .. } = self else { return false };
        let Patch { sealed, policy, next, .. } = patch;
        let limits = matches!(policy.cap, Some(Some(_))) || matches!(policy.strict, Some(true)) || policy.narrows();
        matches!(sealed, Some(true)) || next.is_some() || limits
    }

    /// Returns the name of the operation: `create`, `expand`, `shrink`, `split`, `subdivide`, `delegate`, `undelegate`,
    /// `delete`, `import` or `revert`. An update is named after its main effect: `rename`, `seal`, `unseal`, `note` or
    /// `update`.
    pub const fn operation(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Expand { .. } | Self::ExpandIfDue { .. } => "expand",
            Self::Shrink { .. } => "shrink",
            Self::Split { .. } => "split",
            Self::Subdivide { .. } => "subdivide",
            Self::Delegate { .. } => "delegate",
            Self::Undelegate { .. } => "undelegate",
            Self::Delete { .. } => "delete",
            Self::Update { patch: Patch { name: Some(_), .. }, .. } => "rename",
            Self::Update { patch: Patch { sealed: Some(true), .. }, .. } => "seal",
            Self::Update { patch: Patch { sealed: Some(false), .. }, .. } => "unseal",
            Self::Update { patch: Patch { next: Some(_), .. }, .. } => "note",
            Self::Update { .. } => "update",
            Self::Import { .. } => "import",
            Self::Revert { .. } => "revert",
        }
    }

    /// Returns the name of the region to edit; for an import or a reversal, that of the first region.
    pub fn subject(&self) -> &str {
        match self {
            Self::Create { name, .. }
            | Self::Expand { name, .. }
            | Self::ExpandIfDue { name, .. }
            | Self::Shrink { name, .. }
            | Self::Split { name, .. }
            | Self::Subdivide { name, .. }
            | Self::Delegate { name }
            | Self::Undelegate { name }
            | Self::Delete { name, .. }
            | Self::Update { name, .. } => name,
            Self::Import { regions } => regions.first().map_or("", |imported| &imported.region.name),
            Self::Revert { changes } => changes.first().and_then(Change::region).map_or("", |region| &region.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChunkPolicy, PolicyPatch};

    #[test]
    fn ok_an_edit_has_an_operation_and_a_subject() {
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
            (Edit::Undelegate { name: name() }, "undelegate"),
            (Edit::Delete { name: name(), unused: false }, "delete"),
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

    #[test]
    fn ok_seals_caps_strict_policies_and_declared_numbers_stop_grants() {
        let update = |patch| Edit::Update { name: "r".into(), patch };
        let policy = |policy: Policy| update(Patch { policy: PolicyPatch::to(&policy), ..Patch::default() });
        for (edit, stops) in [
            (Edit::Expand { name: "r".into(), by: 1 }, false),
            (update(Patch { owner: Some("ops".into()), ..Patch::default() }), false),
            (update(Patch { sealed: Some(true), ..Patch::default() }), true),
            (update(Patch { sealed: Some(false), ..Patch::default() }), false),
            (update(Patch { next: Some(Count::Below(3)), ..Patch::default() }), true),
            (policy(Policy::default()), false),
            (policy(Policy { cap: Some(Count::Below(3)), ..Policy::default() }), true),
            (policy(Policy { chunk: ChunkPolicy::Strict, ..Policy::default() }), true),
        ] {
            assert_eq!(edit.stops_grants(), stops, "{edit:?}");
        }
    }
}
