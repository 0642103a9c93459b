//! Up to 64 intervals, which a fixed number of steps searches.

use alloc::boxed::Box;
use core::{array::from_fn, hint::select_unpredictable};

use super::{Label, intervals::Interval};
use crate::region::RegionNumber;

/// The maximum number of intervals.
pub(super) const FEW_MAX: usize = 64;

/// The last identifiers of the intervals, and their regions. Unused entries hold the largest key.
#[derive(Clone, Debug)]
pub(super) struct Few {
    ends: Box<[u64; FEW_MAX]>,
    regions: Box<[Option<RegionNumber>; FEW_MAX]>,
}

impl Few {
    /// Takes intervals that cover the space, at most [`FEW_MAX`]. `region` converts a label.
    pub(super) fn new(intervals: &[Interval<u64>], region: impl Fn(Label) -> Option<RegionNumber>) -> Self {
        let region = |interval: &Interval<u64>| region(interval.owner);
        Self {
            ends: Box::new(from_fn(|at| intervals.get(at).map_or(u64::MAX, |interval| interval.last))),
            regions: Box::new(from_fn(|at| intervals.get(at).or(intervals.last()).and_then(region))),
        }
    }

    /// Returns the region of an identifier, which must be in the space.
    #[inline]
    pub(super) fn find(&self, id: u64) -> Option<RegionNumber> {
        let (mut at, mut half) = (0, FEW_MAX / 2);
        while half > 0 {
            at = select_unpredictable(self.ends[(at + half - 1) % FEW_MAX] < id, at + half, at);
            half /= 2;
        }
        self.regions[at % FEW_MAX]
    }

    /// Returns the number of bytes of memory that the intervals use.
    pub(super) const fn bytes(&self) -> usize {
        size_of_val(&*self.ends) + size_of_val(&*self.regions)
    }
}
