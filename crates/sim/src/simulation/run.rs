//! One run: three daemons on one store, clients, operators, and what can go wrong; then some calm and the checks.
//!
//! In every second run the store is lost and restored or moved, some times. A restore assumes something about clocks, so they keep to
//! that in such runs; in the others they say anything.

use std::{
    collections::{HashMap, HashSet},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt;
use kent_ids::UnixNanos;
use kent_proto::{
    model::{apply_change, table_of},
    v1::{
        HistoryEntry, ListHistoryRequest, ListSpacesRequest, WatchTableRequest, regions_server::Regions,
        watch_table_response::Event,
    },
};
use kent_regions::{Kind, Order, Region, Revision, Table};
use kent_store::{MemoryStore, StoreId};
use kentd::{Config, ConfigError, Node, StartError, Surroundings, WitnessError, clock::Clock};
use tempfile::TempDir;
use tokio::{
    sync::RwLock,
    time::{self, Instant},
};
use tonic::Request;

use super::{
    Mutant, actors,
    chaos::{self, Clocks},
    ledger::Ledger,
    link::{Backend, Link, on_its_way},
    losses,
    places::{Places, STRICT_SPACE},
    world::{Dice, Machine},
};

/// What runs came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    steps: u64,
    identifiers: u64,
    edits: u64,
    faults: [u64; FAULTS.len()],
    /// A sum of all that happened, in its order.
    digest: u64,
    /// Broken promises, with the seeds that broke them.
    pub(crate) violations: Vec<(u64, String)>,
}

/// Faults that were injected, by kind.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) lost: Count,
    pub(crate) jumps: Count,
    pub(crate) crashes: Count,
    pub(crate) stops: Count,
    pub(crate) cuts: Count,
    pub(crate) gone: Count,
    pub(crate) compactions: Count,
    pub(crate) backlogs: Count,
    pub(crate) backups: Count,
    pub(crate) restores: Count,
    pub(crate) moves: Count,
    pub(crate) copies: Count,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

const FAULTS: [&str; 12] = [
    "messages lost",
    "clock jumps",
    "crashes",
    "clean restarts",
    "partitions",
    "clients gone in the middle of a call",
    "compactions: old changes forgotten by the store",
    "backlogs: watches that stopped for up to a minute",
    "backups",
    "stores lost and restored from a backup",
    "stores moved",
    "old copies put back, and noticed by the witness",
];

impl Outcome {
    pub(crate) fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.identifiers += other.identifiers;
        self.edits += other.edits;
        self.faults.iter_mut().zip(other.faults).for_each(|(sum, more)| *sum += more);
        self.violations.extend(other.violations);
    }

    /// How many runs broke a promise.
    pub(crate) fn broken(&self) -> usize {
        let seeds: std::collections::BTreeSet<u64> = self.violations.iter().map(|(seed, _)| *seed).collect();
        seeds.len()
    }

    pub(crate) fn tell(&self, seeds: u64) {
        println!("{seeds} runs, {} steps", self.steps);
        println!("  {:>12} identifiers checked, no two the same", self.identifiers);
        println!("  {:>12} table edits acknowledged, each of them once in the history", self.edits);
        for (what, count) in FAULTS.iter().zip(self.faults) {
            println!("  {count:>12} {what}");
        }
        println!("  {:>12} broken promises", self.violations.len());
    }
}

/// A run under way.
pub(crate) struct Run {
    backend: Mutex<Backend>,
    pub(crate) dice: Dice,
    pub(crate) faults: Arc<Faults>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) places: Places,
    pub(crate) ending: AtomicBool,
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
/// For how long daemons go on without the store, each as long as its own.
const WINDOWS: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(6), Duration::from_secs(60)];
/// How long faults go on.
const FOUL: Duration = Duration::from_secs(60);
/// After this long without faults everything must be as if nothing had been: windows are over, and clocks are believed.
const CALM: Duration = Duration::from_secs(200);
/// Slots are reserved for some seconds longer than the clocks of lost daemons may be ahead.
const MARGIN: Duration = Duration::from_secs(3);
/// A run that takes longer hangs.
const HANGS: Duration = Duration::from_secs(60_000);

/// Runs a seed to its end.
pub(crate) fn simulate(seed: u64, mutant: Option<Mutant>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let run = match runtime {
        Ok(runtime) => catch_unwind(AssertUnwindSafe(|| runtime.block_on(whole(seed, mutant)))),
        Err(error) => return Outcome { violations: vec![(seed, error.to_string())], ..Outcome::default() },
    };
    run.unwrap_or_else(|_| Outcome {
        violations: vec![(seed, "P6: something panicked".to_owned())],
        ..Outcome::default()
    })
}

