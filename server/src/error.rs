//! Why a request was refused, in the daemon's own words. `status` turns these into gRPC.

use std::{num::NonZeroU64, time::Duration};

use kent_ids::UnixNanos;
use kent_issue::{BURST, Refusal, RequestRefusal, TooFast};
use kent_proto::model::Invalid;
use kent_regions::{Pace, Revision};
use thiserror::Error;

use crate::records::failure::{LoadError, StoreFailure};

/// No such space.
#[derive(Debug, Error)]
#[error("there is no space {space:?}; ListSpaces (kent space ls) lists them")]
pub(crate) struct NoSuchSpace {
    /// The name that was asked for.
    pub(crate) space: String,
}

/// No such region.
#[derive(Debug, Error)]
#[error("there is no region {region:?} in space {space:?}; ListRegions (kent region ls) lists them")]
pub(crate) struct NoSuchRegion {
    /// The space.
    pub(crate) space: String,
    /// The name that was asked for.
    pub(crate) region: String,
}

impl From<LoadError> for EditError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Store(failure) => failure.into(),
            LoadError::Table { .. }
            | LoadError::NoDefaultSpace
            | LoadError::HalfRestored
            | LoadError::NewerSchema { .. }
            | LoadError::Moved { .. } => Self::Damaged(error),
        }
    }
}

/// Why no identifiers were granted.
#[derive(Debug, Error)]
pub(crate) enum AllocateError {
    /// A field cannot be used.
    #[error(transparent)]
    BadField(#[from] Invalid),
    /// No such space.
    #[error(transparent)]
    NoSuchSpace(#[from] NoSuchSpace),
    /// No such region.
    #[error(transparent)]
    NoSuchRegion(#[from] NoSuchRegion),
    /// The clock or the slot do not allow it.
    #[error("{source_token}: {refusal}")]
    Time {
        /// The format's token.
        source_token: &'static str,
        /// Why.
        refusal: Refusal,
    },
    /// The region is closed.
    #[error(
        "region {region:?} of space {space:?} is closed: its subregions take its place, and identifiers come from them"
    )]
    Closed {
        /// The space.
        space: String,
        /// The region.
        region: String,
    },
    /// The region's suffixes are a space of their own.
    #[error(
        "region {region:?} of space {space:?} is delegated: identifiers come from the regions of space \"{space}/{region}\""
    )]
    Delegated {
        /// The space.
        space: String,
        /// The region.
        region: String,
    },
    /// The region is sealed.
    #[error(
        "region {region:?} of space {space:?} is sealed: nothing is granted until it is unsealed (kent region unseal {region})"
    )]
    Sealed {
        /// The space.
        space: String,
        /// The region.
        region: String,
    },
    /// The region's values come from users.
    #[error(
        "region {region:?} of space {space:?} is external: its values come from users, and are composed (kent region id {region} VALUE)"
    )]
    External {
        /// The space.
        space: String,
        /// The region.
        region: String,
    },
    /// The counter would move faster than its pace allows.
    #[error("{subject} issues at most {pace}, on average, and at most {burst} at once: {}", match wait {
        Some(wait) => format!("{asked} more are allowed in {:.1} s", wait.as_secs_f64()),
        None => format!("{asked} were asked for"),
    })]
    TooFast {
        /// The source.
        subject: String,
        /// Its pace.
        pace: Pace,
        /// The most that it issues at once.
        burst: u128,
        /// How many were asked for.
        asked: u64,
        /// When it is allowed; `None` if never.
        wait: Option<Duration>,
    },
    /// After a restore it is not known how far the counter had come.
    #[error(
        "how much {subject} had issued when its store was lost is not known, so nothing is issued: name a number above every one in \
         use ({})",
        match region {
            Some(region) => format!("kent region set {region} --next N, or 0 if it is new"),
            None => format!("kentd restore ... --floor {subject}=N"),
        }
    )]
    Unsure {
        /// The source.
        subject: String,
        /// The name of the region, if it is one.
        region: Option<String>,
    },
    /// The store was restored, and another clock may have been ahead of ours.
    #[error(
        "the store was restored, and nothing is issued before {}, in case that the clock of a lost host was ahead (kentd restore \
         --clock-error): {}",
        until.rfc3339(0).unwrap_or_default(),
        match now {
            Some(now) => format!("it is {}", now.rfc3339(0).unwrap_or_default()),
            None => "this clock is not believed yet".to_owned(),
        }
    )]
    Restored {
        /// From when on identifiers are issued.
        until: UnixNanos,
        /// The present, if the clock is believed.
        now: Option<UnixNanos>,
    },
    /// Others' edits may have been missed for too long.
    #[error(
        "the store has not been reached for too long: a region may have been sealed or changed meanwhile, and nothing is granted \
         from regions until the store is back"
    )]
    OutOfTouch,
    /// A request_id was used for another count before.
    #[error("request_id was used before, for {count} identifiers: use another one")]
    Reused {
        /// How many were granted under it.
        count: u64,
    },
    /// Nothing is granted under the request_id.
    #[error(transparent)]
    Request(#[from] RequestRefusal),
    /// The region does not hold as many more.
    #[error("{0}")]
    Exhausted(Exhausted),
    /// The series does not hold as many more.
    #[error("{series} has {left} identifiers left, {asked} were asked for, and there will never be more")]
    SeriesExhausted {
        /// The series.
        series: kent_ids::Series,
        /// How many are left.
        left: u128,
        /// How many were asked for.
        asked: u64,
    },
    /// Callers have begun as many series as they may.
    #[error(
        "{series} is new, and callers have begun {max} series already (kentd --series-on-demand): an operator makes it (kent series \
         create {series}), or forgets others (kent series ls, kent series forget)"
    )]
    TooManySeries {
        /// The series that was asked for.
        series: kent_ids::Series,
        /// How many callers may begin.
        max: u64,
    },
    /// The store could not supply a chunk.
    #[error("no chunk could be reserved: {0}")]
    Store(#[from] StoreFailure),
    /// Others kept reserving first.
    #[error("no chunk could be reserved in {attempts} attempts, since others did at the same time")]
    Contended {
        /// How often it was tried.
        attempts: u32,
    },
    /// The caller's deadline was over before a chunk was reserved.
    #[error("no chunk could be reserved before the deadline")]
    Late,
    /// An invariant is broken.
    #[error("an invariant of the daemon is broken: {0}")]
    Broken(kent_ids::BlockError),
    /// An invariant was found to be broken before.
    #[error("this daemon issues nothing any more, since an invariant is broken, and stops; its log says which")]
    Stopped,
}

