//! Floors: a region continues above an identifier that another generator has issued.

use alloc::{collections::BTreeSet, vec::Vec};

use thiserror::Error;

use crate::{
    attributes::Order,
    change::Change,
    count::Count,
    plan::Plan,
    region::{Kind, Region, RegionNumber},
};

/// Why a region cannot continue above an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoFloor {
    /// The region is closed.
    #[error("the region is closed, so it issues nothing")]
    Closed,
    /// The region issues its suffixes in a scrambled order.
    #[error(
        "the region issues its numbers in a scrambled order, so it cannot continue above an identifier; choose a region whose prefix no \
         identifier in use has"
    )]
    Scrambled,
    /// The region's suffixes are not issued by Kent.
    #[error("Kent does not issue the numbers of this region")]
    External,
    /// All identifiers of the region are below the floor.
    #[error("the floor {floor} is above the last identifier of the region, which is {last}")]
    Above {
        /// The floor.
        floor: u128,
        /// The last identifier of the region.
        last: u128,
    },
}

impl Region {
    /// Returns the number of suffixes that are at or below `floor`, an identifier of a space of `bits` bits. A counter
    /// of at least this value issues only identifiers above the floor.
    ///
    /// # Errors
    ///
    /// Returns [`NoFloor`] if the region cannot continue above the floor.
    pub fn suffixes_through(&self, floor: u128, bits: u8) -> Result<Count, NoFloor> {
        if self.kind == Kind::Closed {
            return Err(NoFloor::Closed);
        }
        match self.order {
            Order::Sequential => {}
            Order::Scrambled => return Err(NoFloor::Scrambled),
            Order::External => return Err(NoFloor::External),
        }
        let base = self.prefix.base(bits);
        let Some(suffix) = floor.checked_sub(base) else { return Ok(Count::ZERO) };
        match self.capacity().includes(suffix) {
            true => Ok(Count::through(suffix)),
            // OK because a region has at least one suffix, and all its identifiers fit the space.
            false => Err(NoFloor::Above { floor, last: base | self.capacity().get().map_or(u128::MAX, |all| all - 1) }),
        }
    }
}

impl Plan {
    /// Numbers plans for the same revision so that they can be applied in turn. Returns `None` unless each plan only
    /// declares a counter, each of another region. Such plans do not depend on each other.
    pub fn in_turn(plans: Vec<Self>) -> Option<Vec<Self>> {
        let base = plans.first()?.base;
        let mut declared = BTreeSet::new();
        let mut present = base;
        let in_turn = plans.into_iter().map(|plan| {
            let is_free = plan.base == base && plan.only_declares().is_some_and(|number| declared.insert(number));
            let (base, revision) = (present, present.next());
            present = revision;
            is_free.then_some(Self { base, revision, ..plan })
        });
        in_turn.collect()
    }

    /// Returns the region whose counter the plan declares, if it changes nothing else.
    fn only_declares(&self) -> Option<RegionNumber> {
        let (number, _) = self.declared?;
        let [Change { before: Some(before), after: Some(after), .. }] = self.changes.as_slice() else { return None };
        let is_same = Region { issued: after.issued.clone(), ..before.clone() } == *after;
        (is_same && before.number == number && self.revision == self.base.next()).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec};

    use super::*;
    use crate::{Edit, NewRegion, Patch, Place, Prefix, Revision, Start, Table};

    /// Returns a table with these regions, of 4-bit suffixes.
    fn table(regions: &[(&str, &str, Order)]) -> Table {
        let mut table = Table::new(16).expect("a width");
        for (name, prefix, order) in regions {
            let place = Place::At(prefix.parse().expect("a prefix"));
            let start = Start { order: *order, ..Start::default() };
            let create = Edit::Create { name: (*name).to_string(), suffix: 4, place, start };
            let plan = table.plan(&create).expect("legal");
            table.apply(&plan).expect("applied");
        }
        table
    }

    fn declare(name: &str, next: u128) -> Edit {
        Edit::Update { name: name.to_string(), patch: Patch { next: Some(Count::Below(next)), ..Patch::default() } }
    }

