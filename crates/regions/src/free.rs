//! Free blocks: the maximal subtrees that meet no top-level region.

use alloc::vec::Vec;

use crate::{prefix::Prefix, region::Region, table::Table};

impl Table {
    /// The regions that are in no other.
    pub fn top_level(&self) -> impl Iterator<Item = &Region> {
        self.iter().filter(|region| region.parent.is_none())
    }

    /// The largest blocks below `under` that meet no top-level region, from left to right.
    pub fn free_blocks(&self, under: Prefix) -> Vec<Prefix> {
        let taken: Vec<Prefix> = self.top_level().map(|region| region.prefix).collect();
        blocks(under, &taken)
    }
}

/// The largest blocks below `under` that meet none of `taken`, from left to right. `taken` is sorted, its members are not
/// related to each other, and all of them begin with `under`.
pub(crate) fn blocks(under: Prefix, taken: &[Prefix]) -> Vec<Prefix> {
    let mut found = Vec::new();
    collect(under, taken, &mut found);
    found
}

/// Goes down as long as something below is taken: at most 128 levels.
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
