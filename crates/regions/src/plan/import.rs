//! Plans an import, which creates regions of another table with their prefixes, counters and former prefixes.
//!
//! Together with the regions around them, the new regions must satisfy every invariant of a stored table. An import
//! does not change existing regions.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
};

use super::Plan;
use crate::{
    edit::Imported,
    prefix::{BadPrefix, Prefix},
    refusal::Refusal,
    region::{Past, Region, RegionNumber},
    restore::Damage,
    table::Table,
};

pub(super) fn plan(table: &Table, imported: &[Imported]) -> Result<Plan, Refusal> {
    let names = numbered(table, imported)?;
    let mut plan = table.draft();
    for (Imported { region, parent, needs_floor }, number) in imported.iter().zip(table.next_number().0..) {
        let parent = parent.as_deref().map(|parent| number_of(table, &names, parent)).transpose()?;
        let mut made = Region {
            number: RegionNumber(number),
            parent: parent.into(),
            // The order within an octave depends on the region's key, so a scrambled region continues at the start of
            // an octave.
            issued: region.order.floor(*region.issued).into(),
            since: plan.revision,
            ..region.clone()
        };
        made.set_past(Past { key_number: None, ..region.past().clone() });
        check_alone(table, &made)?;
        plan.delegated.extend(made.delegated.then_some(made.number));
        plan.unsure.extend(needs_floor.then_some(made.number));
        plan.make(made);
    }
    check_together(table, &plan)?;
    Ok(plan)
}

/// Returns the numbers of the new regions by name.
fn numbered<'i>(table: &Table, imported: &'i [Imported]) -> Result<BTreeMap<&'i str, RegionNumber>, Refusal> {
    let mut names = BTreeMap::new();
    for (Imported { region, .. }, number) in imported.iter().zip(table.next_number().0..) {
        table.check_new_name(&region.name)?;
        if names.insert(region.name.as_str(), RegionNumber(number)).is_some() {
            return Err(Refusal::NameTaken { name: region.name.to_string() });
        }
    }
    if names.is_empty() { Err(Refusal::NoChange) } else { Ok(names) }
}

/// Returns the number of a parent that already exists or is imported by the same edit.
fn number_of(table: &Table, names: &BTreeMap<&str, RegionNumber>, parent: &str) -> Result<RegionNumber, Refusal> {
    let imported = names.get(parent).copied();
    imported.map_or_else(|| table.named(parent).map(|parent| parent.number), Ok)
}

/// Repeats checks of other edits, because their errors are clearer than those of the invariants.
fn check_alone(table: &Table, region: &Region) -> Result<(), Refusal> {
    let (prefix, bits) = (region.prefix, table.bits());
    if prefix.len() > bits {
        return Err(BadPrefix::TooLong { len: prefix.len().into(), max: bits }.into());
    }
    let inside = table.within(prefix).next();
    let around = inside.or_else(|| around(table, prefix).filter(|_| region.parent().is_none()));
    if let Some(other) = around {
        return Err(Refusal::PrefixConflict { prefix, region: other.name.to_string(), taken: other.prefix });
    }
    region.policy().check(region.order)?;
    region.texts().check()
}

/// Returns the innermost existing region around a prefix.
pub(super) fn around(table: &Table, prefix: Prefix) -> Option<&Region> {
    let mut region = table.at_or_before(prefix)?;
    while !prefix.starts_with(region.prefix) {
        region = table.parent(region)?;
    }
    Some(region)
}

/// Checks the new regions and the regions around them as a separate table, because every invariant depends only on
/// these regions.
fn check_together(table: &Table, plan: &Plan) -> Result<(), Refusal> {
    let made = || plan.changes.iter().filter_map(|change| change.after.as_ref());
    let mut regions: BTreeMap<RegionNumber, &Region> = made().map(|region| (region.number, region)).collect();
    for region in made() {
        let mut outer = around(table, region.prefix);
        while let Some(region) = outer.filter(|region| regions.insert(region.number, region).is_none()) {
            // `Table::restore` rejects a region that should have subregions but has none. So add its first subregion,
            // the first subregion inside that, and so on.
            let mut first = table.children(region).next();
            while let Some(region) = first.filter(|region| regions.insert(region.number, region).is_none()) {
                first = table.children(region).next();
            }
            outer = table.parent(region);
        }
    }
    let next = RegionNumber(table.next_number().0.saturating_add(plan.changes.len() as u64)); // OK because a usize has at most 64 bits
    let whole = Table::restore(table.bits(), plan.revision, next, regions.into_values().cloned());
    whole.map(drop).map_err(refused)
}

fn refused(damage: Damage) -> Refusal {
    let (region, what) = match damage {
        Damage::Region { region, what } => (region, what),
        Damage::Width { .. } => (String::new(), "the width of the space is invalid"),
    };
    Refusal::NotImported { region, what }
}
