//! An opened database: reads, compares and applies, in one thread, and makes nothing durable by itself.
//!
//! A batch goes through it in steps, with the journal between the first two. [`Ledger::decide`] says what each transaction comes
//! to. [`Ledger::settle`] keeps what was decided and is durable, in memory. When the journal has to begin anew, all that was kept is
//! written to sled in pieces ([`Ledger::write_piece`]), each flushed before the next, and last the revision
//! ([`Ledger::write_revision`]): until that is durable the journal would write everything again, so it does not matter how
//! much of it a crash leaves.

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

/// How long the thread reads for one page. A leaf that is not in sled's cache takes some 30 us, and a commit may wait for the page.
const PAGE_TIME_MAX: Duration = Duration::from_micros(100);

/// The database, and the revision it has reached with what was decided.
pub(super) struct Ledger {
    db: ::sled::Db,
    id: StoreId,
    revision: u64,
    /// What was decided and is not durable yet.
    redo: Redo,
    /// The versions of the keys that it writes.
    decided: HashMap<Key, Version>,
    /// What is durable in the journal and was not written to sled yet: raw values by raw keys, nothing for what was removed.
    kept: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// The revision of what is durable.
    settled: u64,
    /// The moments that are being read.
    snapshots: Vec<Snapshot>,
}

/// What came of a transaction, before anything is durable.
pub(super) enum Verdict {
    /// Its guards held; there was nothing to write.
    Held(Committed),
    /// Its guards held and its writes are to be made.
    Wrote(Committed),
    /// It changed nothing, for this reason.
    Refused(CommitError),
}

impl Ledger {
    fn new(db: ::sled::Db, id: StoreId, revision: u64) -> Self {
        let (redo, decided, kept) = (Redo::default(), HashMap::new(), BTreeMap::new());
        Self { db, id, revision, redo, decided, kept, settled: revision, snapshots: Vec::new() }
    }

    /// Takes over `db`: reads what the store knows of itself, or writes it if the database is new. Nothing is durable yet.
    ///
    /// `known` is the revision that it is known to have had; [`Ledger::recover`] may be needed to get there.
    pub(super) fn load(db: ::sled::Db, new_id: [u8; 16], known: Option<u64>) -> Result<Self, LedgerError> {
        let Some(layout) = db.get(Meta::Layout.raw_key())? else {
            return match known {
                // What looks new is what is left of an old one.
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

    /// Writes the marker that tells this opening from the one before, and the layout that it has from now on. A database that is
    /// refused is left as it was.
    pub(super) fn mark_opened(&self) -> Result<(), LedgerError> {
        let opened = u64::from_be_bytes(meta(&self.db, Meta::Opened)?);
        self.db.insert(Meta::Layout.raw_key(), Meta::Layout.seal(LAYOUT.to_be_bytes()))?;
        self.db.insert(Meta::Opened.raw_key(), Meta::Opened.seal((opened + 1).to_be_bytes()))?;
        Ok(())
    }

    /// Keeps what the journal has and sled has not. After it the database is whole, or there is an error.
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

    /// The revision that it has reached.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// What was decided and is not applied yet.
    pub(super) const fn redo(&self) -> &Redo {
        &self.redo
    }

    /// What the store remembers of its archive.
    pub(super) fn archive_mark(&self) -> Result<Option<Mark>, LedgerError> {
        let sealed = self.db.get(Meta::Archive.raw_key())?;
        Ok(sealed.map(|sealed| Meta::Archive.open_message(&sealed)).transpose()?)
    }

    /// Writes it, to be flushed.
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

    /// The next page of a reading, behind the last key that was looked at for the one before.
    pub(super) fn page(&mut self, reading: &Arc<Reading>, after: Option<&Key>) -> Result<Part, LedgerError> {
        self.snapshots.retain(Snapshot::is_wanted);
        let known = self.snapshots.iter().position(|snapshot| snapshot.is_of(reading));
        let mut snapshot = match (known.map(|at| self.snapshots.swap_remove(at)), after) {
            (Some(known), _) => known,
            (None, None) => Snapshot::new(reading, self.settled),
            (None, Some(_)) => {
                let gone = Unavailable::backend("the database was opened anew while it was read: read again");
                return Err(ReadError::from(gone).into());
            }
        };
        if let Some(after) = after {
            snapshot.go_on(after)?;
        }
        let began = Instant::now();
        let part = snapshot.page(self.present(snapshot.from()), || began.elapsed() >= PAGE_TIME_MAX)?;
        if part.rest.is_some() {
            self.snapshots.push(snapshot);
        }
        Ok(part)
    }

    /// What is there now.
    fn present(&self, from: Bound<&[u8]>) -> impl Iterator<Item = Result<Row, LedgerError>> {
        let range = (from, Bound::Unbounded);
        let stored = self.db.range::<&[u8], _>(range).map(|row| row.map_err(LedgerError::from));
        let kept = self.kept.range::<[u8], _>(range).map(|(key, value)| (key.as_slice(), value.as_deref()));
        overlay(stored, kept)
    }

    /// Compares with what was decided before. Nothing is written.
    pub(super) fn decide(&mut self, txn: &Txn) -> Result<Verdict, LedgerError> {
        match self.compare(txn) {
            Ok(None) if txn.writes().is_empty() => {
                Ok(Verdict::Held(Committed { version: Version::new(self.revision) }))
            }
            Ok(None) => Ok(Verdict::Wrote(self.accept(txn))),
            Ok(Some(conflict)) => Ok(Verdict::Refused(conflict)),
            Err(LedgerError::Value(error)) => Ok(Verdict::Refused(error.into())),
            Err(error) => Err(error),
        }
    }

    /// The first conflict. Keys that are written without a guard are read as well: a damaged value must not vanish
    /// under a new one.
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
        // OK because at a billion commits a second 64 bits last for centuries.
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

    /// Keeps what was decided: it is durable now.
    pub(super) fn settle(&mut self) -> Result<(), LedgerError> {
        self.decided.clear();
        let redo = mem::take(&mut self.redo);
        self.keep_for_readings(&redo)?;
        self.keep(redo);
        Ok(())
    }

    /// Has readings keep what is overwritten now and was not read yet.
    fn keep_for_readings(&mut self, redo: &Redo) -> Result<(), LedgerError> {
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

    /// Whether something is kept behind this key.
    pub(super) fn keeps_more(&self, after: Option<&[u8]>) -> bool {
        self.kept_after(after).next().is_some()
    }

    /// Writes some of what is kept behind a key to sled, in order, and says up to where. It is kept until it is forgotten.
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

    /// Writes the revision of what was kept, all of which is durable in sled.
    pub(super) fn write_revision(&self) -> Result<(), LedgerError> {
        self.db.insert(Meta::Revision.raw_key(), Meta::Revision.seal(self.settled.to_be_bytes()))?;
        Ok(())
    }

    /// Forgets what was kept: sled has it, and its revision, durably.
    pub(super) fn forget(&mut self) {
        self.kept.clear();
    }
}

fn meta<const N: usize>(db: &::sled::Db, meta: Meta) -> Result<[u8; N], LedgerError> {
    let sealed = db.get(meta.raw_key())?.ok_or(LedgerError::Foreign)?;
    Ok(meta.open(&sealed)?)
}
