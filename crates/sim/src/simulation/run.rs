//! The state of a run: three daemons on one store, and the recorded events.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use kent_ids::UnixNanos;
use kent_regions::{Kind, Region};
use kent_store::{MemoryStore, StoreId};
use kentd::{Config, ConfigError, Environment, Node, StartError, WitnessError, clock::Clock};
use tempfile::TempDir;
use tokio::{
    sync::RwLock,
    time::{self, Instant},
};

use super::{
    clocks::{self, Clocks},
    ledger::{Grant, Ledger},
    link::{Backend, Link},
    mutant::Mutant,
    outcome::{Faults, Outcome},
    places::Places,
    world::{Dice, Machine},
};

/// The state of a run.
pub(crate) struct Run {
    backend: Mutex<Backend>,
    pub(crate) dice: Dice,
    pub(crate) faults: Arc<Faults>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) places: Places,
    ending: AtomicBool,
    pub(crate) clocks: Clocks,
    /// Each call and each fault holds a read lock. A write lock is held while a lost store is replaced.
    pub(crate) gate: RwLock<()>,
    /// The witness directory of the daemons, in runs that lose stores.
    pub(crate) witness: Option<TempDir>,
    /// The number of daemon starts that have begun.
    begun: AtomicU64,
    /// The number of the last daemon start that the witness has recorded.
    attested: AtomicU64,
    /// Whether operators currently make no edits.
    edits_paused: AtomicBool,
    lives: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ledger: Ledger,
    steps: u64,
    /// Acknowledged edits: space, request ID, revision.
    edits: Vec<(String, String, u64)>,
    /// The time from which the seal of a region is in effect, by space and number.
    sealed: HashMap<(String, u64), Instant>,
    /// Regions with a pending unseal request, which may be applied at any time.
    unsealing: HashSet<(String, u64)>,
    /// The number of restores of the store.
    restores: u64,
    /// The time before which the store must issue nothing.
    until: Option<UnixNanos>,
    /// Regions that differ from their state in the lost store, by space and first name. Operators do not edit them.
    suspects: HashSet<String>,
    violations: Vec<String>,
}

/// One machine, and its daemon if it is running.
pub(crate) struct Replica {
    pub(crate) machine: Arc<Machine>,
    pub(crate) cut: Arc<AtomicBool>,
    config: Config,
    up: Mutex<Option<Arc<Life>>>,
}

/// One process of a daemon, from start to crash or stop.
pub(crate) struct Life {
    pub(crate) node: Node,
    pub(crate) number: u64,
    link: Arc<Link>,
}

pub(crate) const REPLICAS: usize = 3;
/// The maximum number of attempts at an operation that faults may interrupt.
pub(crate) const TRIES: usize = 50;
/// The share of stores that have an archive, in thousandths.
pub(crate) const ARCHIVED: u64 = 600;
/// How long a daemon can continue without the store. Each daemon gets one of these windows.
const WINDOWS: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(6), Duration::from_secs(60)];
/// The additional time for which slots are reserved beyond the bound on the clocks of lost daemons.
const MARGIN: Duration = Duration::from_secs(3);

