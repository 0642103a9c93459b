//! Tests of the faults that a store in memory injects.

use kent_store::{CommitError, Fault, Key, MemoryStore, Operation, ReadError, Store, StoreId, Txn, Version};
use tokio::sync::oneshot;

const A: Key = Key::from_static("a");

fn store() -> MemoryStore {
    MemoryStore::new(StoreId::new([0; 16]))
}

fn create() -> Txn {
    Txn::new().expect(A, Version::ABSENT).put(A, b"a".to_vec())
}

#[tokio::test]
async fn contents_survive_a_restart() {
    let store = store();
    let version = store.commit(create()).await.unwrap().version;
    let reopened = store.reopen();
    store.close().await;
    assert_eq!(reopened.get(&A).await.unwrap().unwrap().version, version);
    assert!(store.get(&A).await.is_err());
}

#[tokio::test]
async fn queued_faults_apply_to_commits_in_order() {
    let store = store();
    store.inject(Fault::Unavailable);
    store.inject(Fault::LostUnknown);
    store.inject(Fault::AppliedUnknown);
    let unavailable = store.commit(create()).await.unwrap_err();
    assert!(unavailable.is_retryable() && unavailable.has_no_side_effects(), "{unavailable}");
    assert!(matches!(store.commit(create()).await, Err(CommitError::Unknown(_))));
    assert_eq!(store.get(&A).await.unwrap(), None);
    assert!(matches!(store.commit(create()).await, Err(CommitError::Unknown(_))));
    assert_eq!(store.get(&A).await.unwrap().unwrap().value, b"a");
    assert!(matches!(store.commit(create()).await, Err(CommitError::Conflict { .. })));
}

#[tokio::test]
async fn a_delayed_commit_compares_the_versions_at_its_arrival() {
    let store = store();
    let (release, released) = oneshot::channel::<()>();
    store.inject(Fault::DelayBefore(Box::pin(async { released.await.unwrap() })));
    let (late, ()) = tokio::join!(store.commit(create()), async {
        store.commit(create()).await.unwrap();
        release.send(()).unwrap();
    });
    assert!(matches!(late, Err(CommitError::Conflict { .. })));
}

#[tokio::test]
async fn a_delayed_reply_belongs_to_a_commit_that_happened() {
    let store = store();
    let (release, released) = oneshot::channel::<()>();
    store.inject(Fault::DelayAfter(Box::pin(async { released.await.unwrap() })));
    let (late, ()) = tokio::join!(store.commit(create()), async {
        assert!(matches!(store.commit(create()).await, Err(CommitError::Conflict { .. })));
        release.send(()).unwrap();
    });
    assert_eq!(late.unwrap().version, store.get(&A).await.unwrap().unwrap().version);
}

#[tokio::test]
async fn a_plan_decides_for_each_operation() {
    let store = store();
    store.plan(|operation| match operation {
        Operation::Get(_) => Fault::Unavailable,
        _ => Fault::None,
    });
    store.commit(create()).await.unwrap();
    assert!(matches!(store.get(&A).await, Err(ReadError::Unavailable(_))));
    assert_eq!(store.scan(&A).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_damaged_value_is_named_and_kept() {
    let store = store();
    store.commit(create()).await.unwrap();
    assert!(store.tamper(&A, |sealed| sealed[4] ^= 1));
    assert!(!store.tamper(&Key::from_static("b"), |_| ()));
    assert!(matches!(store.get(&A).await, Err(ReadError::Corrupt(corrupt)) if corrupt.key == A));
    assert!(matches!(store.scan(&Key::ROOT).await, Err(ReadError::Corrupt(corrupt)) if corrupt.key == A));
    let blind = store.commit(Txn::new().put(A, b"over".to_vec())).await;
    assert!(matches!(blind, Err(CommitError::Corrupt(corrupt)) if corrupt.key == A));
}
