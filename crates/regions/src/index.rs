//! The index of a table: finds the region of an identifier with a few cache misses, for any set of prefixes.
//!
//! Regions nest, so they divide the space into intervals, each of which belongs to one innermost region or to none. The
//! index is a static search tree over the last identifiers of these intervals, or a sorted array if there are few. If the
//! first bits of an identifier decide, the index does not search. An edit invalidates the index: the table then answers
//! without an index until a new one is built, which takes a fraction of a second for a million regions. docs/index.md
//! describes the alternatives that were measured.

mod few;
mod intervals;
mod shortcuts;
mod sorted;
mod tree;

use alloc::vec::Vec;
use core::array::from_fn;

use self::{
    few::{FEW_MAX, Few},
    intervals::intervals,
    shortcuts::Shortcuts,
    sorted::{SORTED_MAX, Sorted},
    tree::{NarrowTree, Tree, WideTree},
};
use crate::{prefix::Prefix, region::RegionNumber, revision::Revision};

/// Finds the innermost region of an identifier, in the revision of the table for which the index was built.
#[derive(Clone, Debug)]
pub struct Index {
    revision: Revision,
    /// The last identifier of the space.
    last: u128,
    /// The number by which an identifier is shifted right to get its first 64 bits. 0 for identifiers of up to 64 bits.
    cut: u32,
    search: Search,
    /// The region numbers by label; empty if the labels are the region numbers.
    regions: Vec<RegionNumber>,
}

/// How the index searches. If all prefixes have at most 64 bits, the first 64 bits of an identifier are enough.
#[derive(Clone, Debug)]
enum Search {
    /// A search in few intervals is as fast as a shortcut.
    Few(Few),
    Sorted(Shortcuts, Sorted),
    Narrow(Shortcuts, NarrowTree),
    Wide(Shortcuts, WideTree),
}

/// The label of a region in the index.
type Label = u32;

/// The label of intervals that belong to no region.
const NONE: Label = Label::MAX;

/// Where several regions share the first bits of their identifiers, the index has to search.
const SEARCH: Label = NONE - 1;

/// The number of identifiers of which [`Index::find_all`] first looks for shortcuts.
const MANY: usize = 64;

impl Index {
    /// Builds an index of `count` regions. They must be sorted by prefix and have numbers below `next`.
    pub(crate) fn over(
        revision: Revision,
        bits: u8,
        next: RegionNumber,
        count: usize,
        sorted: impl Iterator<Item = (Prefix, RegionNumber)> + Clone,
    ) -> Self {
        let direct = next.0 <= u64::from(SEARCH);
        // OK because numbers below SEARCH fit into a label, and a table of 2^32 regions does not fit into memory.
        let label = |at: usize, number: RegionNumber| if direct { number.0 as Label } else { at as Label };
        let labeled = sorted.clone().enumerate().map(|(at, (prefix, number))| (prefix, label(at, number)));
        let longest = sorted.clone().map(|(prefix, _)| prefix.len()).max().unwrap_or(0);
        let narrow = bits.min(64);
        let regions = if direct { Vec::new() } else { sorted.map(|(_, number)| number).collect() };
        let search = if longest <= narrow {
            let intervals = intervals(narrow, count, labeled);
            let shortcuts = || Shortcuts::new(narrow.into(), &intervals);
            match intervals.len() {
                count if count <= FEW_MAX => Search::Few(Few::new(&intervals, |label| region(&regions, label))),
                count if count <= SORTED_MAX => Search::Sorted(shortcuts(), Sorted::new(&intervals)),
                _ => Search::Narrow(shortcuts(), Tree::new(&intervals)),
            }
        } else {
            let intervals = intervals(bits, count, labeled);
            Search::Wide(Shortcuts::new(bits.into(), &intervals), Tree::new(&intervals))
        };
        Self { revision, last: Prefix::EMPTY.last(bits), cut: u32::from(bits - narrow), search, regions }
    }

