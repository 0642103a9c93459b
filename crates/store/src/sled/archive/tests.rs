//! Tests of archives: their format, failures, damage, and stores and archives that do not belong together.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tempfile::TempDir;

use super::super::disk::{Durability, FlushAndSync};
use super::super::error::{ArchiveError, DiskError};
use super::super::frame::{self, BLOCK_BYTES};
use super::super::journal::Redo;
use super::super::record::Mark;
use super::super::{OpenError, SledOptions, SledStore};
use super::files::{Head, Listing, base_path, segment_path};
use super::*;
use crate::error::CommitError;
use crate::key::Key;
use crate::store::Store;
use crate::txn::{Committed, Txn};

const ID: StoreId = StoreId::new([7; 16]);
const LOAD: u64 = 128 * 1024;

/// The effect of a scripted write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The write succeeds and is durable.
    Work,
    /// The write fails and has no effect.
    Lose,
    /// The write is durable but reports a failure.
    KeepButFail,
}

/// A writer that follows a script, and then works normally.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<VecDeque<Step>>>);

impl Script {
    fn next(&self, step: Step) {
        self.0.lock().unwrap().push_back(step);
    }

    fn follow(&self, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match self.0.lock().unwrap().pop_front() {
            None | Some(Step::Work) => work(),
            Some(Step::Lose) => Err(io::ErrorKind::StorageFull.into()),
            Some(Step::KeepButFail) => work().and(Err(io::ErrorKind::StorageFull.into())),
        }
    }
}

impl FrameWriter for Script {
    fn append(&mut self, file: &File, frame: &[u8], at: u64) -> io::Result<()> {
        self.follow(|| file.write_all_at(frame, at))
    }
}

/// Writes the journal without a sync, because other tests cover power cuts.
impl Durability for Script {
    fn append(&mut self, journal: &File, frame: &[u8], at: u64) -> Result<(), DiskError> {
        Ok(self.follow(|| journal.write_all_at(frame, at))?)
    }

    fn flush(&mut self, db: &::sled::Db, log: &File) -> Result<(), DiskError> {
        FlushAndSync.flush(db, log)
    }
}

/// A store and its archive in a temporary directory.
struct Pair {
    dir: TempDir,
    journal: Script,
    archive: Script,
}