    #[test]
    fn ok_the_suffixes_through_a_floor_are_counted() {
        let table = table(&[
            ("low", "00000000", Order::Sequential),
            ("high", "01000000", Order::Sequential),
            ("mixed", "10", Order::Scrambled),
            ("foreign", "11", Order::External),
        ]);
        for (name, floor, expected) in [
            ("low", 0, Ok(1)),
            ("low", 14, Ok(15)),
            ("low", 15, Ok(16)),
            ("low", 16, Err(NoFloor::Above { floor: 16, last: 15 })),
            ("high", 0x3fff, Ok(0)),
            ("high", 0x4000, Ok(1)),
            ("high", 0x400f, Ok(16)),
            ("high", 0x4010, Err(NoFloor::Above { floor: 0x4010, last: 0x400f })),
            ("high", u128::MAX, Err(NoFloor::Above { floor: u128::MAX, last: 0x400f })),
            ("mixed", 0, Err(NoFloor::Scrambled)),
            ("foreign", 0, Err(NoFloor::External)),
        ] {
            let region = table.named(name).expect("there");
            assert_eq!(region.suffixes_through(floor, 16), expected.map(Count::Below), "{name} {floor}");
        }
    }

    #[test]
    fn err_a_closed_region_has_no_floor() {
        let mut table = table(&[("closed", "10", Order::Sequential)]);
        let heir =
            NewRegion { name: "heir".to_string(), suffix: None, extension: "0".parse().ok(), start: Start::default() };
        let name = "closed".to_string();
        let close = Edit::Subdivide { name, by: 1, new_regions: [heir].into(), reserve_others: true };
        let plan = table.plan(&close).expect("legal");
        table.apply(&plan).expect("applied");
        assert_eq!(table.named("closed").expect("there").suffixes_through(0, 16), Err(NoFloor::Closed));
    }

    #[test]
    fn ok_a_region_of_all_identifiers_counts_all() {
        let mut table = Table::new(128).expect("a width");
        let place = Place::At(Prefix::EMPTY);
        let create = Edit::Create { name: "all".to_string(), suffix: 128, place, start: Start::default() };
        let plan = table.plan(&create).expect("legal");
        table.apply(&plan).expect("applied");
        let region = table.named("all").expect("there");
        for (floor, count) in [(0, Count::Below(1)), (u128::MAX - 1, Count::Below(u128::MAX)), (u128::MAX, Count::Max)]
        {
            assert_eq!(region.suffixes_through(floor, 128), Ok(count), "{floor}");
        }
    }

    #[test]
    fn ok_declarations_of_different_regions_apply_in_turn() {
        let mut table =
            table(&[("a", "00", Order::Sequential), ("b", "01", Order::Sequential), ("c", "10", Order::Sequential)]);
        let base = table.revision();
        let plans = [declare("c", 3), declare("a", 1), declare("b", 2)].map(|edit| table.plan(&edit).expect("legal"));
        for plan in Plan::in_turn(plans.to_vec()).expect("independent") {
            table.apply(&plan).expect("applied");
        }
        assert_eq!(table.revision(), Revision(base.0 + 3));
        let issued = ["a", "b", "c"].map(|name| *table.named(name).expect("there").issued);
        assert_eq!(issued, [1, 2, 3].map(Count::Below));
    }

    #[test]
    fn err_plans_that_depend_on_each_other_have_no_turns() {
        let mut table = table(&[("a", "00", Order::Sequential), ("b", "01", Order::Sequential)]);
        let plan = |table: &Table, edit: &Edit| table.plan(edit).expect("legal");
        let (a, again, b) =
            (plan(&table, &declare("a", 1)), plan(&table, &declare("a", 2)), plan(&table, &declare("b", 1)));
        let expand = plan(&table, &Edit::Expand { name: "b".to_string(), by: 1 });
        let patch = Patch { sealed: Some(true), next: Some(Count::Below(1)), ..Patch::default() };
        let seal = plan(&table, &Edit::Update { name: "b".to_string(), patch });
        table.apply(&a).expect("applied");
        let later = plan(&table, &declare("b", 1));
        for (plans, why) in [
            (vec![a.clone(), again], "the same region"),
            (vec![a.clone(), expand], "an edit of another kind"),
            (vec![a.clone(), seal], "a declaration that changes more"),
            (vec![a.clone(), later], "another revision"),
            (vec![a.clone(), b.clone().without_effect()], "no change"),
        ] {
            assert_eq!(Plan::in_turn(plans), None, "{why}");
        }
        assert!(Plan::in_turn(vec![a, b]).is_some());
    }
}
