//! Plans: the effects of an edit. The same function plans dry runs and real edits.
//!
//! Planning is a pure function `(table, edit) -> plan | refusal`. A plan lists every region that it changes, in its
//! states before and after the edit. It is valid only for the revision for which it was made.

mod create;
mod delegate;
mod delete;
mod divide;
mod import;
mod resize;
mod revert;
#[cfg(test)]
mod tests;
mod update;

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

pub use self::create::Choice;

use crate::{
    change::Change,
    count::Count,
    edit::Edit,
    name::is_table_name,
    prefix::Prefix,
    rare::Rare,
    refusal::Refusal,
    region::{FormerPrefix, Kind, Region, RegionNumber},
    revision::Revision,
    table::Table,
};

/// The effects of an edit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The revision for which the plan is valid.
    pub base: Revision,
    /// The revision after the edit. It is `base` if the edit changes nothing.
    pub revision: Revision,
    /// Every region that changes, is created or is deleted. The subject of the edit comes first.
    pub changes: Vec<Change>,
    /// Prefixes that a split frees and no new region takes, larger blocks first; or the prefix of a deleted region.
    pub freed: Vec<Prefix>,
    /// The free block in which a new region was placed.
    pub block: Option<Prefix>,
    /// The region that is split to free a prefix for the new one.
    pub donor: Option<String>,
    /// The counter that moves to another region: when a region closes, its identifiers move to its all-zero subregion.
    pub counter_move: Option<CounterMove>,
    /// The region whose suffixes the edit declares as issued, and its counter after the edit.
    pub declared: Option<(RegionNumber, Count)>,
    /// The regions whose suffixes become separate spaces.
    pub delegated: Vec<RegionNumber>,
    /// The new regions whose counters are not known: they grant nothing until a floor is declared.
    pub unsure: Vec<RegionNumber>,
}

/// A counter that moves to another region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CounterMove {
    /// The region that closes.
    pub from: RegionNumber,
    /// Its all-zero subregion.
    pub to: RegionNumber,
}

impl Table {
    /// Plans an edit.
    ///
    /// # Errors
    ///
    /// Returns the refusal for the first rule that the edit breaks. The rules are checked in this order: names of new
    /// regions, the subject of the edit, the number of bits, then the rest.
    pub fn plan(&self, edit: &Edit) -> Result<Plan, Refusal> {
        match edit {
            Edit::Create { name, suffix, place, start } => create::plan(self, name, *suffix, place, start),
            Edit::Expand { name, by } => resize::expand(self, name, *by),
            Edit::ExpandIfDue { name, count } => resize::expand_if_due(self, name, *count),
            Edit::Shrink { name, by } => resize::shrink(self, name, *by),
            Edit::Split { name, by, new_regions } => divide::split(self, name, *by, new_regions),
            Edit::Subdivide { name, by, new_regions, reserve_others } => {
                divide::subdivide(self, name, *by, new_regions, *reserve_others)
            }
            Edit::Delegate { name } => delegate::plan(self, name),
            Edit::Undelegate { name } => delegate::revert(self, name),
            Edit::Delete { name, unused } => delete::plan(self, name, *unused),
            Edit::Update { name, patch } => update::plan(self, name, patch),
            Edit::Import { regions } => import::plan(self, regions),
            Edit::Revert { changes } => revert::plan(self, changes),
        }
    }

    /// Applies a plan that was made for this revision of the table.
    ///
    /// Counters change without a new revision, so suffixes may have been issued since the plan was made. They stay
    /// issued.
    ///
    /// # Errors
    ///
    /// Fails with `stale-revision` if the table is at another revision, and with `suffix-in-use` or `region-populated`
    /// if suffixes issued since the plan was made no longer fit. The table is then unchanged.
    pub fn apply(&mut self, plan: &Plan) -> Result<(), Refusal> {
        if plan.base != self.revision() {
            return Err(Refusal::StaleRevision { expected: plan.base, present: self.revision() });
        }
        let mut regions = Vec::with_capacity(plan.changes.len());
        for change in &plan.changes {
            match &change.after {
                Some(after) => regions.push(self.with_counter(plan, after)?),
                // The counter of the deleted region moves to another region. If the deleted region has issued suffixes
                // since the plan was made, the plan is refused: an identifier never leaves its region.
                None if plan.counter_move.is_some_and(|moved| moved.from == change.number) => {
                    let planned = change.before.as_ref().map_or(Count::ZERO, |before| *before.issued);
                    match self.get(change.number) {
                        Some(heir) if *heir.issued > planned => {
                            return Err(Refusal::InUse { region: heir.name.to_string(), issued: *heir.issued });
                        }
                        _ => {}
                    }
                }
                None => self.get(change.number).map_or(Ok(()), Region::check_unused)?,
            }
        }
        self.revise(plan.revision, plan.changes.iter().map(|change| change.number), regions);
        Ok(())
    }

    /// Returns a region after a change, with its current counter or the counter that it inherits.
    fn with_counter(&self, plan: &Plan, after: &Region) -> Result<Region, Refusal> {
        let mut after = after.clone();
        let declared = plan.declared.filter(|(number, _)| *number == after.number).map(|(_, declared)| declared);
        let (source, declared) = match plan.counter_move {
            // The all-zero subregion may start above the counter that it inherits.
            Some(CounterMove { from, to }) if to == after.number => (self.get(from), Some(*after.issued)),
            _ => (self.get(after.number), declared),
        };
        if after.kind != Kind::Closed
            && let Some(source) = source
        {
            after.issued = declared.map_or(*source.issued, |declared| declared.max(*source.issued)).into();
            after.check_issued()?;
        }
        Ok(after)
    }

