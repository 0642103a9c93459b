//! Translates the daemon's errors into `google.rpc.Status`. This module is the only place of the daemon that
//! creates a `tonic::Status`.
//!
//! `UNAVAILABLE` and `RESOURCE_EXHAUSTED` mean that the call had no effect. If the outcome of a strict grant, an edit
//! or another change is not known, the code is `UNKNOWN`. (A chunk that may have been reserved can only leave a gap.)

mod operations;

use std::time::Duration;

use kent_ids::{Source, grouped};
use kent_issue::{Refusal as TimeRefusal, RequestRefusal};
use kent_proto::model::{CONCEALED, HEIR, Invalid, region_name, region_words, suggestion, suggestion_detail};
use kent_proto::v1::EditSuggestion;
use kent_regions::{NotComposed, Refusal};
use kent_store::{CommitError, ReadError};
use prost::Message;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt, pb};

pub use self::operations::{from_access, from_floor, from_layout, from_series};
use crate::{
    auth::{self, Denied},
    error::{AllocateError, AskError, EditError, Exhausted, NoSuchRegion, NoSuchSpace, RestoreWait, refusal_hint},
    host::computing::Busy,
    records::failure::StoreFailure,
    tables::{history::HistoryError, past::PastError},
};

/// The domain of every `ErrorInfo`.
const DOMAIN: &str = "kent";

/// The suggested delay before a retry, if nothing better is known.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// The status of a failed allocation.
pub fn from_allocate(error: &AllocateError) -> Status {
    let message = error.to_string();
    match error {
        AllocateError::Denied(denied) => from_denied(denied),
        AllocateError::BadField(invalid) => from_invalid(invalid),
        AllocateError::NoSuchSpace(missing) => no_such_space(missing),
        AllocateError::NoSuchRegion(missing) => no_such_region(missing),
        AllocateError::NoSuchLayout { name } => not_found("NO_SUCH_LAYOUT", "layout", name, message),
        AllocateError::Time { refusal, .. } => from_time(refusal, message),
        AllocateError::Closed { space, region, heir } => closed(space, region, heir.as_deref(), message),
        AllocateError::Delegated { region, .. } => precondition("DELEGATED", region, message),
        AllocateError::Sealed { region, by, .. } => {
            let by = by.as_ref().map_or_else(|| CONCEALED.to_owned(), |(by, around)| region_name(around, by));
            precondition_with("SEALED", region, message, [("sealed_by", &*by)])
        }
        AllocateError::External { region, .. } => precondition("EXTERNAL", region, message),
        AllocateError::Reused { .. } | AllocateError::OthersId => from_invalid(&Invalid::new("request_id", message)),
        AllocateError::Request(refusal) => from_request(refusal),
        AllocateError::Exhausted(full) => exhausted(full, message),
        AllocateError::OverBudget(over) => {
            let (holder, resource) = (over.holder.to_string(), over.resource());
            let facts = [("holder", &*holder), ("resource", &resource), ("left", &over.left.to_string())];
            let mut details = reason("BUDGET", facts);
            details.add_quota_failure_violation(&holder, &message);
            Status::with_error_details(Code::ResourceExhausted, message, details)
        }
        AllocateError::SeriesExhausted { left, .. } => {
            let details = reason("CAPACITY_EXHAUSTED", [("left", &left.to_string())]);
            Status::with_error_details(Code::ResourceExhausted, message, details)
        }
        AllocateError::TooManySeries { .. } => with_reason(Code::ResourceExhausted, "TOO_MANY_SERIES", message),
        AllocateError::Store(failure) => from_store(failure, message, Outcome::NoEffect),
        AllocateError::TooFast { wait: Some(wait), .. } => passing(Code::ResourceExhausted, "TOO_FAST", message, *wait),
        AllocateError::TooFast { wait: None, .. } => from_invalid(&Invalid::new("count", message)),
        AllocateError::Unsure { subject, .. } => precondition("FLOOR_UNKNOWN", subject, message),
        AllocateError::Restored(RestoreWait { until, now }) => {
            let left = now.map_or(0, |now| until.get().saturating_sub(now.get()));
            let wait = Duration::from_nanos(u64::try_from(left).unwrap_or(0)).max(RETRY_AFTER);
            passing(Code::Unavailable, "RESTORED", message, wait)
        }
        AllocateError::OutOfTouch => passing(Code::Unavailable, "OUT_OF_TOUCH", message, RETRY_AFTER),
        AllocateError::Contended { .. } => passing(Code::Unavailable, "CONTENDED", message, RETRY_AFTER),
        AllocateError::Late => passing(Code::Unavailable, "STORE_SLOW", message, RETRY_AFTER),
        AllocateError::OutcomeUnknown => with_reason(Code::Unknown, "OUTCOME_UNKNOWN", message),
        AllocateError::Stopped => with_reason(Code::Unavailable, "STOPPED", message),
        AllocateError::Broken(_) => with_reason(Code::Internal, "BROKEN_INVARIANT", message),
    }
}

