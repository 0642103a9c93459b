//! The settings of a client, which are checked when the client is built.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use kent_tls::{Certificates, Pem, Pems, Target};
use thiserror::Error;
use tonic::transport::Endpoint;

use crate::{
    Client,
    credentials::{Credentials, TokenFrom},
};

/// Builds a client. Each setter replaces one default.
///
/// ```
/// use std::time::Duration;
///
/// use kent_client::Client;
///
/// # fn main() -> Result<(), kent_client::ConfigError> {
/// let client = Client::builder()
///     .endpoint("10.0.0.7:7600")
///     .endpoint("10.0.0.8:7600")
///     .block_size(100)
///     .request_timeout(Duration::from_secs(3))
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    endpoints: Vec<String>,
    pems: Pems,
    token: Option<TokenFrom>,
    allow_plain_token: bool,
    settings: Settings,
}

/// The settings that the other modules use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) connect_timeout: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) block_size: u64,
    pub(crate) block_size_max: u64,
    pub(crate) low_water: f64,
    pub(crate) max_age: Duration,
    pub(crate) discover: bool,
    pub(crate) follow_heirs: bool,
    /// Whether calls carry a token that others on the network must not read.
    pub(crate) needs_privacy: bool,
}

impl Default for Builder {
    fn default() -> Self {
        let settings = Settings {
            connect_timeout: Duration::from_secs(2),
            attempt_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(10),
            block_size: 1000,
            block_size_max: 1_000_000,
            low_water: 0.5,
            max_age: Duration::from_secs(10),
            discover: false,
            follow_heirs: false,
            needs_privacy: false,
        };
        Self { endpoints: Vec::new(), pems: Pems::default(), token: None, allow_plain_token: false, settings }
    }
}

/// Returns the address of an endpoint with TLS.
fn secure(endpoint: &str) -> String {
    format!("https://{}", endpoint.trim_start_matches("http://"))
}

/// An error from [`Builder::build`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No endpoint was set.
    #[error("there is no endpoint; add at least one, such as http://127.0.0.1:7600")]
    NoEndpoint,
    /// An endpoint is not a valid address.
    #[error(
        "{endpoint:?} is not an endpoint: it must be HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:PATH, such as 127.0.0.1:7600"
    )]
    #[non_exhaustive]
    BadEndpoint {
        /// The endpoint that was set.
        endpoint: String,
    },
    /// An endpoint does not use TLS, although another endpoint or a certificate requires it.
    #[error(
        "{endpoint:?} does not use TLS, but another endpoint or a certificate requires it; use https:// for all endpoints, such as {}",
        secure(endpoint)
    )]
    #[non_exhaustive]
    NoTls {
        /// The endpoint that was set.
        endpoint: String,
    },
    /// A certificate or the key cannot be used.
    #[error("the certificates cannot be used: {problem}")]
    #[non_exhaustive]
    BadCertificate {
        /// The problem with the certificates or the key.
        problem: String,
    },
    /// The token cannot be used.
    #[error("the token cannot be used: {problem}")]
    #[non_exhaustive]
    BadToken {
        /// The problem, without the token itself.
        problem: String,
    },
    /// A token would be sent to another machine without TLS.
    #[error(
        "{endpoint:?} is on another machine and without TLS, so others could read the token on the way; use https://, or allow_plain_token (kent --allow-plain-token) on a network that you trust"
    )]
    #[non_exhaustive]
    PlainToken {
        /// The endpoint that was set.
        endpoint: String,
    },
    /// A value is outside its range.
    #[error("{setting} must be {allowed}")]
    #[non_exhaustive]
    OutOfRange {
        /// The setting.
        setting: &'static str,
        /// The allowed values.
        allowed: &'static str,
    },
}

