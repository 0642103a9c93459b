//! Tests of the embedded store: batches, failing flushes, and damaged and foreign databases.

mod cuts;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc as blocking;

use futures_util::FutureExt;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::archive::WriteAndSync;
use super::error::DiskError;
use super::record::Meta;
use super::*;
use crate::envelope;
use crate::error::Damage;
use crate::txn::{TXN_OPERATIONS_MAX, VALUE_BYTES_MAX, Version};

const A: Key = Key::from_static("a");
const B: Key = Key::from_static("b");

/// The effect of a scripted write of a batch.
enum Step {
    /// The write fails and has no effect.
    Lose,
    /// The write is complete but reports a failure.
    KeepButFail,
    /// The write panics, as sled can.
    Panic,
    /// The write waits until the sender is used or dropped.
    Hold(blocking::Receiver<()>),
}

/// A writer that follows a script, and then works normally.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<VecDeque<Step>>>);

impl Scripted {
    fn next(&self, step: Step) {
        self.0.lock().unwrap().push_back(step);
    }

    fn follow(&self, work: impl FnOnce() -> Result<(), DiskError>) -> Result<(), DiskError> {
        let step = self.0.lock().unwrap().pop_front();
        match step {
            None => work(),
            Some(Step::Hold(held)) => {
                let _released_or_gone = held.recv();
                work()
            }
            Some(Step::Lose) => Err(no_space()),
            Some(Step::KeepButFail) => work().and_then(|()| Err(no_space())),
            Some(Step::Panic) => panic!("an injected panic"),
        }
    }

    /// Holds the next flush until the returned sender is used or dropped.
    fn hold(&self) -> blocking::Sender<()> {
        let (release, held) = blocking::channel();
        self.next(Step::Hold(held));
        release
    }
}

impl Durability for Scripted {
    fn append(&mut self, journal: &File, frame: &[u8], at: u64) -> Result<(), DiskError> {
        self.follow(|| FlushAndSync.append(journal, frame, at))
    }

    fn flush(&mut self, db: &::sled::Db, log: &File) -> Result<(), DiskError> {
        self.follow(|| FlushAndSync.flush(db, log))
    }
}

fn no_space() -> DiskError {
    DiskError::Io(std::io::ErrorKind::StorageFull.into())
}

fn options(dir: &Path) -> SledOptions {
    SledOptions { dir: dir.to_owned(), new_id: [7; 16] }
}

fn scripted() -> (TempDir, Scripted, Arc<SledStore>) {
    let dir = tempfile::tempdir().unwrap();
    let script = Scripted::default();
    let store =
        SledStore::open_with(options(dir.path()), Archiving::None, Box::new(script.clone()), Box::new(WriteAndSync))
            .unwrap();
    (dir, script, Arc::new(store))
}

fn create(key: Key) -> Txn {
    Txn::new().expect(key.clone(), Version::ABSENT).put(key, b"value".to_vec())
}

/// Starts a commit and waits until it is in the queue after `before` other requests.
async fn queue(tasks: &mut JoinSet<Result<Committed, CommitError>>, store: &Arc<SledStore>, txn: Txn, before: usize) {
    let committer = Arc::clone(store);
    tasks.spawn(async move { committer.commit(txn).await });
    let requests = store.requests.as_ref().unwrap();
    while requests.max_capacity() - requests.capacity() != before + 1 {
        tokio::task::yield_now().await;
    }
}

/// Starts a commit and holds its flush, so that all requests until its release share the next batch.
async fn hold_a_flush(
    script: &Scripted,
    store: &Arc<SledStore>,
    tasks: &mut JoinSet<Result<Committed, CommitError>>,
) -> blocking::Sender<()> {
    let release = script.hold();
    let holder = Arc::clone(store);
    tasks.spawn(async move { holder.commit(Txn::new().put(Key::from_static("held"), [])).await });
    while !script.0.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    release
}

