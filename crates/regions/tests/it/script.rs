//! Random scripts of valid and invalid edits, checked after each step.

use std::sync::Arc;

use kent_regions::{
    Change, Count, Donate, Edit, Index as RegionIndex, Kind, NewRegion, Past, Patch, Place, Plan, PolicyPatch, Prefix,
    Rare, Refusal, Region, RegionNumber, Revision, Seal, Start, Status, Table, Zone,
};
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::{imported, maps, naive};

/// One step of a script, independent of the regions that exist.
#[derive(Clone, Debug)]
struct Step {
    operation: u8,
    region: Index,
    bits: u8,
    suffix: u8,
    value: u128,
    len: u8,
    flag: bool,
    subs: Vec<(bool, u128, Option<u8>)>,
}

/// Draws mostly small numbers of bits, sometimes extreme ones.
fn bits() -> impl Strategy<Value = u8> {
    prop_oneof![20 => 0..5u8, 4 => 0..=128u8, 1 => any::<u8>()]
}

fn value() -> impl Strategy<Value = u128> {
    prop_oneof![3 => 0..16u128, 1 => any::<u128>(), 1 => any::<u128>().prop_map(|value| !(value & 15))]
}

fn step() -> impl Strategy<Value = Step> {
    let few = prop_oneof![6 => 0..3u8, 1 => bits()];
    let sub = (prop::bool::weighted(0.6), prop_oneof![2 => 0..4u128, 1 => value()], prop::option::weighted(0.9, few));
    let subs = vec(sub, 0..5);
    (0..15u8, any::<Index>(), bits(), bits(), value(), bits(), any::<bool>(), subs).prop_map(
        |(operation, region, bits, suffix, value, len, flag, subs)| Step {
            operation,
            region,
            bits,
            suffix,
            value,
            len,
            flag,
            subs,
        },
    )
}

/// Returns scripts whose first two steps create regions.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 2..40).prop_map(|mut steps| {
        steps.iter_mut().take(2).for_each(|step| step.operation = 4);
        steps
    })
}

fn width() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 4..11u32, 2 => 11..65u32, 1 => 65..128u32, 1 => Just(128u32)]
}

/// An identifier that was issued, and the region that issued it.
struct Issued {
    id: u128,
    by: RegionNumber,
}

struct Run {
    table: Table,
    issued: Vec<Issued>,
    names: u32,
    /// The changes of every edit, and whether it declared suffixes as issued.
    past: Vec<(Vec<Change>, bool)>,
    /// The prefixes that were sealed and have not been unsealed since.
    sealed: Vec<Prefix>,
}

