//! Tests with flipped bits and truncated logs: a store detects the damage, or its contents are unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kent_store::{Key, SledOptions, SledStore, Store, Txn, Version};

type Contents = Vec<(Key, Version, Vec<u8>)>;

fn open(dir: &Path) -> Result<SledStore, kent_store::OpenError> {
    SledStore::open(SledOptions { dir: dir.to_owned(), new_id: [9; 16] })
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// Writes like a daemon: slots that are rewritten, counters, and records that are written once.
async fn write(store: &SledStore, rounds: std::ops::Range<u32>) -> Contents {
    let before = read(store).await.unwrap();
    let mut versions: BTreeMap<Key, Version> = before.into_iter().map(|(key, version, _)| (key, version)).collect();
    for round in rounds {
        let mut txn = Txn::new();
        for name in ["slot/00", &format!("counter/default/{:016x}", round % 7), &format!("history/{round:04x}")] {
            let key = key(name);
            txn = txn.expect(key.clone(), versions.get(&key).copied().unwrap_or(Version::ABSENT));
            txn = txn.put(key, format!("{name} in round {round}").into_bytes());
        }
        let written: Vec<Key> = txn.writes().iter().map(|(key, _)| key.clone()).collect();
        let made = store.commit(txn).await.unwrap();
        versions.extend(written.into_iter().map(|key| (key, made.version)));
    }
    read(store).await.unwrap()
}

async fn fill(dir: &Path, rounds: u32) -> Contents {
    let store = open(dir).unwrap();
    let contents = write(&store, 0..rounds).await;
    store.close().await;
    contents
}

/// Fills a directory and leaves it as a killed process would: sled's file lacks most of the journal's commits. Returns
/// the contents.
async fn fill_and_kill(dir: &Path, rounds: u32) -> Contents {
    let alive = dir.with_file_name("alive");
    let store = open(&alive).unwrap();
    let contents = write(&store, 0..rounds).await;
    copy(&alive, dir);
    store.close().await;
    contents
}

async fn read(store: &SledStore) -> Result<Contents, kent_store::ReadError> {
    let records = store.scan(&Key::ROOT).await?;
    Ok(records.into_iter().map(|(key, versioned)| (key, versioned.version, versioned.value)).collect())
}

/// Opens a damaged copy. Returns true if the damage is detected, and false if the contents are as expected. Panics if
/// the contents differ.
async fn is_refused(copy: &Path, expected: &Contents, what: &str) -> bool {
    let Ok(store) = open(copy) else { return true };
    let contents = read(&store).await;
    store.close().await;
    match contents {
        Err(_) => true,
        Ok(contents) => {
            assert!(contents == *expected, "{what}: the contents of the store have changed");
            false
        }
    }
}

fn copy(from: &Path, to: &Path) {
    // OK because the directory may not exist.
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Returns the offsets of the used bytes of a file, and some other offsets. Most of sled's file is unused.
fn used(path: &Path) -> Vec<usize> {
    let bytes = fs::read(path).unwrap();
    let used = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0).map(|(at, _)| at);
    let mut places: Vec<usize> = used.collect();
    places.extend((0..bytes.len()).step_by(bytes.len().div_ceil(50).max(1)));
    places.sort_unstable();
    places.dedup();
    places
}

/// Flips a bit in every `step`th used byte of every file.
async fn flip(step: usize, closed: bool) {
    let dir = tempfile::tempdir().unwrap();
    let (whole, damaged) = (dir.path().join("whole"), dir.path().join("damaged"));
    let expected = if closed { fill(&whole, 40).await } else { fill_and_kill(&whole, 40).await };
    let mut files = vec!["db", "conf", "newest", "journal"];
    if closed {
        // The journal would repair damage in the other files.
        fs::remove_file(whole.join(files.pop().unwrap())).unwrap();
    }
    let (mut flips, mut refused) = (0, 0);
    for file in files {
        for (turn, at) in used(&whole.join(file)).into_iter().enumerate().filter(|(turn, _)| turn % step == 0) {
            copy(&whole, &damaged);
            let mut bytes = fs::read(damaged.join(file)).unwrap();
            bytes[at] ^= 1 << (turn / step % 8);
            fs::write(damaged.join(file), bytes).unwrap();
            refused += u32::from(is_refused(&damaged, &expected, &format!("{file}, byte {at}")).await);
            flips += 1;
        }
    }
    println!("{flips} bits flipped: {refused} detected, {} without effect", flips - refused);
    assert!(refused > 0);
}

#[tokio::test]
async fn a_flipped_bit_is_noticed_or_has_no_effect() {
    flip(61, true).await;
    flip(61, false).await;
}

#[tokio::test]
#[ignore = "long: every used byte"]
async fn long_a_flipped_bit_is_noticed_or_has_no_effect() {
    flip(1, true).await;
    flip(1, false).await;
}

#[tokio::test]
async fn a_truncated_log_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, damaged) = (dir.path().join("whole"), dir.path().join("damaged"));
    let expected = fill(&whole, 40).await;
    let length = fs::metadata(whole.join("db")).unwrap().len();
    for part in 0..40 {
        copy(&whole, &damaged);
        let cut = fs::OpenOptions::new().write(true).open(damaged.join("db")).unwrap();
        cut.set_len(length * part / 40).unwrap();
        is_refused(&damaged, &expected, &format!("{part} of 40")).await;
    }
    // Without its log, the database looks new, but opening it must fail.
    copy(&whole, &damaged);
    fs::remove_file(damaged.join("db")).unwrap();
    let refused = open(&damaged).unwrap_err().to_string();
    assert!(refused.contains("lost its newest commits"), "{refused}");
}

