//! Archives: copies of all commits of a daemon, and restores from these copies. Such a restore loses no commit and
//! skips no identifier.
//!
//! An archive contains every acknowledged commit (`kent_store::Archiving`), so a restore from it is exact and does not
//! depend on clocks or tables. The old daemon must not continue after the restore. The restore therefore locks the
//! archive and records in it which store replaces the archived store. From then on, the archived store is rejected. An
//! archive can be restored once; afterward, the archive serves as a backup.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use kent_store::{ArchiveError, ArchiveLock, Archived, Ending, Key, StoreId};
use thiserror::Error;

use super::witness::{Outdated, outdated};

/// All records of a store.
type Records = Vec<(Key, Vec<u8>)>;

/// The archive that a restore reads.
#[derive(Debug)]
pub struct FromArchive {
    /// Its directory.
    pub dir: PathBuf,
    /// The identity of the archived store.
    pub store: StoreId,
    /// The revision of the last commit.
    pub revision: u64,
    /// The number of records.
    pub records: usize,
    /// The lock on the archive; `None` for a dry run.
    lock: Option<ArchiveLock>,
}

/// Why an archive cannot be restored.
#[derive(Debug, Error)]
pub enum NotRestored {
    /// The archive cannot be used.
    #[error(transparent)]
    Archive(ArchiveError),
    /// The archive is damaged.
    #[error(
        "{0}; if the data directory is intact and not an old copy, start it with --no-archive=lost, otherwise restore the newest backup: kentd restore FILE \
         --data /var/lib/kent-new --dry-run"
    )]
    Damaged(ArchiveError),
    /// Commits may be missing at the end of the archive.
    #[error(
        "the archive {0} may lack its last commits, because its file `newest` is missing or damaged. Restore it without --archive, which \
         skips what may have been issued: kentd restore {0} --data /var/lib/kent-new --dry-run", dir.display()
    )]
    Unproven {
        /// The directory of the archive.
        dir: PathBuf,
    },
    /// Another copy of the archived store was started later.
    #[error(
        "the archive {0} is that of an old copy: its start count is {starts}, but the witness {1} has counted {seen}. Identifiers \
         issued by the newer copy could be issued again. Restore the newer copy, or make a new store that skips them: kentd restore {0} \
         --data /var/lib/kent-new --dry-run", dir.display(), witness.display()
    )]
    OldCopy {
        /// The directory of the archive.
        dir: PathBuf,
        /// The file of the witness.
        witness: PathBuf,
        /// The number of starts that the archived store has counted.
        starts: u64,
        /// The number of starts that the witness has seen.
        seen: u64,
    },
    /// The archive is not a directory.
    #[error(
        "{} is not a directory: --archive restores from the directory that the daemon used with --archive; to restore from a backup, leave \
         --archive out (kentd restore {} --data /var/lib/kent-new)", path.display(), path.display()
    )]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The directory contains a store, not an archive.
    #[error(
        "{0} is a data directory, not an archive: give the directory that the daemon used with --archive, or leave --archive out to skip \
         what may have been issued since (kentd restore {0} --data {0}-new --dry-run)", path.display()
    )]
    IsData {
        /// The path.
        path: PathBuf,
    },
    /// The archive does not exist.
    #[error("the archive {} does not exist: give the directory that the daemon used with --archive", path.display())]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// The directory has no archive of the chosen store.
    #[error("{} has no archive of store {store:?}; it has {}: choose one with --store", dir.display(), Listed(stores))]
    NoSuchStore {
        /// The directory.
        dir: PathBuf,
        /// The requested store.
        store: String,
        /// The directories of the stores.
        stores: Vec<PathBuf>,
    },
    /// The directory has the archives of several stores.
    #[error("{} has several archives: choose one with --store: {}", dir.display(), Listed(stores))]
    Several {
        /// The directory.
        dir: PathBuf,
        /// The directories of the stores.
        stores: Vec<PathBuf>,
    },
}

impl From<ArchiveError> for NotRestored {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Damaged { .. } | ArchiveError::Record { .. } => Self::Damaged(error),
            error => Self::Archive(error),
        }
    }
}

/// Displays the names of directories.
struct Listed<'d>(&'d [PathBuf]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().filter_map(|dir| dir.file_name()).map(|name| name.to_string_lossy());
        f.write_str(&names.collect::<Vec<_>>().join(", "))
    }
}

