//! Checks whether an edit that is sent again with the same request ID is the edit that was made.

use crate::{
    attributes::Patch,
    change::Change,
    count::Count,
    edit::{Edit, Imported, NewRegion, Place},
    region::Region,
    table::Table,
};

impl Edit {
    /// Returns whether this edit could have made `changes`. If `changes` declared suffixes as issued, `declared` is the
    /// counter after the declaration. An edit of another kind, of another region, or with another size, name, prefix or
    /// value is a different edit.
    pub fn can_have_made(&self, changes: &[Change], declared: Option<Count>) -> bool {
        let sides = |name: &str| {
            let of_name =
                |change: &&Change| change.before.as_ref().or(change.after.as_ref()).is_some_and(|it| it.name == name);
            changes.iter().find(of_name).map(|change| (change.before.as_ref(), change.after.as_ref()))
        };
        match (self, sides(self.subject())) {
            (Self::Create { suffix, place, .. }, Some((None, Some(made)))) => {
                made.suffix == *suffix && !matches!(place, Place::At(prefix) if made.prefix != *prefix)
            }
            (Self::Expand { by, .. }, Some((Some(before), Some(after)))) => {
                after.suffix == before.suffix.saturating_add(*by)
            }
            (Self::Shrink { by, .. }, Some((Some(before), Some(after)))) => {
                before.suffix == after.suffix.saturating_add(*by)
            }
            (Self::Split { by, new_regions, .. }, Some((Some(before), Some(after)))) => {
                after.prefix.len() == before.prefix.len().saturating_add(*by) && all_made(new_regions, changes)
            }
            (Self::Subdivide { new_regions, .. }, Some((Some(_), Some(_)))) => all_made(new_regions, changes),
            (Self::Update { patch, .. }, Some((Some(before), Some(after)))) => {
                is_patched(before, after, patch, declared)
            }
            (Self::Delete { .. }, Some((Some(_), None))) => true,
            (Self::Import { regions }, _) => regions.iter().all(|imported| {
                let mut created =
                    changes.iter().filter(|change| change.before.is_none()).filter_map(|it| it.after.as_ref());
                created.any(|made| made.name == imported.region.name && made.prefix == imported.region.prefix)
            }),
            (Self::ExpandIfDue { .. } | Self::Delegate { .. } | Self::Undelegate { .. }, Some((Some(_), Some(_)))) => {
                true
            }
            _ => false,
        }
    }

    /// Returns the names of the new regions for which the edit declares suffixes as issued, each with the number of
    /// these suffixes.
    pub fn floors(&self) -> impl Iterator<Item = (&str, Count)> {
        let (created, new, imported) = match self {
            Self::Create { name, start, .. } => (Some((name.as_str(), start.next)), &[][..], &[][..]),
            Self::Split { new_regions, .. } | Self::Subdivide { new_regions, .. } => (None, &new_regions[..], &[][..]),
            Self::Import { regions } => (None, &[][..], &regions[..]),
            _ => (None, &[][..], &[][..]),
        };
        let new = new.iter().map(|new: &NewRegion| (new.name.as_str(), new.start.next));
        let imported =
            imported.iter().map(|imported: &Imported| (imported.region.name.as_str(), *imported.region.issued));
        created.into_iter().chain(new).chain(imported).filter(|(_, floor)| *floor != Count::ZERO)
    }

    /// Returns whether the counters of the regions that the edit created include all suffixes that the edit declares as
    /// issued. The history does not contain counters, but a counter never goes back: if the result is false, another
    /// edit made `changes`.
    pub fn floors_hold(&self, table: &Table, changes: &[Change]) -> bool {
        let made = |name: &str| {
            let mut created =
                changes.iter().filter(|change| change.creates()).filter_map(|change| change.after.as_ref());
            created.find(|made| made.name == name).and_then(|made| table.get(made.number))
        };
        self.floors()
            .all(|(name, floor)| made(name).is_some_and(|made| floor <= *table.heir(made).unwrap_or(made).issued))
    }
}

fn all_made(new_regions: &[NewRegion], changes: &[Change]) -> bool {
    new_regions.iter().all(|new| {
        let made = changes.iter().filter(|change| change.before.is_none()).filter_map(|change| change.after.as_ref());
        let is_same = |made: &Region| made.name == new.name && new.suffix.is_none_or(|suffix| suffix == made.suffix);
        made.into_iter().any(is_same)
    })
}