impl Pair {
    fn new() -> Self {
        let pair = Self { dir: tempfile::tempdir().unwrap(), journal: Script::default(), archive: Script::default() };
        fs::create_dir(pair.dir.path().join("archive")).unwrap();
        pair
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the directory of the store's own archive.
    fn own(&self) -> PathBuf {
        self.at("archive").join(ID.to_string())
    }

    fn to(&self, dir: &str) -> Archiving {
        Archiving::To { dir: self.at(dir), base_after: LOAD }
    }

    fn open_as(&self, data: &str, new_generation: u8, archiving: Archiving) -> Result<SledStore, OpenError> {
        let options = SledOptions { dir: self.at(data), new_id: [new_generation; 16] };
        SledStore::open_with(options, archiving, Box::new(self.journal.clone()), Box::new(self.archive.clone()))
    }

    fn open(&self) -> SledStore {
        self.open_as("data", 7, self.to("archive")).unwrap()
    }

    fn refusal(&self, data: &str, archiving: Archiving) -> ArchiveError {
        match self.open_as(data, 9, archiving) {
            Err(OpenError::Archive(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    fn copy(&self, from: &str, to: &str) {
        copy(&self.at(from), &self.at(to));
    }

    fn archived(&self) -> Result<BTreeMap<Key, Vec<u8>>, ArchiveError> {
        Ok(Archived::read(&self.own())?.records.into_iter().collect())
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() { copy(&entry.path(), &to) } else { drop(fs::copy(entry.path(), to)) }
    }
}

fn key(number: u32) -> Key {
    Key::new(format!("key/{number:03}")).unwrap()
}

async fn put(store: &SledStore, number: u32, value: &[u8]) -> Result<Committed, CommitError> {
    store.commit(Txn::new().put(key(number), value)).await
}

async fn all(store: &SledStore) -> BTreeMap<Key, Vec<u8>> {
    store.scan(&Key::ROOT).await.unwrap().into_iter().map(|(key, it)| (key, it.value)).collect()
}

/// Commits until the archive has a new base and older files are removed.
async fn until_a_new_base(pair: &Pair, store: &SledStore) {
    let before = Listing::of(&pair.own()).unwrap().bases;
    for round in 0..2000_u32 {
        put(store, round % 50, &round.to_be_bytes()).await.unwrap();
        let listing = Listing::of(&pair.own()).unwrap();
        if listing.bases != before && listing.bases.len() == 1 && listing.segments[0] > listing.bases[0] {
            return;
        }
    }
    panic!("no new base");
}

#[derive(Clone, Debug)]
enum Act {
    Put(u32, usize),
    Delete(u32),
    Reopen,
    Fail(Step, Step),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let step = prop_oneof![Just(Step::Work), Just(Step::Lose), Just(Step::KeepButFail)];
    let act = prop_oneof![
        8 => (0..40_u32, prop_oneof![9 => 0..2000_usize, 1 => 10_000..16_000_usize]).prop_map(|(n, size)| Act::Put(n, size)),
        2 => (0..40_u32).prop_map(Act::Delete),
        1 => Just(Act::Reopen),
        1 => (step.clone(), step).prop_map(|(journal, archive)| Act::Fail(journal, archive)),
    ];
    prop::collection::vec(act, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Checks that after any failures of the journal and the archive, both have the same commits, including all
    /// acknowledged ones.
    #[test]
    fn ok_an_archive_has_what_its_store_has(acts in acts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let pair = Pair::new();
            let mut store = pair.open();
            let mut known = BTreeMap::new();
            for (round, act) in acts.into_iter().enumerate() {
                let txn = match act {
                    Act::Put(number, size) => Txn::new().put(key(number), vec![round as u8; size]),
                    Act::Delete(number) => Txn::new().delete(key(number)),
                    Act::Reopen => {
                        store.close().await;
                        prop_assert_eq!(&pair.archived().unwrap(), &known);
                        store = pair.open();
                        continue;
                    }
                    Act::Fail(journal, archive) => {
                        pair.journal.next(journal);
                        pair.archive.next(archive);
                        Txn::new().put(key(99), round.to_be_bytes())
                    }
                };
                let fails = !matches!((pair.journal.0.lock().unwrap().front(), pair.archive.0.lock().unwrap().front()),
                    (None | Some(Step::Work), None | Some(Step::Work)));
                let committed = store.commit(txn.clone()).await;
                prop_assert_eq!(committed.is_err(), fails, "{:?}", committed);
                // A failed commit may nevertheless have been made. A read shows whether it was.
                let found = all(&store).await;
                for (key, value) in txn.writes() {
                    match (committed.is_ok() || found.get(key) == value.as_ref(), value) {
                        (false, _) => {}
                        (true, Some(value)) => drop(known.insert(key.clone(), value.clone())),
                        (true, None) => drop(known.remove(key)),
                    }
                }
                prop_assert_eq!(&found, &known);
                if fails {
                    prop_assert_eq!(&pair.archived().unwrap(), &known, "the archive has all records that reads show");
                }
            }
            store.close().await;
            prop_assert_eq!(pair.archived().unwrap(), known);
            Ok(())
        })?;
    }
}

/// A commit that only the journal has could be lost with the store's disk.
#[tokio::test]
async fn err_a_commit_that_the_archive_lacks_is_not_acknowledged() {
    let pair = Pair::new();
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    pair.archive.next(Step::Lose);
    let error = put(&store, 2, b"two").await.unwrap_err();
    assert!(matches!(error, CommitError::Unknown(_)), "{error}");
    assert!(error.to_string().contains("the archive cannot be used: "), "{error}");
    assert_eq!(pair.archived().unwrap().len(), 1);
    // The commit is in the journal, so the next opening writes it to the archive before reads show it.
    assert_eq!(all(&store).await.len(), 2);
    assert_eq!(pair.archived().unwrap().len(), 2);
}

#[tokio::test]
async fn ok_a_commit_that_only_the_archive_has_is_replayed() {
    let pair = Pair::new();
    let store = pair.open();
    pair.journal.next(Step::Lose);
    put(&store, 1, b"one").await.unwrap_err();
    assert_eq!(pair.archived().unwrap().len(), 1);
    assert_eq!(all(&store).await.len(), 1, "the revision is not used for another commit");
}

#[tokio::test]
async fn ok_an_archive_stays_small_and_complete_over_several_bases() {
    let pair = Pair::new();
    for _ in 0..4 {
        let store = pair.open();
        until_a_new_base(&pair, &store).await;
        let records = all(&store).await;
        // An open store may replace a base while the archive is read.
        store.close().await;
        assert_eq!(pair.archived().unwrap(), records);
    }
    let listing = Listing::of(&pair.own()).unwrap();
    assert!(listing.bases[0] > 0 && listing.bases.len() == 1, "{listing:?}");
    assert!(listing.segments[0] > listing.bases[0], "{listing:?}");
}

/// Undoes the writes to `newest` since the archive began, as a power cut can.
fn undo_newest(dir: &Path) {
    let file = File::create(dir.join("newest")).unwrap();
    super::super::newest::Newest::new(file).write(0).unwrap();
}

#[tokio::test]
async fn ok_an_archive_says_whether_it_can_lack_its_last_commits() {
    let pair = Pair::new();
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    store.close().await;
    let newest = pair.own().join("newest");
    assert!(Archived::read(&pair.own()).unwrap().has_newest);
    undo_newest(&pair.own());
    assert!(Archived::read(&pair.own()).unwrap().has_newest);
    fs::write(&newest, b"").unwrap();
    assert!(!Archived::read(&pair.own()).unwrap().has_newest);
    fs::remove_file(&newest).unwrap();
    assert!(!Archived::read(&pair.own()).unwrap().has_newest);
    // The store itself shows what the archive must have.
    pair.open().close().await;
    assert!(Archived::read(&pair.own()).unwrap().has_newest);
}

/// After a crash, a segment can have any part of the newest commit, if the commit was not acknowledged.
#[tokio::test]
async fn ok_a_torn_commit_is_discarded_at_every_byte() {
    let pair = Pair::new();
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    let before = pair.archived().unwrap();
    put(&store, 2, &[b'x'; 9000]).await.unwrap();
    let after = pair.archived().unwrap();
    store.close().await;
    let path = segment_path(&pair.own(), 1);
    let (whole, head) = (fs::read(&path).unwrap(), 2 * BLOCK_BYTES);
    let frame = 3 * BLOCK_BYTES;
    undo_newest(&pair.own());
    let check = |state: &[u8]| {
        fs::write(&path, state).unwrap();
        let read = pair.archived().unwrap();
        assert!(read == before || read == after);
        read == after
    };
    for at in (head..head + frame).step_by(13).chain([head, head + frame - 1]) {
        let mut torn = whole.clone();
        torn[at..].fill(0);
        let has_all = check(&torn);
        assert!(has_all || at < head + 9200, "zeros from {at} on");
        assert!(!has_all || at > head + 9000, "zeros from {at} on");
        assert!(!check(&whole[..at]), "cut at {at}");
    }
    for lost in 1..8_u8 {
        let mut torn = whole.clone();
        for block in (0..3).filter(|block| lost & 1 << block != 0) {
            torn[head + block * BLOCK_BYTES..][..BLOCK_BYTES].fill(0);
        }
        assert!(!check(&torn), "blocks {lost:b} are lost");
    }
    // A store that was killed continues after the last complete commit.
    let mut torn = whole.clone();
    torn[head + 5000] ^= 1;
    fs::write(&path, &torn).unwrap();
    let store = pair.open();
    assert_eq!(all(&store).await, after, "the store has the commit");
    put(&store, 3, b"three").await.unwrap();
    store.close().await;
    assert_eq!(pair.archived().unwrap().len(), 3);
}

/// Checks that no part of an acknowledged commit is discarded, not even of the last one.
#[tokio::test]
async fn err_a_flipped_bit_is_reported_with_its_place() {
    let pair = Pair::new();
    let store = pair.open();
    until_a_new_base(&pair, &store).await;
    for number in 0..10 {
        put(&store, number, &[b'x'; 3000]).await.unwrap();
    }
    store.close().await;
    let known = pair.archived().unwrap();
    let mut refused = 0;
    for entry in fs::read_dir(pair.own()).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap();
        let whole = fs::read(&path).unwrap();
        let used = whole.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for at in (0..used).step_by(211) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            for damaged in [&flipped, &whole[..at]] {
                fs::write(&path, damaged).unwrap();
                match pair.archived() {
                    Ok(read) => assert!(read == known, "{name} at {at}: other records"),
                    Err(ArchiveError::Damaged { path: named, at: place, .. }) => {
                        assert!(named == path && place <= at as u64, "{name} at {at}: {named:?} at {place}");
                        refused += 1;
                    }
                    Err(error) => panic!("{name} at {at}: {error}"),
                }
            }
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(refused > 100, "{refused} refused");
}

/// The later commits show the damage, even if a power cut has undone the writes to `newest`.
#[tokio::test]
async fn err_a_flipped_bit_before_the_last_commit_is_not_a_torn_commit() {
    let pair = Pair::new();
    let store = pair.open();
    for number in 0..3 {
        put(&store, number, b"value").await.unwrap();
    }
    store.close().await;
    undo_newest(&pair.own());
    let path = segment_path(&pair.own(), 1);
    let mut segment = fs::read(&path).unwrap();
    segment[2 * BLOCK_BYTES + 20] ^= 1;
    fs::write(&path, &segment).unwrap();
    let at = 2 * BLOCK_BYTES as u64;
    assert!(matches!(pair.archived(), Err(ArchiveError::Damaged { at: place, .. }) if place == at));
}

#[tokio::test]
async fn err_an_archive_with_a_missing_file() {
    let pair = Pair::new();
    let long = Archiving::To { dir: pair.at("archive"), base_after: 1 << 20 };
    let store = pair.open_as("data", 7, long).unwrap();
    for round in 0..60_u32 {
        put(&store, round, &round.to_be_bytes()).await.unwrap();
    }
    store.close().await;
    let listing = Listing::of(&pair.own()).unwrap();
    assert!(listing.segments.len() > 2, "{listing:?}");
    for first in &listing.segments {
        let path = segment_path(&pair.own(), *first);
        let whole = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(matches!(pair.archived(), Err(ArchiveError::Damaged { .. })), "without {first}");
        fs::write(&path, whole).unwrap();
    }
    fs::remove_file(base_path(&pair.own(), listing.bases[0])).unwrap();
    assert!(matches!(pair.archived(), Err(ArchiveError::Nothing { .. })));
    assert!(matches!(pair.refusal("data", pair.to("archive")), ArchiveError::Missing { .. }));
}

#[tokio::test]
async fn err_a_store_is_refused_without_its_archive() {
    let pair = Pair::new();
    drop(pair.open_as("data", 7, Archiving::None).unwrap());
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    assert!(matches!(ArchiveLock::take(&pair.own()), Err(ArchiveError::InUse { .. })));
    store.close().await;
    let refusal = pair.refusal("data", Archiving::None);
    assert!(refusal.to_string().contains("--no-archive"), "{refusal}");
    // An empty directory can be the mount point of a disk that is not mounted, so no new archive starts there.
    fs::create_dir(pair.at("other")).unwrap();
    assert!(matches!(pair.refusal("data", pair.to("other")), ArchiveError::Missing { .. }));
    assert!(matches!(pair.refusal("data", pair.to("nowhere")), ArchiveError::NoDirectory { is_new: false, .. }));
    assert_eq!(fs::read_dir(pair.at("other")).unwrap().count(), 0);
    // The store can be opened read-only.
    let reader = pair.open_as("data", 7, Archiving::ReadOnly).unwrap();
    assert_eq!(all(&reader).await.len(), 1);
    assert!(put(&reader, 1, b"two").await.unwrap_err().has_no_side_effects());
    drop(reader);
    // A directory without a store stays as it is.
    fs::create_dir(pair.at("empty")).unwrap();
    assert!(matches!(pair.open_as("empty", 7, Archiving::ReadOnly), Err(OpenError::NoStore { .. })));
    assert_eq!(fs::read_dir(pair.at("empty")).unwrap().count(), 0);
    // The archive can be moved.
    fs::remove_dir(pair.at("other")).unwrap();
    fs::rename(pair.at("archive"), pair.at("other")).unwrap();
    let store = pair.open_as("data", 7, pair.to("other")).unwrap();
    put(&store, 2, b"two").await.unwrap();
    drop(store);
    assert!(pair.refusal("data", Archiving::None).to_string().contains("/other"));
}

/// A link to the archive is switched to a copy while the store is open.
#[tokio::test]
async fn err_the_files_of_an_open_archive_are_replaced() {
    let pair = Pair::new();
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    pair.copy("archive", "copy");
    fs::rename(pair.at("archive"), pair.at("away")).unwrap();
    fs::rename(pair.at("copy"), pair.at("archive")).unwrap();
    assert!(put(&store, 2, b"two").await.is_err(), "a restore from the copy would lack this commit");
    drop(store);
    let store = pair.open();
    put(&store, 3, b"three").await.unwrap();
    let known = all(&store).await;
    store.close().await;
    assert_eq!(pair.archived().unwrap(), known);
}

/// After an error, the store is closed until the next request. Meanwhile, a copy of the store ends the archive.
#[tokio::test]
async fn ok_a_new_archive_begins_if_the_existing_one_was_ended() {
    let pair = Pair::new();
    pair.open().close().await;
    let store = pair.open_as("data", 9, pair.to("archive").without_begin()).unwrap();
    put(&store, 1, b"one").await.unwrap();
    pair.copy("data", "copy");
    pair.archive.next(Step::Lose);
    assert!(put(&store, 2, b"two").await.is_err());
    let copy = pair.open_as("copy", 8, Archiving::End { even_if_lost: false }).unwrap();
    copy.close().await;
    put(&store, 3, b"three").await.unwrap();
    let known = all(&store).await;
    store.close().await;
    assert_eq!(pair.archived().unwrap(), known, "every commit is in an archive");
}

#[tokio::test]
async fn ok_an_existing_archive_is_continued_but_none_begins() {
    let pair = Pair::new();
    let existing = pair.to("archive").without_begin();
    let store = pair.open_as("data", 7, existing.clone()).unwrap();
    put(&store, 1, b"one").await.unwrap();
    assert!(!store.is_archived() && pair.archived().is_err());
    store.close().await;
    let store = pair.open();
    assert!(store.is_archived());
    store.close().await;
    let store = pair.open_as("data", 9, existing).unwrap();
    put(&store, 2, b"two").await.unwrap();
    assert!(store.is_archived());
    let known = all(&store).await;
    store.close().await;
    assert_eq!(pair.archived().unwrap(), known);
}

#[tokio::test]
async fn ok_an_old_copy_of_the_store_gets_the_commits_of_the_archive() {
    let pair = Pair::new();
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    store.close().await;
    pair.copy("data", "old");
    let store = pair.open();
    put(&store, 1, b"two").await.unwrap();
    put(&store, 2, b"two").await.unwrap();
    let known = all(&store).await;
    store.close().await;
    let store = pair.open_as("old", 7, pair.to("archive")).unwrap();
    assert_eq!(all(&store).await, known);
    put(&store, 3, b"three").await.unwrap();
    store.close().await;
    assert_eq!(all(&pair.open()).await.len(), 3, "the other copy, which is now the old one, also gets the commits");
}

#[tokio::test]
async fn err_an_old_copy_that_the_archive_cannot_complete() {
    let pair = Pair::new();
    drop(pair.open_as("data", 7, Archiving::None).unwrap());
    pair.copy("data", "before");
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    store.close().await;
    pair.copy("data", "old");
    // This copy was made before the archive started, and the archive lacks the commits in between.
    assert!(matches!(pair.refusal("before", pair.to("archive")), ArchiveError::Unknown { .. }));
    let store = pair.open();
    until_a_new_base(&pair, &store).await;
    store.close().await;
    for archiving in [pair.to("archive"), Archiving::End { even_if_lost: true }] {
        let refusal = pair.refusal("old", archiving);
        assert!(matches!(refusal, ArchiveError::OldCopy { .. }), "{refusal}");
    }
    // A refused directory is not changed.
    assert_eq!(all(&pair.open_as("old", 7, Archiving::ReadOnly).unwrap()).await.len(), 1);
}

/// Two copies of a store use the same archive in turn, and one of them has an unacknowledged commit.
#[tokio::test]
async fn err_different_commits_at_the_same_revision() {
    let pair = Pair::new();
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    store.close().await;
    pair.copy("data", "other");
    let store = pair.open();
    pair.archive.next(Step::Lose);
    put(&store, 2, b"two").await.unwrap_err();
    drop(store);
    let store = pair.open_as("other", 7, pair.to("archive")).unwrap();
    put(&store, 2, b"another").await.unwrap();
    store.close().await;
    let refusal = pair.refusal("data", pair.to("archive"));
    assert!(matches!(refusal, ArchiveError::Differs { revision: 2, .. }), "{refusal}");
}

#[tokio::test]
async fn ok_an_archive_that_was_set_back_gets_a_new_base() {
    let pair = Pair::new();
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    store.close().await;
    pair.copy("archive", "old");
    let store = pair.open();
    for round in 0..600_u32 {
        put(&store, round, &round.to_be_bytes()).await.unwrap();
    }
    let known = all(&store).await;
    store.close().await;
    fs::remove_dir_all(pair.at("archive")).unwrap();
    fs::rename(pair.at("old"), pair.at("archive")).unwrap();
    let store = pair.open();
    assert_eq!(pair.archived().unwrap(), known);
    put(&store, 700, b"on").await.unwrap();
    store.close().await;
    assert_eq!(pair.archived().unwrap().len(), known.len() + 1);
}

#[tokio::test]
async fn ok_an_archive_ends_and_another_one_starts() {
    let pair = Pair::new();
    let end = || Archiving::End { even_if_lost: false };
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    store.close().await;
    pair.copy("data", "old");
    for _ in 0..2 {
        let store = pair.open_as("data", 7, end()).unwrap();
        put(&store, 2, b"two").await.unwrap();
        store.close().await;
        assert_eq!(Archived::read(&pair.own()).unwrap().ending, Some(Ending::Left));
        assert_eq!(pair.archived().unwrap().len(), 1);
    }
    let lock = ArchiveLock::take(&pair.own()).unwrap();
    assert!(matches!(lock.hand_over(StoreId::new([1; 16]), "here"), Err(ArchiveError::Left { .. })));
    drop(lock);
    let store = pair.open_as("data", 8, pair.to("archive")).unwrap();
    put(&store, 3, b"three").await.unwrap();
    store.close().await;
    let read = Archived::read(&pair.own()).unwrap();
    assert!(read.ending.is_none() && read.records.len() == 3);
    // The copy has the mark of an archive that no longer exists.
    assert!(matches!(pair.refusal("old", pair.to("archive")), ArchiveError::Unknown { .. }));
}

/// Simulates a crash after the end was recorded in the archive, but before the store removed its mark.
#[tokio::test]
async fn ok_a_crash_while_an_archive_ends() {
    let pair = Pair::new();
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    store.close().await;
    pair.copy("data", "as-before");
    drop(pair.open_as("data", 7, Archiving::End { even_if_lost: false }).unwrap());
    pair.copy("as-before", "again");
    drop(pair.open_as("again", 7, Archiving::End { even_if_lost: false }).unwrap());
    let store = pair.open_as("as-before", 8, pair.to("archive")).unwrap();
    assert_eq!(all(&store).await.len(), 1);
    assert!(Archived::read(&pair.own()).unwrap().ending.is_none(), "a new archive was started");
}

#[tokio::test]
async fn ok_a_lost_archive_is_abandoned_only_explicitly() {
    let pair = Pair::new();
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    store.close().await;
    fs::rename(pair.at("archive"), pair.at("gone")).unwrap();
    let refusal = pair.refusal("data", Archiving::End { even_if_lost: false });
    assert!(matches!(refusal, ArchiveError::CannotEnd(_)), "{refusal}");
    let store = pair.open_as("data", 7, Archiving::End { even_if_lost: true }).unwrap();
    put(&store, 2, b"two").await.unwrap();
    store.close().await;
    drop(pair.open_as("data", 7, Archiving::None).unwrap());
    // If the lost archive reappears, it no longer belongs to the store.
    fs::rename(pair.at("gone"), pair.at("archive")).unwrap();
    assert!(matches!(pair.refusal("data", pair.to("archive")), ArchiveError::Unknown { .. }));
}

#[tokio::test]
async fn err_an_archive_that_is_gone_gets_advice_that_works() {
    let pair = Pair::new();
    drop(pair.open());
    fs::rename(pair.at("archive"), pair.at("gone")).unwrap();
    let (lost, archive) = ("is permanently lost, start once with --no-archive=lost", pair.at("archive"));
    let said = |archiving| {
        let refusal = pair.refusal("data", archiving);
        let cause = std::error::Error::source(&refusal).map(|cause| format!(": {cause}"));
        format!("{refusal}{}", cause.unwrap_or_default())
    };
    let end = || said(Archiving::End { even_if_lost: false });
    assert_eq!(end().matches(lost).count(), 1, "without the directory: {}", end());
    // The mount point of a disk that is not mounted is an empty directory.
    fs::create_dir(&archive).unwrap();
    for said in [said(pair.to("archive")), end()] {
        assert_eq!(said.matches(lost).count(), 1, "{said}");
        assert_eq!(said.matches("--no-archive").count(), 1, "{said}");
        assert_eq!(said.matches(&archive.display().to_string()).count(), 1, "{said}");
    }
    // An archive in another directory can be ended.
    fs::create_dir(pair.at("other")).unwrap();
    let elsewhere = said(pair.to("other"));
    assert!(elsewhere.ends_with("start once with --no-archive"), "{elsewhere}");
    fs::remove_dir(&archive).unwrap();
    fs::rename(pair.at("gone"), &archive).unwrap();
    drop(pair.open_as("data", 7, Archiving::End { even_if_lost: false }).unwrap());
}

#[tokio::test]
async fn err_a_restored_store_is_never_opened_again() {
    let pair = Pair::new();
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    store.close().await;
    let (into, other) = (StoreId::new([1; 16]), StoreId::new([2; 16]));
    let lock = ArchiveLock::take(&pair.own()).unwrap();
    assert!(matches!(pair.refusal("data", pair.to("archive")), ArchiveError::InUse { .. }));
    lock.hand_over(into, "/new").unwrap();
    lock.hand_over(into, "/new").unwrap();
    assert!(matches!(lock.hand_over(other, "/other"), Err(ArchiveError::Restored { .. })));
    drop(lock);
    let listed = Archived::list(&pair.at("archive")).unwrap();
    assert_eq!(listed, [(pair.own(), Some(Ending::Restored { into, place: "/new".to_owned() }))]);
    for archiving in [pair.to("archive"), Archiving::End { even_if_lost: true }] {
        assert!(matches!(pair.refusal("data", archiving), ArchiveError::Restored { .. }));
    }
}

/// Simulates crashes during the first start with an archive, after the mark was written to the store: before the
/// archive existed, or before the mark was updated.
#[tokio::test]
async fn ok_an_interrupted_start_of_an_archive_is_repeated() {
    let pair = Pair::new();
    let store = pair.open_as("data", 7, Archiving::None).unwrap();
    put(&store, 1, b"one").await.unwrap();
    store.close().await;
    let write_mark = || {
        let named = pair.at("archive").to_string_lossy().into_owned();
        let mark = Mark { generation: vec![7; 16], begun: false, dir: named };
        let config = ::sled::Config::new().path(pair.at("data")).segment_size(2 << 20).flush_every_ms(None);
        let db = config.open().unwrap();
        db.insert(
            super::super::record::Meta::Archive.raw_key(),
            super::super::record::Meta::Archive.seal_message(&mark),
        )
        .unwrap();
        db.flush().unwrap();
        drop(db);
        File::open(pair.at("data/db")).unwrap().lock().unwrap();
    };
    write_mark();
    let refusal = pair.refusal("data", Archiving::None);
    assert!(matches!(refusal, ArchiveError::NotConfigured { .. }), "{refusal}");
    drop(pair.open());
    assert_eq!(pair.archived().unwrap().len(), 1);
    write_mark();
    drop(pair.open());
    assert_eq!(pair.archived().unwrap().len(), 1);
}

/// Writes to a removed file succeed, so the store checks that the file still exists.
#[tokio::test]
async fn err_an_archive_that_disappears_while_the_store_is_open() {
    let pair = Pair::new();
    let store = pair.open();
    put(&store, 1, b"one").await.unwrap();
    fs::rename(pair.at("archive"), pair.at("gone")).unwrap();
    for _ in 0..3 {
        let error = put(&store, 2, b"two").await.unwrap_err();
        assert!(error.has_no_side_effects() && error.is_retryable(), "{error}");
        assert!(error.to_string().contains("/archive"), "{error}");
    }
    fs::rename(pair.at("gone"), pair.at("archive")).unwrap();
    put(&store, 2, b"two").await.unwrap();
    store.close().await;
    assert_eq!(pair.archived().unwrap().len(), 2);
}

/// Checks that the format never changes, because stored frames must stay readable.
#[test]
fn ok_golden_frames() {
    let head = frame::seal(&Head::new(StoreId::new([1; 16]), [2; 16], 3));
    assert_eq!(head.len(), BLOCK_BYTES);
    assert_eq!(&head[..12], b"KJF1\x00\x00\x00\x26\x35\x78\x69\x46");
    assert_eq!(&head[12..14], b"\x0a\x10");
    let mut redo = Redo::default();
    redo.add(StoreId::new([1; 16]), 4, []);
    assert_eq!(frame::open::<Redo>(&redo.frame()), Some((redo, BLOCK_BYTES)));
}
