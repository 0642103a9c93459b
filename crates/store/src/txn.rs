//! Transactions: the records that a commit compares and writes.
//!
//! A [`Txn`] is a plain value that owns its keys and payloads. Every backend calls [`Txn::check`] first. The limits are
//! those of the strictest backend, so that a transaction is valid on all backends or on none.

use std::collections::BTreeSet;
use std::fmt;

use crate::key::Key;

/// The maximum number of guards in one transaction. The same limit applies to its writes.
///
/// By default etcd rejects a transaction with more than 128 comparisons or more than 128 operations.
pub const TXN_OPERATIONS_MAX: usize = 128;

/// The maximum length of a value in bytes: 16 KiB.
///
/// sled writes a leaf of its tree, about twenty values, as one message. It moves messages larger than a quarter of a
/// log segment to separate files that it never syncs. A compile-time assertion next to the size of a segment checks
/// that this limit keeps every leaf inside the log.
pub const VALUE_BYTES_MAX: usize = 16 * 1024;

/// The maximum size of a transaction in bytes of keys and values: 1 MiB.
///
/// etcd rejects requests of more than 1.5 MiB. The difference leaves space for its framing and our envelopes.
pub const TXN_BYTES_MAX: usize = 1024 * 1024;

/// The revision of the store at which a key was last written.
///
/// Revisions count the changes of the whole store and only increase. So a key that is deleted and written again has a
/// version that it never had before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// The version of a key that does not exist. Pass it to [`Txn::expect`] to create a key without overwriting one.
    pub const ABSENT: Version = Version(0);

    /// Creates the version with this number. 0 is [`Version::ABSENT`].
    #[must_use]
    pub const fn new(revision: u64) -> Self {
        Self(revision)
    }

    /// Returns the number that backends and wire formats use.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns true for [`Version::ABSENT`].
    #[must_use]
    pub const fn is_absent(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_absent() { f.write_str("absent") } else { write!(f, "{}", self.0) }
    }
}

/// A value and the version at which it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// The version to expect in the guard of the next commit to the key.
    pub version: Version,
    /// The bytes of the value.
    pub value: Vec<u8>,
}

/// The result of a commit whose writes are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The version of every key that the transaction wrote. For a transaction without writes, a revision of the store
    /// at which all its guards held.
    pub version: Version,
}

/// *Make these writes if these keys still have these versions.*
///
/// ```
/// use kent_store::{Key, Txn, Version};
///
/// const SLOT: Key = Key::from_static("slot/07");
/// let create = Txn::new().expect(SLOT, Version::ABSENT).put(SLOT, b"held by a".to_vec());
/// assert_eq!(create.guards(), [(SLOT, Version::ABSENT)]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Txn {
    guards: Vec<(Key, Version)>,
    writes: Vec<(Key, Option<Vec<u8>>)>,
}

impl Txn {
    /// Creates a transaction that compares nothing and writes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a guard: the commit succeeds only if `key` has `version`. With [`Version::ABSENT`], it succeeds only if the
    /// key does not exist.
    pub fn expect(mut self, key: Key, version: Version) -> Self {
        self.guards.push((key, version));
        self
    }

    /// Adds a write of `value` under `key`.
    pub fn put(mut self, key: Key, value: impl Into<Vec<u8>>) -> Self {
        self.writes.push((key, Some(value.into())));
        self
    }

    /// Adds the removal of `key`, which does nothing if the key does not exist. Add a guard if a missing key must be an
    /// error.
    pub fn delete(mut self, key: Key) -> Self {
        self.writes.push((key, None));
        self
    }

    /// Returns the keys and versions to compare, in the order in which they were added.
    #[must_use]
    pub fn guards(&self) -> &[(Key, Version)] {
        &self.guards
    }

    /// Returns the writes in the order in which they were added. `None` removes the key.
    #[must_use]
    pub fn writes(&self) -> &[(Key, Option<Vec<u8>>)] {
        &self.writes
    }

    /// Checks the limits that all backends share. Every backend calls this first.
    ///
    /// # Errors
    ///
    /// Returns the first limit or rule that the transaction breaks.
    pub fn check(&self) -> Result<(), InvalidTxn> {
        let operations = self.guards.len().max(self.writes.len());
        if operations > TXN_OPERATIONS_MAX {
            return Err(InvalidTxn::TooManyOperations { operations });
        }
        if self.keys().any(Key::is_root) {
            return Err(InvalidTxn::RootKey);
        }
        self.check_writes()?;
        let bytes = self.bytes();
        if bytes > TXN_BYTES_MAX {
            return Err(InvalidTxn::TooLarge { bytes });
        }
        Ok(())
    }

