//! Structured logs on standard error.

use std::io::IsTerminal;

use thiserror::Error;
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};

/// The log filter cannot be understood.
#[derive(Debug, Error)]
#[error("log is {filter:?}, which is no filter such as `info` or `kentd=debug,tonic=warn`")]
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
