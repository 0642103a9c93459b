//! Cleans up incomplete files that sled leaves in the directory after a crash, before sled is opened again.
//!
//! sled reports a torn settings file as a damaged database, and ignores a complete snapshot that still has its temporary
//! name.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The prefix of the names of sled's snapshots. The name of the newest snapshot sorts last.
const SNAPSHOT: &str = "snap.";
/// The suffix of the temporary name of a snapshot.
const TEMPORARY: &str = ".generating";
/// The name of sled's settings file.
const SETTINGS: &str = "conf";

/// Completes or removes incomplete files of sled in `dir`.
pub(in crate::sled) fn clean_up(dir: &Path) -> io::Result<()> {
    finish_snapshots(dir)?;
    remove_torn_settings(dir)
}

/// Renames complete snapshots and removes torn ones. sled writes and syncs a snapshot under a temporary name, renames
/// it without a sync of the directory, and then zeroes the segments of the log that the snapshot replaces. So a
/// complete snapshot with a temporary name may be the only one that matches the log.
fn finish_snapshots(dir: &Path) -> io::Result<()> {
    let (mut temporary, mut done) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        match name.strip_suffix(TEMPORARY) {
            _ if !name.starts_with(SNAPSHOT) => {}
            Some(named) => temporary.push(named.to_owned()),
            None => done.push(name),
        }
    }
    let newest = done.into_iter().max();
    for name in temporary {
        let path = dir.join(format!("{name}{TEMPORARY}"));
        if newest.as_ref() < Some(&name) && is_complete_snapshot(&fs::read(&path)?) {
            tracing::info!(path = %path.display(), "renaming a complete snapshot of sled to its final name");
            fs::rename(&path, dir.join(name))?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Removes the torn settings file that remains after a power cut during the creation of the database. sled writes the
/// same settings again.
fn remove_torn_settings(dir: &Path) -> io::Result<()> {
    let path = dir.join(SETTINGS);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if bytes.split_last_chunk().is_none_or(|(text, sum)| !is_sum_of(text, *sum)) {
        tracing::warn!(path = %path.display(), "removing sled's torn settings; sled writes them again");
        fs::remove_file(&path)?;
    }
    Ok(())
}

/// Returns true if a snapshot is complete: its contents are followed by their length (8 bytes) and their checksum.
fn is_complete_snapshot(bytes: &[u8]) -> bool {
    let parts = bytes.split_last_chunk().and_then(|(rest, sum)| Some((rest.split_last_chunk::<8>()?.0, sum)));
    parts.is_some_and(|(contents, sum)| !contents.is_empty() && is_sum_of(contents, *sum))
}

fn is_sum_of(bytes: &[u8], sum: [u8; 4]) -> bool {
    crc32fast::hash(bytes).to_le_bytes() == sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a snapshot in sled's format.
    fn snapshot(contents: &[u8]) -> Vec<u8> {
        let (length, sum) = (contents.len() as u64, crc32fast::hash(contents));
        [contents, &length.to_le_bytes(), &sum.to_le_bytes()].concat()
    }

    #[test]
    fn a_complete_and_newer_snapshot_is_renamed() {
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
            clean_up(dir.path()).unwrap();
            let mut names: Vec<_> = fs::read_dir(dir.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            assert_eq!(names, left, "{there:?}");
        }
    }
}