    fn check_writes(&self) -> Result<(), InvalidTxn> {
        let mut seen = BTreeSet::new();
        for (key, value) in &self.writes {
            let bytes = value.as_ref().map_or(0, Vec::len);
            if bytes > VALUE_BYTES_MAX {
                return Err(InvalidTxn::ValueTooLarge { key: key.clone(), bytes });
            }
            if !seen.insert(key) {
                return Err(InvalidTxn::WrittenTwice { key: key.clone() });
            }
        }
        Ok(())
    }

    fn keys(&self) -> impl Iterator<Item = &Key> {
        let guarded = self.guards.iter().map(|(key, _)| key);
        guarded.chain(self.writes.iter().map(|(key, _)| key))
    }

    fn bytes(&self) -> usize {
        let keys: usize = self.keys().map(|key| key.as_str().len()).sum();
        let values: usize = self.writes.iter().filter_map(|(_, value)| value.as_ref()).map(Vec::len).sum();
        keys + values
    }
}

/// Reasons that a transaction can never be committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTxn {
    /// There are too many guards or too many writes.
    #[error("the transaction has {operations} guards or writes, but at most {TXN_OPERATIONS_MAX} of each are allowed")]
    TooManyOperations {
        /// The larger of the number of guards and the number of writes.
        operations: usize,
    },
    /// A value is too large.
    #[error("the value of {key} has {bytes} bytes, but at most {VALUE_BYTES_MAX} are allowed")]
    ValueTooLarge {
        /// The key of the value.
        key: Key,
        /// The length of the value.
        bytes: usize,
    },
    /// The transaction as a whole is too large.
    #[error(
        "the keys and values of a transaction have {bytes} bytes together, but at most {TXN_BYTES_MAX} are allowed"
    )]
    TooLarge {
        /// The total length of all keys and values.
        bytes: usize,
    },
    /// A key is written twice, so the result would depend on the order. etcd also rejects this.
    #[error("{key} is written twice in one transaction")]
    WrittenTwice {
        /// The key.
        key: Key,
    },
    /// [`Key::ROOT`] is compared or written.
    #[error("the empty key is a prefix for scans only: it cannot be compared or written")]
    RootKey,
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Key = Key::from_static("a");

    fn numbered(count: usize) -> impl Iterator<Item = Key> {
        (0..count).map(|number| Key::new(format!("n/{number}")).unwrap())
    }

    #[test]
    fn ok_at_every_limit() {
        let guards = numbered(TXN_OPERATIONS_MAX).fold(Txn::new(), |txn, key| txn.expect(key, Version::ABSENT));
        let full = numbered(TXN_OPERATIONS_MAX).fold(guards, |txn, key| txn.put(key, []));
        assert_eq!(full.check(), Ok(()));
        assert_eq!(Txn::new().put(A, vec![0; VALUE_BYTES_MAX]).check(), Ok(()));
        assert_eq!(Txn::new().check(), Ok(()));
        assert_eq!(Txn::new().expect(A, Version::ABSENT).expect(A, Version::ABSENT).put(A, []).check(), Ok(()));
    }

    #[test]
    fn err_beyond_a_limit() {
        #[track_caller]
        fn check(txn: Txn, expected: InvalidTxn) {
            assert_eq!(txn.check(), Err(expected));
        }
        let operations = TXN_OPERATIONS_MAX + 1;
        let puts = numbered(operations).fold(Txn::new(), |txn, key| txn.put(key, []));
        check(puts, InvalidTxn::TooManyOperations { operations });
        let guards = numbered(operations).fold(Txn::new(), |txn, key| txn.expect(key, Version::ABSENT));
        check(guards, InvalidTxn::TooManyOperations { operations });
        let bytes = VALUE_BYTES_MAX + 1;
        check(Txn::new().put(A, vec![0; bytes]), InvalidTxn::ValueTooLarge { key: A, bytes });
        let large = numbered(64).fold(Txn::new(), |txn, key| txn.put(key, vec![0; VALUE_BYTES_MAX]));
        check(large, InvalidTxn::TooLarge { bytes: TXN_BYTES_MAX + 10 * 3 + 54 * 4 });
        check(Txn::new().put(A, []).delete(A), InvalidTxn::WrittenTwice { key: A });
        check(Txn::new().put(Key::ROOT, []), InvalidTxn::RootKey);
        check(Txn::new().expect(Key::ROOT, Version::ABSENT), InvalidTxn::RootKey);
    }

    #[test]
    fn versions_are_displayed_as_text() {
        assert_eq!(Version::ABSENT.to_string(), "absent");
        assert_eq!(Version::new(17).to_string(), "17");
    }
}
