//! Plans expansions and shrinks, which move bits between the expansion zone and the suffix. Identifiers do not change.

use alloc::string::ToString;

use super::Plan;
use crate::{count::Count, refusal::Refusal, region::Region, table::Table};

/// Plans the expansion if one is due according to the region's policy. The check and the plan use the same revision, so
/// only one of several daemons expands the region.
pub(super) fn expand_if_due(table: &Table, name: &str, count: u64) -> Result<Plan, Refusal> {
    match table.named(name)?.expansion_due(count) {
        Some(by) => expand(table, name, by),
        None => Err(Refusal::NotDue { region: name.into() }),
    }
}

pub(super) fn expand(table: &Table, name: &str, by: u8) -> Result<Plan, Refusal> {
    let region = resizable(table, name, by)?;
    let usable = region.expandable_bits();
    if by > usable {
        let (region, zone) = (region.name.to_string(), region.zone);
        return Err(Refusal::CannotExpand { region, zone, usable, requested: by });
    }
    // OK because `by` is at most the zone, and zone and suffix together have at most 128 bits.
    Ok(resized(table, region, Region { zone: region.zone - by, suffix: region.suffix + by, ..region.clone() }))
}

pub(super) fn shrink(table: &Table, name: &str, by: u8) -> Result<Plan, Refusal> {
    let region = resizable(table, name, by)?;
    // The table knows which numbers of an external region are in use only if they were declared.
    if *region.issued == Count::ZERO {
        region.check_use_known()?;
    }
    region.check_all_own()?;
    let most = region.suffix.saturating_sub(region.issued.bits());
    let Some(suffix) = region.suffix.checked_sub(by) else {
        return Err(Refusal::SuffixTooNarrow { region: region.name.to_string(), suffix: region.suffix, by, most });
    };
    // OK because zone and suffix together have at most 128 bits.
    let shrunk = Region { zone: region.zone + by, suffix, ..region.clone() };
    match shrunk.check_issued() {
        Ok(()) => Ok(resized(table, region, shrunk)),
        Err(Refusal::SuffixInUse { region, issued, needed, requested, .. }) => {
            Err(Refusal::SuffixInUse { region, issued, needed, requested, most: Some(most) })
        }
        Err(refusal) => Err(refusal),
    }
}

/// Finds a region that can be resized: neither closed nor delegated.
fn resizable<'t>(table: &'t Table, name: &str, by: u8) -> Result<&'t Region, Refusal> {
    let region = table.subject(name, by)?;
    table.check_not_closed(region)?;
    region.check_not_delegated()?;
    Ok(region)
}

fn resized(table: &Table, region: &Region, after: Region) -> Plan {
    let mut plan = table.draft();
    plan.change(region, after);
    plan
}
