//! Tests of the store's directory: restarts, kills, and errors when a store is opened.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kent_store::{Key, OpenError, SledOptions, SledStore, Store, StoreId, Txn, Version};

const COUNTER: Key = Key::from_static("counter");
/// The environment variable with the directory of the child process.
const CHILD_DIR: &str = "KENT_STORE_TEST_CHILD_DIR";

fn open(dir: &Path) -> Result<SledStore, OpenError> {
    open_as(dir, [7; 16])
}

fn open_as(dir: &Path, new_id: [u8; 16]) -> Result<SledStore, OpenError> {
    SledStore::open(SledOptions { dir: dir.to_owned(), new_id })
}

#[tokio::test]
async fn reopening_keeps_everything() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    for round in 0..300_u32 {
        let key = Key::new(format!("key/{}", round % 100)).unwrap();
        store.commit(Txn::new().put(key, round.to_be_bytes()).put(COUNTER, round.to_be_bytes())).await.unwrap();
    }
    let before = store.scan(&Key::ROOT).await.unwrap();
    store.close().await;
    let store = open(dir.path()).unwrap();
    assert_eq!(store.scan(&Key::ROOT).await.unwrap(), before);
    let version = store.commit(Txn::new().delete(COUNTER)).await.unwrap().version;
    assert!(before.iter().all(|(_, versioned)| versioned.version < version));
    drop(store);
    let store = open(dir.path()).unwrap();
    assert_eq!(store.scan(&Key::ROOT).await.unwrap().len(), 100);
    let again = store.commit(Txn::new().expect(COUNTER, Version::ABSENT).put(COUNTER, [])).await.unwrap().version;
    assert!(again > version);
}

/// Checks that no lock remains, neither ours nor sled's.
#[tokio::test]
async fn a_closed_store_can_be_opened_immediately() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20_u64 {
        let store = open(dir.path()).unwrap();
        let before = store.get(&COUNTER).await.unwrap().map_or(Version::ABSENT, |versioned| versioned.version);
        assert_eq!(before, Version::new(round));
        store.commit(Txn::new().expect(COUNTER, before).put(COUNTER, round.to_be_bytes())).await.unwrap();
        if round % 2 == 0 {
            store.close().await;
        }
    }
}

#[tokio::test]
async fn the_identity_is_that_of_the_creation() {
    let dir = tempfile::tempdir().unwrap();
    drop(open_as(dir.path(), [1; 16]).unwrap());
    assert_eq!(open_as(dir.path(), [2; 16]).unwrap().store_id(), StoreId::new([1; 16]));
}

#[test]
fn no_value_becomes_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = open(dir.path()).unwrap();
        // Writes values of the largest size in an order that splits leaves, replaces them, and removes some of them.
        for round in 0..4_u32 {
            for number in 0..80_u32 {
                let key = Key::new(format!("{:0>255}", number * 37 % 80)).unwrap();
                let value = vec![round as u8; kent_store::VALUE_BYTES_MAX];
                let txn = if (number + round) % 3 == 2 { Txn::new().delete(key) } else { Txn::new().put(key, value) };
                store.commit(txn).await.unwrap();
                assert_eq!(fs::read_dir(dir.path().join("blobs")).unwrap().count(), 0);
            }
        }
    });
}

#[test]
fn err_second_open() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(&error, OpenError::InUse { dir: named } if named == dir.path()));
    let expected = format!("another kentd (or tool) uses {}: ", dir.path().display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    drop(first);
    open(dir.path()).unwrap();
}

#[test]
fn err_not_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "text").unwrap();
    assert!(matches!(open(&file), Err(OpenError::NotADirectory { dir }) if dir == file));
    assert!(matches!(open(&file.join("below")), Err(OpenError::Io { .. })));
}

#[test]
fn directories_are_created() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(&dir.path().join("a/b/c")).unwrap());
    assert!(dir.path().join("a/b/c/db").is_file());
}

#[test]
fn err_unreadable_database() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("db")).unwrap();
    assert!(matches!(open(dir.path()), Err(OpenError::Io { path, .. }) if path == dir.path().join("db")));
}

#[test]
fn err_snapshot_with_random_contents() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    drop(open(dir.path()).unwrap());
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let snapshots: Vec<_> = names.filter(|path| path.to_string_lossy().contains("snap.")).collect();
    assert!(!snapshots.is_empty());
    snapshots.iter().for_each(|path| fs::write(path, [0xEE; 64]).unwrap());
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().ends_with("restore it from a backup"), "{error}");
}

/// A child process counts and prints each acknowledged commit, until it is killed at a random point during a commit.
#[tokio::test]
async fn acknowledged_commits_survive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut floor = 0;
    for round in 1..=5 {
        let mut child = spawn_child(dir.path());
        let acknowledged = read_acknowledgements(&mut child, floor + 20 * round);
        let store = open(dir.path()).unwrap();
        let counted = read_counter(&store).await;
        assert!(counted >= acknowledged, "{counted} is stored, but {acknowledged} was acknowledged");
        floor = counted;
    }
}

/// Reads until the count `enough` is acknowledged, kills the child, and reads the rest of its output. Returns the last
/// acknowledged count.
fn read_acknowledgements(child: &mut Child, enough: u64) -> u64 {
    let output = child.stdout.take().unwrap();
    let (mut last, mut killed) = (0, false);
    for line in BufReader::new(output).lines() {
        let Some(acknowledged) = line.unwrap().strip_prefix("acknowledged ").map(|text| text.parse().unwrap()) else {
            continue;
        };
        last = acknowledged;
        if last >= enough && !killed {
            child.kill().unwrap();
            killed = true;
        }
    }
    child.wait().unwrap();
    assert!(killed, "the child was not killed, but ended after {last}");
    last
}

fn spawn_child(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "it::restart::child_that_counts", "--ignored", "--nocapture"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// This is not a test: [`acknowledged_commits_survive_a_kill`] starts it in its own process.
#[tokio::test]
#[ignore = "run by another test, in a process that is killed"]
async fn child_that_counts() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let store = open(Path::new(&dir)).unwrap();
    println!();
    loop {
        let count = read_counter(&store).await + 1;
        store.commit(Txn::new().put(COUNTER, count.to_be_bytes())).await.unwrap();
        println!("acknowledged {count}");
        std::io::stdout().flush().unwrap();
    }
}

async fn read_counter(store: &SledStore) -> u64 {
    let stored = store.get(&COUNTER).await.unwrap();
    stored.map_or(0, |versioned| u64::from_be_bytes(versioned.value.try_into().unwrap()))
}