#[tokio::test]
async fn a_missing_truncated_or_foreign_journal_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, damaged) = (dir.path().join("whole"), dir.path().join("damaged"));
    let expected = fill_and_kill(&whole, 40).await;
    let frame = 4096;
    for frames in 0..40 {
        copy(&whole, &damaged);
        let journal = fs::OpenOptions::new().write(true).open(damaged.join("journal")).unwrap();
        journal.set_len(frames * frame).unwrap();
        let refused = open(&damaged).unwrap_err().to_string();
        assert!(refused.contains("lost its newest commits"), "{frames} of 40: {refused}");
    }
    // If the last frame were missing, there would be no gap.
    for missing in 0..39 {
        copy(&whole, &damaged);
        let mut bytes = fs::read(damaged.join("journal")).unwrap();
        bytes[missing * frame as usize..][..frame as usize].fill(0);
        fs::write(damaged.join("journal"), bytes).unwrap();
        // Also remove `newest`, so that only the gap shows the loss.
        fs::remove_file(damaged.join("newest")).unwrap();
        let refused = is_refused(&damaged, &expected, "").await;
        assert!(refused, "frame {missing} is missing");
    }
    copy(&whole, &damaged);
    let other = dir.path().join("other");
    let store = SledStore::open(SledOptions { dir: other.clone(), new_id: [8; 16] }).unwrap();
    write(&store, 0..3).await;
    fs::copy(other.join("journal"), damaged.join("journal")).unwrap();
    let refused = open(&damaged).unwrap_err().to_string();
    assert!(refused.contains("journal belongs to another"), "{refused}");
    store.close().await;
}

/// Checks that the journal brings an earlier version of sled's file up to date.
#[tokio::test]
async fn a_killed_store_has_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (alive, dead) = (dir.path().join("alive"), dir.path().join("dead"));
    let store = open(&alive).unwrap();
    let mut earlier = fs::read(alive.join("db")).unwrap();
    for round in 0..60_u32 {
        let expected = write(&store, round * 10..(round + 1) * 10).await;
        copy(&alive, &dead);
        check_complete(&dead, &expected, &format!("killed after round {round}")).await;
        // The journal restarts after 256 commits of this size.
        if round < 24 {
            copy(&alive, &dead);
            fs::write(dead.join("db"), &earlier).unwrap();
            check_complete(&dead, &expected, &format!("killed after round {round}, with an older log")).await;
        }
        if round == 5 {
            earlier = fs::read(alive.join("db")).unwrap();
        }
    }
    store.close().await;
}

async fn check_complete(dir: &Path, expected: &Contents, what: &str) {
    assert!(!is_refused(dir, expected, what).await, "{what}: the store does not open");
    // After a clean close, the recovered commits are still there.
    assert!(!is_refused(dir, expected, what).await, "{what}: the store does not open again");
}
