//! One space in memory: its table, the versions of its records, and its counters.

mod facts;
mod listing;
mod versions;

use std::{
    collections::BTreeMap,
    iter, mem,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use kent_ids::ClusterKey;
use kent_issue::{Chunk, Stored};
use kent_proto::{
    model::{Usage, inner_space},
    stored::{self, EditId, ImageFacts, Malformed, SpaceFacts, TextForm},
};
use kent_regions::{
    ChunkPolicy, Count, Damage, Index, Kind, Plan, Rare, Refusal, Region, RegionNumber, Revision, Table,
};
use kent_store::{Store, Version, Versioned};
use tokio::sync::watch;

pub(crate) use self::facts::RegionFacts;
use self::listing::RecentEdits;
pub(super) use self::versions::RegionVersions;
use crate::{
    host::threads::Threads,
    issuing::cell::Cell,
    records::{
        counters::read_counter,
        failure::{LoadError, StoreFailure},
        keys,
    },
};

/// One space.
#[derive(Debug)]
pub struct Space {
    /// The key of the space's records, which never changes. It is the name of the space or, for a delegated region's
    /// space, the key of the outer space and the region's number.
    key: String,
    /// The outer space of a delegated region's space, and the region there.
    outer: Option<(Arc<Space>, RegionNumber)>,
    state: RwLock<State>,
    counters: Mutex<BTreeMap<RegionNumber, Arc<Cell>>>,
    /// Publishes the newest revision.
    newest: watch::Sender<Revision>,
    /// Held during an edit.
    pub(crate) editing: tokio::sync::Mutex<()>,
    /// Where the newest image of the table is, if there is one from which a start can get to the present table.
    imaged: Mutex<Option<Progress>>,
    /// Held during the construction of an index.
    indexing: Arc<tokio::sync::Mutex<()>>,
}

/// The number of counters to list while their lock is held. Listing this many takes about ten microseconds.
const CELLS_PER_LOCK: usize = 256;

/// How far the edits of a table have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) revision: Revision,
    /// The number of regions that edits have changed since the table was read. A region counts once for each edit.
    pub(super) changes: u64,
}

/// A table, and the versions of the records that it came from.
#[derive(Debug)]
pub struct State {
    table: Table,
    /// See [`Progress::changes`].
    changes: u64,
    version: Version,
    region_versions: RegionVersions,
    /// The versions of the counters in `table`: an older counter never replaces a newer one.
    counter_versions: BTreeMap<RegionNumber, Version>,
    last_edit: EditId,
    recent: RecentEdits,
    scramble_key: ClusterKey,
    text_form: TextForm,
}

impl Space {
    /// Creates a space with this table.
    pub(crate) fn new(key: String, outer: Option<(Arc<Self>, RegionNumber)>, state: State) -> Self {
        let newest = watch::Sender::new(state.table.revision());
        let (state, counters, imaged) = (RwLock::new(state), Mutex::default(), Mutex::default());
        let (editing, indexing) = (tokio::sync::Mutex::default(), Arc::default());
        Self { key, outer, state, counters, newest, editing, imaged, indexing }
    }

    /// The key of the space's records.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The name of the space. The name of a delegated region's space is the name of the outer space, `/`, and the
    /// region's name.
    pub fn name(&self) -> String {
        match &self.outer {
            None => self.key.clone(),
            Some((outer, number)) => inner_space(&outer.name(), &outer.region_name(*number)),
        }
    }

    /// The outer space of a delegated region's space, and the region there.
    pub fn outer(&self) -> Option<(&Arc<Self>, RegionNumber)> {
        self.outer.as_ref().map(|(outer, number)| (outer, *number))
    }

    /// The current name of a region.
    pub(crate) fn region_name(&self, number: RegionNumber) -> String {
        // OK because callers know the region from a grant or an edit. After a deletion, only an error message uses the
        // name.
        self.read(|table| table.get(number).map(|region| region.name.to_string())).unwrap_or_default()
    }

