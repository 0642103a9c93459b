//! The conformance suite, which runs on every backend.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use kent_store::{
    CommitError, Committed, EtcdOptions, EtcdStore, InvalidTxn, KEY_BYTES_MAX, Key, MemoryStore, PAGE_RECORDS_MAX,
    SCHEMA, SledOptions, SledStore, Store, StoreId, TXN_BYTES_MAX, TXN_OPERATIONS_MAX, Txn, Unavailable,
    VALUE_BYTES_MAX, Version, Versioned,
};
use kent_test_etcd::Etcd;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use tokio::task::JoinSet;

const A: Key = Key::from_static("a");
const B: Key = Key::from_static("b");
const ID: [u8; 16] = *b"sixteen bytes id";

/// A store, and the directory that must outlive it.
struct Fixture {
    store: Arc<dyn Store>,
    _dir: Option<tempfile::TempDir>,
}

fn memory() -> Fixture {
    Fixture { store: Arc::new(MemoryStore::new(StoreId::new(ID))), _dir: None }
}

fn sled() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(SledOptions { dir: dir.path().join("data"), new_id: ID }).unwrap();
    Fixture { store: Arc::new(store), _dir: Some(dir) }
}

async fn etcd() -> Fixture {
    static CLUSTER: OnceLock<Etcd> = OnceLock::new();
    static STORES: AtomicU32 = AtomicU32::new(0);
    // All tests share one cluster, which ends with the process.
    let cluster = CLUSTER.get_or_init(|| Etcd::start(1));
    let address = cluster.address(&format!("store{}", STORES.fetch_add(1, Ordering::Relaxed)));
    let address = address.parse().unwrap();
    let options = EtcdOptions { address, tls: None, credentials: None, new_id: ID, schema: SCHEMA };
    Fixture { store: Arc::new(EtcdStore::open(options).await.unwrap()), _dir: None }
}

