//! The client for the given endpoints, and requests with a deadline.

use std::env;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use kent_client::tonic::Request;
use kent_client::tonic::metadata::{Ascii, MetadataValue};
use kent_client::{Client, ConfigError};

/// The address on which a daemon listens by default.
pub(crate) const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:7600";

/// The time a daemon has to accept a connection before the client tries the next endpoint.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The deadline of a call by default.
pub(crate) const DEFAULT_TIMEOUT: &str = "10s";

/// The deadline of a call. The client sends it along, so that the daemon can wait for its clock or its store until then.
static CALL_TIMEOUT: OnceLock<Duration> = OnceLock::new();

/// The number of deadlines for which a request is retried once a daemon has answered, because replicas and stores may restart.
const DEADLINES_PER_REQUEST: u32 = 3;

/// Endpoints separated by commas, from which a client can be built.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints(String);

impl FromStr for Endpoints {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let endpoints = Self(text.to_owned());
        endpoints.client(Duration::from_secs(1)).map(|_| endpoints)
    }
}

impl Endpoints {
    /// A client that tries these endpoints in order, and gives each call this time.
    pub(crate) fn client(&self, timeout: Duration) -> Result<Client, ConfigError> {
        let settings = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT.min(timeout))
            .attempt_timeout(timeout)
            .request_timeout(timeout.saturating_mul(DEADLINES_PER_REQUEST));
        self.0.split(',').fold(settings, |settings, endpoint| settings.endpoint(endpoint.trim())).build()
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

/// Sets the deadline of all requests of this process. Only the first call counts.
pub(crate) fn set_timeout(timeout: Duration) {
    CALL_TIMEOUT.get_or_init(|| timeout);
}

/// The deadline of a call.
pub(crate) fn call_timeout() -> Duration {
    CALL_TIMEOUT.get().copied().unwrap_or(TIMEOUT_BEFORE_ARGUMENTS)
}

/// The time for which a request is retried.
pub(crate) fn request_timeout() -> Duration {
    call_timeout().saturating_mul(DEADLINES_PER_REQUEST)
}

/// A request with a deadline.
pub(crate) fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(call_timeout());
    if let Some(user) = user() {
        request.metadata_mut().insert("kent-principal", user);
    }
    request
}

/// The name of the user, for the history of a table, if it is valid as metadata.
fn user() -> Option<MetadataValue<Ascii>> {
    let name = env::var("KENT_PRINCIPAL").or_else(|_| env::var("USER")).ok()?;
    name.parse().ok().filter(|_| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_endpoints_are_separated_by_commas() {
        for endpoints in ["http://127.0.0.1:7600", "127.0.0.1:7600", "a:1, http://b:2", "[::1]:7600"] {
            assert!(endpoints.parse::<Endpoints>().is_ok(), "{endpoints}");
        }
        for endpoints in ["a", "a:1,", "https://a:1", ""] {
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
