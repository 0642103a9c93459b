//! Splitting and subdividing: a prefix gives way to longer ones (Kent 1992, 3.2 and 3.3).
//!
//! The bits that are taken were zero in every identifier issued so far, so all of these stay valid.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use super::{
    CounterMove, Plan,
    create::{check_suffix, top_level},
};
use crate::{
    count::Count,
    edit::Newcomer,
    prefix::{BadPrefix, Prefix},
    refusal::Refusal,
    region::{FormerPrefix, Kind, Region, RegionNumber},
    table::Table,
};

pub(super) fn split(table: &Table, name: &str, by: u8, newcomers: &[Newcomer]) -> Result<Plan, Refusal> {
    check_new_names(table, newcomers)?;
    let region = table.subject(name, by)?;
    if let Some(parent) = table.parent(region) {
        return Err(Refusal::IsSubregion { region: name.to_string(), parent: parent.name.clone() });
    }
    if region.kind != Kind::Open {
        return Err(Refusal::HasSubregions { region: name.to_string(), sub_bits: region.sub_bits });
    }
    check_zone(region, by)?;
    let mut extensions = Extensions::new(by, false);
    let mut plan = table.draft();
    plan.change(region, lengthened(table, region, by));
    for (newcomer, number) in newcomers.iter().zip(table.next_number().0..) {
        let extension = extensions.take(newcomer, region)?;
        if extension.is_zero() {
            return Err(BadPrefix::AllZero.into());
        }
        let suffix = checked_suffix(table, region, by, newcomer)?;
        let prefix = region.prefix.join(extension);
        plan.make(top_level(table, &newcomer.name, RegionNumber(number), prefix, suffix));
    }
    plan.freed = freed(&plan, region.prefix);
    Ok(plan)
}

/// The region with its prefix lengthened by `by` zeros, the old one in its history.
pub(super) fn lengthened(table: &Table, region: &Region, by: u8) -> Region {
    let mut history = region.history.clone();
    history.push(FormerPrefix { prefix: region.prefix, from: region.since, to: table.revision() });
    Region {
        prefix: region.prefix.zeros(by),
        zone: region.zone - by, // OK because the caller has checked the zone
        since: table.revision().next(),
        history,
        ..region.clone()
    }
}

pub(super) fn subdivide(
    table: &Table,
    name: &str,
    by: u8,
    newcomers: &[Newcomer],
    reserve_others: bool,
) -> Result<Plan, Refusal> {
    check_new_names(table, newcomers)?;
    let parent = table.subject(name, by)?;
    if parent.kind == Kind::Open {
        check_zone(parent, by)?;
    } else if parent.sub_bits != by {
        let (region, present) = (name.to_string(), parent.sub_bits);
        return Err(Refusal::LevelMismatch { region, present, asked: by });
    }
    let mut extensions = Extensions::new(by, true);
    for child in table.children(parent) {
        extensions.taken.push((child.prefix.rest(parent.prefix.len()), child.name.clone()));
    }
    let mut subs = Vec::new();
    for (newcomer, number) in newcomers.iter().zip(table.next_number().0..) {
        let extension = extensions.take(newcomer, parent)?;
        subs.push(subregion(table, parent, by, newcomer, extension, RegionNumber(number))?);
    }
    assemble(table, parent, by, subs, &extensions, reserve_others)
}

/// The plan of a subdivision, whose subregions are legal one by one.
fn assemble(
    table: &Table,
    parent: &Region,
    by: u8,
    mut subs: Vec<Region>,
    extensions: &Extensions,
    reserve_others: bool,
) -> Result<Plan, Refusal> {
    let mut plan = table.draft();
    let zero = extensions.taken.iter().any(|(extension, _)| extension.is_zero());
    let missing = extensions.missing();
    if zero && missing != Count::ZERO && !reserve_others {
        return Err(Refusal::ZeroExtension { bits: by, missing });
    }
    if let Some(heir) = subs.iter_mut().find(|sub| sub.prefix.rest(parent.prefix.len()).is_zero()) {
        inherit(parent, heir)?;
        plan.counter_move = Some(CounterMove { from: parent.number, to: heir.number });
    }
    let after = match zero {
        true => Region { kind: Kind::Closed, zone: 0, suffix: 0, sub_bits: by, issued: Count::ZERO, ..parent.clone() },
        false => Region { kind: Kind::Partial, sub_bits: by, ..parent.clone() },
    };
    plan.change(parent, after);
    subs.into_iter().for_each(|sub| plan.make(sub));
    Ok(plan)
}

