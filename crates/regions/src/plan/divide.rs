//! Plans splits and subdivisions, which replace a prefix with longer ones (Kent 1992, 3.2 and 3.3).
//!
//! The bits that are added to a region's prefix are zero in every identifier issued so far, so all issued identifiers
//! stay valid.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::ToString,
    vec::Vec,
};

use super::{
    Change, CounterMove, Plan,
    create::{check_suffix, top_level, with_start},
    lengthened,
};
use crate::{
    count::Count,
    edit::NewRegion,
    prefix::{BadPrefix, Prefix},
    rare::Rare,
    refusal::Refusal,
    region::{Kind, Past, Region, RegionNumber},
    table::Table,
};

pub(super) fn split(table: &Table, name: &str, by: u8, new_regions: &[NewRegion]) -> Result<Plan, Refusal> {
    check_new_names(table, new_regions)?;
    let region = table.subject(name, by)?;
    if let Some(parent) = table.parent(region) {
        return Err(Refusal::IsSubregion { region: name.to_string(), parent: parent.name.to_string() });
    }
    if region.kind != Kind::Open {
        return Err(table.has_subregions(region));
    }
    check_zone(region, by)?;
    let mut extensions = Extensions::new(table, region, by, new_regions);
    let mut plan = table.draft();
    plan.change(region, lengthened(table, region, by));
    for (new_region, number) in new_regions.iter().zip(table.next_number().0..) {
        let extension = extensions.take(new_region)?;
        let suffix = checked_suffix(table, region, by, new_region)?;
        let prefix = region.prefix.join(extension);
        let made = top_level(table, &new_region.name, RegionNumber(number), prefix, suffix);
        plan.make(with_start(made, &new_region.start)?);
    }
    plan.freed = freed(&plan.changes, region.prefix);
    Ok(plan)
}

pub(super) fn subdivide(
    table: &Table,
    name: &str,
    by: u8,
    new_regions: &[NewRegion],
    reserve_others: bool,
) -> Result<Plan, Refusal> {
    check_new_names(table, new_regions)?;
    let parent = table.subject(name, by)?;
    parent.check_not_delegated()?;
    if new_regions.is_empty() {
        return Err(Refusal::NoSubregions);
    }
    if parent.kind == Kind::Open {
        check_zone(parent, by)?;
    } else if parent.sub_bits != by {
        let (region, present) = (name.to_string(), parent.sub_bits);
        return Err(Refusal::LevelMismatch { region, present, requested: by });
    }
    let mut extensions = Extensions::new(table, parent, by, new_regions).with_zero();
    if !reserve_others && !extensions.can_be_full(new_regions.len()) {
        // The all-zero extension cannot be assigned, so it is not the default.
        extensions.lowest = 1;
    }
    let mut subs = Vec::new();
    for (new_region, number) in new_regions.iter().zip(table.next_number().0..) {
        let extension = extensions.take(new_region)?;
        subs.push(subregion(table, parent, by, new_region, extension, RegionNumber(number))?);
    }
    assemble(&extensions, subs, reserve_others)
}

/// Makes the plan for a subdivision whose subregions have been checked one by one.
fn assemble(extensions: &Extensions<'_>, mut subs: Vec<Region>, reserve_others: bool) -> Result<Plan, Refusal> {
    let (parent, by) = (extensions.region, extensions.by);
    let mut plan = extensions.table.draft();
    let zero = extensions.holder(Prefix::new(0, by)).is_some();
    // If the region is already closed, an earlier edit assigned or reserved its other extensions.
    if zero && !reserve_others && parent.kind != Kind::Closed {
        extensions.check_full()?;
    }
    if let Some(heir) = subs.iter_mut().find(|sub| sub.prefix.rest(parent.prefix.len()).is_zero()) {
        inherit(parent, heir)?;
        plan.counter_move = Some(CounterMove { from: parent.number, to: heir.number });
    }
    let after = match zero {
        true => {
            Region { kind: Kind::Closed, zone: 0, suffix: 0, sub_bits: by, issued: Rare::default(), ..parent.clone() }
        }
        false => Region { kind: Kind::Partial, sub_bits: by, ..parent.clone() },
    };
    plan.change(parent, after);
    subs.into_iter().for_each(|sub| plan.make(sub));
    Ok(plan)
}

