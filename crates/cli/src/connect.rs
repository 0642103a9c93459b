//! The client for the given endpoints, and requests with a deadline.

use std::env;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use clap::Args;
use kent_client::tonic::Request;
use kent_client::tonic::metadata::{Ascii, MetadataValue};
use kent_client::{Builder, Client, ConfigError};

use crate::files::{BadFile, Named, Source};

/// The address on which a daemon listens by default.
pub(crate) const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:7600";

/// The time a daemon has to accept a connection before the client tries the next endpoint.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The default deadline of a call.
pub(crate) const DEFAULT_TIMEOUT: &str = "10s";

/// The deadline of a call. The client sends the deadline with the call, so that the daemon can wait for its clock or
/// its store until then.
static CALL_TIMEOUT: OnceLock<Duration> = OnceLock::new();

/// Set if the client has a certificate, for messages.
static CERTIFICATE: OnceLock<()> = OnceLock::new();

/// The token file in use and the setting that names it, for messages.
static TOKEN_ORIGIN: OnceLock<String> = OnceLock::new();

/// How long a request is retried once a daemon has answered, as a multiple of the deadline of a call. A replica or a
/// store can restart in that time.
const DEADLINES_PER_REQUEST: u32 = 3;

/// Endpoints separated by commas, from which a client can be built.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints(String);

/// The certificate files for TLS, and the token file.
#[derive(Debug, Default, Args)]
pub(crate) struct Credentials {
    /// Verify daemons against the CAs in this PEM file; addresses without a scheme then use TLS [default: the CAs of
    /// the system, for https:// addresses].
    #[arg(long, global = true, env = "KENT_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Present the certificate in this PEM file to daemons that ask for one. The files of --ca, --cert and --key are
    /// read again for every new connection.
    #[arg(long, global = true, env = "KENT_CERT", value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// The PEM file with the private key of --cert.
    #[arg(long, global = true, env = "KENT_KEY", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Send the token in this file, from `kent token create`, with each call. The token is sent to other machines only
    /// over TLS.
    #[arg(long, global = true, env = "KENT_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Send the token to other machines even without TLS. Anyone on the network path can read it.
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) allow_plain_token: bool,
}

/// Reasons why a client cannot be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unconnectable {
    #[error(transparent)]
    File(#[from] BadFile),
    #[error("--cert and --key must be given together, but only {named} is given: add --{missing} FILE{}", named.advice())]
    Half { named: Named, missing: &'static str },
    #[error(transparent)]
    Settings(#[from] ConfigError),
}

impl FromStr for Endpoints {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        text.split(',')
            .try_for_each(|endpoint| Builder::check_endpoint(endpoint.trim()))
            .map(|()| Self(text.to_owned()))
    }
}

impl Endpoints {
    /// Returns a client that tries these endpoints in order. `timeout` is the deadline of each call. `source` returns
    /// where the path of a setting was given.
    pub(crate) fn client(
        &self,
        credentials: &Credentials,
        timeout: Duration,
        source: impl Fn(&str) -> Source,
    ) -> Result<Client, Unconnectable> {
        let settings = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT.min(timeout))
            .attempt_timeout(timeout)
            .request_timeout(timeout.saturating_mul(DEADLINES_PER_REQUEST));
        let settings = self.0.split(',').fold(settings, |settings, endpoint| settings.endpoint(endpoint.trim()));
        Ok(credentials.add_to(settings, source)?.build()?)
    }
}

impl Credentials {
    /// Returns the files with the names of their settings.
    fn files(&self) -> [(&'static str, Option<&Path>); 4] {
        let Self { ca, cert, key, token_file, .. } = self;
        [("ca", ca), ("cert", cert), ("key", key), ("token-file", token_file)]
            .map(|(setting, path)| (setting, path.as_deref()))
    }

    fn add_to(&self, mut settings: Builder, source: impl Fn(&str) -> Source) -> Result<Builder, Unconnectable> {
        let named = |setting| Named { setting, source: source(setting) };
        for (setting, path) in self.files() {
            path.map_or(Ok(()), |path| named(setting).check(path))?;
        }
        if let Some(ca) = &self.ca {
            settings = settings.ca_file(ca);
        }
        if let Some(file) = &self.token_file {
            TOKEN_ORIGIN.get_or_init(|| named("token-file").origin(file));
            settings = settings.token_file(file).allow_plain_token(self.allow_plain_token);
        }
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                CERTIFICATE.get_or_init(|| ());
                Ok(settings.identity_files(cert, key))
            }
            (None, None) => Ok(settings),
            (Some(_), None) => Err(Unconnectable::Half { named: named("cert"), missing: "key" }),
            (None, Some(_)) => Err(Unconnectable::Half { named: named("key"), missing: "cert" }),
        }
    }
}

/// Parses a deadline, such as 10s or 1m 30s.
pub(crate) fn parse_timeout(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time >= TIMEOUT_MIN && time <= TIMEOUT_MAX => Ok(time),
        _ => Err("a timeout is a time from 1ms to 1h, such as 500ms, 10s or 2m".to_owned()),
    }
}

/// The deadline of a call before the arguments are known.
const TIMEOUT_BEFORE_ARGUMENTS: Duration = Duration::from_secs(10);
const TIMEOUT_MIN: Duration = Duration::from_millis(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// Returns whether the client has a certificate.
pub(crate) fn has_certificate() -> bool {
    CERTIFICATE.get().is_some()
}

/// Returns the token file in use and the setting that names it.
pub(crate) fn token_origin() -> Option<&'static str> {
    TOKEN_ORIGIN.get().map(String::as_str)
}

/// Sets the deadline of all requests of this process. Later calls have no effect.
pub(crate) fn set_timeout(timeout: Duration) {
    CALL_TIMEOUT.get_or_init(|| timeout);
}

/// The deadline of a call.
pub(crate) fn call_timeout() -> Duration {
    CALL_TIMEOUT.get().copied().unwrap_or(TIMEOUT_BEFORE_ARGUMENTS)
}

/// Returns how long a request is retried.
pub(crate) fn request_timeout() -> Duration {
    call_timeout().saturating_mul(DEADLINES_PER_REQUEST)
}

/// Returns a request with the deadline of a call and the name of the user.
pub(crate) fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(call_timeout());
    if let Some(user) = user() {
        request.metadata_mut().insert("kent-principal", user);
    }
    request
}

/// Returns the name of the user, for the history of a table, if it is valid as metadata.
fn user() -> Option<MetadataValue<Ascii>> {
    let name = env::var("KENT_PRINCIPAL").or_else(|_| env::var("USER")).ok()?;
    name.parse().ok().filter(|_| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_endpoints_are_separated_by_commas() {
        for endpoints in ["http://127.0.0.1:7600", "127.0.0.1:7600", "a:1, http://b:2", "[::1]:7600", "https://a:1"] {
            assert!(endpoints.parse::<Endpoints>().is_ok(), "{endpoints}");
        }
        for endpoints in ["a", "a:1,", "https://a", ""] {
            assert!(endpoints.parse::<Endpoints>().is_err(), "{endpoints}");
        }
    }

    #[test]
    fn ok_and_err_timeouts() {
        for (text, expected) in [("10s", 10_000), ("1ms", 1), ("1m 30s", 90_000), ("1h", 3_600_000)] {
            assert_eq!(parse_timeout(text), Ok(Duration::from_millis(expected)), "{text}");
        }
        for text in ["", "10", "0s", "999us", "61m", "-1s", "10 parsecs"] {
            assert!(parse_timeout(text).is_err(), "{text}");
        }
    }
}