macro_rules! conformance {
    ($($name:ident)+) => {
        mod memory_does {
            $(#[tokio::test] async fn $name() { super::$name(&super::memory().store).await })+
        }
        mod etcd_does {
            $(#[tokio::test] async fn $name() { super::$name(&super::etcd().await.store).await })+
        }
        mod sled_does {
            $(#[tokio::test] async fn $name() { super::$name(&super::sled().store).await })+
        }
    };
}

conformance! {
    return_none_for_an_absent_key
    create_once_only
    replace_only_the_expected_version
    report_the_first_conflict_and_change_nothing
    write_all_keys_or_none
    delete_and_never_reuse_a_version
    commit_guards_alone
    commit_nothing
    scan_a_prefix_in_order
    keep_the_longest_keys_and_largest_values
    refuse_what_is_too_large
    lose_no_concurrent_increment
    scan_a_consistent_snapshot
    read_pages_of_one_moment
    behave_like_a_map
    refuse_everything_once_closed
    know_their_identity
}

type S = Arc<dyn Store>;

async fn return_none_for_an_absent_key(store: &S) {
    assert_eq!(store.get(&A).await.unwrap(), None);
    assert_eq!(store.scan(&Key::ROOT).await.unwrap(), []);
}

async fn create_once_only(store: &S) {
    let create = || Txn::new().expect(A, Version::ABSENT).put(A, b"first".to_vec());
    let Committed { version } = store.commit(create()).await.unwrap();
    assert!(version > Version::ABSENT);
    assert_conflict(store.commit(create()).await, &A, Version::ABSENT, version);
    assert_eq!(store.get(&A).await.unwrap(), Some(Versioned { version, value: b"first".to_vec() }));
}

async fn replace_only_the_expected_version(store: &S) {
    let first = put(store, &A, b"first").await;
    let second = store.commit(Txn::new().expect(A, first).put(A, b"second".to_vec())).await.unwrap().version;
    assert!(second > first);
    assert_conflict(store.commit(Txn::new().expect(A, first).put(A, b"third".to_vec())).await, &A, first, second);
    assert_eq!(value(store, &A).await, Some(b"second".to_vec()));
}

async fn report_the_first_conflict_and_change_nothing(store: &S) {
    let a = put(store, &A, b"a").await;
    let b = put(store, &B, b"b").await;
    let before = store.scan(&Key::ROOT).await.unwrap();
    let txn = Txn::new().expect(A, a).expect(B, a).expect(A, b).put(A, b"x".to_vec()).delete(B);
    assert_conflict(store.commit(txn).await, &B, a, b);
    assert_eq!(store.scan(&Key::ROOT).await.unwrap(), before);
    assert_eq!(store.stats().conflicts, 1);
}

async fn write_all_keys_or_none(store: &S) {
    let together = Txn::new().put(A, b"1".to_vec()).put(B, b"2".to_vec());
    let version = store.commit(together).await.unwrap().version;
    for (key, expected) in [(&A, b"1"), (&B, b"2")] {
        assert_eq!(store.get(key).await.unwrap(), Some(Versioned { version, value: expected.to_vec() }));
    }
}

async fn delete_and_never_reuse_a_version(store: &S) {
    let first = put(store, &A, b"same").await;
    let deleted = store.commit(Txn::new().expect(A, first).delete(A)).await.unwrap().version;
    assert_eq!(store.get(&A).await.unwrap(), None);
    assert_conflict(store.commit(Txn::new().expect(A, first).delete(A)).await, &A, first, Version::ABSENT);
    store.commit(Txn::new().delete(A)).await.unwrap();
    let again = put(store, &A, b"same").await;
    assert!(again > deleted && deleted >= first && again > first);
}

async fn commit_guards_alone(store: &S) {
    let a = put(store, &A, b"a").await;
    let held = store.commit(Txn::new().expect(A, a).expect(B, Version::ABSENT)).await.unwrap();
    assert!(held.version >= a);
    assert_conflict(store.commit(Txn::new().expect(B, a)).await, &B, a, Version::ABSENT);
}

async fn commit_nothing(store: &S) {
    store.commit(Txn::new()).await.unwrap();
    assert_eq!(store.scan(&Key::ROOT).await.unwrap(), []);
}

async fn scan_a_prefix_in_order(store: &S) {
    for path in ["slot/10", "slot/2", "slot", "slot/", "slots/1", "slot/07", "sloth", "Slot/1", "slot/ä", "zebra"] {
        put(store, &key(path), path.as_bytes()).await;
    }
    let keys = async |prefix: &Key| -> Vec<String> {
        let found = store.scan(prefix).await.unwrap();
        assert!(found.iter().all(|(key, versioned)| key.as_str().as_bytes() == versioned.value));
        found.into_iter().map(|(key, _)| key.to_string()).collect()
    };
    assert_eq!(keys(&key("slot/")).await, ["slot/", "slot/07", "slot/10", "slot/2", "slot/ä"]);
    assert_eq!(keys(&key("slot/1")).await, ["slot/10"]);
    assert_eq!(keys(&key("slot/3")).await, [""; 0]);
    assert_eq!(keys(&Key::ROOT).await.len(), 10);
}

async fn keep_the_longest_keys_and_largest_values(store: &S) {
    let largest = vec![0xA5; VALUE_BYTES_MAX];
    for number in 0..60 {
        put(store, &key(&format!("{number:0>width$}", width = KEY_BYTES_MAX)), &largest).await;
    }
    let found = store.scan(&Key::ROOT).await.unwrap();
    assert_eq!(found.len(), 60);
    assert!(found.iter().all(|(_, versioned)| versioned.value == largest));
    let each = TXN_BYTES_MAX / TXN_OPERATIONS_MAX - 8;
    let full = (0..TXN_OPERATIONS_MAX)
        .fold(Txn::new(), |txn, number| txn.put(key(&format!("k{number:07}")), vec![number as u8; each]));
    store.commit(full).await.unwrap();
    assert_eq!(store.scan(&key("k")).await.unwrap().len(), TXN_OPERATIONS_MAX);
}

async fn refuse_what_is_too_large(store: &S) {
    let bytes = VALUE_BYTES_MAX + 1;
    let error = store.commit(Txn::new().put(A, vec![0; bytes])).await.unwrap_err();
    assert!(
        matches!(&error, CommitError::Invalid(InvalidTxn::ValueTooLarge { key, bytes: b }) if *key == A && *b == bytes)
    );
    assert!(!error.is_retryable() && error.has_no_side_effects());
    let error = store.commit(Txn::new().put(Key::ROOT, vec![])).await.unwrap_err();
    assert!(matches!(error, CommitError::Invalid(InvalidTxn::RootKey)));
}

async fn lose_no_concurrent_increment(store: &S) {
    const TASKS: u64 = 8;
    const INCREMENTS: u64 = 25;
    put(store, &A, &0_u64.to_be_bytes()).await;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            for _ in 0..INCREMENTS {
                increment(&store).await;
            }
        });
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome.unwrap();
    }
    assert_eq!(value(store, &A).await, Some((TASKS * INCREMENTS).to_be_bytes().to_vec()));
}

