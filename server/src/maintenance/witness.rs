//! A witness outside of the store: how often each store was started. An old copy of a store, put back in its place, knows of
//! fewer starts than the witness, and nothing is issued from it.
//!
//! A witness is a directory with one small file a store, named after the store's identity. Daemons on different stores may share
//! it, and files stay for ever. A copy that was made after the last start is not noticed: the witness sees starts, not grants.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use kent_store::{CommitError, Store, StoreId, Txn, Version};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tracing::{info, warn};

use crate::records::{failure::StoreFailure, keys};

/// The directory of a witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Witness {
    dir: PathBuf,
}

/// What the witness has seen of one store.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Testimony {
    /// Where the store was, for people.
    place: String,
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
    /// The directory or its file cannot be read or written.
    #[error("the witness {} cannot be used: {problem} (--witness names another directory)", path.display())]
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

/// The variables that say where programs keep their state.
#[derive(Clone, Debug, Default)]
struct StateDirs {
    /// systemd's `$STATE_DIRECTORY`: one or more, separated by colons.
    of_service: Option<OsString>,
    /// `$XDG_STATE_HOME`.
    of_user: Option<PathBuf>,
    home: Option<PathBuf>,
}

impl StateDirs {
    fn of_process() -> Self {
        let of_user = env::var_os("XDG_STATE_HOME").map(PathBuf::from);
        Self { of_service: env::var_os("STATE_DIRECTORY"), of_user, home: env::home_dir() }
    }

    /// Where a witness may be, the best place first. A relative path says nothing, as the XDG specification has it.
    fn candidates(&self) -> Vec<PathBuf> {
        let of_service = self.of_service.iter().flat_map(|dirs| env::split_paths(dirs));
        let of_user = self.of_user.clone().filter(|dir| dir.is_absolute());
        let of_user = of_user.or_else(|| self.home.as_ref().map(|home| home.join(".local/state")));
        let candidates = of_service.chain(of_user.map(|dir| dir.join("kent"))).filter(|dir| dir.is_absolute());
        candidates.map(|dir| dir.join("witness")).collect()
    }
}

impl Witness {
    /// The witness in the directory that a setting names, or else that of a store in a directory. One on etcd has none by default:
    /// a replica keeps nothing on its disk.
    pub(crate) fn of(named: Option<&Path>, data: Option<&Path>) -> Option<Self> {
        let named = named.map(|dir| Self { dir: dir.to_owned() });
        named.or_else(|| data.map(Self::beside))
    }

    /// The witness of the store in `data` where no setting names one: in a directory for state, on another device than the data
    /// if there is one, since a snapshot of the data's device would take it along. Says so if there is none.
    fn beside(data: &Path) -> Self {
        let data = fs::canonicalize(data).unwrap_or_else(|_| data.to_owned());
        let candidates: Vec<_> = StateDirs::of_process().candidates().iter().map(|dir| resolved(dir)).collect();
        let (dir, is_apart) = choose(&data, &candidates, device);
        if !is_apart {
            info!(
                witness = %dir.display(),
                "the witness is on the same disk as the data: if both are set back to an old state together, it is not noticed \
                 (--witness names a directory elsewhere)"
            );
        }
        Self { dir }
    }

    fn file(&self, id: StoreId) -> PathBuf {
        self.dir.join(format!("{id}.toml"))
    }

    /// Compares the store with what was seen of it, and counts the start in both, the store first. `place` is where the store is.
    pub(crate) async fn attest(&self, store: &dyn Store, place: &str) -> Result<(), WitnessError> {
        loop {
            match self.attest_once(store, place).await {
                // Another replica starts at the same time.
                Err(WitnessError::Store(StoreFailure::Commit(CommitError::Conflict { .. }))) => {}
                attested => return attested,
            }
        }
    }

    async fn attest_once(&self, store: &dyn Store, place: &str) -> Result<(), WitnessError> {
        let file = self.file(store.store_id());
        let unusable = |problem: String| WitnessError::Unusable { path: file.clone(), problem };
        // Before the store: what another replica counts in between is in the store first.
        let seen = read(&file).map_err(|problem| unusable(problem.to_string()))?.map(|testimony| testimony.starts);
        let counted = store.get(&keys::BOOTS).await.map_err(StoreFailure::from)?;
        let (starts, version) = match &counted {
            None => (0, Version::ABSENT),
            Some(counted) => {
                let malformed = |_| unusable("the store's own count of starts makes no sense".to_owned());
                let bytes = counted.value.as_slice().try_into().map_err(malformed)?;
                (u64::from_be_bytes(bytes), counted.version)
            }
        };
        match seen {
            Some(seen) if seen > starts => {
                return Err(WitnessError::OldCopy { store: place.to_owned(), witness: file, starts, seen });
            }
            None if starts > 0 => warn!(
                starts,
                witness = %file.display(),
                "the witness has not seen this store before: whether it is an old copy cannot be told this time"
            ),
            _ => {}
        }
        let starts = starts.saturating_add(1);
        let count = Txn::new().expect(keys::BOOTS, version).put(keys::BOOTS, starts.to_be_bytes().to_vec());
        store.commit(count).await.map_err(StoreFailure::from)?;
        let testimony = Testimony { place: place.to_owned(), starts };
        self.write(&file, &testimony).map_err(|problem| unusable(problem.to_string()))
    }

