//! The mark of a clean `db`: everything that was written to the file has reached the disk, so the next opening need not
//! write the file again.
//!
//! The mark is a small file that names the state of `db`. It is written after a checkpoint, whose syncs have all
//! succeeded, and removed before anything else is written to `db`. So after a failed sync, a crash in the middle of a
//! checkpoint or a change by another program, there is no mark that fits.
//!
//! The mark itself is not synced, because it is about what the kernel has in memory. After a power cut, the kernel reads
//! `db` from the disk, whether or not there is a mark.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The name of the file.
pub(super) const NAME: &str = "clean";

/// Returns whether `log`, the handle to `db`, is clean, and removes the mark.
pub(super) fn take(dir: &Path, log: &File) -> io::Result<bool> {
    let is_clean = match fs::read_to_string(dir.join(NAME)) {
        Ok(mark) => mark == text(&log.metadata()?),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        // Another program has damaged the mark.
        Err(error) if error.kind() == ErrorKind::InvalidData => false,
        Err(error) => return Err(error),
    };
    remove(dir)?;
    Ok(is_clean)
}

/// Removes the mark, if there is one. Must be called before `db` is written to.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(NAME)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Marks `log`, the handle to `db`, as clean if its contents now reach the disk. Every earlier sync must have succeeded
/// since the file was last written as a whole.
pub(super) fn leave(dir: &Path, log: &File) -> io::Result<()> {
    // Read before the sync, so that the mark does not cover a later write.
    let text = text(&log.metadata()?);
    log.sync_all()?;
    fs::write(dir.join(NAME), text)
}

/// Describes the state of a file. Any write changes the time of its last change.
fn text(file: &Metadata) -> String {
    format!("{} {} {} {}.{:09}\n", file.dev(), file.ino(), file.size(), file.ctime(), file.ctime_nsec())
}

#[cfg(test)]
mod tests {
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
        fs::write(&path, "changed").unwrap();
        assert!(!take() && !mark.exists());
        for damaged in [&b""[..], b"1 2 3 4.5\n", b"\xff"] {
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
