//! The actors of a run: clients that request identifiers, an auditor that seals a region, and operators that edit
//! tables.

use std::{sync::Arc, time::Duration};

use kent_ids::{Block, UnixNanos};
use kent_proto::v1::{
    AcceptClockRequest, AddSubregionsRequest, AllocateRequest, AllocateResponse, CreateRegionRequest,
    CreateSpaceRequest, EditResponse, Encoding, GetRegionRequest, GetStatusRequest, NewRegion, Policy,
    SealRegionRequest, UndoEditRequest, UpdateRegionRequest, admin_server::Admin, allocate_response::Identifiers,
    allocator_server::Allocator, region::Order, regions_server::Regions,
};
use kentd::clock::Clock;
use tokio::time::{self, Instant};
use tonic::{Code, Request, Response, Status};

use super::{
    edits::{Edit, EditKind, is_unknown, send_until_answered},
    ledger::Grant,
    places::{Place, Places, RUSHED, SPACES, STRICT, STRICT_SPACE},
    run::{Life, REPLICAS, Run},
};

/// The name and number of the region that the auditor seals repeatedly. It is the first region created.
const AUDITED: &str = "audited";
const AUDITED_NUMBER: u64 = 1;
/// The subregions of the audited region, whose seal also covers them. The second subregion is strict. Runs that lose
/// stores do not create these subregions, because a repair does not repeat subdivisions.
const COVERED: [&str; 2] = ["covered", "covered-strict"];

const TIME_SOURCES: [&str; 7] =
    ["uuidv7", "uuidv6", "uuidv1", "xid", "uuidv8-draft01-32", "uuidv7-draft01-ms", "uid11-snowish"];
const SERIES: [&str; 2] = ["uid11-fullrand", "serial:AB"];

/// Creates the narrow space and the regions of this run: the audited one, the strict ones, and those that are covered or,
/// if stores are lost, rushed.
pub(crate) async fn prepare(run: &Arc<Run>) {
    let space = CreateSpaceRequest { space_id: SPACES[1].to_owned(), bits: 12, ..CreateSpaceRequest::default() };
    retry(async || created(life(run, 0)?.node.regions().create_space(Request::new(space.clone())).await)).await;
    for region in [AUDITED, STRICT[0], STRICT[1]] {
        let create = CreateRegionRequest {
            parent: format!("spaces/{STRICT_SPACE}"),
            region_id: region.to_owned(),
            suffix_bits: Some(40),
            request_id: format!("make {region}"),
            ..CreateRegionRequest::default()
        };
        retry(async || created(life(run, 0)?.node.regions().create_region(Request::new(create.clone())).await)).await;
    }
    if !run.loses_stores() {
        let divide = AddSubregionsRequest {
            name: format!("spaces/{STRICT_SPACE}/regions/{AUDITED}"),
            by_bits: 2,
            new_regions: COVERED.into_iter().zip(["01", "10"]).map(covered).collect(),
            request_id: "divide".to_owned(),
            ..AddSubregionsRequest::default()
        };
        retry(async || created(life(run, 0)?.node.regions().add_subregions(Request::new(divide.clone())).await)).await;
    }
    for region in if run.loses_stores() { &RUSHED[..] } else { &[] } {
        let order = if *region == RUSHED[0] { Order::Sequential } else { Order::Scrambled };
        let create = CreateRegionRequest {
            parent: format!("spaces/{STRICT_SPACE}"),
            region_id: (*region).to_owned(),
            suffix_bits: Some(40),
            order: order.into(),
            pace: 1,
            request_id: format!("make {region}"),
            ..CreateRegionRequest::default()
        };
        retry(async || created(life(run, 0)?.node.regions().create_region(Request::new(create.clone())).await)).await;
    }
    for region in STRICT {
        let update = UpdateRegionRequest {
            name: format!("spaces/{STRICT_SPACE}/regions/{region}"),
            policy: Some(Policy { strict: true, ..Policy::default() }),
            request_id: format!("strict {region}"),
            ..UpdateRegionRequest::default()
        };
        retry(async || created(life(run, 0)?.node.regions().update_region(Request::new(update.clone())).await)).await;
    }
}

fn covered((name, extension): (&str, &str)) -> NewRegion {
    NewRegion {
        region_id: name.to_owned(),
        suffix_bits: Some(30),
        extension: Some(extension.to_owned()),
        policy: (name == COVERED[1]).then(|| Policy { strict: true, ..Policy::default() }),
        ..NewRegion::default()
    }
}

