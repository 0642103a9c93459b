//! The statuses of what operators do beside editing tables: series, floors, layouts, tokens, roles and budgets.

use std::time::Duration;

use kent_issue::BadFloor;
use kent_proto::model::Invalid;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{
    Outcome, RETRY_AFTER, from_denied, from_edit, from_invalid, from_store, not_found, passing, precondition, reason,
    with_reason,
};
use crate::{
    access::AccessError,
    error::{FloorError, LayoutError, SeriesError},
};

/// A longer wait is no delay before a retry: the caller has to change something.
const LONG_WAIT: Duration = Duration::from_secs(60);

/// The status of a failed attempt to create or forget a series.
pub fn from_series(error: &SeriesError) -> Status {
    let message = error.to_string();
    match error {
        SeriesError::BadField(invalid) => from_invalid(invalid),
        SeriesError::AlwaysThere { .. } => precondition("ALWAYS_THERE", "source", message),
        SeriesError::NoSuchSeries { series } => not_found("NO_SUCH_SERIES", "series", &series.to_string(), message),
        SeriesError::TooMany { .. } => with_reason(Code::ResourceExhausted, "TOO_MANY_SERIES", message),
        SeriesError::Store(failure) => from_store(failure, message, Outcome::NoEffect),
        SeriesError::Contended { .. } => passing(Code::Aborted, "CONTENDED", message, RETRY_AFTER),
    }
}

/// The status of a failed call that raises floors.
pub fn from_floor(error: &FloorError) -> Status {
    let message = error.to_string();
    match error {
        FloorError::BadField(invalid) => from_invalid(invalid),
        FloorError::Refused { source_name, refusal: BadFloor::NothingAbove { .. } } => {
            precondition("NOTHING_ABOVE_FLOOR", source_name, message)
        }
        FloorError::Refused { source_name, refusal: BadFloor::NotPassed { wait } } if *wait > LONG_WAIT => {
            precondition("FLOOR_NOT_PASSED", source_name, message)
        }
        FloorError::Refused { refusal: BadFloor::NotPassed { wait }, .. } => {
            passing(Code::FailedPrecondition, "FLOOR_NOT_PASSED", message, (*wait).max(RETRY_AFTER))
        }
        FloorError::Series(error) => from_series(error),
        FloorError::Edit(error) => from_edit(error),
        FloorError::NoClock => precondition("CLOCK_QUARANTINED", "clock", message),
        FloorError::InUse { series } => precondition("SERIES_IN_USE", &series.to_string(), message),
        FloorError::NoSuchLayout { name } => not_found("NO_SUCH_LAYOUT", "layout", name, message),
        FloorError::Store(failure) => from_store(failure, message, Outcome::Unknown),
        FloorError::Contended { .. } => passing(Code::Aborted, "CONTENDED", message, RETRY_AFTER),
        FloorError::Abandoned => with_reason(Code::Unknown, "OUTCOME_UNKNOWN", message),
    }
}

/// The status of a failed call about a layout.
pub fn from_layout(error: &LayoutError) -> Status {
    let message = error.to_string();
    match error {
        LayoutError::Denied(denied) => from_denied(denied),
        LayoutError::BadField(invalid) => from_invalid(invalid),
        LayoutError::Unsafe(_) => precondition("UNSAFE_LAYOUT", "fields", message),
        LayoutError::NoTime => precondition("NO_TIME", "fields", message),
        LayoutError::Exists { .. } => with_reason(Code::AlreadyExists, "NAME_TAKEN", message),
        LayoutError::NoSuchLayout { name } => not_found("NO_SUCH_LAYOUT", "layout", name, message),
        LayoutError::Used { name } => precondition("LAYOUT_USED", name, message),
        LayoutError::Future { .. } => from_invalid(&Invalid::new("after_revision", message)),
        LayoutError::Forgotten { .. } => {
            let facts = [("resume_after", "0")];
            Status::with_error_details(Code::OutOfRange, message, reason("REVISION_FORGOTTEN", facts))
        }
        LayoutError::TooMany { .. } => with_reason(Code::ResourceExhausted, "TOO_MANY_LAYOUTS", message),
        LayoutError::Store(failure) => from_store(failure, message, Outcome::Unknown),
        LayoutError::Contended { .. } => passing(Code::Aborted, "CONTENDED", message, RETRY_AFTER),
        LayoutError::Abandoned => with_reason(Code::Unknown, "OUTCOME_UNKNOWN", message),
    }
}

/// The status of a failed change to tokens, roles or budgets.
pub fn from_access(error: &AccessError) -> Status {
    let message = error.to_string();
    match error {
        AccessError::Denied(denied) => from_denied(denied),
        AccessError::BadField(invalid) => from_invalid(invalid),
        AccessError::NoSuchToken { id } => not_found("NO_SUCH_TOKEN", "token", &id.to_string(), message),
        AccessError::NoSuchRole { name } | AccessError::NoSuchHolder { name } | AccessError::NewRole { name } => {
            not_found("NO_SUCH_ROLE", "role", name, message)
        }
        AccessError::NoSuchBudget { resource, .. } => not_found("NO_SUCH_BUDGET", "budget", resource, message),
        AccessError::Ended { id, .. } => precondition("TOKEN_ENDED", &id.to_string(), message),
        AccessError::TooMany { .. } => with_reason(Code::ResourceExhausted, "TOO_MANY", message),
        AccessError::Store(failure) => from_store(failure, message, Outcome::Unknown),
        AccessError::Abandoned => with_reason(Code::Unknown, "OUTCOME_UNKNOWN", message),
    }
}
