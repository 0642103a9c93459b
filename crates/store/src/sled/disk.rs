//! The directory: who holds it, how it is opened, and how what was written to it is made durable.
//!
//! | file | whose |
//! |---|---|
//! | `lock` | ours; a lock on it says that a process holds the directory, from before sled is opened until after |
//! | `journal` | ours; what was committed since sled was flushed |
//! | `newest` | ours; the newest revision that was acknowledged |
//! | `db` | sled's log, and a second handle of ours to sync it |
//! | `conf`, `snap.*`, `blobs/` | sled's |

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::archive::{self, Appender, Archive, Archiving, BaseJob, Entry, Ship};
use super::error::{DiskError, LedgerError, OpenError};
use super::journal::{Journal, Redo};
use super::ledger::Ledger;
use super::newest::Newest;
use super::quirks::{self, caught, leftovers};
use super::record::{LAYOUT, Mark};
use crate::error::ReadError;

/// How much is rewritten at a time when the log is opened.
const REWRITE_BYTES: usize = 1024 * 1024;

/// How a batch of writes is made durable: the seam at which tests let it fail.
pub(super) trait Durability: Send {
    /// Writes a frame to the journal, and returns when it survives power loss.
    fn append(&mut self, journal: &File, frame: &[u8], at: u64) -> Result<(), DiskError>;

    /// Returns when all that was written to `db` before survives power loss. `log` is a handle on the file of `db`
    /// that was opened before any of it was written.
    fn flush(&mut self, db: &::sled::Db, log: &File) -> Result<(), DiskError>;
}

/// The real one.
pub(super) struct FlushAndSync;

impl Durability for FlushAndSync {
    fn append(&mut self, journal: &File, frame: &[u8], at: u64) -> Result<(), DiskError> {
        journal.write_all_at(frame, at)?;
        Ok(journal.sync_data()?)
    }

    fn flush(&mut self, db: &::sled::Db, log: &File) -> Result<(), DiskError> {
        quirks::flush(db, log)
    }
}

/// The directory, held by this process until the value is dropped.
pub(super) struct Disk {
    dir: PathBuf,
    new_id: [u8; 16],
    durability: Box<dyn Durability>,
    archiving: Archiving,
    appender: Appender,
    /// There while the database is open and archived.
    archive: Option<Archive>,
    /// Opened before sled writes anything, and kept: see [`FlushAndSync`].
    log: File,
    journal: Journal,
    newest: Newest,
    /// Locked.
    lock: File,
}

impl Disk {
    /// Creates the directory if need be, and takes hold of it.
    pub(super) fn acquire(
        dir: PathBuf,
        new_id: [u8; 16],
        archiving: Archiving,
        durability: Box<dyn Durability>,
        ship: Box<dyn Ship>,
    ) -> Result<Self, OpenError> {
        create_dir(&dir)?;
        let lock = open_file(&dir.join("lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => OpenError::InUse { dir: dir.clone() },
            TryLockError::Error(source) => OpenError::io(&dir.join("lock"), source),
        })?;
        let log = open_file(&dir.join("db"))?;
        let journal = Journal::new(open_file(&dir.join("journal"))?);
        let newest = Newest::new(open_file(&dir.join("newest"))?);
        let appender = Appender::start(ship).map_err(|source| OpenError::io(&dir, source))?;
        Ok(Self { dir, new_id, durability, archiving, appender, archive: None, log, journal, newest, lock })
    }

