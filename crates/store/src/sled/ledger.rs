//! An open database: reads, compares and applies transactions on one thread. The ledger itself makes nothing durable.
//!
//! A batch goes through these steps. [`Ledger::decide`] compares each transaction. Then the journal makes the batch
//! durable, and [`Ledger::settle`] keeps its writes in memory. When the journal is full, a checkpoint writes them to
//! sled in pieces ([`Ledger::write_piece`]), flushes each piece before the next, and writes the revision last
//! ([`Ledger::write_revision`]). Until the revision is durable, a recovery replays the whole journal, so a crash may
//! leave any of the pieces.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{CommitError, ReadError, Unavailable};
use crate::key::Key;
use crate::store::StoreId;
use crate::txn::{Committed, Txn, Version, Versioned};

use super::error::LedgerError;
use super::journal::{RawWrite, Redo};
use super::quirks::{PAGES_A_WRITE, PIECE_BYTES_MAX, PIECE_WRITES_MAX, leaves::Leaves};
use super::record::{self, LAYOUT, Mark, Meta};
use super::snapshot::{Part, Reading, Row, Snapshot, overlay};

/// The time after which the read of a page makes way for other requests. A leaf that is not in sled's cache takes about
/// 30 us.
const PAGE_TIME_MAX: Duration = Duration::from_micros(100);

/// The database, and the writes that it does not have yet.
pub(super) struct Ledger {
    db: ::sled::Db,
    id: StoreId,
    /// The revision of the last decided commit.
    revision: u64,
    /// The decided writes that are not durable yet.
    redo: Redo,
    /// The versions of the keys in `redo`.
    decided: HashMap<Key, Version>,
    /// The writes that are durable in the journal and not in sled yet: raw values by raw keys. `None` removes the key.
    kept: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// The revision of the last durable commit.
    settled: u64,
    /// The snapshots of the paged reads in progress.
    snapshots: Vec<Snapshot>,
}

/// The decision on a transaction, before anything is durable.
pub(super) enum Verdict {
    /// The guards hold, and the transaction has no writes.
    Unchanged(Committed),
    /// The guards hold, and the transaction has writes.
    Wrote(Committed),
    /// The transaction is refused with this error.
    Refused(CommitError),
}

impl Ledger {
    fn new(db: ::sled::Db, id: StoreId, revision: u64) -> Self {
        let (redo, decided, kept) = (Redo::default(), HashMap::new(), BTreeMap::new());
        Self { db, id, revision, redo, decided, kept, settled: revision, snapshots: Vec::new() }
    }

    /// Reads the store's own records from `db`, or writes them if the database is new. Nothing is durable yet.
    ///
    /// `known` is the newest acknowledged revision, if known. A call of [`Ledger::recover`] may be needed to reach it.
    pub(super) fn load(db: ::sled::Db, new_id: [u8; 16], known: Option<u64>) -> Result<Self, LedgerError> {
        let Some(layout) = db.get(Meta::Layout.raw_key())? else {
            return match known {
                // The database looks new, but it has lost its contents.
                Some(known) => Err(LedgerError::Lost { found: 0, known }),
                None => Self::create(db, new_id),
            };
        };
        let found = u32::from_be_bytes(Meta::Layout.open(&layout)?);
        if found > LAYOUT {
            return Err(LedgerError::NewerLayout { found });
        }
        let id = StoreId::new(meta(&db, Meta::Id)?);
        let revision = u64::from_be_bytes(meta(&db, Meta::Revision)?);
        Ok(Self::new(db, id, revision))
    }

    /// Writes the marker that distinguishes this opening from the previous one, and the current layout. Called only
    /// after all checks, so that a refused database is not changed.
    pub(super) fn mark_opened(&self) -> Result<(), LedgerError> {
        let opened = u64::from_be_bytes(meta(&self.db, Meta::Opened)?);
        self.db.insert(Meta::Layout.raw_key(), Meta::Layout.seal(LAYOUT.to_be_bytes()))?;
        self.db.insert(Meta::Opened.raw_key(), Meta::Opened.seal((opened + 1).to_be_bytes()))?;
        Ok(())
    }

    /// Adds the commits of the journal or archive that sled lacks. Fails if commits are still missing.
    pub(super) fn recover(&mut self, journal: Vec<Redo>, known: Option<u64>) -> Result<(), LedgerError> {
        for redo in journal {
            if redo.store != self.id.as_bytes() {
                return Err(LedgerError::OtherJournal);
            }
            if redo.follows(self.revision)? {
                self.revision = redo.last;
                self.keep(redo);
            }
        }
        match known {
            Some(known) if known > self.revision => Err(LedgerError::Lost { found: self.revision, known }),
            _ => Ok(()),
        }
    }

