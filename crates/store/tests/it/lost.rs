//! Answers of etcd that get lost, or say less than they seem to.

use std::collections::BTreeSet;
use std::time::Duration;

use kent_store::{Change, CommitError, EtcdStore, Store, Txn, Version};
use kent_test_etcd::{Etcd, Proxy};
use tokio::time::timeout;

use super::etcd::{A, PREFIX, etcdctl, key, next, open, options, put};

/// A proxy in front of a single member, and the store's address through it.
fn proxied(etcd: &Etcd) -> (Proxy, String) {
    let proxy = Proxy::to(etcd.clients()[0]);
    let address = format!("etcd://{}/kent", proxy.address());
    (proxy, address)
}

#[tokio::test]
async fn err_a_commit_whose_answer_is_lost_is_unknown_and_is_not_sent_again() {
    let etcd = Etcd::start(1);
    let (proxy, address) = proxied(&etcd);
    let (store, direct) = (open(&address).await, open(&etcd.address("kent")).await);
    let version = put(&store, A, b"0").await;
    // Sent again, the first would meet itself and be a conflict, which promises that nothing was changed; the second would be
    // made twice.
    for (lost, txn) in [(1, Txn::new().expect(A, version).put(A, [1])), (2, Txn::new().put(A, [2]))] {
        // A connection that was lost is made anew.
        put(&store, key(0), b"another").await;
        proxy.lose_answer_after(0);
        let answer = store.commit(txn).await;
        assert_eq!(proxy.lost(), lost, "the answer was lost: {answer:?}");
        assert!(matches!(answer, Err(CommitError::Unknown(_))), "{answer:?}");
        let found = direct.get(&A).await.expect("read").expect("there");
        assert_eq!(u32::from(found.value[0]), lost, "it was made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_what_is_refused_for_lack_of_space_and_may_be_made_is_unknown() {
    let etcd = Etcd::start_with(1, &["--quota-backend-bytes", "4000000"]);
    let store = std::sync::Arc::new(open(&etcd.address("kent")).await);
    let (mut made_all_the_same, mut refused) = (0, 0);
    // etcd looks at its size ten times a second, so a quick round may pass as a whole.
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
            let is_there = store.get(&key(number)).await.expect("reads go on").is_some();
            match answer {
                Ok(_) => assert!(is_there, "{number}"),
                Err(error) => {
                    assert!(error.to_string().contains("space exceeded"), "{error}");
                    assert!(
                        !error.has_no_side_effects() || !is_there,
                        "{number} was made, and its answer was: {error}"
                    );
                    made_all_the_same += u32::from(is_there);
                    refused += 1;
                }
            }
        }
        if refused > 0 {
            break;
        }
    }
    println!("{refused} refused for lack of space, {made_all_the_same} of them made");
    assert!(refused > 0, "the quota was too large to show anything");
    // A new store cannot be made, and says so.
    let other = timeout(Duration::from_secs(30), EtcdStore::open(options(&etcd.address("other")))).await;
    assert!(other.expect("an answer").is_err());
    // It heals when the operator makes space.
    let client = etcd.clients()[0].to_string();
    let mut newest = Version::ABSENT;
    for (name, _) in store.scan(&PREFIX).await.expect("read") {
        // Deletions are let through.
        newest = store.commit(Txn::new().delete(name)).await.expect("deleted").version;
    }
    for words in [format!("compact {newest}"), "defrag".to_owned(), "alarm disarm".to_owned()] {
        etcdctl(&client, &words);
    }
    put(&store, A, b"1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_watch_that_breaks_off_while_it_catches_up_tells_of_everything() {
    // etcd tells of up to 1000 revisions at a time, in an answer whose header is at the newest one.
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
    // In the middle of the second answer.
    proxy.cut_after(1_300_000);
    let mut told = BTreeSet::new();
    while told.len() < CHANGES as usize {
        match timeout(Duration::from_secs(20), watch.next()).await {
            Ok(Change::Put(found, _)) => drop(told.insert(found)),
            other => panic!("{} of {CHANGES} changes, then {other:?}", told.len()),
        }
    }
    assert_eq!(proxy.lost(), 1, "the watch broke off");
}
