//! The Kent daemon.
//!
//! It is a thin shell around the pure crates `ids`, `regions`, `issue`, `access` and `codec`: it owns the sockets, the
//! clocks, the store and the tasks.
//!
//! | module | purpose |
//! |---|---|
//! | `program` | the program `kentd`: its signals, its exit codes, and the dialogs of `restore` and `migrate` |
//! | `args`, `config` | the command line; settings from file, environment and flags |
//! | `daemon` | how the daemon starts and stops |
//! | `node` | a daemon without ports, for the simulator |
//! | `transport` | connections, and dispatch of calls to services |
//! | `service` | the gRPC services |
//! | `http`, `gateway` | the HTTP port: `/livez`, `/readyz`, `/metrics`; the API as JSON and gRPC-Web |
//! | `redis` | the Redis port |
//! | `status` | the only file that creates a `tonic::Status` |
//! | `engine` | the daemon without its transport: the functions that services call |
//! | `readiness` | whether the daemon can grant, and the reasons if it cannot |
//! | `access` | changes to tokens, roles and budgets |
//! | `auth`, `budgets` | who callers are, what they may do, and how many identifiers they may take |
//! | `grant` | how blocks are granted, immediately or after a wait |
//! | `cluster` | the replicas on one store |
//! | `metrics` | metrics for Prometheus |
//! | `fill` | how full regions are |
//! | `tables` | spaces, their tables, edits and history |
//! | `issuing` | slots, counters and request IDs, and their records |
//! | `maintenance` | backup, archive, restore, migration to etcd, the witness, diagnosis |
//! | `records` | the keys of the store, and the reading of records |
//! | `error` | errors of requests |
//! | `telemetry` | logs |
//! | `audit` | the audit log |
//! | `probe` | parts of the daemon that benchmarks call directly |
//! | `causes` | an error with its causes, as text |
//! | `host` | the only files that read clocks, draw random bits and spawn tasks |
//!
//! The imports between modules form no cycle; `tests/it/imports.rs` checks this.

mod access;
mod args;
mod audit;
mod auth;
mod budgets;
mod causes;
mod cluster;
mod config;
mod daemon;
mod engine;
mod error;
mod figures;
mod fill;
mod gateway;
mod grant;
mod host;
mod http;
mod issuing;
mod maintenance;
mod metrics;
mod node;
pub mod probe;
mod program;
mod readiness;
mod recording;
mod records;
mod redis;
mod service;
mod status;
mod tables;
mod telemetry;
mod transport;

pub use audit::AuditArgs;
pub use config::{
    AuthMode, Config, ConfigError, EtcdSettings, Listen, ListenAddress, LogFormat, NoArchive, Origins, RegionPatterns,
    Settings, Span, StoreKind, TlsSettings, Values,
};
pub use daemon::{StartError, attest, transport};
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
pub use program::run;
pub use records::{
    failure::{LoadError, StoreFailure},
    founding::NotWhole,
};
pub use transport::{
    handshake,
    listen::{Listeners, SocketError},
    tls::{TlsError, TlsFiles},
    workers,
};
