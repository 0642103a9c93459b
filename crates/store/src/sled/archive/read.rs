//! Reads an archive: its newest commits when a store is opened, or all of it for a restore.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::super::error::ArchiveError;
use super::super::frame;
use super::super::journal::Redo;
use super::super::record;
use super::Ending;
use super::files::{self, BasePart, Head, Listing, Segment, base_path, segment_path};
use crate::error::ReadError;
use crate::key::Key;
use crate::store::StoreId;

/// The newest base and the commits after it.
#[derive(Debug)]
pub(in crate::sled) struct Chain {
    pub(super) base: Head,
    /// The newest batches, oldest first. Batches that the store already has may be left out.
    pub(super) redos: Vec<Redo>,
    /// The revision of the last commit.
    pub(super) last: u64,
    /// The first revision of the last segment, and its contents.
    pub(super) tail: Option<(u64, Vec<u8>)>,
}

impl Chain {
    /// Reads at least the commits after revision `after`, or all commits after the base if `after` is `None`. Returns
    /// `None` if there is no archive.
    pub(super) fn read(dir: &Path, after: Option<u64>) -> Result<Option<Self>, ArchiveError> {
        let listing = Listing::of(dir)?;
        let Some((revision, base)) = listing.base(dir)? else { return Ok(None) };
        let firsts: Vec<u64> = listing.segments.into_iter().filter(|first| *first > revision).collect();
        // Start with the segment that contains the revision itself, so that its commit can be compared with the
        // store's.
        let skipped = after.and_then(|after| firsts.iter().rposition(|first| *first <= after)).unwrap_or(0);
        let mut last = if skipped == 0 { revision } else { firsts[skipped] - 1 };
        let (mut redos, mut tail, mut torn) = (Vec::new(), None, None);
        for (number, first) in firsts.iter().enumerate().skip(skipped) {
            let path = segment_path(dir, *first);
            if *first != last + 1 {
                return Err(missing(path, 0));
            }
            let segment = Segment::read(&path, &base, number + 1 == firsts.len())?;
            last = segment.redos.last().map_or(last, |redo| redo.last);
            redos.extend(segment.redos);
            if segment.is_torn {
                torn = Some(path);
            }
            tail = Some((*first, segment.bytes));
        }
        if files::read_newest(dir)?.is_some_and(|newest| newest > last) {
            let path = segment_path(dir, tail.as_ref().map_or(revision + 1, |(first, _)| *first));
            return Err(missing(path, tail.map_or(0, |(_, bytes)| bytes.len())));
        }
        if let Some(path) = torn {
            tracing::info!(path = %path.display(), "discarding a torn commit of the archive, which was not acknowledged");
        }
        Ok(Some(Self { base, redos, last, tail }))
    }
}

fn missing(path: PathBuf, at: usize) -> ArchiveError {
    ArchiveError::Damaged { path, at: at as u64, what: "commits that were acknowledged are missing" }
}

/// The contents of the archive of a store.
#[derive(Debug)]
pub struct Archived {
    /// The identity of the store.
    pub store: StoreId,
    /// The revision of the last commit.
    pub revision: u64,
    /// Whether the archive has the file that shows that its last commits are not missing.
    pub has_newest: bool,
    /// All records.
    pub records: Vec<(Key, Vec<u8>)>,
    /// The reason for the end of the archive, or `None` if it has not ended.
    pub ending: Option<Ending>,
}

impl Archived {
    /// Returns true if the directory is the archive of a store.
    #[must_use]
    pub fn is_one(dir: &Path) -> bool {
        Listing::of(dir).is_ok_and(|listing| !listing.bases.is_empty())
    }

