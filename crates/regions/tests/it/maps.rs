//! Maps, compared with sums over all regions.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use kent_regions::{
    CELLS_MAX, Cell, Change, Chart, Content, Count, Edit, Kind, Map, Mapping, Place, Prefix, Region, RegionNumber,
    Revision, Rewind, Start, Table,
};

/// Checks maps of the whole space and of a prefix.
pub(crate) fn check(table: &Table, under: Prefix, cells_max: usize) {
    let regions: Vec<Arc<Region>> = table.iter_after(None).cloned().collect();
    let chart = Chart::new(table.bits(), regions.clone());
    for (under, cells_max) in [(Prefix::EMPTY, cells_max), (under, cells_max), (under, CELLS_MAX)] {
        let map = table.map(under, cells_max);
        assert_eq!(chart.map(under, cells_max), map, "of {under:#}");
        let under = if under.len() > table.bits() { map.cells[0].prefix } else { under };
        assert!(map.cells.len() <= cells_max, "{} of {cells_max} cells", map.cells.len());
        check_tiles(&map, under);
        check_sums(&map, under, &regions, table.bits());
        let is_shown = |region: &Region| map.cells.iter().any(|cell| cell.region().is_some_and(|it| **it == *region));
        let begins_here = |region: &&Arc<Region>| region.prefix.starts_with(under) && region.kind != Kind::Closed;
        if map.cells.len() < cells_max {
            assert!(regions.iter().filter(begins_here).all(|region| is_shown(region)), "a region has no cell");
        }
    }
}

/// Checks maps of the revision before the changes `since`, oldest change first.
pub(crate) fn check_earlier<'c>(
    table: &Table,
    since: impl DoubleEndedIterator<Item = &'c Change>,
    under: Prefix,
    cells_max: usize,
) {
    let before: BTreeMap<_, _> = since.rev().map(|change| (change.number, change.before.clone())).collect();
    let (now, same): (Vec<_>, Vec<_>) =
        table.iter_after(None).cloned().partition(|region| before.contains_key(&region.number));
    let then: Vec<_> = before.into_values().flatten().map(Arc::new).collect();
    let mut regions = [same, then.clone()].concat();
    regions.sort_by_key(|region| region.prefix);
    let chart = Chart::new(table.bits(), regions);
    let rewind = Rewind::new(table.revision(), now, then);
    for (under, cells_max) in [(Prefix::EMPTY, CELLS_MAX), (under, cells_max)] {
        let mut mapping = Mapping::of_earlier(table, &rewind, under, cells_max).expect("not edited");
        while mapping.divide_earlier(table, &rewind, 7).expect("not edited") {}
        assert_eq!(mapping.finish(), chart.map(under, cells_max), "of {under:#}");
    }
}

/// Checks that the cells are in order, do not overlap, and cover the whole prefix.
fn check_tiles(map: &Map, under: Prefix) {
    let mut next = Some(under.zeros(128 - under.len()).value());
    for cell in &map.cells {
        assert!(cell.prefix.starts_with(under), "{} of {under}", cell.prefix);
        let first = cell.prefix.zeros(128 - cell.prefix.len()).value();
        assert_eq!(Some(first), next, "{}", cell.prefix);
        let size = 1u128.checked_shl(u32::from(128 - cell.prefix.len()));
        next = size.and_then(|size| first.checked_add(size));
    }
    let size = 1u128.checked_shl(u32::from(128 - under.len()));
    let end = size.and_then(|size| under.zeros(128 - under.len()).value().checked_add(size));
    assert_eq!(next, end, "the end of {under:#}");
}

/// Checks the sums of each cell, and that every region that begins with the prefix is counted once.
fn check_sums(map: &Map, under: Prefix, regions: &[Arc<Region>], bits: u8) {
    let count = regions.iter().filter(|region| region.prefix.starts_with(under)).count();
    assert_eq!(map.cells.iter().map(|cell| cell.regions() as usize).sum::<usize>(), count, "of {under:#}");
    let around = regions.iter().filter(|it| it.prefix.len() < under.len() && under.starts_with(it.prefix));
    assert!(map.around.iter().eq(around), "around {under:#}");
    for cell in &map.cells {
        check_cell(cell, under, regions, bits);
    }
}