impl Builder {
    /// Adds an endpoint: HOST:PORT, http://HOST:PORT, https://HOST:PORT, or unix:PATH for the socket of a daemon on
    /// this machine. The client uses the first endpoint, and switches to another one if that endpoint fails.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoints.push(endpoint.into());
        self
    }

    /// Sets the certificates of the CAs that verify daemons, as PEM [default: those of the system, for `https://`
    /// endpoints]. Endpoints without a scheme then use TLS.
    pub fn ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.pems.ca = Some(Pem::Text(pem.into()));
        self
    }

    /// Like [`ca`](Self::ca), but from a file. The client reads the file again for every new connection.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.pems.ca = Some(Pem::File(path.into()));
        self
    }

    /// Sets the client's certificate and private key, as PEM, for daemons that require a certificate. Endpoints without
    /// a scheme then use TLS.
    pub fn identity(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.pems.identity = Some((Pem::Text(certificate.into()), Pem::Text(key.into())));
        self
    }

    /// Like [`identity`](Self::identity), but from files. The client reads the files again for every new connection, so
    /// it needs no restart if you replace them before the certificate expires. If a certificate and key do not match,
    /// the previous pair stays in use.
    pub fn identity_files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.pems.identity = Some((Pem::File(certificate.into()), Pem::File(key.into())));
        self
    }

    /// Sets the token to send with each call, `kent_ID_SECRET`. The token is sent to other machines only over TLS.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(TokenFrom::Text(token.into()));
        self
    }

    /// Sets the file with the token to send with each call. The client reads the file again within a second of a
    /// change, and also when a daemon rejects the token, so you can replace the token while the program runs.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token = Some(TokenFrom::File(path.into()));
        self
    }

    /// Allows a token to be sent to other machines without TLS, where others on the network can read it [default: false].
    pub fn allow_plain_token(mut self, allow: bool) -> Self {
        self.allow_plain_token = allow;
        self
    }

    /// Sets the timeout of one attempt to connect [default: 2 s].
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// Sets the timeout of one attempt of a call, after which the client tries another endpoint [default: 2 s].
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.settings.attempt_timeout = timeout;
        self
    }

    /// Sets the timeout of a call, including all its attempts [default: 10 s].
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.request_timeout = timeout;
        self
    }

    /// Sets the initial and smallest number of identifiers in a prefetched block [default: 1000]. A handle doubles its
    /// block size when a block lasts less than a second, and halves it when a block lasts more than ten seconds.
    pub fn block_size(mut self, count: u64) -> Self {
        self.settings.block_size = count;
        self
    }

    /// Sets the largest number of identifiers in a prefetched block [default: 1,000,000].
    pub fn block_size_max(mut self, count: u64) -> Self {
        self.settings.block_size_max = count;
        self
    }

    /// Sets the share of a block, from 0 to 1, that is left when a handle prefetches the next one [default: 0.5].
    pub fn low_water(mut self, share: f64) -> Self {
        self.settings.low_water = share;
        self
    }

    /// Sets the largest age of a prefetched time-based identifier [default: 10 s]. A handle discards older identifiers.
    /// This limits how far a timestamp lies behind the time at which the identifier is taken. The age also grows while
    /// the process is stopped and while the machine sleeps. The identifiers of regions do not age.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.settings.max_age = age;
        self
    }

    /// Enables discovery: the client asks a daemon for the other replicas every 30 seconds, and fails over to them
    /// [default: false]. The addresses that the replicas advertise must be reachable.
    pub fn discover(mut self, discover: bool) -> Self {
        self.settings.discover = discover;
        self
    }

    /// Sets whether handles follow heirs [default: false]. When a region closes, its all-zero subregion continues its
    /// numbers as the heir, and requests for the region are refused ([`Error::heir`](crate::Error::heir)). A handle
    /// that follows heirs, and its clones, then take their blocks from the heir. A block with a request ID never comes
    /// from an heir, because a request ID belongs to one region.
    pub fn follow_heirs(mut self, follow: bool) -> Self {
        self.settings.follow_heirs = follow;
        self
    }

    /// Checks the form of an endpoint, such as one that a user has typed, before the certificates are known.
    ///
    /// # Errors
    ///
    /// [`ConfigError::BadEndpoint`].
    pub fn check_endpoint(endpoint: &str) -> Result<(), ConfigError> {
        match is_socket(endpoint) {
            true => Target::unix(endpoint, |endpoint| endpoint)
                .map(drop)
                .map_err(|_| ConfigError::BadEndpoint { endpoint: endpoint.to_owned() }),
            false => parse_address(endpoint, "http").map(drop),
        }
    }

    /// Builds the client, without connecting yet.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for the first setting that is not valid.
    pub fn build(mut self) -> Result<Client, ConfigError> {
        self.settings.check()?;
        if self.endpoints.is_empty() {
            return Err(ConfigError::NoEndpoint);
        }
        let tls = self.tls()?;
        let credentials = self.token.as_ref().map(Credentials::read).transpose();
        let credentials = credentials.map_err(|problem| ConfigError::BadToken { problem })?;
        self.settings.needs_privacy = credentials.is_some() && !self.allow_plain_token;
        let endpoints: Result<Vec<Target>, _> =
            self.endpoints.iter().map(|endpoint| parse(endpoint, tls.as_ref(), &self.settings)).collect();
        Ok(Client::with(endpoints?, tls, credentials.unwrap_or_default(), self.settings))
    }

    /// Returns the certificates, if any are set or an endpoint requires TLS.
    fn tls(&self) -> Result<Option<Certificates>, ConfigError> {
        let is_tls = |endpoint: &String| endpoint.starts_with("https:");
        if self.pems.ca.is_none() && self.pems.identity.is_none() && !self.endpoints.iter().any(is_tls) {
            return Ok(None);
        }
        let bad = |error| ConfigError::BadCertificate { problem: format!("{error}") };
        Certificates::open(self.pems.clone()).map(Some).map_err(bad)
    }
}

