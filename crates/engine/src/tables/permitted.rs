//! Checks the permissions of callers for regions and spaces.
//!
//! Rights are bound to a region's number, so a name is looked up only to find the number. A caller without a right gets
//! the same answer for a region that exists and for one that does not.

use kent_access::{Action, Resource, Target};
use kent_regions::{Change, Donate, Edit, Patch, Place, Plan, Refusal, Region, Table};

use super::{directory::Directory, space::Space};
use crate::auth::{Caller, Denied};

impl Directory {
    /// Fails if the caller may not take this action on the region that has this name or would be created with it.
    pub fn check_region(&self, caller: &Caller, action: Action, space: &str, region: &str) -> Result<(), Denied> {
        match self.may_region(caller, action, space, region) {
            true => Ok(()),
            false => Err(caller.lacks(format!("{action}:{}", new_region(space, region).describe(space, region)))),
        }
    }

    fn may_region(&self, caller: &Caller, action: Action, space: &str, region: &str) -> bool {
        if caller.principal().is_none() {
            return true;
        }
        match self.find(space) {
            Ok(found) => found.read(|table| match table.named(region) {
                Ok(region) => caller.may(action, target(&found, region)),
                Err(_) => caller.may(action, new_region(found.key(), region)),
            }),
            Err(_) => caller.may(action, new_region(space, region)),
        }
    }

    /// Whether the caller may create a region of this name.
    pub(super) fn may_create(&self, caller: &Caller, space: &str, region: &str) -> bool {
        self.may_region(caller, Action::Edit, space, region)
    }

    /// Fails if the caller may not create a region of this name. The refusal names a pattern, because a permission for
    /// one region can be given only after the region exists.
    pub(super) fn check_creation(&self, caller: &Caller, space: &str, region: &str) -> Result<(), Denied> {
        match self.may_create(caller, space, region) {
            true => Ok(()),
            false => {
                let pattern = Resource::Regions { space: space.to_owned(), prefix: region.to_owned() };
                Err(caller.lacks(format!("{}:{pattern}", Action::Edit)))
            }
        }
    }

    /// Fails if the caller may not take this action on the whole table of a space.
    pub fn check_table(&self, caller: &Caller, action: Action, space: &str) -> Result<(), Denied> {
        self.check_by_key(caller, action, space, |key| Target::Table { space: key })
    }

    /// Fails unless the caller may take this action on at least one region of a space.
    pub fn check_some(&self, caller: &Caller, action: Action, space: &str) -> Result<(), Denied> {
        self.check_by_key(caller, action, space, |key| Target::Some { space: key })
    }

    /// Fails if the caller has no permission for any region of a space. The refusal names the permission to read.
    pub(crate) fn check_member(&self, caller: &Caller, space: &str) -> Result<(), Denied> {
        let others = [Action::Edit, Action::Allocate, Action::Lease];
        match others.iter().any(|action| self.check_some(caller, *action, space).is_ok()) {
            true => Ok(()),
            false => self.check_some(caller, Action::Read, space),
        }
    }

    /// Fails if the caller may not take this action on a space itself.
    pub fn check_space(&self, caller: &Caller, action: Action, space: &str) -> Result<(), Denied> {
        self.check_by_key(caller, action, space, |key| Target::Space { key })
    }

    fn check_by_key(
        &self,
        caller: &Caller,
        action: Action,
        space: &str,
        target: impl for<'k> Fn(&'k str) -> Target<'k>,
    ) -> Result<(), Denied> {
        if caller.principal().is_none() {
            return Ok(());
        }
        let found = self.find(space).ok();
        let key = found.as_ref().map_or(space, |found| found.key());
        caller.check(action, target(key), || (space, ""))
    }

    /// Fails if the caller may not edit the regions that an edit names.
    pub(super) fn check_named(&self, caller: &Caller, space: &str, edit: &Edit) -> Result<(), Denied> {
        match edit {
            Edit::Create { .. } => self.check_creation(caller, space, edit.subject())?,
            _ => self.check_region(caller, Action::Edit, space, edit.subject())?,
        }
        match edit {
            Edit::Create { place: Place::Chosen { donor: Donate::Named(donor), .. }, .. } => {
                self.check_region(caller, Action::Edit, space, donor)
            }
            // Otherwise, an editor of one region could take a name that others use for another region.
            Edit::Update { patch: Patch { name: Some(name), .. }, .. } => {
                self.check_region(caller, Action::Edit, space, name)
            }
            _ => Ok(()),
        }
    }
}

