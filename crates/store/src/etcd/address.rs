//! The address of a store on etcd: `etcd://HOST:PORT,HOST:PORT/PREFIX`, or `etcds://` for TLS.

use std::fmt;
use std::str::FromStr;

/// The endpoints of an etcd cluster and the prefix of the store's keys.
///
/// ```
/// use kent_store::EtcdAddress;
///
/// let address: EtcdAddress = "etcd://10.0.0.1:2379,10.0.0.2:2379/ids/kent".parse()?;
/// assert_eq!(address.hosts(), ["10.0.0.1:2379", "10.0.0.2:2379"]);
/// assert_eq!(address.prefix(), "ids/kent");
/// # Ok::<(), kent_store::BadAddress>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdAddress {
    tls: bool,
    hosts: Vec<String>,
    prefix: String,
}

/// The default port.
const PORT: &str = "2379";
/// The default prefix.
const PREFIX: &str = "kent";
/// The maximum length of a prefix in bytes, which keeps etcd keys short.
const PREFIX_MAX: usize = 200;

/// Reasons that a string is not the address of a store on etcd.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// The scheme is not valid.
    #[error("the address must start with etcd:// or, for TLS, with etcds://")]
    Scheme,
    /// A host is missing or not valid.
    #[error("{host:?} must be HOST or HOST:PORT")]
    Host {
        /// The host as given.
        host: String,
    },
    /// The address contains a user, and perhaps a password, which this message does not repeat.
    #[error("a user and a password do not belong in the address: use --store-user and --store-password-file")]
    Credentials,
    /// The prefix is not valid.
    #[error(
        "the prefix {prefix:?} must have at most {PREFIX_MAX} bytes, in parts of a-z A-Z 0-9 - _ . between slashes, and no \
         part may be `data`"
    )]
    Prefix {
        /// The prefix.
        prefix: String,
    },
}

impl EtcdAddress {
    /// Returns the endpoints: `HOST:PORT`.
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns the prefix of all keys, without a slash at its end.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns true if connections use TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls
    }
}

impl FromStr for EtcdAddress {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let (tls, rest) = match text.split_once("://") {
            Some(("etcd", rest)) => (false, rest),
            Some(("etcds", rest)) => (true, rest),
            _ => return Err(BadAddress::Scheme),
        };
        if rest.contains('@') {
            return Err(BadAddress::Credentials);
        }
        let (hosts, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = hosts.split(',').map(host).collect::<Result<_, _>>()?;
        let prefix = if prefix.is_empty() { PREFIX } else { prefix };
        let fits = |symbol: char| symbol.is_ascii_alphanumeric() || "-_./".contains(symbol);
        // A store has its keys below PREFIX/data, so a prefix with the part `data` could be inside another store.
        let is_nested = prefix.split('/').any(|part| part.is_empty() || part == "data");
        if prefix.len() > PREFIX_MAX || is_nested || !prefix.chars().all(fits) {
            return Err(BadAddress::Prefix { prefix: prefix.to_owned() });
        }
        Ok(Self { tls, hosts, prefix: prefix.to_owned() })
    }
}

fn host(text: &str) -> Result<String, BadAddress> {
    let bad = || BadAddress::Host { host: text.to_owned() };
    let (name, port) = match text.rsplit_once(':') {
        // An IPv6 address is in brackets: [::1]:2379.
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (text, PORT),
    };
    let fits = |symbol: char| symbol.is_ascii_alphanumeric() || "-_.:[]".contains(symbol);
    let is_bracketed = name.starts_with('[') && name.ends_with(']');
    if name.is_empty() || !name.chars().all(fits) || (name.contains(':') && !is_bracketed) {
        return Err(bad());
    }
    port.parse::<u16>().map_err(|_| bad())?;
    Ok(format!("{name}:{port}"))
}

impl fmt::Display for EtcdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd{}://{}/{}", if self.tls { "s" } else { "" }, self.hosts.join(","), self.prefix)
    }
}

impl fmt::Debug for EtcdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtcdAddress({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_addresses() {
        for (text, shown) in [
            ("etcd://localhost", "etcd://localhost:2379/kent"),
            ("etcd://localhost/", "etcd://localhost:2379/kent"),
            ("etcd://a:1,b,10.0.0.1:2/x/y-z", "etcd://a:1,b:2379,10.0.0.1:2/x/y-z"),
            ("etcds://[::1]:2379,[::2]/kent", "etcds://[::1]:2379,[::2]:2379/kent"),
        ] {
            let address: EtcdAddress = text.parse().expect(text);
            assert_eq!(address.to_string(), shown);
            assert_eq!(shown.parse(), Ok(address));
        }
    }

    #[test]
    fn err_addresses() {
        let host = |host: &str| BadAddress::Host { host: host.to_owned() };
        let prefix = |prefix: &str| BadAddress::Prefix { prefix: prefix.to_owned() };
        for (text, expected) in [
            ("", BadAddress::Scheme),
            ("http://localhost:2379", BadAddress::Scheme),
            ("etcd://", host("")),
            ("etcd://a,,b", host("")),
            ("etcd://a:port", host("a:port")),
            ("etcd://a:70000", host("a:70000")),
            ("etcd://::1", host("::1")),
            ("etcd://a b", host("a b")),
            ("etcd://a/x y", prefix("x y")),
            ("etcd://a/x/", prefix("x/")),
            ("etcd://a/x//y", prefix("x//y")),
            ("etcd://a/x/data/y", prefix("x/data/y")),
        ] {
            assert_eq!(text.parse::<EtcdAddress>(), Err(expected), "{text}");
        }
    }
}