/// The status of a failed edit.
pub fn from_edit(error: &EditError) -> Status {
    let message = error.to_string();
    match error {
        EditError::Denied(denied) => from_denied(denied),
        EditError::BadField(invalid) => from_invalid(invalid),
        EditError::NoSuchSpace(missing) => no_such_space(missing),
        EditError::NoSuchRegion(missing) => no_such_region(missing),
        EditError::SpaceInUse(occupied) => precondition("SPACE_IN_USE", &occupied.space, message),
        EditError::DefaultSpace => precondition("DEFAULT_SPACE", kent_ids::DEFAULT_SPACE, message),
        EditError::NothingToUndo { space, .. } => precondition("NOTHING_TO_UNDO", space, message),
        EditError::NotUndone { space, .. } => precondition("NOT_UNDONE", space, message),
        EditError::MayBeLost { .. } => precondition("NOT_UNDONE", "history", message),
        EditError::TooDeep { region } => precondition("TOO_DEEP", region, message),
        EditError::TooManySpaces { .. } => with_reason(Code::ResourceExhausted, "TOO_MANY_SPACES", message),
        EditError::SpaceTaken { .. } => with_reason(Code::AlreadyExists, "NAME_TAKEN", message),
        EditError::Refused { space, refusal, nearest } => {
            let status = from_refusal(space, refusal);
            let near = nearest.as_ref().and_then(|near| suggestion(space, &rule(refusal), near.1, &near.0));
            near.map_or_else(|| status.clone(), |near| with_suggestion(&status, &near))
        }
        EditError::Ask(error) => from_ask(error),
        EditError::Stale { present, .. } => {
            let details = reason("STALE_REVISION", [("present_revision", &present.to_string())]);
            Status::with_error_details(Code::Aborted, message, details)
        }
        EditError::Unsure { region, .. } => precondition("FLOOR_UNKNOWN", region, message),
        EditError::NextTooLow { region, counter, is_shared, .. } => {
            let facts = [("next", &*counter.to_string()), ("shared", if *is_shared { "true" } else { "false" })];
            precondition_with("NEXT_TOO_LOW", region, message, facts)
        }
        EditError::MadeAndForgotten { revision } => {
            let details = reason("MADE_AND_FORGOTTEN", [("revision", &revision.to_string())]);
            Status::with_error_details(Code::AlreadyExists, message, details)
        }
        EditError::Request(refusal) => from_request(refusal),
        EditError::Store(failure) => from_store(failure, message, Outcome::Unknown),
        EditError::Damaged(_) => with_reason(Code::DataLoss, "DAMAGED", message),
        EditError::Abandoned => with_reason(Code::Unknown, "OUTCOME_UNKNOWN", message),
        EditError::Contended { .. } => passing(Code::Aborted, "CONTENDED", message, RETRY_AFTER),
    }
}

/// The status of an exact list of regions that expanded during every attempt to list them.
pub fn expanding() -> Status {
    passing(
        Code::Aborted,
        "CONTENDED",
        "the regions expanded while their counters were read; try again".to_owned(),
        RETRY_AFTER,
    )
}

