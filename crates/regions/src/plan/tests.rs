//! Tests of every rule that edits must follow, in the order of the checks. docs/regions.md lists the rules.

mod delete;
mod import;
mod places;
mod start;

use alloc::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use kent_ids::Stride;

use crate::{
    AutoExpand, ChunkPolicy, Count, Donate, Edit, NewRegion, Order, Pace, Patch, Place, Policy, PolicyPatch, Prefix,
    Refusal, Seal, Start, Table, Texts, Zone,
};

fn prefix(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}

fn at(name: &str, on: &str, suffix: u8) -> Edit {
    Edit::Create { name: name.into(), suffix, place: Place::At(prefix(on)), start: Start::default() }
}

fn chosen(name: &str, suffix: u8, zone: Zone, auto_split: bool) -> Edit {
    Edit::Create {
        name: name.into(),
        suffix,
        place: Place::Chosen { zone, donor: if auto_split { Donate::Best } else { Donate::Never } },
        start: Start::default(),
    }
}

fn expand(name: &str, by: u8) -> Edit {
    Edit::Expand { name: name.into(), by }
}

fn shrink(name: &str, by: u8) -> Edit {
    Edit::Shrink { name: name.into(), by }
}

/// Parses new regions written as `name extension suffix`, where `-` leaves out a value.
fn new_regions(texts: &[&str]) -> Vec<NewRegion> {
    let parse = |text: &&str| {
        let parts: Vec<&str> = text.split(' ').collect();
        let given = |at: usize| parts.get(at).filter(|part| **part != "-");
        NewRegion {
            name: parts[0].into(),
            extension: given(1).map(|bits| prefix(bits)),
            suffix: given(2).map(|bits| bits.parse().expect("a number of bits")),
            start: Start::default(),
        }
    };
    texts.iter().map(parse).collect()
}

fn split(name: &str, by: u8, new: &[&str]) -> Edit {
    Edit::Split { name: name.into(), by, new_regions: new_regions(new) }
}

fn subdivide(name: &str, by: u8, subs: &[&str]) -> Edit {
    Edit::Subdivide { name: name.into(), by, new_regions: new_regions(subs), reserve_others: false }
}

fn reserve(name: &str, by: u8, subs: &[&str]) -> Edit {
    Edit::Subdivide { name: name.into(), by, new_regions: new_regions(subs), reserve_others: true }
}

fn apply(table: &mut Table, edit: &Edit) {
    let plan = table.plan(edit).unwrap_or_else(|refusal| panic!("{edit:?}: {refusal}"));
    table.apply(&plan).expect("the plan is valid for its table");
    assert_eq!(table.check(), Ok(()), "{edit:?}");
}

/// Returns the table of a space of eight bits: `open` 1 | zzz | ssss with 9 issued; `partial` 01 | zzzz | ss with a
/// subregion `p1` on 0101; `closed` 001 with subregions `c0` and `c1`. 000 is free.
fn sample() -> Table {
    let mut table = Table::new(8).expect("a width");
    apply(&mut table, &at("open", "1", 4));
    apply(&mut table, &at("partial", "01", 2));
    apply(&mut table, &at("closed", "001", 2));
    apply(&mut table, &subdivide("partial", 2, &["p1 01 1"]));
    apply(&mut table, &subdivide("closed", 1, &["c0 0", "c1 1 0"]));
    table.issue("open", 9).expect("enough suffixes are left");
    table.issue("partial", 3).expect("enough suffixes are left");
    table
}

#[track_caller]
fn check(edit: &Edit, code: &str, help: &[&str]) {
    let table = sample();
    let refusal = table.plan(edit).expect_err("a refusal");
    let message = format!("{refusal}");
    assert_eq!(refusal.code(), code, "{edit:?}: {message}");
    for part in help {
        assert!(message.contains(part), "{edit:?}: {message:?} does not say {part:?}");
    }
    assert_eq!(table, sample());
}

