//! Three replicas on three etcd members, sixteen clients, an operator, and everything goes wrong at random: no identifier
//! twice, no edit lost, one history.

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
    CreateRegionRequest, Encoding, ExpandRegionRequest, ListHistoryRequest, ListRegionsRequest, Newcomer, Policy,
    SealRegionRequest, SplitRegionRequest, UpdateRegionRequest, allocator_client::AllocatorClient,
    regions_client::RegionsClient,
};
use kent_testkit::Etcd;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use super::{
    harness::{Daemon, Ledger, data_dir, identifiers, kentd, request},
    wire::Wire,
};

const SHORT: Duration = Duration::from_secs(60);
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

/// A replica at a fixed address, with a wire of its own to each member of etcd.
struct Replica {
    address: SocketAddr,
    wires: Vec<Wire>,
    daemon: Option<Daemon>,
}

impl Replica {
    async fn prepare(etcd: &Etcd) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port");
        let mut wires = Vec::new();
        for member in etcd.clients() {
            wires.push(Wire::to(member).await);
        }
        Self { address: free, wires, daemon: None }
    }

    fn start(&mut self) {
        let hosts: Vec<String> = self.wires.iter().map(|wire| wire.address.to_string()).collect();
        let store = format!("etcd://{}/kent", hosts.join(","));
        let mut command = kentd(data_dir().path());
        command.args(["--listen", &self.address.to_string(), "--store", &store, "--window", "2s"]);
        // Small chunks, so that reservations and edits meet often.
        command.args(["--chunk-min", "16", "--chunk-max", "4096", "--log", "off"]);
        self.daemon = Daemon::try_spawn(&mut command);
    }

    fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).expect("an address");
        endpoint.connect_timeout(Duration::from_secs(1)).timeout(Duration::from_secs(6)).connect_lazy()
    }
}

/// What all take part in.
struct World {
    ledger: Mutex<Ledger>,
    over: AtomicBool,
    refused: AtomicU64,
}

