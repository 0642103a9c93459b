//! The connection from one daemon to the store: slow, lossy, sometimes partitioned, and closed when the daemon crashes.
//!
//! As on a real network, a message in flight arrives even if its sender has meanwhile given up or crashed.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use kent_store::{
    Change, CommitError, Committed, Images, Key, MemoryStore, Peers, ReadError, Stats, Store, StoreId, Txn,
    Unavailable, Unknown, Version, Versioned, Watch,
};
use tokio::{
    sync::oneshot,
    time::{self, Instant},
};

use super::{
    archive::{Archive, Pace},
    mutant::Mutant,
    outcome::Faults,
    world::Dice,
};

/// The store of a run and its faults.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) memory: Arc<MemoryStore>,
    /// The store's archive, if it has one.
    pub(crate) archive: Option<Arc<Archive>>,
    pub(crate) dice: Dice,
    /// Whether faults are injected.
    pub(crate) foul: Arc<AtomicBool>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) mutant: Option<Mutant>,
    /// The values that the latest commits replaced, for [`Mutant::NoFlush`].
    undo: Arc<Mutex<Vec<Before>>>,
}

/// The values of some keys before a commit.
type Before = Vec<(Key, Option<Vec<u8>>)>;

impl Backend {
    pub(crate) fn new(memory: MemoryStore, dice: Dice, faults: Arc<Faults>, mutant: Option<Mutant>) -> Self {
        let foul = Arc::new(AtomicBool::new(true));
        Self { memory: Arc::new(memory), archive: None, dice, foul, faults, mutant, undo: Arc::default() }
    }

    /// Returns a backend with another store and the same faults, without an archive.
    pub(crate) fn with_store(&self, memory: MemoryStore) -> Self {
        Self { memory: Arc::new(memory), archive: None, undo: Arc::default(), ..self.clone() }
    }

    /// Adds a new archive to this backend, with the given probability in thousandths. Otherwise, removes its archive.
    pub(crate) async fn archived(self, per_mille: u64) -> Result<Self, ReadError> {
        if !self.dice.per_mille(per_mille) {
            return Ok(self.without_archive());
        }
        let pace = if self.dice.per_mille(500) { Pace::Prompt } else { Pace::Slow };
        let archive = Archive::begin(&self.memory, self.dice.clone(), pace, self.foul.clone(), self.mutant).await?;
        Ok(Self { archive: Some(Arc::new(archive)), ..self })
    }

    pub(crate) fn without_archive(self) -> Self {
        Self { archive: None, ..self }
    }

    /// Returns whether the store is lost and only its archive remains.
    pub(crate) fn is_lost(&self) -> bool {
        self.archive.as_ref().is_some_and(|archive| archive.is_over())
    }

    /// Fails while the archive is unwritable, because the store is then unusable.
    fn check_archive(&self) -> Result<(), Unavailable> {
        self.archive.as_ref().map_or(Ok(()), |archive| archive.check_there())
    }

    async fn apply(&self, txn: Txn) -> Result<Committed, CommitError> {
        match &self.archive {
            Some(archive) => archive.commit(&self.memory, txn).await,
            None => self.memory.commit(txn).await,
        }
    }

    fn has_faults(&self) -> bool {
        self.foul.load(Ordering::SeqCst)
    }

    /// Returns a random latency for a message.
    fn latency(&self) -> Duration {
        match self.has_faults() {
            true if self.dice.per_mille(20) => self.dice.millis(1000, 8000),
            true if self.dice.per_mille(100) => self.dice.millis(20, 500),
            _ => Duration::from_micros(self.dice.between(50, 3000)),
        }
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        let Some(mutant) = self.mutant else { return self.apply(txn).await };
        let mutated = self.mutate(mutant, txn).await;
        if mutant == Mutant::NoFlush {
            let mut before = Vec::new();
            for (key, _) in mutated.writes() {
                let value = self.memory.get(key).await.ok().flatten().map(|versioned| versioned.value);
                before.push((key.clone(), value));
            }
            let made = self.apply(mutated).await?;
            self.undo.lock().unwrap_or_else(PoisonError::into_inner).push(before);
            return Ok(made);
        }
        self.apply(mutated).await
    }

