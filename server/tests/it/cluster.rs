//! Replicas on a real etcd: they share tables and slots, take over from each other, and continue for a while without
//! etcd.

use std::{process::Command, time::Duration};

use kent_client::Client;
use kent_proto::v1::{
    CreateRegionRequest, EditResponse, Encoding, ExpandRegionRequest, GetRegionRequest, GetStatusRequest, Policy,
    Region, ReplicaStatus, SealRegionRequest, UpdateRegionRequest,
};
use kent_store::{EtcdOptions, EtcdStore, Key, Store};
use kent_test_etcd::Etcd;
use tokio::time::{Instant, sleep};
use tonic::{Code, Response, Status};

use super::{
    clocks::libfaketime,
    harness::{Daemon, Ledger, data_dir, identifiers, kentd, request},
    wire::Wire,
};

const ORDERS: &str = "spaces/default/regions/orders";

/// A replica on a cluster, with a window of this many seconds.
pub(super) fn replica(address: &str, window: u32) -> Daemon {
    let mut command = kentd(data_dir().path());
    Daemon::spawn(command.args(["--store", address, "--window", &format!("{window}s"), "--log", "error"]))
}

fn create(region: &str) -> CreateRegionRequest {
    CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: region.to_owned(),
        suffix_bits: Some(40),
        ..CreateRegionRequest::default()
    }
}

async fn orders(daemon: &Daemon) -> Result<Region, Status> {
    let get = GetRegionRequest { name: ORDERS.to_owned(), ..GetRegionRequest::default() };
    daemon.regions().get_region(get).await.map(tonic::Response::into_inner)
}

pub(super) async fn draw(daemon: &Daemon, source: &str, count: u64) -> Result<Vec<u128>, Status> {
    let reply = daemon.allocator().allocate(request(source, count, Encoding::Packed)).await?;
    Ok(identifiers(reply.get_ref()))
}

async fn replicas(daemon: &Daemon) -> Vec<ReplicaStatus> {
    daemon.admin().get_status(GetStatusRequest {}).await.expect("a status").into_inner().replicas
}

