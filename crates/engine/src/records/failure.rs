//! Errors from reading and writing the store, and from loading its state at startup.

use kent_issue::RolledBack;
use kent_proto::stored::Malformed;
use kent_store::{CommitError, Key, ReadError};
use thiserror::Error;

use super::keys;

/// A read or a commit failed, or a record is malformed.
#[derive(Clone, Debug, Error)]
pub enum StoreFailure {
    /// A read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A commit failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A record is malformed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The store was replaced or rolled back while the daemon was running.
    #[error(
        "the store was replaced or rolled back while this daemon was running ({found}): stop all replicas before you start one again"
    )]
    Replaced {
        /// The record that shows that the store was replaced or rolled back.
        found: String,
    },
}

impl StoreFailure {
    /// The error for a store whose cluster key has changed since this daemon started.
    pub(crate) fn other_store() -> Self {
        Self::Replaced { found: keys::CLUSTER.to_string() }
    }

    /// The failure for a counter whose record is below what this daemon has granted or reserved.
    pub(crate) fn rolled_back(key: &Key, broken: RolledBack) -> Self {
        Self::Replaced { found: format!("{key}: {broken}") }
    }

    /// Whether a retry can succeed. If not, the stored data cannot be trusted.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Read(error) => error.is_retryable(),
            Self::Commit(CommitError::Conflict { .. } | CommitError::Unknown(_)) => true,
            Self::Commit(error) => error.is_retryable(),
            Self::Malformed(_) | Self::Replaced { .. } => false,
        }
    }
}

/// Reasons that the state of a store cannot be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A record cannot be read or written.
    #[error("the state in the store cannot be used")]
    Store(#[from] StoreFailure),
    /// A table breaks an invariant.
    #[error(
        "the table of space {space:?} is damaged ({damage}); nothing was overwritten: restore the store from a backup"
    )]
    Table {
        /// The name of the space.
        space: String,
        /// The broken invariant.
        damage: kent_regions::Damage,
    },
    /// A restore or a migration was interrupted.
    #[error(
        "this store is incomplete: a restore or a migration into it was interrupted. To finish a migration or a \
         restore from an archive, repeat the same command; after a restore from a backup, remove the directory and restore again"
    )]
    HalfRestored,
    /// The replicas use a newer schema than this program supports.
    #[error(
        "the records of this store have schema {found}, and this kentd supports up to {known}: run a newer kentd; an upgraded \
         cluster cannot be downgraded"
    )]
    NewerSchema {
        /// The schema in force.
        found: u16,
        /// The newest schema that this program supports.
        known: u16,
    },
    /// The store was migrated.
    #[error("this store was moved to {to}: start the daemon with --store {to}")]
    Moved {
        /// The address of the new store.
        to: String,
    },
    /// The default space is missing and could not be created.
    #[error("the space `default` could not be created")]
    NoDefaultSpace,
}
