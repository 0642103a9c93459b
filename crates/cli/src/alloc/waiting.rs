//! Messages on standard error while `kent alloc` waits: for what, for how long, and when it gives up.

use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::ProgressBar;
use kent_client::tonic::Status;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::failure::Refusal;
use crate::notice;
use crate::number;

/// The time without an identifier after which the first message is printed. The pause doubles with each further message.
const FIRST_AFTER: Duration = Duration::from_secs(1);

/// The longest time between two messages.
const EVERY_MAX: Duration = Duration::from_secs(60);

/// What `kent alloc` waits for.
pub(super) struct Waiting {
    source: String,
    /// When the command gives up, such as "after 30s".
    limit: String,
    /// Why the last attempt failed.
    reason: Mutex<Option<String>>,
    bar: ProgressBar,
    json: bool,
}

impl Waiting {
    pub(super) fn new(source: String, limit: String, bar: ProgressBar, json: bool) -> Self {
        Self { source, limit, reason: Mutex::default(), bar, json }
    }

    /// Notes why an attempt failed.
    pub(super) fn note(&self, status: &Status) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(Refusal::new(status).message);
    }

    /// Why the last attempt failed. `None` if it succeeded, or has not ended yet.
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs a request for `count` identifiers, and prints messages as long as it lasts.
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
        let Self { source, limit, .. } = self;
        let seconds = waited.as_secs();
        let reason = self.reason().unwrap_or_else(|| "the daemon has not answered yet".to_owned());
        if self.json {
            let waiting =
                json!({"source": source, "count": count, "seconds": seconds, "reason": reason, "limit": limit});
            return json!({ "waiting": waiting }).to_string();
        }
        let count = number::counted(count, "identifier");
        format!("waiting for {count} of {source}, {seconds} s so far; gives up {limit}: {reason}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(json: bool) -> Waiting {
        Waiting::new("xid".to_owned(), "after 30s".to_owned(), ProgressBar::hidden(), json)
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