impl World {
    fn record(&self, source: &str, ids: impl IntoIterator<Item = u128>) {
        self.ledger.lock().expect("no identifier came twice so far").record(source, ids);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

async fn chaos(length: Duration) {
    let seed = std::env::var("KENT_CHAOS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    println!("KENT_CHAOS_SEED={seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let mut etcd = Etcd::start(3);
    let mut replicas = Vec::new();
    for _ in 0..3 {
        let mut replica = Replica::prepare(&etcd).await;
        replica.start();
        replicas.push(replica);
    }
    let channels: Vec<Channel> = replicas.iter().map(Replica::channel).collect();
    prepare(&channels[0]).await;
    let world = Arc::new(World { ledger: Mutex::default(), over: AtomicBool::new(false), refused: AtomicU64::new(0) });
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
    let edits = tokio::runtime::Handle::current().spawn(edit(
        channels.clone(),
        StdRng::seed_from_u64(seed ^ 0xed17),
        world.clone(),
    ));
    let began = Instant::now();
    let mut faults = BTreeMap::<&str, u32>::new();
    while began.elapsed() < length {
        *faults.entry(strike(&mut etcd, &mut replicas, &mut dice).await).or_default() += 1;
        let pause = Duration::from_millis(dice.random_range(100..1500));
        sleep(pause).await;
    }
    // Fair weather again.
    for replica in &mut replicas {
        replica.wires.iter().for_each(Wire::mend);
        if replica.daemon.is_none() {
            replica.start();
        }
        assert!(replica.daemon.is_some(), "a replica starts in fair weather");
    }
    world.over.store(true, Ordering::SeqCst);
    while let Some(ended) = actors.join_next().await {
        ended.expect("a client found an identifier twice, or broke");
    }
    let acknowledged = edits.await.expect("the operator saw nothing wrong");
    check_tables(&channels, &acknowledged).await;
    let (received, refused) = (world.ledger.lock().expect("whole").len(), world.refused.load(Ordering::SeqCst));
    let edits = acknowledged.len();
    println!("{received} identifiers, none twice; {edits} edits, none lost; {refused} refusals; faults: {faults:?}");
    assert!(received > 1000 && edits > 10, "too little happened to show anything");
}

/// Makes the regions that everybody draws from; one of them is strict.
async fn prepare(channel: &Channel) {
    let mut regions = RegionsClient::new(channel.clone());
    for region in ["orders", "invoices"] {
        regions.create_region(create(region, 40, "")).await.expect("created");
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
        suffix_bits,
        request_id: request_id.to_owned(),
        ..CreateRegionRequest::default()
    }
}

/// One thing goes wrong for a while.
async fn strike(etcd: &mut Etcd, replicas: &mut [Replica], dice: &mut StdRng) -> &'static str {
    let (at, member) = (dice.random_range(0..3), dice.random_range(0..3));
    let while_it_lasts = Duration::from_millis(dice.random_range(200..4000));
    match dice.random_range(0..8) {
        0 | 1 => {
            if let Some(daemon) = replicas[at].daemon.take() {
                daemon.kill();
            }
            sleep(while_it_lasts / 4).await;
            replicas[at].start();
            "replica killed"
        }
        2 => {
            if let Some(daemon) = replicas[at].daemon.take() {
                daemon.signal("TERM");
                daemon.wait().await;
            }
            replicas[at].start();
            "replica restarted"
        }
        3 | 4 => {
            let Some(daemon) = &replicas[at].daemon else { return "nothing" };
            daemon.signal("STOP");
            sleep(while_it_lasts).await;
            daemon.signal("CONT");
            "replica paused"
        }
        5 => {
            let wires: Vec<&Wire> = replicas[at].wires.iter().filter(|_| dice.random_bool(0.8)).collect();
            wires.iter().for_each(|wire| wire.cut());
            sleep(while_it_lasts).await;
            wires.iter().for_each(|wire| wire.mend());
            "network cut"
        }
        6 => {
            etcd.kill(member);
            sleep(while_it_lasts / 2).await;
            etcd.restart(member);
            "etcd member killed"
        }
        _ => {
            etcd.pause(member);
            sleep(while_it_lasts / 2).await;
            etcd.resume(member);
            "etcd member paused"
        }
    }
}

/// A client with identifiers in hand, which may use any replica.
async fn prefetch(endpoints: Vec<String>, source: &'static str, world: Arc<World>) {
    let client = endpoints.into_iter().fold(Client::builder(), |builder, endpoint| builder.endpoint(endpoint));
    let client = client.block_size(32).request_timeout(Duration::from_secs(5)).build().expect("a client");
    let handle = client.source(source);
    while !world.is_over() {
        match handle.next().await {
            Ok(id) => world.record(source, [id.to_u128()]),
            Err(_) => drop(world.refused.fetch_add(1, Ordering::Relaxed)),
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// A client that calls one replica after the other.
async fn call(channels: Vec<Channel>, source: &'static str, mut dice: StdRng, world: Arc<World>) {
    while !world.is_over() {
        let mut allocator = AllocatorClient::new(channels.choose(&mut dice).expect("three").clone());
        let count = dice.random_range(1..40);
        match allocator.allocate(request(source, count, Encoding::Packed)).await {
            Ok(granted) => world.record(source, identifiers(granted.get_ref())),
            Err(status) => {
                assert!(is_passing(&status), "{source}: {status}");
                world.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Edits on any replica, each under a request_id and again until it is answered. What was acknowledged, by revision.
async fn edit(channels: Vec<Channel>, mut dice: StdRng, world: Arc<World>) -> BTreeMap<u64, String> {
    let mut acknowledged = BTreeMap::new();
    let mut made: Vec<String> = Vec::new();
    let mut number = 0;
    while !world.is_over() {
        number += 1;
        let request_id = format!("edit-{number}");
        let kind = if made.is_empty() { 0 } else { dice.random_range(0..5) };
        let region = match kind {
            0 => format!("r{number}"),
            _ => made.choose(&mut dice).expect("some").clone(),
        };
        let name = format!("{SPACE}/regions/{region}");
        let revision = loop {
            if world.is_over() {
                return acknowledged;
            }
            let mut regions = RegionsClient::new(channels.choose(&mut dice).expect("three").clone());
            let request_id = request_id.clone();
            let name = name.clone();
            let answer = match kind {
                0 => regions.create_region(create(&region, 20, &request_id)).await,
                1 => {
                    regions
                        .expand_region(ExpandRegionRequest { name, by_bits: 1, request_id, ..Default::default() })
                        .await
                }
                2 => {
                    let newcomer =
                        Newcomer { region_id: format!("s{number}"), suffix_bits: Some(10), ..Newcomer::default() };
                    let split = SplitRegionRequest {
                        name,
                        by_bits: 1,
                        newcomers: vec![newcomer],
                        request_id,
                        ..Default::default()
                    };
                    regions.split_region(split).await
                }
                3 => regions.seal_region(SealRegionRequest { name, request_id, ..Default::default() }).await,
                _ => regions.unseal_region(SealRegionRequest { name, request_id, ..Default::default() }).await,
            };
            match answer {
                Ok(answer) => break Some(answer.into_inner().revision),
                Err(status) if is_passing(&status) => sleep(Duration::from_millis(100)).await,
                // The zone is used up, say.
                Err(status) => {
                    assert!(matches!(status.code(), Code::FailedPrecondition), "{kind} of {region}: {status}");
                    break None;
                }
            }
        };
        if let Some(revision) = revision {
            let twice = acknowledged.insert(revision, request_id);
            assert_eq!(twice, None, "two edits made revision {revision}");
            if kind == 0 {
                made.push(region);
            }
        }
    }
    acknowledged
}

fn is_passing(status: &Status) -> bool {
    // What has a source was said by no replica: the connection broke.
    std::error::Error::source(status).is_some()
        || matches!(
            status.code(),
            Code::Unavailable | Code::Unknown | Code::Aborted | Code::DeadlineExceeded | Code::Cancelled
        )
}

/// All replicas have, soon, the same history, with every edit that was acknowledged, and the same table.
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

/// The table, and by revision the request_ids of the edits that made it.
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
