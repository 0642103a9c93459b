use alloc::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use super::*;
use crate::{Edit, NewRegion, Order, Patch, Place, Start};

fn edit(table: &mut Table, edit: &Edit) {
    let plan = table.plan(edit).expect("a legal edit");
    table.apply(&plan).expect("a fresh plan");
}

fn prefix(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}

fn create(table: &mut Table, name: &str, at: &str, suffix: u8) {
    let (place, start) = (Place::At(prefix(at)), Start::default());
    edit(table, &Edit::Create { name: name.into(), suffix, place, start });
}

fn subdivide(table: &mut Table, name: &str, by: u8, subregions: &[(&str, &str)]) {
    let new_region = |(name, extension): &(&str, &str)| NewRegion {
        name: (*name).into(),
        suffix: Some(0),
        extension: Some(prefix(extension)),
        start: Start::default(),
    };
    let new_regions = subregions.iter().map(new_region).collect();
    edit(table, &Edit::Subdivide { name: name.into(), by, new_regions, reserve_others: false });
}

/// Returns a table of 8 bits: `a` at 0001 has the subregions `b` and `c`, `d` is closed, and `g` has no subregions.
fn table() -> Table {
    let mut table = Table::new(8).expect("a width");
    create(&mut table, "a", "0001", 1);
    subdivide(&mut table, "a", 2, &[("b", "01"), ("c", "10")]);
    create(&mut table, "d", "01", 3);
    subdivide(&mut table, "d", 1, &[("e", "0"), ("f", "1")]);
    create(&mut table, "g", "1", 4);
    table.issue("g", 4).expect("room");
    table
}

/// Formats a cell: its prefix, number of regions, capacity, number of issued suffixes, contents, the region that it
/// shows, and the region around it.
fn shown(cell: &Cell) -> String {
    let contents: Vec<String> = cell.contents().map(|content| format!("{content:?}").to_lowercase()).collect();
    let name = |region: Option<&Arc<Region>>| region.map_or_else(|| "-".to_string(), |region| region.name.to_string());
    let (count, capacity, issued) = (cell.regions(), cell.capacity(), cell.issued());
    let (region, around) = (name(cell.region()), name(cell.around()));
    format!("{}: {count} {capacity} {issued} {} {region} {around}", cell.prefix, contents.join("+"))
}

#[track_caller]
fn check(table: &Table, under: &str, cells_max: usize, expected: &[&str]) {
    let map = table.map(prefix(under), cells_max);
    assert_eq!(map.cells.iter().map(shown).collect::<Vec<_>>(), expected, "{under:?} in {cells_max}");
}

#[test]
fn ok_a_map_has_a_cell_for_each_region_and_each_free_block() {
    let whole = [
        "0000: 0 0 0 free - -",
        "000100: 1 2 0 region+zone+subregions a a",
        "000101: 1 1 0 region+zone b a",
        "000110: 1 1 0 region+zone c a",
        "000111: 0 0 0 zone - a",
        "001: 0 0 0 free - -",
        "010: 2 1 0 region+zone+subregions+closed e d",
        "011: 1 1 0 region+zone f d",
        "1: 1 16 4 region+zone g -",
    ];
    check(&table(), "", CELLS_MAX, &whole);
    check(&table(), "", whole.len(), &whole);
    check(&Table::new(8).expect("a width"), "", CELLS_MAX, &[": 0 0 0 free - -"]);
}

#[test]
fn ok_the_widest_cells_are_divided_first() {
    let table = table();
    check(&table, "", 1, &[": 7 22 4 region+free+zone+subregions+closed - -"]);
    check(&table, "", 2, &["0: 6 6 0 region+free+zone+subregions+closed - -", "1: 1 16 4 region+zone g -"]);
    check(
        &table,
        "",
        3,
        &[
            "00: 3 4 0 region+free+zone+subregions - -",
            "01: 3 2 0 region+zone+subregions+closed - -",
            "1: 1 16 4 region+zone g -",
        ],
    );
}

