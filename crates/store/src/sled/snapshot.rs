//! Paged reads of a consistent snapshot, while commits continue.
//!
//! sled and the kept writes always show the current state. So if a value is overwritten or removed before a read
//! reaches it, the value is copied for the read. A record that was created later has a higher version, and the read
//! skips it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use super::error::LedgerError;
use super::record::{self, FIRST_KEY};
use crate::error::{ReadError, Unavailable};
use crate::key::Key;
use crate::pages::{PAGE_BYTES_MAX, Page};

/// The maximum number of bytes of overwritten values that are kept for one read: 64 MiB, or about 500,000 counters. A
/// read that needs more fails.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A paged read. Dropping this value ends the read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) prefix: Key,
}

/// A page, and the last key that was read for it if more pages can follow.
pub(super) struct Part {
    pub(super) page: Page,
    pub(super) rest: Option<Key>,
}

/// A raw key and a raw value.
pub(super) type Row = (::sled::IVec, ::sled::IVec);

/// The state of the store at the start of a paged read.
pub(super) struct Snapshot {
    reading: Weak<Reading>,
    prefix: Vec<u8>,
    /// The revision at the start of the read. Records with a higher version were created later.
    revision: u64,
    /// The last raw key that was read.
    after: Vec<u8>,
    /// The raw values after `after` that have been overwritten or removed since the start, by raw keys.
    before: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

impl Snapshot {
    pub(super) fn new(reading: &Arc<Reading>, revision: u64) -> Self {
        let prefix = reading.prefix.as_str().into();
        let (after, before) = (Vec::new(), BTreeMap::new());
        Self { reading: Arc::downgrade(reading), prefix, revision, after, before, bytes: 0 }
    }

    pub(super) fn is_of(&self, reading: &Arc<Reading>) -> bool {
        std::ptr::eq(self.reading.as_ptr(), Arc::as_ptr(reading))
    }

    /// Returns true if the read has not been dropped.
    pub(super) fn is_wanted(&self) -> bool {
        self.reading.strong_count() > 0
    }

    /// Returns true if the value under a key must be kept when it is overwritten.
    pub(super) fn needs(&self, key: &[u8]) -> bool {
        let is_ahead = key.starts_with(&self.prefix) && key > self.after.as_slice();
        is_ahead && self.bytes <= KEPT_BYTES_MAX && !self.before.contains_key(key)
    }

    /// Keeps a value that is about to be overwritten, if it belongs to the snapshot.
    pub(super) fn keep(&mut self, key: &Key, value: &[u8]) -> Result<(), ReadError> {
        if record::open(key, value)?.version.get() <= self.revision {
            self.bytes += key.as_str().len() + value.len();
            self.before.insert(key.as_str().into(), value.to_vec());
        }
        if self.bytes > KEPT_BYTES_MAX {
            self.before.clear();
        }
        Ok(())
    }

    /// Continues after a key, and discards kept values up to that key.
    pub(super) fn advance(&mut self, after: &Key) -> Result<(), ReadError> {
        if self.bytes > KEPT_BYTES_MAX {
            let message = "more than 64 MiB were overwritten during the read; retry when there are fewer writes";
            return Err(Unavailable::backend(message).into());
        }
        self.after = after.as_str().into();
        while let Some(first) = self.before.first_entry().filter(|first| *first.key() <= self.after) {
            let (key, value) = first.remove_entry();
            self.bytes -= key.len() + value.len();
        }
        Ok(())
    }

    /// Returns the start of the next page.
    pub(super) fn from(&self) -> Bound<&[u8]> {
        match self.after.is_empty() {
            true => Bound::Included(FIRST_KEY.max(&self.prefix)),
            false => Bound::Excluded(&self.after),
        }
    }