    /// The text form of the space's identifiers.
    pub fn text_form(&self) -> TextForm {
        self.state().text_form
    }

    /// The parts of the space's record that no edit changes.
    pub fn constants(&self) -> (ClusterKey, TextForm) {
        let state = self.state();
        (state.scramble_key, state.text_form)
    }

    /// Subscribes to the newest revision.
    pub fn newest(&self) -> watch::Receiver<Revision> {
        self.newest.subscribe()
    }

    /// Runs `read` with the table locked for reading.
    pub fn read<T>(&self, read: impl FnOnce(&Table) -> T) -> T {
        read(&self.state().table)
    }

    /// Runs `read` with the table as if these regions' counters had these values, so that a plan uses exactly the
    /// counters that its commit compares.
    pub(crate) fn read_as_if<T>(&self, counters: &[(RegionNumber, Count)], read: impl FnOnce(&Table) -> T) -> T {
        if counters.is_empty() {
            return self.read(read);
        }
        let mut state = self.state_mut();
        let mut before = Vec::with_capacity(counters.len());
        for (number, reserved) in counters {
            before.extend(state.table.get(*number).map(|region| (*number, *region.issued)));
            state.table.set_issued(*number, *reserved);
        }
        let result = read(&state.table);
        before.into_iter().for_each(|(number, before)| state.table.set_issued(number, before));
        result
    }

    /// The versions of the space's record and of a region's record.
    pub fn versions(&self, number: RegionNumber) -> (Version, Version) {
        let state = self.state();
        (state.version, state.region_version(number))
    }

    /// Whether the table includes all edits up to this revision, whose record has this version. Several edits may be one
    /// commit and so have one version.
    pub(crate) fn includes(&self, version: Version, revision: Revision) -> bool {
        let state = self.state();
        state.version > version || state.version == version && state.table.revision() >= revision
    }

    /// The edit that made the current revision.
    pub(crate) fn last_edit(&self) -> EditId {
        self.state().last_edit
    }

    /// Applies a plan that was committed at `version`.
    pub(crate) fn apply(&self, plan: &Plan, version: Version, edit: EditId) -> Result<(), Refusal> {
        let mut state = self.state_mut();
        state.table.apply(plan)?;
        state.version = version;
        state.last_edit = edit;
        state.recent.push(plan);
        state.changes += plan.changes.len() as u64; // OK because no daemon changes 2^64 regions
        for change in &plan.changes {
            let number = change.number;
            if change.after.is_none() {
                state.region_versions.remove(number);
                state.counter_versions.remove(&number);
                continue;
            }
            state.region_versions.set(number, version);
            let is_moved = plan.counter_move.is_some_and(|moved| moved.to == number);
            if change.before.is_none() || is_moved || plan.declared.is_some_and(|(declared, _)| declared == number) {
                state.counter_versions.insert(number, version);
            }
        }
        drop(state);
        // Nothing was reserved from a deleted region, so its chunk is empty.
        let deleted = plan.changes.iter().filter(|change| change.after.is_none());
        deleted.for_each(|change| drop(self.counters().remove(&change.number)));
        self.newest.send_replace(plan.revision);
        Ok(())
    }

    /// Publishes the revision at which the space was deleted.
    pub(crate) fn delete(&self, revision: Revision) {
        self.newest.send_replace(revision);
    }

    /// Stores the value that a region's counter had at a version, unless a newer value is known.
    pub fn set_reserved(&self, number: RegionNumber, reserved: Stored<Count>) {
        let (version, mut state) = (Version::new(reserved.version), self.state_mut());
        let known = state.counter_versions.entry(number).or_insert(version);
        if *known <= version {
            *known = version;
            state.table.set_issued(number, reserved.value);
        }
    }

