//! Refusals of callers.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use kent_access::Refused;
use kent_proto::model::{LIMIT, code_name};
use thiserror::Error;
use tonic::Code;

use super::usage::Limited;
use crate::{
    audit::{By, Event, Outcome},
    host::address::Address,
};

/// Why a caller is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Denied {
    /// The caller presented no credential.
    #[error(
        "this daemon answers only callers that it knows: send a token (kent --token-file FILE, KENT_TOKEN_FILE, or the header \
         authorization: Bearer kent_...); the daemon's own user creates the first one on a Unix socket of --listen or, without one, on \
         kent.sock in the data directory (kent token create NAME --allow 'admin:*' --endpoint unix:DATA/kent.sock)"
    )]
    NoCredential(DeniedTo),
    /// The caller presented a certificate with neither a URI nor a DNS name.
    #[error(
        "your certificate has neither a URI nor a DNS name, so it does not identify you (the common name is ignored): use a certificate \
         with such a name, and add the name to a role (kent role set NAME --certificate NAME_IN_CERTIFICATE), or send a token (kent \
         --token-file FILE)"
    )]
    NamelessCertificate(DeniedTo),
    /// The token is unknown or malformed, or its secret is wrong.
    #[error(
        "the token is not valid: this daemon has no such token, for example because another daemon made it, or its secret is wrong. The \
         header must be authorization: Bearer kent_ID_SECRET, with the whole token"
    )]
    BadCredential(DeniedTo),
    /// The secret of the token is correct, but the token is no longer valid.
    #[error(
        "{who} is {why}: ask an operator for another token (kent token create NAME --allow ACTION:RESOURCE --token-file FILE)",
        who = .0.principal, why = .1
    )]
    Refused(DeniedTo, Refused),
    /// The caller lacks a permission.
    #[error(
        "{who} lacks the permission {what} (`kent whoami` shows its permissions; an operator, whose token is in FILE, can create a token \
         with this permission: kent token create NAME --allow {quoted} --token-file FILE)",
        who = .0.principal, what = .1, quoted = quoted(.1)
    )]
    Missing(DeniedTo, String),
    /// The caller has reached one of its limits.
    #[error("{who} {what} (`kent whoami` shows the limits)", who = .0.principal, what = .1)]
    Limited(DeniedTo, Limited),
    /// The store was unreachable for longer than the window, so tokens may have been revoked.
    #[error(
        "this replica has not reached the store for longer than its window and may have missed that a token was revoked: it serves \
         only the daemon's own user until the store answers"
    )]
    OutOfTouch(DeniedTo),
}

/// Quotes a permission for use in a command, because shells expand an unquoted `*` to file names.
fn quoted(permission: &str) -> String {
    if permission.contains('*') { format!("'{permission}'") } else { permission.to_owned() }
}

/// The caller that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedTo {
    /// The name that the caller has proved; empty if it has proved no name.
    pub(crate) principal: Box<str>,
    pub(crate) address: Option<Address>,
    /// The method and the request ID, if the daemon knows them.
    asked: Option<Arc<Asked>>,
}

/// The facts about a call that the audit log needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The method, such as `kent.v1.Regions/CreateRegion`; empty if the method does not exist.
    pub method: &'static str,
    /// The unverified name that the caller gives itself.
    pub on_behalf_of: String,
    /// The request ID; empty until the message of the request is read.
    pub request_id: String,
}

impl Asked {
    /// Adds the request ID.
    pub(super) fn with_request_id(&self, request_id: &str) -> Arc<Self> {
        Arc::new(Self { request_id: request_id.to_owned(), ..self.clone() })
    }
}

impl DeniedTo {
    pub(super) fn new(principal: String, address: Option<Address>) -> Self {
        Self { principal: principal.into(), address, asked: None }
    }

    pub(super) fn unknown(address: Option<Address>) -> Self {
        Self::new(String::new(), address)
    }
}

