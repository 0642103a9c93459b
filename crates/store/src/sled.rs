//! The embedded backend: one directory and one process, on sled 0.34.
//!
//! Only this module and its submodules depend on sled. A dedicated thread owns the database and serializes all
//! requests. It takes a batch of requests, decides the transactions in order, makes the batch durable *once*, and only
//! then replies. So concurrent commits share one sync (group commit), and no reply, not even a conflict, is based on a
//! write that a power cut could undo.
//!
//! # Durability
//!
//! One `fdatasync` makes a batch durable in the `journal`, our write-ahead log. The writes stay in memory until the
//! journal is full or the database is closed. Then a checkpoint writes them to sled in pieces, flushes and syncs each
//! piece before the next, and writes the revision last. Until the revision is durable, a recovery replays the whole
//! journal. sled's `flush` uses `sync_file_range`, which leaves the data in the disk's own cache. So the thread calls
//! `fdatasync` on its own handle to `DIR/db` after each flush, and syncs every file and directory after opening. sled's
//! flush timer is off: sled also reclaims space without the timer, when pages are replaced.
//!
//! # Disk errors
//!
//! If a write to the journal fails, the commits of the batch fail with [`Unknown`](crate::CommitError::Unknown), the
//! database is dropped, and the next request opens it again. While opening fails, and after an error before any write,
//! requests fail with [`Unavailable`](crate::Unavailable). So a store recovers from a full disk as soon as space is
//! free.
//!
//! After a *failed sync* the kernel may mark pages as clean although they never reached the disk. A later sync then
//! succeeds without writing them, and reads still return them from the page cache. So unless a mark shows that
//! `DIR/db` has reached the disk, opening reads it completely, writes the same bytes back, and syncs them: see `clean`.
//! This costs one pass over a file of a few megabytes, or of hundreds if there are a million regions. Opening always does
//! so with the journal, and then writes a marker. After that, reads show the contents of the disk.
//!
//! # The archive
//!
//! An archived store writes every commit to a second place before it replies: see `archive`. While that place cannot be
//! written, the store is unavailable, as it is while the disk is full.
//!
//! # Damage
//!
//! Every value has our checksum, so a damaged value is detected. sled itself truncates its log at the first damaged
//! record. Of the lost commits, the journal still has those since the last checkpoint. A small file, `newest`, has the
//! newest acknowledged revision. Opening fails if the database lacks that revision.
//!
//! # Limitations
//!
//! sled flushes on the threads of its own pool and waits for them without a timeout. If a bug in sled ends such a
//! thread, the flush and all requests queued behind it wait forever. Callers need a timeout, and must treat a commit
//! that timed out as unknown.

mod archive;
mod clean;
mod disk;
mod error;
mod frame;
mod images;
mod journal;
mod ledger;
mod newest;
mod private;
mod quirks;
mod record;
mod snapshot;
mod worker;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::vec;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

pub use self::archive::{ArchiveLock, Archived, Archiving, Ending};
pub use self::error::{ArchiveError, Obstacle, OpenError};

use self::archive::{FrameWriter, WriteAndSync};
use self::disk::{Disk, Durability, FlushAndSync};
use self::images::DirImages;
use self::snapshot::{Part, Reading};
use self::worker::{Commit, Counters, Read, Request, Worker};
use crate::error::{CommitError, ReadError, Unavailable, Unknown};
use crate::images::Images;
use crate::key::Key;
use crate::pages::{self, PAGE_RECORDS_MAX, Page, Pages};
use crate::store::{Stats, Store, StoreId};
use crate::txn::{Committed, Txn, Versioned};

/// The length of the queue of requests. When it is full, callers wait.
///
/// It holds four full batches, so that the thread has work when a flush ends. With transactions of `TXN_BYTES_MAX`, a
/// full queue would take 1 GiB, but Kent's transactions have a few hundred bytes.
const QUEUE_REQUESTS_MAX: usize = 4 * worker::BATCH_REQUESTS_MAX;

/// The options of a store in a directory.
#[derive(Clone, Debug)]
pub struct SledOptions {
    /// The directory of the database. It is created if it does not exist.
    pub dir: PathBuf,
    /// The identity for a new store: 128 random bits. An existing store keeps its identity.
    pub new_id: [u8; 16],
}

