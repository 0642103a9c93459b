//! A store in memory, with injected faults, for tests and simulation.
//!
//! It has the semantics of the durable backends and stores values in the same envelopes. All handles made with
//! [`MemoryStore::reopen`] share one "disk". So a test simulates a crash by dropping one handle and opening the next,
//! which has exactly the committed values. Faults are deterministic: a test queues them ([`MemoryStore::inject`]) or
//! chooses one for each operation ([`MemoryStore::plan`]).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::io;
use std::ops::Bound;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::envelope;
use crate::error::{CommitError, ReadError, Unavailable, Unknown};
use crate::images::{Images, Parts};
use crate::key::Key;
use crate::peers::{Change, Peers, Watch, continues};
use crate::store::{Stats, Store, StoreId};
use crate::txn::{Committed, Txn, Version, Versioned};

/// A handle to a store in memory.
#[derive(Debug)]
pub struct MemoryStore {
    disk: Arc<Mutex<Disk>>,
    closed: AtomicBool,
    /// The key that this handle has announced.
    announced: Mutex<Option<Key>>,
}

impl MemoryStore {
    /// Creates an empty store with this identity.
    #[must_use]
    pub fn new(id: StoreId) -> Self {
        let disk = Disk {
            id,
            revision: 0,
            values: BTreeMap::new(),
            images: BTreeMap::new(),
            ends: BTreeMap::new(),
            changed: BTreeMap::new(),
            compacted: 0,
            changed_now: Arc::default(),
            stats: Stats::default(),
            faults: Faults::default(),
        };
        Self::on(Arc::new(Mutex::new(disk)))
    }

    /// Returns another handle to the same contents, like a store that is opened again after a restart. Keeps queued
    /// faults and [`Stats`].
    #[must_use]
    pub fn reopen(&self) -> Self {
        Self::on(Arc::clone(&self.disk))
    }

    fn on(disk: Arc<Mutex<Disk>>) -> Self {
        Self { disk, closed: AtomicBool::new(false), announced: Mutex::default() }
    }

    /// Discards old changes. A watch that has not reported them yet reports [`Change::Missed`].
    pub fn compact(&self) {
        let mut disk = self.disk();
        disk.changed.clear();
        disk.compacted = disk.revision;
    }

    /// Queues a fault for a future commit. Each commit takes the first fault of the queue.
    pub fn inject(&self, fault: Fault) {
        self.disk().faults.queued.push_back(fault);
    }