impl Run {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("r{}", self.names)
    }

    fn region(&self, step: &Step) -> String {
        let unknown = (step.suffix == 0).then_some("unknown");
        let names: Vec<&str> = self.table.iter().map(|region| region.name.as_str()).chain(unknown).collect();
        if names.is_empty() { "unknown".to_owned() } else { step.region.get(&names).to_string() }
    }

    fn step(&mut self, step: &Step) {
        match step.operation {
            0..3 => self.issue(step),
            _ => self.edit(step),
        }
        self.check(step);
    }

    fn issue(&mut self, step: &Step) {
        let (name, before) = (self.region(step), self.table.clone());
        let count = u128::from(step.len % 8);
        let granted = match step.flag {
            true => self.table.issue(&name, count).map(|first| (0..count).map(|at| first + at).collect()),
            false => self.table.note(&name, step.value).map(|_| vec![step.value]),
        };
        let Ok(suffixes): Result<Vec<u128>, _> = granted else {
            assert_eq!(self.table, before);
            return;
        };
        if self.table == before {
            // Nothing new was issued. The noted suffix may even be one that another region issued, which the reversal
            // of a subdivision gives back to that region.
            return;
        }
        for suffix in suffixes {
            let id = self.table.compose(&name, suffix).expect("a suffix of the region");
            self.issued.push(Issued { id, by: self.table.named(&name).expect("the region").number });
        }
        assert_eq!(self.table.revision(), before.revision());
    }

    fn edit(&mut self, step: &Step) {
        let (edit, before) = (self.edit_of(step), self.table.clone());
        let plan = self.table.plan(&edit);
        assert_eq!(self.table, before);
        let plan = match plan {
            Ok(plan) => plan,
            Err(refusal) => return self.check_nearest(&edit, &refusal),
        };
        self.table.apply(&plan).expect("a fresh plan");
        check_no_identifier_becomes_grantable(&before, &self.table, &edit);
        assert_eq!(self.table.revision(), plan.revision);
        let after = self.table.clone();
        let again = self.table.apply(&plan).map_err(|refusal| refusal.code());
        assert_eq!(again, if plan.revision == plan.base { Ok(()) } else { Err("stale-revision") });
        assert_eq!(self.table, after);
        let made = Plan::made(plan.revision, plan.changes.clone());
        assert_eq!((&made.freed, &made.donor), (&plan.freed, &plan.donor), "the answer to a repeated request");
        for change in &plan.changes {
            assert_eq!(self.table.get(change.number), change.after.as_ref());
            assert_eq!(before.get(change.number), change.before.as_ref());
            let Some(after) = &change.after else {
                let moves = plan.counter_move.is_some_and(|moved| moved.from == change.number);
                let issued = change.before.as_ref().map(|before| *before.issued);
                assert!(moves || issued == Some(Count::ZERO), "it was unused");
                continue;
            };
            let (now, then) = (*after.issued, change.before.as_ref().map(|before| *before.issued));
            assert!(after.kind == Kind::Closed || then.is_none_or(|then| now >= then), "a counter went back");
        }
        self.check_undo(&before, &plan);
        self.check_seals(&before, &edit, &plan);
        self.past.push((plan.changes, plan.declared.is_some()));
    }

    /// Checks that the suggestion for a refused edit, if there is one, is a different, legal edit that changes
    /// something.
    fn check_nearest(&self, edit: &Edit, refusal: &Refusal) {
        let Some((near, plan)) = self.table.nearest(edit, refusal) else { return };
        assert_ne!(&near, edit);
        assert!(!plan.changes_nothing(), "{near:?}");
        assert_eq!(self.table.plan(&near), Ok(plan), "{near:?}");
        let kinds = (edit.operation(), near.operation());
        let others = [("delegate", "expand"), ("split", "subdivide")];
        assert!(kinds.0 == kinds.1 || others.contains(&kinds) || near.operation() == "seal", "{kinds:?}");
    }

    /// Checks that a prefix that was sealed stays covered by a seal until it is unsealed, or until its region is
    /// deleted. A split changes the prefix of its region, and with it the identifiers that the seal covers.
    fn check_seals(&mut self, before: &Table, edit: &Edit, plan: &Plan) {
        for (old, new) in plan.changes.iter().filter_map(|change| change.before.as_ref().zip(change.after.as_ref())) {
            let is_split = new.prefix.len() > old.prefix.len();
            for prefix in self.sealed.iter_mut().filter(|prefix| is_split && prefix.starts_with(old.prefix)) {
                *prefix = new.prefix;
            }
            if new.sealed && !old.sealed && matches!(edit, Edit::Update { .. }) {
                self.sealed.push(new.prefix);
            }
        }
        let covers = |prefix: &Prefix| self.table.iter().any(|it| it.sealed && prefix.starts_with(it.prefix));
        let lifts = |prefix: &Prefix| match edit {
            Edit::Update { patch, .. } => patch.sealed == Some(false),
            Edit::Delete { name, .. } => {
                let region = before.named(name).expect("it was there");
                let parent = before.parent(region);
                // When an heir is deleted, its seal moves to the parent that replaces it.
                let is_heir =
                    parent.is_some_and(|it| it.kind == Kind::Closed && it.prefix.zeros(it.sub_bits) == region.prefix);
                prefix.starts_with(region.prefix) && !is_heir
            }
            _ => false,
        };
        self.sealed.retain(|prefix| {
            let is_covered = covers(prefix);
            assert!(is_covered || lifts(prefix), "{edit:?} lifts the seal of {prefix}");
            is_covered
        });
    }

    /// Checks that the reversal of the last edit, if there is one, restores every region, and that the reversal of this
    /// reversal restores the state after the edit.
    fn check_undo(&self, before: &Table, plan: &Plan) {
        let Ok(undo) = self.table.undo(&plan.changes, plan.declared.is_some()) else { return };
        let mut undone = self.table.clone();
        let plan = undone.plan(&undo).expect("the reversal was checked");
        undone.apply(&plan).expect("a fresh plan");
        assert_eq!(shapes(&undone), shapes(before), "{undo:?}");
        assert_eq!(undone.check(), Ok(()));
        naive::check_free(&undone);
        assert!(undone.next_number() >= before.next_number() && undone.revision() > self.table.revision());
        let Ok(redo) = undone.undo(&plan.changes, plan.declared.is_some()) else { return };
        let plan = undone.plan(&redo).expect("the reversal was checked");
        undone.apply(&plan).expect("a fresh plan");
        assert_eq!(shapes(&undone), shapes(&self.table), "{redo:?}");
        assert_eq!(undone.check(), Ok(()));
    }

    fn edit_of(&mut self, step: &Step) -> Edit {
        let (name, by) = (self.region(step), step.bits);
        let suffix = step.suffix;
        match step.operation {
            3 => {
                let next = if step.flag { Count::Below(step.value % 8) } else { Count::ZERO };
                let place = Place::At(Prefix::new(step.value, step.len));
                Edit::Create { name: self.name(), suffix, place, start: Start { next, ..Start::default() } }
            }
            4 | 5 => {
                let zone = if step.value & 1 == 0 { Zone::Exactly(by) } else { Zone::UpTo(by) };
                let donor = match (step.flag, step.len % 3) {
                    (false, _) => Donate::Never,
                    (true, 0) => Donate::Named(name),
                    (true, _) => Donate::Best,
                };
                let place = Place::Chosen { zone, donor };
                Edit::Create { name: self.name(), suffix, place, start: Start::default() }
            }
            6 => Edit::Expand { name, by },
            7 => Edit::Shrink { name, by },
            8 => Edit::Split { name, by, new_regions: self.new_regions(step, by) },
            9 => Edit::Delegate { name },
            10 => Edit::Update { name, patch: self.patch(step) },
            11 => Edit::Delete { name, unused: step.flag },
            12 if step.flag => Edit::Undelegate { name },
            13 if !self.past.is_empty() => {
                // Mostly undo one of the latest edits, sometimes any edit.
                let latest = self.past.len() - 1;
                let back =
                    if step.flag { usize::from(step.len % 4).min(latest) } else { step.region.index(latest + 1) };
                let (changes, declared) = &self.past[latest - back];
                self.table.undo(changes, *declared).unwrap_or(Edit::Undelegate { name })
            }
            _ => {
                // If the region has subregions, use the length of their extensions in about half of the cases. Any
                // other length is refused.
                let present = self.table.named(&name).map_or(0, |region| region.sub_bits);
                let by = if step.flag && present != 0 { present } else { by.div_ceil(2) };
                Edit::Subdivide { name, by, new_regions: self.new_regions(step, by), reserve_others: step.len & 1 == 1 }
            }
        }
    }

    fn patch(&mut self, step: &Step) -> Patch {
        let cap = Some(step.flag.then_some(Count::Below(step.value % 8)));
        let policy = PolicyPatch { cap, ..PolicyPatch::default() };
        match step.len % 4 {
            0 => Patch { name: Some(self.name()), ..Patch::default() },
            1 => Patch { next: Some(Count::Below(step.value)), ..Patch::default() },
            2 => Patch { policy, ..Patch::default() },
            _ => Patch { sealed: Some(step.flag), owner: Some("ops".to_owned()), ..Patch::default() },
        }
    }

    fn new_regions(&mut self, step: &Step, by: u8) -> Vec<NewRegion> {
        let new_region = |(named, value, suffix): &(bool, u128, Option<u8>)| NewRegion {
            name: self.name(),
            suffix: *suffix,
            extension: named.then(|| Prefix::new(*value, by)),
            start: Start {
                next: if step.flag { Count::Below(*value % 4) } else { Count::ZERO },
                sealed: value % 5 == 1,
                ..Start::default()
            },
        };
        step.subs.iter().map(new_region).collect()
    }

    fn check(&self, step: &Step) {
        let table = &self.table;
        assert_eq!(table.check(), Ok(()));
        naive::check_free(table);
        let (under, cells_max) = (Prefix::new(step.value, step.len), 1 + usize::from(step.suffix));
        maps::check(table, under, cells_max);
        let edits = self.past.len().saturating_sub(usize::from(step.bits));
        let since = self.past[edits..].iter().flat_map(|(changes, _)| changes);
        maps::check_earlier(table, since, under, cells_max);
        self.check_ids(step);
        self.check_issued();
        self.check_family();
        let regions = table.iter().cloned();
        let restored = Table::restore(table.bits(), table.revision(), table.next_number(), regions).expect("a table");
        assert_eq!(&restored, table);
        naive::check_free(&restored);
        maps::check(&restored, under, cells_max);
    }

    /// Checks the classification of the step's value and of the identifiers at boundaries: the first and last ones of
    /// every region and of its suffixes, and their neighbors.
    fn check_ids(&self, step: &Step) {
        let bits = self.table.bits();
        let last = u128::MAX >> (128 - bits);
        let mut ids = vec![0, last, step.value & last];
        for region in self.table.iter() {
            let first = region.prefix.base(bits);
            for len in [region.suffix, bits - region.prefix.len(), region.sub_bits.min(bits)] {
                let end = first + (u128::MAX.checked_shr(128 - u32::from(len)).unwrap_or(0) & last);
                ids.extend([first, first.saturating_sub(1), end, end.saturating_add(1).min(last)]);
            }
        }
        let mut indexed = self.table.clone();
        assert!(indexed.set_index(Arc::new(RegionIndex::build(&self.table))));
        let answers = indexed.classify_all(&ids);
        assert_eq!(answers.len(), ids.len());
        for (id, answer) in ids.into_iter().zip(answers) {
            let found = self.table.classify(id).expect("an identifier of the space");
            assert_eq!(indexed.classify(id).as_ref(), Some(&found), "{id:x}");
            assert_eq!(answer.as_ref(), Some(&found), "{id:x} among many");
            assert_eq!((found.path, found.status), naive::classify(&self.table, id), "{id:x}");
        }
        assert_eq!(self.table.classify(last.wrapping_add(1)).is_none(), bits < 128);
    }

    /// Checks that every issued identifier is an issued member of its region, or of the all-zero subregion if the
    /// region is closed.
    fn check_issued(&self) {
        for Issued { id, by } in &self.issued {
            let mut region = self.table.get(*by).expect("a region that has issued is never deleted");
            while region.kind == Kind::Closed {
                region = self.table.children(region).next().expect("a closed region has subregions");
            }
            let suffix = id - region.prefix.base(self.table.bits());
            let found = self.table.classify(*id).expect("an identifier of the space");
            assert_eq!(found.status, Status::Member { suffix, counter: Some(suffix) }, "{id:x}");
            assert_eq!(found.issued(), Some(true), "{id:x}");
            assert_eq!(found.path.last(), Some(&region), "{id:x}");
        }
    }

    fn check_family(&self) {
        for region in self.table.iter() {
            let children: Vec<_> = self.table.children(region).collect();
            let expected = self.table.iter().filter(|inner| inner.parent() == Some(region.number));
            assert!(children.into_iter().eq(expected));
            let held = self.table.held(region.prefix);
            assert!(held.contains(&(region, region.since, None)));
            for former in &region.past().prefixes {
                assert!(self.table.held(former.prefix).contains(&(region, former.from, Some(former.to))));
            }
        }
    }
}

