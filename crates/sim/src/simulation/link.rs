//! The way from one daemon to the store: slow, lossy, cut at times, and gone when the daemon crashes.
//!
//! What was sent arrives although its sender has given up or died meanwhile, as on a real network.

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
    Change, CommitError, Committed, Key, MemoryStore, Peers, ReadError, Stats, Store, StoreId, Txn, Unavailable,
    Unknown, Version, Versioned, Watch,
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

/// The store of a run, and how it misbehaves.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) memory: Arc<MemoryStore>,
    /// Where its commits go as well.
    pub(crate) archive: Option<Arc<Archive>>,
    pub(crate) dice: Dice,
    /// Faults happen at all.
    pub(crate) foul: Arc<AtomicBool>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) mutant: Option<Mutant>,
    /// What the latest commits wrote over, for a store that forgets them.
    undo: Arc<Mutex<Vec<Before>>>,
}

/// What was under some keys before a commit.
type Before = Vec<(Key, Option<Vec<u8>>)>;

impl Backend {
    pub(crate) fn new(memory: MemoryStore, dice: Dice, faults: Arc<Faults>, mutant: Option<Mutant>) -> Self {
        let foul = Arc::new(AtomicBool::new(true));
        Self { memory: Arc::new(memory), archive: None, dice, foul, faults, mutant, undo: Arc::default() }
    }

    /// Another store under the same weather, without an archive.
    pub(crate) fn with_store(&self, memory: MemoryStore) -> Self {
        Self { memory: Arc::new(memory), archive: None, undo: Arc::default(), ..self.clone() }
    }

    /// The store with an archive that begins now, or without one, as it comes.
    pub(crate) async fn archived(self, per_mille: u64) -> Result<Self, ReadError> {
        if !self.dice.per_mille(per_mille) {
            return Ok(self.without_archive());
        }
        let pace = if self.dice.per_mille(500) { Pace::Prompt } else { Pace::Slow };
        let archive = Archive::begin(&self.memory, self.dice.clone(), pace, self.foul.clone(), self.mutant).await?;
        Ok(Self { archive: Some(Arc::new(archive)), ..self })
    }

    /// The store, whose archive has ended.
    pub(crate) fn without_archive(self) -> Self {
        Self { archive: None, ..self }
    }

    /// Whether the store is lost, and only its archive is left.
    pub(crate) fn is_lost(&self) -> bool {
        self.archive.as_ref().is_some_and(|archive| archive.is_over())
    }

    /// A store without its archive cannot be used.
    fn check_archive(&self) -> Result<(), Unavailable> {
        self.archive.as_ref().map_or(Ok(()), |archive| archive.check_there())
    }

    async fn apply(&self, txn: Txn) -> Result<Committed, CommitError> {
        match &self.archive {
            Some(archive) => archive.commit(&self.memory, txn).await,
            None => self.memory.commit(txn).await,
        }
    }

    fn is_foul(&self) -> bool {
        self.foul.load(Ordering::SeqCst)
    }

    /// How long a message takes.
    fn latency(&self) -> Duration {
        match self.is_foul() {
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
            Mutant::SlotVersion => key.to_string().starts_with("slot"),
            Mutant::CounterVersion => key.to_string().starts_with("counter"),
            Mutant::TableVersion => ["region", "space"].iter().any(|kind| key.to_string().starts_with(kind)),
            Mutant::NoFlush | Mutant::TornCommit | Mutant::LostPresence => false,
            Mutant::ClockError | Mutant::TableUnchanged | Mutant::EarlyAnswer => false,
        };
        let mut mutated = Txn::new();
        for (key, version) in txn.guards() {
            // A guard for something new stays: overwriting a table by an empty one would be too easy to find.
            if *version == Version::ABSENT || !unguarded(key) {
                mutated = mutated.expect(key.clone(), *version);
            }
        }
        let writes =
            if mutant == Mutant::TornCommit { &txn.writes()[..txn.writes().len().min(1)] } else { txn.writes() };
        for (key, value) in writes {
            mutated = match value {
                Some(value) => mutated.put(key.clone(), value.clone()),
                None => mutated.delete(key.clone()),
            };
        }
        mutated
    }

