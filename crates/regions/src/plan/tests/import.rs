//! Tests of imports: the regions that are created, and those that do not fit the table.

use super::*;
use crate::{Extras, FormerPrefix, Imported, Kind, Past, Rare, Region, RegionNumber, Revision};

fn region(name: &str, on: &str, suffix: u8) -> Region {
    Region {
        number: RegionNumber(77),
        name: name.into(),
        prefix: prefix(on),
        zone: 8u8.saturating_sub(prefix(on).len() + suffix),
        suffix,
        kind: Kind::Open,
        sub_bits: 0,
        parent: Some(RegionNumber(78)).into(),
        issued: Count::Below(1).into(),
        since: Revision(79),
        order: Order::Sequential,
        pace: Pace::for_bits(0),
        sealed: false,
        delegated: false,
        extras: past(Past { key_number: Some(RegionNumber(76)), ..Past::default() }),
    }
}

fn past(past: Past) -> Rare<Extras> {
    Extras { past: past.into(), ..Extras::default() }.into()
}

fn split_from(former: FormerPrefix) -> Rare<Extras> {
    past(Past { prefixes: vec![former], ..Past::default() })
}

fn parted(kind: Kind, sub_bits: u8, region: Region) -> Region {
    match kind {
        Kind::Closed => Region { kind, sub_bits, zone: 0, suffix: 0, issued: Count::ZERO.into(), ..region },
        _ => Region { kind, sub_bits, ..region },
    }
}

fn import(regions: &[(Region, Option<&str>)]) -> Edit {
    let imported = |(region, parent): &(Region, Option<&str>)| Imported {
        region: region.clone(),
        parent: parent.map(Into::into),
        needs_floor: false,
    };
    Edit::Import { regions: regions.iter().map(imported).collect() }
}

#[test]
fn ok_regions_are_imported_whole_and_get_new_numbers() {
    let mut table = sample();
    let former = FormerPrefix { prefix: prefix("0"), from: Revision(1), to: Revision(40), issued: Count::Below(2) };
    let split = Region { extras: split_from(former), issued: Count::Below(3).into(), ..region("split", "0001", 2) };
    let shut = parted(Kind::Closed, 1, region("shut", "0000", 0));
    let local = Region { delegated: true, issued: Count::ZERO.into(), ..region("local", "00000", 2) };
    let scrambled =
        Region { order: Order::Scrambled, issued: Count::Below(3).into(), ..region("scrambled", "00001", 2) };
    let regions = [(scrambled, Some("shut")), (split, None), (local, Some("shut")), (shut, None)];
    let plan = table.plan(&import(&regions)).expect("legal");
    assert_eq!(plan.delegated, [RegionNumber(table.next_number().0 + 2)]);
    table.apply(&plan).expect("a fresh plan");
    assert_eq!(table.check(), Ok(()));
    let of = |name| table.named(name).expect("imported");
    assert_eq!((&of("split").past().prefixes, of("split").since), (&vec![former], table.revision()));
    assert_eq!(of("scrambled").issued, Count::Below(4).into(), "the next octave");
    assert_eq!(of("local").parent(), Some(of("shut").number));
}

#[test]
fn ok_a_region_that_needs_a_floor_needs_one_after_the_import() {
    let table = sample();
    let Edit::Import { mut regions } = import(&[(region("a", "0000", 2), None), (region("b", "0001", 2), None)]) else {
        panic!("an import");
    };
    regions[1].needs_floor = true;
    let plan = table.plan(&Edit::Import { regions }).expect("legal");
    assert_eq!(plan.unsure, [RegionNumber(table.next_number().0 + 1)]);
}

#[test]
fn ok_missing_subregions_are_imported_into_an_existing_region() {
    let mut table = sample();
    apply(&mut table, &import(&[(region("p3", "0111", 1), Some("partial"))]));
    apply(&mut table, &reserve("open", 2, &["o0 00"]));
    apply(&mut table, &import(&[(region("o2", "110", 1), Some("open"))]));
}

#[test]
fn err_regions_that_do_not_fit() {
    let top = |region| import(&[(region, None)]);
    let inside = |parent: &'static str, region| import(&[(region, Some(parent))]);
    let zero = prefix("0");
    let former = FormerPrefix { prefix: zero, from: Revision(1), to: Revision(1), issued: Count::ZERO };
    let cases: [(Edit, &str, &[&str]); 21] = [
        (import(&[]), "bad-input", &["changes nothing"]),
        (top(region("a/b", "000", 1)), "bad-name", &[]),
        (top(region("open", "000", 1)), "name-taken", &["open"]),
        (import(&[(region("x", "0000", 1), None), (region("x", "0001", 1), None)]), "name-taken", &["x"]),
        (top(Region { zone: 0, ..region("x", "000000000", 0) }), "bad-prefix", &["at most 8 bits"]),
        (top(region("x", "0101", 1)), "prefix-conflict", &["p1"]),
        (top(region("x", "011", 1)), "prefix-conflict", &["partial"]),
        (top(region("x", "00", 1)), "prefix-conflict", &["closed"]),
        (inside("unknown", region("x", "000", 1)), "no-such-region", &["unknown"]),
        (inside("open", region("x", "000", 1)), "bad-import", &["\"x\"", "not its parent"]),
        (inside("open", region("x", "11", 1)), "bad-import", &["\"open\"", "open but has subregions"]),
        (inside("partial", region("x", "0100", 1)), "bad-import", &["all-zero"]),
        (inside("partial", region("x", "011", 1)), "bad-import", &["k bits"]),
        (top(Region { zone: 1, ..region("x", "000", 1) }), "bad-import", &["p + z + s"]),
        (top(Region { issued: Count::Below(3).into(), ..region("x", "000", 1) }), "bad-import", &["more suffixes"]),
        (top(Region { delegated: true, ..region("x", "000", 1) }), "bad-import", &["delegated"]),
        (top(Region { extras: split_from(former), ..region("x", "1", 1) }), "prefix-conflict", &[]),
        (top(parted(Kind::Partial, 1, region("x", "000", 1))), "bad-import", &["no subregions"]),
        (top(parted(Kind::Closed, 1, region("x", "000", 1))), "bad-import", &["all-zero"]),
        (top(Region { extras: strict(), order: Order::Scrambled, ..region("x", "000", 1) }), "bad-input", &[]),
        (
            top(Region { extras: split_from(FormerPrefix { prefix: prefix("1"), ..former }), ..region("x", "000", 1) }),
            "bad-import",
            &["one of its former prefixes"],
        ),
    ];
    for (edit, code, help) in cases {
        check(&edit, code, help);
    }
}

fn strict() -> Rare<Extras> {
    let policy = Policy { chunk: ChunkPolicy::Strict, ..Policy::default() };
    Extras { policy: policy.into(), ..Extras::default() }.into()
}
