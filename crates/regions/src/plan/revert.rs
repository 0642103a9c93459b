//! Plans the reversal of a past edit: every region that the edit changed returns to its earlier state.
//!
//! A region that the edit created is deleted, if none of its suffixes was issued or reserved. A region that the edit
//! deleted is created again, with another number. A prefix becomes shorter only if no other region is inside the
//! shorter prefix. A closed region gets its counter back from its all-zero subregion, if the subregion has issued
//! nothing since the edit. So every identifier stays with the region that issued it.

use alloc::{collections::BTreeMap, string::ToString, vec::Vec};

use super::{Change, CounterMove, Plan, import::around, lengthened};
use crate::{
    count::Count,
    prefix::Prefix,
    rare::Rare,
    refusal::Refusal,
    region::{Kind, Past, Region, RegionNumber},
    table::Table,
};

pub(super) fn plan(table: &Table, changes: &[Change]) -> Result<Plan, Refusal> {
    table.check_latest(changes)?;
    let mut reversal = Reversal::new(table, changes);
    for change in changes {
        match (&change.before, table.get(change.number)) {
            (Some(before), Some(present)) => {
                let after = match before.prefix.len().checked_sub(present.prefix.len()) {
                    // The past edit undid a split, so its reversal splits the region again. The zone is as wide as it
                    // was before the first split, so it is wide enough.
                    Some(by @ 1..) => lengthened(table, present, by),
                    _ => Region { issued: present.issued.clone(), ..before.clone() },
                };
                reversal.changed.push(Change::changed(present.clone(), after));
            }
            (Some(before), None) => reversal.create_again(before)?,
            (None, Some(present)) => reversal.deleted.push(Change::deleted(present.clone())),
            (None, None) => {}
        }
    }
    reversal.move_counter()?;
    reversal.check_deleted()?;
    reversal.check_changed()?;
    reversal.check_created()?;
    Ok(reversal.into_plan())
}

/// A reversal that is being planned.
struct Reversal<'t> {
    table: &'t Table,
    /// The new numbers of the regions that are created again, by their old numbers.
    numbers: BTreeMap<RegionNumber, RegionNumber>,
    /// The initial counters of the regions that the edit created.
    inherited: BTreeMap<RegionNumber, Count>,
    created: Vec<Change>,
    changed: Vec<Change>,
    deleted: Vec<Change>,
    counter_move: Option<CounterMove>,
}

impl<'t> Reversal<'t> {
    fn new(table: &'t Table, changes: &[Change]) -> Self {
        let missing = changes.iter().filter(|change| change.after.is_none()).map(|change| change.number);
        let made = changes.iter().filter(|change| change.creates()).filter_map(|change| change.after.as_ref());
        let inherited = made.map(|region| (region.number, *region.issued)).collect();
        let numbers = missing.zip((table.next_number().0..).map(RegionNumber)).collect();
        Self {
            table,
            numbers,
            inherited,
            created: Vec::new(),
            changed: Vec::new(),
            deleted: Vec::new(),
            counter_move: None,
        }
    }

    /// Creates a deleted region again. Nothing was ever issued from it, so its former prefixes do not matter.
    fn create_again(&mut self, before: &Region) -> Result<(), Refusal> {
        self.table.check_new_name(&before.name)?;
        // OK because `numbers` has a new number for every deleted region.
        let number = self.numbers.get(&before.number).copied().unwrap_or(before.number);
        let parent = before.parent().map(|parent| self.numbers.get(&parent).copied().unwrap_or(parent));
        let (issued, since) = (Count::ZERO, self.table.revision().next());
        let past = Past { key_number: Some(before.key_number()), prefixes: Vec::new(), ..before.past().clone() };
        let mut region = Region { number, parent: parent.into(), issued: issued.into(), since, ..before.clone() };
        region.set_past(past);
        self.created.push(Change::created(region));
        Ok(())
    }