/// Checks that an identifier that a region contained but could not grant becomes grantable only through an unseal, a
/// new policy or the end of a delegation.
fn check_no_identifier_becomes_grantable(before: &Table, after: &Table, edit: &Edit) {
    if matches!(edit, Edit::Undelegate { .. }) {
        return;
    }
    // The reversal of an edit that created a sealed all-zero subregion also lifts the subregion's seal.
    if let Edit::Revert { changes } = edit
        && changes.iter().any(|change| change.creates() && change.region().is_some_and(|region| region.sealed))
    {
        return;
    }
    if let Edit::Update { patch, .. } = edit
        && (patch.sealed == Some(false) || patch.policy != PolicyPatch::default())
    {
        return;
    }
    for region in before.iter().filter(|region| region.kind != Kind::Closed) {
        let base = region.prefix.base(before.bits());
        let last = region.capacity().get().map_or(u128::MAX, |capacity| capacity - 1);
        // The suffixes at which the answer can change: both ends, the counter and the cap.
        let bounds = [Count::Below(1), Count::Below(last), *region.issued, region.limit()];
        let near = |bound: Count| bound.get().map_or([last; 3], |at| [at.saturating_sub(1), at, at.saturating_add(1)]);
        for id in bounds.into_iter().flat_map(near).filter(|suffix| *suffix <= last).map(|suffix| base + suffix) {
            assert!(is_grantable(before, id) || !is_grantable(after, id), "{id:x} of {region:?} by {edit:?}");
        }
    }
}

