//! The reversal of a past edit: the edit that reverts it, or the reason that no edit does.

use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};

use thiserror::Error;

use crate::{
    attributes::{Patch, PolicyPatch},
    count::Count,
    edit::Edit,
    plan::{Change, Plan},
    prefix::Prefix,
    refusal::Refusal,
    region::{Kind, Region},
    table::Table,
};

/// Reasons that an edit cannot be reverted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotUndone {
    /// A later edit changed a region of this edit.
    #[error("region {region:?} was edited again since")]
    Changed {
        /// The name of the region.
        region: String,
    },
    /// It declared suffixes as issued.
    #[error("a counter never goes back: the suffixes that it declared as issued may be in use")]
    Declared,
    /// It created a region and split another one to free the prefix.
    #[error("it also split region {donor:?}, and no edit makes a prefix shorter; region {made:?} can be deleted")]
    Donor {
        /// The region that was created.
        made: String,
        /// The region that was split.
        donor: String,
    },
    /// It split a region.
    #[error("no edit makes a prefix shorter: the freed prefixes may belong to other regions")]
    Split {
        /// The regions that it created.
        made: Vec<String>,
    },
    /// It created several subregions.
    #[error("it created {} subregions, which must be deleted one by one", made.len())]
    Subdivided {
        /// The subregions, in the order in which they can be deleted.
        made: Vec<String>,
    },
    /// It imported several regions.
    #[error("it imported {} regions, which must be deleted one by one", made.len())]
    Imported {
        /// The regions, in the order in which they can be deleted.
        made: Vec<String>,
    },
    /// It deleted a region.
    #[error(
        "the number of a deleted region is not used again, but the region can be created again, with another number"
    )]
    Deleted {
        /// The deleted region.
        region: Box<Region>,
    },
    /// It changed no region, or changed regions in a way that no single edit does, as a restore does.
    #[error("no single edit reverts it")]
    NoEdit,
    /// The reversal breaks a rule.
    #[error("{0}")]
    Refused(Refusal),
    /// The reversal would leave this region different from before.
    #[error("it would leave region {region:?} different from before")]
    Different {
        /// The name of the region.
        region: String,
    },
}

impl Table {
    /// Returns the edit that reverts an edit, given the changes of that edit and whether it `declared` suffixes as issued. It must
    /// be the latest edit of these regions.
    ///
    /// # Errors
    ///
    /// [`NotUndone`].
    pub fn undo(&self, changes: &[Change], declared: bool) -> Result<Edit, NotUndone> {
        self.check_latest(changes)?;
        let edit = inverse(changes, declared)?;
        let plan = self.plan(&edit).map_err(NotUndone::Refused)?;
        check_same(changes, &plan)?;
        Ok(edit)
    }

    /// Checks that no region has changed since.
    fn check_latest(&self, changes: &[Change]) -> Result<(), NotUndone> {
        for change in changes {
            let shape = |region: &Region| Region { issued: Count::ZERO, ..region.clone() };
            if self.get(change.number).map(shape) != change.after.as_ref().map(shape) {
                let region = change.region().map(|region| region.name.clone()).unwrap_or_default();
                return Err(NotUndone::Changed { region });
            }
        }
        Ok(())
    }
}

/// The edit that reverts these changes, not checked against the table.
fn inverse(changes: &[Change], declared: bool) -> Result<Edit, NotUndone> {
    let [first, others @ ..] = changes else { return Err(NotUndone::NoEdit) };
    match (&first.before, &first.after) {
        (None, Some(made)) => match others.first().and_then(Change::region) {
            None => Ok(Edit::Delete { name: made.name.clone(), unused: false }),
            Some(_) if others.iter().all(Change::creates) => Err(NotUndone::Imported { made: inner_first(changes) }),
            Some(donor) => Err(NotUndone::Donor { made: made.name.clone(), donor: donor.name.clone() }),
        },
        (Some(region), None) => Err(NotUndone::Deleted { region: Box::new(region.clone()) }),
        (Some(before), Some(after)) => change(before, after, others, declared),
        (None, None) => Err(NotUndone::NoEdit),
    }
}

