//! Tests of strict grants on a store in memory.

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use kent_ids::{ClusterKey, Stride, UnixNanos};
use kent_issue::{Chunk, ClockPolicy, RequestPolicy, TrustPolicy};
use kent_proto::stored::Counter;
use kent_regions::{Pace, RegionNumber};
use kent_store::{Fault, MemoryStore, Operation, StoreId};

use super::*;
use crate::{
    budgets::Charge,
    host::{Environment, clock::Clock, entropy::SystemEntropy},
    issuing::{queue::Queue, slots::Slots},
    records::keys,
};

const NOW: UnixNanos = UnixNanos::new(1_800_000_000 * 1_000_000_000);
/// Version 7 UUIDs with the time `NOW`: the first 48 bits are milliseconds.
const DATED: [&str; 2] = ["01a3185c-5000-7000-8000-000000000001", "01a3185c-5000-7000-8000-000000000002"];

/// A clock that stands still.
#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn wall(&self) -> UnixNanos {
        NOW
    }

    fn steady(&self) -> Duration {
        Duration::from_secs(10)
    }
}

/// A store with a region of 100 numbers.
struct Region {
    store: Arc<MemoryStore>,
    cell: Cell,
    pacing: Arc<Pacing>,
    requests: Arc<Requests>,
    record: Record,
}

impl Region {
    /// Creates a region that keeps at most two undated request IDs.
    async fn at(counter: Counter, pace: u64) -> Self {
        let store = Arc::new(MemoryStore::new(StoreId::new([1; 16])));
        let environment =
            Environment { store: store.clone(), clock: Arc::new(FixedClock), entropy: Arc::new(SystemEntropy) };
        let key = ClusterKey::new([2; 16]);
        let slots = Arc::new(Slots::new(
            environment,
            ClockPolicy::default(),
            TrustPolicy::default(),
            (key, Version::ABSENT),
            None,
        ));
        slots.accept_clock();
        let region = keys::region("default", 1);
        let txn = Txn::new().put(region.clone(), [1]);
        let txn = txn.put(keys::counter("default", 1), stored::encode_counter(&counter));
        let version = store.commit(txn).await.expect("committed").version;
        let policy = RequestPolicy { undated_max: 2, ..RequestPolicy::default() };
        let requests = Requests::load(&*store, policy, slots.clone()).await.expect("read");
        let pacing = Arc::new(Pacing::new(Arc::new(FixedClock), slots, Vec::new()));
        let record = Record {
            key: keys::counter("default", 1),
            guards: vec![(region, version)],
            first: Position::ZERO,
            capacity: Position::new(100),
            pace: Pace::per_second(NonZeroU64::new(pace).expect("a pace")),
            stride: Stride::EVERY,
            is_of_table: true,
        };
        Self { store, cell: Cell::new(Chunk::default()), pacing, requests, record }
    }

    /// Creates a new region with a pace that no test reaches.
    async fn new() -> Self {
        Self::at(Counter::NEW, 1 << 20).await
    }

    async fn attempt(&self, requests: &[QueuedRequest], last: Option<StrictState>) -> Attempted {
        let checks = (&*self.pacing, &*self.requests);
        let attempted = grant(&*self.store, (&self.cell, &self.record), checks, requests, (last, None), 5).await;
        attempted.expect("the store answers")
    }

    async fn counter(&self) -> Counter {
        let read = self.store.get(&self.record.key).await.expect("read").expect("there");
        stored::decode_counter(&read.value).expect("a counter")
    }

    async fn undated(&self) -> u64 {
        let requested = keys::RequestScope { space: "default", number: Some(RegionNumber(1)) };
        requests::read_undated(&*self.store, &requested.count()).await.expect("read").value
    }
}

/// A request with a request ID, in the region with this number.
fn named(count: u64, request_id: &str, number: u64) -> QueuedRequest {
    named_by("", count, request_id, number)
}

/// Like `named`, but with a caller.
fn named_by(caller: &str, count: u64, request_id: &str, number: u64) -> QueuedRequest {
    let requested = keys::RequestScope { space: "default", number: Some(RegionNumber(number)) };
    QueuedRequest {
        count: NonZeroU64::new(count).expect("some"),
        request: Request::new(request_id, requested, caller),
        charge: Charge::default(),
    }
}

fn request(count: u64) -> QueuedRequest {
    named(count, "", 1)
}

