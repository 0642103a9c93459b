//! What can go wrong, one enum per operation, made of facts.
//!
//! A caller of [`commit`](crate::Store::commit) asks two questions of an error: may the same transaction be sent
//! again ([`CommitError::is_retryable`]), and is it certain that nothing changed
//! ([`CommitError::has_no_side_effects`])? Both are exhaustive matches, so that a new variant cannot go unanswered.

use std::error::Error;
use std::sync::Arc;

use crate::key::Key;
use crate::txn::{InvalidTxn, Version};

/// Why a read gave no answer. No read has an effect.
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
    /// Whether the same read may succeed later without anybody's doing.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(reason) => reason.is_retryable(),
            Self::Corrupt(_) | Self::NewerSchema(_) => false,
        }
    }
}

/// Why a commit was not answered with OK.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// A key has another version than expected: nothing changed, and that other version is durable.
    #[error("{key} has version {actual}, not {expected} as expected")]
    Conflict {
        /// The first key, in the order of the guards, whose version differs.
        key: Key,
        /// The version that the transaction expected.
        expected: Version,
        /// The version that the key has.
        actual: Version,
    },
    /// The store cannot take commits now: nothing changed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The commit may have happened, may happen yet, or may never happen.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// The transaction breaks a limit: nothing changed.
    #[error(transparent)]
    Invalid(#[from] InvalidTxn),
    /// A value that the transaction compares or would replace is damaged: nothing changed.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// A value that the transaction compares or would replace was written by a newer Kent: nothing changed.
    #[error(transparent)]
    NewerSchema(#[from] NewerSchema),
}

impl CommitError {
    /// Whether sending the very same transaction again is right and may succeed.
    ///
    /// Not so after `Conflict` and `Unknown`: both ask for a fresh look at the keys first.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(reason) => reason.is_retryable(),
            Self::Conflict { .. } | Self::Unknown(_) => false,
            Self::Invalid(_) | Self::Corrupt(_) | Self::NewerSchema(_) => false,
        }
    }

    /// Whether it is certain that the transaction changed nothing and never will.
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

/// The store cannot be used now. Promised to be free of effects.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unavailable {
    /// This handle was closed; it stays so.
    #[error("the store is closed")]
    Closed,
    /// The backend behind the store does not work at present. The store tries again on the next request.
    #[error("the store is not available: {0}")]
    Backend(#[source] Arc<dyn Error + Send + Sync>),
    /// The backend is not the one that it was when this handle was opened; it stays so.
    #[error(transparent)]
    Exchanged(#[from] Exchanged),
}

/// What is behind the store was exchanged, or set back to an earlier state, while it was in use. What was committed meanwhile
/// may be forgotten, so nothing that was reserved may be relied on any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exchanged {
    /// Another cluster answers.
    #[error("etcd was exchanged: cluster {found:x} answers, and it was {expected:x}")]
    Cluster {
        /// The id of the cluster that answered first.
        expected: u64,
        /// The id of the one that answers now.
        found: u64,
    },
    /// A revision went back.
    #[error("etcd was set back: it is at revision {found}, and was at {expected}")]
    SetBack {
        /// The revision of which it had told.
        expected: i64,
        /// The revision that it has now.
        found: i64,
    },
    /// A write that was confirmed is not in the history.
    #[error("etcd was set back: it has confirmed a write as revision {revision}, and has another one there")]
    Forgotten {
        /// The revision of the write.
        revision: i64,
    },
}

impl Unavailable {
    /// Wraps what the backend said.
    pub fn backend(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Backend(Arc::from(cause.into()))
    }

    /// Whether the same request may succeed later on the same handle.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Closed | Self::Exchanged(_) => false,
            Self::Backend(_) => true,
        }
    }
}

/// A commit was begun and its outcome was not learnt. Read the keys again to find out.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the commit may or may not have happened, read its keys again: {cause}")]
pub struct Unknown {
    /// What went wrong after the commit was begun.
    #[source]
    pub cause: Arc<dyn Error + Send + Sync>,
}

impl Unknown {
    /// Wraps what the backend said.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: Arc::from(cause.into()) }
    }
}

/// A stored value failed its check. It was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored value of {key} is damaged ({damage}); nothing was overwritten: restore the store from a backup")]
pub struct Corrupt {
    /// Whose value it is.
    pub key: Key,
    /// What is wrong with it.
    pub damage: Damage,
}

/// What is wrong with a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It is shorter than the shortest value.
    #[error("it has {bytes} bytes, fewer than any value of Kent")]
    TooShort {
        /// Its length.
        bytes: usize,
    },
    /// Its first byte is not the mark of Kent's values: something else wrote it.
    #[error("it begins with {found:#04x}, which no value of Kent does")]
    Foreign {
        /// Its first byte.
        found: u8,
    },
    /// It is stored under bytes that are no key: something else wrote it. The key is given as the empty one.
    #[error("it is stored under {bytes} bytes that are no key of Kent")]
    ForeignKey {
        /// The length of what it is stored under.
        bytes: usize,
    },
    /// Its checksum does not fit its key, schema and payload.
    #[error("its checksum is {stored:#010x}, its contents give {computed:#010x}")]
    Checksum {
        /// The checksum that is stored with it.
        stored: u32,
        /// The checksum of what is stored.
        computed: u32,
    },
}

/// A stored value was written by a newer Kent. It was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the stored value of {key} was written by a newer Kent: schema {found}, this one knows {known}; upgrade this one"
)]
pub struct NewerSchema {
    /// Whose value it is.
    pub key: Key,
    /// The schema it was written with.
    pub found: u16,
    /// The newest schema that this program knows.
    pub known: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key::from_static("slot/07");

    #[test]
    fn two_questions() {
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
    fn messages_say_what_to_do() {
        #[track_caller]
        fn check(error: impl Into<CommitError>, expected: &str) {
            assert_eq!(error.into().to_string(), expected);
        }
        check(
            CommitError::Conflict { key: KEY, expected: Version::ABSENT, actual: Version::new(3) },
            "slot/07 has version 3, not absent as expected",
        );
        check(
            Corrupt { key: KEY, damage: Damage::Checksum { stored: 1, computed: 0xCAFE } },
            "the stored value of slot/07 is damaged (its checksum is 0x00000001, its contents give 0x0000cafe); \
             nothing was overwritten: restore the store from a backup",
        );
        check(
            NewerSchema { key: KEY, found: 2, known: 1 },
            "the stored value of slot/07 was written by a newer Kent: schema 2, this one knows 1; upgrade this one",
        );
        check(
            Unknown::new("no space left"),
            "the commit may or may not have happened, read its keys again: no space left",
        );
        check(Unavailable::backend("no space left"), "the store is not available: no space left");
    }
}