async fn whole(seed: u64, mutant: Option<Mutant>) -> Outcome {
    let (dice, faults) = (Dice::new(seed), Arc::new(Faults::default()));
    let memory = MemoryStore::new(StoreId::new([7; 16]));
    let backend = Backend::new(memory, dice.clone(), faults.clone(), mutant);
    let boot = Instant::now();
    // Not drawn, so that what the other runs draw stays the same.
    let clocks = match seed % 4 {
        0 => Clocks::Within,
        2 => Clocks::Synchronized,
        _ => Clocks::Wild,
    };
    let mut replicas = Vec::new();
    for _ in 0..REPLICAS {
        // The shorter the window, the more partitions outlast it.
        let window = dice.pick(&WINDOWS).copied();
        match Replica::new(boot, &dice, window, clocks) {
            Ok(replica) => replicas.push(replica),
            Err(error) => return Outcome { violations: vec![(seed, error.to_string())], ..Outcome::default() },
        }
    }
    let run = Arc::new(Run {
        backend: Mutex::new(backend),
        dice: dice.clone(),
        faults: faults.clone(),
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
    });
    if time::timeout(HANGS, play(&run)).await.is_err() {
        run.violation("P6: the run hangs".to_owned());
    }
    let state = run.lock();
    let Faults { lost, jumps, crashes, stops, cuts, gone, compactions, backlogs, .. } = &*faults;
    let Faults { backups, restores, moves, copies, .. } = &*faults;
    let faults = [lost, jumps, crashes, stops, cuts, gone, compactions, backlogs, backups, restores, moves, copies];
    Outcome {
        steps: state.steps,
        identifiers: state.ledger.identifiers,
        edits: state.edits.len() as u64,
        faults: faults.map(Count::get),
        digest: state.ledger.sum(),
        violations: state.violations.iter().map(|violation| (seed, violation.clone())).collect(),
    }
}

/// The foul time, the calm, and the checks.
async fn play(run: &Arc<Run>) {
    for replica in 0..REPLICAS {
        run.start(replica).await;
    }
    actors::prepare(run).await;
    for client in 0..4 {
        on_its_way(actors::client(run.clone(), client));
    }
    for operator in 0..2 {
        on_its_way(actors::operator(run.clone(), operator));
    }
    on_its_way(actors::auditor(run.clone()));
    on_its_way(actors::audited(run.clone()));
    for replica in 0..REPLICAS {
        on_its_way(chaos::chaos(run.clone(), replica));
    }
    if run.loses_stores() {
        on_its_way(losses::rush(run.clone()));
        losses::losses(run.clone()).await;
    } else {
        time::sleep(FOUL).await;
    }
    // Faults stop; everybody comes to an end with what was begun.
    run.ending.store(true, Ordering::SeqCst);
    run.backend().weather.foul.store(false, Ordering::SeqCst);
    for replica in &run.replicas {
        replica.machine.set_off(0);
        replica.cut.store(false, Ordering::SeqCst);
    }
    let wait = run.until_issued_again();
    if !wait.is_zero() {
        // A clock was set back behind the moment from which on a restored or moved store issues.
        let _alone = run.gate.write().await;
        for replica in 0..REPLICAS {
            run.crash(replica).await;
        }
        time::sleep(wait).await;
        for replica in 0..REPLICAS {
            run.start(replica).await;
        }
    }
    time::sleep(CALM).await;
    for replica in 0..REPLICAS {
        if run.life(replica).is_none() {
            run.start(replica).await;
        }
    }
    actors::check_liveness(run).await;
    if let Err(violation) = check_spaces(run).await {
        run.violation(violation);
    }
    for replica in 0..REPLICAS {
        run.stop(replica).await;
    }
}

/// Checks all spaces as a daemon sees them that starts now.
async fn check_spaces(run: &Arc<Run>) -> Result<(), String> {
    run.stop(0).await;
    run.start(0).await;
    let life = run.life(0).ok_or("P7: a daemon does not start although there are no faults")?;
    let regions = life.node.regions();
    let all = ListSpacesRequest { page_size: 1000, ..ListSpacesRequest::default() };
    let spaces = regions.list_spaces(Request::new(all)).await.map_err(|status| status.to_string())?.into_inner().spaces;
    for space in &spaces {
        let name = space.name.trim_start_matches("spaces/");
        if let Err(violation) = check_space(run, &regions, name).await {
            run.violation(format!("{name}: {violation}"));
        }
    }
    Ok(())
}

/// Checks owners, history, edits, and the numbers of strict regions.
async fn check_space(run: &Arc<Run>, regions: &impl Regions, space: &str) -> Result<(), String> {
    let parent = format!("spaces/{space}");
    let table = table(regions, space).await?;
    let history = history(regions, &parent).await?;
    check_history(&table, history.clone())?;
    let mut state = run.lock();
    state.ledger.digest(table.revision().0);
    let origin = run.places.origin(space);
    state.ledger.check_owners(&origin, &table)?;
    for (_, request_id, revision) in state.edits.iter().filter(|(of, ..)| *of == origin) {
        let made: Vec<u64> =
            history.iter().filter(|entry| entry.request_id == *request_id).map(|entry| entry.revision).collect();
        if made != [*revision] {
            return Err(format!("P5: the edit {request_id} was acknowledged in {revision} and is in {made:?}"));
        }
    }
    match space == STRICT_SPACE && state.restores == 0 {
        true => actors::STRICT.iter().try_for_each(|region| check_strict(&state.ledger, region, &table)),
        // A restore leaves a gap.
        false => Ok(()),
    }
}

