//! The store of the models: a linearizable key-value store with guarded transactions. It keeps flushed and written
//! contents separately.

use std::collections::BTreeMap;

use super::shared::{Pooled, Shared};

/// The contents of a store: values and their versions.
pub(super) type Contents<K, V> = BTreeMap<K, (u64, V)>;

/// A store whose key and value types are defined by a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelStore<K: Ord, V> {
    revision: u64,
    written: Shared<Contents<K, V>>,
    flushed: Shared<Contents<K, V>>,
}

/// A transaction: writes values if all expected keys have the expected versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelTxn<K, V> {
    pub(super) expect: Vec<(K, u64)>,
    pub(super) write: Vec<(K, V)>,
}

/// The answer to a commit: the new version, or the first key whose version differs from the expected one.
pub(super) type Answer<K> = Result<u64, K>;

impl<K: Ord + Clone, V: Clone> ModelStore<K, V>
where
    Contents<K, V>: Pooled,
{
    pub(super) fn new() -> Self {
        Self { revision: 0, written: Shared::new(BTreeMap::new()), flushed: Shared::new(BTreeMap::new()) }
    }

    /// Returns the version and the value of a key, if the key exists.
    pub(super) fn get(&self, key: &K) -> Option<&(u64, V)> {
        self.written.get(key)
    }

    /// Returns the hash of the contents.
    pub(super) const fn contents(&self) -> u64 {
        self.written.hash_of()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &(u64, V))> {
        self.written.iter()
    }

    /// Commits a transaction. Only flushed contents survive a crash.
    pub(super) fn commit(&mut self, txn: &ModelTxn<K, V>, flush: bool) -> Answer<K> {
        let version = |key: &K| self.written.get(key).map_or(0, |(version, _)| *version);
        if let Some((key, _)) = txn.expect.iter().find(|(key, expected)| version(key) != *expected) {
            return Err(key.clone());
        }
        self.revision += 1;
        let revision = self.revision;
        self.written.update(|written| {
            written.extend(txn.write.iter().map(|(key, value)| (key.clone(), (revision, value.clone()))));
        });
        if flush {
            self.flushed = self.written.clone();
        }
        Ok(self.revision)
    }

    /// Simulates a power loss: the contents return to the flushed state. The revision is kept, so no version is reused.
    pub(super) fn crash(&mut self) {
        self.written = self.flushed.clone();
    }
}
