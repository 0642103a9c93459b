//! Restores from a backup. The restore skips identifiers that may have been issued since the backup, and operators
//! repeat lost edits.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use clap::Parser;
use futures_util::StreamExt;
use kent_ids::UnixNanos;
use kent_proto::v1::{BackupRequest, admin_server::Admin, backup_part::Part};
use kent_regions::{Count, Kind, Order, Rare, Region, Table};
use kent_store::{MemoryStore, StoreId};
use kentd::{Environment, Node, Restore, RestoreArgs, RestoreError, Skip, clock::Clock};
use prost::Message;
use tempfile::TempDir;
use tokio::time;
use tonic::{Request, Status};

use super::{
    super::{
        checks::{self, Tables},
        clocks::Clocks,
        link::{Backend, Link},
        mutant::Mutant,
        places::{STRICT, STRICT_SPACE},
        run::{ARCHIVED, REPLICAS, Run, TRIES},
        world::Dice,
    },
    line::Line,
    repair::repair,
};

/// The source of a restore.
#[derive(Debug)]
pub(super) struct Backup {
    source: Source,
    /// Regions that got a floor from an operator, by space and number. The next restore must also set a floor for them.
    floored: BTreeSet<(String, u64)>,
}

#[derive(Debug)]
enum Source {
    /// The output of `kent backup`.
    File(Vec<u8>),
    /// The files of a store that was restored from its archive, and the path of the archive among them.
    Archive { files: TempDir, own: PathBuf },
}

impl Backup {
    fn file(bytes: Vec<u8>) -> Self {
        Self { source: Source::File(bytes), floored: BTreeSet::new() }
    }

    pub(super) fn archive(files: TempDir, own: PathBuf) -> Self {
        Self { source: Source::Archive { files, own }, floored: BTreeSet::new() }
    }

    /// Returns the first arguments of the restore command.
    fn line(&self) -> Vec<String> {
        let source = match &self.source {
            Source::File(_) => PathBuf::from("kent.backup"),
            Source::Archive { files, own } => files.path().join(own),
        };
        ["kentd restore", &source.to_string_lossy(), "--data", "kent-new"].map(str::to_owned).to_vec()
    }

    async fn plan(&self, args: &RestoreArgs, now: UnixNanos, dice: &Dice) -> Result<Restore, RestoreError> {
        match &self.source {
            Source::File(bytes) => Restore::plan_in_memory(args, bytes, now, dice),
            Source::Archive { .. } => Restore::plan_at(args, now, dice).await,
        }
    }
}

/// Takes a backup from a random daemon.
pub(super) async fn take_backup(run: &Run) -> Option<Backup> {
    for _ in 0..TRIES {
        let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
        if let Some(life) = run.life(replica)
            && let Ok(backup) = receive(&life.node.admin()).await
        {
            run.faults.backups.count();
            return Some(Backup::file(backup));
        }
        time::sleep(run.dice.millis(50, 500)).await;
    }
    None
}

/// Returns the output of `kent backup`. Fails if the backup has no time. This happens while the daemon distrusts its
/// clock, for example before it has its first slot. After a restore from such a backup, every counter needs a floor.
async fn receive(admin: &impl Admin) -> Result<Vec<u8>, Status> {
    let mut parts = pin!(admin.backup(Request::new(BackupRequest {})).await?.into_inner());
    let mut bytes = Vec::new();
    while let Some(part) = parts.next().await {
        let part = part?;
        if let Some(Part::Begin(begin)) = &part.part
            && begin.unix_nanos == 0
        {
            return Err(Status::unavailable("a backup without a time"));
        }
        bytes.extend(part.encode_length_delimited_to_vec());
    }
    Ok(bytes)
}

/// Stops all daemons, discards the store, and creates a new store from the backup.
pub(super) async fn restore(run: &Arc<Run>, backup: &mut Backup, number: u64) {
    run.crash_all().await;
    // Wait until all responses of lost daemons are recorded, and keep faults from starting a daemon.
    let exclusive = run.gate.write().await;
    run.crash_all().await;
    let Ok(lost) = tables(run).await else {
        return run.violation("cannot read the tables of the lost store".to_owned());
    };
    let Some(Restored { backend, until, skips }) = fill(run, backup, &lost).await else { return };
    run.faults.restores.count();
    run.replace_store(backend, until);
    run.lose();
    record_strict(run, &skips, &lost);
    let wait = run.until_all_are_past(until);
    let waits_first = run.dice.per_mille(500);
    if waits_first {
        time::sleep(wait).await;
    }
    run.start_all().await;
    // Operators who pass --table-unchanged repeat no edits.
    if run.backend().mutant != Some(Mutant::TableUnchanged) {
        repair(run, &lost, &backup.floored, number).await;
    }
    if !waits_first {
        // Clients send requests while nothing may be issued yet. Most of the waiting time passes without daemons,
        // because that is cheap to simulate.
        drop(exclusive);
        time::sleep(run.dice.millis(1000, 5000)).await;
        let _exclusive = run.gate.write().await;
        run.crash_all().await;
        time::sleep(run.until_all_are_past(until)).await;
        run.start_all().await;
    }
}

