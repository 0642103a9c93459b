//! The archive: a second place, on another disk or a share, that has every commit before it is acknowledged.
//!
//! A store that is archived in DIR has a directory of its own there, named after its identity:
//!
//! | file | what |
//! |---|---|
//! | `lock` | locked by the daemon that writes, or by a restore |
//! | `base.R` | all records at revision R |
//! | `commits.F` | a *segment*: the journal's frames from revision F on, in a file that has its full length from the beginning |
//! | `newest` | the newest revision that was acknowledged, as beside the store |
//! | `ended` | why nothing more is written: the store is archived no more, or was restored from here |
//!
//! **One rule.** A commit is answered when it is durable in the journal *and* in the archive; the two syncs run side by side. Until
//! both are, it is not seen, so a crash or a failure may leave it in either of them, in both or in neither. Opening the store
//! makes them equal again before anything is answered: a commit that only the archive has is taken into the store, and one that
//! only the store has goes to the archive. No revision is ever used again for something else.
//!
//! The store remembers that it is archived ([`Mark`]), and under which *generation*, random bits that every file of the archive
//! names. So a copy of the store that does not know the archive, or an archive that does not know the store, is noticed.
//!
//! A new base is written in the background ([`base`]) when the commits since the last one are many; only when it is durable, what is
//! older is removed.

mod appender;
mod base;
mod entry;
mod files;
mod read;
mod writer;

use std::io;
use std::path::{Path, PathBuf};

use prost::Message;

pub(super) use self::appender::{Appender, Ship, WriteAndSync};
pub(super) use self::base::BaseJob;
pub(super) use self::entry::Entry;
pub use self::read::{ArchiveLock, Archived};
pub(super) use self::writer::{Archive, begins, end, try_end};
use crate::error::ReadError;
use crate::store::StoreId;

/// Whether a store is archived, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Archiving {
    /// It is not. One that was before is refused.
    #[default]
    None,
    /// Every commit goes to this directory, which has to exist.
    To {
        /// The directory.
        dir: PathBuf,
        /// How many bytes of commits there are before all records are written anew. Twice the size of the records, if that is more.
        base_after: u64,
    },
    /// It is archived no more, and its archive is told.
    End {
        /// Goes on even if the archive cannot be told, or is damaged.
        even_if_lost: bool,
    },
    /// It is opened to be read only, whatever its archive has.
    ReadOnly,
}

/// What is said in an archive to which nothing more is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The store went on without it.
    Left,
    /// It was restored, and goes on as another store.
    Restored {
        /// The identity of that store.
        into: StoreId,
        /// Where it was made, for people.
        place: String,
    },
}

/// Why an archive cannot be used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file system fails.
    #[error("the archive cannot be used: {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process holds it.
    #[error("another kentd (or kentd restore) holds the archive {}: stop it first", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// What is in a file is not what was written.
    #[error("the archive is damaged: {} at byte {at}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A record makes no sense.
    #[error("the archive {} is damaged: {source}", dir.display())]
    Record {
        /// The directory.
        dir: PathBuf,
        /// Which record.
        source: ReadError,
    },
    /// There is none.
    #[error("{} holds no archive of a store", dir.display())]
    Nothing {
        /// The directory.
        dir: PathBuf,
    },
    /// The store is archived, and the daemon was not told where.
    #[error(
        "the store is archived in {}: say --archive {}, or end that with --no-archive", dir.display(), dir.display()
    )]
    NotAsked {
        /// Where it is archived.
        dir: PathBuf,
    },
    /// The archive that the store had is not there.
    #[error(
        "{} has no archive of this store, which is archived in {}: is the disk mounted? To begin a new archive, start once with \
         --no-archive", dir.display(), before.display()
    )]
    Missing {
        /// The directory that was named.
        dir: PathBuf,
        /// Where the store is archived.
        before: PathBuf,
    },
    /// The archive is in use, and the store does not know it.
    #[error(
        "{} is an archive of this store that the store does not know: the store is an old copy. Restore the newer one: kentd \
         restore --archive {} --data NEW", dir.display(), dir.display()
    )]
    Unknown {
        /// The directory.
        dir: PathBuf,
    },
    /// The store is older than the archive, and what it lacks is not there commit by commit any more.
    #[error(
        "the store is an old copy: it is at revision {revision}, and the archive begins at {base}. Restore the newer one: kentd \
         restore --archive {} --data NEW", dir.display()
    )]
    OldCopy {
        /// The directory.
        dir: PathBuf,
        /// The revision of the store.
        revision: u64,
        /// That of the archive's base, or of its end.
        base: u64,
    },
    /// Store and archive have different commits of the same revision.
    #[error(
        "the store and its archive {} have different commits at revision {revision}: another copy of the store was archived there. \
         Restore that one: kentd restore --archive {} --data NEW", dir.display(), dir.display()
    )]
    Differs {
        /// The directory.
        dir: PathBuf,
        /// The revision.
        revision: u64,
    },
    /// The store was restored from its archive.
    #[error(
        "the store was restored from its archive {} and goes on as store {into} (made in {place}): only that one knows what was \
         issued since", dir.display()
    )]
    Restored {
        /// The directory.
        dir: PathBuf,
        /// The identity of the store that goes on.
        into: StoreId,
        /// Where it was made.
        place: String,
    },
    /// The store went on without the archive.
    #[error(
        "the store went on without the archive {}, which is a backup since: kentd restore {} --data NEW skips what may have been issued \
         since", dir.display(), dir.display()
    )]
    Left {
        /// The directory.
        dir: PathBuf,
    },
    /// The archive cannot be told that it ends.
    #[error(
        "the archive cannot be told that it ends, and would pass for one that has all commits. If it is gone for ever, say \
         --no-archive=lost, and never restore from it"
    )]
    Untold(#[source] Box<ArchiveError>),
}

impl ArchiveError {
    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

/// Random bits that tell the archive of a store from another one of the same store.
pub(super) type Generation = [u8; 16];

/// What a store remembers of its archive.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Mark {
    /// The archive's generation.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) generation: Vec<u8>,
    /// Whether the archive has ever been whole.
    #[prost(bool, tag = "2")]
    pub(super) begun: bool,
    /// The directory that was named.
    #[prost(string, tag = "3")]
    pub(super) dir: String,
}

#[cfg(test)]
mod tests;
