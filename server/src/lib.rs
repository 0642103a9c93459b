//! The Kent daemon.
//!
//! A thin shell around the pure crates `ids`, `regions` and `issue`: it owns the sockets, the clocks, the store and the tasks.
//!
//! | module | what it is for |
//! |---|---|
//! | `args`, `config` | the command line; settings from file, environment and flags, checked whole |
//! | `daemon` | start and stop, each one readable sequence |
//! | `node` | a daemon without ports, for the simulator |
//! | `transport` | connections, and calls on their way to a service |
//! | `service` | gRPC services: requests in, answers out |
//! | `http` | `/livez`, `/readyz`, `/metrics` |
//! | `status` | the only file that makes a `tonic::Status` |
//! | `engine` | the daemon without its transport: what services call |
//! | `readiness` | whether it can grant, and if not, why |
//! | `grant` | granting: at once, or after a wait |
//! | `cluster` | the replicas on one store |
//! | `tables` | spaces, their tables, edits, and what is kept of the past |
//! | `issuing` | slots, counters and request_ids with their records |
//! | `maintenance` | backups, archives, restores, the move to etcd, the witness |
//! | `records` | what is stored: keys, and how records are read |
//! | `error` | why a request was refused |
//! | `metrics`, `telemetry` | what is counted, and the log |
//! | `host` | the only files that read clocks, draw random bits and spawn tasks |
//!
//! Each line may import what is below it, not what is above: `tests/it/crates.rs` draws the imports.

mod args;
mod cluster;
mod config;
mod daemon;
mod engine;
mod error;
mod grant;
mod host;
mod http;
mod issuing;
mod maintenance;
mod metrics;
mod node;
mod readiness;
mod records;
mod service;
mod status;
mod tables;
pub mod telemetry;
mod transport;

pub use args::{Args, Command};
pub use config::{Config, ConfigError, EtcdSettings, LogFormat, NoArchive, Settings, Span, StoreKind, Values};
pub use daemon::{Daemon, StartError, attest, transport};
pub use host::{Environment, clock, entropy};
pub use maintenance::{
    archive::{FromArchive, NotRestored},
    backup::BadBackup,
    filling::FillError,
    migrate::{MigrateArgs, MigrateError, Migration},
    restore::{Restore, RestoreArgs, RestoreError, Skip},
    witness::WitnessError,
};
pub use node::Node;
pub use records::{
    failure::{LoadError, StoreFailure},
    founding::NotWhole,
};
pub use transport::workers;