async fn increment(store: &S) {
    loop {
        let Versioned { version, value } = store.get(&A).await.unwrap().unwrap();
        let next = u64::from_be_bytes(value.try_into().unwrap()) + 1;
        match store.commit(Txn::new().expect(A, version).put(A, next.to_be_bytes())).await {
            Ok(committed) => return assert!(committed.version > version),
            Err(CommitError::Conflict { expected, actual, .. }) => assert!(expected == version && actual > version),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A writer keeps two keys equal, so no scan may show different values.
async fn scan_a_consistent_snapshot(store: &S) {
    let writer = Arc::clone(store);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        for round in 0..50_u64 {
            let round = round.to_be_bytes();
            writer.commit(Txn::new().put(A, round).put(B, round)).await.unwrap();
        }
    });
    while tasks.try_join_next().is_none() {
        let found = store.scan(&Key::ROOT).await.unwrap();
        assert!(found.windows(2).all(|pair| pair[0].1 == pair[1].1), "{found:?}");
        tokio::task::yield_now().await;
    }
}

/// Checks that writes between two pages are not visible: all pages show the state at the time of the first page.
async fn read_pages_of_one_moment(store: &S) {
    let name = |number: usize| key(&format!("k/{number:04}"));
    let write = async |numbers: &mut dyn Iterator<Item = usize>, value: Option<&[u8]>| {
        let numbers: Vec<usize> = numbers.collect();
        for some in numbers.chunks(TXN_OPERATIONS_MAX) {
            let txn = some.iter().fold(Txn::new(), |txn, number| match value {
                Some(value) => txn.put(name(*number), value),
                None => txn.delete(name(*number)),
            });
            store.commit(txn).await.unwrap();
        }
    };
    // Every fourth key does not exist yet.
    write(&mut (0..2000).filter(|number| number % 4 != 3), Some(b"old")).await;
    put(store, &key("l"), b"outside").await;
    let expected = store.scan(&key("k/")).await.unwrap();
    assert_eq!(expected.len(), 1500);

    let mut other = store.pages(&key("k/")).await.unwrap();
    let mut pages = store.pages(&key("k/")).await.unwrap();
    let mut found = pages.next().await.unwrap().unwrap();
    let mut others = other.next().await.unwrap().unwrap();
    let rounds =
        [(0, Some(&b"new"[..])), (1, None), (3, Some(b"new")), (0, Some(b"newer")), (1, Some(b"new")), (0, None)];
    for (rest, value) in rounds {
        write(&mut (0..2000).filter(|number| number % 4 == rest), value).await;
        let page = pages.next().await.unwrap().unwrap_or_default();
        assert!(page.len() <= PAGE_RECORDS_MAX);
        found.extend(page);
    }
    while let Some(page) = pages.next().await.unwrap() {
        found.extend(page);
    }
    assert!(pages.next().await.unwrap().is_none(), "the read has ended");
    assert!(found == expected);
    drop(pages);
    // A second read continues, and still shows the old records.
    write(&mut (0..2000), Some(b"newest")).await;
    while let Some(page) = other.next().await.unwrap() {
        others.extend(page);
    }
    assert!(others == expected);
    let present = store.scan(&key("k/")).await.unwrap();
    assert!(present.len() == 2000 && present.iter().all(|(_, versioned)| versioned.value == b"newest"));
}

/// Applies random transactions to the store and to a `BTreeMap`, and compares the two.
async fn behave_like_a_map(store: &S) {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut model = BTreeMap::<Key, Versioned>::new();
    let mut last = Version::ABSENT;
    for _ in 0..150 {
        let (guards, writes) = any_txn().new_tree(&mut runner).unwrap().current();
        let txn = build(&model, &guards, &writes);
        let version_of = |key: &Key| model.get(key).map_or(Version::ABSENT, |versioned| versioned.version);
        let conflict = txn.guards().iter().find(|(key, version)| version_of(key) != *version).cloned();
        match (store.commit(txn.clone()).await, conflict) {
            (Ok(committed), None) => {
                let puts = txn.writes().iter().any(|(_, value)| value.is_some());
                assert!(committed.version > last || !puts);
                last = committed.version;
                apply(&mut model, &txn, last);
            }
            (Err(CommitError::Conflict { key, expected, actual }), Some(guard)) => {
                assert_eq!(actual, version_of(&key));
                assert_eq!((key, expected), guard);
            }
            (answer, conflict) => panic!("{answer:?}, the model says {conflict:?}"),
        }
        assert!(store.scan(&Key::ROOT).await.unwrap().into_iter().eq(model.clone()));
    }
}

type Guards = Vec<(u8, bool)>;
type Writes = BTreeMap<u8, Option<Vec<u8>>>;

/// Generates guards and writes of a few keys, so that transactions conflict. On average, one guard in eight is wrong.
fn any_txn() -> impl Strategy<Value = (Guards, Writes)> {
    let guards = prop::collection::vec((0..6_u8, prop::bool::weighted(0.125)), 0..3);
    let writes = prop::collection::btree_map(0..6_u8, prop::option::of(any::<Vec<u8>>()), 0..4);
    (guards, writes)
}

fn build(model: &BTreeMap<Key, Versioned>, guards: &Guards, writes: &Writes) -> Txn {
    let name = |number: &u8| key(&format!("key/{number}"));
    let txn = guards.iter().fold(Txn::new(), |txn, (number, wrong)| {
        let actual = model.get(&name(number)).map_or(0, |versioned| versioned.version.get());
        txn.expect(name(number), Version::new(actual + u64::from(*wrong)))
    });
    writes.iter().fold(txn, |txn, (number, value)| match value {
        Some(value) => txn.put(name(number), value.clone()),
        None => txn.delete(name(number)),
    })
}

fn apply(model: &mut BTreeMap<Key, Versioned>, txn: &Txn, version: Version) {
    for (key, value) in txn.writes() {
        match value {
            Some(value) => model.insert(key.clone(), Versioned { version, value: value.clone() }),
            None => model.remove(key),
        };
    }
}

async fn refuse_everything_once_closed(store: &S) {
    put(store, &A, b"a").await;
    store.close().await;
    store.close().await;
    let error = store.commit(Txn::new().put(A, b"b".to_vec())).await.unwrap_err();
    assert!(matches!(error, CommitError::Unavailable(Unavailable::Closed)));
    assert!(!error.is_retryable() && error.has_no_side_effects());
    assert!(store.get(&A).await.is_err() && store.scan(&A).await.is_err());
}

async fn know_their_identity(store: &S) {
    assert_eq!(store.store_id(), StoreId::new(ID));
    assert_eq!(store.store_id().to_string(), "7369787465656e206279746573206964");
}

fn key(path: &str) -> Key {
    Key::new(path).unwrap()
}

async fn put(store: &S, key: &Key, value: &[u8]) -> Version {
    store.commit(Txn::new().put(key.clone(), value)).await.unwrap().version
}

async fn value(store: &S, key: &Key) -> Option<Vec<u8>> {
    store.get(key).await.unwrap().map(|versioned| versioned.value)
}

#[track_caller]
fn assert_conflict(answer: Result<Committed, CommitError>, key: &Key, expected: Version, actual: Version) {
    match answer {
        Err(CommitError::Conflict { key: k, expected: e, actual: a }) => {
            assert_eq!((&k, e, a), (key, expected, actual));
        }
        other => panic!("expected a conflict on {key}, got {other:?}"),
    }
}
