//! The mark of a clean close: the disk has everything that was written to `db`, so the next opening need not write the
//! file again.
//!
//! The mark is a small file that names the state of `db`. It is written after the last sync has succeeded, and removed
//! before anything is written to `db` again. So after a crash, a failed sync or a change by another program, there is no
//! mark that fits.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The name of the file.
pub(super) const NAME: &str = "clean";

/// Removes the mark, and returns whether `log`, the handle to `db`, was closed cleanly.
pub(super) fn take(dir: &Path, log: &File) -> io::Result<bool> {
    let path = dir.join(NAME);
    let mark = match fs::read_to_string(&path) {
        Ok(mark) => mark,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        // Another program has damaged the mark.
        Err(error) if error.kind() == ErrorKind::InvalidData => String::new(),
        Err(error) => return Err(error),
    };
    fs::remove_file(path)?;
    File::open(dir)?.sync_all()?;
    Ok(mark == text(&log.metadata()?))
}

/// Marks `log`, the handle to `db`, as closed cleanly if its contents now reach the disk. Every earlier sync must have
/// succeeded since the file was last written as a whole.
pub(super) fn leave(dir: &Path, log: &File) -> io::Result<()> {
    // Read before the sync, so that the mark does not cover a later write.
    let text = text(&log.metadata()?);
    log.sync_all()?;
    let mut file = File::create(dir.join(NAME))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    File::open(dir)?.sync_all()
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