fn life(run: &Run, replica: usize) -> Result<Arc<Life>, Status> {
    run.life(replica).ok_or_else(|| Status::unavailable("down"))
}

/// Returns success if the object was created now or already exists.
fn created<T>(answer: Result<Response<T>, Status>) -> Result<(), Status> {
    match answer {
        Err(status) if status.code() != Code::AlreadyExists => Err(status),
        _ => Ok(()),
    }
}

async fn retry(mut act: impl AsyncFnMut() -> Result<(), Status>) {
    while act().await.is_err() {
        time::sleep(Duration::from_millis(200)).await;
    }
}

/// Seals and unseals the audited region until the run ends.
pub(crate) async fn auditor(run: Arc<Run>) {
    let name = format!("spaces/{STRICT_SPACE}/regions/{AUDITED}");
    let mut number = 0;
    while !run.is_ending() {
        run.step();
        number += 1;
        for seals in [true, false] {
            let seal = SealRegionRequest {
                name: name.clone(),
                request_id: format!("audit-{number}-{seals}"),
                ..SealRegionRequest::default()
            };
            if !seals {
                run.unsealing(STRICT_SPACE, AUDITED_NUMBER);
            }
            loop {
                let gate = run.gate.read().await;
                let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
                let answer = match life(&run, replica) {
                    _ if run.edits_are_paused() => Err(Status::unavailable("edits are paused")),
                    Ok(life) if seals => life.node.regions().seal_region(Request::new(seal.clone())).await,
                    Ok(life) => life.node.regions().unseal_region(Request::new(seal.clone())).await,
                    Err(status) => Err(status),
                };
                match answer {
                    Ok(made) if seals => {
                        let within = Duration::from_millis(made.into_inner().effective_within_ms);
                        break run.sealed(STRICT_SPACE, AUDITED_NUMBER, Instant::now() + within);
                    }
                    Ok(_) => break run.unsealed(STRICT_SPACE, AUDITED_NUMBER),
                    Err(_) if run.is_ending() => return,
                    Err(_) => drop(gate),
                }
                time::sleep(run.dice.millis(10, 400)).await;
            }
            time::sleep(run.dice.millis(0, 6000)).await;
        }
    }
}

/// Requests identifiers from the audited region and its subregions on all daemons, until the run ends.
pub(crate) async fn audited(run: Arc<Run>) {
    let inside = if run.loses_stores() { &[][..] } else { &COVERED[..] };
    while !run.is_ending() {
        run.step();
        time::sleep(run.dice.millis(10, 200)).await;
        for replica in 0..REPLICAS {
            let _gate = run.gate.read().await;
            let Ok(life) = life(&run, replica) else { continue };
            for region in inside.iter().chain([&AUDITED]) {
                let (source, sent) = (format!("region:{region}@{STRICT_SPACE}"), Instant::now());
                let call = allocate(&run, &life, replica, &source, STRICT_SPACE, 1, "");
                // OK because a refusal is a valid response.
                if let Ok(Ok(())) = time::timeout(SOON, call).await {
                    run.check_seal(STRICT_SPACE, AUDITED_NUMBER, sent);
                }
            }
        }
    }
}

/// The timeout of a grant from a chunk in memory.
const SOON: Duration = Duration::from_millis(100);

/// Requests identifiers until the run ends.
pub(crate) async fn client(run: Arc<Run>, number: u64) {
    let mut requests = 0;
    while !run.is_ending() {
        run.step();
        time::sleep(run.dice.millis(0, 300)).await;
        let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
        let (source, space) = source(&run);
        let count = run.dice.between(1, 12);
        if run.dice.per_mille(80) {
            requests += 1;
            // Requests to both regions use the same request ID.
            for region in STRICT {
                if run.dice.per_mille(600) {
                    strict(&run, region, format!("c{number}-{requests}"), count).await;
                }
            }
            continue;
        }
        let _gate = run.gate.read().await;
        let Ok(life) = life(&run, replica) else { continue };
        let call = allocate(&run, &life, replica, &source, &space, count, "");
        if run.dice.per_mille(50) {
            // The client cancels its call.
            if time::timeout(run.dice.millis(0, 20), call).await.is_err() {
                run.faults.gone.count();
            }
        } else {
            // OK because a refusal is a valid response.
            let _ = call.await;
        }
    }
}

