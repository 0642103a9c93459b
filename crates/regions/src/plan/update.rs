//! Plans updates of a region's attributes: name, seal, owner, description, labels, policy, and declared counter.

use alloc::string::ToString;

use super::{Plan, create::check_next};
use crate::{
    attributes::{Patch, PolicyPatch},
    count::Count,
    limits::BITS_MAX,
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
        after.rename(new);
    }
    if let Some(sealed) = patch.sealed {
        after.sealed = sealed;
    }
    let mut texts = region.texts().clone();
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
    after.set_texts(texts);
    if patch.policy != PolicyPatch::default() {
        let policy = region.policy().changed(&region.name, &patch.policy)?;
        check_effect(table, region, &patch.policy)?;
        policy.check(region.order)?;
        if !region.policy().stride.includes(policy.stride) && patch.next.is_none() {
            // A closed region has no counter, so the numbers cannot be declared.
            table.check_not_closed(region)?;
            let (region, stride) = (region.name.to_string(), region.policy().stride);
            return Err(Refusal::OthersNumbers { region, stride });
        }
        after.set_policy(policy);
    }
    if let Some(next) = patch.next {
        table.check_not_closed(region)?;
        region.check_not_delegated()?;
        after.issued = region.issued.max(check_next(next, region.suffix, region.order)?).into();
    }
    let mut plan = table.draft();
    plan.declared = patch.next.map(|_| (region.number, *after.issued));
    plan.change(region, after);
    // A declaration can have an effect even if it does not change the counter: other daemons give up their chunks below
    // the declared number.
    Ok(if plan.declared.is_none() && plan.changes_nothing() { plan.without_effect() } else { plan })
}