/// The status of a page token that the method did not return.
pub fn bad_page_token() -> Status {
    from_invalid(&Invalid::new("page_token", "is not a token that this method returned"))
}

/// The status of a request for a region that could not be stored, found or closed.
pub fn from_ask(error: &AskError) -> Status {
    let message = error.to_string();
    match error {
        AskError::Denied(denied) => from_denied(denied),
        AskError::BadField(invalid) => from_invalid(invalid),
        AskError::NoSuchSpace(missing) => no_such_space(missing),
        AskError::NoSuchAsk { number, .. } => not_found("NO_SUCH_REQUEST", "request", &number.to_string(), message),
        AskError::Taken { .. } => with_reason(Code::AlreadyExists, "NAME_TAKEN", message),
        AskError::Closed { number, .. } => precondition("REQUEST_CLOSED", &number.to_string(), message),
        AskError::NotYours { number, .. } => precondition("NOT_YOURS", &number.to_string(), message),
        AskError::TooManyOfCaller { .. } | AskError::TooMany { .. } => {
            with_reason(Code::ResourceExhausted, "TOO_MANY_REQUESTS", message)
        }
        AskError::Store(failure) => from_store(failure, message, Outcome::Unknown),
        AskError::Contended { .. } => passing(Code::Aborted, "CONTENDED", message, RETRY_AFTER),
        AskError::Abandoned => with_reason(Code::Unknown, "OUTCOME_UNKNOWN", message),
    }
}

/// The status of a call that its caller may not make.
pub fn from_denied(denied: &Denied) -> Status {
    auth::denied(denied);
    let (message, (code, name)) = (denied.to_string(), denied.code());
    match denied {
        Denied::Missing(to, permission) => {
            let facts = [("principal", &*to.principal), ("permission", permission)];
            Status::with_error_details(code, message, reason(name, facts))
        }
        Denied::Limited(to, limited) => {
            let value = limited.limit.to_string();
            let facts = [("principal", &*to.principal), ("limit", limited.kind.name()), ("value", &value)];
            let mut details = reason(name, facts);
            details.set_retry_info(Some(limited.wait.unwrap_or(RETRY_AFTER)));
            Status::with_error_details(code, message, details)
        }
        Denied::OutOfTouch(_) => passing(code, name, message, RETRY_AFTER),
        Denied::NoCredential(_) | Denied::NamelessCertificate(_) | Denied::BadCredential(_) | Denied::Refused(..) => {
            with_reason(code, name, message)
        }
    }
}

/// The status of an invalid field.
pub fn from_invalid(invalid: &Invalid) -> Status {
    let mut details = reason(invalid.reason, []);
    details.add_bad_request_violation(invalid.field, &invalid.problem);
    Status::with_error_details(Code::InvalidArgument, invalid.to_string(), details)
}

/// The status of a failed read from the store.
pub fn from_read(failure: &StoreFailure) -> Status {
    from_store(failure, failure.to_string(), Outcome::NoEffect)
}

/// The status for a watcher that is too slow. The watcher resumes after revision `seen`, or with a new snapshot if
/// `seen` is 0.
pub fn watcher_too_slow(seen: u64) -> Status {
    let message = match seen {
        0 => "the watcher is too slow: start again with a snapshot".to_owned(),
        seen => format!("the watcher is too slow: resume with after_revision {seen}"),
    };
    let details = reason("WATCHER_TOO_SLOW", [("resume_after", &seen.to_string())]);
    Status::with_error_details(Code::Aborted, message, details)
}

/// The status of a string that is not a valid identifier.
pub fn from_codec(error: &kent_codec::VerbError) -> Status {
    let name = error.code.to_ascii_uppercase().replace('-', "_");
    with_reason(Code::InvalidArgument, &name, error.message.clone())
}

/// The status for a space that does not exist.
pub fn no_such_space(missing: &NoSuchSpace) -> Status {
    not_found("NO_SUCH_SPACE", "space", &missing.space, missing.to_string())
}

