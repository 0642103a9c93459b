//! Why requests for regions fail.

use kent_ids::grouped;
use kent_proto::{
    model::{Invalid, region_source, space_option},
    stored::AskOutcome,
};
use thiserror::Error;

use super::NoSuchSpace;
use crate::{auth::Denied, records::failure::StoreFailure};

/// Why a request for a region cannot be stored, found or closed.
#[derive(Debug, Error)]
pub enum AskError {
    /// The caller may not do this.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// A field is invalid.
    #[error(transparent)]
    BadField(#[from] Invalid),
    /// The space does not exist.
    #[error(transparent)]
    NoSuchSpace(#[from] NoSuchSpace),
    /// There is no such request, or the caller may not see it.
    #[error(
        "there is no request {number} in space {space:?} that you may see (kent request ls --all{})",
        space_option(space)
    )]
    NoSuchAsk {
        /// The space.
        space: String,
        /// The number of the request.
        number: u64,
    },
    /// A region that the caller may read has the requested name.
    #[error(
        "region {region:?} already exists in space {space:?}: take identifiers from it (kent alloc {}), or ask for another name",
        region_source(region, space)
    )]
    Taken {
        /// The space.
        space: String,
        /// The name.
        region: String,
    },
    /// The request is closed.
    #[error(
        "request {number} of space {space:?} {} already (kent request show {number}{})",
        done(how),
        space_option(space)
    )]
    Closed {
        /// The space.
        space: String,
        /// The number of the request.
        number: u64,
        /// The outcome.
        how: AskOutcome,
    },
    /// Another caller made the request.
    #[error(
        "request {number} of space {space:?} is not yours: only its requester can withdraw it; an operator can decline it (kent request \
         decline {number} --reason TEXT{})",
        space_option(space)
    )]
    NotYours {
        /// The space.
        space: String,
        /// The number of the request.
        number: u64,
    },
    /// The caller has the maximum number of open requests.
    #[error(
        "you have {} open requests in space {space:?}, which is the maximum: withdraw one (kent request ls{}, kent request withdraw ID), or \
         wait until an operator has made or declined one",
        grouped(max),
        space_option(space)
    )]
    TooManyOfCaller {
        /// The space.
        space: String,
        /// The maximum.
        max: usize,
    },
    /// The space has the maximum number of open requests.
    #[error(
        "space {space:?} has {} open requests, which is the maximum: an operator must make or decline some first (kent request ls{})",
        grouped(max),
        space_option(space)
    )]
    TooMany {
        /// The space.
        space: String,
        /// The maximum.
        max: usize,
    },
    /// The store failed.
    #[error("the request was not changed: {0}")]
    Store(#[from] StoreFailure),
    /// Other replicas changed the requests of the space in every attempt.
    #[error("{attempts} attempts conflicted with other changes to the requests of the space; try again")]
    Contended {
        /// The number of attempts.
        attempts: u32,
    },
    /// The change was interrupted; whether it was made is not known.
    #[error("the change was interrupted; list the requests to see whether it was made (kent request ls)")]
    Abandoned,
}

fn done(how: &AskOutcome) -> &'static str {
    match how {
        AskOutcome::Made(_) => "was made",
        AskOutcome::Declined => "was declined",
        AskOutcome::Withdrawn => "was withdrawn",
    }
}