/// The whole table of a space.
pub(crate) async fn table(regions: &impl Regions, space: &str) -> Result<Table, String> {
    let watch = WatchTableRequest { parent: format!("spaces/{space}"), after_revision: 0 };
    let stream = regions.watch_table(Request::new(watch)).await.map_err(|status| status.to_string())?.into_inner();
    let mut stream = pin!(stream);
    let mut parts = Vec::new();
    while let Some(Ok(message)) = stream.next().await {
        let Some(Event::Snapshot(part)) = message.event else { break };
        let last = part.last;
        parts.push(part);
        if last {
            break;
        }
    }
    table_of(parts).map_err(|bad| bad.to_string())
}

async fn history(regions: &impl Regions, parent: &str) -> Result<Vec<HistoryEntry>, String> {
    let (mut entries, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListHistoryRequest { parent: parent.to_owned(), page_size: 1000, page_token };
        let page = regions.list_history(Request::new(request)).await.map_err(|status| status.to_string())?.into_inner();
        entries.extend(page.entries);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            entries.reverse();
            return Ok(entries);
        }
    }
}

/// The history makes the table out of nothing, without a gap, each edit where the one before left off.
fn check_history(table: &Table, history: Vec<HistoryEntry>) -> Result<(), String> {
    let mut copy = Table::new(table.bits().into()).map_err(|bad| bad.to_string())?;
    for entry in history {
        let revision = entry.revision;
        if entry.principal.starts_with("kentd ") && revision > copy.revision().0 {
            // A restore or a move leaps over revisions that a lost table may have had.
            let regions: Vec<Region> = copy.iter().cloned().collect();
            copy = Table::restore(copy.bits(), Revision(revision - 1), copy.next_number(), regions)
                .map_err(|damage| damage.to_string())?;
        }
        apply_change(&mut copy, entry).map_err(|bad| format!("P5: revision {revision} of the history: {bad}"))?;
    }
    let places = |table: &Table| {
        let place = |region: &kent_regions::Region| kent_regions::Region {
            issued: kent_regions::Count::ZERO,
            ..region.clone()
        };
        table.iter().map(place).collect::<Vec<_>>()
    };
    match copy.revision() == table.revision() && places(&copy) == places(table) {
        true => table.check().map_err(|damage| damage.to_string()),
        false => Err("P5: the history does not make the table".to_owned()),
    }
}

/// A strict region has numbers without gaps: as many are issued as were asked for.
fn check_strict(ledger: &Ledger, region: &str, table: &Table) -> Result<(), String> {
    let region = table.named(region).map_err(|refusal| refusal.to_string())?;
    let mut grants: Vec<(u128, u64)> = ledger.strict(region.number).collect();
    grants.sort_unstable();
    let mut next = 0;
    for (first, count) in grants {
        if first != next {
            return Err(format!("a strict region went from {next} to {first}"));
        }
        next += u128::from(count);
    }
    match region.issued.get() == Some(next) {
        true => Ok(()),
        false => Err(format!("a strict region has issued {} and granted {next}", region.issued)),
    }
}

impl Run {
    /// Starts a daemon, as often as it takes.
    pub(crate) async fn start(&self, replica: usize) {
        let place = &self.replicas[replica];
        for _ in 0..100 {
            let link = Arc::new(Link::new(self.backend(), place.cut.clone()));
            let surroundings = Surroundings {
                store: Arc::new(kent_store::Bounded::new(link.clone(), Duration::from_secs(5))),
                clock: place.machine.clone(),
                entropy: Arc::new(self.dice.clone()),
            };
            if let Some(witness) = &self.witness {
                let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
                match kentd::attest(&surroundings, witness.path()).await {
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
            match Node::start(surroundings, &place.config).await {
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

    /// Whether stores are lost in this run, and so clocks are not wild.
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
    fn until_issued_again(&self) -> Duration {
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

    /// A number above all that were granted from a region, as long as it counts one by one.
    pub(crate) fn floor(&self, space: &str, bits: u8, region: &Region) -> Option<u128> {
        if region.kind == Kind::Closed || region.order != Order::Sequential {
            return None;
        }
        let base = region.prefix.base(bits);
        Some(self.lock().ledger.next_in(space, base, region.suffix) - base)
    }

    pub(crate) fn violation(&self, what: String) {
        self.lock().violations.push(what);
    }

    pub(crate) fn step(&self) {
        self.lock().steps += 1;
    }

    /// Takes note of a grant.
    pub(crate) fn granted(&self, grant: &super::ledger::Grant<'_>) {
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
            machine: Arc::new(chaos::machine(boot, dice, clocks)),
            cut: Arc::default(),
            config,
            up: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Life>>> {
        self.up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
