//! Archives: where a daemon's commits go beside its store, and a restore from there, which loses and skips nothing.
//!
//! An archive has every commit that was acknowledged (`kent_store::Archiving`), so what it says is exact, whatever clocks and tables
//! did. Its daemon cannot go on beside the restored store: the archive is held while it is restored, and says afterwards which store
//! goes on, so that the old one is refused. It can be restored once; what is left is a backup.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use kent_store::{ArchiveError, ArchiveLock, Archived, Ending, Key, StoreId};
use thiserror::Error;

/// All records of a store.
type Records = Vec<(Key, Vec<u8>)>;

/// The archive that a restore is made from.
#[derive(Debug)]
pub struct FromArchive {
    /// Its directory.
    pub dir: PathBuf,
    /// The identity of the store that it is of.
    pub store: StoreId,
    /// The revision of the last commit.
    pub revision: u64,
    /// How many records there are.
    pub records: usize,
    /// Not there if nothing is to be written.
    lock: Option<ArchiveLock>,
}

/// Why an archive is not restored.
#[derive(Debug, Error)]
pub enum NotRestored {
    /// It cannot be used.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// There is more than one store.
    #[error("{} has more than one archive: say which with --store: {}", dir.display(), Listed(stores))]
    Several {
        /// The directory.
        dir: PathBuf,
        /// The directories of the stores.
        stores: Vec<PathBuf>,
    },
}

/// Names of directories.
struct Listed<'d>(&'d [PathBuf]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().filter_map(|dir| dir.file_name()).map(|name| name.to_string_lossy());
        f.write_str(&names.collect::<Vec<_>>().join(", "))
    }
}

/// Reads the archive of the one store that is meant, and holds it if a new store in `into` is to be made from it. Nothing is
/// written.
pub(crate) fn open(
    dir: &Path,
    store: Option<&str>,
    into: &Path,
    is_held: bool,
) -> Result<(FromArchive, Records), NotRestored> {
    let dir = find(dir, store)?;
    // One that a daemon writes to may be looked at.
    let lock = if is_held { Some(ArchiveLock::take(&dir)?) } else { None };
    let archived = Archived::read(&dir)?;
    check_is_last(&dir, &archived, into)?;
    let from =
        FromArchive { store: archived.store, revision: archived.revision, records: archived.records.len(), lock, dir };
    Ok((from, archived.records))
}

/// The directory of the one store that is meant.
fn find(dir: &Path, store: Option<&str>) -> Result<PathBuf, NotRestored> {
    if Archived::is_one(dir) {
        return Ok(dir.to_owned());
    }
    let found = Archived::list(dir)?;
    let named = |dir: &Path| store.is_none_or(|store| dir.file_name().is_some_and(|name| name == store));
    let named: Vec<_> = found.into_iter().filter(|(dir, _)| named(dir)).collect();
    let live: Vec<_> = named.iter().filter(|(_, ending)| ending.is_none()).map(|(dir, _)| dir.clone()).collect();
    match (&live[..], &named[..]) {
        ([one], _) | ([], [(one, _)]) => Ok(one.clone()),
        ([], []) => Err(ArchiveError::Nothing { dir: dir.to_owned() }.into()),
        ([], several) => {
            let stores = several.iter().map(|(dir, _)| dir.clone()).collect();
            Err(NotRestored::Several { dir: dir.to_owned(), stores })
        }
        _ => Err(NotRestored::Several { dir: dir.to_owned(), stores: live }),
    }
}

/// An archive that has ended does not know what was issued since. A restore that was broken off can be finished.
fn check_is_last(dir: &Path, archived: &Archived, into: &Path) -> Result<(), NotRestored> {
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
    /// Says in the archive that this store goes on, before anything is written to it.
    pub(crate) fn hand_over(&self, into: StoreId, data: &Path) -> Result<(), NotRestored> {
        let place = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
        match &self.lock {
            Some(lock) => Ok(lock.hand_over(into, &place.display().to_string())?),
            None => Ok(ArchiveLock::take(&self.dir)?.hand_over(into, &place.display().to_string())?),
        }
    }
}

/// What is in an archive, and where that is; `None` if the directory is no archive.
pub(crate) fn read(dir: &Path) -> Result<Option<(PathBuf, Records)>, NotRestored> {
    if !Archived::is_one(dir) && Archived::list(dir)?.is_empty() {
        return Ok(None);
    }
    let dir = find(dir, None)?;
    let records = Archived::read(&dir)?.records;
    Ok(Some((dir, records)))
}
