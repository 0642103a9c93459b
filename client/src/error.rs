//! Why no identifier came.

use std::{fmt, iter, time::Duration};

use thiserror::Error;
use tonic::{Code, ConnectError, Status};
use tonic_types::StatusExt;

/// Why no identifier came. No error means that an identifier was lost to anybody else: what was fetched and not delivered is a
/// gap.
///
/// ```no_run
/// # async fn example(orders: kent_client::Handle<u128>) -> Result<(), kent_client::Error> {
/// use kent_client::Error;
///
/// match orders.next().await {
///     Ok(order) => println!("order {order}"),
///     Err(Error::Refused { reason, .. }) if reason == "CAPACITY_EXHAUSTED" => println!("expand the region first"),
///     Err(error) if error.is_retryable() => println!("later: {error}"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The daemon refused: asking again will not help before something is changed.
    #[error("the daemon refused ({code:?}): {message}")]
    #[non_exhaustive]
    Refused {
        /// The gRPC code.
        code: Code,
        /// The daemon's reason, such as `CAPACITY_EXHAUSTED` or `NO_SUCH_REGION`; empty if it gave none.
        reason: String,
        /// The field of the request that is wrong, such as `count` or `request_id`; empty if the daemon named none.
        field: String,
        /// What is wrong and what would be right.
        message: String,
        /// All that the daemon said.
        status: Status,
    },
    /// No endpoint could serve, all attempts together, within the request's time.
    #[error("no endpoint could serve within {after:?}; {}", told(tried))]
    #[non_exhaustive]
    Unavailable {
        /// How long it was tried.
        after: Duration,
        /// What came of each endpoint that was tried, the last one last.
        tried: Vec<Tried>,
    },
    /// The daemon's answer makes no sense, or it is of a kind that the handle does not give out.
    #[error("the daemon's answer cannot be used: {what}")]
    #[non_exhaustive]
    Unusable {
        /// What is wrong with it.
        what: String,
    },
    /// Block after block was older than one already seen for the same slot or region, and so none was taken.
    #[error(
        "{refused} blocks in a row were older than one seen before: the daemon lags behind, or its store was set back since (after \
         a restore, make a new Client)"
    )]
    #[non_exhaustive]
    Fenced {
        /// How many.
        refused: u32,
    },
    /// There is no tokio runtime to fetch identifiers with.
    #[error("a handle fetches identifiers inside a tokio runtime, and there is none here")]
    NoRuntime,
    /// The process is a forked child, and the client is its parent's: what it has in hand is the parent's to give out.
    #[error(
        "this process was forked since the client was made: make a new Client in the child, on a runtime of its own"
    )]
    Forked,
}

impl Error {
    /// Whether the same call may succeed later by itself.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Fenced { .. } => true,
            Self::Refused { .. } | Self::Unusable { .. } | Self::NoRuntime | Self::Forked => false,
        }
    }

    /// Whether the call is sure to have had no effect. For identifiers that is always so, but for gaps.
    pub fn has_no_side_effects(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::NoRuntime | Self::Forked => true,
            Self::Unavailable { .. } | Self::Unusable { .. } | Self::Fenced { .. } => false,
        }
    }
}

/// An endpoint that could not serve, and why.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tried {
    /// The endpoint, such as `http://127.0.0.1:7600/`.
    pub endpoint: String,
    /// What came of the last attempt there.
    pub status: Status,
}

impl Tried {
    /// Whether there was no connection, so that no daemon has seen the call.
    pub fn is_unreachable(&self) -> bool {
        causes(&self.status).any(|cause| cause.is::<ConnectError>())
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.endpoint, describe(&self.status))
    }
}

fn told(tried: &[Tried]) -> String {
    tried.iter().map(Tried::to_string).collect::<Vec<_>>().join("; ")
}

/// A status in one line, with what caused it: a refused connection is told apart from a daemon that refuses.
pub(crate) fn describe(status: &Status) -> String {
    let text = format!("{:?}: {}", status.code(), status.message());
    causes(status)
        .map(ToString::to_string)
        .fold(text, |text, cause| if text.contains(&cause) { text } else { format!("{text}: {cause}") })
}

/// What caused a status, the nearest first.
fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    iter::successors(std::error::Error::source(status), |cause| cause.source())
}

/// What a failed attempt says about the next one.
pub(crate) enum Verdict {
    /// Another attempt may help, here or elsewhere, after this long (or after the usual pause).
    Again(Option<Duration>),
    /// Asking again will not help.
    Final(Error),
}

/// Judges a failed attempt. A lost reply costs a gap at most, so every failure of the transport may be retried.
pub(crate) fn judge(status: &Status) -> Verdict {
    let details = status.get_error_details();
    let after = details.retry_info().and_then(|info| info.retry_delay);
    if std::error::Error::source(status).is_some() {
        // What has a source was said by no daemon: the connection broke. tonic calls that INTERNAL at times.
        return Verdict::Again(None);
    }
    match status.code() {
        Code::Unavailable | Code::Unknown | Code::DeadlineExceeded | Code::Cancelled | Code::Aborted => {
            Verdict::Again(after)
        }
        // The clock's limit passes by itself, and says when; a full region does not.
        Code::ResourceExhausted if after.is_some() => Verdict::Again(after),
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => {
            let fields = details.bad_request().map(|bad| bad.field_violations.as_slice()).unwrap_or_default();
            Verdict::Final(Error::Refused {
                code: status.code(),
                reason: details.error_info().map(|info| info.reason.clone()).unwrap_or_default(),
                field: fields.first().map(|violation| violation.field.clone()).unwrap_or_default(),
                message: status.message().to_owned(),
                status: status.clone(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use super::*;

    #[test]
    fn ok_a_broken_connection_is_tried_again_whatever_it_is_called() {
        for code in [Code::Internal, Code::Unknown, Code::Unavailable] {
            let mut status = Status::new(code, "h2 protocol error: http2 error");
            status.set_source(Arc::new(io::Error::other("GOAWAY")));
            assert!(matches!(judge(&status), Verdict::Again(None)), "{code:?}");
        }
        assert!(matches!(judge(&Status::internal("said by a daemon")), Verdict::Final(_)));
    }
}
