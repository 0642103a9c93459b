//! Finding a daemon that answers.

use std::env;
use std::str::FromStr;
use std::time::Duration;

use kent_proto::v1::admin_client::AdminClient;
use kent_proto::v1::allocator_client::AllocatorClient;
use kent_proto::v1::regions_client::RegionsClient;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};

use crate::failure::{Failure, innermost};

/// Where a daemon listens unless it is told otherwise.
pub(crate) const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:7600";

/// How long a daemon may take to accept a connection; beyond it, the next endpoint is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a call may take. The daemon is told, so that it can wait for its clock or its store meanwhile.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A page of a thousand regions of 128-bit spaces with long histories stays far below this.
const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Where daemons may be found, in the order in which to try them: at least one.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints(Vec<Endpoint>);

impl FromStr for Endpoints {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // An empty variable of the environment is as good as none.
        let text = if text.is_empty() { DEFAULT_ENDPOINT } else { text };
        text.split(',').map(|part| endpoint(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

fn endpoint(text: &str) -> Result<Endpoint, String> {
    const WRITTEN: &str = "an endpoint is written HOST:PORT or http://HOST:PORT, such as 127.0.0.1:7600";
    if text.starts_with("https:") {
        return Err(format!("{text:?}: this kent speaks http only; for TLS put a proxy beside it"));
    }
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let endpoint = Endpoint::from_shared(url).map_err(|_| format!("{text:?}: {WRITTEN}"))?;
    let uri = endpoint.uri();
    if uri.scheme_str() != Some("http") || uri.host().is_none_or(str::is_empty) || uri.port_u16().is_none() {
        return Err(format!("{text:?}: {WRITTEN}"));
    }
    Ok(endpoint.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true))
}

impl Endpoints {
    /// Connects to the first endpoint that answers.
    pub(crate) async fn connect(&self) -> Result<Daemon, Failure> {
        let mut tried = Vec::new();
        for endpoint in &self.0 {
            match endpoint.connect().await {
                Ok(channel) => return Ok(Daemon { channel }),
                Err(error) => tried.push((endpoint.uri().to_string(), innermost(&error))),
            }
        }
        Err(Failure::NoDaemon { tried })
    }

    /// Moves the first endpoint to the end, after it failed.
    pub(crate) fn rotate(&mut self) {
        self.0.rotate_left(1);
    }
}

/// A daemon that answered.
#[derive(Clone, Debug)]
pub(crate) struct Daemon {
    channel: Channel,
}

impl Daemon {
    pub(crate) fn allocator(&self) -> AllocatorClient<Channel> {
        AllocatorClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub(crate) fn regions(&self) -> RegionsClient<Channel> {
        RegionsClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub(crate) fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
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
    fn ok_endpoints() {
        for (text, expected) in [
            ("http://127.0.0.1:7600", vec!["http://127.0.0.1:7600/"]),
            ("127.0.0.1:7600", vec!["http://127.0.0.1:7600/"]),
            ("a:1, http://b:2", vec!["http://a:1/", "http://b:2/"]),
            ("", vec!["http://127.0.0.1:7600/"]),
            ("[::1]:7600", vec!["http://[::1]:7600/"]),
        ] {
            let endpoints: Endpoints = text.parse().expect(text);
            let found: Vec<_> = endpoints.0.iter().map(|endpoint| endpoint.uri().to_string()).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn err_endpoints() {
        for text in ["a", "a:1,", "https://a:1", "ftp://a:1", "a:99999", ":7600", "a b:1"] {
            assert!(text.parse::<Endpoints>().is_err(), "{text}");
        }
    }
}
