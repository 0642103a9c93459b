//! Who acts in a run: clients that ask for identifiers, an operator who edits tables, and misfortune.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use kent_ids::{Block, UnixNanos};
use kent_proto::v1::{
    AddSubregionsRequest, AllocateRequest, AllocateResponse, CreateRegionRequest, CreateSpaceRequest, EditResponse,
    Encoding, ExpandRegionRequest, GetRegionRequest, GetStatusRequest, Newcomer, Policy, RenameRegionRequest,
    SealRegionRequest, ShrinkRegionRequest, SplitRegionRequest, UpdateRegionRequest, admin_server::Admin,
    allocate_response::Identifiers, allocator_server::Allocator, region::Order, regions_server::Regions,
};
use kentd::clock::Clock;
use tokio::time::{self, Instant};
use tonic::{Code, Request, Response, Status};

use super::{
    ledger::Grant,
    run::{Life, REPLICAS, Run},
};

/// The spaces of a run: a wide one, and one so narrow that regions fill up.
pub(crate) const SPACES: [&str; 2] = ["default", "narrow"];
/// The space with the strict region.
pub(crate) const STRICT_SPACE: &str = "default";
/// The strict region.
pub(crate) const STRICT: &str = "invoices";

/// The region that is sealed again and again, and its number: it is made second.
const AUDITED: &str = "audited";
const AUDITED_NUMBER: u64 = 2;

const TIME_SOURCES: [&str; 7] =
    ["uuidv7", "uuidv6", "uuidv1", "xid", "uuidv8-draft01-32", "uuidv7-draft01-ms", "uid11-snowish"];
const SERIES: [&str; 2] = ["uid11-fullrand", "serial:AB"];

/// What the operator and the clients know of each other: regions that were made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan(Arc<Mutex<Names>>);

#[derive(Debug, Default)]
struct Names {
    /// Space and name.
    regions: Vec<(&'static str, String)>,
    made: u64,
}

impl Plan {
    fn regions(&self) -> Vec<(&'static str, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).regions.clone()
    }

    fn add(&self, space: &'static str, name: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).regions.push((space, name));
    }

    fn fresh(&self) -> String {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.made += 1;
        format!("r{}", names.made)
    }
}

/// Makes what every run has: the narrow space, and a strict region.
pub(crate) async fn prepare(run: &Arc<Run>) {
    let space = CreateSpaceRequest { space_id: SPACES[1].to_owned(), bits: 12, ..CreateSpaceRequest::default() };
    let region = CreateRegionRequest {
        parent: format!("spaces/{STRICT_SPACE}"),
        region_id: STRICT.to_owned(),
        suffix_bits: 40,
        request_id: "prepare".to_owned(),
        ..CreateRegionRequest::default()
    };
    let policy = Policy { strict: true, ..Policy::default() };
    let update = UpdateRegionRequest {
        name: format!("spaces/{STRICT_SPACE}/regions/{STRICT}"),
        policy: Some(policy),
        request_id: "strict".to_owned(),
        ..UpdateRegionRequest::default()
    };
    until(async || taken(life(run, 0)?.node.regions().create_space(Request::new(space.clone())).await)).await;
    until(async || taken(life(run, 0)?.node.regions().create_region(Request::new(region.clone())).await)).await;
    let audited =
        CreateRegionRequest { region_id: AUDITED.to_owned(), request_id: "audited".to_owned(), ..region.clone() };
    until(async || taken(life(run, 0)?.node.regions().create_region(Request::new(audited.clone())).await)).await;
    until(async || taken(life(run, 0)?.node.regions().update_region(Request::new(update.clone())).await)).await;
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
    while !run.ending.load(Ordering::SeqCst) {
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
            let made = loop {
                let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
                let answer = match life(&run, replica) {
                    Ok(life) if seals => life.node.regions().seal_region(Request::new(seal.clone())).await,
                    Ok(life) => life.node.regions().unseal_region(Request::new(seal.clone())).await,
                    Err(status) => Err(status),
                };
                match answer {
                    Ok(made) => break made.into_inner(),
                    Err(_) if run.ending.load(Ordering::SeqCst) => return,
                    Err(_) => time::sleep(run.dice.millis(10, 400)).await,
                }
            };
            if seals {
                let within = Duration::from_millis(made.effective_within_ms);
                run.sealed(STRICT_SPACE, AUDITED_NUMBER, Instant::now() + within);
            } else {
                run.unsealed(STRICT_SPACE, AUDITED_NUMBER);
            }
            time::sleep(run.dice.millis(0, 6000)).await;
        }
    }
}