#[test]
fn ok_a_prefix_inside_a_region_is_one_cell_that_counts_nothing() {
    let table = table();
    // The identifiers of `g` are 10000000 to 10001111; the rest is its zone.
    check(&table, "100", CELLS_MAX, &["100: 0 0 0 region g g"]);
    check(&table, "10001", CELLS_MAX, &["10001: 0 0 0 region g g"]);
    check(&table, "11", CELLS_MAX, &["11: 0 0 0 zone - g"]);
    check(
        &table,
        "0001",
        CELLS_MAX,
        &[
            "000100: 1 2 0 region+zone+subregions a a",
            "000101: 1 1 0 region+zone b a",
            "000110: 1 1 0 region+zone c a",
            "000111: 0 0 0 zone - a",
        ],
    );
    let names = |under| -> Vec<String> {
        table.map(prefix(under), 9).around.iter().map(|region| region.name.to_string()).collect()
    };
    assert_eq!(names(""), Vec::<String>::new());
    assert_eq!(names("0001"), Vec::<String>::new());
    assert_eq!(names("00010101"), ["a", "b"]);
    // A prefix longer than the identifiers is truncated.
    assert_eq!(table.map(prefix("1000000011"), 9).cells[0].prefix, prefix("10000000"));
}

#[test]
fn ok_states_of_regions_are_contents() {
    let mut table = Table::new(8).expect("a width");
    create(&mut table, "r", "10", 6);
    edit(&mut table, &Edit::Update { name: "r".into(), patch: Patch { sealed: Some(true), ..Patch::default() } });
    check(&table, "10", 9, &["10: 1 64 0 region+sealed r -"]);
    edit(&mut table, &Edit::Delegate { name: "r".into() });
    check(&table, "10", 9, &["10: 1 64 0 region+delegated+sealed r -"]);
    let policy = crate::PolicyPatch { strict: Some(true), ..crate::PolicyPatch::default() };
    create(&mut table, "s", "11", 6);
    edit(&mut table, &Edit::Update { name: "s".into(), patch: Patch { policy, ..Patch::default() } });
    check(&table, "11", 9, &["11: 1 64 0 region+strict s -"]);
    assert_eq!(table.named("r").map(|region| region.order), Ok(Order::Sequential));
}

#[test]
fn ok_sums_of_whole_spaces_do_not_wrap() {
    let mut table = Table::new(128).expect("a width");
    create(&mut table, "all", "", 128);
    table.note("all", u128::MAX).expect("a suffix");
    let max = Count::Max;
    check(&table, "", 9, &[&format!(": 1 {max} {max} region all -")]);
    assert_eq!(table.map(Prefix::EMPTY, 1).cells[0].free_share(), 0.0);
    // Among 2^128 identifiers, a single taken one is visible, and so is a single free one.
    let mut table = Table::new(128).expect("a width");
    create(&mut table, "one", &"1".repeat(128), 0);
    let share = |table: &Table| table.map(Prefix::EMPTY, 1).cells[0].free_share();
    assert_eq!(share(&table), 1.0);
    let mut table = Table::new(128).expect("a width");
    (1..=128).for_each(|len| create(&mut table, &format!("r{len}"), &format!("{}1", "0".repeat(len - 1)), 0));
    assert!(share(&table) > 0.0 && share(&table) < 1e-30, "{}", share(&table));
    assert_eq!(table.map(Prefix::EMPTY, CELLS_MAX).cells.len(), 129);
}

#[test]
fn ok_a_map_in_parts_is_that_of_one_revision() {
    let mut table = table();
    let mut mapping = Mapping::of(&table, Prefix::EMPTY, CELLS_MAX);
    while mapping.divide(&table, 1) == Some(true) {}
    assert_eq!(mapping.finish(), table.map(Prefix::EMPTY, CELLS_MAX));
    let mut early = Mapping::of(&table, Prefix::EMPTY, CELLS_MAX);
    assert_eq!(early.divide(&table, 1), Some(true));
    create(&mut table, "h", "0000", 0);
    assert_eq!(early.divide(&table, 1), None);
}

#[test]
fn ok_a_chart_of_some_regions_shows_only_those() {
    let table = table();
    let some = ["c", "e", "f"].map(|name| table.shared(name).expect("a region").clone());
    let map = Chart::new(8, some).map(Prefix::EMPTY, CELLS_MAX);
    let expected = vec![
        "0000: 0 0 0 free - -",
        "00010: 0 0 0 free - -",
        "000110: 1 1 0 region+zone c -",
        "000111: 0 0 0 free - -",
        "001: 0 0 0 free - -",
        "010: 1 1 0 region+zone e -",
        "011: 1 1 0 region+zone f -",
        "1: 0 0 0 free - -",
    ];
    assert_eq!(map.cells.iter().map(shown).collect::<Vec<_>>(), expected);
}
