//! Plans the deletion of a region from which nothing was ever issued or reserved.
//!
//! The region's number is never used again, but its name and prefix become free for other regions.

use alloc::string::ToString;

use super::Plan;
use crate::{
    prefix::Prefix,
    rare::Rare,
    refusal::Refusal,
    region::{Kind, Region},
    table::Table,
};

pub(super) fn plan(table: &Table, name: &str, unused: bool) -> Result<Plan, Refusal> {
    let region = table.named(name)?;
    region.check_not_delegated()?;
    if region.kind != Kind::Open {
        return Err(table.has_subregions(region));
    }
    region.check_unused()?;
    if !unused {
        region.check_use_known()?;
    }
    let mut plan = table.draft();
    plan.delete(region);
    plan.freed.extend(freed(region));
    if let Some(parent) = table.parent(region)
        && let Some(after) = without(table, parent, region)?
    {
        plan.change(parent, after);
    }
    Ok(plan)
}

/// Returns the prefix that the deletion of a region frees for top-level regions.
pub(super) fn freed(region: &Region) -> Option<Prefix> {
    region.parent().is_none().then_some(region.prefix)
}

/// Returns the parent after the deletion of a subregion, or `None` if the parent stays as it is.
fn without(table: &Table, parent: &Region, sub: &Region) -> Result<Option<Region>, Refusal> {
    let is_last = table.children(parent).nth(1).is_none();
    let is_heir = parent.kind == Kind::Closed && sub.prefix.rest(parent.prefix.len()).is_zero();
    match (is_last, is_heir) {
        (false, true) => Err(Refusal::IsHeir { region: sub.name.to_string(), parent: parent.name.to_string() }),
        (false, false) => Ok(None),
        (true, false) => Ok(Some(Region { kind: Kind::Open, sub_bits: 0, ..parent.clone() })),
        // Nothing was issued from the heir, and nothing from the parent before it closed, so the parent can replace the
        // heir.
        (true, true) => {
            let mut region = Region {
                kind: Kind::Open,
                sub_bits: 0,
                suffix: sub.suffix,
                zone: table.bits() - parent.prefix.len() - sub.suffix, // OK because the longer prefix leaves these bits
                issued: Rare::default(),
                sealed: parent.sealed || sub.sealed,
                ..parent.clone()
            };
            region.set_policy(*sub.policy());
            Ok(Some(region))
        }
    }
}
