//! The witness: a record, outside the store, of how many times each store was started. If a store counts fewer starts
//! than its witness, the store is an old copy, and the daemon refuses to issue from it.
//!
//! A witness is a directory with one small file for each store, named after the store's identity. Daemons on different
//! stores may share a witness, and files are never removed. A witness does not detect a copy that was made after the
//! last start, because it counts starts and not grants.
//!
//! While a daemon serves an embedded store, it locks a file in the witness ([`Claim`]), so that no other process can
//! serve a copy of the store at the same time.
//!
//! The default directory depends on the environment of the process, so it may differ between a service and a shell. The
//! store therefore records the directories of its witnesses, and a start reads all of them.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    iter,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{self, Path, PathBuf},
    process,
    time::Duration,
};

use kent_engine::records::{failure::StoreFailure, keys};
use kent_store::{CommitError, Key, Store, StoreId, Txn, Version};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::time;
use tracing::{info, warn};

/// The directory of a witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Witness {
    dir: PathBuf,
}

/// The witness's record of one store.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct StartRecord {
    /// The location of the store, for messages.
    place: String,
    /// The number of times that the store was started.
    starts: u64,
    /// The locations where the store was started before, the latest first. A new store at one of these locations may
    /// replace this store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<String>,
}

impl StartRecord {
    /// Returns this record as the successor of an older one.
    fn after(&self, before: Option<Self>) -> Self {
        let places = before.into_iter().flat_map(|before| iter::once(before.place).chain(before.earlier));
        let mut earlier: Vec<String> = Vec::new();
        for place in places {
            if place != self.place && !earlier.contains(&place) && earlier.len() < PLACES_MAX {
                earlier.push(place);
            }
        }
        Self { earlier, ..self.clone() }
    }

    fn was_at(&self, place: &str) -> bool {
        self.place == place || self.earlier.iter().any(|earlier| earlier == place)
    }
}

/// The maximum number of earlier locations that a record keeps.
const PLACES_MAX: usize = 16;

/// Why the witness prevents a start.
#[derive(Debug, Error)]
pub enum WitnessError {
    /// The store has counted fewer starts than the witness.
    #[error(
        "the store at {store} is an old copy: its start count is {starts}, but the witness {} has counted {seen}. Identifiers issued \
         since the copy was made could be issued again. Put the newer store back. If it was moved to etcd (kent migrate), start replicas \
         there. Only if no newer store is in use any more, make a new store that skips them: {}",
        witness.display(),
        remedy(store)
    )]
    OldCopy {
        /// The location of the store.
        store: String,
        /// The file of the witness.
        witness: PathBuf,
        /// The number of starts that the store has counted.
        starts: u64,
        /// The number of starts that the witness has seen.
        seen: u64,
    },
    /// The store is new, but another store was at the same location before.
    #[error(
        "the store at {store} is empty, but the store {before} was there before, with a start count of {starts}. If its disk is not \
         mounted, mount it. A new store may issue the same numbers again; to create one anyway: kentd {} {store} --new-store",
        if store.contains("://") { "--store" } else { "--data" }
    )]
    StoreGone {
        /// The location.
        store: String,
        /// The identity of the earlier store.
        before: String,
        /// The number of times that the earlier store was started.
        starts: u64,
    },
    /// Another process serves a store with the same identity, so one of the two is a copy.
    #[error(
        "the store at {store} is a copy of one that another process serves ({other}): both would issue the same identifiers. Stop that \
         process, or make a new store that skips them: {}",
        remedy(store)
    )]
    InUse {
        /// The location of the store.
        store: String,
        /// The other process and its store.
        other: String,
    },
    /// The directory or its file cannot be read or written.
    #[error(
        "the witness {} cannot be used: {problem}; {}choose another directory with --witness DIR",
        path.display(),
        if problem == DAMAGED { "only if the store is certainly the newest one, " } else { "" }
    )]
    Unusable {
        /// The path.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The store's count of starts cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

/// Returns the command that creates a new store from the old copy at this location.
fn remedy(store: &str) -> String {
    match store.contains("://") {
        // A restore cannot read a store on etcd.
        true => "kentd restore kent.backup --data /var/lib/kent-new --dry-run, from the newest backup".to_owned(),
        false => format!("kentd restore {store} --data {}-new --dry-run", store.trim_end_matches('/')),
    }
}

/// The environment variables that name directories for state.
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

    /// The possible directories of a witness, best first. Relative paths are ignored, as in the XDG specification.
    fn candidates(&self) -> Vec<PathBuf> {
        let of_service = self.of_service.iter().flat_map(|dirs| env::split_paths(dirs));
        let of_user = self.of_user.clone().filter(|dir| dir.is_absolute());
        let of_user = of_user.or_else(|| self.home.as_ref().map(|home| home.join(".local/state")));
        let candidates = of_service.chain(of_user.map(|dir| dir.join("kent"))).filter(|dir| dir.is_absolute());
        candidates.map(|dir| dir.join("witness")).collect()
    }
}

