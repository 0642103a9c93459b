//! Where a store on etcd is: `etcd://HOST:PORT,HOST:PORT/PREFIX`, or `etcds://` over TLS.

use std::fmt;
use std::str::FromStr;

/// The endpoints of an etcd cluster, and the prefix under which the store keeps its keys.
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

/// The port where none is said.
const PORT: &str = "2379";
/// The prefix where none is said.
const PREFIX: &str = "kent";
/// The longest prefix: names in etcd stay short.
const PREFIX_MAX: usize = 200;

/// Why a text is no address of a store on etcd.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// It begins otherwise.
    #[error("it begins with etcd:// or, over TLS, etcds://")]
    Scheme,
    /// A host is missing, or is no host.
    #[error("{host:?} is no HOST or HOST:PORT")]
    Host {
        /// What is there instead.
        host: String,
    },
    /// The prefix has other characters.
    #[error(
        "the prefix {prefix:?} is not made of parts of a-z A-Z 0-9 - _ . between slashes, or is too long, or a part is `data`"
    )]
    Prefix {
        /// What is there.
        prefix: String,
    },
}

impl EtcdAddress {
    /// The endpoints: `HOST:PORT`.
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The prefix of all keys, without a slash at its end.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether connections are encrypted.
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
        let (hosts, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = hosts.split(',').map(host).collect::<Result<_, _>>()?;
        let prefix = if prefix.is_empty() { PREFIX } else { prefix };
        let fits = |symbol: char| symbol.is_ascii_alphanumeric() || "-_./".contains(symbol);
        // Below a store everything is in `data`: a prefix with such a part could lie inside another store.
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
