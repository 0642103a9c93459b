//! Chaos test: three replicas on three etcd members, eighteen clients, an operator, and all kinds of faults in turn. No
//! identifier may be issued twice, no edit may be lost, and all replicas must have the same history.

mod edits;
mod etcd;

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use kent_client::Client;
use kent_proto::v1::{
    CreateRegionRequest, Encoding, ListHistoryRequest, ListRegionsRequest, Policy, UpdateRegionRequest,
    allocator_client::AllocatorClient, regions_client::RegionsClient,
};
use kent_test_etcd::Etcd;
use rand::{
    RngExt, SeedableRng,
    rngs::StdRng,
    seq::{IndexedRandom, SliceRandom},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use self::edits::Acknowledged;
use super::{
    clocks::libfaketime,
    harness::{Daemon, Ledger, data_dir, identifiers, kentd, request},
    wire::Wire,
};

const SHORT: Duration = Duration::from_secs(50);
const LONG: Duration = Duration::from_secs(600);
const SPACE: &str = "spaces/default";
const SOURCES: [&str; 8] = [
    "uuidv7",
    "uuidv6",
    "xid",
    "uuidv7-draft01-us",
    "serial:GBP$",
    "uid11-fullrand",
    "region:orders",
    "region:invoices",
];

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_minute_of_chaos() {
    chaos(SHORT).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: ten minutes"]
async fn long_ten_minutes_of_chaos() {
    chaos(LONG).await;
}

/// The clock offsets of the replicas in seconds, and their windows.
const CLOCKS: [&str; 3] = ["+0", "+3", "-2"];
const WINDOWS: [&str; 3] = ["2s", "3s", "5s"];

/// A replica at a fixed address, with its own connection to each etcd member.
struct Replica {
    number: usize,
    address: SocketAddr,
    wires: Vec<Wire>,
    daemon: Option<Daemon>,
}

impl Replica {
    async fn prepare(number: usize, etcd: &Etcd) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port");
        let mut wires = Vec::new();
        for member in etcd.clients() {
            wires.push(Wire::to(member).await);
        }
        Self { number, address: free, wires, daemon: None }
    }

    fn start(&mut self) {
        let hosts: Vec<String> = self.wires.iter().map(|wire| wire.address.to_string()).collect();
        let store = format!("etcd://{}/kent", hosts.join(","));
        let password = data_dir();
        let file = password.path().join("password");
        std::fs::write(&file, etcd::PASSWORD).expect("written");
        let mut command = kentd(data_dir().path());
        command.args(["--listen", &self.address.to_string(), "--store", &store, "--window", WINDOWS[self.number]]);
        command.args(["--store-user", etcd::USER, "--store-password-file"]).arg(&file);
        command.env("LD_PRELOAD", libfaketime()).env("FAKETIME", CLOCKS[self.number]);
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        // With small chunks, reservations and edits often coincide.
        command.args(["--chunk-min", "16", "--chunk-max", "4096", "--log", "off"]);
        self.daemon = Daemon::try_spawn(&mut command);
    }

    fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).expect("an address");
        endpoint.connect_timeout(Duration::from_secs(1)).timeout(Duration::from_secs(6)).connect_lazy()
    }
}

/// The state shared by all actors.
struct World {
    ledger: Mutex<Ledger>,
    over: AtomicBool,
    refused: AtomicU64,
    /// All created regions.
    regions: Mutex<Vec<String>>,
}

impl World {
    fn record(&self, source: &str, ids: impl IntoIterator<Item = u128>) {
        self.ledger.lock().expect("no duplicate so far").record(source, ids);
    }

