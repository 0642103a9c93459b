//! Granting from series: identifiers that a durable counter counts, without a region around them.

use std::{
    collections::BTreeMap,
    num::NonZeroU64,
    sync::{Arc, Mutex, PoisonError},
};

use kent_ids::{Block, ClusterKey, Series, Source};
use kent_issue::{Chunk, CounterRefusal};
use kent_regions::{Count, Pace};
use kent_store::Store;
use tokio::time;
use tracing::debug;

use crate::{
    cell::{Attempt, Cell, Record},
    clock::Clock,
    counters::{ATTEMPTS, HeldChunk},
    deadline::Patience,
    error::{AllocateError, StoreFailure},
    keys,
    pacing::Pacing,
    tasks::Tasks,
};

/// Grants from series.
#[derive(Clone, Debug)]
pub(crate) struct SeriesCounters {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    key: ClusterKey,
    chunk: Chunk,
    tasks: Tasks,
    pacing: Arc<Pacing>,
    /// In order, so that a simulated run can be repeated.
    cells: Arc<Mutex<BTreeMap<Series, Arc<Cell>>>>,
}

/// So many series there can be: each is a record for ever, and whoever may allocate may begin one.
const SERIES_MAX: usize = 100_000;

impl SeriesCounters {
    /// The series of this store.
    pub(crate) async fn load(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        key: ClusterKey,
        chunk: Chunk,
        tasks: Tasks,
        pacing: Arc<Pacing>,
    ) -> Result<Self, StoreFailure> {
        let mut cells = BTreeMap::new();
        for (key, versioned) in store.scan(&keys::SERIES).await? {
            kent_proto::stored::decode_counter(&versioned.value)?;
            cells.insert(keys::parse_series(&key)?, Arc::new(Cell::new(chunk)));
        }
        Ok(Self { store, clock, key, chunk, tasks, pacing, cells: Arc::new(Mutex::new(cells)) })
    }

    /// Grants a block of a series' numbers, reserving a chunk if the one in hand does not hold enough.
    pub(crate) async fn grant(
        &self,
        series: &Series,
        count: NonZeroU64,
        patience: Patience,
    ) -> Result<Block, AllocateError> {
        let cell = self.cell(series)?;
        for _ in 0..ATTEMPTS {
            if let Ok(first) = cell.with(|counter| counter.grant(count.get())) {
                return Block::series(series.clone(), self.key, first, count.get()).map_err(AllocateError::Broken);
            }
            // A reservation goes on although its caller goes away: what it reserves is then there for the next one.
            let reservation = self.tasks.spawn_work_aboard(self.clone().reserve(series.clone(), cell.clone(), count));
            match time::timeout(patience.left(self.clock.steady()), reservation).await {
                Ok(Ok(reserved)) => self.pacing.wait(reserved, patience).await?,
                Ok(Err(_)) | Err(_) => return Err(AllocateError::Late),
            }
        }
        Err(AllocateError::Contended { attempts: ATTEMPTS })
    }

    async fn reserve(self, series: Series, cell: Arc<Cell>, count: NonZeroU64) -> Result<(), AllocateError> {
        let _reserving = cell.reserving.lock().await;
        if cell.with(|counter| counter.left()) >= count.get().into() {
            return Ok(());
        }
        self.pacing.check_restored()?;
        let record = record(&series);
        match cell.try_reserve(&*self.store, &self.pacing, &record, count, self.clock.steady()).await? {
            Attempt::Reserved(reserved) => {
                debug!(%series, reserved = %reserved.value, "chunk reserved");
                Ok(())
            }
            Attempt::Conflict(_) => Ok(()),
            Attempt::Refused(CounterRefusal::Full { capacity, reserved }) => {
                Err(AllocateError::SeriesExhausted { series, left: capacity.since(reserved), asked: count.get() })
            }
            Attempt::Refused(CounterRefusal::TooFast(refused)) => {
                Err(AllocateError::too_fast(series.to_string(), record.pace, count, refused))
            }
            Attempt::Unsure => Err(AllocateError::Unsure { subject: series.to_string(), region: None }),
        }
    }

    /// Chunks that this daemon holds, of the first so many series.
    pub(crate) fn held(&self, most: usize) -> Vec<HeldChunk> {
        let chunks = self.cells(most).into_iter().filter_map(|(series, cell)| {
            let left = cell.with(|counter| counter.left());
            (left > 0).then_some(HeldChunk { source: Source::Series(series), left })
        });
        chunks.collect()
    }

    /// Gives the rest of every chunk back. Nothing is granted from them any more.
    pub(crate) async fn give_back_all(&self) {
        for (series, cell) in self.cells(usize::MAX) {
            let _reserving = cell.reserving.lock().await;
            cell.give_back(&*self.store, &keys::series(&series)).await;
        }
    }

    fn cell(&self, series: &Series) -> Result<Arc<Cell>, AllocateError> {
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cells.get(series) {
            return Ok(known.clone());
        }
        if cells.len() >= SERIES_MAX {
            return Err(AllocateError::TooManySeries { max: SERIES_MAX });
        }
        let cell = Arc::new(Cell::new(self.chunk));
        cells.insert(series.clone(), cell.clone());
        Ok(cell)
    }

    fn cells(&self, most: usize) -> Vec<(Series, Arc<Cell>)> {
        let cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.iter().take(most).map(|(series, cell)| (series.clone(), cell.clone())).collect()
    }
}

fn record(series: &Series) -> Record {
    Record { key: keys::series(series), guard: None, first: series.first(), capacity: series.end(), pace: pace(series) }
}

/// How fast a series may move: it is never written down, since it follows from the series' length.
pub(crate) fn pace(series: &Series) -> Pace {
    Pace::for_bits(Count::Below(series.end().get()).bits())
}
