//! The methods that `kent-bench index` compares for finding the region of an identifier.
//!
//! Each method uses 64-bit integers if they suffice and the method supports them, and 128-bit integers otherwise. It
//! stores only prefixes and region numbers.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, Hash, RandomState},
    hint::select_unpredictable,
    net::Ipv6Addr,
};

use ip_network_table_deps_treebitmap::IpLookupTable;
use kent_regions::{Index, Prefix, RegionNumber, Table};
use poptrie::Poptrie;
use prefix_trie::PrefixMap;

/// A method to find the region of an identifier.
pub(super) struct Method {
    pub(super) name: &'static str,
    /// The color in a plot.
    pub(super) color: &'static str,
    /// Builds the search structure from a table.
    pub(super) build: fn(&Table) -> Box<dyn Built>,
    /// The maximum number of regions for which a build takes only seconds.
    pub(super) most: usize,
}

const fn method(name: &'static str, color: &'static str, build: fn(&Table) -> Box<dyn Built>) -> Method {
    Method { name, color, build, most: usize::MAX }
}

/// All methods. The methods of this project come last.
pub(super) const METHODS: [Method; 9] = [
    method("paper, std hash maps", "#7f7f7f", paper::<RandomState>),
    method("paper, foldhash", "#bcbd22", paper::<foldhash::fast::RandomState>),
    method("BTreeMap of intervals", "#8c564b", ordered),
    method("binary search of intervals", "#e377c2", sorted),
    method("crate prefix-trie", "#2ca02c", prefix_trie),
    method("crate treebitmap", "#9467bd", treebitmap),
    Method { most: 100_000, ..method("crate poptrie", "#ff7f0e", poptrie) },
    method("Index::find", "#1f77b4", |table| Box::new(One(Index::build(table)))),
    method("Index::find_all, 1024 per call", "#d62728", |table| Box::new(Many(Index::build(table)))),
];

/// The search structure of a method.
pub(super) trait Built {
    /// Finds the innermost region of each identifier, and returns the sum of the regions' numbers. An identifier in no
    /// region counts as 0.
    fn sum(&self, ids: &[u128]) -> u64;

    /// Returns the memory of the search structure in bytes, if known.
    fn bytes(&self) -> Option<usize> {
        None
    }
}

fn sum(ids: &[u128], find: impl Fn(u128) -> Option<u64>) -> u64 {
    ids.iter().fold(0, |sum, id| sum.wrapping_add(find(*id).unwrap_or(0)))
}

fn numbered(table: &Table) -> impl Iterator<Item = (Prefix, u64)> {
    table.iter().map(|region| (region.prefix, region.number.0))
}

const fn is_narrow(table: &Table) -> bool {
    table.bits() <= 64
}

/// An integer type that represents identifiers and their prefixes.
trait Key: Copy + Ord + Hash + TryFrom<u128> {
    fn of(id: u128) -> Option<Self> {
        Self::try_from(id).ok()
    }
}

impl Key for u64 {}
impl Key for u128 {}

/// Kent 1992: one hash map per prefix length, searched from the longest prefix to the shortest.
struct Paper<K, S> {
    bits: u8,
    lengths: Vec<(u8, HashMap<K, u64, S>)>,
}

fn paper<S: BuildHasher + Default + 'static>(table: &Table) -> Box<dyn Built> {
    match is_narrow(table) {
        true => Box::new(Paper::<u64, S>::new(table)),
        false => Box::new(Paper::<u128, S>::new(table)),
    }
}

impl<K: Key, S: BuildHasher + Default> Paper<K, S> {
    fn new(table: &Table) -> Self {
        let mut lengths: BTreeMap<u8, HashMap<K, u64, S>> = BTreeMap::new();
        for (prefix, number) in numbered(table) {
            let regions = lengths.entry(prefix.len()).or_default();
            regions.extend(K::of(prefix.value()).map(|value| (value, number)));
        }
        Self { bits: table.bits(), lengths: lengths.into_iter().rev().collect() }
    }
}

