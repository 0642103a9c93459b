//! The archive: a second place, on another disk or a share, that has every commit before it is acknowledged.
//!
//! A store that is archived in DIR has a directory of its own there, named after its identity:
//!
//! | file | what |
//! |---|---|
//! | `lock` | locked by the daemon that writes, or by a restore |
//! | `base.R` | all records at revision R |
//! | `commits.F` | a *segment*: the journal's frames from revision F on, in a file that has its full length from the beginning |
//! | `newest` | the newest revision that was acknowledged, as beside the store |
//! | `ended` | why nothing more is written: the store is archived no more, or was restored from here |
//!
//! **One rule.** A commit is answered when it is durable in the journal *and* in the archive; the two syncs run side by side. Until
//! both are, it is not seen, so a crash or a failure may leave it in either of them, in both or in neither. Opening the store
//! makes them equal again before anything is answered: a commit that only the archive has is taken into the store, and one that
//! only the store has goes to the archive. No revision is ever used again for something else.
//!
//! The store remembers that it is archived ([`Mark`](super::record::Mark)), and under which *generation*, random bits that every file of the archive
//! names. So a copy of the store that does not know the archive, or an archive that does not know the store, is noticed.
//!
//! A new base is written in the background ([`base`]) when the commits since the last one are many; only when it is durable, what is
//! older is removed.

mod appender;
mod base;
mod entry;
mod files;
mod read;
mod writer;

use std::path::PathBuf;

pub(super) use self::appender::{Appender, Ship, WriteAndSync};
pub(super) use self::base::BaseJob;
pub(super) use self::entry::Entry;
pub use self::read::{ArchiveLock, Archived};
pub(super) use self::writer::{Archive, begins, end, try_end};
use crate::store::StoreId;

/// Whether a store is archived, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Archiving {
    /// It is not. One that was before is refused.
    #[default]
    None,
    /// Every commit goes to this directory, which has to exist.
    To {
        /// The directory.
        dir: PathBuf,
        /// How many bytes of commits there are before all records are written anew. Twice the size of the records, if that is more.
        base_after: u64,
    },
    /// It is archived no more, and its archive is told.
    End {
        /// Goes on even if the archive cannot be told, or is damaged.
        even_if_lost: bool,
    },
    /// It is opened to be read only, whatever its archive has.
    ReadOnly,
}

/// What is said in an archive to which nothing more is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The store went on without it.
    Left,
    /// It was restored, and goes on as another store.
    Restored {
        /// The identity of that store.
        into: StoreId,
        /// Where it was made, for people.
        place: String,
    },
}

/// Random bits that tell the archive of a store from another one of the same store.
pub(super) type Generation = [u8; 16];

#[cfg(test)]
mod tests;
