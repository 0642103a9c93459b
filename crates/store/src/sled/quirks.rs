//! What is as it is because of sled's ways. Nothing else here would be needed over another database.
//!
//! | sled 0.34 | so | shown by |
//! |---|---|---|
//! | writes a value that is large for its segment to a file of its own, and never syncs that | [`SEGMENT_BYTES`]: segments so large that no leaf is | `restart::no_value_becomes_a_file`, and the assertion below |
//! | flushes by `sync_file_range`, which leaves the data in the disk's own cache | [`flush`] syncs the file by a handle of ours | `power::a_missing_sync_is_found`, `the_real_durability_syncs` |
//! | takes what it has written for durable, and recovers wrongly if several segments are missing in part | it is given little between two syncs: [`PIECE_BYTES_MAX`], weighed by [`leaves`] | `cuts::a_power_cut_while_sled_is_written_loses_nothing`, `cuts::leaves_that_are_written_anew_together_are_synced_apart` |
//! | leaves small files half made, and then calls the database damaged or does not find them | [`leftovers`] makes them good before it is opened | `cuts::a_power_cut_while_sled_is_opened_loses_nothing` |
//! | does not sync its small files, nor their names | [`sync_files`] | `cuts::a_power_cut_while_sled_is_opened_loses_nothing`, `power::every_acknowledged_commit_survives_a_power_cut` |
//! | cuts its log off at the first damaged record, without a word | `newest` knows how far it was | `damage::a_log_that_is_cut_short_is_noticed` |
//! | panics on some kinds of damage and failure, also while it is dropped | [`caught`] | `damage::a_flipped_bit_is_noticed_or_makes_no_difference` |
//! | its threads finish what they are at after it was dropped, and hold its lock until then | [`wait_released`] | `err_held_by_a_tool_that_goes_round_our_lock` shows the lock; the wait is shown by no test, since they need microseconds |
//! | flushes by a timer, too | the timer is off ([`config`]), so that it writes when we say so | no test: nothing would break |

pub(super) mod leaves;
pub(super) mod leftovers;

use std::fs::{self, File, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::error::{DiskError, LedgerError};
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

/// How much sled is given before it is flushed and synced: less than a segment.
pub(super) const PIECE_BYTES_MAX: usize = SEGMENT_BYTES / 4;
/// What a write may make sled write, at worst: the leaf anew (which it does with about every tenth write to one, but all of them
/// may be due at the same time), and another page out of a segment that is to become free.
pub(super) const PAGES_A_WRITE: usize = 2;
pub(super) const PIECE_WRITES_MAX: usize = 64;

/// The size of sled's page cache. A store of a hundred thousand regions fits; a larger one reads from the log.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// sled's pool threads need microseconds to let go; five seconds are for a machine that is out of breath.
const RELEASE_TRIES_MAX: u32 = 5_000;
const RELEASE_PAUSE: Duration = Duration::from_millis(1);

/// How sled is opened.
pub(super) fn config(dir: &Path) -> ::sled::Config {
    ::sled::Config::new().path(dir).segment_size(SEGMENT_BYTES).cache_capacity(CACHE_BYTES).flush_every_ms(None)
}

/// Returns when all that was written to `db` before survives power loss. `log` is a handle on its file that was opened before any of
/// it was written: the kernel reports a write error once to each handle that was open when it happened, so it does not matter that
/// sled's handle may have been told already.
pub(super) fn flush(db: &::sled::Db, log: &File) -> Result<(), DiskError> {
    db.flush().map_err(LedgerError::from)?;
    Ok(log.sync_data()?)
}

/// Syncs every file in the directory, and their names.
pub(super) fn sync_files(dir: &Path) -> Result<(), DiskError> {
    for entry in fs::read_dir(dir)? {
        File::open(entry?.path())?.sync_all()?;
    }
    Ok(File::open(dir)?.sync_all()?)
}

/// Waits until sled has let go of its file, which `log` is a handle of.
pub(super) fn wait_released(dir: &Path, log: &File) {
    for _ in 0..RELEASE_TRIES_MAX {
        if check_released(log).is_ok() {
            return;
        }
        thread::sleep(RELEASE_PAUSE);
    }
    tracing::warn!(dir = %dir.display(), "sled still holds its file");
}

/// Whether sled's own lock is free: threads of this process may hold it, or a tool that bypasses our lock.
pub(super) fn check_released(log: &File) -> Result<(), DiskError> {
    log.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => DiskError::Held,
        TryLockError::Error(source) => DiskError::Io(source),
    })?;
    Ok(log.unlock()?)
}

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
