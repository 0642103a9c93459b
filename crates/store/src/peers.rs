//! What the processes that share a store tell each other: of changes, and of themselves.
//!
//! Nothing here is needed for safety, which rests on [`Store::commit`](crate::Store::commit) alone. It serves to hear of
//! others' changes soon, and to know who is there.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Exchanged, ReadError, Unavailable};
use crate::key::Key;
use crate::txn::Versioned;

/// The other processes on a store that several can share.
#[async_trait]
pub trait Peers: Send + Sync + fmt::Debug {
    /// Begins to watch all keys that begin with `prefix`: every change after this call's answer is told.
    ///
    /// # Errors
    ///
    /// If the store is not available.
    async fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, ReadError>;

    /// Puts a value that is there for as long as this process is: until `ttl` after the last announcement that was answered
    /// OK, or a little longer, or until it withdraws. One key a process; announcing again replaces its value.
    ///
    /// # Errors
    ///
    /// If the store is not available; it may have been announced all the same.
    async fn announce(&self, key: &Key, value: Vec<u8>, ttl: Duration) -> Result<(), Unavailable>;

    /// Writes values by this schema from now on: the newest one that all processes on the store know. It begins with the first.
    fn write_schema(&self, schema: u16);

    /// Takes the announcement back. Best effort: otherwise its time runs out.
    async fn withdraw(&self);

    /// Waits until what is behind the store is found to have been exchanged or set back, which it may never be. Every call
    /// is refused from then on, and nothing more must be granted from what was reserved.
    async fn exchanged(&self) -> Exchanged {
        std::future::pending().await
    }
}

/// Changes, as they become durable. Dropping it ends it.
#[async_trait]
pub trait Watch: Send {
    /// The next change. It waits for as long as there is none, or the store is away: a watch that breaks off goes on where it
    /// was. A call that is dropped before it is ready loses nothing.
    async fn next(&mut self) -> Change;
}

/// What a [`Watch`] tells.
#[derive(Clone, Debug)]
pub enum Change {
    /// The key has this value now.
    Put(Key, Versioned),
    /// The key is gone.
    Deleted(Key),
    /// Some changes were missed, since the store forgets old ones. Everything that is read from now on has them.
    Missed,
    /// A value cannot be used.
    Unreadable(ReadError),
}
