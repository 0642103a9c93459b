//! A file that rotates by size: `audit.jsonl` is renamed to `audit.jsonl.1`, which is renamed to `audit.jsonl.2`, and
//! so on. The oldest file is removed.
//!
//! Existing crates hide errors: file-rotate loses lines if the file cannot be opened, and rolling-file writes its
//! errors to standard error.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::place::Rotation;

/// A log file, and the older files that it replaced.
#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    rotation: Rotation,
    file: Option<File>,
    /// Whether the last write failed, perhaps in the middle of a line.
    is_torn: bool,
}

impl RotatingFile {
    /// Opens the file, or creates it with permissions for its owner only.
    pub(super) fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
        let mut rotating = Self { path: path.to_owned(), rotation, file: None, is_torn: false };
        rotating.reopen()?;
        Ok(rotating)
    }

    /// Writes whole lines. After an error, the next call rotates and opens the file again if necessary.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = self.length()?.unwrap_or(0);
        if length > 0 && length.saturating_add(lines.len() as u64) > self.rotation.bytes {
            self.rotate()?;
        }
        let is_torn = self.is_torn;
        let file = self.reopen()?;
        let written = match is_torn {
            true => file.write_all(b"\n").and_then(|()| file.write_all(lines)),
            false => file.write_all(lines),
        };
        self.is_torn = written.is_err();
        written
    }

    /// The length of the open file, or `None` if no file is open or the file is no longer at its path.
    fn length(&mut self) -> io::Result<Option<u64>> {
        let Some(file) = &self.file else { return Ok(None) };
        let open = file.metadata()?;
        let is_there = fs::metadata(&self.path).is_ok_and(|at| (at.dev(), at.ino()) == (open.dev(), open.ino()));
        if !is_there {
            (self.file, self.is_torn) = (None, false);
        }
        Ok(is_there.then_some(open.len()))
    }

    fn reopen(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => open(&self.path)?,
        };
        Ok(self.file.insert(file))
    }

    /// Renames the files, the oldest first. A failure leaves the current file in place.
    fn rotate(&mut self) -> io::Result<()> {
        if self.rotation.files == 1 {
            fs::remove_file(&self.path)?;
        }
        for number in (1..self.rotation.files).rev() {
            let newer = if number == 1 { self.path.clone() } else { self.part(number - 1) };
            match fs::rename(newer, self.part(number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        (self.file, self.is_torn) = (None, false);
        Ok(())
    }

    fn part(&self, number: u32) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{number}"));
        path.into()
    }
}

/// Opens the file and locks it. If two processes wrote the same log, each could rename a file that the other has just
/// filled. The lock ends with the file, or with the process.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another process of kentd writes it: give each its own file",
        )),
        // Not all file systems have locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn read(dir: &Path, name: &str) -> String {
        fs::read_to_string(dir.join(name)).unwrap_or_default()
    }

    #[test]
    fn ok_files_rotate_between_lines_and_the_oldest_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a");
        for n in 1..=9 {
            // Reopen each time, as a restarted process does.
            let mut file = RotatingFile::open(&path, Rotation { bytes: 8, files: 3 }).expect("opened");
            file.write(format!("{n}{n}{n}\n").as_bytes()).expect("written");
        }
        let found = ["a", "a.1", "a.2", "a.3"].map(|name| read(dir.path(), name));
        assert_eq!(found, ["999\n", "777\n888\n", "555\n666\n", ""]);
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        let mut single = RotatingFile::open(&dir.path().join("b"), Rotation { bytes: 4, files: 1 }).expect("opened");
        single.write(b"1\n").expect("written");
        single.write(b"long\n").expect("a line above the limit is written");
        assert_eq!(read(dir.path(), "b"), "long\n");
    }

    #[test]
    fn ok_a_file_that_others_move_away_is_created_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a");
        let mut file = RotatingFile::open(&path, Rotation { bytes: 100, files: 3 }).expect("opened");
        file.write(b"1\n").expect("written");
        fs::rename(&path, dir.path().join("moved")).expect("renamed");
        file.write(b"2\n").expect("written");
        assert_eq!([read(dir.path(), "moved"), read(dir.path(), "a")], ["1\n", "2\n"]);
    }

    #[test]
    fn err_a_file_that_another_process_writes() {
        let dir = tempfile::tempdir().expect("a directory");
        let open = |name| RotatingFile::open(&dir.path().join(name), Rotation { bytes: 4, files: 3 });
        let mut file = open("a").expect("opened");
        assert_eq!(open("a").expect_err("locked").kind(), io::ErrorKind::ResourceBusy);
        file.write(b"111\n").expect("written");
        file.write(b"222\n").expect("written to a new file");
        assert!(open("a").is_err(), "the new file is locked as well");
        open("a.1").expect("the old one is not");
        drop(file);
        open("a").expect("no longer locked");
    }

    #[test]
    fn err_a_file_that_cannot_be_written_is_an_error_until_it_can() {
        let dir = tempfile::tempdir().expect("a directory");
        let inner = dir.path().join("inner");
        assert!(RotatingFile::open(&inner.join("a"), Rotation { bytes: 100, files: 3 }).is_err());
        fs::create_dir(&inner).expect("created");
        let mut file = RotatingFile::open(&inner.join("a"), Rotation { bytes: 100, files: 3 }).expect("opened");
        fs::remove_dir_all(&inner).expect("removed");
        assert!(file.write(b"1\n").is_err());
        fs::create_dir(&inner).expect("created");
        file.write(b"2\n").expect("written");
        assert_eq!(read(&inner, "a"), "2\n");
    }
}