    /// Opens the database for the first time since the directory was acquired.
    pub(super) fn open_first(&mut self) -> Result<Ledger, OpenError> {
        match self.open() {
            Ok(ledger) => Ok(ledger),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Opens the database, and answers only when all that it shows is durable.
    pub(super) fn open(&mut self) -> Result<Ledger, DiskError> {
        quirks::check_released(&self.log)?;
        rewrite(&self.log)?;
        self.log.sync_all()?;
        let opened = self.open_released();
        if opened.is_err() {
            quirks::wait_released(&self.dir, &self.log);
        }
        opened
    }

    fn open_released(&mut self) -> Result<Ledger, DiskError> {
        leftovers::tidy(&self.dir)?;
        let journal = self.journal.recover()?;
        // A log that has lost its beginning looks new, and after a power cut `newest` may be behind.
        let known = self.newest.read()?.max(journal.iter().map(|redo| redo.last).max());
        let mut ledger = caught(|| Ledger::load(quirks::config(&self.dir).open()?, self.new_id, known))??;
        match self.make_whole(&mut ledger, journal, known) {
            Ok(()) => Ok(ledger),
            Err(error) => {
                self.release(ledger);
                Err(error)
            }
        }
    }

    /// Gives the database what the journal and the archive have and it has not, and the archive what it lacks. Nothing is written
    /// before all of them were read.
    fn make_whole(&mut self, ledger: &mut Ledger, journal: Vec<Redo>, known: Option<u64>) -> Result<(), DiskError> {
        ledger.recover(journal.clone(), known)?;
        let mark = caught(|| ledger.archive_mark())??;
        let entry = Entry::find(&self.archiving, ledger.id(), mark.clone(), self.new_id, ledger.revision())?;
        ledger.recover(entry.missed(ledger.revision(), &journal)?, None)?;
        caught(|| ledger.mark_opened())??;
        self.flush(ledger)?;
        self.newest.write(ledger.revision())?;
        self.enter_archive(entry, ledger, mark, &journal)?;
        quirks::sync_files(&self.dir)
    }

    fn enter_archive(
        &mut self,
        entry: Entry,
        ledger: &mut Ledger,
        mark: Option<Mark>,
        journal: &[Redo],
    ) -> Result<(), DiskError> {
        match entry {
            Entry::None => return Ok(()),
            Entry::Begin(place, generation) => {
                // First, so that there is never an archive that the store does not know.
                self.remember(ledger, Some(&archive::begins(&place, generation)))?;
                self.archive = Some(Archive::begin(place, generation, ledger)?);
            }
            Entry::GoOn(place, chain) => self.archive = Some(Archive::go_on(place, chain, journal, ledger)?),
            Entry::End(place, chain) => archive::end(&place, &chain, ledger.revision())?,
            Entry::Forget(dir) => archive::try_end(&dir, ledger.revision()),
        }
        let now = self.archive.as_ref().map(Archive::mark);
        match now == mark {
            true => Ok(()),
            false => self.remember(ledger, now.as_ref()),
        }
    }

    /// Has the store remember its archive, durably.
    fn remember(&mut self, ledger: &Ledger, mark: Option<&Mark>) -> Result<(), DiskError> {
        caught(|| ledger.write_archive_mark(mark))??;
        caught(|| self.durability.flush(ledger.db(), &self.log))?
    }

    /// The frame of what `ledger` has decided, for which there is room in the journal and in the archive. It is not written yet.
    pub(super) fn make_room(&mut self, ledger: &mut Ledger) -> Result<Arc<Vec<u8>>, DiskError> {
        let frame = ledger.redo().frame();
        if !self.journal.has_room(&frame) {
            self.flush(ledger)?;
        }
        if let Some(archive) = &mut self.archive {
            archive.make_room(frame.len(), ledger.redo().first)?;
        }
        Ok(Arc::new(frame))
    }

    /// A base of what is durable now that the archive is to get.
    pub(super) fn due_base(&mut self) -> Option<BaseJob> {
        self.archive.as_mut()?.due_base()
    }

    /// Returns when what is in `frame` is durable, in the journal and in the archive: both are written at the same time.
    pub(super) fn make_durable(&mut self, frame: &Arc<Vec<u8>>) -> Result<(), DiskError> {
        if let Some(archive) = &self.archive {
            archive.begin_append(&self.appender, frame);
        }
        let kept = caught(|| self.durability.append(self.journal.file(), frame, self.journal.place()));
        let archived = self.archive.as_mut().map_or(Ok(()), |archive| archive.end_append(&self.appender, frame));
        kept??;
        self.journal.keep(frame);
        Ok(archived?)
    }

    /// Takes note of what `ledger` has decided and is durable.
    pub(super) fn settle(&mut self, ledger: &mut Ledger) -> Result<(), DiskError> {
        caught(|| ledger.settle())??;
        self.newest.write(ledger.revision())?;
        match &mut self.archive {
            Some(archive) => Ok(archive.settle(ledger.revision())?),
            None => Ok(()),
        }
    }

    /// Writes what `ledger` keeps to sled, durably, and begins the journal anew.
    fn flush(&mut self, ledger: &mut Ledger) -> Result<(), DiskError> {
        let mut written = None;
        while ledger.keeps_more(written.as_deref()) {
            written = caught(|| ledger.write_piece(written.as_deref()))??;
            caught(|| self.durability.flush(ledger.db(), &self.log))??;
        }
        caught(|| ledger.write_revision())??;
        caught(|| self.durability.flush(ledger.db(), &self.log))??;
        ledger.forget();
        self.journal.restart();
        Ok(())
    }

    /// Leaves nothing in the journal that sled has not, so that the next opening is spared it, and lets go of the database.
    pub(super) fn close(&mut self, mut ledger: Ledger) {
        if let Err(error) = self.flush(&mut ledger) {
            tracing::warn!(dir = %self.dir.display(), %error, "the journal is kept for the next start");
        }
        self.release(ledger);
    }

    /// Drops the database, lets go of the archive, and returns when sled has let go of its file.
    pub(super) fn release(&mut self, ledger: Ledger) {
        self.archive = None;
        // sled syncs while it is dropped, and panics if that fails. Nothing is lost: what was acknowledged is durable.
        if let Err(error) = caught(|| drop(ledger)) {
            tracing::warn!(dir = %self.dir.display(), %error, "sled did not end cleanly");
        }
        quirks::wait_released(&self.dir, &self.log);
    }

    fn explain(&self, error: DiskError) -> OpenError {
        let dir = self.dir.clone();
        match error {
            DiskError::Held => OpenError::InUse { dir },
            DiskError::Io(source) | DiskError::Ledger(LedgerError::Sled(::sled::Error::Io(source))) => {
                OpenError::io(&dir, source)
            }
            DiskError::Ledger(LedgerError::NewerLayout { found }) => {
                OpenError::NewerLayout { dir, found, known: LAYOUT }
            }
            DiskError::Ledger(LedgerError::Foreign | LedgerError::Sled(::sled::Error::Unsupported(_))) => {
                OpenError::Foreign { dir }
            }
            DiskError::Ledger(LedgerError::Value(ReadError::NewerSchema(fact))) => OpenError::NewerSchema(fact),
            DiskError::Ledger(LedgerError::Value(ReadError::Corrupt(fact))) => OpenError::Corrupt(fact),
            DiskError::Archive(error) => OpenError::Archive(error),
            error @ (DiskError::Ledger(_) | DiskError::Panicked(_)) => {
                OpenError::Damaged { dir, what: error.to_string() }
            }
        }
    }
}

impl Drop for Disk {
    /// Unlocks by word, not by closing the file: a process that is being forked off at this moment has a copy of the
    /// handle, and would keep the lock until it runs its program.
    fn drop(&mut self) {
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(dir = %self.dir.display(), %error, "cannot unlock the directory");
        }
    }
}

/// Writes the bytes of `log` over themselves, so that the kernel takes every page for one that is to be written.
fn rewrite(mut log: &File) -> io::Result<()> {
    let mut buffer = vec![0; REWRITE_BYTES];
    let mut at = 0;
    loop {
        log.seek(SeekFrom::Start(at))?;
        let bytes = log.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(());
        }
        log.seek(SeekFrom::Start(at))?;
        log.write_all(&buffer[..bytes])?;
        at += bytes as u64; // OK because a buffer's length fits 64 bits.
    }
}