impl AllocateError {
    /// A counter would move faster than its pace allows.
    pub(crate) fn too_fast(subject: String, pace: Pace, asked: NonZeroU64, TooFast { wait }: TooFast) -> Self {
        let burst = u128::from(pace.get()) * u128::from(BURST.as_secs());
        Self::TooFast { subject, pace, burst, asked: asked.get(), wait }
    }
}

/// A region that is full, and what would help.
#[derive(Debug)]
pub(crate) struct Exhausted {
    /// The space.
    pub(crate) space: String,
    /// The region.
    pub(crate) region: String,
    /// 2^s.
    pub(crate) capacity: String,
    /// How many suffixes are issued or reserved.
    pub(crate) reserved: String,
    /// How many were asked for.
    pub(crate) asked: u64,
    /// By how many bits it could be expanded.
    pub(crate) expandable_bits: u8,
}

impl std::fmt::Display for Exhausted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { space, region, capacity, reserved, asked, expandable_bits } = self;
        write!(
            f,
            "region {region:?} of space {space:?} is full: {reserved} of {capacity} suffixes are issued, {asked} more were asked for; "
        )?;
        match expandable_bits {
            0 => write!(f, "it cannot be expanded further"),
            bits => {
                write!(f, "it can be expanded by up to {bits} bits (ExpandRegion, kent region expand {region} --by N)")
            }
        }
    }
}

/// Why the listing of a series was not changed.
#[derive(Debug, Error)]
pub(crate) enum SeriesError {
    /// A field cannot be used.
    #[error(transparent)]
    BadField(#[from] Invalid),
    /// The one that every store has.
    #[error("{series} is there always: it is neither made nor forgotten")]
    AlwaysThere {
        /// The series.
        series: kent_ids::Series,
    },
    /// It is not listed.
    #[error("there is no series {series}; ListSeries (kent series ls) lists them")]
    NoSuchSeries {
        /// The series.
        series: kent_ids::Series,
    },
    /// There are as many as there may be.
    #[error("operators have made {max} series, and more are not made: forget some (kent series forget)")]
    TooMany {
        /// How many there may be.
        max: u64,
    },
    /// What is stored could not be read, or the change not written.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// Others kept changing the listing.
    #[error("others changed the list of series at the same time, {attempts} times in a row")]
    Contended {
        /// How often it was tried.
        attempts: u32,
    },
}

/// Why an edit was not made.
#[derive(Debug, Error)]
pub(crate) enum EditError {
    /// A field cannot be used.
    #[error(transparent)]
    BadField(#[from] Invalid),
    /// No such space.
    #[error(transparent)]
    NoSuchSpace(#[from] NoSuchSpace),
    /// There is a space of this name already.
    #[error("there is a space {space:?} already")]
    SpaceTaken {
        /// Its name.
        space: String,
    },
    /// There are as many spaces as there may be.
    #[error("there are {max} spaces, and more are not made: a table holds many regions, each with a name of its own")]
    TooManySpaces {
        /// How many there may be.
        max: usize,
    },
    /// A rule of the table.
    #[error("{refusal}")]
    Refused {
        /// The space.
        space: String,
        /// Which rule, and the nearest legal edit.
        refusal: Box<kent_regions::Refusal>,
    },
    /// A space cannot be delegated that deep.
    #[error("region {region:?} cannot be delegated: its space would be too many levels deep")]
    TooDeep {
        /// The region.
        region: String,
    },
    /// The table has moved on.
    #[error("the table of space {space:?} is at revision {present}, not at {expected}: look again and repeat the edit")]
    Stale {
        /// The space.
        space: String,
        /// The revision that the author saw.
        expected: u64,
        /// The present one.
        present: Revision,
    },
    /// After a restore it is not known how far the region's counter had come.
    #[error(
        "how much region {region:?} had issued when its store was lost is not known, and this edit depends on it: say where it goes \
         on (kent region set {region} --next N)"
    )]
    Unsure {
        /// The region.
        region: String,
    },
    /// The edit was made, and what it changed is forgotten.
    #[error(
        "the edit of this request_id was made in revision {revision}, whose record is forgotten (kentd --history-keep)"
    )]
    MadeAndForgotten {
        /// The revision that it made.
        revision: Revision,
    },
    /// No edit is made under the request_id.
    #[error(transparent)]
    Request(#[from] RequestRefusal),
    /// The store did not take the edit.
    #[error("the edit was not stored: {0}")]
    Store(#[from] StoreFailure),
    /// What is stored is no table.
    #[error(transparent)]
    Damaged(LoadError),
    /// The edit broke off; whether it was made is not known.
    #[error("the edit broke off")]
    Abandoned,
    /// Others kept changing the same records.
    #[error("others changed the same regions at the same time, {attempts} times in a row")]
    Contended {
        /// How often it was tried.
        attempts: u32,
    },
}
