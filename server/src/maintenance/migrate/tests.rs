use std::future::pending;

use futures_util::FutureExt;
use kent_ids::ClusterKey;
use kent_proto::stored::{self, Counter};
use kent_regions::Count;
use kent_store::{Fault, MemoryStore, Operation, StoreId};

use super::*;

const NOW: UnixNanos = UnixNanos::new(1_800_000_000 * 1_000_000_000);
const COUNTER: Counter = Counter { reserved: Count::Below(500), paid: NOW, unsure: false };

fn empty(id: u8) -> MemoryStore {
    MemoryStore::new(StoreId::new([id; 16]))
}

fn counter_key() -> Key {
    keys::series(&"serial:AB".parse().expect("a series"))
}

/// A whole store with one counter.
async fn whole(id: u8) -> MemoryStore {
    let store = empty(id);
    let txn = Txn::new().put(keys::CLUSTER, stored::encode_cluster(&ClusterKey::new([id; 16])));
    store.commit(txn.put(counter_key(), stored::encode_counter(&COUNTER))).await.expect("committed");
    store
}

async fn planned(source: &MemoryStore, target: &MemoryStore, to: &str) -> Result<Migration, MigrateError> {
    let (source, target) = (Arc::new(source.reopen()), Arc::new(target.reopen()));
    Migration::plan_between(source, target, to.to_owned(), NOW, Arc::new(SystemEntropy)).await
}

async fn moved(source: &MemoryStore, target: &MemoryStore, to: &str) -> Result<(), MigrateError> {
    planned(source, target, to).await?.make(|_, _| {}).await
}

async fn value(store: &MemoryStore, key: &Key) -> Option<Vec<u8>> {
    store.reopen().get(key).await.expect("read").map(|read| read.value)
}

/// Marks the target and gets no further: a move that is broken off.
async fn broken_off(source: &MemoryStore, target: &MemoryStore) {
    let migration = planned(source, target, "new").await.expect("planned");
    let mut marks = 0;
    target.plan(move |operation| {
        marks += usize::from(matches!(operation, Operation::Commit(_)));
        if marks > 1 { Fault::DelayBefore(Box::pin(pending())) } else { Fault::None }
    });
    assert!(migration.make(|_, _| {}).now_or_never().is_none(), "no answer");
    target.plan(|_| Fault::None);
}

#[tokio::test]
async fn ok_a_store_is_moved_once_and_nothing_is_skipped() {
    let (source, target) = (whole(1).await, empty(2));
    moved(&source, &target, "new").await.expect("moved");
    let counter = value(&target, &counter_key()).await.expect("there");
    assert_eq!(stored::decode_counter(&counter), Ok(COUNTER));
    assert_eq!(value(&target, &keys::CLUSTER).await, value(&source, &keys::CLUSTER).await);
    assert_eq!((value(&target, &keys::MOVED).await, value(&target, &keys::RESTORING).await), (None, None));
    assert_eq!(value(&source, &keys::MOVED).await, Some(b"new".to_vec()));
    let again = moved(&source, &target, "new").await.expect_err("a store is there");
    assert!(matches!(again, MigrateError::NotEmpty { ref to } if to == "new"), "{again}");
    for (target, to) in [(&empty(2), "new"), (&empty(3), "other")] {
        let again = moved(&source, target, to).await.expect_err("moved before");
        assert!(matches!(again, MigrateError::MovedBefore { ref to, .. } if to == "new"), "{again}");
        assert!(target.reopen().scan(&Key::ROOT).await.expect("read").is_empty());
    }
}

#[tokio::test]
async fn ok_a_move_that_broke_off_is_gone_on_with() {
    let (source, target) = (whole(1).await, empty(2));
    broken_off(&source, &target).await;
    assert_eq!(value(&source, &keys::MOVED).await, Some(b"new".to_vec()));
    assert_eq!(value(&target, &keys::CLUSTER).await, None);
    let other = moved(&whole(4).await, &target, "new").await.expect_err("another store's");
    assert!(matches!(other, MigrateError::NotEmpty { .. }), "{other}");
    moved(&source, &target, "new").await.expect("gone on with");
    assert_eq!(value(&target, &keys::CLUSTER).await, value(&source, &keys::CLUSTER).await);
}

#[tokio::test]
async fn err_what_was_marked_and_then_removed_is_not_begun_anew() {
    let (source, target) = (whole(1).await, empty(2));
    broken_off(&source, &target).await;
    let migration = planned(&source, &target, "new").await.expect("begun");
    target.reopen().commit(Txn::new().delete(keys::RESTORING)).await.expect("removed");
    let refused = migration.make(|_, _| {}).await.expect_err("what was there is gone");
    assert!(matches!(refused, MigrateError::MovedBefore { .. }), "{refused}");
}

#[tokio::test]
async fn err_only_a_whole_store_is_moved_and_only_to_where_nothing_is() {
    let half = whole(1).await;
    half.reopen().commit(Txn::new().put(keys::RESTORING, [1])).await.expect("committed");
    for source in [empty(1), half] {
        let refused = planned(&source, &empty(2), "new").await.expect_err("not whole");
        assert!(matches!(refused, MigrateError::NotWhole { .. }), "{refused}");
    }
    let (source, target) = (whole(1).await, empty(2));
    let migration = planned(&source, &target, "new").await.expect("planned");
    let refused = moved(&source, &whole(3).await, "new").await.expect_err("a store is there");
    assert!(matches!(refused, MigrateError::NotEmpty { .. }), "{refused}");
    // Another one comes between the plan and the move.
    target.reopen().commit(Txn::new().put(keys::CLUSTER, [1])).await.expect("committed");
    let refused = migration.make(|_, _| {}).await.expect_err("a store is there");
    assert!(matches!(refused, MigrateError::NotEmpty { .. }), "{refused}");
    assert_eq!(value(&source, &keys::MOVED).await, None, "it can be moved elsewhere");
}

#[test]
fn err_only_a_directory_is_moved() {
    assert_eq!(parse_from("sled:/a/b"), Ok(PathBuf::from("/a/b")));
    for text in ["sled:", "/a/b", "etcd://a"] {
        assert!(parse_from(text).is_err(), "{text}");
    }
}

#[tokio::test]
async fn err_a_directory_that_is_not_there_is_not_made() {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: MigrateArgs,
    }
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("missing");
    let from = format!("sled:{}", missing.display());
    let line = ["migrate", "--from", &from, "--to", "etcd://127.0.0.1:1/kent"];
    let args = <Line as clap::Parser>::try_parse_from(line).expect("arguments").args;
    let refused = Migration::plan(&args).await.expect_err("no store");
    assert!(matches!(refused, MigrateError::NoSource { .. }), "{refused}");
    assert!(!missing.exists());
}
