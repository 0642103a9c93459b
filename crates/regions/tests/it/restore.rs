//! Stored regions with broken invariants are rejected, and never cause a panic.

use kent_regions::{
    Count, Damage, Extras, FormerPrefix, Kind, Order, Pace, Parent, Past, Rare, Region, RegionNumber, Revision, Table,
};
use proptest::{collection::vec, prelude::*};

fn open(number: u64, on: &str, zone: u8, suffix: u8) -> Region {
    Region {
        number: RegionNumber(number),
        name: format!("r{number}").into(),
        prefix: on.parse().expect("a prefix"),
        zone,
        suffix,
        kind: Kind::Open,
        sub_bits: 0,
        parent: Parent::default(),
        issued: Rare::default(),
        since: Revision(1),
        order: Order::Sequential,
        pace: Pace::for_bits(0),
        sealed: false,
        delegated: false,
        extras: Rare::default(),
    }
}

fn split_from(prefixes: Vec<FormerPrefix>) -> Rare<Extras> {
    Extras { past: Past { prefixes, ..Past::default() }.into(), ..Extras::default() }.into()
}

fn below(parent: u64, region: Region) -> Region {
    Region { parent: Some(RegionNumber(parent)).into(), ..region }
}

fn parted(kind: Kind, sub_bits: u8, region: Region) -> Region {
    Region { kind, sub_bits, ..region }
}

fn restore(regions: Vec<Region>) -> Result<Table, Damage> {
    Table::restore(8, Revision(9), RegionNumber(9), regions)
}

#[track_caller]
fn check(regions: Vec<Region>, says: &str) {
    let damage = restore(regions).expect_err("damage");
    assert!(damage.to_string().contains(says), "{damage}");
}

#[test]
fn ok_regions_in_any_order() {
    let regions = vec![
        below(2, open(3, "001", 1, 4)),
        below(2, open(1, "000", 0, 5)),
        parted(Kind::Closed, 1, open(2, "00", 0, 0)),
        below(5, open(4, "111", 2, 3)),
        parted(Kind::Partial, 2, open(5, "1", 3, 4)),
    ];
    let table = restore(regions.clone()).expect("a table");
    assert_eq!(restore(regions.into_iter().rev().collect()), Ok(table));
}

#[test]
fn ok_regions_at_the_limit_of_each_invariant() {
    let issued = |below, region| Region { issued: Count::Below(below).into(), ..region };
    let delegated = |region| Region { delegated: true, ..region };
    let former = |prefix: &str| FormerPrefix {
        prefix: prefix.parse().expect("one"),
        from: Revision(1),
        to: Revision(1),
        issued: Count::ZERO,
    };
    for regions in [
        vec![issued(16, open(1, "0", 3, 4))],
        vec![issued(1, open(1, "0", 7, 0))],
        vec![delegated(open(1, "0", 3, 4))],
        vec![open(8, "0", 3, 4)],
        vec![parted(Kind::Partial, 3, open(1, "0", 3, 4)), below(1, open(2, "0001", 0, 4))],
        vec![parted(Kind::Partial, 1, issued(16, open(1, "0", 3, 4))), below(1, open(2, "01", 2, 4))],
        vec![Region { extras: split_from(vec![former(""), former("0")]), ..open(1, "00", 2, 4) }],
        // The identifiers of this closed region belong to its all-zero subregion.
        vec![parted(Kind::Closed, 1, open(1, "0", 0, 0)), below(1, open(2, "00", 2, 4)), open(3, "1", 3, 4)],
    ] {
        let table = restore(regions.clone()).expect("a table");
        assert_eq!(table.len(), regions.len());
    }
    for bits in [1, 128] {
        let table = Table::restore(bits, Revision(3), RegionNumber(5), Vec::<Region>::new()).expect("a table");
        assert_eq!((table.bits(), table.revision(), table.next_number()), (bits, Revision(3), RegionNumber(5)));
        assert!(table.is_empty());
    }
}

