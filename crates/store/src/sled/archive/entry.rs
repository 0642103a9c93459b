//! Opens a store with its archive: checks that the two belong together, and finds the commits that either of them
//! lacks.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::super::error::ArchiveError;
use super::super::journal::Redo;
use super::super::private;
use super::super::record::Mark;
use super::files::{self, Head, Listing};
use super::read::Chain;
use super::{Archiving, Ending, Generation};
use crate::store::StoreId;

/// What to do with the archive when a store is opened. [`Entry::find`] changes nothing, except that it may create an
/// empty directory.
#[derive(Debug)]
pub(in crate::sled) enum Entry {
    /// No archive.
    None,
    /// Start a new archive.
    Begin(Place, Generation),
    /// Continue the archive.
    Resume(Place, Chain),
    /// End the archive, and record the end in it.
    End(Place, Chain),
    /// End the archive, and record the end in this directory if possible.
    Forget(PathBuf),
}

/// The directory of the store's archive, locked by this process.
#[derive(Debug)]
pub(in crate::sled) struct Place {
    /// The directory given in the settings.
    pub(super) named: PathBuf,
    /// The store's own directory within `named`.
    pub(super) dir: PathBuf,
    pub(super) base_after: u64,
    pub(super) _lock: Lock,
}

/// The lock on the directory. It is released explicitly, like the lock on the store's directory.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // OK because the lock is released when the process ends, at the latest.
        let _ = self.0.unlock();
    }
}

impl Entry {
    /// Finds the archive of a store with this mark and revision. `new_generation` is the generation for a new archive.
    pub(in crate::sled) fn find(
        archiving: &Archiving,
        id: StoreId,
        mark: Option<Mark>,
        new_generation: Generation,
        revision: u64,
    ) -> Result<Self, ArchiveError> {
        match (archiving, mark) {
            (Archiving::None | Archiving::End { .. }, None) | (Archiving::ReadOnly, _) => Ok(Self::None),
            (Archiving::None, Some(mark)) => Err(ArchiveError::NotConfigured { dir: mark.dir.into() }),
            (Archiving::To { dir, base_after } | Archiving::Existing { dir, base_after }, mark) => {
                let named = std::path::absolute(dir).map_err(|error| ArchiveError::io(dir, error))?;
                let store = Seeker { id, mark, new_generation, revision };
                match (archiving, store.find(named, *base_after)?) {
                    (Archiving::Existing { .. }, Self::Begin(..)) => Ok(Self::None),
                    (_, entry) => Ok(entry),
                }
            }
            (Archiving::End { even_if_lost }, Some(mark)) => {
                let named = PathBuf::from(&mark.dir);
                let (begun, dir) = (mark.begun, named.join(id.to_string()));
                let store = Seeker { id, mark: Some(mark), new_generation, revision };
                match store.find(named, u64::MAX) {
                    Ok(Self::Resume(place, chain)) => Ok(Self::End(place, chain)),
                    // The end is already recorded, or the archive was never complete.
                    Ok(_) => Ok(Self::Forget(dir)),
                    Err(error) if !error.may_be_lost() => Err(error),
                    Err(_) if *even_if_lost || !begun => Ok(Self::Forget(dir)),
                    Err(error) => Err(ArchiveError::CannotEnd(Box::new(error))),
                }
            }
        }
    }

    /// Returns the batches of the archive that a store at this revision lacks. `journal` has the batches of the store's
    /// journal.
    pub(in crate::sled) fn missed(&self, revision: u64, journal: &[Redo]) -> Result<Vec<Redo>, ArchiveError> {
        let (Self::Resume(place, chain) | Self::End(place, chain)) = self else { return Ok(Vec::new()) };
        for redo in &chain.redos {
            let ours = journal.iter().find(|ours| ours.first == redo.first);
            if ours.is_some_and(|ours| ours != redo) {
                return Err(ArchiveError::Differs { dir: place.named.clone(), revision: redo.first });
            }
        }
        let missed: Vec<Redo> = chain.redos.iter().filter(|redo| redo.last > revision).cloned().collect();
        if let Some(first) = missed.first() {
            tracing::warn!(
                archive = %place.dir.display(), revision, from = first.first, to = chain.last,
                "the store lacks commits of its archive: replaying them"
            );
        }
        Ok(missed)
    }
}

