//! The files of an archive: their names, their contents, and atomic writes.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use prost::Message;

use super::super::error::ArchiveError;
use super::super::frame::{self, BLOCK_BYTES};
use super::super::journal::{RawWrite, Redo};
use super::super::newest::Newest;
use super::{Ending, Generation};
use crate::store::StoreId;

const BASE: &str = "base.";
const COMMITS: &str = "commits.";
const ENDED: &str = "ended";
/// The suffix of the temporary name of an incomplete file.
const UNFINISHED: &str = ".new";

/// The first frame of every file, which names the archive that the file belongs to.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Head {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) store: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) generation: Vec<u8>,
    /// The revision of the records in a base, the revision before the first commit in a segment, or the last revision
    /// in `ended`.
    #[prost(uint64, tag = "3")]
    pub(super) revision: u64,
}

/// A further frame of a base.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct BasePart {
    /// The raw keys and values of records, in order.
    #[prost(message, repeated, tag = "11")]
    pub(super) rows: Vec<RawWrite>,
    /// The number of records in the base. Only the last frame has it.
    #[prost(uint64, optional, tag = "12")]
    pub(super) count: Option<u64>,
}

/// The second frame of `ended`.
#[derive(Clone, PartialEq, Eq, Message)]
struct EndedPart {
    /// The identity of the restored store. `None` if the store continued without the archive.
    #[prost(bytes = "vec", optional, tag = "21")]
    into: Option<Vec<u8>>,
    #[prost(string, tag = "22")]
    place: String,
}

impl Head {
    pub(super) fn new(store: StoreId, generation: Generation, revision: u64) -> Self {
        Self { store: store.to_bytes().into(), generation: generation.into(), revision }
    }

    /// Returns true if the files of both heads belong to the same archive.
    pub(super) fn is_same_archive(&self, other: &Self) -> bool {
        (&self.store, &self.generation) == (&other.store, &other.generation)
    }
}

/// The revisions in the names of the bases and segments in a directory, sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) bases: Vec<u64>,
    pub(super) segments: Vec<u64>,
    pub(super) unfinished: Vec<PathBuf>,
}

impl Listing {
    /// Lists a directory. A missing directory counts as empty.
    pub(super) fn of(dir: &Path) -> Result<Self, ArchiveError> {
        let mut listing = Self::default();
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(listing),
            Err(error) => return Err(ArchiveError::io(dir, error)),
        };
        for entry in entries {
            let path = entry.map_err(|error| ArchiveError::io(dir, error))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
            if name.ends_with(UNFINISHED) {
                listing.unfinished.push(path);
            } else if let Some(revision) = name.strip_prefix(BASE).and_then(number) {
                listing.bases.push(revision);
            } else if let Some(first) = name.strip_prefix(COMMITS).and_then(number) {
                listing.segments.push(first);
            }
        }
        listing.bases.sort_unstable();
        listing.segments.sort_unstable();
        Ok(listing)
    }

    /// Returns the newest base, and its head.
    pub(super) fn base(&self, dir: &Path) -> Result<Option<(u64, Head)>, ArchiveError> {
        let Some(revision) = self.bases.last() else { return Ok(None) };
        let path = base_path(dir, *revision);
        let head = read_head(&path)?;
        match head.revision == *revision {
            true => Ok(Some((*revision, head))),
            false => Err(ArchiveError::Damaged { path, at: 0, what: "its revision is not the revision in its name" }),
        }
    }
}

pub(super) fn base_path(dir: &Path, revision: u64) -> PathBuf {
    dir.join(format!("{BASE}{revision:016x}"))
}

pub(super) fn segment_path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{COMMITS}{first:016x}"))
}

pub(super) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}

/// The contents of a segment.
#[derive(Debug)]
pub(super) struct Segment {
    /// The batches, oldest first.
    pub(super) redos: Vec<Redo>,
    /// The bytes of the head and of the frames.
    pub(super) bytes: Vec<u8>,
    /// Whether bytes other than zeros follow: a torn or damaged frame.
    pub(super) is_torn: bool,
}

impl Segment {
    /// Reads a segment of the archive that `base` belongs to. Only the last segment may end with a torn frame.
    pub(super) fn read(path: &Path, base: &Head, is_last: bool) -> Result<Self, ArchiveError> {
        let damaged = |at: usize, what| ArchiveError::Damaged { path: path.to_owned(), at: at as u64, what };
        let mut bytes = fs::read(path).map_err(|error| ArchiveError::io(path, error))?;
        let (head, mut at): (Head, usize) = frame::open(&bytes).ok_or_else(|| damaged(0, "its head is damaged"))?;
        if !head.is_same_archive(base) {
            return Err(damaged(0, "it belongs to another archive"));
        }
        let (mut redos, mut last, mut is_torn) = (Vec::<Redo>::new(), head.revision, false);
        while at < bytes.len() {
            let Some((redo, length)) = frame::open::<Redo>(&bytes[at..]) else {
                is_torn = bytes[at..].iter().any(|byte| *byte != 0);
                break;
            };
            if redo.store != base.store || redo.first != last + 1 || redo.last < redo.first {
                return Err(damaged(at, "commits are missing before this one"));
            }
            last = redo.last;
            redos.push(redo);
            at += length;
        }
        let follows = |at: usize| frame::open::<Redo>(&bytes[at..]).is_some();
        if is_torn && (!is_last || (at..bytes.len()).step_by(BLOCK_BYTES).any(follows)) {
            return Err(damaged(at, "a commit is damaged"));
        }
        bytes.truncate(at);
        Ok(Self { redos, bytes, is_torn })
    }
}