/// The members of a region that closes move to its all-zero subregion.
fn inherit(parent: &Region, heir: &mut Region) -> Result<(), Refusal> {
    if parent.issued > Count::power_of_two(heir.suffix) {
        let (issued, needed) = (parent.issued, parent.issued.bits());
        return Err(Refusal::SuffixInUse { issued, needed, asked: heir.suffix });
    }
    heir.issued = parent.issued;
    Ok(())
}

fn subregion(
    table: &Table,
    parent: &Region,
    by: u8,
    newcomer: &Newcomer,
    extension: Prefix,
    number: RegionNumber,
) -> Result<Region, Refusal> {
    let inherited = extension.is_zero().then_some(parent.suffix);
    let newcomer = Newcomer { suffix: newcomer.suffix.or(inherited), ..newcomer.clone() };
    let suffix = checked_suffix(table, parent, by, &newcomer)?;
    let prefix = parent.prefix.join(extension);
    Ok(Region { parent: Some(parent.number), ..top_level(table, &newcomer.name, number, prefix, suffix) })
}

/// A newcomer's suffix, which must fit the bits below its prefix.
fn checked_suffix(table: &Table, region: &Region, by: u8, newcomer: &Newcomer) -> Result<u8, Refusal> {
    let Some(suffix) = newcomer.suffix else {
        return Err(Refusal::SuffixMissing { name: newcomer.name.clone() });
    };
    check_suffix(suffix, table.bits() - region.prefix.len() - by)?;
    Ok(suffix)
}

fn check_zone(region: &Region, by: u8) -> Result<(), Refusal> {
    if by <= region.zone {
        return Ok(());
    }
    let (name, zone) = (region.name.clone(), region.zone);
    Err(Refusal::ZoneTooSmall { region: name, zone, usable: zone, asked: by })
}

/// Checks the names of newcomers, against the table and against each other.
fn check_new_names(table: &Table, newcomers: &[Newcomer]) -> Result<(), Refusal> {
    for (at, newcomer) in newcomers.iter().enumerate() {
        table.check_new_name(&newcomer.name)?;
        if newcomers[..at].iter().any(|earlier| earlier.name == newcomer.name) {
            return Err(Refusal::NameTaken { name: newcomer.name.clone() });
        }
    }
    Ok(())
}

/// The extensions of one level, and who has them.
struct Extensions {
    by: u8,
    /// Whether the all-zero one may be given away.
    zero: bool,
    taken: Vec<(Prefix, String)>,
}

impl Extensions {
    const fn new(by: u8, zero: bool) -> Self {
        Self { by, zero, taken: Vec::new() }
    }

    /// Gives a newcomer the extension that it names, or the lowest free one.
    fn take(&mut self, newcomer: &Newcomer, region: &Region) -> Result<Prefix, Refusal> {
        let extension = match newcomer.extension {
            Some(extension) if extension.len() != self.by => {
                return Err(BadPrefix::Length { expected: self.by, found: extension }.into());
            }
            Some(extension) => extension,
            None => self.lowest_free()?,
        };
        if let Some((_, holder)) = self.taken.iter().find(|(taken, _)| *taken == extension) {
            let prefix = region.prefix.join(extension);
            return Err(Refusal::PrefixConflict { prefix, region: holder.clone(), taken: prefix });
        }
        self.taken.push((extension, newcomer.name.clone()));
        Ok(extension)
    }

    fn lowest_free(&self) -> Result<Prefix, Refusal> {
        let first = u128::from(!self.zero);
        let all = Count::power_of_two(self.by);
        let candidates = (first..).take_while(|value| all.includes(*value)).map(|value| Prefix::new(value, self.by));
        // Only so many are taken, so one of the first so many and one is free, if there are as many.
        let mut candidates = candidates.take(self.taken.len() + 1);
        let free = candidates.find(|candidate| self.taken.iter().all(|(taken, _)| taken != candidate));
        let max = all.get().map_or(u64::MAX, |all| u64::try_from(all - first).unwrap_or(u64::MAX));
        free.ok_or(Refusal::BadPrefix(BadPrefix::NoneLeft { max }))
    }

    /// How many extensions nobody has.
    fn missing(&self) -> Count {
        let taken = self.taken.len() as u128;
        match Count::power_of_two(self.by) {
            Count::Below(all) => Count::Below(all.saturating_sub(taken)),
            // 2^128 extensions are never all taken.
            Count::Max => Count::Below((u128::MAX - taken).saturating_add(1)),
        }
    }
}

/// The blocks below the old prefix that no region of the plan has, larger ones first.
fn freed(plan: &Plan, old: Prefix) -> Vec<Prefix> {
    let mut taken: Vec<Prefix> = plan.changes.iter().map(|change| change.after.prefix).collect();
    taken.sort();
    let mut freed = crate::free::blocks(old, &taken);
    freed.sort_by_key(|block| block.len());
    freed
}
