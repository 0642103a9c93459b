//! Compare and commit: the one durable operation of Kent, over several backends.
//!
//! All durable state changes go through [`Store::commit`]: *make these writes if these keys still have these versions*.
//! Reads give versions, commits compare them. There is no other way to change anything, so two daemons, or one daemon
//! and its own past, cannot both believe that they hold the same thing.
//!
//! | backend | for | durable means |
//! |---|---|---|
//! | [`SledStore`] | one daemon, one directory | on the disk's platter or cells, past its cache: survives power loss |
//! | [`EtcdStore`] | any number of daemons, on several machines | on a majority of etcd's members |
//! | [`MemoryStore`] | tests and simulation, with injected faults | survives [`MemoryStore::reopen`] |
//!
//! Promises of every backend, held by one conformance suite:
//!
//! 1. A commit compares all its guards and makes all its writes in one step, or changes nothing.
//! 2. `Ok` means durable. Reads, and the reasons given for refusals, show durable state only.
//! 3. The versions of one store only grow; a key that is deleted and written again gets a version it never had.
//! 4. A value comes back as it was written, or as an error that names the key: never as a default.
//! 5. Every error says whether anything may have changed ([`CommitError::has_no_side_effects`]).
//!
//! # What this crate does not do
//!
//! It does not know what a value means, reads no wall clock, draws no randomness and starts no async task of its own.
//! Retries of commits belong to the caller.

#![forbid(unsafe_code)]

mod bounded;
mod envelope;
mod error;
mod etcd;
mod key;
mod memory;
mod pages;
mod peers;
mod sled;
mod store;
mod txn;

pub use bounded::Bounded;
pub use envelope::SCHEMA;
pub use error::{CommitError, Corrupt, Damage, Exchanged, NewerSchema, ReadError, Unavailable, Unknown};
pub use etcd::{BadAddress, EtcdAddress, EtcdCredentials, EtcdOpenError, EtcdOptions, EtcdStore, EtcdTls};
pub use key::{InvalidKey, KEY_BYTES_MAX, Key};
pub use memory::{Delay, Fault, MemoryStore, Operation};
pub use pages::{PAGE_BYTES_MAX, PAGE_RECORDS_MAX, Page, Pages};
pub use peers::{Change, Peers, Watch};
pub use sled::{ArchiveError, ArchiveLock, Archived, Archiving, Ending, OpenError, SledOptions, SledStore};
pub use store::{Stats, Store, StoreId};
pub use txn::{Committed, InvalidTxn, TXN_BYTES_MAX, TXN_OPERATIONS_MAX, Txn, VALUE_BYTES_MAX, Version, Versioned};
