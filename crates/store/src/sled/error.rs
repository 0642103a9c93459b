//! The errors of the ledger, the archive and the directory, and of opening a store.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use super::record::LAYOUT;
use crate::error::{Corrupt, NewerSchema, ReadError};
use crate::store::StoreId;

/// An error from opening a store. The stored data was not changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the directory.
    #[error("another kentd (or tool) uses {}: stop it first, or use another directory", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// The path is not a directory.
    #[error("{} is not a directory", dir.display())]
    NotADirectory {
        /// The path.
        dir: PathBuf,
    },
    /// The process lacks the permission to read or write a file.
    #[error(
        "no permission to use {}: {obstacle}; use the user that owns it, or another directory",
        path.display()
    )]
    Permission {
        /// The file or directory.
        path: PathBuf,
        /// The file or directory that denies access.
        obstacle: Obstacle,
        /// The error from the operating system.
        source: io::Error,
    },
    /// The directory is not empty, and is not a Kent store.
    #[error(
        "{} is not empty and is not a Kent store (it contains {found:?}): use an empty or a new directory, such as {}",
        dir.display(), dir.join("kent").display()
    )]
    NotAStore {
        /// The directory.
        dir: PathBuf,
        /// The name of a file or directory in `dir`.
        found: String,
    },
    /// The directory is an archive.
    #[error(
        "{0} is the archive of a store, not a data directory: to make a store from it: kentd restore --archive {0} --data \
         /var/lib/kent-new", dir.display()
    )]
    IsArchive {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory has no store, but was opened read-only.
    #[error("there is no store in {}", dir.display())]
    NoStore {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory has a database that Kent did not create.
    #[error("{} has a database that Kent did not create: use another directory", dir.display())]
    Foreign {
        /// The directory.
        dir: PathBuf,
    },
    /// A newer version of Kent wrote the database.
    #[error(
        "{} was written by a newer Kent: it has layout {found}, and this Kent knows up to {known}; upgrade this Kent",
        dir.display()
    )]
    NewerLayout {
        /// The directory.
        dir: PathBuf,
        /// The layout of the database.
        found: u32,
        /// The newest layout that this program knows.
        known: u32,
    },
    /// A newer version of Kent wrote one of the store's own records.
    #[error(transparent)]
    NewerSchema(NewerSchema),
    /// One of the store's own records is damaged.
    #[error(transparent)]
    Corrupt(Corrupt),
    /// The database cannot be recovered.
    #[error("the database in {} is damaged ({what}): restore it from a backup", dir.display())]
    Damaged {
        /// The directory.
        dir: PathBuf,
        /// The error from the recovery.
        what: String,
    },
    /// The archive fails.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The file system fails.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error from the operating system.
        source: io::Error,
    },
}

/// The file or directory that denies access to a path.
#[derive(Debug)]
pub struct Obstacle {
    /// The path itself or, if its metadata cannot be read, the nearest directory above it whose metadata can be read.
    path: PathBuf,
    /// The user ID of its owner, and its permission bits.
    owner: Option<(u32, u32)>,
}

impl Obstacle {
    /// Finds what denies access to a path.
    fn of(path: &Path) -> Self {
        let seen = path.ancestors().find_map(|path| Some((path, fs::symlink_metadata(path).ok()?)));
        let (seen, metadata) = seen.unzip();
        let owner = metadata.map(|metadata| (metadata.uid(), metadata.mode() & 0o7777));
        Self { path: seen.unwrap_or(path).to_owned(), owner }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.owner {
            Some((uid, mode)) => write!(f, "{path} belongs to user {uid} and has mode {mode:04o}"),
            None => write!(f, "{path} cannot be seen"),
        }
    }
}

impl OpenError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::PermissionDenied => Self::Permission { obstacle: Obstacle::of(&path), path, source },
            _ => Self::Io { path, source },
        }
    }
}

/// An error from a store's directory.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiskError {
    /// sled's file is locked.
    #[error("the database file is locked by another process, or sled has not released it yet")]
    Locked,
    /// The file system fails.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The database fails.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The archive fails.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// sled panicked.
    #[error("sled panicked: {0}")]
    Panicked(String),
}

