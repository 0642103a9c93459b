//! An audit log on disk: a file and its older parts, FILE.1, FILE.2 and so on, which the daemon renames when the file
//! is full.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A log that is read from its oldest line.
pub(super) struct Log {
    path: String,
    part: Part,
    /// The beginning of a line that the daemon has not finished writing.
    begun: Vec<u8>,
    is_lost: bool,
}

/// An open file of the log.
struct Part {
    id: Id,
    file: BufReader<File>,
}

/// The identity of a file, which survives a rename: its device and its inode.
type Id = (u64, u64);

/// The maximum number of files that kentd keeps.
const PARTS_MAX: u32 = 1000;

impl Log {
    pub(super) fn open(path: &str) -> io::Result<Self> {
        let mut log = Self { path: path.to_owned(), part: Part::open(path.into())?, begun: Vec::new(), is_lost: false };
        log.begin_with_oldest()?;
        Ok(log)
    }

    /// Returns whether lines were lost since the last call because the daemon removed them before they were read.
    pub(super) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.is_lost)
    }

    /// Passes all lines that are in the log now to `each`, without their line feeds. Continues with the newer files if
    /// the daemon has rotated the log.
    pub(super) fn read<E>(&mut self, mut each: impl FnMut(&[u8]) -> Result<(), E>) -> io::Result<Result<(), E>> {
        loop {
            // The daemon may write to a file until it renames the file, so list the files before the last read of this
            // file.
            let parts = self.parts();
            loop {
                if self.part.file.read_until(b'\n', &mut self.begun)? == 0 {
                    break;
                }
                if let Some(line) = self.begun.strip_suffix(b"\n") {
                    if let Err(error) = each(line) {
                        return Ok(Err(error));
                    }
                    self.begun.clear();
                }
            }
            match parts.iter().position(|(_, id)| *id == self.part.id) {
                Some(0) => return Ok(Ok(())),
                Some(at) => self.turn_to(&parts[at - 1])?,
                None if parts.is_empty() => return Ok(Ok(())),
                None => {
                    self.is_lost = true;
                    self.begin_with_oldest()?;
                }
            }
        }
    }

    fn begin_with_oldest(&mut self) -> io::Result<()> {
        match self.parts().last() {
            Some(oldest) => self.turn_to(oldest),
            None => Ok(()),
        }
    }

    /// Continues with another file, unless that file has been renamed in the meantime: then the next listing finds it.
    fn turn_to(&mut self, (path, id): &(PathBuf, Id)) -> io::Result<()> {
        match Part::open(path.clone()) {
            Ok(part) if part.id == *id => {
                self.begun.clear();
                self.part = part;
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the files, newest first.
    fn parts(&self) -> Vec<(PathBuf, Id)> {
        let (mut parts, mut missing) = (Vec::new(), 0);
        for number in 0..PARTS_MAX {
            let path = PathBuf::from(if number == 0 { self.path.clone() } else { format!("{}.{number}", self.path) });
            match fs::metadata(&path) {
                Ok(metadata) => {
                    missing = 0;
                    parts.push((path, id(&metadata)));
                }
                // One file may be missing while the daemon renames the files.
                Err(_) if missing == 0 => missing = 1,
                Err(_) => break,
            }
        }
        parts
    }
}

impl Part {
    fn open(path: PathBuf) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self { id: id(&file.metadata()?), file: BufReader::new(file) })
    }
}

fn id(metadata: &Metadata) -> Id {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::path::Path;

    use super::*;

    fn append(path: &Path, text: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("opened");
        file.write_all(text.as_bytes()).expect("written");
    }

    fn read(log: &mut Log) -> String {
        let mut found = Vec::new();
        let each = |line: &[u8]| -> Result<(), Infallible> {
            found.push(String::from_utf8_lossy(line).into_owned());
            Ok(())
        };
        let Ok(()) = log.read(each).expect("read");
        found.join(" ")
    }

    /// A directory with the files `a`, `a.1`, `a.2`, which rotate.
    struct Rotating(tempfile::TempDir);

    impl Rotating {
        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn rotate(&self) {
            for (from, to) in [("a.1", "a.2"), ("a", "a.1")] {
                // OK because there is no older file the first time.
                let _ = fs::rename(self.path(from), self.path(to));
            }
        }

        fn log(&self) -> Log {
            Log::open(self.path("a").to_str().expect("UTF-8")).expect("opened")
        }
    }

    #[test]
    fn ok_a_log_is_read_from_its_oldest_part_on_and_followed_across_rotations() {
        let files = Rotating(tempfile::tempdir().expect("a directory"));
        for (name, text) in [("a.2", "1\n"), ("a.1", "2\n3\n"), ("a", "4\nhal")] {
            append(&files.path(name), text);
        }
        let mut log = files.log();
        assert_eq!(read(&mut log), "1 2 3 4");
        append(&files.path("a"), "f\n6\n");
        files.rotate();
        assert_eq!(read(&mut log), "half 6", "the last lines before the file was renamed");
        append(&files.path("a"), "7\n");
        assert_eq!(read(&mut log), "7");
        append(&files.path("a"), "8\n");
        files.rotate();
        append(&files.path("a"), "9\n");
        files.rotate();
        append(&files.path("a"), "10\n");
        assert_eq!((read(&mut log), log.take_lost()), ("8 9 10".to_owned(), false));
        for text in ["11\n", "12\n", "13\n"] {
            files.rotate();
            append(&files.path("a"), text);
        }
        assert_eq!((read(&mut log), log.take_lost()), ("11 12 13".to_owned(), true));
        assert_eq!((read(&mut log), log.take_lost()), (String::new(), false));
    }

    #[test]
    fn err_a_log_that_is_not_there() {
        assert!(Log::open("/nonexistent/audit.jsonl").is_err());
    }
}