#[test]
fn err_an_heir_that_is_too_narrow_says_whose_numbers_it_continues() {
    let narrow = subdivide("open", 1, &["a 0 3", "b 1 1"]);
    let expected =
        "\"a\" would continue the 9 numbers of \"open\", so its suffix needs at least 4 bits: 3 would be too few";
    check(&narrow, "suffix-in-use", &[expected]);
}

#[test]
fn err_names_come_first() {
    for name in ["", "a/b", "/"] {
        check(&at(name, &"1".repeat(9), 200), "bad-name", &["name"]);
        check(&split("unknown", 0, &["x 1 1", &format!("{name} 1 1")]), "bad-name", &[]);
        check(&subdivide("unknown", 0, &[&format!("{name} 1 1")]), "bad-name", &[]);
    }
    check(&at("c1", &"1".repeat(9), 200), "name-taken", &["c1"]);
    check(&split("unknown", 0, &["open 1 1"]), "name-taken", &["open"]);
    check(&subdivide("unknown", 0, &["x 0 1", "x 1 1"]), "name-taken", &["x"]);
}

#[test]
fn err_the_region_comes_second_and_the_number_of_bits_third() {
    for by in [0, 1, 255] {
        for edit in [expand("x", by), shrink("x", by), split("x", by, &[]), subdivide("x", by, &[])] {
            check(&edit, "no-such-region", &["x"]);
        }
    }
    for name in ["open", "closed", "c0"] {
        for edit in [expand(name, 0), shrink(name, 0), split(name, 0, &[]), subdivide(name, 0, &["y 1 1"])] {
            check(&edit, "range", &["at least 1"]);
        }
    }
}

#[test]
fn err_expand() {
    check(&expand("closed", 1), "closed", &["\"closed\" is closed", "\"c0\""]);
    check(&expand("open", 4), "zone-too-small", &["\"open\"", "3 bits"]);
    check(&expand("open", 255), "zone-too-small", &["3 bits", "255"]);
    check(&expand("partial", 3), "zone-too-small", &["4 bits", "2 can be used"]);
}

#[test]
fn err_shrink() {
    check(&shrink("closed", 1), "closed", &[]);
    check(&shrink("open", 5), "suffix-range", &["4 bits", "needs 4", "at most 0", "5"]);
    check(&shrink("open", 255), "suffix-range", &[]);
    check(&shrink("open", 1), "suffix-in-use", &["9", "4 bits", "3 would"]);
    check(&shrink("partial", 1), "suffix-in-use", &["2 bits"]);
}

#[test]
fn err_split() {
    check(&split("p1", 255, &[]), "is-subregion", &["\"partial\""]);
    check(&split("partial", 255, &[]), "has-subregions", &["2 bits"]);
    check(&split("closed", 255, &[]), "has-subregions", &["1 bit longer"]);
    check(&split("open", 4, &["x 1111 9"]), "zone-too-small", &["3 bits"]);
    check(&split("open", 255, &[]), "zone-too-small", &["3 bits"]);
    check(&split("open", 1, &["x 11 9"]), "bad-prefix", &["1 bit"]);
    check(&split("open", 1, &["x 0 1"]), "bad-prefix", &["all-zero"]);
    check(&split("open", 1, &["x 1 1", "y 1 1"]), "prefix-conflict", &["\"x\"", "extension 1"]);
    check(&split("open", 1, &["x", "y"]), "suffix-range", &["must be given"]);
    check(&split("open", 1, &["x - 1", "y - 1"]), "bad-prefix", &["only 1"]);
    check(&split("open", 1, &["x 1 7"]), "suffix-range", &["at most 6"]);
    check(&split("open", 1, &["x 1 255"]), "suffix-range", &["255"]);
}

