//! Filling a new store with the records of another one, so that nothing that comes late can change it afterwards.
//!
//! The store is marked first (`restoring`), which only works where no daemon has founded it. The mark names the attempt and its
//! step. Each step compares the version of the mark and writes it anew, so a commit that comes late, of this attempt or of one
//! that was broken off, changes nothing. The last step takes the mark away and writes `cluster`, which makes the store whole.

use std::collections::BTreeMap;

use kent_proto::stored::Malformed;
use kent_store::{
    CommitError, KEY_BYTES_MAX, Key, Store, StoreId, TXN_BYTES_MAX, Txn, VALUE_BYTES_MAX, Version, Versioned,
};
use thiserror::Error;
use tokio::time::{self, Duration};

use crate::{
    host::entropy::{self, Entropy},
    records::{failure::StoreFailure, keys},
};

/// A store that is marked, and what it is to hold.
#[derive(Debug)]
pub(crate) struct Filling<'s> {
    store: &'s dyn Store,
    records: BTreeMap<Key, Vec<u8>>,
    mark: Mark,
    /// Of the mark in the store.
    version: Version,
    goes_on: bool,
    /// What an earlier attempt wrote under revisions of its own, which follow its time.
    left_over: Vec<Key>,
}

/// Why a store was not filled. It is not whole then, unless it was before.
#[derive(Debug, Error)]
pub enum FillError {
    /// There is something that is not of this move or restore.
    #[error("there is a store already")]
    Occupied,
    /// The mark is not ours any more.
    #[error("another attempt to fill the store has begun, or its records were removed meanwhile")]
    Superseded,
    /// The store does not answer, or a record makes no sense.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

/// The value of the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// Whose records are written: another attempt for the same store may take over.
    origin: [u8; 16],
    /// Random bits of the attempt, by which it knows its own mark again.
    attempt: [u8; 16],
    /// How many steps were made.
    step: u64,
}

/// Records in one step. etcd takes 1.5 MiB in a request.
const BATCH: usize = 60;
const _: () =
    assert!((BATCH + 1) * (VALUE_BYTES_MAX + 2 * KEY_BYTES_MAX) <= TXN_BYTES_MAX, "a step fits a transaction");
/// How often a step is tried while the store does not answer, and the time between two tries.
const TRIES_MAX: u32 = 50;
const PAUSE: Duration = Duration::from_millis(200);

/// Whether a move of the store `origin` into this one was begun and not finished.
///
/// # Errors
///
/// If the store does not answer.
pub(crate) async fn is_begun(store: &dyn Store, origin: StoreId) -> Result<bool, StoreFailure> {
    let mark = store.get(&keys::RESTORING).await?;
    Ok(mark.and_then(|mark| Mark::decode(&mark.value)).is_some_and(|mark| mark.origin == origin.to_bytes()))
}

impl<'s> Filling<'s> {
    /// Marks the store, or takes over the mark of an attempt for the same `origin` that was broken off.
    ///
    /// # Errors
    ///
    /// [`FillError`]. The store may be marked all the same.
    pub(crate) async fn begin(
        store: &'s dyn Store,
        origin: StoreId,
        records: BTreeMap<Key, Vec<u8>>,
        entropy: &dyn Entropy,
    ) -> Result<Self, FillError> {
        let mark = Mark { origin: origin.to_bytes(), attempt: entropy::bytes(entropy), step: 0 };
        let mut tries = Tries::default();
        let mut goes_on = false;
        let version = loop {
            let txn = match read(store).await {
                Ok(Some((ours, version))) if ours == mark => break version,
                Ok(Some((before, version))) if before.origin == mark.origin => {
                    goes_on = true;
                    Txn::new().expect(keys::RESTORING, version)
                }
                Ok(None) => {
                    goes_on = false;
                    Txn::new().expect(keys::CLUSTER, Version::ABSENT).expect(keys::RESTORING, Version::ABSENT)
                }
                Ok(Some(_)) => return Err(FillError::Occupied),
                Err(failure) => {
                    tries.pause_after(failure).await?;
                    continue;
                }
            };
            match store.commit(txn.put(keys::RESTORING, mark.encode())).await {
                Ok(made) => break made.version,
                Err(CommitError::Conflict { key, .. }) if key == keys::CLUSTER => return Err(FillError::Occupied),
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => tries.pause_after(error.into()).await?,
            }
        };
        let mut filling = Self { store, records, mark, version, goes_on, left_over: Vec::new() };
        filling.left_over = filling.check_alone().await?;
        Ok(filling)
    }