impl<K: Key, S: BuildHasher> Built for Paper<K, S> {
    fn sum(&self, ids: &[u128]) -> u64 {
        let first = |id: u128, len: u8| K::of(id.checked_shr(u32::from(self.bits - len)).unwrap_or(0));
        sum(ids, |id| self.lengths.iter().find_map(|(len, regions)| regions.get(&first(id, *len)?)).copied())
    }
}

/// Returns the intervals into which the regions divide the space, by their start. The value is the number of the
/// innermost region, or 0 for an interval in no region.
fn intervals<K: Key>(table: &Table) -> BTreeMap<K, u64> {
    let mut intervals = BTreeMap::from_iter(K::of(0).map(|first| (first, 0)));
    for (prefix, number) in numbered(table) {
        let last = prefix.join(Prefix::new(u128::MAX, Prefix::MAX_LEN)).base(table.bits());
        let Some(first) = K::of(prefix.base(table.bits())) else { continue };
        // Outer regions come first, so the innermost region found here contains this region, and also owns the space
        // after it.
        let outer = intervals.range(..=first).next_back().map_or(0, |(_, owner)| *owner);
        if let Some(after) = last.checked_add(1).and_then(K::of) {
            intervals.entry(after).or_insert(outer);
        }
        intervals.insert(first, number);
    }
    intervals
}

/// An ordered map of the intervals.
struct Ordered<K>(BTreeMap<K, u64>);

fn ordered(table: &Table) -> Box<dyn Built> {
    match is_narrow(table) {
        true => Box::new(Ordered::<u64>(intervals(table))),
        false => Box::new(Ordered::<u128>(intervals(table))),
    }
}

impl<K: Key> Built for Ordered<K> {
    fn sum(&self, ids: &[u128]) -> u64 {
        sum(ids, |id| self.0.range(..=K::of(id)?).next_back().map(|(_, owner)| *owner))
    }
}

/// A sorted array of the intervals.
struct Sorted<K> {
    firsts: Vec<K>,
    owners: Vec<u64>,
}

fn sorted(table: &Table) -> Box<dyn Built> {
    match is_narrow(table) {
        true => Box::new(Sorted::<u64>::new(table)),
        false => Box::new(Sorted::<u128>::new(table)),
    }
}

impl<K: Key> Sorted<K> {
    fn new(table: &Table) -> Self {
        let (firsts, owners) = intervals::<K>(table).into_iter().unzip();
        Self { firsts, owners }
    }

    fn find(&self, id: K) -> u64 {
        let (mut at, mut left) = (0, self.firsts.len());
        while left > 1 {
            let half = left / 2;
            at = select_unpredictable(self.firsts[at + half] <= id, at + half, at);
            left -= half;
        }
        self.owners[at]
    }
}

impl<K: Key> Built for Sorted<K> {
    fn sum(&self, ids: &[u128]) -> u64 {
        sum(ids, |id| Some(self.find(K::of(id)?)))
    }

    fn bytes(&self) -> Option<usize> {
        Some(size_of_val(self.firsts.as_slice()) + size_of_val(self.owners.as_slice()))
    }
}

/// A key of a trie: an identifier aligned to the left of 64 or 128 bits.
trait Left: Key {
    const BITS: u8;

    /// Returns an identifier of `bits` bits, aligned to the left.
    fn left(id: u128, bits: u8) -> Self;
}

impl Left for u64 {
    const BITS: u8 = 64;

    fn left(id: u128, bits: u8) -> Self {
        (id << (64 - bits)) as Self // OK because bits is at most 64, and the identifier has no more bits
    }
}

impl Left for u128 {
    const BITS: u8 = 128;

    fn left(id: u128, bits: u8) -> Self {
        id << (128 - bits)
    }
}

/// The crate prefix-trie: a tree bitmap in an arena. Each node covers five bits.
struct Trie<K: Left>(PrefixMap<(K, u8), u64>, u8)
where
    (K, u8): prefix_trie::Prefix;

fn prefix_trie(table: &Table) -> Box<dyn Built> {
    let bits = table.bits();
    match is_narrow(table) {
        true => Box::new(Trie::<u64>(prefixes(table).collect(), bits)),
        false => Box::new(Trie::<u128>(prefixes(table).collect(), bits)),
    }
}