    /// Sets the counters of a table in which all are zero.
    pub(super) fn set_counters(&self, counters: BTreeMap<RegionNumber, ReadCounter>) {
        let mut state = self.state_mut();
        counters.iter().for_each(|(number, counter)| state.table.set_issued(*number, counter.reserved));
        state.counter_versions = counters.into_iter().map(|(number, counter)| (number, counter.version)).collect();
    }

    /// Reads a region's counter, and stores its value in the table.
    pub(crate) async fn refresh_reserved(
        &self,
        store: &dyn Store,
        number: RegionNumber,
    ) -> Result<Stored<stored::Counter>, StoreFailure> {
        let read = read_counter(store, &keys::counter(self.key(), number.0)).await?;
        self.set_reserved(number, Stored { version: read.version, value: read.value.reserved });
        Ok(read)
    }

    /// Returns the rest of a region's chunk to the store; see [`Cell::give_back`]. The counter of a closed region does
    /// not change, because the region's heir has inherited the counter, and an undo compares the two counters.
    pub(crate) async fn give_back(&self, store: &dyn Store, number: RegionNumber, cell: &Cell) {
        if self.read(|table| table.get(number).is_some_and(|region| region.kind == Kind::Closed)) {
            return;
        }
        if let Some(reserved) = cell.give_back(store, &keys::counter(self.key(), number.0)).await {
            self.set_reserved(number, reserved);
        }
    }

    /// Returns the rest of a region's chunk to the store if the region's policy no longer allows the chunk: the region
    /// is strict now, or has a cap below the end of the chunk.
    pub(crate) async fn give_back_forbidden(&self, store: &dyn Store, number: RegionNumber) {
        let cell = self.counters.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
        let Some(cell) = cell else { return };
        let _reserving = cell.reserving.lock().await;
        self.give_back_forbidden_of(store, number, &cell).await;
    }

    /// Like [`Space::give_back_forbidden`], for a caller that holds the `reserving` lock.
    pub(crate) async fn give_back_forbidden_of(&self, store: &dyn Store, number: RegionNumber, cell: &Cell) {
        let Some(facts) = self.facts_of(number) else { return };
        let is_forbidden =
            facts.chunk == ChunkPolicy::Strict || cell.with(|counter| counter.ceiling()) > facts.capacity;
        if is_forbidden {
            self.give_back(store, number, cell).await;
        }
    }

    /// Drops a chunk that was reserved before an edit at this version declared the chunk's numbers as issued. The
    /// numbers may be in use elsewhere.
    pub(crate) fn drop_chunk(&self, number: RegionNumber, declared: Version) {
        let cell = self.counters().get(&number).cloned();
        cell.iter().for_each(|cell| cell.with(|counter| counter.drop_before(declared.get())));
    }

    /// How far the edits of the table have come.
    pub(super) fn progress(&self) -> Progress {
        self.state().progress()
    }

