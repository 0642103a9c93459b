//! An opened database: reads, compares and applies, in one thread, and makes nothing durable by itself.
//!
//! A batch goes through it in two steps, with the journal between them: [`Ledger::decide`] says what each transaction comes to, and
//! [`Ledger::apply`] writes it to sled. sled thus never has what the journal has not, whatever it writes to its file and when.

use std::collections::HashMap;

use crate::error::{CommitError, ReadError};
use crate::key::Key;
use crate::store::StoreId;
use crate::txn::{Committed, Txn, Version, Versioned};

use super::journal::{RawWrite, Redo};
use super::record::{self, FIRST_KEY, LAYOUT, Meta};

/// The database, and the revision it has reached with what was decided.
pub(super) struct Ledger {
    db: ::sled::Db,
    id: StoreId,
    revision: u64,
    /// What was decided and is not applied yet.
    redo: Redo,
    /// The versions of the keys that it writes.
    decided: HashMap<Key, Version>,
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

/// Why the ledger could not do something.
#[derive(Debug, thiserror::Error)]
pub(super) enum LedgerError {
    /// The database itself fails.
    #[error("sled: {0}")]
    Sled(#[from] ::sled::Error),
    /// One value is not what it should be; the database works.
    #[error(transparent)]
    Value(#[from] ReadError),
    /// The database was laid out by a newer Kent.
    #[error("the database has layout {found}, this Kent knows {LAYOUT}")]
    NewerLayout { found: u32 },
    /// The database is older than it was.
    #[error("it has lost its newest commits: it is at revision {found}, and revision {known} was acknowledged")]
    Lost {
        /// Its revision.
        found: u64,
        /// The one that it had.
        known: u64,
    },
    /// The journal is not this database's.
    #[error("its journal belongs to another database")]
    OtherJournal,
    /// The database has contents, but not the records of a store.
    #[error("the database was not created by Kent")]
    Foreign,
}

impl Ledger {
    /// Takes over `db`: reads what the store knows of itself, or writes it if the database is new, and writes the
    /// marker that tells this opening from the one before. Nothing is durable yet.
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
        let opened = u64::from_be_bytes(meta(&db, Meta::Opened)?);
        db.insert(Meta::Layout.raw_key(), Meta::Layout.seal(LAYOUT.to_be_bytes()))?;
        db.insert(Meta::Opened.raw_key(), Meta::Opened.seal((opened + 1).to_be_bytes()))?;
        Ok(Self { db, id, revision, redo: Redo::default(), decided: HashMap::new() })
    }

    /// Writes again what the journal has and the database has not. After it the database is whole, or there is an error.
    pub(super) fn recover(&mut self, journal: &[Redo], known: Option<u64>) -> Result<(), LedgerError> {
        for redo in journal {
            if redo.store != self.id.as_bytes() {
                return Err(LedgerError::OtherJournal);
            }
            if redo.follows(self.revision)? {
                self.write(redo)?;
                self.revision = redo.last;
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
        batch.insert(Meta::Opened.raw_key(), Meta::Opened.seal(1_u64.to_be_bytes()));
        db.apply_batch(batch)?;
        Ok(Self { db, id: StoreId::new(new_id), revision: 0, redo: Redo::default(), decided: HashMap::new() })
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

    pub(super) fn db(&self) -> &::sled::Db {
        &self.db
    }

    pub(super) fn get(&self, key: &Key) -> Result<Option<Versioned>, LedgerError> {
        let Some(raw) = self.db.get(key.as_str())? else { return Ok(None) };
        Ok(Some(record::open(key, &raw)?))
    }

    pub(super) fn scan(&self, prefix: &Key) -> Result<Vec<(Key, Versioned)>, LedgerError> {
        let from = prefix.as_str().as_bytes().max(FIRST_KEY);
        let mut found = Vec::new();
        for entry in self.db.range(from..) {
            let (raw_key, raw) = entry?;
            if !raw_key.starts_with(prefix.as_str().as_bytes()) {
                break;
            }
            let key = record::key(&raw_key)?;
            let versioned = record::open(&key, &raw)?;
            found.push((key, versioned));
        }
        Ok(found)
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

    /// Writes what was decided. An `Err` leaves it open how much of it was written.
    pub(super) fn apply(&mut self) -> Result<(), LedgerError> {
        self.decided.clear();
        let redo = std::mem::take(&mut self.redo);
        self.write(&redo)
    }

    /// The revision comes last: of what sled has written to its file, a crash leaves the first part.
    fn write(&self, redo: &Redo) -> Result<(), LedgerError> {
        for RawWrite { key, value } in &redo.writes {
            match value {
                Some(value) => drop(self.db.insert(key, value.as_slice())?),
                None => drop(self.db.remove(key)?),
            }
        }
        self.db.insert(Meta::Revision.raw_key(), Meta::Revision.seal(redo.last.to_be_bytes()))?;
        Ok(())
    }
}

fn meta<const N: usize>(db: &::sled::Db, meta: Meta) -> Result<[u8; N], LedgerError> {
    let sealed = db.get(meta.raw_key())?.ok_or(LedgerError::Foreign)?;
    Ok(meta.open(&sealed)?)
}
