//! Calls that a daemon accepted and did not answer: whether they took effect is unknown. The message names the endpoint
//! and, for an edit, the command that shows whether it was made.

use std::fmt;

use kent_client::tonic::Code;
use serde_json::{Value, json};

use super::Refusal;
use crate::connect::call_timeout;

/// A call without an answer.
#[derive(Debug)]
pub(crate) struct Unanswered {
    endpoint: String,
    refusal: Box<Refusal>,
    /// How to find out whether an edit was made; `None` for other calls.
    edit: Option<Edit>,
}

/// How to find out whether an edit was made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The command that shows whether the edit was made.
    pub(crate) command: String,
    /// Whether the edit has a request ID.
    pub(crate) is_named: bool,
}

impl Edit {
    /// Returns the lines that say how to find out whether the edit was made.
    pub(crate) fn how_to_find_out(&self) -> String {
        let mut lines = format!(
            "  The edit may have been made, or may still be made if the daemon continues.\n  To find out: {}\n",
            self.command
        );
        if self.is_named {
            lines.push_str("  Or repeat the command: because of its --request-id, the edit is made only once.\n");
        }
        lines
    }
}

impl Unanswered {
    /// Converts a refusal that is in fact a missing answer.
    ///
    /// # Errors
    ///
    /// Returns the refusal if a daemon sent it and nothing changed.
    pub(crate) fn new(refusal: Box<Refusal>, endpoint: String, edit: Option<Edit>) -> Result<Self, Box<Refusal>> {
        let is_unknown = edit.is_some() && refusal.reason.as_deref() == Some("OUTCOME_UNKNOWN");
        if is_unknown || refusal.is_broken || is_late(&refusal) {
            Ok(Self { endpoint, refusal, edit })
        } else {
            Err(refusal)
        }
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("error: {self}\n");
        if let Some(edit) = &self.edit {
            text.push_str(&edit.how_to_find_out());
        }
        text
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut details = json!({"endpoint": self.endpoint});
        if let Some(Edit { command, .. }) = &self.edit {
            details["find_out"] = json!(command);
        }
        json!({"error": {
            "code": if is_late(&self.refusal) { "DEADLINE_EXCEEDED" } else { "UNKNOWN" },
            "reason": self.refusal.reason.as_deref().unwrap_or("NO_ANSWER"),
            "message": self.to_string(),
            "details": details,
        }})
    }
}

/// Returns whether the deadline passed: this client or the daemon canceled the call.
fn is_late(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::Cancelled | Code::DeadlineExceeded)
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, refusal, .. } = self;
        if is_late(refusal) {
            let time = humantime::format_duration(call_timeout());
            return write!(
                f,
                "{endpoint} accepted the call but did not answer within {time}: the daemon or its store hangs"
            );
        }
        write!(f, "{endpoint}: {}", refusal.message)
    }
}

#[cfg(test)]
mod tests {
    use kent_client::tonic::Status;

    use super::*;

    #[test]
    fn ok_only_a_missing_answer_is_unanswered() {
        let new = |status: Status, edit| Unanswered::new(Box::new(Refusal::new(&status)), "http://a/".to_owned(), edit);
        let seal = || Some(Edit { command: "kent region history r".to_owned(), is_named: true });
        let late = new(Status::cancelled("Timeout expired"), seal()).expect("no answer");
        let text = "error: http://a/ accepted the call but did not answer within 10s: the daemon or its store hangs
  The edit may have been made, or may still be made if the daemon continues.
  To find out: kent region history r
  Or repeat the command: because of its --request-id, the edit is made only once.\n";
        assert_eq!(late.to_text(), text);
        assert_eq!(late.to_json()["error"]["details"]["find_out"], json!("kent region history r"));
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let broken = new(Status::from_error(Box::new(reset)), None).expect("no answer");
        assert!(broken.to_text().starts_with("error: http://a/: the connection broke before the response"), "{broken}");
        assert!(!broken.to_text().contains("edit"));
        new(Status::not_found("no region"), seal()).expect_err("an answer");
    }
}