impl Run {
    /// Creates a run. Its daemons are not started.
    pub(crate) fn new(dice: Dice, clocks: Clocks, mutant: Option<Mutant>) -> Result<Self, ConfigError> {
        let faults = Arc::new(Faults::default());
        let memory = MemoryStore::new(StoreId::new([7; 16]));
        let backend = Backend::new(memory, dice.clone(), faults.clone(), mutant);
        let boot = Instant::now();
        let mut replicas = Vec::new();
        for _ in 0..REPLICAS {
            // A partition outlasts a short window more often than a long one.
            let window = dice.pick(&WINDOWS).copied();
            replicas.push(Replica::new(boot, &dice, window, clocks)?);
        }
        Ok(Self {
            backend: Mutex::new(backend),
            dice,
            faults,
            replicas,
            places: Places::default(),
            ending: AtomicBool::new(false),
            clocks,
            gate: RwLock::new(()),
            // A witness would change the runs of existing seeds, so runs without a bound on clock errors have none.
            witness: if clocks == Clocks::Wild { None } else { tempfile::tempdir().ok() },
            begun: AtomicU64::new(0),
            attested: AtomicU64::new(0),
            edits_paused: AtomicBool::new(false),
            lives: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    /// Adds an archive to the first store with this probability in thousandths.
    pub(crate) async fn archive(&self, per_mille: u64) {
        match self.backend().archived(per_mille).await {
            Ok(backend) => *self.backend.lock().unwrap_or_else(PoisonError::into_inner) = backend,
            Err(error) => self.violation(error.to_string()),
        }
    }

    pub(crate) fn outcome(&self, seed: u64) -> Outcome {
        let state = self.lock();
        Outcome {
            steps: state.steps,
            identifiers: state.ledger.identifiers,
            edits: state.edits.len() as u64,
            faults: self.faults.counts(),
            digest: state.ledger.sum(),
            violations: state.violations.iter().map(|violation| (seed, violation.clone())).collect(),
        }
    }

    /// Runs a check on the ledger of grants.
    pub(crate) fn with_ledger<T>(&self, check: impl FnOnce(&mut Ledger) -> T) -> T {
        check(&mut self.lock().ledger)
    }

    /// Returns the acknowledged edits of a space: request IDs and revisions.
    pub(crate) fn edits(&self, origin: &str) -> Vec<(String, u64)> {
        let state = self.lock();
        let of = state.edits.iter().filter(|(space, ..)| space == origin);
        of.map(|(_, request_id, revision)| (request_id.clone(), *revision)).collect()
    }

    pub(crate) async fn crash_all(&self) {
        for replica in 0..REPLICAS {
            self.crash(replica).await;
        }
    }

    /// Starts all daemons at the same time.
    pub(crate) async fn start_all(&self) {
        join_all((0..REPLICAS).map(|replica| self.start(replica))).await;
    }

    /// Starts a daemon, with retries.
    pub(crate) async fn start(&self, replica: usize) {
        let place = &self.replicas[replica];
        for _ in 0..100 {
            let backend = self.backend();
            if backend.is_lost() {
                return;
            }
            let link = Arc::new(Link::new(backend, place.cut.clone()));
            let environment = Environment {
                store: Arc::new(kent_store::Bounded::new(link.clone(), Duration::from_secs(5))),
                clock: place.machine.clone(),
                entropy: Arc::new(self.dice.clone()),
            };
            if let Some(witness) = &self.witness {
                let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
                match kentd::attest(&environment, witness.path()).await {
                    Ok(()) => drop(self.attested.fetch_max(number, Ordering::Relaxed)),
                    Err(StartError::Witness(error @ WitnessError::OldCopy { .. })) => {
                        return self
                            .violation(format!("the witness mistakes the store in use for an old copy: {error}"));
                    }
                    Err(_) => {
                        time::sleep(self.dice.millis(100, 1000)).await;
                        continue;
                    }
                }
            }
            match Node::start(environment, &place.config).await {
                Ok(node) => {
                    let number = self.lives.fetch_add(1, Ordering::Relaxed);
                    *place.lock() = Some(Arc::new(Life { node, number, link }));
                    return;
                }
                Err(_) => time::sleep(self.dice.millis(100, 1000)).await,
            }
        }
        self.violation("P7: a daemon does not start".to_owned());
    }

    /// Returns the daemon of a replica, if it is running.
    pub(crate) fn life(&self, replica: usize) -> Option<Arc<Life>> {
        self.replicas.get(replica)?.lock().clone()
    }

    /// Kills a daemon. Its messages in flight still arrive.
    pub(crate) async fn crash(&self, replica: usize) {
        let Some(life) = self.replicas[replica].lock().take() else { return };
        self.faults.crashes.count();
        life.link.sever();
        self.backend().lose_unflushed().await;
        if let Ok(life) = Arc::try_unwrap(life) {
            life.node.abandon().await;
        }
    }

    /// Shuts down a daemon after its pending calls have finished.
    pub(crate) async fn stop(&self, replica: usize) {
        let Some(mut life) = self.replicas[replica].lock().take() else { return };
        loop {
            match Arc::try_unwrap(life) {
                Ok(life) => return life.node.stop().await,
                Err(still) => life = still,
            }
            time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns the store and its faults.
    pub(crate) fn backend(&self) -> Backend {
        self.backend.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the store with another one, which issues nothing before `until`.
    pub(crate) fn replace_store(&self, backend: Backend, until: UnixNanos) {
        *self.backend.lock().unwrap_or_else(PoisonError::into_inner) = backend;
        let mut state = self.lock();
        state.until = state.until.max(Some(until));
    }

    /// Records the loss of the store: edits, seals and grants since the backup are lost.
    pub(crate) fn lose(&self) {
        let mut state = self.lock();
        state.restores += 1;
        state.edits.clear();
        state.sealed.clear();
        state.unsealing.clear();
        state.ledger.lose();
    }

    /// Returns whether this run restores stores from backups, which requires a bound on clock errors.
    pub(crate) fn loses_stores(&self) -> bool {
        self.clocks != Clocks::Wild
    }

    pub(crate) fn restores(&self) -> u64 {
        self.lock().restores
    }

    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Returns the number of the last start that the witness has recorded.
    pub(crate) fn attested(&self) -> u64 {
        self.attested.load(Ordering::Relaxed)
    }

    /// Returns a random machine, whose clock the caller uses.
    pub(crate) fn any_machine(&self) -> Arc<Machine> {
        self.replicas[self.dice.between(0, REPLICAS as u64 - 1) as usize].machine.clone()
    }

    /// Returns the settings of the first daemon.
    pub(crate) fn config(&self) -> &Config {
        &self.replicas[0].config
    }

    /// Returns the duration until all clocks have passed a time, given their current rates.
    pub(crate) fn until_all_are_past(&self, time: UnixNanos) -> Duration {
        let last = self.replicas.iter().map(|replica| time.get() - replica.machine.wall().get()).max().unwrap_or(0);
        // The added thousandth covers clocks that run slightly slow.
        let last = u64::try_from(last.max(0)).unwrap_or(u64::MAX);
        Duration::from_nanos(last.saturating_add(last / 1000)) + if last > 0 { MARGIN } else { Duration::ZERO }
    }

    /// Returns the time until the store issues identifiers again after a restore.
    pub(crate) fn time_until_issuing(&self) -> Duration {
        let until = self.lock().until;
        until.map_or(Duration::ZERO, |until| self.until_all_are_past(until))
    }

    /// Pauses or resumes the edits of operators. A pause waits for the answers to pending edits.
    pub(crate) async fn pause_edits(&self, paused: bool) {
        self.edits_paused.store(paused, Ordering::SeqCst);
        if paused {
            drop(self.gate.write().await);
        }
    }

    pub(crate) fn edits_are_paused(&self) -> bool {
        self.edits_paused.load(Ordering::SeqCst)
    }

    /// Stops faults. Clients and operators finish their current requests and end.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
        self.backend().foul.store(false, Ordering::SeqCst);
        for replica in &self.replicas {
            replica.machine.set_off(0);
            replica.cut.store(false, Ordering::SeqCst);
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// Records a region that differs from its state in the lost store.
    pub(crate) fn suspect(&self, space: &str, region: &str) {
        let origin = self.places.origin(&format!("{space}/{region}"));
        self.lock().suspects.insert(origin);
    }

    /// Returns whether a region differs from its state in the lost store. Operators do not edit such a region.
    pub(crate) fn is_suspect(&self, space: &str, region: &str) -> bool {
        let origin = self.places.origin(&format!("{space}/{region}"));
        self.lock().suspects.contains(&origin)
    }

    /// Returns the number after the highest suffix granted from a region.
    pub(crate) fn floor(&self, space: &str, bits: u8, region: &Region) -> Option<u128> {
        if region.kind == Kind::Closed || region.delegated {
            return None;
        }
        let (base, space) = (region.prefix.base(bits), self.places.origin(space));
        Some(self.lock().ledger.next_in(&space, base, region.suffix) - base)
    }

    pub(crate) fn violation(&self, what: String) {
        self.lock().violations.push(what);
    }

    pub(crate) fn step(&self) {
        self.lock().steps += 1;
    }

    /// Records and checks a grant.
    pub(crate) fn granted(&self, grant: &Grant<'_>) {
        let rng = self.dice.rng();
        let mut state = self.lock();
        if let Err(violation) = state.ledger.record(grant, rng) {
            state.violations.push(violation);
        }
    }

    pub(crate) fn edited(&self, space: &str, request_id: &str, revision: u64) {
        let mut state = self.lock();
        state.ledger.digest(revision);
        let edit = (self.places.origin(space), request_id.to_owned(), revision);
        if !state.edits.contains(&edit) {
            state.edits.push(edit);
        }
    }

    /// Records an acknowledged seal, and the time from which it is in effect on all daemons.
    pub(crate) fn sealed(&self, space: &str, region: u64, since: Instant) {
        let mut state = self.lock();
        let region = (self.places.origin(space), region);
        if !state.unsealing.contains(&region) {
            state.sealed.entry(region).or_insert(since);
        }
    }

    /// Records an unseal request before its outcome is known.
    pub(crate) fn unsealing(&self, space: &str, region: u64) {
        let mut state = self.lock();
        let region = (self.places.origin(space), region);
        state.sealed.remove(&region);
        state.unsealing.insert(region);
    }

    /// Records an acknowledged unseal. Because of its request ID, the unseal cannot be applied again later.
    pub(crate) fn unsealed(&self, space: &str, region: u64) {
        self.lock().unsealing.remove(&(self.places.origin(space), region));
    }

    /// Checks that a grant requested at `sent` is not from a region whose seal was in effect at that time.
    pub(crate) fn check_seal(&self, space: &str, region: u64, sent: Instant) {
        let mut state = self.lock();
        if let Some(since) = state.sealed.get(&(self.places.origin(space), region)).filter(|since| **since < sent) {
            let late = sent.duration_since(*since);
            state
                .violations
                .push(format!("region {region} of {space} issued an identifier {late:?} after its seal took effect"));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Replica {
    /// Creates a machine with a random clock, and the configuration of a daemon with this window.
    fn new(boot: Instant, dice: &Dice, window: Option<Duration>, clocks: Clocks) -> Result<Self, ConfigError> {
        let settings = kentd::Settings {
            window: window.map(kentd::Span),
            chunk_min: Some(4),
            chunk_max: Some(64),
            ..kentd::Settings::default()
        };
        let config = Config::check(settings)?;
        Ok(Self {
            machine: Arc::new(clocks::machine(boot, dice, clocks)),
            cut: Arc::default(),
            config,
            up: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Life>>> {
        self.up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