    /// Returns the revision of the table for which the index was built.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the innermost region of an identifier. Returns `None` if the identifier is in no region, or has more
    /// bits than the identifiers of the space.
    #[inline]
    pub fn find(&self, id: u128) -> Option<RegionNumber> {
        if id > self.last {
            return None;
        }
        let first = self.first(id);
        let label = match &self.search {
            Search::Few(few) => return few.find(first),
            Search::Sorted(shortcuts, sorted) => shortcuts.find(first).unwrap_or_else(|| sorted.find(first)),
            Search::Narrow(shortcuts, tree) => shortcuts.find(first).unwrap_or_else(|| tree.find(first)),
            Search::Wide(shortcuts, tree) => shortcuts.find(first).unwrap_or_else(|| tree.find(id)),
        };
        region(&self.regions, label)
    }

    /// Appends the result of [`find`](Self::find) for each of many identifiers, in their order.
    ///
    /// For an index larger than the processor's caches, this method is two to four times as fast as single calls,
    /// because eight searches wait for memory at the same time.
    pub fn find_all(&self, ids: &[u128], found: &mut Vec<Option<RegionNumber>>) {
        found.reserve(ids.len());
        let first = |id: u128| self.first(id);
        match &self.search {
            Search::Few(few) => {
                found.extend(ids.iter().map(|id| if *id > self.last { None } else { few.find(first(*id)) }));
            }
            Search::Sorted(shortcuts, sorted) => {
                self.find_many(ids, found, shortcuts, |ids| sorted.find_each(&from_fn(|one| first(ids[one]))));
            }
            Search::Narrow(shortcuts, tree) => {
                self.find_many(ids, found, shortcuts, |ids| tree.find_each(&from_fn(|one| first(ids[one]))));
            }
            Search::Wide(shortcuts, tree) => self.find_many(ids, found, shortcuts, |ids| tree.find_each(ids)),
        }
    }

    /// Appends the results for many identifiers. `search` searches for several identifiers at a time.
    #[inline(always)]
    fn find_many(
        &self,
        ids: &[u128],
        found: &mut Vec<Option<RegionNumber>>,
        shortcuts: &Shortcuts,
        search: impl Fn(&[u128; 8]) -> [Label; 8],
    ) {
        for some in ids.chunks(MANY) {
            let (mut labels, mut searched, mut count) = ([NONE; MANY], [0; MANY], 0);
            for ((at, id), label) in some.iter().enumerate().zip(&mut labels) {
                *label = if *id > self.last { NONE } else { shortcuts.label(self.first(*id)) };
                // Without a branch, because it would be unpredictable.
                searched[count] = at;
                count += usize::from(*label == SEARCH);
            }
            // The last group is filled up with an identifier that has to be searched for anyway.
            let (whole, filler) = (count.next_multiple_of(8), searched[0]);
            searched[count..whole].fill(filler);
            let (groups, _) = searched[..whole].as_chunks::<8>();
            for group in groups {
                let owners = search(&from_fn(|one| some[group[one]]));
                group.iter().zip(owners).for_each(|(at, owner)| labels[*at] = owner);
            }
            found.extend(labels.iter().take(some.len()).map(|label| region(&self.regions, *label)));
        }
    }

    /// Returns the number of bytes of memory that the index uses.
    pub fn bytes(&self) -> usize {
        let search = match &self.search {
            Search::Few(few) => few.bytes(),
            Search::Sorted(shortcuts, sorted) => shortcuts.bytes() + sorted.bytes(),
            Search::Narrow(shortcuts, tree) => shortcuts.bytes() + tree.bytes(),
            Search::Wide(shortcuts, tree) => shortcuts.bytes() + tree.bytes(),
        };
        size_of::<Self>() + search + size_of_val(self.regions.as_slice())
    }

    /// Returns the first 64 bits of an identifier.
    #[inline(always)]
    const fn first(&self, id: u128) -> u64 {
        (id >> self.cut) as u64 // OK because at most 64 bits are left of an identifier in the space
    }
}

