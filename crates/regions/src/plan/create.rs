//! Plans the creation of a top-level region: on a given prefix, or on the free prefix that wastes the least space.

use alloc::{string::ToString, vec::Vec};
use core::ops::RangeInclusive;

use super::{Plan, lengthened};
use crate::{
    attributes::Order,
    count::Count,
    edit::{Donate, Place, Start, Zone},
    pace::Pace,
    prefix::{BadPrefix, Prefix},
    rare::Rare,
    refusal::{Donor, NoFreePrefix, Refusal},
    region::{Kind, Parent, Region, RegionNumber},
    table::Table,
};

/// The maximum number of free blocks and donors that an error lists.
const LISTED_MAX: usize = 8;

pub(super) fn plan(table: &Table, name: &str, suffix: u8, place: &Place, start: &Start) -> Result<Plan, Refusal> {
    table.check_new_name(name)?;
    if let Place::Chosen { donor: Donate::Named(donor), .. } = place {
        table.named(donor)?;
    }
    let mut plan = table.draft();
    let prefix = match place {
        Place::At(prefix) => check_prefix(table, name, *prefix, suffix)?,
        Place::Chosen { zone, donor } => choose_prefix(table, &mut plan, suffix, *zone, donor)?,
    };
    let region = top_level(table, name, table.next_number(), prefix, suffix);
    // The new region is the subject of the edit, so it comes before a donor.
    plan.make(with_start(region, start)?);
    plan.changes.reverse();
    Ok(plan)
}

/// Returns a new region with its initial attributes.
pub(super) fn with_start(region: Region, start: &Start) -> Result<Region, Refusal> {
    let Start { next, order, pace, sealed, policy, texts } = start.clone();
    let issued = check_next(next, region.suffix, order)?;
    policy.check(order)?;
    texts.check()?;
    let pace = pace.unwrap_or(region.pace);
    let mut started = Region { issued: issued.into(), order, pace, sealed, ..region };
    started.set_policy(policy);
    started.set_texts(texts);
    Ok(started)
}

/// Returns a top-level region that has issued nothing.
pub(super) fn top_level(table: &Table, name: &str, number: RegionNumber, prefix: Prefix, suffix: u8) -> Region {
    Region {
        number,
        name: name.into(),
        prefix,
        zone: table.bits() - prefix.len() - suffix, // OK because the caller has checked that the suffix fits
        suffix,
        kind: Kind::Open,
        sub_bits: 0,
        parent: Parent::default(),
        issued: Rare::default(),
        since: table.revision().next(),
        order: Order::Sequential,
        pace: Pace::for_bits(suffix),
        sealed: false,
        delegated: false,
        extras: Rare::default(),
    }
}

fn check_prefix(table: &Table, name: &str, prefix: Prefix, suffix: u8) -> Result<Prefix, Refusal> {
    let bits = table.bits();
    if prefix.len() > bits {
        return Err(BadPrefix::TooLong { len: prefix.len().into(), max: bits }.into());
    }
    check_suffix(table, name, prefix.len(), suffix)?;
    match overlapping(table, prefix) {
        Some(other) => {
            let (region, taken) = (other.name.to_string(), other.prefix);
            Err(Refusal::PrefixConflict { prefix, region, taken })
        }
        None => Ok(prefix),
    }
}

/// Returns a region whose prefix overlaps `prefix`.
fn overlapping(table: &Table, prefix: Prefix) -> Option<&Region> {
    let outer = table.at_or_before(prefix).filter(|region| prefix.starts_with(outermost(table, region).prefix));
    outer.map(|region| outermost(table, region)).or_else(|| table.within(prefix).next())
}

fn outermost<'t>(table: &'t Table, region: &'t Region) -> &'t Region {
    let mut region = region;
    while let Some(parent) = table.parent(region) {
        region = parent;
    }
    region
}

/// Checks that the suffix of a new region fits below a prefix of `prefix` bits.
pub(super) fn check_suffix(table: &Table, name: &str, prefix: u8, suffix: u8) -> Result<(), Refusal> {
    let max = table.bits() - prefix;
    match suffix > max {
        true => Err(Refusal::SuffixBits { region: name.to_string(), prefix, bits: suffix, max }),
        false => Ok(()),
    }
}