/// Records the numbers at which strict regions continue.
fn record_strict(run: &Run, skips: &[Skip], lost: &Tables) {
    let Some((_, table)) = lost.iter().find(|(space, _)| space == STRICT_SPACE) else { return };
    for region in STRICT.iter().filter_map(|name| table.named(name).ok()) {
        let source =
            kent_ids::Source::Region { name: region.name.to_string(), space: STRICT_SPACE.to_owned() }.to_string();
        match skips.iter().find(|skip| skip.source == source).map(|skip| (skip.from.get(), skip.to)) {
            Some((Some(from), to)) => {
                run.with_ledger(|ledger| ledger.skip(region.number, from, to.and_then(Count::get)));
            }
            skip => run.violation(format!("unexpected skip of {source}: {skip:?}")),
        }
    }
}

/// The result of a restore.
struct Restored {
    backend: Backend,
    /// The time from which the store may issue identifiers.
    until: UnixNanos,
    skips: Vec<Skip>,
}

/// Creates the new store, with retries.
async fn fill(run: &Run, backup: &mut Backup, lost: &Tables) -> Option<Restored> {
    let host = run.any_machine();
    let Some(known) = known(run, backup).await else {
        run.violation("cannot read the tables of the backup".to_owned());
        return None;
    };
    let mut flags = backup.line();
    let mutant = run.backend().mutant;
    if run.edits_are_paused() && is_unchanged(&known, lost) || mutant == Some(Mutant::TableUnchanged) {
        flags.push("--table-unchanged".to_owned());
    }
    if mutant == Some(Mutant::ClockError) {
        flags.extend(["--clock-error".to_owned(), "0s".to_owned()]);
    } else if run.clocks == Clocks::Synchronized {
        flags.extend(["--clock-error".to_owned(), "1s".to_owned()]);
    }
    for floor in floors(run, backup, &known, lost) {
        flags.push(format!("--floor={}={}", floor.source, floor.next));
        backup.floored.insert(floor.region);
    }
    let mut adds_floors = run.dice.per_mille(300);
    for _ in 0..TRIES {
        let args = match Line::try_parse_from(&flags) {
            Ok(line) => line.args,
            Err(error) => {
                run.violation(format!("restore: {error}"));
                return None;
            }
        };
        let now = host.wall();
        let plan = match backup.plan(&args, now, &run.dice).await {
            Ok(plan) => plan,
            // This mutant restores with `--clock-error 0s`, which rejects a host clock that is slightly behind the
            // recorded times. Wait until it has caught up.
            Err(RestoreError::ClockBehind { .. }) if mutant == Some(Mutant::ClockError) => {
                time::sleep(Duration::from_secs(60)).await;
                continue;
            }
            // The backup counts the rest of a daemon's chunk as reserved, so a counter can be above all numbers in use.
            Err(RestoreError::FloorTooLow { floor, stands }) => {
                flags.push(format!("--floor={}={stands}", floor.source));
                continue;
            }
            Err(error) => {
                run.violation(format!("restore: {error}"));
                return None;
            }
        };
        if std::mem::take(&mut adds_floors) {
            let unsure: BTreeSet<&str> =
                plan.skips.iter().filter(|skip| skip.to.is_none()).map(|skip| &*skip.source).collect();
            let known = pairs(run, &known, lost).map(|pair| pair.floor(run));
            let known = known.flatten().filter(|floor| unsure.contains(&*floor.source));
            for floor in known.filter(|floor| floor.next <= floor.capacity) {
                flags.push(format!("--floor={}={}", floor.source, floor.next));
            }
            continue;
        }
        let (until, skips) = (plan.reserved_until.nanos(), plan.skips.clone());
        let id = StoreId::new(run.dice.bytes());
        let backend = run.backend().with_store(MemoryStore::new(id));
        let link = Link::new(backend.clone(), Arc::new(AtomicBool::new(false)));
        // Some attempts are interrupted and then repeated with another directory.
        let limit = if run.dice.per_mille(200) { run.dice.millis(1, 200) } else { Duration::from_secs(1000) };
        if let Ok(Ok(())) = time::timeout(limit, plan.write_to(&link, &args, &run.dice)).await {
            // A new archive begins with the restored contents.
            return Some(Restored { backend: backend.archived(ARCHIVED).await.ok()?, until, skips });
        }
    }
    run.violation("a restore does not finish".to_owned());
    None
}