impl Witness {
    /// Returns the witness in the directory that a setting names, or else the default witness of a store in a
    /// directory. A store on etcd has no default witness, because a replica stores nothing on its disk.
    pub(crate) fn of(named: Option<&Path>, data: Option<&Path>) -> Option<Self> {
        let named = named.map(|dir| Self { dir: path::absolute(dir).unwrap_or_else(|_| dir.to_owned()) });
        named.or_else(|| data.map(Self::default_for))
    }

    /// Returns the default witness of the store in `data`. It is in a state directory, if possible on another device,
    /// because a snapshot of the data's device would include the witness. Logs a message if the witness is on the same
    /// device.
    fn default_for(data: &Path) -> Self {
        let data = fs::canonicalize(data).unwrap_or_else(|_| data.to_owned());
        let candidates: Vec<_> = StateDirs::of_process().candidates().iter().map(|dir| resolved(dir)).collect();
        let (dir, is_on_other_device) = choose(&data, &candidates, device);
        if !is_on_other_device {
            info!(
                witness = %dir.display(),
                "the witness is on the same disk as the data and cannot detect that both were rolled back together \
                 (--witness names a directory on another disk)"
            );
        }
        Self { dir }
    }

    fn file(&self, id: StoreId) -> PathBuf {
        self.dir.join(format!("{id}.toml"))
    }

    /// Claims an embedded store for this process. The claim covers this witness and the earlier ones that the store
    /// records, because a copy may be started in another environment. Replicas share their store, so they do not claim
    /// it.
    ///
    /// # Errors
    ///
    /// [`WitnessError::InUse`] if another process has claimed it; [`WitnessError::Unusable`].
    pub(crate) async fn claim(&self, store: &dyn Store, place: &str) -> Result<Claim, WitnessError> {
        let name = format!("{}.lock", store.store_id());
        let unusable =
            |problem: io::Error| WitnessError::Unusable { path: self.dir.clone(), problem: problem.to_string() };
        let in_use = |other| WitnessError::InUse { store: place.to_owned(), other };
        fs::create_dir_all(&self.dir).map_err(unusable)?;
        let mut locks = vec![claim(&self.dir.join(&name), place).await.map_err(unusable)?.map_err(in_use)?];
        for witness in self.earlier(store).await?.into_iter().filter(|witness| witness.dir.is_dir()) {
            match claim(&witness.dir.join(&name), place).await {
                Ok(claimed) => locks.push(claimed.map_err(in_use)?),
                // A daemon that was started from a shell may lack the permission to write to a service's directory.
                Err(error) => {
                    warn!(%error, witness = %witness.dir.display(), "cannot lock an earlier witness of this store")
                }
            }
        }
        Ok(Claim { _locks: locks })
    }

    /// Compares the store with the witness, and counts the start in both, first in the store. `place` is the location
    /// of the store.
    ///
    /// # Errors
    ///
    /// [`WitnessError`].
    pub(crate) async fn attest(&self, store: &dyn Store, place: &str) -> Result<(), WitnessError> {
        loop {
            match self.attest_once(store, place).await {
                // Another replica is starting at the same time.
                Err(WitnessError::Store(StoreFailure::Commit(CommitError::Conflict { .. }))) => {}
                attested => return attested,
            }
        }
    }

