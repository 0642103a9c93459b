//! The thread that owns the database. It takes requests in batches, makes each batch durable once, and then replies.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::disk::Disk;
use super::error::{DiskError, LedgerError};
use super::ledger::{Ledger, Verdict};
use super::quirks::catch_panic;
use super::snapshot::{Part, Reading};
use crate::error::{CommitError, ReadError, Unavailable, Unknown};
use crate::key::Key;
use crate::pages::PAGE_RECORDS_MAX;
use crate::store::Stats;
use crate::txn::{Committed, Txn, Versioned};

/// The maximum number of requests that share one flush. Applying a commit takes about 50 microseconds, and a flush
/// takes up to about 10 milliseconds. So the first commit of a full batch waits about as long for the other commits as
/// for the disk.
pub(super) const BATCH_REQUESTS_MAX: usize = 256;

/// The reply channel of a request. The caller may have dropped the receiver.
type Reply<T> = oneshot::Sender<T>;

/// A request to the thread.
pub(super) enum Request {
    Read(Read),
    Commit(Commit),
    Close { reply: Reply<()> },
}

/// A read.
pub(super) enum Read {
    Get {
        key: Key,
        reply: Reply<Result<Option<Versioned>, ReadError>>,
    },
    /// The page after a key, with at most `most` records.
    Page {
        reading: Arc<Reading>,
        after: Option<Key>,
        most: usize,
        reply: Reply<Result<Part, ReadError>>,
    },
}

/// A transaction to commit.
pub(super) struct Commit {
    pub(super) txn: Txn,
    pub(super) reply: Reply<Result<Committed, CommitError>>,
}

/// The state of the thread.
pub(super) struct Worker {
    disk: Disk,
    /// `None` after a failure, until a request opens the database again.
    ledger: Option<Ledger>,
    queue: mpsc::Receiver<Request>,
    /// The requested pages. Each turn serves only one of them, so that other requests do not wait for all pages.
    pages: VecDeque<Read>,
    counters: Arc<Counters>,
    /// The queue, for the thread that writes a base of the archive.
    requests: mpsc::WeakSender<Request>,
    /// The thread that writes a base of the archive.
    base: Option<JoinHandle<()>>,
}

/// A decided transaction that waits for the journal.
struct Pending {
    verdict: Verdict,
    reply: Reply<Result<Committed, CommitError>>,
}

impl Worker {
    pub(super) fn new(
        disk: Disk,
        ledger: Ledger,
        (requests, queue): (mpsc::WeakSender<Request>, mpsc::Receiver<Request>),
        counters: Arc<Counters>,
    ) -> Self {
        Self { disk, ledger: Some(ledger), queue, pages: VecDeque::new(), counters, requests, base: None }
    }

    /// Serves requests until the store is closed or dropped, and then releases the directory.
    pub(super) fn run(mut self) {
        let mut closing = None;
        while closing.is_none() {
            let first = match self.pages.is_empty() {
                true => self.queue.blocking_recv().map(Some),
                false => Some(self.queue.try_recv().ok()),
            };
            let Some(first) = first else { break };
            closing = self.serve(first);
        }
        self.pages.drain(..).for_each(|page| page.refuse(&Unavailable::Closed));
        if let Some(ledger) = self.ledger.take() {
            self.disk.close(ledger);
        }
        let Self { disk, mut queue, base, .. } = self;
        drop(disk);
        queue.close();
        while let Some(request) = queue.blocking_recv() {
            request.refuse(&Unavailable::Closed);
        }
        // The base thread gets no more pages, so it ends soon.
        if base.is_some_and(|base| base.join().is_err()) {
            tracing::error!("the thread that writes bases of the archive panicked");
        }
        if let Some(reply) = closing {
            let _gone = reply.send(());
        }
    }

