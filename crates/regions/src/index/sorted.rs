//! A sorted array, in which few intervals are found faster than in a tree.

use alloc::vec::Vec;
use core::{array::from_fn, hint::select_unpredictable};

use super::{Label, intervals::Interval};

/// The last identifiers of the intervals, and their owners.
#[derive(Clone, Debug)]
pub(super) struct Sorted {
    ends: Vec<u64>,
    owners: Vec<Label>,
}

/// The maximum number of intervals that a sorted array finds as fast as a tree.
pub(super) const SORTED_MAX: usize = 8192;

impl Sorted {
    /// Builds the array of these intervals, which must cover the space.
    pub(super) fn new(intervals: &[Interval<u64>]) -> Self {
        let (ends, owners) = intervals.iter().map(|interval| (interval.last, interval.owner)).unzip();
        Self { ends, owners }
    }

    /// Returns the owner of an identifier, which must be in the space. Every search takes the same steps, without
    /// branches, so the processor can start the next search before this one ends.
    #[inline]
    pub(super) fn find(&self, id: u64) -> Label {
        let (mut at, mut left) = (0, self.ends.len());
        while left > 1 {
            let half = left / 2;
            at = select_unpredictable(self.ends[at + half - 1] < id, at + half, at);
            left -= half;
        }
        self.owners[at]
    }

    /// Returns the owners of some identifiers, searched step by step, so that all searches make progress at the same
    /// time.
    #[inline]
    pub(super) fn find_each<const COUNT: usize>(&self, ids: &[u64; COUNT]) -> [Label; COUNT] {
        let (mut at, mut left) = ([0; COUNT], self.ends.len());
        while left > 1 {
            let half = left / 2;
            at = from_fn(|one| {
                let upper = at[one] + half;
                select_unpredictable(self.ends[upper - 1] < ids[one], upper, at[one])
            });
            left -= half;
        }
        from_fn(|one| self.owners[at[one]])
    }

    /// Returns the number of bytes of memory that the array uses.
    pub(super) const fn bytes(&self) -> usize {
        size_of_val(self.ends.as_slice()) + size_of_val(self.owners.as_slice())
    }
}