    async fn mutate(&self, mutant: Mutant, txn: Txn) -> Txn {
        let unguarded = |key: &Key| match mutant {
            Mutant::SlotVersion => is_kind(key, "slot"),
            Mutant::CounterVersion => is_kind(key, "counter"),
            Mutant::TableVersion => is_kind(key, "region") || is_kind(key, "space"),
            Mutant::NoFlush | Mutant::TornCommit | Mutant::LostPresence => false,
            Mutant::ClockError | Mutant::TableUnchanged | Mutant::EarlyAnswer => false,
            Mutant::ImportedCounters | Mutant::StaleExport | Mutant::NewCounters => false,
        };
        let mut mutated = Txn::new();
        for (key, version) in txn.guards() {
            // Keep the guards on new keys. Without them, an empty table could replace an existing one, and the
            // simulation would find the mutant too easily.
            if *version == Version::ABSENT || !unguarded(key) {
                mutated = mutated.expect(key.clone(), *version);
            }
        }
        let mut writes = txn.writes().to_vec();
        match mutant {
            Mutant::TornCommit => writes.truncate(1),
            Mutant::NewCounters if only_creates(&txn) => writes.retain(|(key, _)| !is_kind(key, "counter")),
            _ => {}
        }
        for (key, value) in writes {
            mutated = match value {
                Some(value) => mutated.put(key, value),
                None => mutated.delete(key),
            };
        }
        mutated
    }

    /// With [`Mutant::NoFlush`], undoes the latest commits, as if power had been lost before they were flushed.
    pub(crate) async fn lose_unflushed(&self) {
        if self.mutant != Some(Mutant::NoFlush) {
            return;
        }
        let latest = {
            let mut undo = self.undo.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = undo.len().saturating_sub(3);
            undo.split_off(kept)
        };
        for before in latest.into_iter().rev() {
            let back = before.into_iter().fold(Txn::new(), |txn, (key, value)| match value {
                Some(value) => txn.put(key, value),
                None => txn.delete(key),
            });
            // OK because the in-memory store accepts every commit without guards.
            let _ = self.memory.commit(back).await;
        }
    }
}

/// Returns whether a transaction creates regions, and changes no existing region.
fn only_creates(txn: &Txn) -> bool {
    let mut regions = txn.writes().iter().filter(|(key, _)| is_kind(key, "region")).peekable();
    regions.peek().is_some() && regions.all(|(key, _)| txn.guards().contains(&(key.clone(), Version::ABSENT)))
}

fn is_kind(key: &Key, kind: &str) -> bool {
    key.to_string().starts_with(kind)
}

/// The connection of one daemon to the store.
pub(crate) struct Link {
    backend: Backend,
    /// The daemon's own handle, which holds its announcement.
    own: MemoryStore,
    /// Whether a partition blocks all messages.
    cut: Arc<AtomicBool>,
    /// Whether the daemon has crashed. Its messages in flight still arrive.
    dead: Arc<AtomicBool>,
}

impl Link {
    pub(crate) fn new(backend: Backend, cut: Arc<AtomicBool>) -> Self {
        let own = backend.memory.reopen();
        Self { backend, own, cut, dead: Arc::default() }
    }

    /// Closes the connection when the daemon crashes.
    pub(crate) fn sever(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    fn check_alive(&self) -> Result<(), Unavailable> {
        if self.dead.load(Ordering::SeqCst) { Err(Unavailable::Closed) } else { Ok(()) }
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    /// Returns whether a message is lost.
    fn loses(&self) -> bool {
        let lost = self.is_cut() || self.backend.has_faults() && self.backend.dice.per_mille(15);
        if lost {
            self.backend.faults.lost.count();
        }
        lost
    }

    async fn before_read(&self) -> Result<(), Unavailable> {
        self.check_alive()?;
        time::sleep(self.backend.latency()).await;
        if self.loses() {
            time::sleep(LOST).await;
            return Err(Unavailable::backend("no answer"));
        }
        self.backend.check_archive()?;
        self.check_alive()
    }
}

/// The time after which the sender of a lost message fails.
const LOST: Duration = Duration::from_secs(3);

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Link {
    async fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        self.before_read().await?;
        let read = self.backend.memory.get(key).await;
        time::sleep(self.backend.latency()).await;
        self.check_alive()?;
        read
    }

    async fn scan(&self, prefix: &Key) -> Result<Vec<(Key, Versioned)>, ReadError> {
        self.before_read().await?;
        let read = self.backend.memory.scan(prefix).await;
        time::sleep(self.backend.latency()).await;
        self.check_alive()?;
        read
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        txn.check()?;
        self.check_alive()?;
        if self.loses() {
            time::sleep(LOST).await;
            return Err(Unknown::new("no answer").into());
        }
        let (answer, arrived) = oneshot::channel();
        let (backend, latency) = (self.backend.clone(), self.backend.latency());
        spawn(async move {
            time::sleep(latency).await;
            // OK because the sender may have given up.
            let _ = answer.send(backend.commit(txn).await);
        });
        let answer = arrived.await.map_err(|_| Unknown::new("no answer"))?;
        if self.loses() {
            time::sleep(LOST).await;
            return Err(Unknown::new("no answer").into());
        }
        time::sleep(self.backend.latency()).await;
        self.check_alive().map_err(|_| Unknown::new("dead"))?;
        answer
    }

    fn peers(&self) -> Option<&dyn Peers> {
        Some(self)
    }

    fn images(&self) -> Option<Arc<dyn Images>> {
        self.backend.memory.images()
    }

    fn store_id(&self) -> StoreId {
        self.backend.memory.store_id()
    }

    fn stats(&self) -> Stats {
        self.backend.memory.stats()
    }

    async fn close(&self) {
        self.sever();
    }
}

#[async_trait]
impl Peers for Link {
    async fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, ReadError> {
        self.before_read().await?;
        let watch = self.backend.memory.watch(prefix).await?;
        let (backend, cut, dead) = (self.backend.clone(), self.cut.clone(), self.dead.clone());
        let behind_until = Instant::now();
        Ok(Box::new(SlowWatch { watch, backend, cut, dead, behind_until, in_flight: None }))
    }

