//! The intervals into which nested regions divide a space.

use alloc::vec::Vec;

use super::{Label, NONE};
use crate::prefix::Prefix;

/// A run of identifiers that all have the same innermost region, or are all in no region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval<K> {
    /// The last identifier. The first identifier follows the last one of the previous interval.
    pub(super) last: K,
    /// The label of the region, or [`NONE`].
    pub(super) owner: Label,
}

/// The integer type of search keys.
pub(super) trait Key: Copy + Ord {
    const MAX: Self;

    /// Converts an identifier, which must fit the type.
    fn of(id: u128) -> Self;

    /// Converts a key to an identifier.
    fn wide(self) -> u128;
}

impl Key for u64 {
    const MAX: Self = Self::MAX;

    fn of(id: u128) -> Self {
        id as Self // OK because narrow keys are for identifiers of up to 64 bits
    }

    fn wide(self) -> u128 {
        self.into()
    }
}

impl Key for u128 {
    const MAX: Self = Self::MAX;

    fn of(id: u128) -> Self {
        id
    }

    fn wide(self) -> u128 {
        self
    }
}

/// Returns the intervals of a space of `bits` bits, in order. The regions must be sorted by prefix, outer before inner.
/// There are at most `2 * count + 1` intervals.
pub(super) fn intervals<K: Key>(
    bits: u8,
    count: usize,
    regions: impl Iterator<Item = (Prefix, Label)>,
) -> Vec<Interval<K>> {
    let mut intervals = Intervals(Vec::with_capacity(count.saturating_mul(2).saturating_add(1)));
    let mut around: Vec<Interval<u128>> = Vec::from([Interval { last: Prefix::EMPTY.last(bits), owner: NONE }]);
    for (prefix, owner) in regions {
        let first = prefix.base(bits);
        while let Some(outer) = around.pop_if(|outer| outer.last < first) {
            intervals.close(outer);
        }
        if let (Some(last), Some(outer)) = (first.checked_sub(1), around.last()) {
            intervals.close(Interval { last, owner: outer.owner });
        }
        around.push(Interval { last: prefix.last(bits), owner });
    }
    while let Some(outer) = around.pop() {
        intervals.close(outer);
    }
    intervals.0
}

struct Intervals<K>(Vec<Interval<K>>);

impl<K: Key> Intervals<K> {
    /// Adds an interval that begins after the end of the previous one, unless the new interval would be empty.
    fn close(&mut self, interval: Interval<u128>) {
        let last = K::of(interval.last);
        if self.0.last().is_none_or(|before| before.last < last) {
            self.0.push(Interval { last, owner: interval.owner });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bits: u8, prefixes: &[&str], expected: &[(u128, Label)]) {
        let labeled = prefixes.iter().zip(0..).map(|(text, at)| (text.parse().expect("a prefix"), at));
        let found = intervals::<u128>(bits, prefixes.len(), labeled);
        let found: Vec<(u128, Label)> = found.iter().map(|found| (found.last, found.owner)).collect();
        assert_eq!(found, expected, "{prefixes:?}");
    }

    #[test]
    fn ok_gaps_nests_and_neighbors() {
        check(4, &[], &[(15, NONE)]);
        check(4, &[""], &[(15, 0)]);
        check(4, &["01"], &[(3, NONE), (7, 0), (15, NONE)]);
        check(4, &["0", "01"], &[(3, 0), (7, 1), (15, NONE)]);
        check(4, &["", "01", "011", "11"], &[(3, 0), (5, 1), (7, 2), (11, 0), (15, 3)]);
        check(4, &["0", "00", "000", "0000"], &[(0, 3), (1, 2), (3, 1), (7, 0), (15, NONE)]);
        check(4, &["1", "11", "111", "1111"], &[(7, NONE), (11, 0), (13, 1), (14, 2), (15, 3)]);
        check(128, &["", "1"], &[(u128::MAX >> 1, 0), (u128::MAX, 1)]);
    }
}
