//! What sled leaves in the directory when it ends in the middle of something, made good before it is opened again.
//!
//! sled takes a small file that is torn for a damaged database, and does not look for one that has not got its name yet.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// How sled's snapshots are called, the newest last in order of names, and what is added while one is written.
const SNAPSHOT: &str = "snap.";
const BEGUN: &str = ".generating";
/// sled's file of settings.
const SETTINGS: &str = "conf";

/// Finishes or removes what sled had begun in `dir`.
pub(in crate::sled) fn tidy(dir: &Path) -> io::Result<()> {
    finish_snapshots(dir)?;
    remove_torn_settings(dir)
}

/// sled writes and syncs a snapshot under a name of its own, gives it another, which is not synced, and blanks the segments of the
/// log that are of no use with it: a snapshot that is whole may be the only one that fits the log. One that is torn, as on a disk
/// that was full, is removed.
fn finish_snapshots(dir: &Path) -> io::Result<()> {
    let (mut begun, mut done) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        match name.strip_suffix(BEGUN) {
            _ if !name.starts_with(SNAPSHOT) => {}
            Some(named) => begun.push(named.to_owned()),
            None => done.push(name),
        }
    }
    let newest = done.into_iter().max();
    for name in begun {
        let path = dir.join(format!("{name}{BEGUN}"));
        if newest.as_ref() < Some(&name) && is_whole_snapshot(&fs::read(&path)?) {
            tracing::info!(path = %path.display(), "sled's snapshot is given the name that it should have");
            fs::rename(&path, dir.join(name))?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Torn settings, as after a power cut when the database was made, are removed: sled writes the same again, since ours are always
/// the same.
fn remove_torn_settings(dir: &Path) -> io::Result<()> {
    let path = dir.join(SETTINGS);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if bytes.split_last_chunk().is_none_or(|(text, sum)| !is_sum_of(text, *sum)) {
        tracing::warn!(path = %path.display(), "sled's settings are torn; they are written again");
        fs::remove_file(&path)?;
    }
    Ok(())
}

/// Whether a snapshot is there to its end: behind the contents are their length, eight bytes, and their checksum.
fn is_whole_snapshot(bytes: &[u8]) -> bool {
    let parts = bytes.split_last_chunk().and_then(|(rest, sum)| Some((rest.split_last_chunk::<8>()?.0, sum)));
    parts.is_some_and(|(contents, sum)| !contents.is_empty() && is_sum_of(contents, *sum))
}

fn is_sum_of(bytes: &[u8], sum: [u8; 4]) -> bool {
    crc32fast::hash(bytes).to_le_bytes() == sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A snapshot as sled writes it.
    fn snapshot(contents: &[u8]) -> Vec<u8> {
        let (length, sum) = (contents.len() as u64, crc32fast::hash(contents));
        [contents, &length.to_le_bytes(), &sum.to_le_bytes()].concat()
    }

    #[test]
    fn a_snapshot_that_is_whole_and_newer_gets_its_name() {
        let (whole, torn) = (snapshot(b"contents"), snapshot(b"contents")[..15].to_vec());
        for (there, left) in [
            (vec![("snap.02.generating", &whole)], vec!["snap.02"]),
            (vec![("snap.01", &whole), ("snap.02.generating", &whole)], vec!["snap.01", "snap.02"]),
            (vec![("snap.02", &whole), ("snap.01.generating", &whole)], vec!["snap.02"]),
            (vec![("snap.02", &whole), ("snap.02.generating", &whole)], vec!["snap.02"]),
            (vec![("snap.01", &whole), ("snap.02.generating", &torn)], vec!["snap.01"]),
            (vec![("snap.01.generating", &whole), ("snap.02.generating", &whole)], vec!["snap.01", "snap.02"]),
            (vec![("db", &torn), ("other.generating", &torn)], vec!["db", "other.generating"]),
            (vec![("snap.01.generating", &Vec::new())], vec![]),
        ] {
            let dir = tempfile::tempdir().unwrap();
            there.iter().for_each(|(name, bytes)| fs::write(dir.path().join(name), bytes).unwrap());
            tidy(dir.path()).unwrap();
            let mut names: Vec<_> = fs::read_dir(dir.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            assert_eq!(names, left, "{there:?}");
        }
    }
}
