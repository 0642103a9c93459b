//! The addresses of the gRPC port: TCP addresses and Unix sockets.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

use super::kinds::bad_port;

/// The addresses of the gRPC port: at least one, all different.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Listen(Vec<ListenAddress>);

/// An address of the gRPC port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A TCP address; port 0 is any free port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Listen {
    /// The addresses, in the order of the setting.
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.0
    }

    /// The TCP addresses.
    pub(crate) fn tcp(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.0.iter().filter_map(|address| match address {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        })
    }

    /// Whether one of the addresses is a Unix socket.
    pub(crate) fn has_unix(&self) -> bool {
        self.0.iter().any(|address| matches!(address, ListenAddress::Unix(_)))
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut addresses = Vec::new();
        for part in text.split(',').map(str::trim) {
            let address = part.parse()?;
            if addresses.contains(&address) {
                return Err(format!("{address} is given twice"));
            }
            addresses.push(address);
        }
        Ok(Self(addresses))
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("expected a path after `unix:`, such as unix:/run/kent/kent.sock".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                bad_port(text).unwrap_or_else(|| {
                    "expected IP:PORT, such as 127.0.0.1:7600 or [::1]:7600, or unix:PATH, such as unix:/run/kent/kent.sock; host names \
                     are not accepted"
                        .to_owned()
                })
            }),
        }
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> Self {
        listen.to_string()
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&addresses.join(","))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_and_err_addresses() {
        for (text, expected) in [
            ("127.0.0.1:7600", Ok("127.0.0.1:7600")),
            ("127.0.0.1:0, [::1]:1,unix:/run/kent.sock", Ok("127.0.0.1:0,[::1]:1,unix:/run/kent.sock")),
            ("unix:kent.sock", Ok("unix:kent.sock")),
            ("", Err("expected IP:PORT")),
            ("localhost:1", Err("host names are not accepted")),
            (
                "127.0.0.1:76000",
                Err("\"76000\" is not a port: expected a number from 0 to 65535, as in 127.0.0.1:7600"),
            ),
            ("[::1]:http", Err("\"http\" is not a port")),
            ("127.0.0.1:1,", Err("expected IP:PORT")),
            ("unix:", Err("expected a path after `unix:`")),
            ("unix:a,unix:a", Err("unix:a is given twice")),
        ] {
            match (text.parse::<Listen>(), expected) {
                (Ok(listen), Ok(expected)) => assert_eq!(listen.to_string(), expected),
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{text}: {error}"),
                (parsed, _) => panic!("{text}: {parsed:?}"),
            }
        }
    }
}