/// Waits up to half a minute until the condition holds.
pub(super) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < Duration::from_secs(30), "not within half a minute: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_edits_of_one_replica_reach_all() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let all = [(); 3].map(|()| replica(&address, 60));
    all[0].regions().create_region(create("orders")).await.expect("created");
    for other in &all[1..] {
        eventually("the region is seen", async || orders(other).await.is_ok()).await;
    }
    // Each replica has its own chunk.
    let mut ledger = Ledger::default();
    for _ in 0..3 {
        for daemon in &all {
            ledger.record("region:orders", draw(daemon, "region:orders", 700).await.expect("granted"));
        }
    }
    let expand = ExpandRegionRequest { name: ORDERS.to_owned(), by_bits: 2, ..Default::default() };
    all[1].regions().expand_region(expand).await.expect("expanded");
    for daemon in &all {
        eventually("the expansion is seen", async || orders(daemon).await.is_ok_and(|region| region.suffix_bits == 42))
            .await;
    }
    // The response to a seal, even to a repeated one, reports that all replicas have confirmed the seal.
    let seal = SealRegionRequest { name: ORDERS.to_owned(), ..Default::default() };
    for daemon in [&all[2], &all[0]] {
        let sealed = daemon.regions().seal_region(seal.clone()).await.expect("sealed").into_inner();
        assert_eq!((sealed.unconfirmed, sealed.effective_within_ms), (Vec::new(), 0));
    }
    for daemon in &all {
        let refused = draw(daemon, "region:orders", 1).await.expect_err("sealed");
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    }
    // Two concurrent edits of the same region are both applied.
    let (one, two) = (SealRegionRequest { request_id: "1".to_owned(), ..seal.clone() }, seal);
    let (mut first, mut second) = (all[0].regions(), all[1].regions());
    let (one, two) = tokio::join!(first.unseal_region(one), second.unseal_region(two));
    assert_eq!((one.map(drop).map_err(|it| it.code()), two.map(drop).map_err(|it| it.code())), (Ok(()), Ok(())));
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_edits_reach_all_replicas_soon() {
    let etcd = Etcd::start(3);
    let address = etcd.address("kent");
    let all = [(); 3].map(|()| replica(&address, 60));
    let mut lags = Vec::new();
    for number in 0..60 {
        let region = format!("r{number}");
        all[number % 3].regions().create_region(create(&region)).await.expect("created");
        let made = Instant::now();
        for daemon in &all {
            let mut regions = daemon.regions();
            eventually("the region is seen", async || {
                let get = GetRegionRequest {
                    name: format!("spaces/default/regions/{region}"),
                    ..GetRegionRequest::default()
                };
                regions.get_region(get).await.is_ok()
            })
            .await;
        }
        lags.push(made.elapsed());
    }
    lags.sort_unstable();
    println!(
        "time from the answer to an edit until all three replicas had it, for 60 edits: median {:?}, maximum {:?}",
        lags[30], lags[59]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_replicas_list_each_other_and_take_over_slots_of_stopped_ones() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let (first, second) = (replica(&address, 60), replica(&address, 60));
    eventually("both are seen, with different slots", async || {
        let mut slots: Vec<_> = replicas(&first).await.into_iter().filter_map(|replica| replica.slot).collect();
        slots.sort_unstable();
        slots == [0, 1]
    })
    .await;
    let seen = replicas(&second).await;
    assert!(seen[0].answering && !seen[1].answering);
    assert_eq!(seen[0].address, second.grpc_address());
    assert_eq!(seen[1].address, first.grpc_address());
    assert!(
        seen[1].clock_ahead_ms.expect("known").abs() < 1000,
        "replicas on one machine report different clocks: {seen:?}"
    );
    second.signal("TERM");
    assert!(second.wait().await.success());
    eventually("it is gone", async || replicas(&first).await.len() == 1).await;
    let third = replica(&address, 60);
    let slot = |replicas: Vec<ReplicaStatus>| replicas[0].slot;
    eventually("its slot is free again", async || slot(replicas(&third).await) == Some(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_replica_with_a_deviating_clock_waits_until_clocks_agree() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let others = [(); 2].map(|()| replica(&address, 4));
    let dir = data_dir();
    let rc = dir.path().join("clock");
    // Two hours exceed the bound on the difference between clocks.
    std::fs::write(&rc, "+7200").expect("written");
    let mut command = kentd(dir.path());
    command.env("LD_PRELOAD", libfaketime()).env("FAKETIME_TIMESTAMP_FILE", &rc).env("FAKETIME_NO_CACHE", "1");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    let wrong = Daemon::spawn(command.args(["--store", &address, "--window", "4s", "--log", "off"]));
    let refused = draw(&wrong, "uuidv7", 1).await.expect_err("its clock is distrusted");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert_eq!(wrong.get("/readyz").0, 503);
    eventually("the replica and its clock offset are listed", async || {
        let seen = replicas(&others[0]).await;
        let ahead = seen.iter().filter_map(|replica| replica.clock_ahead_ms).max();
        seen.len() == 3 && ahead.is_some_and(|ahead| (7_190_000..7_210_000).contains(&ahead))
    })
    .await;
    std::fs::write(rc.with_extension("new"), "+0").expect("written");
    std::fs::rename(rc.with_extension("new"), &rc).expect("renamed");
    eventually("it agrees with the others", async || draw(&wrong, "uuidv7", 1).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_replica_bridges_an_etcd_outage_for_its_window() {
    let etcd = Etcd::start(1);
    let daemon = replica(&etcd.address("kent"), 4);
    daemon.regions().create_region(create("orders")).await.expect("created");
    let mut ledger = Ledger::default();
    ledger.record("region:orders", draw(&daemon, "region:orders", 1).await.expect("granted"));
    // The window grows while the daemon is up.
    sleep(Duration::from_secs(5)).await;
    etcd.pause(0);
    for _ in 0..10 {
        ledger.record("uuidv7", draw(&daemon, "uuidv7", 100).await.expect("from the window"));
        ledger.record("region:orders", draw(&daemon, "region:orders", 10).await.expect("from the chunk"));
        sleep(Duration::from_millis(50)).await;
    }
    eventually("the window and the chunk end", async || {
        let (time, region) = (draw(&daemon, "uuidv7", 1).await, draw(&daemon, "region:orders", 1).await);
        let refused =
            |drawn: &Result<Vec<u128>, Status>| drawn.as_ref().is_err_and(|status| status.code() == Code::Unavailable);
        let over = refused(&time) && refused(&region);
        ledger.record("uuidv7", time.unwrap_or_default());
        ledger.record("region:orders", region.unwrap_or_default());
        over
    })
    .await;
    let (status, body) = daemon.get("/readyz");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("the store has not been reached for longer than the window"), "{body}");
    etcd.resume(0);
    eventually("it grants again", async || {
        let (time, region) = (draw(&daemon, "uuidv7", 1).await, draw(&daemon, "region:orders", 1).await);
        let over = time.is_ok() && region.is_ok();
        ledger.record("uuidv7", time.unwrap_or_default());
        ledger.record("region:orders", region.unwrap_or_default());
        over
    })
    .await;
    assert_eq!(daemon.get("/readyz").0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_replica_paused_beyond_its_window_repeats_nothing() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let (sleeper, other) = (replica(&address, 2), replica(&address, 2));
    sleeper.regions().create_region(create("orders")).await.expect("created");
    eventually("the region is seen", async || orders(&other).await.is_ok()).await;
    let mut ledger = Ledger::default();
    for source in ["uuidv7", "uuidv6", "xid", "region:orders"] {
        ledger.record(source, draw(&sleeper, source, 10).await.expect("granted"));
    }
    sleeper.pause();
    // Requests sent during the pause are answered afterward.
    let mut late = tokio::task::JoinSet::new();
    for source in ["uuidv7", "uuidv6", "xid", "region:orders"].repeat(8) {
        let mut allocator = sleeper.allocator();
        late.spawn(async move { (source, allocator.allocate(request(source, 10, Encoding::Packed)).await) });
    }
    let seal = SealRegionRequest { name: ORDERS.to_owned(), ..Default::default() };
    let sealed = other.regions().seal_region(seal.clone()).await.expect("sealed").into_inner();
    assert_eq!(sealed.unconfirmed, [sleeper.grpc_address()]);
    assert!((1..=2000).contains(&sealed.effective_within_ms), "{}", sealed.effective_within_ms);
    // Meanwhile, other replicas take the slot of the paused replica.
    sleep(Duration::from_secs(4)).await;
    let new_regions = [(); 2].map(|()| replica(&address, 2));
    for daemon in new_regions.iter().chain([&other]) {
        for source in ["uuidv7", "uuidv6", "xid"] {
            ledger.record(source, draw(daemon, source, 1000).await.expect("granted"));
        }
    }
    sleeper.resume();
    while let Some(answered) = late.join_next().await {
        let (source, answer) = answered.expect("asked");
        match answer {
            Ok(granted) if source != "region:orders" => ledger.record(source, identifiers(granted.get_ref())),
            Ok(_) => panic!("the region granted after its seal took effect"),
            Err(status) => {
                let code = status.code();
                assert!(matches!(code, Code::Unavailable | Code::FailedPrecondition), "{status}");
            }
        }
    }
    for _ in 0..20 {
        for source in ["uuidv7", "uuidv6", "xid"] {
            for daemon in new_regions.iter().chain([&other, &sleeper]) {
                ledger.record(source, draw(daemon, source, 100).await.unwrap_or_default());
            }
        }
    }
}

/// A replica may hold a chunk below a declared number, so a declaration can have an effect even if the counter has
/// already reached the number.
#[tokio::test(flavor = "multi_thread")]
async fn ok_a_declared_number_makes_all_replicas_drop_lower_ones_and_changes_nothing_when_repeated() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let (holder, other) = (replica(&address, 60), replica(&address, 60));
    holder.regions().create_region(create("orders")).await.expect("created");
    eventually("the region is seen", async || orders(&other).await.is_ok()).await;
    draw(&holder, "region:orders", 3).await.expect("granted");
    let next = async |next: u128| {
        let (name, next) = (ORDERS.to_owned(), Some(next.into()));
        let update = UpdateRegionRequest { name, next, ..UpdateRegionRequest::default() };
        other.regions().update_region(update).await.map(Response::into_inner)
    };
    let revisions = |edit: &EditResponse| (edit.base_revision, edit.revision);
    let refused = next(10).await.expect_err("the other replica has reserved them");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let (_, command) = refused
        .message()
        .split_once("drop those with `kent region set orders --space default --next ")
        .expect("a command");
    let counter: u128 = command.trim_end_matches('`').parse().expect("a number");
    assert_eq!(revisions(&next(counter).await.expect("dropped")), (1, 2));
    assert_eq!(revisions(&next(counter).await.expect("in effect")), (2, 2));
    let granted = draw(&holder, "region:orders", 1).await.expect("granted");
    assert!(granted.iter().all(|id| id & ((1 << 40) - 1) >= counter), "{granted:?} {counter}");
    next(counter).await.expect_err("the counter has moved on");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_clients_see_no_error_when_a_replica_dies() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let all = [(); 3].map(|()| replica(&address, 60));
    all[0].regions().create_region(create("orders")).await.expect("created");
    for daemon in &all {
        eventually("the region is seen", async || orders(daemon).await.is_ok()).await;
    }
    let client = all
        .iter()
        .fold(Client::builder(), |builder, daemon| builder.endpoint(format!("http://{}", daemon.grpc_address())));
    let client = client.build().expect("a client");
    let mut ledger = Ledger::default();
    let handles = ["uuidv7", "uuidv6", "xid", "region:orders"].map(|source| (source, client.source(source)));
    let mut all = Vec::from(all);
    for dying in [true, true, false] {
        for _ in 0..400 {
            for (source, handle) in &handles {
                let id = handle.next().await.expect("no error");
                ledger.record(source, [id.to_u128()]);
            }
            sleep(Duration::from_micros(200)).await;
        }
        if dying {
            all.remove(0).kill();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_client_discovers_unlisted_replicas() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let [listed, first, second] = [(); 3].map(|()| replica(&address, 60));
    eventually("all are seen", async || replicas(&listed).await.len() == 3).await;
    let client =
        Client::builder().endpoint(listed.grpc_address()).discover(true).block_size(10).build().expect("a client");
    let ids = client.uuid_v7();
    let mut ledger = Ledger::default();
    for dying in [Some(listed), Some(first), None] {
        for _ in 0..200 {
            ledger.record("uuidv7", [ids.next().await.expect("no error").as_u128()]);
        }
        dying.into_iter().for_each(Daemon::kill);
    }
    drop(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_load_on_time_based_formats_does_not_reach_etcd() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let all = [(); 3].map(|()| replica(&address, 60));
    for daemon in &all {
        draw(daemon, "uuidv7", 1).await.expect("granted");
    }
    let writes = || etcd.metric(0, "etcd_debugging_mvcc_put_total");
    let (before, began) = (writes(), Instant::now());
    let mut load = tokio::task::JoinSet::new();
    for daemon in &all {
        for source in ["uuidv7", "uuidv6", "xid", "uuidv7"] {
            let mut allocator = daemon.allocator();
            load.spawn(async move {
                let mut granted = 0;
                while began.elapsed() < Duration::from_secs(5) {
                    granted += u32::from(allocator.allocate(request(source, 100, Encoding::Lease)).await.is_ok());
                }
                granted
            });
        }
    }
    let grants: u32 = load.join_all().await.into_iter().sum();
    let rate = (writes() - before) / began.elapsed().as_secs_f64();
    println!("{grants} grants on 3 replicas, {rate:.1} writes per second to etcd");
    assert!(grants > 1000, "the load was too small to show anything: {grants}");
    assert!(rate < 20.0, "{rate} writes per second");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_ten_replicas_share_a_region_and_none_starves() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let all = [(); 10].map(|()| replica(&address, 60));
    all[0].regions().create_region(create("orders")).await.expect("created");
    let strict = Some(Policy { strict: true, ..Policy::default() });
    all[0].regions().create_region(create("invoices")).await.expect("created");
    let name = "spaces/default/regions/invoices".to_owned();
    let update = UpdateRegionRequest { name, policy: strict, ..Default::default() };
    all[0].regions().update_region(update).await.expect("strict");
    for daemon in &all {
        eventually("the regions are seen", async || draw(daemon, "region:invoices", 1).await.is_ok()).await;
    }
    let began = Instant::now();
    let mut drawing = tokio::task::JoinSet::new();
    for (at, daemon) in all.iter().enumerate() {
        for source in ["region:orders", "region:invoices"] {
            let mut allocator = daemon.allocator();
            drawing.spawn(async move {
                let (mut ids, mut calls) = (Vec::new(), 0);
                while began.elapsed() < Duration::from_secs(5) {
                    match allocator.allocate(request(source, 5, Encoding::Packed)).await {
                        Ok(granted) => {
                            ids.extend(identifiers(granted.get_ref()));
                            calls += 1;
                        }
                        // On a busy machine, a replica may lose the race to commit for a whole second. Then it refuses
                        // with a retry delay, or does not know yet whether its strict commit was made.
                        Err(status) => {
                            assert!(
                                matches!(status.code(), Code::Unavailable | Code::Unknown),
                                "replica {at}: {status}"
                            );
                        }
                    }
                }
                (source, ids, calls)
            });
        }
    }
    let mut ledger = Ledger::default();
    let mut calls = [("region:orders", Vec::new()), ("region:invoices", Vec::new())];
    while let Some(drawn) = drawing.join_next().await {
        let (source, ids, count) = drawn.expect("no task panics");
        ledger.record(source, ids);
        calls.iter_mut().filter(|(of, _)| *of == source).for_each(|(_, counts)| counts.push(count));
    }
    println!("calls answered by each of ten replicas in 5 s: {calls:?}");
    for (source, counts) in calls {
        let (least, most) = (counts.iter().min().copied(), counts.iter().max().copied());
        assert!(least > Some(0) && least.map(|least| least * 50) > most, "{source}: from {least:?} to {most:?}");
    }
}

/// The sum of a metric over all replicas.
fn total(daemons: &[Daemon], metric: &str) -> f64 {
    let value = |daemon: &Daemon| {
        let (_, page) = daemon.get("/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(metric)).expect("the metric is there");
        line.trim().parse::<f64>().expect("a number")
    };
    daemons.iter().map(value).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_replicas_take_turns_at_a_strict_region_and_go_on_without_a_dead_one() {
    const CALLERS: u64 = 8;
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let mut all = Vec::from([(); 3].map(|()| replica(&address, 60)));
    all[0].regions().create_region(create("orders")).await.expect("created");
    let policy = Some(Policy { strict: true, ..Policy::default() });
    let update = UpdateRegionRequest { name: ORDERS.to_owned(), policy, ..UpdateRegionRequest::default() };
    all[0].regions().update_region(update).await.expect("strict");
    let mut ledger = Ledger::default();
    for daemon in &all {
        let is_strict = |region: Region| region.policy.is_some_and(|policy| policy.strict);
        eventually("the region is strict", async || orders(daemon).await.is_ok_and(is_strict)).await;
    }
    let ids = async |daemons: &[Daemon]| {
        let mut drawing = tokio::task::JoinSet::new();
        for (daemon, _) in daemons.iter().flat_map(|daemon| (0..CALLERS).map(move |caller| (daemon, caller))) {
            let mut allocator = daemon.allocator();
            drawing.spawn(async move {
                let mut ids = Vec::new();
                while ids.len() < 100 {
                    match allocator.allocate(request("region:orders", 1, Encoding::Packed)).await {
                        Ok(granted) => ids.extend(identifiers(granted.get_ref())),
                        Err(_) => break,
                    }
                }
                ids
            });
        }
        drawing
    };
    let together = ids(&all).await.join_all().await.concat();
    assert_eq!(together.len() as u64, 300 * CALLERS, "no call failed");
    ledger.record("region:orders", together);
    let [commits, conflicts] = ["commits", "conflicts"].map(|what| total(&all, &format!("kent_store_{what}_total ")));
    println!("{commits} commits, {conflicts} conflicts");
    assert!(
        conflicts * 3.0 < commits,
        "without turns, a third or more of the commits conflict: {conflicts} of {commits}"
    );

    // One replica dies in the middle of the load. Only its own calls fail.
    let dying = all.pop().expect("a replica");
    let (own, others) = (ids(std::slice::from_ref(&dying)).await, ids(&all).await);
    sleep(Duration::from_millis(50)).await;
    dying.kill();
    let others = others.join_all().await.concat();
    assert_eq!(others.len() as u64, 200 * CALLERS, "no call failed");
    ledger.record("region:orders", others);
    ledger.record("region:orders", own.join_all().await.concat());

    // The dead replica may have lost the answers to its callers' last calls, and a strict region has no other gaps.
    let last = draw(&all[0], "region:orders", 1).await.expect("granted");
    ledger.record("region:orders", last.iter().copied());
    let issued = last.iter().map(|id| id & ((1 << 40) - 1)).max().expect("one") + 1;
    let lost = issued - ledger.len() as u128;
    assert!(lost <= u128::from(CALLERS), "{lost} numbers were lost");

    // Without load, nothing remains of the turns, not even of the dead replica's.
    let options = EtcdOptions {
        address: address.parse().expect("valid"),
        tls: None,
        credentials: None,
        new_id: [0; 16],
        schema: 1,
    };
    let store = EtcdStore::open(options).await.expect("etcd is up");
    let turns = Key::from_static("turn/");
    eventually("no replica waits for a turn", async || store.scan(&turns).await.expect("read").is_empty()).await;
}

/// A replica that supports records up to this schema.
fn replica_of_schema(address: &str, schema: &str) -> Option<Daemon> {
    let mut command = kentd(data_dir().path());
    Daemon::try_spawn(command.args(["--store", address, "--window", "4s", "--schema", schema, "--log", "error"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_replicas_of_two_schemas_work_together_until_all_are_new() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let old = [(); 2].map(|()| replica_of_schema(&address, "1").expect("it starts"));
    let new = replica_of_schema(&address, "2").expect("it starts");
    new.regions().create_region(create("orders")).await.expect("created");
    let mut ledger = Ledger::default();
    // Wait for several heartbeats. In this time, no replica may write records that others cannot read.
    for _ in 0..30 {
        for daemon in old.iter().chain([&new]) {
            eventually("all grant", async || {
                let drawn = draw(daemon, "region:orders", 3).await;
                let is_ok = drawn.is_ok();
                ledger.record("region:orders", drawn.unwrap_or_default());
                is_ok
            })
            .await;
        }
        sleep(Duration::from_millis(100)).await;
    }
    let [first, second] = old;
    first.signal("TERM");
    first.wait().await;
    assert!(replica_of_schema(&address, "1").is_some(), "a downgrade must be possible while an old replica runs");
    second.kill();
    // The killed replica counts as running until its lease expires.
    let options = EtcdOptions {
        address: address.parse().expect("one"),
        tls: None,
        credentials: None,
        new_id: [0; 16],
        schema: 1,
    };
    let store = EtcdStore::open(options).await.expect("etcd is up");
    let schema = async || store.get(&Key::from_static("schema")).await.expect("read");
    eventually("the new schema is in force", async || schema().await.is_some()).await;
    let mut command = kentd(data_dir().path());
    let refused = command.args(["--store", &address, "--schema", "1"]).output().expect("kentd runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("run a newer kentd"), "{said}");
    let another = replica_of_schema(&address, "2").expect("it starts");
    for daemon in [&another, &new] {
        ledger.record("region:orders", draw(daemon, "region:orders", 3).await.expect("granted"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_partitioned_replica_catches_up() {
    let etcd = Etcd::start(1);
    let wire = Wire::to(etcd.clients()[0]).await;
    let near = replica(&etcd.address("kent"), 60);
    let far = replica(&format!("etcd://{}/kent", wire.address), 60);
    wire.cut();
    for number in 0..20 {
        near.regions().create_region(create(&format!("r{number}"))).await.expect("created");
    }
    near.regions().create_region(create("orders")).await.expect("created");
    assert_eq!(orders(&far).await.map_err(|status| status.code()), Err(Code::NotFound));
    wire.mend();
    eventually("it has caught up", async || orders(&far).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_replica_announces_itself_before_it_takes_a_slot() {
    let etcd = Etcd::start(1);
    let _daemon = replica(&etcd.address("kent"), 5);
    let created = |prefix: &str| {
        let mut get = Command::new("etcdctl");
        get.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", etcd.clients()[0]));
        let output = get.args(["get", "--prefix", prefix, "--write-out", "fields"]).output().expect("etcdctl runs");
        let fields = String::from_utf8_lossy(&output.stdout).into_owned();
        let revision =
            |line: &str| line.strip_prefix(r#""CreateRevision" : "#).and_then(|text| text.parse::<u64>().ok());
        fields.lines().filter_map(revision).min().unwrap_or_else(|| panic!("no key with {prefix}: {fields}"))
    };
    // The order is the promise of `effective_within_ms`: a fenced slot belongs to a replica whose window is known.
    assert!(created("kent/data/present/") < created("kent/data/slot/"));
}