/// The status for a region that does not exist.
pub fn no_such_region(missing: &NoSuchRegion) -> Status {
    not_found("NO_SUCH_REGION", "region", &missing.region, missing.to_string())
}

/// The status for a stream beyond the limit of concurrent streams.
pub fn too_many_streams(max: usize) -> Status {
    let message = format!("{} AllocateStream calls are already open, which is the maximum", grouped(max));
    passing(Code::ResourceExhausted, "TOO_MANY_STREAMS", message, RETRY_AFTER)
}

/// The status for a call beyond the limit of concurrent calls of its kind.
pub fn too_many(kind: &str, max: usize) -> Status {
    let message = format!("{} {kind} calls are already in progress, which is the maximum", grouped(max));
    passing(Code::ResourceExhausted, "TOO_MANY_CALLS", message, RETRY_AFTER)
}

/// The status for a call beyond the limit of CPU-bound calls.
pub fn busy(busy: &Busy) -> Status {
    passing(Code::ResourceExhausted, "TOO_MANY_CALLS", busy.to_string(), RETRY_AFTER)
}

/// The status for an earlier revision of a table that cannot be shown.
pub fn from_past(none: &PastError) -> Status {
    match none {
        PastError::History(none) => from_history(none),
        PastError::Busy(too_many) => busy(too_many),
    }
}

/// The status for a history that cannot be shown.
pub fn from_history(none: &HistoryError) -> Status {
    match none {
        HistoryError::Store(failure) => from_read(failure),
        HistoryError::Forgotten(forgotten) => {
            // A watcher that resumes after 0 starts again with a snapshot.
            let facts = [("oldest_revision", &*forgotten.oldest.to_string()), ("resume_after", "0")];
            Status::with_error_details(Code::OutOfRange, forgotten.to_string(), reason("REVISION_FORGOTTEN", facts))
        }
    }
}

/// The status for a caller that does not read its answer.
pub fn reader_too_slow() -> Status {
    with_reason(Code::Aborted, "READER_TOO_SLOW", "the caller took too long to read the answer".to_owned())
}

/// The status for a caller that does not finish its request.
pub fn request_too_slow(limit: Duration) -> Status {
    with_reason(Code::Aborted, "REQUEST_TOO_SLOW", format!("the request did not arrive within {limit:?}"))
}

/// The status for a caller whose request ends before it is complete, because the caller gives up or the connection ends.
/// With the code `CANCELLED`, tonic would take the request as complete.
pub fn request_cut_off() -> Status {
    with_reason(Code::Aborted, "REQUEST_CUT_OFF", "the request ended before it was complete".to_owned())
}

/// The status for a call that is not answered before its deadline.
pub fn deadline_passed() -> Status {
    let message = "the caller's deadline passed before the answer was known".to_owned();
    with_reason(Code::DeadlineExceeded, "DEADLINE_PASSED", message)
}

/// The status for a request that is too large.
pub fn request_too_large(max: usize) -> Status {
    let message = format!("the request has more than {} bytes, the maximum (--request-bytes)", grouped(max));
    with_reason(Code::OutOfRange, "REQUEST_TOO_LARGE", message)
}

/// The status for a body that is not a valid JSON form of the method's request.
pub fn bad_json(problem: &str) -> Status {
    with_reason(Code::InvalidArgument, "BAD_JSON", format!("the body is not a valid request: {problem}"))
}

/// The status for a header that is not valid.
pub fn bad_header(name: &'static str, problem: &str) -> Status {
    from_invalid(&Invalid::new(name, problem))
}

/// The status for a compressed request.
pub fn compressed() -> Status {
    let message = "the request is compressed, which this daemon does not support; send it without content-encoding";
    with_reason(Code::Unimplemented, "COMPRESSED", message.to_owned())
}

/// The status for a call to the reflection service if the service cannot be built.
pub fn no_reflection() -> Status {
    with_reason(Code::Unimplemented, "NO_REFLECTION", "the descriptors of the services cannot be read".to_owned())
}