/// Returns the region with a label. `regions` has the region numbers by label, unless the labels are the numbers.
#[inline]
fn region(regions: &[RegionNumber], label: Label) -> Option<RegionNumber> {
    match label {
        NONE => None,
        // OK because a label fits in a usize wherever a table with that many regions fits in memory.
        _ => Some(regions.get(label as usize).copied().unwrap_or(RegionNumber(u64::from(label)))),
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, sync::Arc};

    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{Donate, Edit, Indexing, Place, Start, Table, Zone};

    /// Returns the innermost region of an identifier, by a scan of all regions.
    fn naive(bits: u8, regions: &[(Prefix, RegionNumber)], id: u128) -> Option<RegionNumber> {
        let around = regions.iter().filter(|(prefix, _)| prefix.holds(id, bits));
        around.max_by_key(|(prefix, _)| prefix.len()).map(|(_, number)| *number)
    }

    /// Returns zero, the last identifier, and the first and last identifier of every region, each with its neighbors.
    fn boundaries(bits: u8, regions: &[(Prefix, RegionNumber)]) -> Vec<u128> {
        let last = Prefix::EMPTY.last(bits);
        let ends = regions.iter().flat_map(|(prefix, _)| [prefix.base(bits), prefix.last(bits)]);
        let near = |id: u128| [id.saturating_sub(1), id, id.saturating_add(1).min(last)];
        [0, last].into_iter().chain(ends).flat_map(near).collect()
    }

    fn over(bits: u8, regions: &[(Prefix, RegionNumber)]) -> Index {
        let next = regions.iter().map(|(_, number)| number.0.saturating_add(1)).max().unwrap_or(0);
        Index::over(Revision(0), bits, RegionNumber(next), regions.len(), regions.iter().copied())
    }

    #[track_caller]
    fn check(bits: u8, regions: &[(Prefix, RegionNumber)], ids: &[u128]) {
        let index = over(bits, regions);
        let mut queries = boundaries(bits, regions);
        queries.extend(ids.iter().map(|id| id & Prefix::EMPTY.last(bits)));
        let mut all = Vec::new();
        index.find_all(&queries, &mut all);
        assert_eq!(all.len(), queries.len());
        for (id, found) in queries.into_iter().zip(all) {
            let expected = naive(bits, regions, id);
            assert_eq!(index.find(id), expected, "{id:x} of {bits} bits");
            assert_eq!(found, expected, "{id:x} of {bits} bits, among many");
        }
    }

    /// Returns sets of prefixes that often cluster and nest. In half of the sets, all prefixes have at most 64 bits.
    fn prefixes(bits: u8) -> impl Strategy<Value = BTreeMap<Prefix, RegionNumber>> {
        let value = prop_oneof![any::<u128>(), (0..8u128).prop_map(|value| value << 120), Just(0), Just(u128::MAX)];
        let prefix = move |most| {
            (value.clone(), 0..=bits.min(most)).prop_map(|(left, len)| Prefix::new(left, Prefix::MAX_LEN).first(len))
        };
        let number = prop_oneof![9 => 0..10_000u64, 1 => any::<u64>()].prop_map(RegionNumber);
        let regions = move |most| vec((prefix(most), number.clone()), 0..200);
        prop_oneof![regions(64), regions(Prefix::MAX_LEN)].prop_map(|regions| regions.into_iter().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn ok_the_index_agrees_with_a_scan_of_all_regions(
            (bits, regions) in (1..=128u8).prop_flat_map(|bits| (Just(bits), prefixes(bits))),
            ids in vec(any::<u128>(), 0..50),
        ) {
            let regions: Vec<(Prefix, RegionNumber)> = regions.into_iter().collect();
            check(bits, &regions, &ids);
        }
    }

    #[test]
    fn ok_every_width_and_every_depth_of_the_tree() {
        for bits in [1, 2, 7, 8, 63, 64, 65, 127, 128] {
            for count in [0, 1, 2, 5, 6, 7, 20, 95, 96, 97, 1000, 3000, 4500] {
                let regions: BTreeMap<Prefix, RegionNumber> = (0..count)
                    .map(|at: u64| {
                        let spread = u128::from(at).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
                        let len = (at % 128).try_into().unwrap_or(0);
                        (Prefix::new(spread, 128).first(bits.min(len)), RegionNumber(at))
                    })
                    .collect();
                check(bits, &regions.into_iter().collect::<Vec<_>>(), &[]);
            }
        }
    }

    #[test]
    fn ok_large_region_numbers_are_preserved() {
        let whole = |number| [(Prefix::EMPTY, RegionNumber(number))];
        for number in [0, 1, u64::from(NONE) - 1, u64::from(NONE), u64::from(NONE) + 1, u64::MAX] {
            check(64, &whole(number), &[]);
        }
    }

    #[test]
    fn ok_identifiers_of_more_bits_are_in_no_region() {
        let index = over(8, &[(Prefix::EMPTY, RegionNumber(7))]);
        let ids = [0, 255, 256, 1 << 64, (1 << 64) + 255, u128::MAX, 1, 1];
        let expected = ids.map(|id| (id < 256).then_some(RegionNumber(7)));
        assert_eq!(ids.map(|id| index.find(id)), expected);
        let mut found = Vec::new();
        index.find_all(&ids, &mut found);
        assert_eq!(found, expected);
    }

    /// Returns a table of `count` adjacent regions of two identifiers each.
    fn table(bits: u32, count: usize) -> Table {
        let mut table = Table::new(bits).expect("a width");
        let place = Place::Chosen { zone: Zone::Exactly(1), donor: Donate::Never };
        for at in 0..count {
            let create = Edit::Create {
                name: alloc::format!("r{at}"),
                suffix: 0,
                place: place.clone(),
                start: Start::default(),
            };
            let plan = table.plan(&create).expect("a plan");
            table.apply(&plan).expect("a fresh plan");
        }
        table
    }

    #[test]
    fn ok_memory_is_bounded_even_if_no_two_regions_are_adjacent() {
        // Every region makes two intervals, each with a key and a label, and there is one shortcut for one or two
        // intervals.
        for (count, bits, least, most) in [
            (2000, 64, 2 * 12, 2 * 12 + 8),
            (20_000, 64, 2 * 12 - 3, 2 * 12 + 8),
            (2000, 128, 2 * 20 - 8, 2 * 20 + 5 + 8),
        ] {
            let table = table(bits, count);
            let every_other: Vec<_> =
                table.prefixes_after(None).map(|(prefix, number)| (prefix.zeros(1), number)).collect();
            let bytes = over(table.bits(), &every_other).bytes();
            assert!((least..=most).contains(&(bytes / count)), "{bytes} bytes for {count} regions of {bits} bits");
            assert!(Index::build(&table).bytes() <= bytes);
            let far = every_other.iter().map(|(prefix, number)| (*prefix, RegionNumber(number.0 + u64::from(NONE))));
            let numbered = over(table.bits(), &far.collect::<Vec<_>>()).bytes();
            assert_eq!(numbered, bytes + count * size_of::<RegionNumber>(), "numbers too large for a label");
        }
    }

    #[test]
    fn ok_an_index_built_in_parts_matches_the_table() {
        const COUNT: usize = 20;
        let mut table = table(64, COUNT);
        let regions: Vec<_> = table.prefixes_after(None).collect();
        for most in [1, 3, 7, COUNT, COUNT + 1] {
            let mut indexing = Indexing::of(&table);
            let parts = (0..=COUNT).take_while(|_| indexing.read(&table, most) == Some(true)).count();
            assert_eq!(parts, COUNT / most, "the number of full parts of {most}");
            let index = indexing.build();
            assert_eq!(index.revision(), table.revision());
            for id in boundaries(64, &regions) {
                assert_eq!(index.find(id), naive(64, &regions, id), "{id}");
            }
            assert!(table.set_index(Arc::new(index)));
        }
        let mut early = Indexing::of(&table);
        let expand = Edit::Expand { name: "r3".into(), by: 1 };
        let plan = table.plan(&expand).expect("a zone of 1");
        table.apply(&plan).expect("a fresh plan");
        assert_eq!(early.read(&table, 1), None);
    }
}
