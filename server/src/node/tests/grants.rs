//! Tests that chunks are prefetched, that a strict grant with an unknown outcome is reported as unknown, and that every
//! source refuses during the wait after a restore.

use std::{sync::Arc, time::Duration};

use kent_engine::{
    host::{
        clock::{Clock, SystemClock},
        entropy::SystemEntropy,
    },
    records::keys,
};
use kent_ids::{ClockSeq, Node as Node48, Slot, SlotEpoch, UnixNanos};
use kent_issue::{HolderId, Lapse, SlotRecord};
use kent_proto::stored::{self, Restored};
use kent_proto::v1::{
    self, AllocateRequest, CreateRegionRequest, GetStatusRequest, Policy, UpdateRegionRequest, admin_server::Admin,
    allocator_server::Allocator, regions_server::Regions,
};
use kent_store::{Fault, MemoryStore, Operation, Store, StoreId, Txn};
use tokio::time;
use tonic::{Code, Request, Status};

use crate::{Config, Environment, Node, Settings};

const CHUNK: u64 = 64;

/// A clock that stands still, so that a chunk seems to be used up instantly.
#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn wall(&self) -> UnixNanos {
        UnixNanos::new(1_800_000_000_000_000_000)
    }

    fn steady(&self) -> Duration {
        Duration::from_secs(10)
    }
}

/// Starts a daemon on a store, and creates the region `r`.
async fn start(disk: &MemoryStore, clock: impl Clock) -> Node {
    let node = restart(disk, clock).await;
    create(&node, "r").await;
    node
}

async fn restart(disk: &MemoryStore, clock: impl Clock) -> Node {
    let settings = Settings { chunk_min: Some(CHUNK), chunk_max: Some(CHUNK), ..Settings::default() };
    let config = Config::check(settings).expect("valid");
    let (store, clock, entropy) = (Arc::new(disk.reopen()), Arc::new(clock), Arc::new(SystemEntropy));
    Node::start(Environment { store, clock, entropy }, &config).await.expect("it starts")
}

async fn create(node: &Node, region: &str) {
    let create = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: region.to_owned(),
        suffix_bits: Some(32),
        ..CreateRegionRequest::default()
    };
    node.regions().create_region(Request::new(create)).await.expect("created");
}

async fn status(node: &Node) -> v1::Status {
    node.admin().get_status(Request::new(GetStatusRequest {})).await.expect("answered").into_inner()
}

async fn draw(node: &Node, source: &str, count: u64) -> Result<(), Status> {
    let request = AllocateRequest { source: source.to_owned(), count, ..AllocateRequest::default() };
    node.allocator().allocate(Request::new(request)).await.map(drop)
}