impl Settings {
    fn check(&self) -> Result<(), ConfigError> {
        let sizes = 1..=self.block_size_max;
        let positive = |timeout: Duration| timeout > Duration::ZERO;
        check("connect_timeout", "more than 0", positive(self.connect_timeout))?;
        check("attempt_timeout", "more than 0", positive(self.attempt_timeout))?;
        check("request_timeout", "more than 0", positive(self.request_timeout))?;
        check("block_size", "1 to block_size_max", sizes.contains(&self.block_size))?;
        check("block_size_max", "at most 1000000000", self.block_size_max <= 1_000_000_000)?;
        check("low_water", "0 to 1", (0.0..=1.0).contains(&self.low_water))?;
        check("max_age", "more than 0", positive(self.max_age))
    }
}

fn check(setting: &'static str, allowed: &'static str, within: bool) -> Result<(), ConfigError> {
    if within { Ok(()) } else { Err(ConfigError::OutOfRange { setting, allowed }) }
}

/// Parses an endpoint. An endpoint without a scheme uses TLS if the client does.
pub(crate) fn parse(endpoint: &str, tls: Option<&Certificates>, settings: &Settings) -> Result<Target, ConfigError> {
    let set = |endpoint: Endpoint| {
        let endpoint = endpoint.connect_timeout(settings.connect_timeout).tcp_nodelay(true);
        endpoint.http2_keep_alive_interval(KEEP_ALIVE)
    };
    let bad = || ConfigError::BadEndpoint { endpoint: endpoint.to_owned() };
    if is_socket(endpoint) {
        return Target::unix(endpoint, set).map_err(|_| bad());
    }
    let parsed = parse_address(endpoint, if tls.is_some() { "https" } else { "http" })?;
    if settings.needs_privacy && tls.is_none() && !is_here(&parsed) {
        return Err(ConfigError::PlainToken { endpoint: endpoint.to_owned() });
    }
    match (parsed.uri().scheme_str(), tls) {
        (Some("http"), Some(_)) => Err(ConfigError::NoTls { endpoint: endpoint.to_owned() }),
        (_, Some(tls)) => Target::secure(parsed.uri(), tls, settings.connect_timeout, set).map_err(|_| bad()),
        (_, None) => Ok(Target::plain(set(parsed))),
    }
}