/// Requests time-based identifiers of each format from all daemons, one request right after the other. Two daemons that
/// hold the same slot probably grant an identifier twice.
pub(crate) async fn use_slots(run: &Arc<Run>) {
    for source in TIME_SOURCES {
        for replica in 0..REPLICAS {
            // OK because a refusal is a valid response.
            let _ = request(run, replica, source, "", 1, "").await;
        }
    }
}

fn source(run: &Run) -> (String, String) {
    match (run.dice.between(0, 9), run.places.region(&run.dice, None)) {
        (0..5, Some(Place { space, region })) => (format!("region:{region}@{space}"), space),
        (5, _) => (run.dice.pick(&SERIES).copied().unwrap_or_default().to_owned(), String::new()),
        _ => (run.dice.pick(&TIME_SOURCES).copied().unwrap_or_default().to_owned(), String::new()),
    }
}

/// The number of refusals after which a request counts as never granted. Reaching it takes a few minutes, longer than
/// any fault lasts.
const REFUSALS_MAX: u32 = 2000;

/// Sends a strict request until it is granted, and sometimes repeats the granted request, possibly to another daemon.
async fn strict(run: &Arc<Run>, region: &str, request_id: String, count: u64) {
    let source = format!("region:{region}@{STRICT_SPACE}");
    let mut answers = if run.dice.per_mille(300) { 2 } else { 1 };
    let mut refused = 0;
    while answers > 0 {
        let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
        match request(run, replica, &source, STRICT_SPACE, count, &request_id).await {
            Ok(()) => answers -= 1,
            Err(status) if refused == REFUSALS_MAX => {
                run.violation(format!("{request_id} is never granted: {status}"));
                return;
            }
            Err(_) => {
                refused += 1;
                time::sleep(run.dice.millis(50, 400)).await;
            }
        }
    }
}

/// Requests identifiers from the daemon of a replica. Fails if the daemon is not running.
pub(crate) async fn request(
    run: &Arc<Run>,
    replica: usize,
    source: &str,
    space: &str,
    count: u64,
    request_id: &str,
) -> Result<(), Status> {
    let _gate = run.gate.read().await;
    allocate(run, &*life(run, replica)?, replica, source, space, count, request_id).await
}

/// Requests as many identifiers from the rushed regions as their pace allows, until the run ends.
pub(crate) async fn rush(run: Arc<Run>) {
    while !run.is_ending() {
        run.step();
        for region in RUSHED {
            let (source, mut count) = (format!("region:{region}@{STRICT_SPACE}"), 512);
            while count > 0 {
                let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
                if request(&run, replica, &source, STRICT_SPACE, count, "").await.is_err() {
                    count /= 4;
                }
            }
        }
        time::sleep(run.dice.millis(100, 3000)).await;
    }
}

/// Calls a daemon's allocator, and checks the response before simulated time advances.
async fn allocate(
    run: &Arc<Run>,
    life: &Life,
    replica: usize,
    source: &str,
    space: &str,
    count: u64,
    request_id: &str,
) -> Result<(), Status> {
    let message = AllocateRequest {
        source: source.to_owned(),
        count,
        encoding: Encoding::Lease.into(),
        request_id: request_id.to_owned(),
        ..AllocateRequest::default()
    };
    let sent = Instant::now();
    let answer: AllocateResponse = life.node.allocator().allocate(Request::new(message)).await?.into_inner();
    let Some(Identifiers::Lease(lease)) = answer.identifiers else {
        run.violation(format!("{source}: expected a lease"));
        return Ok(());
    };
    let block = match Block::try_from(lease) {
        Ok(block) => block,
        Err(error) => {
            run.violation(format!("{source}: {error}"));
            return Ok(());
        }
    };
    if let Some(region) = block.region_constants() {
        // A repeated request may return a grant from before the seal.
        if request_id.is_empty() {
            run.check_seal(space, region.number, sent);
        }
    }
    let status = life.node.admin().get_status(Request::new(GetStatusRequest {})).await?.into_inner();
    let quarantine = status.clock.and_then(|clock| clock.quarantine);
    let now = match quarantine {
        None => Some(run.replicas[replica].machine.wall()),
        Some(quarantine) => quarantine.instead_unix_nanos.map(|nanos| UnixNanos::new(nanos.into())),
    };
    let clock_epoch = answer.clock_epoch;
    let space = run.places.origin(space);
    run.granted(&Grant { source, space: &space, block: &block, clock_epoch, life: life.number, now, request_id });
    if block.count() != count {
        run.violation(format!("{source}: {count} requested, {} granted", block.count()));
    }
    Ok(())
}

