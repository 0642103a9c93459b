//! Images of large tables, so that a start need not read the record of each region.
//!
//! An image contains the table at one revision, without counters. It fits a store with the same identity whose record of
//! the space, or whose history, has the ID of the edit that made this revision. A start reads the image, applies the later
//! edits from the history, as a replica does, and then reads all counters. If anything does not fit, it removes the image
//! and reads all records.

use std::{
    io::{self, ErrorKind},
    sync::{Arc, OnceLock},
    time::Duration,
};

use kent_proto::stored::{self, ImageFacts, ImageRegion, Malformed, SpaceFacts};
use kent_regions::{Damage, Join, Region, Table};
use kent_store::{Images, Version, Versioned};
use thiserror::Error;
use tokio::time;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{
    directory::Directory,
    follow::{Counters, REGIONS_PER_STEP},
    history,
    space::{Progress, RegionVersions, Space, State, read_counters},
};
use crate::{
    host::{clock::Clock, tasks::Tasks, threads::Threads},
    records::failure::{LoadError, StoreFailure},
};

/// The interval between two checks for tables that need an image.
const INTERVAL: Duration = Duration::from_secs(5);

/// After each image, the task pauses for this multiple of the time that the image took.
const PAUSE_FACTOR: u32 = 100;

/// The time for images after the daemon was told to stop. The store is closed afterwards.
const LAST: Duration = Duration::from_secs(2);

/// The number of regions that are read from sled in the time in which a start applies the change of one region.
const REGIONS_PER_CHANGE: u64 = 3;

/// The number of regions that are read from sled in an eighth of a second, and in a second.
const EIGHTH_OF_A_SECOND: u64 = 1 << 16;
const SECOND: u64 = 1 << 19;

/// The number of parts of an image that are decoded at a time, half of them on another thread.
const PARTS_AT_ONCE: usize = 256;

