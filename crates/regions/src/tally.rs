//! Sums over the regions below each prefix, which the table keeps up to date for maps.
//!
//! The sums are stored in a binary trie over prefixes. A node is divided when more than [`LEAF_MAX`] regions are below
//! it, so a million regions need about thirty thousand nodes. A change to a region changes the sums on one path: at most
//! 129 nodes.

use alloc::{boxed::Box, sync::Arc};

use crate::{
    attributes::ChunkPolicy,
    count::Count,
    prefix::Prefix,
    region::{Kind, Region},
};

/// Sums over some regions.
///
/// Counts of identifiers are sums modulo 2^128, so that regions can be added and removed in any order. A stored 0 means
/// 2^128 if one of the terms is not 0, because no sum is above 2^128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The number of regions.
    pub(crate) regions: u32,
    capacity: u128,
    issued: u128,
    /// The size of the top-level regions, on a scale where the whole space is 2^128.
    taken: u128,
    /// The number of regions with issued suffixes.
    used: u32,
    /// The number of top-level regions.
    top: u32,
    /// The number of regions with zone bits that no subregion uses.
    pub(crate) with_zone: u32,
    /// The number of regions with subregions.
    pub(crate) parents: u32,
    /// The number of closed regions.
    pub(crate) closed: u32,
    /// The number of delegated regions.
    pub(crate) delegated: u32,
    /// The number of regions with a seal of their own. Regions that are sealed only through a region around them do not
    /// count.
    pub(crate) sealed: u32,
    /// The number of strict regions.
    pub(crate) strict: u32,
}

impl Tally {
    /// Returns the tally of one region. `is_top` is true if no other region is around it.
    pub(crate) fn of(region: &Region, is_top: bool) -> Self {
        let is_closed = region.kind == Kind::Closed;
        // The counter of a closed region continues in its all-zero subregion.
        let issued = if is_closed { Count::ZERO } else { *region.issued };
        Self {
            regions: 1,
            capacity: wrapped(region.capacity()),
            issued: wrapped(issued),
            taken: if is_top { wrapped(area(region.prefix)) } else { 0 },
            used: u32::from(issued != Count::ZERO),
            top: u32::from(is_top),
            with_zone: u32::from(!is_closed && region.zone > region.sub_bits),
            parents: u32::from(region.kind != Kind::Open),
            closed: u32::from(is_closed),
            delegated: u32::from(region.delegated),
            sealed: u32::from(region.sealed),
            strict: u32::from(region.policy().chunk == ChunkPolicy::Strict),
        }
    }

    /// Returns the tally of a region of a whole table, in which every region is listed with the regions around it.
    pub(crate) fn in_table(region: &Region) -> Self {
        Self::of(region, region.parent().is_none())
    }

    /// Returns the sum of two tallies.
    pub(crate) fn plus(self, other: Self) -> Self {
        self.combined(&other, u32::wrapping_add, u128::wrapping_add)
    }

    /// Subtracts another tally, whose regions must be among those of this tally.
    pub(crate) fn minus(self, other: Self) -> Self {
        self.combined(&other, u32::wrapping_sub, u128::wrapping_sub)
    }

    #[inline]
    fn combined(self, other: &Self, count: impl Fn(u32, u32) -> u32, sum: impl Fn(u128, u128) -> u128) -> Self {
        Self {
            regions: count(self.regions, other.regions),
            capacity: sum(self.capacity, other.capacity),
            issued: sum(self.issued, other.issued),
            taken: sum(self.taken, other.taken),
            used: count(self.used, other.used),
            top: count(self.top, other.top),
            with_zone: count(self.with_zone, other.with_zone),
            parents: count(self.parents, other.parents),
            closed: count(self.closed, other.closed),
            delegated: count(self.delegated, other.delegated),
            sealed: count(self.sealed, other.sealed),
            strict: count(self.strict, other.strict),
        }
    }

    /// Returns the capacity of the regions.
    pub(crate) const fn capacity(self) -> Count {
        unwrapped(self.capacity, self.regions > self.closed)
    }

    /// Returns the number of issued or reserved suffixes of the regions.
    pub(crate) const fn issued(self) -> Count {
        unwrapped(self.issued, self.used > 0)
    }

    /// Returns the share of a prefix that the top-level regions below it leave free, from 0 to 1.
    pub(crate) fn free_share(self, under: Prefix) -> f64 {
        let (taken, all) = (unwrapped(self.taken, self.top > 0), area(under));
        if taken >= all { 0.0 } else { (1.0 - taken.to_f64() / all.to_f64()).max(f64::MIN_POSITIVE) }
    }
}

/// Returns the size of a prefix, on a scale where the whole space is 2^128.
const fn area(prefix: Prefix) -> Count {
    Count::power_of_two(128 - prefix.len()) // OK because a prefix has at most 128 bits
}

