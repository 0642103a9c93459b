//! The embedded backend: one directory, one process, over sled 0.34.
//!
//! This module and those below it are the only ones that know sled. A thread of its own owns the database and
//! serialises everything: it takes a batch of requests, decides the transactions in order, makes the batch durable
//! *once*, and only then answers, so that concurrent commits share one sync (group commit) and nobody is ever told
//! about a write, not even as the reason of a conflict, that a power cut could take back.
//!
//! # Durable
//!
//! A batch is durable in the `journal`, a small file of ours, by one `fdatasync`. What it wrote is kept in memory and given to
//! sled when the journal is full and when the database is closed: in pieces, each flushed and synced before the next, and the
//! revision last, so that until all of it is durable the journal would write all of it again. sled's `flush` writes its log with
//! `sync_file_range`, which leaves the data in the disk's own cache: after each the thread calls `fdatasync` on its own
//! handle of `DIR/db`, and after opening it syncs every file and directory. sled's timer, which would flush at
//! moments of its own, is off: nothing here relies on it, and space is reclaimed as pages are replaced.
//!
//! # When the disk fails
//!
//! After an error while the journal is written, the commits of the batch are answered
//! [`Unknown`](crate::CommitError::Unknown), the database is dropped, and the next request opens it again; while that
//! fails, and after an error before anything was written, requests are answered [`Unavailable`](crate::Unavailable). A full disk
//! thus heals as soon as there is space.
//!
//! After a *failed sync* the kernel may call pages clean that never reached the disk: a later sync succeeds without
//! writing them, and reads still show them. What the page cache shows then proves nothing. So opening, always, reads
//! the whole of `DIR/db` and of the journal and writes the same bytes back before syncing them, and then writes a marker: from
//! there on, what is read is what the disk holds. It costs one pass over a file of some megabytes.
//!
//! # The archive
//!
//! A store that is archived has every commit in a second place before it is answered: see `archive`. While that place cannot be
//! written, the store is not available, as with a full disk.
//!
//! # Damage
//!
//! Every value has a checksum of ours, so that a damaged one is refused. sled itself cuts its log off at the first damaged
//! record. What it lost in that way is in the journal, or, if it is older than that, told by a small file beside them
//! (`newest`): a database that has lost commits is not opened.
//!
//! # Not promised
//!
//! sled flushes on threads of its own pool and waits for them without limit: should one die of a bug in sled, the flush
//! and everything queued behind it waits for ever. Callers bound their waiting and treat a commit that they gave up on
//! as unknown.

mod archive;
mod disk;
mod error;
mod frame;
mod journal;
mod ledger;
mod newest;
mod quirks;
mod record;
mod snapshot;
mod worker;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

pub use self::archive::{ArchiveLock, Archived, Archiving, Ending};
pub use self::error::{ArchiveError, OpenError};

use self::archive::{Ship, WriteAndSync};
use self::disk::{Disk, Durability, FlushAndSync};
use self::snapshot::{Part, Reading};
use self::worker::{Commit, Counters, Read, Request, Worker};
use crate::error::{CommitError, ReadError, Unavailable, Unknown};
use crate::key::Key;
use crate::pages::{self, Page, Pages};
use crate::store::{Stats, Store, StoreId};
use crate::txn::{Committed, Txn, Versioned};

/// How many requests may wait for the thread before callers wait for room.
///
/// Four full batches, so that the thread finds work when a flush ends. At the largest that is 1024 transactions of
/// `TXN_BYTES_MAX`, 1 GiB; those that Kent makes have some hundred bytes.
const QUEUE_REQUESTS_MAX: usize = 4 * worker::BATCH_REQUESTS_MAX;

/// What [`SledStore::open`] needs.
#[derive(Clone, Debug)]
pub struct SledOptions {
    /// The directory of the database. It is created if it does not exist.
    pub dir: PathBuf,
    /// The identity that the store gets if it is created now: 128 random bits. An existing store keeps its own.
    pub new_id: [u8; 16],
}

