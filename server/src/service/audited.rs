//! Audit events of gRPC calls.

use kent_engine::{
    audit::{Event, Outcome},
    auth::Caller,
};
use kent_proto::model::{EditOptions, code_name};
use kent_transport::callers::Author;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// The audit event of an edit.
#[derive(Debug)]
pub(super) struct Audited {
    pub(super) author: Author,
    pub(super) action: String,
    pub(super) resource: String,
    pub(super) options: EditOptions,
}

impl Audited {
    /// Returns the caller with the request ID, so that the audit log shows the ID if a permission is missing.
    pub(super) fn caller(&self) -> Caller {
        self.author.caller.clone().with_request_id(&self.options.request_id)
    }

    pub(super) fn event(&self) -> Event<'_> {
        let EditOptions { request_id, reason, .. } = &self.options;
        Event::new(&self.action, &self.author.by, &*self.resource).request_id(request_id).note(reason)
    }
}

/// Returns the resource name of a region, in the form that permissions use. If `region` is empty, returns the resource
/// name of the space.
pub(super) fn resource(space: &str, region: &str) -> String {
    match region {
        "" => format!("space:{space}"),
        region => format!("region:{space}/{region}"),
    }
}

/// A request for a region, as the resource of an event.
pub(super) fn ask_resource(space: &str, number: u64) -> String {
    format!("request:{space}/{number}")
}

/// Writes the result of an action to the audit log.
pub(super) fn record<T>(event: Event<'_>, answer: &Result<T, Status>, done: Outcome) {
    let status = match answer {
        Ok(_) => return event.record(done),
        Err(status) => status,
    };
    let outcome = match status.code() {
        // The refusal is already in the log: `auth::denied` has written it.
        Code::PermissionDenied | Code::Unauthenticated => return,
        Code::Unknown => Outcome::Unknown,
        Code::Unavailable | Code::Internal | Code::DataLoss | Code::DeadlineExceeded | Code::Cancelled => {
            Outcome::Failed
        }
        _ => Outcome::Refused,
    };
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.as_str()).unwrap_or_default();
    event.refusal(code_name(status.code()), reason).record(outcome);
}
