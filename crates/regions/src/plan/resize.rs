//! Expanding and shrinking: bits move between the expansion zone and the suffix. Every identifier stays as it is.

use alloc::string::ToString;

use super::Plan;
use crate::{
    count::Count,
    refusal::Refusal,
    region::{Kind, Region},
    table::Table,
};

pub(super) fn expand(table: &Table, name: &str, by: u8) -> Result<Plan, Refusal> {
    let region = own(table, name, by)?;
    let usable = region.expandable_bits();
    if by > usable {
        let (region, zone) = (region.name.clone(), region.zone);
        return Err(Refusal::ZoneTooSmall { region, zone, usable, asked: by });
    }
    Ok(resized(table, region, region.zone - by, region.suffix + by))
}

pub(super) fn shrink(table: &Table, name: &str, by: u8) -> Result<Plan, Refusal> {
    let region = own(table, name, by)?;
    let Some(suffix) = region.suffix.checked_sub(by) else {
        return Err(Refusal::SuffixBits { bits: by, max: region.suffix });
    };
    if region.issued > Count::power_of_two(suffix) {
        let (issued, needed) = (region.issued, region.issued.bits());
        return Err(Refusal::SuffixInUse { issued, needed, asked: suffix });
    }
    Ok(resized(table, region, region.zone + by, suffix))
}

/// A region with identifiers of its own.
fn own<'t>(table: &'t Table, name: &str, by: u8) -> Result<&'t Region, Refusal> {
    let region = table.subject(name, by)?;
    match region.kind {
        Kind::Open | Kind::Partial => Ok(region),
        Kind::Closed => Err(Refusal::Closed { region: name.to_string() }),
    }
}

fn resized(table: &Table, region: &Region, zone: u8, suffix: u8) -> Plan {
    let mut plan = table.draft();
    plan.change(region, Region { zone, suffix, ..region.clone() });
    plan
}
