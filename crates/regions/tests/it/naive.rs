//! Simple models of classification and free space, each a scan of all regions.

use kent_regions::{Kind, Prefix, Region, Status, Table};

/// Returns the regions that contain an identifier, outermost first, and the status of the identifier in the last one.
pub(crate) fn classify(table: &Table, id: u128) -> (Vec<&Region>, Status) {
    let mut path: Vec<&Region> = table.iter().filter(|region| region.prefix.holds(id, table.bits())).collect();
    path.sort_by_key(|region| region.prefix.len());
    let status = match path.last() {
        None => Status::Free,
        Some(region) if region.kind == Kind::Closed => Status::Unassigned,
        Some(region) => {
            let suffix = id - region.prefix.base(table.bits());
            let member = Status::Member { suffix, counter: Some(suffix) };
            if region.suffix == 128 || suffix >> region.suffix == 0 { member } else { Status::Reserved }
        }
    };
    (path, status)
}

/// Checks that free blocks overlap no top-level region, and that free blocks and top-level regions together cover the
/// whole space.
pub(crate) fn check_free(table: &Table) {
    let blocks = table.free_blocks(Prefix::EMPTY);
    let top: Vec<Prefix> =
        table.iter().filter(|region| region.parent().is_none()).map(|region| region.prefix).collect();
    assert!(table.top_level().map(|region| region.prefix).eq(top.iter().copied()));
    assert!(blocks.is_sorted());
    for block in &blocks {
        assert!(!top.iter().any(|prefix| prefix.relates_to(*block)), "{block} is not free");
        assert!(block.len() <= table.bits());
    }
    assert!(kraft(blocks.iter().chain(&top).copied().collect()), "{blocks:?} and {top:?} do not cover the space");
}

/// Returns whether the sum of 2^-length over all prefixes is exactly 1. From the longest length to the shortest, two
/// prefixes of the same length count as one prefix that is one bit shorter.
fn kraft(prefixes: Vec<Prefix>) -> bool {
    let mut count = [0u64; 129];
    prefixes.iter().for_each(|prefix| count[usize::from(prefix.len())] += 1);
    for len in (1..=128).rev() {
        if count[len] % 2 == 1 {
            return false;
        }
        count[len - 1] += count[len] / 2;
    }
    count[0] == 1
}
