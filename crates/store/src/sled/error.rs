//! What can go wrong, one enum for each of ledger, archive and directory, and one for the opening of a store.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::record::LAYOUT;
use crate::error::{Corrupt, NewerSchema, ReadError};
use crate::store::StoreId;

/// Why a directory cannot serve as a store. Nothing that was stored in it was overwritten.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds the directory.
    #[error("another kentd (or tool) holds {}: stop it first, or use another directory", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// The path leads to something else than a directory.
    #[error("{} is not a directory", dir.display())]
    NotADirectory {
        /// The path.
        dir: PathBuf,
    },
    /// The process may not read or write a file that it needs to.
    #[error("no permission to use {}: {source}", path.display())]
    Permission {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The directory holds a database that no Kent created.
    #[error("{} holds a database that Kent did not create: use another directory", dir.display())]
    Foreign {
        /// The directory.
        dir: PathBuf,
    },
    /// The database was laid out by a newer Kent.
    #[error("{} was written by a newer Kent: layout {found}, this one knows {known}; upgrade this one", dir.display())]
    NewerLayout {
        /// The directory.
        dir: PathBuf,
        /// The layout it has.
        found: u32,
        /// The newest layout that this program knows.
        known: u32,
    },
    /// A record of the store itself was written by a newer Kent.
    #[error(transparent)]
    NewerSchema(NewerSchema),
    /// A record of the store itself is damaged.
    #[error(transparent)]
    Corrupt(Corrupt),
    /// The database cannot be recovered.
    #[error("the database in {} is damaged ({what}): restore it from a backup", dir.display())]
    Damaged {
        /// The directory.
        dir: PathBuf,
        /// What the recovery said.
        what: String,
    },
    /// The archive of the store.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The file system fails.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl OpenError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::PermissionDenied => Self::Permission { path, source },
            _ => Self::Io { path, source },
        }
    }
}

/// Why the directory could not do something.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiskError {
    /// Somebody else holds sled's file.
    #[error("the database file is held by another process, or sled has not let go of it yet")]
    Held,
    /// The file system fails.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The database fails.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The archive cannot be used.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// sled panicked.
    #[error("sled panicked: {0}")]
    Panicked(String),
}

/// Why the ledger could not do something.
#[derive(Debug, thiserror::Error)]
pub(super) enum LedgerError {
    /// The database itself fails.
    #[error("sled: {0}")]
    Sled(#[from] ::sled::Error),
    /// One value is not what it should be; the database works.
    #[error(transparent)]
    Value(#[from] ReadError),
    /// The database was laid out by a newer Kent.
    #[error("the database has layout {found}, this Kent knows {LAYOUT}")]
    NewerLayout { found: u32 },
    /// The database is older than it was.
    #[error("it has lost its newest commits: it is at revision {found}, and revision {known} was acknowledged")]
    Lost {
        /// Its revision.
        found: u64,
        /// The one that it had.
        known: u64,
    },
    /// The journal is not this database's.
    #[error("its journal belongs to another database")]
    OtherJournal,
    /// The database has contents, but not the records of a store.
    #[error("the database was not created by Kent")]
    Foreign,
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
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}
