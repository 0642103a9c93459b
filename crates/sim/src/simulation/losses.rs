//! Lost stores: backups at any moment, the end of all daemons, and a restored store in the place of the lost one.
//!
//! Only the newest backup is restored, at times again and again, and the operators do what docs/restore.md asks of them: they know what
//! was edited since the backup, repeat it as far as that can be done, and unseal what is again as it was.

use std::{
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use clap::Parser;
use futures_util::StreamExt;
use kent_ids::{Source, UnixNanos};
use kent_proto::v1::{
    BackupRequest, CreateRegionRequest, ExpandRegionRequest, SealRegionRequest, UpdateRegionRequest,
    admin_server::Admin, backup_part::Part, region,
};
use kent_regions::{Count, Kind, Order, Region, Table};
use kent_store::{Key, MemoryStore, Store, StoreId, Txn, Versioned};
use kentd::{
    MigrateError, Migration, Node, Restore, RestoreArgs, RestoreError, StartError, Surroundings, WitnessError,
    clock::Clock,
};
use prost::Message;
use tokio::time;
use tonic::{Request, Status};

use super::{
    Mutant,
    actors::{self, TRIES, insist},
    chaos::Clocks,
    edits::What,
    link::{Backend, Link},
    places::{SPACES, STRICT_SPACE},
    run::{REPLICAS, Run, table},
};

/// A restore as an operator writes it.
#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: RestoreArgs,
}

/// What a daemon announced is forgotten by then.
const FORGOTTEN: Duration = Duration::from_secs(80);

/// Loses the store some times, and restores or moves it.
pub(crate) async fn losses(run: Arc<Run>) {
    let mut backup = None;
    for number in 0..run.dice.between(1, 3) {
        time::sleep(run.dice.millis(3000, 20_000)).await;
        // Operators who edit nothing from here on may say --table-unchanged.
        run.rest_from_edits(run.dice.per_mille(400)).await;
        if backup.is_none() || run.dice.per_mille(700) {
            backup = take_backup(&run).await.or(backup);
        }
        let copy = copy(&run).await;
        time::sleep(run.dice.millis(0, 20_000)).await;
        if let Some(copy) = copy {
            put_back(&run, copy).await;
        }
        match &backup {
            Some(backup) if run.dice.per_mille(800) => restore(&run, backup, number).await,
            _ => migrate(&run).await,
        }
        run.rest_from_edits(false).await;
    }
    time::sleep(run.dice.millis(3000, 15_000)).await;
}

/// Asks any of the daemons for a backup.
async fn take_backup(run: &Run) -> Option<Vec<u8>> {
    for _ in 0..TRIES {
        let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
        if let Some(life) = run.life(replica)
            && let Ok(backup) = receive(&life.node.admin()).await
        {
            run.faults.backups.count();
            return Some(backup);
        }
        time::sleep(run.dice.millis(50, 500)).await;
    }
    None
}

/// A copy of the store, as a snapshot of its disk would be, and how many starts had begun when it was made.
async fn copy(run: &Run) -> Option<(MemoryStore, u64)> {
    let (memory, begun) = (run.backend().memory.reopen(), run.begun());
    let copy = MemoryStore::new(memory.store_id());
    for records in memory.scan(&Key::ROOT).await.ok()?.chunks(50) {
        let put = |txn: Txn, (key, versioned): &(Key, Versioned)| txn.put(key.clone(), versioned.value.clone());
        copy.commit(records.iter().fold(Txn::new(), put)).await.ok()?;
    }
    Some((copy, begun))
}