/// The status for a path at which nothing is served.
pub fn no_such_path(path: &str) -> Status {
    let shown: String = path.chars().take(PATH_CHARS_SHOWN).collect();
    let message = format!("there is nothing at {shown}; / lists what is served, and docs/api.md lists all methods");
    with_reason(Code::NotFound, "NO_SUCH_PATH", message)
}

/// The maximum number of characters that a message quotes from a path.
const PATH_CHARS_SHOWN: usize = 100;

/// The status for a gRPC client that has connected to the HTTP port.
pub fn grpc_on_http_port() -> Status {
    let message =
        "this is the HTTP port of kentd: use its gRPC port, by default 7600, as in `kent status --endpoint HOST:7600`";
    with_reason(Code::Unimplemented, "HTTP_PORT", message.to_owned())
}

/// The status for a streaming method that is called with JSON.
pub fn stream_over_json(path: &str) -> Status {
    let message = format!("{path} is a stream; call it with gRPC, or from a browser with gRPC-Web");
    with_reason(Code::Unimplemented, "STREAM", message)
}

/// The status for an answer of this daemon that cannot be decoded.
pub fn broken_answer() -> Status {
    with_reason(Code::Internal, "BROKEN_ANSWER", "the answer of the daemon could not be decoded".to_owned())
}

/// Converts a message inside an answer to a status.
pub fn from_wire(wire: pb::Status) -> Status {
    let details = wire.encode_to_vec().into();
    Status::with_details(wire.code.into(), wire.message, details)
}

/// Converts a status to a message inside a stream.
pub fn to_wire(status: &Status) -> pb::Status {
    // OK because the daemon encoded the details itself; details that cannot be decoded would be left out.
    let details = pb::Status::decode(status.details()).unwrap_or_default().details;
    pb::Status { code: status.code().into(), message: status.message().to_owned(), details }
}

fn from_time(refusal: &TimeRefusal, message: String) -> Status {
    match refusal {
        TimeRefusal::NoSlot => passing(Code::Unavailable, "NO_SLOT", message, RETRY_AFTER),
        TimeRefusal::ClockStepped { .. } => passing(Code::Unavailable, "CLOCK_STEPPED", message, RETRY_AFTER),
        TimeRefusal::WindowSpent { .. } => passing(Code::Unavailable, "WINDOW_SPENT", message, RETRY_AFTER),
        TimeRefusal::Ahead { wait } => passing(Code::ResourceExhausted, "CLOCK_LIMIT", message, *wait),
        TimeRefusal::TooMany { .. } => from_invalid(&Invalid::new("count", message)),
        TimeRefusal::Quarantined { .. } => precondition(
            "CLOCK_QUARANTINED",
            "clock",
            format!("{message}; correct it or, if it is right, run `kent clock accept`"),
        ),
        TimeRefusal::OutsideFormat => precondition("OUTSIDE_FORMAT", "clock", message),
        TimeRefusal::SlotBeyondLayout { .. } => precondition("SLOT_BEYOND_LAYOUT", "slot", message),
    }
}

fn from_request(refusal: &RequestRefusal) -> Status {
    let message = refusal.to_string();
    match refusal {
        RequestRefusal::TooOld { .. } => precondition("REQUEST_TOO_OLD", "request_id", message),
        RequestRefusal::TooNew { .. } => precondition("REQUEST_TOO_NEW", "request_id", message),
        RequestRefusal::TooMany { .. } => with_reason(Code::ResourceExhausted, "TOO_MANY_REQUEST_IDS", message),
    }
}

fn exhausted(full: &Exhausted, message: String) -> Status {
    // An expansion changes nothing for a region at its cap.
    let cure = match full.is_capped {
        true => ("cap", full.capacity.to_string()),
        false => ("expandable_bits", full.expandable_bits.to_string()),
    };
    let facts = [
        ("space", full.space.as_str()),
        ("region", &full.region),
        ("capacity", &full.capacity.to_string()),
        ("reserved", &full.reserved.to_string()),
        (cure.0, &cure.1),
    ];
    let mut details = reason("CAPACITY_EXHAUSTED", facts);
    details.add_quota_failure_violation(&full.region, &message);
    Status::with_error_details(Code::ResourceExhausted, message, details)
}

