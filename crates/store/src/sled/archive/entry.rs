//! How a store and its archive find each other when the store is opened: whether they are each other's, and what either lacks.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::super::error::ArchiveError;
use super::super::journal::Redo;
use super::super::record::Mark;
use super::files::{self, Head, Listing};
use super::read::Chain;
use super::{Archiving, Ending, Generation};
use crate::store::StoreId;

/// What is to be done with an archive when the store is opened. Nothing was changed so far but an empty directory.
#[derive(Debug)]
pub(in crate::sled) enum Entry {
    /// There is none.
    None,
    /// It begins.
    Begin(Place, Generation),
    /// It goes on.
    GoOn(Place, Chain),
    /// It ends, and is told.
    End(Place, Chain),
    /// It ends, and cannot be told more than this directory takes.
    Forget(PathBuf),
}

/// The directory of the store's archive, held by this process.
#[derive(Debug)]
pub(in crate::sled) struct Place {
    /// The directory that was named.
    pub(super) named: PathBuf,
    /// The one in it that is the store's.
    pub(super) dir: PathBuf,
    pub(super) base_after: u64,
    pub(super) _lock: Lock,
}

/// The lock, which is let go of by word: see the store's own.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // OK because it ends with the process in any case.
        let _ = self.0.unlock();
    }
}

impl Entry {
    /// For a store at this revision, with this mark. `drawn` is the generation of an archive that begins.
    pub(in crate::sled) fn find(
        archiving: &Archiving,
        id: StoreId,
        mark: Option<Mark>,
        drawn: Generation,
        revision: u64,
    ) -> Result<Self, ArchiveError> {
        match (archiving, mark) {
            (Archiving::None | Archiving::End { .. }, None) | (Archiving::ReadOnly, _) => Ok(Self::None),
            (Archiving::None, Some(mark)) => Err(ArchiveError::NotAsked { dir: mark.dir.into() }),
            (Archiving::To { dir, base_after }, mark) => {
                let named = std::path::absolute(dir).map_err(|error| ArchiveError::io(dir, error))?;
                let store = Sought { id, mark, drawn, revision };
                store.find(named, *base_after)
            }
            (Archiving::End { even_if_lost }, Some(mark)) => {
                let named = PathBuf::from(&mark.dir);
                let (begun, dir) = (mark.begun, named.join(id.to_string()));
                let store = Sought { id, mark: Some(mark), drawn, revision };
                match store.find(named, u64::MAX) {
                    Ok(Self::GoOn(place, chain)) => Ok(Self::End(place, chain)),
                    // It was told before, or there was never anything in it.
                    Ok(_) => Ok(Self::Forget(dir)),
                    Err(error) if !error.may_be_lost() => Err(error),
                    Err(_) if *even_if_lost || !begun => Ok(Self::Forget(dir)),
                    Err(error) => Err(ArchiveError::Untold(Box::new(error))),
                }
            }
        }
    }

    /// Batches that the archive has and the store, at this revision, has not. `journal` is what the store's journal has.
    pub(in crate::sled) fn missed(&self, revision: u64, journal: &[Redo]) -> Result<Vec<Redo>, ArchiveError> {
        let (Self::GoOn(place, chain) | Self::End(place, chain)) = self else { return Ok(Vec::new()) };
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
                "the archive has commits that the store has not: they are taken into the store"
            );
        }
        Ok(missed)
    }
}

impl ArchiveError {
    /// Whether the archive is of no more use to its store.
    fn may_be_lost(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Damaged { .. } | Self::Record { .. } | Self::Nothing { .. } => true,
            Self::Missing { .. } => true,
            Self::InUse { .. } | Self::NotAsked { .. } | Self::Untold(_) => false,
            Self::Unknown { .. } | Self::OldCopy { .. } | Self::Differs { .. } => false,
            Self::Restored { .. } | Self::Left { .. } => false,
        }
    }
}

/// A store that looks for its archive.
struct Sought {
    id: StoreId,
    mark: Option<Mark>,
    drawn: Generation,
    revision: u64,
}

impl Sought {
    fn find(self, named: PathBuf, base_after: u64) -> Result<Entry, ArchiveError> {
        let dir = named.join(self.id.to_string());
        // A directory that is not mounted is empty, or not there: what was begun elsewhere does not begin there anew.
        let begins_here = self.mark.as_ref().is_none_or(|mark| !mark.begun && Path::new(&mark.dir) == named);
        if !named.is_dir() {
            return Err(ArchiveError::io(&named, ErrorKind::NotFound.into()));
        }
        if Listing::of(&dir)?.bases.is_empty() && !begins_here {
            let before = self.mark.map(|mark| mark.dir.into()).unwrap_or_default();
            return Err(ArchiveError::Missing { dir: named, before });
        }
        create_dir(&dir)?;
        let lock = Lock(files::lock(&dir)?);
        let place = Place { named, dir, base_after, _lock: lock };
        let Some(chain) = Chain::read(&place.dir, Some(self.revision))? else {
            return Ok(Entry::Begin(place, self.drawn));
        };
        let old_copy = |base| ArchiveError::OldCopy { dir: place.named.clone(), revision: self.revision, base };
        match files::read_ended(&place.dir)?.filter(|(head, _)| head.is_beside(&chain.base)) {
            Some((_, Ending::Restored { into, place: made })) => {
                Err(ArchiveError::Restored { dir: place.dir.clone(), into, place: made })
            }
            Some((Head { revision, .. }, Ending::Left)) if self.revision < revision => Err(old_copy(revision)),
            Some((_, Ending::Left)) => Ok(Entry::Begin(place, self.drawn)),
            None if self.mark.is_none_or(|mark| mark.generation != chain.base.generation) => {
                Err(ArchiveError::Unknown { dir: place.named })
            }
            None if self.revision < chain.base.revision => Err(old_copy(chain.base.revision)),
            None => Ok(Entry::GoOn(place, chain)),
        }
    }
}

/// Creates the directory of a store, durably, in one that is there.
fn create_dir(dir: &Path) -> Result<(), ArchiveError> {
    match fs::create_dir(dir) {
        Ok(()) => files::sync_dir(dir.parent().unwrap_or(Path::new("."))),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(ArchiveError::io(dir, error)),
    }
}
