//! Conversions between messages of `kent.v1` and domain types.

mod ask;
mod block;
mod classified;
mod command;
mod copy;
mod free;
mod import;
mod layouts;
mod limits;
mod map;
mod names;
mod policy;
mod range;
mod regions;
mod stride;
mod suggestion;
mod text;

use thiserror::Error;
use tonic::Code;

pub use ask::{AskInput, AskRights, CloseInput, region_request};
pub use block::{AllocateInput, Encoding};
pub use classified::{Classified, short_name};
pub use command::{region_source, region_words, space_option};
pub use copy::{BadCopy, apply_change, table_of};
pub use free::{FreeInput, free_blocks};
pub use import::{IMPORT_BYTES_MAX, IMPORT_REGIONS_MAX, ImportInput};
pub use layouts::{LayoutInput, layout, layout_name};
pub use limits::{LIMIT, parse_limits};
pub use map::{FullestInput, MapInput, map};
pub use names::{CONCEALED, HEIR, RegionName, RequestName, SpaceName, region_name, request_name, space_name};
pub use range::range;
pub use regions::{
    ClassifyInput, ComposeInput, EditInput, EditOptions, Page, SpaceInput, UndoInput, Usage, classification,
    edit_response, history_entry, inner_space, page_token, parse_page, region, space,
};
pub use stride::stride_from;
pub use suggestion::{suggestion, suggestion_detail, suggestion_of};
pub use text::{for_each_spelled, for_each_text, layout_texts, text_of, texts};

pub use crate::packed::fence;

use crate::v1;

/// An invalid value in a field of a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// The field's name in the protocol.
    pub field: &'static str,
    /// What is wrong with the value, and what is allowed.
    pub problem: String,
    /// The machine-readable reason of the error, in upper case.
    pub reason: &'static str,
}

impl Invalid {
    /// Returns an error for a field, with reason `BAD_INPUT`.
    pub fn new(field: &'static str, problem: impl ToString) -> Self {
        Self { field, problem: problem.to_string(), reason: "BAD_INPUT" }
    }

    /// Returns the same error with another reason.
    #[must_use]
    pub fn because(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }
}

/// Returns the name of a gRPC code, as the specification spells it.
pub const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

impl From<u128> for v1::Uint128 {
    fn from(value: u128) -> Self {
        // OK because the shifted value fits 64 bits, and `low` drops the upper half on purpose.
        Self { high: (value >> 64) as u64, low: value as u64 }
    }
}

impl From<v1::Uint128> for u128 {
    fn from(value: v1::Uint128) -> Self {
        Self::from(value.high) << 64 | Self::from(value.low)
    }
}