#[tokio::test]
async fn there_is_a_mark_while_the_database_is_clean() {
    let (dir, script, store) = scripted();
    let mark = dir.path().join(clean::NAME);
    let read = || fs::read_to_string(&mark).unwrap();
    let fits = || clean::fits(dir.path(), &File::open(dir.path().join("db")).unwrap()).unwrap();
    let first = read();
    assert!(fits());
    store.commit(create(A)).await.unwrap();
    assert_eq!(read(), first, "a commit only writes to the journal");

    // The second of these does not fit in the journal, so it makes a checkpoint.
    let mut tasks = JoinSet::new();
    for is_checkpoint in [false, true] {
        let release = script.hold();
        let values = (0..40).map(|at| Key::new(format!("large/{at}")).unwrap());
        let large = values.fold(Txn::new(), |txn, key| txn.put(key, vec![0; VALUE_BYTES_MAX]));
        let committer = Arc::clone(&store);
        tasks.spawn(async move { committer.commit(large).await });
        while !script.0.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(!mark.exists(), is_checkpoint);
        release.send(()).unwrap();
        tasks.join_next().await.unwrap().unwrap().unwrap();
    }
    assert_ne!(read(), first);
    assert!(fits());

    script.next(Step::Lose);
    store.commit(create(B)).await.unwrap_err();
    assert!(store.get(&A).await.unwrap().is_some(), "the store is opened again");
    assert!(mark.exists());
    store.close().await;
    assert!(mark.exists());
    let open = || {
        let durability = Box::new(script.clone());
        SledStore::open_with(options(dir.path()), Archiving::None, durability, Box::new(WriteAndSync)).unwrap()
    };
    let store = open();
    store.commit(create(B)).await.unwrap();
    script.next(Step::Lose);
    store.close().await;
    assert!(!mark.exists(), "the last sync has failed");
    let store = open();
    for key in [A, B] {
        assert!(store.get(&key).await.unwrap().is_some());
    }
    store.close().await;
    assert!(mark.exists());
}

#[tokio::test]
async fn concurrent_commits_share_a_flush() {
    const COMMITS: usize = 200;
    let (_dir, script, store) = scripted();
    let mut tasks = JoinSet::new();
    let release = hold_a_flush(&script, &store, &mut tasks).await;
    for number in 0..COMMITS {
        let key = Key::new(format!("key/{number}")).unwrap();
        queue(&mut tasks, &store, create(key), number).await;
    }
    release.send(()).unwrap();
    assert!(tasks.join_all().await.iter().all(Result::is_ok));
    let stats = store.stats();
    assert_eq!((stats.commits, stats.flushes), (COMMITS as u64 + 1, 2));
}

#[tokio::test]
async fn a_batch_is_applied_in_order() {
    let (_dir, script, store) = scripted();
    let mut tasks = JoinSet::new();
    let release = hold_a_flush(&script, &store, &mut tasks).await;
    for before in 0..5 {
        queue(&mut tasks, &store, create(A), before).await;
    }
    drop(release);
    let answers = tasks.join_all().await;
    // The commit that was held and the first of the five succeed.
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 2);
    let stats = store.stats();
    assert_eq!((stats.commits, stats.conflicts, stats.flushes), (2, 4, 2));
}

/// The thread reads ahead for a caller that reads many pages. Overwritten records, and calls that are dropped before
/// their page has arrived, change nothing.
#[tokio::test]
async fn pages_that_are_read_ahead_are_complete() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(options(dir.path())).unwrap();
    let keys: Vec<Key> = (0..3 * AHEAD_RECORDS_MAX).map(|at| Key::new(format!("k/{at:06}")).unwrap()).collect();
    let write = async |keys: &[Key], value: &[u8]| {
        for some in keys.chunks(TXN_OPERATIONS_MAX) {
            let txn = some.iter().cloned().fold(Txn::new(), |txn, key| txn.put(key, value));
            store.commit(txn).await.unwrap();
        }
    };
    write(&keys, b"old").await;

    let mut pages = store.pages(&Key::new("k/").unwrap()).await.unwrap();
    // A commit at the same time as the first page may be before it.
    let (mut found, mut dropped) = (pages.next().await.unwrap().unwrap(), 0);
    loop {
        let overwritten = found.len()..keys.len().min(found.len() + TXN_OPERATIONS_MAX);
        match pages.next().now_or_never() {
            None => dropped += 1,
            Some(page) => found.extend(page.unwrap().unwrap_or_default()),
        }
        write(&keys[overwritten], b"new").await;
        let Some(page) = pages.next().await.unwrap() else { break };
        found.extend(page);
    }
    assert!(dropped > 0, "no call was dropped");
    assert!(found.iter().map(|(key, _)| key).eq(&keys), "{} of {} records", found.len(), keys.len());
    assert!(found.iter().all(|(_, versioned)| versioned.value == b"old"));
}

