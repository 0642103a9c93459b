//! Whether a daemon can grant, and if not, why.

use std::{fmt, time::Duration};

use kent_issue::Quarantine;

use crate::{grant::HeldChunk, issuing::slots::HeldSlot};

/// Whether every source can be granted from, and if not, why.
#[derive(Debug)]
pub(crate) struct Readiness {
    pub(crate) slot: Option<HeldSlot>,
    pub(crate) chunks: Vec<HeldChunk>,
    pub(crate) draining: bool,
    pub(crate) quarantine: Option<Quarantine>,
    pub(crate) out_of_touch: bool,
    /// How long ago others' edits were looked for last, where there can be any.
    pub(crate) reached_ago: Option<Duration>,
}

impl Readiness {
    /// Whether every source can be granted from.
    pub(crate) fn is_ready(&self) -> bool {
        self.reasons().is_empty()
    }

    /// The slot that is held.
    pub(crate) fn slot(&self) -> Option<&HeldSlot> {
        self.slot.as_ref()
    }

    /// The chunks that are held.
    pub(crate) fn chunks(&self) -> &[HeldChunk] {
        &self.chunks
    }

    /// What is wrong.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.draining {
            reasons.push("the daemon is stopping".to_owned());
        }
        match &self.slot {
            None => match &self.quarantine {
                Some(Quarantine { instead: None, ahead }) => reasons.push(format!(
                    "the clock is {} further ahead than anything recorded explains: set it right, or if it is right say `kent \
                     clock accept`",
                    whole_seconds(*ahead)
                )),
                _ => reasons.push("no slot is held: time-based identifiers cannot be granted".to_owned()),
            },
            Some(held) if held.window_left.is_zero() => {
                reasons.push("the slot's window has ended, and the store does not extend it".to_owned());
            }
            Some(_) => {}
        }
        if self.out_of_touch {
            reasons.push("the store has not been reached for too long: regions cannot be granted from".to_owned());
        }
        reasons
    }

    /// How long ago others' edits were looked for last, where there can be any.
    pub(crate) fn reached_ago(&self) -> Option<Duration> {
        self.reached_ago
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons = self.reasons();
        writeln!(f, "{}", if reasons.is_empty() { "ready" } else { "not ready" })?;
        reasons.iter().try_for_each(|reason| writeln!(f, "reason: {reason}"))?;
        if let Some(Quarantine { ahead, instead: Some(_) }) = self.quarantine {
            let ahead = whole_seconds(ahead);
            writeln!(f, "the clock jumped {ahead} further ahead than is believed: going on from the time since boot")?;
        }
        if let Some(held) = &self.slot {
            let left = held.window_left.as_secs_f64();
            writeln!(f, "slot {}: {left:.1} s of window left without the store", held.slot.get())?;
        }
        if let Some(ago) = self.reached_ago {
            writeln!(f, "the store was reached {:.1} s ago", ago.as_secs_f64())?;
        }
        self.chunks
            .iter()
            .take(100)
            .try_for_each(|chunk| writeln!(f, "{}: {} identifiers left without the store", chunk.source, chunk.left))
    }
}

/// A duration for people.
fn whole_seconds(duration: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(duration.as_secs()))
}