#[test]
fn err_subdivide() {
    check(&subdivide("open", 4, &["x 1 9"]), "zone-too-small", &["3 bits"]);
    check(&subdivide("open", 255, &["x 1 9"]), "zone-too-small", &[]);
    check(&subdivide("partial", 1, &["x 1 9"]), "level-mismatch", &["2 bits", "1 bit was"]);
    check(&subdivide("closed", 255, &["x 1 9"]), "level-mismatch", &[]);
    check(&subdivide("partial", 2, &["x 1 9"]), "bad-prefix", &["2 bits"]);
    check(&subdivide("partial", 2, &["x 01 9"]), "prefix-conflict", &["\"p1\"", "0101"]);
    check(&subdivide("partial", 2, &["x 11 1", "y 11 9"]), "prefix-conflict", &["\"x\""]);
    check(&subdivide("partial", 2, &["x 11 5"]), "suffix-range", &["at most 4"]);
    check(&subdivide("partial", 2, &["x 11"]), "suffix-range", &["must be given"]);
    check(&subdivide("closed", 1, &["x - 1"]), "bad-prefix", &["only 2"]);
    check(&subdivide("partial", 2, &["x 00", "y 11 1"]), "zero-extension", &["1 of", "abstract"]);
    check(&subdivide("partial", 2, &["x 00 1", "y 11 1", "z 10 1"]), "suffix-in-use", &["2 bits", "1 would"]);
    check(&reserve("partial", 2, &["x 00 1"]), "suffix-in-use", &[]);
    check(&subdivide("open", 1, &[]), "range", &["at least one subregion"]);
    check(&reserve("closed", 1, &[]), "range", &["at least one subregion"]);
}

#[track_caller]
fn check_rejected(result: Result<impl core::fmt::Debug, Refusal>, code: &str, help: &[&str]) {
    let refusal = result.expect_err("a refusal");
    assert_eq!(refusal.code(), code);
    for part in help {
        assert!(format!("{refusal}").contains(part), "{refusal} does not say {part:?}");
    }
}

#[test]
fn err_counters() {
    let mut table = sample();
    check_rejected(table.issue("x", 1), "no-such-region", &["x"]);
    check_rejected(table.issue("closed", 1), "closed", &[]);
    check_rejected(table.issue("open", 8), "capacity-exhausted", &["9 of 16", "up to 3 bits"]);
    check_rejected(table.issue("partial", u128::MAX), "capacity-exhausted", &["3 of 4", "up to 2 bits"]);
    check_rejected(table.note("x", 1), "no-such-region", &[]);
    check_rejected(table.note("closed", 0), "closed", &[]);
    check_rejected(table.note("open", 16), "suffix-range", &["16"]);
    check_rejected(table.note("open", u128::MAX), "suffix-range", &[]);
    check_rejected(table.compose("closed", 0), "closed", &[]);
    check_rejected(table.compose("open", 16), "suffix-range", &[]);
    assert_eq!(table, sample());
}

#[test]
fn ok_a_closed_region_with_unassigned_extensions_takes_more_subregions() {
    let mut table = sample();
    apply(&mut table, &reserve("partial", 2, &["x 00 2"]));
    apply(&mut table, &subdivide("partial", 2, &["y 11 1"]));
    let (parent, made) = (table.named("partial").expect("there"), table.named("y").expect("made"));
    assert_eq!((parent.kind, made.parent()), (crate::Kind::Closed, Some(parent.number)));
}

#[track_caller]
fn becomes(edits: &[Edit], name: &str, expected: &str) -> Table {
    let mut table = sample();
    edits.iter().for_each(|edit| apply(&mut table, edit));
    let region = table.named(name).expect("the region");
    let (z, s, issued) = (region.zone, region.suffix, *region.issued);
    assert_eq!(format!("{} {z} {s} {} {issued}", region.prefix, region.kind.as_str()), expected);
    table
}

