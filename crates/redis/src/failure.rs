//! Turns the status of a refused call into an error of the Redis protocol.

use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::reply::Reply;
use kent_proto::model::code_name;

/// The error for a status: a code that Redis clients know, the reason of the status, and its message.
pub(crate) fn reply(status: &Status) -> Reply {
    let info = status.get_details_error_info();
    let reason = info.as_ref().map_or_else(|| code_name(status.code()), |info| &info.reason);
    let message = match reason {
        "NO_CREDENTIAL" => SEND_TOKEN,
        "BAD_CREDENTIAL" => BAD_TOKEN,
        _ => status.message(),
    };
    Reply::Error(format!("{} {reason} {message}", code(status, reason)))
}

/// The messages about missing and wrong tokens, in terms of this protocol instead of gRPC.
const SEND_TOKEN: &str = "this daemon answers only callers that it knows: send AUTH TOKEN, or HELLO 3 AUTH default TOKEN, first; a \
                          certificate counts only with a URI or a DNS name";
const BAD_TOKEN: &str = "the token is not valid: this daemon has no such token, for example because another daemon made it, or its secret \
                         is wrong; send the whole token, kent_ID_SECRET";

/// The error for a status after the caller has sent a credential.
pub(crate) fn reply_to_auth(status: &Status) -> Reply {
    match (status.code(), reply(status)) {
        (Code::Unauthenticated, Reply::Error(text)) => Reply::Error(text.replacen("NOAUTH", "WRONGPASS", 1)),
        (_, reply) => reply,
    }
}

/// The code for programs. `TRYAGAIN` promises that the command had no effect and may be repeated.
fn code(status: &Status, reason: &str) -> &'static str {
    match status.code() {
        Code::Unauthenticated => "NOAUTH",
        Code::PermissionDenied => "NOPERM",
        // The daemon waits after a restore, as Redis does while it loads its data.
        Code::Unavailable if reason == "RESTORED" => "LOADING",
        Code::Unavailable => "TRYAGAIN",
        Code::ResourceExhausted if status.get_details_retry_info().is_some() => "TRYAGAIN",
        _ => "ERR",
    }
}

#[cfg(test)]
mod tests {
    use kent_proto::model::Invalid;

    use kent_engine::{error::AllocateError, status};

    use super::*;

    #[test]
    fn ok_errors_have_a_code_and_the_reason() {
        for (status, expected) in [
            (status::from_allocate(&AllocateError::OutOfTouch), "TRYAGAIN OUT_OF_TOUCH "),
            (status::too_many("Redis", 1), "TRYAGAIN TOO_MANY_CALLS "),
            (status::from_allocate(&AllocateError::OutcomeUnknown), "ERR OUTCOME_UNKNOWN "),
            (status::from_invalid(&Invalid::new("key", "is wrong").because("BAD")), "ERR BAD key: is wrong"),
        ] {
            let Reply::Error(text) = reply(&status) else { panic!("an error") };
            assert!(text.starts_with(expected), "{text}");
        }
    }
}
