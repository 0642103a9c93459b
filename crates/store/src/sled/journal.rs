//! The journal: the commits since sled's last flush, in one small file, so that a commit waits for one sync.
//!
//! sled's flush writes a transaction in several pieces, waits for each on threads of its own, and needs a sync of ours on top. A
//! batch of commits is therefore written here and synced once, and kept in memory; sled is given all that was kept when the
//! journal is full and when the database is closed, and the journal begins anew. When a database is opened, sled is given what it
//! does not have yet.
//!
//! The file has its full length from the beginning, so that a sync has no length or blocks to record. Each batch is a frame
//! ([`frame`](super::frame)), and the next is written after the one before was synced: only the newest can be torn. Frames are told
//! by the revisions in them, not by their place. Those that sled has are of no use any more; those that it has not must follow each
//! other without a gap, or something is lost.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use prost::Message;

use super::error::LedgerError;
use super::frame::{self, BLOCK_BYTES};
use crate::store::StoreId;

/// The file's length. A batch that is larger makes it longer.
const JOURNAL_BYTES: usize = 1024 * 1024;
/// More than the largest batch makes of it: 256 transactions of 1 MiB each.
const LONGEST_BYTES: u64 = 1024 * 1024 * 1024;

/// What a batch of commits wrote, to be written again.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Redo {
    /// The store whose commits they are.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) store: Vec<u8>,
    /// The revision of the first commit.
    #[prost(uint64, tag = "2")]
    pub(super) first: u64,
    /// The revision of the last commit.
    #[prost(uint64, tag = "3")]
    pub(super) last: u64,
    /// The writes of all, in order.
    #[prost(message, repeated, tag = "4")]
    pub(super) writes: Vec<RawWrite>,
}

/// A raw key and what it holds from now on.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RawWrite {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    /// Nothing, if it is removed.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) value: Option<Vec<u8>>,
}

/// The file, and where the next frame goes.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    next: usize,
}

impl Journal {
    pub(super) const fn new(file: File) -> Self {
        Self { file, next: 0 }
    }

    /// The batches that are there, the oldest first. What is read is durable: it is written back and synced, since after a failed
    /// sync the kernel may show what the disk never got.
    pub(super) fn recover(&self) -> io::Result<Vec<Redo>> {
        if self.file.metadata()?.len() > LONGEST_BYTES {
            return Err(io::Error::new(ErrorKind::InvalidData, "the journal is longer than any"));
        }
        let mut bytes = Vec::with_capacity(JOURNAL_BYTES);
        (&self.file).seek(SeekFrom::Start(0))?;
        (&self.file).read_to_end(&mut bytes)?;
        bytes.resize(bytes.len().max(JOURNAL_BYTES), 0);
        self.file.write_all_at(&bytes, 0)?;
        self.file.sync_all()?;
        let mut found: Vec<Redo> =
            (0..bytes.len()).step_by(BLOCK_BYTES).filter_map(|at| decode(&bytes[at..])).collect();
        found.sort_by_key(|redo| redo.first);
        Ok(found)
    }

    /// Takes the next frame to the beginning of the file: all frames are in sled, durably.
    pub(super) const fn restart(&mut self) {
        self.next = 0;
    }

    /// Whether there is room for `frame`. At the beginning of the file there is for every one.
    pub(super) const fn has_room(&self, frame: &[u8]) -> bool {
        self.next == 0 || self.next + frame.len() <= JOURNAL_BYTES
    }

    /// Where the next frame goes.
    pub(super) const fn place(&self) -> u64 {
        self.next as u64 // OK because a file's length fits 64 bits.
    }

    /// Takes note that `frame` is there, durably.
    pub(super) const fn keep(&mut self, frame: &[u8]) {
        self.next += frame.len();
    }

    pub(super) const fn file(&self) -> &File {
        &self.file
    }
}

impl Redo {
    /// Adds the writes of a commit.
    pub(super) fn add(&mut self, store: StoreId, revision: u64, writes: impl IntoIterator<Item = RawWrite>) {
        if self.last == 0 {
            (self.store, self.first) = (store.as_bytes().to_vec(), revision);
        }
        self.last = revision;
        self.writes.extend(writes);
    }

    /// The frame: whole blocks.
    pub(super) fn frame(&self) -> Vec<u8> {
        frame::seal(self)
    }

    /// Whether it holds commits after `revision`. An error says that some before them are missing.
    pub(super) fn follows(&self, revision: u64) -> Result<bool, LedgerError> {
        match self.last > revision {
            true if self.first > revision + 1 => Err(LedgerError::Lost { found: revision, known: self.last }),
            follows => Ok(follows),
        }
    }
}

