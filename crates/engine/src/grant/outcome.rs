//! The outcomes of a request for identifiers, for all kinds of sources.

use std::{sync::Arc, time::Duration};

use kent_ids::{Block, Series, Source};
use kent_issue::Refusal;
use kent_proto::model::Invalid;
use kent_regions::RegionNumber;

use crate::{
    budgets::{Account, Charge},
    issuing::{queue::PendingGrant, timed::Timed},
    tables::space::Space,
};

/// The outcome of an attempt at a grant, unless the request is rejected.
#[derive(Debug)]
pub enum TryGrant<T> {
    /// The granted value, and the time of the grant on the steady clock.
    Granted(T, Duration),
    /// The caller has to wait, and then try again.
    Wait(Wait),
}

/// The event that a grant has to wait for.
#[derive(Debug)]
pub enum Wait {
    /// The clock, a slot or its window. The wait itself can end in a grant, so the caller's budgets are charged before
    /// the wait.
    Time(Timed, Refusal, Charge),
    /// A chunk of a region.
    Region(Arc<Space>, RegionNumber),
    /// A chunk of a series.
    Series(Series),
    /// A custom layout that this daemon has not read yet.
    Layout(String),
    /// The commit that makes a strict grant durable.
    Strict(PendingGrant),
    /// A share of a budget. For a request with a request ID, also the strict region, which may have granted the request
    /// earlier.
    Budget(Arc<Account>, Option<(Arc<Space>, RegionNumber)>),
}

impl Wait {
    /// The reason for the wait, as the metrics name it.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Time(..) => "time",
            Self::Region(..) | Self::Series(_) => "chunk",
            Self::Strict(_) | Self::Layout(_) => "commit",
            Self::Budget(..) => "budget",
        }
    }
}

/// Identifiers that were granted.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The block.
    pub block: Block,
    /// The blocks of one source ascend as long as this value stays the same.
    pub clock_epoch: u64,
}

/// The rest of a chunk that this daemon holds.
#[derive(Clone, Debug)]
pub struct HeldChunk {
    /// The source.
    pub source: Source,
    /// The number of positions left.
    pub left: u128,
}

/// The error for a request ID with a source that is not a strict region.
pub fn request_id_not_allowed() -> Invalid {
    let problem = "is allowed for strict regions only; for other sources a retry gets the next block, and no identifier is issued twice";
    Invalid::new("request_id", problem)
}
