//! The journal: our write-ahead log with the commits since the last checkpoint, so that a commit waits for only one
//! sync.
//!
//! sled's flush writes a transaction in several pieces, waits for each of them on its own threads, and needs another
//! sync by us. So a batch of commits is written to the journal, synced once, and kept in memory. When the journal is
//! full, and when the database is closed, a checkpoint writes the commits to sled and the journal restarts. When a
//! database is opened, the commits that sled lacks are written to it.
//!
//! The file has its full length from the start, so that a sync need not write its length or block list. Each batch is a
//! frame ([`frame`](super::frame)), and is written only after the previous one was synced, so only the newest frame can
//! be torn. A frame is identified by its revisions, not by its position. Frames that sled already has are ignored. The
//! other frames must have contiguous revisions, because a gap means lost commits.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use prost::Message;

use super::error::LedgerError;
use super::frame::{self, BLOCK_BYTES};
use crate::store::StoreId;

/// The length of the file. A larger batch extends it.
const JOURNAL_BYTES: usize = 1024 * 1024;
/// An upper bound for the length: more than the largest batch of 256 transactions of 1 MiB each.
const LONGEST_BYTES: u64 = 1024 * 1024 * 1024;

/// The writes of a batch of commits, for replay.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Redo {
    /// The identity of the store.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) store: Vec<u8>,
    /// The revision of the first commit.
    #[prost(uint64, tag = "2")]
    pub(super) first: u64,
    /// The revision of the last commit.
    #[prost(uint64, tag = "3")]
    pub(super) last: u64,
    /// The writes of all commits, in order.
    #[prost(message, repeated, tag = "4")]
    pub(super) writes: Vec<RawWrite>,
}

/// A raw key and its new raw value.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RawWrite {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    /// `None` removes the key.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) value: Option<Vec<u8>>,
}

/// The file and the position of the next frame.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    next: usize,
}

impl Journal {
    pub(super) const fn new(file: File) -> Self {
        Self { file, next: 0 }
    }

    /// Reads the batches, oldest first, and makes them durable: writes them back and syncs them, because after a failed
    /// sync the kernel can return data that the disk never got.
    pub(super) fn recover(&self) -> io::Result<Vec<Redo>> {
        if self.file.metadata()?.len() > LONGEST_BYTES {
            return Err(io::Error::new(ErrorKind::InvalidData, "the journal is longer than the maximum"));
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

    /// Starts again at the beginning of the file. All frames must be durable in sled.
    pub(super) const fn restart(&mut self) {
        self.next = 0;
    }

    /// Returns true if `frame` fits into the rest of the file. Every frame fits at the beginning of the file.
    pub(super) const fn fits(&self, frame: &[u8]) -> bool {
        self.next == 0 || self.next + frame.len() <= JOURNAL_BYTES
    }

    /// Returns the position of the next frame.
    pub(super) const fn position(&self) -> u64 {
        self.next as u64 // OK because a file's length fits 64 bits.
    }

    /// Records that `frame` is durable.
    pub(super) const fn advance(&mut self, frame: &[u8]) {
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

    /// Encodes the batch as a frame.
    pub(super) fn frame(&self) -> Vec<u8> {
        frame::seal(self)
    }

    /// Returns true if the batch has commits after `revision`. Fails if commits between `revision` and the batch are
    /// missing.
    pub(super) fn follows(&self, revision: u64) -> Result<bool, LedgerError> {
        match self.last > revision {
            true if self.first > revision + 1 => Err(LedgerError::Lost { found: revision, known: self.last }),
            follows => Ok(follows),
        }
    }
}

/// Decodes the batch at the start of `blocks`. Returns `None` if there is no complete frame.
fn decode(blocks: &[u8]) -> Option<Redo> {
    frame::open(blocks).map(|(redo, _)| redo)
}

#[cfg(test)]
mod tests {
    use super::super::frame::{HEADER_BYTES, STARTS, TAG_BYTES};
    use super::*;

    const STORE: StoreId = StoreId::new([7; 16]);

    fn redo(first: u64, last: u64, bytes: usize) -> Redo {
        let value = Some(STARTS.iter().copied().cycle().take(bytes).collect());
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
        assert!(journal.fits(&frame));
        journal.file.write_all_at(&frame, journal.position()).unwrap();
        journal.advance(&frame);
    }

    #[test]
    fn batches_of_every_length_are_read_back() {
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
    fn frames_from_before_a_restart_stay_until_they_are_overwritten() {
        let mut journal = journal();
        (1..=3).for_each(|revision| append(&mut journal, &redo(revision, revision, 10)));
        journal.restart();
        append(&mut journal, &redo(4, 4, BLOCK_BYTES));
        let firsts: Vec<u64> = journal.recover().unwrap().iter().map(|redo| redo.first).collect();
        assert_eq!(firsts, [3, 4]);
    }

    #[test]
    fn a_torn_or_damaged_frame_is_ignored() {
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
    fn a_frame_fits_only_if_there_is_space() {
        let mut journal = journal();
        let frame = redo(1, 1, JOURNAL_BYTES / 3).frame();
        journal.advance(&frame);
        assert!(journal.fits(&frame));
        journal.advance(&frame);
        assert!(!journal.fits(&frame));
        journal.restart();
        assert!(journal.fits(&frame));
        let large = [redo(1, 1, 3 * JOURNAL_BYTES)];
        append(&mut journal, &large[0]);
        assert!(journal.recover().unwrap() == large, "a batch that is larger than the file");
        assert!(!journal.fits(&frame));
    }

    #[test]
    fn a_journal_that_is_too_long_is_not_read() {
        let journal = journal();
        journal.file.set_len(LONGEST_BYTES + 1).unwrap();
        assert_eq!(journal.recover().unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn a_gap_is_an_error_and_known_commits_are_not() {
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