    async fn attest_once(&self, store: &dyn Store, place: &str) -> Result<(), WitnessError> {
        let file = self.file(store.store_id());
        let unusable = |problem: String| WitnessError::Unusable { path: file.clone(), problem };
        let earlier = self.earlier(store).await?;
        // Read the witness before the store. A replica counts its start in the store before it counts the start in the
        // witness. So a start between the two reads does not make the store look old.
        let mut seen =
            read(&file).map_err(|problem| unusable(problem.to_string()))?.map(|record| (record.starts, &file));
        let of_earlier: Vec<_> = earlier.iter().map(|witness| witness.file(store.store_id())).collect();
        for file in &of_earlier {
            match read(file) {
                Ok(Some(record)) => seen = seen.max(Some((record.starts, file))),
                Ok(None) => {}
                Err(error) => warn!(%error, witness = %file.display(), "cannot read an earlier witness of this store"),
            }
        }
        let counted = store.get(&keys::BOOTS).await.map_err(StoreFailure::from)?;
        let (starts, version) = match &counted {
            None => (0, Version::ABSENT),
            Some(counted) => {
                let malformed = |_| unusable("the store's own count of starts is malformed".to_owned());
                let bytes = counted.value.as_slice().try_into().map_err(malformed)?;
                (u64::from_be_bytes(bytes), counted.version)
            }
        };
        match seen {
            Some((seen, witness)) if seen > starts => {
                return Err(WitnessError::OldCopy { store: place.to_owned(), witness: witness.clone(), starts, seen });
            }
            None if starts > 0 => warn!(
                starts,
                witness = %file.display(),
                "the witness has not seen this store before and cannot detect an old copy this time"
            ),
            _ => {}
        }
        let starts = starts.saturating_add(1);
        let count = Txn::new().expect(keys::BOOTS, version).put(keys::BOOTS, starts.to_be_bytes().to_vec());
        let count = count.put(keys::WITNESSES, joined(iter::once(self).chain(&earlier)));
        store.commit(count).await.map_err(StoreFailure::from)?;
        let record = StartRecord { place: place.to_owned(), starts, earlier: Vec::new() };
        // An earlier directory may be on another replica's machine, or on a disk that is not mounted.
        for witness in earlier.into_iter().filter(|witness| witness.dir.is_dir()) {
            // A daemon that was started from a shell may lack the permission to write to a service's directory.
            if let Err(error) = witness.write(&witness.file(store.store_id()), &record).await {
                warn!(%error, witness = %witness.dir.display(), "cannot write to an earlier witness of this store");
            }
        }
        self.write(&file, &record).await.map_err(|problem| unusable(problem.to_string()))
    }

    /// Returns the other witnesses that the store records, the latest first.
    async fn earlier(&self, store: &dyn Store) -> Result<Vec<Self>, WitnessError> {
        let record = store.get(&keys::WITNESSES).await.map_err(StoreFailure::from)?;
        let dirs = record.map_or_else(Vec::new, |record| record.value);
        Ok(recorded(&dirs).filter(|dir| *dir != self.dir).map(|dir| Self { dir }).collect())
    }

    /// Checks that a new store at this location does not replace another store, whose disk may merely be unmounted.
    ///
    /// # Errors
    ///
    /// [`WitnessError::StoreGone`], or an error if the store cannot be read. A witness that cannot be read counts as
    /// empty.
    pub(crate) async fn check_new(&self, store: &dyn Store, place: &str) -> Result<(), WitnessError> {
        let is_started = store.get(&keys::BOOTS).await.map_err(StoreFailure::from)?.is_some();
        // A restored store has slot records before its first start.
        if is_started || !store.scan(&keys::SLOTS).await.map_err(StoreFailure::from)?.is_empty() {
            return Ok(());
        }
        // While the disk of the data is not mounted, the default witness may be in another directory.
        let dirs = StateDirs::of_process().candidates().into_iter().chain([self.dir.clone()]);
        let files = dirs.flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten()).map(|entry| entry.path());
        for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "toml")) {
            if let Some(StartRecord { starts, .. }) = read(&file).ok().flatten().filter(|record| record.was_at(place)) {
                let before = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                return Err(WitnessError::StoreGone { store: place.to_owned(), before, starts });
            }
        }
        Ok(())
    }

    /// Writes the file, unless the file already records more starts.
    async fn write(&self, file: &Path, record: &StartRecord) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        // The lock is held until the end, because replicas on one machine may start at the same time.
        let _lock = lock(&self.dir.join("lock"), LOCK_WAIT).await?;
        self.replace(file, record)
    }

    /// Replaces the file atomically and durably, unless the file already records more starts. The caller holds the
    /// lock.
    fn replace(&self, file: &Path, record: &StartRecord) -> io::Result<()> {
        let before = read(file)?;
        if before.as_ref().is_some_and(|seen| seen.starts >= record.starts) {
            return Ok(());
        }
        let record = record.after(before);
        let new_path = file.with_extension("new");
        let mut new = File::create(&new_path)?;
        new.write_all(toml::to_string(&record).map_err(io::Error::other)?.as_bytes())?;
        new.sync_all()?;
        fs::rename(&new_path, file)?;
        File::open(&self.dir)?.sync_all()
    }
}

