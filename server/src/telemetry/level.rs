//! The filter of the log, which operators change while the daemon runs: `kent log-level` and SIGUSR1.
//!
//! A process has one log, and so one filter.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use kent_engine::audit;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Registry,
    filter::Targets,
    reload::{self, Handle},
};

use super::{BadFilter, parse_filter};

/// The filters of the log: the one in force, the one before the change, and the one in the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters {
    pub(crate) present: String,
    pub(crate) previous: String,
    pub(crate) configured: String,
}

/// A change to the filter.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Sets this filter.
    To(String),
    /// Sets the filter of the settings.
    Reset,
    /// Switches to `debug`. If `debug` is in force, switches back to the previous filter, or to the filter of the
    /// settings if a command set `debug`.
    ToggleDebug,
}

struct Control {
    handle: Handle<Targets, Registry>,
    configured: String,
    state: Mutex<State>,
}

/// The filter in force, and the one that SIGUSR1 has replaced.
struct State {
    present: String,
    /// Set while the level `debug` that SIGUSR1 has set is in force.
    replaced: Option<String>,
}

static CONTROL: OnceLock<Control> = OnceLock::new();

/// The filter that SIGUSR1 sets.
const DEBUG: &str = "debug";

/// Creates the filter of the log from the filter in the settings.
pub(super) fn start(configured: &str) -> Result<reload::Layer<Targets, Registry>, BadFilter> {
    let (filter, handle) = reload::Layer::new(targets(configured)?);
    let state = Mutex::new(State::new(configured));
    // OK because a process starts its log once.
    let _ = CONTROL.set(Control { handle, configured: configured.to_owned(), state });
    Ok(filter)
}

/// Parses a filter, and excludes the events of the audit log. The audit log contains all its events regardless of the
/// filter.
fn targets(filter: &str) -> Result<Targets, BadFilter> {
    Ok(parse_filter(filter)?.with_target(audit::TARGET, LevelFilter::OFF))
}

/// Changes the filter, if a change is given. Returns the filters; `None` if the process has no log.
///
/// # Errors
///
/// [`BadFilter`].
pub(crate) fn change(change: Option<Change>) -> Result<Option<Filters>, BadFilter> {
    let Some(control) = CONTROL.get() else { return Ok(None) };
    let mut state = control.state();
    let (previous, configured) = (state.present.clone(), control.configured.clone());
    if let Some(change) = change {
        let next = state.after(change, &configured);
        if next.present != previous {
            let targets = targets(&next.present)?;
            // OK because this fails only if the log is gone, and the log lives as long as the process.
            let _ = control.handle.reload(targets);
        }
        *state = next;
    }
    Ok(Some(Filters { present: state.present.clone(), previous, configured }))
}

impl State {
    fn new(filter: &str) -> Self {
        Self { present: filter.to_owned(), replaced: None }
    }

    fn after(&self, change: Change, configured: &str) -> Self {
        match (change, &self.replaced) {
            (Change::To(filter), _) => Self::new(&filter),
            (Change::Reset, _) => Self::new(configured),
            (Change::ToggleDebug, _) if self.present != DEBUG => {
                Self { present: DEBUG.to_owned(), replaced: Some(self.present.clone()) }
            }
            (Change::ToggleDebug, replaced) => Self::new(replaced.as_deref().unwrap_or(configured)),
        }
    }
}

impl Control {
    fn state(&self) -> MutexGuard<'_, State> {
        // OK because no code that holds the lock leaves the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_second_signal_returns_to_the_filter_before_the_first() {
        let to = |filter: &str| Change::To(filter.to_owned());
        let toggle = || Change::ToggleDebug;
        let cases = [
            (vec![toggle(), toggle()], "info"),
            (vec![to("warn"), toggle()], "debug"),
            (vec![to("warn"), toggle(), toggle()], "warn"),
            (vec![to("warn"), toggle(), Change::Reset], "info"),
            (vec![to("warn"), toggle(), to("error"), toggle(), toggle()], "error"),
            (vec![to("warn"), toggle(), to("debug"), toggle()], "info"),
            (vec![to("debug"), toggle()], "info"),
        ];
        for (changes, expected) in cases {
            let shown = format!("{changes:?}");
            let state = changes.into_iter().fold(State::new("info"), |state, change| state.after(change, "info"));
            assert_eq!(state.present, expected, "{shown}");
        }
    }
}