fn is_grantable(table: &Table, id: u128) -> bool {
    let found = table.classify(id).expect("an identifier of the space");
    let (Some(region), Status::Member { suffix, .. }) = (found.path.last(), found.status) else { return false };
    let seal = Seal::over([(table, *region)]);
    region.check_granting(seal).is_ok() && !region.issued.includes(suffix) && region.limit().includes(suffix)
}

/// Returns the regions without the parts that a reversal need not restore: numbers of regions that it creates again,
/// former prefixes, and counters, which never go back.
fn shapes(table: &Table) -> Vec<Region> {
    let shape = |region: &Region| {
        let past = Past { key_number: Some(region.key_number()), prefixes: Vec::new(), ..region.past().clone() };
        let (number, parent) = (RegionNumber(0), region.parent().is_some().then_some(RegionNumber(1)));
        let mut shape =
            Region { number, parent: parent.into(), since: Revision(0), issued: Rare::default(), ..region.clone() };
        shape.set_past(past);
        shape
    };
    table.iter().map(shape).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ok_every_script_keeps_the_invariants(bits in width(), steps in steps()) {
        let table = Table::new(bits).expect("a width");
        let mut run = Run { table, issued: Vec::new(), names: 0, past: Vec::new(), sealed: Vec::new() };
        steps.iter().for_each(|step| run.step(step));
        imported::check(&run.table, 1 + usize::from(steps[0].len % 7));
    }

    #[test]
    fn ok_counters_may_advance_before_a_plan_is_applied(
        bits in 4..11u32,
        steps in steps(),
        edit in step(),
        issues in vec((any::<Index>(), 1..4u128), 1..4),
    ) {
        let table = Table::new(bits).expect("a width");
        let mut run = Run { table, issued: Vec::new(), names: 0, past: Vec::new(), sealed: Vec::new() };
        steps.iter().for_each(|step| run.step(step));
        let planned = run.edit_of(&edit);
        let Ok(plan) = run.table.plan(&planned) else { return Ok(()) };
        for (index, count) in issues {
            run.issue(&Step { operation: 0, region: index, flag: true, len: count as u8, ..edit.clone() });
        }
        let before = run.table.clone();
        match run.table.apply(&plan) {
            Ok(()) => {
                run.past.push((plan.changes, plan.declared.is_some()));
                run.check(&edit);
            }
            Err(refusal) => {
                prop_assert!(matches!(refusal.code(), "suffix-in-use" | "region-populated"), "{refusal}");
                prop_assert_eq!(&run.table, &before);
            }
        }
    }
}