/// The copy takes the place of the store, and a daemon is started on it: the witness has seen a later start.
async fn put_back(run: &Run, (copy, begun): (MemoryStore, u64)) {
    let Some(witness) = &run.witness else { return };
    if run.attested() <= begun || copy.store_id() != run.backend().memory.store_id() {
        return;
    }
    let (clock, entropy) = (run.any_machine(), Arc::new(run.dice.clone()));
    let surroundings = Surroundings { store: Arc::new(copy), clock, entropy };
    match kentd::attest(&surroundings, witness.path()).await {
        Err(StartError::Witness(WitnessError::OldCopy { .. })) => run.faults.copies.count(),
        attested => run.violation(format!("an old copy of the store is not noticed: {attested:?}")),
    }
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
async fn restore(run: &Arc<Run>, backup: &[u8], number: u64) {
    for replica in 0..REPLICAS {
        run.crash(replica).await;
    }
    // Answers that came from the lost daemons are taken note of, and nothing starts one.
    let alone = run.gate.write().await;
    for replica in 0..REPLICAS {
        run.crash(replica).await;
    }
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
    start_all(run).await;
    repair(run, &lost, number).await;
    if !waits_first {
        // Clients ask while nothing may be issued yet. What is left of the time passes without daemons, which costs nothing.
        drop(alone);
        time::sleep(run.dice.millis(1000, 5000)).await;
        let _alone = run.gate.write().await;
        for replica in 0..REPLICAS {
            run.crash(replica).await;
        }
        time::sleep(run.until_all_are_past(until)).await;
        start_all(run).await;
    }
}

async fn start_all(run: &Run) {
    for replica in 0..REPLICAS {
        run.start(replica).await;
    }
}

/// Makes the new store, as often as it takes, and says when it may be issued from.
async fn fill(run: &Run, backup: &[u8], lost: &[(&'static str, Table)]) -> Option<(Backend, UnixNanos)> {
    let host = run.any_machine();
    let unchanged = run.is_resting() && is_unchanged(run, backup, lost).await;
    let mut flags: Vec<String> = ["kentd restore", "kent.backup", "--data", "kent-new"].map(str::to_owned).to_vec();
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
        let plan = match Restore::plan_in_memory(&args, backup, now, &run.dice) {
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
            return Some((backend, until));
        }
    }
    run.violation("a restore does not come to an end".to_owned());
    None
}

/// Whether no table was edited since the backup, as its operators know.
async fn is_unchanged(run: &Run, backup: &[u8], lost: &[(&'static str, Table)]) -> bool {
    let Ok(line) = Line::try_parse_from(["kentd restore", "kent.backup", "--data", "kent-new", "--table-unchanged"])
    else {
        return false;
    };
    let Ok(plan) = Restore::plan_in_memory(&line.args, backup, run.any_machine().wall(), &run.dice) else {
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

/// Two regions that are the same part of their space.
fn is_as_it_was(before: &Region, now: &Region) -> bool {
    let place =
        |region: &Region| (region.prefix, region.zone, region.suffix, region.kind, region.sub_bits, region.order);
    place(before) == place(now)
}

/// Makes the restored tables what the lost ones were, as far as that can be done. What is as it was is unsealed; what is not stays
/// sealed for ever, and is not edited; what would be free now and was not then is made again.
async fn repair(run: &Run, lost: &[(&'static str, Table)], number: u64) {
    for (space, before) in lost {
        let Some(restored) = ask_table(run, space).await else {
            return run.violation(format!("the restored table of {space} cannot be read"));
        };
        for was in before.iter() {
            let id = |what: &str| format!("repair-{number}-{}-{}-{what}", run.restores(), was.number.0);
            match restored.get(was.number) {
                Some(now) if is_as_it_was(was, now) => unseal(run, space, was, now, id("unseal")).await,
                Some(now) if is_expanded(was, now) => {
                    let expand = ExpandRegionRequest {
                        name: name_of(space, &now.name),
                        by_bits: (was.suffix - now.suffix).into(),
                        request_id: id("expand"),
                        ..ExpandRegionRequest::default()
                    };
                    match insist(run, space, id("expand"), What::Expand(expand)).await {
                        true => unseal(run, space, was, now, id("unseal")).await,
                        false => run.suspect(space, &now.name),
                    }
                }
                Some(now) => run.suspect(space, &now.name),
                None => remake(run, space, before, &restored, was, id("create")).await,
            }
        }
    }
}

fn is_expanded(was: &Region, now: &Region) -> bool {
    let is_alike =
        was.prefix == now.prefix && was.order == now.order && was.kind == Kind::Open && now.kind == Kind::Open;
    is_alike && was.suffix > now.suffix
}

/// A region that the backup does not know is made anew where it was, unless something else stands there.
async fn remake(run: &Run, space: &'static str, before: &Table, restored: &Table, was: &Region, request_id: String) {
    let covers = |now: &Region| now.kind == Kind::Open && was.prefix.starts_with(now.prefix);
    if restored.iter().any(covers) {
        return;
    }
    if let Some(parent) = was.parent {
        // Its place is kept free.
        if let Some(parent) = restored.get(parent) {
            run.suspect(space, &parent.name);
        }
        return;
    }
    let (bits, is_open) = (before.bits(), was.kind == Kind::Open);
    let order = match was.order {
        // Its subregions are not made again, so nothing may be issued there.
        _ if !is_open => region::Order::External,
        Order::Sequential => region::Order::Sequential,
        Order::Scrambled => region::Order::Scrambled,
        Order::External => region::Order::External,
    };
    let floor = (order == region::Order::Sequential).then(|| run.floor(space, bits, was)).flatten();
    let create = CreateRegionRequest {
        parent: format!("spaces/{space}"),
        region_id: was.name.clone(),
        suffix_bits: if is_open { was.suffix.into() } else { u32::from(bits - was.prefix.len()) },
        prefix: Some(was.prefix.to_string()),
        order: order.into(),
        pace: was.pace.get(),
        request_id: request_id.clone(),
        ..CreateRegionRequest::default()
    };
    let name = name_of(space, &was.name);
    let floor_id = format!("{request_id}-floor");
    if insist(run, space, request_id, What::Create(create)).await {
        run.places.add(space, &was.name);
        if let Some(floor) = floor.filter(|_| is_open) {
            let next = Some(floor.into());
            let update =
                UpdateRegionRequest { name, next, request_id: floor_id.clone(), ..UpdateRegionRequest::default() };
            insist(run, space, floor_id, What::Update(update)).await;
        }
    } else {
        // Its place may not become another region's.
        run.violation(format!("{} of {space} cannot be made again", was.name));
    }
}

async fn unseal(run: &Run, space: &'static str, was: &Region, now: &Region, request_id: String) {
    if was.sealed || !now.sealed {
        return;
    }
    let name = name_of(space, &now.name);
    let unseal = SealRegionRequest { name, request_id: request_id.clone(), ..SealRegionRequest::default() };
    insist(run, space, request_id, What::Unseal(unseal)).await;
}

fn name_of(space: &str, region: &str) -> String {
    format!("spaces/{space}/regions/{region}")
}

async fn ask_table(run: &Run, space: &str) -> Option<Table> {
    for _ in 0..TRIES {
        if let Some(life) = run.life(run.dice.between(0, REPLICAS as u64 - 1) as usize)
            && let Ok(table) = table(&life.node.regions(), space).await
        {
            return Some(table);
        }
        time::sleep(run.dice.millis(50, 500)).await;
    }
    None
}

/// All daemons end, and the store is moved into another one. That asks nothing of the clocks.
pub(crate) async fn migrate(run: &Arc<Run>) {
    for replica in 0..REPLICAS {
        run.crash(replica).await;
    }
    let _alone = run.gate.write().await;
    for replica in 0..REPLICAS {
        run.crash(replica).await;
    }
    time::sleep(FORGOTTEN).await;
    let old = run.backend();
    let new = old.with_store(MemoryStore::new(StoreId::new(run.dice.bytes())));
    let Some(until) = moved(run, &old, &new).await else {
        return run.violation("a move does not come to an end".to_owned());
    };
    run.faults.moves.count();
    if Node::start(surroundings(run, &old), run.config()).await.is_ok() {
        run.violation("a daemon starts on a store that was moved".to_owned());
    }
    run.replace_store(new, until);
    start_all(run).await;
}

/// Moves, as often as it takes, and says until when slots are reserved.
async fn moved(run: &Run, old: &Backend, new: &Backend) -> Option<UnixNanos> {
    let (host, mut until) = (run.any_machine(), UnixNanos::new(0));
    for _ in 0..TRIES {
        let link = |of: &Backend| Arc::new(Link::new(of.clone(), Arc::new(AtomicBool::new(false))));
        let limit = if run.dice.per_mille(300) { run.dice.millis(1, 300) } else { Duration::from_secs(1000) };
        let moving = async {
            let entropy = Arc::new(run.dice.clone());
            let plan = Migration::plan_between(link(old), link(new), "new".to_owned(), host.wall(), entropy).await?;
            until = until.max(plan.restore.reserved_until.nanos());
            plan.make(|_, _| {}).await
        };
        match time::timeout(limit, moving).await {
            Ok(Ok(())) => return Some(until),
            // The last step of an attempt that was broken off came through all the same.
            Ok(Err(MigrateError::NotEmpty { .. } | MigrateError::MovedBefore { .. })) => {
                return Node::start(surroundings(run, new), run.config()).await.is_ok().then_some(until);
            }
            Ok(Err(_)) | Err(_) => time::sleep(run.dice.millis(100, 2000)).await,
        }
    }
    None
}

/// A daemon's, on a store without faults.
fn surroundings(run: &Run, backend: &Backend) -> Surroundings {
    let store = Arc::new(backend.memory.reopen());
    Surroundings { store, clock: run.any_machine(), entropy: Arc::new(run.dice.clone()) }
}

/// The regions that are drawn from as fast as their pace allows, so that a restore has to skip all that it can.
pub(crate) const RUSHED: [&str; 2] = ["rushed", "rushed-scrambled"];

/// Takes from them whatever their pace allows, until the end.
pub(crate) async fn rush(run: Arc<Run>) {
    while !run.is_ending() {
        run.step();
        for region in RUSHED {
            let (source, mut count) = (format!("region:{region}@{STRICT_SPACE}"), 512);
            while count > 0 {
                let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
                let asked = actors::ask(&run, replica, &source, STRICT_SPACE, count, "").await;
                if asked.is_err() {
                    count /= 4;
                }
            }
        }
        time::sleep(run.dice.millis(100, 3000)).await;
    }
}