#[test]
fn ok_operations() {
    becomes(&[expand("open", 3)], "open", "1 0 7 open 9");
    becomes(&[expand("partial", 2)], "partial", "01 2 4 partial 3");
    becomes(&[shrink("c0", 2)], "c0", "0010 4 0 open 0");
    becomes(&[split("open", 3, &["x 010 1", "y - 4"])], "open", "1000 0 4 open 9");
    becomes(&[split("open", 3, &["x 010 1", "y - 4"])], "y", "1001 0 4 open 0");
    becomes(&[subdivide("open", 2, &["x 01 0"])], "open", "1 3 4 partial 9");
    becomes(&[reserve("open", 2, &["x 00"])], "x", "100 1 4 open 9");
    becomes(&[reserve("open", 2, &["x 00"])], "open", "1 0 0 closed 0");
    becomes(&[subdivide("partial", 2, &["x 00 3", "y 10 1", "z 11 1"])], "x", "0100 1 3 open 3");
    becomes(&[at("x", "000", 5)], "x", "000 0 5 open 0");
    becomes(&[chosen("x", 2, Zone::Exactly(1), false)], "x", "00000 1 2 open 0");
    becomes(&[chosen("x", 2, Zone::UpTo(255), false)], "x", "000 3 2 open 0");
    becomes(&[chosen("x", 6, Zone::UpTo(8), true)], "x", "11 0 6 open 0");
    becomes(&[chosen("x", 6, Zone::UpTo(8), true)], "open", "10 2 4 open 9");
}

#[test]
fn ok_subdividing_in_two_steps_equals_one_step() {
    let once = becomes(&[subdivide("open", 1, &["x 0", "y 1 2"])], "open", "1 0 0 closed 0");
    let twice = becomes(&[subdivide("open", 1, &["y 1 2"]), subdivide("open", 1, &["x 0"])], "x", "10 2 4 open 9");
    let shape = |table: &Table| -> Vec<(String, Prefix, u8, u8)> {
        table.iter().map(|region| (region.name.to_string(), region.prefix, region.zone, region.suffix)).collect()
    };
    assert_eq!(shape(&once), shape(&twice));
}

#[test]
fn ok_history_lists_the_holders_of_a_prefix() {
    let table = becomes(&[split("open", 1, &["x 1 1"]), split("open", 1, &[])], "open", "100 1 4 open 9");
    let held = |on| table.held(prefix(on)).into_iter().map(|(r, from, to)| (&*r.name, from.0, to.map(|to| to.0)));
    assert!(held("1").eq([("open", 1, Some(5))]));
    assert!(held("10").eq([("open", 6, Some(6))]));
    assert!(held("100").eq([("open", 7, None)]));
    assert!(held("11").eq([("x", 6, None)]));
    assert_eq!(held("101").count(), 0);
}

#[test]
fn err_a_plan_is_valid_for_one_revision_only() {
    let mut table = sample();
    let (first, other) = (table.plan(&expand("open", 1)), table.plan(&expand("p1", 1)));
    table.apply(&first.clone().expect("a plan")).expect("the first time");
    let after = table.clone();
    for plan in [first, other] {
        check_rejected(table.apply(&plan.expect("a plan")), "stale-revision", &["revision 6, not at 5"]);
    }
    assert_eq!(table, after);
}

#[test]
fn ok_a_plan_keeps_counters_that_advanced_since() {
    let mut table = sample();
    let plan = table.plan(&expand("open", 1)).expect("a plan");
    assert_eq!(table.issue("open", 1), Ok(9));
    table.apply(&plan).expect("the revision is the same");
    assert_eq!(table.issue("open", 1), Ok(10));

    let plan = table.plan(&reserve("open", 1, &["x 0"])).expect("a plan");
    assert_eq!(table.issue("open", 1), Ok(11));
    table.apply(&plan).expect("the revision is the same");
    assert_eq!(table.issue("x", 1), Ok(12));
}

#[test]
fn err_a_plan_must_not_exclude_suffixes_issued_since() {
    for (edit, issue) in [(shrink("c0", 1), "c0"), (reserve("c0", 1, &["x 0 1"]), "c0")] {
        let mut table = sample();
        let plan = table.plan(&edit).expect("a plan");
        table.issue(issue, 3).expect("enough suffixes are left");
        let before = table.clone();
        check_rejected(table.apply(&plan), "suffix-in-use", &["3", "2 bits"]);
        assert_eq!(table, before);
    }
}