/// Describes the outcome of each request.
fn describe(attempted: &Attempted) -> Vec<String> {
    let one = |granted: &Granted| match granted {
        Granted::From(first) => format!("from {}", first.get()),
        Granted::Before(run) => format!("before from {}", run.first.get()),
        Granted::Refused(StrictRefusal::Full { issued }) => format!("full {}", issued.get()),
        Granted::Refused(StrictRefusal::TooFast(_)) => "too fast".to_owned(),
        Granted::Refused(StrictRefusal::Unsure) => "unsure".to_owned(),
        Granted::Refused(StrictRefusal::Reused { count }) => format!("reused {count}"),
        Granted::Refused(StrictRefusal::OthersId) => "of another caller".to_owned(),
        Granted::Refused(StrictRefusal::Request(_)) => "refused".to_owned(),
        Granted::Again => "again".to_owned(),
        Granted::Failed(_) => "failed".to_owned(),
    };
    attempted.granted.iter().map(one).collect()
}

#[tokio::test]
async fn ok_grants_of_one_commit_follow_each_other_and_are_durable() {
    let region = Region::new().await;
    let requests = [request(3), request(4), request(94), request(93), request(1)];
    let first = region.attempt(&requests, None).await;
    assert_eq!(describe(&first), ["from 0", "from 3", "full 7", "from 7", "full 100"]);
    assert_eq!((first.count, first.conflict.is_none()), (100, true));
    let left = first.left.expect("a commit");
    assert_eq!((left.counter.value.below, region.counter().await.reserved), (Position::new(100), Count::Below(100)));
    let none = region.attempt(&[request(1)], None).await;
    assert_eq!((describe(&none), none.count, none.left.is_none()), (vec!["full 100".to_owned()], 0, true));
}

#[tokio::test]
async fn ok_the_state_after_the_last_commit_replaces_a_read_and_is_checked() {
    let region = Region::new().await;
    let first = region.attempt(&[named(3, "a", 1)], None).await.left.expect("a commit");
    let second = region.attempt(&[named(4, "b", 1), request(98)], Some(first)).await;
    assert_eq!(describe(&second), ["from 3", "again"], "only a read of the store shows that the region is full");
    assert_eq!((region.counter().await.reserved, region.undated().await), (Count::Below(7), 2));
    // The state after the first commit is out of date.
    let third = region.attempt(&[request(1), request(1)], Some(first)).await;
    assert_eq!((describe(&third), third.conflict), (vec!["again".to_owned(); 2], Some(region.record.key.clone())));
    assert_eq!((third.left.is_none(), region.counter().await.reserved), (true, Count::Below(7)));
    let third = region.attempt(&[named(1, "c", 1), request(2)], second.left).await;
    assert_eq!(describe(&third), ["refused", "from 7"], "only two request_ids are kept");
    let fourth = region.attempt(&[request(1)], third.left).await;
    assert_eq!(describe(&fourth), ["from 9"]);
    assert_eq!(fourth.left.and_then(|left| left.undated).map(|undated| undated.value), Some(2));
}

#[tokio::test]
async fn ok_an_edit_of_the_region_is_a_conflict() {
    let region = Region::new().await;
    let edited = keys::region("default", 1);
    region.store.commit(Txn::new().put(edited.clone(), [2])).await.expect("committed");
    let attempted = region.attempt(&[request(1)], None).await;
    assert_eq!((describe(&attempted), attempted.conflict), (vec!["again".to_owned()], Some(edited)));
    assert_eq!(region.counter().await, Counter::NEW);
}

#[tokio::test]
async fn ok_a_request_id_is_granted_once_in_each_region() {
    for id in ["a", DATED[0]] {
        let region = Region::new().await;
        let twice = region.attempt(&[named(2, id, 1), named(2, id, 1), named(5, id, 2)], None).await;
        assert_eq!(describe(&twice), ["from 0", "again", "from 2"], "{id}");
        let again = region.attempt(&[request(1), named(2, id, 1), named(9, id, 2), request(1)], twice.left).await;
        assert_eq!(describe(&again), ["from 7", "before from 0", "reused 5", "from 8"], "{id}");
    }
}

#[tokio::test]
async fn ok_undated_request_ids_are_limited() {
    let region = Region::new().await;
    let requests = [named(1, "a", 1), named(1, DATED[0], 1), named(1, "b", 1), named(1, "c", 1), named(1, DATED[1], 1)];
    let attempted = region.attempt(&requests, None).await;
    assert_eq!(describe(&attempted), ["from 0", "from 1", "from 2", "refused", "from 3"]);
    assert_eq!((region.undated().await, attempted.count), (2, 4));
    assert_eq!(attempted.left.and_then(|left| left.undated).map(|undated| undated.value), Some(2));
}

#[tokio::test]
async fn ok_a_grant_under_a_dated_request_id_compares_the_floor() {
    let region = Region::new().await;
    let raised = stored::encode_forgotten_requests(NOW.offset(-1));
    region.store.commit(Txn::new().put(keys::FORGOTTEN, raised)).await.expect("committed");
    let dated = region.attempt(&[named(1, DATED[0], 1)], None).await;
    assert_eq!((describe(&dated), dated.conflict), (vec!["again".to_owned()], Some(keys::FORGOTTEN)));
    let others = region.attempt(&[request(1), named(1, "a", 1)], None).await;
    assert_eq!(describe(&others), ["from 0", "from 1"]);
    region.requests.refresh_floor(&*region.store).await.expect("read");
    assert_eq!(describe(&region.attempt(&[named(1, DATED[0], 1)], None).await), ["from 2"]);
}

