//! Power cuts while sled is being written: of what it has written since our last sync, a disk may have kept any part.

use std::collections::BTreeMap;

use super::*;

/// What a test knows to be acknowledged.
type Known = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// At each flush, looks at what a disk may hold if the power fails before the sync: of what sled has written since the last one, any part.
struct Cutting {
    dir: std::path::PathBuf,
    /// What was synced last.
    synced: Vec<u8>,
    known: Known,
    random: u64,
    tried: Arc<Mutex<(usize, Vec<String>)>>,
}

const BLOCK: usize = 4096;

impl Durability for Cutting {
    fn append(&mut self, journal: &File, frame: &[u8], at: u64) -> Result<(), DiskError> {
        Ok(journal.write_all_at(frame, at)?)
    }

    fn flush(&mut self, db: &::sled::Db, _log: &File) -> Result<(), DiskError> {
        db.flush().map_err(super::ledger::LedgerError::from)?;
        let written = std::fs::read(self.dir.join("db")).unwrap();
        self.synced.resize(written.len(), 0);
        let blocks: Vec<usize> = (0..written.len()).step_by(BLOCK).collect();
        let block = |image: &[u8], at: usize| image[at..(at + BLOCK).min(image.len())].to_vec();
        let differ: Vec<usize> =
            blocks.into_iter().filter(|at| block(&written, *at) != block(&self.synced, *at)).collect();
        for way in 0..3 {
            if differ.is_empty() || !self.draw().is_multiple_of(5) {
                continue;
            }
            let one = differ[self.draw() as usize % differ.len()];
            let mut mixed = written.clone();
            for at in &differ {
                let lost = match way {
                    0 => *at == one,
                    1 => at / disk::SEGMENT_BYTES == one / disk::SEGMENT_BYTES,
                    _ => self.draw().is_multiple_of(2),
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
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    /// Opens a copy of the directory with this as sled's log.
    fn check(&self, log: &[u8], way: usize) {
        let after = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(&self.dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), after.path().join(entry.file_name())).unwrap();
            }
        }
        std::fs::create_dir_all(after.path().join("blobs")).unwrap();
        std::fs::write(after.path().join("db"), log).unwrap();
        // On a thread of its own, since the first flush is called from the test's runtime.
        let read = || {
            let store = SledStore::open(options(after.path())).map_err(|error| error.to_string())?;
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(store.scan(&Key::ROOT)).map_err(|error| error.to_string())
        };
        let found = std::thread::scope(|scope| scope.spawn(read).join().unwrap());
        let by_key = |(key, it): (Key, crate::Versioned)| (key.as_str().to_owned(), it.value);
        let found = found.map(|found| found.into_iter().map(by_key).collect::<BTreeMap<_, _>>());
        let trouble = match found {
            Ok(found) if found == *self.known.lock().unwrap() => None,
            Ok(found) => Some(format!("{} records, not what was acknowledged", found.len())),
            Err(error) => Some(error),
        };
        let mut tried = self.tried.lock().unwrap();
        tried.0 += 1;
        let number = tried.0;
        tried.1.extend(trouble.map(|trouble| format!("state {number}, way {way}: {trouble}")));
    }
}

/// Small values that share sled's leaves with large ones: every write may move a leaf of some hundred KiB.
#[tokio::test]
async fn a_power_cut_while_sled_is_written_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (known, tried) = (Known::default(), Arc::<Mutex<(usize, Vec<String>)>>::default());
    let path = dir.path().to_owned();
    let cutting = Cutting { dir: path, synced: Vec::new(), known: known.clone(), random: 7, tried: tried.clone() };
    let store = SledStore::open_with(options(dir.path()), Box::new(cutting)).unwrap();
    let mut random = 1_u64;
    for round in 0..60_u64 {
        let (mut txn, mut written) = (Txn::new(), Vec::new());
        for _ in 0..120 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round | 1);
            let number = random >> 40 & 0x1ff;
            let key = format!("k/{number:03}");
            if written.iter().any(|(other, _)| *other == key) {
                continue;
            }
            // The large ones are written once.
            let is_large = number.is_multiple_of(2_u64);
            if is_large && (known.lock().unwrap().contains_key(&key) || written.len() > 60) {
                continue;
            }
            let value = vec![random as u8; if is_large { 15_000 } else { 60 }];
            txn = txn.put(Key::new(key.clone()).unwrap(), value.clone());
            written.push((key, value));
        }
        store.commit(txn).await.unwrap();
        known.lock().unwrap().extend(written);
    }
    store.close().await;
    let tried = tried.lock().unwrap();
    assert!(tried.0 > 50, "{} states only", tried.0);
    assert!(
        tried.1.is_empty(),
        "{} of {} states are wrong: {:#?}",
        tried.1.len(),
        tried.0,
        &tried.1[..tried.1.len().min(5)]
    );
}
