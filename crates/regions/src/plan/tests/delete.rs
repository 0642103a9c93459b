//! Tests of deletions.

use super::*;
use crate::{Kind, RegionNumber};

fn delete(name: &str) -> Edit {
    Edit::Delete { name: name.into(), unused: false }
}

#[test]
fn err_delete() {
    check(&delete("unknown"), "no-such-region", &[]);
    check(&delete("open"), "region-populated", &["9 suffixes", "\"open\""]);
    check(&delete("partial"), "has-subregions", &["deleted"]);
    check(&delete("closed"), "has-subregions", &[]);
    check(&delete("c0"), "is-heir", &["\"c0\"", "\"closed\""]);
    let mut table = sample();
    apply(&mut table, &Edit::Delegate { name: "p1".into() });
    check_rejected(table.plan(&delete("p1")), "delegated", &["p1"]);
    apply(&mut table, &Edit::Undelegate { name: "p1".into() });
    apply(&mut table, &delete("p1"));
    check_rejected(table.plan(&Edit::Undelegate { name: "open".into() }), "not-delegated", &["open"]);
}

#[test]
fn ok_a_number_is_not_used_again_but_name_and_prefix_are() {
    let mut table = sample();
    let next = table.next_number();
    apply(&mut table, &at("a", "000", 2));
    let plan = table.plan(&delete("a")).expect("legal");
    assert_eq!((&plan.freed[..], plan.subject().map(|region| region.number)), (&[prefix("000")][..], Some(next)));
    table.apply(&plan).expect("applied");
    assert!(table.named("a").is_err() && table.get(next).is_none());
    assert_eq!(table.free_blocks(Prefix::EMPTY), [prefix("000")]);
    apply(&mut table, &at("a", "000", 3));
    assert_eq!(table.named("a").expect("made").number, RegionNumber(next.0 + 1));
}

#[test]
fn ok_the_last_subregion_leaves_an_open_region() {
    let mut table = sample();
    let before = table.named("partial").expect("it").clone();
    apply(&mut table, &delete("p1"));
    let after = table.named("partial").expect("it");
    assert_eq!((after.kind, after.sub_bits, *after.issued), (Kind::Open, 0, *before.issued));
    assert_eq!((after.zone, after.suffix), (before.zone, before.suffix));
    // The all-zero subregion of a closed region is deleted last, and then the region replaces it.
    apply(&mut table, &delete("c1"));
    assert_eq!(table.named("closed").expect("it").kind, Kind::Closed);
    let policy = Policy { cap: Some(Count::Below(3)), ..Policy::default() };
    let (owner, sealed) = (Some("of the subregion".into()), Some(true));
    apply(&mut table, &update("closed", Patch { owner: Some("of the parent".into()), ..Patch::default() }));
    apply(&mut table, &update("c0", Patch { owner, sealed, policy: PolicyPatch::to(&policy), ..Patch::default() }));
    apply(&mut table, &delete("c0"));
    let after = table.named("closed").expect("it");
    assert_eq!((after.kind, after.zone, after.suffix, after.sealed), (Kind::Open, 3, 2, true));
    assert_eq!((*after.policy(), after.texts().owner.as_str()), (policy, "of the parent"));
    assert_eq!(table.issue("closed", 1), Ok(0));
}

/// A seal on a closed region or on its last subregion still covers the region when it has replaced that subregion.
#[test]
fn ok_a_closed_region_stays_sealed_when_it_continues_in_place_of_its_last_subregion() {
    for (of_parent, of_sub) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut table = sample();
        apply(&mut table, &delete("c1"));
        for (name, sealed) in [("closed", of_parent), ("c0", of_sub)].into_iter().filter(|(_, sealed)| *sealed) {
            apply(&mut table, &update(name, Patch { sealed: Some(sealed), ..Patch::default() }));
        }
        let is_covered = of_parent || of_sub;
        let covers = |table: &Table, name: &str| {
            let region = table.named(name).expect("there");
            Seal::over([(table, region)]).is_some()
        };
        assert_eq!(covers(&table, "c0"), is_covered);
        apply(&mut table, &delete("c0"));
        assert_eq!(covers(&table, "closed"), is_covered, "{of_parent} {of_sub}");
    }
}

#[test]
fn ok_a_seal_outlives_the_subregions() {
    let seal = || Patch { sealed: Some(true), ..Patch::default() };
    for (parent, subregions) in [("closed", ["c1", "c0"].as_slice()), ("partial", &["p1"])] {
        let mut table = sample();
        apply(&mut table, &update(parent, seal()));
        subregions.iter().for_each(|sub| apply(&mut table, &delete(sub)));
        let after = table.named(parent).expect("it");
        assert_eq!((after.kind, after.sealed), (Kind::Open, true), "{parent}");
    }
}

#[test]
fn err_a_suffix_issued_after_the_plan_was_made() {
    let mut table = sample();
    let plan = table.plan(&delete("p1")).expect("legal");
    table.issue("p1", 1).expect("two fit");
    let before = table.clone();
    assert_eq!(table.apply(&plan).map_err(|refusal| refusal.code()), Err("region-populated"));
    assert_eq!(table, before);
}

#[test]
fn err_the_numbers_of_an_external_region_may_be_in_use() {
    let mut table = sample();
    let start = Start { order: Order::External, ..Start::default() };
    apply(&mut table, &Edit::Create { name: "x".into(), suffix: 2, place: Place::At(prefix("000")), start });
    let narrow = |suffix: &str| Edit::Subdivide {
        name: "x".into(),
        by: 1,
        new_regions: new_regions(&[&format!("x0 0 {suffix}")]),
        reserve_others: true,
    };
    let plain = Patch { owner: Some("it".into()), ..Patch::default() };
    for edit in [delete("x"), Edit::Delegate { name: "x".into() }, shrink("x", 1), narrow("1")] {
        check_rejected(table.plan(&edit), "use-unknown", &["external"]);
    }
    for edit in [expand("x", 1), narrow("2"), narrow("3"), update("x", plain)] {
        table.plan(&edit).expect("no number leaves the region");
    }
    apply(&mut table, &Edit::Delete { name: "x".into(), unused: true });
}
