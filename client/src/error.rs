//! The errors of a client, and which of them the client retries.

use std::{fmt, iter, time::Duration};

use kent_proto::model::{HEIR, LIMIT};
use kent_tls::explained;
use thiserror::Error;
use tonic::{Code, ConnectError, Status};
use tonic_types::StatusExt;

/// An error from a client. Identifiers that are lost because of an error are never granted again, so they leave a gap.
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
    /// The daemon refused the request. Every retry fails until the cause is removed.
    #[error("the daemon refused ({code:?}): {message}")]
    #[non_exhaustive]
    Refused {
        /// The gRPC code.
        code: Code,
        /// The machine-readable reason, such as `CAPACITY_EXHAUSTED` or `NO_SUCH_REGION`. Empty if the daemon sent no
        /// reason.
        reason: String,
        /// The field of the request that is wrong, such as `count` or `request_id`. Empty if the daemon named no field.
        field: String,
        /// What is wrong and what is allowed.
        message: String,
        /// The daemon's complete status.
        status: Status,
    },
    /// The caller has used up one of its limits, and the timeout of the request expires before the daemon admits the
    /// caller again.
    #[error("{message}")]
    #[non_exhaustive]
    Limited {
        /// What is limited: `ids`, `calls`, `streams` or `connections`.
        limit: String,
        /// The time after which to try again.
        retry_after: Duration,
        /// The limit, and what the caller can do.
        message: String,
        /// The daemon's complete status.
        status: Status,
    },
    /// No endpoint answered within the timeout of the request.
    #[error("no endpoint answered within {after:?}; {}", join(tried))]
    #[non_exhaustive]
    Unavailable {
        /// The time spent on all attempts.
        after: Duration,
        /// The last result of each endpoint, ordered by time.
        tried: Vec<Tried>,
    },
    /// The daemon's reply is invalid, or its identifiers do not have the handle's type.
    #[error("the daemon's reply is not usable: {what}")]
    #[non_exhaustive]
    Unusable {
        /// What is wrong with the reply.
        what: String,
    },
    /// Many blocks in a row had a lower fencing token than one already seen for the same slot or region.
    #[error(
        "{refused} blocks in a row had a lower fencing token than one seen before: the daemon lags behind, or its store was replaced \
         by an older one (after a restore, create a new Client)"
    )]
    #[non_exhaustive]
    Fenced {
        /// The number of rejected blocks.
        refused: u32,
    },
    /// The call was made outside of a tokio runtime.
    #[error("not inside a tokio runtime: a handle can fetch identifiers only inside one")]
    NoRuntime,
    /// The client was created before the process forked. Its identifiers belong to the parent.
    #[error("the process was forked after the client was created: create a new Client in the child, on a new runtime")]
    Forked,
}

impl Error {
    /// Returns true if a retry can succeed without any other change.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Limited { .. } | Self::Unavailable { .. } | Self::Fenced { .. } => true,
            Self::Refused { .. } | Self::Unusable { .. } | Self::NoRuntime | Self::Forked => false,
        }
    }

    /// Returns the source that continues the numbers of a closed region, such as `region:orders-eu`. Returns `None` for
    /// any other error.
    pub fn heir(&self) -> Option<String> {
        let Self::Refused { status, .. } = self else { return None };
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.reason == "CLOSED")?;
        info.metadata.get(HEIR).cloned()
    }

    /// Returns true if the call certainly had no effect. The only possible effect of a call for identifiers is a gap.
    pub fn has_no_side_effects(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::Limited { .. } | Self::NoRuntime | Self::Forked => true,
            Self::Unavailable { .. } | Self::Unusable { .. } | Self::Fenced { .. } => false,
        }
    }
}

/// Converts a status to [`Error::Limited`] if it reports that the caller has used up one of its limits.
pub(crate) fn limited(status: &Status, retry_after: Duration) -> Option<Error> {
    let details = status.get_error_details();
    let info = details.error_info().filter(|info| info.reason == LIMIT)?;
    let limit = info.metadata.get("limit").cloned().unwrap_or_default();
    Some(Error::Limited { limit, retry_after, message: status.message().to_owned(), status: status.clone() })
}

/// An endpoint that failed, and its last status.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tried {
    /// The endpoint, such as `http://127.0.0.1:7600/`.
    pub endpoint: String,
    /// The status of the last attempt.
    pub status: Status,
}

impl Tried {
    /// Returns true if there was no connection, so that no daemon received the call.
    pub fn is_unreachable(&self) -> bool {
        causes(&self.status).any(|cause| cause.is::<ConnectError>())
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.endpoint, describe(&self.status))
    }
}

fn join(tried: &[Tried]) -> String {
    tried.iter().map(Tried::to_string).collect::<Vec<_>>().join("; ")
}

/// Returns a status and its causes in one line. The causes distinguish a refused connection from a refusal by the
/// daemon.
pub(crate) fn describe(status: &Status) -> String {
    let text = format!("{:?}: {}", status.code(), status.message());
    causes(status)
        .map(explained)
        .fold(text, |text, cause| if text.contains(&cause) { text } else { format!("{text}: {cause}") })
}

/// Returns the chain of causes of a status, starting with its direct cause.
fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    iter::successors(std::error::Error::source(status), |cause| cause.source())
}

/// Whether to retry after a failed attempt.
pub(crate) enum Verdict {
    /// Retry, on this or another endpoint, after this delay or the usual backoff.
    Again(Option<Duration>),
    /// Do not retry.
    Final(Error),
}

/// Decides whether to retry. Every failure of the transport is retried, because a lost reply leaves only a gap.
pub(crate) fn judge(status: &Status) -> Verdict {
    let details = status.get_error_details();
    let after = details.retry_info().and_then(|info| info.retry_delay);
    if std::error::Error::source(status).is_some() {
        // A status with a source does not come from a daemon: the connection broke. For some broken connections, tonic
        // uses INTERNAL.
        return Verdict::Again(None);
    }
    match status.code() {
        Code::Unavailable | Code::Unknown | Code::DeadlineExceeded | Code::Cancelled | Code::Aborted => {
            Verdict::Again(after)
        }
        // A status with a delay has a temporary cause: a limit of the clock, the pace or the caller. The status of a
        // full region has no delay.
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
    fn ok_a_broken_connection_is_retried_with_any_code() {
        for code in [Code::Internal, Code::Unknown, Code::Unavailable] {
            let mut status = Status::new(code, "h2 protocol error: http2 error");
            status.set_source(Arc::new(io::Error::other("GOAWAY")));
            assert!(matches!(judge(&status), Verdict::Again(None)), "{code:?}");
        }
        assert!(matches!(judge(&Status::internal("from a daemon")), Verdict::Final(_)));
    }
}
