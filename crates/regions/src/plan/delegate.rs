//! Plans a delegation: a region's suffixes become a separate space (Kent 1992, end of section 3.3). The reverse edit
//! returns the suffixes to the region.

use alloc::string::ToString;

use super::Plan;
use crate::{
    attributes::Order,
    count::Count,
    refusal::Refusal,
    region::{Kind, Region},
    table::Table,
};

pub(super) fn plan(table: &Table, name: &str) -> Result<Plan, Refusal> {
    let region = table.named(name)?;
    region.check_not_delegated()?;
    if region.kind != Kind::Open {
        return Err(table.has_subregions(region));
    }
    if region.suffix == 0 {
        return Err(Refusal::SuffixEmpty { region: name.to_string() });
    }
    if *region.issued != Count::ZERO {
        return Err(Refusal::Populated { region: name.to_string(), issued: *region.issued });
    }
    if region.order == Order::External {
        return Err(Refusal::DelegatesExternal { region: name.to_string() });
    }
    region.check_all_own()?;
    let mut plan = table.draft();
    plan.delegated.push(region.number);
    plan.change(region, Region { delegated: true, ..region.clone() });
    Ok(plan)
}

pub(super) fn revert(table: &Table, name: &str) -> Result<Plan, Refusal> {
    let region = table.named(name)?;
    if !region.delegated {
        return Err(Refusal::NotDelegated { region: name.to_string() });
    }
    let mut plan = table.draft();
    plan.change(region, Region { delegated: false, ..region.clone() });
    Ok(plan)
}
