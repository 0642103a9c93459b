//! Structured logs on standard error.

use std::io::IsTerminal;

use thiserror::Error;
use tracing_subscriber::{Layer, filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{Config, LogFormat};

/// The log filter is not valid.
#[derive(Debug, Error)]
#[error("log is {filter:?}, but must be a filter such as `info` or `kentd=debug,tonic=warn`")]
pub struct BadFilter {
    filter: String,
    #[source]
    source: tracing_subscriber::filter::ParseError,
}

/// Writes the process's logs to standard error, with the format and the filter of the configuration.
///
/// # Errors
///
/// [`BadFilter`] if the filter is not valid.
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
