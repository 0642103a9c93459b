//! How much sled may have to write for a write: no less than the leaf of its tree in which the key is.
//!
//! Which entries share a leaf is sled's secret, but not how many may: the leaf is among as many before the key, and as many
//! behind it. Keys come in order, so that an entry is looked at once for all keys near it.

use std::collections::VecDeque;

use super::{ENTRY_OVERHEAD_BYTES, LEAF_ENTRIES_MAX};

/// The neighbourhood of a key, which moves on with the keys.
pub(in crate::sled) struct Leaves<'d> {
    db: &'d ::sled::Db,
    /// The bytes of the entries before the key, the nearest last.
    before: VecDeque<usize>,
    /// The entries from the key on, and their bytes.
    behind: VecDeque<(::sled::IVec, usize)>,
    rest: ::sled::Iter,
}

impl<'d> Leaves<'d> {
    pub(in crate::sled) fn new(db: &'d ::sled::Db) -> Self {
        Self { db, before: VecDeque::new(), behind: VecDeque::new(), rest: db.iter() }
    }

    /// No less than the bytes of the leaf in which this key is with this value, or was. The key is behind the one before.
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

    /// Looks anew: the key is far from the one before.
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

    /// Even keys are there, and every tenth of them has a large value.
    fn db() -> ::sled::Db {
        let db = ::sled::Config::new().temporary(true).open().unwrap();
        for number in (0..1000_u32).step_by(2) {
            let value = vec![0; if number.is_multiple_of(20) { 5_000 } else { 10 }];
            db.insert(number.to_be_bytes(), value).unwrap();
        }
        db
    }

    /// What a look at all entries around finds.
    fn plainly(db: &::sled::Db, key: &[u8], value: &[u8]) -> usize {
        let entries = db.range(..key).rev().take(LEAF_ENTRIES_MAX).chain(db.range(key..).take(LEAF_ENTRIES_MAX));
        let there: usize = entries.map(Result::unwrap).map(|(key, value)| bytes(&key, Some(&value))).sum();
        there + bytes(key, Some(value))
    }

    #[test]
    fn ok_nothing_around_is_missed_wherever_the_keys_lie() {
        for numbers in [vec![3, 4, 5, 90, 91, 500, 501, 503, 504, 998, 2000], (0..1000).collect(), vec![777]] {
            let (db, value) = (db(), [1; 30]);
            let mut leaves = Leaves::new(&db);
            for number in numbers {
                let key = u32::to_be_bytes(number);
                let (found, expected) = (leaves.around(&key, Some(&value)).unwrap(), plainly(&db, &key, &value));
                assert!(found >= expected, "{number}: {found} of {expected}");
                // Large values that were replaced meanwhile may still be counted.
                assert!(found <= expected + 5 * 5_100, "{number}: {found}, where {expected} are");
                db.insert(key, &value).unwrap();
            }
        }
    }
}
