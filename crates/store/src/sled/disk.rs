//! The directory of a store: locks it, opens the database in it, and makes writes durable.
//!
//! | file | purpose |
//! |---|---|
//! | `lock` | our lock: held by the process that uses the directory, from before sled is opened until after it is closed |
//! | `journal` | our write-ahead log, with the commits since the last checkpoint |
//! | `newest` | the newest acknowledged revision |
//! | `clean` | the mark of a database that has reached the disk: see `clean` |
//! | `db` | sled's log, which we sync through a second handle |
//! | `conf`, `snap.*`, `blobs/` | sled's other files |
//! | `images/` | images, which are not part of the database: see `images` |

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::archive::{self, Appender, Archive, Archived, Archiving, BaseJob, Entry, FrameWriter};
use super::clean;
use super::error::{DiskError, LedgerError, OpenError};
use super::journal::{Journal, Redo};
use super::ledger::Ledger;
use super::newest::Newest;
use super::private;
use super::quirks::{self, catch_panic, leftovers};
use super::record::{LAYOUT, Mark};
use crate::error::ReadError;

/// The name of the write-ahead log.
pub(super) const JOURNAL: &str = "journal";

/// The size of the buffer for rewriting the log.
const REWRITE_BYTES: usize = 1024 * 1024;

/// Makes batches of writes durable. Tests replace it to inject failures.
pub(super) trait Durability: Send {
    /// Writes a frame to the journal so that it survives power loss.
    fn append(&mut self, journal: &File, frame: &[u8], at: u64) -> Result<(), DiskError>;

    /// Makes all earlier writes to `db` durable. `log` is a handle to the file of `db`, opened before any of these
    /// writes.
    fn flush(&mut self, db: &::sled::Db, log: &File) -> Result<(), DiskError>;
}

/// The implementation outside of tests.
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

/// The directory, locked by this process until the value is dropped.
pub(super) struct Disk {
    dir: PathBuf,
    new_id: [u8; 16],
    durability: Box<dyn Durability>,
    archiving: Archiving,
    appender: Appender,
    /// `Some` while the database is open and archived.
    archive: Option<Archive>,
    /// sled's log, opened before sled writes to it: see [`quirks::flush`].
    log: File,
    journal: Journal,
    newest: Newest,
    checkpoints: u64,
    /// The locked file.
    lock: File,
}

impl Disk {
    /// Creates the directory if needed, removes the permissions of other users, and locks the directory.
    pub(super) fn acquire(
        dir: PathBuf,
        new_id: [u8; 16],
        archiving: Archiving,
        durability: Box<dyn Durability>,
        writer: Box<dyn FrameWriter>,
    ) -> Result<Self, OpenError> {
        private::create_dir(&dir).map_err(|error| match error {
            OpenError::NotAStore { dir, .. }
                if Archived::is_one(&dir) || Archived::list(&dir).is_ok_and(|found| !found.is_empty()) =>
            {
                OpenError::IsArchive { dir }
            }
            error => error,
        })?;
        match archiving {
            // The files that are opened below would make the directory look like a store.
            Archiving::ReadOnly if !dir.join("db").exists() => return Err(OpenError::NoStore { dir }),
            Archiving::ReadOnly => {}
            _ => private::tighten(&dir),
        }
        let lock = open_file(&dir.join("lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => OpenError::InUse { dir: dir.clone() },
            TryLockError::Error(source) => OpenError::io(&dir.join("lock"), source),
        })?;
        let log = open_file(&dir.join("db"))?;
        let journal = Journal::new(open_file(&dir.join(JOURNAL))?);
        let newest = Newest::new(open_file(&dir.join("newest"))?);
        let appender = Appender::start(writer).map_err(|source| OpenError::io(&dir, source))?;
        Ok(Self {
            dir,
            new_id,
            durability,
            archiving,
            appender,
            archive: None,
            log,
            journal,
            newest,
            checkpoints: 0,
            lock,
        })
    }