fn check_cell(cell: &Cell, under: Prefix, regions: &[Arc<Region>], bits: u8) {
    let in_it =
        |region: &&Arc<Region>| region.prefix.starts_with(under) && cell.prefix.holds(region.prefix.base(bits), bits);
    let counted: Vec<_> = regions.iter().filter(in_it).collect();
    assert_eq!(cell.regions() as usize, counted.len(), "{}", cell.prefix);
    let sum = |of: fn(&Region) -> Count| {
        let counts = counted.iter().map(|region| of(region));
        counts.fold(Count::ZERO, |sum, count| match (sum, count) {
            (sum, Count::Below(count)) => sum.checked_add(count).expect("at most the space"),
            (_, Count::Max) => Count::Max,
        })
    };
    assert_eq!(cell.capacity(), sum(Region::capacity), "{}", cell.prefix);
    let issued = |region: &Region| if region.kind == Kind::Closed { Count::ZERO } else { *region.issued };
    assert_eq!(cell.issued(), sum(issued), "{}", cell.prefix);
    let has = |content| cell.contents().any(|it| it == content);
    let any = |of: fn(&Region) -> bool| counted.iter().any(|region| of(region));
    assert_eq!(has(Content::Subregions), any(|region| region.kind != Kind::Open), "{}", cell.prefix);
    assert_eq!(has(Content::Closed), any(|region| region.kind == Kind::Closed), "{}", cell.prefix);
    assert_eq!(has(Content::Delegated), any(|region| region.delegated), "{}", cell.prefix);
    assert_eq!(has(Content::Sealed), any(|region| region.sealed), "{}", cell.prefix);
    let around = regions.iter().filter(|it| it.prefix.len() < cell.prefix.len() && cell.prefix.starts_with(it.prefix));
    assert_eq!(cell.around(), around.clone().next_back(), "{}", cell.prefix);
    let top = regions.iter().filter(|region| region.parent().is_none() && region.prefix.starts_with(cell.prefix));
    let taken: f64 = top.map(|region| 0.5f64.powi(i32::from(region.prefix.len() - cell.prefix.len()))).sum();
    let free = if around.count() > 0 { 0.0 } else { 1.0 - taken };
    assert!((cell.free_share() - free).abs() < 1e-9, "{} of {}, not {free}", cell.free_share(), cell.prefix);
    assert_eq!(has(Content::Free), cell.free_share() > 0.0);
    if let Some(region) = cell.region() {
        let suffixes = region.prefix.zeros(region.zone);
        assert!(suffixes.relates_to(cell.prefix), "{} shows {}", cell.prefix, region.prefix);
        let others = counted.iter().filter(|it| it.number != region.number);
        assert!(others.into_iter().all(|it| it.kind == Kind::Closed), "{} shows only one", cell.prefix);
    }
}

/// Measures maps of a million regions: `cargo test --release -p kent-regions -- --ignored --nocapture million`.
#[test]
#[ignore = "a measurement that takes half a minute"]
#[expect(clippy::disallowed_methods, reason = "this measures")]
fn ok_maps_of_a_million_regions() {
    const COUNT: u64 = 1_000_000;
    let mut one = Table::new(64).expect("a width");
    let (name, place, start) = ("r".to_owned(), Place::At(Prefix::new(0, 20)), Start::default());
    let plan = one.plan(&Edit::Create { name, suffix: 8, place, start }).expect("a plan");
    one.apply(&plan).expect("a fresh plan");
    let template = one.named("r").expect("there").clone();
    // The regions are spread over the whole space, or all in its first part, as when they are created without a prefix.
    for (layout, len) in [("spread", 20), ("dense", 48)] {
        let region = |at: u64| Region {
            number: RegionNumber(at + 1),
            name: format!("r{at}").into(),
            prefix: Prefix::new(at.into(), len),
            zone: 64 - len - 8,
            ..template.clone()
        };
        let began = Instant::now();
        let regions = (0..COUNT).map(region);
        let table = Table::restore(64, Revision(1), RegionNumber(COUNT + 1), regions).expect("a table");
        println!("{layout}: restored in {:?}", began.elapsed());
        for cells_max in [256, CELLS_MAX] {
            let mut times: Vec<_> = (0..50)
                .map(|at| {
                    // Zooms in, as a user does.
                    let under = Prefix::new(0, at % 40);
                    let began = Instant::now();
                    let cells = table.map(under, cells_max).cells.len();
                    (began.elapsed(), cells)
                })
                .collect();
            let first = times[0];
            times.sort();
            println!("{layout}, {cells_max} cells: whole {first:?}, median {:?}, worst {:?}", times[25], times[49]);
        }
        let began = Instant::now();
        let chart = Chart::new(64, table.iter_after(None).cloned());
        println!(
            "{layout}: a chart in {:?}, for {} cells",
            began.elapsed(),
            chart.map(Prefix::EMPTY, 4096).cells.len()
        );
    }
}
