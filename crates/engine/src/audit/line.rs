//! A line of the audit log.

use std::fmt;

use serde::Serialize;
use tracing::field::{Field, Visit};

/// A line. Empty fields are left out.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Line {
    pub(super) time: String,
    pub(super) action: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) method: String,
    pub(super) outcome: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) principal: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) on_behalf_of: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) peer: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) certificate: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) revision: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) code: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) note: String,
    /// In a summary, the number of events that it covers, and the time of the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) since: String,
}

/// The maximum length of a string from a caller, in characters, so that a line has at most a few kilobytes.
const TEXT_CHARS_MAX: usize = 500;

impl Line {
    /// The line as JSON, with its newline.
    pub(super) fn to_json(&self) -> Vec<u8> {
        // OK because strings and numbers can always be written as JSON.
        let mut json = serde_json::to_vec(self).unwrap_or_default();
        json.push(b'\n');
        json
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        let text = match field.name() {
            "action" => &mut self.action,
            "method" => &mut self.method,
            "outcome" => &mut self.outcome,
            "principal" => &mut self.principal,
            "on_behalf_of" => &mut self.on_behalf_of,
            "peer" => &mut self.peer,
            "certificate" => &mut self.certificate,
            "resource" => &mut self.resource,
            "request_id" => &mut self.request_id,
            "code" => &mut self.code,
            "reason" => &mut self.reason,
            "note" => &mut self.note,
            _ => return,
        };
        text.extend(value.chars().take(TEXT_CHARS_MAX));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "revision" {
            self.revision = Some(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
