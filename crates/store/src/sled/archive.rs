//! The archive: a second copy, on another disk or a network share, that gets every commit before it is acknowledged.
//!
//! With `--archive DIR` each store has its own directory in DIR, named after its identity:
//!
//! | file | contents |
//! |---|---|
//! | `lock` | locked by the daemon that writes the archive, or by a restore |
//! | `base.R` | all records at revision R |
//! | `commits.F` | a *segment*: the frames of the journal starting at revision F, in a file that has its full length from the start |
//! | `newest` | the newest acknowledged revision, as in the store's directory |
//! | `ended` | the reason for the archive's end: the store continued without it, or was restored from it |
//!
//! **The rule:** a commit is acknowledged once it is durable in the journal *and* in the archive. The two syncs run in
//! parallel. Reads do not show a commit before both are done. After a crash or a failure, a commit can be in the
//! journal, in the archive, in both or in neither. Opening the store makes the two equal before any request is served:
//! a commit that only the archive has is replayed into the store, and a commit that only the store has is written to
//! the archive. No revision is ever used for two different commits.
//!
//! The store has a mark that names its archive ([`Mark`](super::record::Mark)) with a *generation*: random bits that
//! are also in every file of the archive. So Kent detects a copy of the store that was made before the archive was
//! started, and an archive that does not belong to the store.
//!
//! After many commits, a new base is written in the background ([`base`]). Once it is durable, older files are removed.

mod appender;
mod base;
mod entry;
mod files;
mod read;
mod writer;

use std::path::PathBuf;

pub(super) use self::appender::{Appender, FrameWriter, WriteAndSync};
pub(super) use self::base::BaseJob;
pub(super) use self::entry::Entry;
pub use self::read::{ArchiveLock, Archived};
pub(super) use self::writer::{Archive, end, initial_mark, try_end};
use crate::store::StoreId;

/// The archive settings of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Archiving {
    /// No archive. A store that has an archive is refused.
    #[default]
    None,
    /// Every commit is written to an archive in this directory, which must exist.
    To {
        /// The directory.
        dir: PathBuf,
        /// The number of bytes of commits after which a new base is written. If twice the size of the last base is
        /// more, that size applies instead.
        base_after: u64,
    },
    /// Like `To`, but a store without an archive is opened without one. A daemon uses this setting until it knows that
    /// the store is not an old copy, because an archive of an old copy would later be mistaken for that of the newer
    /// store.
    Existing {
        /// The directory.
        dir: PathBuf,
        /// As in `To`.
        base_after: u64,
    },
    /// The store continues without its archive, and records the end of the archive in it.
    End {
        /// Whether to continue even if the archive is damaged or cannot be written.
        even_if_lost: bool,
    },
    /// The store is opened read-only, without its archive.
    ReadOnly,
}

impl Archiving {
    /// Returns these settings, except that no new archive is started.
    #[must_use]
    pub fn without_begin(&self) -> Self {
        match self.clone() {
            Self::To { dir, base_after } => Self::Existing { dir, base_after },
            other => other,
        }
    }
}

impl Archiving {
    /// Returns the settings for reopening a store that has its archive. If the archive ended while the store was closed
    /// after an error, a new one is started, so that no commit is only in the store.
    pub(super) fn with_begin(&self) -> Self {
        match self.clone() {
            Self::Existing { dir, base_after } => Self::To { dir, base_after },
            other => other,
        }
    }
}

/// The reason for the end of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The store continued without the archive.
    Left,
    /// The archive was restored as another store.
    Restored {
        /// The identity of that store.
        into: StoreId,
        /// The place where that store was created, for messages.
        place: String,
    },
}

/// Random bits that distinguish several archives of the same store.
pub(super) type Generation = [u8; 16];

#[cfg(test)]
mod tests;