fn prefixes<K: Left>(table: &Table) -> impl Iterator<Item = ((K, u8), u64)> {
    numbered(table).map(|(prefix, number)| ((K::left(prefix.base(table.bits()), table.bits()), prefix.len()), number))
}

impl<K: Left> Built for Trie<K>
where
    (K, u8): prefix_trie::Prefix,
{
    fn sum(&self, ids: &[u128]) -> u64 {
        sum(ids, |id| self.0.get_lpm(&(K::left(id, self.1), K::BITS)).map(|(_, number)| *number))
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.0.mem_size())
    }
}

/// The crate poptrie (Asai and Ohara 2015): each node covers six bits, and locates its children by counting bits in a
/// bitmap.
struct Pop<K: Left>(Poptrie<(K, u8), u64>, u8)
where
    (K, u8): poptrie::Prefix<ADDRESS = K>;

fn poptrie(table: &Table) -> Box<dyn Built> {
    match is_narrow(table) {
        true => Box::new(Pop::<u64>::new(table)),
        false => Box::new(Pop::<u128>::new(table)),
    }
}

impl<K: Left> Pop<K>
where
    (K, u8): poptrie::Prefix<ADDRESS = K>,
{
    fn new(table: &Table) -> Self {
        let mut trie = Poptrie::new();
        for (prefix, number) in prefixes(table) {
            trie.insert(prefix, number);
        }
        Self(trie, table.bits())
    }
}

impl<K: Left> Built for Pop<K>
where
    (K, u8): poptrie::Prefix<ADDRESS = K>,
{
    fn sum(&self, ids: &[u128]) -> u64 {
        sum(ids, |id| self.0.lookup(K::left(id, self.1)).copied())
    }
}

/// The crate ip_network_table-deps-treebitmap, which supports only IP networks. Each node covers four bits.
struct TreeBitmap(IpLookupTable<Ipv6Addr, u64>, u8);

fn treebitmap(table: &Table) -> Box<dyn Built> {
    let mut trie = IpLookupTable::with_capacity(table.len());
    for ((first, len), number) in prefixes::<u128>(table) {
        trie.insert(Ipv6Addr::from_bits(first), len.into(), number);
    }
    Box::new(TreeBitmap(trie, table.bits()))
}

impl Built for TreeBitmap {
    fn sum(&self, ids: &[u128]) -> u64 {
        let address = |id: u128| Ipv6Addr::from_bits(u128::left(id, self.1));
        sum(ids, |id| self.0.longest_match(address(id)).map(|(_, _, number)| *number))
    }

    fn bytes(&self) -> Option<usize> {
        let (nodes, results) = self.0.mem_usage();
        Some(nodes + results)
    }
}

/// The index, with one identifier per call.
struct One(Index);

impl Built for One {
    fn sum(&self, ids: &[u128]) -> u64 {
        sum(ids, |id| self.0.find(id).map(|RegionNumber(number)| number))
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.0.bytes())
    }
}

/// The index, with 1024 identifiers per call.
struct Many(Index);

impl Built for Many {
    fn sum(&self, ids: &[u128]) -> u64 {
        let (mut sum, mut found) = (0_u64, Vec::new());
        for request in ids.chunks(1024) {
            found.clear();
            self.0.find_all(request, &mut found);
            sum = found.iter().flatten().fold(sum, |sum, RegionNumber(number)| sum.wrapping_add(*number));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::regions::{self, Stream};

    #[test]
    fn ok_all_methods_find_the_same_regions() {
        for (bits, count) in [(64, 1), (64, 10), (64, 3000), (100, 3000), (128, 3000)] {
            let table = regions::table(bits, count, 1).expect("a table");
            let ids = Stream::ALL.map(|stream| stream.identifiers(&table, 2000, 1)).concat();
            let region =
                |id: &u128| table.classify(*id).and_then(|found| found.path.last().map(|region| region.number.0));
            let expected: u64 = ids.iter().filter_map(region).sum();
            for method in &METHODS {
                assert_eq!((method.build)(&table).sum(&ids), expected, "{} of {bits} bits", method.name);
            }
        }
    }
}