/// A store in a directory that is locked by this process.
///
/// Dropping the store closes it, like [`Store::close`], and blocks the calling thread until the store is closed.
pub struct SledStore {
    dir: PathBuf,
    id: StoreId,
    is_read_only: bool,
    is_archived: bool,
    counters: Arc<Counters>,
    /// The queue of the store's thread. Dropping it with the store ends the thread.
    requests: Option<mpsc::Sender<Request>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The sizes of the files of a store in a directory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SledSizes {
    /// The size of all files in the directory.
    pub all: u64,
    /// The size of the write-ahead log, which is fixed unless a batch is very large.
    pub journal: u64,
}

impl SledSizes {
    /// Reads the sizes of the files of the store in `dir`, which may be open.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be read.
    pub fn read(dir: &Path) -> io::Result<Self> {
        let mut sizes = Self::default();
        // sled's directory for large values is empty, because Kent stores no large values.
        for dir in [dir.to_owned(), dir.join(private::IMAGES), dir.join("blobs")].iter().filter(|dir| dir.is_dir()) {
            for entry in fs::read_dir(dir)? {
                let entry = entry?;
                // The file may be removed concurrently.
                let bytes = entry.metadata().map_or(0, |metadata| if metadata.is_file() { metadata.len() } else { 0 });
                sizes.all += bytes;
                if entry.file_name() == disk::JOURNAL {
                    sizes.journal = bytes;
                }
            }
        }
        Ok(sizes)
    }
}

impl SledStore {
    /// Opens the store in `options.dir`, or creates it. Blocks until the recovery is done: tens of milliseconds for a
    /// small store.
    ///
    /// # Errors
    ///
    /// Fails with an [`OpenError`]. The stored data is then unchanged.
    pub fn open(options: SledOptions) -> Result<Self, OpenError> {
        Self::open_archived(options, Archiving::None)
    }

    /// Opens a store with an archive. The generation of a new archive is `options.new_id`.
    ///
    /// # Errors
    ///
    /// Fails with an [`OpenError`], for example if the store and the archive do not belong together.
    pub fn open_archived(options: SledOptions, archiving: Archiving) -> Result<Self, OpenError> {
        Self::open_with(options, archiving, Box::new(FlushAndSync), Box::new(WriteAndSync))
    }

    fn open_with(
        options: SledOptions,
        archiving: Archiving,
        durability: Box<dyn Durability>,
        writer: Box<dyn FrameWriter>,
    ) -> Result<Self, OpenError> {
        let (dir, is_read_only) = (options.dir.clone(), archiving == Archiving::ReadOnly);
        let mut disk = Disk::acquire(options.dir, options.new_id, archiving, durability, writer)?;
        let ledger = disk.open_first()?;
        let (id, is_archived) = (ledger.id(), disk.is_archived());
        let counters = Arc::new(Counters::default());
        let (requests, queue) = mpsc::channel(QUEUE_REQUESTS_MAX);
        let worker = Worker::new(disk, ledger, (requests.downgrade(), queue), Arc::clone(&counters));
        let thread = std::thread::Builder::new().name("kent-store".into()).spawn(move || worker.run());
        let thread = thread.map_err(|source| OpenError::Io { path: dir.clone(), source })?;
        let (requests, thread) = (Some(requests), Mutex::new(Some(thread)));
        Ok(Self { dir, id, is_read_only, is_archived, counters, requests, thread })
    }

    /// Returns whether every commit is written to an archive.
    pub fn is_archived(&self) -> bool {
        self.is_archived
    }

    /// Sends a request with the sender of a reply channel, and waits for the reply.
    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, Unanswered> {
        ask(self.requests.as_ref().ok_or(Unanswered::NotSent)?, request).await
    }

    fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(_panic)) = thread.map(JoinHandle::join) {
            tracing::error!(dir = %self.dir.display(), "the store thread panicked");
        }
    }
}

#[async_trait]
impl Store for SledStore {
    async fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        let key = key.clone();
        self.ask(|reply| Request::Read(Read::Get { key, reply })).await.map_err(Unavailable::from)?
    }

    async fn scan(&self, prefix: &Key) -> Result<Vec<(Key, Versioned)>, ReadError> {
        pages::collect(&mut *self.pages(prefix).await?).await
    }

    async fn pages(&self, prefix: &Key) -> Result<Box<dyn Pages>, ReadError> {
        let requests = self.requests.as_ref().ok_or(Unavailable::Closed)?.downgrade();
        let reading = Arc::new(Reading { prefix: prefix.clone() });
        Ok(Box::new(SledPages { requests, reading, next: Next::First, asked: None, rest: Page::new().into_iter() }))
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        txn.check()?;
        if self.is_read_only {
            return Err(Unavailable::backend("the store was opened read-only").into());
        }
        match self.ask(|reply| Request::Commit(Commit { txn, reply })).await {
            Ok(answer) => answer,
            Err(Unanswered::NotSent) => Err(Unavailable::Closed.into()),
            Err(Unanswered::ThreadEnded) => Err(Unknown::new(THREAD_ENDED).into()),
        }
    }

    fn images(&self) -> Option<Arc<dyn Images>> {
        Some(Arc::new(DirImages::new(&self.dir)))
    }

    fn store_id(&self) -> StoreId {
        self.id
    }

    fn stats(&self) -> Stats {
        self.counters.read()
    }

    async fn close(&self) {
        // An error means that the thread has already ended.
        let _ended = self.ask(|reply| Request::Close { reply }).await;
        self.join();
    }
}