/// Edits tables until the run ends. Only the first operator seals regions.
pub(crate) async fn operator(run: Arc<Run>, operator: u64) {
    let mut number = 0;
    while !run.is_ending() {
        run.step();
        number += 1;
        time::sleep(run.dice.millis(0, 1500)).await;
        let request_id = format!("o{operator}-{number}");
        let edit = Edit::choose(&run.dice, &run.places, request_id, operator == 0);
        let edit = if run.loses_stores() { repeatable(&run, edit) } else { Some(edit) };
        if let Some(edit) = edit {
            apply(&run, &edit).await;
        }
    }
}

/// Adapts an edit to a store that may be lost or was restored. Returns `None` while edits are paused, for an edit that
/// could not be repeated after a restore, and for an edit of a region that differs from its state in the lost store.
fn repeatable(run: &Run, mut edit: Edit) -> Option<Edit> {
    if run.edits_are_paused() || edit.region.as_ref().is_some_and(|region| run.is_suspect(&edit.space, region)) {
        return None;
    }
    let was_restored = run.restores() > 0;
    match &mut edit.what {
        EditKind::Update(update) if was_restored && update.next.is_some() => None,
        // Operators delete nothing, because a restore brings a deleted region back although its prefix may have been
        // reused.
        EditKind::Delete(_) | EditKind::Undelegate(_) | EditKind::Undo(_) => None,
        EditKind::Create(create) => {
            create.pace = run.dice.between(0, 4);
            if was_restored {
                // An automatic split could split a region that differs from its state in the lost store.
                create.auto_split = false;
            }
            Some(edit)
        }
        _ => Some(edit),
    }
}

/// Sends an edit to random daemons until one gives a definite answer.
async fn apply(run: &Run, edit: &Edit) {
    if let (EditKind::Rename(rename), Some(region)) = (&edit.what, &edit.region) {
        run.places.may_be_renamed(region, &rename.region_id);
    }
    let restores = run.restores();
    for _ in 0..20 {
        let gate = run.gate.read().await;
        // An edit chosen for the lost table may be wrong for the restored table.
        if run.restores() != restores
            || run.edits_are_paused()
            || edit.region.as_ref().is_some_and(|region| run.is_suspect(&edit.space, region))
        {
            return;
        }
        let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
        let Ok(life) = life(run, replica) else {
            drop(gate);
            time::sleep(Duration::from_millis(300)).await;
            continue;
        };
        let unsealed = match &edit.what {
            EditKind::Unseal(SealRegionRequest { name, .. }) | EditKind::Undo(UndoEditRequest { name, .. }) => {
                Some(name)
            }
            _ => None,
        };
        let mut unsealing = None;
        if let Some(name) = unsealed {
            // From now on, the region may grant again, even if the outcome of the edit stays unknown.
            let Some(number) = number_of(&life.node.regions(), name).await else {
                drop(gate);
                time::sleep(Duration::from_millis(300)).await;
                continue;
            };
            run.unsealing(&edit.space, number);
            unsealing = Some(number);
        }
        match edit.send(&life.node.regions()).await {
            Ok(made) => {
                if let Some(region) = &made.region {
                    let within = Duration::from_millis(made.effective_within_ms);
                    if matches!(edit.what, EditKind::Seal(_)) {
                        run.sealed(&edit.space, region.number, Instant::now() + within);
                    }
                }
                unsealing.iter().for_each(|number| run.unsealed(&edit.space, *number));
                // An edit that changed nothing is not in the history.
                if made.revision != made.base_revision {
                    run.edited(&edit.space, &edit.request_id, made.revision);
                }
                match &edit.what {
                    EditKind::Delete(_) => run.faults.deletions.count(),
                    EditKind::Undelegate(_) => run.faults.undelegations.count(),
                    EditKind::Undo(_) => {
                        run.faults.undone.count();
                        record_restored(&run.places, &edit.space, &made);
                    }
                    _ => {}
                }
                record_names(&run.places, edit);
                // Only the first operator seals regions, so only this operator reverts edits: a reversal could lift a
                // seal.
                if let EditKind::Delete(delete) = &edit.what
                    && edit.request_id.starts_with("o0-")
                    && run.dice.per_mille(400)
                {
                    let request_id = format!("{}-undo", edit.request_id);
                    let name = delete.name.clone();
                    let undo = UndoEditRequest { name, request_id: request_id.clone(), ..Default::default() };
                    if send_until_answered(run, &edit.space, request_id, EditKind::Undo(undo)).await {
                        run.faults.undone.count();
                        edit.region.iter().for_each(|region| run.places.add(&edit.space, region));
                    }
                }
                if let EditKind::Create(create) = &edit.what
                    && restores > 0
                    && run.dice.per_mille(700)
                {
                    let (name, request_id) = (
                        format!("spaces/{}/regions/{}", edit.space, create.region_id),
                        format!("{}-new", edit.request_id),
                    );
                    let next = Some(0.into());
                    let update =
                        UpdateRegionRequest { name, next, request_id: request_id.clone(), ..Default::default() };
                    send_until_answered(run, &edit.space, request_id, EditKind::Update(update)).await;
                }
                return;
            }
            Err(status) if is_unknown(status.code()) => {
                drop(gate);
                time::sleep(run.dice.millis(50, 800)).await;
            }
            Err(_) => return,
        }
    }
}