#[test]
fn err_each_invariant() {
    check(vec![open(9, "0", 3, 4)], "not been assigned");
    check(vec![open(1, "0", 3, 4), open(1, "1", 3, 4)], "the same number or name");
    check(vec![open(1, "0", 3, 4), Region { name: "r1".into(), ..open(2, "1", 3, 4) }], "the same number or name");
    check(vec![open(1, "0", 3, 4), open(2, "0", 3, 4)], "prefix exists twice");
    check(vec![Region { name: "a/b".into(), ..open(1, "0", 3, 4) }], "name");
    check(vec![open(1, "0", 3, 5)], "p + z + s is not n");
    check(vec![open(1, "0", 255, 255)], "p + z + s is not n");
    check(vec![open(1, &"0".repeat(128), 255, 137)], "p + z + s is not n");
    check(vec![open(1, "0", 3, 4), open(2, "00", 2, 4)], "is not its parent");
    check(vec![open(1, "00", 2, 4), open(2, "0", 3, 4)], "is not its parent");
    check(vec![below(7, open(1, "0", 3, 4))], "is not its parent");
    let outer = || parted(Kind::Partial, 2, open(1, "0", 3, 4));
    check(vec![outer(), open(2, "001", 1, 4), below(1, open(3, "010", 1, 4))], "is not its parent");
    check(vec![open(1, "0", 3, 4), below(1, open(2, "00", 2, 4))], "open but has subregions");
    check(vec![parted(Kind::Open, 1, open(1, "0", 3, 4)), below(1, open(2, "00", 2, 4))], "open but has subregions");
    check(vec![parted(Kind::Open, 1, open(1, "0", 3, 4))], "open but has subregions");
    check(vec![parted(Kind::Partial, 1, open(1, "0", 3, 4))], "has no subregions");
    check(vec![parted(Kind::Closed, 1, open(1, "0", 3, 4))], "zone or suffix");
    check(vec![parted(Kind::Closed, 1, open(1, "0", 0, 0))], "without an all-zero");
    check(vec![parted(Kind::Partial, 4, open(1, "0", 3, 4)), below(1, open(2, "00001", 0, 3))], "z < k");
    check(vec![parted(Kind::Partial, 1, open(1, "0", 3, 4)), below(1, open(2, "00", 2, 4))], "all-zero subregion");
    check(vec![parted(Kind::Partial, 2, open(1, "0", 3, 4)), below(1, open(2, "01", 2, 4))], "k bits");
    check(vec![Region { issued: Count::Below(17).into(), ..open(1, "0", 3, 4) }], "than it can hold");
    check(vec![Region { issued: Count::Max.into(), ..open(1, "0", 3, 4) }], "than it can hold");
    check(
        vec![
            Region { issued: Count::Below(1).into(), ..parted(Kind::Closed, 1, open(1, "0", 0, 0)) },
            below(1, open(2, "00", 2, 4)),
        ],
        "than it can hold",
    );
    let delegated = |region| Region { delegated: true, ..region };
    check(vec![delegated(Region { issued: Count::Below(1).into(), ..open(1, "0", 3, 4) })], "delegated but not open");
    check(vec![delegated(open(1, "0", 7, 0))], "delegated but not open");
    check(
        vec![delegated(parted(Kind::Partial, 1, open(1, "0", 3, 4))), below(1, open(2, "01", 2, 4))],
        "delegated but not open",
    );
    check(vec![parted(Kind::Closed, 1, open(1, "0", 1, 0)), below(1, open(2, "00", 2, 4))], "zone or suffix");
    check(vec![parted(Kind::Closed, 1, open(1, "0", 0, 1)), below(1, open(2, "00", 2, 4))], "zone or suffix");
    check(vec![parted(Kind::Closed, 1, open(1, "0", 0, 0)), below(1, open(2, "01", 2, 4))], "without an all-zero");
    check(vec![parted(Kind::Partial, 0, open(1, "0", 3, 4))], "has no subregions");
    for former in ["1", "00", "0"] {
        let former = FormerPrefix {
            prefix: former.parse().expect("one"),
            from: Revision(1),
            to: Revision(1),
            issued: Count::ZERO,
        };
        check(vec![Region { extras: split_from(vec![former]), ..open(1, "0", 3, 4) }], "former prefixes");
    }
    for bits in [0, 129, 255] {
        assert_eq!(
            Table::restore(bits, Revision(0), RegionNumber(1), Vec::<Region>::new()),
            Err(Damage::Width { bits })
        );
    }
}

#[test]
fn err_a_level_beyond_all_bits() {
    for sub_bits in [126, 128, 255] {
        let outer = parted(Kind::Closed, sub_bits, open(1, "0", 0, 0));
        let inner = below(1, open(2, &"0".repeat(128), 0, 0));
        let restored = Table::restore(128, Revision(9), RegionNumber(9), vec![outer, inner]);
        assert!(restored.is_err(), "{sub_bits}");
    }
}

fn any_region() -> impl Strategy<Value = Region> {
    let kind = prop::sample::select(vec![Kind::Open, Kind::Partial, Kind::Closed]);
    let bits = || prop_oneof![4 => 0..5u8, 1 => any::<u8>()];
    (0..6u64, "[01]{0,4}", bits(), bits(), kind, bits(), prop::option::of(0..6u64)).prop_map(
        |(number, on, zone, suffix, kind, sub_bits, parent)| Region {
            parent: parent.map(RegionNumber).into(),
            ..parted(kind, sub_bits, open(number, &on, zone, suffix))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ok_arbitrary_regions_make_a_table_or_an_error(bits in any::<u8>(), regions in vec(any_region(), 0..6)) {
        if let Ok(table) = Table::restore(bits, Revision(9), RegionNumber(6), regions) {
            prop_assert_eq!(table.check(), Ok(()));
        }
    }
}