    fn regions(&self) -> Vec<String> {
        self.regions.lock().expect("not poisoned").clone()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

async fn chaos(length: Duration) {
    let seed = std::env::var("KENT_CHAOS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    println!("KENT_CHAOS_SEED={seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let mut etcd = etcd::start();
    let mut replicas = Vec::new();
    for number in 0..3 {
        let mut replica = Replica::prepare(number, &etcd).await;
        replica.start();
        replicas.push(replica);
    }
    let channels: Vec<Channel> = replicas.iter().map(Replica::channel).collect();
    prepare(&channels[0]).await;
    let world = Arc::new(World {
        ledger: Mutex::default(),
        over: AtomicBool::new(false),
        refused: AtomicU64::new(0),
        regions: Mutex::new(vec!["edited".to_owned()]),
    });
    let mut actors = JoinSet::new();
    for number in 0..8 {
        let endpoints: Vec<String> =
            (0..3).map(|at| format!("http://{}", replicas[(at + number) % 3].address)).collect();
        actors.spawn(prefetch(endpoints, SOURCES[number], world.clone()));
        actors.spawn(call(
            channels.clone(),
            SOURCES[number],
            StdRng::seed_from_u64(seed ^ number as u64),
            world.clone(),
        ));
    }
    for number in 0..2 {
        let dice = StdRng::seed_from_u64(seed ^ 0xa11 ^ number);
        actors.spawn(call_any_region(channels.clone(), dice, world.clone()));
    }
    let edits = tokio::runtime::Handle::current().spawn(edits::edit(
        channels.clone(),
        StdRng::seed_from_u64(seed ^ 0xed17),
        world.clone(),
    ));
    let began = Instant::now();
    let mut faults = BTreeMap::<&str, u32>::new();
    let mut deck = Vec::new();
    while began.elapsed() < length {
        // Draw the faults from a shuffled deck, so that the short test has all of them.
        if deck.is_empty() {
            deck = FAULTS.to_vec();
            deck.shuffle(&mut dice);
        }
        let fault = deck.pop().expect("not empty");
        inject(fault, &mut etcd, &mut replicas, &mut dice).await;
        *faults.entry(fault).or_default() += 1;
        let pause = Duration::from_millis(dice.random_range(100..1500));
        sleep(pause).await;
    }
    // Restore the connections, and start the replicas that are down.
    for replica in &mut replicas {
        replica.wires.iter().for_each(Wire::mend);
        if replica.daemon.is_none() {
            replica.start();
        }
        assert!(replica.daemon.is_some(), "a replica does not start after the faults");
    }
    world.over.store(true, Ordering::SeqCst);
    while let Some(ended) = actors.join_next().await {
        ended.expect("a client found a duplicate or failed");
    }
    let acknowledged = edits.await.expect("the operator found no violation");
    let Acknowledged { edits: acknowledged, kinds } = acknowledged;
    check_tables(&channels, &acknowledged).await;
    let (received, refused) = (world.ledger.lock().expect("not poisoned").len(), world.refused.load(Ordering::SeqCst));
    let edits = acknowledged.len();
    println!("{received} identifiers, no duplicates; {edits} edits, none lost: {kinds:?}");
    println!("{refused} refusals; faults: {faults:?}");
    assert!(received > 1000 && edits > 10 && kinds.len() > 7, "the load was too small to show anything");
}

/// Creates the regions that all clients use. One of them is strict.
async fn prepare(channel: &Channel) {
    let mut regions = RegionsClient::new(channel.clone());
    for (region, suffix_bits) in [("orders", 40), ("invoices", 40), ("edited", 16)] {
        regions.create_region(create(region, suffix_bits, "")).await.expect("created");
    }
    let strict = UpdateRegionRequest {
        name: format!("{SPACE}/regions/invoices"),
        policy: Some(Policy { strict: true, ..Policy::default() }),
        ..UpdateRegionRequest::default()
    };
    regions.update_region(strict).await.expect("strict");
}

fn create(region: &str, suffix_bits: u32, request_id: &str) -> CreateRegionRequest {
    CreateRegionRequest {
        parent: SPACE.to_owned(),
        region_id: region.to_owned(),
        suffix_bits: Some(suffix_bits),
        request_id: request_id.to_owned(),
        ..CreateRegionRequest::default()
    }
}

/// The faults. A fault that is listed twice occurs twice as often.
const FAULTS: [&str; 12] = [
    "replica killed",
    "replica killed",
    "replica paused",
    "replica paused",
    "replica restarted",
    "network cut",
    "etcd member killed",
    "etcd member paused",
    "etcd majority paused",
    "etcd compacted",
    "etcd filled",
    "none until etcd's tokens expire",
];

/// Injects one fault for a while.
async fn inject(fault: &str, etcd: &mut Etcd, replicas: &mut [Replica], dice: &mut StdRng) {
    let (at, member) = (dice.random_range(0..3), dice.random_range(0..3));
    let length = Duration::from_millis(dice.random_range(200..4000));
    match fault {
        "replica killed" => {
            if let Some(daemon) = replicas[at].daemon.take() {
                daemon.kill();
            }
            sleep(length / 4).await;
            replicas[at].start();
        }
        "replica restarted" => {
            if let Some(daemon) = replicas[at].daemon.take() {
                daemon.signal("TERM");
                daemon.wait().await;
            }
            replicas[at].start();
        }
        "replica paused" => {
            let Some(daemon) = &replicas[at].daemon else { return };
            daemon.pause();
            sleep(length).await;
            daemon.resume();
        }
        "network cut" => {
            let wires: Vec<&Wire> = replicas[at].wires.iter().filter(|_| dice.random_bool(0.8)).collect();
            wires.iter().for_each(|wire| wire.cut());
            sleep(length).await;
            wires.iter().for_each(|wire| wire.mend());
        }
        "etcd member killed" => {
            etcd.kill(member);
            sleep(length / 2).await;
            etcd.restart(member);
        }
        "etcd member paused" => {
            etcd.pause(member);
            sleep(length / 2).await;
            etcd.resume(member);
        }
        "etcd majority paused" => {
            // Pause for longer than a replica waits for an answer.
            let paused = [member, (member + 1) % 3];
            paused.iter().for_each(|member| etcd.pause(*member));
            sleep(Duration::from_secs(2) + length / 2).await;
            paused.iter().for_each(|member| etcd.resume(*member));
        }
        "etcd compacted" => etcd::compact(etcd).await,
        "etcd filled" => etcd::fill(etcd, length / 2).await,
        _ => sleep(Duration::from_millis(1200)).await,
    }
}

/// The scope within which identifiers of a source are unique. Regions share a space.
fn scope(source: &str) -> &str {
    if source.starts_with("region:") { SPACE } else { source }
}

/// A client that prefetches identifiers from any replica.
async fn prefetch(endpoints: Vec<String>, source: &'static str, world: Arc<World>) {
    let client = endpoints.into_iter().fold(Client::builder(), |builder, endpoint| builder.endpoint(endpoint));
    let client = client.block_size(32).request_timeout(Duration::from_secs(5)).build().expect("a client");
    let handle = client.source(source);
    while !world.is_over() {
        match handle.next().await {
            Ok(id) => world.record(scope(source), [id.to_u128()]),
            Err(_) => drop(world.refused.fetch_add(1, Ordering::Relaxed)),
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// A client that calls random replicas.
async fn call(channels: Vec<Channel>, source: &'static str, mut dice: StdRng, world: Arc<World>) {
    while !world.is_over() {
        let mut allocator = AllocatorClient::new(channels.choose(&mut dice).expect("three").clone());
        let count = dice.random_range(1..40);
        match allocator.allocate(request(source, count, Encoding::Packed)).await {
            Ok(granted) => world.record(scope(source), identifiers(granted.get_ref())),
            Err(status) => {
                assert!(is_transient(&status), "{source}: {status}");
                world.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// A client that requests from random regions. All of them share one space, so their identifiers are recorded together.
async fn call_any_region(channels: Vec<Channel>, mut dice: StdRng, world: Arc<World>) {
    while !world.is_over() {
        let mut allocator = AllocatorClient::new(channels.choose(&mut dice).expect("three").clone());
        let source = format!("region:{}", world.regions().choose(&mut dice).expect("some"));
        match allocator.allocate(request(&source, dice.random_range(1..200), Encoding::Packed)).await {
            Ok(granted) => world.record(SPACE, identifiers(granted.get_ref())),
            Err(status) => {
                // The region is sealed, closed, delegated or full, or this replica does not know it yet.
                let is_expected =
                    matches!(status.code(), Code::FailedPrecondition | Code::ResourceExhausted | Code::NotFound);
                assert!(is_expected || is_transient(&status), "{source}: {status}");
                world.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
}

fn is_transient(status: &Status) -> bool {
    // A status with a source comes from a broken connection, not from a replica.
    std::error::Error::source(status).is_some()
        || matches!(
            status.code(),
            Code::Unavailable | Code::Unknown | Code::Aborted | Code::DeadlineExceeded | Code::Cancelled
        )
}

/// Waits until all replicas have the same table and the same history, and the history contains every acknowledged edit.
async fn check_tables(channels: &[Channel], acknowledged: &BTreeMap<u64, String>) {
    let began = Instant::now();
    loop {
        let mut seen = Vec::new();
        for channel in channels {
            seen.push(snapshot(&mut RegionsClient::new(channel.clone())).await);
        }
        let is_lost =
            |(revision, request_id), history: &BTreeMap<u64, String>| history.get(revision) != Some(request_id);
        let lost = |snapshot: &Result<Snapshot, Status>| match snapshot {
            Ok((_, history)) => acknowledged.iter().filter(|edit| is_lost(*edit, history)).count(),
            Err(_) => acknowledged.len(),
        };
        let lost: Vec<usize> = seen.iter().map(lost).collect();
        let tables: Vec<_> = seen.iter().map(|snapshot| snapshot.as_ref().ok()).collect();
        if lost == [0, 0, 0] && tables.windows(2).all(|pair| pair[0] == pair[1]) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "edits lost: {lost:?}; the replicas say {seen:?}");
        sleep(Duration::from_millis(200)).await;
    }
}

type Snapshot = (Vec<(String, String, u32, bool)>, BTreeMap<u64, String>);

/// The table, and the request IDs of its edits by revision.
async fn snapshot(regions: &mut RegionsClient<Channel>) -> Result<Snapshot, Status> {
    let list = ListRegionsRequest { parent: SPACE.to_owned(), page_size: 1000, ..Default::default() };
    let page = regions.list_regions(list).await?.into_inner();
    let table = page.regions.into_iter().map(|it| (it.name, it.prefix, it.suffix_bits, it.sealed)).collect();
    let (mut history, mut page_token) = (BTreeMap::new(), String::new());
    loop {
        let list = ListHistoryRequest { parent: SPACE.to_owned(), page_size: 100, page_token };
        let page = regions.list_history(list).await?.into_inner();
        history.extend(page.entries.into_iter().map(|entry| (entry.revision, entry.request_id)));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok((table, history));
        }
    }
}
