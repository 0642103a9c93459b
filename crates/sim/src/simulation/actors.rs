//! Who acts in a run: clients that ask for identifiers, an auditor who seals, and operators who edit tables.

use std::{sync::Arc, time::Duration};

use kent_ids::{Block, UnixNanos};
use kent_proto::v1::{
    AcceptClockRequest, AllocateRequest, AllocateResponse, CreateRegionRequest, CreateSpaceRequest, Encoding,
    GetRegionRequest, GetStatusRequest, Policy, SealRegionRequest, UpdateRegionRequest, admin_server::Admin,
    allocate_response::Identifiers, allocator_server::Allocator, region::Order, regions_server::Regions,
};
use kentd::clock::Clock;
use tokio::time::{self, Instant};
use tonic::{Code, Request, Response, Status};

use super::{
    edits::{Edit, What},
    ledger::Grant,
    places::{Place, Places, RUSHED, SPACES, STRICT, STRICT_SPACE},
    run::{Life, REPLICAS, Run},
};

/// How often something is tried that faults may hinder.
pub(crate) const TRIES: usize = 50;

/// The region that is sealed again and again, and its number: it is made first.
const AUDITED: &str = "audited";
const AUDITED_NUMBER: u64 = 1;

const TIME_SOURCES: [&str; 7] =
    ["uuidv7", "uuidv6", "uuidv1", "xid", "uuidv8-draft01-32", "uuidv7-draft01-ms", "uid11-snowish"];
const SERIES: [&str; 2] = ["uid11-fullrand", "serial:AB"];

/// Makes what every run has: the narrow space, the region that is sealed, and the strict ones.
pub(crate) async fn prepare(run: &Arc<Run>) {
    let space = CreateSpaceRequest { space_id: SPACES[1].to_owned(), bits: 12, ..CreateSpaceRequest::default() };
    until(async || taken(life(run, 0)?.node.regions().create_space(Request::new(space.clone())).await)).await;
    for region in [AUDITED, STRICT[0], STRICT[1]] {
        let create = CreateRegionRequest {
            parent: format!("spaces/{STRICT_SPACE}"),
            region_id: region.to_owned(),
            suffix_bits: 40,
            request_id: format!("make {region}"),
            ..CreateRegionRequest::default()
        };
        until(async || taken(life(run, 0)?.node.regions().create_region(Request::new(create.clone())).await)).await;
    }
    for region in if run.loses_stores() { &RUSHED[..] } else { &[] } {
        let order = if *region == RUSHED[0] { Order::Sequential } else { Order::Scrambled };
        let create = CreateRegionRequest {
            parent: format!("spaces/{STRICT_SPACE}"),
            region_id: (*region).to_owned(),
            suffix_bits: 40,
            order: order.into(),
            pace: 1,
            request_id: format!("make {region}"),
            ..CreateRegionRequest::default()
        };
        until(async || taken(life(run, 0)?.node.regions().create_region(Request::new(create.clone())).await)).await;
    }
    for region in STRICT {
        let update = UpdateRegionRequest {
            name: format!("spaces/{STRICT_SPACE}/regions/{region}"),
            policy: Some(Policy { strict: true, ..Policy::default() }),
            request_id: format!("strict {region}"),
            ..UpdateRegionRequest::default()
        };
        until(async || taken(life(run, 0)?.node.regions().update_region(Request::new(update.clone())).await)).await;
    }
}

fn life(run: &Run, replica: usize) -> Result<Arc<Life>, Status> {
    run.life(replica).ok_or_else(|| Status::unavailable("down"))
}

/// Already there is as good as made.
fn taken<T>(answer: Result<Response<T>, Status>) -> Result<(), Status> {
    match answer {
        Err(status) if status.code() != Code::AlreadyExists => Err(status),
        _ => Ok(()),
    }
}

async fn until(mut act: impl AsyncFnMut() -> Result<(), Status>) {
    while act().await.is_err() {
        time::sleep(Duration::from_millis(200)).await;
    }
}

/// Seals a region and unseals it, until the end.
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
                let going_on = run.gate.read().await;
                let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
                let answer = match life(&run, replica) {
                    _ if run.is_resting() => Err(Status::unavailable("the operators rest")),
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
                    Err(_) => drop(going_on),
                }
                time::sleep(run.dice.millis(10, 400)).await;
            }
            time::sleep(run.dice.millis(0, 6000)).await;
        }
    }
}