/// Rejects a policy that has no effect on the region. A patch of the whole policy, such as that of an import or an
/// undo, may set a policy that no longer has an effect.
fn check_effect(table: &Table, region: &Region, patch: &PolicyPatch) -> Result<(), Refusal> {
    if patch.is_whole() || !patch.sets() {
        return Ok(());
    }
    table.check_not_closed(region)?;
    if region.delegated {
        return Err(Refusal::DelegatedPolicy { region: region.name.to_string() });
    }
    if patch.cap == Some(Some(Count::ZERO)) {
        return Err(Refusal::CapOfZero { region: region.name.to_string() });
    }
    let Some(auto) = patch.auto_expand.flatten() else { return Ok(()) };
    if auto.max_suffix < region.suffix {
        let most = region.suffix.saturating_add(region.expandable_bits());
        return Err(Refusal::ExpandsNever { suffix: region.suffix, max: auto.max_suffix, most });
    }
    // A maximum of 128 bits means no limit.
    let most = table.bits() - region.prefix.len(); // OK because a prefix fits its space
    if auto.max_suffix > table.bits() && auto.max_suffix != BITS_MAX {
        let (at_percent, by_bits, max) = (auto.at_percent, auto.by_bits, auto.max_suffix);
        return Err(Refusal::ExpandsBeyond { region: region.name.to_string(), at_percent, by_bits, max, most });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use kent_ids::Stride;

    use super::*;
    use crate::{AutoExpand, Count, Edit, NewRegion, Place, Policy, Start};

    fn apply(table: &mut Table, edit: &Edit) {
        let plan = table.plan(edit).expect("legal");
        table.apply(&plan).expect("applied");
    }

    /// Returns a table of 16 bits with an open region, a delegated one and a closed one.
    fn table() -> Table {
        let mut table = Table::new(16).expect("a width");
        for (name, prefix) in [("open", "00"), ("delegated", "01"), ("closed", "10")] {
            let place = Place::At(prefix.parse().expect("a prefix"));
            apply(&mut table, &Edit::Create { name: name.to_string(), suffix: 4, place, start: Start::default() });
        }
        apply(&mut table, &Edit::Delegate { name: "delegated".to_string() });
        let heir =
            NewRegion { name: "heir".to_string(), suffix: None, extension: "0".parse().ok(), start: Start::default() };
        let name = "closed".to_string();
        apply(&mut table, &Edit::Subdivide { name, by: 1, new_regions: [heir].into(), reserve_others: true });
        table
    }

    #[test]
    fn ok_a_region_keeps_the_name_with_which_it_was_created() {
        let mut table = table();
        let number = table.named("open").expect("there").number;
        for (from, to) in [("open", "second"), ("second", "third"), ("third", "open"), ("open", "last")] {
            let patch = Patch { name: Some(to.to_string()), ..Patch::default() };
            apply(&mut table, &Edit::Update { name: from.to_string(), patch });
            let region = table.get(number).expect("there");
            assert_eq!((region.name.as_str(), region.first_name()), (to, "open"));
            assert_eq!(region.past().first_name.is_none(), to == "open", "one form for each value");
        }
        apply(&mut table, &Edit::Expand { name: "last".to_string(), by: 1 });
        assert_eq!(table.get(number).expect("there").first_name(), "open");
        // The old name is free, and a new region with this name is a different region.
        let place = Place::At("11".parse().expect("a prefix"));
        apply(&mut table, &Edit::Create { name: "open".to_string(), suffix: 4, place, start: Start::default() });
        assert_eq!(table.named("open").expect("there").first_name(), "open");
    }

    #[test]
    fn err_the_numbers_of_another_generator_need_a_declaration() {
        let mut table = table();
        let stride = |step, offset| Stride::new(step, offset).expect("a stride");
        let update = |stride, next| {
            let policy = PolicyPatch { stride: Some(stride), ..PolicyPatch::default() };
            Edit::Update { name: "open".to_string(), patch: Patch { policy, next, ..Patch::default() } }
        };
        for (after, next, is_legal) in [
            (stride(2, 1), None, true),
            (stride(2, 0), None, false),
            (stride(3, 1), None, false),
            (Stride::EVERY, None, false),
            (stride(2, 1), None, true),
            (stride(4, 3), None, true),
            (stride(2, 1), None, false),
            (stride(2, 1), Some(Count::Below(7)), true),
            (stride(2, 0), Some(Count::ZERO), true),
            (Stride::EVERY, Some(Count::Below(9)), true),
        ] {
            match (table.plan(&update(after, next)), is_legal) {
                (Ok(plan), true) => table.apply(&plan).expect("applied"),
                (Err(Refusal::OthersNumbers { region, stride }), false) => {
                    assert_eq!(
                        (region.as_str(), stride),
                        ("open", table.named("open").expect("there").policy().stride)
                    );
                }
                (planned, _) => panic!("{after}: {planned:?}"),
            }
        }
        assert_eq!(table.named("open").expect("there").issued, Count::Below(9).into());
        let undone = table.plan(&update(stride(2, 1), None)).expect("legal");
        table.apply(&undone).expect("applied");
        let next = update(Stride::EVERY, None);
        assert!(update(stride(2, 1), None).stops_grants() && !next.stops_grants());
    }

    #[test]
    fn err_the_step_of_a_closed_region_cannot_end() {
        let mut table = table();
        let update = |policy| Edit::Update { name: "open".into(), patch: Patch { policy, ..Patch::default() } };
        apply(&mut table, &update(PolicyPatch { stride: Stride::new(2, 1), ..PolicyPatch::default() }));
        let (name, extension) = ("open-0".to_string(), "0".parse().ok());
        let heir = NewRegion { name, suffix: Some(4), extension, start: Start::default() };
        let (name, new_regions) = ("open".to_string(), [heir].into());
        apply(&mut table, &Edit::Subdivide { name, by: 1, new_regions, reserve_others: true });
        let ended = table.plan(&update(PolicyPatch::to(&Policy::default()))).expect_err("closed");
        assert_eq!(ended.code(), "closed", "{ended}");
    }

    #[test]
    fn err_no_edit_frees_the_numbers_of_another_generator() {
        let mut table = table();
        let name = || "open".to_string();
        let policy = PolicyPatch { stride: Stride::new(2, 1), ..PolicyPatch::default() };
        let step = Edit::Update { name: name(), patch: Patch { policy, ..Patch::default() } };
        apply(&mut table, &step);
        let heir = |suffix| NewRegion {
            name: "narrow".to_string(),
            suffix: Some(suffix),
            extension: "0".parse().ok(),
            start: Start::default(),
        };
        let close =
            |suffix| Edit::Subdivide { name: name(), by: 1, new_regions: [heir(suffix)].into(), reserve_others: true };
        for (edit, is_legal) in [
            (Edit::Shrink { name: name(), by: 1 }, false),
            (Edit::Delegate { name: name() }, false),
            (Edit::Delete { name: name(), unused: false }, false),
            (Edit::Delete { name: name(), unused: true }, true),
            (Edit::Expand { name: name(), by: 1 }, true),
            (close(3), false),
            (close(4), true),
        ] {
            match table.plan(&edit) {
                Ok(_) => assert!(is_legal, "{edit:?}"),
                Err(refusal) => assert!(!is_legal && refusal.code() == "use-unknown", "{edit:?}: {refusal}"),
            }
        }
    }

    #[test]
    fn err_policies_without_an_effect() {
        let expand = |max_suffix| PolicyPatch {
            auto_expand: Some(Some(AutoExpand { at_percent: 80, by_bits: 1, max_suffix })),
            ..PolicyPatch::default()
        };
        let cap = |cap| PolicyPatch { cap: Some(Some(Count::Below(cap))), ..PolicyPatch::default() };
        let strict = |strict| PolicyPatch { strict: Some(strict), ..PolicyPatch::default() };
        for (region, policy, code) in [
            ("open", expand(4), None),
            ("open", expand(16), None),
            ("open", expand(128), None),
            ("open", expand(3), Some("bad-input")),
            ("open", expand(17), Some("bad-input")),
            ("open", expand(127), Some("bad-input")),
            ("open", cap(1), None),
            ("open", cap(0), Some("bad-input")),
            ("delegated", cap(9), Some("delegated")),
            ("delegated", expand(8), Some("delegated")),
            ("delegated", strict(true), Some("delegated")),
            ("delegated", strict(false), None),
            ("delegated", PolicyPatch { cap: Some(None), ..PolicyPatch::default() }, None),
            ("closed", cap(9), Some("closed")),
            ("closed", strict(false), None),
            ("heir", cap(9), None),
        ] {
            let patch = Patch { policy, ..Patch::default() };
            let planned = table().plan(&Edit::Update { name: region.to_string(), patch });
            assert_eq!(planned.err().map(|refusal| refusal.code()), code, "{region} {policy:?}");
        }
    }
}