    /// Serves `first` and the queued requests, up to a full batch or a request to close, and one page. Returns the
    /// reply channel of a request to close.
    ///
    /// Reads are served after the commits of their batch. Reads and commits of one batch are concurrent, so a read may
    /// show these commits, but only after they are durable.
    fn serve(&mut self, first: Option<Request>) -> Option<Reply<()>> {
        let (mut commits, mut reads, mut closing) = (Vec::new(), Vec::new(), None);
        let mut next = first;
        while let Some(request) = next {
            match request {
                Request::Commit(commit) => commits.push(commit),
                Request::Read(page @ Read::Page { .. }) => self.pages.push_back(page),
                Request::Read(read) => reads.push(read),
                Request::Close { reply } => closing = Some(reply),
            }
            let may_take_more =
                closing.is_none() && commits.len() + reads.len() + self.pages.len() < BATCH_REQUESTS_MAX;
            next = if may_take_more { self.queue.try_recv().ok() } else { None };
        }
        reads.extend(self.pages.pop_front());
        if commits.len() + reads.len() > 0 {
            self.serve_batch(commits, reads);
        }
        closing
    }

    fn serve_batch(&mut self, commits: Vec<Commit>, reads: Vec<Read>) {
        let mut outage = self.reopen().err();
        let mut commits = commits.into_iter();
        if outage.is_none() {
            outage = self.commit_batch(&mut commits).err();
        }
        for read in reads {
            match &outage {
                Some(outage) => read.refuse(outage),
                None => outage = self.answer(read).err(),
            }
        }
        if let Some(outage) = outage {
            commits.for_each(|not_started| not_started.refuse(&outage));
        }
    }

    /// Opens the database again after a failure. Tries once per batch, which limits the rate.
    fn reopen(&mut self) -> Result<(), Unavailable> {
        if self.ledger.is_none() {
            self.ledger = Some(self.disk.open().map_err(Unavailable::backend)?);
            count(&self.counters.reopens);
            tracing::info!("the store is available again");
        }
        Ok(())
    }

    /// Decides transactions in order, makes them durable together, and replies. After an error, `commits` still has the
    /// transactions that were not started.
    fn commit_batch(&mut self, commits: &mut impl Iterator<Item = Commit>) -> Result<(), Unavailable> {
        let mut pending = Vec::new();
        for Commit { txn, reply } in commits {
            match self.decide(&txn) {
                Ok(verdict) => pending.push(Pending { verdict, reply }),
                Err(error) => {
                    let outage = self.refuse(error, pending);
                    let _gone = reply.send(Err(outage.clone().into()));
                    return Err(outage);
                }
            }
        }
        let wrote = pending.iter().any(|pending| matches!(pending.verdict, Verdict::Wrote(_)));
        if wrote {
            let frame = match self.prepare_frame() {
                Ok(frame) => frame,
                Err(error) => return Err(self.refuse(error, pending)),
            };
            let began = Instant::now();
            if let Err(error) = self.disk.make_durable(&frame) {
                return Err(self.fail(error, pending));
            }
            // OK because the duration is less than the 584 years of 2^64 nanoseconds.
            let nanos = began.elapsed().as_nanos() as u64;
            self.counters.flush_nanos.fetch_add(nanos, Ordering::Relaxed);
            count(&self.counters.flushes);
            self.counters.checkpoints.store(self.disk.checkpoints(), Ordering::Relaxed);
        }
        pending.into_iter().for_each(|pending| self.acknowledge(pending));
        if wrote {
            // If this step fails, no commit is lost: the next opening finds the acknowledged commits in the journal.
            self.settle().map_err(|error| self.close_after(error))?;
        }
        Ok(())
    }

    fn decide(&mut self, txn: &Txn) -> Result<Verdict, DiskError> {
        let ledger = self.ledger.as_mut().ok_or(DiskError::Locked)?;
        Ok(catch_panic(|| ledger.decide(txn))??)
    }

