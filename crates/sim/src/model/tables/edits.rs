//! The edits of the model. All of them change the first region or create a region next to it.

use kent_regions::{
    AutoExpand, Count, Donate, Edit, NewRegion, Patch, Place, PolicyPatch, Prefix, RegionNumber, Start, Table, Zone,
};

/// The number of the first region.
pub(super) const FIRST: u64 = 1;

/// The kinds of edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EditKind {
    Expand,
    Shrink,
    Split,
    /// Creates an all-zero subregion, which closes the region.
    Close,
    /// Creates another subregion, which leaves the region partial.
    Divide,
    /// Creates another region with a free prefix.
    Create,
    /// Turns the region's suffixes into a space of their own.
    Delegate,
    /// Declares that the suffixes below 2 are issued.
    Next,
    Seal,
    /// Sets a policy, which does not affect which identifiers may be issued.
    Policy,
    /// Deletes the region if nothing was issued. Its prefix is free for new regions.
    Delete,
}

impl EditKind {
    pub(crate) const ALL: [Self; 11] = [
        Self::Expand,
        Self::Shrink,
        Self::Split,
        Self::Close,
        Self::Divide,
        Self::Create,
        Self::Delegate,
        Self::Next,
        Self::Seal,
        Self::Policy,
        Self::Delete,
    ];

    pub(super) fn edit(self, table: &Table) -> Option<Edit> {
        let first = table.get(RegionNumber(FIRST));
        let name = match (self, first) {
            (_, Some(first)) => first.name.clone(),
            // The first region may be deleted.
            (Self::Create, None) => String::new(),
            (_, None) => return None,
        };
        let new_region = |suffix, extension: &str| NewRegion {
            name: format!("n{}", table.next_number().0),
            suffix,
            extension: extension.parse::<Prefix>().ok(),
            start: Start::default(),
        };
        Some(match self {
            Self::Expand => Edit::Expand { name, by: 1 },
            Self::Shrink => Edit::Shrink { name, by: 1 },
            Self::Split => Edit::Split { name, by: 1, new_regions: vec![new_region(Some(1), "1")] },
            Self::Close => {
                Edit::Subdivide { name, by: 1, new_regions: vec![new_region(None, "0")], reserve_others: true }
            }
            Self::Divide => {
                Edit::Subdivide { name, by: 1, new_regions: vec![new_region(Some(1), "1")], reserve_others: false }
            }
            Self::Create => {
                let place = Place::Chosen { zone: Zone::UpTo(1), donor: Donate::Never };
                let name = format!("n{}", table.next_number().0);
                Edit::Create { name, suffix: 1, place, start: Start::default() }
            }
            Self::Delegate => Edit::Delegate { name },
            Self::Next => Edit::Update { name, patch: Patch { next: Some(Count::Below(2)), ..Patch::default() } },
            Self::Seal => Edit::Update { name, patch: Patch { sealed: Some(true), ..Patch::default() } },
            Self::Policy => {
                let auto_expand = Some(AutoExpand { at_percent: 100, by_bits: 1, max_suffix: 6 });
                let policy = PolicyPatch { auto_expand: Some(auto_expand), ..PolicyPatch::default() };
                Edit::Update { name, patch: Patch { policy, ..Patch::default() } }
            }
            Self::Delete => Edit::Delete { name, unused: false },
        })
    }

    /// Returns whether the edit depends on the counter, so that it locks the counter.
    pub(super) const fn is_about_the_counter(self) -> bool {
        matches!(self, Self::Shrink | Self::Close | Self::Divide | Self::Delegate | Self::Next | Self::Delete)
    }
}