    /// Opens the database for the first time after [`Disk::acquire`].
    pub(super) fn open_first(&mut self) -> Result<Ledger, OpenError> {
        match self.open() {
            Ok(ledger) => Ok(ledger),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Opens the database, and makes all of its contents durable.
    pub(super) fn open(&mut self) -> Result<Ledger, DiskError> {
        quirks::check_released(&self.log)?;
        if !clean::take(&self.dir, &self.log)? {
            let bytes = rewrite(&self.log)?;
            if bytes > 0 {
                tracing::info!(dir = %self.dir.display(), bytes, "wrote the database again, because some of it may not be on the disk");
            }
        }
        self.log.sync_all()?;
        let opened = self.open_released();
        if opened.is_err() {
            quirks::wait_released(&self.dir, &self.log);
        }
        opened
    }

    fn open_released(&mut self) -> Result<Ledger, DiskError> {
        leftovers::clean_up(&self.dir)?;
        let journal = self.journal.recover()?;
        // If sled's log has lost its beginning, the database looks new. `Ledger::load` detects this by the known
        // revision. The journal's revision counts as well, because `newest` can be outdated after a power cut.
        let known = self.newest.read()?.max(journal.iter().map(|redo| redo.last).max());
        let mut ledger = catch_panic(|| Ledger::load(quirks::config(&self.dir).open()?, self.new_id, known))??;
        match self.recover(&mut ledger, journal, known) {
            Ok(()) => Ok(ledger),
            Err(error) => {
                self.release(ledger);
                Err(error)
            }
        }
    }

    /// Replays the commits of the journal and the archive that the database lacks. Then writes to the archive the
    /// commits that the archive lacks. Reads the journal and the archive before it writes anything.
    fn recover(&mut self, ledger: &mut Ledger, journal: Vec<Redo>, known: Option<u64>) -> Result<(), DiskError> {
        ledger.recover(journal.clone(), known)?;
        let mark = catch_panic(|| ledger.archive_mark())??;
        let entry = Entry::find(&self.archiving, ledger.id(), mark.clone(), self.new_id, ledger.revision())?;
        ledger.recover(entry.missed(ledger.revision(), &journal)?, None)?;
        catch_panic(|| ledger.mark_opened())??;
        self.flush(ledger)?;
        self.newest.write(ledger.revision())?;
        self.enter_archive(entry, ledger, mark, &journal)?;
        quirks::sync_files(&self.dir)?;
        Ok(clean::leave(&self.dir, &self.log)?)
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
                // Write the mark first, so that there is never an archive that the store does not know.
                self.write_archive_mark(ledger, Some(&archive::initial_mark(&place, generation)))?;
                self.archive = Some(Archive::begin(place, generation, ledger)?);
            }
            Entry::Resume(place, chain) => {
                self.archive = Some(Archive::resume(place, chain, journal, ledger)?);
                self.archiving = self.archiving.with_begin();
            }
            Entry::End(place, chain) => archive::end(&place, &chain, ledger.revision())?,
            Entry::Forget(dir) => archive::try_end(&dir, ledger.revision()),
        }
        let now = self.archive.as_ref().map(Archive::mark);
        match now == mark {
            true => Ok(()),
            false => self.write_archive_mark(ledger, now.as_ref()),
        }
    }

    /// Durably writes the archive's mark to the store.
    fn write_archive_mark(&mut self, ledger: &Ledger, mark: Option<&Mark>) -> Result<(), DiskError> {
        catch_panic(|| ledger.write_archive_mark(mark))??;
        catch_panic(|| self.durability.flush(ledger.db(), &self.log))?
    }

    /// Returns the frame of the commits that `ledger` has decided. Makes space for the frame in the journal and the
    /// archive, but does not write it.
    pub(super) fn prepare_frame(&mut self, ledger: &mut Ledger) -> Result<Arc<Vec<u8>>, DiskError> {
        let frame = ledger.redo().frame();
        if !self.journal.fits(&frame) {
            self.flush(ledger)?;
            clean::leave(&self.dir, &self.log)?;
        }
        if let Some(archive) = &mut self.archive {
            archive.prepare_segment(frame.len(), ledger.redo().first)?;
        }
        Ok(Arc::new(frame))
    }

    /// Returns the job to write a base of the current durable state, if the archive needs one.
    pub(super) fn due_base(&mut self) -> Option<BaseJob> {
        self.archive.as_mut()?.due_base()
    }

