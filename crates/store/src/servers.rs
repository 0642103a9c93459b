//! The state of the servers behind a shared store, as operators see it.

use std::time::Duration;

/// The servers that hold a store.
#[derive(Clone, Debug)]
pub struct Servers {
    /// The duration of a linearizable read, which a majority of the servers confirms, or the reason that the read
    /// failed.
    pub read: Result<Duration, String>,
    /// All servers: first those in the store's address, in its order, and then the other members of the cluster.
    pub servers: Vec<Server>,
    /// The raised alarms, such as `NOSPACE on etcd-1`. While an alarm is raised, commits may fail.
    pub alarms: Vec<String>,
}

/// A server of a shared store.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// The name of the server in its cluster; empty if unknown.
    pub name: String,
    /// `HOST:PORT` from the store's address, or else the address that the server advertises to clients.
    pub endpoint: String,
    /// Whether the store's address contains this server.
    pub is_addressed: bool,
    /// Whether the server is a learner: it replicates the data, but has no vote.
    pub is_learner: bool,
    /// The state of the server, or the reason that it does not answer. `None` for a server that is not in the store's
    /// address, because such a server is not queried.
    pub state: Option<Result<ServerState, String>>,
}

/// The state of a server that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerState {
    /// The software version.
    pub version: String,
    /// The time that the server took to answer.
    pub latency: Duration,
    /// The size of the database in bytes.
    pub database_bytes: u64,
    /// The bytes of the database that are in use. Defragmentation frees the rest.
    pub used_bytes: u64,
    /// The maximum size of the database in bytes, if the server reports it.
    pub quota_bytes: Option<u64>,
    /// Whether the server is the leader of its cluster.
    pub is_leader: bool,
    /// Whether the server knows of a leader.
    pub has_leader: bool,
    /// The errors that the server reports about itself.
    pub errors: Vec<String>,
}
