//! A witness outside of the store: how often it was started. An old copy of the data directory, put back in its place, knows of
//! fewer starts than the witness, and nothing is issued from it.
//!
//! A copy that was made after the last start is not noticed: the witness sees starts, not grants.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use kent_store::{CommitError, Store, Txn, Version};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tracing::warn;

use crate::{error::StoreFailure, keys};

/// What the witness has seen.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Testimony {
    /// The store's identity.
    store: String,
    /// How often it was started.
    starts: u64,
}

/// Why nothing is issued from the store.
#[derive(Debug, Error)]
pub enum WitnessError {
    /// The store is older than the witness.
    #[error(
        "the store at {store} is an old copy: it was started {starts} times, and {} has seen {seen}. What was issued since the copy \
         was made could be issued again. Put the newer store back, or make one from which nothing is issued twice: kentd \
         restore DIRECTORY|BACKUP --data NEW",
        witness.display()
    )]
    OldCopy {
        /// Where the store is.
        store: String,
        /// The file of the witness.
        witness: PathBuf,
        /// The starts that the store knows of.
        starts: u64,
        /// Those that the witness has seen.
        seen: u64,
    },
    /// The file cannot be read or written.
    #[error("the witness {} cannot be used: {problem} (--witness names another file)", path.display())]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// The store does not say how often it was started.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

/// Where the witness is unless a setting says otherwise: beside the store's directory.
pub(crate) fn beside(data: &Path) -> PathBuf {
    let mut name = data.file_name().unwrap_or_default().to_owned();
    name.push(".witness");
    data.with_file_name(name)
}

/// Compares the store with the witness, counts the start in both, the store first.
pub(crate) async fn attest(store: &dyn Store, place: &str, witness: &Path) -> Result<(), WitnessError> {
    let id = store.store_id().to_string();
    loop {
        match attest_once(store, place, witness, &id).await {
            // Another replica starts at the same time.
            Err(WitnessError::Store(StoreFailure::Commit(CommitError::Conflict { .. }))) => {}
            attested => return attested,
        }
    }
}

async fn attest_once(store: &dyn Store, place: &str, witness: &Path, id: &str) -> Result<(), WitnessError> {
    let unusable = |problem: String| WitnessError::Unusable { path: witness.to_owned(), problem };
    let read = store.get(&keys::BOOTS).await.map_err(StoreFailure::from)?;
    let malformed = || unusable("the store's own count of starts makes no sense".to_owned());
    let (starts, version) = match &read {
        None => (0, Version::ABSENT),
        Some(read) => {
            let octets = read.value.as_slice().try_into().map_err(|_| malformed())?;
            (u64::from_be_bytes(octets), read.version)
        }
    };
    match seen(witness).map_err(|problem| unusable(problem.to_string()))? {
        Some(testimony) if testimony.store == id && testimony.starts > starts => {
            let (store, witness, seen) = (place.to_owned(), witness.to_owned(), testimony.starts);
            return Err(WitnessError::OldCopy { store, witness, starts, seen });
        }
        Some(testimony) if testimony.store != id => {
            warn!(
                before = testimony.store,
                now = id,
                "the witness knew another store here; it knows this one from now on"
            );
        }
        _ => {}
    }
    let starts = starts.saturating_add(1);
    let counted = Txn::new().expect(keys::BOOTS, version).put(keys::BOOTS, starts.to_be_bytes().to_vec());
    store.commit(counted).await.map_err(StoreFailure::from)?;
    write(witness, &Testimony { store: id.to_owned(), starts }).map_err(|problem| unusable(problem.to_string()))
}

fn seen(witness: &Path) -> io::Result<Option<Testimony>> {
    match fs::read_to_string(witness) {
        Ok(text) => toml::from_str(&text).map(Some).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file as a whole, durably.
fn write(witness: &Path, testimony: &Testimony) -> io::Result<()> {
    let text = toml::to_string(testimony).map_err(io::Error::other)?;
    let mut beside = witness.as_os_str().to_owned();
    beside.push(".new");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, witness)?;
    let directory = witness.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
