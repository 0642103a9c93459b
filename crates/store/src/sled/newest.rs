//! The newest acknowledged revision, in a small file that is written after each batch.
//!
//! sled recovers by truncating its log at the first damaged record. It silently loses all later records, which may have
//! been acknowledged. If nothing is left, the database even looks new. This file shows the loss: opening fails if the
//! database has a lower revision.
//!
//! The file is written after the commits are durable, so it is never ahead of them. It is not synced, so after a power
//! cut it can be outdated and fail to show the loss of the last commits. Two places in the file are written in turn, so
//! a torn write leaves the previous revision.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The file with the newest revision.
#[derive(Debug)]
pub(super) struct Newest {
    file: File,
    /// The place to write next: 0 or 1.
    place: u64,
}

/// The size of one place: a sector.
const PLACE_BYTES: u64 = 512;
/// The size of the contents of a place: the revision and its checksum.
const TEXT_BYTES: usize = 12;

impl Newest {
    pub(super) const fn new(file: File) -> Self {
        Self { file, place: 0 }
    }

    /// Returns the newest revision that is known to have been acknowledged.
    pub(super) fn read(&self) -> io::Result<Option<u64>> {
        let mut newest = None;
        for place in [0, 1] {
            let mut text = [0; TEXT_BYTES];
            match self.file.read_exact_at(&mut text, place * PLACE_BYTES) {
                Ok(()) => newest = newest.max(decode(text)),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) => return Err(error),
            }
        }
        Ok(newest)
    }

    /// Makes the recorded revision durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Records a durable revision.
    pub(super) fn write(&mut self, revision: u64) -> io::Result<()> {
        self.file.write_all_at(&encode(revision), self.place * PLACE_BYTES)?;
        self.place ^= 1;
        Ok(())
    }
}

fn encode(revision: u64) -> [u8; TEXT_BYTES] {
    let mut text = [0; TEXT_BYTES];
    let (number, sum) = text.split_at_mut(8);
    number.copy_from_slice(&revision.to_be_bytes());
    sum.copy_from_slice(&checksum(number).to_be_bytes());
    text
}

/// Decodes the contents of a place. Returns `None` if they are torn or damaged, or were never written.
fn decode(text: [u8; TEXT_BYTES]) -> Option<u64> {
    let (number, sum) = text.split_at(8);
    let number: [u8; 8] = number.try_into().ok()?;
    (checksum(&number).to_be_bytes() == sum).then_some(u64::from_be_bytes(number))
}

/// Computes a checksum that includes a label, so that the zeros of a place that was never written do not have a valid
/// checksum.
fn checksum(number: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(b"newest");
    sum.update(number);
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_revision_is_read_and_a_torn_write_leaves_the_previous_one() {
        let file = tempfile::tempfile().unwrap();
        let mut newest = Newest::new(file.try_clone().unwrap());
        assert_eq!(newest.read().unwrap(), None);
        for revision in [0, 1, 2, 300] {
            newest.write(revision).unwrap();
            assert_eq!(newest.read().unwrap(), Some(revision));
        }
        newest.write(301).unwrap();
        file.write_all_at(&[0xff], 5).unwrap();
        assert_eq!(newest.read().unwrap(), Some(300));
        file.set_len(0).unwrap();
        file.set_len(2048).unwrap();
        assert_eq!(newest.read().unwrap(), None, "zeros are not a revision");
    }
}