    /// Where the newest image of the table is, if there is an image.
    pub(super) fn imaged(&self) -> Option<Progress> {
        *self.imaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an image of the table exists, and where.
    pub(super) fn set_imaged(&self, progress: Progress) {
        *self.imaged.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
    }

    /// Reserves the right to build an index; returns `None` if another task is building one.
    pub fn begin_indexing(&self) -> Option<tokio::sync::OwnedMutexGuard<()>> {
        self.indexing.clone().try_lock_owned().ok()
    }

    /// Uses this index if it was built for the table's current revision.
    pub fn set_index(&self, index: Arc<Index>) {
        self.state_mut().table.set_index(index);
    }

    /// Replaces the table with a table read from the store. First drops all older chunks, because one of the edits in
    /// between may have declared their numbers as issued.
    pub(crate) fn replace(&self, state: State) {
        let (revision, version) = (state.table.revision(), state.version.get());
        self.cells().for_each(|(_, cell)| cell.with(|counter| counter.drop_before(version)));
        *self.imaged.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let old = mem::replace(&mut *self.state_mut(), state);
        self.newest.send_replace(revision);
        // Dropping a large table takes a long time, so it happens outside the lock.
        drop(old);
    }

    /// Returns the counter of a region, and creates it if necessary.
    pub fn cell(&self, number: RegionNumber, policy: Chunk) -> Arc<Cell> {
        let mut counters = self.counters();
        counters.entry(number).or_insert_with(|| Arc::new(Cell::new(policy))).clone()
    }

    /// Returns a region's counter if it is in memory.
    pub(crate) fn known_cell(&self, number: RegionNumber) -> Option<Arc<Cell>> {
        self.counters().get(&number).cloned()
    }

    /// Lists all counters in memory. Takes the lock for a few counters at a time, because grants need the lock.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (RegionNumber, Arc<Cell>)> {
        let (mut some, mut after) = (Vec::new().into_iter(), Bound::Unbounded);
        iter::from_fn(move || {
            if some.len() == 0 {
                let counters = self.counters();
                let next = counters.range((after, Bound::Unbounded)).take(CELLS_PER_LOCK);
                some = next.map(|(number, cell)| (*number, cell.clone())).collect::<Vec<_>>().into_iter();
            }
            let next: Option<(RegionNumber, Arc<Cell>)> = some.next();
            after = next.as_ref().map_or(Bound::Unbounded, |(number, _)| Bound::Excluded(*number));
            next
        })
    }

    /// This daemon's usage of a region at `now`, on the steady clock.
    pub fn usage(&self, number: RegionNumber, now: Duration) -> Usage {
        let counters = self.counters();
        let usage = |cell: &Arc<Cell>| Usage { unused: cell.with(|counter| counter.left()), rate: cell.rate(now) };
        counters.get(&number).map_or_else(Usage::default, usage)
    }

    fn counters(&self) -> MutexGuard<'_, BTreeMap<RegionNumber, Arc<Cell>>> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The state of a new space.
    pub fn fresh(
        mut table: Table,
        version: Version,
        last_edit: EditId,
        (scramble_key, text_form): (ClusterKey, TextForm),
    ) -> Self {
        let (region_versions, counter_versions) = (RegionVersions::default(), BTreeMap::new());
        table.set_scramble_key(scramble_key);
        let recent = RecentEdits::default();
        let changes = 0;
        Self { table, changes, version, region_versions, counter_versions, last_edit, recent, scramble_key, text_form }
    }

    /// Reads a space from the store and checks it. Returns `None` if the space is deleted.
    pub(crate) async fn load(store: &dyn Store, name: &str) -> Result<Option<Self>, LoadError> {
        let missing = Malformed { what: "the record of a space is missing" };
        loop {
            let read = async || store.get(&keys::space(name)).await.map_err(StoreFailure::from);
            let before = read().await?.ok_or_else(|| StoreFailure::from(missing))?;
            if stored::decode_space(&before.value).map_err(StoreFailure::from)?.deleted {
                return Ok(None);
            }
            let state = Self::assemble(store, name, &before).await;
            // The records are read one after another. If an edit was committed meanwhile, read them again.
            let after = read().await?;
            if after.is_some_and(|after| after.version == before.version) {
                return state.map(Some);
            }
        }
    }

    async fn assemble(store: &dyn Store, name: &str, space: &Versioned) -> Result<Self, LoadError> {
        let facts = stored::decode_space(&space.value).map_err(StoreFailure::from)?;
        let counters = read_counters(store, name).await?;
        let mut attempts = REGIONS_ATTEMPTS;
        let (regions, region_versions) = loop {
            attempts -= 1;
            match read_regions(store, name, &counters).await {
                Err(failure) if failure.is_temporary() && attempts > 0 => {}
                read => break read?,
            }
        };
        let threads = Threads { items: regions.len() };
        let restored = Table::restore_with(&threads, facts.bits, facts.revision, facts.next_number, regions);
        let mut table = restored.map_err(|damage| LoadError::Table { space: name.to_owned(), damage })?;
        table.set_scramble_key(facts.scramble_key);
        Ok(Self {
            table,
            changes: 0,
            version: space.version,
            region_versions,
            counter_versions: counters.into_iter().map(|(number, counter)| (number, counter.version)).collect(),
            last_edit: facts.last_edit,
            recent: RecentEdits::default(),
            scramble_key: facts.scramble_key,
            text_form: facts.text_form,
        })
    }

