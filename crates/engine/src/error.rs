//! Errors of requests, in the daemon's terms. `status` translates them to gRPC.

mod asks;
mod exhausted;
mod floor;
mod layout;
mod occupied;
mod over_budget;
#[cfg(test)]
mod tests;
mod undone;

use std::{num::NonZeroU64, time::Duration};

use kent_ids::{DEFAULT_SPACE, UnixNanos, counted, grouped};
use kent_issue::{BURST, Refusal, RequestRefusal, TooFast};
use kent_proto::model::{Invalid, region_source as source, region_words as arguments};
use kent_regions::{Count, Edit, NotUndone, Pace, Refusal as TableRefusal, Revision};
use thiserror::Error;

pub use self::{
    asks::AskError, exhausted::Exhausted, floor::FloorError, layout::LayoutError, occupied::Occupied,
    over_budget::OverBudget, undone::Deleted,
};
use crate::{
    auth::Denied,
    records::failure::{LoadError, StoreFailure},
};

/// Formats a requested number and its verb, such as `1 was` or `3 were`.
fn were(requested: u64) -> String {
    format!("{} {}", grouped(requested), if requested == 1 { "was" } else { "were" })
}

fn be(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// The space does not exist.
#[derive(Debug, Error)]
#[error("there is no space {space:?}; ListSpaces (kent space ls) lists them")]
pub struct NoSuchSpace {
    /// The requested name.
    pub(crate) space: String,
}

/// The region does not exist.
#[derive(Debug, Error)]
#[error("there is no region {region:?} in space {space:?}; ListRegions (kent region ls --space {space}) lists them")]
pub struct NoSuchRegion {
    /// The space.
    pub space: String,
    /// The requested name.
    pub region: String,
}

/// The store was restored, and the clock of a lost host may have been ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the store was restored, and nothing is issued before {}, because the clock of a lost host may have been ahead (kentd restore \
     --clock-error): {}",
    until.rfc3339(0).unwrap_or_default(),
    match now {
        Some(now) => format!("it is {}", now.rfc3339(0).unwrap_or_default()),
        None => "this clock is not trusted yet".to_owned(),
    }
)]
pub struct RestoreWait {
    /// The time at which identifiers are issued again.
    pub(crate) until: UnixNanos,
    /// The current time, if the clock is trusted.
    pub(crate) now: Option<UnixNanos>,
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

/// Why an allocation fails.
#[derive(Debug, Error)]
pub enum AllocateError {
    /// The caller may not do this.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// A field of the request is invalid.
    #[error(transparent)]
    BadField(#[from] Invalid),
    /// The space does not exist.
    #[error(transparent)]
    NoSuchSpace(#[from] NoSuchSpace),
    /// The region does not exist.
    #[error(transparent)]
    NoSuchRegion(#[from] NoSuchRegion),
    /// The layout does not exist.
    #[error("there is no layout {name:?}: `kent layout ls` lists all layouts")]
    NoSuchLayout {
        /// The name.
        name: String,
    },
    /// The clock, the slot or the window does not allow the grant.
    #[error("{source_token}: {refusal}")]
    Time {
        /// The format or the layout, such as `uuidv7`.
        source_token: String,
        /// The reason.
        refusal: Refusal,
    },
    /// The region is closed: its subregions replace it.
    #[error("region {region:?} of space {space:?} is closed: {}", match heir {
        Some(heir) => format!("region {heir:?} inside it continues its numbers (kent alloc {})", source(heir, space)),
        None => format!("request identifiers from its subregions (kent region tree --space {space})"),
    })]
    Closed {
        /// The space.
        space: String,
        /// The region.
        region: String,
        /// The subregion that continues the region's numbers, if the caller may know its name.
        heir: Option<String>,
    },
    /// The region is delegated: its suffixes form a separate space.
    #[error(
        "region {region:?} of space {space:?} is delegated: request identifiers from the regions of space \"{space}/{region}\" (kent region ls --space {space}/{region})"
    )]
    Delegated {
        /// The space.
        space: String,
        /// The region.
        region: String,
    },
    /// The region, or a region around it, is sealed.
    #[error(
        "region {region:?} of space {space:?} is {}",
        match by {
            None => "covered by the seal of a region that you may not read: nothing is granted until that region is unsealed".to_owned(),
            Some((by, around)) if by == region && around == space => {
                format!("sealed: nothing is granted until it is unsealed (kent region unseal {})", arguments(by, around))
            }
            Some((by, around)) => format!(
                "covered by the seal of region {by:?} of space {around:?}: nothing is granted until that region is unsealed \
                 (kent region unseal {})",
                arguments(by, around)
            ),
        }
    )]
    Sealed {
        /// The space.
        space: String,
        /// The region.
        region: String,
        /// The names of the sealed region and of the region's space; `None` if the caller may not know them.
        by: Option<(String, String)>,
    },
    /// The region is external: users choose the region's values.
    #[error(
        "region {region:?} of space {space:?} is external: users choose its values, and `kent region id {} VALUE` turns them into identifiers",
        arguments(region, space)
    )]
    External {
        /// The space.
        space: String,
        /// The region.
        region: String,
    },
    /// The request exceeds the pace of the counter.
    #[error("{subject} issues at most {pace} on average, and at most {} in a burst: {}", grouped(burst), match wait {
        Some(wait) => format!("{} more {} allowed after {:.1} s", grouped(requested), be(*requested), wait.as_secs_f64()),
        None => format!("{} requested", were(*requested)),
    })]
    TooFast {
        /// The source.
        subject: String,
        /// Its pace.
        pace: Pace,
        /// The maximum number of identifiers that the source issues in a burst.
        burst: u128,
        /// The requested number of identifiers.
        requested: u64,
        /// The wait until the request is allowed, or `None` if it can never be allowed.
        wait: Option<Duration>,
    },
    /// After a restore, the position of the counter is unknown.
    #[error(
        "{subject} cannot issue, because the position of its counter has been unknown since the restore: set a number above all numbers \
         in use ({})",
        match region {
            Some((region, space)) => format!("kent region set {} --next N, or 0 if it is new", arguments(region, space)),
            None => format!("kentd restore ... --floor {subject}=N"),
        }
    )]
    Unsure {
        /// The source.
        subject: String,
        /// The names of the region and of the region's space; `None` for a series.
        region: Option<(String, String)>,
    },
    /// The wait after a restore is not over yet.
    #[error(transparent)]
    Restored(#[from] RestoreWait),
    /// The store was unreachable for longer than the window, so edits of other replicas may be missing.
    #[error(
        "this replica has not reached the store for longer than its window and may have missed a seal or an edit: it grants nothing \
         from regions until the store answers"
    )]
    OutOfTouch,
    /// The request ID was used before, with a different count.
    #[error("was used before for {}: use a new one", counted(count, "identifier"))]
    Reused {
        /// The number of identifiers granted under the request ID.
        count: u64,
    },
    /// Another caller used the request ID before.
    #[error("was used before, by another caller: use a new one, or the token or certificate of the first request")]
    OthersId,
    /// The request ID is rejected.
    #[error(transparent)]
    Request(#[from] RequestRefusal),
    /// The region has too few suffixes left.
    #[error("{0}")]
    Exhausted(Box<Exhausted>),
    /// A budget of the caller has too few identifiers left.
    #[error("{0}")]
    OverBudget(Box<OverBudget>),
    /// The series has too few identifiers left.
    #[error(
        "{series} has {} left, but {} requested; a series cannot grow: {}",
        counted(left, "identifier"),
        were(*requested),
        match left {
            0 => "continue with another symbol".to_owned(),
            left => format!("take these (kent alloc {series} -n {left}), then continue with another symbol"),
        }
    )]
    SeriesExhausted {
        /// The series.
        series: kent_ids::Series,
        /// The number of identifiers left.
        left: u128,
        /// The requested number of identifiers.
        requested: u64,
    },
    /// Requests have created the maximum number of series.
    #[error(
        "{series} is new, and requests have created {} series already (kentd --series-on-demand): create it as an operator (kent series \
         create {series}), or forget others (kent series ls, kent series forget SERIES)",
        grouped(max)
    )]
    TooManySeries {
        /// The requested series.
        series: kent_ids::Series,
        /// The maximum number of series that requests create.
        max: u64,
    },
    /// The store failed while a chunk was reserved.
    #[error("no chunk could be reserved: {0}")]
    Store(#[from] StoreFailure),
    /// Every attempt conflicted with other calls or replicas.
    #[error("no chunk could be reserved: {attempts} attempts conflicted with other calls or replicas; try again")]
    Contended {
        /// The number of attempts.
        attempts: u32,
    },
    /// The caller's deadline passed before a chunk was reserved.
    #[error("no chunk could be reserved before the deadline")]
    Late,
    /// The store did not answer the commit of a strict grant, or the deadline passed before the answer.
    #[error(
        "the numbers may or may not have been granted: repeat the request under the same request_id to find out; without one, treat \
         them as a gap"
    )]
    OutcomeUnknown,
    /// An invariant is broken.
    #[error("an invariant of the daemon is broken: {0}")]
    Broken(kent_ids::BlockError),
    /// An invariant was broken earlier, and the daemon is stopping.
    #[error("this daemon has stopped issuing because an invariant is broken; see its log")]
    Stopped,
}

