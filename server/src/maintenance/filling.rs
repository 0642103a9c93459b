//! Fills a new store with the records of another store, in such a way that a commit that arrives late cannot change
//! the new store.
//!
//! First, the store is marked with the key `restoring`. The marking fails if a daemon has initialized the store. The
//! mark contains the attempt and the number of its current step. Each step compares the version of the mark and writes
//! the mark again, so a late commit changes nothing, whether it comes from this attempt or from an interrupted one. The
//! last step removes the mark and writes `cluster`, which completes the store.

use std::collections::BTreeMap;

use kent_engine::{
    host::entropy::{self, Entropy},
    records::{failure::StoreFailure, keys},
};
use kent_proto::stored::Malformed;
use kent_store::{
    CommitError, KEY_BYTES_MAX, Key, Store, StoreId, TXN_BYTES_MAX, Txn, VALUE_BYTES_MAX, Version, Versioned,
};
use thiserror::Error;
use tokio::time::{self, Duration};

/// A marked store, and the records to write.
#[derive(Debug)]
pub(crate) struct Filling<'s> {
    store: &'s dyn Store,
    records: BTreeMap<Key, Vec<u8>>,
    mark: Mark,
    /// The version of the mark in the store.
    version: Version,
    /// Whether this attempt continues an interrupted one.
    is_resumed: bool,
    /// The history records of an earlier attempt. Their revisions depend on the time of that attempt.
    left_over: Vec<Key>,
}

/// Why a store was not filled. The store is then incomplete, unless it was already complete.
#[derive(Debug, Error)]
pub enum FillError {
    /// The store contains other records.
    #[error("the target already contains a store")]
    Occupied,
    /// Another attempt has replaced our mark.
    #[error("another attempt to fill the store has started, or the store's records were removed meanwhile")]
    Superseded,
    /// The store does not answer, or a record is malformed.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

/// The value of the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// The store that the records come from: another attempt with the same origin may take over.
    origin: [u8; 16],
    /// Random bits that identify the attempt.
    attempt: [u8; 16],
    /// The number of completed steps.
    step: u64,
}

/// The number of records in one step. The number is small, because etcd accepts at most 1.5 MiB in a request.
const BATCH: usize = 60;
const _: () =
    assert!((BATCH + 1) * (VALUE_BYTES_MAX + 2 * KEY_BYTES_MAX) <= TXN_BYTES_MAX, "a step fits a transaction");
/// The maximum number of attempts at a step while the store does not answer, and the pause between two attempts.
const ATTEMPTS_MAX: u32 = 50;
const PAUSE: Duration = Duration::from_millis(200);

/// Whether copying the store `origin` into this store was started and not finished.
///
/// # Errors
///
/// If the store does not answer.
pub(crate) async fn is_begun(store: &dyn Store, origin: StoreId) -> Result<bool, StoreFailure> {
    let mark = store.get(&keys::RESTORING).await?;
    Ok(mark.and_then(|mark| Mark::decode(&mark.value)).is_some_and(|mark| mark.origin == origin.to_bytes()))
}

impl<'s> Filling<'s> {
    /// Marks the store, or takes over the mark of an interrupted attempt with the same `origin`.
    ///
    /// # Errors
    ///
    /// [`FillError`]; the store may be marked anyway.
    pub(crate) async fn begin(
        store: &'s dyn Store,
        origin: StoreId,
        records: BTreeMap<Key, Vec<u8>>,
        entropy: &dyn Entropy,
    ) -> Result<Self, FillError> {
        let mark = Mark { origin: origin.to_bytes(), attempt: entropy::bytes(entropy), step: 0 };
        let mut retries = Retries::default();
        let mut is_resumed = false;
        let version = loop {
            let txn = match read(store).await {
                Ok(Some((ours, version))) if ours == mark => break version,
                Ok(Some((before, version))) if before.origin == mark.origin => {
                    is_resumed = true;
                    Txn::new().expect(keys::RESTORING, version)
                }
                Ok(None) => {
                    is_resumed = false;
                    Txn::new().expect(keys::CLUSTER, Version::ABSENT).expect(keys::RESTORING, Version::ABSENT)
                }
                Ok(Some(_)) => return Err(FillError::Occupied),
                Err(failure) => {
                    retries.pause_after(failure).await?;
                    continue;
                }
            };
            match store.commit(txn.put(keys::RESTORING, mark.encode())).await {
                Ok(made) => break made.version,
                Err(CommitError::Conflict { key, .. }) if key == keys::CLUSTER => return Err(FillError::Occupied),
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => retries.pause_after(error.into()).await?,
            }
        };
        let mut filling = Self { store, records, mark, version, is_resumed, left_over: Vec::new() };
        filling.left_over = filling.check_alone().await?;
        Ok(filling)
    }

