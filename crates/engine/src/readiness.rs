//! Whether a daemon can grant, and the reasons if it cannot.

use std::{fmt, time::Duration};

use kent_issue::Quarantine;

use crate::{error::RestoreWait, grant::HeldChunk, issuing::slots::HeldSlot};

/// The state of everything that grants depend on.
#[derive(Debug)]
pub struct Readiness {
    pub(crate) slot: Option<HeldSlot>,
    pub(crate) chunks: Vec<HeldChunk>,
    pub(crate) draining: bool,
    /// Whether the daemon issues nothing more, because an invariant is broken or the store was replaced.
    pub(crate) stopped: bool,
    pub(crate) quarantine: Option<Quarantine>,
    pub(crate) restore_wait: Option<RestoreWait>,
    pub(crate) out_of_touch: bool,
    /// The time since the last refresh of all tables began. `None` before the first refresh, or if the store cannot be
    /// shared.
    pub(crate) reached_ago: Option<Duration>,
}

impl Readiness {
    /// Whether the daemon can grant from every source.
    pub fn is_ready(&self) -> bool {
        self.reasons().is_empty()
    }

    /// The slot that the daemon holds.
    pub fn slot(&self) -> Option<&HeldSlot> {
        self.slot.as_ref()
    }

    /// The chunks that the daemon holds.
    pub fn chunks(&self) -> &[HeldChunk] {
        &self.chunks
    }

    /// Returns why the daemon is not ready.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.draining {
            reasons.push("the daemon is stopping".to_owned());
        }
        if self.stopped {
            reasons.push("the daemon has stopped issuing identifiers for good: see its log".to_owned());
        }
        match &self.slot {
            None => reasons.push(match (&self.quarantine, self.restore_wait) {
                (Some(Quarantine { instead: None, ahead }), _) => format!(
                    "the clock is {} too far ahead of every recorded time: correct it or, if it is right, run `kent \
                     clock accept`",
                    whole_seconds(*ahead)
                ),
                (_, Some(wait)) => wait.to_string(),
                _ => "the daemon holds no slot: it cannot grant time-based identifiers".to_owned(),
            }),
            Some(held) if held.window_left.is_zero() => {
                reasons.push("the slot's window has ended, and the store has not extended it".to_owned());
            }
            Some(_) => {}
        }
        if self.out_of_touch {
            reasons.push(
                "the store has not been reached for longer than the window: the daemon cannot grant from regions"
                    .to_owned(),
            );
        }
        reasons
    }

    /// The time since the last refresh of all tables began. `None` before the first refresh, or if the store cannot be
    /// shared.
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
            writeln!(
                f,
                "the clock is {ahead} past the latest time that the daemon accepts: using the time since boot instead"
            )?;
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

/// Formats a duration in whole seconds.
fn whole_seconds(duration: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(duration.as_secs()))
}
