//! Chunks are prefetched for regions and series, and the unknown outcome of a strict grant is reported as unknown.

use std::{sync::Arc, time::Duration};

use kent_ids::UnixNanos;
use kent_proto::v1::{
    AllocateRequest, CreateRegionRequest, GetStatusRequest, Policy, UpdateRegionRequest, admin_server::Admin,
    allocator_server::Allocator, regions_server::Regions,
};
use kent_store::{Fault, MemoryStore, Operation, StoreId};
use tokio::time;
use tonic::{Code, Request, Status};

use crate::{
    Config, Environment, Node, Settings,
    host::{
        clock::{Clock, SystemClock},
        entropy::SystemEntropy,
    },
};

const CHUNK: u64 = 64;

/// A clock that stands still, so that a chunk is used up in zero time.
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

async fn start(disk: &MemoryStore, clock: impl Clock) -> Node {
    let settings = Settings { chunk_min: Some(CHUNK), chunk_max: Some(CHUNK), ..Settings::default() };
    let config = Config::check(settings).expect("valid");
    let (store, clock, entropy) = (Arc::new(disk.reopen()), Arc::new(clock), Arc::new(SystemEntropy));
    let node = Node::start(Environment { store, clock, entropy }, &config).await.expect("it starts");
    let create = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "r".to_owned(),
        suffix_bits: Some(32),
        ..CreateRegionRequest::default()
    };
    node.regions().create_region(Request::new(create)).await.expect("created");
    node
}

async fn draw(node: &Node, source: &str, count: u64) -> Result<(), Status> {
    let request = AllocateRequest { source: source.to_owned(), count, ..AllocateRequest::default() };
    node.allocator().allocate(Request::new(request)).await.map(drop)
}

/// Waits until the daemon's chunk of one source has this many numbers left.
async fn wait_until_left(node: &Node, count: u64) {
    for _ in 0..1000 {
        let status = node.admin().get_status(Request::new(GetStatusRequest {})).await.expect("answered").into_inner();
        if status.chunks.iter().any(|chunk| chunk.left == count.to_string()) {
            return;
        }
        time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the chunk never has {count} numbers left");
}

#[tokio::test]
async fn ok_the_next_chunk_is_reserved_before_the_present_one_is_used_up() {
    for source in ["region:r", "uid11-fullrand", "serial:GBP"] {
        let disk = MemoryStore::new(StoreId::new([3; 16]));
        let node = start(&disk, FixedClock).await;
        draw(&node, source, CHUNK).await.expect("the first chunk");
        draw(&node, source, 40).await.expect("more than half of the second one");
        wait_until_left(&node, 2 * CHUNK - 40).await;

        // The store stops answering: grants continue until the prefetched chunk is used up.
        disk.plan(|operation| match operation {
            Operation::Commit(_) => Fault::Unavailable,
            _ => Fault::None,
        });
        draw(&node, source, CHUNK - 40).await.expect("the rest of the second chunk");
        draw(&node, source, CHUNK).await.expect("the chunk that was reserved ahead");
        draw(&node, source, 1).await.expect_err("nothing is left");

        // A failed prefetch does not prevent later ones.
        disk.plan(|_| Fault::None);
        draw(&node, source, 40).await.expect("granted");
        wait_until_left(&node, 2 * CHUNK - 40).await;
        node.stop().await;
    }
}

/// A strict grant whose commit is not answered may have been made. A caller that believes it was refused leaves a gap.
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
        assert_eq!(draw(&node, "region:r", 1).await.expect_err("no answer of the store").code(), code);
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

async fn make_strict(node: &Node) {
    let policy = Some(Policy { strict: true, ..Policy::default() });
    let name = "spaces/default/regions/r".to_owned();
    let update = UpdateRegionRequest { name, policy, ..UpdateRegionRequest::default() };
    node.regions().update_region(Request::new(update)).await.expect("strict");
}
