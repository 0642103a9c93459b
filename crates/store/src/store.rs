//! The trait that every backend implements.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{CommitError, ReadError};
use crate::images::Images;
use crate::key::Key;
use crate::pages::{Pages, Whole};
use crate::peers::Peers;
use crate::servers::Servers;
use crate::txn::{Committed, Txn, Versioned};

/// A durable map from keys to versioned values. Apart from announcements, only compare-and-commit changes it.
///
/// Any number of tasks can call [`get`](Store::get), [`scan`](Store::scan) and [`commit`](Store::commit) concurrently.
/// After [`close`](Store::close), every call fails with [`Unavailable::Closed`](crate::Unavailable::Closed).
///
/// Dropping a future before it is ready does not cancel the operation. The outcome of a dropped `commit` is unknown.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Returns the value under `key`, if there is one.
    ///
    /// # Errors
    ///
    /// Fails if the store is not available, or if the value is damaged or was written by a newer program.
    async fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError>;

    /// Returns a consistent snapshot of all keys that start with `prefix` and their values, in byte order.
    /// [`Key::ROOT`] matches every key. The result is held in memory.
    ///
    /// # Errors
    ///
    /// Fails like [`get`](Store::get). A scan fails if it cannot read one of the values, and never skips a value.
    async fn scan(&self, prefix: &Key) -> Result<Vec<(Key, Versioned)>, ReadError>;

    /// Returns the records of [`scan`](Store::scan) in pages, for results that are too large for memory or would block
    /// the store for too long. All pages show the state at the time of the first page, even if other tasks write in the
    /// meantime.
    ///
    /// The default implementation divides one scan into pages.
    ///
    /// # Errors
    ///
    /// Fails like [`scan`](Store::scan).
    async fn pages(&self, prefix: &Key) -> Result<Box<dyn Pages>, ReadError> {
        Ok(Box::new(Whole::new(self.scan(prefix).await?)))
    }

    /// Makes all writes of `txn` atomically if all its guards hold. `Ok` means that they are durable.
    ///
    /// # Errors
    ///
    /// Fails with a [`CommitError`]. After every error except [`CommitError::Unknown`], nothing has changed.
    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError>;

    /// Returns the other processes on the store, or `None` if the backend allows only one.
    fn peers(&self) -> Option<&dyn Peers> {
        None
    }

    /// Queries the state of the servers that hold the store. Takes at most a few seconds. Returns `None` if the store
    /// is embedded in this process.
    async fn servers(&self) -> Option<Servers> {
        None
    }

    /// Returns the images that the backend keeps beside the records, or `None` if it keeps none.
    fn images(&self) -> Option<Arc<dyn Images>> {
        None
    }

    /// Returns the identity that the store got when it was created. A different identity means a different store.
    fn store_id(&self) -> StoreId;

    /// Returns the statistics of this handle since it was opened.
    fn stats(&self) -> Stats;

    /// Finishes all operations and releases files, locks and connections. The store can be opened again as soon as this
    /// method returns. Closing a closed store does nothing.
    async fn close(&self);
}

/// The identity of a store: 128 random bits from the process that created it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId([u8; 16]);

impl StoreId {
    /// Creates an identity from these bits, which the caller generates.
    #[must_use]
    pub const fn new(bits: [u8; 16]) -> Self {
        Self(bits)
    }

    /// Returns the bits.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns the bits.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({self})")
    }
}

/// The counters of a handle since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of commits that returned `Ok`.
    pub commits: u64,
    /// The number of commits that returned [`CommitError::Conflict`].
    pub conflicts: u64,
    /// The number of commits that returned [`CommitError::Unknown`].
    pub unknowns: u64,
    /// The number of times that data was made durable. Less than `commits` if several commits shared one flush (group
    /// commit).
    pub flushes: u64,
    /// The total time that these flushes took. Zero if the store does not measure it.
    pub flush_time: Duration,
    /// The number of times that a full write-ahead log was written to the database.
    pub checkpoints: u64,
    /// The number of times that the backend was reopened after a failure.
    pub reopens: u64,
}