fn is_patched(before: &Region, after: &Region, patch: &Patch, declared: Option<Count>) -> bool {
    let Patch { name, sealed, owner, description, labels, policy, next } = patch;
    name.as_ref().is_none_or(|name| *name == after.name)
        && sealed.is_none_or(|sealed| sealed == after.sealed)
        && owner.as_ref().is_none_or(|owner| *owner == after.texts().owner)
        && description.as_ref().is_none_or(|description| *description == after.texts().description)
        && labels.iter().all(|(label, value)| after.texts().labels.get(label) == value.as_ref())
        && before.policy().changed(&before.name, policy).is_ok_and(|policy| policy == *after.policy())
        && next.is_none_or(|next| declared.is_some_and(|declared| next <= declared))
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec};

    use super::*;
    use crate::{PolicyPatch, Start, Table, Zone, edit::Donate};

    fn update(patch: Patch) -> Edit {
        Edit::Update { name: "r".to_string(), patch }
    }

    fn next(count: u128) -> Edit {
        update(Patch { next: Some(Count::Below(count)), ..Patch::default() })
    }

    fn create(suffix: u8, place: Place) -> Edit {
        Edit::Create { name: "r".to_string(), suffix, place, start: Start::default() }
    }

    #[test]
    fn ok_an_edit_is_the_one_that_was_made_only_with_the_same_values() {
        let chosen = || Place::Chosen { zone: Zone::UpTo(20), donor: Donate::Never };
        let mut table = Table::new(64).expect("a width");
        let plan = table.plan(&create(20, Place::At("101".parse().expect("a prefix")))).expect("legal");
        for (edit, expected) in [
            (create(20, chosen()), true),
            (create(20, Place::At("101".parse().expect("a prefix"))), true),
            (create(21, chosen()), false),
            (create(20, Place::At("100".parse().expect("a prefix"))), false),
            (next(5), false),
        ] {
            assert_eq!(edit.can_have_made(&plan.changes, None), expected, "{edit:?}");
        }
        table.apply(&plan).expect("legal");
        let expand = |by| Edit::Expand { name: "r".to_string(), by };
        let plan = table.plan(&expand(2)).expect("legal");
        assert!(expand(2).can_have_made(&plan.changes, None));
        assert!(!expand(3).can_have_made(&plan.changes, None));
        let new = |suffix| NewRegion {
            name: "n".to_string(),
            suffix: Some(suffix),
            extension: None,
            start: Start::default(),
        };
        let split = |suffix| Edit::Split { name: "r".to_string(), by: 1, new_regions: vec![new(suffix)] };
        let plan = table.plan(&split(8)).expect("legal");
        assert!(split(8).can_have_made(&plan.changes, None));
        assert!(!split(9).can_have_made(&plan.changes, None));
    }

    #[test]
    fn ok_an_update_is_the_one_that_was_made_only_with_the_same_values() {
        let mut table = Table::new(64).expect("a width");
        let plan = table.plan(&create(20, Place::At("101".parse().expect("a prefix")))).expect("legal");
        table.apply(&plan).expect("legal");
        let cap = |count| {
            update(Patch {
                policy: PolicyPatch { cap: Some(Some(Count::Below(count))), ..PolicyPatch::default() },
                ..Patch::default()
            })
        };
        let owner = |owner: &str| update(Patch { owner: Some(owner.to_string()), ..Patch::default() });
        let label = |value: Option<&str>| {
            let labels = [("team".to_string(), value.map(ToString::to_string))].into();
            update(Patch { labels, ..Patch::default() })
        };
        for (made, same, other) in [
            (cap(5), cap(5), cap(6)),
            (owner("a"), owner("a"), owner("b")),
            (label(Some("x")), label(Some("x")), label(None)),
        ] {
            let plan = table.plan(&made).expect("legal");
            assert!(same.can_have_made(&plan.changes, None), "{same:?}");
            assert!(!other.can_have_made(&plan.changes, None), "{other:?}");
        }
        let plan = table.plan(&next(5000)).expect("legal");
        let declared = Some(Count::Below(5000));
        assert!(next(5000).can_have_made(&plan.changes, declared));
        assert!(!next(9000).can_have_made(&plan.changes, declared));
    }
}