    fn prepare_frame(&mut self) -> Result<Arc<Vec<u8>>, DiskError> {
        let ledger = self.ledger.as_mut().ok_or(DiskError::Locked)?;
        let frame = self.disk.prepare_frame(ledger)?;
        if let Some(job) = self.disk.due_base() {
            // The snapshot does not include commits that are decided but not durable yet.
            let reading = Arc::new(Reading { prefix: Key::ROOT });
            let first = catch_panic(|| ledger.page((&reading, None, PAGE_RECORDS_MAX), || true))??;
            let requests = self.requests.clone();
            self.base = job.start(first, move |after| next_page(&requests, &reading, after));
        }
        Ok(frame)
    }

    fn settle(&mut self) -> Result<(), DiskError> {
        self.disk.settle(self.ledger.as_mut().ok_or(DiskError::Locked)?)
    }

    fn acknowledge(&self, Pending { verdict, reply }: Pending) {
        let answer = match verdict {
            Verdict::Unchanged(committed) | Verdict::Wrote(committed) => {
                count(&self.counters.commits);
                Ok(committed)
            }
            Verdict::Refused(error) => {
                if matches!(error, CommitError::Conflict { .. }) {
                    count(&self.counters.conflicts);
                }
                Err(error)
            }
        };
        let _gone = reply.send(answer);
    }

    /// Closes the database after an `error` that occurred before anything was written, and fails the commits.
    fn refuse(&mut self, error: DiskError, pending: Vec<Pending>) -> Unavailable {
        let outage = self.close_after(error);
        pending.into_iter().for_each(|pending| drop(pending.reply.send(Err(outage.clone().into()))));
        outage
    }

    /// Closes the database after the journal failed with `error`, and fails the commits that were waiting for the
    /// journal. The outcome of commits with writes is unknown. The other commits may have been decided on state that
    /// never became durable.
    fn fail(&mut self, error: DiskError, pending: Vec<Pending>) -> Unavailable {
        for Pending { verdict, reply } in pending {
            let answer = match verdict {
                Verdict::Wrote(_) => self.unknown(&error),
                Verdict::Unchanged(_) | Verdict::Refused(_) => Unavailable::backend(error.to_string()).into(),
            };
            let _gone = reply.send(Err(answer));
        }
        self.close_after(error)
    }

    fn close_after(&mut self, error: DiskError) -> Unavailable {
        tracing::error!(%error, "the store failed; the next request opens it again");
        if let Some(ledger) = self.ledger.take() {
            self.disk.release(ledger);
        }
        Unavailable::backend(error)
    }

    fn unknown(&self, error: &DiskError) -> CommitError {
        count(&self.counters.unknowns);
        Unknown::new(error.to_string()).into()
    }

    /// Serves a read. If the database fails, closes it.
    fn answer(&mut self, read: Read) -> Result<(), Unavailable> {
        match read {
            Read::Get { key, reply } => self.read(reply, |ledger, _| ledger.get(&key)),
            Read::Page { reading, after, most, reply } => {
                self.read(reply, |ledger, is_awaited| ledger.page((&reading, after.as_ref(), most), is_awaited))
            }
        }
    }

    fn read<T>(
        &mut self,
        reply: Reply<Result<T, ReadError>>,
        read: impl FnOnce(&mut Ledger, &dyn Fn() -> bool) -> Result<T, LedgerError>,
    ) -> Result<(), Unavailable> {
        let (queue, pages) = (&self.queue, &self.pages);
        let is_awaited = || !queue.is_empty() || !pages.is_empty();
        let outcome = match self.ledger.as_mut() {
            Some(ledger) => catch_panic(|| read(ledger, &is_awaited)),
            None => Err(DiskError::Locked),
        };
        let (answer, outage) = match outcome {
            Ok(Ok(answer)) => (Ok(answer), Ok(())),
            Ok(Err(LedgerError::Value(error))) => (Err(error), Ok(())),
            Ok(Err(error)) => self.fail_read(error.into()),
            Err(error) => self.fail_read(error),
        };
        let _gone = reply.send(answer);
        outage
    }

