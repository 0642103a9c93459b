//! Images of large tables, so that a start need not read the record of each region.
//!
//! An image contains the table at one revision. Whether it fits the store is decided by the edit that made this
//! revision: every edit has an ID of its own, which is in the record of the space and in the history. A start reads the
//! image, applies the later edits from the history, as a replica does, and then reads all counters. If anything does not
//! fit, it reads all records instead.

use std::{io, sync::Arc, time::Duration};

use kent_issue::Stored;
use kent_proto::stored::{self, ImageFacts, ImageRegion, Malformed, SpaceFacts};
use kent_regions::{Damage, Table};
use kent_store::{Images, Versioned};
use thiserror::Error;
use tokio::time;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{
    directory::Directory,
    history,
    space::{Space, State, read_counters},
};
use crate::{
    host::{clock::Clock, tasks::Tasks},
    records::failure::{LoadError, StoreFailure},
};

/// The number of regions whose records are read in the time in which one edit is applied.
pub(super) const REGIONS_PER_STEP: usize = 64;

/// The interval between two checks for tables that need an image.
const INTERVAL: Duration = Duration::from_secs(5);

/// After each image, the task pauses for this multiple of the time that the image took.
const PAUSE_FACTOR: u32 = 100;

/// Reasons that an image is not used.
#[derive(Debug, Error)]
enum Unused {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{}", .0.what)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Damaged(#[from] Damage),
    #[error("a part is missing")]
    Incomplete,
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
                }
            }
        }
        match (State::load(&*self.store, key).await?, self.by_key(key)) {
            (None, _) => self.mark_deleted(key),
            (Some(state), None) => drop(self.insert(key, state)?),
            (Some(state), Some(space)) => space.replace(state),
        }
        Ok(())
    }

    /// Adds a space to memory from its image, and then applies the later edits. Returns false if there is no image.
    /// After an error, the table in memory must be replaced.
    async fn load_image(
        &self,
        images: &dyn Images,
        key: &str,
        (facts, record): (&SpaceFacts, &Versioned),
    ) -> Result<bool, Unused> {
        let Some((image, regions)) = read(images, key)? else { return Ok(false) };
        let state = State::of_image(&image, regions, (facts.scramble_key, facts.text_form))?;
        let space = self.insert(key, state)?;
        let _editing = space.editing.lock().await;
        let made = match image.revision == facts.revision {
            true => Some(facts.last_edit),
            false => history::entry(&*self.store, &space, image.revision).await?.map(|entry| entry.edit),
        };
        if made != Some(image.edit) {
            return Err(Unused::OtherHistory);
        }
        self.catch_up(&space, record).await?;
        // The counters in the image are old. Edits do not depend on them, because each reads the counter that it needs.
        for (number, counter) in read_counters(&*self.store, key).await? {
            space.set_reserved(number, Stored { version: counter.version.get(), value: counter.reserved });
        }
        let edits = space.read(Table::revision).0.saturating_sub(image.revision.0);
        debug!(space = key, regions = image.regions, edits, "table read from its image");
        space.set_imaged(image.revision);
        Ok(true)
    }
}

/// Reads an image; returns `None` if there is none.
fn read(images: &dyn Images, key: &str) -> Result<Option<(ImageFacts, Vec<ImageRegion>)>, Unused> {
    let Some(mut parts) = images.open(key)? else { return Ok(None) };
    let image = stored::decode_image_head(&parts.next().ok_or(Unused::Incomplete)??)?;
    // OK because the number is bounded; the list grows if there are more.
    let mut regions = Vec::with_capacity(image.regions.min(1 << 24) as usize);
    for part in parts {
        for region in stored::decode_image_part(&part?)? {
            regions.push(region?);
        }
    }
    let is_complete = u64::try_from(regions.len()) == Ok(image.regions);
    if is_complete { Ok(Some((image, regions))) } else { Err(Unused::Incomplete) }
}

