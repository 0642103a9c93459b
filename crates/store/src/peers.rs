//! Informs the processes on a shared store of changes and of each other.
//!
//! Safety depends only on [`Store::commit`](crate::Store::commit). This module only informs a process sooner of changes
//! by other processes, and shows which processes are running.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Exchanged, ReadError, Unavailable};
use crate::key::Key;
use crate::txn::{Version, Versioned};

/// The other processes on a shared store.
#[async_trait]
pub trait Peers: Send + Sync + fmt::Debug {
    /// Starts to watch all keys that start with `prefix`. The watch reports every change that is made after this call
    /// returns.
    ///
    /// # Errors
    ///
    /// Fails if the store is not available.
    async fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, ReadError>;

    /// Puts a value that exists until it is withdrawn, or until `ttl` or a little more has passed since the last
    /// successful announcement. A process has one key, and each announcement replaces its value.
    ///
    /// # Errors
    ///
    /// Fails if the store is not available. The value may nevertheless have been announced.
    async fn announce(&self, key: &Key, value: Vec<u8>, ttl: Duration) -> Result<(), Unavailable>;

    /// Sets the schema for writing values: the newest schema that every process on the store can read. The initial
    /// schema is 1.
    fn write_schema(&self, schema: u16);

    /// Removes the announcement. If this fails, the announcement expires.
    async fn withdraw(&self);

    /// Waits until the backend is found to have been replaced or rolled back, possibly forever. From then on every call
    /// fails, and the process must not grant anything from its reservations.
    async fn exchanged(&self) -> Exchanged {
        std::future::pending().await
    }
}

/// A stream of durable changes. Dropping it ends the watch.
#[async_trait]
pub trait Watch: Send {
    /// Waits for the next change. After a lost connection, the watch resumes with the first change that was not
    /// reported. Dropping the future before it is ready loses no change.
    async fn next(&mut self) -> Change;

    /// Whether more changes of this commit follow. A watch receives all changes of a commit at once, so `false` means
    /// that `next` has returned the last one.
    fn continues(&self, commit: Version) -> bool;
}

/// Whether the first of these changes belongs to the commit that has this version. A change that cannot be read may
/// belong to any commit.
pub(crate) fn continues(changes: &VecDeque<Change>, commit: Version) -> bool {
    match changes.front() {
        Some(Change::Put(_, Versioned { version, .. }) | Change::Deleted(_, version)) => version == &commit,
        Some(Change::Unreadable(_)) => true,
        Some(Change::Missed) | None => false,
    }
}

/// A change that a [`Watch`] reports.
#[derive(Clone, Debug)]
pub enum Change {
    /// The key has this new value.
    Put(Key, Versioned),
    /// The key was deleted by the commit with this version.
    Deleted(Key, Version),
    /// Some changes were missed, because the store no longer has them. Reads from now on include them.
    Missed,
    /// The new value cannot be read.
    Unreadable(ReadError),
}