    /// Whether an attempt that was broken off is gone on with.
    pub(crate) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// What is there besides the mark must be what an earlier attempt wrote: the same records, and the history of its own revisions,
    /// which is returned. From the mark on nothing else is added.
    async fn check_alone(&self) -> Result<Vec<Key>, FillError> {
        let present = self.store.scan(&Key::ROOT).await.map_err(StoreFailure::from)?;
        let is_ours = |key: &Key| *key == keys::RESTORING || (self.goes_on && self.records.contains_key(key));
        let others: Vec<Key> = present.into_iter().map(|(key, _)| key).filter(|key| !is_ours(key)).collect();
        match others.iter().all(|key| self.goes_on && keys::is_history(key)) {
            true => Ok(others),
            false => Err(FillError::Occupied),
        }
    }

    /// Writes the records. `progress` is told how many are written, of how many.
    ///
    /// # Errors
    ///
    /// [`FillError`]; another attempt can go on.
    pub(crate) async fn write(mut self, progress: impl Fn(usize, usize)) -> Result<(), FillError> {
        let missing = Malformed { what: "the store's own key is not among the records" };
        let cluster = self.records.remove(&keys::CLUSTER).ok_or(StoreFailure::from(missing))?;
        let mut records = std::mem::take(&mut self.records).into_iter().peekable();
        for some in std::mem::take(&mut self.left_over).chunks(BATCH) {
            self.step(some.iter().cloned().fold(Txn::new(), Txn::delete)).await?;
        }
        let (total, mut written) = (records.len(), 0);
        while records.peek().is_some() {
            let batch: Vec<_> = records.by_ref().take(BATCH).collect();
            written += batch.len();
            let writes = batch.into_iter().fold(Txn::new(), |txn, (key, value)| txn.put(key, value));
            self.step(writes).await?;
            progress(written, total);
        }
        self.finish(cluster).await
    }

    /// Makes writes under the mark, once. Where no answer comes, the mark tells whether they were made; they are sent again under
    /// the same version of it, so that one of the two finds another version.
    async fn step(&mut self, writes: Txn) -> Result<(), FillError> {
        let next = Mark { step: self.mark.step + 1, ..self.mark };
        let txn = writes.expect(keys::RESTORING, self.version).put(keys::RESTORING, next.encode());
        let mut tries = Tries::default();
        loop {
            match self.store.commit(txn.clone()).await {
                Ok(made) => {
                    (self.mark, self.version) = (next, made.version);
                    return Ok(());
                }
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => tries.pause_after(error.into()).await?,
            }
            match read(self.store).await {
                Ok(Some((mark, version))) if mark == next => {
                    (self.mark, self.version) = (next, version);
                    return Ok(());
                }
                Ok(Some((_, version))) if version == self.version => {}
                Ok(_) => return Err(FillError::Superseded),
                Err(failure) => tries.pause_after(failure).await?,
            }
        }
    }

    /// Takes the mark away, and makes the store whole.
    async fn finish(self, cluster: Vec<u8>) -> Result<(), FillError> {
        let txn = Txn::new().expect(keys::RESTORING, self.version).delete(keys::RESTORING).put(keys::CLUSTER, cluster);
        let mut tries = Tries::default();
        loop {
            match self.store.commit(txn.clone()).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => tries.pause_after(error.into()).await?,
            }
            match self.is_whole().await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(FillError::Store(failure)) => tries.pause_after(failure).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the last step was made; an error if it never will be.
    async fn is_whole(&self) -> Result<bool, FillError> {
        match read(self.store).await? {
            None if self.store.get(&keys::CLUSTER).await.map_err(StoreFailure::from)?.is_some() => Ok(true),
            Some((_, version)) if version == self.version => Ok(false),
            _ => Err(FillError::Superseded),
        }
    }
}

/// The mark in the store, if there is one. One that cannot be decoded is refused.
async fn read(store: &dyn Store) -> Result<Option<(Mark, Version)>, StoreFailure> {
    let read = store.get(&keys::RESTORING).await?;
    let malformed = Malformed { what: "the mark of a store that is not whole" };
    let decode = |Versioned { version, value }| Mark::decode(&value).map(|mark| (mark, version));
    read.map(|read| decode(read).ok_or(malformed.into())).transpose()
}

impl Mark {
    fn encode(&self) -> Vec<u8> {
        [&self.origin[..], &self.attempt, &self.step.to_be_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (origin, rest) = bytes.split_first_chunk()?;
        let (attempt, rest) = rest.split_first_chunk()?;
        let step = u64::from_be_bytes(rest.try_into().ok()?);
        Some(Self { origin: *origin, attempt: *attempt, step })
    }
}

/// How often the store has not answered in a row.
#[derive(Debug, Default)]
struct Tries(u32);

impl Tries {
    /// Waits before the next try; the failure itself if it does not pass.
    async fn pause_after(&mut self, failure: StoreFailure) -> Result<(), StoreFailure> {
        self.0 += 1;
        if !failure.is_temporary() || self.0 == TRIES_MAX {
            return Err(failure);
        }
        time::sleep(PAUSE).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
