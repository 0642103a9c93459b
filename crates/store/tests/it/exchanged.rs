//! Tests of stores whose etcd cluster is replaced or rolled back to an earlier state while they use it.

use std::time::Duration;

use kent_store::{Change, CommitError, EtcdStore, Exchanged, Key, ReadError, Store, Txn, Unavailable};
use kent_test_etcd::Etcd;
use tokio::time::{sleep, timeout};

use super::etcd::{A, PREFIX, key, next, open, put};

const ME: Key = Key::from_static("p/me");
const TTL: Duration = Duration::from_secs(60);

/// Waits for the next reply from etcd, which must show that etcd was replaced.
async fn found(store: &EtcdStore) -> Exchanged {
    for _ in 0..200 {
        match store.get(&A).await {
            Err(ReadError::Unavailable(Unavailable::Exchanged(found))) => return found,
            // The connection was lost.
            Err(ReadError::Unavailable(_)) => sleep(Duration::from_millis(50)).await,
            other => panic!("{other:?}"),
        }
    }
    panic!("etcd does not recover");
}

/// Checks that every operation fails once etcd is known to have been replaced.
async fn check_refused(store: &EtcdStore, expected: &Exchanged) {
    let committed = store.commit(Txn::new().put(A, b"more")).await;
    assert!(
        matches!(&committed, Err(CommitError::Unavailable(Unavailable::Exchanged(found))) if found == expected),
        "{committed:?}"
    );
    assert!(committed.is_err_and(|error| !error.is_retryable()));
    let peers = store.peers().expect("etcd has peers");
    assert!(matches!(peers.announce(&ME, Vec::new(), TTL).await, Err(Unavailable::Exchanged(_))));
    assert!(peers.watch(&PREFIX).await.is_err());
    assert_eq!(timeout(Duration::from_secs(5), peers.exchanged()).await.as_ref(), Ok(expected));
}

#[tokio::test]
async fn err_a_snapshot_restored_as_another_cluster() {
    let mut etcd = Etcd::start(3);
    let store = open(&etcd.address("kent")).await;
    put(&store, A, b"1").await;
    let snapshot = etcd.save_snapshot();
    etcd.restore_snapshot(&snapshot, "another");
    let found = found(&store).await;
    assert!(matches!(found, Exchanged::Cluster { expected, found } if expected != found), "{found}");
    check_refused(&store, &found).await;
}

#[tokio::test]
async fn err_a_snapshot_restored_as_the_same_cluster_has_a_lower_revision() {
    let mut etcd = Etcd::start(1);
    let store = open(&etcd.address("kent")).await;
    let before = put(&store, A, b"1").await;
    let snapshot = etcd.save_snapshot();
    let after = put(&store, A, b"2").await;
    etcd.restore_snapshot(&snapshot, "etcd-cluster");
    let found = found(&store).await;
    let revisions = (i64::try_from(after.get()), i64::try_from(before.get()));
    assert_eq!(found, Exchanged::SetBack { expected: revisions.0.expect("small"), found: revisions.1.expect("small") });
    check_refused(&store, &found).await;
}

#[tokio::test]
async fn err_old_data_of_a_member_are_noticed_by_writers_and_watchers() {
    let mut etcd = Etcd::start(1);
    let (writer, listener) = (open(&etcd.address("kent")).await, open(&etcd.address("kent")).await);
    let copy = etcd.copy_data(0);
    let mut watch = listener.peers().expect("etcd has peers").watch(&PREFIX).await.expect("begun");
    put(&writer, key(1), b"1").await;
    put(&writer, key(2), b"2").await;
    while !matches!(next(&mut watch).await, Change::Put(changed, _) if changed == key(2)) {}
    etcd.put_back_data(0, &copy);
    // The reply to the first commit shows that etcd was rolled back, but the rolled-back etcd has made the commit.
    let committed = listener.commit(Txn::new().put(A, b"1")).await;
    assert!(matches!(committed, Err(CommitError::Unknown(_) | CommitError::Unavailable(_))), "{committed:?}");
    for store in [&listener, &writer] {
        let found = found(store).await;
        assert!(matches!(found, Exchanged::SetBack { .. }), "{found}");
        check_refused(store, &found).await;
    }
}

#[tokio::test]
async fn err_an_etcd_that_was_set_back_and_has_newer_writes_lacks_a_write() {
    let mut etcd = Etcd::start(1);
    let store = open(&etcd.address("kent")).await;
    let peers = store.peers().expect("etcd has peers");
    put(&store, A, b"1").await;
    peers.announce(&ME, b"1".to_vec(), TTL).await.expect("announced");
    let copy = etcd.copy_data(0);
    put(&store, A, b"2").await;
    etcd.put_back_data(0, &copy);
    // This store represents another process, which has not seen the earlier state.
    let other = open(&etcd.address("kent")).await;
    for _ in 0..5 {
        put(&other, key(1), b"1").await;
    }
    let mut announced = peers.announce(&ME, b"2".to_vec(), TTL).await;
    for _ in 0..200 {
        match announced {
            Err(Unavailable::Backend(_)) => sleep(Duration::from_millis(50)).await,
            _ => break,
        }
        announced = peers.announce(&ME, b"2".to_vec(), TTL).await;
    }
    let Err(Unavailable::Exchanged(found)) = announced else { panic!("{announced:?}") };
    assert!(matches!(found, Exchanged::Forgotten { .. }), "{found}");
    check_refused(&store, &found).await;
    // Processes that have seen only the new state continue.
    put(&other, A, b"3").await;
    other.peers().expect("etcd has peers").announce(&key(9), Vec::new(), TTL).await.expect("announced");
}
