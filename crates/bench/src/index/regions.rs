//! Random nested regions and identifiers. The same seed generates the same regions and identifiers.
//!
//! Real tables are skewed: some departments have far more regions than others, levels differ in width, and some
//! partitions are full while others hold one region. Therefore, the prefixes of half of the top-level regions begin with
//! one of eight stems, and the generator divides random regions, down to six levels below the top.

use std::collections::BTreeSet;

use kent_regions::{Kind, Order, Pace, Prefix, Rare, Region, RegionNumber, Revision, Table};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus, seq::index};

/// The maximum number of levels below the top-level regions.
const LEVELS: u8 = 6;

/// The number of prefixes that half of the top-level regions share.
const STEMS: usize = 8;

/// Returns a table of `count` random nested regions for identifiers of `bits` bits. `count` can be up to a few million,
/// and `bits` must be at least 64.
pub(crate) fn table(bits: u8, count: usize, seed: u64) -> anyhow::Result<Table> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let regions = regions(bits, count, &mut rng);
    let next = RegionNumber(regions.len() as u64 + 1); // OK because a length fits in 64 bits
    Ok(Table::restore(bits, Revision(1), next, regions)?)
}

fn regions(bits: u8, count: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<Region> {
    let mut regions = Vec::with_capacity(count);
    // The undivided regions, and their levels below the top.
    let mut whole: Vec<(usize, u8)> = Vec::new();
    for prefix in top_level(bits, count.div_ceil(16).max(count.min(4)), rng) {
        whole.push((regions.len(), 0));
        regions.push(region(bits, &regions, prefix, None, rng));
    }
    while regions.len() < count && !whole.is_empty() {
        let (parent, level) = whole.swap_remove(rng.random_range(0..whole.len()));
        let by = rng.random_range(1..=bits / 8).min(bits - regions[parent].prefix.len());
        if by == 0 || level == LEVELS {
            continue;
        }
        let most = count - regions.len();
        for extension in divide(&mut regions[parent], bits, by, most, rng) {
            let outer = &regions[parent];
            let (prefix, number) = (outer.prefix.join(extension), outer.number);
            whole.push((regions.len(), level + 1));
            regions.push(region(bits, &regions, prefix, Some(number), rng));
        }
    }
    regions
}

/// Returns `count` prefixes of different lengths, none of which contains another.
fn top_level(bits: u8, count: usize, rng: &mut Xoshiro256PlusPlus) -> BTreeSet<Prefix> {
    let stems: Vec<Prefix> = (0..STEMS).map(|_| Prefix::new(rng.random(), rng.random_range(8..=bits / 4))).collect();
    let base = usize::BITS - count.leading_zeros() + 2;
    let mut taken: BTreeSet<Prefix> = BTreeSet::new();
    while taken.len() < count {
        let stem = if rng.random() { stems[rng.random_range(0..STEMS)] } else { Prefix::EMPTY };
        let len = base + rng.random_range(0..u32::from(bits) / 8);
        let prefix = stem.join(Prefix::new(rng.random(), len as u8)); // OK because the length is at most 64 + 2 + 16
        let outer = taken.range(..=prefix).next_back().is_some_and(|before| prefix.relates_to(*before));
        let inner = taken.range(prefix..).next().is_some_and(|after| prefix.relates_to(*after));
        if !outer && !inner {
            taken.insert(prefix);
        }
    }
    taken
}

/// Divides a region, and returns the extensions of at most `most` subregions.
fn divide(region: &mut Region, bits: u8, by: u8, most: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<Prefix> {
    let all = 1_usize << by;
    let full = by <= 6 && all <= most && rng.random_range(0..4) == 0;
    let closed = full || rng.random_range(0..3) == 0;
    let some = rng.random_range(1..=48_usize).min(all - 1).min(most);
    region.sub_bits = by;
    region.kind = if closed { Kind::Closed } else { Kind::Partial };
    let free = bits - region.prefix.len();
    region.suffix = if closed { 0 } else { region.suffix.min(free - by) };
    region.zone = if closed { 0 } else { free - region.suffix };
    let extension = |value: usize| Prefix::new(value as u128, by); // OK because a usize fits in 128 bits
    match (full, closed) {
        (true, _) => (0..all).map(extension).collect(),
        (false, true) => {
            let others = index::sample(rng, all - 1, some - 1).into_iter().map(|other| extension(other + 1));
            core::iter::once(extension(0)).chain(others).collect()
        }
        (false, false) => index::sample(rng, all - 1, some).into_iter().map(|other| extension(other + 1)).collect(),
    }
}

fn region(
    bits: u8,
    regions: &[Region],
    prefix: Prefix,
    parent: Option<RegionNumber>,
    rng: &mut Xoshiro256PlusPlus,
) -> Region {
    let number = RegionNumber(regions.len() as u64 + 1); // OK because a length fits in 64 bits
    let free = bits - prefix.len();
    let suffix = rng.random_range(0..=free);
    Region {
        number,
        name: format!("r{}", number.0).into(),
        prefix,
        zone: free - suffix,
        suffix,
        kind: Kind::Open,
        sub_bits: 0,
        parent: parent.into(),
        issued: Rare::default(),
        since: Revision(1),
        order: Order::Sequential,
        pace: Pace::for_bits(suffix),
        sealed: false,
        delegated: false,
        extras: Rare::default(),
    }
}

/// The distribution of identifiers to look up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stream {
    /// Uniform over the space. Most identifiers are in no region, or in a large one.
    Anywhere,
    /// Uniform over the regions, and then over the identifiers under the region's prefix. Most identifiers are in
    /// deeply nested regions.
    Within,
}

impl Stream {
    pub(super) const ALL: [Self; 2] = [Self::Anywhere, Self::Within];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Anywhere => "anywhere in the space",
            Self::Within => "within a random region",
        }
    }

    /// Returns `count` random identifiers.
    pub(super) fn identifiers(self, table: &Table, count: u32, seed: u64) -> Vec<u128> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(!seed);
        let prefixes: Vec<Prefix> = table.iter().map(|region| region.prefix).collect();
        let one = |_| {
            let anything = Prefix::new(rng.random(), Prefix::MAX_LEN);
            let identifier = match self {
                Self::Anywhere => anything,
                Self::Within => prefixes[rng.random_range(0..prefixes.len())].join(anything),
            };
            identifier.base(table.bits())
        };
        (0..count).map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_tables_are_nested_valid_and_deterministic() {
        for (bits, count) in [(64, 1), (64, 10), (64, 3000), (128, 3000)] {
            let made = table(bits, count, 7).expect("a table");
            assert_eq!(made.len(), count);
            assert_eq!(made.check(), Ok(()));
            assert_eq!(table(bits, count, 7).expect("a table"), made);
            assert!(count == 1 || table(bits, count, 8).expect("a table") != made);
            let ids = Stream::Within.identifiers(&made, 1000, 7);
            assert_eq!(ids, Stream::Within.identifiers(&made, 1000, 7));
            let depth = |id: &u128| made.classify(*id).expect("an identifier").path.len();
            let deepest = ids.iter().map(depth).max();
            assert!((1..=7).contains(&deepest.unwrap_or(0)) && (count < 3000 || deepest > Some(4)), "{deepest:?}");
        }
    }
}
