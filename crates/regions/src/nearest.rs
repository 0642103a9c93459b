//! Finds the legal edit that is closest to a refused one.
//!
//! The part of the edit that breaks a rule is changed as little as possible. The result is planned again, because it
//! may break another rule. So a suggestion is always legal, although this module does not repeat the rules.

use alloc::{string::String, vec::Vec};

use crate::{
    attributes::{AutoExpand, Patch},
    edit::{Donate, Edit, NewRegion, Place, Zone},
    limits::BITS_MAX,
    plan::Plan,
    prefix::{BadPrefix, Prefix},
    refusal::Refusal,
    region::Kind,
    table::Table,
};

/// The maximum number of times that an edit is changed for one suggestion. An edit rarely breaks more rules than this.
const RULES_MAX: usize = 8;

impl Table {
    /// Returns the legal edit that is closest to a refused one, and its plan. Returns `None` if no such edit is known.
    pub fn nearest(&self, edit: &Edit, refusal: &Refusal) -> Option<(Edit, Plan)> {
        let mut near = amended(self, edit, refusal)?;
        for _ in 0..RULES_MAX {
            match self.plan(&near) {
                Ok(plan) => return (!plan.changes_nothing()).then_some((near, plan)),
                Err(refusal) => near = amended(self, &near, &refusal)?,
            }
        }
        None
    }
}

/// Returns the edit, changed so that it no longer breaks the rule that the refusal names.
fn amended(table: &Table, edit: &Edit, refusal: &Refusal) -> Option<Edit> {
    match (edit.clone(), refusal) {
        (edit, Refusal::Closed { heir, .. }) => of_region(edit, heir),
        (Edit::Create { name, suffix, place, start }, refusal) => {
            let (suffix, place) = created(table, suffix, place, refusal)?;
            Some(Edit::Create { name, suffix, place, start })
        }
        (Edit::Expand { name, .. }, Refusal::NoBits) => Some(Edit::Expand { name, by: 1 }),
        (Edit::Expand { name, .. }, Refusal::CannotExpand { usable: by @ 1.., .. }) => {
            Some(Edit::Expand { name, by: *by })
        }
        (Edit::Shrink { name, .. }, Refusal::NoBits) => Some(Edit::Shrink { name, by: 1 }),
        (
            Edit::Shrink { name, .. },
            Refusal::SuffixTooNarrow { most: by @ 1.., .. } | Refusal::SuffixInUse { most: Some(by @ 1..), .. },
        ) => Some(Edit::Shrink { name, by: *by }),
        (Edit::Delegate { name }, Refusal::SuffixEmpty { .. }) => Some(Edit::Expand { name, by: 1 }),
        (Edit::Split { name, by, new_regions }, Refusal::IsSubregion { .. }) => {
            Some(Edit::Subdivide { name, by, new_regions, reserve_others: false })
        }
        (Edit::Split { name, by, new_regions }, refusal) => {
            let (by, new_regions) = divided(table, &name, by, new_regions, refusal)?;
            Some(Edit::Split { name, by, new_regions })
        }
        (Edit::Subdivide { name, by, new_regions, reserve_others: false }, Refusal::ZeroExtension { .. }) => {
            Some(Edit::Subdivide { name, by, new_regions, reserve_others: true })
        }
        (Edit::Subdivide { name, by, new_regions, reserve_others }, refusal) => {
            let (by, new_regions) = divided(table, &name, by, new_regions, refusal)?;
            Some(Edit::Subdivide { name, by, new_regions, reserve_others })
        }
        (Edit::Update { name, patch }, refusal) => Some(Edit::Update { name, patch: patched(patch, refusal)? }),
        _ => None,
    }
}

/// Returns the same edit for the region `name`.
fn of_region(edit: Edit, name: &str) -> Option<Edit> {
    let name = name.into();
    match edit {
        Edit::Expand { by, .. } => Some(Edit::Expand { name, by }),
        Edit::Shrink { by, .. } => Some(Edit::Shrink { name, by }),
        Edit::Update { patch, .. } => Some(Edit::Update { name, patch }),
        _ => None,
    }
}