#[tokio::test]
async fn after_a_failed_flush_the_outcome_is_unknown() {
    for step in [Step::Lose, Step::KeepButFail, Step::Panic] {
        let (_dir, script, store) = scripted();
        let before = store.commit(create(B)).await.unwrap().version;
        script.next(step);
        let error = store.commit(create(A)).await.unwrap_err();
        assert!(matches!(error, CommitError::Unknown(_)), "{error}");
        assert!(!error.has_no_side_effects());
        // A read shows the outcome, and acknowledged commits are still there.
        let settled = store.get(&A).await.unwrap().map_or(Version::ABSENT, |versioned| versioned.version);
        assert_eq!(store.get(&B).await.unwrap().unwrap().version, before);
        let after = store.commit(Txn::new().expect(A, settled).put(A, b"again".to_vec())).await.unwrap().version;
        assert!(after > settled && after > before);
        let stats = store.stats();
        assert_eq!((stats.commits, stats.unknowns, stats.reopens), (2, 1, 1));
    }
}

/// A full journal needs a checkpoint first. If the checkpoint fails, the commit has written nothing.
#[tokio::test]
async fn a_failed_checkpoint_changes_nothing() {
    let (_dir, script, store) = scripted();
    let large = |round: u8| {
        let key = |number: usize| Key::new(format!("large/{number}")).unwrap();
        (0..60).fold(Txn::new(), |txn, number| txn.put(key(number), vec![round; crate::VALUE_BYTES_MAX]))
    };
    let before = store.commit(large(1)).await.unwrap().version;
    script.next(Step::Lose);
    let error = store.commit(large(2)).await.unwrap_err();
    assert!(error.is_retryable() && error.has_no_side_effects(), "{error}");
    let stored = store.scan(&Key::new("large/").unwrap()).await.unwrap();
    assert!(stored.len() == 60 && stored.iter().all(|(_, it)| it.version == before && it.value[0] == 1));
    store.commit(large(3)).await.unwrap();
    assert_eq!(store.stats().unknowns, 0);
}

#[tokio::test]
async fn the_store_is_unavailable_while_the_disk_fails() {
    let (_dir, script, store) = scripted();
    [Step::Lose, Step::Lose, Step::Panic, Step::Lose].into_iter().for_each(|step| script.next(step));
    assert!(matches!(store.commit(create(A)).await, Err(CommitError::Unknown(_))));
    assert!(matches!(store.get(&A).await, Err(ReadError::Unavailable(_))));
    assert!(matches!(store.scan(&A).await, Err(ReadError::Unavailable(_))));
    let error = store.commit(create(A)).await.unwrap_err();
    assert!(error.is_retryable() && error.has_no_side_effects(), "{error}");
    store.commit(create(B)).await.unwrap();
    assert_eq!(store.stats().reopens, 1);
}

/// A transaction can conflict with a write that never became durable, so the whole batch fails.
#[tokio::test]
async fn after_a_failed_flush_conflicts_are_unavailable() {
    let (_dir, script, store) = scripted();
    let mut tasks = JoinSet::new();
    let release = hold_a_flush(&script, &store, &mut tasks).await;
    script.next(Step::Lose);
    let asked = [create(A), create(A), Txn::new().expect(B, Version::ABSENT)];
    let mut answers = Vec::new();
    for txn in asked {
        let (reply, answer) = oneshot::channel();
        store.requests.as_ref().unwrap().try_send(Request::Commit(Commit { txn, reply })).ok().unwrap();
        answers.push(answer);
    }
    let (reply, read) = oneshot::channel();
    store.requests.as_ref().unwrap().try_send(Request::Read(Read::Get { key: A, reply })).ok().unwrap();
    drop(release);
    let mut kinds = Vec::new();
    for answer in answers {
        kinds.push(answer.await.unwrap().unwrap_err());
    }
    assert!(matches!(kinds[0], CommitError::Unknown(_)));
    assert!(matches!(kinds[1], CommitError::Unavailable(_)));
    assert!(matches!(kinds[2], CommitError::Unavailable(_)));
    assert!(matches!(read.await.unwrap(), Err(ReadError::Unavailable(_))));
}