    async fn announce(&self, key: &Key, value: Vec<u8>, ttl: Duration) -> Result<(), Unavailable> {
        self.before_read().await?;
        let ttl = if self.backend.mutant == Some(Mutant::LostPresence) { Duration::ZERO } else { ttl };
        let announced = self.own.announce(key, value, ttl).await;
        if self.loses() {
            time::sleep(LOST).await;
            return Err(Unavailable::backend("no answer"));
        }
        time::sleep(self.backend.latency()).await;
        self.check_alive()?;
        announced
    }

    fn write_schema(&self, schema: u16) {
        self.own.write_schema(schema);
    }

    async fn withdraw(&self) {
        // If the message is lost, the announcement expires.
        if self.before_read().await.is_ok() {
            self.own.withdraw().await;
        }
    }
}

/// A watch whose changes reach the daemon late. Sometimes no change arrives for a long time, and then all arrive in a
/// burst. During a partition, no change arrives, and some changes may be compacted before it ends.
struct SlowWatch {
    watch: Box<dyn Watch>,
    backend: Backend,
    cut: Arc<AtomicBool>,
    dead: Arc<AtomicBool>,
    /// The end of the current burst, until which changes arrive without delay.
    behind_until: Instant,
    /// A change and its time of arrival.
    in_flight: Option<(Change, Instant)>,
}

#[async_trait]
impl Watch for SlowWatch {
    async fn next(&mut self) -> Change {
        loop {
            if self.dead.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            if self.cut.load(Ordering::SeqCst) {
                time::sleep(CUT_POLL).await;
                continue;
            }
            match self.in_flight.take() {
                Some((change, arrives)) if arrives <= Instant::now() => return change,
                Some((change, arrives)) => {
                    self.in_flight = Some((change, arrives));
                    time::sleep_until(arrives).await;
                }
                None => {
                    let change = self.watch.next().await;
                    let arrives = self.arrival();
                    self.in_flight = Some((change, arrives));
                }
            }
        }
    }

    fn continues(&self, commit: Version) -> bool {
        self.watch.continues(commit)
    }
}

impl SlowWatch {
    /// Returns the time at which the next change arrives.
    fn arrival(&mut self) -> Instant {
        let (now, dice) = (Instant::now(), &self.backend.dice);
        if now < self.behind_until {
            return now;
        }
        if self.backend.has_faults() && dice.per_mille(BACKLOGS_PER_MILLE) {
            self.backend.faults.backlogs.count();
            let arrives = now + dice.millis(500, 60_000);
            self.behind_until = arrives + BURST;
            return arrives;
        }
        now + self.backend.latency()
    }
}

/// The share of changes at which a watch pauses, in thousandths.
const BACKLOGS_PER_MILLE: u64 = 10;
/// The duration of the burst in which a backlog arrives.
const BURST: Duration = Duration::from_millis(5);
/// The interval at which a watch checks whether a partition has ended.
const CUT_POLL: Duration = Duration::from_millis(50);

/// Spawns a task that outlives its sender, such as a message in flight.
#[expect(clippy::disallowed_methods, reason = "a message in flight has no owner")]
pub(crate) fn spawn(message: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(message);
}
