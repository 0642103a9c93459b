//! Tests of lost replies from etcd, and of errors that do not show whether a commit was made.

use std::collections::BTreeSet;
use std::time::Duration;

use kent_store::{Change, CommitError, EtcdStore, Store, Txn, Version};
use kent_test_etcd::{Etcd, Proxy};
use tokio::time::timeout;

use super::etcd::{A, PREFIX, etcdctl, key, next, open, options, put};

/// Returns a proxy for a single member, and the address of the store through it.
fn proxied(etcd: &Etcd) -> (Proxy, String) {
    let proxy = Proxy::to(etcd.clients()[0]);
    let address = format!("etcd://{}/kent", proxy.address());
    (proxy, address)
}

#[tokio::test]
async fn err_a_commit_with_a_lost_reply_is_unknown_and_not_repeated() {
    let etcd = Etcd::start(1);
    let (proxy, address) = proxied(&etcd);
    let (store, direct) = (open(&address).await, open(&etcd.address("kent")).await);
    let version = put(&store, A, b"0").await;
    // If the transactions were sent again, the first would conflict with itself, and the second would be made twice.
    for (lost, txn) in [(1, Txn::new().expect(A, version).put(A, [1])), (2, Txn::new().put(A, [2]))] {
        // Restore the lost connection.
        put(&store, key(0), b"another").await;
        proxy.lose_answer_after(0);
        let answer = store.commit(txn).await;
        assert_eq!(proxy.lost(), lost, "the reply was lost: {answer:?}");
        assert!(matches!(answer, Err(CommitError::Unknown(_))), "{answer:?}");
        let found = direct.get(&A).await.expect("read").expect("there");
        assert_eq!(u32::from(found.value[0]), lost, "the commit was made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_commit_refused_for_lack_of_space_is_unknown() {
    let etcd = Etcd::start_with(1, &["--quota-backend-bytes", "4000000"]);
    let store = std::sync::Arc::new(open(&etcd.address("kent")).await);
    let (mut made_nevertheless, mut refused) = (0, 0);
    // etcd checks its size ten times per second, so a whole round can succeed.
    for round in 0..10 {
        let mut commits = tokio::task::JoinSet::new();
        for number in (0..200).map(|number| 10 * (200 * round + number)) {
            let store = store.clone();
            commits.spawn(async move {
                let large = (0..6).fold(Txn::new().expect(key(number), Version::ABSENT), |txn, at| {
                    txn.put(key(number + at), vec![1; 16 * 1024])
                });
                (number, store.commit(large).await)
            });
        }
        while let Some(committed) = commits.join_next().await {
            let (number, answer) = committed.expect("no panic");
            let is_there = store.get(&key(number)).await.expect("reads succeed").is_some();
            match answer {
                Ok(_) => assert!(is_there, "{number}"),
                // On a busy machine, etcd may reply too late.
                Err(CommitError::Unknown(error)) if !error.to_string().contains("space exceeded") => {
                    assert!(error.to_string().contains("no reply in time"), "{error}");
                }
                Err(error) => {
                    assert!(error.to_string().contains("space exceeded"), "{error}");
                    assert!(!error.has_no_side_effects() || !is_there, "{number} was made, but its reply was: {error}");
                    made_nevertheless += u32::from(is_there);
                    refused += 1;
                }
            }
        }
        if refused > 0 {
            break;
        }
    }
    println!("{refused} refused for lack of space, {made_nevertheless} of them made");
    assert!(refused > 0, "the quota was too large for this test");
    // A new store cannot be created.
    let other = timeout(Duration::from_secs(30), EtcdStore::open(options(&etcd.address("other")))).await;
    assert!(other.expect("a reply").is_err());
    // The store recovers when the operator frees space.
    let client = etcd.clients()[0].to_string();
    let mut newest = Version::ABSENT;
    for (name, _) in store.scan(&PREFIX).await.expect("read") {
        // etcd still accepts deletions.
        newest = store.commit(Txn::new().delete(name)).await.expect("deleted").version;
    }
    for words in [format!("compact {newest}"), "defrag".to_owned(), "alarm disarm".to_owned()] {
        etcdctl(&client, &words);
    }
    put(&store, A, b"1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_watch_that_breaks_off_while_it_catches_up_misses_nothing() {
    // etcd sends up to 1000 revisions in one response, whose header has the newest revision.
    const CHANGES: u32 = 1800;
    let etcd = Etcd::start(1);
    let (proxy, address) = proxied(&etcd);
    let (store, direct) = (open(&address).await, std::sync::Arc::new(open(&etcd.address("kent")).await));
    let mut watch = store.peers().expect("etcd has peers").watch(&PREFIX).await.expect("begun");
    put(&store, key(CHANGES), b"first").await;
    assert!(matches!(next(&mut watch).await, Change::Put(found, _) if found == key(CHANGES)));
    proxy.cut();
    let mut writing = tokio::task::JoinSet::new();
    for writer in 0..30 {
        let direct = direct.clone();
        writing.spawn(async move {
            for number in (writer..CHANGES).step_by(30) {
                direct.commit(Txn::new().put(key(number), vec![0; 1024])).await.expect("committed");
            }
        });
    }
    writing.join_all().await;
    // Cut the connection in the middle of the second response.
    proxy.cut_after(1_300_000);
    let mut seen = BTreeSet::new();
    while seen.len() < CHANGES as usize {
        match timeout(Duration::from_secs(20), watch.next()).await {
            Ok(Change::Put(found, _)) => drop(seen.insert(found)),
            other => panic!("{} of {CHANGES} changes, then {other:?}", seen.len()),
        }
    }
    assert_eq!(proxy.lost(), 1, "the watch lost its connection");
}
