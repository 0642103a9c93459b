//! Progress messages on standard error while `kent alloc` waits: the reason, the time so far, and when the command
//! gives up.

use std::error::Error;
use std::future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::ProgressBar;
use kent_client::tonic::{Code, Status};
use kent_proto::model::LIMIT;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::failure::{self, Refusal};
use crate::notice;
use crate::number;
use crate::reach::Reach;

/// The time without an identifier after which the first message is printed. The interval doubles after each message.
const FIRST_AFTER: Duration = Duration::from_secs(1);

/// The longest time between two messages.
const EVERY_MAX: Duration = Duration::from_secs(60);

/// The command gives up after this number of consecutive failures that only other settings can fix.
const MISMATCHES: usize = 3;

/// What `kent alloc` waits for.
pub(super) struct Waiting {
    endpoints: String,
    source: String,
    ends: Ends,
    /// Why the last attempt failed.
    reason: Mutex<Option<Reason>>,
    /// The latest consecutive failures that only other settings can fix.
    mismatches: watch::Sender<Vec<Status>>,
    bar: ProgressBar,
    json: bool,
    reach: Reach,
}

/// When the command gives up, as text for messages.
pub(super) enum Ends {
    /// At the end of `--timeout`, as in "at --timeout 30s".
    At(String),
    /// After this time without a grant, as in "after 30s". The command never gives up while the caller's own rate limit
    /// is the reason.
    After(String),
}

/// Why an attempt failed.
#[derive(Clone)]
struct Reason {
    message: String,
    /// Whether the reason is the caller's own rate limit, which admits more identifiers later.
    is_limit: bool,
}

impl Waiting {
    /// Creates the messages for a request to `endpoints` for identifiers of `source`.
    pub(super) fn new(
        (endpoints, source): (String, String),
        ends: Ends,
        bar: ProgressBar,
        json: bool,
        reach: Reach,
    ) -> Self {
        Self {
            endpoints,
            source,
            ends,
            reason: Mutex::default(),
            mismatches: watch::Sender::default(),
            bar,
            json,
            reach,
        }
    }

    /// Records why an attempt failed.
    pub(super) fn note(&self, status: &Status) {
        self.mismatches.send_modify(|mismatches| match failure::needs_other_settings(status) {
            true => mismatches.push(status.clone()),
            false => mismatches.clear(),
        });
        let Refusal { message, reason, .. } = Refusal::new(status);
        let is_limit = reason.is_some_and(|reason| reason == LIMIT);
        // An error of the connection, or of the client's own deadline, does not name the daemon.
        let is_late = matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded);
        let is_from_client = is_late || status.source().is_some();
        let message = match is_from_client {
            true => format!("no answer from {}: {message}", self.endpoints),
            false => message,
        };
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(Reason { message, is_limit });
    }

    /// Returns why the last failed attempt of the current request failed, or `None` if no attempt of it has failed.
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|reason| reason.message.clone())
    }

    /// Waits until repeated failures show that only other settings can help, and returns the last failure.
    pub(super) async fn hopeless(&self) -> Status {
        let mut mismatches = self.mismatches.subscribe();
        // One failure is not enough: the client tries its endpoints in turn, and only one of them may have the wrong
        // port.
        let mismatches = mismatches.wait_for(|mismatches| mismatches.len() >= MISMATCHES).await;
        match mismatches.ok().and_then(|mismatches| mismatches.last().cloned()) {
            Some(status) => status,
            // Unreachable, because `self` holds the sender.
            None => future::pending().await,
        }
    }

    /// Runs a request for `count` identifiers, and prints messages until it ends.
    pub(super) async fn during<T>(&self, count: u64, request: impl Future<Output = T>) -> T {
        let (began, mut pause) = (Instant::now(), FIRST_AFTER);
        let mut request = pin!(request);
        loop {
            if let Ok(done) = timeout(pause, request.as_mut()).await {
                *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = None;
                return done;
            }
            let line = self.line(count, began.elapsed());
            self.bar.suspend(|| notice::write(&format!("{line}\n"), self.json));
            pause = (pause * 2).min(EVERY_MAX);
        }
    }

    fn line(&self, count: u64, waited: Duration) -> String {
        let Self { source, ends, .. } = self;
        let seconds = waited.as_secs();
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Reason { message: reason, is_limit } =
            reason.unwrap_or_else(|| Reason { message: "the daemon has not answered yet".to_owned(), is_limit: false });
        let reason = self.reach.add_to(&reason);
        let limit = match ends {
            Ends::At(limit) => Some(limit),
            Ends::After(limit) => (!is_limit).then_some(limit),
        };
        if self.json {
            let waiting =
                json!({"source": source, "count": count, "seconds": seconds, "reason": reason, "limit": limit});
            return json!({ "waiting": waiting }).to_string();
        }
        let count = number::counted(count, "identifier");
        let gives_up = limit.map(|limit| format!("; gives up {limit}")).unwrap_or_default();
        format!("waiting for {count} of {source}, {seconds} s so far{gives_up}: {reason}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use kent_client::tonic::Code;
    use tonic_types::{ErrorDetails, StatusExt};

    use super::*;

    fn waiting(json: bool) -> Waiting {
        let reach = Reach::of([("token-file", "a.token".to_owned())]);
        Waiting::new(
            ("127.0.0.1:7600".to_owned(), "xid".to_owned()),
            Ends::After("after 30s".to_owned()),
            ProgressBar::hidden(),
            json,
            reach,
        )
    }

    #[test]
    fn ok_a_limit_of_the_caller_is_waited_for() {
        let details = ErrorDetails::with_error_info(LIMIT, "kent", HashMap::new());
        let limited = Status::with_error_details(
            Code::ResourceExhausted,
            "a has used its limit (`kent whoami` shows it)",
            details,
        );
        let waiting = waiting(false);
        waiting.note(&limited);
        let line = |waiting: &Waiting| waiting.line(1, Duration::from_secs(2));
        assert_eq!(
            line(&waiting),
            "waiting for 1 identifier of xid, 2 s so far: a has used its limit (`kent --token-file a.token whoami` shows it)"
        );
        let bounded = Waiting { ends: Ends::At("at --timeout 5s".to_owned()), ..waiting };
        assert_eq!(
            line(&bounded),
            "waiting for 1 identifier of xid, 2 s so far; gives up at --timeout 5s: a has used its limit (`kent --token-file a.token whoami` shows it)"
        );
    }

    #[test]
    fn ok_a_message_says_what_kent_waits_for_and_how_long() {
        let waited = Duration::from_millis(3900);
        assert_eq!(
            waiting(false).line(10_000, waited),
            "waiting for 10_000 identifiers of xid, 3 s so far; gives up after 30s: the daemon has not answered yet"
        );
        let refused = waiting(true);
        refused.note(&Status::resource_exhausted("the clock allows no more"));
        assert_eq!(
            refused.line(1, waited),
            r#"{"waiting":{"count":1,"limit":"after 30s","reason":"the clock allows no more","seconds":3,"source":"xid"}}"#
        );
    }
}
