//! Structured logs on standard error.

use std::io::IsTerminal;

use thiserror::Error;
use tracing_subscriber::EnvFilter;

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
    let filter =
        EnvFilter::try_new(&config.set.log).map_err(|source| BadFilter { filter: config.set.log.clone(), source })?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let logs = logs.with_ansi(std::io::stderr().is_terminal());
    match config.set.log_format {
        LogFormat::Text => logs.init(),
        LogFormat::Json => logs.json().init(),
    }
    Ok(())
}