/// A region in the backup and in the lost store.
struct Pair<'t> {
    /// The name of the space in the backup.
    space: &'t str,
    origin: String,
    bits: u8,
    backup: &'t Region,
    lost: &'t Region,
}

/// A floor that an operator may set.
struct Floor {
    source: String,
    region: (String, u64),
    next: u128,
    /// The capacity of the region in the backup.
    capacity: u128,
}

fn pairs<'t>(run: &'t Run, known: &'t Tables, lost: &'t Tables) -> impl Iterator<Item = Pair<'t>> {
    known.iter().flat_map(|(space, table)| {
        let origin = run.places.origin(space);
        let after = lost.iter().find(|(of, _)| run.places.origin(of) == origin);
        let both = move |backup: &'t Region| Some((backup, after?.1.get(backup.number)?));
        let pair = move |(backup, lost)| Pair { space, origin: origin.clone(), bits: table.bits(), backup, lost };
        table.iter().filter_map(both).map(pair)
    })
}

impl Pair<'_> {
    /// Returns a floor above all numbers in use. For a delegated region the floor is 0, because it has issued nothing
    /// itself.
    fn floor(&self, run: &Run) -> Option<Floor> {
        if self.backup.kind == Kind::Closed || self.backup.delegated || self.backup.order == Order::External {
            return None;
        }
        let next = if self.lost.delegated { 0 } else { run.floor(self.space, self.bits, self.lost)? };
        let source = kent_ids::Source::Region { name: self.backup.name.to_string(), space: self.space.to_owned() };
        let region = (self.origin.clone(), self.backup.number.0);
        Some(Floor { source: source.to_string(), region, next, capacity: 1 << self.backup.suffix })
    }
}

/// Returns the floors that operators must set. Regions that were shrunk or delegated need a floor so that the edit can
/// be repeated, and regions that got a floor before need a floor again.
fn floors(run: &Run, backup: &Backup, known: &Tables, lost: &Tables) -> Vec<Floor> {
    let is_shrunk = |pair: &Pair<'_>| pair.lost.kind == Kind::Open && pair.lost.suffix < pair.backup.suffix;
    let needs = |pair: &Pair<'_>| {
        let named = backup.floored.contains(&(pair.origin.clone(), pair.backup.number.0));
        named || is_shrunk(pair) || pair.lost.delegated
    };
    let floors = pairs(run, known, lost).filter(needs).filter_map(|pair| pair.floor(run));
    // A region expanded since the backup may have issued more suffixes than its capacity in the backup. The restored
    // region is then full until it is expanded again.
    floors.map(|floor| Floor { next: floor.next.min(floor.capacity), ..floor }).collect()
}

/// Returns the tables of a backup.
async fn known(run: &Run, backup: &Backup) -> Option<Tables> {
    let mut flags = backup.line();
    flags.push("--table-unchanged".to_owned());
    // The host clock may be far behind the time of the backup.
    flags.extend(["--clock-error".to_owned(), "1d".to_owned()]);
    let args = Line::try_parse_from(flags).ok()?.args;
    let plan = backup.plan(&args, run.any_machine().wall(), &run.dice).await.ok()?;
    let memory = MemoryStore::new(StoreId::new([0; 16]));
    plan.write_to(&memory, &args, &run.dice).await.ok()?;
    tables_of(run, memory).await.ok()
}

/// Returns whether no table has been edited since the backup.
fn is_unchanged(known: &Tables, lost: &Tables) -> bool {
    let regions = |table: &Table| {
        table.iter().map(|region| Region { issued: Rare::default(), ..region.clone() }).collect::<Vec<_>>()
    };
    let is_same = |((known, before), (lost, after)): (&(String, Table), &(String, Table))| {
        known == lost && regions(before) == regions(after)
    };
    known.len() == lost.len() && known.iter().zip(lost).all(is_same)
}

/// Returns the tables of the lost store, which the operators know.
async fn tables(run: &Run) -> Result<Tables, String> {
    tables_of(run, run.backend().memory.reopen()).await
}

/// Returns the tables of a store, read without issuing from it.
async fn tables_of(run: &Run, memory: MemoryStore) -> Result<Tables, String> {
    let environment =
        Environment { store: Arc::new(memory), clock: run.any_machine(), entropy: Arc::new(run.dice.clone()) };
    let node = Node::start(environment, run.config()).await.map_err(|error| error.to_string())?;
    let tables = checks::tables(&node.regions()).await;
    node.abandon().await;
    tables
}
