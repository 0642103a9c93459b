//! Archives: where a daemon's commits go beside its store, and a restore from there, which loses and skips nothing.
//!
//! An archive has every commit that was acknowledged (`kent_store::Archiving`), so what it says is exact, whatever clocks and tables
//! did. Its daemon cannot go on beside the restored store: the archive is held while it is restored, and says afterwards which store
//! goes on, so that the old one is refused. It can be restored once; what is left is a backup.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use kent_ids::UnixNanos;
use kent_store::{ArchiveError, ArchiveLock, Archived, Archiving, Ending, StoreId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    backup::Backup,
    config::ConfigError,
    entropy::Entropy,
    error::StoreFailure,
    founding,
    restore::{Copy, Restore, RestoreArgs, RestoreError, latest},
};

/// How a store that was archived goes on without its archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NoArchive {
    /// The archive is told that it ends.
    Told,
    /// It goes on even if the archive cannot be told.
    Lost,
}

impl FromStr for NoArchive {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "told" => Ok(Self::Told),
            "lost" => Ok(Self::Lost),
            _ => Err("--no-archive, or --no-archive=lost if the archive is gone for ever".to_owned()),
        }
    }
}

/// How many bytes of commits an archive holds before it gets a new base.
pub(crate) const BASE_BYTES: u64 = 64 << 20;

/// What the settings say about the archive of a store in a directory.
pub(crate) fn archiving(
    dir: Option<PathBuf>,
    base_after: u64,
    ends: Option<NoArchive>,
) -> Result<Archiving, ConfigError> {
    match (dir, ends) {
        (Some(_), Some(_)) => Err(ConfigError::Needs { setting: "archive", needed: "that no-archive is not set" }),
        (Some(dir), None) => Ok(Archiving::To { dir, base_after }),
        (None, Some(ends)) => Ok(Archiving::End { even_if_lost: ends == NoArchive::Lost }),
        (None, None) => Ok(Archiving::None),
    }
}

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

/// Reads an archive and says what is to be done. Nothing is written.
pub(crate) fn plan(args: &RestoreArgs, now: UnixNanos, entropy: &dyn Entropy) -> Result<Restore, RestoreError> {
    let dir = find(&args.source, args.store.as_deref())?;
    // One that a daemon writes to may be looked at.
    let lock = if args.dry_run { None } else { Some(ArchiveLock::take(&dir).map_err(NotRestored::from)?) };
    let archived = Archived::read(&dir).map_err(NotRestored::from)?;
    check_is_last(&dir, &archived, args)?;
    let not_whole = |source| RestoreError::NotWhole { path: dir.clone(), source };
    founding::check_whole(&archived.records).map_err(not_whole)?;
    let taken = latest(&archived.records).map_err(StoreFailure::from)?;
    let from =
        FromArchive { store: archived.store, revision: archived.revision, records: archived.records.len(), lock, dir };
    let copy = Copy { operation: "restore", now, lost: None, older: None, floors: &[] };
    let mut restore = Restore::of(archived.records, taken, &copy, entropy)?;
    restore.archive = Some(from);
    Ok(restore)
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
fn check_is_last(dir: &Path, archived: &Archived, args: &RestoreArgs) -> Result<(), NotRestored> {
    let dir = dir.to_owned();
    match &archived.ending {
        None => Ok(()),
        Some(Ending::Left) => Err(ArchiveError::Left { dir }.into()),
        Some(Ending::Restored { .. }) if args.data.join("db").exists() => Ok(()),
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

/// What is in an archive, as a backup: what was issued since its end is skipped. `None` if the directory is no archive.
pub(crate) fn read_as_backup(dir: &Path) -> Result<Option<Backup>, RestoreError> {
    if !Archived::is_one(dir) && Archived::list(dir).map_err(NotRestored::from)?.is_empty() {
        return Ok(None);
    }
    let dir = find(dir, None)?;
    let records = Archived::read(&dir).map_err(NotRestored::from)?.records;
    founding::check_whole(&records).map_err(|source| RestoreError::NotWhole { path: dir, source })?;
    let taken = latest(&records).map_err(StoreFailure::from)?;
    // OK because a time is within some centuries of 1970.
    Ok(Some(Backup { unix_nanos: i64::try_from(taken.get()).unwrap_or(i64::MAX), records }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn err_settings_that_contradict_each_other() {
        let dir = || Some(PathBuf::from("archive"));
        assert!(archiving(dir(), 1, Some(NoArchive::Told)).is_err());
        assert_eq!(archiving(dir(), 1, None).unwrap(), Archiving::To { dir: "archive".into(), base_after: 1 });
        let lost = archiving(None, 1, Some(NoArchive::Lost)).unwrap();
        assert_eq!(lost, Archiving::End { even_if_lost: true });
        assert_eq!(archiving(None, 1, None).unwrap(), Archiving::None);
    }
}
