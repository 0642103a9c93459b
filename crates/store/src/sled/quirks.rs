//! Workarounds for sled that another database would not need.
//!
//! | behavior of sled 0.34 | workaround | test |
//! |---|---|---|
//! | writes a message that is larger than a quarter of a segment to a separate file, which it never syncs | [`SEGMENT_BYTES`] is so large that no leaf becomes such a message | `restart::no_value_becomes_a_file`, and the assertion below |
//! | flushes with `sync_file_range`, which leaves the data in the disk's own cache | [`flush`] syncs the file with our own handle | `power::a_missing_sync_is_found`, `the_real_durability_syncs` |
//! | assumes that its writes are durable, and recovers wrongly if parts of several segments are missing | sled writes at most [`PIECE_BYTES_MAX`] between two syncs, as estimated by [`leaves`] | `cuts::a_power_cut_during_a_checkpoint_loses_nothing`, `cuts::leaves_that_are_rewritten_together_are_synced_apart` |
//! | leaves small files incomplete, and then reports a damaged database or ignores them | [`leftovers`] completes or removes them before sled is opened | `cuts::a_power_cut_while_sled_is_opened_loses_nothing` |
//! | does not sync its small files and their names | [`sync_files`] | `cuts::a_power_cut_while_sled_is_opened_loses_nothing`, `power::every_acknowledged_commit_survives_a_power_cut` |
//! | silently truncates its log at the first damaged record | `newest` has the revision that the database must have | `damage::a_truncated_log_is_noticed` |
//! | panics on some kinds of damage and failure, even when it is dropped | [`catch_panic`] | `damage::a_flipped_bit_is_noticed_or_has_no_effect` |
//! | lets its threads finish their work after it is dropped, and they hold its lock until then | [`wait_released`] | `err_locked_by_a_tool_that_bypasses_our_lock` shows the lock; no test shows the wait, which takes microseconds |
//! | also flushes on a timer | [`config`] disables the timer, so that sled rarely writes except at our flushes | no test, because the timer would do no harm |

pub(super) mod leaves;
pub(super) mod leftovers;

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::FileTypeExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::error::{DiskError, LedgerError};
use crate::key::KEY_BYTES_MAX;
use crate::txn::VALUE_BYTES_MAX;

/// The size of sled's log segments: 2 MiB instead of the default of 512 KiB.
///
/// sled writes a message larger than a quarter of a segment to a separate file in `blobs/`, which it never syncs. A
/// message is a whole leaf of its tree, with at most 17 entries (a leaf splits above 16) and 3 from a merged neighbor.
pub(super) const SEGMENT_BYTES: usize = 2 * 1024 * 1024;
pub(super) const LEAF_ENTRIES_MAX: usize = 20;
/// The number of bytes of an entry in addition to key and value: our envelope and revision (15 bytes), and sled's
/// lengths and prefixes.
pub(super) const ENTRY_OVERHEAD_BYTES: usize = 64;

const _: () = {
    let entry = VALUE_BYTES_MAX + KEY_BYTES_MAX + ENTRY_OVERHEAD_BYTES;
    assert!((LEAF_ENTRIES_MAX + 1) * entry < SEGMENT_BYTES / 4, "no leaf ever becomes a blob file");
};

/// The maximum number of bytes that sled writes before it is flushed and synced: less than a segment.
pub(super) const PIECE_BYTES_MAX: usize = SEGMENT_BYTES / 4;
/// The maximum number of pages that sled writes for one write: the whole leaf, and another page from a segment that
/// sled wants to free. sled writes the whole leaf only on about every tenth write to it, but possibly for many leaves
/// at the same time.
pub(super) const PAGES_A_WRITE: usize = 2;
pub(super) const PIECE_WRITES_MAX: usize = 64;

/// The size of sled's page cache. A store of a hundred thousand regions fits; a larger one reads from the log.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;

/// sled's pool threads need only microseconds to release the file, so five seconds are enough even on an overloaded
/// machine.
const RELEASE_TRIES_MAX: u32 = 5_000;
const RELEASE_PAUSE: Duration = Duration::from_millis(1);

/// Returns the configuration of sled.
pub(super) fn config(dir: &Path) -> ::sled::Config {
    ::sled::Config::new().path(dir).segment_size(SEGMENT_BYTES).cache_capacity(CACHE_BYTES).flush_every_ms(None)
}

/// Makes all earlier writes to `db` durable. `log` is a handle to its file, opened before any of these writes. The
/// kernel reports a write error once to each handle that was open when the error happened, so the sync fails even if
/// sled's handle already got the error.
pub(super) fn flush(db: &::sled::Db, log: &File) -> Result<(), DiskError> {
    db.flush().map_err(LedgerError::from)?;
    Ok(log.sync_data()?)
}

/// Syncs every file in the directory, and the directory itself. The daemon's socket, which is also in the directory,
/// needs no sync.
pub(super) fn sync_files(dir: &Path) -> Result<(), DiskError> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if !entry.file_type()?.is_socket() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    Ok(File::open(dir)?.sync_all()?)
}

/// Waits until sled has released its file, and returns whether it has. `log` is our handle to it.
pub(super) fn wait_released(dir: &Path, log: &File) -> bool {
    for _ in 0..RELEASE_TRIES_MAX {
        if check_released(log).is_ok() {
            return true;
        }
        thread::sleep(RELEASE_PAUSE);
    }
    tracing::warn!(dir = %dir.display(), "sled still holds its file");
    false
}

/// Checks that sled's own lock is free. sled's threads or a tool that bypasses our lock can hold it.
pub(super) fn check_released(log: &File) -> Result<(), DiskError> {
    log.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => DiskError::Locked,
        TryLockError::Error(source) => DiskError::Io(source),
    })?;
    Ok(log.unlock()?)
}

/// Runs code that calls sled and catches panics, which sled uses for some kinds of damage and failure.
///
/// It is OK to continue after a panic, because the caller drops the database and opens it again.
pub(super) fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, DiskError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        DiskError::Panicked(text.unwrap_or_default())
    })
}