/// Sends a request with the sender of a reply channel, and waits for the reply.
async fn ask<T>(
    requests: &mpsc::Sender<Request>,
    request: impl FnOnce(oneshot::Sender<T>) -> Request,
) -> Result<T, Unanswered> {
    let (reply, answer) = oneshot::channel();
    requests.send(request(reply)).await.map_err(|_closed| Unanswered::NotSent)?;
    answer.await.map_err(|_dropped| Unanswered::ThreadEnded)
}

/// A paged read of a consistent snapshot. It ends when this value is dropped.
struct SledPages {
    /// The queue of the store's thread. The reference is weak, because dropping the store must end the thread.
    requests: mpsc::WeakSender<Request>,
    reading: Arc<Reading>,
    next: Next,
    /// The answer of the thread, once it was asked for more records.
    asked: Option<oneshot::Receiver<Result<Part, ReadError>>>,
    /// What is left of the records that the thread has sent.
    rest: vec::IntoIter<(Key, Versioned)>,
}

/// The maximum number of records that the thread sends at once, except at first: many callers need only one page. Each
/// answer of the thread costs about as much as reading a hundred records.
const AHEAD_RECORDS_MAX: usize = 16 * PAGE_RECORDS_MAX;

/// The place at which a paged read continues.
#[derive(Clone)]
enum Next {
    First,
    After(Key),
    End,
}

#[async_trait]
impl Pages for SledPages {
    async fn next(&mut self) -> Result<Option<Page>, ReadError> {
        let page: Page = self.rest.by_ref().take(PAGE_RECORDS_MAX).collect();
        if !page.is_empty() {
            return Ok(Some(page));
        }
        let is_first = matches!(self.next, Next::First);
        if self.asked.is_none() {
            let Some((request, answer)) = self.request() else { return Ok(None) };
            let requests = self.requests.upgrade().ok_or(Unavailable::Closed)?;
            requests.send(request).await.map_err(|_closed| Unavailable::Closed)?;
            self.asked = Some(answer);
        }
        // The answer stays here until it has arrived, so that dropping this future loses no records.
        let Some(asked) = &mut self.asked else { return Ok(None) };
        let answer = asked.await.map_err(|_dropped| Unavailable::from(Unanswered::ThreadEnded));
        self.asked = None;
        let Part { page, rest } = answer??;
        self.next = rest.map_or(Next::End, Next::After);
        self.rest = page.into_iter();
        if !is_first {
            self.ask_ahead();
        }
        Ok(Some(self.rest.by_ref().take(PAGE_RECORDS_MAX).collect()))
    }
}

impl SledPages {
    /// Returns a request for the next records and the receiver of its answer; `None` at the end.
    fn request(&self) -> Option<(Request, oneshot::Receiver<Result<Part, ReadError>>)> {
        let (after, most) = match self.next.clone() {
            Next::First => (None, PAGE_RECORDS_MAX),
            Next::After(key) => (Some(key), AHEAD_RECORDS_MAX),
            Next::End => return None,
        };
        let (reply, answer) = oneshot::channel();
        Some((Request::Read(Read::Page { reading: Arc::clone(&self.reading), after, most, reply }), answer))
    }

    /// Asks for the next records, so that the thread reads them while the caller works on these. A caller that has read
    /// two answers will probably read all of them.
    fn ask_ahead(&mut self) {
        let Some((request, answer)) = self.request() else { return };
        // If the queue is full, the next call asks.
        if self.requests.upgrade().is_some_and(|requests| requests.try_send(request).is_ok()) {
            self.asked = Some(answer);
        }
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        drop(self.requests.take());
        self.join();
    }
}

impl fmt::Debug for SledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledStore").field("dir", &self.dir).field("id", &self.id).finish_non_exhaustive()
    }
}

const THREAD_ENDED: &str = "the store thread has ended";

/// Reasons that a request got no reply.
enum Unanswered {
    /// The thread takes no more requests. The request was never started.
    NotSent,
    /// The thread ended without a reply, which only a panic can cause. The request may have been started.
    ThreadEnded,
}

impl From<Unanswered> for Unavailable {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::NotSent => Self::Closed,
            Unanswered::ThreadEnded => Self::backend(THREAD_ENDED),
        }
    }
}

#[cfg(test)]
mod tests;