/// The edit that reverts a change of one region, which may have created `others`.
fn change(before: &Region, after: &Region, others: &[Change], declared: bool) -> Result<Edit, NotUndone> {
    if !others.iter().all(Change::creates) {
        return Err(NotUndone::NoEdit);
    }
    let made: Vec<&Region> = others.iter().filter_map(|change| change.after.as_ref()).collect();
    let name = after.name.clone();
    if before.prefix != after.prefix {
        return Err(NotUndone::Split { made: made.iter().map(|region| region.name.clone()).collect() });
    }
    match made[..] {
        [] => {}
        [only] => return Ok(Edit::Delete { name: only.name.clone(), unused: false }),
        _ => return Err(NotUndone::Subdivided { made: deletable(after.prefix, made) }),
    }
    Ok(match (before.delegated, after.delegated) {
        (false, true) => Edit::Undelegate { name },
        (true, false) => Edit::Delegate { name },
        _ if after.kind == Kind::Closed => attributes(before, after, declared)?,
        _ if after.suffix > before.suffix => Edit::Shrink { name, by: after.suffix - before.suffix },
        _ if after.suffix < before.suffix => Edit::Expand { name, by: before.suffix - after.suffix },
        _ => attributes(before, after, declared)?,
    })
}

/// The names of new regions, inner ones before outer ones.
fn inner_first(changes: &[Change]) -> Vec<String> {
    let mut made: Vec<&Region> = changes.iter().filter_map(|change| change.after.as_ref()).collect();
    made.sort_by_key(|region| core::cmp::Reverse(region.prefix));
    made.iter().map(|region| region.name.to_string()).collect()
}

/// The names of subregions, the all-zero one last.
fn deletable(parent: Prefix, mut made: Vec<&Region>) -> Vec<String> {
    made.sort_by_key(|region| region.prefix.rest(parent.len()).is_zero());
    made.iter().map(|region| region.name.to_string()).collect()
}

/// The update that gives a region its old attributes.
fn attributes(before: &Region, after: &Region, declared: bool) -> Result<Edit, NotUndone> {
    if declared {
        return Err(NotUndone::Declared);
    }
    let (old, new) = (&before.texts, &after.texts);
    let removed = new.labels.keys().filter(|label| !old.labels.contains_key(*label)).map(|label| (label.clone(), None));
    let restored = old.labels.iter().filter(|(label, value)| new.labels.get(*label) != Some(*value));
    let restored = restored.map(|(label, value)| (label.clone(), Some(value.clone())));
    let patch = Patch {
        name: (before.name != after.name).then(|| before.name.clone()),
        sealed: (before.sealed != after.sealed).then_some(before.sealed),
        owner: (old.owner != new.owner).then(|| old.owner.clone()),
        description: (old.description != new.description).then(|| old.description.clone()),
        labels: removed.chain(restored).collect(),
        policy: if *before.policy == *after.policy { PolicyPatch::default() } else { PolicyPatch::to(&before.policy) },
        next: None,
    };
    match patch == Patch::default() {
        true => Err(NotUndone::NoEdit),
        false => Ok(Edit::Update { name: after.name.clone(), patch }),
    }
}