#[test]
fn ok_the_whole_of_128_bits() {
    let mut table = Table::new(128).expect("a width");
    apply(&mut table, &at("all", "", 128));
    assert_eq!(table.free_blocks(Prefix::EMPTY), []);
    assert_eq!(table.issue("all", u128::MAX), Ok(0));
    assert_eq!(table.issue("all", 1), Ok(u128::MAX));
    check_rejected(
        table.issue("all", 1),
        "capacity-exhausted",
        &["340_282_366_920_938_463_463_374_607_431_768_211_456 of"],
    );
    assert_eq!(table.note("all", u128::MAX), Ok(Count::Max));
    assert_eq!(table.compose("all", u128::MAX), Ok(u128::MAX));
    check_rejected(table.plan(&shrink("all", 1)), "suffix-in-use", &["128 bits"]);
    check_rejected(table.plan(&at("x", &"1".repeat(128), 0)), "prefix-conflict", &["all"]);
    check_rejected(table.plan(&chosen("x", 0, Zone::Exactly(0), true)), "no-free-prefix", &[]);
}

#[test]
fn ok_prefixes_of_128_bits() {
    let (ones, zeros) = ("1".repeat(128), "0".repeat(128));
    let mut table = Table::new(128).expect("a width");
    apply(&mut table, &at("one", &ones, 0));
    apply(&mut table, &at("zero", &zeros, 0));
    assert_eq!(table.free_blocks(Prefix::EMPTY).len(), 254);
    assert_eq!(table.issue("one", 1), Ok(0));
    check_rejected(table.issue("one", 1), "capacity-exhausted", &["1 of 1"]);
    check_rejected(table.plan(&split("one", 1, &[])), "zone-too-small", &["0 bits"]);
    apply(&mut table, &chosen("next", 0, Zone::Exactly(0), false));
    assert_eq!(table.named("next").expect("it").prefix, Prefix::new(1, 128));
}

#[test]
fn ok_subregions_128_bits_below() {
    let mut table = Table::new(128).expect("a width");
    apply(&mut table, &at("root", "", 0));
    let (ones, zeros) = ("1".repeat(128), "0".repeat(128));
    let sub = subdivide("root", 128, &[&format!("x {ones} 0"), &format!("y {zeros} 0")]);
    check_rejected(table.plan(&sub), "zero-extension", &["340_282_366_920_938_463_463_374_607_431_768_211_454"]);
    apply(&mut table, &subdivide("root", 128, &[&format!("x {ones} 0")]));
    apply(&mut table, &reserve("root", 128, &[&format!("y {zeros} 0"), "z - 0"]));
    assert_eq!(table.named("z").expect("it").prefix, Prefix::new(1, 128));
    let mut table = Table::new(128).expect("a width");
    apply(&mut table, &at("root", "", 0));
    apply(&mut table, &split("root", 128, &["x - 0", &format!("y {ones} 0")]));
    assert_eq!(table.named("x").expect("it").prefix, Prefix::new(1, 128));
}

#[test]
fn ok_one_subdivision_with_every_extension() {
    let mut table = Table::new(16).expect("a width");
    apply(&mut table, &at("root", "", 0));
    let subs: Vec<NewRegion> = (0..1 << 14)
        .map(|value| NewRegion { name: format!("s{value}"), suffix: Some(1), extension: None, start: Start::default() })
        .collect();
    let all = Edit::Subdivide { name: "root".into(), by: 14, new_regions: subs, reserve_others: false };
    apply(&mut table, &all);
    assert_eq!(table.named("s16383").expect("it").prefix, Prefix::new(16383, 14));
    let one_more = vec![NewRegion { name: "x".into(), suffix: Some(1), extension: None, start: Start::default() }];
    let more = Edit::Subdivide { name: "root".into(), by: 14, new_regions: one_more, reserve_others: false };
    check_rejected(table.plan(&more), "bad-prefix", &["only 16_384"]);
}

fn update(name: &str, patch: Patch) -> Edit {
    Edit::Update { name: name.into(), patch }
}

