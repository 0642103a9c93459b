//! Structured logs on standard error, and the audit log.

mod level;
mod repeats;

use std::{
    io::{self, IsTerminal},
    path::Path,
};

use kent_engine::audit::{Audit, AuditTo, By, Event, Outcome, Rotation};
use thiserror::Error;
use tracing::{Subscriber, info};
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

pub(crate) use self::level::{Change, Filters, change};
use self::repeats::Limited;
pub(crate) use self::repeats::Repeats;
use crate::config::{Config, LogFormat};

/// Why the logs cannot be written.
#[derive(Debug, Error)]
pub(crate) enum NoLogs {
    /// The log filter is not valid.
    #[error("log {}", .0.problem("kentd --log"))]
    BadFilter(BadFilter),
    /// The file of the audit log cannot be opened.
    #[error("the audit log cannot be written to {file} (--audit){}", hint(file, source))]
    Audit {
        /// The file.
        file: String,
        /// The I/O error.
        source: io::Error,
    },
}

/// A log filter that is not valid.
#[derive(Debug)]
pub(crate) struct BadFilter {
    filter: String,
    /// The part of the filter that is not valid.
    part: String,
}

impl BadFilter {
    /// Returns the part of an error message that follows the name of the setting or field. `command` is the command
    /// that sets the filter.
    pub(crate) fn problem(&self, command: &str) -> String {
        let Self { filter, part } = self;
        format!(
            "is {filter:?}, but {part:?} is not a level: use off, error, warn, info, debug or trace, alone or for a module, as in \
             `{command} info,tonic=debug`"
        )
    }
}

/// Checks the log filter of the settings.
///
/// # Errors
///
/// [`NoLogs`].
pub(crate) fn check(config: &Config) -> Result<(), NoLogs> {
    parse_filter(&config.set.log).map(drop).map_err(NoLogs::BadFilter)
}

/// Starts the process's logs: the log on standard error, with the configured format and filter, and the audit log.
/// Returns the counts of repeated messages, and the audit log if there is one. The caller must run [`Repeats::report`]
/// and [`Audit::report`] on these.
///
/// # Errors
///
/// [`NoLogs`].
pub(crate) fn start(config: &Config) -> Result<(Repeats, Option<Audit>), NoLogs> {
    let filter = level::start(&config.set.log).map_err(NoLogs::BadFilter)?;
    let repeats = Repeats::default();
    let logs = layer(config.set.log_format, std::io::stderr().is_terminal(), std::io::stderr, repeats.clone());
    let open = |to| {
        Audit::open(to, config.audit_rotation(), config.set.audit_required).map_err(|source| unwritable(to, source))
    };
    let audit = config.audit.as_ref().map(open).transpose()?;
    tracing_subscriber::registry().with(logs.with_filter(filter)).with(audit.clone()).init();
    Ok((repeats, audit))
}

/// Opens the audit log for a command such as `kentd restore`, which does not start the daemon. Events are written until
/// the process ends.
///
/// # Errors
///
/// [`NoLogs`] if the file cannot be opened.
pub(crate) fn start_audit(to: &AuditTo, rotation: Rotation) -> Result<Audit, NoLogs> {
    let audit = Audit::open(to, rotation, true).map_err(|source| unwritable(to, source))?;
    tracing_subscriber::registry().with(audit.clone()).init();
    Ok(audit)
}

/// Turns the log level `debug` on or off when SIGUSR1 arrives.
pub(crate) fn toggle_debug() {
    // OK because `debug` is a valid filter, and the filter of the settings has been checked.
    if let Ok(Some(filters)) = change(Some(Change::ToggleDebug)) {
        info!(filter = filters.present, previous = filters.previous, "the filter of the log has changed (SIGUSR1)");
        let note = format!("{} -> {}", filters.previous, filters.present);
        Event::new("log.filter", &By::daemon(), "").note(&note).record(Outcome::Done);
    }
}

/// Parses a filter. A word without a level is refused: `Targets` would read it as a module, so a misspelled level would
/// silence the log.
fn parse_filter(filter: &str) -> Result<Targets, BadFilter> {
    // An empty string would parse as a level.
    let is_level = |part: &str| {
        let level = part.rsplit('=').next();
        // `Targets` would read a space or a semicolon, which is probably meant to be a comma, as a part of a module's
        // name.
        level.is_some_and(|level| !level.is_empty() && level.parse::<LevelFilter>().is_ok())
            && part.chars().all(|mark| mark.is_ascii_alphanumeric() || "_:-=".contains(mark))
    };
    let bad = |part: &str| BadFilter { filter: filter.to_owned(), part: part.to_owned() };
    let parts: Vec<_> = filter.split(',').map(str::trim).collect();
    match parts.iter().find(|part| !is_level(part)) {
        Some(part) => Err(bad(part)),
        None => parts.join(",").parse().map_err(|_| bad(filter)),
    }
}

/// Returns the hint to create the directory of the audit log, if it does not exist.
fn hint(file: &str, error: &io::Error) -> String {
    let dir = Path::new(file).parent().filter(|_| error.kind() == io::ErrorKind::NotFound);
    dir.map_or_else(String::new, |dir| format!("; its directory does not exist (mkdir -p {})", dir.display()))
}

fn unwritable(to: &AuditTo, source: io::Error) -> NoLogs {
    NoLogs::Audit { file: to.clone().into(), source }
}

fn layer<S, W>(format: LogFormat, ansi: bool, writer: W, repeats: Repeats) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let logs = fmt::layer().with_writer(writer).with_ansi(ansi);
    match format {
        LogFormat::Text => {
            logs.map_event_format(|inner| Limited { inner: inner.with_ansi(ansi), repeats, is_json: false }).boxed()
        }
        LogFormat::Json => logs.json().map_event_format(|inner| Limited { inner, repeats, is_json: true }).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    #[test]
    fn ok_levels_alone_and_for_modules() {
        for filter in ["info", "WARN", "off", "kent=debug,tonic=warn", "info, kent_engine::tables=trace"] {
            assert!(parse_filter(filter).is_ok(), "{filter}");
        }
        let spaced = parse_filter("info, kent=debug").expect("valid");
        assert!(
            spaced.would_enable("kent_engine", &tracing::Level::DEBUG)
                && !spaced.would_enable("h2", &tracing::Level::DEBUG)
        );
    }

    #[test]
    fn err_a_filter_in_the_settings_is_checked_without_starting_the_logs() {
        for (log, expected) in [
            ("info,tonic=warn", None),
            ("verbose", Some("log is \"verbose\", but \"verbose\" is not")),
            ("info kentd=debug", Some("log is \"info kentd=debug\", but")),
        ] {
            let settings = Settings { log: Some(log.to_owned()), ..Settings::default() };
            let error = check(&Config::check(settings).expect("valid")).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), expected.is_some(), "{log}: {error:?}");
            assert!(error.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{log}");
        }
    }

    #[test]
    fn err_a_misspelled_level_is_not_a_module() {
        let cases = [
            ("warning", "warning"),
            ("info,verbose", "verbose"),
            ("kentd=inof", "kentd=inof"),
            ("", ""),
            ("info,", ""),
        ];
        for (filter, part) in cases.into_iter().chain([("kentd=", "kentd=")]) {
            let refused = parse_filter(filter).expect_err(filter).problem("kentd --log");
            assert!(
                refused.starts_with(&format!("is {filter:?}, but {part:?} is not a level: use off, error")),
                "{refused}"
            );
        }
    }
}
