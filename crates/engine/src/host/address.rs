//! Where connections come from.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// The address of a TCP connection.
    Tcp(SocketAddr),
    /// The process at the other end of a Unix domain socket.
    Unix(Process),
}

/// The process at the other end of a Unix socket, as the kernel recorded it when the process connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process ID, if the kernel knows it.
    pub pid: Option<i32>,
    /// The user ID.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
}

/// The remote host or the local user. The port and the process ID are left out, because they change from connection to
/// connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A host in the network.
    Ip(IpAddr),
    /// A user of this machine.
    User(u32),
}

impl Address {
    /// The host or user to whom limits per address apply.
    pub fn host(&self) -> Host {
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
