//! A run under way: three daemons on one store, and what is known of them.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

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

/// A run under way.
pub(crate) struct Run {
    backend: Mutex<Backend>,
    pub(crate) dice: Dice,
    pub(crate) faults: Arc<Faults>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) places: Places,
    ending: AtomicBool,
    pub(crate) clocks: Clocks,
    /// Held by each call and by each fault; and alone while a store is lost and another one takes its place.
    pub(crate) gate: RwLock<()>,
    /// Where stores are lost, a directory that knows how often each was started.
    pub(crate) witness: Option<TempDir>,
    /// Starts that have begun, and the last one that the witness has seen.
    begun: AtomicU64,
    attested: AtomicU64,
    /// Operators edit nothing for now.
    resting: AtomicBool,
    lives: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ledger: Ledger,
    steps: u64,
    /// Edits that were acknowledged: space, request_id, revision.
    edits: Vec<(String, String, u64)>,
    /// Regions that nobody may grant from, by space and number: since when.
    sealed: HashMap<(String, u64), Instant>,
    /// Regions of which an unsealing may come through at any time.
    unsealing: HashSet<(String, u64)>,
    /// How often the store was restored.
    restores: u64,
    /// Before this nothing is issued from the store.
    until: Option<UnixNanos>,
    /// Regions that are not what they were in a lost store, by space and first name: they are left alone.
    suspects: HashSet<String>,
    violations: Vec<String>,
}

/// One machine, and the daemon on it if it is up.
pub(crate) struct Replica {
    pub(crate) machine: Arc<Machine>,
    pub(crate) cut: Arc<AtomicBool>,
    config: Config,
    up: Mutex<Option<Arc<Life>>>,
}

/// One life of a daemon.
pub(crate) struct Life {
    pub(crate) node: Node,
    pub(crate) number: u64,
    link: Arc<Link>,
}

