//! The client for the given endpoints, and requests with a deadline.

use std::env;
use std::time::Duration;

use kent_client::tonic::Request;
use kent_client::tonic::metadata::{Ascii, MetadataValue};
use kent_client::{Client, ConfigError};

/// The address on which a daemon listens by default.
pub(crate) const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:7600";

/// The time a daemon has to accept a connection before the client tries the next endpoint.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The deadline of a call. The client sends it along, so that the daemon can wait for its clock or its store until then.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The time for which a request is retried once a daemon has answered, because replicas and stores may restart.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A client for endpoints separated by commas, which are tried in this order.
pub(crate) fn client(endpoints: &str) -> Result<Client, ConfigError> {
    let settings = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .attempt_timeout(CALL_TIMEOUT)
        .request_timeout(REQUEST_TIMEOUT);
    // An empty KENT_ENDPOINT counts as unset.
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
        for endpoints in ["http://127.0.0.1:7600", "127.0.0.1:7600", "a:1, http://b:2", "", "[::1]:7600"] {
            assert!(client(endpoints).is_ok(), "{endpoints}");
        }
        for endpoints in ["a", "a:1,", "https://a:1"] {
            assert!(client(endpoints).is_err(), "{endpoints}");
        }
    }
}
