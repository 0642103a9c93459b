//! The Kent daemon.
//!
//! It puts ports around an engine: `kent-engine` grants and edits, `kent-transport` serves connections, `kent-http`
//! and `kent-redis` are further ports, and this crate has the settings, the services, and what operators do with a store.
//!
//! | module | purpose |
//! |---|---|
//! | `program` | the program `kentd`: its signals, its exit codes, and the dialogs of `restore` and `migrate` |
//! | `args`, `config` | the command line; settings from file, environment and flags |
//! | `daemon` | how the daemon starts and stops |
//! | `node` | a daemon without ports, for the simulator |
//! | `service` | the gRPC services |
//! | `maintenance` | backup, archive, restore, migration to etcd, the witness, diagnosis |
//! | `telemetry` | logs |
//! | `memory` | returns freed memory to the system |
//!
//! The imports between modules form no cycle; `tests/it/imports.rs` checks this.

mod args;
mod config;
mod daemon;
mod maintenance;
mod memory;
mod node;
mod program;
mod recording;
mod reflection;
mod service;
mod telemetry;

pub use config::{
    AuthMode, Config, ConfigError, EtcdSettings, Listen, ListenAddress, LogFormat, NoArchive, RegionPatterns, Settings,
    Span, StoreKind, TlsSettings, Values,
};
pub use daemon::{StartError, attest};
pub use kent_engine::{
    audit::AuditArgs,
    host::{Environment, clock, entropy},
    records::{
        failure::{LoadError, StoreFailure},
        founding::NotWhole,
    },
};
pub use kent_http::Origins;
pub use kent_transport::{
    connection, handshake, http2,
    listen::{Listeners, SocketError},
    probe, threads,
    tls::{TlsError, TlsFiles},
    workers,
};
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
