//! Settings of a client, checked whole before anything is connected.

use std::time::Duration;

use thiserror::Error;
use tonic::transport::Endpoint;

use crate::Client;

/// Settings of a client. Every method replaces one default.
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
    settings: Settings,
}

/// The settings, as the other modules use them.
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
        };
        Self { endpoints: Vec::new(), settings }
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no endpoint.
    #[error("there is no endpoint; name at least one, such as http://127.0.0.1:7600")]
    NoEndpoint,
    /// An endpoint is no address.
    #[error("{endpoint:?}: an endpoint is written HOST:PORT or http://HOST:PORT, such as 127.0.0.1:7600")]
    #[non_exhaustive]
    BadEndpoint {
        /// What was given.
        endpoint: String,
    },
    /// An endpoint asks for TLS.
    #[error("{endpoint:?}: this kent speaks http only; for TLS put a proxy beside it")]
    #[non_exhaustive]
    Tls {
        /// What was given.
        endpoint: String,
    },
    /// A value is outside its range.
    #[error("{setting} must be {allowed}")]
    #[non_exhaustive]
    OutOfRange {
        /// The setting.
        setting: &'static str,
        /// What it may be.
        allowed: &'static str,
    },
}

impl Builder {
    /// Adds an endpoint. The first one is preferred; the others serve when it does not.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoints.push(endpoint.into());
        self
    }

    /// How long one connection attempt may take [default: 2 s].
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How long one attempt of a call may take before another endpoint is tried [default: 2 s].
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.settings.attempt_timeout = timeout;
        self
    }

    /// How long a call may take with all its attempts [default: 10 s].
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.request_timeout = timeout;
        self
    }

    /// How many identifiers a handle fetches at once in the beginning [default: 1000]. It fetches twice as many when a block
    /// lasts less than a second, and half as many when one lasts more than ten, never fewer than this.
    pub fn block_size(mut self, count: u64) -> Self {
        self.settings.block_size = count;
        self
    }

    /// How many identifiers a handle fetches at once at the most [default: 1,000,000].
    pub fn block_size_max(mut self, count: u64) -> Self {
        self.settings.block_size_max = count;
        self
    }

    /// The next block is fetched when less than this share of one is left, 0 to 1 [default: 0.5].
    pub fn low_water(mut self, share: f64) -> Self {
        self.settings.low_water = share;
        self
    }

    /// Time-based identifiers that were asked for longer ago than this are thrown away [default: 10 s]. It bounds how far an
    /// identifier's timestamp lies behind the moment at which it is taken, and counts while the process is stopped and while
    /// the machine sleeps. Regions' identifiers do not age.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.settings.max_age = age;
        self
    }

    /// Asks daemons now and then which other replicas there are, and uses those as well when the endpoints do not answer
    /// [default: false]. They must be reachable under the addresses that they advertise.
    pub fn discover(mut self, discover: bool) -> Self {
        self.settings.discover = discover;
        self
    }

    /// The client. Nothing is connected yet.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] naming the first setting that cannot be used.
    pub fn build(self) -> Result<Client, ConfigError> {
        self.settings.check()?;
        if self.endpoints.is_empty() {
            return Err(ConfigError::NoEndpoint);
        }
        let endpoints: Result<Vec<Endpoint>, _> =
            self.endpoints.iter().map(|endpoint| parse(endpoint, &self.settings)).collect();
        Ok(Client::with(endpoints?, self.settings))
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

pub(crate) fn parse(endpoint: &str, settings: &Settings) -> Result<Endpoint, ConfigError> {
    if endpoint.starts_with("https:") {
        return Err(ConfigError::Tls { endpoint: endpoint.to_owned() });
    }
    let bad = || ConfigError::BadEndpoint { endpoint: endpoint.to_owned() };
    let with_scheme = if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") };
    let parsed = Endpoint::from_shared(with_scheme).map_err(|_| bad())?;
    let uri = parsed.uri();
    if uri.scheme_str() != Some("http") || uri.host().is_none_or(str::is_empty) || uri.port_u16().is_none() {
        return Err(bad());
    }
    Ok(parsed.connect_timeout(settings.connect_timeout).tcp_nodelay(true).http2_keep_alive_interval(KEEP_ALIVE))
}

/// A connection that went dead without a word is noticed within this.
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
    fn err_each_bad_setting_is_named() {
        let good = || Client::builder().endpoint("127.0.0.1:7600");
        check_err(Client::builder(), "no endpoint");
        for endpoint in ["", "a", "http://", "not an address", "ftp://a:1", "a:99999", ":7600", "a b:1"] {
            check_err(Client::builder().endpoint(endpoint), "an endpoint is written HOST:PORT");
        }
        check_err(Client::builder().endpoint("https://a:1"), "http only");
        check_err(good().block_size(0), "block_size must be 1 to");
        check_err(good().block_size(10).block_size_max(9), "block_size must be 1 to");
        check_err(good().low_water(1.5), "low_water must be 0 to 1");
        check_err(good().low_water(f64::NAN), "low_water must be 0 to 1");
        check_err(good().max_age(Duration::ZERO), "max_age");
        check_err(good().request_timeout(Duration::ZERO), "request_timeout");
    }

    #[test]
    fn ok_endpoints() {
        let settings = Builder::default().settings;
        for (text, expected) in [
            ("http://127.0.0.1:7600", "http://127.0.0.1:7600/"),
            ("127.0.0.1:7600", "http://127.0.0.1:7600/"),
            ("[::1]:7600", "http://[::1]:7600/"),
            ("kent.example:80", "http://kent.example:80/"),
        ] {
            assert_eq!(parse(text, &settings).expect(text).uri().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn ok_a_client_needs_no_runtime_and_no_daemon_to_be_made() {
        let client = Client::builder().endpoint("127.0.0.1:1").endpoint("http://localhost:2").build().expect("valid");
        assert_eq!(client.uuid_v7().try_next(), None);
    }
}
