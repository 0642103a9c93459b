//! The change that an edit makes to one region.

use kent_ids::Stride;

use crate::region::{Region, RegionNumber};

/// One region before and after an edit.
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
    /// Returns the change that creates a region.
    pub const fn created(region: Region) -> Self {
        Self { number: region.number, before: None, after: Some(region) }
    }

    /// Returns the change to an existing region.
    pub const fn changed(before: Region, after: Region) -> Self {
        Self { number: after.number, before: Some(before), after: Some(after) }
    }

    /// Returns the change that deletes a region.
    pub const fn deleted(region: Region) -> Self {
        Self { number: region.number, before: Some(region), after: None }
    }

    /// Returns the region after the edit or, if the edit deletes the region, before the edit.
    pub fn region(&self) -> Option<&Region> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// Returns whether the edit creates the region.
    pub const fn creates(&self) -> bool {
        self.before.is_none() && self.after.is_some()
    }

    /// Returns whether the edit moves the counter of a region that exists before and after the edit.
    pub fn moves_counter(&self) -> bool {
        self.before.as_ref().zip(self.after.as_ref()).is_some_and(|(before, after)| before.issued != after.issued)
    }

    /// Returns whether the edit may [stop grants](crate::Edit::stops_grants). True if the region is sealed, capped or
    /// strict or has a stride after the edit, even if it was so before the edit.
    pub fn may_stop_grants(&self) -> bool {
        let has_stride = |region: &Region| region.policy().stride != Stride::EVERY;
        self.after.as_ref().is_some_and(|after| after.sealed || after.may_forbid_chunks() || has_stride(after))
    }

    /// Returns the region before and after the edit, or only one of the two if the edit creates or deletes the region.
    pub fn sides_mut(&mut self) -> impl Iterator<Item = &mut Region> {
        self.before.iter_mut().chain(self.after.iter_mut())
    }
}
