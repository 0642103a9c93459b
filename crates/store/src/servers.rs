//! How the servers of a shared store are, for operators.

use std::time::Duration;

/// The servers that hold a store.
#[derive(Clone, Debug)]
pub struct Servers {
    /// The time that a linearizable read takes: a majority of the servers confirms it. Or why it fails.
    pub read: Result<Duration, String>,
    /// All servers: those of the store's address in its order, then the others that these know.
    pub servers: Vec<Server>,
    /// The alarms of the servers, such as `NOSPACE on etcd-1`. While the servers have one, commits may fail.
    pub alarms: Vec<String>,
}

/// A server of a shared store.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Its name in its cluster; empty if it is not known.
    pub name: String,
    /// `HOST:PORT` in the store's address, or its own address if the store's address lacks it.
    pub endpoint: String,
    /// Whether the store's address has it.
    pub is_addressed: bool,
    /// Whether it only copies the others, and has no vote.
    pub is_learner: bool,
    /// Its state, or why it does not answer; `None` if it was not asked, because the store's address lacks it.
    pub state: Option<Result<ServerState, String>>,
}

/// The state of a server that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerState {
    /// The version of its software.
    pub version: String,
    /// The time until it answered.
    pub latency: Duration,
    /// The size of its database in bytes.
    pub database_bytes: u64,
    /// The part of the database that is in use. The rest is free after a compaction.
    pub used_bytes: u64,
    /// The maximum size of the database, if the server says it.
    pub quota_bytes: Option<u64>,
    /// Whether it leads its cluster.
    pub is_leader: bool,
    /// Whether its cluster has a leader, as far as it knows.
    pub has_leader: bool,
    /// What it reports about itself.
    pub errors: Vec<String>,
}
