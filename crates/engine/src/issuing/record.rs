//! The key and the bounds of a counter.

use kent_ids::{Position, Stride};
use kent_regions::Pace;
use kent_store::{Key, Version};

/// The key of a counter's record, and the counter's bounds.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: Key,
    /// Other records that must not have changed when the counter moves.
    pub(crate) guards: Vec<(Key, Version)>,
    /// The first position.
    pub(crate) first: Position,
    /// One past the last position that can be granted.
    pub(crate) capacity: Position,
    /// The maximum rate of the counter.
    pub(crate) pace: Pace,
    /// Which positions are issued.
    pub(crate) stride: Stride,
    /// Whether the counter belongs to a region. After a restore that lost no edits, a region without a counter is new,
    /// so its counter was not lost.
    pub(crate) is_of_table: bool,
}