/// Changes the database as another program would.
fn tamper(dir: &Path, change: impl FnOnce(&::sled::Db)) {
    let config = ::sled::Config::new().path(dir).segment_size(quirks::SEGMENT_BYTES).flush_every_ms(None);
    let db = config.open().unwrap();
    change(&db);
    db.flush().unwrap();
    drop(db);
    // Wait for the lock, which sled's threads can hold a little longer.
    File::open(dir.join("db")).unwrap().lock().unwrap();
}

fn flip(db: &::sled::Db, raw_key: &[u8], at: usize) {
    let mut raw = db.get(raw_key).unwrap().unwrap().to_vec();
    raw[at] ^= 0x10;
    db.insert(raw_key, raw).unwrap();
}

async fn store_with_a_and_b() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(options(dir.path())).unwrap();
    store.commit(create(A)).await.unwrap();
    store.commit(create(B)).await.unwrap();
    store.close().await;
    dir
}

#[tokio::test]
async fn err_damaged_value() {
    // These offsets are in the mark, the schema, the revision, the payload and the checksum.
    for at in [0, 2, 10, 13, 18] {
        let dir = store_with_a_and_b().await;
        tamper(dir.path(), |db| flip(db, b"a", at));
        let store = SledStore::open(options(dir.path())).unwrap();
        assert!(matches!(store.get(&A).await, Err(ReadError::Corrupt(corrupt)) if corrupt.key == A));
        assert!(matches!(store.scan(&Key::ROOT).await, Err(ReadError::Corrupt(corrupt)) if corrupt.key == A));
        let blind = store.commit(Txn::new().put(B, []).put(A, [])).await;
        assert!(matches!(blind, Err(CommitError::Corrupt(corrupt)) if corrupt.key == A));
        assert_eq!(store.get(&B).await.unwrap().unwrap().value, b"value");
    }
}

#[tokio::test]
async fn err_value_under_another_key() {
    let dir = store_with_a_and_b().await;
    tamper(dir.path(), |db| drop(db.insert("b", db.get("a").unwrap().unwrap()).unwrap()));
    let store = SledStore::open(options(dir.path())).unwrap();
    assert!(matches!(store.get(&B).await, Err(ReadError::Corrupt(corrupt)) if corrupt.key == B));
}

#[tokio::test]
async fn err_foreign_key() {
    let dir = store_with_a_and_b().await;
    tamper(dir.path(), |db| drop(db.insert([b'a', 0xFF], "x").unwrap()));
    let store = SledStore::open(options(dir.path())).unwrap();
    let foreign = Damage::ForeignKey { bytes: 2 };
    assert!(matches!(store.scan(&A).await, Err(ReadError::Corrupt(corrupt)) if corrupt.damage == foreign));
}

#[tokio::test]
async fn err_damaged_records_of_the_store() {
    for meta in [Meta::Layout, Meta::Id, Meta::Revision, Meta::Opened] {
        let dir = store_with_a_and_b().await;
        tamper(dir.path(), |db| flip(db, &meta.raw_key(), 5));
        let error = SledStore::open(options(dir.path())).unwrap_err();
        assert!(matches!(&error, OpenError::Corrupt(corrupt) if corrupt.key == meta.key()), "{error}");
    }
}

#[tokio::test]
async fn err_newer_layout() {
    let dir = store_with_a_and_b().await;
    tamper(dir.path(), |db| drop(db.insert(Meta::Layout.raw_key(), Meta::Layout.seal([0, 0, 0, 3])).unwrap()));
    let error = SledStore::open(options(dir.path())).unwrap_err();
    assert!(matches!(error, OpenError::NewerLayout { found: 3, known: 2, .. }), "{error}");
}