    fn create(db: ::sled::Db, new_id: [u8; 16]) -> Result<Self, LedgerError> {
        if !db.is_empty() {
            return Err(LedgerError::Foreign);
        }
        let mut batch = ::sled::Batch::default();
        batch.insert(Meta::Layout.raw_key(), Meta::Layout.seal(LAYOUT.to_be_bytes()));
        batch.insert(Meta::Id.raw_key(), Meta::Id.seal(new_id));
        batch.insert(Meta::Revision.raw_key(), Meta::Revision.seal(0_u64.to_be_bytes()));
        batch.insert(Meta::Opened.raw_key(), Meta::Opened.seal(0_u64.to_be_bytes()));
        db.apply_batch(batch)?;
        Ok(Self::new(db, StoreId::new(new_id), 0))
    }

    pub(super) fn id(&self) -> StoreId {
        self.id
    }

    /// Returns the revision of the last decided commit.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the decided writes that are not durable yet.
    pub(super) const fn redo(&self) -> &Redo {
        &self.redo
    }

    /// Returns the mark that names the store's archive.
    pub(super) fn archive_mark(&self) -> Result<Option<Mark>, LedgerError> {
        let sealed = self.db.get(Meta::Archive.raw_key())?;
        Ok(sealed.map(|sealed| Meta::Archive.open_message(&sealed)).transpose()?)
    }

    /// Writes the mark of the archive. The caller must flush it.
    pub(super) fn write_archive_mark(&self, mark: Option<&Mark>) -> Result<(), LedgerError> {
        match mark {
            Some(mark) => drop(self.db.insert(Meta::Archive.raw_key(), Meta::Archive.seal_message(mark))?),
            None => drop(self.db.remove(Meta::Archive.raw_key())?),
        }
        Ok(())
    }

    pub(super) fn db(&self) -> &::sled::Db {
        &self.db
    }

    pub(super) fn get(&self, key: &Key) -> Result<Option<Versioned>, LedgerError> {
        let opened = |raw: &[u8]| record::open(key, raw).map_err(LedgerError::from);
        match self.kept.get(key.as_str().as_bytes()) {
            Some(kept) => kept.as_deref().map(opened).transpose(),
            None => self.db.get(key.as_str())?.map(|raw| opened(&raw)).transpose(),
        }
    }

    /// Returns the next page of a paged read, after the last key of the previous page, with at most `most` records. The
    /// page ends earlier if it takes long and `is_awaited`, because other requests wait for the thread.
    pub(super) fn page(
        &mut self,
        (reading, after, most): (&Arc<Reading>, Option<&Key>, usize),
        is_awaited: impl Fn() -> bool,
    ) -> Result<Part, LedgerError> {
        self.snapshots.retain(Snapshot::is_wanted);
        let known = self.snapshots.iter().position(|snapshot| snapshot.is_of(reading));
        let mut snapshot = match (known.map(|at| self.snapshots.swap_remove(at)), after) {
            (Some(known), _) => known,
            (None, None) => Snapshot::new(reading, self.settled),
            (None, Some(_)) => {
                let gone = Unavailable::backend("the database was reopened during the read: start a new read");
                return Err(ReadError::from(gone).into());
            }
        };
        if let Some(after) = after {
            snapshot.advance(after)?;
        }
        let began = Instant::now();
        let is_over = || began.elapsed() >= PAGE_TIME_MAX && is_awaited();
        let part = snapshot.page(self.present(snapshot.from()), most, is_over)?;
        if part.rest.is_some() {
            self.snapshots.push(snapshot);
        }
        Ok(part)
    }

    /// Returns the current records.
    fn present(&self, from: Bound<&[u8]>) -> impl Iterator<Item = Result<Row, LedgerError>> {
        let range = (from, Bound::Unbounded);
        let stored = self.db.range::<&[u8], _>(range).map(|row| row.map_err(LedgerError::from));
        let kept = self.kept.range::<[u8], _>(range).map(|(key, value)| (key.as_slice(), value.as_deref()));
        overlay(stored, kept)
    }

    /// Compares the guards with the stored versions and with earlier decisions of the batch. Writes nothing.
    pub(super) fn decide(&mut self, txn: &Txn) -> Result<Verdict, LedgerError> {
        match self.compare(txn) {
            Ok(None) if txn.writes().is_empty() => {
                Ok(Verdict::Unchanged(Committed { version: Version::new(self.revision) }))
            }
            Ok(None) => Ok(Verdict::Wrote(self.accept(txn))),
            Ok(Some(conflict)) => Ok(Verdict::Refused(conflict)),
            Err(LedgerError::Value(error)) => Ok(Verdict::Refused(error.into())),
            Err(error) => Err(error),
        }
    }

