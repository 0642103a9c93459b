//! A static search tree that finds the interval of an identifier: the first interval that does not end before the
//! identifier.
//!
//! Its nodes are blocks of cache lines without pointers. Each leaf is one cache line with the ends of some intervals
//! and their owners. All leaves have the same depth, and a node is searched without branches. Every search takes the
//! same steps, so the processor can start the next search while the current one still waits for memory.

use alloc::vec::Vec;
use core::{array::from_fn, hint::select_unpredictable};

use super::{
    Label, NONE,
    intervals::{Interval, Key},
};

/// For keys of up to 64 bits: 16 children per node, 6 intervals per leaf.
pub(super) type NarrowTree = Tree<u64, 16, 5, 6>;

/// For wider keys: 8 children per node, 4 intervals per leaf.
pub(super) type WideTree = Tree<u128, 8, 3, 4>;

/// A search tree of nodes with `CHILDREN` children and leaves with `OWNERS` intervals. `OWNERS` is `ENDS + 1`.
#[derive(Clone, Debug)]
pub(super) struct Tree<K, const CHILDREN: usize, const ENDS: usize, const OWNERS: usize> {
    /// The nodes of all levels, from the root down.
    nodes: Vec<Node<K, CHILDREN>>,
    /// The index in `nodes` where each level begins.
    levels: Vec<usize>,
    leaves: Vec<Leaf<K, ENDS, OWNERS>>,
}

/// The last identifier below each child, except the last child.
///
/// Unused entries hold the largest key, so no identifier is above them.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Node<K, const CHILDREN: usize>([K; CHILDREN]);

/// Up to `OWNERS` adjacent intervals: their owners, and the last identifiers of the first `ENDS` of them.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Leaf<K, const ENDS: usize, const OWNERS: usize> {
    ends: [K; ENDS],
    owners: [Label; OWNERS],
}

impl<K: Key, const CHILDREN: usize, const ENDS: usize, const OWNERS: usize> Tree<K, CHILDREN, ENDS, OWNERS> {
    /// Builds the tree of these intervals, which must cover the space.
    pub(super) fn new(intervals: &[Interval<K>]) -> Self {
        let leaves = intervals.chunks(OWNERS).map(Leaf::new).collect();
        let mut ends: Vec<K> = intervals.chunks(OWNERS).filter_map(<[_]>::last).map(|last| last.last).collect();
        let mut upward: Vec<Vec<Node<K, CHILDREN>>> = Vec::new();
        while ends.len() > 1 {
            upward.push(ends.chunks(CHILDREN).map(Node::new).collect());
            ends = ends.chunks(CHILDREN).filter_map(<[_]>::last).copied().collect();
        }
        let mut nodes = Vec::with_capacity(upward.iter().map(Vec::len).sum());
        let mut levels = Vec::with_capacity(upward.len());
        for level in upward.into_iter().rev() {
            levels.push(nodes.len());
            nodes.extend(level);
        }
        Self { nodes, levels, leaves }
    }

    /// Returns the owner of an identifier, which must be in the space.
    #[inline]
    pub(super) fn find(&self, id: K) -> Label {
        let at = self.levels.iter().fold(0, |at, level| self.step(*level, at, id));
        self.leaves[at].owner(id)
    }

    /// Returns the owners of some identifiers, searched level by level, so that all searches wait for memory at the
    /// same time.
    #[inline]
    pub(super) fn find_each<const COUNT: usize>(&self, ids: &[K; COUNT]) -> [Label; COUNT] {
        let mut at = [0; COUNT];
        for level in &self.levels {
            at = from_fn(|one| self.step(*level, at[one], ids[one]));
        }
        from_fn(|one| self.leaves[at[one]].owner(ids[one]))
    }

    /// Steps from a node of the level that begins at `level` to the child that contains an identifier.
    #[inline(always)]
    fn step(&self, level: usize, at: usize, id: K) -> usize {
        at * CHILDREN + self.nodes[level + at].rank(id)
    }

    /// Returns the number of bytes of memory that the nodes and leaves use.
    pub(super) const fn bytes(&self) -> usize {
        size_of_val(self.nodes.as_slice()) + size_of_val(self.leaves.as_slice())
    }
}

impl<K: Key, const CHILDREN: usize> Node<K, CHILDREN> {
    fn new(ends: &[K]) -> Self {
        Self(from_fn(|at| if at + 1 < CHILDREN { ends.get(at).copied().unwrap_or(K::MAX) } else { K::MAX }))
    }

    /// Returns the number of children that end before an identifier.
    ///
    /// Halves the range until three ends are left, and compares each of these with the identifier.
    #[inline(always)]
    fn rank(&self, id: K) -> usize {
        let is_before = |at: usize| self.0[at % CHILDREN] < id;
        let (mut rank, mut half) = (0, CHILDREN / 2);
        while half >= 4 {
            rank = select_unpredictable(is_before(rank + half - 1), rank + half, rank);
            half /= 2;
        }
        rank + usize::from(is_before(rank)) + usize::from(is_before(rank + 1)) + usize::from(is_before(rank + 2))
    }
}

impl<K: Key, const ENDS: usize, const OWNERS: usize> Leaf<K, ENDS, OWNERS> {
    fn new(intervals: &[Interval<K>]) -> Self {
        // Unused entries repeat the last owner, so every identifier above the last end has that owner.
        let last = intervals.last().map_or(NONE, |interval| interval.owner);
        let inner = intervals.get(..intervals.len().min(ENDS)).unwrap_or_default();
        Self {
            ends: from_fn(|at| inner.get(at).map_or(K::MAX, |interval| interval.last)),
            owners: from_fn(|at| intervals.get(at).map_or(last, |interval| interval.owner)),
        }
    }

    #[inline(always)]
    fn owner(&self, id: K) -> Label {
        let ended = self.ends.iter().filter(|end| **end < id).count();
        self.owners[ended]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_leaves_are_a_cache_line_and_nodes_two() {
        assert_eq!((size_of::<Leaf<u64, 5, 6>>(), size_of::<Leaf<u128, 3, 4>>()), (64, 64));
        assert_eq!((size_of::<Node<u64, 16>>(), size_of::<Node<u128, 8>>()), (128, 128));
    }

    /// Looks up identifiers of every interval in trees of fewer than `most` intervals. Interval i ends at 10 * i.
    #[track_caller]
    fn check<K: Key, const CHILDREN: usize, const ENDS: usize, const OWNERS: usize>(most: u32) {
        for count in 1..most {
            let end = |owner: u32| K::of(u128::from(owner) * 10);
            let intervals: Vec<_> = (0..count).map(|owner| Interval { last: end(owner), owner }).collect();
            let tree = Tree::<K, CHILDREN, ENDS, OWNERS>::new(&intervals);
            for owner in 0..count {
                let last = u128::from(owner) * 10;
                let first = if owner == 0 { 0 } else { last - 9 };
                assert_eq!(tree.find_each(&[K::of(first), K::of(last)]), [owner; 2], "of {count}");
                assert_eq!(tree.find(K::of(last)), owner, "of {count}");
            }
        }
    }

    #[test]
    fn ok_every_interval_is_found_in_trees_of_every_size() {
        check::<u64, 16, 5, 6>(700);
        check::<u128, 8, 3, 4>(400);
    }
}
