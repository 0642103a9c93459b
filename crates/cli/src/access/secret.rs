//! Writes a new token to standard output, or to a file that only its owner may read.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;
use crate::output::{self, Out};

/// The destination of a token. It is prepared before the token is created, because the daemon shows a token only once.
pub(super) enum Place {
    Output,
    File { path: PathBuf, part: NamedTempFile, replaces: bool },
}

impl Place {
    /// Prepares the file, which must not exist unless `replaces` is true. Without a path, the place is standard output.
    pub(super) fn prepare(path: Option<&Path>, replaces: bool) -> Result<Self, Failure> {
        let Some(path) = path else {
            return match output::is_closed() {
                true => Err(Failure::Output(io::Error::other("it is closed, so the token would be lost"))),
                false => Ok(Self::Output),
            };
        };
        if !replaces && path.symlink_metadata().is_ok() {
            return Err(unwritable(
                path,
                &io::Error::new(io::ErrorKind::AlreadyExists, "it exists already; name a new file"),
            ));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // `NamedTempFile` creates the file with mode 0600.
        let part = NamedTempFile::new_in(folder).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let missing = format!("its directory does not exist (mkdir -p {})", folder.display());
                unwritable(path, &io::Error::new(error.kind(), missing))
            }
            _ => unwritable(path, &error),
        })?;
        Ok(Self::File { path: path.to_owned(), part, replaces })
    }

    /// Returns the path of the file, for messages.
    pub(super) fn file(&self) -> Option<String> {
        match self {
            Self::Output => None,
            Self::File { path, .. } => Some(path.display().to_string()),
        }
    }

    /// Writes the token. If its file cannot be written, prints the token to standard output, because the daemon shows
    /// it only once. Fails with [`Failure::Output`] if the token is lost.
    pub(super) fn put(self, secret: &str, out: &mut Out) -> Result<(), Failure> {
        let (path, error) = match self {
            Self::Output if out.is_json() => return Ok(()),
            Self::Output => return out.text(&format!("{secret}\n")).and_then(|()| out.flush()),
            Self::File { path, mut part, replaces } => {
                let line = format!("{secret}\n");
                let written = part.as_file_mut().write_all(line.as_bytes()).and_then(|()| part.as_file().sync_all());
                let kept = written.and_then(|()| match replaces {
                    true => part.persist(&path).map(drop).map_err(|error| error.error),
                    false => part.persist_noclobber(&path).map(drop).map_err(|error| error.error),
                });
                match kept {
                    Ok(()) => return Ok(()),
                    Err(error) => (path, error),
                }
            }
        };
        out.text(&format!("{secret}\n")).and_then(|()| out.flush())?;
        let path = path.display();
        Err(Failure::File(format!("cannot write the token to {path}: {error}; it is on standard output instead")))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::Usage(format!("cannot write the token to {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn ok_a_file_is_new_or_replaced_and_only_for_its_owner() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        let mut out = Out::new(false, None, crate::reach::Reach::default());
        Place::prepare(Some(&path), false).expect("ready").put("kent_a_1", &mut out).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "kent_a_1\n");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert!(Place::prepare(Some(&path), false).is_err(), "it exists");
        Place::prepare(Some(&path), true).expect("ready").put("kent_a_2", &mut out).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "kent_a_2\n");
        assert!(Place::prepare(Some(&dir.path().join("missing/token")), false).is_err());
        drop(Place::prepare(Some(&dir.path().join("other")), false).expect("ready"));
        assert_eq!(
            fs::read_dir(dir.path()).expect("read").count(),
            1,
            "no file is left for a token that was not created"
        );
    }
}
