//! Simulates power cuts during checkpoints and while sled is opened. The disk may keep any part of sled's writes since
//! our last sync.

use std::collections::BTreeMap;

use super::*;

/// The acknowledged records.
type Known = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// At each flush, builds possible states of the disk after a power cut before the sync, and checks that the store opens
/// in each of them.
struct Cutting {
    dir: std::path::PathBuf,
    /// The log at the last sync.
    synced: Vec<u8>,
    acknowledged: Known,
    random: u64,
    tried: Arc<Mutex<Tried>>,
}

/// The results of the simulated power cuts.
#[derive(Debug, Default)]
struct Tried {
    states: usize,
    wrong: Vec<String>,
    /// The maximum number of bytes that sled wrote between two of our syncs. Does not include writes before the first
    /// acknowledged commit, because sled then zeroes free segments.
    largest: usize,
}

const BLOCK: usize = 4096;

impl Durability for Cutting {
    fn append(&mut self, journal: &File, frame: &[u8], at: u64) -> Result<(), DiskError> {
        Ok(journal.write_all_at(frame, at)?)
    }

    fn flush(&mut self, db: &::sled::Db, _log: &File) -> Result<(), DiskError> {
        db.flush().map_err(super::error::LedgerError::from)?;
        let written = std::fs::read(self.dir.join("db")).unwrap();
        self.synced.resize(written.len(), 0);
        let blocks: Vec<usize> = (0..written.len()).step_by(BLOCK).collect();
        let block = |image: &[u8], at: usize| image[at..(at + BLOCK).min(image.len())].to_vec();
        let differ: Vec<usize> =
            blocks.into_iter().filter(|at| block(&written, *at) != block(&self.synced, *at)).collect();
        if !self.acknowledged.lock().unwrap().is_empty() {
            let mut tried = self.tried.lock().unwrap();
            tried.largest = tried.largest.max(differ.len() * BLOCK);
        }
        for way in 0..3 {
            if differ.is_empty() || !self.next_random().is_multiple_of(10) {
                continue;
            }
            let one = differ[self.next_random() as usize % differ.len()];
            let mut mixed = written.clone();
            for at in &differ {
                let lost = match way {
                    0 => *at == one,
                    1 => at / quirks::SEGMENT_BYTES == one / quirks::SEGMENT_BYTES,
                    _ => self.next_random().is_multiple_of(2),
                };
                if lost {
                    mixed[*at..(at + BLOCK).min(written.len())].copy_from_slice(&block(&self.synced, *at));
                }
            }
            self.check(&mixed, way);
        }
        self.synced = written;
        Ok(())
    }
}

impl Cutting {
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    /// Opens a copy of the directory with these contents of sled's log.
    fn check(&self, log: &[u8], way: usize) {
        let after = tempfile::tempdir().unwrap();
        copy(&self.dir, after.path(), |_| true, "");
        std::fs::write(after.path().join("db"), log).unwrap();
        let problem = find_problem(after.path(), &self.acknowledged.lock().unwrap());
        let mut tried = self.tried.lock().unwrap();
        tried.states += 1;
        let number = tried.states;
        tried.wrong.extend(problem.map(|problem| format!("state {number}, way {way}: {problem}")));
    }
}

/// Opens the store and compares it with the acknowledged records. Returns a description of any difference.
fn find_problem(dir: &Path, acknowledged: &BTreeMap<String, Vec<u8>>) -> Option<String> {
    // This runs on its own thread, because the first flush is called from the test's runtime.
    let read = || {
        let store = SledStore::open(options(dir)).map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.scan(&Key::ROOT)).map_err(|error| error.to_string())
    };
    let found = std::thread::scope(|scope| scope.spawn(read).join().unwrap());
    let by_key = |(key, it): (Key, crate::Versioned)| (key.as_str().to_owned(), it.value);
    let found = found.map(|found| found.into_iter().map(by_key).collect::<BTreeMap<_, _>>());
    match found {
        Ok(found) if found == *acknowledged => None,
        Ok(found) => Some(format!("{} records differ from the acknowledged ones", found.len())),
        Err(error) => Some(error),
    }
}

/// Opens a store in `dir` with simulated power cuts.
fn cut(dir: &Path) -> (Known, Arc<Mutex<Tried>>, SledStore) {
    let (known, tried) = (Known::default(), Arc::<Mutex<Tried>>::default());
    let cutting = Cutting {
        dir: dir.to_owned(),
        synced: Vec::new(),
        acknowledged: known.clone(),
        random: 7,
        tried: tried.clone(),
    };
    let store = SledStore::open_with(options(dir), Archiving::None, Box::new(cutting), Box::new(WriteAndSync)).unwrap();
    (known, tried, store)
}