/// The task that writes images.
#[derive(Debug)]
pub(crate) struct Imaging {
    pub(crate) images: Arc<dyn Images>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tasks: Tasks,
    /// The number of edits that the history keeps. If an image were older, it could not be used.
    pub(crate) history_keep: u64,
}

impl Imaging {
    /// Writes the images that are missing or too old, until `stop`, and once more then.
    pub(crate) async fn keep(self, stop: CancellationToken) {
        let mut pause = INTERVAL;
        loop {
            // Only the pause is cancelled, so that no two images of a table are written at the same time.
            let is_stopping = stop.run_until_cancelled(time::sleep(pause)).await.is_none();
            let began = self.clock.steady();
            self.write_due().await;
            pause = INTERVAL + PAUSE_FACTOR * self.clock.steady().saturating_sub(began);
            if is_stopping {
                return;
            }
        }
    }

    async fn write_due(&self) {
        for space in self.directory.spaces() {
            if !self.tasks.is_broken() && self.is_due(&space) {
                self.write(space).await;
            }
        }
    }

    /// Whether a start would have to apply so many edits to the image that they would take half as long as the records.
    fn is_due(&self, space: &Space) -> bool {
        let (regions, revision) = space.read(|table| (table.len(), table.revision().0));
        let behind = space.imaged().map(|imaged| revision.saturating_sub(imaged.0));
        let most = (regions / REGIONS_PER_STEP / 2) as u64; // OK because a length in memory fits 64 bits
        regions >= self.images.records_min() && behind.is_none_or(|behind| behind > most.min(self.history_keep / 2))
    }

    async fn write(&self, space: Arc<Space>) {
        let (images, key, began) = (self.images.clone(), space.key().to_owned(), self.clock.steady());
        let listed = space.clone();
        let listing = self.tasks.spawn_work(async move { listed.image().await });
        // OK because the work ends early only if the daemon stops; then there is no image.
        let Ok((regions, facts)) = listing.await else { return };
        let writing = self.tasks.spawn_busy(move || images.replace(&key, &mut stored::encode_image(facts, &regions)));
        let Ok(written) = writing.await else { return };
        match written {
            Ok(()) => {
                space.set_imaged(facts.revision);
                let millis = self.clock.steady().saturating_sub(began).as_millis();
                debug!(space = space.key(), regions = facts.regions, millis, "image of the table written");
            }
            Err(error) => {
                warn!(space = space.key(), %error, "cannot write the image of the table; the next start takes longer");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kent_ids::{DEFAULT_SPACE, UnixNanos};
    use kent_proto::{model::EditOptions, stored::Counter};
    use kent_regions::{Count, Edit, Order, Patch, Place, Prefix, RegionNumber, Revision, Start};
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
            assert_eq!(self.space().image().await, space.image().await);
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
                    let revision = daemon.space().read(Table::revision);
                    assert_eq!(daemon.space().imaged(), Some(revision), "the stop wrote an image");
                    daemon.check().await;
                }
                1 => {
                    let imaged = daemon.space().imaged();
                    daemon = daemon.crash().await;
                    assert_eq!(daemon.space().imaged(), imaged, "the image is still used");
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
        assert_eq!(daemon.space().imaged(), Some(Revision(1)));
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
            with(|facts| facts.revision = Revision(0)),
            with(|facts| facts.revision = Revision(2)),
            with(|facts| facts.bits = 63),
            with(|facts| facts.next_number = RegionNumber(1)),
        ];
        let mut daemon = daemon;
        for image in unfit {
            images.replace(DEFAULT_SPACE, &mut image.into_iter()).expect("replaced");
            daemon = daemon.crash().await;
            assert_eq!(daemon.space().imaged(), None);
            daemon.check().await;
        }
        images.replace(DEFAULT_SPACE, &mut whole.into_iter()).expect("replaced");
        let daemon = daemon.crash().await;
        assert_eq!(daemon.space().imaged(), Some(Revision(1)));
    }
}