    /// Calls `plan` for every operation on any handle, except for commits that take a fault queued by
    /// [`inject`](MemoryStore::inject). The closure must not call the store.
    pub fn plan(&self, plan: impl FnMut(&Operation<'_>) -> Fault + Send + 'static) {
        self.disk().faults.plan = Some(Box::new(plan));
    }

    /// Changes the stored bytes of `key` including the envelope, as a failing disk would. Returns false if there is no
    /// such key.
    pub fn tamper(&self, key: &Key, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.disk().values.get_mut(key).map(|stored| change(&mut stored.sealed)).is_some()
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        // OK because no code panics between two changes that belong together. A plan runs before any change.
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_open(&self) -> Result<(), Unavailable> {
        if self.closed.load(Ordering::SeqCst) { Err(Unavailable::Closed) } else { Ok(()) }
    }

    /// Applies the next fault to a read. Every fault except a delay makes the store unavailable.
    async fn before_read(&self, operation: Operation<'_>) -> Result<(), Unavailable> {
        self.check_open()?;
        let fault = self.disk().faults.next(&operation);
        match fault {
            Fault::None => Ok(()),
            Fault::DelayBefore(delay) | Fault::DelayAfter(delay) => {
                delay.await;
                Ok(())
            }
            Fault::Unavailable | Fault::LostUnknown | Fault::AppliedUnknown => Err(injected_outage()),
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        self.before_read(Operation::Get(key)).await?;
        self.disk().values.get(key).map(|stored| stored.open(key)).transpose()
    }

    async fn scan(&self, prefix: &Key) -> Result<Vec<(Key, Versioned)>, ReadError> {
        self.before_read(Operation::Scan(prefix)).await?;
        let mut disk = self.disk();
        disk.expire();
        let from_prefix = disk.values.range::<Key, _>((Bound::Included(prefix), Bound::Unbounded));
        let within = from_prefix.take_while(|(key, _)| key.starts_with(prefix));
        within.map(|(key, stored)| Ok((key.clone(), stored.open(key)?))).collect()
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        txn.check()?;
        self.check_open()?;
        let fault = self.disk().faults.next(&Operation::Commit(&txn));
        match fault {
            Fault::None => self.disk().apply(txn),
            Fault::Unavailable => Err(injected_outage().into()),
            Fault::LostUnknown => Err(self.disk().lose_answer()),
            Fault::AppliedUnknown => {
                let mut disk = self.disk();
                let _unheard = disk.apply(txn);
                Err(disk.lose_answer())
            }
            Fault::DelayBefore(delay) => {
                delay.await;
                self.disk().apply(txn)
            }
            Fault::DelayAfter(delay) => {
                let answer = self.disk().apply(txn);
                delay.await;
                answer
            }
        }
    }

    fn peers(&self) -> Option<&dyn Peers> {
        Some(self)
    }

    fn images(&self) -> Option<Arc<dyn Images>> {
        Some(Arc::new(MemoryImages(Arc::clone(&self.disk))))
    }

    fn store_id(&self) -> StoreId {
        self.disk().id
    }

    fn stats(&self) -> Stats {
        self.disk().stats
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl Peers for MemoryStore {
    async fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, ReadError> {
        self.before_read(Operation::Watch(prefix)).await?;
        let disk = self.disk();
        let (seen, changed_now) = (disk.revision, Arc::clone(&disk.changed_now));
        let (disk, prefix, pending) = (Arc::clone(&self.disk), prefix.clone(), VecDeque::new());
        Ok(Box::new(MemoryWatch { disk, prefix, seen, changed_now, pending }))
    }

    async fn announce(&self, key: &Key, value: Vec<u8>, ttl: Duration) -> Result<(), Unavailable> {
        self.before_read(Operation::Announce(key)).await?;
        let mut disk = self.disk();
        let sealed = envelope::seal(key, &value);
        if disk.values.get(key).is_none_or(|stored| stored.sealed != sealed) {
            disk.put(key, sealed);
        }
        disk.ends.insert(key.clone(), Instant::now() + ttl);
        drop(disk);
        *self.announced.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
        Ok(())
    }

    fn write_schema(&self, _: u16) {
        // Values do not outlive the program, so their schema does not matter.
    }

    async fn withdraw(&self) {
        if let Some(key) = self.announced.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.disk().remove(&key);
        }
    }
}

/// The images of a store in memory.
#[derive(Debug)]
struct MemoryImages(Arc<Mutex<Disk>>);

impl MemoryImages {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Images for MemoryImages {
    /// Always, so that tests and simulations use images.
    fn records_min(&self) -> usize {
        1
    }

    fn open(&self, name: &str) -> io::Result<Option<Parts>> {
        let parts = self.disk().images.get(name).cloned();
        Ok(parts.map(|parts| Box::new(parts.into_iter().map(Ok)) as Parts))
    }

    fn replace(&self, name: &str, parts: &mut dyn Iterator<Item = io::Result<Vec<u8>>>) -> io::Result<()> {
        let parts = parts.collect::<io::Result<_>>()?;
        self.disk().images.insert(name.to_owned(), parts);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk().images.remove(name);
        Ok(())
    }
}

/// A watch of a store in memory.
struct MemoryWatch {
    disk: Arc<Mutex<Disk>>,
    prefix: Key,
    /// The revision up to which this watch has read the changes.
    seen: u64,
    changed_now: Arc<Notify>,
    pending: VecDeque<Change>,
}

#[async_trait]
impl Watch for MemoryWatch {
    async fn next(&mut self) -> Change {
        let changed_now = Arc::clone(&self.changed_now);
        loop {
            if let Some(change) = self.pending.pop_front() {
                return change;
            }
            let mut changed = pin!(changed_now.notified());
            // Enable the notification before `read_changes`, so that no change is missed in between.
            changed.as_mut().enable();
            self.read_changes();
            if self.pending.is_empty() {
                changed.await;
            }
        }
    }

    fn continues(&self, commit: Version) -> bool {
        continues(&self.pending, commit)
    }
}

impl MemoryWatch {
    /// Reads new changes.
    fn read_changes(&mut self) {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        disk.expire();
        if self.seen < disk.compacted {
            self.seen = disk.compacted;
            self.pending.push_back(Change::Missed);
        }
        for (revision, keys) in disk.changed.range(self.seen + 1..) {
            self.seen = *revision;
            for (key, sealed) in keys.iter().filter(|(key, _)| key.starts_with(&self.prefix)) {
                let version = Version::new(*revision);
                self.pending.push_back(match sealed.as_ref().map(|sealed| envelope::open(key, sealed)) {
                    None => Change::Deleted(key.clone(), version),
                    Some(Ok(value)) => Change::Put(key.clone(), Versioned { version, value: value.to_vec() }),
                    Some(Err(error)) => Change::Unreadable(error),
                });
            }
        }
    }
}

/// A fault of one operation.
pub enum Fault {
    /// No fault.
    None,
    /// The store is not available. Nothing changes.
    Unavailable,
    /// A commit changes nothing and fails with [`CommitError::Unknown`]. A read fails with [`Unavailable`].
    LostUnknown,
    /// A commit makes its writes if its guards hold, but always fails with [`CommitError::Unknown`]. A read fails with
    /// [`Unavailable`].
    AppliedUnknown,
    /// The operation reaches the store after the delay. Other operations can overtake it.
    DelayBefore(Delay),
    /// The operation happens immediately, and returns after the delay.
    DelayAfter(Delay),
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Unavailable => "Unavailable",
            Self::LostUnknown => "LostUnknown",
            Self::AppliedUnknown => "AppliedUnknown",
            Self::DelayBefore(_) => "DelayBefore(..)",
            Self::DelayAfter(_) => "DelayAfter(..)",
        })
    }
}

/// A delay that the test controls, for instance the receiver of a one-shot channel.
pub type Delay = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The operation for which a plan chooses a fault.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// [`Store::get`] of this key.
    Get(&'a Key),
    /// [`Store::scan`] of this prefix.
    Scan(&'a Key),
    /// [`Store::commit`] of this transaction.
    Commit(&'a Txn),
    /// [`Peers::watch`] of this prefix.
    Watch(&'a Key),
    /// [`Peers::announce`] of this key.
    Announce(&'a Key),
}

type Plan = Box<dyn FnMut(&Operation<'_>) -> Fault + Send>;

#[derive(Default)]
struct Faults {
    queued: VecDeque<Fault>,
    plan: Option<Plan>,
}

impl Faults {
    fn next(&mut self, operation: &Operation<'_>) -> Fault {
        let queued = match operation {
            Operation::Commit(_) => self.queued.pop_front(),
            Operation::Get(_) | Operation::Scan(_) | Operation::Watch(_) | Operation::Announce(_) => None,
        };
        queued.or_else(|| self.plan.as_mut().map(|plan| plan(operation))).unwrap_or(Fault::None)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("queued", &self.queued).field("planned", &self.plan.is_some()).finish()
    }
}

/// The contents that all handles share.
#[derive(Debug)]
struct Disk {
    id: StoreId,
    revision: u64,
    values: BTreeMap<Key, Stored>,
    images: BTreeMap<String, Vec<Vec<u8>>>,
    /// The times at which announcements expire.
    ends: BTreeMap<Key, Instant>,
    /// The changes of the last revisions.
    changed: BTreeMap<u64, Vec<Written>>,
    /// The revision up to which changes were discarded.
    compacted: u64,
    /// Wakes all watches after every change, in the order in which they began to wait, so that simulations are
    /// reproducible.
    changed_now: Arc<Notify>,
    stats: Stats,
    faults: Faults,
}

impl Disk {
    fn apply(&mut self, txn: Txn) -> Result<Committed, CommitError> {
        self.expire();
        self.compare(&txn)?;
        if !txn.writes().is_empty() {
            self.revision += 1;
            self.stats.flushes += 1;
        }
        for (key, value) in txn.writes() {
            self.write(key, value.as_ref().map(|value| envelope::seal(key, value)));
        }
        self.stats.commits += 1;
        self.changed_now.notify_waiters();
        Ok(Committed { version: Version::new(self.revision) })
    }

    /// Writes a value outside of a transaction, at a new revision.
    fn put(&mut self, key: &Key, sealed: Vec<u8>) {
        self.revision += 1;
        self.write(key, Some(sealed));
        self.changed_now.notify_waiters();
    }

    fn remove(&mut self, key: &Key) {
        self.ends.remove(key);
        if self.values.contains_key(key) {
            self.revision += 1;
            self.write(key, None);
            self.changed_now.notify_waiters();
        }
    }

    /// Writes a value, or removes it, at the current revision.
    fn write(&mut self, key: &Key, sealed: Option<Vec<u8>>) {
        match sealed.clone() {
            Some(sealed) => {
                let version = Version::new(self.revision);
                self.values.insert(key.clone(), Stored { version, sealed });
            }
            // Like in etcd, the removal of a missing key is not a change.
            None if self.values.remove(key).is_none() => return,
            None => {}
        }
        self.changed.entry(self.revision).or_default().push((key.clone(), sealed));
        while self.changed.len() > CHANGES_MAX {
            if let Some((forgotten, _)) = self.changed.pop_first() {
                self.compacted = forgotten;
            }
        }
    }

    /// Removes expired announcements.
    fn expire(&mut self) {
        let is_over = |ends: &Instant| *ends <= Instant::now();
        let over: Vec<Key> = self.ends.iter().filter(|(_, ends)| is_over(ends)).map(|(key, _)| key.clone()).collect();
        over.iter().for_each(|key| self.remove(key));
    }

    fn compare(&mut self, txn: &Txn) -> Result<(), CommitError> {
        for (key, expected) in txn.guards() {
            let actual = self.version(key)?;
            if actual != *expected {
                self.stats.conflicts += 1;
                return Err(CommitError::Conflict { key: key.clone(), expected: *expected, actual });
            }
        }
        txn.writes().iter().try_for_each(|(key, _)| self.version(key).map(drop)).map_err(CommitError::from)
    }

    fn version(&self, key: &Key) -> Result<Version, ReadError> {
        let Some(stored) = self.values.get(key) else { return Ok(Version::ABSENT) };
        envelope::open(key, &stored.sealed)?;
        Ok(stored.version)
    }

    fn lose_answer(&mut self) -> CommitError {
        self.stats.unknowns += 1;
        Unknown::new("an injected fault").into()
    }
}

#[derive(Debug)]
struct Stored {
    version: Version,
    sealed: Vec<u8>,
}

/// A key and its new value, or `None` if it was removed.
type Written = (Key, Option<Vec<u8>>);

/// The number of revisions whose changes are kept.
const CHANGES_MAX: usize = 1000;

impl Stored {
    fn open(&self, key: &Key) -> Result<Versioned, ReadError> {
        let value = envelope::open(key, &self.sealed)?.to_vec();
        Ok(Versioned { version: self.version, value })
    }
}

fn injected_outage() -> Unavailable {
    Unavailable::backend("an injected fault")
}
