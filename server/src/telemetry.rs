//! Structured logs on standard error, and the audit log.

mod repeats;

use std::io::{self, IsTerminal};

use thiserror::Error;
use tracing::Subscriber;
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use self::repeats::Limited;
pub use self::repeats::Repeats;
use crate::{
    audit::{self, Audit, AuditTo, Rotation},
    config::{Config, LogFormat},
};

/// Reasons that the logs cannot be written.
#[derive(Debug, Error)]
pub enum NoLogs {
    /// The log filter is not valid.
    #[error("log is {filter:?}, but must be a filter such as `info` or `kentd=debug,tonic=warn`")]
    BadFilter {
        /// The filter.
        filter: String,
        /// The problem.
        source: tracing_subscriber::filter::ParseError,
    },
    /// The file of the audit log cannot be opened.
    #[error("the audit log cannot be written to {file} (--audit)")]
    Audit {
        /// The file.
        file: String,
        /// The I/O error.
        source: io::Error,
    },
}

/// Writes the process's logs to standard error, with the format and the filter of the configuration, and the audit log. Returns the
/// counts of repeated messages, which the caller must write with [`Repeats::report`], and the audit log, for [`Audit::report`].
///
/// # Errors
///
/// [`NoLogs`].
pub fn start(config: &Config) -> Result<(Repeats, Option<Audit>), NoLogs> {
    let filter = config.set.log.parse::<Targets>();
    let filter = filter.map_err(|source| NoLogs::BadFilter { filter: config.set.log.clone(), source })?;
    // The audit log is complete, whatever the filter says, and the other log does not repeat it.
    let filter = filter.with_target(audit::TARGET, LevelFilter::OFF);
    let repeats = Repeats::default();
    let logs = layer(config.set.log_format, std::io::stderr().is_terminal(), std::io::stderr, repeats.clone());
    let open = |to| {
        Audit::open(to, config.audit_rotation(), config.set.audit_required).map_err(|source| unwritable(to, source))
    };
    let audit = config.audit.as_ref().map(open).transpose()?;
    tracing_subscriber::registry().with(logs.with_filter(filter)).with(audit.clone()).init();
    Ok((repeats, audit))
}

/// Opens the audit log of a command that is not a daemon, and writes it until the process ends.
///
/// # Errors
///
/// [`NoLogs`] if the file cannot be opened.
pub fn start_audit(to: &AuditTo, rotation: Rotation) -> Result<Audit, NoLogs> {
    let audit = Audit::open(to, rotation, true).map_err(|source| unwritable(to, source))?;
    tracing_subscriber::registry().with(audit.clone()).init();
    Ok(audit)
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
