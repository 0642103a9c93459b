//! Keeps a store's directory private to its owner, because records contain secret keys. Rejects a directory that
//! contains other files.
//!
//! New directories have mode 0700. sled creates its files itself, so their modes depend on the process's umask, which
//! `kentd` sets. If other users can access a directory when it is opened, their permissions are removed.

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use super::clean;
use super::error::OpenError;

/// The mode of a directory that only its owner can use.
const OWNER_ONLY: u32 = 0o700;

/// The permission bits of the group and of all other users.
const OTHERS: u32 = 0o077;

/// The files and directories of a store that may be there without a database, after an interrupted first start or the
/// loss of the database.
const OWN: [&str; 7] = ["lock", "journal", "newest", "conf", "blobs", clean::NAME, IMAGES];

/// The subdirectory for images.
pub(super) const IMAGES: &str = "images";

/// The prefix of the names of sled's snapshots.
const SNAPSHOT: &str = "snap.";

/// The directory that a new file system has at its root.
const LOST_AND_FOUND: &str = "lost+found";

/// Durably creates a directory and its missing parents. Rejects a directory that is not empty and contains no store.
pub(super) fn create_dir(dir: &Path) -> Result<(), OpenError> {
    if dir.exists() && !dir.is_dir() {
        return Err(OpenError::NotADirectory { dir: dir.to_owned() });
    }
    let missing: Vec<&Path> = dir.ancestors().take_while(|path| !path.exists()).collect();
    if missing.is_empty() {
        check_contents(dir)?;
    }
    DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(dir).map_err(|source| OpenError::io(dir, source))?;
    for path in &missing {
        sync_parent(path)?;
    }
    if missing.is_empty() {
        // An earlier start may have created the directory and been killed before this sync. If another user created it,
        // we may lack the permission to open its parent, so errors are ignored.
        let _ = sync_parent(dir);
    }
    Ok(())
}

/// Creates a directory in an existing one. Returns false if it already exists.
pub(super) fn create_subdir(dir: &Path) -> io::Result<bool> {
    match DirBuilder::new().mode(OWNER_ONLY).create(dir) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

fn check_contents(dir: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::io(dir, source);
    if dir.join("db").exists() {
        return Ok(());
    }
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let found = name.to_string_lossy();
        let is_own = OWN.contains(&&*found) || found.starts_with(SNAPSHOT) || found == LOST_AND_FOUND;
        if !is_own {
            return Err(OpenError::NotAStore { dir: dir.to_owned(), found: found.into_owned() });
        }
    }
    Ok(())
}

/// Removes the permissions of the group and all other users from the directory and its files, if they can use the
/// directory.
pub(super) fn tighten(dir: &Path) {
    let Some(mode) = fs::metadata(dir).ok().and_then(|dir| open_mode(&dir)) else { return };
    if let Err(error) = restrict(dir, mode) {
        tracing::warn!(
            dir = %dir.display(), %error,
            "other users may be able to read the store, which contains keys, and its permissions cannot be changed: run chmod -R go= DIR"
        );
        return;
    }
    tracing::info!(dir = %dir.display(), "other users could read the store, which contains keys: removed their permissions");
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries {
        if let Some(mode) =
            entry.metadata().ok().filter(|entry| !entry.is_symlink()).and_then(|entry| open_mode(&entry))
        {
            // OK because only the owner can still enter the directory.
            let _ = restrict(&entry.path(), mode);
        }
    }
}

/// Returns the mode, if the group or other users have any permission.
fn open_mode(metadata: &Metadata) -> Option<u32> {
    Some(metadata.permissions().mode()).filter(|mode| mode & OTHERS != 0)
}

fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS))
}

fn sync_parent(path: &Path) -> Result<(), OpenError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(|source| OpenError::io(parent, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_directory_belongs_to_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let (outer, inner) = (dir.path().join("a"), dir.path().join("a/b"));
        create_dir(&inner).unwrap();
        assert_eq!((mode(&outer), mode(&inner)), (0o700, 0o700));
        assert!(create_subdir(&inner.join("c")).unwrap() && !create_subdir(&inner.join("c")).unwrap());
        assert_eq!(mode(&inner.join("c")), 0o700);
    }

    #[test]
    fn an_open_directory_is_tightened() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("journal");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o664)).unwrap();
        for (before, expected) in [(0o700, (0o700, 0o664)), (0o750, (0o700, 0o600)), (0o701, (0o700, 0o600))] {
            fs::set_permissions(dir.path(), Permissions::from_mode(before)).unwrap();
            tighten(dir.path());
            assert_eq!((mode(dir.path()), mode(&file)), expected, "{before:o}");
        }
    }

    #[test]
    fn a_directory_with_something_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for name in OWN.iter().chain(&["snap.0001", "snap.0002.generating", LOST_AND_FOUND]) {
            fs::write(dir.path().join(name), "").unwrap();
            create_dir(dir.path()).unwrap();
        }
        fs::write(dir.path().join("passwd"), "").unwrap();
        let refused = create_dir(dir.path()).unwrap_err();
        assert!(matches!(&refused, OpenError::NotAStore { found, .. } if found == "passwd"), "{refused}");
        // A directory with a store may also contain other files.
        fs::write(dir.path().join("db"), "").unwrap();
        create_dir(dir.path()).unwrap();
    }
}