    /// Finds the counter that moves if a region closes or reopens.
    fn move_counter(&mut self) -> Result<(), Refusal> {
        for change in &mut self.changed {
            let (Some(before), Some(after)) = (&change.before, &mut change.after) else { continue };
            let at = |changes: &[Change], bits| {
                let zero = before.prefix.zeros(bits);
                changes.iter().position(|change| change.region().is_some_and(|region| region.prefix == zero))
            };
            let changed = || Refusal::EditedSince { region: before.name.to_string() };
            match (before.kind, after.kind) {
                (Kind::Closed, Kind::Open | Kind::Partial) => {
                    let heir = at(&self.deleted, before.sub_bits).ok_or_else(changed)?;
                    let heir = self.deleted[heir].before.as_ref().ok_or_else(changed)?;
                    // An identifier never leaves its region, except to a subregion.
                    let inherited = self.inherited.get(&heir.number).copied().unwrap_or(Count::ZERO);
                    if *heir.issued > inherited {
                        return Err(Refusal::InUse { region: heir.name.to_string(), issued: *heir.issued });
                    }
                    after.issued = heir.issued.clone();
                    self.counter_move = Some(CounterMove { from: heir.number, to: after.number });
                }
                (Kind::Open | Kind::Partial, Kind::Closed) => {
                    let heir = at(&self.created, after.sub_bits).ok_or_else(changed)?;
                    let heir = self.created[heir].after.as_mut().ok_or_else(changed)?;
                    heir.issued = before.issued.clone();
                    heir.check_issued()?;
                    after.issued = Rare::default();
                    self.counter_move = Some(CounterMove { from: before.number, to: heir.number });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that the deleted regions are unused, and that nothing else is inside them.
    fn check_deleted(&self) -> Result<(), Refusal> {
        for region in self.deleted.iter().filter_map(|change| change.before.as_ref()) {
            region.check_not_delegated()?;
            self.check_children(region)?;
            if self.counter_move.is_none_or(|moved| moved.from != region.number) {
                region.check_unused()?;
            }
            // Unlike the check above, this check includes the heir, whose suffixes may be wider than those of its
            // parent.
            region.check_use_known()?;
        }
        Ok(())
    }

    /// Checks the regions that existed before the edit. A region that was open before the edit must have no subregions
    /// left, and any other region must still have one. No other region may be inside a prefix that becomes shorter.
    fn check_changed(&self) -> Result<(), Refusal> {
        for change in &self.changed {
            let (Some(before), Some(after)) = (&change.before, &change.after) else { continue };
            if after.kind != Kind::Closed {
                after.check_issued()?;
            }
            match after.kind {
                Kind::Open => self.check_children(before)?,
                Kind::Partial | Kind::Closed if !self.has_subregions(before) => {
                    return Err(Refusal::EditedSince { region: before.name.to_string() });
                }
                Kind::Partial | Kind::Closed => {}
            }
            if after.prefix != before.prefix {
                self.check_inside(after.prefix)?;
            }
        }
        Ok(())
    }

    /// Checks that the regions that are created again fit their old places.
    fn check_created(&self) -> Result<(), Refusal> {
        for region in self.created.iter().filter_map(|change| change.after.as_ref()) {
            self.check_inside(region.prefix)?;
            let Some(parent) = region.parent() else {
                let outer = around(self.table, region.prefix).filter(|outer| !self.replaces(outer.number));
                if let Some(outer) = outer {
                    let (prefix, taken) = (region.prefix, outer.prefix);
                    return Err(Refusal::PrefixConflict { prefix, region: outer.name.to_string(), taken });
                }
                continue;
            };
            let planned = self.created.iter().chain(&self.changed).find(|change| change.number == parent);
            let parent = planned.and_then(|change| change.after.as_ref()).or_else(|| self.table.get(parent));
            if !parent.is_some_and(|parent| is_place_of(parent, region)) {
                let region = parent.map_or_else(|| region.name.to_string(), |parent| parent.name.to_string());
                return Err(Refusal::EditedSince { region });
            }
        }
        Ok(())
    }

    /// Checks that all subregions of a region are deleted with it.
    fn check_children(&self, region: &Region) -> Result<(), Refusal> {
        if self.keeps_subregions(region) { Err(self.table.has_subregions(region)) } else { Ok(()) }
    }

    /// Returns whether a region has a subregion after the reversal.
    fn has_subregions(&self, region: &Region) -> bool {
        let mut created = self.created.iter().filter_map(|change| change.after.as_ref());
        self.keeps_subregions(region) || created.any(|made| made.parent() == Some(region.number))
    }

    /// Returns whether a region has a subregion that the reversal does not delete.
    fn keeps_subregions(&self, region: &Region) -> bool {
        let is_kept = |child: &Region| self.deleted.iter().all(|change| change.number != child.number);
        self.table.children(region).any(is_kept)
    }

    /// Checks that no other region is inside a prefix.
    fn check_inside(&self, prefix: Prefix) -> Result<(), Refusal> {
        match self.table.within(prefix).find(|region| !self.replaces(region.number)) {
            Some(other) => Err(Refusal::PrefixConflict { prefix, region: other.name.to_string(), taken: other.prefix }),
            None => Ok(()),
        }
    }

    /// Returns whether the reversal changes or deletes this region.
    fn replaces(&self, number: RegionNumber) -> bool {
        self.changed.iter().chain(&self.deleted).any(|change| change.number == number)
    }

    fn into_plan(self) -> Plan {
        let changes = [self.created, self.changed, self.deleted].concat();
        Plan { counter_move: self.counter_move, ..Plan::made(self.table.revision().next(), changes) }
    }
}

/// Returns whether a subregion fits this parent.
fn is_place_of(parent: &Region, region: &Region) -> bool {
    let level = u32::from(parent.prefix.len()) + u32::from(parent.sub_bits);
    let is_zero = region.prefix.rest(parent.prefix.len()).is_zero();
    parent.kind != Kind::Open
        && level == u32::from(region.prefix.len())
        && region.prefix.starts_with(parent.prefix)
        && (parent.kind == Kind::Closed || !is_zero)
}
