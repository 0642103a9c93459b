//! Peers: other servers that can issue numbers. The benchmark starts each installed peer on loopback, with the same
//! durability as Kent and a directory on the same disk, and stops it afterward.

mod etcd;
pub(crate) mod ferroid;
mod postgres;
mod redis;
mod resp;

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::ensure;
use clap::{Args, ValueEnum};
use tokio::runtime::Runtime;

use self::{etcd::Etcd, postgres::Postgres, redis::Redis};
use crate::{contest::Slice, figures::now, process::Process};

/// The peers to compare with.
#[derive(Clone, Debug, Args)]
pub(crate) struct PeersArgs {
    /// Peers to compare with. A peer that is not installed is skipped with a message.
    #[arg(long, value_delimiter = ',', default_value = "all", value_name = "PEER,...")]
    peers: Vec<Named>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Named {
    /// All peers.
    All,
    /// Only Kent and the bare transport.
    None,
    /// INCRBY with a log that is synced before each answer (Debian package redis-server).
    Redis,
    /// nextval of a sequence with CACHE 1 (Debian package postgresql).
    Postgres,
    /// Compare and swap of a counter (Debian package etcd-server).
    Etcd,
}

/// The peers that could be started.
#[derive(Default)]
pub(crate) struct Peers {
    pub(crate) redis: Option<Redis>,
    pub(crate) postgres: Option<Postgres>,
    pub(crate) etcd: Option<Etcd>,
}

impl Peers {
    /// Starts the selected peers: Redis and, if `with_databases` is true, PostgreSQL and etcd.
    pub(crate) fn start(args: &PeersArgs, with_databases: bool) -> Self {
        let databases = |named| with_databases && args.wants(named);
        Self {
            redis: args.wants(Named::Redis).then(|| or_skip("Redis", "redis-server", Redis::start())).flatten(),
            postgres: databases(Named::Postgres)
                .then(|| or_skip("PostgreSQL", "postgresql", Postgres::start()))
                .flatten(),
            etcd: databases(Named::Etcd).then(|| or_skip("etcd", "etcd-server", Etcd::start())).flatten(),
        }
    }
}

impl PeersArgs {
    fn wants(&self, named: Named) -> bool {
        !self.peers.contains(&Named::None) && (self.peers.contains(&Named::All) || self.peers.contains(&named))
    }
}

fn or_skip<T>(name: &str, package: &str, started: anyhow::Result<T>) -> Option<T> {
    started
        .inspect_err(|error| {
            eprintln!("skipping {name}: {error:#}. On Debian: apt-get install {package}");
        })
        .ok()
}

/// A peer that can be put under load.
pub(crate) trait Peer {
    /// Runs one slice of load from `clients` clients, each with its own connection and `depth` requests in flight.
    fn slice(&self, runtime: &Runtime, clients: usize, depth: usize, length: Duration) -> anyhow::Result<Slice>;
}

/// The time within which a peer must start.
const START: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

/// Returns an address with a port that is currently free.
fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Starts a server, and waits until it accepts connections.
fn listening(command: &mut Command, address: SocketAddr) -> anyhow::Result<Process> {
    let mut process = Process::start(command, "TERM")?;
    let began = now();
    while TcpStream::connect(address).is_err() {
        ensure!(process.is_running()? && began.elapsed() < START, "the server does not answer on {address}");
        thread::sleep(PAUSE);
    }
    Ok(process)
}
