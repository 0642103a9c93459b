//! The mark of a clean `db`: everything that was written to the file has reached the disk, so the next opening need not
//! write the file again.
//!
//! The mark is a small file that names the state of `db`. It is left when every sync has succeeded: after the recovery,
//! after a checkpoint, and at a close. It is removed before the next checkpoint. sled can also write at other times, for
//! example when a read splits a leaf or moves pages out of the cache. Then the mark stays, but does not fit any more,
//! because a write changes the time of the last modification of `db`. So after a failed sync, a crash in the middle of a
//! checkpoint or a change by another program, there is no mark that fits.
//!
//! The removal is durable, so that a mark that was removed does not come back after a power cut. The mark itself is not
//! synced: without it, the next opening only takes longer.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// The name of the file.
pub(super) const NAME: &str = "clean";

/// [`leave`] moves the time of the last modification of `db` back by this duration, to a time that no later write gives
/// it. The kernel takes the times of writes from a clock with ticks of milliseconds, so without this step, a write soon
/// after the mark could leave the time as it is.
const AGE: Duration = Duration::from_secs(1);

/// Returns whether `log`, the handle to `db`, is clean, and removes the mark.
pub(super) fn take(dir: &Path, log: &File) -> io::Result<bool> {
    let is_clean = fits(dir, log)?;
    remove(dir)?;
    Ok(is_clean)
}

/// Returns whether there is a mark that fits `log`, the handle to `db`.
pub(super) fn fits(dir: &Path, log: &File) -> io::Result<bool> {
    match fs::read_to_string(dir.join(NAME)) {
        Ok(mark) => Ok(mark == text(&log.metadata()?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        // Another program has damaged the mark.
        Err(error) if error.kind() == ErrorKind::InvalidData => Ok(false),
        Err(error) => Err(error),
    }
}

/// Durably removes the mark, if there is one.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(NAME)) {
        Ok(()) => File::open(dir)?.sync_all(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Syncs `log`, the handle to `db`, and leaves the mark. Every earlier sync must have succeeded since the file was last
/// written as a whole. Fails only if this sync fails.
pub(super) fn leave(dir: &Path, log: &File) -> io::Result<()> {
    // The kernel sets the time between two writes, never during one. So the sync includes every write before it, and the
    // mark does not cover any write after it.
    let moved = move_back(log).and_then(|()| Ok(text(&log.metadata()?)));
    log.sync_all()?;
    // OK because without the mark, the next opening writes the file again.
    if let Err(error) = moved.and_then(|text| fs::write(dir.join(NAME), text)) {
        tracing::warn!(dir = %dir.display(), %error, "cannot mark the database as clean; the next start takes longer");
    }
    Ok(())
}

fn move_back(log: &File) -> io::Result<()> {
    let modified = log.metadata()?.modified()?;
    log.set_modified(modified.checked_sub(AGE).unwrap_or(modified))
}

/// Describes the state of a file. Any write changes its times.
fn text(file: &Metadata) -> String {
    let [modified, changed] = [(file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec())];
    let [modified, changed] = [modified, changed].map(|(seconds, nanos)| format!("{seconds}.{nanos:09}"));
    format!("{} {} {} {modified} {changed}\n", file.dev(), file.ino(), file.size())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_mark_counts_once_and_only_for_the_same_contents() {
        let dir = tempfile::tempdir().unwrap();
        let (path, mark) = (dir.path().join("db"), dir.path().join(NAME));
        fs::write(&path, "contents").unwrap();
        let log = File::options().read(true).write(true).open(&path).unwrap();
        let (take, leave) = (|| take(dir.path(), &log).unwrap(), || leave(dir.path(), &log).unwrap());
        assert!(!take());
        leave();
        assert!(mark.exists() && take() && !mark.exists() && !take());
        leave();
        remove(dir.path()).unwrap();
        remove(dir.path()).unwrap();
        assert!(!take());
        leave();
        log.write_all_at(b"CONTENTS", 0).unwrap();
        assert!(!take() && !mark.exists(), "a write at once that does not change the length");
        for damaged in [&b""[..], b"1 2 3 4.5 6.7\n", b"\xff"] {
            fs::write(&mark, damaged).unwrap();
            assert!(!take() && !mark.exists());
        }
        // A copy is another file.
        leave();
        let copy = dir.path().join("copy");
        fs::copy(&path, &copy).unwrap();
        assert!(!super::take(dir.path(), &File::open(copy).unwrap()).unwrap());
    }
}