/// Returns a count modulo 2^128.
fn wrapped(count: Count) -> u128 {
    count.get().unwrap_or(0)
}

/// Returns the actual sum, given the sum modulo 2^128. `is_some` must be true if any of the terms is not 0.
const fn unwrapped(sum: u128, is_some: bool) -> Count {
    if sum == 0 && is_some { Count::Max } else { Count::Below(sum) }
}

/// The tallies of the regions below each prefix.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies(Node);

/// The tally of the regions below a prefix.
#[derive(Clone, Debug, Default)]
struct Node {
    tally: Tally,
    /// The nodes of the prefix followed by 0 and by 1. `None` while few regions are below the prefix.
    halves: Option<Box<[Node; 2]>>,
}

/// A node with more regions than this limit is divided. When it has fewer than half of this number, its halves are
/// dropped.
const LEAF_MAX: u32 = 64;

impl Tallies {
    /// Returns the tallies of all regions of a table, in the order of their prefixes.
    pub(crate) fn of(listed: &[Arc<Region>]) -> Self {
        Self(Node::of(Prefix::EMPTY, listed))
    }

    /// Adds a region. `within` returns the regions that begin with a prefix, including the added one, and their
    /// tallies.
    pub(crate) fn add<I>(&mut self, prefix: Prefix, tally: Tally, within: impl Fn(Prefix) -> I)
    where
        I: Iterator<Item = (Prefix, Tally)>,
    {
        self.0.change(Prefix::EMPTY, prefix, &|node, at| {
            node.tally = node.tally.plus(tally);
            node.divide(at, &within);
        });
    }

    /// Removes a region.
    pub(crate) fn remove(&mut self, prefix: Prefix, tally: Tally) {
        self.0.change(Prefix::EMPTY, prefix, &|node, _| {
            node.tally = node.tally.minus(tally);
            if node.tally.regions < LEAF_MAX / 2 {
                node.halves = None;
            }
        });
    }

    /// Replaces the tally of a region.
    pub(crate) fn replace(&mut self, prefix: Prefix, before: Tally, after: Tally) {
        self.0.change(Prefix::EMPTY, prefix, &|node, _| node.tally = node.tally.minus(before).plus(after));
    }

    /// Returns the tally of the regions that begin with a prefix, or `None` if a node above it is not divided.
    pub(crate) fn at(&self, prefix: Prefix) -> Option<Tally> {
        let mut node = &self.0;
        for len in 0..prefix.len() {
            node = &node.halves.as_ref()?[prefix.bit(len)];
        }
        Some(node.tally)
    }
}

impl Node {
    /// Returns the node of the prefix `at`, with which all prefixes of `listed` begin. Recurses at most 128 levels.
    fn of(at: Prefix, listed: &[Arc<Region>]) -> Self {
        let sum = |regions: &[Arc<Region>]| {
            regions.iter().fold(Tally::default(), |sum, region| sum.plus(Tally::in_table(region)))
        };
        if listed.len() <= LEAF_MAX as usize {
            return Self { tally: sum(listed), halves: None };
        }
        // The region with exactly this prefix is in neither half.
        let (own, longer) = listed.split_at(listed.partition_point(|region| region.prefix.len() <= at.len()));
        let (zeros, ones) = longer.split_at(longer.partition_point(|region| region.prefix.bit(at.len()) == 0));
        let halves = Box::new([Self::of(at.half(false), zeros), Self::of(at.half(true), ones)]);
        let tally = halves.iter().fold(sum(own), |sum, half| sum.plus(half.tally));
        Self { tally, halves: Some(halves) }
    }

    /// Applies `change` to this node, whose prefix is `at`, and to the nodes on the path to `prefix`. Recurses at most
    /// 128 levels.
    fn change(&mut self, at: Prefix, prefix: Prefix, change: &impl Fn(&mut Self, Prefix)) {
        if at.len() < prefix.len()
            && let Some(halves) = &mut self.halves
        {
            let bit = prefix.bit(at.len());
            halves[bit].change(at.half(bit == 1), prefix, change);
        }
        change(self, at);
    }

    /// Divides a node, and its halves, while they have too many regions. Recurses at most 128 levels.
    fn divide<I>(&mut self, at: Prefix, within: &impl Fn(Prefix) -> I)
    where
        I: Iterator<Item = (Prefix, Tally)>,
    {
        if self.halves.is_some() || self.tally.regions <= LEAF_MAX {
            return;
        }
        let mut halves = Box::<[Self; 2]>::default();
        // The region with exactly this prefix is in neither half.
        for (prefix, tally) in within(at).filter(|(prefix, _)| prefix.len() > at.len()) {
            let half = &mut halves[prefix.bit(at.len())].tally;
            *half = half.plus(tally);
        }
        for (bit, half) in halves.iter_mut().enumerate() {
            half.divide(at.half(bit == 1), within);
        }
        self.halves = Some(halves);
    }
}