/// Checks that a plan gives each region its old place and attributes. Counters, and the revisions of prefixes, differ.
fn check_same(changes: &[Change], plan: &Plan) -> Result<(), NotUndone> {
    for change in changes {
        let shape = |region: &Region| Region { issued: Count::ZERO, ..region.clone() };
        let planned = plan.changes.iter().find(|planned| planned.number == change.number);
        // A region that the plan leaves alone stays as it is now.
        let after = planned.map_or(change.after.as_ref(), |planned| planned.after.as_ref());
        if after.map(shape) != change.before.as_ref().map(shape) {
            let region = change.region().map(|region| region.name.clone()).unwrap_or_default();
            return Err(NotUndone::Different { region });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::{NewRegion, Place, Start};

    fn name(name: &str) -> String {
        name.to_string()
    }

    fn create(region: &str, prefix: &str) -> Edit {
        let place = Place::At(prefix.parse().expect("a prefix"));
        Edit::Create { name: name(region), suffix: 4, place, start: Start::default() }
    }

    fn new_region(region: &str, extension: &str) -> NewRegion {
        let extension = extension.parse().ok();
        NewRegion { name: name(region), suffix: Some(2), extension, start: Start::default() }
    }

    fn subdivide(new_regions: Vec<NewRegion>, reserve_others: bool) -> Edit {
        Edit::Subdivide { name: name("r"), by: 1, new_regions, reserve_others }
    }

    fn update(patch: Patch) -> Edit {
        Edit::Update { name: name("r"), patch }
    }

    /// A table with the region `r`.
    fn table() -> Table {
        let mut table = Table::new(12).expect("a width");
        let plan = table.plan(&create("r", "01")).expect("legal");
        table.apply(&plan).expect("applied");
        table
    }

    fn apply(table: &mut Table, edit: &Edit) -> Plan {
        let plan = table.plan(edit).expect("legal");
        table.apply(&plan).expect("applied");
        plan
    }

    #[test]
    fn ok_edits_are_reverted() {
        let cap = PolicyPatch { cap: Some(Some(Count::Below(9))), ..PolicyPatch::default() };
        for (edit, inverse) in [
            (create("s", "10"), "delete"),
            (Edit::Expand { name: name("r"), by: 2 }, "shrink"),
            (Edit::Shrink { name: name("r"), by: 2 }, "expand"),
            (Edit::Delegate { name: name("r") }, "undelegate"),
            (subdivide(vec![new_region("s", "1")], false), "delete"),
            (subdivide(vec![NewRegion { suffix: None, ..new_region("s", "0") }], true), "delete"),
            (update(Patch { name: Some(name("s")), ..Patch::default() }), "rename"),
            (update(Patch { sealed: Some(true), ..Patch::default() }), "unseal"),
            (update(Patch { owner: Some(name("ops")), policy: cap, ..Patch::default() }), "update"),
            (update(Patch { labels: [(name("team"), Some(name("a")))].into(), ..Patch::default() }), "update"),
        ] {
            let (before, mut table) = (table(), table());
            let plan = apply(&mut table, &edit);
            let undo = table.undo(&plan.changes, false).expect("it can be reverted");
            assert_eq!(undo.operation(), inverse, "{edit:?}");
            apply(&mut table, &undo);
            assert!(table.iter().eq(before.iter()), "{edit:?}");
            assert_eq!(table.check(), Ok(()), "{edit:?}");
        }
    }

    #[test]
    fn err_edits_that_no_edit_reverts() {
        let both = vec![new_region("zero", "0"), new_region("one", "1")];
        let next = Some(Count::Below(3));
        let patch = Patch { next, owner: Some(name("ops")), ..Patch::default() };
        type Check = fn(&NotUndone) -> bool;
        let cases: [(Edit, Check); 6] = [
            (
                Edit::Split { name: name("r"), by: 1, new_regions: vec![new_region("s", "1")] },
                |none| matches!(none, NotUndone::Split { made } if made == &["s"]),
            ),
            (subdivide(both, false), |none| matches!(none, NotUndone::Subdivided { made } if made == &["one", "zero"])),
            (
                subdivide(vec![new_region("s", "0")], true),
                |none| matches!(none, NotUndone::Different { region } if region == "r"),
            ),
            (update(patch), |none| *none == NotUndone::Declared),
            (Edit::Delete { name: name("r"), unused: false }, |none| matches!(none, NotUndone::Deleted { .. })),
            (update(Patch { sealed: Some(false), ..Patch::default() }), |none| *none == NotUndone::NoEdit),
        ];
        for (edit, expected) in cases {
            let mut table = table();
            let plan = apply(&mut table, &edit);
            let refused = table.undo(&plan.changes, plan.declared.is_some()).expect_err("no edit reverts it");
            assert!(expected(&refused), "{edit:?}: {refused:?}");
        }
        assert_eq!(table().undo(&[], false), Err(NotUndone::NoEdit));
    }

    #[test]
    fn err_an_edit_whose_numbers_are_in_use_or_that_was_followed_by_another() {
        let mut table = table();
        let plan = apply(&mut table, &Edit::Expand { name: name("r"), by: 1 });
        table.issue("r", 17).expect("32 fit");
        let refused = table.undo(&plan.changes, false).expect_err("17 need five bits");
        assert!(matches!(refused, NotUndone::Refused(Refusal::SuffixInUse { .. })), "{refused}");
        apply(&mut table, &update(Patch { sealed: Some(true), ..Patch::default() }));
        assert_eq!(table.undo(&plan.changes, false), Err(NotUndone::Changed { region: name("r") }));
        let plan = apply(&mut table, &create("s", "10"));
        table.issue("s", 1).expect("16 fit");
        let refused = table.undo(&plan.changes, false).expect_err("one is issued");
        assert!(matches!(refused, NotUndone::Refused(Refusal::InUse { .. })), "{refused}");
    }
}