/// Moves the identifiers of a closing region to its all-zero subregion.
fn inherit(parent: &Region, heir: &mut Region) -> Result<(), Refusal> {
    if heir.suffix < parent.suffix {
        parent.check_use_known()?;
    }
    heir.issued = parent.issued.max(parent.order.floor(*heir.issued)).into();
    // The counter continues, so its order, pace and limits must stay the same.
    heir.order = parent.order;
    heir.set_past(Past { key_number: Some(parent.key_number()), ..heir.past().clone() });
    heir.pace = parent.pace;
    heir.set_policy(*parent.policy());
    if *heir.issued > Count::power_of_two(heir.suffix) {
        return Err(Refusal::HeirTooNarrow {
            region: heir.name.to_string(),
            parent: parent.name.to_string(),
            // OK because the prefix of the heir extends that of its parent.
            sub_bits: heir.prefix.len() - parent.prefix.len(),
            issued: *heir.issued,
            needed: heir.issued.bits(),
            suffix: heir.suffix,
        });
    }
    Ok(())
}

fn subregion(
    table: &Table,
    parent: &Region,
    by: u8,
    new_region: &NewRegion,
    extension: Prefix,
    number: RegionNumber,
) -> Result<Region, Refusal> {
    let inherited = extension.is_zero().then_some(parent.suffix);
    let new_region = NewRegion { suffix: new_region.suffix.or(inherited), ..new_region.clone() };
    let suffix = checked_suffix(table, parent, by, &new_region)?;
    let prefix = parent.prefix.join(extension);
    let made = top_level(table, &new_region.name, number, prefix, suffix);
    with_start(Region { parent: Some(parent.number).into(), ..made }, &new_region.start)
}

/// Returns a new region's suffix width, and checks that it fits the bits below the region's prefix.
fn checked_suffix(table: &Table, region: &Region, by: u8, new_region: &NewRegion) -> Result<u8, Refusal> {
    let Some(suffix) = new_region.suffix else {
        return Err(Refusal::SuffixMissing { name: new_region.name.clone() });
    };
    check_suffix(table, &new_region.name, region.prefix.len() + by, suffix)?;
    Ok(suffix)
}

fn check_zone(region: &Region, by: u8) -> Result<(), Refusal> {
    if by <= region.zone {
        return Ok(());
    }
    let (name, zone) = (region.name.to_string(), region.zone);
    Err(Refusal::ZoneTooSmall { region: name, zone, requested: by })
}

/// Checks the names of new regions, against the table and against each other.
fn check_new_names(table: &Table, new_regions: &[NewRegion]) -> Result<(), Refusal> {
    let mut earlier = BTreeSet::new();
    new_regions.iter().try_for_each(|NewRegion { name, .. }| {
        table.check_new_name(name)?;
        if earlier.insert(name) { Ok(()) } else { Err(Refusal::NameTwice { name: name.clone() }) }
    })
}

/// The extensions of `by` bits after a region's prefix, and the regions that have them.
struct Extensions<'t> {
    table: &'t Table,
    region: &'t Region,
    by: u8,
    /// Whether a new region may have the all-zero extension.
    zero: bool,
    /// The extensions that new regions request explicitly.
    requested: BTreeSet<Prefix>,
    /// The extensions assigned to new regions so far.
    assigned: BTreeMap<Prefix, &'t str>,
    /// All extensions below this one are assigned or requested.
    lowest: u128,
}

