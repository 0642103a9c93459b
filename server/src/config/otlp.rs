//! The settings for traces: the collector, and how to connect to it.

use std::time::Duration;

use kent_tls::{Certificates, Pem, Pems, Target};
use tonic::{codegen::http::Uri, transport::Endpoint};

use super::{ConfigError, Settings};

/// The time limit for connecting to the collector, including the handshake.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// A collector of traces.
#[derive(Clone, Debug)]
pub struct Collector {
    /// The server to connect to.
    pub(crate) target: Target,
}

/// Returns the collector that the settings name.
pub(super) fn collector(settings: &Settings, ratio: f64) -> Result<Option<Collector>, ConfigError> {
    const OTLP: &str = "otlp (--otlp http://127.0.0.1:4317)";
    let needs = |setting, needed| Err(ConfigError::Needs { setting, needed });
    let Some(url) = &settings.otlp else {
        return match (&settings.otlp_ca, ratio > 0.0) {
            (Some(_), _) => needs("otlp-ca", OTLP),
            (None, true) => needs("trace-ratio", OTLP),
            (None, false) => Ok(None),
        };
    };
    let bad = || ConfigError::OutOfRange {
        setting: "otlp".to_owned(),
        value: format!("{url:?}"),
        allowed: "http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:4317".to_owned(),
    };
    let uri: Uri = url.parse().map_err(|_| bad())?;
    let has_host = uri.host().is_some_and(|host| !host.is_empty()) && matches!(uri.path(), "" | "/");
    let settings_of = |endpoint: Endpoint| endpoint.connect_timeout(CONNECT_MAX);
    let target = match (uri.scheme_str(), &settings.otlp_ca) {
        (Some("http"), Some(_)) => return needs("otlp-ca", "an https:// address in otlp"),
        (Some("http"), None) if has_host => Target::plain(settings_of(Endpoint::from(uri))),
        (Some("https"), ca) if has_host => {
            let pems = Pems { ca: ca.clone().map(Pem::File), identity: None };
            let certificates = Certificates::open(pems).map_err(ConfigError::CollectorTls)?;
            Target::secure(&uri, &certificates, CONNECT_MAX, settings_of).map_err(|_| bad())?
        }
        _ => return Err(bad()),
    };
    Ok(Some(Collector { target }))
}
