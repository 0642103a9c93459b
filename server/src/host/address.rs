//! Where connections come from.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(Process),
}

/// The process at the other end of a Unix socket, as the kernel recorded it when the process connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Option<i32>,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// The remote host or the local user. The port and the process ID are left out, because they change from connection to
/// connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    Ip(IpAddr),
    User(u32),
}

impl Address {
    pub(crate) fn host(&self) -> Host {
        match self {
            Self::Tcp(address) => Host::Ip(address.ip().to_canonical()),
            Self::Unix(process) => Host::User(process.uid),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(Process { pid, uid, gid }) => {
                write!(f, "unix:uid={uid},gid={gid}")?;
                pid.map_or(Ok(()), |pid| write!(f, ",pid={pid}"))
            }
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::User(uid) => write!(f, "local user {uid}"),
        }
    }
}