impl ArchiveError {
    /// Returns true if `--no-archive=lost` can abandon the archive after this error.
    fn may_be_lost(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Damaged { .. } | Self::Record { .. } | Self::Nothing { .. } => true,
            Self::Missing { .. } | Self::NoDirectory { .. } | Self::NotADirectory { .. } => true,
            Self::InUse { .. } | Self::NotConfigured { .. } | Self::CannotEnd(_) => false,
            Self::Unknown { .. } | Self::OldCopy { .. } | Self::Differs { .. } | Self::Copied { .. } => false,
            Self::Restored { .. } | Self::Left { .. } => false,
        }
    }
}

/// A search for the archive of a store.
struct Seeker {
    id: StoreId,
    mark: Option<Mark>,
    new_generation: Generation,
    revision: u64,
}

impl Seeker {
    fn find(self, named: PathBuf, base_after: u64) -> Result<Entry, ArchiveError> {
        let dir = named.join(self.id.to_string());
        // An unmounted disk looks like an empty or missing directory. If the archive exists elsewhere, do not start a
        // new one in such a directory.
        let begins_here = self.mark.as_ref().is_none_or(|mark| !mark.begun && Path::new(&mark.dir) == named);
        if !named.is_dir() {
            return Err(match named.exists() {
                true => ArchiveError::NotADirectory { dir: named },
                false => ArchiveError::NoDirectory { dir: named, is_new: begins_here },
            });
        }
        if Listing::of(&dir)?.bases.is_empty() && !begins_here {
            let before = self.mark.map(|mark| mark.dir.into()).unwrap_or_default();
            return Err(ArchiveError::Missing { dir: named, before });
        }
        create_dir(&dir)?;
        let lock = Lock(files::lock(&dir)?);
        let place = Place { named, dir, base_after, _lock: lock };
        let Some(chain) = Chain::read(&place.dir, Some(self.revision))? else {
            return Ok(Entry::Begin(place, self.new_generation));
        };
        let old_copy = |base| ArchiveError::OldCopy { dir: place.named.clone(), revision: self.revision, base };
        match files::read_ended(&place.dir)?.filter(|(head, _)| head.is_same_archive(&chain.base)) {
            Some((_, Ending::Restored { into, place: made })) => {
                Err(ArchiveError::Restored { dir: place.dir.clone(), into, place: made })
            }
            Some((Head { revision, .. }, Ending::Left)) if self.revision < revision => Err(old_copy(revision)),
            Some((_, Ending::Left)) => Ok(Entry::Begin(place, self.new_generation)),
            None if self.mark.as_ref().is_none_or(|mark| mark.generation != chain.base.generation) => {
                Err(ArchiveError::Unknown { dir: place.named, at: place.dir })
            }
            None if self.revision < chain.base.revision => Err(old_copy(chain.base.revision)),
            None if self.is_left(&place)? => {
                let before = self.mark.map(|mark| mark.dir.into()).unwrap_or_default();
                Err(ArchiveError::Copied { dir: place.named, before })
            }
            None => Ok(Entry::Resume(place, chain)),
        }
    }
}

impl Seeker {
    /// Returns true if the store's archive still exists in a directory other than `place`.
    fn is_left(&self, place: &Place) -> Result<bool, ArchiveError> {
        let Some(mark) = self.mark.as_ref().filter(|mark| Path::new(&mark.dir) != place.named) else {
            return Ok(false);
        };
        let before = Path::new(&mark.dir).join(self.id.to_string());
        // The same directory may have several paths.
        if before.canonicalize().ok() == place.dir.canonicalize().ok() || Listing::of(&before)?.bases.is_empty() {
            return Ok(false);
        }
        Ok(true)
    }
}

/// Durably creates the directory of a store in an existing directory.
fn create_dir(dir: &Path) -> Result<(), ArchiveError> {
    match private::create_subdir(dir) {
        Ok(true) => files::sync_dir(dir.parent().unwrap_or(Path::new("."))),
        Ok(false) => {
            private::tighten(dir);
            Ok(())
        }
        Err(error) => Err(ArchiveError::io(dir, error)),
    }
}