fn open_file(path: &Path) -> Result<File, OpenError> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
    file.map_err(|source| OpenError::io(path, source))
}

/// Creates `dir` and what is missing above it, durably.
fn create_dir(dir: &Path) -> Result<(), OpenError> {
    if dir.exists() && !dir.is_dir() {
        return Err(OpenError::NotADirectory { dir: dir.to_owned() });
    }
    let missing: Vec<&Path> = dir.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(dir).map_err(|source| OpenError::io(dir, source))?;
    for path in &missing {
        sync_parent(path)?;
    }
    if missing.is_empty() {
        // Made by an earlier start, perhaps, that was killed before it had done this. By somebody else otherwise, and then we may
        // not be allowed to.
        let _ = sync_parent(dir);
    }
    Ok(())
}

fn sync_parent(path: &Path) -> Result<(), OpenError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(|source| OpenError::io(parent, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_handle_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let acquire = || {
            let (dir, archiving) = (dir.path().to_owned(), Archiving::None);
            Disk::acquire(dir, [7; 16], archiving, Box::new(FlushAndSync), Box::new(archive::WriteAndSync))
        };
        let disk = acquire().unwrap();
        let copy = disk.lock.try_clone().unwrap();
        assert!(matches!(acquire(), Err(OpenError::InUse { .. })));
        drop(disk);
        acquire().unwrap();
        drop(copy);
    }

    #[test]
    fn rewriting_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for bytes in [0, 1, REWRITE_BYTES - 1, REWRITE_BYTES, 2 * REWRITE_BYTES + 3] {
            let contents: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            fs::write(&path, &contents).unwrap();
            rewrite(&open_file(&path).unwrap()).unwrap();
            assert!(fs::read(&path).unwrap() == contents, "{bytes} bytes");
        }
    }
}