    /// Returns the archives in a directory, each with the reason for its end if it has ended.
    ///
    /// # Errors
    ///
    /// Fails with an [`ArchiveError`] if the directory or an archive cannot be read.
    pub fn list(dir: &Path) -> Result<Vec<(PathBuf, Option<Ending>)>, ArchiveError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir).map_err(|error| ArchiveError::io(dir, error))? {
            let dir = entry.map_err(|error| ArchiveError::io(dir, error))?.path();
            if Self::is_one(&dir) {
                let ending = ending(&dir)?;
                found.push((dir, ending));
            }
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    /// Reads the archive of a store.
    ///
    /// # Errors
    ///
    /// Fails with an [`ArchiveError`], which names the place of any damage.
    pub fn read(dir: &Path) -> Result<Self, ArchiveError> {
        let nothing = || ArchiveError::Nothing { dir: dir.to_owned() };
        let Chain { base, redos, last, .. } = Chain::read(dir, None)?.ok_or_else(nothing)?;
        let has_newest = files::read_newest(dir)?.is_some();
        let path = base_path(dir, base.revision);
        let mut rows = read_base(&path, &base)?;
        for write in redos.into_iter().flat_map(|redo| redo.writes) {
            match write.value {
                Some(value) => drop(rows.insert(write.key, value)),
                None => drop(rows.remove(&write.key)),
            }
        }
        let open = |(raw_key, raw): (Vec<u8>, Vec<u8>)| -> Result<_, ReadError> {
            let key = record::key(&raw_key)?;
            let value = record::open(&key, &raw)?.value;
            Ok((key, value))
        };
        let records = rows.into_iter().map(open).collect::<Result<Vec<_>, _>>();
        let records = records.map_err(|source| ArchiveError::Record { dir: dir.to_owned(), source })?;
        let bad_store = || ArchiveError::Damaged { path: path.clone(), at: 0, what: "its head is damaged" };
        let store = StoreId::new(base.store.clone().try_into().map_err(|_| bad_store())?);
        Ok(Self { store, revision: last, has_newest, records, ending: ending(dir)? })
    }
}

/// Returns the reason for the archive's end, or `None` if it has not ended.
fn ending(dir: &Path) -> Result<Option<Ending>, ArchiveError> {
    let Some((_, base)) = Listing::of(dir)?.base(dir)? else { return Ok(None) };
    let ended = files::read_ended(dir)?.filter(|(head, _)| head.is_same_archive(&base));
    Ok(ended.map(|(_, ending)| ending))
}

/// Reads a base: raw values by raw keys.
fn read_base(path: &Path, head: &Head) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, ArchiveError> {
    let damaged = |at: usize, what| ArchiveError::Damaged { path: path.to_owned(), at: at as u64, what };
    let bytes = fs::read(path).map_err(|error| ArchiveError::io(path, error))?;
    let (own, mut at) = frame::open::<Head>(&bytes).ok_or_else(|| damaged(0, "its head is damaged"))?;
    if own != *head {
        return Err(damaged(0, "its head is damaged"));
    }
    let mut rows = BTreeMap::new();
    loop {
        let (part, length) = frame::open::<BasePart>(&bytes[at..]).ok_or_else(|| damaged(at, "records are damaged"))?;
        at += length;
        rows.extend(part.rows.into_iter().map(|row| (row.key, row.value.unwrap_or_default())));
        match part.count {
            None => {}
            Some(count) if count == rows.len() as u64 && at == bytes.len() => return Ok(rows),
            Some(_) => return Err(damaged(at, "the number of records is wrong")),
        }
    }
}

/// The archive of a store, locked so that no daemon writes to it.
#[derive(Debug)]
pub struct ArchiveLock {
    dir: PathBuf,
    lock: File,
}

impl ArchiveLock {
    /// Locks the archive.
    ///
    /// # Errors
    ///
    /// Fails with [`ArchiveError::InUse`] while a daemon writes to the archive, and with [`ArchiveError::Nothing`] if
    /// there is no archive.
    pub fn take(dir: &Path) -> Result<Self, ArchiveError> {
        match Archived::is_one(dir) {
            true => Ok(Self { dir: dir.to_owned(), lock: files::lock(dir)? }),
            false => Err(ArchiveError::Nothing { dir: dir.to_owned() }),
        }
    }

    /// Records that the archive was restored as another store. From then on, opening the old store fails, and so does
    /// restoring the archive as a third store. Repeating the call with the same store does nothing.
    ///
    /// # Errors
    ///
    /// Fails with an [`ArchiveError`], for example if the archive has already ended in another way.
    pub fn hand_over(&self, into: StoreId, place: &str) -> Result<(), ArchiveError> {
        let dir = || self.dir.clone();
        match ending(&self.dir)? {
            Some(Ending::Left) => return Err(ArchiveError::Left { dir: dir() }),
            Some(Ending::Restored { into: other, place }) if other != into => {
                return Err(ArchiveError::Restored { dir: dir(), into: other, place });
            }
            Some(Ending::Restored { .. }) => return Ok(()),
            None => {}
        }
        let chain = Chain::read(&self.dir, None)?.ok_or_else(|| ArchiveError::Nothing { dir: dir() })?;
        let head = Head { revision: chain.last, ..chain.base };
        files::write_ended(&self.dir, &head, &Ending::Restored { into, place: place.to_owned() })
    }
}

impl Drop for ArchiveLock {
    fn drop(&mut self) {
        // OK because closing the file also releases the lock.
        let _ = self.lock.unlock();
    }
}
