//! The sources of maps: a table, a table with later edits undone, or a chart. A chart holds the regions of an earlier
//! revision, or those that a caller may read.

use alloc::{sync::Arc, vec::Vec};
use core::ops::Range;

use crate::{
    prefix::Prefix,
    region::Region,
    tally::{Tallies, Tally},
};

/// The regions of a space, with sums over the regions below each prefix.
pub(crate) trait Charted {
    /// Returns the width of the identifiers in bits.
    fn bits(&self) -> u8;

    /// Returns the sum over the regions that begin with a prefix, if it is stored or can be computed from stored sums.
    fn stored(&self, under: Prefix) -> Option<Tally>;

    /// Returns the regions that begin with a prefix, in the order of their prefixes, each with its tally.
    fn inside(&self, under: Prefix) -> impl Iterator<Item = (&Arc<Region>, Tally)>;

    /// Returns the sum over the regions that begin with a prefix.
    fn sum(&self, under: Prefix) -> Tally {
        let counted = || self.inside(under).fold(Tally::default(), |sum, (_, tally)| sum.plus(tally));
        self.stored(under).unwrap_or_else(counted)
    }

    /// Returns the region with exactly this prefix.
    fn exactly(&self, prefix: Prefix) -> Option<(&Arc<Region>, Tally)> {
        self.inside(prefix).next().filter(|(region, _)| region.prefix == prefix)
    }
}

/// Regions to draw a map from: the regions of a table at an earlier revision, or those that a caller may read.
#[derive(Clone, Debug)]
pub struct Chart {
    bits: u8,
    regions: Vec<(Arc<Region>, Tally)>,
    tallies: Tallies,
}

impl Chart {
    /// Creates a chart of regions in a space of `bits` bits. The regions must be sorted by prefix. A chart may contain
    /// a region without the region around it.
    pub fn new(bits: u8, regions: impl IntoIterator<Item = Arc<Region>>) -> Self {
        let mut around = None;
        let tallied = regions.into_iter().map(|region| {
            let is_top = around.is_none_or(|around| !region.prefix.starts_with(around));
            if is_top {
                around = Some(region.prefix);
            }
            let tally = Tally::of(&region, is_top);
            (region, tally)
        });
        let mut chart = Self { bits, regions: tallied.collect(), tallies: Tallies::default() };
        let mut tallies = Tallies::default();
        for (at, (region, tally)) in chart.regions.iter().enumerate() {
            // The regions after this one have not been added yet, so `within` must not return them.
            let known = &chart.regions[..=at];
            tallies.add(region.prefix, *tally, |under| {
                between(known, under).iter().map(|(region, tally)| (region.prefix, *tally))
            });
        }
        chart.tallies = tallies;
        chart
    }
}

impl Charted for Chart {
    fn bits(&self) -> u8 {
        self.bits
    }

    fn stored(&self, under: Prefix) -> Option<Tally> {
        self.tallies.at(under)
    }

    fn inside(&self, under: Prefix) -> impl Iterator<Item = (&Arc<Region>, Tally)> {
        between(&self.regions, under).iter().map(|(region, tally)| (region, *tally))
    }
}

fn between(regions: &[(Arc<Region>, Tally)], under: Prefix) -> &[(Arc<Region>, Tally)] {
    &regions[range(regions, |(region, _)| region.prefix, under)]
}

/// Returns the indexes of the elements whose prefixes begin with `under`. The elements are sorted by prefix.
pub(crate) fn range<T>(sorted: &[T], prefix: impl Fn(&T) -> Prefix, under: Prefix) -> Range<usize> {
    let from = sorted.partition_point(|element| prefix(element) < under);
    let len = sorted[from..].partition_point(|element| prefix(element).starts_with(under));
    from..from + len
}
