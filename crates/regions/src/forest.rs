//! Forests: a table with the local tables of its delegated regions, to any depth (Kent 1992, end of 3.3).
//!
//! A local table divides the suffixes of one region as if they were identifiers. The tables do not refer to each other:
//! this module keeps them together, finds them by their paths, and classifies identifiers across them. It does not
//! recurse, so deep nesting cannot overflow the stack.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use crate::{
    classify::Classification,
    edit::Edit,
    granting::Seal,
    plan::Plan,
    refusal::Refusal,
    region::{Region, RegionNumber},
    table::{BadWidth, Table},
};

/// A table and the local tables below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forest {
    root: Table,
    /// The local tables, in the order of their delegation.
    locals: Vec<Table>,
    /// For each local table, the table around it and the delegated region in that table.
    around: Vec<(TableKey, RegionNumber)>,
    keys: BTreeMap<(TableKey, RegionNumber), TableKey>,
}

/// The key of a table in its forest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableKey(usize);

impl TableKey {
    /// The outermost table.
    pub const ROOT: Self = Self(0);
}

impl Forest {
    /// Creates a forest of one empty table for identifiers of `bits` bits.
    ///
    /// # Errors
    /// Returns [`BadWidth`] unless `bits` is 1 to 128.
    pub fn new(bits: u32) -> Result<Self, BadWidth> {
        Ok(Self { root: Table::new(bits)?, locals: Vec::new(), around: Vec::new(), keys: BTreeMap::new() })
    }

    /// Finds a table by its path: the names of delegated regions, outermost first, separated by `/`. The empty path
    /// refers to the outermost table.
    ///
    /// # Errors
    ///
    /// Fails with `no-such-region` or `not-delegated`.
    pub fn resolve(&self, path: &str) -> Result<TableKey, Refusal> {
        let names = path.split('/').filter(|_| !path.is_empty());
        names.into_iter().try_fold(TableKey::ROOT, |key, name| {
            let region = self.table(key).named(name)?;
            self.local(key, region).ok_or_else(|| Refusal::NotDelegated { region: name.into() })
        })
    }

    /// Returns the table with this key.
    pub fn table(&self, key: TableKey) -> &Table {
        key.0.checked_sub(1).and_then(|local| self.locals.get(local)).unwrap_or(&self.root)
    }

    /// Returns the table with this key, so that its counters can be set.
    pub fn table_mut(&mut self, key: TableKey) -> &mut Table {
        key.0.checked_sub(1).and_then(|local| self.locals.get_mut(local)).unwrap_or(&mut self.root)
    }

    /// Returns the local table of a region, if the region is delegated.
    pub fn local(&self, key: TableKey, region: &Region) -> Option<TableKey> {
        self.keys.get(&(key, region.number)).copied()
    }

    /// Returns the innermost seal that covers a region of one of the tables.
    pub fn seal_over(&self, key: TableKey, number: RegionNumber) -> Option<Seal> {
        let outer = |(key, _): &(TableKey, RegionNumber)| self.around.get(key.0.checked_sub(1)?).copied();
        let levels = core::iter::successors(Some((key, number)), outer);
        Seal::over(levels.filter_map(|(key, number)| Some((self.table(key), self.table(key).get(number)?))))
    }

    /// Plans an edit of one of the tables.
    ///
    /// # Errors
    /// Fails like [`Table::plan`], and with `space-in-use` if the edit ends a delegation whose local table has regions.
    pub fn plan(&self, key: TableKey, edit: &Edit) -> Result<Plan, Refusal> {
        let plan = self.table(key).plan(edit)?;
        if let (Edit::Undelegate { name }, Some(region)) = (edit, plan.subject())
            && let Some(local) = self.local(key, region)
            && !self.table(local).is_empty()
        {
            return Err(Refusal::SpaceInUse { region: name.clone(), regions: self.table(local).len() });
        }
        Ok(plan)
    }

    /// Applies a plan to the table that it was made for. A delegation adds an empty local table, and the end of the
    /// delegation removes that table.
    ///
    /// # Errors
    /// Fails like [`Table::apply`].
    pub fn apply(&mut self, key: TableKey, plan: &Plan) -> Result<(), Refusal> {
        self.table_mut(key).apply(plan)?;
        if let Some(region) = plan.subject().filter(|region| !region.delegated) {
            self.keys.remove(&(key, region.number));
        }
        for number in &plan.delegated {
            let made = self.table(key).get(*number).map(|region| Table::new(region.suffix.into()));
            // OK because a region that can be delegated has a suffix of 1 to 128 bits.
            if let Some(Ok(table)) = made {
                self.locals.push(table);
                self.around.push((key, *number));
                self.keys.insert((key, *number), TableKey(self.locals.len()));
            }
        }
        Ok(())
    }

    /// Classifies an identifier in the table. If the identifier belongs to a delegated region, also classifies its
    /// suffix in the local table of that region, and so on inward. Returns one result for each table, outermost first,
    /// or `None` if the identifier has more bits than the identifiers of the first table.
    pub fn classify(&self, key: TableKey, id: u128) -> Option<Vec<Classification<'_>>> {
        let mut found = vec![self.table(key).classify(id)?];
        let mut inside = key;
        while let Some((number, suffix)) = found.last().and_then(Classification::delegated)
            && let Some(local) = self.keys.get(&(inside, number)).copied()
        {
            // OK because the local table is as wide as the suffix.
            found.push(self.table(local).classify(suffix)?);
            inside = local;
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String};

