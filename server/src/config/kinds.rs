//! The types of settings that are neither numbers nor plain text.

use std::{fmt, net::SocketAddr, str::FromStr, time::Duration};

use kent_access::{BadLimit, Limits};
use kent_store::{BadAddress, EtcdAddress};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use thiserror::Error;

/// The place where the daemon stores its state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum StoreKind {
    /// The embedded database in the data directory.
    Sled,
    /// An etcd cluster.
    Etcd(EtcdAddress),
    /// Memory only: the state is lost when the process ends.
    Memory,
}

impl FromStr for StoreKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sled" => Ok(Self::Sled),
            "memory" => Ok(Self::Memory),
            _ if text.starts_with("etcd") => text.parse().map(Self::Etcd).map_err(|bad: BadAddress| bad.to_string()),
            _ => Err(format!("{text:?} is not a store: use `sled`, `memory` or etcd://HOST:PORT/PREFIX")),
        }
    }
}

impl TryFrom<String> for StoreKind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<StoreKind> for String {
    fn from(kind: StoreKind) -> Self {
        match kind {
            StoreKind::Sled => "sled".to_owned(),
            StoreKind::Memory => "memory".to_owned(),
            StoreKind::Etcd(address) => address.to_string(),
        }
    }
}

/// Whether callers must authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthMode {
    /// Callers need no credential, and may do everything.
    Off,
    /// Callers need a credential.
    Required,
}

impl FromStr for AuthMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "required" => Ok(Self::Required),
            _ => Err(format!("{text:?} is neither `off` nor `required`")),
        }
    }
}

/// The default limits of callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct CallerLimits(pub Limits);

impl FromStr for CallerLimits {
    type Err = BadLimit;

    fn from_str(text: &str) -> Result<Self, BadLimit> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for CallerLimits {
    type Error = BadLimit;

    fn try_from(text: String) -> Result<Self, BadLimit> {
        text.parse()
    }
}

impl From<CallerLimits> for String {
    fn from(limits: CallerLimits) -> Self {
        limits.0.to_string()
    }
}

/// How an archived store continues without its archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NoArchive {
    /// The daemon marks the archive as ended.
    Ended,
    /// The archive is lost permanently, so the store continues without marking it as ended.
    Lost,
}

impl FromStr for NoArchive {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ended" => Ok(Self::Ended),
            "lost" => Ok(Self::Lost),
            _ => Err("use --no-archive, or --no-archive=lost if the archive is lost permanently".to_owned()),
        }
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("use text or json".to_owned()),
        }
    }
}

/// Parses a number without a sign, in which underscores may group the digits: `1_000_000`.
pub(super) fn parse_whole<N: FromStr>(text: &str) -> Result<N, String> {
    ungrouped(text).parse().map_err(|_| "expected a whole number without a unit, such as 1_000_000".to_owned())
}

/// Removes each underscore between two digits.
pub(super) fn ungrouped(text: &str) -> String {
    let is_digit = |at: Option<usize>| at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
    let groups = |at: usize| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
    text.char_indices().filter(|&(at, char)| char != '_' || !groups(at)).map(|(_, char)| char).collect()
}

/// Parses the address of a port.
pub(super) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        bad_port(text).unwrap_or_else(|| {
            "expected IP:PORT, such as 127.0.0.1:7600 or [::1]:7600; host names are not accepted".to_owned()
        })
    })
}

/// Returns an error message about the port of an address, if only the port is wrong.
pub(super) fn bad_port(address: &str) -> Option<String> {
    let (host, port) = address.rsplit_once(':')?;
    let is_host_right = format!("{host}:0").parse::<SocketAddr>().is_ok();
    let is_port_wrong = is_host_right && port.parse::<u16>().is_err();
    is_port_wrong.then(|| format!("{port:?} is not a port: expected a number from 0 to 65535, as in {host}:7600"))
}

/// Parses a share of calls.
pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "expected a number from 0 to 1, such as 0.05".to_owned())
}

/// Reads the address of a port from a file.
pub(super) fn read_address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    parse_address(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

/// A duration, written like `1m 30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct Span(#[serde(deserialize_with = "humantime_serde::deserialize", serialize_with = "as_text")] pub Duration);

impl FromStr for Span {
    type Err = BadSpan;

    fn from_str(text: &str) -> Result<Self, BadSpan> {
        humantime::parse_duration(text).map(Self).map_err(|_| BadSpan)
    }
}

/// The error for a string that is not a duration.
#[derive(Clone, Copy, Debug, Error)]
#[error("expected a duration with its unit, such as 500ms, 30s or 5m")]
pub struct BadSpan;

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() / DAY_SECONDS {
            // humantime's month is a twelfth of a year, so 31 days would be written as "1month 13h 26m 24s".
            days @ 1.. if self.0 == Duration::from_secs(days * DAY_SECONDS) => write!(f, "{days}d"),
            _ => humantime::format_duration(self.0).fmt(f),
        }
    }
}

const DAY_SECONDS: u64 = 86_400;

fn as_text<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Span(*span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_underscores_group_digits() {
        for (text, expected) in
            [("1_000_000", Some(1_000_000)), ("7", Some(7)), ("_1", None), ("1_", None), ("1__0", None)]
        {
            assert_eq!(parse_whole::<u64>(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn ok_whole_days_are_written_in_days() {
        for (text, expected) in [("31d", "31d"), ("24h", "1d"), ("25h", "1day 1h"), ("90s", "1m 30s"), ("0s", "0s")] {
            let span: Span = text.parse().expect("a duration");
            assert_eq!(span.to_string(), expected);
            assert_eq!(expected.parse::<Span>().expect("a duration"), span);
        }
    }
}