    /// Replaces the file as a whole, durably, unless it has seen more already.
    fn write(&self, file: &Path, testimony: &Testimony) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        // Held until the end: replicas on one machine may start at the same time.
        let lock = File::create(self.dir.join("lock"))?;
        lock.lock()?;
        if read(file)?.is_some_and(|seen| seen.starts >= testimony.starts) {
            return Ok(());
        }
        let beside = file.with_extension("new");
        let mut new = File::create(&beside)?;
        new.write_all(toml::to_string(testimony).map_err(io::Error::other)?.as_bytes())?;
        new.sync_all()?;
        fs::rename(&beside, file)?;
        File::open(&self.dir)?.sync_all()
    }
}

fn read(file: &Path) -> io::Result<Option<Testimony>> {
    match fs::read_to_string(file) {
        Ok(text) => toml::from_str(&text).map(Some).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The first candidate that is on another device than the data; otherwise the first that is outside of the data; otherwise a
/// directory beside it. And whether it is on another device.
fn choose(data: &Path, candidates: &[PathBuf], device: impl Fn(&Path) -> Option<u64>) -> (PathBuf, bool) {
    let outside: Vec<&PathBuf> = candidates.iter().filter(|dir| !dir.starts_with(data)).collect();
    let of_data = device(data);
    let is_apart = |dir: &Path| matches!((of_data, device(dir)), (Some(data), Some(dir)) if data != dir);
    if let Some(dir) = outside.iter().find(|dir| is_apart(dir)) {
        return (dir.to_path_buf(), true);
    }
    let beside = || {
        let mut name = data.file_name().unwrap_or_default().to_owned();
        name.push(".witness");
        data.with_file_name(name)
    };
    (outside.first().map_or_else(beside, |dir| dir.to_path_buf()), false)
}

/// A path without symbolic links, as far as it is there.
fn resolved(dir: &Path) -> PathBuf {
    let there = dir.ancestors().find_map(|there| Some((fs::canonicalize(there).ok()?, dir.strip_prefix(there).ok()?)));
    there.map_or_else(|| dir.to_owned(), |(there, rest)| there.join(rest))
}

/// The device that a directory is on, or would be on.
fn device(dir: &Path) -> Option<u64> {
    dir.ancestors().find_map(|dir| fs::metadata(dir).ok()).map(|there| there.dev())
}

#[cfg(test)]
mod tests {
    use kent_store::{Fault, MemoryStore, Operation};

    use super::*;

    const ID: StoreId = StoreId::new([1; 16]);

    fn at(dir: PathBuf) -> Witness {
        Witness { dir }
    }

    /// How often the store was started, as the witness has it.
    fn seen(witness: &Witness, id: StoreId) -> Option<u64> {
        read(&witness.file(id)).expect("read").map(|testimony| testimony.starts)
    }

    async fn counted(store: &MemoryStore) -> u64 {
        let counted = store.get(&keys::BOOTS).await.expect("read").expect("counted");
        u64::from_be_bytes(counted.value.try_into().expect("eight bytes"))
    }

    #[tokio::test]
    async fn ok_every_store_has_a_testimony_of_its_own_which_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let witness = at(dir.path().join("made/when/needed"));
        let (one, other) = (MemoryStore::new(ID), MemoryStore::new(StoreId::new([2; 16])));
        let copy = MemoryStore::new(ID);
        copy.commit(Txn::new().put(keys::BOOTS, 1_u64.to_be_bytes())).await.expect("committed");
        for _ in 0..2 {
            witness.attest(&one, "one").await.expect("the newest");
        }
        witness.attest(&other, "other").await.expect("unknown before");
        assert_eq!((seen(&witness, ID), seen(&witness, other.store_id())), (Some(2), Some(1)));
        // The other store did not make the witness forget this one.
        let refused = witness.attest(&copy, "one").await.expect_err("an old copy");
        assert!(matches!(refused, WitnessError::OldCopy { starts: 1, seen: 2, .. }), "{refused}");
        assert_eq!(counted(&copy).await, 1, "a start that is refused is not counted");
        witness.attest(&one, "one").await.expect("the newest");
        assert_eq!((seen(&witness, ID), counted(&one).await), (Some(3), 3));
    }

    #[tokio::test]
    async fn ok_replicas_that_start_at_the_same_time_share_a_testimony() {
        let dir = tempfile::tempdir().expect("a directory");
        let witness = at(dir.path().to_owned());
        let store = MemoryStore::new(ID);
        witness.attest(&store, "one").await.expect("the first");
        // Another replica has counted its start, and the witness sees it, after we have looked there.
        let (others, mut is_first) = (witness.clone(), true);
        store.plan(move |operation| {
            if matches!(operation, Operation::Get(key) if **key == keys::BOOTS) && std::mem::take(&mut is_first) {
                let testimony = Testimony { place: "one".to_owned(), starts: 5 };
                others.write(&others.file(ID), &testimony).expect("written");
            }
            Fault::None
        });
        witness.attest(&store, "one").await.expect("no old copy");
        assert_eq!(seen(&witness, ID), Some(5), "it never goes back");
    }

    #[tokio::test]
    async fn ok_replicas_that_count_at_the_same_time_are_all_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let witness = at(dir.path().to_owned());
        let store = MemoryStore::new(ID);
        // Each operation takes place one poll later, so both have read before either commits.
        store.plan(|_| Fault::DelayBefore(Box::pin(tokio::task::yield_now())));
        let (one, other) = tokio::join!(witness.attest(&store, "one"), witness.attest(&store, "one"));
        one.expect("counted");
        other.expect("counted");
        assert_eq!((seen(&witness, ID), counted(&store).await), (Some(2), 2));
    }

    #[tokio::test]
    async fn ok_a_start_that_the_store_has_not_counted_was_not_seen() {
        let dir = tempfile::tempdir().expect("a directory");
        let witness = at(dir.path().to_owned());
        let store = MemoryStore::new(ID);
        witness.attest(&store, "one").await.expect("the first");
        store.plan(|operation| match operation {
            Operation::Commit(_) => Fault::Unavailable,
            _ => Fault::None,
        });
        witness.attest(&store, "one").await.expect_err("the store does not answer");
        assert_eq!(seen(&witness, ID), Some(1));
        store.plan(|_| Fault::None);
        witness.attest(&store, "one").await.expect("it is not an old copy");
    }

    #[tokio::test]
    async fn err_a_testimony_that_makes_no_sense_is_not_taken_for_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let witness = at(dir.path().to_owned());
        fs::write(witness.file(ID), "starts = many").expect("written");
        let store = MemoryStore::new(ID);
        let refused = witness.attest(&store, "one").await.expect_err("it may have seen more");
        assert!(matches!(&refused, WitnessError::Unusable { .. }), "{refused}");
        assert!(store.get(&keys::BOOTS).await.expect("read").is_none());
    }

    #[test]
    fn ok_a_testimony_never_goes_back_when_many_write_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let witness = at(dir.path().to_owned());
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let witness = &witness;
                scope.spawn(move || {
                    for round in 0..20 {
                        let testimony = Testimony { place: "one".to_owned(), starts: round * 8 + thread };
                        witness.write(&witness.file(ID), &testimony).expect("written");
                    }
                });
            }
        });
        assert_eq!(seen(&witness, ID), Some(159));
    }

    #[tokio::test]
    async fn err_a_witness_that_cannot_be_used_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, "no directory").expect("written");
        let refused = at(file).attest(&MemoryStore::new(ID), "one").await.expect_err("no directory");
        assert!(matches!(&refused, WitnessError::Unusable { .. }), "{refused}");
        assert!(refused.to_string().contains("--witness"), "{refused}");
    }

    #[track_caller]
    fn check_place(dirs: &StateDirs, expected: (&str, bool)) {
        // Everything below /mnt is another disk.
        let device = |dir: &Path| Some(u64::from(dir.starts_with("/mnt")));
        let (dir, is_apart) = choose(Path::new("/var/lib/kent"), &dirs.candidates(), device);
        assert_eq!((dir.to_str().expect("UTF-8"), is_apart), expected, "{dirs:?}");
    }

    #[test]
    fn ok_the_place_is_on_another_disk_if_there_is_one_and_never_inside_the_data() {
        let of = |service: &str, user: &str, home: &str| StateDirs {
            of_service: (!service.is_empty()).then(|| service.into()),
            of_user: (!user.is_empty()).then(|| user.into()),
            home: (!home.is_empty()).then(|| home.into()),
        };
        check_place(&of("", "", "/home/me"), ("/home/me/.local/state/kent/witness", false));
        check_place(&of("", "/state", "/home/me"), ("/state/kent/witness", false));
        check_place(&of("", "not/absolute", "/home/me"), ("/home/me/.local/state/kent/witness", false));
        check_place(&of("", "/state", "/mnt/home"), ("/state/kent/witness", false));
        check_place(&of("", "", "/mnt/home"), ("/mnt/home/.local/state/kent/witness", true));
        check_place(&of("/var/lib/other", "/mnt/state", ""), ("/mnt/state/kent/witness", true));
        check_place(&of("/var/lib/other:/mnt/other", "", ""), ("/mnt/other/witness", true));
        check_place(&of("/var/lib/other", "", "/home/me"), ("/var/lib/other/witness", false));
        check_place(&of("/var/lib/kent", "", "/home/me"), ("/home/me/.local/state/kent/witness", false));
        check_place(&of("/var/lib/kent", "", ""), ("/var/lib/kent.witness", false));
        check_place(&of("", "", ""), ("/var/lib/kent.witness", false));
    }
}
