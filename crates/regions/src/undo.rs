//! Finds the edit that reverts a past edit, or the reason that no edit does.

use alloc::string::{String, ToString};

use thiserror::Error;

use crate::{
    attributes::{Patch, PolicyPatch},
    change::Change,
    edit::Edit,
    plan::Plan,
    rare::Rare,
    refusal::Refusal,
    region::{Kind, Region},
    table::Table,
};

/// Reasons that an edit cannot be reverted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotUndone {
    /// The edit declared suffixes as issued.
    #[error("a counter never goes back, and the suffixes that the edit declared as issued may be in use")]
    Declared,
    /// The edit changed several existing regions, as a restore does, or it changed nothing.
    #[error("no single edit reverts it")]
    NoEdit,
    /// The reversal breaks a rule.
    #[error("{0}")]
    Refused(Refusal),
    /// The reversal would not restore this region completely.
    #[error("the reversal would not restore region {region:?} completely")]
    Different {
        /// The name of the region.
        region: String,
    },
}

impl Table {
    /// Returns the edit that reverts a past edit. `changes` are the changes of the past edit, and `declared` is whether
    /// that edit declared suffixes as issued. The past edit must be the latest edit of its regions.
    ///
    /// # Errors
    ///
    /// Fails with [`NotUndone`].
    pub fn undo(&self, changes: &[Change], declared: bool) -> Result<Edit, NotUndone> {
        self.check_latest(changes).map_err(NotUndone::Refused)?;
        let edit = inverse(changes, declared)?;
        let plan = self.plan(&edit).map_err(NotUndone::Refused)?;
        // `Edit::Revert` restores all regions, so it needs no check. The check would refuse the new numbers of regions
        // that it creates again.
        if !matches!(edit, Edit::Revert { .. }) {
            check_same(changes, &plan)?;
        }
        Ok(edit)
    }
}

/// Returns the edit that reverts these changes, without checking it against the table.
fn inverse(changes: &[Change], declared: bool) -> Result<Edit, NotUndone> {
    let existed = changes.iter().filter(|change| change.before.is_some() && change.after.is_some());
    match changes {
        [] => Err(NotUndone::NoEdit),
        [Change { before: None, after: Some(made), .. }] => {
            Ok(Edit::Delete { name: made.name.to_string(), unused: false })
        }
        [Change { before: Some(before), after: Some(after), .. }] if before.prefix == after.prefix => {
            change(before, after, declared)
        }
        // Only a restore changes more than one existing region.
        _ if existed.count() > 1 => Err(NotUndone::NoEdit),
        _ => Ok(Edit::Revert { changes: changes.to_vec() }),
    }
}

/// Returns the edit that reverts a change to one region.
fn change(before: &Region, after: &Region, declared: bool) -> Result<Edit, NotUndone> {
    let name = after.name.to_string();
    Ok(match (before.delegated, after.delegated) {
        (false, true) => Edit::Undelegate { name },
        (true, false) => Edit::Delegate { name },
        _ if after.kind == Kind::Closed => attributes(before, after, declared)?,
        _ if after.suffix > before.suffix => Edit::Shrink { name, by: after.suffix - before.suffix },
        _ if after.suffix < before.suffix => Edit::Expand { name, by: before.suffix - after.suffix },
        _ => attributes(before, after, declared)?,
    })
}

/// Returns the update that gives a region its old attributes.
fn attributes(before: &Region, after: &Region, declared: bool) -> Result<Edit, NotUndone> {
    if declared {
        return Err(NotUndone::Declared);
    }
    let (old, new) = (before.texts(), after.texts());
    let removed = new.labels.keys().filter(|label| !old.labels.contains_key(*label)).map(|label| (label.clone(), None));
    let restored = old.labels.iter().filter(|(label, value)| new.labels.get(*label) != Some(*value));
    let restored = restored.map(|(label, value)| (label.clone(), Some(value.clone())));
    let patch = Patch {
        name: (before.name != after.name).then(|| before.name.to_string()),
        sealed: (before.sealed != after.sealed).then_some(before.sealed),
        owner: (old.owner != new.owner).then(|| old.owner.clone()),
        description: (old.description != new.description).then(|| old.description.clone()),
        labels: removed.chain(restored).collect(),
        policy: if *before.policy() == *after.policy() {
            PolicyPatch::default()
        } else {
            PolicyPatch::to(before.policy())
        },
        next: None,
    };
    match patch == Patch::default() {
        true => Err(NotUndone::NoEdit),
        false => Ok(Edit::Update { name: after.name.to_string(), patch }),
    }
}