#[tokio::test]
async fn ok_only_dated_request_ids_below_the_floor_are_forgotten() {
    let region = Region::new().await;
    // One millisecond before `NOW`.
    let before = "01a3185c-4fff-7000-8000-000000000000";
    let requests = [named(1, before, 1), named(2, DATED[0], 1)];
    assert_eq!(describe(&region.attempt(&requests, None).await), ["from 0", "from 1"]);
    for (floor, expected, is_all) in [
        (NOW.offset(-1_000_000), ["before from 0", "before from 1"], false),
        (NOW, ["refused", "before from 1"], false),
        (NOW.offset(1_000_000), ["refused", "refused"], true),
    ] {
        let raised = stored::encode_forgotten_requests(floor);
        region.store.commit(Txn::new().put(keys::FORGOTTEN, raised)).await.expect("committed");
        assert_eq!(region.requests.forget(&*region.store).await.ok(), Some(is_all), "{floor:?}");
        assert_eq!(describe(&region.attempt(&requests, None).await), expected, "{floor:?}");
    }
    assert_eq!(region.requests.forget(&*region.store).await.ok(), Some(false), "nothing is left");
}

#[tokio::test]
async fn ok_grants_respect_the_pace() {
    // A burst may use what the pace allows in 1024 seconds.
    let mut region = Region::at(Counter::NEW, 1).await;
    region.record.capacity = Position::new(10_000);
    let attempted = region.attempt(&[request(1000), request(25), request(24), request(1)], None).await;
    assert_eq!(describe(&attempted), ["from 0", "too fast", "from 1000", "too fast"]);
    assert_eq!(describe(&region.attempt(&[request(1)], attempted.left).await), ["too fast"]);
}

#[tokio::test]
async fn ok_a_counter_of_unknown_position_grants_nothing() {
    let region = Region::at(Counter { unsure: true, ..Counter::NEW }, 1 << 20).await;
    let attempted = region.attempt(&[request(1), named(1, "a", 1)], None).await;
    assert_eq!((describe(&attempted), attempted.left.is_none()), (vec!["unsure".to_owned(); 2], true));
}

#[tokio::test]
async fn ok_a_commit_with_unknown_outcome_fails_its_grants() {
    for is_made in [false, true] {
        let region = Region::new().await;
        region.attempt(&[named(2, "a", 1)], None).await;
        region.store.plan(move |operation| match operation {
            Operation::Commit(_) if is_made => Fault::AppliedUnknown,
            Operation::Commit(_) => Fault::LostUnknown,
            _ => Fault::None,
        });
        let requests = [named(2, "a", 1), request(3), request(99)];
        let attempted = region.attempt(&requests, None).await;
        assert_eq!(describe(&attempted), ["before from 0", "failed", "full 5"]);
        assert_eq!((attempted.count, attempted.left.is_none(), attempted.conflict), (0, true, None));
        assert_eq!(region.counter().await.reserved, Count::Below(if is_made { 5 } else { 2 }));
    }
}

#[tokio::test]
async fn ok_the_state_after_a_commit_is_taken_once() {
    let region = Region::new().await;
    let left = region.attempt(&[request(3)], None).await.left.expect("a commit");
    let mut queue = Queue::default();
    assert!(queue.take_last().is_none());
    queue.set_last(left);
    assert_eq!(queue.take_last().map(|last| last.counter), Some(left.counter));
    assert!(queue.take_last().is_none());
}

/// Without this rule, two services that number their requests 1, 2, 3 would get the same identifiers.
#[tokio::test]
async fn err_a_request_id_belongs_to_the_caller_who_used_it_first() {
    let region = Region::new().await;
    for id in ["1", DATED[0]] {
        // The rule also holds for two requests in one commit: the second one is attempted again.
        let together = [named_by("token:a", 3, id, 1), named_by("token:b", 3, id, 1)];
        let first = describe(&region.attempt(&together, None).await);
        assert!(first[0].starts_with("from") && first[1] == "again", "{first:?}");
        let again = describe(&region.attempt(&together, None).await);
        assert_eq!(again, [format!("before {}", first[0]), "of another caller".to_owned()]);
        // The refusal does not reveal the number of identifiers, either.
        let other = describe(&region.attempt(&[named_by("", 4, id, 1), named_by("token:b", 5, id, 1)], None).await);
        assert_eq!(other, ["of another caller", "of another caller"]);
    }
}
