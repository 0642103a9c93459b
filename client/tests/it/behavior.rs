//! The guarantees of a client.

use std::{collections::HashSet, time::Duration};

use kent_client::{Builder, Client, Error, Handle, Identifier, proto::AllocateRequest};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use uuid::Uuid;

use super::daemon::{Answer, Daemon, Script};

fn builder(daemon: &Daemon) -> Builder {
    Client::builder().endpoint(daemon.endpoint()).block_size(10).block_size_max(10)
}

/// Waits until at least `count` identifiers are prefetched.
async fn until_in_hand(handle: &kent_client::Handle<Uuid>, count: u64) {
    while handle.in_hand() < count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn ok_clones_and_tasks_never_get_the_same_identifier() {
    let daemon = Daemon::start(Script::new()).await;
    let handle = builder(&daemon).build().expect("valid").uuid_v7();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let handle = handle.clone();
            tokio::runtime::Handle::current().spawn(async move {
                let mut ids = Vec::new();
                for _ in 0..100 {
                    ids.push(handle.next().await.expect("granted"));
                }
                ids.extend(handle.take(50).await.expect("granted"));
                ids
            })
        })
        .collect();
    let mut seen = HashSet::new();
    for task in tasks {
        for id in task.await.expect("the task does not panic") {
            // The random tail would hide a position that was returned twice.
            assert!(seen.insert(id.as_u128() >> 46), "{id} was returned twice");
        }
    }
    assert_eq!(seen.len(), 8 * 150);
    assert_eq!(handle.stats().identifiers, 8 * 150);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ok_busy_threads_share_a_handle_and_none_starves() {
    const THREADS: usize = 8;
    const EACH: usize = 20_000;
    let daemon = Daemon::start(Script::new()).await;
    let handle = Client::builder().endpoint(daemon.endpoint()).block_size(64).block_size_max(64);
    let handle = handle.build().expect("valid").uuid_v7();
    let runtime = tokio::runtime::Handle::current();
    let hurry = |handle: kent_client::Handle<Uuid>| {
        let runtime = runtime.clone();
        move || {
            let (_inside, mut ids) = (runtime.enter(), Vec::new());
            while ids.len() < EACH {
                match handle.try_next() {
                    // The random tail would hide a position that was returned twice.
                    Some(id) => ids.push(id.as_u128() >> 46),
                    None => std::thread::yield_now(),
                }
            }
            ids
        }
    };
    let threads: Vec<_> = (0..THREADS).map(|_| runtime.spawn_blocking(hurry(handle.clone()))).collect();
    let mut seen = HashSet::new();
    for thread in threads {
        let ids = tokio::time::timeout(Duration::from_secs(60), thread)
            .await
            .expect("the thread ends")
            .expect("the thread does not panic");
        assert!(ids.is_sorted(), "the identifiers of one thread ascend");
        seen.extend(ids);
    }
    assert_eq!(seen.len(), THREADS * EACH);
    assert_eq!(handle.stats().identifiers, (THREADS * EACH) as u64);
}

#[tokio::test]
async fn ok_the_next_block_is_prefetched() {
    let daemon = Daemon::start(Script::new()).await;
    let handle = builder(&daemon).build().expect("valid").uuid_v7();
    handle.next().await.expect("granted");
    // Nine of ten identifiers are left. When five are left, the handle fetches the next block.
    for _ in 0..4 {
        assert!(handle.try_next().is_some());
    }
    until_in_hand(&handle, 15).await;
    assert_eq!(daemon.script.counts.lock().expect("not poisoned").len(), 2, "one fetch at a time");
}