/// Fails unless the caller may edit all regions that a plan changes. These regions include new regions, donors, and the
/// regions of an edit that was made earlier.
pub(super) fn check_plan(space: &Space, caller: &Caller, plan: &Plan) -> Result<(), Denied> {
    match may_make(space.key(), caller, plan) {
        true => Ok(()),
        // The refusal does not name the other regions, because the caller may not be allowed to know their names.
        false => {
            let name = space.name();
            Err(caller.lacks(format!("{}:{}", Action::Edit, Target::Table { space: space.key() }.describe(&name, ""))))
        }
    }
}

/// Whether the caller may edit all regions that a plan changes, in the space with this key.
pub(super) fn may_make(space: &str, caller: &Caller, plan: &Plan) -> bool {
    let allowed = |region: &Region| caller.may(Action::Edit, target_in(space, region));
    let is_allowed = |change: &Change| change.before.iter().chain(&change.after).all(allowed);
    caller.principal().is_none() || plan.changes.iter().all(is_allowed)
}

/// Removes from a refusal the names of regions that the caller must not learn.
pub(super) fn conceal(table: &Table, space: &str, caller: &Caller, mut refusal: Refusal) -> Refusal {
    if caller.may(Action::Read, Target::Table { space }) {
        return refusal;
    }
    let is_known = |name: &String| {
        let found = table.named(name).ok();
        let known = |region| {
            let target = target_in(space, region);
            caller.may(Action::Read, target) || caller.may(Action::Edit, target)
        };
        found.is_none_or(known)
    };
    let hide = |name: &mut String| {
        if !is_known(name) {
            *name = UNKNOWN.to_owned();
        }
    };
    match &mut refusal {
        Refusal::PrefixConflict { region, .. } | Refusal::EditedSince { region } => hide(region),
        Refusal::IsSubregion { parent, .. } | Refusal::IsHeir { parent, .. } => hide(parent),
        Refusal::Closed { heir, .. } => hide(heir),
        Refusal::HasSubregions { subregions, .. } => subregions.iter_mut().for_each(hide),
        Refusal::NoFreePrefix(none) => none.donors.retain(|donor| is_known(&donor.region)),
        _ => {}
    }
    refusal
}

/// The replacement for the name of a region that the caller must not learn.
const UNKNOWN: &str = "(another region)";

/// Whether the caller may read a region.
pub fn is_readable(space: &Space, caller: &Caller, region: &Region) -> bool {
    caller.may(Action::Read, target(space, region))
}

/// Whether the caller may know the name of a region.
pub fn is_known(space: &Space, caller: &Caller, region: &Region) -> bool {
    is_readable(space, caller, region) || caller.may(Action::Edit, target(space, region))
}

/// Whether a refused grant may name a region: the caller may know its name, or take identifiers from it.
pub(crate) fn is_nameable(space: &Space, caller: &Caller, region: &Region) -> bool {
    let may = |action| caller.may(action, target(space, region));
    is_known(space, caller, region) || may(Action::Allocate) || may(Action::Lease)
}

/// A region of a table.
pub(crate) fn target<'t>(space: &'t Space, region: &'t Region) -> Target<'t> {
    target_in(space.key(), region)
}

/// A region in the space with this key.
fn target_in<'t>(space: &'t str, region: &'t Region) -> Target<'t> {
    Target::Region { space, number: Some(region.number.0), first_name: region.first_name() }
}

/// A region that does not exist, or that is about to be created.
fn new_region<'t>(space: &'t str, name: &'t str) -> Target<'t> {
    Target::Region { space, number: None, first_name: name }
}
