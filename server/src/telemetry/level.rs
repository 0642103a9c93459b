//! The filter of the log, which operators change while the daemon runs: `kent log-level` and SIGUSR1.
//!
//! A process has one log, and so one filter.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Registry,
    filter::Targets,
    reload::{self, Handle},
};

use super::{BadFilter, parse_filter};
use crate::audit;

/// The filters of the log: the one in force, the one before a change, and that of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters {
    pub(crate) present: String,
    pub(crate) previous: String,
    pub(crate) configured: String,
}

/// A change of the filter.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// To this one.
    To(String),
    /// To that of the settings.
    Reset,
    /// To `debug`, or from `debug` to that of the settings.
    ToggleDebug,
}

struct Control {
    handle: Handle<Targets, Registry>,
    configured: String,
    present: Mutex<String>,
}

static CONTROL: OnceLock<Control> = OnceLock::new();

/// The filter that SIGUSR1 sets.
const DEBUG: &str = "debug";

/// Makes the filter of the log from that of the settings.
pub(super) fn start(configured: &str) -> Result<reload::Layer<Targets, Registry>, BadFilter> {
    let (filter, handle) = reload::Layer::new(targets(configured)?);
    let present = Mutex::new(configured.to_owned());
    // OK because a process starts its log once.
    let _ = CONTROL.set(Control { handle, configured: configured.to_owned(), present });
    Ok(filter)
}

/// Parses a filter. The audit log is complete, whatever the filter says, and the other log does not repeat it.
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
    let mut present = control.present();
    let (previous, configured) = (present.clone(), control.configured.clone());
    let next = match change {
        None => previous.clone(),
        Some(Change::To(filter)) => filter,
        Some(Change::ToggleDebug) if previous != DEBUG => DEBUG.to_owned(),
        Some(Change::ToggleDebug | Change::Reset) => configured.clone(),
    };
    if next != previous {
        let targets = targets(&next)?;
        // OK because it fails only if the log is gone, which lives as long as the process.
        let _ = control.handle.reload(targets);
        present.clone_from(&next);
    }
    Ok(Some(Filters { present: next, previous, configured }))
}

impl Control {
    fn present(&self) -> MutexGuard<'_, String> {
        // OK because no change stops halfway.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