/// Reasons that an image is not used.
#[derive(Debug, Error)]
enum Unused {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("malformed: {}", .0.what)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Damaged(#[from] Damage),
    #[error("the number of regions is wrong")]
    Incomplete,
    #[error("it is of another store")]
    OtherStore,
    #[error("the store does not have the edit that made its revision")]
    OtherHistory,
    #[error(transparent)]
    Store(#[from] StoreFailure),
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl Directory {
    /// Adds a space from the store to memory, at the start: from its image if possible, and otherwise from its records.
    pub(super) async fn load_space(&self, key: &str, record: &Versioned) -> Result<(), LoadError> {
        let facts = stored::decode_space(&record.value).map_err(StoreFailure::from)?;
        let images = self.store.images();
        if facts.deleted {
            if let Some(Err(error)) = images.map(|images| images.remove(key)) {
                warn!(space = key, %error, "cannot remove the image of the table of a deleted space");
            }
        } else if let Some(images) = images {
            match self.load_image(&*images, key, (&facts, record)).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(unused) => {
                    warn!(space = key, %unused, "the image of the table cannot be used; reading all records, which takes longer");
                    // OK because an image that cannot be removed is not used at the next start either.
                    let _ = images.remove(key);
                }
            }
        }
        match State::load(&*self.store, key).await? {
            Some(state) => drop(self.insert(key, state)?),
            None => self.mark_deleted(key),
        }
        Ok(())
    }

    /// Reads a space from its image, applies the later edits, and adds it to memory. Returns false if there is no image.
    async fn load_image(
        &self,
        images: &dyn Images,
        key: &str,
        (facts, record): (&SpaceFacts, &Versioned),
    ) -> Result<bool, Unused> {
        let Some((image, regions, versions)) = read(images, key)? else { return Ok(false) };
        // Another store may have the same history, with other versions: the store that this one was restored from.
        if image.store != self.store.store_id().to_bytes() {
            return Err(Unused::OtherStore);
        }
        let state = State::of_image(&image, regions, versions, (facts.scramble_key, facts.text_form))?;
        let space = self.space_of(key, state)?;
        let editing = space.editing.lock().await;
        let made = match image.revision == facts.revision {
            true => Some(facts.last_edit),
            false => history::entry(&*self.store, &space, image.revision).await?.map(|entry| entry.edit),
        };
        let is_newer = image.version > record.version.get();
        if made != Some(image.edit) || is_newer {
            return Err(Unused::OtherHistory);
        }
        space.set_imaged(space.progress());
        self.catch_up(&space, record, Counters::Later).await?;
        // Unless the whole table was read meanwhile, with its counters.
        if space.imaged().is_some() {
            space.set_counters(read_counters(&*self.store, key).await?);
            let edits = space.read(Table::revision).0.saturating_sub(image.revision.0);
            debug!(space = key, regions = image.regions, edits, "table read from its image");
        }
        drop(editing);
        self.add(space);
        Ok(true)
    }
}

/// The facts of an image, its regions, and the versions of their records.
type Image = (ImageFacts, Vec<Arc<Region>>, RegionVersions);

/// Reads an image, if it exists.
fn read(images: &dyn Images, key: &str) -> Result<Option<Image>, Unused> {
    let Some(mut parts) = images.open(key)? else { return Ok(None) };
    let image = stored::decode_image_head(&parts.next().ok_or(Unused::Incomplete)??)?;
    // OK because the number is bounded; the list grows if there are more.
    let mut regions = Vec::with_capacity(image.regions.min(1 << 24) as usize);
    let mut versions = RegionVersions::default();
    let threads = Threads { items: regions.capacity() };
    loop {
        let read = parts.by_ref().take(PARTS_AT_ONCE).collect::<Result<Vec<_>, _>>()?;
        if read.is_empty() {
            break;
        }
        let (one, other) = read.split_at(read.len() / 2);
        let (one, other) = threads.join(|| decoded(one), || decoded(other));
        for ImageRegion { region, version } in one?.into_iter().chain(other?) {
            versions.set(region.number, Version::new(version));
            regions.push(region);
        }
    }
    let is_complete = u64::try_from(regions.len()) == Ok(image.regions);
    if is_complete { Ok(Some((image, regions, versions))) } else { Err(Unused::Incomplete) }
}

fn decoded(parts: &[Vec<u8>]) -> Result<Vec<ImageRegion>, Malformed> {
    let mut regions = Vec::new();
    for part in parts {
        for region in stored::decode_image_part(part)? {
            regions.push(region?);
        }
    }
    Ok(regions)
}

/// The task that writes images.
#[derive(Debug)]
pub(crate) struct Imaging {
    pub(crate) images: Arc<dyn Images>,
    /// The identity of the store.
    pub(crate) store: [u8; 16],
    pub(crate) directory: Arc<Directory>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tasks: Tasks,
    /// The number of edits that the history keeps. If an image were older, it could not be used.
    pub(crate) history_keep: u64,
}

/// The time at which no more images are written: soon after the daemon was told to stop.
#[derive(Clone, Debug)]
struct Deadline {
    stop: CancellationToken,
    clock: Arc<dyn Clock>,
    /// The time at which the stop was noticed.
    stopped: Arc<OnceLock<Duration>>,
}

impl Deadline {
    fn is_over(&self) -> bool {
        let stopped = || *self.stopped.get_or_init(|| self.clock.steady());
        self.stop.is_cancelled() && self.clock.steady().saturating_sub(stopped()) > LAST
    }

    /// Returns the parts of an image, or an error once the time is over.
    fn limit(self, parts: impl Iterator<Item = Vec<u8>>) -> impl Iterator<Item = io::Result<Vec<u8>>> {
        parts.map(move |part| if self.is_over() { Err(ErrorKind::TimedOut.into()) } else { Ok(part) })
    }
}

impl Imaging {
    /// Writes the images that are missing or too old, until the daemon stops, and once more then.
    pub(crate) async fn keep(self) {
        let (stop, clock) = (self.tasks.stopping().clone(), self.clock.clone());
        let deadline = Deadline { stop, clock, stopped: Arc::default() };
        let mut pause = INTERVAL;
        loop {
            // Only the pause is cancelled, so that no two images of a table are written at the same time.
            let is_stopping = deadline.stop.run_until_cancelled(time::sleep(pause)).await.is_none();
            let began = self.clock.steady();
            self.write_due(&deadline).await;
            pause = INTERVAL + PAUSE_FACTOR * self.clock.steady().saturating_sub(began);
            if is_stopping {
                return;
            }
        }
    }

    async fn write_due(&self, deadline: &Deadline) {
        for space in self.directory.spaces() {
            if !self.tasks.is_broken() && !deadline.is_over() && self.is_due(&space) {
                self.write(space, deadline.clone()).await;
            }
        }
    }

    /// Whether a start would have to apply too many edits to the table of the image.
    fn is_due(&self, space: &Space) -> bool {
        let regions = space.read(Table::len);
        let is_old = |image| is_behind(image, space.progress(), regions, self.history_keep);
        regions >= self.images.records_min() && space.imaged().is_none_or(is_old)
    }

    async fn write(&self, space: Arc<Space>, deadline: Deadline) {
        let (images, key, began) = (self.images.clone(), space.key().to_owned(), self.clock.steady());
        let (listed, store) = (space.clone(), self.store);
        let listing = self.tasks.spawn_work(async move { listed.image(store).await });
        // OK because the work ends early only if the daemon stops; then there is no image.
        let Ok((regions, (facts, progress))) = listing.await else { return };
        // With the priority of calls: a thread that rarely runs could hold a lock of the file system that commits need.
        let write = move || images.replace(&key, &mut deadline.limit(stored::encode_image(facts, &regions)));
        let writing = self.tasks.spawn_locking(write);
        let Ok(written) = writing.await else { return };
        match written {
            Ok(()) => {
                space.set_imaged(progress);
                let millis = self.clock.steady().saturating_sub(began).as_millis();
                debug!(space = space.key(), regions = facts.regions, millis, "image of the table written");
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            Err(error) => {
                warn!(space = space.key(), %error, "cannot write the image of the table; the next start takes longer");
            }
        }
    }
}

/// Whether an image is too far behind the table. The later edits must all be in the history. Applying them may take a start
/// an eighth of the time in which it would read all regions from their records, or at least an eighth of a second, but at
/// most half of that time, and at most a second.
fn is_behind(image: Progress, present: Progress, regions: usize, history_keep: u64) -> bool {
    let edits = present.revision.0.saturating_sub(image.revision.0);
    let changes = present.changes.saturating_sub(image.changes);
    let regions = regions as u64; // OK because a length in memory fits 64 bits
    let of_edits = edits.saturating_mul(REGIONS_PER_STEP as u64); // OK because the number is small
    let of_changes = changes.saturating_mul(REGIONS_PER_CHANGE);
    let most = (regions / 8).max(EIGHTH_OF_A_SECOND).min(regions / 2).min(SECOND);
    of_edits.saturating_add(of_changes) > most || edits > history_keep / 2
}

#[cfg(test)]
mod tests {
    use kent_ids::{DEFAULT_SPACE, UnixNanos};
    use kent_proto::{model::EditOptions, stored::Counter};
    use kent_regions::{Count, Edit, NewRegion, Order, Patch, Place, Prefix, RegionNumber, Revision, Start};
    use kent_store::{MemoryStore, Store, StoreId, Txn};

    use super::*;
    use crate::{
        auth::Caller,
        engine::{Engine, EngineSettings, Place as At},
        host::{Environment, clock::SystemClock, entropy::SystemEntropy},
        records::keys,
        tables::edits::EditCommand,
    };

    /// A daemon on a store in memory.
    struct Daemon {
        store: Arc<MemoryStore>,
        engine: Arc<Engine>,
        tasks: Tasks,
    }

    impl Daemon {
        async fn start(store: MemoryStore, history_keep: u64) -> Self {
            let (store, tasks) = (Arc::new(store), Tasks::on_this_runtime());
            let environment = Environment {
                store: store.clone(),
                clock: Arc::new(SystemClock::new()),
                entropy: Arc::new(SystemEntropy),
            };
            let place = At { kind: "memory", location: String::new(), address: String::new(), directories: Vec::new() };
            let settings = EngineSettings { history_keep, ..EngineSettings::for_tests() };
            let engine = Engine::load(environment, settings, place, &tasks).await.expect("it starts");
            Self { store, engine, tasks }
        }

        /// Stops the daemon, which writes the image that is due, and starts another one.
        async fn restart(self) -> Self {
            self.tasks.stop().await;
            self.crash().await
        }

        /// Starts another daemon on the same store. This one does nothing more.
        async fn crash(self) -> Self {
            Self::start(self.store.reopen(), 1000).await
        }

        fn space(&self) -> Arc<Space> {
            self.engine.directory().by_key(DEFAULT_SPACE).expect("there")
        }

        /// Makes an edit, or is refused.
        async fn edit(&self, edit: Edit) -> bool {
            let (space, options, undoes) = (DEFAULT_SPACE.to_owned(), EditOptions::default(), None);
            let (principal, caller) = ("test".to_owned(), Caller::DAEMON);
            let command = EditCommand { space, number: None, edit, options, principal, caller, undoes };
            self.engine.edit(command).await.is_ok()
        }

        /// Sets a region's counter, as a reservation does.
        async fn reserve(&self, name: &str, reserved: u128) {
            let facts = |table: &Table| table.named(name).map(|region| (region.number, region.capacity()));
            let Ok((number, capacity)) = self.space().read(facts) else { return };
            let counter =
                Counter { reserved: Count::Below(reserved).min(capacity), paid: UnixNanos::new(0), unsure: false };
            let record = stored::encode_counter(&counter);
            self.store.commit(Txn::new().put(keys::counter(DEFAULT_SPACE, number.0), record)).await.expect("stored");
            self.space().refresh_reserved(&*self.store, number).await.expect("read");
        }

        async fn create(&self, name: String, at: u64) -> bool {
            let place = Place::At(Prefix::new(at.into(), 50));
            let start = Start { next: Count::ZERO, order: Order::Sequential, ..Start::default() };
            self.edit(Edit::Create { name, suffix: 8, place, start }).await
        }

        /// Checks that the table is the one that the records describe.
        async fn check(&self) {
            let state = State::load(&*self.store, DEFAULT_SPACE).await.expect("valid").expect("not deleted");
            let space = Space::new(DEFAULT_SPACE.to_owned(), None, state);
            let store = self.store.store_id().to_bytes();
            let image = async |space: &Space| {
                let (regions, (facts, _)) = space.image(store).await;
                (regions, facts)
            };
            assert_eq!(image(&self.space()).await, image(&space).await);
            let table = space.read(Table::clone);
            self.space().read(|found| {
                assert_eq!(found, &table);
                found.check().expect("no damage");
            });
        }
    }

    fn new_store() -> MemoryStore {
        MemoryStore::new(StoreId::new([3; 16]))
    }

    fn change(name: &str, patch: Patch) -> Edit {
        Edit::Update { name: name.to_owned(), patch }
    }

    #[test]
    fn ok_an_image_may_be_behind_by_few_edits() {
        let image = Progress { revision: Revision(7), changes: 7 };
        for (regions, history_keep, changes_per_edit, most) in [
            (1_000, 100_000, 1, 7),
            (100_000, 100_000, 1, 746),
            (1_000_000, 100_000, 1, 1865),
            (1_000_000, 100_000, 56, 538),
            (10_000_000, 100_000, 1, 7825),
            (1_000_000, 1_000, 1, 500),
        ] {
            let is_behind = |edits: u64| {
                let present = Progress { revision: Revision(7 + edits), changes: 7 + edits * changes_per_edit };
                is_behind(image, present, regions, history_keep)
            };
            assert!(!is_behind(most) && is_behind(most + 1), "{regions} regions, {changes_per_edit} changes per edit");
        }
    }

    #[tokio::test]
    async fn ok_each_region_that_an_edit_changes_is_counted() {
        let daemon = Daemon::start(new_store(), 1000).await;
        assert!(daemon.create("a".to_owned(), 0).await);
        assert_eq!(daemon.space().progress(), Progress { revision: Revision(1), changes: 1 });
        let new_region = |name: &str| NewRegion {
            name: name.to_owned(),
            suffix: Some(4),
            extension: None,
            start: Start { next: Count::ZERO, order: Order::Sequential, ..Start::default() },
        };
        let new_regions = ["b", "c", "d"].map(new_region).to_vec();
        assert!(daemon.edit(Edit::Split { name: "a".to_owned(), by: 2, new_regions }).await);
        assert_eq!(daemon.space().progress(), Progress { revision: Revision(2), changes: 1 + 4 });
    }

    #[tokio::test]
    async fn ok_a_table_from_its_image_is_that_of_the_records() {
        let mut daemon = Daemon::start(new_store(), 1000).await;
        let mut made = 0;
        let mut at: u64 = 1;
        let mut below = |end: u64| {
            at = at.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (at >> 33) % end
        };
        for step in 0..600 {
            let name = format!("r{}", below(20));
            made += u64::from(match below(8) {
                0 | 1 => daemon.create(name, below(40)).await,
                2 => daemon.edit(Edit::Expand { name, by: 1 }).await,
                3 => daemon.edit(Edit::Shrink { name, by: 1 }).await,
                4 => daemon.edit(Edit::Delete { name, unused: true }).await,
                5 => daemon.edit(change(&name, Patch { sealed: Some(step % 2 == 0), ..Patch::default() })).await,
                6 => {
                    let name_after = Some(format!("r{}", below(20)));
                    daemon.edit(change(&name, Patch { name: name_after, ..Patch::default() })).await
                }
                _ => {
                    daemon.reserve(&name, below(200).into()).await;
                    false
                }
            });
            match below(20) {
                0 => {
                    daemon = daemon.restart().await;
                    assert_eq!(daemon.space().imaged(), Some(daemon.space().progress()), "the stop wrote an image");
                    daemon.check().await;
                }
                1 => {
                    let facts = |space: &Space| (space.imaged().map(|it| it.revision), space.read(Table::revision));
                    let before = facts(&daemon.space());
                    daemon = daemon.crash().await;
                    // Before the task that follows other replicas runs.
                    assert_eq!(facts(&daemon.space()), before, "the image is used, and later edits are applied");
                    daemon.check().await;
                }
                _ => {}
            }
        }
        assert!(made > 200, "{made} edits were made");
    }

    #[tokio::test]
    async fn err_an_image_that_does_not_fit_is_not_used() {
        let daemon = Daemon::start(new_store(), 1000).await;
        assert!(daemon.create("a".to_owned(), 0).await);
        let daemon = daemon.restart().await;
        let imaged = |daemon: &Daemon| daemon.space().imaged().map(|it| it.revision);
        assert_eq!(imaged(&daemon), Some(Revision(1)));
        let images = daemon.store.images().expect("images");
        let parts =
            || images.open(DEFAULT_SPACE).expect("readable").expect("there").map(|part| part.expect("readable"));
        let whole: Vec<_> = parts().collect();
        let facts = stored::decode_image_head(&whole[0]).expect("the head");
        let region = stored::decode_image_part(&whole[1]).expect("a part").next().expect("a region").expect("valid");
        let with = |change: fn(&mut ImageFacts)| {
            let mut facts = facts;
            change(&mut facts);
            stored::encode_image(facts, std::slice::from_ref(&region)).collect::<Vec<_>>()
        };
        let unfit = [
            Vec::new(),
            vec![b"\xff".to_vec()],
            whole[..1].to_vec(),
            [&whole[..], &whole[1..]].concat(),
            with(|facts| facts.edit.0[0] ^= 1),
            with(|facts| facts.store[0] ^= 1),
            with(|facts| facts.version += 1000),
            with(|facts| facts.revision = Revision(0)),
            with(|facts| facts.revision = Revision(2)),
            with(|facts| facts.bits = 63),
            with(|facts| facts.next_number = RegionNumber(1)),
        ];
        let mut daemon = daemon;
        for image in unfit {
            images.replace(DEFAULT_SPACE, &mut image.into_iter().map(Ok)).expect("replaced");
            daemon = daemon.crash().await;
            assert_eq!(daemon.space().imaged(), None);
            assert!(images.open(DEFAULT_SPACE).expect("readable").is_none(), "it was removed");
            daemon.check().await;
        }
        images.replace(DEFAULT_SPACE, &mut whole.into_iter().map(Ok)).expect("replaced");
        let daemon = daemon.crash().await;
        assert_eq!(imaged(&daemon), Some(Revision(1)));
    }
}