/// Asks all daemons for the identifiers of the region that is sealed again and again.
pub(crate) async fn audited(run: Arc<Run>) {
    let source = format!("region:{AUDITED}@{STRICT_SPACE}");
    while !run.ending.load(Ordering::SeqCst) {
        run.step();
        time::sleep(run.dice.millis(10, 200)).await;
        for replica in 0..REPLICAS {
            let Ok(life) = life(&run, replica) else { continue };
            // A refusal is an answer.
            let _ = time::timeout(SOON, allocate(&run, &life, replica, &source, STRICT_SPACE, 1, "")).await;
        }
    }
}

/// What is in hand is granted at once.
const SOON: Duration = Duration::from_millis(100);

/// Asks for identifiers until the end.
pub(crate) async fn client(run: Arc<Run>, plan: Plan, number: u64) {
    let mut requests = 0;
    while !run.ending.load(Ordering::SeqCst) {
        run.step();
        time::sleep(run.dice.millis(0, 300)).await;
        let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
        let (source, space) = source(&run, &plan);
        let count = run.dice.between(1, 12);
        if run.dice.per_mille(80) {
            requests += 1;
            strict(&run, format!("c{number}-{requests}"), count).await;
            continue;
        }
        let Ok(life) = life(&run, replica) else { continue };
        let asked = allocate(&run, &life, replica, &source, space, count, "");
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

fn source(run: &Run, plan: &Plan) -> (String, &'static str) {
    let regions = plan.regions();
    match (run.dice.between(0, 9), run.dice.pick(&regions)) {
        (0..4, Some((space, region))) => (format!("region:{region}@{space}"), space),
        (4, _) => (run.dice.pick(&SERIES).copied().unwrap_or_default().to_owned(), ""),
        _ => (run.dice.pick(&TIME_SOURCES).copied().unwrap_or_default().to_owned(), ""),
    }
}

/// Whoever is refused so often, for some minutes after faults have stopped, is refused for ever.
const REFUSALS_MAX: u32 = 2000;

/// Asks a strict region, again and again until there is an answer, and at times once more, elsewhere.
async fn strict(run: &Arc<Run>, request_id: String, count: u64) {
    let source = format!("region:{STRICT}@{STRICT_SPACE}");
    let mut answers = if run.dice.per_mille(300) { 2 } else { 1 };
    let mut refused = 0;
    while answers > 0 {
        let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
        let answer = match life(run, replica) {
            Ok(life) => allocate(run, &life, replica, &source, STRICT_SPACE, count, &request_id).await,
            Err(status) => Err(status),
        };
        match answer {
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
    run.granted(&Grant { source, space, block: &block, clock_epoch, life: life.number, now, request_id });
    if block.count() != count {
        run.violation(format!("{source}: {count} asked for, {} granted", block.count()));
    }
    Ok(())
}

/// Edits tables until the end.
pub(crate) async fn operator(run: Arc<Run>, plan: Plan) {
    let mut number = 0;
    while !run.ending.load(Ordering::SeqCst) {
        run.step();
        number += 1;
        time::sleep(run.dice.millis(0, 1500)).await;
        let space = run.dice.pick(&SPACES).copied().unwrap_or_default();
        let edit = Edit::choose(&run, &plan, space, format!("e{number}"));
        // Asked again until there is an answer: with a request_id it is made once.
        for _ in 0..20 {
            let replica = run.dice.between(0, REPLICAS as u64 - 1) as usize;
            let Ok(life) = life(&run, replica) else {
                time::sleep(Duration::from_millis(300)).await;
                continue;
            };
            if let What::Seal(unseal, false) = &edit.what {
                // Whatever becomes of it, the region may be granted from again.
                let Some(number) = number_of(&life.node.regions(), &unseal.name).await else {
                    time::sleep(Duration::from_millis(300)).await;
                    continue;
                };
                run.unsealing(space, number);
            }
            match edit.make(&life.node.regions()).await {
                Ok(made) => {
                    if let (What::Seal(_, true), Some(region)) = (&edit.what, &made.region) {
                        let within = Duration::from_millis(made.effective_within_ms);
                        run.sealed(space, region.number, Instant::now() + within);
                    }
                    if let (What::Seal(_, false), Some(region)) = (&edit.what, &made.region) {
                        run.unsealed(space, region.number);
                    }
                    run.edited(space, &edit.request_id, made.revision);
                    edit.names.iter().for_each(|name| plan.add(space, name.clone()));
                    break;
                }
                Err(status) if may_be_made_yet(status.code()) => time::sleep(run.dice.millis(50, 800)).await,
                Err(_) => break,
            }
        }
    }
}

fn may_be_made_yet(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Unknown | Code::Aborted | Code::DeadlineExceeded | Code::Cancelled)
}

/// An edit that can be asked for again.
struct Edit {
    request_id: String,
    /// Regions that it makes, or renames.
    names: Vec<String>,
    what: What,
}

enum What {
    Create(CreateRegionRequest),
    Expand(ExpandRegionRequest),
    Shrink(ShrinkRegionRequest),
    Split(SplitRegionRequest),
    Subdivide(AddSubregionsRequest),
    Seal(SealRegionRequest, bool),
    Rename(RenameRegionRequest),
    Update(UpdateRegionRequest),
}

impl Edit {
    fn choose(run: &Run, plan: &Plan, space: &'static str, request_id: String) -> Self {
        let dice = &run.dice;
        let known: Vec<String> =
            plan.regions().into_iter().filter(|(of, _)| *of == space).map(|(_, name)| name).collect();
        let id = request_id.clone();
        let Some(region) = dice.pick(&known).filter(|_| !dice.per_mille(250)) else {
            let region_id = plan.fresh();
            let suffix_bits = dice.between(1, if space == SPACES[0] { 20 } else { 5 }) as u32;
            let order = if dice.per_mille(300) { Order::Scrambled } else { Order::Sequential };
            let (names, parent) = (vec![region_id.clone()], format!("spaces/{space}"));
            let zone_bits = Some(dice.between(0, 4) as u32);
            let auto_split = dice.per_mille(500);
            let create = CreateRegionRequest {
                parent,
                region_id,
                suffix_bits,
                zone_bits,
                auto_split,
                order: order.into(),
                request_id: id,
                ..CreateRegionRequest::default()
            };
            return Self { request_id, names, what: What::Create(create) };
        };
        let name = format!("spaces/{space}/regions/{region}");
        let by_bits = dice.between(1, 2) as u32;
        let mut names = Vec::new();
        let what = match dice.between(0, 9) {
            0 | 1 => What::Expand(ExpandRegionRequest { name, by_bits, request_id: id, ..Default::default() }),
            2 => What::Shrink(ShrinkRegionRequest { name, by_bits: 1, request_id: id, ..Default::default() }),
            3 | 4 => {
                names = if dice.per_mille(500) { vec![plan.fresh()] } else { Vec::new() };
                let newcomers = names.iter().map(|name| newcomer(name, 1)).collect();
                What::Split(SplitRegionRequest { name, by_bits, newcomers, request_id: id, ..Default::default() })
            }
            5 | 6 => {
                let zero = dice.per_mille(500);
                names = vec![plan.fresh()];
                let extension = if zero { "0" } else { "1" }.repeat(by_bits as usize);
                let made = Newcomer { extension: Some(extension), ..newcomer(&names[0], 1) };
                let made = if zero { Newcomer { suffix_bits: None, ..made } } else { made };
                What::Subdivide(AddSubregionsRequest {
                    name,
                    by_bits,
                    newcomers: vec![made],
                    r#abstract: zero,
                    request_id: id,
                    ..Default::default()
                })
            }
            7 => What::Seal(SealRegionRequest { name, request_id: id, ..Default::default() }, dice.per_mille(300)),
            8 => {
                names = vec![plan.fresh()];
                let region_id = names[0].clone();
                What::Rename(RenameRegionRequest { name, region_id, request_id: id, ..Default::default() })
            }
            _ => {
                let next = Some(u128::from(dice.between(0, 20)).into());
                What::Update(UpdateRegionRequest { name, next, request_id: id, ..Default::default() })
            }
        };
        Self { request_id, names, what }
    }

    async fn make(&self, regions: &impl Regions) -> Result<EditResponse, Status> {
        let made = match &self.what {
            What::Create(create) => regions.create_region(Request::new(create.clone())).await,
            What::Expand(expand) => regions.expand_region(Request::new(expand.clone())).await,
            What::Shrink(shrink) => regions.shrink_region(Request::new(shrink.clone())).await,
            What::Split(split) => regions.split_region(Request::new(split.clone())).await,
            What::Subdivide(divide) => regions.add_subregions(Request::new(divide.clone())).await,
            What::Seal(seal, true) => regions.seal_region(Request::new(seal.clone())).await,
            What::Seal(seal, false) => regions.unseal_region(Request::new(seal.clone())).await,
            What::Rename(rename) => regions.rename_region(Request::new(rename.clone())).await,
            What::Update(update) => regions.update_region(Request::new(update.clone())).await,
        };
        made.map(Response::into_inner)
    }
}

/// The number of a region, which stays when its name changes.
async fn number_of(regions: &impl Regions, name: &str) -> Option<u64> {
    let get = GetRegionRequest { name: name.to_owned() };
    Some(regions.get_region(Request::new(get)).await.ok()?.into_inner().number)
}

fn newcomer(name: &str, suffix_bits: u32) -> Newcomer {
    Newcomer { region_id: name.to_owned(), suffix_bits: Some(suffix_bits), ..Newcomer::default() }
}

const MILLI: i128 = 1_000_000;
const SECOND: i128 = 1000 * MILLI;
const HOUR: i128 = 3600 * SECOND;
const YEAR: i128 = 365 * 24 * HOUR;
/// What a wall clock may be set to, as an offset to the truth.
const OFFSETS: [i128; 14] = [
    0,
    0,
    -10 * MILLI,
    -400 * MILLI,
    -2 * SECOND,
    -HOUR,
    -24 * HOUR,
    300 * MILLI,
    3 * SECOND,
    50 * 60 * SECOND,
    HOUR,
    2 * HOUR,
    24 * HOUR,
    10 * YEAR,
];

/// Makes one replica's life hard until the end.
pub(crate) async fn chaos(run: Arc<Run>, replica: usize) {
    while !run.ending.load(Ordering::SeqCst) {
        run.step();
        time::sleep(run.dice.millis(200, 6000)).await;
        if run.ending.load(Ordering::SeqCst) {
            return;
        }
        match run.dice.between(0, 9) {
            0..5 => {
                run.faults.jumps.count();
                let off = run.dice.pick(&OFFSETS).copied().unwrap_or_default();
                run.replicas[replica].machine.set_off(off);
            }
            5 | 6 => {
                run.crash(replica).await;
                time::sleep(run.dice.millis(0, 4000)).await;
                run.start(replica).await;
            }
            7 => {
                run.faults.stops.count();
                run.stop(replica).await;
                run.start(replica).await;
            }
            8 => {
                run.faults.compactions.count();
                run.backend.memory.compact();
            }
            _ => {
                run.faults.cuts.count();
                run.replicas[replica].cut.store(true, Ordering::SeqCst);
                time::sleep(run.dice.millis(100, 9000)).await;
                run.replicas[replica].cut.store(false, Ordering::SeqCst);
            }
        }
    }
}

/// Once faults have stopped, every daemon grants again: of time, of a series, of a region.
pub(crate) async fn check_liveness(run: &Arc<Run>) {
    for replica in 0..REPLICAS {
        for source in ["uuidv7", "uuidv6", "xid", "uid11-fullrand", "serial:AB"] {
            let granted = match life(run, replica) {
                Ok(life) => allocate(run, &life, replica, source, "", 3, "").await,
                Err(status) => Err(status),
            };
            if let Err(status) = granted {
                run.violation(format!("{source} is not granted after faults have stopped: {status}"));
            }
        }
        strict(run, format!("calm-{replica}"), 2).await;
    }
}