/// An error from the ledger.
#[derive(Debug, thiserror::Error)]
pub(super) enum LedgerError {
    /// sled fails.
    #[error("sled: {0}")]
    Sled(#[from] ::sled::Error),
    /// A value is damaged or too new. The database itself works.
    #[error(transparent)]
    Value(#[from] ReadError),
    /// A newer version of Kent wrote the database.
    #[error("the database has layout {found}, and this Kent knows up to {LAYOUT}")]
    NewerLayout { found: u32 },
    /// The database has lost acknowledged commits.
    #[error("it has lost its newest commits: it is at revision {found}, but revision {known} was acknowledged")]
    Lost {
        /// The revision of the database.
        found: u64,
        /// The newest acknowledged revision.
        known: u64,
    },
    /// The journal belongs to another database.
    #[error("its journal belongs to another database")]
    OtherJournal,
    /// The database has contents, but lacks the store's own records.
    #[error("the database was not created by Kent")]
    Foreign,
}

/// An error from an archive. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file system fails.
    #[error("the archive cannot be used: {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error from the operating system.
        source: io::Error,
    },
    /// Another process uses the archive.
    #[error("another kentd (or kentd restore) uses the archive {}: stop it first", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// A file is damaged.
    #[error("the archive is damaged: {} at byte {at}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset in the file, in bytes.
        at: u64,
        /// The kind of damage.
        what: &'static str,
    },
    /// A record is damaged or too new.
    #[error("the archive {} is damaged: {source}", dir.display())]
    Record {
        /// The directory.
        dir: PathBuf,
        /// The error for the record.
        source: ReadError,
    },
    /// The directory is not an archive.
    #[error("{} is not the archive of a store: give the directory that the daemon used with --archive", dir.display())]
    Nothing {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory of the archive does not exist. Kent does not create it, because its disk may not be mounted.
    #[error(
        "the directory of the archive {} does not exist: is its disk mounted?{}",
        dir.display(),
        if *is_new { format!(" For a new archive, create the directory first: mkdir -p {}", dir.display()) } else { String::new() }
    )]
    NoDirectory {
        /// The directory given in the settings.
        dir: PathBuf,
        /// Whether the archive would be a new one.
        is_new: bool,
    },
    /// The path given for the archive is not a directory.
    #[error("the archive {} is not a directory: name one that exists, on another disk than the data", dir.display())]
    NotADirectory {
        /// The path given in the settings.
        dir: PathBuf,
    },
    /// The store has an archive, and the daemon was started without it.
    #[error(
        "the store has an archive in {}: start with --archive {}, or end the archive with --no-archive",
        dir.display(), dir.display()
        )]
    NotConfigured {
        /// The directory of the archive.
        dir: PathBuf,
    },
    /// The store's archive is missing.
    #[error("{} has no archive of this store, {}", dir.display(), advice_if_missing(dir, before))]
    Missing {
        /// The directory given in the settings.
        dir: PathBuf,
        /// The directory of the store's archive.
        before: PathBuf,
    },
    /// The directory has a copy of the archive, and the archive itself is still where it was.
    #[error(
        "{} is a copy of the store's archive {}, which would be taken for a complete one if it were restored later. To move the \
         archive, remove {} first, or end it: start once with --no-archive", dir.display(), before.display(), before.display()
    )]
    Copied {
        /// The directory given in the settings.
        dir: PathBuf,
        /// The directory of the store's archive.
        before: PathBuf,
    },
    /// Another copy of the store started the archive.
    #[error(
        "the archive in {} was started by another copy of this store. If this store is the older copy, restore the newer one: kentd \
         restore --archive {} --data /var/lib/kent-new. If this store is the newer copy, put the archive away and start again: mv {} \
         {}-other", dir.display(), dir.display(), at.display(), at.display()
    )]
    Unknown {
        /// The directory given in the settings.
        dir: PathBuf,
        /// The directory of the store's archive within `dir`.
        at: PathBuf,
    },
    /// The store is an old copy, and the archive no longer has all the commits that the copy lacks.
    #[error(
        "the store is an old copy: it is at revision {revision}, and the archive starts at {base}. Restore the newer store: kentd \
         restore --archive {} --data /var/lib/kent-new", dir.display()
    )]
    OldCopy {
        /// The directory.
        dir: PathBuf,
        /// The revision of the store.
        revision: u64,
        /// The revision of the archive's base, or the revision at which the archive ended.
        base: u64,
    },
    /// The store and the archive have different commits at the same revision.
    #[error(
        "the store and its archive {} have different commits at revision {revision}: another copy of the store used this archive. \
         Restore that copy: kentd restore --archive {} --data /var/lib/kent-new", dir.display(), dir.display()
    )]
    Differs {
        /// The directory.
        dir: PathBuf,
        /// The revision.
        revision: u64,
    },
    /// The store was restored from its archive.
    #[error(
        "the store was restored from its archive {} as store {into} (made in {place}): use that store, because only it knows the \
         numbers issued since then", dir.display()
    )]
    Restored {
        /// The directory.
        dir: PathBuf,
        /// The identity of the restored store.
        into: StoreId,
        /// The place where the restored store was created.
        place: String,
    },
    /// The store has ended the archive and continued without it.
    #[error(
        "the store continued without the archive {}, which is now only a backup: kentd restore {} --data /var/lib/kent-new skips the numbers that may have \
         been issued since", dir.display(), dir.display()
    )]
    Left {
        /// The directory.
        dir: PathBuf,
    },
    /// The end of the archive cannot be recorded in it.
    #[error(
        "the end of the archive cannot be recorded in it, so a later restore would treat it as complete{}",
        // The text of `Missing`, which follows, ends with this advice.
        if matches!(**.0, ArchiveError::Missing { .. }) { String::new() } else { format!(". {IF_LOST}") }
    )]
    CannotEnd(#[source] Box<ArchiveError>),
}

const IF_LOST: &str = "If the archive was never restored and is permanently lost, start once with --no-archive=lost, and never restore from it";

/// Returns the advice for a directory without the store's archive. Plain `--no-archive` works only if the archive is in
/// another directory, because it writes to the archive.
fn advice_if_missing(dir: &Path, before: &Path) -> String {
    match dir == before {
        true => format!("although the store has recorded that its archive is there: is the disk mounted? {IF_LOST}"),
        false => format!(
            "whose archive is in {}: is the disk mounted? To start a new archive, start once with --no-archive",
            before.display()
        ),
    }
}

impl ArchiveError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn err_a_missing_permission_names_the_innermost_directory_that_can_be_seen() {
        let root = tempfile::tempdir().expect("a directory");
        let (owner, outer) = (fs::metadata(root.path()).expect("there").uid(), root.path().join("outer"));
        fs::create_dir(&outer).expect("created");
        fs::set_permissions(&outer, fs::Permissions::from_mode(0o750)).expect("changed");
        for path in [outer.join("a/b"), outer.join("a"), outer.clone()] {
            let error = OpenError::io(&path, ErrorKind::PermissionDenied.into()).to_string();
            let (path, outer) = (path.display(), outer.display());
            let expected = format!(
                "no permission to use {path}: {outer} belongs to user {owner} and has mode 0750; use the user that owns it, or \
                 another directory"
            );
            assert_eq!(error, expected);
        }
    }
}
