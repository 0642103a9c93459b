//! Frames: messages with checksums, padded to whole blocks, for the journal and the archive.
//!
//! ```text
//! offset  bytes  contents
//! 0       4      "KJF1" at the start of a frame, "KJM1" at each further 4096 bytes, so that no contents look like a frame
//! 4       4      length of the message, big-endian
//! 8       4      CRC-32 (IEEE), big-endian, of the length and the message
//! 12      n      the message
//! ```
//!
//! Frames start at multiples of 4096 bytes, so that no write touches the blocks of an acknowledged frame.

use prost::Message;

/// The alignment of frames in bytes: a page of the kernel's cache, and at least the unit that a disk writes.
pub(super) const BLOCK_BYTES: usize = 4096;
pub(super) const TAG_BYTES: usize = 4;
pub(super) const STARTS: [u8; TAG_BYTES] = *b"KJF1";
const CONTINUES: [u8; TAG_BYTES] = *b"KJM1";
/// The size of the length and the checksum.
pub(super) const HEADER_BYTES: usize = 4 + 4;

/// Encodes a message of less than 4 GiB as a frame.
pub(super) fn seal(message: &impl Message) -> Vec<u8> {
    let message = message.encode_to_vec();
    // OK because a batch has at most BATCH_REQUESTS_MAX transactions of TXN_BYTES_MAX, which fits into 32 bits.
    let length = (message.len() as u32).to_be_bytes();
    let sum = checksum(length, &message).to_be_bytes();
    let contents = [&length[..], &sum, &message].concat();
    let mut frame = Vec::with_capacity(contents.len().next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES);
    for part in contents.chunks(BLOCK_BYTES - TAG_BYTES) {
        frame.extend(if frame.is_empty() { STARTS } else { CONTINUES });
        frame.extend(part);
    }
    frame.resize(frame.len().next_multiple_of(BLOCK_BYTES), 0);
    frame
}

/// Decodes the frame at the start of `blocks`. Returns its message and its length, or `None` if there is no
/// complete frame.
pub(super) fn open<M: Message + Default>(blocks: &[u8]) -> Option<(M, usize)> {
    let (header, _) = blocks.strip_prefix(&STARTS)?.split_first_chunk::<HEADER_BYTES>()?;
    let (length, sum) = header.split_first_chunk::<4>()?;
    let bytes = HEADER_BYTES + usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let count = bytes.div_ceil(BLOCK_BYTES - TAG_BYTES);
    let (blocks, mut contents) = (blocks.get(..count * BLOCK_BYTES)?, Vec::new());
    for (number, block) in blocks.chunks(BLOCK_BYTES).enumerate() {
        contents.extend(block.strip_prefix(if number == 0 { &STARTS } else { &CONTINUES })?);
    }
    let message = contents.get(HEADER_BYTES..bytes)?;
    let is_whole = checksum(*length, message).to_be_bytes() == sum;
    Some((is_whole.then(|| M::decode(message).ok())??, count * BLOCK_BYTES))
}

fn checksum(length: [u8; 4], message: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&length);
    sum.update(message);
    sum.finalize()
}
