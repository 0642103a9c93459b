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
    /// Creates a subregion whose extension is all zeros, which closes the region.
    Close,
    /// Creates a subregion with another extension, which makes the region partial.
    Divide,
    /// Creates another region with a free prefix.
    Create,
    /// Turns the region's suffixes into a separate space.
    Delegate,
    /// Declares that the suffixes below 2 are issued.
    Next,
    Seal,
    /// Sets a policy. This does not change the set of identifiers that may be issued.
    Policy,
    /// Deletes the region if it has issued nothing. Its prefix becomes free for new regions.
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
            (_, Some(first)) => first.name.to_string(),
            // The first region may have been deleted.
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

    /// Returns whether the edit depends on the counter and therefore locks it.
    pub(super) const fn is_about_the_counter(self) -> bool {
        matches!(self, Self::Shrink | Self::Close | Self::Divide | Self::Delegate | Self::Next | Self::Delete)
    }
}