#[test]
fn ok_updates_change_only_the_given_attributes() {
    let mut table = sample();
    let before = table.named("open").expect("it").clone();
    let policy = Policy {
        auto_expand: Some(AutoExpand { at_percent: 80, by_bits: 1, max_suffix: 6 }),
        cap: Some(Count::Below(12)),
        chunk: ChunkPolicy::Within { min: 1, max: 4 },
        stride: Stride::new(2, 1).expect("a stride"),
    };
    let label = |value: Option<&str>| [("team".to_string(), value.map(str::to_string))].into();
    apply(&mut table, &update("open", Patch { name: Some("opened".into()), sealed: Some(true), ..Patch::default() }));
    apply(
        &mut table,
        &update("opened", Patch { owner: Some("ops".into()), labels: label(Some("a")), ..Patch::default() }),
    );
    apply(
        &mut table,
        &update("opened", Patch { policy: PolicyPatch::to(&policy), next: Some(Count::Below(3)), ..Patch::default() }),
    );
    let after = table.named("opened").expect("it").clone();
    assert_eq!(
        (after.sealed, *after.policy(), *after.issued),
        (true, policy, *before.issued),
        "a counter never goes back"
    );
    assert_eq!((after.texts().owner.as_str(), after.texts().labels["team"].as_str()), ("ops", "a"));
    assert_eq!((after.number, after.prefix, after.limit()), (before.number, before.prefix, Count::Below(12)));
    apply(&mut table, &update("opened", Patch { labels: label(None), sealed: Some(false), ..Patch::default() }));
    apply(&mut table, &update("opened", Patch { next: Some(Count::Below(11)), ..Patch::default() }));
    let after = table.named("opened").expect("it");
    assert_eq!((after.sealed, after.texts().labels.len(), *after.issued), (false, 0, Count::Below(11)));
    assert!(table.named("open").is_err(), "the old name is free");
}

#[test]
fn err_update() {
    check(&update("unknown", Patch { sealed: Some(true), ..Patch::default() }), "no-such-region", &[]);
    check(&update("open", Patch { name: Some("c0".into()), ..Patch::default() }), "name-taken", &["c0"]);
    check(&update("open", Patch { name: Some("a/b".into()), ..Patch::default() }), "bad-name", &[]);
    check(&update("open", Patch::default()), "bad-input", &["nothing"]);
    check(&update("open", Patch { next: Some(Count::Below(17)), ..Patch::default() }), "suffix-range", &["below 16"]);
    check(&update("closed", Patch { next: Some(Count::Below(1)), ..Patch::default() }), "closed", &[]);
    let long = "x".repeat(4097);
    check(
        &update("open", Patch { description: Some(long), ..Patch::default() }),
        "bad-input",
        &["4_097 bytes", "4_096"],
    );
    for (auto_expand, chunk) in [
        (Some(AutoExpand { at_percent: 0, by_bits: 1, max_suffix: 6 }), ChunkPolicy::Adaptive),
        (Some(AutoExpand { at_percent: 101, by_bits: 1, max_suffix: 6 }), ChunkPolicy::Adaptive),
        (Some(AutoExpand { at_percent: 50, by_bits: 0, max_suffix: 6 }), ChunkPolicy::Adaptive),
        (None, ChunkPolicy::Within { min: 0, max: 4 }),
        (None, ChunkPolicy::Within { min: 5, max: 4 }),
    ] {
        let policy = PolicyPatch::to(&Policy { auto_expand, chunk, ..Policy::default() });
        check(&update("open", Patch { policy, ..Patch::default() }), "bad-input", &[]);
    }
}

#[test]
fn err_an_automatic_expansion_below_the_present_suffix() {
    let set = |name: &str, max_suffix| {
        let auto_expand = Some(Some(AutoExpand { at_percent: 80, by_bits: 2, max_suffix }));
        update(name, Patch { policy: PolicyPatch { auto_expand, ..PolicyPatch::default() }, ..Patch::default() })
    };
    check(&set("open", 3), "bad-input", &["already has a suffix of 4 bits", "set a maximum of 5 to 7 bits"]);
    check(&set("partial", 1), "bad-input", &["already has a suffix of 2 bits", "set a maximum of 3 to 4 bits"]);
    for (most, help) in [(4, ": it cannot be expanded"), (5, ": set a maximum of 5 bits")] {
        let message = Refusal::ExpandsNever { suffix: 4, max: 3, most }.to_string();
        assert!(message.ends_with(help), "{message}");
    }
    let mut table = sample();
    apply(&mut table, &set("open", 4));
    apply(&mut table, &expand("open", 1));
    // An automatic expansion that has reached its limit stays valid when another part of the policy changes.
    let cap = PolicyPatch { cap: Some(Some(Count::Below(20))), ..PolicyPatch::default() };
    apply(&mut table, &update("open", Patch { policy: cap, ..Patch::default() }));
    let policy = *table.named("open").expect("it").policy();
    assert_eq!((policy.cap, policy.auto_expand.map(|auto| auto.max_suffix)), (Some(Count::Below(20)), Some(4)));
}

