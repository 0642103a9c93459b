//! Finding a daemon that answers.

use std::env;
use std::time::Duration;

use kent_client::tonic::Request;
use kent_client::tonic::metadata::{Ascii, MetadataValue};
use kent_client::{Client, ConfigError};

/// Where a daemon listens unless it is told otherwise.
pub(crate) const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:7600";

/// How long a daemon may take to accept a connection; beyond it, the next endpoint is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a call may take. The daemon is told, so that it can wait for its clock or its store meanwhile.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to put up with a source that grants nothing once a daemon has answered: replicas and stores come back.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client of these endpoints, which are separated by commas, in the order in which to try them.
pub(crate) fn client(endpoints: &str) -> Result<Client, ConfigError> {
    let settings =
        Client::builder().connect_timeout(CONNECT_TIMEOUT).attempt_timeout(CALL_TIMEOUT).request_timeout(PATIENCE);
    // An empty variable of the environment is as good as none.
    let endpoints = if endpoints.is_empty() { DEFAULT_ENDPOINT } else { endpoints };
    endpoints.split(',').fold(settings, |settings, endpoint| settings.endpoint(endpoint.trim())).build()
}

/// A request with a deadline.
pub(crate) fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    if let Some(user) = user() {
        request.metadata_mut().insert("kent-principal", user);
    }
    request
}

/// Who is at the terminal, for the history of a table; as far as the name can be sent.
fn user() -> Option<MetadataValue<Ascii>> {
    let name = env::var("KENT_PRINCIPAL").or_else(|_| env::var("USER")).ok()?;
    name.parse().ok().filter(|_| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_endpoints_are_separated_by_commas() {
        for endpoints in ["http://127.0.0.1:7600", "127.0.0.1:7600", "a:1, http://b:2", "", "[::1]:7600"] {
            assert!(client(endpoints).is_ok(), "{endpoints}");
        }
        for endpoints in ["a", "a:1,", "https://a:1"] {
            assert!(client(endpoints).is_err(), "{endpoints}");
        }
    }
}
