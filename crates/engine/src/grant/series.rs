//! Grants from series: sources with a durable counter and no region.
//!
//! Except for the built-in series, only *listed* series issue identifiers. A request for a series that is not listed
//! adds the series to the list, unless requests have already added `--series-on-demand` series. Operators can list more
//! series, and can forget any listed series. Forgetting removes only the listing: the counter's record stays, so a
//! series that is listed again continues where it stopped. A reservation compares the version of the listing, so that
//! other replicas notice a change.

use std::{
    collections::BTreeMap,
    num::NonZeroU64,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::try_join_all;
use kent_ids::{Block, ClusterKey, Series, Source, Stride};
use kent_issue::{Chunk, CounterRefusal, Stored, series_pace};
use kent_proto::stored::{self, Listed, SeriesCount};
use kent_regions::Count;
use kent_store::{CommitError, Pages, Store, Txn, Version};
use tracing::{debug, info};

use super::outcome::{HeldChunk, TryGrant, Wait};
use crate::{
    audit::{By, Event, Outcome},
    error::{AllocateError, SeriesError},
    host::{clock::Clock, tasks::Tasks},
    issuing::{
        cell::{Attempt, Cell},
        pacing::Pacing,
        record::Record,
    },
    records::{counters::read_counter, failure::StoreFailure, keys},
};

/// Grants from series.
#[derive(Clone, Debug)]
pub struct SeriesGrants {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    key: ClusterKey,
    chunk: Chunk,
    /// The maximum number of series that requests can create.
    on_demand_max: u64,
    tasks: Tasks,
    pacing: Arc<Pacing>,
    /// Ordered by series, so that a simulated run is repeatable.
    known: Arc<Mutex<BTreeMap<Series, Known>>>,
    /// Held while this daemon changes the listing.
    listing: Arc<tokio::sync::Mutex<()>>,
}

/// A series in memory.
#[derive(Clone, Debug)]
struct Known {
    cell: Arc<Cell>,
    /// The version of the listing; absent for the built-in series.
    listed: Version,
}

/// A listed series, as operators see it.
#[derive(Clone, Debug)]
pub struct ListedSeries {
    /// The series.
    pub series: Series,
    /// Numbers below this one are issued or reserved.
    pub reserved: Count,
    /// Whether a request created the series.
    pub on_demand: bool,
}

/// The maximum number of attempts to change the listing when other replicas change it at the same time.
const ATTEMPTS: u32 = 16;

/// The maximum number of series that operators can create.
const OPERATOR_SERIES_MAX: u64 = 1_000_000;

impl SeriesGrants {
    /// Checks that the counters of all series are readable. Starts with no series in memory.
    pub(crate) async fn load(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        key: ClusterKey,
        (chunk, on_demand_max): (Chunk, u64),
        tasks: Tasks,
        pacing: Arc<Pacing>,
    ) -> Result<Self, StoreFailure> {
        let mut pages = store.pages(&keys::SERIES).await?;
        while let Some(page) = pages.next().await? {
            for (key, versioned) in page {
                stored::decode_counter(&versioned.value)?;
                keys::parse_series(&key)?;
            }
        }
        drop(pages);
        let (known, listing) = (Arc::default(), Arc::default());
        Ok(Self { store, clock, key, chunk, on_demand_max, tasks, pacing, known, listing })
    }

    /// Grants a block of a series' numbers from the chunk in memory; if too little is left, the caller has to wait for
    /// a chunk.
    pub(super) fn try_grant(&self, series: &Series, count: NonZeroU64) -> Result<TryGrant<Block>, AllocateError> {
        let known = self.known(series);
        let cut = known.as_ref().and_then(|known| known.cell.cut(count.get().into(), series.end()));
        let (Some((first, is_low)), Some(known)) = (cut, known) else {
            return Ok(TryGrant::Wait(Wait::Series(series.clone())));
        };
        if is_low && known.cell.begin_ahead() {
            self.tasks.spawn_work_local(self.clone().reserve_ahead(series.clone(), known));
        }
        let block = Block::series(series.clone(), self.key, first, count.get()).map_err(AllocateError::Broken)?;
        Ok(TryGrant::Granted(block, self.clock.steady()))
    }

    /// Prefetches the next chunk, so that grants do not wait for the store. If the prefetch fails, the next grant that
    /// needs a chunk reserves one.
    async fn reserve_ahead(self, series: Series, Known { cell, listed }: Known) {
        let _reserving = cell.reserving.lock().await;
        let record = record(&series, listed);
        let ahead = cell.try_reserve_ahead(&*self.store, &self.pacing, &record, self.clock.steady()).await;
        if let Ok(Some(reserved)) = ahead {
            cell.end_ahead();
            debug!(%series, reserved = %reserved.value, "chunk reserved ahead");
        }
    }

    /// Reserves a chunk of at least `count` numbers, unless another call did so in the meantime.
    pub(super) async fn reserve(self, series: Series, count: NonZeroU64) -> Result<(), AllocateError> {
        self.pacing.check_restored()?;
        let Some(Known { cell, listed }) = self.get_or_list(&series).await? else { return Ok(()) };
        let _reserving = cell.reserving.lock().await;
        if cell.with(|counter| counter.left()) >= count.get().into() {
            return Ok(());
        }
        let record = record(&series, listed);
        match cell.try_reserve(&*self.store, &self.pacing, &record, count, self.clock.steady()).await? {
            Attempt::Reserved(reserved) => {
                cell.end_ahead();
                debug!(%series, reserved = %reserved.value, "chunk reserved");
                Ok(())
            }
            Attempt::Conflict(key) => {
                if key != record.key {
                    // The series was forgotten or listed again, possibly by another replica.
                    self.refresh_listing(&series, listed).await?;
                }
                Ok(())
            }
            Attempt::Refused(CounterRefusal::Full { capacity, reserved }) => {
                Err(AllocateError::SeriesExhausted { series, left: capacity.since(reserved), requested: count.get() })
            }
            Attempt::Refused(CounterRefusal::TooFast(refused)) => {
                Err(AllocateError::too_fast(series.to_string(), record.pace, count, refused))
            }
            Attempt::Unsure => Err(AllocateError::Unsure { subject: series.to_string(), region: None }),
        }
    }

    /// Returns the series, and lists it first if necessary. Returns `None` if another replica changes the listing, or
    /// the number of listed series, at the same time, or if the outcome is unknown.
    async fn get_or_list(&self, series: &Series) -> Result<Option<Known>, AllocateError> {
        if let Some(known) = self.known(series) {
            return Ok(Some(known));
        }
        if is_builtin(series) {
            return Ok(Some(self.insert(series, Version::ABSENT)));
        }
        if let Some(read) = self.store.get(&keys::listed(series)).await.map_err(StoreFailure::from)? {
            return Ok(Some(self.insert(series, read.version)));
        }
        let _listing = self.listing.lock().await;
        let count = self.count().await?;
        if count.value.on_demand >= self.on_demand_max {
            return Err(AllocateError::TooManySeries { series: series.clone(), max: self.on_demand_max });
        }
        let after = SeriesCount { on_demand: count.value.on_demand + 1, ..count.value };
        let listed = Listed { on_demand: true };
        let made = self.list(series, Version::ABSENT, Some(listed), count.version, after).await?;
        Ok(made.map(|version| {
            Event::new("series.create", &By::daemon(), series.to_string()).note("on demand").record(Outcome::Done);
            info!(%series, "series created on demand");
            self.insert(series, version)
        }))
    }

    /// Lists a series for an operator. A series that a request created counts as created by an operator afterward. A
    /// series that an operator created does not change.
    pub async fn create(&self, series: &Series) -> Result<ListedSeries, SeriesError> {
        if is_builtin(series) {
            return Err(SeriesError::AlwaysThere { series: series.clone() });
        }
        let _listing = self.listing.lock().await;
        for _ in 0..ATTEMPTS {
            let (read, count) = (self.listed(series).await?, self.count().await?);
            if let Some(made) = read.filter(|read| !read.value.on_demand) {
                return Ok(self.as_listed(series.clone(), made.value).await?);
            }
            if count.value.made >= OPERATOR_SERIES_MAX {
                return Err(SeriesError::TooMany { max: OPERATOR_SERIES_MAX });
            }
            let on_demand = count.value.on_demand.saturating_sub(read.is_some().into());
            let (after, version) = (SeriesCount { on_demand, made: count.value.made + 1 }, version_of(read));
            let listed = Listed { on_demand: false };
            if let Some(version) = self.list(series, version, Some(listed), count.version, after).await? {
                self.lock().entry(series.clone()).and_modify(|known| known.listed = version);
                info!(%series, "series listed");
                return Ok(self.as_listed(series.clone(), listed).await?);
            }
        }
        Err(SeriesError::Contended { attempts: ATTEMPTS })
    }

    /// Forgets a series: removes its listing, and returns the rest of this daemon's chunk. The counter's record stays.
    pub async fn forget(&self, series: &Series) -> Result<ListedSeries, SeriesError> {
        if is_builtin(series) {
            return Err(SeriesError::AlwaysThere { series: series.clone() });
        }
        let _listing = self.listing.lock().await;
        for _ in 0..ATTEMPTS {
            if let Some(Known { cell, .. }) = self.known(series) {
                let _reserving = cell.reserving.lock().await;
                cell.give_back(&*self.store, &keys::series(series)).await;
            }
            let missing = || SeriesError::NoSuchSeries { series: series.clone() };
            let (read, count) = (self.listed(series).await?.ok_or_else(missing)?, self.count().await?);
            let after = match read.value.on_demand {
                true => SeriesCount { on_demand: count.value.on_demand.saturating_sub(1), ..count.value },
                false => SeriesCount { made: count.value.made.saturating_sub(1), ..count.value },
            };
            if self.list(series, Version::new(read.version), None, count.version, after).await?.is_some() {
                self.lock().remove(series);
                info!(%series, "series forgotten");
                return Ok(self.as_listed(series.clone(), read.value).await?);
            }
        }
        Err(SeriesError::Contended { attempts: ATTEMPTS })
    }

    /// Reads all listed series as of one moment; see [`SeriesGrants::page`].
    pub async fn pages(&self) -> Result<Box<dyn Pages>, StoreFailure> {
        Ok(self.store.pages(&keys::LISTED_SERIES).await?)
    }

    /// Returns the next page of listed series, with their current counters.
    pub async fn page(&self, pages: &mut dyn Pages) -> Result<Option<Vec<ListedSeries>>, StoreFailure> {
        let Some(page) = pages.next().await? else { return Ok(None) };
        let listed = page.into_iter().map(async |(key, versioned)| {
            let (series, listed) = (keys::parse_listed(&key)?, stored::decode_listed(&versioned.value)?);
            self.as_listed(series, listed).await
        });
        try_join_all(listed).await.map(Some)
    }

    async fn as_listed(&self, series: Series, listed: Listed) -> Result<ListedSeries, StoreFailure> {
        let reserved = read_counter(&*self.store, &keys::series(&series)).await?.value.reserved;
        Ok(ListedSeries { series, reserved, on_demand: listed.on_demand })
    }

    async fn listed(&self, series: &Series) -> Result<Option<Stored<Listed>>, StoreFailure> {
        let Some(read) = self.store.get(&keys::listed(series)).await? else { return Ok(None) };
        Ok(Some(Stored { version: read.version.get(), value: stored::decode_listed(&read.value)? }))
    }

    async fn count(&self) -> Result<Stored<SeriesCount>, StoreFailure> {
        Ok(match self.store.get(&keys::SERIES_COUNT).await? {
            Some(read) => Stored { version: read.version.get(), value: stored::decode_series_count(&read.value)? },
            None => Stored { version: 0, value: SeriesCount::default() },
        })
    }

    /// Changes the listing of a series and the number of listed series in one commit. Returns the new version of the
    /// listing, or `None` if another replica changed one of the two first or the outcome is unknown. The caller then
    /// reads both again.
    async fn list(
        &self,
        series: &Series,
        version: Version,
        listed: Option<Listed>,
        count_version: u64,
        count: SeriesCount,
    ) -> Result<Option<Version>, StoreFailure> {
        let key = keys::listed(series);
        let txn = Txn::new().expect(key.clone(), version).expect(keys::SERIES_COUNT, Version::new(count_version));
        let txn = match listed {
            Some(listed) => txn.put(key, stored::encode_listed(listed)),
            None => txn.delete(key),
        };
        match self.store.commit(txn.put(keys::SERIES_COUNT, stored::encode_series_count(count))).await {
            Ok(made) => Ok(Some(made.version)),
            Err(CommitError::Conflict { .. } | CommitError::Unknown(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists the chunks that this daemon holds, for up to `most` series.
    pub(crate) fn held(&self, most: usize) -> Vec<HeldChunk> {
        let chunks = self.cells(most).into_iter().filter_map(|(series, cell)| {
            let left = cell.with(|counter| counter.left());
            (left > 0).then_some(HeldChunk { source: Source::Series(series), left })
        });
        chunks.collect()
    }

    /// Returns the rest of every chunk to the store. The daemon must not grant anything afterward.
    pub(crate) async fn give_back_all(&self) {
        for (series, cell) in self.cells(usize::MAX) {
            let _reserving = cell.reserving.lock().await;
            cell.give_back(&*self.store, &keys::series(&series)).await;
        }
    }

    /// Lists a series for an operator, and returns its counter in memory; `None` if it was forgotten meanwhile.
    pub(super) async fn open(&self, series: &Series) -> Result<Option<Arc<Cell>>, SeriesError> {
        self.create(series).await?;
        let listed = self.listed(series).await?;
        Ok(listed.map(|listed| self.insert(series, Version::new(listed.version)).cell))
    }

    /// Whether grants of the series use this counter.
    pub(super) fn is_current(&self, series: &Series, cell: &Arc<Cell>) -> bool {
        self.cell(series).is_some_and(|current| Arc::ptr_eq(&current, cell))
    }

    /// Returns the counter of a series in memory.
    pub(super) fn cell(&self, series: &Series) -> Option<Arc<Cell>> {
        self.known(series).map(|known| known.cell)
    }

    /// Reads the counter of a series. After a restore, a missing counter skips what may have been issued.
    pub(super) async fn read(&self, series: &Series) -> Result<Stored<stored::Counter>, StoreFailure> {
        let record = record(series, Version::ABSENT);
        Ok(self.pacing.effective(read_counter(&*self.store, &record.key).await?, &record))
    }

    fn known(&self, series: &Series) -> Option<Known> {
        self.lock().get(series).cloned()
    }

    /// Stores a series in memory, unless another call has already stored it.
    fn insert(&self, series: &Series, listed: Version) -> Known {
        let fresh = || Known { cell: Arc::new(Cell::new(self.chunk)), listed };
        self.lock().entry(series.clone()).or_insert_with(fresh).clone()
    }

    /// Reads the listing of a series again after the listing has changed. If the series is no longer listed, the rest
    /// of its chunk becomes a gap.
    async fn refresh_listing(&self, series: &Series, before: Version) -> Result<(), StoreFailure> {
        let present = self.listed(series).await?;
        let mut known = self.lock();
        let Some(Known { listed, .. }) = known.get_mut(series).filter(|known| known.listed == before) else {
            return Ok(());
        };
        match present {
            Some(present) => *listed = Version::new(present.version),
            None => drop(known.remove(series)),
        }
        Ok(())
    }

    fn cells(&self, most: usize) -> Vec<(Series, Arc<Cell>)> {
        self.lock().iter().take(most).map(|(series, known)| (series.clone(), known.cell.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Series, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the series is built in. A built-in series is neither listed nor counted.
pub(super) const fn is_builtin(series: &Series) -> bool {
    matches!(series, Series::FullRand)
}

fn version_of(listed: Option<Stored<Listed>>) -> Version {
    listed.map_or(Version::ABSENT, |listed| Version::new(listed.version))
}

fn record(series: &Series, listed: Version) -> Record {
    Record {
        key: keys::series(series),
        guards: (!is_builtin(series)).then(|| (keys::listed(series), listed)).into_iter().collect(),
        first: series.first(),
        capacity: series.end(),
        pace: series_pace(series),
        stride: Stride::EVERY,
        is_of_table: false,
    }
}
