//! Free blocks: maximal free prefixes, which overlap no top-level region.
//!
//! The table maintains them like a buddy allocator. A new region splits the block around its prefix, and a released
//! prefix merges with its sibling if the sibling is also free. Each takes at most 128 steps.

use alloc::{collections::BTreeSet, vec::Vec};
use core::ops::Bound::{Excluded, Unbounded};

use crate::prefix::Prefix;

/// The free blocks of a table, larger blocks first, blocks of equal size from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FreeBlocks(BTreeSet<(u8, Prefix)>);

impl FreeBlocks {
    /// Returns the blocks of an empty table.
    pub(crate) fn all() -> Self {
        Self(BTreeSet::from([(0, Prefix::EMPTY)]))
    }

    /// Returns the blocks of a table whose top-level regions have these prefixes, which are sorted and do not overlap.
    pub(crate) fn beside(taken: &[Prefix]) -> Self {
        Self(blocks(Prefix::EMPTY, taken).into_iter().map(|block| (block.len(), block)).collect())
    }

    /// Removes a prefix from the free block around it. Does nothing if the prefix is not free.
    pub(crate) fn take(&mut self, prefix: Prefix) {
        let Some(around) = self.around(prefix) else { return };
        self.0.remove(&(around.len(), around));
        let siblings = (around.len() + 1..=prefix.len()).filter_map(|len| prefix.first(len).sibling());
        self.0.extend(siblings.map(|sibling| (sibling.len(), sibling)));
    }

    /// Releases a prefix that was taken.
    pub(crate) fn give(&mut self, prefix: Prefix) {
        let mut block = prefix;
        while let Some(sibling) = block.sibling()
            && self.0.remove(&(sibling.len(), sibling))
        {
            block = block.first(block.len() - 1); // OK because the empty prefix has no sibling
        }
        self.0.insert((block.len(), block));
    }

    /// Returns the free block that contains all of `prefix`.
    fn around(&self, prefix: Prefix) -> Option<Prefix> {
        (0..=prefix.len()).map(|len| prefix.first(len)).find(|outer| self.0.contains(&(outer.len(), *outer)))
    }

    /// Returns the smallest block whose prefix has at most `len` bits, the leftmost on a tie.
    pub(crate) fn smallest(&self, len: u8) -> Option<Prefix> {
        let (longest, _) = self.0.range(..(len.saturating_add(1), Prefix::EMPTY)).next_back()?;
        self.0.range((*longest, Prefix::EMPTY)..).next().map(|(_, block)| *block)
    }

    /// Returns the free space below `under` as the fewest possible blocks, from left to right.
    pub(crate) fn below(&self, under: Prefix) -> Vec<Prefix> {
        if self.around(under).is_some() {
            return Vec::from([under]);
        }
        let mut blocks: Vec<Prefix> = self.iter().filter(|block| block.starts_with(under)).collect();
        blocks.sort();
        blocks
    }

    /// Returns the blocks after `after` whose prefix has at most `len` bits, larger blocks first.
    pub(crate) fn up_to(&self, len: u8, after: Option<Prefix>) -> impl Iterator<Item = Prefix> {
        let from = after.map_or(Unbounded, |after| Excluded((after.len(), after)));
        self.0.range((from, Unbounded)).map(|(_, block)| *block).take_while(move |block| block.len() <= len)
    }

    /// Returns all blocks, larger blocks first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Prefix> {
        self.0.iter().map(|(_, block)| *block)
    }
}

/// Returns the space below `under` that `taken` leaves free, as the fewest possible blocks, from left to right. The
/// prefixes of `taken` must be sorted, must not overlap each other, and must all begin with `under`.
pub(crate) fn blocks(under: Prefix, taken: &[Prefix]) -> Vec<Prefix> {
    let mut found = Vec::new();
    collect(under, taken, &mut found);
    found
}

/// Collects the free blocks below `under`. Recurses at most 128 levels, only into blocks with taken prefixes.
fn collect(under: Prefix, taken: &[Prefix], found: &mut Vec<Prefix>) {
    match taken {
        [] => found.push(under),
        [only, ..] if *only == under => {}
        _ => {
            let (left, right) = (under.join(Prefix::new(0, 1)), under.join(Prefix::new(1, 1)));
            let middle = taken.partition_point(|prefix| *prefix < right);
            collect(left, &taken[..middle], found);
            collect(right, &taken[middle..], found);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::{Edit, Place, Start, Table};

    #[track_caller]
    fn check(under: &str, expected: &[&str]) {
        let mut table = Table::new(8).expect("a width");
        for on in ["00", "0101", "1"] {
            let place = Place::At(on.parse().expect("a prefix"));
            let create = Edit::Create { name: on.to_string(), suffix: 0, place, start: Start::default() };
            let plan = table.plan(&create).expect("a plan");
            table.apply(&plan).expect("a fresh plan");
        }
        let blocks = table.free_blocks(under.parse().expect("a prefix"));
        assert!(blocks.iter().map(ToString::to_string).eq(expected.iter().map(ToString::to_string)), "{blocks:?}");
    }

    #[test]
    fn ok_blocks_below_any_prefix() {
        check("", &["0100", "011"]);
        check("0", &["0100", "011"]);
        check("01", &["0100", "011"]);
        check("011", &["011"]);
        check("01111111", &["01111111"]);
        for taken in ["00", "000", "0101", "010111", "1", "10", "11111111"] {
            check(taken, &[]);
        }
    }

    #[test]
    fn ok_a_released_prefix_merges_with_its_free_sibling() {
        let mut free = FreeBlocks::all();
        let taken: [Prefix; 4] = ["00", "010", "011", "1"].map(|text| text.parse().expect("a prefix"));
        taken.into_iter().for_each(|prefix| free.take(prefix));
        for (prefix, expected) in taken.into_iter().zip([&["00"][..], &["00", "010"], &["0"], &[""]]) {
            free.give(prefix);
            assert!(free.iter().map(|block| block.to_string()).eq(expected.iter().copied()), "{prefix}: {free:?}");
        }
        assert_eq!(free, FreeBlocks::all());
    }

    #[test]
    fn ok_the_blocks_that_taken_prefixes_leave() {
        let prefixes =
            |texts: &[&str]| -> Vec<Prefix> { texts.iter().map(|text| text.parse().expect("a prefix")).collect() };
        for (under, taken, left) in [
            ("", &[][..], &[""][..]),
            ("1", &[], &["1"]),
            ("1", &["1"], &[]),
            ("1", &["10"], &["11"]),
            ("1", &["11"], &["10"]),
            ("", &["00", "01", "1"], &[]),
            ("01", &["0100", "01011"], &["01010", "011"]),
        ] {
            assert_eq!(
                blocks(under.parse().expect("a prefix"), &prefixes(taken)),
                prefixes(left),
                "{taken:?} of {under}"
            );
        }
    }
}
