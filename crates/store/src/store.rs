//! The trait that every backend implements.

use std::fmt;

use async_trait::async_trait;

use crate::error::{CommitError, ReadError};
use crate::key::Key;
use crate::pages::{Pages, Whole};
use crate::peers::Peers;
use crate::txn::{Committed, Txn, Versioned};

/// A durable map from keys to versioned values, changed by compare-and-commit only.
///
/// Calling order: any number of [`get`](Store::get), [`scan`](Store::scan) and [`commit`](Store::commit), from any
/// number of tasks at once; then [`close`](Store::close), after which every call answers
/// [`Unavailable::Closed`](crate::Unavailable::Closed).
///
/// A future that is dropped before it is ready gives up the answer, not the operation: a dropped `commit` is one whose
/// outcome is unknown.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// The value under `key`, if there is one.
    ///
    /// # Errors
    ///
    /// If the store is not available, or the value is damaged or newer than this program.
    async fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError>;

    /// All keys that begin with `prefix`, in the order of their bytes, as they were at one moment. [`Key::ROOT`] asks
    /// for everything. The answer is held in memory as a whole.
    ///
    /// # Errors
    ///
    /// As for [`get`](Store::get), for any of the values: a scan never leaves out what it cannot read.
    async fn scan(&self, prefix: &Key) -> Result<Vec<(Key, Versioned)>, ReadError>;

    /// The same records page by page, for what is too large to be held in memory, or to be read in one turn. All pages are
    /// of the moment of the first one, whatever is written meanwhile.
    ///
    /// A backend that holds everything in memory may take what is provided here: one scan, cut into pages.
    ///
    /// # Errors
    ///
    /// As for [`scan`](Store::scan).
    async fn pages(&self, prefix: &Key) -> Result<Box<dyn Pages>, ReadError> {
        Ok(Box::new(Whole::new(self.scan(prefix).await?)))
    }

    /// Makes all writes of `txn` if all its guards hold, in one step; OK means that they are durable.
    ///
    /// # Errors
    ///
    /// [`CommitError`]; all but [`CommitError::Unknown`] promise that nothing changed.
    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError>;

    /// The other processes on the store; `None` if there can be none.
    fn peers(&self) -> Option<&dyn Peers> {
        None
    }

    /// The identity that the store was created with. A daemon that finds another identity than it remembers talks to
    /// another store.
    fn store_id(&self) -> StoreId;

    /// What this handle has done since it was opened.
    fn stats(&self) -> Stats;

    /// Finishes what was begun, releases everything that is held (files, locks, connections), and returns when that is
    /// done: the same store can be opened again at once. Closing twice is fine.
    async fn close(&self);
}

/// The identity of a store: 128 random bits, drawn by whoever created it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId([u8; 16]);

impl StoreId {
    /// The identity with these bits. The caller draws them.
    #[must_use]
    pub const fn new(bits: [u8; 16]) -> Self {
        Self(bits)
    }

    /// The bits.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The bits.
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

/// What a handle has done since it was opened. All numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Commits that were answered OK.
    pub commits: u64,
    /// Commits that were answered [`CommitError::Conflict`].
    pub conflicts: u64,
    /// Commits that were answered [`CommitError::Unknown`].
    pub unknowns: u64,
    /// Times that data was made durable. Fewer than `commits` when commits shared one: group commit.
    pub flushes: u64,
    /// Times that the backend had to be opened anew after a failure.
    pub reopens: u64,
}
