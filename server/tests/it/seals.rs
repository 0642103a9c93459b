//! Edits that stop grants: seals, which cover all regions inside the sealed region, and caps, which also limit chunks
//! that daemons hold. Once the response says that all replicas have confirmed, no replica makes a grant that the edit
//! forbids.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use kent_client::Client;
use kent_proto::v1::{
    AddSubregionsRequest, CreateRegionRequest, DelegateRegionRequest, EditResponse, GetRegionRequest, NewRegion,
    Policy, Region, SealRegionRequest, UpdateRegionRequest, WatchTableRequest, WatchTableResponse,
    watch_table_response::{Around, Event},
};
use kent_test_etcd::Etcd;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::{Code, Status, Streaming};

use super::{
    cluster::{draw, eventually, replica},
    harness::{Daemon, Ledger, data_dir},
    operator::Operator,
};

/// The regions inside `outer`: a subregion, a normal and a strict region in the space of a delegated subregion, and a
/// region two spaces below `outer`.
const INSIDE: [&str; 4] =
    ["region:sub", "region:x@default/emea", "region:strict@default/emea", "region:deep@default/emea/y"];

fn create(space: &str, region: &str, suffix_bits: u32) -> CreateRegionRequest {
    CreateRegionRequest {
        parent: format!("spaces/{space}"),
        region_id: region.to_owned(),
        suffix_bits: Some(suffix_bits),
        ..CreateRegionRequest::default()
    }
}

fn name(space: &str, region: &str) -> String {
    format!("spaces/{space}/regions/{region}")
}

/// Creates the region `outer` with everything inside it, and `beside`.
async fn make(daemon: &Daemon) {
    let mut regions = daemon.regions();
    let strict = Policy { strict: true, ..Policy::default() };
    for create in
        [CreateRegionRequest { zone_bits: Some(8), ..create("default", "outer", 40) }, create("default", "beside", 20)]
    {
        regions.create_region(create).await.expect("created");
    }
    let new_region = |name: &str, extension: &str| NewRegion {
        region_id: name.to_owned(),
        suffix_bits: Some(40),
        extension: Some(extension.to_owned()),
        ..NewRegion::default()
    };
    let new_regions = vec![new_region("sub", "01"), new_region("emea", "10")];
    let divide = AddSubregionsRequest { name: name("default", "outer"), by_bits: 2, new_regions, ..Default::default() };
    regions.add_subregions(divide).await.expect("divided");
    regions.delegate_region(delegate("default", "emea")).await.expect("delegated");
    for create in [
        create("default/emea", "x", 20),
        CreateRegionRequest { policy: Some(strict), ..create("default/emea", "strict", 20) },
        create("default/emea", "y", 30),
    ] {
        regions.create_region(create).await.expect("created");
    }
    regions.delegate_region(delegate("default/emea", "y")).await.expect("delegated");
    regions.create_region(create("default/emea/y", "deep", 20)).await.expect("created");
}

/// The next event of a watch.
async fn next(events: &mut Streaming<WatchTableResponse>) -> Event {
    events.message().await.expect("an event").expect("one").event.expect("known")
}

fn around(sealed_by: &str) -> Event {
    Event::Around(Around { sealed_by: sealed_by.to_owned() })
}

#[tokio::test]
async fn ok_a_watcher_gets_the_seals_around_its_space() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    make(&daemon).await;
    let watch = async |after_revision| {
        let watch = WatchTableRequest { parent: "spaces/default/emea/y".to_owned(), after_revision };
        daemon.regions().watch_table(watch).await.expect("watched").into_inner()
    };
    let mut events = watch(0).await;
    let Event::Snapshot(snapshot) = next(&mut events).await else { panic!("a snapshot comes first") };
    assert_eq!((snapshot.regions.len(), &*snapshot.sealed_by), (1, ""));
    let client = Client::builder().endpoint(daemon.grpc_address()).build().expect("valid");
    let copy = client.table("default/emea/y").await.expect("copied");
    assert_eq!(copy.sealed_by(), None);
    let (outer, inner) = (name("default", "outer"), name("default/emea", "y"));
    for (space, region, seals, expected) in [
        ("default", "outer", true, &*outer),
        ("default/emea", "y", true, &inner),
        ("default/emea", "y", false, &outer),
        ("default", "outer", false, ""),
    ] {
        // An edit without effect on the seal sends nothing.
        seal(&daemon, "default", "beside", seals).await;
        seal(&daemon, space, region, seals).await;
        assert_eq!(next(&mut events).await, around(expected));
        let Event::Snapshot(snapshot) = next(&mut watch(0).await).await else { panic!("a snapshot comes first") };
        assert_eq!(snapshot.sealed_by, expected);
        // A watcher that resumes may have missed the change, so the daemon sends the state again.
        assert_eq!(next(&mut watch(snapshot.revision).await).await, around(expected));
        copy.sealed_by_when(|by| by.unwrap_or_default() == expected).await;
    }
    // An edit of the space itself is still sent.
    seal(&daemon, "default/emea/y", "deep", true).await;
    assert!(matches!(next(&mut events).await, Event::Change(_)));
}