#[tokio::test]
async fn ok_prefetched_identifiers_outlast_a_restart() {
    let script = Script::new();
    let daemon = Daemon::start(script.clone()).await;
    let address = daemon.address;
    let handle = builder(&daemon).low_water(0.0).build().expect("valid").uuid_v7();
    handle.next().await.expect("granted");
    daemon.stop().await;
    for _ in 0..8 {
        handle.next().await.expect("prefetched");
    }
    let daemon = Daemon::start_on(script, address).await;
    for _ in 0..50 {
        handle.next().await.expect("from the new daemon");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn ok_another_endpoint_is_used_when_the_preferred_one_fails() {
    let gone = Daemon::start(Script::new()).await;
    let endpoint = gone.endpoint();
    gone.stop().await;
    let daemon = Daemon::start(Script::new()).await;
    let client = Client::builder().endpoint(endpoint).endpoint(daemon.endpoint()).build().expect("valid");
    client.uuid_v7().next().await.expect("from the second endpoint");
}

#[tokio::test]
async fn err_no_daemon_is_unavailable() {
    let client = Client::builder().endpoint("http://127.0.0.1:1").request_timeout(Duration::from_millis(100));
    let error = client.build().expect("valid").uuid_v7().next().await.expect_err("no daemon");
    assert!(matches!(error, Error::Unavailable { .. }) && error.is_retryable(), "{error}");
}

#[tokio::test]
async fn err_a_refusal_is_returned_with_its_reason_and_not_retried() {
    let daemon = Daemon::start(Script::new()).await;
    let details =
        ErrorDetails::with_error_info("CAPACITY_EXHAUSTED", "kent", [("capacity".to_owned(), "8".to_owned())]);
    let full = Status::with_error_details(Code::ResourceExhausted, "region \"r\" is full", details);
    daemon.script.push(Answer::Refuse(full));
    let handle = builder(&daemon).build().expect("valid").region("r");
    let error = handle.next().await.expect_err("full");
    assert!(matches!(&error, Error::Refused { reason, .. } if reason == "CAPACITY_EXHAUSTED"), "{error}");
    assert!(!error.is_retryable());
    assert_eq!(daemon.script.counts.lock().expect("not poisoned").len(), 1);
}

#[tokio::test]
async fn ok_an_heir_is_followed_only_on_request_and_never_with_a_request_id() {
    let daemon = Daemon::start(Script::new()).await;
    let close = || {
        let details =
            ErrorDetails::with_error_info("CLOSED", "kent", [("heir".to_owned(), "region:heir@parts".to_owned())]);
        let closed = Status::with_error_details(Code::FailedPrecondition, "region \"r\" is closed", details);
        daemon.script.push(Answer::Refuse(closed));
    };
    let [stays, follows] = [false, true].map(|follow| builder(&daemon).follow_heirs(follow).build().expect("valid"));
    close();
    let error = stays.region("r").next().await.expect_err("closed");
    assert_eq!(error.heir().as_deref(), Some("region:heir@parts"));
    close();
    follows.region("r").next().await.expect("from the heir");
    close();
    follows.region("r").fetch_block(3).await.expect("from the heir");
    close();
    follows.region("r").fetch_block(3).request_id("once").await.expect_err("its heir would grant it again");
}

#[tokio::test]
async fn ok_the_client_waits_for_a_limit_of_the_clock() {
    let daemon = Daemon::start(Script::new()).await;
    let mut details = ErrorDetails::new();
    details.set_retry_info(Some(Duration::from_millis(1)));
    for _ in 0..3 {
        let ahead = Status::with_error_details(Code::ResourceExhausted, "ahead of the clock", details.clone());
        daemon.script.push(Answer::Refuse(ahead));
    }
    builder(&daemon).build().expect("valid").uuid_v7().next().await.expect("granted after retries");
}

/// Takes twenty identifiers from blocks of ten that have these fencing tokens. Returns the number of rejected and of
/// accepted blocks.
async fn fenced_and_taken<T: Identifier>(tokens: &[u64], handle: impl Fn(&Client) -> Handle<T>) -> (u64, u64) {
    let daemon = Daemon::start(Script::new()).await;
    tokens.iter().for_each(|token| daemon.script.push(Answer::Token(*token)));
    let handle = handle(&builder(&daemon).low_water(0.0).build().expect("valid"));
    for _ in 0..20 {
        handle.next().await.expect("granted");
    }
    (handle.stats().fenced, handle.stats().blocks)
}

#[tokio::test]
async fn ok_a_block_with_a_lower_epoch_is_rejected() {
    assert_eq!(fenced_and_taken(&[5, 4, 6], Client::uuid_v7).await, (1, 2));
    // The first rejected block must not lower the fence for the second.
    assert_eq!(fenced_and_taken(&[5, 4, 4, 6], Client::uuid_v7).await, (2, 2));
    assert_eq!(fenced_and_taken(&[5, 5], Client::uuid_v7).await, (0, 2));
}

#[tokio::test]
async fn ok_a_block_with_a_lower_revision_is_rejected() {
    assert_eq!(fenced_and_taken(&[5, 4, 6], |client| client.region("orders")).await, (1, 2));
    assert_eq!(fenced_and_taken(&[5, 4, 4, 6], |client| client.region("orders")).await, (2, 2));
    assert_eq!(fenced_and_taken(&[5, 5], |client| client.region("orders")).await, (0, 2));
}

#[tokio::test]
async fn err_a_client_that_has_seen_a_newer_store_does_not_retry_forever() {
    let daemon = Daemon::start(Script::new()).await;
    daemon.script.push(Answer::Token(9));
    (0..1000).for_each(|_| daemon.script.push(Answer::Token(8)));
    let client = builder(&daemon).low_water(0.0).build().expect("valid");
    let (handle, other) = (client.region("orders"), client.region("orders"));
    handle.take(10).await.expect("granted");
    let (next, taken) = tokio::join!(handle.next(), other.take(10));
    for error in [next.expect_err("fenced"), taken.expect_err("fenced")] {
        assert!(matches!(error, Error::Fenced { .. }) && error.is_retryable(), "{error}");
    }
}

#[tokio::test]
async fn ok_take_rejects_a_block_with_a_lower_revision() {
    let daemon = Daemon::start(Script::new()).await;
    [5, 4, 4, 6].into_iter().for_each(|token| daemon.script.push(Answer::Token(token)));
    let handle = builder(&daemon).low_water(0.0).build().expect("valid").region("orders");
    let first = handle.take(10).await.expect("granted");
    let second = handle.take(10).await.expect("granted");
    // The blocks have ten identifiers each, and the client rejects the second and the third block.
    assert!(second.iter().all(|id| *id >= first[0] + 30), "{first:?} {second:?}");
}

#[tokio::test]
async fn ok_handles_of_a_client_share_fences_for_each_space() {
    let daemon = Daemon::start(Script::new()).await;
    [5, 3, 4, 6].into_iter().for_each(|token| daemon.script.push(Answer::Token(token)));
    let client = builder(&daemon).low_water(0.0).build().expect("valid");
    client.region("orders").next().await.expect("granted");
    let other = client.region("orders@shop");
    other.next().await.expect("a region of the same number in another space");
    let again = client.region("orders");
    again.next().await.expect("granted after retries");
    assert_eq!((other.stats().fenced, again.stats().fenced), (0, 1));
}

#[tokio::test]
async fn ok_old_time_based_identifiers_are_discarded() {
    let daemon = Daemon::start(Script::new()).await;
    let client = builder(&daemon).max_age(Duration::from_nanos(1)).build().expect("valid");
    let handle = client.uuid_v7();
    // Every fetched identifier is older than a nanosecond when it can be taken.
    assert!(handle.try_next().is_none());
    until_in_hand(&handle, 10).await;
    assert!(handle.try_next().is_none());
    assert_eq!(handle.stats().expired, 10);
}

#[tokio::test]
async fn ok_dropping_the_last_clone_aborts_the_fetch() {
    let daemon = Daemon::start(Script::new()).await;
    daemon.script.push(Answer::Blocked);
    let handle = builder(&daemon).build().expect("valid").uuid_v7();
    assert!(handle.try_next().is_none());
    drop(handle);
    daemon.script.gate.add_permits(1);
    builder(&daemon).build().expect("valid").uuid_v7().next().await.expect("the daemon is free");
}

#[test]
fn err_outside_a_runtime_nothing_is_fetched() {
    let client = Client::new("http://127.0.0.1:1").expect("valid");
    assert!(client.uuid_v7().try_next().is_none());
}

#[tokio::test]
async fn ok_a_fetched_block_does_not_use_the_stock() {
    let daemon = Daemon::start(Script::new()).await;
    let handle = builder(&daemon).build().expect("valid").region("orders");
    let block = handle.fetch_block(1000).await.expect("granted");
    assert_eq!((block.count(), handle.in_hand(), handle.stats().identifiers), (1000, 0, 1000));
    let ids = block.into_iter();
    assert_eq!(ids.len(), 1000);
    assert_eq!(ids.collect::<Vec<_>>(), ((1 << 60)..(1 << 60) + 1000).collect::<Vec<u128>>());
    assert_eq!(*daemon.script.request_ids.lock().expect("not poisoned"), [""]);
}

#[tokio::test]
async fn ok_every_attempt_has_the_same_request_id() {
    let daemon = Daemon::start(Script::new()).await;
    daemon.script.push(Answer::Refuse(Status::unavailable("away for a moment")));
    daemon.script.push(Answer::Refuse(Status::unknown("the answer was lost")));
    let handle = builder(&daemon).build().expect("valid").region("orders");
    handle.fetch_block(3).request_id("order-1").await.expect("granted after retries");
    assert_eq!(*daemon.script.request_ids.lock().expect("not poisoned"), ["order-1"; 3]);
}

#[tokio::test]
async fn ok_a_lower_revision_is_accepted_with_a_request_id() {
    let daemon = Daemon::start(Script::new()).await;
    [5, 4, 4, 6].into_iter().for_each(|token| daemon.script.push(Answer::Token(token)));
    let handle = builder(&daemon).build().expect("valid").region("orders");
    handle.fetch_block(10).await.expect("granted");
    handle.fetch_block(10).request_id("order-1").await.expect("as it was granted before");
    assert_eq!(handle.stats().fenced, 0);
    let first = handle.fetch_block(10).await.expect("granted").into_iter().next();
    assert_eq!((first, handle.stats().fenced), (Some((1 << 60) + 30), 1));
}

#[tokio::test]
async fn err_a_block_of_another_kind_or_size_is_unusable() {
    let daemon = Daemon::start(Script::new()).await;
    daemon.script.push(Answer::TooMany);
    let handle = builder(&daemon).build().expect("valid").uuid_v7();
    assert!(matches!(handle.fetch_block(3).await, Err(Error::Unusable { .. })));
    handle.fetch_block(3).await.expect("granted");
}

#[tokio::test]
async fn ok_a_client_connects_to_the_first_reachable_endpoint() {
    let (gone, here) = (Daemon::start(Script::new()).await, Daemon::start(Script::new()).await);
    let endpoint = gone.endpoint();
    gone.stop().await;
    let client = Client::builder().endpoint(&endpoint).endpoint(here.endpoint()).build().expect("valid");
    let daemon = client.connect().await.expect("the second one");
    let ask = AllocateRequest { source: "uuidv7".to_owned(), count: 1, ..AllocateRequest::default() };
    daemon.allocator().allocate(ask).await.expect("granted");
    daemon.leave();
    // Each connection tries the first endpoint again before the second.
    client.connect().await.expect("the second one");
    here.stop().await;
    let error = client.connect().await.expect_err("no daemon");
    let Error::Unavailable { tried, .. } = &error else { panic!("{error}") };
    assert!(tried.len() == 2 && tried.iter().all(kent_client::Tried::is_unreachable), "{error}");
    assert!(error.to_string().contains(&endpoint), "{error}");
}

#[tokio::test]
async fn ok_a_call_is_retried_until_it_succeeds() {
    let daemon = Daemon::start(Script::new()).await;
    daemon.script.push(Answer::Refuse(Status::unavailable("away for a moment")));
    let client = builder(&daemon).build().expect("valid");
    let ask = AllocateRequest { source: "uuidv7".to_owned(), count: 1, ..AllocateRequest::default() };
    client.retry(async |daemon| daemon.allocator().allocate(ask.clone()).await).await.expect("granted after retries");
    assert_eq!(daemon.script.counts.lock().expect("not poisoned").len(), 2);
    daemon.script.push(Answer::Refuse(Status::with_error_details(
        Code::InvalidArgument,
        "count: too many",
        ErrorDetails::with_bad_request_violation("count", "too many"),
    )));
    let refused = client.retry(async |daemon| daemon.allocator().allocate(ask.clone()).await).await;
    assert!(matches!(refused, Err(Error::Refused { field, .. }) if field == "count"));
}

#[tokio::test]
async fn ok_a_token_is_sent_with_each_call_and_read_again_when_it_is_not_accepted() {
    let daemon = Daemon::start(Script::new()).await;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    std::fs::write(&file, "kent_a_1\n").expect("written");
    let client = builder(&daemon).token_file(&file).build().expect("valid");
    client.uuid_v7().fetch_block(1).await.expect("granted");
    std::fs::write(&file, "kent_a_2\n").expect("written");
    // The client has checked the file less than a second ago, so only the refusal makes it check again.
    daemon.script.push(Answer::Refuse(Status::unauthenticated("revoked")));
    client.uuid_v7().fetch_block(1).await.expect("granted with the new token");
    daemon.script.push(Answer::Refuse(Status::unauthenticated("revoked")));
    let refused = client.uuid_v7().fetch_block(1).await.expect_err("the file has no other token");
    assert!(matches!(refused, Error::Refused { code: Code::Unauthenticated, .. }), "{refused}");
    let bearer = |token: &str| format!("Bearer kent_a_{token}");
    assert_eq!(*daemon.script.tokens.lock().expect("whole"), ["1", "1", "2", "2"].map(bearer));
}

#[tokio::test]
async fn ok_a_client_without_a_token_sends_none() {
    let daemon = Daemon::start(Script::new()).await;
    builder(&daemon).build().expect("valid").uuid_v7().fetch_block(1).await.expect("granted");
    assert_eq!(*daemon.script.tokens.lock().expect("whole"), [""]);
}
