//! What is as it is because of sled's ways: sizes that keep its leaves out of files of their own, and what to do when it panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::error::DiskError;
use crate::key::KEY_BYTES_MAX;
use crate::txn::VALUE_BYTES_MAX;

/// The size of sled's log segments: 2 MiB instead of its 512 KiB.
///
/// sled writes a message larger than a quarter of a segment to a separate file in `blobs/`, which it never syncs. Its
/// messages are whole leaves of its tree, of at most 17 entries (it splits above 16) and 3 from a merged neighbour.
pub(super) const SEGMENT_BYTES: usize = 2 * 1024 * 1024;
pub(super) const LEAF_ENTRIES_MAX: usize = 20;
/// Beside key and value: our envelope and revision (15), sled's lengths and prefixes.
pub(super) const ENTRY_OVERHEAD_BYTES: usize = 64;

const _: () = {
    let entry = VALUE_BYTES_MAX + KEY_BYTES_MAX + ENTRY_OVERHEAD_BYTES;
    assert!((LEAF_ENTRIES_MAX + 1) * entry < SEGMENT_BYTES / 4, "no leaf ever becomes a blob file");
};

/// Runs code that calls sled, which panics on some kinds of damage and of failure.
///
/// OK to go on after a panic because the caller drops the database then and opens it anew.
pub(super) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, DiskError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        DiskError::Panicked(text.unwrap_or_default())
    })
}
