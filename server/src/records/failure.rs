//! What is stored cannot be read or written, or not be used.

use kent_proto::stored::Malformed;
use kent_store::{CommitError, ReadError};
use thiserror::Error;

/// What is stored cannot be read, or a write's fate is not known.
#[derive(Clone, Debug, Error)]
pub enum StoreFailure {
    /// A read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A commit failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A record makes no sense.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl StoreFailure {
    /// Whether the fault may pass by itself. If not, what is stored cannot be trusted.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Read(error) => error.is_retryable(),
            Self::Commit(CommitError::Conflict { .. } | CommitError::Unknown(_)) => true,
            Self::Commit(error) => error.is_retryable(),
            Self::Malformed(_) => false,
        }
    }
}

/// Why the daemon did not start.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The store cannot be used.
    #[error("what is stored cannot be used")]
    Store(#[from] StoreFailure),
    /// A table breaks its own rules.
    #[error(
        "the table of space {space:?} is damaged ({damage}); nothing was overwritten: restore the store from a backup"
    )]
    Table {
        /// Whose table.
        space: String,
        /// Which rule is broken.
        damage: kent_regions::Damage,
    },
    /// A restore or a move was broken off.
    #[error(
        "this store is not whole: a restore or a move into it was broken off. Finish a move with the same kentd migrate; after a \
         restore, remove the directory and restore again"
    )]
    HalfRestored,
    /// The replicas have agreed on a newer schema than this program knows.
    #[error(
        "the records of this store are written by schema {found}, and this kentd knows up to {known}: run a newer kentd; a \
         cluster that was upgraded cannot go back"
    )]
    NewerSchema {
        /// The schema in force.
        found: u16,
        /// The newest one that is known.
        known: u16,
    },
    /// The store was moved elsewhere.
    #[error("this store was moved to {to}: start the daemon on that one (--store)")]
    Moved {
        /// Where.
        to: String,
    },
    /// The default space is neither there nor can it be made.
    #[error("the space `default` could not be made")]
    NoDefaultSpace,
}