/// Checks that a refused database stays unchanged, so that the missing data can still be recovered.
#[tokio::test]
async fn a_refused_database_is_not_changed() {
    let dir = store_with_a_and_b().await;
    tamper(dir.path(), |db| drop(db.insert(Meta::Layout.raw_key(), Meta::Layout.seal([0, 0, 0, 1])).unwrap()));
    let records = || {
        let mut records = Vec::new();
        tamper(dir.path(), |db| records.extend(db.iter().map(Result::unwrap)));
        records
    };
    let before = records();
    super::newest::Newest::new(File::options().write(true).open(dir.path().join("newest")).unwrap()).write(9).unwrap();
    let refused = SledStore::open(options(dir.path())).unwrap_err().to_string();
    assert!(refused.contains("lost its newest commits"), "{refused}");
    assert!(records() == before);
}

/// A log that has lost its beginning looks like a new one. Even if `newest` is also missing, the journal shows the
/// loss.
#[tokio::test]
async fn an_old_journal_is_not_replayed_into_a_new_database() {
    let dir = tempfile::tempdir().unwrap();
    let (alive, dead) = (dir.path().join("alive"), dir.path().join("dead"));
    let store = SledStore::open(options(&alive)).unwrap();
    store.commit(create(A)).await.unwrap();
    std::fs::create_dir_all(dead.join("blobs")).unwrap();
    for name in ["conf", "journal"] {
        std::fs::copy(alive.join(name), dead.join(name)).unwrap();
    }
    store.close().await;
    let refused = SledStore::open(SledOptions { dir: dead.clone(), new_id: [8; 16] }).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
    tamper(&dead, |db| assert_eq!(db.len(), 0, "the database must stay empty"));
}

/// Opens a database of layout 1, which had no journal.
#[tokio::test]
async fn opening_upgrades_an_older_layout() {
    let dir = store_with_a_and_b().await;
    tamper(dir.path(), |db| drop(db.insert(Meta::Layout.raw_key(), Meta::Layout.seal([0, 0, 0, 1])).unwrap()));
    std::fs::remove_file(dir.path().join("journal")).unwrap();
    let store = SledStore::open(options(dir.path())).unwrap();
    assert_eq!(store.scan(&Key::ROOT).await.unwrap().len(), 2);
    store.close().await;
    tamper(dir.path(), |db| {
        let layout = db.get(Meta::Layout.raw_key()).unwrap().unwrap();
        assert_eq!(Meta::Layout.open(&layout).unwrap(), super::record::LAYOUT.to_be_bytes());
    });
}

#[tokio::test]
async fn err_newer_schema() {
    let dir = store_with_a_and_b().await;
    let newer = envelope::seal_as(envelope::SCHEMA + 1, &A, b"unknown");
    tamper(dir.path(), |db| drop(db.insert("a", newer).unwrap()));
    let store = SledStore::open(options(dir.path())).unwrap();
    assert!(matches!(store.get(&A).await, Err(ReadError::NewerSchema(newer)) if newer.key == A && newer.found == 2));
    assert!(matches!(store.commit(Txn::new().delete(A)).await, Err(CommitError::NewerSchema(_))));
}

#[test]
fn err_foreign_database() {
    let dir = tempfile::tempdir().unwrap();
    tamper(dir.path(), |db| drop(db.insert("users/1", "alice").unwrap()));
    let error = SledStore::open(options(dir.path())).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
}

#[test]
fn err_database_of_another_configuration() {
    let dir = tempfile::tempdir().unwrap();
    drop(::sled::open(dir.path()).unwrap());
    File::open(dir.path().join("db")).unwrap().lock().unwrap();
    let error = SledStore::open(options(dir.path())).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
}

#[tokio::test]
async fn err_locked_by_a_tool_that_bypasses_our_lock() {
    let dir = store_with_a_and_b().await;
    tamper(dir.path(), |_db| {
        assert!(matches!(SledStore::open(options(dir.path())), Err(OpenError::InUse { .. })));
    });
    SledStore::open(options(dir.path())).unwrap();
}