/// Checks that a plan gives each region its old place and attributes. Counters may differ.
fn check_same(changes: &[Change], plan: &Plan) -> Result<(), NotUndone> {
    for change in changes {
        let shape = |region: &Region| Region { issued: Rare::default(), ..region.clone() };
        let planned = plan.changes.iter().find(|planned| planned.number == change.number);
        // A region that the plan leaves alone stays as it is now.
        let after = planned.map_or(change.after.as_ref(), |planned| planned.after.as_ref());
        if after.map(shape) != change.before.as_ref().map(shape) {
            let region = change.region().map(|region| region.name.to_string()).unwrap_or_default();
            return Err(NotUndone::Different { region });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec, vec::Vec};

    use super::*;
    use crate::{Count, Donate, NewRegion, Order, Past, Place, Prefix, RegionNumber, Revision, Start, Zone};

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

    /// Returns a table with the region `r`.
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

    fn split(by: u8, made: &[(&str, &str)]) -> Edit {
        let new_regions = made.iter().map(|(region, extension)| new_region(region, extension)).collect();
        Edit::Split { name: name("r"), by, new_regions }
    }

    /// Returns the regions without the parts that a reversal need not restore: the numbers of regions that it creates
    /// again, and the revisions in which regions got their prefixes.
    fn shapes(table: &Table) -> Vec<Region> {
        let parent = |region: &Region| region.parent().is_some().then_some(RegionNumber(1));
        let shape = |region: &Region| {
            let past = Past { key_number: Some(region.key_number()), ..region.past().clone() };
            let mut shape =
                Region { number: RegionNumber(0), since: Revision(0), parent: parent(region).into(), ..region.clone() };
            shape.set_past(past);
            shape
        };
        table.iter().map(shape).collect()
    }

    #[test]
    fn err_the_heir_issues_after_the_reversal_was_planned() {
        let mut table = table();
        table.issue("r", 3).expect("it fits");
        let made = apply(&mut table, &subdivide(vec![new_region("heir", "0"), new_region("other", "1")], false));
        let reversal = table.undo(&made.changes, false).expect("nothing has been issued since");
        let plan = table.plan(&reversal).expect("legal");
        table.issue("heir", 1).expect("it fits");
        let before = table.clone();
        assert_eq!(table.apply(&plan).map_err(|refusal| refusal.code()), Err("region-populated"));
        assert_eq!(table, before);
    }

    #[test]
    fn err_the_heir_of_an_external_region_may_be_in_use() {
        let mut table = Table::new(12).expect("a width");
        let (place, order) = (Place::At("01".parse().expect("a prefix")), Order::External);
        let start = Start { order, ..Start::default() };
        apply(&mut table, &Edit::Create { name: name("r"), suffix: 4, place, start });
        let wider = NewRegion { suffix: Some(8), ..new_region("heir", "0") };
        let made = apply(&mut table, &subdivide(vec![wider, new_region("other", "1")], false));
        // `r` has a suffix of four bits. Without this refusal, numbers that were chosen for a suffix of eight bits
        // would extend into the zone of `r`, and a split could give these bits to another region.
        assert_eq!(refusal(&table, &made.changes), "use-unknown");
    }

    #[test]
    fn ok_edits_are_reverted() {
        let cap = PolicyPatch { cap: Some(Some(Count::Below(9))), ..PolicyPatch::default() };
        let zero = || vec![NewRegion { suffix: None, ..new_region("zero", "0") }];
        for (edit, inverse) in [
            (create("s", "10"), "delete"),
            (Edit::Expand { name: name("r"), by: 2 }, "shrink"),
            (Edit::Shrink { name: name("r"), by: 2 }, "expand"),
            (Edit::Delegate { name: name("r") }, "undelegate"),
            (Edit::Delete { name: name("r"), unused: false }, "revert"),
            (split(1, &[]), "revert"),
            (split(2, &[("s", "01"), ("t", "11")]), "revert"),
            (subdivide(vec![new_region("s", "1")], false), "revert"),
            (subdivide(zero(), true), "revert"),
            (subdivide(vec![new_region("s", "0")], true), "revert"),
            (subdivide(vec![new_region("s", "1"), new_region("zero", "0")], false), "revert"),
            (update(Patch { name: Some(name("s")), ..Patch::default() }), "rename"),
            (update(Patch { sealed: Some(true), ..Patch::default() }), "unseal"),
            (update(Patch { owner: Some(name("ops")), policy: cap, ..Patch::default() }), "update"),
            (update(Patch { labels: [(name("team"), Some(name("a")))].into(), ..Patch::default() }), "update"),
        ] {
            let (before, mut table) = (table(), table());
            let plan = apply(&mut table, &edit);
            let after = table.clone();
            let undo = table.undo(&plan.changes, false).expect("it can be reverted");
            assert_eq!(undo.operation(), inverse, "{edit:?}");
            let undone = apply(&mut table, &undo);
            assert_eq!(shapes(&table), shapes(&before), "{edit:?}");
            assert_eq!(table.free_blocks(Prefix::EMPTY), before.free_blocks(Prefix::EMPTY), "{edit:?}");
            assert_eq!(table.check(), Ok(()), "{edit:?}");
            // A replica that reads the edits from the history gets the same table.
            let mut follower = after.clone();
            follower.apply(&Plan::made(undone.revision, undone.changes.clone())).expect("it fits");
            assert_eq!(follower, table, "{edit:?}");
            assert_eq!(Plan::made(undone.revision, undone.changes.clone()).freed, undone.freed, "{edit:?}");
            // Undo the undo.
            let redo = table.undo(&undone.changes, false).expect("it can be reverted");
            apply(&mut table, &redo);
            assert_eq!(table.check(), Ok(()), "{edit:?}");
            let places = |table: &Table| -> Vec<_> {
                let mut shapes = shapes(table);
                let past = |it: &Region| Past { prefixes: Vec::new(), ..it.past().clone() };
                shapes.iter_mut().for_each(|it| it.set_past(past(it)));
                shapes
            };
            assert_eq!(places(&table), places(&after), "{edit:?}");
        }
    }

    #[test]
    fn ok_a_region_that_was_created_in_place_of_another_is_reverted_with_the_split() {
        let mut table = Table::new(6).expect("a width");
        let at = |prefix: &str| Place::At(prefix.parse().expect("a prefix"));
        for (region, prefix) in [("a", "0"), ("b", "1")] {
            apply(
                &mut table,
                &Edit::Create { name: name(region), suffix: 2, place: at(prefix), start: Start::default() },
            );
        }
        let before = table.clone();
        let place = Place::Chosen { zone: Zone::Exactly(0), donor: Donate::Named(name("b")) };
        let plan = apply(&mut table, &Edit::Create { name: name("c"), suffix: 2, place, start: Start::default() });
        assert_eq!(plan.donor.as_deref(), Some("b"));
        let undo = table.undo(&plan.changes, false).expect("c is unused");
        apply(&mut table, &undo);
        assert_eq!((shapes(&table), table.check()), (shapes(&before), Ok(())));
    }

    #[test]
    fn ok_a_counter_never_goes_back() {
        let both = vec![new_region("s", "1"), NewRegion { suffix: None, ..new_region("zero", "0") }];
        for (edit, heir) in [(split(2, &[("s", "01")]), "r"), (subdivide(both, false), "zero")] {
            let mut table = table();
            let ids: Vec<u128> = (0..3).map(|suffix| table.compose("r", suffix).expect("it fits")).collect();
            table.issue("r", 3).expect("16 fit");
            let plan = apply(&mut table, &edit);
            let mut issued = table.clone();
            issued.issue(heir, 2).expect("16 fit");
            // After the subdivision, a reversal would move an identifier out of the all-zero subregion.
            let undone = issued.undo(&plan.changes, false);
            assert_eq!(undone.is_ok(), heir == "r", "{undone:?}");
            if let Ok(undo) = undone {
                apply(&mut issued, &undo);
                assert_eq!(issued.issue("r", 1), Ok(5), "{edit:?}");
            }
            let undo = table.undo(&plan.changes, false).expect("nothing has been issued since");
            apply(&mut table, &undo);
            assert_eq!(table.check(), Ok(()), "{edit:?}");
            for id in ids {
                let found = table.classify(id).expect("wide enough");
                assert_eq!(
                    (found.path.last().map(|it| &*it.name), found.issued()),
                    (Some("r"), Some(true)),
                    "{edit:?}"
                );
            }
            assert_eq!(table.issue("r", 1), Ok(3), "{edit:?}: the counter continues");
        }
    }

    #[test]
    fn err_edits_that_no_edit_reverts() {
        let next = Some(Count::Below(3));
        let patch = Patch { next, owner: Some(name("ops")), ..Patch::default() };
        for (edit, expected) in [
            (update(patch), NotUndone::Declared),
            (update(Patch { sealed: Some(false), ..Patch::default() }), NotUndone::NoEdit),
        ] {
            let mut table = table();
            let plan = apply(&mut table, &edit);
            assert_eq!(table.undo(&plan.changes, plan.declared.is_some()), Err(expected), "{edit:?}");
        }
        assert_eq!(table().undo(&[], false), Err(NotUndone::NoEdit));
    }

    fn refusal(table: &Table, changes: &[Change]) -> &'static str {
        match table.undo(changes, false) {
            Err(NotUndone::Refused(refusal)) => refusal.code(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn err_an_edit_whose_numbers_are_in_use_or_that_was_followed_by_another() {
        let mut table = table();
        let plan = apply(&mut table, &Edit::Expand { name: name("r"), by: 1 });
        table.issue("r", 17).expect("32 fit");
        assert_eq!(refusal(&table, &plan.changes), "suffix-in-use", "17 need five bits");
        apply(&mut table, &update(Patch { sealed: Some(true), ..Patch::default() }));
        assert_eq!(refusal(&table, &plan.changes), "edited-since");
        let plan = apply(&mut table, &create("s", "10"));
        table.issue("s", 1).expect("16 fit");
        assert_eq!(refusal(&table, &plan.changes), "region-populated");
    }

    #[test]
    fn err_a_split_whose_prefixes_are_in_use() {
        let mut table = table();
        let plan = apply(&mut table, &split(2, &[("s", "01")]));
        let mut issued = table.clone();
        issued.issue("s", 1).expect("4 fit");
        assert_eq!(refusal(&issued, &plan.changes), "region-populated");
        let mut taken = table.clone();
        apply(&mut taken, &create("t", "0110"));
        assert_eq!(refusal(&taken, &plan.changes), "prefix-conflict");
        apply(&mut table, &Edit::Delete { name: name("s"), unused: false });
        assert_eq!(refusal(&table, &plan.changes), "edited-since");
    }

    /// The region was partial before it closed. The only subregion that it had at that time has been deleted, so the
    /// region cannot become partial again: no daemon would accept such a table.
    #[test]
    fn err_a_region_that_would_be_partial_without_a_subregion() {
        let mut table = table();
        apply(&mut table, &subdivide(vec![new_region("a", "1")], false));
        let closed = apply(&mut table, &subdivide(vec![NewRegion { suffix: None, ..new_region("heir", "0") }], true));
        let mut kept = table.clone();
        let reversal = kept.undo(&closed.changes, false).expect("a is there");
        apply(&mut kept, &reversal);
        assert_eq!(kept.check(), Ok(()));
        apply(&mut table, &Edit::Delete { name: name("a"), unused: false });
        assert_eq!(refusal(&table, &closed.changes), "edited-since");
        apply(&mut table, &Edit::Delete { name: name("heir"), unused: false });
        assert_eq!((table.check(), table.named("r").map(|r| r.kind)), (Ok(()), Ok(Kind::Open)), "this works instead");
    }

    #[test]
    fn err_subdivisions_and_deletions_whose_places_changed() {
        let mut table = table();
        let one = |region: &str, extension: &str| Edit::Subdivide {
            name: name("r"),
            by: 2,
            new_regions: vec![new_region(region, extension)],
            reserve_others: false,
        };
        let first = apply(&mut table, &one("a", "01"));
        let second = apply(&mut table, &one("b", "10"));
        assert_eq!(refusal(&table, &first.changes), "has-subregions", "b is there as well");
        let deleted = apply(&mut table, &Edit::Delete { name: name("b"), unused: false });
        assert_eq!(refusal(&table, &second.changes), "edited-since");
        let mut taken = table.clone();
        apply(&mut taken, &one("c", "10"));
        assert_eq!(refusal(&taken, &deleted.changes), "prefix-conflict");
        apply(&mut table, &Edit::Delete { name: name("a"), unused: false });
        assert_eq!(refusal(&table, &deleted.changes), "edited-since", "r is open");
        let deleted = apply(&mut table, &Edit::Delete { name: name("r"), unused: false });
        let mut taken = table.clone();
        apply(&mut taken, &create("q", "0"));
        assert_eq!(refusal(&taken, &deleted.changes), "prefix-conflict");
        apply(&mut table, &create("r", "1"));
        assert_eq!(refusal(&table, &deleted.changes), "name-taken");
    }
}
