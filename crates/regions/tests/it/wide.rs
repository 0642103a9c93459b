//! Tables of many regions. If an operation scanned all regions, these tests would take minutes.

use kent_regions::{Donate, Edit, NewRegion, Place, Prefix, RegionNumber, Start, Table, Zone};

const WIDE: u64 = 100_000;

fn apply(table: &mut Table, edit: &Edit) {
    let plan = table.plan(edit).expect("a plan");
    table.apply(&plan).expect("a fresh plan");
}

fn created(place: impl Fn(u64) -> Place) -> Table {
    let mut table = Table::new(64).expect("a width");
    for at in 0..WIDE {
        let name = format!("r{at}");
        apply(&mut table, &Edit::Create { name, suffix: 20, place: place(at), start: Start::default() });
    }
    table
}

#[test]
fn ok_create_on_given_prefixes_and_expand() {
    let mut table = created(|at| Place::At(Prefix::new(at.into(), 20)));
    for at in 0..WIDE {
        apply(&mut table, &Edit::Expand { name: format!("r{at}"), by: 1 });
    }
    assert_eq!(table.check(), Ok(()));
    assert_eq!(table.top_level().count(), WIDE as usize);
    let mut regions: Vec<_> = table.iter().cloned().collect();
    regions.reverse();
    assert_eq!(Table::restore(64, table.revision(), table.next_number(), regions), Ok(table));
}

#[test]
fn ok_create_on_chosen_prefixes() {
    let zone = Zone::UpTo(8);
    let table = created(|_| Place::Chosen { zone, donor: Donate::Never });
    assert_eq!(table.check(), Ok(()));
    assert_eq!(table.named("r99999").expect("the last").prefix, Prefix::new(99_999, 36));
}

#[test]
fn ok_subdivide_one_by_one() {
    let mut table = Table::new(64).expect("a width");
    let place = Place::At(Prefix::EMPTY);
    apply(&mut table, &Edit::Create { name: "root".into(), suffix: 0, place, start: Start::default() });
    for at in 0..WIDE {
        let extension = Some(Prefix::new(at.into(), 20));
        let new_regions =
            vec![NewRegion { name: format!("s{at}"), suffix: Some(9), extension, start: Start::default() }];
        apply(&mut table, &Edit::Subdivide { name: "root".into(), by: 20, new_regions, reserve_others: true });
    }
    assert_eq!(table.check(), Ok(()));
    assert_eq!(table.children(table.named("root").expect("the root")).count(), WIDE as usize);
}

#[test]
fn ok_split_among_many_new_regions() {
    let mut table = Table::new(64).expect("a width");
    let place = Place::At(Prefix::EMPTY);
    apply(&mut table, &Edit::Create { name: "root".into(), suffix: 0, place, start: Start::default() });
    let new_regions = (0..WIDE).map(|at| NewRegion {
        name: format!("s{at}"),
        suffix: Some(9),
        extension: None,
        start: Start::default(),
    });
    apply(&mut table, &Edit::Split { name: "root".into(), by: 20, new_regions: new_regions.collect() });
    assert_eq!(table.check(), Ok(()));
    assert_eq!(table.next_number(), RegionNumber(WIDE + 2));
}
