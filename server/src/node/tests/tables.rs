//! Several daemons on one store: concurrent edits and grants, and lost answers from the store.

mod floors;
mod guessed;
mod hostile;
mod random;
mod removal;
mod undo;

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Waker},
    time::Duration,
};

use futures_util::future::{join, join_all};
use kent_engine::tables::space::State;
use kent_engine::{
    host::{clock::SystemClock, entropy::SystemEntropy},
    records::{counters::read_counter, keys},
};
use kent_ids::{ClusterKey, UnixNanos};
use kent_issue::{Chunk, Lapse};
use kent_proto::stored::{EditId, Restored, TextForm, encode_restores};
use kent_proto::v1::{
    AllocateRequest, AutoExpand, CreateRegionRequest, CreateSpaceRequest, DelegateRegionRequest, ExpandRegionRequest,
    GetRegionRequest, ListRegionsRequest, Policy, Region, UpdateRegionRequest, allocate_response::Identifiers,
    allocator_server::Allocator, regions_server::Regions,
};
use kent_regions::{ChunkPolicy, Count, Table};
use kent_store::{Fault, MemoryStore, Operation, Store, StoreId, Txn, Version};
use tokio::{task, time};
use tonic::{Code, Request, Status};

use crate::{Config, Environment, Node, Settings};

fn disk() -> MemoryStore {
    MemoryStore::new(StoreId::new([3; 16]))
}

async fn start(disk: &MemoryStore, settings: Settings) -> Node {
    let config = Config::check(settings).expect("valid");
    let (store, clock, entropy) = (Arc::new(disk.reopen()), Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
    let node = Node::start(Environment { store, clock, entropy }, &config).await.expect("it starts");
    node.engine().slots().wait_for_slot(Duration::from_secs(5)).await;
    node
}

fn name() -> String {
    "spaces/default/regions/r".to_owned()
}

async fn make(node: &Node, suffix_bits: u32, zone_bits: u32) {
    let create = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "r".to_owned(),
        suffix_bits: Some(suffix_bits),
        zone_bits: Some(zone_bits),
        ..CreateRegionRequest::default()
    };
    node.regions().create_region(Request::new(create)).await.expect("created");
}

async fn set(node: &Node, policy: Policy) {
    let update = UpdateRegionRequest { name: name(), policy: Some(policy), ..UpdateRegionRequest::default() };
    node.regions().update_region(Request::new(update)).await.expect("set");
}

async fn get(node: &Node) -> Region {
    node.regions()
        .get_region(Request::new(GetRegionRequest { name: name(), ..GetRegionRequest::default() }))
        .await
        .expect("there")
        .into_inner()
}

async fn draw(node: &Node) -> Result<u64, Status> {
    draw_from(node, "region:r").await
}

async fn draw_from(node: &Node, source: &str) -> Result<u64, Status> {
    let request = AllocateRequest { source: source.to_owned(), count: 1, ..Default::default() };
    let granted = node.allocator().allocate(Request::new(request)).await?.into_inner();
    let Some(Identifiers::Lease(lease)) = granted.identifiers else { panic!("expected a lease") };
    Ok(lease.first.expect("a number").low)
}

fn small_chunks() -> Settings {
    Settings { chunk_min: Some(1), chunk_max: Some(1), ..Settings::default() }
}

async fn expanding(node: &Node) {
    make(node, 2, 20).await;
    let auto_expand = Some(AutoExpand { at_percent: 75, by_bits: 2, max_suffix_bits: 4 });
    set(node, Policy { auto_expand, ..Policy::default() }).await;
    for _ in 0..3 {
        draw(node).await.expect("three of four");
    }
    assert_eq!(get(node).await.suffix_bits, 2);
}

/// Several concurrent requests need the suffix that makes the region expand.
#[tokio::test]
async fn ok_concurrent_requests_expand_a_region_once() {
    let disk = disk();
    let node = start(&disk, small_chunks()).await;
    expanding(&node).await;
    // A commit takes some time, as it does on a disk.
    disk.plan(|operation| match operation {
        Operation::Commit(_) => Fault::DelayBefore(Box::pin(time::sleep(Duration::from_millis(5)))),
        _ => Fault::None,
    });
    for drawn in join_all((0..8).map(|_| draw(&node))).await {
        drawn.expect("granted");
    }
    assert_eq!(get(&node).await.suffix_bits, 4, "expanded by two bits, and never beyond four");
}

