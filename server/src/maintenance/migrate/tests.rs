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

/// A complete store with one counter.
async fn complete(id: u8) -> MemoryStore {
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

/// Marks the target and stops there, like an interrupted migration.
async fn interrupt(source: &MemoryStore, target: &MemoryStore) {
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
async fn ok_a_store_is_migrated_once_and_nothing_is_skipped() {
    let (source, target) = (complete(1).await, empty(2));
    moved(&source, &target, "new").await.expect("moved");
    let counter = value(&target, &counter_key()).await.expect("there");
    assert_eq!(stored::decode_counter(&counter), Ok(COUNTER));
    assert_eq!(value(&target, &keys::CLUSTER).await, value(&source, &keys::CLUSTER).await);
    assert_eq!((value(&target, &keys::MOVED).await, value(&target, &keys::RESTORING).await), (None, None));
    assert_eq!(value(&source, &keys::MOVED).await, Some(b"new".to_vec()));
    let again = moved(&source, &target, "new").await.expect_err("moved before");
    assert!(matches!(again, MigrateError::MovedBefore { ref to, .. } if to == "new"), "{again}");
    for (target, to) in [(&empty(2), "new"), (&empty(3), "other")] {
        let again = moved(&source, target, to).await.expect_err("moved before");
        assert!(matches!(again, MigrateError::MovedBefore { ref to, .. } if to == "new"), "{again}");
        assert!(target.reopen().scan(&Key::ROOT).await.expect("read").is_empty());
    }
}

#[tokio::test]
async fn ok_an_interrupted_migration_is_continued() {
    let (source, target) = (complete(1).await, empty(2));
    interrupt(&source, &target).await;
    assert_eq!(value(&source, &keys::MOVED).await, Some(b"new".to_vec()));
    assert_eq!(value(&target, &keys::CLUSTER).await, None);
    let other = moved(&complete(4).await, &target, "new").await.expect_err("another store's");
    assert!(matches!(other, MigrateError::NotEmpty { .. }), "{other}");
    moved(&source, &target, "new").await.expect("continued");
    assert_eq!(value(&target, &keys::CLUSTER).await, value(&source, &keys::CLUSTER).await);
}

/// The first commit of an interrupted migration arrives while the next attempt looks at the target.
#[tokio::test]
async fn ok_a_mark_that_arrives_late_is_taken_over() {
    let (source, target, other) = (complete(1).await, empty(2), empty(3));
    interrupt(&complete(1).await, &other).await;
    let mark = value(&other, &keys::RESTORING).await.expect("marked");
    let (late, mut is_first) = (target.reopen(), true);
    target.plan(move |operation| match operation {
        Operation::Scan(_) if std::mem::take(&mut is_first) => {
            let (late, mark) = (late.reopen(), mark.clone());
            Fault::DelayBefore(Box::pin(async move {
                late.commit(Txn::new().put(keys::RESTORING, mark)).await.expect("committed");
            }))
        }
        _ => Fault::None,
    });
    moved(&source, &target, "new").await.expect("continued");
    assert_eq!(value(&target, &keys::CLUSTER).await, value(&source, &keys::CLUSTER).await);
}

#[tokio::test]
async fn err_a_migration_into_a_store_that_was_removed_is_not_restarted() {
    let (source, target) = (complete(1).await, empty(2));
    interrupt(&source, &target).await;
    let migration = planned(&source, &target, "new").await.expect("begun");
    target.reopen().commit(Txn::new().delete(keys::RESTORING)).await.expect("removed");
    let refused = migration.make(|_, _| {}).await.expect_err("the store was removed");
    assert!(matches!(refused, MigrateError::MovedBefore { .. }), "{refused}");
}

#[tokio::test]
async fn err_only_a_complete_store_is_migrated_and_only_to_an_empty_prefix() {
    let half = complete(1).await;
    half.reopen().commit(Txn::new().put(keys::RESTORING, [1])).await.expect("committed");
    for source in [empty(1), half] {
        let refused = planned(&source, &empty(2), "new").await.expect_err("not complete");
        assert!(matches!(refused, MigrateError::NotWhole { .. }), "{refused}");
    }
    let (source, target) = (complete(1).await, empty(2));
    let migration = planned(&source, &target, "new").await.expect("planned");
    let refused = moved(&source, &complete(3).await, "new").await.expect_err("a store exists");
    assert!(matches!(refused, MigrateError::NotEmpty { .. }), "{refused}");
    // Another store appears between the plan and the migration.
    target.reopen().commit(Txn::new().put(keys::CLUSTER, [1])).await.expect("committed");
    let refused = migration.make(|_, _| {}).await.expect_err("a store exists");
    assert!(matches!(refused, MigrateError::NotEmpty { .. }), "{refused}");
    assert_eq!(value(&source, &keys::MOVED).await, None, "the store can be moved elsewhere");
}

#[test]
fn err_only_a_directory_is_migrated() {
    assert_eq!(parse_from("sled:/a/b"), Ok(PathBuf::from("/a/b")));
    for text in ["sled:", "/a/b", "etcd://a"] {
        assert!(parse_from(text).is_err(), "{text}");
    }
}

#[tokio::test]
async fn err_a_missing_directory_is_not_created() {
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