/// Reads the archive of the chosen store for a restore into `into`. Locks the archive unless this is a dry run. Writes
/// nothing.
pub(crate) fn open(
    dir: &Path,
    store: Option<&str>,
    into: &Path,
    is_held: bool,
) -> Result<(FromArchive, Records), NotRestored> {
    let dir = find(dir, store)?;
    // A dry run may read an archive that a daemon is writing to.
    let lock = if is_held { Some(ArchiveLock::take(&dir)?) } else { None };
    let archived = Archived::read(&dir)?;
    check_not_ended(&dir, &archived, into)?;
    if !archived.has_newest {
        return Err(NotRestored::Unproven { dir });
    }
    if let Some(Outdated { starts, seen, witness }) = outdated(&archived.records, archived.store) {
        return Err(NotRestored::OldCopy { dir, witness, starts, seen });
    }
    let from =
        FromArchive { store: archived.store, revision: archived.revision, records: archived.records.len(), lock, dir };
    Ok((from, archived.records))
}

/// Finds the directory of the chosen store's archive.
fn find(dir: &Path, store: Option<&str>) -> Result<PathBuf, NotRestored> {
    if Archived::is_one(dir) {
        return Ok(dir.to_owned());
    }
    let path = dir.to_owned();
    if dir.is_file() {
        return Err(NotRestored::NotADirectory { path });
    }
    if !dir.exists() {
        return Err(NotRestored::NotFound { path });
    }
    let found = Archived::list(dir)?;
    let named = |dir: &Path| store.is_none_or(|store| dir.file_name().is_some_and(|name| name == store));
    let named: Vec<_> = found.iter().filter(|(dir, _)| named(dir)).collect();
    let live: Vec<_> = named.iter().filter(|(_, ending)| ending.is_none()).map(|(dir, _)| dir.clone()).collect();
    match (&live[..], &named[..]) {
        ([one], _) | ([], [(one, _)]) => Ok(one.clone()),
        ([], []) if dir.join("db").exists() => Err(NotRestored::IsData { path }),
        ([], []) => match store.filter(|_| !found.is_empty()) {
            Some(store) => {
                let stores = found.iter().map(|(dir, _)| dir.clone()).collect();
                Err(NotRestored::NoSuchStore { dir: path, store: store.to_owned(), stores })
            }
            None => Err(ArchiveError::Nothing { dir: path }.into()),
        },
        ([], several) => {
            let stores = several.iter().map(|(dir, _)| dir.clone()).collect();
            Err(NotRestored::Several { dir: dir.to_owned(), stores })
        }
        _ => Err(NotRestored::Several { dir: dir.to_owned(), stores: live }),
    }
}

/// Rejects an archive that has ended, unless `into` contains an interrupted restore: an ended archive lacks later
/// commits.
fn check_not_ended(dir: &Path, archived: &Archived, into: &Path) -> Result<(), NotRestored> {
    let dir = dir.to_owned();
    match &archived.ending {
        None => Ok(()),
        Some(Ending::Left) => Err(ArchiveError::Left { dir }.into()),
        Some(Ending::Restored { .. }) if into.join("db").exists() => Ok(()),
        Some(Ending::Restored { into, place }) => {
            Err(ArchiveError::Restored { dir, into: *into, place: place.clone() }.into())
        }
    }
}

impl FromArchive {
    /// Records in the archive that the store `into` replaces the archived store. Called before anything is written to
    /// `into`.
    pub(crate) fn hand_over(&self, into: StoreId, data: &Path) -> Result<(), NotRestored> {
        let place = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
        match &self.lock {
            Some(lock) => Ok(lock.hand_over(into, &place.display().to_string())?),
            None => Ok(ArchiveLock::take(&self.dir)?.hand_over(into, &place.display().to_string())?),
        }
    }
}

/// Whether a directory is an archive, or contains archives.
pub(crate) fn is_there(dir: &Path) -> Result<bool, NotRestored> {
    Ok(Archived::is_one(dir) || !Archived::list(dir)?.is_empty())
}

/// Whether a directory is an archive that has not ended and lacks no commits, or contains such archives.
pub(crate) fn is_complete(dir: &Path) -> Result<bool, NotRestored> {
    let is_whole = |dir: &Path| Ok::<_, ArchiveError>(Archived::read(dir)?.has_newest);
    if Archived::is_one(dir) {
        return Ok(is_whole(dir)?);
    }
    let live = Archived::list(dir)?.into_iter().filter(|(_, ending)| ending.is_none());
    live.map(|(dir, _)| is_whole(&dir)).try_fold(false, |any, whole| Ok(any | whole?))
}

/// Reads the records of an archive, and returns its directory, or `None` if the directory is not an archive.
pub(crate) fn read(dir: &Path) -> Result<Option<(PathBuf, Records)>, NotRestored> {
    if !is_there(dir)? {
        return Ok(None);
    }
    let dir = find(dir, None)?;
    let records = Archived::read(&dir)?.records;
    Ok(Some((dir, records)))
}