/// The start counts of an archived store that is an old copy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outdated {
    /// The number of starts that the store has counted.
    pub(crate) starts: u64,
    /// The number of starts that the witness has seen.
    pub(crate) seen: u64,
    /// The file of the witness.
    pub(crate) witness: PathBuf,
}

/// Returns `Some` if the records come from an old copy of the store. Checks the witnesses that the records name, and
/// the default witnesses of this machine. A witness that cannot be read counts as empty.
pub(crate) fn outdated(records: &[(Key, Vec<u8>)], store: StoreId) -> Option<Outdated> {
    let value = |key: &Key| records.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_slice());
    // `attest` writes the count to the store first, so the count is never behind the witness.
    let starts = value(&keys::BOOTS).map_or(Some(0), |count| Some(u64::from_be_bytes(count.try_into().ok()?)))?;
    let dirs = recorded(value(&keys::WITNESSES).unwrap_or_default()).chain(StateDirs::of_process().candidates());
    let files = dirs.map(|dir| Witness { dir }.file(store));
    let seen = files.filter_map(|file| Some((read(&file).ok()??.starts, file))).max()?;
    (seen.0 > starts).then_some(Outdated { starts, seen: seen.0, witness: seen.1 })
}

/// The longest time to wait for another process that writes to the witness.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// The time between two attempts to lock.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Locks a file. Returns an error if another process holds the lock for longer than `wait`.
async fn lock(path: &Path, wait: Duration) -> io::Result<File> {
    let file = File::create(path)?;
    let is_held = || io::Error::other(format!("another process has locked {} for {wait:?}", path.display()));
    locked(&file, wait).await?.ok_or_else(is_held)?;
    Ok(file)
}

/// Locks a file. Returns `None` if another process holds the lock for longer than `wait`.
async fn locked(file: &File, wait: Duration) -> io::Result<Option<()>> {
    // A wait in the kernel would keep the daemon from stopping on a signal.
    let locked = time::timeout(wait, async {
        loop {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => time::sleep(LOCK_PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(error),
                Ok(()) => return Ok(()),
            }
        }
    });
    locked.await.ok().transpose()
}

/// The claim of a process on a store. The claim ends when it is dropped or when the process ends.
#[derive(Debug)]
pub(crate) struct Claim {
    _locks: Vec<File>,
}

/// The longest time to wait for a claim. When a process is killed, its claim may be released shortly after the lock
/// on its data directory.
const CLAIM_WAIT: Duration = Duration::from_secs(1);

/// Locks a file and describes this process in it. If another process has locked the file, returns the content of the
/// file.
async fn claim(path: &Path, place: &str) -> io::Result<Result<File, String>> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    if locked(&file, CLAIM_WAIT).await?.is_none() {
        let mut other = String::new();
        file.read_to_string(&mut other)?;
        return Ok(Err(other));
    }
    file.set_len(0)?;
    write!(file, "process {}, {place}", process::id())?;
    Ok(Ok(file))
}

/// The number of witnesses that a store records.
const REMEMBERED_MAX: usize = 4;
/// Separates directories in the store's record; no path contains this byte.
const SEPARATOR: u8 = 0;

/// The store's record of its witnesses.
fn joined<'w>(witnesses: impl Iterator<Item = &'w Witness>) -> Vec<u8> {
    let dirs: Vec<_> = witnesses.take(REMEMBERED_MAX).map(|witness| witness.dir.as_os_str().as_bytes()).collect();
    dirs.join(&SEPARATOR)
}

/// The directories in the store's record of its witnesses.
fn recorded(record: &[u8]) -> impl Iterator<Item = PathBuf> {
    let dirs = record.split(|byte| *byte == SEPARATOR).map(|dir| PathBuf::from(OsStr::from_bytes(dir)));
    dirs.filter(|dir| dir.is_absolute())
}

const DAMAGED: &str = "it is damaged, so kentd cannot tell whether the store is an old copy";