/// A daemon that reads its records again notes what they say was issued. After a subdivision, that may be what the
/// parent issued: it does not keep the subdivision from being undone, and stays issued.
#[test]
fn ok_a_subdivision_whose_heir_issued_nothing_is_undone() {
    let mut table = Table::new(6).expect("a width");
    let (place, start) = (Place::At(Prefix::new(0, 2)), Start { next: Count::Below(3), ..Start::default() });
    let create = Edit::Create { name: "r".to_owned(), suffix: 3, place, start };
    table.apply(&table.plan(&create).expect("legal")).expect("fresh");
    let new = NewRegion { name: "s".to_owned(), suffix: None, extension: None, start: Start::default() };
    let subdivide = Edit::Subdivide { name: "r".to_owned(), by: 1, new_regions: vec![new], reserve_others: true };
    let plan = table.plan(&subdivide).expect("legal");
    table.apply(&plan).expect("fresh");
    let parent = table.named("r").expect("there");
    let heir =
        table.children(parent).find(|child| child.issued == Count::Below(3).into()).expect("the heir").name.clone();
    table.note(&heir, 0).expect("a suffix");
    let undo = table.undo(&plan.changes, false).expect("nothing was issued since");
    table.apply(&table.plan(&undo).expect("legal")).expect("fresh");
    assert!(table.named(&heir).is_err());
    assert_eq!(table.named("r").expect("there").issued, Count::Below(3).into());
    assert_eq!(table.classify(0).expect("of the space").issued(), Some(true));
}