/// Checks that sled reclaims space without its flush timer.
#[test]
fn space_is_reclaimed() {
    let dir = tempfile::tempdir().unwrap();
    let mut disk =
        Disk::acquire(dir.path().to_owned(), [7; 16], Archiving::None, Box::new(FlushAndSync), Box::new(WriteAndSync))
            .unwrap();
    let mut ledger = disk.open().unwrap();
    for round in 0..20_000_u64 {
        let key = Key::new(format!("slot/{:02}", round % 64)).unwrap();
        ledger.decide(&Txn::new().put(key, vec![round as u8; 2_048])).unwrap();
        if round % 100 == 0 {
            let frame = disk.prepare_frame(&mut ledger).unwrap();
            disk.make_durable(&frame).unwrap();
            disk.settle(&mut ledger).unwrap();
        }
    }
    let bytes = dir.path().join("db").metadata().unwrap().len();
    assert!(bytes <= 12 * quirks::SEGMENT_BYTES as u64, "{bytes} bytes for 64 values of 2 KiB");
    disk.release(ledger);
}

/// Checks that every write is synced: otherwise a power cut could undo acknowledged commits. So a write to a handle
/// that cannot be synced must fail.
#[test]
fn the_real_durability_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let db = ::sled::Config::new().path(dir.path()).flush_every_ms(None).open().unwrap();
    db.insert("key", "value").unwrap();
    let log = File::open(dir.path().join("db")).unwrap();
    disk::FlushAndSync.flush(&db, &log).unwrap();
    let (reader, _writer) = std::io::pipe().unwrap();
    let pipe = File::from(std::os::fd::OwnedFd::from(reader));
    assert!(disk::FlushAndSync.flush(&db, &pipe).is_err(), "the sync of a pipe must fail");
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert!(disk::FlushAndSync.append(&full, b"frame", 0).is_err(), "a write to a full device must fail");
    let null = File::options().write(true).open("/dev/null").unwrap();
    assert!(disk::FlushAndSync.append(&null, b"frame", 0).is_err(), "the sync of /dev/null must fail");
}

/// Flushes sled without a sync of the disk, for tests that only measure the size of the files.
struct FlushOnly;

impl Durability for FlushOnly {
    fn append(&mut self, journal: &File, frame: &[u8], at: u64) -> Result<(), DiskError> {
        Ok(journal.write_all_at(frame, at)?)
    }

    fn flush(&mut self, db: &::sled::Db, _log: &File) -> Result<(), DiskError> {
        Ok(db.flush().map(drop).map_err(super::error::LedgerError::from)?)
    }
}

/// Overwrites the records of all slots repeatedly, as daemons do. Returns the size of all files in bytes.
async fn grow(overwrites: u32) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(
        SledStore::open_with(options(dir.path()), Archiving::None, Box::new(FlushOnly), Box::new(WriteAndSync))
            .unwrap(),
    );
    for round in 0..overwrites / 64 {
        let mut writing = JoinSet::new();
        for slot in 0..64 {
            let (store, key) = (store.clone(), Key::new(format!("slot/{slot:02}")).unwrap());
            writing.spawn(async move { store.commit(Txn::new().put(key, vec![round as u8; 60])).await.map(drop) });
        }
        while let Some(written) = writing.join_next().await {
            written.unwrap().unwrap();
        }
    }
    store.close().await;
    drop(store);
    let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    let bytes = files.sum();
    let reopened = SledStore::open(options(dir.path())).unwrap();
    assert_eq!(reopened.scan(&Key::ROOT).await.unwrap().len(), 64);
    println!("{overwrites} overwrites: {bytes} bytes");
    bytes
}

#[tokio::test]
async fn many_overwrites_stay_small() {
    assert!(grow(50_000).await < 64 << 20);
}

#[tokio::test]
#[ignore = "long: a year of window extensions"]
async fn long_a_year_of_window_extensions_stays_small() {
    assert!(grow(2_000_000).await < 64 << 20);
}