/// Records the names that regions have after an edit is reverted.
fn record_restored(places: &Places, space: &str, made: &EditResponse) {
    let regions = made.changes.iter().filter_map(|change| change.after.as_ref());
    let names = regions.filter_map(|region| region.name.rsplit_once('/'));
    names.for_each(|(_, name)| places.add(space, name));
}

/// Records the names that an edit has created.
fn record_names(places: &Places, edit: &Edit) {
    edit.made.iter().for_each(|region| places.add(&edit.space, region));
    match (&edit.what, &edit.region) {
        (EditKind::Delegate(_), Some(region)) => places.delegated(&edit.space, region),
        (EditKind::Delete(_), Some(region)) => places.deleted(&edit.space, region),
        (EditKind::Rename(rename), Some(region)) => places.renamed(&edit.space, region, &rename.region_id),
        _ => {}
    }
}

/// Returns the number of a region, which a rename does not change.
async fn number_of(regions: &impl Regions, name: &str) -> Option<u64> {
    let get = GetRegionRequest { name: name.to_owned(), ..GetRegionRequest::default() };
    Some(regions.get_region(Request::new(get)).await.ok()?.into_inner().number)
}

/// Accepts the clock of a daemon that started with a clock more than an hour (`--clock-jump`) ahead of all others.
/// Until its clock is accepted, the daemon issues no time-based identifiers. Reports a violation if the clock agrees
/// with another clock.
async fn accept_clock(run: &Run, replica: usize) -> Result<(), Status> {
    let admin = life(run, replica)?.node.admin();
    let status = admin.get_status(Request::new(GetStatusRequest {})).await?.into_inner();
    let Some(quarantine) = status.clock.and_then(|clock| clock.quarantine) else { return Ok(()) };
    if quarantine.instead_unix_nanos.is_some() {
        return Ok(());
    }
    let wall = |replica: usize| run.replicas[replica].machine.wall().get();
    let others = (0..REPLICAS).filter(|other| *other != replica).map(wall).max();
    if others.is_some_and(|latest| wall(replica) < latest + CLOCK_JUMP_NANOS) {
        run.violation("a daemon distrusts a clock that agrees with another clock".to_owned());
    }
    admin.accept_clock(Request::new(AcceptClockRequest {})).await.map(drop)
}

/// The default of `--clock-jump`, an hour, minus a margin for the drift of the clocks.
const CLOCK_JUMP_NANOS: i128 = (3600 - 10) * 1_000_000_000;

/// Checks that every daemon grants from formats, series and strict regions after faults have stopped.
pub(crate) async fn check_liveness(run: &Arc<Run>) {
    for replica in 0..REPLICAS {
        if let Err(status) = accept_clock(run, replica).await {
            run.violation(format!("a daemon does not report its status after faults have stopped: {status}"));
        }
        for source in ["uuidv7", "uuidv6", "xid", "uid11-fullrand", "serial:AB"] {
            let granted = match life(run, replica) {
                Ok(life) => allocate(run, &life, replica, source, "", 3, "").await,
                Err(status) => Err(status),
            };
            if let Err(status) = granted {
                run.violation(format!("{source} is not granted after faults have stopped: {status}"));
            }
        }
        for region in STRICT {
            strict(run, region, format!("calm-{replica}"), 2).await;
        }
    }
}