/// Commits these values in one transaction.
async fn put(store: &SledStore, known: &Known, values: Vec<(String, Vec<u8>)>) {
    let txn =
        values.iter().fold(Txn::new(), |txn, (key, value)| txn.put(Key::new(key.clone()).unwrap(), value.clone()));
    store.commit(txn).await.unwrap();
    known.lock().unwrap().extend(values);
}

#[track_caller]
fn check_tried(tried: &Tried) {
    let Tried { states, wrong, largest } = tried;
    assert!(*states > 50, "only {states} states were tried");
    assert!(wrong.is_empty(), "{} of {states} states are wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    // sled cannot recover if parts of more than one segment are lost.
    assert!(*largest < quirks::SEGMENT_BYTES, "{largest} bytes between two syncs");
}

/// Small values share sled's leaves with large ones, so a write can move a leaf of a few hundred KiB.
#[tokio::test]
async fn a_power_cut_during_a_checkpoint_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (known, tried, store) = cut(dir.path());
    let mut random = 1_u64;
    for round in 0..40_u64 {
        let mut written = Vec::new();
        for _ in 0..120 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round | 1);
            let number = random >> 40 & 0x1ff;
            let key = format!("k/{number:03}");
            if written.iter().any(|(other, _)| *other == key) {
                continue;
            }
            // Large values are written only once.
            let is_large = number.is_multiple_of(2_u64);
            if is_large && (known.lock().unwrap().contains_key(&key) || written.len() > 60) {
                continue;
            }
            written.push((key, vec![random as u8; if is_large { 15_000 } else { 60 }]));
        }
        put(&store, &known, written).await;
    }
    store.close().await;
    check_tried(&tried.lock().unwrap());
}

/// Each of many leaves has large values that are written once, and a small value that is rewritten many times. sled
/// rewrites a leaf after about ten writes to it, so here it rewrites all leaves at the same time.
#[tokio::test]
async fn leaves_that_are_rewritten_together_are_synced_apart() {
    const LEAVES: u32 = 40;
    let dir = tempfile::tempdir().unwrap();
    let (known, tried, store) = cut(dir.path());
    for leaf in 0..LEAVES {
        let large = (0..14).map(|number| (format!("k/{leaf:03}/{number:03}"), vec![leaf as u8; 6_000]));
        put(&store, &known, large.collect()).await;
    }
    // The journal is filled about 14 times.
    for round in 0..2_400_u64 {
        let small = (0..LEAVES).map(|leaf| (format!("k/{leaf:03}/small"), round.to_be_bytes().repeat(6)));
        put(&store, &known, small.collect()).await;
    }
    store.close().await;
    check_tried(&tried.lock().unwrap());
}

/// The power fails while the store is opened. sled has written a snapshot under its temporary name, renamed it, and
/// zeroed the segments that the snapshot replaces. The disk has all of these writes except the rename.
#[tokio::test]
async fn a_power_cut_while_sled_is_opened_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (data, known, mut wrong) = (dir.path().join("data"), Known::default(), Vec::new());
    let is_snapshot = |name: &str| name.starts_with("snap.");
    for life in 0..12 {
        let before = dir.path().join(format!("before-{life}"));
        if life > 0 {
            copy(&data, &before, is_snapshot, "");
        }
        let store =
            SledStore::open_with(options(&data), Archiving::None, Box::new(FlushOnly), Box::new(WriteAndSync)).unwrap();
        if life > 0 {
            for has_old in [true, false] {
                let after = dir.path().join(format!("after-{life}-{has_old}"));
                copy(&data, &after, |name| !is_snapshot(name), "");
                copy(&data, &after, |name| is_snapshot(name) && !before.join(name).exists(), ".generating");
                copy(&before, &after, |_| has_old, "");
                let problem = find_problem(&after, &known.lock().unwrap());
                wrong
                    .extend(problem.map(|problem| format!("life {life}, with the old snapshot: {has_old}: {problem}")));
            }
        }
        for round in 0..1_500_u64 {
            let values = (0..16).map(|number| (format!("slot/{number:02}"), vec![round as u8; 2_000]));
            put(&store, &known, values.collect()).await;
        }
        store.close().await;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Copies the files whose names `matches` accepts, and appends `suffix` to their names.
fn copy(from: &Path, to: &Path, matches: impl Fn(&str) -> bool, suffix: &str) {
    std::fs::create_dir_all(to.join("blobs")).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_file() && matches(&name) {
            std::fs::copy(entry.path(), to.join(name + suffix)).unwrap();
        }
    }
}
