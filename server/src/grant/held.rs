//! What granting has in common, whatever the source.

use std::time::Duration;

use kent_ids::Source;

use crate::issuing::queue::Promise;

/// What can be had without waiting.
#[derive(Debug)]
pub(crate) enum AtOnce<T> {
    /// What was asked for, and when it was granted.
    Granted(T, Duration),
    /// It is granted when it is durable.
    Promised(Promise),
}

/// What is left of a chunk that this daemon holds.
#[derive(Clone, Debug)]
pub(crate) struct HeldChunk {
    /// Of what.
    pub(crate) source: Source,
    /// How many positions.
    pub(crate) left: u128,
}

/// A reservation that meets others is tried so often at the least, and as long as the caller has patience.
pub(crate) const ATTEMPTS: u32 = 16;
