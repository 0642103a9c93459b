//! Structured logs on standard error.

mod repeats;

use std::io::IsTerminal;

use thiserror::Error;
use tracing::Subscriber;
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use self::repeats::Limited;
pub use self::repeats::Repeats;
use crate::config::{Config, LogFormat};

/// The log filter is not valid.
#[derive(Debug, Error)]
#[error("log is {filter:?}, but must be a filter such as `info` or `kentd=debug,tonic=warn`")]
pub struct BadFilter {
    filter: String,
    #[source]
    source: tracing_subscriber::filter::ParseError,
}

/// Writes the process's logs to standard error, with the format and the filter of the configuration. Returns the counts of
/// repeated messages, which the caller must write with [`Repeats::report`].
///
/// # Errors
///
/// [`BadFilter`] if the filter is not valid.
pub fn start(config: &Config) -> Result<Repeats, BadFilter> {
    let filter: Targets =
        config.set.log.parse().map_err(|source| BadFilter { filter: config.set.log.clone(), source })?;
    let repeats = Repeats::default();
    let logs = layer(config.set.log_format, std::io::stderr().is_terminal(), std::io::stderr, repeats.clone());
    tracing_subscriber::registry().with(logs.with_filter(filter)).init();
    Ok(repeats)
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