    use super::*;
    use crate::{Donate, Patch, Place, Start, Zone};

    fn create(name: &str, suffix: u8, zone: u8) -> Edit {
        let place = Place::Chosen { zone: Zone::Exactly(zone), donor: Donate::Never };
        Edit::Create { name: name.into(), suffix, place, start: Start::default() }
    }

    fn apply(forest: &mut Forest, path: &str, edit: &Edit) -> Result<(), Refusal> {
        let key = forest.resolve(path)?;
        let plan = forest.plan(key, edit)?;
        forest.apply(key, &plan)
    }

    /// Returns three nested tables: a space of 8 bits with a delegated region D of 4 bits, D with a delegated region x
    /// of 2 bits, and x with a region y.
    fn nested() -> Forest {
        let mut forest = Forest::new(8).expect("a width");
        for (path, edit) in [
            ("", create("D", 4, 0)),
            ("", Edit::Delegate { name: "D".into() }),
            ("D", create("x", 2, 1)),
            ("D", Edit::Delegate { name: "x".into() }),
            ("D/x", create("y", 1, 0)),
        ] {
            apply(&mut forest, path, &edit).expect("legal");
        }
        forest
    }

    #[test]
    fn ok_tables_nest_to_any_depth() {
        let mut forest = nested();
        assert_eq!(forest.table(forest.resolve("D/x").expect("a table")).bits(), 2);
        let y = forest.resolve("D/x").expect("a table");
        forest.table_mut(y).issue("y", 1).expect("enough suffixes are left");
        let found: Vec<String> = forest.classify(TableKey::ROOT, 0).expect("8 bits").iter().map(describe).collect();
        assert_eq!(found, ["D member", "x member", "y member"]);
        let found: Vec<String> = forest.classify(TableKey::ROOT, 4).expect("8 bits").iter().map(describe).collect();
        assert_eq!(found, ["D member", "x reserved"]);
        let found: Vec<String> = forest.classify(TableKey::ROOT, 3).expect("8 bits").iter().map(describe).collect();
        assert_eq!(found, ["D member", "x member", "- free"]);
        assert!(forest.classify(TableKey::ROOT, 256).is_none());
    }

    fn describe(found: &Classification<'_>) -> String {
        format!("{} {}", found.path.last().map_or("-", |region| &region.name), found.status.as_str())
    }

    #[test]
    fn ok_a_seal_covers_the_tables_below_its_region() {
        let mut forest = nested();
        let key = forest.resolve("D/x").expect("a table");
        let y = forest.table(key).named("y").expect("there").number;
        assert_eq!(forest.seal_over(key, y), None);
        for (path, name, sealed, outward) in [
            ("", "D", true, Some(2)),
            ("D", "x", true, Some(1)),
            ("D/x", "y", true, Some(0)),
            ("D/x", "y", false, Some(1)),
            ("D", "x", false, Some(2)),
            ("", "D", false, None),
        ] {
            let patch = Patch { sealed: Some(sealed), ..Patch::default() };
            apply(&mut forest, path, &Edit::Update { name: name.into(), patch }).expect("legal");
            assert_eq!(forest.seal_over(key, y).map(|seal| seal.outward), outward, "{name} {sealed}");
        }
    }

    #[test]
    fn err_edits_that_delegation_forbids() {
        let mut forest = nested();
        for (path, edit, code) in [
            ("", Edit::Delegate { name: "D".into() }, "delegated"),
            ("", Edit::Expand { name: "D".into(), by: 1 }, "delegated"),
            ("", Edit::Shrink { name: "D".into(), by: 1 }, "delegated"),
            ("", Edit::Delegate { name: "E".into() }, "no-such-region"),
            ("E", create("z", 0, 0), "no-such-region"),
            ("D/x/y", create("z", 0, 0), "not-delegated"),
        ] {
            let before = forest.clone();
            assert_eq!(apply(&mut forest, path, &edit).expect_err("rejected").code(), code, "{edit:?}");
            assert_eq!(forest, before);
        }
        assert_eq!(forest.table_mut(TableKey::ROOT).issue("D", 1).expect_err("rejected").code(), "delegated");
    }

    #[test]
    fn err_only_an_unused_region_with_a_suffix_is_delegated() {
        let mut forest = Forest::new(8).expect("a width");
        apply(&mut forest, "", &create("used", 2, 2)).expect("legal");
        forest.table_mut(TableKey::ROOT).issue("used", 1).expect("enough suffixes are left");
        apply(&mut forest, "", &create("empty", 0, 2)).expect("legal");
        for (name, code) in [("used", "region-populated"), ("empty", "suffix-range")] {
            let refused = apply(&mut forest, "", &Edit::Delegate { name: name.into() }).expect_err("rejected");
            assert_eq!(refused.code(), code);
        }
    }
}
