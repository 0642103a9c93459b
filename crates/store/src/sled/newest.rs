//! Which commit was the newest: a small file beside the database, written after each batch.
//!
//! sled recovers by cutting its log off at the first record that is damaged. What follows is gone without a word, and it may
//! have been acknowledged; if nothing is left, the database even looks new. This file tells: a database that is older than it
//! says has lost something, and nothing is done with it.
//!
//! It is written after what it tells of has become durable, so it is never ahead of it, and it is not synced itself: after a
//! power cut it may be behind, which only makes it blind to the last commits. Two places are written in turns, so that a torn
//! write leaves the one before.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The file.
#[derive(Debug)]
pub(super) struct Newest {
    file: File,
    /// Which place is written next.
    place: u64,
}

/// Bytes of one place, and of what is in it: the revision and its checksum.
const PLACE_BYTES: u64 = 512;
const TEXT_BYTES: usize = 12;

impl Newest {
    pub(super) const fn new(file: File) -> Self {
        Self { file, place: 0 }
    }

    /// The newest revision that is known to have been durable.
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

    /// Takes note of a revision that is durable.
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

/// `None` for what is torn, damaged, or was never written.
fn decode(text: [u8; TEXT_BYTES]) -> Option<u64> {
    let (number, sum) = text.split_at(8);
    let number: [u8; 8] = number.try_into().ok()?;
    (checksum(&number).to_be_bytes() == sum).then_some(u64::from_be_bytes(number))
}

/// Never that of zeros only, which a file may hold that was never written.
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
    fn the_newest_is_read_back_and_a_torn_write_leaves_the_one_before() {
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
        assert_eq!(newest.read().unwrap(), None, "zeros say nothing");
    }
}