/// The maximum number of identifiers that a counter with this pace issues in a burst.
pub(crate) fn burst(pace: Pace) -> u128 {
    u128::from(pace.get()) * u128::from(BURST.as_secs())
}

impl AllocateError {
    /// The error for a request that exceeds the pace of a counter.
    pub(crate) fn too_fast(subject: String, pace: Pace, requested: NonZeroU64, TooFast { wait }: TooFast) -> Self {
        Self::TooFast { subject, pace, burst: burst(pace), requested: requested.get(), wait }
    }
}

/// Why a series is not created or forgotten.
#[derive(Debug, Error)]
pub enum SeriesError {
    /// A field of the request is invalid.
    #[error(transparent)]
    BadField(#[from] Invalid),
    /// The series is built in.
    #[error("{series} is built in: it cannot be created or forgotten")]
    AlwaysThere {
        /// The series.
        series: kent_ids::Series,
    },
    /// The series is not listed.
    #[error("there is no series {series}; ListSeries (kent series ls) lists them")]
    NoSuchSeries {
        /// The series.
        series: kent_ids::Series,
    },
    /// Operators have created the maximum number of series.
    #[error(
        "operators have created {} series, which is the maximum: forget some (kent series ls, kent series forget SERIES)",
        grouped(max)
    )]
    TooMany {
        /// The maximum.
        max: u64,
    },
    /// The list of series could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// Other replicas changed the list in every attempt.
    #[error("{attempts} attempts to change the list of series conflicted with other replicas; try again")]
    Contended {
        /// The number of attempts.
        attempts: u32,
    },
}