    /// Returns the next page of at most `most` records, computed from the current records `present`. A page ends after
    /// the first row for which `is_over` returns true.
    pub(super) fn page(
        &self,
        present: impl Iterator<Item = Result<Row, LedgerError>>,
        most: usize,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<Part, LedgerError> {
        let before = self.before.iter().map(|(key, value)| (key.as_slice(), Some(value.as_slice())));
        let (mut page, mut bytes, mut looked_at) = (Page::new(), 0, 0);
        for row in overlay(present, before) {
            let (raw_key, raw) = row?;
            if !raw_key.starts_with(&self.prefix) {
                break;
            }
            let key = record::key(&raw_key)?;
            let versioned = record::open(&key, &raw)?;
            looked_at += 1;
            bytes += raw_key.len() + versioned.value.len();
            let is_full = looked_at >= most || bytes >= PAGE_BYTES_MAX || is_over();
            let rest = is_full.then(|| key.clone());
            if versioned.version.get() <= self.revision {
                page.push((key, versioned));
            }
            if rest.is_some() {
                return Ok(Part { page, rest });
            }
        }
        Ok(Part { page, rest: None })
    }
}

/// Merges two sorted sequences of rows. A row of `above` hides the row of `below` with the same key. If the row of
/// `above` has no value, neither row is in the result.
pub(super) fn overlay<'a>(
    below: impl Iterator<Item = Result<Row, LedgerError>>,
    above: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
) -> impl Iterator<Item = Result<Row, LedgerError>> {
    let (mut below, mut above) = (below.peekable(), above.peekable());
    iter::from_fn(move || {
        loop {
            let first = match (below.peek(), above.peek()) {
                (None, None) => return None,
                (Some(Err(_)), _) | (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(Ok((key, _))), Some((hiding, _))) => key.as_ref().cmp(hiding),
            };
            if first.is_lt() {
                return below.next();
            }
            if first.is_eq() {
                below.next();
            }
            if let Some((key, Some(value))) = above.next() {
                return Some(Ok((key.into(), value.into())));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::{VALUE_BYTES_MAX, Version};

    #[test]
    fn err_a_read_that_keeps_too_much_fails() {
        let reading = Arc::new(Reading { prefix: Key::ROOT });
        let mut snapshot = Snapshot::new(&reading, 1);
        let key = |number: usize| Key::new(format!("{number:08}")).unwrap();
        let fits = KEPT_BYTES_MAX / VALUE_BYTES_MAX - 100;
        for number in 0..fits {
            let value = record::seal(&key(number), Version::new(1), &[7; VALUE_BYTES_MAX]);
            snapshot.keep(&key(number), &value).unwrap();
        }
        assert!(!snapshot.needs(key(0).as_str().as_bytes()) && snapshot.needs(key(fits).as_str().as_bytes()));
        snapshot.advance(&key(0)).unwrap();
        for number in fits..fits + 200 {
            let value = record::seal(&key(number), Version::new(1), &[7; VALUE_BYTES_MAX]);
            snapshot.keep(&key(number), &value).unwrap();
        }
        assert!(!snapshot.needs(key(fits + 200).as_str().as_bytes()) && snapshot.before.is_empty());
        assert!(matches!(snapshot.advance(&key(1)), Err(ReadError::Unavailable(_))));
    }

    #[test]
    fn ok_a_page_ends_after_its_time_limit_with_at_least_one_row() {
        let reading = Arc::new(Reading { prefix: Key::ROOT });
        let mut snapshot = Snapshot::new(&reading, 1);
        let keys = ["a", "b", "c"].map(Key::from_static);
        let rows = keys.clone().map(|key| (key.as_str().into(), record::seal(&key, Version::new(1), b"1").into()));
        let present = |after: usize| rows[after..].iter().cloned().map(Ok);
        let read = |part: Part| (part.page.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), part.rest);
        let first = read(snapshot.page(present(0), 9, || true).unwrap());
        assert_eq!(first, (vec![keys[0].clone()], Some(keys[0].clone())));
        snapshot.advance(&keys[0]).unwrap();
        let mut rows_left = 2;
        let second = snapshot.page(present(1), 9, || {
            rows_left -= 1;
            rows_left == 0
        });
        assert_eq!(read(second.unwrap()), (keys[1..].to_vec(), Some(keys[2].clone())));
        assert_eq!(read(snapshot.page(present(1), 9, || false).unwrap()), (keys[1..].to_vec(), None));
    }

    #[test]
    fn ok_values_created_later_are_not_kept() {
        let reading = Arc::new(Reading { prefix: Key::ROOT });
        let mut snapshot = Snapshot::new(&reading, 1);
        let key = Key::from_static("a");
        snapshot.keep(&key, &record::seal(&key, Version::new(2), b"new")).unwrap();
        assert!(snapshot.before.is_empty());
        assert!(snapshot.is_wanted());
        drop(reading);
        assert!(!snapshot.is_wanted());
    }
}