    /// Returns the first conflict. Also reads the keys to write, so that a new value never hides a damaged one.
    fn compare(&self, txn: &Txn) -> Result<Option<CommitError>, LedgerError> {
        for (key, expected) in txn.guards() {
            let (key, expected, actual) = (key.clone(), *expected, self.version(key)?);
            if actual != expected {
                return Ok(Some(CommitError::Conflict { key, expected, actual }));
            }
        }
        txn.writes().iter().try_for_each(|(key, _)| self.version(key).map(drop))?;
        Ok(None)
    }

    fn version(&self, key: &Key) -> Result<Version, LedgerError> {
        if let Some(decided) = self.decided.get(key) {
            return Ok(*decided);
        }
        Ok(self.get(key)?.map_or(Version::ABSENT, |versioned| versioned.version))
    }

    fn accept(&mut self, txn: &Txn) -> Committed {
        // OK because 64 bits last for centuries at a billion commits per second.
        self.revision += 1;
        let version = Version::new(self.revision);
        let writes = txn.writes().iter().map(|(key, value)| RawWrite {
            key: key.as_str().into(),
            value: value.as_ref().map(|value| record::seal(key, version, value)),
        });
        self.redo.add(self.id, self.revision, writes);
        let versions =
            txn.writes().iter().map(|(key, value)| (key, value.as_ref().map_or(Version::ABSENT, |_| version)));
        self.decided.extend(versions.map(|(key, version)| (key.clone(), version)));
        Committed { version }
    }

    /// Keeps the decided writes, which are now durable, in memory.
    pub(super) fn settle(&mut self) -> Result<(), LedgerError> {
        self.decided.clear();
        let redo = mem::take(&mut self.redo);
        self.keep_for_snapshots(&redo)?;
        self.keep(redo);
        Ok(())
    }

    /// Copies the values that are about to be overwritten to the snapshots that need them.
    fn keep_for_snapshots(&mut self, redo: &Redo) -> Result<(), LedgerError> {
        self.snapshots.retain(Snapshot::is_wanted);
        let mut snapshots = mem::take(&mut self.snapshots);
        for snapshot in &mut snapshots {
            for RawWrite { key, .. } in &redo.writes {
                if !snapshot.needs(key) {
                    continue;
                }
                match self.kept.get(key) {
                    Some(None) => {}
                    Some(Some(kept)) => snapshot.keep(&record::key(key)?, kept)?,
                    None => {
                        let stored = self.db.get(key)?;
                        stored.map_or(Ok(()), |stored| snapshot.keep(&record::key(key)?, &stored))?;
                    }
                }
            }
        }
        self.snapshots = snapshots;
        Ok(())
    }

    fn keep(&mut self, redo: Redo) {
        self.settled = redo.last;
        self.kept.extend(redo.writes.into_iter().map(|RawWrite { key, value }| (key, value)));
    }

    /// Returns true if there are kept writes after this key.
    pub(super) fn keeps_more(&self, after: Option<&[u8]>) -> bool {
        self.kept_after(after).next().is_some()
    }

    /// Writes some of the kept writes after a key to sled, in order, and returns the last key. The writes stay in
    /// memory until [`Ledger::forget`].
    pub(super) fn write_piece(&self, after: Option<&[u8]>) -> Result<Option<Vec<u8>>, LedgerError> {
        let (mut written, mut weight, mut leaves) = (None, 0, Leaves::new(&self.db));
        for (key, value) in self.kept_after(after).take(PIECE_WRITES_MAX) {
            weight += PAGES_A_WRITE * leaves.around(key, value.as_deref())?;
            match value {
                Some(value) => drop(self.db.insert(key, value.as_slice())?),
                None => drop(self.db.remove(key)?),
            }
            written = Some(key.clone());
            if weight >= PIECE_BYTES_MAX {
                break;
            }
        }
        Ok(written)
    }

    fn kept_after(&self, after: Option<&[u8]>) -> impl Iterator<Item = (&Vec<u8>, &Option<Vec<u8>>)> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.kept.range::<[u8], _>((after, Bound::Unbounded))
    }

    /// Writes the revision of the kept writes to sled. All of these writes must already be durable in sled.
    pub(super) fn write_revision(&self) -> Result<(), LedgerError> {
        self.db.insert(Meta::Revision.raw_key(), Meta::Revision.seal(self.settled.to_be_bytes()))?;
        Ok(())
    }

    /// Discards the kept writes. They and their revision must be durable in sled.
    pub(super) fn forget(&mut self) {
        self.kept.clear();
    }
}

fn meta<const N: usize>(db: &::sled::Db, meta: Meta) -> Result<[u8; N], LedgerError> {
    let sealed = db.get(meta.raw_key())?.ok_or(LedgerError::Foreign)?;
    Ok(meta.open(&sealed)?)
}
