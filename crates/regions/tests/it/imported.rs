//! Every table can be imported into an empty one, in parts that each end with a region without subregions.

use kent_regions::{Edit, Imported, Kind, Parent, Past, Region, RegionNumber, Revision, Table};

/// Imports a table in parts of about `most` regions, and compares the copy with the original.
pub(crate) fn check(table: &Table, most: usize) {
    let mut copy = Table::new(table.bits().into()).expect("a width");
    let mut part = Vec::new();
    for region in table.iter() {
        let parent = table.parent(region).map(|parent| parent.name.to_string());
        part.push(Imported { region: region.clone(), parent, needs_floor: false });
        if region.kind == Kind::Open && part.len() >= most {
            import(&mut copy, std::mem::take(&mut part));
        }
    }
    if !part.is_empty() {
        import(&mut copy, part);
    }
    let facts = |table: &Table| table.iter().map(|region| facts(table, region)).collect::<Vec<_>>();
    assert_eq!(facts(&copy), facts(table));
}

fn import(copy: &mut Table, regions: Vec<Imported>) {
    let (revision, before, count) = (copy.revision(), copy.len(), regions.len());
    let plan = copy.plan(&Edit::Import { regions }).expect("the regions of a table");
    copy.apply(&plan).expect("a fresh plan");
    assert_eq!(copy.check(), Ok(()));
    assert_eq!((copy.revision(), copy.len()), (revision.next(), before + count));
}

/// Returns a region without the values that an import replaces, and the name of its parent.
fn facts(table: &Table, region: &Region) -> (Region, Option<String>) {
    let parent = table.parent(region).map(|parent| parent.name.to_string());
    let mut kept = Region { number: RegionNumber(0), parent: Parent::default(), since: Revision(0), ..region.clone() };
    kept.set_past(Past { key_number: None, ..region.past().clone() });
    (kept, parent)
}
