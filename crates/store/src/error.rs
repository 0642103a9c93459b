//! The errors of stores, one enum for each operation.
//!
//! For each error of [`commit`](crate::Store::commit), a caller needs to know two things: whether to send the same
//! transaction again ([`CommitError::is_retryable`]), and whether it is certain that nothing changed
//! ([`CommitError::has_no_side_effects`]). Both functions match exhaustively, so every new variant has to be added to
//! them.

use std::error::Error;
use std::sync::Arc;

use crate::key::Key;
use crate::txn::{InvalidTxn, Version};

/// An error from a read. A read never changes anything.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The store cannot be read now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A stored value is damaged.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// A stored value was written by a newer Kent.
    #[error(transparent)]
    NewerSchema(#[from] NewerSchema),
}

impl ReadError {
    /// Returns true if the same read can succeed when it is tried again later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(reason) => reason.is_retryable(),
            Self::Corrupt(_) | Self::NewerSchema(_) => false,
        }
    }
}

/// An error from a commit.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// A key does not have the expected version. Nothing changed, and the actual version is durable.
    #[error("{key} has version {actual}, expected {expected}")]
    Conflict {
        /// The first key, in the order of the guards, whose version differs.
        key: Key,
        /// The version that the transaction expected.
        expected: Version,
        /// The version that the key has.
        actual: Version,
    },
    /// The store cannot commit now. Nothing changed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The outcome is unknown: the commit may have happened, may still happen, or may never happen.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// The transaction breaks a limit. Nothing changed.
    #[error(transparent)]
    Invalid(#[from] InvalidTxn),
    /// A value that the transaction compares or replaces is damaged. Nothing changed.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// A value that the transaction compares or replaces was written by a newer Kent. Nothing changed.
    #[error(transparent)]
    NewerSchema(#[from] NewerSchema),
}

impl CommitError {
    /// Returns true if it is safe to send the same transaction again, and the new attempt can succeed.
    ///
    /// Returns false for `Conflict` and `Unknown`: read the keys again first.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(reason) => reason.is_retryable(),
            Self::Conflict { .. } | Self::Unknown(_) => false,
            Self::Invalid(_) | Self::Corrupt(_) | Self::NewerSchema(_) => false,
        }
    }

    /// Returns true if it is certain that the transaction changed nothing and never will.
    #[must_use]
    pub fn has_no_side_effects(&self) -> bool {
        match self {
            Self::Unknown(_) => false,
            Self::Conflict { .. } | Self::Unavailable(_) => true,
            Self::Invalid(_) | Self::Corrupt(_) | Self::NewerSchema(_) => true,
        }
    }
}

impl From<ReadError> for CommitError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unavailable(fact) => fact.into(),
            ReadError::Corrupt(fact) => fact.into(),
            ReadError::NewerSchema(fact) => fact.into(),
        }
    }
}

/// The store cannot be used now. The failed operation had no effect.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unavailable {
    /// This handle was closed. It cannot be used again.
    #[error("the store is closed")]
    Closed,
    /// The backend of the store is failing. The next request tries again.
    #[error("the store is not available: {0}")]
    Backend(#[source] Arc<dyn Error + Send + Sync>),
    /// The backend has been replaced since this handle was opened. The handle cannot be used again.
    #[error(transparent)]
    Exchanged(#[from] Exchanged),
}

/// The backend was replaced by another one, or rolled back to an earlier state, while it was in use. The current
/// backend may lack commits, so all reservations of this process are void.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exchanged {
    /// Another cluster answered.
    #[error("etcd was replaced: the cluster ID is {found:x}, and was {expected:x} before")]
    Cluster {
        /// The ID of the cluster that answered first.
        expected: u64,
        /// The ID of the cluster that answered now.
        found: u64,
    },
    /// The revision decreased.
    #[error("etcd was rolled back: it is at revision {found}, and was at revision {expected} before")]
    SetBack {
        /// The highest revision seen before the rollback.
        expected: i64,
        /// The current revision.
        found: i64,
    },
    /// A confirmed write is missing from the history.
    #[error("etcd was rolled back: its history lacks the write that it confirmed as revision {revision}")]
    Forgotten {
        /// The revision of the write.
        revision: i64,
    },
}