async fn wait_until(is_so: impl AsyncFn() -> bool) {
    for _ in 0..1000 {
        if is_so().await {
            return;
        }
        time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the condition is never met");
}

/// Waits until one of the daemon's chunks has `count` numbers left.
async fn wait_until_left(node: &Node, count: u64) {
    wait_until(async || status(node).await.chunks.iter().any(|chunk| chunk.left == count.to_string())).await;
}

#[tokio::test]
async fn ok_the_next_chunk_is_reserved_before_the_present_one_is_used_up() {
    for source in ["region:r", "uid11-fullrand", "serial:GBP"] {
        let disk = MemoryStore::new(StoreId::new([3; 16]));
        let node = start(&disk, FixedClock).await;
        draw(&node, source, CHUNK).await.expect("the first chunk");
        draw(&node, source, 40).await.expect("more than half of the second chunk");
        wait_until_left(&node, 2 * CHUNK - 40).await;

        // The store stops answering: grants continue until the prefetched chunk is used up.
        disk.plan(|operation| match operation {
            Operation::Commit(_) => Fault::Unavailable,
            _ => Fault::None,
        });
        draw(&node, source, CHUNK - 40).await.expect("the rest of the second chunk");
        draw(&node, source, CHUNK).await.expect("the prefetched chunk");
        draw(&node, source, 1).await.expect_err("nothing is left");

        // A failed prefetch does not prevent later ones.
        disk.plan(|_| Fault::None);
        draw(&node, source, 40).await.expect("granted");
        wait_until_left(&node, 2 * CHUNK - 40).await;
        node.stop().await;
    }
}

/// A strict grant whose commit gets no answer may have been made. A caller that treats the grant as refused leaves a
/// gap.
#[tokio::test]
async fn err_a_strict_grant_of_unknown_outcome_is_unknown() {
    let slow = || Fault::DelayBefore(Box::pin(time::sleep(Duration::from_secs(3))));
    let faults: [(fn() -> Fault, Code); 3] = [
        (|| Fault::Unavailable, Code::Unavailable),
        (|| Fault::AppliedUnknown, Code::Unknown),
        (|| Fault::LostUnknown, Code::Unknown),
    ];
    for (fault, code) in faults {
        let disk = MemoryStore::new(StoreId::new([3; 16]));
        let node = start(&disk, FixedClock).await;
        make_strict(&node).await;
        disk.plan(move |operation| match operation {
            Operation::Commit(_) => fault(),
            _ => Fault::None,
        });
        assert_eq!(draw(&node, "region:r", 1).await.expect_err("the store does not answer").code(), code);
    }
    let disk = MemoryStore::new(StoreId::new([3; 16]));
    let node = start(&disk, SystemClock::new()).await;
    make_strict(&node).await;
    disk.plan(move |operation| match operation {
        Operation::Commit(_) => slow(),
        _ => Fault::None,
    });
    let refused = draw(&node, "region:r", 1).await.expect_err("the commit takes longer than a grant waits");
    assert_eq!(refused.code(), Code::Unknown, "{refused}");
}

/// During the wait after a restore, every source refuses immediately, and the status shows the same reason.
#[tokio::test]
async fn err_the_wait_after_a_restore_is_one_reason_for_all_sources() {
    let second = |ahead: i128| FixedClock.wall().offset(ahead * 1_000_000_000);
    for (ends, wait) in [
        (vec![second(0)], None),
        (vec![second(-1)], None),
        (vec![second(1)], Some("2027-01-15T08:00:01Z")),
        (vec![second(3600), second(-2)], Some("2027-01-15T09:00:00Z")),
        (vec![second(-2), second(3600)], Some("2027-01-15T09:00:00Z")),
    ] {
        let disk = MemoryStore::new(StoreId::new([3; 16]));
        let node = start(&disk, FixedClock).await;
        make_strict(&node).await;
        create(&node, "plain").await;
        // Create the counters before the restore. A series without a counter would count as having used its pace until
        // the restore, and would grant nothing while this clock stands still.
        for source in ["region:r", "region:plain", "serial:GBP"] {
            draw(&node, source, 1).await.expect("granted");
        }
        node.stop().await;
        let lapse = |until| Lapse { since: second(-9), until };
        let restores: Vec<_> =
            ends.iter().map(|until| Restored { lapse: lapse(*until), tables_edited: false }).collect();
        // A restore reserves every slot until the end of the wait.
        let reserved = ends.iter().max().expect("one").ceil_seconds();
        let mut txn = Txn::new().put(keys::RESTORES, stored::encode_restores(&restores));
        if wait.is_some() {
            for slot in Slot::all() {
                let record = SlotRecord {
                    node: Node48::for_slot(7, slot),
                    clock_seq: ClockSeq::from_random(7),
                    epoch: SlotEpoch::new(3),
                    holder: HolderId::new([7; 16]),
                    reserved_until: reserved,
                    seen: reserved,
                };
                txn = txn.put(keys::slot(slot), stored::encode_slot(&record));
            }
        }
        disk.reopen().commit(txn).await.expect("committed");
        let node = restart(&disk, FixedClock).await;
        // Nothing is granted until the keeper has read the slots and checked the clock.
        wait_until(async || status(&node).await.reasons.iter().all(|reason| !reason.contains("no slot"))).await;
        for source in ["uuidv7", "region:r", "region:plain", "serial:GBP"] {
            match (draw(&node, source, 1).await, wait) {
                (Ok(()), None) => {}
                (Err(refused), Some(wait)) => {
                    let expected = format!("the store was restored, and nothing is issued before {wait}, because");
                    assert!(refused.message().starts_with(&expected), "{source}: {refused}");
                    assert_eq!(refused.code(), Code::Unavailable);
                }
                (drawn, _) => panic!("{source} {ends:?}: {drawn:?}"),
            }
        }
        let said = status(&node).await.reasons.join("\n");
        assert!(wait.is_none_or(|wait| said.contains(&format!("nothing is issued before {wait}"))), "{said}");
        assert_eq!(said.is_empty(), wait.is_none(), "{said}");
        node.stop().await;
    }
}

async fn make_strict(node: &Node) {
    let policy = Some(Policy { strict: true, ..Policy::default() });
    let name = "spaces/default/regions/r".to_owned();
    let update = UpdateRegionRequest { name, policy, ..UpdateRegionRequest::default() };
    node.regions().update_region(Request::new(update)).await.expect("strict");
}
