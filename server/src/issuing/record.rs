//! Where a counter is stored, and what bounds it.

use kent_ids::Position;
use kent_regions::Pace;
use kent_store::{Key, Version};

/// The durable side of a counter: where it is, and what bounds it.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: Key,
    /// Another record that must not have changed when a chunk is reserved.
    pub(crate) guard: Option<(Key, Version)>,
    /// Where the counter begins.
    pub(crate) first: Position,
    /// One past the last position that can be granted.
    pub(crate) capacity: Position,
    /// How fast the counter may move.
    pub(crate) pace: Pace,
    /// Whether it is a region's: after a restore of which tables are known, a new one was not lost.
    pub(crate) is_of_table: bool,
}