fn read(file: &Path) -> io::Result<Option<StartRecord>> {
    match fs::read_to_string(file) {
        Ok(text) => toml::from_str(&text).map(Some).map_err(|_| io::Error::other(DAMAGED)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(io::Error::other(DAMAGED)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the first candidate on a different device from the data, else the first candidate outside the data, else a
/// directory next to the data. Also returns whether the chosen directory is on another device.
fn choose(data: &Path, candidates: &[PathBuf], device: impl Fn(&Path) -> Option<u64>) -> (PathBuf, bool) {
    let outside: Vec<&PathBuf> = candidates.iter().filter(|dir| !dir.starts_with(data)).collect();
    let of_data = device(data);
    let is_on_other_device = |dir: &Path| matches!((of_data, device(dir)), (Some(data), Some(dir)) if data != dir);
    if let Some(dir) = outside.iter().find(|dir| is_on_other_device(dir)) {
        return (dir.to_path_buf(), true);
    }
    let next_to_data = || {
        let mut name = data.file_name().unwrap_or_default().to_owned();
        name.push(".witness");
        data.with_file_name(name)
    };
    (outside.first().map_or_else(next_to_data, |dir| dir.to_path_buf()), false)
}

/// Resolves symbolic links in the part of a path that exists.
fn resolved(dir: &Path) -> PathBuf {
    let found =
        dir.ancestors().find_map(|dir_part| Some((fs::canonicalize(dir_part).ok()?, dir.strip_prefix(dir_part).ok()?)));
    found.map_or_else(|| dir.to_owned(), |(resolved, rest)| resolved.join(rest))
}

/// The device that a directory is on, or would be on.
fn device(dir: &Path) -> Option<u64> {
    dir.ancestors().find_map(|dir| fs::metadata(dir).ok()).map(|metadata| metadata.dev())
}

#[cfg(test)]
mod tests {
    use kent_store::{Fault, MemoryStore, Operation};

    use super::*;

    const ID: StoreId = StoreId::new([1; 16]);

    fn at(dir: PathBuf) -> Witness {
        Witness { dir }
    }

    /// Returns the number of starts of the store, according to the witness.
    fn seen(witness: &Witness, id: StoreId) -> Option<u64> {
        read(&witness.file(id)).expect("read").map(|record| record.starts)
    }

    async fn counted(store: &MemoryStore) -> u64 {
        let counted = store.get(&keys::BOOTS).await.expect("read").expect("counted");
        u64::from_be_bytes(counted.value.try_into().expect("eight bytes"))
    }

    #[test]
    fn err_a_refusal_names_a_command_with_the_real_directories() {
        let (witness, before) = (PathBuf::from("/w/1.toml"), "1".to_owned());
        let old = |store: &str| WitnessError::OldCopy {
            store: store.to_owned(),
            witness: witness.clone(),
            starts: 1,
            seen: 2,
        };
        let gone = WitnessError::StoreGone { store: "/srv/kent".to_owned(), before, starts: 1 };
        for (error, command) in [
            (old("/srv/kent"), "kentd restore /srv/kent --data /srv/kent-new --dry-run"),
            (old("etcd://10.0.0.1:2379/kent"), "kentd restore kent.backup --data /var/lib/kent-new --dry-run"),
            (gone, "kentd --data /srv/kent --new-store"),
        ] {
            assert!(error.to_string().contains(command), "{error}");
        }
    }

    #[tokio::test]
    async fn ok_every_store_has_a_permanent_record_of_its_own() {
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
        // The start of another store did not remove this record.
        let refused = witness.attest(&copy, "one").await.expect_err("an old copy");
        assert!(matches!(refused, WitnessError::OldCopy { starts: 1, seen: 2, .. }), "{refused}");
        assert_eq!(counted(&copy).await, 1, "a rejected start is not counted");
        witness.attest(&one, "one").await.expect("the newest");
        assert_eq!((seen(&witness, ID), counted(&one).await), (Some(3), 3));
    }

    /// After a move, or a start at another path, the first path may be an empty mount point.
    #[tokio::test]
    async fn err_a_new_store_where_another_one_was_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let witness = at(dir.path().to_owned());
        let (store, new) = (MemoryStore::new(ID), MemoryStore::new(StoreId::new([2; 16])));
        for place in ["one", "two", "one", "two", "three"] {
            witness.attest(&store, place).await.expect("the newest");
        }
        for place in ["one", "two", "three"] {
            let refused = witness.check_new(&new, place).await.expect_err("another store was there");
            assert!(matches!(refused, WitnessError::StoreGone { starts: 5, .. }), "{refused}");
        }
        witness.check_new(&new, "four").await.expect("no store was there");
        let record = read(&witness.file(ID)).expect("read").expect("a record");
        assert_eq!(record.earlier, ["two", "one"], "latest first, each location once");
    }

    #[tokio::test]
    async fn ok_replicas_that_start_at_the_same_time_share_a_record() {
        let dir = tempfile::tempdir().expect("a directory");
        let witness = at(dir.path().to_owned());
        let store = MemoryStore::new(ID);
        witness.attest(&store, "one").await.expect("the first");
        // Another replica counts its start in the store and in the witness after we have read the witness.
        let (others, mut is_first) = (witness.clone(), true);
        store.plan(move |operation| {
            if matches!(operation, Operation::Get(key) if **key == keys::BOOTS) && std::mem::take(&mut is_first) {
                let record = StartRecord { place: "one".to_owned(), starts: 5, earlier: Vec::new() };
                others.replace(&others.file(ID), &record).expect("written");
            }
            Fault::None
        });
        witness.attest(&store, "one").await.expect("not an old copy");
        assert_eq!(seen(&witness, ID), Some(5), "it never goes back");
    }

    #[tokio::test]
    async fn ok_replicas_that_count_at_the_same_time_are_all_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let witness = at(dir.path().to_owned());
        let store = MemoryStore::new(ID);
        // Each operation takes place one poll later, so both replicas have read the counts before either of them
        // commits.
        store.plan(|_| Fault::DelayBefore(Box::pin(tokio::task::yield_now())));
        let (one, other) = tokio::join!(witness.attest(&store, "one"), witness.attest(&store, "one"));
        one.expect("counted");
        other.expect("counted");
        assert_eq!((seen(&witness, ID), counted(&store).await), (Some(2), 2));
    }

    #[tokio::test]
    async fn ok_the_witness_counts_only_starts_that_the_store_has_counted() {
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
    async fn err_a_malformed_record_is_not_ignored() {
        let dir = tempfile::tempdir().expect("a directory");
        let witness = at(dir.path().to_owned());
        fs::write(witness.file(ID), "starts = many").expect("written");
        let store = MemoryStore::new(ID);
        let refused = witness.attest(&store, "one").await.expect_err("it may have seen more");
        assert!(matches!(&refused, WitnessError::Unusable { .. }), "{refused}");
        assert!(store.get(&keys::BOOTS).await.expect("read").is_none());
    }

    #[test]
    fn ok_concurrent_writes_never_decrease_the_count() {
        let dir = tempfile::tempdir().expect("a directory");
        let witness = at(dir.path().to_owned());
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let witness = &witness;
                scope.spawn(move || {
                    let runtime =
                        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
                    for round in 0..20 {
                        let record =
                            StartRecord { place: "one".to_owned(), starts: round * 8 + thread, earlier: Vec::new() };
                        runtime.block_on(witness.write(&witness.file(ID), &record)).expect("written");
                    }
                });
            }
        });
        assert_eq!(seen(&witness, ID), Some(159));
    }

    #[tokio::test]
    async fn err_a_lock_that_is_never_released_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let held = File::create(dir.path().join("lock")).expect("created");
        held.lock().expect("locked");
        let refused = lock(&dir.path().join("lock"), Duration::ZERO).await.expect_err("locked").to_string();
        assert!(refused.starts_with("another process has locked ") && refused.ends_with("lock for 0ns"), "{refused}");
    }

    #[tokio::test]
    async fn err_an_unusable_witness_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, "not a directory").expect("written");
        let refused = at(file).attest(&MemoryStore::new(ID), "one").await.expect_err("not a directory");
        assert!(matches!(&refused, WitnessError::Unusable { .. }), "{refused}");
        assert!(refused.to_string().contains("--witness"), "{refused}");
    }

    #[track_caller]
    fn check_place(dirs: &StateDirs, expected: (&str, bool)) {
        // All paths below /mnt are on another disk.
        let device = |dir: &Path| Some(u64::from(dir.starts_with("/mnt")));
        let (dir, is_on_other_device) = choose(Path::new("/var/lib/kent"), &dirs.candidates(), device);
        assert_eq!((dir.to_str().expect("UTF-8"), is_on_other_device), expected, "{dirs:?}");
    }

    #[test]
    fn ok_the_default_directory_is_on_another_disk_if_possible_and_never_inside_the_data() {
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