impl<'t> Extensions<'t> {
    fn new(table: &'t Table, region: &'t Region, by: u8, new_regions: &[NewRegion]) -> Self {
        let requested = new_regions.iter().filter_map(|new_region| new_region.extension).collect();
        Self { table, region, by, zero: false, requested, assigned: BTreeMap::new(), lowest: 1 }
    }

    fn with_zero(self) -> Self {
        Self { zero: true, lowest: 0, ..self }
    }

    /// Returns the name of the region that has an extension.
    fn holder(&self, extension: Prefix) -> Option<&'t str> {
        let child = || self.table.at(self.region.prefix.join(extension)).filter(|sub| self.is_child(sub));
        self.assigned.get(&extension).copied().or_else(|| child().map(|sub| sub.name.as_str()))
    }

    fn is_child(&self, sub: &Region) -> bool {
        sub.parent() == Some(self.region.number)
    }

    /// Assigns a new region the extension that it requests, or the lowest one that is neither assigned nor requested.
    fn take(&mut self, new_region: &'t NewRegion) -> Result<Prefix, Refusal> {
        let extension = match new_region.extension {
            Some(extension) if extension.len() != self.by => {
                return Err(BadPrefix::Length { expected: self.by, found: extension }.into());
            }
            Some(extension) if extension.is_zero() && !self.zero => return Err(BadPrefix::AllZero.into()),
            Some(extension) => extension,
            None => self.lowest_free()?,
        };
        if let Some(first) = self.assigned.get(&extension) {
            let (first, second) = ((*first).to_string(), new_region.name.clone());
            return Err(Refusal::ExtensionTwice { extension, first, second });
        }
        if let Some(holder) = self.holder(extension) {
            let prefix = self.region.prefix.join(extension);
            return Err(Refusal::PrefixConflict { prefix, region: holder.to_string(), taken: prefix });
        }
        self.assigned.insert(extension, &new_region.name);
        Ok(extension)
    }

    fn lowest_free(&mut self) -> Result<Prefix, Refusal> {
        let all = Count::power_of_two(self.by);
        while all.includes(self.lowest) {
            let extension = Prefix::new(self.lowest, self.by);
            if !self.requested.contains(&extension) && self.holder(extension).is_none() {
                return Ok(extension);
            }
            // OK because fewer than 2^128 extensions are assigned.
            self.lowest += 1;
        }
        let max = all.get().map_or(u64::MAX, |all| u64::try_from(all - u128::from(!self.zero)).unwrap_or(u64::MAX));
        Err(BadPrefix::NoneLeft { max }.into())
    }

    /// Returns whether this number of new regions is enough to assign all free extensions.
    fn can_be_full(&self, new: usize) -> bool {
        // OK because a table has fewer than 2^64 regions.
        let taken = new as u128 + self.table.children(self.region).count() as u128;
        Count::Below(taken) >= Count::power_of_two(self.by)
    }

    /// Checks that no extension is unassigned.
    fn check_full(&self) -> Result<(), Refusal> {
        // OK because a table has fewer than 2^64 regions.
        let taken = self.assigned.len() as u128 + self.table.children(self.region).count() as u128;
        let missing = match Count::power_of_two(self.by) {
            Count::Below(all) => Count::Below(all.saturating_sub(taken)),
            Count::Max => (u128::MAX - taken).checked_add(1).map_or(Count::Max, Count::Below),
        };
        if missing == Count::ZERO { Ok(()) } else { Err(Refusal::ZeroExtension { bits: self.by, missing }) }
    }
}

/// Returns the blocks below the old prefix that no changed region covers, larger blocks first.
pub(super) fn freed(changes: &[Change], old: Prefix) -> Vec<Prefix> {
    let mut taken: Vec<Prefix> =
        changes.iter().filter_map(|change| change.after.as_ref()).map(|after| after.prefix).collect();
    taken.sort();
    let mut freed = crate::free::blocks(old, &taken);
    freed.sort_by_key(|block| block.len());
    freed
}