pub(super) fn check_next(next: Count, suffix: u8, order: Order) -> Result<Count, Refusal> {
    let fits = next <= Count::power_of_two(suffix);
    // `next` declares the suffixes up to `next - 1`, so the error names `next - 1` as the suffix that does not fit.
    let last = next.get().map_or(u128::MAX, |next| next.saturating_sub(1));
    if fits { Ok(order.floor(next)) } else { Err(Refusal::SuffixValue { suffix: last, bits: suffix }) }
}

fn choose_prefix(table: &Table, plan: &mut Plan, suffix: u8, zone: Zone, donate: &Donate) -> Result<Prefix, Refusal> {
    if let Some(Choice { prefix, block, .. }) = table.choose(suffix, zone) {
        plan.block = Some(block);
        return Ok(prefix);
    }
    let zones = zones(table, zone);
    for zone in zones.clone().rev().take_while(|_| *donate != Donate::Never) {
        if let Some(donor) = donor(table, need(suffix, zone), donate) {
            let block = donor.prefix.join(Prefix::new(1, 1));
            plan.donor = Some(donor.name.to_string());
            plan.change(donor, lengthened(table, donor, 1));
            plan.block = Some(block);
            return Ok(place(table, block, need(suffix, zone)));
        }
    }
    Err(Refusal::NoFreePrefix(no_free_prefix(table, suffix, *zones.start())))
}

/// The place that the table would give to a new region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The region's prefix.
    pub prefix: Prefix,
    /// The width of its zone in bits.
    pub zone: u8,
    /// The free block around the prefix.
    pub block: Prefix,
}

impl Table {
    /// Returns the place of a new region whose prefix is not given, or `None` if no free block is large enough. Takes
    /// the widest allowed zone that fits in a free block, and then the smallest free block that holds the suffix and
    /// this zone.
    pub fn choose(&self, suffix: u8, zone: Zone) -> Option<Choice> {
        zones(self, zone).rev().find_map(|zone| {
            let block = best_block(self, need(suffix, zone))?;
            Some(Choice { prefix: place(self, block, need(suffix, zone)), zone, block })
        })
    }
}

/// Returns the widths that the zone may have.
fn zones(table: &Table, zone: Zone) -> RangeInclusive<u8> {
    match zone {
        Zone::Exactly(zone) => zone..=zone,
        Zone::UpTo(zone) => 0..=zone.min(table.bits()),
    }
}

/// Returns the number of bits that a suffix and a zone need below the prefix.
fn need(suffix: u8, zone: u8) -> u32 {
    u32::from(suffix) + u32::from(zone)
}

/// Returns the leftmost prefix in the block that leaves exactly `need` bits.
fn place(table: &Table, block: Prefix, need: u32) -> Prefix {
    // OK because the block holds at least `need` bits.
    block.zeros(table.bits() - block.len() - need as u8)
}

/// Returns the smallest block that holds `need` bits, the leftmost on a tie.
fn best_block(table: &Table, need: u32) -> Option<Prefix> {
    let longest = u32::from(table.bits()).checked_sub(need)?;
    // OK because identifiers have at most 128 bits.
    table.free().smallest(longest as u8)
}

/// Returns the region to split for a block of `need` bits: the named region, or the one with the largest zone, leftmost
/// on a tie.
fn donor<'t>(table: &'t Table, need: u32, donate: &Donate) -> Option<&'t Region> {
    match donate {
        Donate::Never => None,
        Donate::Best => donors(table, need).reduce(|best, region| if region.zone > best.zone { region } else { best }),
        Donate::Named(name) => donors(table, need).find(|region| region.name == *name),
    }
}

fn donors(table: &Table, need: u32) -> impl Iterator<Item = &Region> {
    table.top_level().filter(move |region| {
        region.kind == Kind::Open && region.zone >= 1 && u32::from(table.bits() - region.prefix.len()) > need
    })
}

fn no_free_prefix(table: &Table, suffix: u8, zone: u8) -> NoFreePrefix {
    let need = need(suffix, zone);
    let free = table.free().iter().take(LISTED_MAX).collect();
    let mut donors: Vec<Donor> =
        donors(table, need).map(|region| Donor { region: region.name.to_string(), zone: region.zone }).collect();
    donors.sort_by_key(|donor| core::cmp::Reverse(donor.zone));
    donors.truncate(LISTED_MAX);
    NoFreePrefix { requested: u8::try_from(need).unwrap_or(u8::MAX), zone, free, bits: table.bits(), donors }
}
