//! Tables at an earlier revision, for maps: the present table, in which the regions that have changed since that
//! revision are replaced by their earlier states.
//!
//! A map of an earlier revision therefore costs as much as one of the present table, and a few lookups for each change.

use alloc::{sync::Arc, vec::Vec};
use core::{iter, ops::Range};

use crate::{
    chart::{self, Charted},
    prefix::Prefix,
    region::Region,
    revision::Revision,
    table::Table,
    tally::Tally,
};

/// The regions that differ between an earlier revision and the present table.
#[derive(Clone, Debug)]
pub struct Rewind {
    /// The revision of the present table.
    present: Revision,
    now: Sorted,
    then: Sorted,
}

impl Rewind {
    /// Creates the differences from the table at revision `present`: `now` contains the changed regions that the table
    /// has, and `then` those that the earlier revision had.
    pub fn new(
        present: Revision,
        now: impl IntoIterator<Item = Arc<Region>>,
        then: impl IntoIterator<Item = Arc<Region>>,
    ) -> Self {
        Self { present, now: Sorted::new(now), then: Sorted::new(then) }
    }

    /// Returns the table as it was, or `None` if the table has been edited since its differences were collected.
    pub(crate) fn of<'r>(&'r self, table: &'r Table) -> Option<Rewound<'r>> {
        (table.revision() == self.present).then_some(Rewound { table, rewind: self })
    }
}

/// Regions in the order of their prefixes, with running sums.
#[derive(Clone, Debug)]
struct Sorted {
    regions: Vec<Arc<Region>>,
    /// At each index, the sum over the regions before this index.
    sums: Vec<Tally>,
}

impl Sorted {
    fn new(regions: impl IntoIterator<Item = Arc<Region>>) -> Self {
        let mut regions: Vec<_> = regions.into_iter().collect();
        regions.sort_unstable_by_key(|region| region.prefix);
        let mut sum = Tally::default();
        let running = regions.iter().map(|region| {
            sum = sum.plus(Tally::in_table(region));
            sum
        });
        let sums = iter::once(Tally::default()).chain(running).collect();
        Self { regions, sums }
    }

    /// Returns the indexes of the regions that begin with a prefix.
    fn inside(&self, under: Prefix) -> Range<usize> {
        chart::range(&self.regions, |region| region.prefix, under)
    }

    fn sum(&self, under: Prefix) -> Tally {
        let Range { start, end } = self.inside(under);
        self.sums[end].minus(self.sums[start])
    }

    fn has(&self, prefix: Prefix) -> bool {
        self.regions.binary_search_by_key(&prefix, |region| region.prefix).is_ok()
    }
}

/// A table as it was at an earlier revision, but with the counters of the present.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rewound<'r> {
    table: &'r Table,
    rewind: &'r Rewind,
}

impl Charted for Rewound<'_> {
    fn bits(&self) -> u8 {
        self.table.bits()
    }

    fn stored(&self, under: Prefix) -> Option<Tally> {
        let Rewind { now, then, .. } = self.rewind;
        Some(self.table.sum(under).minus(now.sum(under)).plus(then.sum(under)))
    }

    fn inside(&self, under: Prefix) -> impl Iterator<Item = (&Arc<Region>, Tally)> {
        let Rewind { now, then, .. } = self.rewind;
        let mut changed =
            then.regions[then.inside(under)].iter().map(|region| (region, Tally::in_table(region))).peekable();
        let mut same = self.table.inside(under).filter(|(region, _)| !now.has(region.prefix)).peekable();
        iter::from_fn(move || match (same.peek(), changed.peek()) {
            (Some((left, _)), Some((right, _))) if right.prefix < left.prefix => changed.next(),
            (Some(_), _) => same.next(),
            (None, _) => changed.next(),
        })
    }
}
