//! Plans updates of a region's attributes: name, seal, owner, description, labels, policy, declared counter.

use super::{Plan, create::check_next};
use crate::{
    attributes::{Patch, PolicyPatch, Texts},
    refusal::Refusal,
    region::Region,
    table::Table,
};

pub(super) fn plan(table: &Table, name: &str, patch: &Patch) -> Result<Plan, Refusal> {
    if let Some(new) = patch.name.as_deref().filter(|new| *new != name) {
        table.check_new_name(new)?;
    }
    let region = table.named(name)?;
    if *patch == Patch::default() {
        return Err(Refusal::NoChange);
    }
    let mut after = region.clone();
    if let Some(new) = &patch.name {
        after.name.clone_from(new);
    }
    if let Some(sealed) = patch.sealed {
        after.sealed = sealed;
    }
    let mut texts = Texts::clone(&region.texts);
    for (text, new) in [(&mut texts.owner, &patch.owner), (&mut texts.description, &patch.description)] {
        if let Some(new) = new {
            text.clone_from(new);
        }
    }
    for (label, value) in &patch.labels {
        match value {
            Some(value) => drop(texts.labels.insert(label.clone(), value.clone())),
            None => drop(texts.labels.remove(label)),
        }
    }
    texts.check()?;
    after.texts = texts.into();
    if patch.policy != PolicyPatch::default() {
        let policy = region.policy.changed(&patch.policy)?;
        policy.check(region.order)?;
        check_reach(region, &patch.policy)?;
        after.policy = policy.into();
    }
    if let Some(next) = patch.next {
        table.check_not_closed(region)?;
        region.check_not_delegated()?;
        after.issued = region.issued.max(check_next(next, region.suffix, region.order)?);
    }
    let mut plan = table.draft();
    plan.declared = patch.next.map(|_| (region.number, after.issued));
    plan.change(region, after);
    // A declaration can matter even if the counter stays: other daemons give up their chunks below it.
    Ok(if plan.declared.is_none() && plan.changes_nothing() { plan.without_effect() } else { plan })
}

/// Rejects a new automatic expansion that ends below the region's suffix. A patch of the whole policy, such as that of
/// an undo, may set an expansion that has already reached its limit.
fn check_reach(region: &Region, patch: &PolicyPatch) -> Result<(), Refusal> {
    let is_whole = patch.cap.is_some() && patch.bounds.is_some() && patch.strict.is_some();
    match patch.auto_expand.flatten() {
        Some(auto) if !is_whole && auto.max_suffix < region.suffix => {
            Err(Refusal::ExpandsNever { suffix: region.suffix, max: auto.max_suffix })
        }
        _ => Ok(()),
    }
}
