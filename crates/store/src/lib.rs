//! Compare-and-commit: Kent's only durable operation, with several backends.
//!
//! Every durable change goes through [`Store::commit`]: *make these writes if these keys still have these versions*.
//! Reads return versions, and commits compare them. Only the announcements of [`Peers`], on which nothing depends, are
//! written in another way. So two daemons, or a daemon and its previous run, cannot both own the same slot or chunk.
//!
//! | backend | use | meaning of durable |
//! |---|---|---|
//! | [`SledStore`] | one daemon, one directory | written to the disk, past its cache: survives power loss |
//! | [`EtcdStore`] | any number of daemons on several machines | written by a majority of etcd's members |
//! | [`MemoryStore`] | tests and simulation, with injected faults | survives [`MemoryStore::reopen`] |
//!
//! One conformance suite checks the guarantees of every backend:
//!
//! 1. A commit is atomic: it compares all its guards and makes all its writes, or it changes nothing.
//! 2. `Ok` means durable. Reads and conflicts show only durable state.
//! 3. The versions of a store only increase. A key that is deleted and written again gets a version that it never had
//!    before.
//! 4. A read returns a value exactly as it was written, or an error that names the key. It never returns a default
//!    value instead.
//! 5. Every error says whether anything may have changed: [`CommitError::has_no_side_effects`].
//!
//! # What this crate does not do
//!
//! It does not interpret values, read a wall clock, generate random numbers or start async tasks. It does not retry
//! commits: the caller decides on retries.

#![forbid(unsafe_code)]

mod bounded;
mod envelope;
mod error;
mod etcd;
mod images;
mod key;
mod memory;
mod pages;
mod peers;
mod servers;
mod sled;
mod store;
mod txn;

pub use bounded::Bounded;
pub use envelope::SCHEMA;
pub use error::{CommitError, Corrupt, Damage, Exchanged, NewerSchema, ReadError, Unavailable, Unknown};
pub use etcd::{BadAddress, EtcdAddress, EtcdCredentials, EtcdOpenError, EtcdOptions, EtcdPassword, EtcdStore};
pub use images::{Images, PART_BYTES_MAX, Parts};
pub use key::{InvalidKey, KEY_BYTES_MAX, Key};
pub use memory::{Delay, Fault, MemoryStore, Operation};
pub use pages::{PAGE_BYTES_MAX, PAGE_RECORDS_MAX, Page, Pages};
pub use peers::{Change, Peers, Watch};
pub use servers::{Server, ServerState, Servers};
pub use sled::{
    ArchiveError, ArchiveLock, Archived, Archiving, Ending, Obstacle, OpenError, SledOptions, SledSizes, SledStore,
};
pub use store::{Stats, Store, StoreId};
pub use txn::{Committed, InvalidTxn, TXN_BYTES_MAX, TXN_OPERATIONS_MAX, Txn, VALUE_BYTES_MAX, Version, Versioned};