    /// What happens to a store whose writes were not flushed when the power goes.
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
            // OK because the store in memory makes every commit without guards.
            let _ = self.memory.commit(back).await;
        }
    }
}

/// One daemon's way to the store.
pub(crate) struct Link {
    backend: Backend,
    /// What this daemon announces is its own.
    own: MemoryStore,
    /// Nothing goes through.
    cut: Arc<AtomicBool>,
    /// The daemon is dead: nothing of it is heard any more, but what is under way.
    dead: Arc<AtomicBool>,
}

impl Link {
    pub(crate) fn new(backend: Backend, cut: Arc<AtomicBool>) -> Self {
        let own = backend.memory.reopen();
        Self { backend, own, cut, dead: Arc::default() }
    }

    /// The daemon dies.
    pub(crate) fn sever(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    fn check_alive(&self) -> Result<(), Unavailable> {
        if self.dead.load(Ordering::SeqCst) { Err(Unavailable::Closed) } else { Ok(()) }
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    /// Whether a message is lost.
    fn loses(&self) -> bool {
        let lost = self.is_cut() || self.backend.is_foul() && self.backend.dice.per_mille(15);
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

/// When whoever waits for a lost message finds out.
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
        let (backend, there) = (self.backend.clone(), self.backend.latency());
        on_its_way(async move {
            time::sleep(there).await;
            // Nobody may be waiting any more.
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
        Ok(Box::new(SlowWatch { watch, backend, cut, dead, behind_until, on_its_way: None }))
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
        // Otherwise its time runs out.
        if self.before_read().await.is_ok() {
            self.own.withdraw().await;
        }
    }
}

/// Changes as they reach one daemon: late, at times long after and then all at once, not at all while the way is cut, and then
/// some may be forgotten.
struct SlowWatch {
    watch: Box<dyn Watch>,
    backend: Backend,
    cut: Arc<AtomicBool>,
    dead: Arc<AtomicBool>,
    /// Until then a backlog is told, as fast as it can be.
    behind_until: Instant,
    /// A change, and when it arrives.
    on_its_way: Option<(Change, Instant)>,
}

#[async_trait]
impl Watch for SlowWatch {
    async fn next(&mut self) -> Change {
        loop {
            if self.dead.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            if self.cut.load(Ordering::SeqCst) {
                time::sleep(MENDED).await;
                continue;
            }
            match self.on_its_way.take() {
                Some((change, arrives)) if arrives <= Instant::now() => return change,
                Some((change, arrives)) => {
                    self.on_its_way = Some((change, arrives));
                    time::sleep_until(arrives).await;
                }
                None => {
                    let change = self.watch.next().await;
                    let arrives = self.arrival();
                    self.on_its_way = Some((change, arrives));
                }
            }
        }
    }
}

impl SlowWatch {
    /// When a change arrives that comes after those which have arrived.
    fn arrival(&mut self) -> Instant {
        let (now, dice) = (Instant::now(), &self.backend.dice);
        if now < self.behind_until {
            return now;
        }
        if self.backend.is_foul() && dice.per_mille(BACKLOGS_PER_MILLE) {
            self.backend.faults.backlogs.count();
            let arrives = now + dice.millis(500, 60_000);
            self.behind_until = arrives + BURST;
            return arrives;
        }
        now + self.backend.latency()
    }
}

/// How many changes in a thousand stop a watch.
const BACKLOGS_PER_MILLE: u64 = 10;
/// How long it takes to tell what has gathered.
const BURST: Duration = Duration::from_millis(5);
/// How often a watch looks whether the way is open again.
const MENDED: Duration = Duration::from_millis(50);

/// What is sent arrives whatever becomes of its sender.
#[expect(clippy::disallowed_methods, reason = "a message under way belongs to nobody")]
pub(crate) fn on_its_way(message: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(message);
}