impl Unavailable {
    /// Returns the cause, without the statement that the store is not available.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Backend(cause) => cause.to_string(),
            Self::Closed | Self::Exchanged(_) => self.to_string(),
        }
    }

    /// Wraps an error from the backend.
    pub fn backend(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Backend(Arc::from(cause.into()))
    }

    /// Returns true if the same request can succeed later on the same handle.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Closed | Self::Exchanged(_) => false,
            Self::Backend(_) => true,
        }
    }
}

/// A commit was started, and its outcome is unknown. Read its keys again to find out the outcome.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the commit may or may not have happened: {cause}; read its keys again")]
pub struct Unknown {
    /// The failure after the commit was started.
    #[source]
    pub cause: Arc<dyn Error + Send + Sync>,
}

impl Unknown {
    /// Wraps an error from the backend.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: Arc::from(cause.into()) }
    }
}

/// A stored value failed its check. It was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored value of {key} is damaged ({damage}); nothing was overwritten: restore the store from a backup")]
pub struct Corrupt {
    /// The key of the value.
    pub key: Key,
    /// The kind of damage.
    pub damage: Damage,
}

/// The kinds of damage to a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The value is shorter than the shortest possible one.
    #[error("it has {bytes} bytes, which is too short")]
    TooShort {
        /// The length of the value.
        bytes: usize,
    },
    /// The value's first byte is not the mark of Kent's values: another program wrote it.
    #[error("it starts with {found:#04x}, but every Kent value starts with 0x4b")]
    Foreign {
        /// The first byte of the value.
        found: u8,
    },
    /// The value's raw key is not a Kent key: another program wrote it. The key in [`Corrupt`] is then [`Key::ROOT`].
    #[error("its key of {bytes} bytes is not a Kent key")]
    ForeignKey {
        /// The length of the raw key.
        bytes: usize,
    },
    /// The value's checksum does not match its key, schema and payload.
    #[error("its checksum is {stored:#010x}, but that of its contents is {computed:#010x}")]
    Checksum {
        /// The stored checksum.
        stored: u32,
        /// The checksum of the contents.
        computed: u32,
    },
}

/// A stored value was written by a newer Kent. It was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the stored value of {key} was written by a newer Kent: it has schema {found}, and this Kent knows up to {known}; \
     upgrade this Kent"
)]
pub struct NewerSchema {
    /// The key of the value.
    pub key: Key,
    /// The schema of the value.
    pub found: u16,
    /// The newest schema that this program knows.
    pub known: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key::from_static("slot/07");

    #[test]
    fn every_error_says_whether_it_is_retryable_and_free_of_side_effects() {
        #[track_caller]
        fn check(error: impl Into<CommitError>, is_retryable: bool, has_no_side_effects: bool) {
            let error = error.into();
            assert_eq!(error.is_retryable(), is_retryable, "{error}");
            assert_eq!(error.has_no_side_effects(), has_no_side_effects, "{error}");
        }
        let conflict = CommitError::Conflict { key: KEY, expected: Version::ABSENT, actual: Version::new(3) };
        check(conflict, false, true);
        check(Unavailable::Closed, false, true);
        check(Unavailable::backend("disk full"), true, true);
        check(Unavailable::from(Exchanged::SetBack { expected: 5, found: 4 }), false, true);
        check(Unknown::new("disk full"), false, false);
        check(InvalidTxn::RootKey, false, true);
        check(Corrupt { key: KEY, damage: Damage::TooShort { bytes: 0 } }, false, true);
        check(NewerSchema { key: KEY, found: 2, known: 1 }, false, true);
    }

    #[test]
    fn messages_are_exact() {
        #[track_caller]
        fn check(error: impl Into<CommitError>, expected: &str) {
            assert_eq!(error.into().to_string(), expected);
        }
        check(
            CommitError::Conflict { key: KEY, expected: Version::ABSENT, actual: Version::new(3) },
            "slot/07 has version 3, expected absent",
        );
        check(
            Corrupt { key: KEY, damage: Damage::Checksum { stored: 1, computed: 0xCAFE } },
            "the stored value of slot/07 is damaged (its checksum is 0x00000001, but that of its contents is 0x0000cafe); \
             nothing was overwritten: restore the store from a backup",
        );
        check(
            NewerSchema { key: KEY, found: 2, known: 1 },
            "the stored value of slot/07 was written by a newer Kent: it has schema 2, and this Kent knows up to 1; upgrade this Kent",
        );
        check(
            Unknown::new("no space left"),
            "the commit may or may not have happened: no space left; read its keys again",
        );
        check(Unavailable::backend("no space left"), "the store is not available: no space left");
    }
}