impl Denied {
    /// The caller that is refused.
    pub(crate) fn to(&self) -> &DeniedTo {
        match self {
            Self::NoCredential(to)
            | Self::NamelessCertificate(to)
            | Self::BadCredential(to)
            | Self::Refused(to, _)
            | Self::Missing(to, _)
            | Self::Limited(to, _)
            | Self::OutOfTouch(to) => to,
        }
    }

    /// Adds facts about the call to the refusal.
    pub fn of_call(mut self, asked: Arc<Asked>) -> Self {
        match &mut self {
            Self::NoCredential(to)
            | Self::NamelessCertificate(to)
            | Self::BadCredential(to)
            | Self::Refused(to, _)
            | Self::Missing(to, _)
            | Self::Limited(to, _)
            | Self::OutOfTouch(to) => to.asked = Some(asked),
        }
        self
    }

    /// Adds the request ID to the refusal.
    pub fn with_request_id(self, request_id: &str) -> Self {
        match &self.to().asked {
            Some(asked) if !request_id.is_empty() => {
                let asked = asked.with_request_id(request_id);
                self.of_call(asked)
            }
            _ => self,
        }
    }

    /// The gRPC code and the reason for the refusal.
    pub(crate) const fn code(&self) -> (Code, &'static str) {
        match self {
            Self::NoCredential(_) | Self::NamelessCertificate(_) => (Code::Unauthenticated, "NO_CREDENTIAL"),
            Self::BadCredential(_) => (Code::Unauthenticated, "BAD_CREDENTIAL"),
            Self::Refused(..) => (Code::Unauthenticated, "CREDENTIAL_ENDED"),
            Self::Missing(..) => (Code::PermissionDenied, "PERMISSION_DENIED"),
            Self::Limited(..) => (Code::ResourceExhausted, LIMIT),
            Self::OutOfTouch(_) => (Code::Unavailable, "OUT_OF_TOUCH"),
        }
    }
}

/// How often this process has refused callers, for each reason. The counters are global, like the audit log.
static DENIALS: [(&str, AtomicU64); 6] = [
    ("NO_CREDENTIAL", AtomicU64::new(0)),
    ("BAD_CREDENTIAL", AtomicU64::new(0)),
    ("CREDENTIAL_ENDED", AtomicU64::new(0)),
    ("PERMISSION_DENIED", AtomicU64::new(0)),
    (LIMIT, AtomicU64::new(0)),
    ("OUT_OF_TOUCH", AtomicU64::new(0)),
];

/// How often this process has refused callers, for each reason.
pub fn denials() -> impl Iterator<Item = (&'static str, u64)> {
    DENIALS.iter().map(|(reason, count)| (*reason, count.load(Relaxed)))
}

/// Counts a refusal, and writes it to the audit log. Every refusal passes through this function on its way to the
/// caller.
pub fn denied(denied: &Denied) {
    let DeniedTo { principal, address, asked } = denied.to();
    let asked = asked.as_deref().cloned().unwrap_or_default();
    let by = By {
        principal: principal.to_string(),
        peer: address.map(|address| address.to_string()).unwrap_or_default(),
        on_behalf_of: asked.on_behalf_of,
        ..By::default()
    };
    let (code, reason) = denied.code();
    if let Some((_, count)) = DENIALS.iter().find(|(known, _)| *known == reason) {
        count.fetch_add(1, Relaxed);
    }
    let (resource, note) = match denied {
        Denied::Missing(_, permission) => (&**permission, String::new()),
        Denied::Refused(_, refused) => ("", refused.to_string()),
        Denied::Limited(_, limited) => (limited.kind.name(), String::new()),
        _ => ("", String::new()),
    };
    let event = Event::new("call", &by, resource).method(asked.method).request_id(&asked.request_id);
    event.refusal(code_name(code), reason).note(&note).record(Outcome::Denied);
}