    /// Creates the state of an image, at the revision of the image. All counters are zero. The constants are those of the
    /// space's record.
    pub(super) fn of_image(
        image: &ImageFacts,
        regions: Vec<Arc<Region>>,
        region_versions: RegionVersions,
        constants: (ClusterKey, TextForm),
    ) -> Result<Self, Damage> {
        let threads = Threads { items: regions.len() };
        let table = Table::restore_with(&threads, image.bits, image.revision, image.next_number, regions)?;
        let fresh = Self::fresh(table, Version::new(image.version), image.edit, constants);
        Ok(Self { region_versions, ..fresh })
    }

    fn progress(&self) -> Progress {
        Progress { revision: self.table.revision(), changes: self.changes }
    }

    /// The facts of an image for the store with this identity.
    fn image_facts(&self, store: [u8; 16]) -> ImageFacts {
        ImageFacts {
            revision: self.table.revision(),
            edit: self.last_edit,
            version: self.version.get(),
            bits: self.table.bits(),
            next_number: self.table.next_number(),
            regions: self.table.len() as u64, // OK because a length in memory fits 64 bits
            store,
        }
    }

    fn region_version(&self, number: RegionNumber) -> Version {
        self.region_versions.get(number)
    }
}

/// Encodes the record of a space at the revision that `plan` makes or, without a plan, at the current revision.
pub(crate) fn space_record(
    table: &Table,
    plan: Option<&Plan>,
    edit: EditId,
    (scramble_key, text_form): (ClusterKey, TextForm),
) -> Vec<u8> {
    let made = plan.map_or(0, |plan| plan.changes.iter().filter(|change| change.creates()).count());
    stored::encode_space(&SpaceFacts {
        deleted: false,
        bits: table.bits(),
        revision: plan.map_or(table.revision(), |plan| plan.revision),
        next_number: RegionNumber(table.next_number().0 + made as u64), // OK because an edit makes few regions
        last_edit: edit,
        scramble_key,
        text_form,
    })
}

/// The value of a counter, and its version.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadCounter {
    reserved: Count,
    version: Version,
}

pub(super) async fn read_counters(
    store: &dyn Store,
    space: &str,
) -> Result<BTreeMap<RegionNumber, ReadCounter>, StoreFailure> {
    let records = store.scan(&keys::counters(space)).await?;
    let read = records.iter().map(|(key, versioned)| {
        let reserved = stored::decode_counter(&versioned.value)?.reserved;
        Ok((RegionNumber(keys::parse_number(key)?), ReadCounter { reserved, version: versioned.version }))
    });
    read.collect()
}

/// The maximum number of attempts to read the regions. A store may drop the state of the first page before the last page
/// is read.
const REGIONS_ATTEMPTS: u32 = 3;

/// Reads the regions page by page, so that a large table is not in memory twice.
async fn read_regions(
    store: &dyn Store,
    space: &str,
    counters: &BTreeMap<RegionNumber, ReadCounter>,
) -> Result<(Vec<Arc<Region>>, RegionVersions), StoreFailure> {
    let (mut regions, mut versions) = (Vec::new(), RegionVersions::default());
    let mut pages = store.pages(&keys::regions(space)).await?;
    while let Some(page) = pages.next().await? {
        for (key, versioned) in page {
            let region = read_region(&key, &versioned, counters)?;
            versions.set(region.number, versioned.version);
            regions.push(Arc::new(region));
        }
    }
    Ok((regions, versions))
}

