//! Writes an archive: starts or resumes it, and appends frames.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::error::{ArchiveError, DiskError};
use super::super::frame;
use super::super::journal::Redo;
use super::super::ledger::Ledger;
use super::super::newest::Newest;
use super::super::record::Mark;
use super::appender::{Appender, Job};
use super::base::{self, BaseJob, BaseState};
use super::entry::Place;
use super::files::{self, Head, Listing, segment_path};
use super::read::Chain;
use super::{Ending, Generation};
use crate::store::StoreId;

/// The bounds for the length of a segment. Within them, a segment holds a sixteenth of the bytes of commits between two
/// bases.
const SEGMENT_BYTES_MIN: u64 = 64 * 1024;
const SEGMENT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The archive of an open store.
#[derive(Debug)]
pub(in crate::sled) struct Archive {
    place: Place,
    store: StoreId,
    generation: Generation,
    /// The current segment.
    file: Arc<File>,
    path: PathBuf,
    /// The position of the next frame in the segment.
    at: usize,
    newest: Newest,
    /// The total length in bytes of the segments started since the last base.
    since_base: u64,
    base: Arc<BaseState>,
    /// The revision before the current segment, if the segment was just started.
    rolled_after: Option<u64>,
}

impl Archive {
    /// Starts an archive with the current state of the store as its base.
    pub(in crate::sled) fn begin(place: Place, generation: Generation, ledger: &mut Ledger) -> Result<Self, DiskError> {
        let revision = ledger.revision();
        // Remove segments of an earlier archive, which would otherwise seem to follow the base.
        let listing = Listing::of(&place.dir)?;
        let stale = listing.segments.into_iter().filter(|first| *first > revision);
        stale.map(|first| segment_path(&place.dir, first)).try_for_each(|path| files::remove(&path))?;
        files::sync_dir(&place.dir)?;
        Self::with_base(place, generation, ledger)
    }

    fn with_base(place: Place, generation: Generation, ledger: &mut Ledger) -> Result<Self, DiskError> {
        let (store, revision) = (ledger.id(), ledger.revision());
        let head = Head::new(store, generation, revision);
        let bytes = base::write(&place.dir, &head, ledger)?;
        let frames = frame::seal(&head);
        Ok(Self::open(place, store, generation, (revision, revision + 1, &frames), bytes)?)
    }

    /// Resumes an archive that has all commits up to the end of `chain`. If the store has more commits, they are copied
    /// from its `journal`. If the journal lacks some of them, writes a new base.
    pub(in crate::sled) fn resume(
        place: Place,
        chain: Chain,
        journal: &[Redo],
        ledger: &mut Ledger,
    ) -> Result<Self, DiskError> {
        let (dir, revision) = (place.dir.clone(), ledger.revision());
        let generation = generation(&dir, &chain.base)?;
        let (mut frames, mut last) = (Vec::new(), chain.last);
        for redo in journal.iter().filter(|redo| redo.first > chain.last) {
            if redo.first == last + 1 {
                frames.extend(redo.frame());
                last = redo.last;
            }
        }
        if last != revision {
            tracing::warn!(archive = %dir.display(), "the archive lacks commits of the store: writing a new base");
            return Self::with_base(place, generation, ledger);
        }
        let head = Head { revision: chain.last, ..chain.base };
        let (first, mut bytes) = chain.tail.unwrap_or_else(|| (chain.last + 1, frame::seal(&head)));
        bytes.extend(frames);
        let base = Listing::of(&dir)?.bases.last().map(|base| files::base_path(&dir, *base));
        let base = base.map_or(Ok(0), |path| fs::metadata(&path).map(|it| it.len()));
        let base = base.map_err(|error| ArchiveError::io(&dir, error))?;
        Ok(Self::open(place, ledger.id(), generation, (revision, first, &bytes), base)?)
    }

    /// Writes the last segment again, because the contents that were read may not be durable, and opens it for
    /// appending.
    fn open(
        place: Place,
        store: StoreId,
        generation: Generation,
        (revision, first, bytes): (u64, u64, &[u8]),
        base_bytes: u64,
    ) -> Result<Self, ArchiveError> {
        Listing::of(&place.dir)?.unfinished.iter().try_for_each(|path| files::remove(path))?;
        let file = Arc::new(files::write_segment(&place.dir, first, bytes, segment_bytes(place.base_after))?);
        let mut newest = files::newest(&place.dir)?;
        // An archive whose `newest` has no revision is therefore damaged.
        newest.write(revision).and_then(|()| newest.sync()).map_err(|error| ArchiveError::io(&place.dir, error))?;
        files::sync_dir(&place.dir)?;
        let (path, at) = (segment_path(&place.dir, first), bytes.len());
        let since_base = Listing::of(&place.dir)?.segments.len() as u64 * segment_bytes(place.base_after) as u64;
        let base = BaseState::new(base_bytes);
        Ok(Self { place, store, generation, file, path, at, newest, since_base, base, rolled_after: None })
    }