pub(crate) const REPLICAS: usize = 3;
/// How many stores in a thousand are archived.
pub(crate) const ARCHIVED: u64 = 600;
/// For how long daemons go on without the store, each as long as its own.
const WINDOWS: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(6), Duration::from_secs(60)];
/// Slots are reserved for some seconds longer than the clocks of lost daemons may be ahead.
const MARGIN: Duration = Duration::from_secs(3);
impl Run {
    /// A run that begins.
    pub(crate) fn new(dice: Dice, clocks: Clocks, mutant: Option<Mutant>) -> Result<Self, ConfigError> {
        let faults = Arc::new(Faults::default());
        let memory = MemoryStore::new(StoreId::new([7; 16]));
        let backend = Backend::new(memory, dice.clone(), faults.clone(), mutant);
        let boot = Instant::now();
        let mut replicas = Vec::new();
        for _ in 0..REPLICAS {
            // The shorter the window, the more partitions outlast it.
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
            // Without one, nothing that happens is another thing.
            witness: if clocks == Clocks::Wild { None } else { tempfile::tempdir().ok() },
            begun: AtomicU64::new(0),
            attested: AtomicU64::new(0),
            resting: AtomicBool::new(false),
            lives: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    /// Archives the first store, or not.
    pub(crate) async fn archive(&self, per_mille: u64) {
        match self.backend().archived(per_mille).await {
            Ok(backend) => *self.backend.lock().unwrap_or_else(PoisonError::into_inner) = backend,
            Err(error) => self.violation(error.to_string()),
        }
    }

    /// What it has come to.
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

    /// Checks something of what was granted.
    pub(crate) fn with_ledger<T>(&self, check: impl FnOnce(&mut Ledger) -> T) -> T {
        check(&mut self.lock().ledger)
    }

    /// Edits of a space that were acknowledged: request_ids and revisions.
    pub(crate) fn edits(&self, origin: &str) -> Vec<(String, u64)> {
        let state = self.lock();
        let of = state.edits.iter().filter(|(space, ..)| space == origin);
        of.map(|(_, request_id, revision)| (request_id.clone(), *revision)).collect()
    }

    /// Kills all daemons.
    pub(crate) async fn crash_all(&self) {
        for replica in 0..REPLICAS {
            self.crash(replica).await;
        }
    }

    /// Starts all daemons.
    pub(crate) async fn start_all(&self) {
        for replica in 0..REPLICAS {
            self.start(replica).await;
        }
    }

    /// Starts a daemon, as often as it takes.
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
                        return self.violation(format!("the store in use is taken for an old copy: {error}"));
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

    /// The daemon of a replica, if it is up.
    pub(crate) fn life(&self, replica: usize) -> Option<Arc<Life>> {
        self.replicas.get(replica)?.lock().clone()
    }

    /// Kills a daemon: nothing of it is heard any more.
    pub(crate) async fn crash(&self, replica: usize) {
        let Some(life) = self.replicas[replica].lock().take() else { return };
        self.faults.crashes.count();
        life.link.sever();
        self.backend().lose_unflushed().await;
        if let Ok(life) = Arc::try_unwrap(life) {
            life.node.abandon().await;
        }
    }

    /// Stops a daemon as an operator would: calls under way finish first.
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

    /// The store, and how it misbehaves.
    pub(crate) fn backend(&self) -> Backend {
        self.backend.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another store takes the place of the one that was, and issues from `until` on.
    pub(crate) fn replace_store(&self, backend: Backend, until: UnixNanos) {
        *self.backend.lock().unwrap_or_else(PoisonError::into_inner) = backend;
        let mut state = self.lock();
        state.until = state.until.max(Some(until));
    }

    /// What was acknowledged, and was not backed up, is lost.
    pub(crate) fn lose(&self) {
        let mut state = self.lock();
        state.restores += 1;
        state.edits.clear();
        state.sealed.clear();
        state.unsealing.clear();
        state.ledger.lose();
    }

    /// Whether stores are restored from backups in this run, and so clocks are not wild.
    pub(crate) fn loses_stores(&self) -> bool {
        self.clocks != Clocks::Wild
    }

    /// How often the store was restored.
    pub(crate) fn restores(&self) -> u64 {
        self.lock().restores
    }

    /// How many starts have begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// The last start that the witness has seen.
    pub(crate) fn attested(&self) -> u64 {
        self.attested.load(Ordering::Relaxed)
    }

    /// The clock of one of the machines.
    pub(crate) fn any_machine(&self) -> Arc<Machine> {
        self.replicas[self.dice.between(0, REPLICAS as u64 - 1) as usize].machine.clone()
    }

    /// The settings of the first daemon.
    pub(crate) fn config(&self) -> &Config {
        &self.replicas[0].config
    }

    /// How long it takes until all clocks are past a time, as they go now.
    pub(crate) fn until_all_are_past(&self, time: UnixNanos) -> Duration {
        let last = self.replicas.iter().map(|replica| time.get() - replica.machine.wall().get()).max().unwrap_or(0);
        // A clock may go a little too slow.
        let last = u64::try_from(last.max(0)).unwrap_or(u64::MAX);
        Duration::from_nanos(last.saturating_add(last / 1000)) + if last > 0 { MARGIN } else { Duration::ZERO }
    }

    /// How long it takes until the store is issued from again after a restore.
    pub(crate) fn until_issued_again(&self) -> Duration {
        let until = self.lock().until;
        until.map_or(Duration::ZERO, |until| self.until_all_are_past(until))
    }

    /// Has the operators edit nothing, or go on. What they have asked for has been answered then.
    pub(crate) async fn rest_from_edits(&self, rests: bool) {
        self.resting.store(rests, Ordering::SeqCst);
        if rests {
            drop(self.gate.write().await);
        }
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.resting.load(Ordering::SeqCst)
    }

    /// Faults stop, and everyone who acts comes to an end with what was begun.
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

    /// Takes note of a region that is not what it was in a lost store.
    pub(crate) fn suspect(&self, space: &str, region: &str) {
        let origin = self.places.origin(&format!("{space}/{region}"));
        self.lock().suspects.insert(origin);
    }

    /// Whether a region is to be left alone.
    pub(crate) fn is_suspect(&self, space: &str, region: &str) -> bool {
        let origin = self.places.origin(&format!("{space}/{region}"));
        self.lock().suspects.contains(&origin)
    }

    /// A number above all that were granted from a region.
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

    /// Takes note of a grant.
    pub(crate) fn granted(&self, grant: &Grant<'_>) {
        let rng = self.dice.rng();
        let mut state = self.lock();
        if let Err(violation) = state.ledger.record(grant, rng) {
            state.violations.push(violation);
        }
    }

    /// Takes note of an edit that was acknowledged.
    pub(crate) fn edited(&self, space: &str, request_id: &str, revision: u64) {
        let mut state = self.lock();
        state.ledger.digest(revision);
        let edit = (self.places.origin(space), request_id.to_owned(), revision);
        if !state.edits.contains(&edit) {
            state.edits.push(edit);
        }
    }

    /// Takes note of a seal that was acknowledged, and from when on it is in effect on all daemons.
    pub(crate) fn sealed(&self, space: &str, region: u64, since: Instant) {
        let mut state = self.lock();
        let region = (self.places.origin(space), region);
        if !state.unsealing.contains(&region) {
            state.sealed.entry(region).or_insert(since);
        }
    }

    /// Takes note of an unsealing that is asked for: by its name, since nobody knows whether it will be made.
    pub(crate) fn unsealing(&self, space: &str, region: u64) {
        let mut state = self.lock();
        let region = (self.places.origin(space), region);
        state.sealed.remove(&region);
        state.unsealing.insert(region);
    }

    /// Takes note of an unsealing that was acknowledged: under its request_id it is made once, and so not later again.
    pub(crate) fn unsealed(&self, space: &str, region: u64) {
        self.lock().unsealing.remove(&(self.places.origin(space), region));
    }

    /// Checks that what was asked for at `asked` was not of a region that was sealed for all by then.
    pub(crate) fn check_seal(&self, space: &str, region: u64, asked: Instant) {
        let mut state = self.lock();
        if let Some(since) = state.sealed.get(&(self.places.origin(space), region)).filter(|since| **since < asked) {
            let late = asked.duration_since(*since);
            state
                .violations
                .push(format!("region {region} of {space} was granted from {late:?} after its seal was in effect"));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Replica {
    /// A machine whose clock and whose settings are its own.
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
