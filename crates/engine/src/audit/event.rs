//! The events of the audit log.

use tracing::info;

use super::TARGET;

/// The author of an event: a caller or the daemon itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct By {
    /// The identity that the caller proved with a token, a certificate or the Unix socket. Empty if the daemon does not
    /// require credentials.
    pub principal: String,
    /// The unverified name that the caller claims.
    pub on_behalf_of: String,
    /// The caller's address.
    pub peer: String,
    /// The name in the caller's certificate.
    pub certificate: String,
}

impl By {
    /// The daemon itself, as the author of changes that no caller requested.
    pub fn daemon() -> Self {
        Self { principal: "kentd".to_owned(), ..Self::default() }
    }
}

/// How an event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The change was made.
    Done,
    /// Nothing changed, because the requested state already existed.
    Unchanged,
    /// The change was already made under the same request ID.
    Again,
    /// The action has begun; another event says how the action ended.
    Begun,
    /// A rule forbids the action, or the action failed without effect.
    Refused,
    /// The caller lacks the permission, or is not authenticated.
    Denied,
    /// The action was not finished.
    Failed,
    /// The store's answer was lost, so the change may or may not have been made.
    Unknown,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Unchanged => "unchanged",
            Self::Again => "again",
            Self::Begun => "begun",
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// An event of the audit log. Empty strings are left out.
#[derive(Clone, Debug)]
#[must_use = "an event is written by `record`"]
pub struct Event<'a> {
    action: &'a str,
    method: &'a str,
    by: &'a By,
    resource: String,
    request_id: &'a str,
    revision: Option<u64>,
    code: &'a str,
    reason: &'a str,
    note: &'a str,
}

impl<'a> Event<'a> {
    /// Creates an event for an action of a caller, such as `region.create`, on a resource, such as
    /// `region:default/orders`.
    pub fn new(action: &'a str, by: &'a By, resource: impl Into<String>) -> Self {
        let (method, request_id, code, reason, note) = ("", "", "", "", "");
        Self { action, method, by, resource: resource.into(), request_id, revision: None, code, reason, note }
    }

    /// The method of the call, such as `kent.v1.Regions/CreateRegion`.
    pub(crate) fn method(self, method: &'a str) -> Self {
        Self { method, ..self }
    }

    /// The ID that the caller gave the request.
    pub fn request_id(self, request_id: &'a str) -> Self {
        Self { request_id, ..self }
    }

    /// The revision of the table that the action created.
    pub fn revision(self, revision: Option<u64>) -> Self {
        Self { revision, ..self }
    }

    /// The gRPC code and the reason for a refusal.
    pub fn refusal(self, code: &'a str, reason: &'a str) -> Self {
        Self { code, reason, ..self }
    }

    /// Further information, such as the reason that an operator gave.
    pub fn note(self, note: &'a str) -> Self {
        Self { note, ..self }
    }

    /// Writes the event to the audit log.
    pub fn record(self, outcome: Outcome) {
        let Self { action, method, by, resource, request_id, revision, code, reason, note } = self;
        let By { principal, on_behalf_of, peer, certificate } = by;
        let (principal, on_behalf_of, peer, certificate) = (&**principal, &**on_behalf_of, &**peer, &**certificate);
        let (outcome, resource) = (outcome.name(), &*resource);
        info!(
            target: TARGET,
            action,
            method,
            outcome,
            principal,
            on_behalf_of,
            peer,
            certificate,
            resource,
            request_id,
            revision,
            code,
            reason,
            note
        );
    }
}
