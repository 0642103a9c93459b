//! Peers: programs by which others number things, as far as the machine has them. Each is started by the benchmark on loopback,
//! with a directory of its own on the same disk as Kent's, so durable as Kent is, and ends with it.

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

/// With whom to compare.
#[derive(Clone, Debug, Args)]
pub(crate) struct PeersArgs {
    /// Peers to measure beside Kent; those that are not installed are left out, and said so.
    #[arg(long, value_delimiter = ',', default_value = "all", value_name = "PEER,...")]
    peers: Vec<Named>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Named {
    /// All that there are.
    All,
    /// Only Kent and the bare transport.
    None,
    /// INCRBY, in a log that is synchronized before each answer; Debian: redis-server
    Redis,
    /// nextval of a sequence with CACHE 1; Debian: postgresql
    Postgres,
    /// Compare and swap of a counter; Debian: etcd-server
    Etcd,
}

/// Those that could be started.
#[derive(Default)]
pub(crate) struct Peers {
    pub(crate) redis: Option<Redis>,
    pub(crate) postgres: Option<Postgres>,
    pub(crate) etcd: Option<Etcd>,
}

impl Peers {
    /// Starts Redis, and what else a scenario compares with.
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
            eprintln!("{name} is left out: {error:#}. On Debian it comes with apt-get install {package}");
        })
        .ok()
}

/// Something that numbers things under load.
pub(crate) trait Peer {
    /// So many clients on connections of their own, each with so many requests on the way.
    fn slice(&self, runtime: &Runtime, clients: usize, depth: usize, length: Duration) -> anyhow::Result<Slice>;
}

/// How long a peer may take until it answers.
const START: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

/// A port that is free now.
fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Starts a server, and waits until it accepts connections.
fn listening(command: &mut Command, address: SocketAddr) -> anyhow::Result<Process> {
    let mut process = Process::start(command, "TERM")?;
    let began = now();
    while TcpStream::connect(address).is_err() {
        ensure!(process.is_running()? && began.elapsed() < START, "it does not answer");
        thread::sleep(PAUSE);
    }
    Ok(process)
}
