//! What comes of asking for identifiers, whatever their source.

use std::{sync::Arc, time::Duration};

use kent_ids::{Block, Format, Series, Source};
use kent_issue::Refusal;
use kent_proto::model::Invalid;
use kent_regions::RegionNumber;

use crate::{issuing::queue::Promise, tables::space::Space};

/// What comes of asking, unless it is refused.
#[derive(Debug)]
pub(crate) enum Tried<T> {
    /// What was asked for, and when it was granted.
    Granted(T, Duration),
    /// Something has to be waited for, and then it is tried again.
    Wait(Wait),
}

/// What a grant has to wait for.
#[derive(Debug)]
pub(crate) enum Wait {
    /// The clock, a slot or its window.
    Time(Format, Refusal),
    /// A chunk of a region.
    Region(Arc<Space>, RegionNumber),
    /// A chunk of a series.
    Series(Series),
    /// A commit that makes the grant durable.
    Promise(Promise),
}

/// Identifiers that were granted.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    /// The block.
    pub(crate) block: Block,
    /// Blocks of one source ascend while this stays the same.
    pub(crate) clock_epoch: u64,
}

/// What is left of a chunk that this daemon holds.
#[derive(Clone, Debug)]
pub(crate) struct HeldChunk {
    /// Of what.
    pub(crate) source: Source,
    /// How many positions.
    pub(crate) left: u128,
}

/// A request_id for what is not a strict region.
pub(crate) fn only_strict() -> Invalid {
    let problem = "is for strict regions only: elsewhere a retry takes the next block, and none is issued twice";
    Invalid::new("request_id", problem)
}