/// The batch whose frame begins here, if there is one that is whole.
fn decode(blocks: &[u8]) -> Option<Redo> {
    frame::open(blocks).map(|(redo, _)| redo)
}

#[cfg(test)]
mod tests {
    use super::super::frame::{BEGINS, HEADER_BYTES, TAG_BYTES};
    use super::*;

    const STORE: StoreId = StoreId::new([7; 16]);

    fn redo(first: u64, last: u64, bytes: usize) -> Redo {
        let value = Some(BEGINS.iter().copied().cycle().take(bytes).collect());
        let writes =
            vec![RawWrite { key: b"slot/00".to_vec(), value }, RawWrite { key: b"gone".to_vec(), value: None }];
        let mut redo = Redo::default();
        redo.add(STORE, first, writes);
        redo.add(STORE, last, []);
        redo
    }

    fn journal() -> Journal {
        let journal = Journal::new(tempfile::tempfile().unwrap());
        assert_eq!(journal.recover().unwrap(), []);
        assert_eq!(journal.file.metadata().unwrap().len(), JOURNAL_BYTES as u64);
        journal
    }

    fn append(journal: &mut Journal, redo: &Redo) {
        let frame = redo.frame();
        assert!(journal.has_room(&frame));
        journal.file.write_all_at(&frame, journal.place()).unwrap();
        journal.keep(&frame);
    }

    #[test]
    fn what_is_written_is_read_back_whatever_its_length() {
        let around = |bytes: usize| bytes - 80..bytes + 1;
        let lengths = [0..3, around(BLOCK_BYTES), around(2 * BLOCK_BYTES)].into_iter().flatten();
        for bytes in lengths.chain([300_000]) {
            let mut journal = journal();
            let written = [redo(1, 1, bytes), redo(2, 9, 10), redo(10, 10, bytes)];
            written.iter().for_each(|redo| append(&mut journal, redo));
            assert!(journal.recover().unwrap() == written, "{bytes}");
        }
    }

    #[test]
    fn frames_of_the_turn_before_stay_until_they_are_written_over() {
        let mut journal = journal();
        (1..=3).for_each(|revision| append(&mut journal, &redo(revision, revision, 10)));
        journal.restart();
        append(&mut journal, &redo(4, 4, BLOCK_BYTES));
        let firsts: Vec<u64> = journal.recover().unwrap().iter().map(|redo| redo.first).collect();
        assert_eq!(firsts, [3, 4]);
    }

    #[test]
    fn a_torn_or_damaged_frame_is_none() {
        let redo = redo(1, 1, 3 * BLOCK_BYTES);
        let frame = redo.frame();
        let used = redo.encoded_len() + HEADER_BYTES + frame.len() / BLOCK_BYTES * TAG_BYTES;
        for at in (0..used).step_by(7).chain([used - 1]) {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x40;
            assert!(decode(&damaged).is_none(), "byte {at}");
            damaged[at..].fill(0);
            assert!(decode(&damaged).is_none(), "torn at {at}");
            assert!(decode(&frame[..at]).is_none(), "cut off at {at}");
        }
        assert!(decode(&frame) == Some(redo));
    }

    #[test]
    fn no_more_than_there_is_room_for() {
        let mut journal = journal();
        let frame = redo(1, 1, JOURNAL_BYTES / 3).frame();
        journal.keep(&frame);
        assert!(journal.has_room(&frame));
        journal.keep(&frame);
        assert!(!journal.has_room(&frame));
        journal.restart();
        assert!(journal.has_room(&frame));
        let large = [redo(1, 1, 3 * JOURNAL_BYTES)];
        append(&mut journal, &large[0]);
        assert!(journal.recover().unwrap() == large, "a batch that is larger than the file");
        assert!(!journal.has_room(&frame));
    }

    #[test]
    fn a_journal_of_nonsense_length_is_not_read() {
        let journal = journal();
        journal.file.set_len(LONGEST_BYTES + 1).unwrap();
        assert_eq!(journal.recover().unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn a_gap_is_an_error_and_what_is_there_already_is_none() {
        for (first, last, revision, expected) in [
            (1, 3, 0, Some(true)),
            (1, 3, 2, Some(true)),
            (1, 3, 3, Some(false)),
            (5, 5, 4, Some(true)),
            (5, 5, 3, None),
        ] {
            assert_eq!(redo(first, last, 1).follows(revision).ok(), expected, "{first} to {last} after {revision}");
        }
    }
}
