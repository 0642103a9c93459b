//! Bases: all records at one revision, written while commits continue.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::error::{ArchiveError, DiskError};
use super::super::frame;
use super::super::journal::RawWrite;
use super::super::ledger::Ledger;
use super::super::quirks::catch_panic;
use super::super::record;
use super::super::snapshot::{Part, Reading};
use super::files::{self, BasePart, Head, base_path};
use crate::key::Key;
use crate::pages::{PAGE_RECORDS_MAX, Page};

/// The pause between two pages, which leaves most of the store thread's time for commits.
const PAUSE: Duration = Duration::from_millis(2);

/// A base that is being written under a temporary name.
struct BaseFile {
    file: File,
    path: PathBuf,
    rows: u64,
    bytes: u64,
}

impl BaseFile {
    fn create(dir: &Path, head: &Head) -> Result<Self, ArchiveError> {
        let path = base_path(dir, head.revision);
        let mut base = Self { file: files::create(&path)?, path, rows: 0, bytes: 0 };
        base.write(&frame::seal(head))?;
        Ok(base)
    }

    fn push(&mut self, page: Page) -> Result<(), ArchiveError> {
        self.rows += page.len() as u64;
        let seal = |(key, versioned): (Key, crate::Versioned)| RawWrite {
            value: Some(record::seal(&key, versioned.version, &versioned.value)),
            key: key.as_str().into(),
        };
        self.write(&frame::seal(&BasePart { rows: page.into_iter().map(seal).collect(), count: None }))
    }

    /// Writes the last frame and makes the file durable.
    fn finish(&mut self) -> Result<(), ArchiveError> {
        self.write(&frame::seal(&BasePart { rows: Vec::new(), count: Some(self.rows) }))?;
        self.file.sync_all().map_err(|error| ArchiveError::io(&self.path, error))
    }

    fn write(&mut self, frame: &[u8]) -> Result<(), ArchiveError> {
        self.bytes += frame.len() as u64;
        self.file.write_all(frame).map_err(|error| ArchiveError::io(&self.path, error))
    }
}

/// Writes a base of the current state of `ledger`, and removes older files. Returns the size of the base in bytes.
pub(super) fn write(dir: &Path, head: &Head, ledger: &mut Ledger) -> Result<u64, DiskError> {
    let reading = Arc::new(Reading { prefix: Key::ROOT });
    let (mut base, mut after) = (BaseFile::create(dir, head)?, None);
    loop {
        let Part { page, rest } = catch_panic(|| ledger.page((&reading, after.as_ref(), PAGE_RECORDS_MAX), || true))??;
        base.push(page)?;
        after = rest;
        if after.is_none() {
            break;
        }
    }
    base.finish()?;
    files::publish(&base.path)?;
    files::remove_older(dir, head)?;
    Ok(base.bytes)
}

/// The state that an archive shares with the thread that writes its base.
#[derive(Debug, Default)]
pub(super) struct BaseState {
    /// True once the archive is dropped. The base thread holds this lock while it renames a base to its final name.
    is_over: Mutex<bool>,
    is_running: AtomicBool,
    /// The size of the newest base in bytes.
    bytes: AtomicU64,
}

impl BaseState {
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(bytes), ..Self::default() })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Prevents further changes to the directory by the base thread, and waits for a change in progress.
    pub(super) fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

/// A job that writes a base in the background.
#[derive(Debug)]
pub(in crate::sled) struct BaseJob {
    dir: PathBuf,
    head: Head,
    state: Arc<BaseState>,
}

impl BaseJob {
    /// Creates a job. Returns `None` while another base is being written.
    pub(super) fn new(dir: &Path, head: Head, state: &Arc<BaseState>) -> Option<Self> {
        let is_first = !state.is_running.swap(true, Ordering::Relaxed);
        is_first.then(|| Self { dir: dir.to_owned(), head, state: Arc::clone(state) })
    }

    /// Writes the base on its own thread: the first page, and then the pages that `next` returns for the last key of
    /// the previous page. If `next` returns `None`, the thread ends early.
    pub(in crate::sled) fn start(
        self,
        first: Part,
        next: impl FnMut(Key) -> Option<Part> + Send + 'static,
    ) -> Option<JoinHandle<()>> {
        let thread = std::thread::Builder::new().name("kent-archive-base".into());
        let run = move || match self.write(first, next) {
            Ok(true) => {
                tracing::info!(dir = %self.dir.display(), revision = self.head.revision, "the archive has a new base");
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot write a new base of the archive; trying again later")
            }
        };
        thread
            .spawn(run)
            .inspect_err(|error| tracing::warn!(%error, "cannot write a new base of the archive; trying again later"))
            .ok()
    }

    /// Writes the base. Returns false if it was abandoned.
    fn write(&self, first: Part, mut next: impl FnMut(Key) -> Option<Part>) -> Result<bool, ArchiveError> {
        let mut base = BaseFile::create(&self.dir, &self.head)?;
        let mut part = first;
        loop {
            base.push(part.page)?;
            let Some(after) = part.rest else { break };
            std::thread::sleep(PAUSE);
            let Some(more) = next(after) else { return Ok(false) };
            part = more;
        }
        base.finish()?;
        let is_over = self.state.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_over {
            return Ok(false);
        }
        files::publish(&base.path)?;
        self.state.bytes.store(base.bytes, Ordering::Relaxed);
        files::remove_older(&self.dir, &self.head)?;
        Ok(true)
    }
}

impl Drop for BaseJob {
    fn drop(&mut self) {
        self.state.is_running.store(false, Ordering::Relaxed);
    }
}