    fn fail_read<T>(&mut self, error: DiskError) -> (Result<T, ReadError>, Result<(), Unavailable>) {
        let outage = self.close_after(error);
        (Err(outage.clone().into()), Err(outage))
    }
}

/// Reads the page after a key. Blocks the calling thread. Returns `None` if the store was closed or the read fails.
fn next_page(requests: &mpsc::WeakSender<Request>, reading: &Arc<Reading>, after: Key) -> Option<Part> {
    let (reply, answer) = oneshot::channel();
    let read = Read::Page { reading: Arc::clone(reading), after: Some(after), most: PAGE_RECORDS_MAX, reply };
    requests.upgrade()?.blocking_send(Request::Read(read)).ok()?;
    answer.blocking_recv().ok()?.ok()
}

// Each `refuse` method replies with an error to a request that was not started.

impl Request {
    fn refuse(self, reason: &Unavailable) {
        match self {
            Self::Read(read) => read.refuse(reason),
            Self::Commit(commit) => commit.refuse(reason),
            Self::Close { reply } => drop(reply.send(())),
        }
    }
}

impl Read {
    fn refuse(self, reason: &Unavailable) {
        match self {
            Self::Get { reply, .. } => drop(reply.send(Err(reason.clone().into()))),
            Self::Page { reply, .. } => drop(reply.send(Err(reason.clone().into()))),
        }
    }
}

impl Commit {
    fn refuse(self, reason: &Unavailable) {
        drop(self.reply.send(Err(reason.clone().into())));
    }
}

/// The counters for [`Stats`]: the thread writes them, and other threads read them.
#[derive(Debug, Default)]
pub(super) struct Counters {
    commits: AtomicU64,
    conflicts: AtomicU64,
    unknowns: AtomicU64,
    flushes: AtomicU64,
    flush_nanos: AtomicU64,
    checkpoints: AtomicU64,
    reopens: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            commits: read(&self.commits),
            conflicts: read(&self.conflicts),
            unknowns: read(&self.unknowns),
            flushes: read(&self.flushes),
            flush_time: Duration::from_nanos(read(&self.flush_nanos)),
            checkpoints: read(&self.checkpoints),
            reopens: read(&self.reopens),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sled::archive::{Archiving, WriteAndSync};
    use crate::sled::disk::FlushAndSync;

    #[test]
    fn ok_a_turn_serves_one_page_and_all_other_requests() {
        let dir = tempfile::tempdir().unwrap();
        let (at, archiving) = (dir.path().to_owned(), Archiving::None);
        let mut disk = Disk::acquire(at, [7; 16], archiving, Box::new(FlushAndSync), Box::new(WriteAndSync)).unwrap();
        let ledger = disk.open_first().unwrap();
        let (requests, queue) = mpsc::channel(10);
        let mut worker = Worker::new(disk, ledger, (requests.downgrade(), queue), Arc::default());
        let mut answers = Vec::new();
        for _ in 0..3 {
            let (reply, answer) = oneshot::channel();
            let reading = Arc::new(Reading { prefix: Key::ROOT });
            requests
                .try_send(Request::Read(Read::Page { reading, after: None, most: PAGE_RECORDS_MAX, reply }))
                .ok()
                .unwrap();
            answers.push(answer);
        }
        let (reply, mut committed) = oneshot::channel();
        let txn = Txn::new().put(Key::from_static("a"), b"1".to_vec());
        requests.try_send(Request::Commit(Commit { txn, reply })).ok().unwrap();
        let first = worker.queue.try_recv().ok();
        assert!(worker.serve(first).is_none());
        assert!(committed.try_recv().unwrap().is_ok());
        let served = |answers: &mut Vec<oneshot::Receiver<Result<Part, ReadError>>>| {
            answers.iter_mut().filter_map(|answer| answer.try_recv().ok()).filter(Result::is_ok).count()
        };
        assert_eq!(served(&mut answers), 1);
        assert!(worker.serve(None).is_none());
        assert_eq!(served(&mut answers), 1, "the next turn serves the next page");
    }
}