    /// Whether this attempt continues an interrupted one.
    pub(crate) fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Checks that the store contains only the mark and, if this attempt continues an earlier one, records of the
    /// earlier attempt. Returns the history records of the earlier attempt. Nothing else can be added to a marked
    /// store.
    async fn check_alone(&self) -> Result<Vec<Key>, FillError> {
        let present = self.store.scan(&Key::ROOT).await.map_err(StoreFailure::from)?;
        let is_ours = |key: &Key| *key == keys::RESTORING || (self.is_resumed && self.records.contains_key(key));
        let others: Vec<Key> = present.into_iter().map(|(key, _)| key).filter(|key| !is_ours(key)).collect();
        match others.iter().all(|key| self.is_resumed && keys::is_history(key)) {
            true => Ok(others),
            false => Err(FillError::Occupied),
        }
    }

    /// Writes the records. Calls `progress` with the number of written records and the total.
    ///
    /// # Errors
    ///
    /// [`FillError`]; another attempt can continue.
    pub(crate) async fn write(mut self, progress: impl Fn(usize, usize)) -> Result<(), FillError> {
        let missing = Malformed { what: "the record of the cluster key is missing" };
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

    /// Commits `writes` exactly once, provided that the mark has not changed. If no answer arrives, the mark shows
    /// whether the writes were committed. A retry compares the same version of the mark, so that only one of the two
    /// commits succeeds.
    async fn step(&mut self, writes: Txn) -> Result<(), FillError> {
        let next = Mark { step: self.mark.step + 1, ..self.mark };
        let txn = writes.expect(keys::RESTORING, self.version).put(keys::RESTORING, next.encode());
        let mut retries = Retries::default();
        loop {
            match self.store.commit(txn.clone()).await {
                Ok(made) => {
                    (self.mark, self.version) = (next, made.version);
                    return Ok(());
                }
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => retries.pause_after(error.into()).await?,
            }
            match read(self.store).await {
                Ok(Some((mark, version))) if mark == next => {
                    (self.mark, self.version) = (next, version);
                    return Ok(());
                }
                Ok(Some((_, version))) if version == self.version => {}
                Ok(_) => return Err(FillError::Superseded),
                Err(failure) => retries.pause_after(failure).await?,
            }
        }
    }

    /// Removes the mark, and completes the store.
    async fn finish(self, cluster: Vec<u8>) -> Result<(), FillError> {
        let txn = Txn::new().expect(keys::RESTORING, self.version).delete(keys::RESTORING).put(keys::CLUSTER, cluster);
        let mut retries = Retries::default();
        loop {
            match self.store.commit(txn.clone()).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => retries.pause_after(error.into()).await?,
            }
            match self.is_whole().await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(FillError::Store(failure)) => retries.pause_after(failure).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the last step was committed; returns an error if this can no longer happen.
    async fn is_whole(&self) -> Result<bool, FillError> {
        match read(self.store).await? {
            None if self.store.get(&keys::CLUSTER).await.map_err(StoreFailure::from)?.is_some() => Ok(true),
            Some((_, version)) if version == self.version => Ok(false),
            _ => Err(FillError::Superseded),
        }
    }
}

/// Reads the mark in the store, if there is one. A malformed mark is an error.
async fn read(store: &dyn Store) -> Result<Option<(Mark, Version)>, StoreFailure> {
    let read = store.get(&keys::RESTORING).await?;
    let malformed = Malformed { what: "the mark of an incomplete store" };
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

/// Counts consecutive failed attempts.
#[derive(Debug, Default)]
struct Retries(u32);

impl Retries {
    /// Waits before the next attempt; returns the failure if a retry cannot help.
    async fn pause_after(&mut self, failure: StoreFailure) -> Result<(), StoreFailure> {
        self.0 += 1;
        if !failure.is_temporary() || self.0 == ATTEMPTS_MAX {
            return Err(failure);
        }
        time::sleep(PAUSE).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
