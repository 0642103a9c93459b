//! Who makes a call, and what the audit log says about calls.

use kent_proto::model::code_name;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use crate::{
    audit::{By, Event, Outcome},
    transport::peer::Peer,
};

/// The maximum length of the name that a caller gives itself, in characters.
const NAME_CHARS_MAX: usize = 100;

/// The author of a request.
pub(super) fn caller<T>(request: &Request<T>) -> By {
    let name = request.metadata().get("kent-principal").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let peer = request.extensions().get::<Peer>();
    let proved = peer.and_then(|peer| peer.certificate.as_ref()?.name.as_deref()).unwrap_or_default();
    By {
        principal: proved.to_owned(),
        on_behalf_of: name.chars().take(NAME_CHARS_MAX).collect(),
        peer: peer.map(|peer| peer.address.to_string()).unwrap_or_default(),
        certificate: proved.to_owned(),
    }
}

/// The author as the history of a table names it: the proved name, the name that it gives itself, and its address.
pub(super) fn author(by: &By) -> String {
    let caller = match (by.principal.as_str(), by.on_behalf_of.as_str()) {
        (proved, "") => proved.to_owned(),
        ("", name) => name.to_owned(),
        (proved, name) => format!("{proved} on behalf of {name}"),
    };
    match (caller.as_str(), by.peer.rsplit_once(':').map(|(host, _)| host.trim_matches(['[', ']']))) {
        ("", Some(ip)) => ip.to_owned(),
        (caller, Some(ip)) => format!("{caller} from {ip}"),
        (caller, None) => caller.to_owned(),
    }
}

/// A region as permissions name it; its space if the region has no name.
pub(super) fn resource(space: &str, region: &str) -> String {
    match region {
        "" => format!("space:{space}"),
        region => format!("region:{space}/{region}"),
    }
}

/// Writes what became of an action to the audit log.
pub(super) fn record<T>(event: Event<'_>, answer: &Result<T, Status>, done: Outcome) {
    let status = match answer {
        Ok(_) => return event.record(done),
        Err(status) => status,
    };
    let outcome = match status.code() {
        Code::PermissionDenied | Code::Unauthenticated => Outcome::Denied,
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