/// Returns a suffix width and a place with which the new region no longer breaks the rule that `refusal` names.
fn created(table: &Table, suffix: u8, place: Place, refusal: &Refusal) -> Option<(u8, Place)> {
    match (place, refusal) {
        (place, Refusal::SuffixBits { max, .. }) => Some((*max, place)),
        (Place::At(prefix), Refusal::PrefixConflict { .. }) => {
            let block = table.free().smallest(prefix.len())?;
            Some((suffix, Place::At(block.zeros(prefix.len() - block.len())))) // OK because the block is not longer
        }
        (Place::Chosen { zone, donor }, Refusal::NoFreePrefix(help)) => match (donor, help.donors.first()) {
            (Donate::Never | Donate::Named(_), Some(donor)) => {
                Some((suffix, Place::Chosen { zone, donor: Donate::Named(donor.region.clone()) }))
            }
            (donor, _) => match (zone, help.widest_zone(suffix)) {
                // The suffix holds the identifiers that are needed now, so reduce the zone if that is enough.
                (Zone::Exactly(zone), Some(widest)) if widest < zone => {
                    Some((suffix, Place::Chosen { zone: Zone::Exactly(widest), donor }))
                }
                _ => {
                    let widest = help.widest_suffix().filter(|widest| *widest < suffix)?;
                    Some((widest, Place::Chosen { zone, donor }))
                }
            },
        },
        _ => None,
    }
}

/// Returns a number of bits and new regions with which the split or subdivision no longer breaks the rule that
/// `refusal` names.
fn divided(
    table: &Table,
    name: &str,
    by: u8,
    mut new_regions: Vec<NewRegion>,
    refusal: &Refusal,
) -> Option<(u8, Vec<NewRegion>)> {
    let region = table.named(name).ok()?;
    let mut unplace = |is_bad: &dyn Fn(&NewRegion, Prefix) -> bool| {
        let bad = new_regions.iter_mut().filter(|new| new.extension.is_some_and(|extension| is_bad(new, extension)));
        bad.for_each(|new| new.extension = None);
    };
    let by = match refusal {
        Refusal::NoBits => 1,
        Refusal::ZoneTooSmall { zone: zone @ 1.., .. } => *zone,
        Refusal::LevelMismatch { present, .. } => *present,
        Refusal::BadPrefix(BadPrefix::NoneLeft { .. }) if region.kind == Kind::Open => by.checked_add(1)?,
        Refusal::BadPrefix(BadPrefix::Length { .. }) => by,
        Refusal::BadPrefix(BadPrefix::AllZero) => {
            unplace(&|_, extension| extension.is_zero());
            by
        }
        Refusal::ExtensionTwice { second, .. } => {
            unplace(&|new, _| new.name == *second);
            by
        }
        Refusal::PrefixConflict { prefix, .. } => {
            unplace(&|_, extension| extension == prefix.rest(region.prefix.len()));
            by
        }
        Refusal::SuffixBits { region: new, max: bits, .. }
        | Refusal::HeirTooNarrow { region: new, needed: bits, .. } => {
            set_suffix(&mut new_regions, new, *bits)?;
            return Some((by, new_regions));
        }
        Refusal::SuffixMissing { name: new } => {
            set_suffix(&mut new_regions, new, region.suffix)?;
            return Some((by, new_regions));
        }
        _ => return None,
    };
    // An extension with a different number of bits than the edit would be invalid.
    unplace(&|_, extension| extension.len() != by);
    Some((by, new_regions))
}

/// Sets the suffix of the new region with this name.
fn set_suffix(new_regions: &mut [NewRegion], name: &String, bits: u8) -> Option<()> {
    new_regions.iter_mut().find(|new| new.name == *name).map(|new| new.suffix = Some(bits))
}

