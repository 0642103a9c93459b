//! The change of one region by an edit.

use crate::region::{Region, RegionNumber};

/// One region, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The number of the region.
    pub number: RegionNumber,
    /// The region before the edit, or `None` if the edit creates it.
    pub before: Option<Region>,
    /// The region after the edit, or `None` if the edit deletes it.
    pub after: Option<Region>,
}

impl Change {
    /// A region that is created.
    pub const fn created(region: Region) -> Self {
        Self { number: region.number, before: None, after: Some(region) }
    }

    /// A region that changes.
    pub const fn changed(before: Region, after: Region) -> Self {
        Self { number: after.number, before: Some(before), after: Some(after) }
    }

    /// A region that is deleted.
    pub const fn deleted(region: Region) -> Self {
        Self { number: region.number, before: Some(region), after: None }
    }

    /// The region after the edit, or before it if the edit deletes it.
    pub fn region(&self) -> Option<&Region> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// Whether the edit creates the region.
    pub const fn creates(&self) -> bool {
        self.before.is_none() && self.after.is_some()
    }

    /// Whether this may be the change of an edit that [stops grants](crate::Edit::stops_grants): the region is sealed, capped or
    /// strict, even if it was before.
    pub fn may_stop_grants(&self) -> bool {
        self.after.as_ref().is_some_and(|after| after.sealed || after.may_forbid_chunks())
    }

    /// Both sides.
    pub fn sides_mut(&mut self) -> impl Iterator<Item = &mut Region> {
        self.before.iter_mut().chain(self.after.iter_mut())
    }
}