/// Like the previous test, but on two replicas, with one request on each.
#[tokio::test]
async fn ok_two_replicas_expand_a_region_once() {
    let disk = disk();
    let (one, other) = (start(&disk, small_chunks()).await, start(&disk, small_chunks()).await);
    expanding(&one).await;
    time::sleep(Duration::from_millis(200)).await;
    disk.plan(|operation| match operation {
        Operation::Commit(_) => Fault::DelayBefore(Box::pin(time::sleep(Duration::from_millis(5)))),
        _ => Fault::None,
    });
    for drawn in join_all([&one, &other].map(draw)).await {
        drawn.expect("granted");
    }
    time::sleep(Duration::from_millis(200)).await;
    assert_eq!(get(&one).await.suffix_bits, 4, "expanded by two bits, and never beyond four");
}

/// A reservation waits for its lock while the region becomes strict.
#[tokio::test]
async fn ok_no_chunk_is_reserved_after_a_region_became_strict() {
    let disk = disk();
    let one = start(&disk, Settings::default()).await;
    make(&one, 32, 4).await;
    let space = one.engine().directory().find("default").expect("there");
    let number = space.read(|table| table.named("r").map(|region| region.number)).expect("there");
    let cell = space.cell(number, Chunk::default());
    // Simulate that another reservation, or an edit that depends on the counter, is in progress.
    let held = cell.reserving.lock().await;
    let mut asked = pin!(draw(&one));
    assert!(asked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    for _ in 0..10 {
        task::yield_now().await;
    }
    // The edit is committed and applied. The edit's answer waits for the lock, because the chunk is given back before
    // the answer.
    let mut setting = pin!(set(&one, Policy { strict: true, ..Policy::default() }));
    while space.facts_of(number).is_none_or(|facts| facts.chunk != ChunkPolicy::Strict) {
        time::timeout(Duration::from_millis(1), setting.as_mut()).await.expect_err("it waits");
    }
    let other = start(&disk, Settings::default()).await;
    assert_eq!(draw(&other).await.expect("strictly"), 0);
    drop(held);
    setting.await;
    for _ in 0..10 {
        task::yield_now().await;
    }
    let counter = read_counter(&disk, &keys::counter("default", number.0)).await.expect("read").value;
    assert_eq!(counter.reserved, Count::Below(1));
    // The first replica receives no more requests, as if it had crashed or were slow.
    assert_eq!(draw(&other).await.expect("granted"), 1, "no gap");
}

/// An export reads a region from the table, and its counter from the store. The region expands between the two reads.
#[tokio::test]
async fn ok_an_exported_region_has_the_size_that_its_counter_needs() {
    let disk = disk();
    let node = start(&disk, small_chunks()).await;
    expanding(&node).await;
    let expanded = get(&node).await.suffix_bits;
    let mut reads = 0;
    disk.plan(move |operation| match operation {
        Operation::Get(key) if key.starts_with(&keys::COUNTERS) => {
            reads += 1;
            let is_first = reads == 1;
            if is_first { Fault::DelayBefore(Box::pin(time::sleep(Duration::from_millis(300)))) } else { Fault::None }
        }
        _ => Fault::None,
    });
    let list = ListRegionsRequest {
        parent: "spaces/default".to_owned(),
        exact_counters: true,
        ..ListRegionsRequest::default()
    };
    let (listed, ()) = join(node.regions().list_regions(Request::new(list)), async {
        time::sleep(Duration::from_millis(100)).await;
        for _ in 0..5 {
            draw(&node).await.expect("granted");
        }
    })
    .await;
    let listed = listed.expect("listed").into_inner();
    assert!(get(&node).await.suffix_bits > expanded, "the region must have expanded meanwhile");
    let region = &listed.regions[0];
    let reserved: u64 = region.reserved.parse().expect("a number");
    assert!(reserved <= 1 << region.suffix_bits, "{region:?}");
}

/// The answer to an edit's commit is lost, and the store is unavailable for the next read.
#[tokio::test]
async fn err_an_edit_that_may_have_been_made_is_unknown_while_the_store_is_unavailable() {
    let disk = disk();
    let node = start(&disk, Settings::default()).await;
    make(&node, 8, 8).await;
    let away = Arc::new(AtomicBool::new(false));
    let is_away = away.clone();
    disk.plan(move |operation| match operation {
        Operation::Commit(txn) if txn.writes().iter().any(|(key, _)| key.starts_with(&keys::SPACES)) => {
            is_away.store(true, SeqCst);
            Fault::AppliedUnknown
        }
        _ if is_away.load(SeqCst) => Fault::Unavailable,
        _ => Fault::None,
    });
    let expand = || Request::new(ExpandRegionRequest { name: name(), by_bits: 1, ..ExpandRegionRequest::default() });
    let refused = node.regions().expand_region(expand()).await.expect_err("the store does not answer");
    disk.plan(|_| Fault::None);
    let third = start(&disk, Settings::default()).await;
    assert_eq!(get(&third).await.suffix_bits, 9, "it was made");
    assert_eq!(refused.code(), Code::Unknown, "UNAVAILABLE would mean that nothing was done");
}

/// After a restore that may have lost edits, a region of the same name may have existed and may have issued
/// identifiers. So a new region must not be delegated as if it were unused.
#[tokio::test]
async fn err_after_a_restore_a_new_region_needs_a_floor_before_it_is_delegated() {
    let disk = disk();
    let second = UnixNanos::new(1_000_000_000);
    let lapse = Lapse { since: UnixNanos::new(0), until: second };
    let restores = encode_restores(&[Restored { lapse, tables_edited: true }]);
    disk.commit(Txn::new().put(keys::RESTORES, restores)).await.expect("committed");
    let node = start(&disk, Settings::default()).await;
    make(&node, 8, 8).await;
    let delegate = || Request::new(DelegateRegionRequest { name: name(), ..DelegateRegionRequest::default() });
    let refused = node.regions().delegate_region(delegate()).await.expect_err("the floor is unknown");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let next = Some(kent_proto::v1::Uint128::default());
    let update = UpdateRegionRequest { name: name(), next, ..UpdateRegionRequest::default() };
    node.regions().update_region(Request::new(update)).await.expect("none is in use");
    node.regions().delegate_region(delegate()).await.expect("delegated");
}

/// An edit and the task that follows other replicas both add the same delegated space.
#[tokio::test]
async fn ok_a_space_that_is_added_twice_is_shared() {
    let node = start(&disk(), Settings::default()).await;
    let state = || {
        let constants = (ClusterKey::new([0; 16]), TextForm::Decimal);
        State::fresh(Table::new(8).expect("a width"), Version::new(1), EditId::default(), constants)
    };
    let (first, second) = [(); 2].map(|()| node.engine().directory().insert("s", state()).expect("taken in")).into();
    assert!(Arc::ptr_eq(&first, &second));
}

/// Numbers are declared as issued on one replica while another replica has a chunk of these numbers.
#[tokio::test]
async fn ok_no_replica_grants_numbers_declared_as_issued() {
    let disk = disk();
    let (one, other) = (start(&disk, Settings::default()).await, start(&disk, Settings::default()).await);
    make(&one, 32, 4).await;
    time::sleep(Duration::from_millis(200)).await;
    assert_eq!(draw(&other).await.expect("from its chunk"), 0);
    let next = Some(kent_proto::v1::Uint128 { high: 0, low: 5000 });
    let update = UpdateRegionRequest { name: name(), next, ..UpdateRegionRequest::default() };
    one.regions().update_region(Request::new(update)).await.expect("declared");
    time::sleep(Duration::from_secs(1)).await;
    assert_eq!(get(&other).await.reserved, "5000", "the other replica knows");
    assert!(draw(&other).await.expect("granted") >= 5000, "suffixes below 5000 count as issued");
}

/// The commit of a new space never reaches the store.
#[tokio::test]
async fn err_a_space_that_was_not_created_is_not_reported_as_damage() {
    let disk = disk();
    let node = start(&disk, Settings::default()).await;
    disk.plan(|operation| match operation {
        Operation::Commit(txn) if txn.writes().iter().any(|(key, _)| key.starts_with(&keys::SPACES)) => {
            Fault::LostUnknown
        }
        _ => Fault::None,
    });
    let create = CreateSpaceRequest { space_id: "s".to_owned(), bits: 64, ..CreateSpaceRequest::default() };
    let refused = node.regions().create_space(Request::new(create)).await.expect_err("its answer was lost");
    assert_eq!(refused.code(), Code::Unknown, "{refused}");
}
