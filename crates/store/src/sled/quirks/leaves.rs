//! Estimates an upper bound for the bytes that sled writes for one write: the size of the tree leaf that has the key.
//!
//! sled does not show which entries share a leaf, but the maximum number N of entries in a leaf is known. So the leaf
//! lies within the N entries before the key and the N entries after it. Keys come in order, so each entry is read only
//! once for all keys near it.

use std::collections::VecDeque;

use super::{ENTRY_OVERHEAD_BYTES, LEAF_ENTRIES_MAX};

/// The entries around a key. The window moves forward with the keys.
pub(in crate::sled) struct Leaves<'d> {
    db: &'d ::sled::Db,
    /// The sizes of the entries before the key, nearest last, in bytes.
    before: VecDeque<usize>,
    /// The entries starting at the key, and their sizes in bytes.
    behind: VecDeque<(::sled::IVec, usize)>,
    rest: ::sled::Iter,
}

impl<'d> Leaves<'d> {
    pub(in crate::sled) fn new(db: &'d ::sled::Db) -> Self {
        Self { db, before: VecDeque::new(), behind: VecDeque::new(), rest: db.iter() }
    }

    /// Returns an upper bound for the size of the leaf that has this key, with the new value or the old one. Keys must
    /// be ascending.
    pub(in crate::sled) fn around(&mut self, key: &[u8], value: Option<&[u8]>) -> ::sled::Result<usize> {
        while let Some((_, bytes)) = self.behind.pop_front_if(|(other, _)| other.as_ref() < key) {
            self.pass(bytes);
        }
        if self.behind.is_empty() {
            self.seek(key)?;
        }
        while self.behind.len() < LEAF_ENTRIES_MAX {
            let Some(entry) = self.rest.next() else { break };
            let (key, value) = entry?;
            let bytes = bytes(&key, Some(&value));
            self.behind.push_back((key, bytes));
        }
        let own = bytes(key, value);
        let there: usize = self.before.iter().chain(self.behind.iter().map(|(_, bytes)| bytes)).sum();
        match self.behind.front_mut() {
            Some((there, bytes)) if there.as_ref() == key => *bytes = own.max(*bytes),
            _ => self.pass(own),
        }
        Ok(there + own)
    }

    /// Starts a new window at a key that is far from the previous one.
    fn seek(&mut self, key: &[u8]) -> ::sled::Result<()> {
        self.before.clear();
        for entry in self.db.range(..key).rev().take(LEAF_ENTRIES_MAX) {
            let (key, value) = entry?;
            self.before.push_front(bytes(&key, Some(&value)));
        }
        self.rest = self.db.range(key..);
        Ok(())
    }

    fn pass(&mut self, bytes: usize) {
        self.before.push_back(bytes);
        if self.before.len() > LEAF_ENTRIES_MAX {
            self.before.pop_front();
        }
    }
}

fn bytes(key: &[u8], value: Option<&[u8]>) -> usize {
    key.len() + value.map_or(0, <[u8]>::len) + ENTRY_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a database with the even keys below 1000. Every tenth of them has a large value.
    fn db() -> ::sled::Db {
        let db = ::sled::Config::new().temporary(true).open().unwrap();
        for number in (0..1000_u32).step_by(2) {
            let value = vec![0; if number.is_multiple_of(20) { 5_000 } else { 10 }];
            db.insert(number.to_be_bytes(), value).unwrap();
        }
        db
    }

    /// Returns the same bound as [`Leaves::around`], computed from all entries around the key.
    fn reference(db: &::sled::Db, key: &[u8], value: &[u8]) -> usize {
        let entries = db.range(..key).rev().take(LEAF_ENTRIES_MAX).chain(db.range(key..).take(LEAF_ENTRIES_MAX));
        let there: usize = entries.map(Result::unwrap).map(|(key, value)| bytes(&key, Some(&value))).sum();
        there + bytes(key, Some(value))
    }

    #[test]
    fn ok_no_entry_around_a_key_is_missed() {
        for numbers in [vec![3, 4, 5, 90, 91, 500, 501, 503, 504, 998, 2000], (0..1000).collect(), vec![777]] {
            let (db, value) = (db(), [1; 30]);
            let mut leaves = Leaves::new(&db);
            for number in numbers {
                let key = u32::to_be_bytes(number);
                let (found, expected) = (leaves.around(&key, Some(&value)).unwrap(), reference(&db, &key, &value));
                assert!(found >= expected, "{number}: {found} of {expected}");
                // Large values that were replaced in the meantime may still be counted.
                assert!(found <= expected + 5 * 5_100, "{number}: {found}, expected {expected}");
                db.insert(key, &value).unwrap();
            }
        }
    }
}