/// Reads the head of a file.
fn read_head(path: &Path) -> Result<Head, ArchiveError> {
    let mut block = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BLOCK_BYTES as u64).read_to_end(&mut block));
    read.map_err(|error| ArchiveError::io(path, error))?;
    let head = frame::open(&block).map(|(head, _)| head);
    head.ok_or_else(|| ArchiveError::Damaged { path: path.to_owned(), at: 0, what: "its head is damaged" })
}

/// Writes a file atomically: the file with the final name is complete or does not exist.
pub(super) fn write_atomic(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<File, ArchiveError> {
    let mut file = create(path)?;
    let written = write(&mut file).and_then(|()| file.sync_all());
    written.map_err(|error| ArchiveError::io(&unfinished(path), error))?;
    publish(path)?;
    Ok(file)
}

/// Creates a file under its temporary name.
pub(super) fn create(path: &Path) -> Result<File, ArchiveError> {
    let path = unfinished(path);
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
    file.map_err(|error| ArchiveError::io(&path, error))
}

/// Durably renames a complete file from its temporary name to its final name.
pub(super) fn publish(path: &Path) -> Result<(), ArchiveError> {
    fs::rename(unfinished(path), path).map_err(|error| ArchiveError::io(path, error))?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

pub(super) fn remove(path: &Path) -> Result<(), ArchiveError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(ArchiveError::io(path, error)),
        _ => Ok(()),
    }
}

pub(super) fn sync_dir(dir: &Path) -> Result<(), ArchiveError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| ArchiveError::io(dir, error))
}

/// Writes a segment with its head and these frames, padded with zeros to `length`.
pub(super) fn write_segment(
    dir: &Path,
    first: u64,
    head_and_frames: &[u8],
    length: usize,
) -> Result<File, ArchiveError> {
    write_atomic(&segment_path(dir, first), |file| {
        file.write_all(head_and_frames)?;
        file.write_all(&vec![0; length.saturating_sub(head_and_frames.len())])
    })
}

/// Removes files that are older than a base, and the `ended` file of an earlier archive.
pub(super) fn remove_older(dir: &Path, base: &Head) -> Result<(), ArchiveError> {
    let listing = Listing::of(dir)?;
    let bases = listing.bases.iter().filter(|revision| **revision < base.revision).map(|it| base_path(dir, *it));
    let segments = listing.segments.iter().filter(|first| **first <= base.revision).map(|it| segment_path(dir, *it));
    bases.chain(segments).try_for_each(|path| remove(&path))?;
    if read_ended(dir)?.is_some_and(|(head, _)| !head.is_same_archive(base)) {
        remove(&dir.join(ENDED))?;
    }
    sync_dir(dir)
}

/// Reads which archive in this directory ended, and why.
pub(super) fn read_ended(dir: &Path) -> Result<Option<(Head, Ending)>, ArchiveError> {
    let path = dir.join(ENDED);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ArchiveError::io(&path, error)),
    };
    let damaged = |at: usize| ArchiveError::Damaged { path: path.clone(), at: at as u64, what: "it is incomplete" };
    let (head, length) = frame::open::<Head>(&bytes).ok_or_else(|| damaged(0))?;
    let (part, _) = frame::open::<EndedPart>(&bytes[length..]).ok_or_else(|| damaged(length))?;
    let ending = match part.into {
        None => Ending::Left,
        Some(into) => {
            let into = StoreId::new(into.try_into().map_err(|_| damaged(length))?);
            Ending::Restored { into, place: part.place }
        }
    };
    Ok(Some((head, ending)))
}

/// Records the reason for the end of an archive.
pub(super) fn write_ended(dir: &Path, head: &Head, ending: &Ending) -> Result<(), ArchiveError> {
    let part = match ending {
        Ending::Left => EndedPart::default(),
        Ending::Restored { into, place } => EndedPart { into: Some(into.to_bytes().into()), place: place.clone() },
    };
    let bytes = [frame::seal(head), frame::seal(&part)].concat();
    write_atomic(&dir.join(ENDED), |file| file.write_all(&bytes)).map(drop)
}

/// Opens the file of the newest acknowledged revision.
pub(super) fn newest(dir: &Path) -> Result<Newest, ArchiveError> {
    let path = dir.join("newest");
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    file.map(Newest::new).map_err(|error| ArchiveError::io(&path, error))
}

/// Reads the newest acknowledged revision, if it is known. Creates no file.
pub(super) fn read_newest(dir: &Path) -> Result<Option<u64>, ArchiveError> {
    let path = dir.join("newest");
    match File::open(&path).and_then(|file| Newest::new(file).read()) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map_err(|error| ArchiveError::io(&path, error)),
    }
}

/// Locks an archive's directory until the returned file is unlocked.
pub(super) fn lock(dir: &Path) -> Result<File, ArchiveError> {
    let path = dir.join("lock");
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|error| ArchiveError::io(&path, error))?;
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => ArchiveError::InUse { dir: dir.to_owned() },
        TryLockError::Error(error) => ArchiveError::io(&path, error),
    })?;
    Ok(file)
}