/// Asks all daemons for the identifiers of the region that is sealed again and again.
pub(crate) async fn audited(run: Arc<Run>) {
    let source = format!("region:{AUDITED}@{STRICT_SPACE}");
    while !run.is_ending() {
        run.step();
        time::sleep(run.dice.millis(10, 200)).await;
        for replica in 0..REPLICAS {
            let _going_on = run.gate.read().await;
            let Ok(life) = life(&run, replica) else { continue };
            // A refusal is an answer.
            let _ = time::timeout(SOON, allocate(&run, &life, replica, &source, STRICT_SPACE, 1, "")).await;
        }
    }
}

/// What is in hand is granted at once.
const SOON: Duration = Duration::from_millis(100);

/// Asks for identifiers until the end.
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
            // Requests of both regions have the same identity.
            for region in STRICT {
                if run.dice.per_mille(600) {
                    strict(&run, region, format!("c{number}-{requests}"), count).await;
                }
            }
            continue;
        }
        let _going_on = run.gate.read().await;
        let Ok(life) = life(&run, replica) else { continue };
        let asked = allocate(&run, &life, replica, &source, &space, count, "");
        if run.dice.per_mille(50) {
            // The client goes away in the middle of its call.
            if time::timeout(run.dice.millis(0, 20), asked).await.is_err() {
                run.faults.gone.count();
            }
        } else {
            // A refusal is an answer.
            let _ = asked.await;
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

/// Whoever is refused so often, for some minutes after faults have stopped, is refused for ever.
const REFUSALS_MAX: u32 = 2000;

/// Asks a strict region, again and again until there is an answer, and at times once more, elsewhere.
async fn strict(run: &Arc<Run>, region: &str, request_id: String, count: u64) {
    let source = format!("region:{region}@{STRICT_SPACE}");
    let mut answers = if run.dice.per_mille(300) { 2 } else { 1 };
    let mut refused = 0;
    while answers > 0 {
        let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
        match ask(run, replica, &source, STRICT_SPACE, count, &request_id).await {
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

/// Asks the daemon of a replica, unless it is down.
pub(crate) async fn ask(
    run: &Arc<Run>,
    replica: usize,
    source: &str,
    space: &str,
    count: u64,
    request_id: &str,
) -> Result<(), Status> {
    let _going_on = run.gate.read().await;
    allocate(run, &*life(run, replica)?, replica, source, space, count, request_id).await
}

/// Takes from some regions whatever their pace allows, until the end.
pub(crate) async fn rush(run: Arc<Run>) {
    while !run.is_ending() {
        run.step();
        for region in RUSHED {
            let (source, mut count) = (format!("region:{region}@{STRICT_SPACE}"), 512);
            while count > 0 {
                let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
                let asked = ask(&run, replica, &source, STRICT_SPACE, count, "").await;
                if asked.is_err() {
                    count /= 4;
                }
            }
        }
        time::sleep(run.dice.millis(100, 3000)).await;
    }
}

/// One call of a daemon's allocator. What it answers is checked at once, before time goes on.
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
    };
    let asked = Instant::now();
    let answer: AllocateResponse = life.node.allocator().allocate(Request::new(message)).await?.into_inner();
    let Some(Identifiers::Lease(lease)) = answer.identifiers else {
        run.violation(format!("{source}: a lease was asked for"));
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
        // Not the answer to a request that was granted earlier.
        if request_id.is_empty() {
            run.check_seal(space, region.number, asked);
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
        run.violation(format!("{source}: {count} asked for, {} granted", block.count()));
    }
    Ok(())
}

/// Edits tables until the end. The first operator also seals, and nobody else what it seals.
pub(crate) async fn operator(run: Arc<Run>, operator: u64) {
    let mut number = 0;
    while !run.is_ending() {
        run.step();
        number += 1;
        time::sleep(run.dice.millis(0, 1500)).await;
        let request_id = format!("o{operator}-{number}");
        let edit = Edit::choose(&run.dice, &run.places, request_id, operator == 0);
        let edit = if run.loses_stores() { cautious(&run, edit) } else { Some(edit) };
        if let Some(edit) = edit {
            make(&run, &edit).await;
        }
    }
}

/// An edit as an operator makes it whose store may be lost, or was. What could not be repeated is not done; regions that are not what they
/// were are not touched; and what is new after a restore is said to be new.
fn cautious(run: &Run, mut edit: Edit) -> Option<Edit> {
    if run.is_resting() || edit.region.as_ref().is_some_and(|region| run.is_suspect(&edit.space, region)) {
        return None;
    }
    let was_restored = run.restores() > 0;
    match &mut edit.what {
        What::Update(update) if was_restored && update.next.is_some() => None,
        What::Create(create) => {
            create.pace = run.dice.between(0, 4);
            if was_restored {
                // A region that is not what it was must not be split.
                create.auto_split = false;
            }
            Some(edit)
        }
        _ => Some(edit),
    }
}

/// Asks for an edit, at one daemon after the other, until there is an answer.
async fn make(run: &Run, edit: &Edit) {
    if let (What::Rename(rename), Some(region)) = (&edit.what, &edit.region) {
        run.places.may_be_renamed(region, &rename.region_id);
    }
    let restores = run.restores();
    for _ in 0..20 {
        let going_on = run.gate.read().await;
        // What was decided for a table that is lost may be wrong for the restored one.
        if run.restores() != restores
            || run.is_resting()
            || edit.region.as_ref().is_some_and(|region| run.is_suspect(&edit.space, region))
        {
            return;
        }
        let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
        let Ok(life) = life(run, replica) else {
            drop(going_on);
            time::sleep(Duration::from_millis(300)).await;
            continue;
        };
        if let What::Unseal(unseal) = &edit.what {
            // Whatever becomes of it, the region may be granted from again.
            let Some(number) = number_of(&life.node.regions(), &unseal.name).await else {
                drop(going_on);
                time::sleep(Duration::from_millis(300)).await;
                continue;
            };
            run.unsealing(&edit.space, number);
        }
        match edit.ask(&life.node.regions()).await {
            Ok(made) => {
                if let Some(region) = &made.region {
                    let within = Duration::from_millis(made.effective_within_ms);
                    match &edit.what {
                        What::Seal(_) => run.sealed(&edit.space, region.number, Instant::now() + within),
                        What::Unseal(_) => run.unsealed(&edit.space, region.number),
                        _ => {}
                    }
                }
                run.edited(&edit.space, &edit.request_id, made.revision);
                take_note(&run.places, edit);
                if let What::Create(create) = &edit.what
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
                    insist(run, &edit.space, request_id, What::Update(update)).await;
                }
                return;
            }
            Err(status) if may_be_made_yet(status.code()) => {
                drop(going_on);
                time::sleep(run.dice.millis(50, 800)).await;
            }
            Err(_) => return,
        }
    }
}

/// Asks for an edit until there is an answer; false if it is refused.
pub(crate) async fn insist(run: &Run, space: &str, request_id: String, what: What) -> bool {
    let edit = Edit { space: space.to_owned(), request_id, region: None, made: Vec::new(), what };
    for _ in 0..TRIES {
        if let Some(life) = run.life(run.dice.between(0, REPLICAS as u64 - 1) as usize) {
            match edit.ask(&life.node.regions()).await {
                Ok(made) => {
                    run.edited(&edit.space, &edit.request_id, made.revision);
                    return true;
                }
                // A daemon may not have heard yet of what another one has made.
                Err(status) if may_be_made_yet(status.code()) || status.code() == Code::NotFound => {}
                Err(_) => return false,
            }
        }
        time::sleep(run.dice.millis(50, 500)).await;
    }
    false
}

/// Takes note of the names that an edit has made.
fn take_note(places: &Places, edit: &Edit) {
    edit.made.iter().for_each(|region| places.add(&edit.space, region));
    match (&edit.what, &edit.region) {
        (What::Delegate(_), Some(region)) => places.delegated(&edit.space, region),
        (What::Rename(rename), Some(region)) => places.renamed(&edit.space, region, &rename.region_id),
        _ => {}
    }
}

pub(crate) fn may_be_made_yet(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Unknown | Code::Aborted | Code::DeadlineExceeded | Code::Cancelled)
}

/// The number of a region, which stays when its name changes.
async fn number_of(regions: &impl Regions, name: &str) -> Option<u64> {
    let get = GetRegionRequest { name: name.to_owned() };
    Some(regions.get_region(Request::new(get)).await.ok()?.into_inner().number)
}

/// A daemon that has started with a clock more than an hour (`--clock-jump`) ahead of all others issues no time-based identifiers
/// until an operator says that the clock is right. No other daemon may need that.
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
        run.violation("a clock is not believed that another one agrees with".to_owned());
    }
    admin.accept_clock(Request::new(AcceptClockRequest {})).await.map(drop)
}

/// An hour, but for what others have been told of a clock that goes too fast or too slow.
const CLOCK_JUMP_NANOS: i128 = (3600 - 10) * 1_000_000_000;

/// Once faults have stopped, every daemon grants again: of time, of a series, of a region.
pub(crate) async fn check_liveness(run: &Arc<Run>) {
    for replica in 0..REPLICAS {
        if let Err(status) = accept_clock(run, replica).await {
            run.violation(format!("a daemon does not say how it fares after faults have stopped: {status}"));
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