/// Why an edit fails.
#[derive(Debug, Error)]
pub enum EditError {
    /// The caller may not do this.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// A field of the request is invalid.
    #[error(transparent)]
    BadField(#[from] Invalid),
    /// The space does not exist.
    #[error(transparent)]
    NoSuchSpace(#[from] NoSuchSpace),
    /// The region does not exist.
    #[error(transparent)]
    NoSuchRegion(#[from] NoSuchRegion),
    /// The space has regions, so it cannot be deleted.
    #[error("{0}")]
    SpaceInUse(Box<Occupied>),
    /// The default space cannot be deleted.
    #[error(
        "space \"{DEFAULT_SPACE}\" is in every store and cannot be deleted; its regions can (kent region delete NAME --space {DEFAULT_SPACE})"
    )]
    DefaultSpace,
    /// No edit is left to revert.
    #[error("{}", match (region, oldest.0) {
        (None, 0) => format!("nothing can be undone: the table of space {space:?} has not been edited"),
        (None, oldest) => {
            format!("nothing can be undone: the history of space {space:?} begins after revision {oldest} (kentd --history-keep)")
        }
        (Some(region), _) => {
            format!("nothing can be undone: the history of space {space:?} has no edit of region {region:?} (kent region history {})",
                arguments(region, space))
        }
    })]
    NothingToUndo {
        /// The space.
        space: String,
        /// The region whose last edit should be reverted; `None` for the last edit of the table.
        region: Option<String>,
        /// The oldest revision in the history.
        oldest: Revision,
    },
    /// The edit cannot be reverted.
    #[error("revision {revision} ({operation}) cannot be undone: {reason}{}", undone::hint(space, reason, deleted.as_deref()))]
    NotUndone {
        /// The space.
        space: String,
        /// The revision that the edit created.
        revision: Revision,
        /// The kind of edit.
        operation: String,
        /// The reason.
        reason: Box<NotUndone>,
        /// The region that the edit deleted.
        deleted: Option<Box<Deleted>>,
    },
    /// A restore may have lost a region with one of the prefixes that the reversal would join.
    #[error(
        "revision {revision} ({operation}) cannot be undone: the store was restored, and lost regions may have had the freed prefixes; \
         create regions there instead (kent space free)"
    )]
    MayBeLost {
        /// The revision that the edit created.
        revision: Revision,
        /// The kind of edit.
        operation: String,
    },
    /// A space of this name already exists.
    #[error("space {space:?} already exists (kent region ls --space {space}; kent space ls)")]
    SpaceTaken {
        /// Its name.
        space: String,
    },
    /// The maximum number of spaces already exists.
    #[error(
        "there are {} spaces, which is the maximum: create a region in one of them instead (kent region create NAME --suffix BITS \
         --space SPACE)",
        grouped(max)
    )]
    TooManySpaces {
        /// The maximum.
        max: usize,
    },
    /// A rule of the table forbids the edit.
    #[error("{refusal}{}", refusal_hint(space, refusal))]
    Refused {
        /// The space.
        space: String,
        /// The rule.
        refusal: Box<kent_regions::Refusal>,
        /// The nearest legal edit that the caller may make, and the revision of the table for which it is legal.
        nearest: Option<Box<(Edit, Revision)>>,
    },
    /// The delegated space would be nested too deeply.
    #[error("region {region:?} cannot be delegated: its space would be nested too deeply")]
    TooDeep {
        /// The region.
        region: String,
    },
    /// The request that the edit answers was not found, or is closed.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The table has changed since the author read it.
    #[error(
        "the table of space {space:?} is at revision {present}, not {expected}: see what has changed (kent region history --space \
         {space}) and repeat the edit"
    )]
    Stale {
        /// The space.
        space: String,
        /// The revision that the author expected.
        expected: u64,
        /// The current revision.
        present: Revision,
    },
    /// After a restore, the position of the region's counter is unknown.
    #[error(
        "this edit depends on the counter of region {region:?}, whose position has been unknown since the restore: set a number above all \
         numbers in use (kent region set {} --next N)",
        arguments(region, space)
    )]
    Unsure {
        /// The space.
        space: String,
        /// The region.
        region: String,
    },
    /// The requested next number is below the counter.
    #[error(
        "the next number of region {region:?} is already {}, which is above {}, and a counter never goes back: nothing changed (kent \
         region show {}){}",
        grouped(counter),
        grouped(next),
        arguments(region, space),
        match is_shared {
            true => format!(
                "; replicas may still issue lower numbers that they have reserved, and drop those with `kent region set {} --next {counter}`",
                arguments(region, space)
            ),
            false => String::new(),
        }
    )]
    NextTooLow {
        /// The space.
        space: String,
        /// The region.
        region: String,
        /// The requested next number: all numbers below it would count as issued.
        next: Count,
        /// The region's counter.
        counter: Count,
        /// Whether other replicas may have reserved numbers below the counter.
        is_shared: bool,
    },
    /// The edit was made, but its record in the history has been deleted.
    #[error(
        "the edit of this request_id was made in revision {revision}, whose history has been deleted (kentd --history-keep)"
    )]
    MadeAndForgotten {
        /// The revision that the edit created.
        revision: Revision,
    },
    /// The request ID is rejected.
    #[error(transparent)]
    Request(#[from] RequestRefusal),
    /// The store failed.
    #[error("the edit was not stored: {0}")]
    Store(#[from] StoreFailure),
    /// The stored table is not valid.
    #[error(transparent)]
    Damaged(LoadError),
    /// The edit was interrupted; whether it was committed is not known.
    #[error("the edit was interrupted; read the table to see whether it was made")]
    Abandoned,
    /// Other replicas changed the same records in every attempt.
    #[error("{attempts} attempts at this edit conflicted with other edits of the same regions; try again")]
    Contended {
        /// The number of attempts.
        attempts: u32,
    },
}

/// Returns the end of a refusal's message: a command that helps, or an empty string. If an edit helps, the refusal
/// already suggests the edit, and the string is empty.
pub(crate) fn refusal_hint(space: &str, refusal: &TableRefusal) -> String {
    match refusal {
        TableRefusal::NoSuchRegion { .. } => format!(" in space {space:?} (kent region ls --space {space})"),
        TableRefusal::NameTaken { name } => {
            format!(" in space {space:?} (kent region show {})", arguments(name, space))
        }
        TableRefusal::PrefixConflict { region, .. } => {
            format!(" (kent region show {}; kent space free {space})", arguments(region, space))
        }
        // If `most` is positive, the refusal suggests a smaller shrink. Without `most`, the region is new, and no
        // command can change it.
        TableRefusal::SuffixInUse { most: None | Some(1..), .. } | TableRefusal::SuffixTooNarrow { most: 1.., .. } => {
            String::new()
        }
        TableRefusal::CannotExpand { zone: 0, .. } => {
            format!(" (kent region create NAME --suffix BITS --space {space})")
        }
        TableRefusal::CannotExpand { region, usable: 0, .. } => {
            format!(" (kent region tree --filter {})", arguments(region, space))
        }
        TableRefusal::CannotExpand { .. } => String::new(),
        TableRefusal::ZoneTooSmall { region, .. }
        | TableRefusal::SuffixInUse { region, .. }
        | TableRefusal::SuffixTooNarrow { region, .. } => format!(" (kent region show {})", arguments(region, space)),
        TableRefusal::LevelMismatch { region, .. } => {
            format!(" (kent region tree --filter {})", arguments(region, space))
        }
        TableRefusal::Populated { .. } => {
            format!("; create another region for this (kent region create NAME --suffix BITS --space {space})")
        }
        TableRefusal::StrictScrambled => {
            format!("; create a sequential one (kent region create NAME --suffix BITS --space {space})")
        }
        TableRefusal::OthersNumbers { .. } => " (--next N)".to_owned(),
        TableRefusal::NoFreePrefix(_) => format!(" (kent space free {space})"),
        TableRefusal::Closed { heir, .. } => {
            format!(": edit that one instead (kent region show {})", arguments(heir, space))
        }
        TableRefusal::HasSubregions { region, .. } => {
            format!(" (kent region tree --filter {})", arguments(region, space))
        }
        TableRefusal::InUse { region, .. } => {
            format!("; `kent region seal {}` stops its grants", arguments(region, space))
        }
        TableRefusal::Delegated { region, .. } => {
            format!(
                "; its regions are in that space (kent region ls --space {space}/{region}), and while there are none, `kent space \
                 delete {space}/{region}` ends the delegation"
            )
        }
        TableRefusal::UseUnknown { region } => format!(
            "; `kent region set {0} --next N` declares that all numbers below N may be in use, and no others; if none is in use, `kent \
             region delete {0} --unused` frees the prefix for another region",
            arguments(region, space)
        ),
        TableRefusal::OthersUnknown { region, .. } => format!(
            "; once it has stopped, `kent region set {0} --no-step --next N` declares that all numbers below N are in use; if none is in use, \
             `kent region delete {0} --unused` frees the prefix for another region",
            arguments(region, space)
        ),
        TableRefusal::DelegatesExternal { region } => format!(
            "; if none is, delete the region and create it again with another order: kent region delete {} --unused, then kent region \
             create {region} --suffix BITS --space {space}",
            arguments(region, space)
        ),
        TableRefusal::DelegatedPolicy { region } => format!(" (kent region ls --space {space}/{region})"),
        TableRefusal::IsHeir { parent, .. } => format!(" (kent region tree --filter {})", arguments(parent, space)),
        _ => String::new(),
    }
}
