//! The Kent daemon.
//!
//! A thin shell around the pure rooms `ids`, `regions` and `issue`: it owns the sockets, the clocks, the store and the tasks.
//!
//! | module | what it is for |
//! |---|---|
//! | `config` | settings from file, environment and flags, checked whole |
//! | `clock` | the only file that reads clocks |
//! | `entropy` | the only file that draws random bits for what is stored |
//! | `tasks` | the only file that spawns tasks |
//! | `engine` | the daemon without its transport: what services call |
//! | `slots` | time-based identifiers, and the keeper of the slot's window |
//! | `cell` | one durable counter: the reservation of chunks, and giving them back |
//! | `counters` | regions' suffixes |
//! | `series` | identifiers that a durable counter counts without a region |
//! | `directory` | spaces, their tables, and edits |
//! | `space` | one space in memory: table, versions of records, counters |
//! | `history` | the edits of the past: written with each edit, read for lists, watchers and old tables |
//! | `strict` | grants of regions that number without gaps |
//! | `requests` | request_ids: what was made under one is on record, and not made again |
//! | `retention` | forgetting what is kept for a time only |
//! | `rate` | how fast a region is drawn from |
//! | `service` | gRPC services: requests in, answers out |
//! | `status` | the only file that makes a `tonic::Status` |
//! | `http` | `/livez`, `/readyz`, `/metrics` |
//! | `backup` | a store's records as they were at one moment, in a file |
//! | `archive` | where a daemon's commits go beside its store, and a restore from there |
//! | `restore` | a new store from a backup, from which nothing is issued twice |
//! | `founding` | when a store is whole, and may be issued from or copied |
//! | `filling` | filling a new store, so that nothing that comes late changes it |
//! | `migrate` | moving a store from a directory to etcd |
//! | `witness` | how often the store was started, kept outside of it |
//! | `node` | a daemon without ports, for the simulator |
//! | `workers` | threads that serve connections, each with a runtime of its own |
//! | `daemon` | start and stop, each one readable sequence |

mod archive;
mod backup;
mod cell;
pub mod clock;
mod cluster;
mod computing;
mod config;
mod counters;
mod daemon;
mod deadline;
mod directory;
mod engine;
pub mod entropy;
mod error;
mod filling;
mod founding;
mod history;
mod http;
mod keys;
mod metrics;
mod migrate;
mod node;
mod pacing;
mod past;
mod rate;
mod requests;
mod restore;
mod retention;
mod series;
mod service;
mod slots;
mod space;
mod status;
mod strict;
mod tasks;
pub mod telemetry;
mod witness;
pub mod workers;

pub use archive::{FromArchive, NoArchive, NotRestored};
pub use backup::BadBackup;
pub use config::{Args, Command, Config, ConfigError, EtcdSettings, Settings};
pub use daemon::{Daemon, StartError, attest, transport};
pub use engine::LoadError;
pub use error::StoreFailure;
pub use filling::FillError;
pub use founding::NotWhole;
pub use migrate::{MigrateArgs, MigrateError, Migration};
pub use node::{Node, Surroundings};
pub use restore::{Restore, RestoreArgs, RestoreError, Skip};
pub use witness::WitnessError;