#[test]
fn ok_updates_that_change_nothing_make_no_revision() {
    let mut table = sample();
    let seal = |sealed| Patch { sealed: Some(sealed), ..Patch::default() };
    let label = |value: Option<&str>| [("team".to_string(), value.map(str::to_string))].into();
    for patch in [
        seal(false),
        Patch { name: Some("open".into()), ..Patch::default() },
        Patch { owner: Some("".into()), description: Some("".into()), labels: label(None), ..Patch::default() },
        Patch { policy: PolicyPatch::to(&Policy::default()), ..Patch::default() },
    ] {
        let plan = table.plan(&update("open", patch.clone())).expect("legal");
        assert_eq!((plan.revision, plan.changes_nothing()), (plan.base, true), "{patch:?}");
        let before = table.clone();
        table.apply(&plan).expect("applied");
        assert_eq!(table, before);
    }
    // This declaration makes a revision although it changes nothing, because other daemons may hold chunks below the
    // number.
    let next = Patch { next: Some(Count::Below(9)), ..Patch::default() };
    let plan = table.plan(&update("open", next)).expect("legal");
    assert_eq!((plan.revision, plan.changes_nothing()), (plan.base.next(), true));
    assert_eq!(plan.clone().without_effect().revision, plan.base);
    for patch in [seal(true), Patch { next: Some(Count::Below(10)), ..Patch::default() }] {
        let plan = table.plan(&update("open", patch)).expect("legal");
        assert_eq!((plan.revision, plan.changes_nothing()), (plan.base.next(), false));
    }
}

#[test]
fn ok_the_default_extension_is_the_next_that_works() {
    for (edit, expected) in [
        // The all-zero extension is not used by default if other extensions stay unassigned.
        (subdivide("open", 1, &["x - 1"]), &["11"][..]),
        (subdivide("open", 2, &["x - 1", "y 01 1", "z - 1"]), &["110", "101", "111"]),
        // All extensions are assigned, or the others stay reserved.
        (subdivide("open", 1, &["x - 4", "y - 1"]), &["10", "11"]),
        (reserve("open", 1, &["x - 4"]), &["10"]),
        // One extension is already assigned.
        (subdivide("partial", 2, &["x - 1"]), &["0110"]),
        (subdivide("partial", 2, &["x - 1", "y - 1"]), &["0110", "0111"]),
        (subdivide("partial", 2, &["x - 2", "y - 1", "z - 1"]), &["0100", "0110", "0111"]),
    ] {
        let plan = sample().plan(&edit).unwrap_or_else(|refusal| panic!("{edit:?}: {refusal}"));
        let made: Vec<String> =
            plan.changes[1..].iter().flat_map(|made| &made.after).map(|made| made.prefix.to_string()).collect();
        assert_eq!(made, expected, "{edit:?}");
    }
}

#[test]
fn ok_an_identifier_has_the_prefix_of_its_time() {
    let mut table = sample();
    apply(&mut table, &split("open", 1, &[]));
    table.issue("open", 2).expect("enough suffixes are left");
    apply(&mut table, &split("open", 1, &[]));
    let region = table.named("open").expect("it");
    for (counter, on) in [(0, "1"), (8, "1"), (9, "10"), (10, "10"), (11, "100"), (15, "100")] {
        assert_eq!(region.prefix_when(counter), prefix(on), "{counter}");
    }
}