/// A store in a directory, held by this process alone.
///
/// Dropping it does what [`Store::close`] does, and blocks the dropping thread meanwhile.
pub struct SledStore {
    dir: PathBuf,
    id: StoreId,
    is_read_only: bool,
    counters: Arc<Counters>,
    /// Taken when the store is dropped, which ends the thread.
    requests: Option<mpsc::Sender<Request>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SledStore {
    /// Opens the store in `options.dir`, or creates it. Blocks for the length of a recovery: some ten milliseconds for
    /// a small store.
    ///
    /// # Errors
    ///
    /// [`OpenError`] says who or what is in the way. Nothing that was stored is overwritten then.
    pub fn open(options: SledOptions) -> Result<Self, OpenError> {
        Self::open_archived(options, Archiving::None)
    }

    /// The same, for a store that is archived, or was. Where an archive begins, its generation is `options.new_id`.
    ///
    /// # Errors
    ///
    /// [`OpenError`], also if store and archive are not each other's.
    pub fn open_archived(options: SledOptions, archiving: Archiving) -> Result<Self, OpenError> {
        Self::open_with(options, archiving, Box::new(FlushAndSync), Box::new(WriteAndSync))
    }

    fn open_with(
        options: SledOptions,
        archiving: Archiving,
        durability: Box<dyn Durability>,
        ship: Box<dyn Ship>,
    ) -> Result<Self, OpenError> {
        let (dir, is_read_only) = (options.dir.clone(), archiving == Archiving::ReadOnly);
        let mut disk = Disk::acquire(options.dir, options.new_id, archiving, durability, ship)?;
        let ledger = disk.open_first()?;
        let id = ledger.id();
        let counters = Arc::new(Counters::default());
        let (requests, queue) = mpsc::channel(QUEUE_REQUESTS_MAX);
        let worker = Worker::new(disk, ledger, (requests.downgrade(), queue), Arc::clone(&counters));
        let thread = std::thread::Builder::new().name("kent-store".into()).spawn(move || worker.run());
        let thread = thread.map_err(|source| OpenError::Io { path: dir.clone(), source })?;
        Ok(Self { dir, id, is_read_only, counters, requests: Some(requests), thread: Mutex::new(Some(thread)) })
    }

    /// Sends a request that carries `reply`'s other end, and awaits the answer.
    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, Unanswered> {
        ask(self.requests.as_ref().ok_or(Unanswered::NeverSent)?, request).await
    }

    fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(_panic)) = thread.map(JoinHandle::join) {
            tracing::error!(dir = %self.dir.display(), "the thread of the store ended with a panic");
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
        Ok(Box::new(SledPages { requests, reading, next: Next::First }))
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        txn.check()?;
        if self.is_read_only {
            return Err(Unavailable::backend("it was opened to be read only").into());
        }
        match self.ask(|reply| Request::Commit(Commit { txn, reply })).await {
            Ok(answer) => answer,
            Err(Unanswered::NeverSent) => Err(Unavailable::Closed.into()),
            Err(Unanswered::ThreadEnded) => Err(Unknown::new(THREAD_ENDED).into()),
        }
    }

    fn store_id(&self) -> StoreId {
        self.id
    }

    fn stats(&self) -> Stats {
        self.counters.read()
    }

    async fn close(&self) {
        // An error means that the thread has ended already: closed is closed.
        let _ended = self.ask(|reply| Request::Close { reply }).await;
        self.join();
    }
}

/// Sends a request that carries `reply`'s other end, and awaits the answer.
async fn ask<T>(
    requests: &mpsc::Sender<Request>,
    request: impl FnOnce(oneshot::Sender<T>) -> Request,
) -> Result<T, Unanswered> {
    let (reply, answer) = oneshot::channel();
    requests.send(request(reply)).await.map_err(|_closed| Unanswered::NeverSent)?;
    answer.await.map_err(|_dropped| Unanswered::ThreadEnded)
}

/// A reading of a moment, which ends when this is dropped.
struct SledPages {
    /// Not those of a store that was dropped, which ends its thread.
    requests: mpsc::WeakSender<Request>,
    reading: Arc<Reading>,
    next: Next,
}

/// Where a reading goes on.
#[derive(Clone)]
enum Next {
    First,
    Behind(Key),
    End,
}

#[async_trait]
impl Pages for SledPages {
    async fn next(&mut self) -> Result<Option<Page>, ReadError> {
        let after = match self.next.clone() {
            Next::First => None,
            Next::Behind(key) => Some(key),
            Next::End => return Ok(None),
        };
        let requests = self.requests.upgrade().ok_or(Unavailable::Closed)?;
        let reading = Arc::clone(&self.reading);
        let answer = ask(&requests, |reply| Request::Read(Read::Page { reading, after, reply })).await;
        let Part { page, rest } = answer.map_err(Unavailable::from)??;
        self.next = rest.map_or(Next::End, Next::Behind);
        Ok(Some(page))
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

const THREAD_ENDED: &str = "the thread of the store has ended";

/// Why a request got no answer.
enum Unanswered {
    /// The thread takes no more requests: this one was never begun.
    NeverSent,
    /// The thread ended without answering, which only a panic in it can cause: the request may have been begun.
    ThreadEnded,
}

impl From<Unanswered> for Unavailable {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::NeverSent => Self::Closed,
            Unanswered::ThreadEnded => Self::backend(THREAD_ENDED),
        }
    }
}

#[cfg(test)]
mod tests;