fn delegate(space: &str, region: &str) -> DelegateRegionRequest {
    DelegateRegionRequest { name: name(space, region), ..DelegateRegionRequest::default() }
}

async fn seal(daemon: &Daemon, space: &str, region: &str, seals: bool) -> EditResponse {
    let request = SealRegionRequest { name: name(space, region), ..SealRegionRequest::default() };
    let mut regions = daemon.regions();
    let answer = if seals { regions.seal_region(request).await } else { regions.unseal_region(request).await };
    answer.expect("made").into_inner()
}

async fn get(daemon: &Daemon, space: &str, region: &str) -> Region {
    let request = GetRegionRequest { name: name(space, region), ..GetRegionRequest::default() };
    daemon.regions().get_region(request).await.expect("there").into_inner()
}

#[track_caller]
fn check_sealed(drawn: Result<Vec<u128>, Status>, command: &str) {
    let refused = drawn.expect_err("sealed");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains(command), "{:?} does not suggest {command:?}", refused.message());
}

#[tokio::test]
async fn ok_a_seal_covers_subregions_and_delegated_spaces() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    make(&daemon).await;
    for source in INSIDE {
        draw(&daemon, source, 3).await.expect("granted, and the rest of the chunk is held");
    }
    assert_eq!(seal(&daemon, "default", "outer", true).await.unconfirmed, [""; 0]);
    for source in INSIDE.into_iter().chain(["region:outer"]) {
        check_sealed(draw(&daemon, source, 1).await, "(kent region unseal outer --space default)");
    }
    draw(&daemon, "region:beside", 1).await.expect("the region is not inside `outer`");
    let (outer, deep) = (get(&daemon, "default", "outer").await, get(&daemon, "default/emea/y", "deep").await);
    assert_eq!((outer.sealed, deep.sealed), (true, false));
    assert_eq!([outer.sealed_by, deep.sealed_by], [(); 2].map(|()| name("default", "outer")));
    // The seal also covers regions that are created later inside the region.
    daemon.regions().create_region(create("default/emea", "late", 10)).await.expect("created");
    check_sealed(draw(&daemon, "region:late@default/emea", 1).await, "(kent region unseal outer --space default)");
    daemon.regions().delegate_region(delegate("default/emea", "late")).await.expect("delegated");
    daemon.regions().create_region(create("default/emea/late", "later", 5)).await.expect("created");
    check_sealed(
        draw(&daemon, "region:later@default/emea/late", 1).await,
        "(kent region unseal outer --space default)",
    );
    // A seal inside `outer` stays when `outer` is unsealed.
    seal(&daemon, "default/emea", "x", true).await;
    check_sealed(draw(&daemon, INSIDE[1], 1).await, "(kent region unseal x --space default/emea)");
    let inner = seal(&daemon, "default/emea", "y", false).await;
    assert_eq!(inner.region.expect("there").sealed_by, name("default", "outer"), "it is still covered");
    seal(&daemon, "default", "outer", false).await;
    check_sealed(draw(&daemon, INSIDE[1], 1).await, "(kent region unseal x --space default/emea)");
    for source in [INSIDE[0], INSIDE[2], INSIDE[3], "region:outer", "region:late@default/emea"] {
        let drawn = draw(&daemon, source, 1).await;
        assert_eq!(drawn.is_ok(), source != "region:late@default/emea", "{source}: {drawn:?}");
    }
    seal(&daemon, "default/emea", "x", false).await;
    draw(&daemon, INSIDE[1], 1).await.expect("unsealed");
}