/// Returns whether an endpoint is on this machine.
fn is_here(endpoint: &Endpoint) -> bool {
    let host = endpoint.uri().host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Returns whether an endpoint is a Unix socket.
fn is_socket(endpoint: &str) -> bool {
    endpoint.starts_with("unix:")
}

/// Parses the address of an endpoint. An address without a scheme gets `scheme`.
fn parse_address(endpoint: &str, scheme: &str) -> Result<Endpoint, ConfigError> {
    let bad = || ConfigError::BadEndpoint { endpoint: endpoint.to_owned() };
    let with_scheme = if endpoint.contains("://") { endpoint.to_owned() } else { format!("{scheme}://{endpoint}") };
    let parsed = Endpoint::from_shared(with_scheme).map_err(|_| bad())?;
    let uri = parsed.uri();
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    match is_http && uri.host().is_some_and(|host| !host.is_empty()) && uri.port_u16().is_some() {
        true => Ok(parsed),
        false => Err(bad()),
    }
}

/// The interval of HTTP/2 keepalive probes, which detect dead connections.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_err(builder: Builder, expected: &str) {
        let error = builder.build().expect_err("must be refused").to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn err_every_bad_setting_is_named() {
        let good = || Client::builder().endpoint("127.0.0.1:7600");
        check_err(Client::builder(), "no endpoint");
        for endpoint in ["", "a", "http://", "not an address", "ftp://a:1", "a:99999", ":7600", "a b:1", "unix:"] {
            check_err(Client::builder().endpoint(endpoint), "it must be HOST:PORT");
        }
        check_err(Client::builder().endpoint("https://a:1").endpoint("http://b:1"), "use https://");
        check_err(good().ca("not PEM"), "the certificates cannot be used: the CAs: the text is not in PEM");
        check_err(good().identity("not PEM", ""), "the certificates cannot be used: ");
        check_err(good().ca_file("/absent/ca"), "cannot read /absent/ca, the file with the CAs: ");
        check_err(good().block_size(0), "block_size must be 1 to");
        check_err(good().block_size(10).block_size_max(9), "block_size must be 1 to");
        check_err(good().low_water(1.5), "low_water must be 0 to 1");
        check_err(good().low_water(f64::NAN), "low_water must be 0 to 1");
        check_err(good().max_age(Duration::ZERO), "max_age");
        check_err(good().request_timeout(Duration::ZERO), "request_timeout");
    }

    #[test]
    fn err_a_token_leaves_the_machine_only_under_tls() {
        let with = |endpoint: &str| Client::builder().endpoint(endpoint).token("kent_a_SECRET");
        for endpoint in [
            "127.0.0.1:7600",
            "localhost:7600",
            "http://[::1]:7600",
            "https://kent.example:7600",
            "unix:/run/kent.sock",
        ] {
            with(endpoint).build().expect(endpoint);
        }
        for endpoint in ["10.0.0.7:7600", "http://kent.example:7600", "localhost.example:7600"] {
            check_err(with(endpoint), "is on another machine and without TLS");
            with(endpoint).allow_plain_token(true).build().expect(endpoint);
        }
        check_err(with("127.0.0.1:7600").endpoint("10.0.0.7:7600"), "is on another machine and without TLS");
        let shown = format!("{:?} {:?}", with("127.0.0.1:7600"), with("127.0.0.1:7600").build());
        assert!(!shown.contains("SECRET"), "{shown}");
    }

    #[test]
    fn ok_endpoints() {
        let settings = Builder::default().settings;
        for (text, expected) in [
            ("http://127.0.0.1:7600", "http://127.0.0.1:7600/"),
            ("127.0.0.1:7600", "http://127.0.0.1:7600/"),
            ("[::1]:7600", "http://[::1]:7600/"),
            ("kent.example:80", "http://kent.example:80/"),
            ("unix:/run/kent/kent.sock", "unix:/run/kent/kent.sock"),
        ] {
            assert_eq!(parse(text, None, &settings).expect(text).address(), expected, "{text}");
        }
    }

    #[test]
    fn ok_building_a_client_needs_no_runtime_and_no_daemon() {
        let client = Client::builder().endpoint("127.0.0.1:1").endpoint("http://localhost:2").build().expect("valid");
        assert_eq!(client.uuid_v7().try_next(), None);
    }
}