/// What a failed call to the store means for the caller.
enum Outcome {
    /// The call had no visible effect.
    NoEffect,
    /// The edit may have been committed.
    Unknown,
}

fn from_store(failure: &StoreFailure, message: String, outcome: Outcome) -> Status {
    match failure {
        StoreFailure::Commit(CommitError::Unknown(_)) if matches!(outcome, Outcome::Unknown) => {
            let message =
                format!("{message}; the edit may or may not have been made: read the table before you repeat it");
            with_reason(Code::Unknown, "OUTCOME_UNKNOWN", message)
        }
        StoreFailure::Commit(CommitError::Unknown(_) | CommitError::Conflict { .. } | CommitError::Unavailable(_))
        | StoreFailure::Read(ReadError::Unavailable(_)) => {
            passing(Code::Unavailable, "STORE_UNAVAILABLE", message, RETRY_AFTER)
        }
        StoreFailure::Commit(CommitError::Invalid(_)) => with_reason(Code::OutOfRange, "EDIT_TOO_LARGE", message),
        StoreFailure::Commit(CommitError::Corrupt(_) | CommitError::NewerSchema(_))
        | StoreFailure::Read(ReadError::Corrupt(_) | ReadError::NewerSchema(_))
        | StoreFailure::Malformed(_) => with_reason(Code::DataLoss, "DAMAGED", message),
        StoreFailure::Replaced { .. } => with_reason(Code::Internal, "BROKEN_INVARIANT", message),
    }
}

/// The status of a value that is not a suffix or an identifier of a region.
pub fn from_composing(field: &'static str, space: &str, refused: &NotComposed) -> Status {
    let (field, reason) = match refused {
        NotComposed::Closed { .. } => ("name", "CLOSED"),
        NotComposed::Suffix { .. } => (field, "SUFFIX_RANGE"),
        NotComposed::Prefix { .. } | NotComposed::Zone { .. } => (field, "BAD_ID"),
    };
    let hint = match refused {
        NotComposed::Closed { region } => format!(" (kent region tree --filter {})", region_words(region, space)),
        NotComposed::Suffix { region, .. } | NotComposed::Prefix { region, .. } | NotComposed::Zone { region, .. } => {
            format!(" (kent region show {})", region_words(region, space))
        }
    };
    from_invalid(&Invalid::new(field, format!("{refused}{hint}")).because(reason))
}