    /// Durably writes `frame` to the journal and the archive at the same time.
    pub(super) fn make_durable(&mut self, frame: &Arc<Vec<u8>>) -> Result<(), DiskError> {
        if let Some(archive) = &self.archive {
            archive.begin_append(&self.appender, frame);
        }
        let kept = catch_panic(|| self.durability.append(self.journal.file(), frame, self.journal.position()));
        let archived = self.archive.as_mut().map_or(Ok(()), |archive| archive.end_append(&self.appender, frame));
        kept??;
        self.journal.advance(frame);
        Ok(archived?)
    }

    /// Applies the decided commits of `ledger`, which are now durable.
    pub(super) fn settle(&mut self, ledger: &mut Ledger) -> Result<(), DiskError> {
        catch_panic(|| ledger.settle())??;
        self.newest.write(ledger.revision())?;
        match &mut self.archive {
            Some(archive) => Ok(archive.settle(ledger.revision())?),
            None => Ok(()),
        }
    }

    /// Makes a checkpoint: durably writes the commits that `ledger` keeps in memory to sled, and restarts the journal.
    fn flush(&mut self, ledger: &mut Ledger) -> Result<(), DiskError> {
        clean::remove(&self.dir)?;
        let mut written = None;
        while ledger.keeps_more(written.as_deref()) {
            written = catch_panic(|| ledger.write_piece(written.as_deref()))??;
            catch_panic(|| self.durability.flush(ledger.db(), &self.log))??;
        }
        catch_panic(|| ledger.write_revision())??;
        catch_panic(|| self.durability.flush(ledger.db(), &self.log))??;
        ledger.forget();
        self.journal.restart();
        self.checkpoints += 1;
        Ok(())
    }

    /// Returns whether every commit is written to an archive.
    pub(super) fn is_archived(&self) -> bool {
        self.archive.is_some()
    }

    /// Returns the number of checkpoints since the directory was locked.
    pub(super) fn checkpoints(&self) -> u64 {
        self.checkpoints
    }

    /// Makes a checkpoint, so that the next opening need not replay the journal, and closes the database.
    pub(super) fn close(&mut self, mut ledger: Ledger) {
        let flushed = self.flush(&mut ledger);
        if let Err(error) = &flushed {
            tracing::warn!(dir = %self.dir.display(), %error, "the last checkpoint failed; the next start replays the journal");
        }
        if self.release(ledger)
            && flushed.is_ok()
            && let Err(error) = clean::leave(&self.dir, &self.log)
        {
            tracing::warn!(dir = %self.dir.display(), %error, "the last sync of the database failed; the next start writes it again");
        }
    }

    /// Drops the database and the archive, and waits until sled has released its file. Returns whether sled has shut
    /// down cleanly.
    pub(super) fn release(&mut self, ledger: Ledger) -> bool {
        self.archive = None;
        // The sync of what sled writes when it is dropped can fail, and so may an earlier sync have done.
        if let Err(error) = clean::remove(&self.dir) {
            tracing::warn!(dir = %self.dir.display(), %error, "cannot remove the mark of a clean database");
        }
        // sled syncs when it is dropped, and panics if the sync fails. No acknowledged commit is lost, because all are
        // durable already.
        let dropped = catch_panic(|| drop(ledger));
        if let Err(error) = &dropped {
            tracing::warn!(dir = %self.dir.display(), %error, "sled did not shut down cleanly");
        }
        quirks::wait_released(&self.dir, &self.log) && dropped.is_ok()
    }

    fn explain(&self, error: DiskError) -> OpenError {
        let dir = self.dir.clone();
        match error {
            DiskError::Locked => OpenError::InUse { dir },
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
    /// Unlocks explicitly. Closing the file is not enough: a child process that is just being started has a copy of the
    /// handle, and would keep the lock until it runs its program.
    fn drop(&mut self) {
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(dir = %self.dir.display(), %error, "cannot unlock the directory");
        }
    }
}

/// Overwrites `log` with its own bytes, so that the kernel marks every page as dirty. Returns the number of bytes.
fn rewrite(mut log: &File) -> io::Result<u64> {
    let mut buffer = vec![0; REWRITE_BYTES];
    let mut at = 0;
    loop {
        log.seek(SeekFrom::Start(at))?;
        let bytes = log.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(at);
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

#[cfg(test)]
mod tests {
    use std::fs;

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
            assert_eq!(rewrite(&open_file(&path).unwrap()).unwrap(), bytes as u64);
            assert!(fs::read(&path).unwrap() == contents, "{bytes} bytes");
        }
    }
}