    /// Returns the mark of this archive, which the store keeps.
    pub(in crate::sled) fn mark(&self) -> Mark {
        mark(&self.place, self.generation, true)
    }

    /// Starts a new segment if a frame of `bytes` bytes does not fit into the current one. `first` is the revision of
    /// the frame's first commit.
    pub(in crate::sled) fn prepare_segment(&mut self, bytes: usize, first: u64) -> Result<(), ArchiveError> {
        // Writes to a file that was removed or replaced succeed, but are lost.
        let identity = |found: io::Result<Metadata>| found.map(|found| (found.dev(), found.ino()));
        let ends = |error| ArchiveError::io(&self.path, error);
        if identity(fs::metadata(&self.path)).map_err(ends)? != identity(self.file.metadata()).map_err(ends)? {
            return Err(ends(io::Error::other("another file has replaced it")));
        }
        let length = segment_bytes(self.place.base_after);
        if self.at + bytes <= length {
            return Ok(());
        }
        let head = frame::seal(&Head::new(self.store, self.generation, first - 1));
        let length = length.max(head.len() + bytes);
        let file = files::write_segment(&self.place.dir, first, &head, length)?;
        (self.file, self.path, self.at) = (Arc::new(file), segment_path(&self.place.dir, first), head.len());
        self.since_base += length as u64;
        self.rolled_after = Some(first - 1);
        Ok(())
    }

    /// Returns the job for a new base, if one is due. The job must start before the first commit of the new segment.
    pub(in crate::sled) fn due_base(&mut self) -> Option<BaseJob> {
        let revision = self.rolled_after.take()?;
        if self.since_base < self.place.base_after.max(2 * self.base.bytes()) {
            return None;
        }
        let job = BaseJob::new(&self.place.dir, Head::new(self.store, self.generation, revision), &self.base)?;
        self.since_base = 0;
        Some(job)
    }

    /// Starts to write a frame.
    pub(in crate::sled) fn begin_append(&self, appender: &Appender, frame: &Arc<Vec<u8>>) {
        appender.begin(Job { file: Arc::clone(&self.file), frame: Arc::clone(frame), at: self.at as u64 });
    }

    /// Waits until the frame is durable.
    pub(in crate::sled) fn end_append(&mut self, appender: &Appender, frame: &[u8]) -> Result<(), ArchiveError> {
        let late = || {
            let dir = self.place.dir.display();
            tracing::warn!(archive = %dir, "a write to the archive takes more than 2 s; commits wait for it");
        };
        appender.end(late).map_err(|error| ArchiveError::io(&self.path, error))?;
        self.at += frame.len();
        Ok(())
    }

    /// Records a durable revision.
    pub(in crate::sled) fn settle(&mut self, revision: u64) -> Result<(), ArchiveError> {
        self.newest.write(revision).map_err(|error| ArchiveError::io(&self.place.dir, error))
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        self.base.end();
    }
}

/// Returns the mark of an archive that is about to start.
pub(in crate::sled) fn initial_mark(place: &Place, generation: Generation) -> Mark {
    mark(place, generation, false)
}

fn mark(place: &Place, generation: Generation, begun: bool) -> Mark {
    Mark { generation: generation.into(), begun, dir: place.named.to_string_lossy().into_owned() }
}

/// Records in an archive that its store continues without it.
pub(in crate::sled) fn end(place: &Place, chain: &Chain, revision: u64) -> Result<(), ArchiveError> {
    files::write_ended(&place.dir, &Head { revision, ..chain.base.clone() }, &Ending::Left)
}

/// Records the end of the archive, ignoring errors.
pub(in crate::sled) fn try_end(dir: &Path, revision: u64) {
    if let Ok(Some((_, base))) = Listing::of(dir).and_then(|listing| listing.base(dir)) {
        // OK because the operator has declared the archive lost.
        let _ = files::write_ended(dir, &Head { revision, ..base }, &Ending::Left);
    }
}

fn generation(dir: &Path, base: &Head) -> Result<Generation, ArchiveError> {
    let damaged =
        |_| ArchiveError::Damaged { path: files::base_path(dir, base.revision), at: 0, what: "its head is damaged" };
    base.generation.clone().try_into().map_err(damaged)
}

fn segment_bytes(base_after: u64) -> usize {
    // OK because both bounds fit in 32 bits.
    (base_after / 16).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX) as usize
}
