//! Structured logs on standard error.

use std::io::IsTerminal;

use thiserror::Error;
use tracing_subscriber::{Layer, filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{Config, LogFormat};

/// The log filter cannot be understood.
#[derive(Debug, Error)]
#[error("log is {filter:?}, which is not a filter such as `info` or `kentd=debug,tonic=warn`")]
pub struct BadFilter {
    filter: String,
    #[source]
    source: tracing_subscriber::filter::ParseError,
}

/// Sends the process's logs to standard error, in the form and with the filter that the configuration names.
///
/// # Errors
///
/// [`BadFilter`] if the filter cannot be understood.
pub fn start(config: &Config) -> Result<(), BadFilter> {
    let filter: Targets =
        config.set.log.parse().map_err(|source| BadFilter { filter: config.set.log.clone(), source })?;
    let logs = fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let logs = match config.set.log_format {
        LogFormat::Text => logs.boxed(),
        LogFormat::Json => logs.json().boxed(),
    };
    tracing_subscriber::registry().with(logs.with_filter(filter)).init();
    Ok(())
}