fn read_region(
    key: &kent_store::Key,
    versioned: &Versioned,
    counters: &BTreeMap<RegionNumber, ReadCounter>,
) -> Result<Region, Malformed> {
    let number = RegionNumber(keys::parse_number(key)?);
    let reserved = counters.get(&number).map_or(Count::ZERO, |counter| counter.reserved);
    let region = stored::decode_region(&versioned.value, number, reserved)?;
    // The counter of a closed region continues in its all-zero subregion.
    Ok(if region.kind == Kind::Closed { Region { issued: Rare::default(), ..region } } else { region })
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    };

    use kent_regions::{Edit, NotGranting, Patch, Place, Seal, Start};

    use super::*;

    const REGION: RegionNumber = RegionNumber(1);

    fn space() -> Arc<Space> {
        let mut table = Table::new(16).expect("a width");
        let place = Place::At("01".parse().expect("a prefix"));
        let (name, next) = ("r".to_owned(), Count::ZERO);
        let create = Edit::Create { name, suffix: 8, place, start: Start { next, ..Start::default() } };
        let plan = table.plan(&create).expect("legal");
        table.apply(&plan).expect("applied");
        assert_eq!(plan.subject().map(|region| region.number), Some(REGION));
        let constants = (ClusterKey::new([0; 16]), TextForm::Decimal);
        Arc::new(Space::new("s".to_owned(), None, State::fresh(table, Version::new(1), EditId::default(), constants)))
    }

    fn reserved(space: &Space) -> Option<Count> {
        space.read(|table| table.get(REGION).map(|region| *region.issued))
    }

    #[test]
    fn ok_a_late_counter_does_not_replace_a_newer_one() {
        let space = space();
        let heard = |version, below| {
            space.set_reserved(REGION, Stored { version, value: Count::Below(below) });
            reserved(&space)
        };
        assert_eq!(heard(5, 60), Some(Count::Below(60)));
        assert_eq!(heard(7, 100), Some(Count::Below(100)));
        assert_eq!(heard(6, 80), Some(Count::Below(100)), "a watch reports it late");
        assert_eq!(heard(8, 90), Some(Count::Below(90)), "a chunk was returned");
        // A counter that an edit declares gets the version of the edit.
        let next = Patch { next: Some(Count::Below(200)), ..Patch::default() };
        let plan = space.read(|table| table.plan(&Edit::Update { name: "r".to_owned(), patch: next })).expect("legal");
        space.apply(&plan, Version::new(12), EditId::default()).expect("applied");
        assert_eq!(heard(11, 110), Some(Count::Below(200)));
    }

    #[test]
    fn ok_no_edit_is_applied_while_the_facts_are_in_use() {
        let (space, is_applied) = (space(), Arc::new(AtomicBool::new(false)));
        let seal = Edit::Update { name: "r".to_owned(), patch: Patch { sealed: Some(true), ..Patch::default() } };
        let plan = space.read(|table| table.plan(&seal)).expect("legal");
        let (begun, begins) = mpsc::channel();
        let sealing = space.with_facts("r", |facts| {
            assert_eq!(facts.expect("there").0.granting, Ok(()));
            let sealing = {
                let (space, is_applied) = (space.clone(), is_applied.clone());
                std::thread::spawn(move || {
                    begun.send(()).expect("the test is waiting");
                    space.apply(&plan, Version::new(2), EditId::default()).expect("applied");
                    is_applied.store(true, Ordering::SeqCst);
                })
            };
            begins.recv().expect("it begins");
            for _ in 0..10_000 {
                std::thread::yield_now();
                assert!(!is_applied.load(Ordering::SeqCst), "the seal was applied while the facts were in use");
            }
            sealing
        });
        sealing.join().expect("no panic");
        let seal = Seal { outward: 0, region: REGION };
        let granting = space.with_facts("r", |facts| facts.map(|(facts, _)| facts.granting));
        assert_eq!(granting, Some(Err(NotGranting::Sealed(seal))));
    }
}