/// The status for an edit that a rule of the table forbids. The code gives the kind of rule, and the reason gives the
/// rule itself.
fn from_refusal(space: &str, refusal: &Refusal) -> Status {
    let message = format!("{refusal}{}", refusal_hint(space, refusal));
    let field = match refusal {
        Refusal::BadName { .. } => Some("region_id"),
        Refusal::NoBits | Refusal::SuffixTooNarrow { .. } => Some("by_bits"),
        Refusal::BadPrefix(kent_regions::BadPrefix::Character { .. } | kent_regions::BadPrefix::TooLong { .. }) => {
            Some("prefix")
        }
        Refusal::BadPrefix(_) | Refusal::SuffixMissing { .. } | Refusal::NameTwice { .. } => Some("new_regions"),
        Refusal::SuffixBits { .. } => Some("suffix_bits"),
        Refusal::SuffixValue { .. } => Some("next"),
        Refusal::TextTooLong { .. } => Some("description"),
        Refusal::OwnerControl { .. } => Some("owner"),
        Refusal::LabelName { .. } | Refusal::LabelValue { .. } => Some("set_labels"),
        Refusal::BadPolicy { .. }
        | Refusal::StrictAndBounds { .. }
        | Refusal::StrictScrambled
        | Refusal::OthersNumbers { .. }
        | Refusal::ExpandsNever { .. }
        | Refusal::ExpandsBeyond { .. }
        | Refusal::CapOfZero { .. } => Some("policy"),
        Refusal::NoChange => Some("name"),
        _ => None,
    };
    let reason_name = rule(refusal);
    let mut details = reason(&reason_name, [("space", space)]);
    if let Refusal::NoFreePrefix(help) = refusal {
        // Facts for programs: the free blocks, the regions that could be split to free a prefix, each with its zone,
        // and the widest suffix that fits now.
        let blocks: Vec<String> = help.free.iter().map(ToString::to_string).collect();
        let donors: Vec<String> = help.donors.iter().map(|donor| format!("{}:{}", donor.region, donor.zone)).collect();
        let widest = help.widest_suffix().map(|bits| bits.to_string()).unwrap_or_default();
        let (blocks, donors) = (blocks.join(","), donors.join(","));
        let facts = [("space", space), ("free_blocks", &blocks), ("donors", &donors), ("widest_suffix", &widest)];
        details = reason(&reason_name, facts);
    }
    if let Refusal::Closed { heir, .. } = refusal {
        let heir = Source::Region { name: heir.clone(), space: space.to_owned() }.to_string();
        details = reason(&reason_name, [("space", space), (HEIR, &heir)]);
    }
    if let Some(field) = field {
        details.add_bad_request_violation(field, &message);
        return Status::with_error_details(Code::InvalidArgument, format!("{field}: {message}"), details);
    }
    let code = match refusal {
        Refusal::NoSuchRegion { .. } => Code::NotFound,
        Refusal::NameTaken { .. } => Code::AlreadyExists,
        Refusal::StaleRevision { .. } => Code::Aborted,
        _ => Code::FailedPrecondition,
    };
    if code == Code::FailedPrecondition {
        details.add_precondition_failure_violation(&reason_name, space, &message);
    }
    Status::with_error_details(code, message, details)
}

/// The name of a rule of the table, as the reason in a status.
fn rule(refusal: &Refusal) -> String {
    refusal.code().to_ascii_uppercase().replace('-', "_")
}

/// Adds a suggested edit to the details of a status.
fn with_suggestion(status: &Status, suggestion: &EditSuggestion) -> Status {
    let mut wire = to_wire(status);
    wire.details.push(suggestion_detail(suggestion));
    from_wire(wire)
}

/// Creates error details from a reason and facts for programs.
fn reason<const N: usize>(name: &str, facts: [(&str, &str); N]) -> ErrorDetails {
    let facts = facts.map(|(key, value)| (key.to_owned(), value.to_owned()));
    ErrorDetails::with_error_info(name, DOMAIN, facts)
}

fn with_reason(code: Code, name: &str, message: String) -> Status {
    Status::with_error_details(code, message, reason(name, []))
}

fn not_found(name: &str, kind: &str, subject: &str, message: String) -> Status {
    let mut details = reason(name, []);
    details.set_resource_info(kind, subject, "", &message);
    Status::with_error_details(Code::NotFound, message, details)
}

/// The status of a closed region, with the source that continues its numbers.
fn closed(space: &str, region: &str, heir: Option<&str>, message: String) -> Status {
    match heir {
        Some(heir) => {
            let heir = Source::Region { name: heir.to_owned(), space: space.to_owned() }.to_string();
            precondition_with("CLOSED", region, message, [(HEIR, &heir)])
        }
        None => precondition("CLOSED", region, message),
    }
}

fn precondition(name: &str, subject: &str, message: String) -> Status {
    precondition_with(name, subject, message, [])
}

fn precondition_with<const N: usize>(name: &str, subject: &str, message: String, facts: [(&str, &str); N]) -> Status {
    let mut details = reason(name, facts);
    details.add_precondition_failure_violation(name, subject, &message);
    Status::with_error_details(Code::FailedPrecondition, message, details)
}

/// The status for a temporary condition, with the time after which to retry.
fn passing(code: Code, name: &str, message: String, after: Duration) -> Status {
    let mut details = reason(name, []);
    details.set_retry_info(Some(after));
    Status::with_error_details(code, message, details)
}
