//! Restores from a backup: what was issued since is skipped, and operators repeat what was edited.

use std::{
    path::PathBuf,
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use clap::Parser;
use futures_util::StreamExt;
use kent_ids::{Source, UnixNanos};
use kent_proto::v1::{BackupRequest, admin_server::Admin, backup_part::Part};
use kent_regions::{Count, Region, Table};
use kent_store::{MemoryStore, StoreId};
use kentd::{Node, Restore, RestoreArgs, RestoreError, Surroundings, clock::Clock};
use prost::Message;
use tempfile::TempDir;
use tokio::time;
use tonic::{Request, Status};

use super::{
    super::{
        actors::TRIES,
        checks::table,
        clocks::Clocks,
        link::{Backend, Link},
        mutant::Mutant,
        places::SPACES,
        run::{ARCHIVED, REPLICAS, Run},
        world::Dice,
    },
    line::Line,
    repair::repair,
};

/// From what a store is restored.
#[derive(Debug)]
pub(super) enum Backup {
    /// What `kent backup` wrote.
    File(Vec<u8>),
    /// An archive that has gone over to another store, and its directory among the files.
    Archive { files: TempDir, own: PathBuf },
}

impl Backup {
    /// How a restore begins.
    fn line(&self) -> Vec<String> {
        let source = match self {
            Self::File(_) => PathBuf::from("kent.backup"),
            Self::Archive { files, own } => files.path().join(own),
        };
        ["kentd restore", &source.to_string_lossy(), "--data", "kent-new"].map(str::to_owned).to_vec()
    }

    async fn plan(&self, args: &RestoreArgs, now: UnixNanos, dice: &Dice) -> Result<Restore, RestoreError> {
        match self {
            Self::File(bytes) => Restore::plan_in_memory(args, bytes, now, dice),
            Self::Archive { .. } => Restore::plan_at(args, now, dice).await,
        }
    }
}

/// Asks any of the daemons for a backup.
pub(super) async fn take_backup(run: &Run) -> Option<Backup> {
    for _ in 0..TRIES {
        let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
        if let Some(life) = run.life(replica)
            && let Ok(backup) = receive(&life.node.admin()).await
        {
            run.faults.backups.count();
            return Some(Backup::File(backup));
        }
        time::sleep(run.dice.millis(50, 500)).await;
    }
    None
}

/// What `kent backup` writes to a file. A daemon that does not believe its clock, as before its first slot, makes a backup without a
/// time, of which a restore knows so little that no counter goes on without a floor: another daemon is asked then.
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

/// All daemons end, and what they stored is lost. A new store is made of the backup.
pub(super) async fn restore(run: &Arc<Run>, backup: &Backup, number: u64) {
    run.crash_all().await;
    // Answers that came from the lost daemons are taken note of, and nothing starts one.
    let alone = run.gate.write().await;
    run.crash_all().await;
    let Ok(lost) = tables(run).await else {
        return run.violation("the tables of the lost store cannot be read".to_owned());
    };
    let Some((backend, until)) = fill(run, backup, &lost).await else { return };
    run.faults.restores.count();
    run.replace_store(backend, until);
    run.lose();
    let wait = run.until_all_are_past(until);
    let waits_first = run.dice.per_mille(500);
    if waits_first {
        time::sleep(wait).await;
    }
    run.start_all().await;
    repair(run, &lost, number).await;
    if !waits_first {
        // Clients ask while nothing may be issued yet. What is left of the time passes without daemons, which costs nothing.
        drop(alone);
        time::sleep(run.dice.millis(1000, 5000)).await;
        let _alone = run.gate.write().await;
        run.crash_all().await;
        time::sleep(run.until_all_are_past(until)).await;
        run.start_all().await;
    }
}

/// Makes the new store, as often as it takes, and says when it may be issued from.
async fn fill(run: &Run, backup: &Backup, lost: &[(&'static str, Table)]) -> Option<(Backend, UnixNanos)> {
    let host = run.any_machine();
    let unchanged = run.is_resting() && is_unchanged(run, backup, lost).await;
    let mut flags = backup.line();
    let mutant = run.backend().mutant;
    if unchanged || mutant == Some(Mutant::TableUnchanged) {
        flags.push("--table-unchanged".to_owned());
    }
    if mutant == Some(Mutant::ClockError) {
        flags.extend(["--clock-error".to_owned(), "0s".to_owned()]);
    } else if run.clocks == Clocks::Synchronized {
        flags.extend(["--clock-error".to_owned(), "1s".to_owned()]);
    }
    let mut floors = run.dice.per_mille(300);
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
            // It was expanded since the backup: the operator names no floor then.
            Err(RestoreError::FloorTooHigh { .. }) => {
                flags.retain(|flag| !flag.starts_with("--floor"));
                continue;
            }
            // Where the clock is trusted, it is one that is behind what the backup says, and cannot be.
            Err(RestoreError::ClockBehind { .. }) if mutant == Some(Mutant::ClockError) => {
                time::sleep(Duration::from_secs(60)).await;
                continue;
            }
            Err(error) => {
                run.violation(format!("restore: {error}"));
                return None;
            }
        };
        if std::mem::take(&mut floors) {
            let unsure = plan.skips.iter().filter(|skip| skip.to.is_none());
            flags.extend(
                unsure.filter_map(|skip| floor_of(run, &skip.source, lost)).map(|floor| format!("--floor={floor}")),
            );
            continue;
        }
        let until = plan.reserved_until.nanos();
        let id = StoreId::new(run.dice.bytes());
        let backend = run.backend().with_store(MemoryStore::new(id));
        let link = Link::new(backend.clone(), Arc::new(AtomicBool::new(false)));
        // At times it is broken off, and begun anew in another directory.
        let limit = if run.dice.per_mille(200) { run.dice.millis(1, 200) } else { Duration::from_secs(1000) };
        if let Ok(Ok(())) = time::timeout(limit, plan.write_to(&link, &args, &run.dice)).await {
            // Where it is to be archived, that begins with what was restored.
            return Some((backend.archived(ARCHIVED).await.ok()?, until));
        }
    }
    run.violation("a restore does not come to an end".to_owned());
    None
}

/// Whether no table was edited since the backup, as its operators know.
async fn is_unchanged(run: &Run, backup: &Backup, lost: &[(&'static str, Table)]) -> bool {
    let mut flags = backup.line();
    flags.push("--table-unchanged".to_owned());
    let Ok(line) = Line::try_parse_from(flags) else { return false };
    let Ok(plan) = backup.plan(&line.args, run.any_machine().wall(), &run.dice).await else {
        return false;
    };
    let memory = MemoryStore::new(StoreId::new([0; 16]));
    if plan.write_to(&memory, &line.args, &run.dice).await.is_err() {
        return false;
    }
    let Ok(backed_up) = tables_of(run, memory).await else { return false };
    let regions =
        |table: &Table| table.iter().map(|region| Region { issued: Count::ZERO, ..region.clone() }).collect::<Vec<_>>();
    backed_up.iter().zip(lost).all(|((_, before), (_, after))| regions(before) == regions(after))
}

/// The tables of the store that is lost, which its operators remember.
async fn tables(run: &Run) -> Result<Vec<(&'static str, Table)>, String> {
    tables_of(run, run.backend().memory.reopen()).await
}

/// The tables in a store that nothing is issued from.
async fn tables_of(run: &Run, memory: MemoryStore) -> Result<Vec<(&'static str, Table)>, String> {
    let surroundings =
        Surroundings { store: Arc::new(memory), clock: run.any_machine(), entropy: Arc::new(run.dice.clone()) };
    let node = Node::start(surroundings, run.config()).await.map_err(|error| error.to_string())?;
    let mut tables = Vec::new();
    for space in SPACES {
        tables.push((space, table(&node.regions(), space).await?));
    }
    node.abandon().await;
    Ok(tables)
}

/// A floor for a region, as its operator knows it: above every identifier in use.
fn floor_of(run: &Run, source: &str, lost: &[(&'static str, Table)]) -> Option<String> {
    let Ok(Source::Region { name, space }) = source.parse() else { return None };
    let (_, table) = lost.iter().find(|(of, _)| *of == space)?;
    let floor = run.floor(&space, table.bits(), table.named(&name).ok()?)?;
    Some(format!("{source}={floor}"))
}