/// Returns the changes with which the update no longer breaks the rule that `refusal` names.
fn patched(mut patch: Patch, refusal: &Refusal) -> Option<Patch> {
    let auto = patch.policy.auto_expand;
    let until = |max_suffix| auto.flatten().map(|auto| Some(AutoExpand { max_suffix, ..auto }));
    match refusal {
        Refusal::StrictAndBounds { bounds: None, .. } => patch.policy.bounds = Some(None),
        Refusal::StrictAndBounds { bounds: Some(_), .. } => patch.policy.strict = Some(false),
        Refusal::ExpandsBeyond { most, .. } => patch.policy.auto_expand = Some(until(*most)?),
        Refusal::ExpandsNever { suffix, most, .. } if most > suffix => {
            patch.policy.auto_expand = Some(until(BITS_MAX)?)
        }
        Refusal::CapOfZero { .. } => {
            (patch.policy.cap, patch.sealed) = (None, Some(true));
        }
        _ => return None,
    }
    Some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChunkPolicy, Count, PolicyPatch, Start};

    fn apply(table: &mut Table, edit: &Edit) {
        let plan = table.plan(edit).expect("a legal edit");
        table.apply(&plan).expect("a fresh plan");
    }

    fn create(name: &str, suffix: u8, place: Place) -> Edit {
        Edit::Create { name: name.into(), suffix, place, start: Start::default() }
    }

    fn at(text: &str) -> Place {
        Place::At(text.parse().expect("a prefix"))
    }

    fn new_region(name: &str, suffix: Option<u8>, extension: Option<&str>) -> NewRegion {
        let extension = extension.map(|text| text.parse().expect("an extension"));
        NewRegion { name: name.into(), suffix, extension, start: Start::default() }
    }

    fn split(by: u8, new_regions: &[NewRegion]) -> Edit {
        Edit::Split { name: "a".into(), by, new_regions: new_regions.to_vec() }
    }

    fn subdivide(name: &str, by: u8, new_regions: &[NewRegion], reserve_others: bool) -> Edit {
        Edit::Subdivide { name: name.into(), by, new_regions: new_regions.to_vec(), reserve_others }
    }

    fn policy(name: &str, policy: PolicyPatch) -> Edit {
        Edit::Update { name: name.into(), patch: Patch { policy, ..Patch::default() } }
    }

    /// Returns a table of 8 bits: `a` has a zone of 3 bits and 5 issued suffixes, `p` has the subregion `s`, `c` is
    /// closed and has the heir `h`, and `n` has a suffix of 0 bits.
    fn table() -> Table {
        let mut table = Table::new(8).expect("a width");
        apply(&mut table, &create("a", 4, at("0")));
        apply(&mut table, &create("p", 2, at("100")));
        apply(&mut table, &subdivide("p", 2, &[new_region("s", Some(1), Some("01"))], false));
        apply(&mut table, &create("c", 2, at("101")));
        apply(&mut table, &subdivide("c", 1, &[new_region("h", None, Some("0"))], true));
        apply(&mut table, &create("n", 0, at("1100")));
        table.issue("a", 5).expect("room");
        table
    }

    #[track_caller]
    fn check(edit: Edit, expected: Option<Edit>) {
        let table = table();
        let refusal = table.plan(&edit).expect_err("refused");
        let near = table.nearest(&edit, &refusal);
        assert_eq!(near.as_ref().map(|(near, _)| near), expected.as_ref(), "{refusal}");
        if let Some((near, plan)) = near {
            assert_eq!(table.plan(&near), Ok(plan));
        }
    }

    #[test]
    fn ok_sizes_become_the_largest_possible() {
        let expand = |name: &str, by| Edit::Expand { name: name.into(), by };
        let shrink = |name: &str, by| Edit::Shrink { name: name.into(), by };
        check(expand("a", 9), Some(expand("a", 3)));
        check(expand("a", 0), Some(expand("a", 1)));
        check(expand("s", 200), Some(expand("s", 2)));
        check(expand("c", 1), Some(expand("h", 1)));
        check(expand("c", 9), Some(expand("h", 2)));
        check(expand("nothing", 1), None);
        check(shrink("a", 2), Some(shrink("a", 1)));
        check(shrink("a", 9), Some(shrink("a", 1)));
        check(shrink("n", 1), None);
        check(Edit::Delegate { name: "n".into() }, Some(expand("n", 1)));
        check(Edit::Delegate { name: "a".into() }, None);
        check(Edit::Delete { name: "a".into(), unused: false }, None);
    }

    #[test]
    fn ok_a_new_region_gets_a_free_place() {
        let chosen = |zone, donor| Place::Chosen { zone: Zone::Exactly(zone), donor };
        let named = |name: &str| Donate::Named(name.into());
        check(create("x", 2, at("010")), Some(create("x", 2, at("111"))));
        check(create("x", 6, at("010")), Some(create("x", 5, at("111"))));
        check(create("x", 1, at("1")), None);
        check(create("x", 6, chosen(0, Donate::Never)), Some(create("x", 6, chosen(0, named("a")))));
        check(create("x", 6, chosen(0, named("n"))), Some(create("x", 6, chosen(0, named("a")))));
        check(create("x", 7, chosen(0, Donate::Best)), Some(create("x", 5, chosen(0, Donate::Best))));
        check(create("x", 2, chosen(7, Donate::Best)), Some(create("x", 2, chosen(3, Donate::Best))));
        check(create("x", 6, chosen(7, Donate::Best)), None);
        check(create("a", 2, at("111")), None);
    }

    #[test]
    fn ok_new_regions_of_a_division_get_free_extensions() {
        let (x, y) = (|extension| new_region("x", Some(1), extension), |extension| new_region("y", Some(1), extension));
        check(split(9, &[x(Some("000000001"))]), Some(split(3, &[x(None)])));
        check(split(0, &[x(None)]), Some(split(1, &[x(None)])));
        check(split(1, &[x(None), y(None)]), Some(split(2, &[x(None), y(None)])));
        check(split(2, &[x(Some("00"))]), Some(split(2, &[x(None)])));
        check(split(2, &[x(Some("1")), y(Some("01"))]), Some(split(2, &[x(None), y(Some("01"))])));
        check(split(2, &[x(Some("01")), y(Some("01"))]), Some(split(2, &[x(Some("01")), y(None)])));
        let wide = |bits| new_region("w", Some(bits), None);
        check(split(2, &[wide(9)]), Some(split(2, &[wide(5)])));
        check(split(2, &[new_region("m", None, None)]), Some(split(2, &[new_region("m", Some(4), None)])));
        let split_of_subregion = Edit::Split { name: "s".into(), by: 1, new_regions: [x(None)].to_vec() };
        check(split_of_subregion, Some(subdivide("s", 1, &[x(None)], false)));
        check(subdivide("p", 1, &[x(None)], false), Some(subdivide("p", 2, &[x(None)], false)));
        check(subdivide("p", 2, &[x(Some("01"))], false), Some(subdivide("p", 2, &[x(None)], false)));
        let heir_of_a = new_region("x", Some(3), Some("0"));
        check(subdivide("a", 1, &[x(Some("0"))], false), Some(subdivide("a", 1, &[heir_of_a], true)));
        let heir = |bits| new_region("heir", Some(bits), Some("00"));
        check(subdivide("a", 2, &[heir(4)], false), Some(subdivide("a", 2, &[heir(4)], true)));
        check(subdivide("a", 2, &[heir(1)], true), Some(subdivide("a", 2, &[heir(3)], true)));
    }

    #[test]
    fn ok_policies_lose_the_part_that_has_no_effect() {
        let auto = |max_suffix| {
            let auto = AutoExpand { at_percent: 80, by_bits: 1, max_suffix };
            policy("a", PolicyPatch { auto_expand: Some(Some(auto)), ..PolicyPatch::default() })
        };
        check(auto(9), Some(auto(7)));
        check(auto(3), Some(auto(BITS_MAX)));
        let mut narrow = Table::new(4).expect("a width");
        apply(&mut narrow, &create("a", 4, at("")));
        let refusal = narrow.plan(&auto(3)).expect_err("refused");
        assert_eq!(narrow.nearest(&auto(3), &refusal), None, "a region without a zone never expands");
        let seal = Patch { sealed: Some(true), ..Patch::default() };
        let none = PolicyPatch { cap: Some(Some(Count::ZERO)), ..PolicyPatch::default() };
        check(policy("a", none), Some(Edit::Update { name: "a".into(), patch: seal }));
        let (strict, bounds) = (Some(true), Some(Some((1, 2))));
        let mut table = table();
        apply(&mut table, &policy("a", PolicyPatch { bounds, ..PolicyPatch::default() }));
        let edit = policy("a", PolicyPatch { strict, ..PolicyPatch::default() });
        let refusal = table.plan(&edit).expect_err("refused");
        let near = table.nearest(&edit, &refusal).expect("an edit").0;
        assert_eq!(near, policy("a", PolicyPatch { strict, bounds: Some(None), ..PolicyPatch::default() }));
        apply(&mut table, &near);
        assert_eq!(table.named("a").expect("there").policy().chunk, ChunkPolicy::Strict);
        let edit = policy("a", PolicyPatch { bounds, ..PolicyPatch::default() });
        let refusal = table.plan(&edit).expect_err("refused");
        let near = table.nearest(&edit, &refusal).expect("an edit").0;
        assert_eq!(near, policy("a", PolicyPatch { strict: Some(false), bounds, ..PolicyPatch::default() }));
    }
}
