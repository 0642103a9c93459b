//! An attack of a hostile review on edits. The test is ignored: it shows a finding, and fails on the present code.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use kent_proto::v1::{
    AllocateRequest, CreateRegionRequest, Uint128, UpdateRegionRequest, allocate_response::Identifiers,
    allocator_server::Allocator, regions_server::Regions,
};
use kent_store::{Fault, MemoryStore, Operation, StoreId};
use tonic::Request;

use crate::{
    Config, Environment, Node, Settings,
    host::{clock::SystemClock, entropy::Entropy},
    records::keys,
};

/// A generator of random bits whose state the test sets, as a clone of the machine copies it.
#[derive(Debug)]
struct Copied(AtomicU64);

impl Entropy for Copied {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            let state = self.0.fetch_add(1, SeqCst).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *byte = (state >> 56) as u8; // OK because 8 bits are left
        }
    }
}

async fn start(disk: &MemoryStore, entropy: &Arc<Copied>) -> Node {
    let config = Config::check(Settings::default()).expect("valid");
    let (store, clock, entropy) = (Arc::new(disk.reopen()), Arc::new(SystemClock::new()), entropy.clone());
    let node = Node::start(Environment { store, clock, entropy }, &config).await.expect("it starts");
    node.engine().slots().wait_for_slot(Duration::from_secs(5)).await;
    node
}

fn update() -> UpdateRegionRequest {
    UpdateRegionRequest { name: "spaces/default/regions/r".to_owned(), ..UpdateRegionRequest::default() }
}

/// A replica's machine is cloned. The clone has the same state of the random generator, so its next edit has the same identity as
/// the next edit of the original. The original edits first. The commit of the clone's edit is lost without an answer.
#[tokio::test]
#[ignore = "finding 9"]
async fn err_an_edit_of_a_clone_that_was_lost_is_not_reported_as_made() {
    let disk = MemoryStore::new(StoreId::new([3; 16]));
    let [original, clone] = [1, 1_000_000].map(|seed| Arc::new(Copied(AtomicU64::new(seed))));
    let (one, other) = (start(&disk, &original).await, start(&disk, &clone).await);
    let create = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "r".to_owned(),
        suffix_bits: 32,
        ..CreateRegionRequest::default()
    };
    one.regions().create_region(Request::new(create)).await.expect("created");
    for entropy in [&original, &clone] {
        entropy.0.store(7000, SeqCst);
    }
    let described = UpdateRegionRequest { description: Some("by the original".to_owned()), ..update() };
    one.regions().update_region(Request::new(described)).await.expect("made");
    let is_lost = Arc::new(AtomicBool::new(false));
    let lost = is_lost.clone();
    disk.plan(move |operation| match operation {
        Operation::Commit(txn) if txn.writes().iter().any(|(key, _)| *key == keys::space("default")) => {
            lost.store(true, SeqCst);
            Fault::LostUnknown
        }
        _ => Fault::None,
    });
    let declared = UpdateRegionRequest { next: Some(Uint128 { high: 0, low: 5000 }), ..update() };
    let answer = other.regions().update_region(Request::new(declared)).await;
    assert!(is_lost.load(SeqCst), "its commit was lost");
    if answer.is_ok() {
        let request = AllocateRequest { source: "region:r".to_owned(), count: 1, ..Default::default() };
        let granted = other.allocator().allocate(Request::new(request)).await.expect("granted").into_inner();
        let Some(Identifiers::Lease(lease)) = granted.identifiers else { panic!("expected a lease") };
        let first = lease.first.expect("a number").low;
        assert!(first >= 5000, "the clone said that all numbers below 5000 are in use, and {first} was issued");
    }
}
