//! An opened database: reads, compares and applies, in one thread, and makes nothing durable by itself.

use crate::error::{CommitError, ReadError};
use crate::key::Key;
use crate::store::StoreId;
use crate::txn::{Committed, Txn, Version, Versioned};

use super::record::{self, FIRST_KEY, LAYOUT, Meta};

/// The database and the revision it has reached.
pub(super) struct Ledger {
    db: ::sled::Db,
    id: StoreId,
    revision: u64,
}

/// What came of a transaction, before anything is durable.
pub(super) enum Verdict {
    /// Its guards held; there was nothing to write.
    Held(Committed),
    /// Its guards held and its writes were made.
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
    /// The database has contents, but not the records of a store.
    #[error("the database was not created by Kent")]
    Foreign,
}

impl Ledger {
    /// Takes over `db`: reads what the store knows of itself, or writes it if the database is new, and writes the
    /// marker that tells this opening from the one before. Nothing is durable yet.
    ///
    /// `known` is the revision that it is known to have had.
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
        if let Some(known) = known.filter(|known| *known > revision) {
            return Err(LedgerError::Lost { found: revision, known });
        }
        let opened = u64::from_be_bytes(meta(&db, Meta::Opened)?);
        db.insert(Meta::Opened.raw_key(), Meta::Opened.seal((opened + 1).to_be_bytes()))?;
        Ok(Self { db, id, revision })
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
        Ok(Self { db, id: StoreId::new(new_id), revision: 0 })
    }

    pub(super) fn id(&self) -> StoreId {
        self.id
    }

    /// The revision that it has reached.
    pub(super) fn revision(&self) -> u64 {
        self.revision
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

    /// Compares, and writes if all guards hold. An `Err` leaves it open whether anything was written.
    pub(super) fn commit(&mut self, txn: &Txn) -> Result<Verdict, LedgerError> {
        match self.compare(txn) {
            Ok(None) if txn.writes().is_empty() => {
                Ok(Verdict::Held(Committed { version: Version::new(self.revision) }))
            }
            Ok(None) => Ok(Verdict::Wrote(self.write(txn)?)),
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
        Ok(self.get(key)?.map_or(Version::ABSENT, |versioned| versioned.version))
    }

    fn write(&mut self, txn: &Txn) -> Result<Committed, LedgerError> {
        // OK because at a billion commits a second 64 bits last for centuries.
        let revision = self.revision + 1;
        let version = Version::new(revision);
        let mut batch = ::sled::Batch::default();
        batch.insert(Meta::Revision.raw_key(), Meta::Revision.seal(revision.to_be_bytes()));
        for (key, value) in txn.writes() {
            match value {
                Some(value) => batch.insert(key.as_str(), record::seal(key, version, value)),
                None => batch.remove(key.as_str()),
            }
        }
        self.db.apply_batch(batch)?;
        self.revision = revision;
        Ok(Committed { version })
    }
}

fn meta<const N: usize>(db: &::sled::Db, meta: Meta) -> Result<[u8; N], LedgerError> {
    let sealed = db.get(meta.raw_key())?.ok_or(LedgerError::Foreign)?;
    Ok(meta.open(&sealed)?)
}