    /// Checks that no region has changed since a past edit made these changes. Ignores counters.
    pub(crate) fn check_latest(&self, changes: &[Change]) -> Result<(), Refusal> {
        let shape = |region: &Region| Region { issued: Rare::default(), ..region.clone() };
        let changed =
            changes.iter().find(|change| self.get(change.number).map(shape) != change.after.as_ref().map(shape));
        match changed {
            Some(change) => {
                let region = change.region().map(|region| region.name.to_string()).unwrap_or_default();
                Err(Refusal::EditedSince { region })
            }
            None => Ok(()),
        }
    }

    /// Returns a plan for the next revision that changes nothing yet.
    fn draft(&self) -> Plan {
        Plan {
            base: self.revision(),
            revision: self.revision().next(),
            changes: Vec::new(),
            freed: Vec::new(),
            block: None,
            donor: None,
            counter_move: None,
            declared: None,
            delegated: Vec::new(),
            unsure: Vec::new(),
        }
    }

    /// Checks the name of a new region.
    fn check_new_name(&self, name: &str) -> Result<(), Refusal> {
        if !is_table_name(name) {
            return Err(Refusal::BadName { name: name.to_string() });
        }
        match self.named(name) {
            Ok(_) => Err(Refusal::NameTaken { name: name.to_string() }),
            Err(_) => Ok(()),
        }
    }

    /// Returns the refusal for an edit that needs a region without subregions.
    fn has_subregions(&self, region: &Region) -> Refusal {
        const NAMED_MAX: usize = 8;
        let subregions = self.children(region).take(NAMED_MAX).map(|sub| sub.name.to_string()).collect();
        let (region_name, count) = (region.name.to_string(), self.children(region).count());
        Refusal::HasSubregions { region: region_name, sub_bits: region.sub_bits, subregions, count }
    }

    /// Returns the subject of an edit. Rejects an unknown region, and zero as the number of bits.
    fn subject(&self, name: &str, by: u8) -> Result<&Region, Refusal> {
        let region = self.named(name)?;
        if by == 0 { Err(Refusal::NoBits) } else { Ok(region) }
    }
}

/// Returns the region with its prefix lengthened by `by` zeros, and the old prefix in its history.
fn lengthened(table: &Table, region: &Region, by: u8) -> Region {
    let mut past = region.past().clone();
    let (prefix, from, to, issued) = (region.prefix, region.since, table.revision(), *region.issued);
    past.prefixes.push(FormerPrefix { prefix, from, to, issued });
    let mut longer = Region {
        prefix: region.prefix.zeros(by),
        zone: region.zone - by, // OK because the caller has checked the zone
        since: table.revision().next(),
        ..region.clone()
    };
    longer.set_past(past);
    longer
}

/// Returns the prefixes of deleted top-level regions that no changed region takes.
fn released(changes: &[Change]) -> Vec<Prefix> {
    let afters = || changes.iter().filter_map(|change| change.after.as_ref());
    let deleted = changes.iter().filter(|change| change.after.is_none()).filter_map(|change| change.before.as_ref());
    let freed = deleted.filter_map(delete::freed);
    freed.filter(|prefix| !afters().any(|after| prefix.starts_with(after.prefix))).collect()
}

/// Returns the counter move of a past edit that reopened a closed region: from the deleted all-zero subregion to its
/// parent.
fn reopened(changes: &[Change]) -> Option<CounterMove> {
    let (before, after) = changes.iter().find_map(|change| {
        let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
        (before.kind == Kind::Closed && after.kind != Kind::Closed).then_some((before, after))
    })?;
    let zero = before.prefix.zeros(before.sub_bits);
    let is_heir = |change: &&Change| change.after.is_none() && change.region().is_some_and(|it| it.prefix == zero);
    changes.iter().find(is_heir).map(|heir| CounterMove { from: heir.number, to: after.number })
}

impl Plan {
    /// Reconstructs the plan of a past edit from its changes.
    pub fn made(revision: Revision, changes: Vec<Change>) -> Self {
        let split = |change: &Change| {
            let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
            (before.prefix.len() < after.prefix.len()).then_some(before.prefix)
        };
        let freed = changes.first().and_then(split).map(|old| divide::freed(&changes, old));
        let freed = freed.unwrap_or_else(|| released(&changes));
        let counter_move = reopened(&changes);
        let makes = changes.first().is_some_and(Change::creates);
        let donor = changes.iter().find(|change| makes && split(change).is_some());
        let donor = donor.and_then(|change| change.after.as_ref()).map(|after| after.name.to_string());
        Self {
            base: Revision(revision.0.saturating_sub(1)),
            revision,
            changes,
            freed,
            block: None,
            donor,
            counter_move,
            declared: None,
            delegated: Vec::new(),
            unsure: Vec::new(),
        }
    }

    /// Adds a region that changes.
    fn change(&mut self, before: &Region, after: Region) {
        self.changes.push(Change::changed(before.clone(), after));
    }

    /// Adds a region that is created.
    fn make(&mut self, region: Region) {
        self.changes.push(Change::created(region));
    }

    /// Adds a region that is deleted.
    fn delete(&mut self, region: &Region) {
        self.changes.push(Change::deleted(region.clone()));
    }

    /// Returns the subject of the edit as it is after the edit or, if the edit deletes it, before the edit.
    pub fn subject(&self) -> Option<&Region> {
        self.changes.first().and_then(Change::region)
    }

    /// Returns whether every region stays as it is, including its counter.
    pub fn changes_nothing(&self) -> bool {
        self.changes.iter().all(|change| change.before == change.after)
    }

    /// Returns this plan without a new revision, for an edit that was found to change nothing.
    #[must_use]
    pub fn without_effect(self) -> Self {
        Self { revision: self.base, declared: None, ..self }
    }
}