/// A grant that was requested after a seal was confirmed, or an unexpected error.
type Broken = String;

/// Draws from one source of one replica until `ends`. A request that is sent and answered during one seal must be
/// refused. `sealed` is odd while a seal is in effect.
async fn draw_until(
    daemon: Arc<Daemon>,
    source: &'static str,
    sealed: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
) -> (&'static str, Vec<u128>, Vec<Broken>) {
    let (mut ids, mut broken) = (Vec::new(), Vec::new());
    let mut allocator = daemon.allocator();
    while !ends.load(SeqCst) {
        let before = sealed.load(SeqCst);
        let request = super::harness::request(source, 3, kent_proto::v1::Encoding::Packed);
        match allocator.allocate(request).await {
            Ok(granted) => {
                if before % 2 == 1 && sealed.load(SeqCst) == before {
                    broken.push(format!("{source} granted after the seal was confirmed"));
                }
                ids.extend(super::harness::identifiers(granted.get_ref()));
            }
            // `Unknown`: etcd replied too late, so it is not known whether a strict grant was committed.
            Err(status) if matches!(status.code(), Code::FailedPrecondition | Code::Unavailable | Code::Unknown) => {
                sleep(Duration::from_millis(1)).await;
            }
            Err(status) => broken.push(format!("{source}: {status}")),
        }
    }
    (source, ids, broken)
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_no_replica_grants_inside_a_region_after_its_seal_is_confirmed() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let replicas = [(); 2].map(|()| Arc::new(replica(&address, 60)));
    make(&replicas[0]).await;
    for daemon in &replicas {
        for source in INSIDE {
            eventually("all replicas grant", async || draw(daemon, source, 1).await.is_ok()).await;
        }
    }
    let (sealed, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut drawing = JoinSet::new();
    for daemon in &replicas {
        for source in INSIDE {
            drawing.spawn(draw_until(daemon.clone(), source, sealed.clone(), ends.clone()));
        }
    }
    let mut confirmed = 0;
    for round in 0..20 {
        let by = &replicas[round % 2];
        let (space, region) = [("default", "outer"), ("default", "emea")][round / 2 % 2];
        sleep(Duration::from_millis(30)).await;
        let is_confirmed = seal(by, space, region, true).await.unconfirmed.is_empty();
        // A seal of `emea` does not cover `sub`.
        let is_in_effect = u64::from(is_confirmed && region == "outer");
        sealed.fetch_add(is_in_effect, SeqCst);
        confirmed += u32::from(is_confirmed);
        for (daemon, source) in
            replicas.iter().flat_map(|daemon| INSIDE[1..].iter().map(move |source| (daemon, source)))
        {
            let drawn = draw(daemon, source, 1).await;
            assert!(!is_confirmed || drawn.is_err(), "round {round}: {source} grants, but {region} is sealed");
        }
        sleep(Duration::from_millis(30)).await;
        sealed.fetch_add(is_in_effect, SeqCst);
        seal(&replicas[(round + 1) % 2], space, region, false).await;
    }
    ends.store(true, SeqCst);
    let (mut ledger, mut broken) = (Ledger::default(), Vec::new());
    while let Some(drawn) = drawing.join_next().await {
        let (source, ids, wrong) = drawn.expect("no task panics");
        ledger.record(source, ids);
        broken.extend(wrong);
    }
    assert_eq!(broken, [""; 0]);
    assert!(confirmed > 10, "only {confirmed} of 20 seals were confirmed within a second");
    assert!(ledger.len() > 500, "too few grants to show anything: {}", ledger.len());
}

async fn cap(daemon: &Daemon, region: &str, cap: u128) -> EditResponse {
    let policy = Some(Policy { cap: cap.to_string(), ..Policy::default() });
    let update = UpdateRegionRequest { name: name("default", region), policy, ..UpdateRegionRequest::default() };
    daemon.regions().update_region(update).await.expect("capped").into_inner()
}

#[test]
fn ok_a_cap_limits_a_chunk_that_is_already_held() {
    let operator = Operator::new();
    operator.kent("region create c --suffix 20");
    assert_eq!(operator.kent("alloc region:c -n 3").lines().count(), 3);
    operator.kent("region set c --cap 5");
    let refused = operator.refused("alloc region:c -n 1000", "CAPACITY_EXHAUSTED");
    assert!(
        refused.contains("has 2 identifiers left below its cap (3 of 5 suffixes are issued or reserved)"),
        "{refused}"
    );
    assert!(
        refused.contains("kent region set c --space default --cap 1003)") && !refused.contains("expand region"),
        "{refused}"
    );
    assert_eq!(operator.json("region show c")["reserved"], "3", "the chunk was given back");
    assert_eq!(operator.kent("alloc region:c -n 2").lines().count(), 2);
    operator.refused("alloc region:c", "CAPACITY_EXHAUSTED");
    operator.kent("region set c --cap 1003");
    assert_eq!(operator.kent("alloc region:c -n 998").lines().count(), 998);
    operator.refused("alloc region:c", "CAPACITY_EXHAUSTED");
    // A cap beyond the end of the chunk leaves the chunk unchanged.
    operator.kent("region create d --suffix 20");
    operator.kent("alloc region:d -n 3");
    operator.kent("region set d --cap 5000");
    assert_eq!(operator.json("region show d")["reserved"], "1024");
}

#[test]
fn ok_a_policy_that_becomes_strict_gives_the_chunk_back() {
    let operator = Operator::new();
    operator.kent("region create c --suffix 20");
    operator.kent("alloc region:c -n 3");
    operator.kent("region set c --strict");
    assert_eq!(operator.json("region show c")["reserved"], "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_no_replica_grants_beyond_a_cap_after_its_answer() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let replicas = [(); 2].map(|()| replica(&address, 60));
    replicas[0].regions().create_region(create("default", "c", 20)).await.expect("created");
    let mut ledger = Ledger::default();
    for daemon in &replicas {
        eventually("the region is seen", async || get_ok(daemon).await).await;
        // Each replica holds a chunk of 1024.
        ledger.record("region:c", draw(daemon, "region:c", 3).await.expect("granted"));
    }
    let began = Instant::now();
    let capped = cap(&replicas[0], "c", 1500).await;
    assert_eq!(capped.unconfirmed, [""; 0], "after {:?}", began.elapsed());
    for daemon in &replicas {
        // This count does not exceed the cap, but it exceeds what is left below the cap.
        let refused = draw(daemon, "region:c", 1500).await.expect_err("beyond the cap");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        assert!(refused.message().contains("kent region set c --space default --cap "), "{refused}");
    }
    let base = get(&replicas[0], "default", "c").await.prefix;
    let zeros = 64 - u32::try_from(base.len()).expect("short");
    let first = u128::from_str_radix(&base, 2).unwrap_or_default() << zeros;
    let mut last = 0;
    for daemon in replicas.iter().cycle().take(2000) {
        if let Ok(ids) = draw(daemon, "region:c", 1).await {
            last = last.max(ids[0] - first);
            ledger.record("region:c", ids);
        }
    }
    assert_eq!(last, 1499, "the last issued number must be the last one below the cap");
    cap(&replicas[1], "c", 3000).await;
    for daemon in &replicas {
        ledger.record("region:c", draw(daemon, "region:c", 100).await.expect("the cap was raised"));
    }
    // A cap below the issued numbers stops all grants.
    assert_eq!(cap(&replicas[1], "c", 5).await.unconfirmed, [""; 0]);
    for daemon in &replicas {
        draw(daemon, "region:c", 1).await.expect_err("beyond the cap");
    }
}

async fn get_ok(daemon: &Daemon) -> bool {
    daemon
        .regions()
        .get_region(GetRegionRequest { name: name("default", "c"), ..GetRegionRequest::default() })
        .await
        .is_ok()
}

#[test]
fn ok_a_list_of_spaces_shows_the_seals_around_them() {
    let operator = Operator::new();
    operator.kent("region create emea --suffix 20");
    operator.kent("region delegate emea");
    assert!(!operator.kent("space ls").contains("SEALED"));
    operator.kent("region seal emea");
    let listed = operator.kent("space ls");
    assert!(listed.contains("SEALED WITH") && listed.contains("emea@default"), "{listed}");
    let sealed: Vec<bool> =
        operator.kent("space ls --json").lines().map(|line| line.contains("regions/emea")).collect();
    assert_eq!(sealed, [false, true]);
}
