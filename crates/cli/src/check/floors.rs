//! Floors: for each source, the last identifier, number or time before Kent took over.

use std::collections::HashMap;

use kent_ids::UnixNanos;

/// The floors that apply to a check, by the label of their identifiers. Each has its text for messages.
#[derive(Debug, Default)]
pub(super) struct Floors {
    pub(super) times: HashMap<String, (UnixNanos, String)>,
    pub(super) values: HashMap<String, (u128, String)>,
}

impl Floors {
    /// Returns the floor of a format or a layout if the time is not later.
    pub(super) fn of_time(&self, label: &str, time: UnixNanos) -> Option<String> {
        // Most checks have no floors.
        if self.times.is_empty() {
            return None;
        }
        self.times.get(label).filter(|(floor, _)| time <= *floor).map(|(_, named)| said(named))
    }

    /// Returns the floor of a region or a series if the value is not greater.
    pub(super) fn of_value(&self, label: &str, value: u128) -> Option<String> {
        if self.values.is_empty() {
            return None;
        }
        self.values.get(label).filter(|(floor, _)| value <= *floor).map(|(_, named)| said(named))
    }
}

fn said(named: &str) -> String {
    format!("it is at or below the floor {named}")
}
