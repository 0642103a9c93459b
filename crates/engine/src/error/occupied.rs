//! The error for an attempt to delete a space that still has regions, with the command to run first.

use std::fmt;

use kent_ids::counted;
use kent_regions::{Count, Region, Table};

use super::arguments;

/// The maximum number of regions to name; the rest are only counted.
const NAMED_MAX: usize = 8;

/// A space that cannot be deleted because of its regions.
#[derive(Clone, Debug)]
pub struct Occupied {
    /// Its name.
    pub(crate) space: String,
    /// The region whose delegation created the space, if the request would end this delegation.
    delegated: Option<String>,
    /// The number of regions in the space.
    regions: usize,
    /// The names of the first regions.
    named: Vec<String>,
    /// The region to deal with first.
    first: Obstacle,
}

/// A region that prevents the deletion of its space.
#[derive(Clone, Debug)]
enum Obstacle {
    /// The region's numbers may be in use.
    Used(String),
    /// The region's suffixes form a separate space.
    Delegated(String),
    /// The region can be deleted, so delete it first.
    Unused(String),
}

impl Occupied {
    /// Returns the regions that prevent the deletion of a space, or `None` if the space has no regions.
    pub(crate) fn of(space: String, table: &Table) -> Option<Self> {
        let named = table.iter().take(NAMED_MAX).map(|region| region.name.to_string()).collect();
        let used = table.iter().find(|region| *region.issued != Count::ZERO);
        let name = |region: &Region| region.name.to_string();
        // Take the last region without subregions. The first region may continue its parent's numbers, and can then be
        // deleted only after the others.
        let last = || table.iter().filter(|region| table.children(region).next().is_none()).last();
        let first = match (used, last()) {
            (Some(used), _) => Obstacle::Used(name(used)),
            (None, Some(last)) if last.delegated => Obstacle::Delegated(name(last)),
            (None, Some(last)) => Obstacle::Unused(name(last)),
            (None, None) => return None,
        };
        Some(Self { space, delegated: None, regions: table.len(), named, first })
    }

    /// Adapts the error to a request to end the delegation of this region.
    pub(crate) fn keeps_delegation(self, region: &str) -> Self {
        Self { delegated: Some(region.to_owned()), ..self }
    }
}

impl fmt::Display for Occupied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { space, regions, named, first, .. } = self;
        match &self.delegated {
            Some(region) => {
                write!(f, "the delegation of region {region:?} cannot end, because its space {space:?} has ")?
            }
            None => write!(f, "space {space:?} cannot be deleted, because it has ")?,
        }
        let names: Vec<String> = named.iter().map(|name| format!("{name:?}")).collect();
        let more = if named.len() < *regions { ", ..." } else { "" };
        write!(f, "{} ({}{more})", counted(regions, "region"), names.join(", "))?;
        match first {
            Obstacle::Used(name) => write!(
                f,
                ", and numbers of {name:?} are issued or reserved, so it stays (kent region show {})",
                arguments(name, space)
            ),
            Obstacle::Delegated(name) => {
                write!(f, "; first end the delegation of {name:?} (kent space delete {space}/{name})")
            }
            Obstacle::Unused(name) => {
                write!(f, "; first delete {name:?} (kent region delete {})", arguments(name, space))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kent_regions::{Edit, NewRegion, Place, Start};

    use super::*;

    #[test]
    fn ok_the_command_that_comes_first() {
        let mut table = Table::new(16).expect("a width");
        let check = |table: &Table, delegated: Option<&str>, expected: &str| {
            let delegated = delegated.map(str::to_owned);
            let occupied = Occupied { delegated, ..Occupied::of("p/d".to_owned(), table).expect("it has regions") };
            assert_eq!(occupied.to_string(), expected);
        };
        assert!(Occupied::of("p/d".to_owned(), &table).is_none());
        let edit = |table: &mut Table, edit: &Edit| {
            let plan = table.plan(edit).expect("legal");
            table.apply(&plan).expect("applied");
        };
        let create = |name: &str, prefix: &str| {
            let (name, place) = (name.to_owned(), Place::At(prefix.parse().expect("a prefix")));
            Edit::Create { name, suffix: 4, place, start: Start::default() }
        };
        edit(&mut table, &create("x", "0"));
        check(
            &table,
            Some("d"),
            "the delegation of region \"d\" cannot end, because its space \"p/d\" has 1 region (\"x\"); first delete \"x\" (kent region \
             delete x --space p/d)",
        );
        let new_region = |name: &str, extension: &str| NewRegion {
            name: name.to_owned(),
            suffix: Some(4),
            extension: extension.parse().ok(),
            start: Start::default(),
        };
        let new_regions = [new_region("heir", "0"), new_region("y", "1")].into();
        edit(&mut table, &Edit::Subdivide { name: "x".to_owned(), by: 1, new_regions, reserve_others: false });
        check(
            &table,
            None,
            "space \"p/d\" cannot be deleted, because it has 3 regions (\"x\", \"heir\", \"y\"); first delete \"y\" (kent region delete y \
             --space p/d)",
        );
        edit(&mut table, &Edit::Delegate { name: "y".to_owned() });
        check(
            &table,
            None,
            "space \"p/d\" cannot be deleted, because it has 3 regions (\"x\", \"heir\", \"y\"); first end the delegation of \"y\" (kent \
             space delete p/d/y)",
        );
        table.issue("heir", 1).expect("16 are free");
        check(
            &table,
            None,
            "space \"p/d\" cannot be deleted, because it has 3 regions (\"x\", \"heir\", \"y\"), and numbers of \"heir\" are issued or \
             reserved, so it stays (kent region show heir --space p/d)",
        );
    }
}
