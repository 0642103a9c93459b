//! Tables at earlier revisions.
//!
//! A past table is computed once, from the current table and the edits since. The table is kept for later pages, so
//! that a page costs only its own regions. One table is computed at a time, and the last two are kept. Unchanged
//! regions are shared with the current table.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use kent_regions::{Prefix, Region, RegionNumber, Revision};
use kent_store::Store;
use thiserror::Error;

use crate::{
    host::computing::{Busy, Computing, YieldEvery},
    tables::{
        history::{self, HistoryError},
        space::Space,
    },
};

/// The number of past tables to keep.
const KEPT_MAX: usize = 2;

/// The past tables that were requested most recently.
#[derive(Debug, Default)]
pub(crate) struct Past {
    kept: Mutex<VecDeque<Arc<PastTable>>>,
    /// Held during the computation of a table.
    making: tokio::sync::Mutex<()>,
}

/// A table at an earlier revision, without counters.
#[derive(Debug)]
pub(crate) struct PastTable {
    space: String,
    revision: Revision,
    /// The regions, in the order of their prefixes.
    regions: Vec<Arc<Region>>,
    /// Indexes into `regions`, in the order of the regions' numbers.
    by_number: Vec<u32>,
}

/// Reasons that a past table cannot be shown.
#[derive(Debug, Error)]
pub(crate) enum PastError {
    /// The record of an edit was removed, or could not be read.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// Too many calls are computing tables.
    #[error(transparent)]
    Busy(#[from] Busy),
}

impl Past {
    /// Returns the table of a space at a revision that is not later than the current one.
    ///
    /// # Errors
    ///
    /// [`PastError`].
    pub(crate) async fn table(
        &self,
        store: &dyn Store,
        computing: &Computing,
        space: &Space,
        revision: Revision,
    ) -> Result<Arc<PastTable>, PastError> {
        if let Some(kept) = self.kept(space, revision) {
            return Ok(kept);
        }
        history::check(store, space, revision).await?;
        let _making = self.making.lock().await;
        // Another caller may have computed the table while we waited.
        if let Some(kept) = self.kept(space, revision) {
            return Ok(kept);
        }
        let made = Arc::new(make(store, computing, space, revision).await?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let dropped = (kept.len() == KEPT_MAX).then(|| kept.pop_back());
        kept.push_front(made.clone());
        drop(kept);
        drop(dropped);
        Ok(made)
    }

    /// Returns the table if it is kept, and marks the table as the most recently requested one.
    fn kept(&self, space: &Space, revision: Revision) -> Option<Arc<PastTable>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|table| table.space == space.key() && table.revision == revision)?;
        let table = kept.remove(at)?;
        kept.push_front(table.clone());
        Some(table)
    }
}

/// Dropping a large table takes a long time, so the loop yields.
impl Drop for PastTable {
    fn drop(&mut self) {
        let mut yields = YieldEvery::new(STEPS);
        self.regions.drain(..).for_each(|_| yields.step());
    }
}

/// The number of regions to process before yielding: about 20 microseconds of work.
const STEPS: u32 = 512;

/// Computes the table at a revision by undoing the later edits, last one first.
async fn make(
    store: &dyn Store,
    computing: &Computing,
    space: &Space,
    revision: Revision,
) -> Result<PastTable, PastError> {
    let (regions, present) = space.listing().await;
    let before = undone(store, space, present, revision).await?;
    let space = space.key().to_owned();
    Ok(computing.run(move || PastTable::new(space, revision, regions, before)).await?)
}

/// Regions as they were at an earlier revision, or `None` if they did not exist.
pub(crate) type Before = HashMap<RegionNumber, Option<Region>>;

/// Returns the regions that the edits from `past` (exclusive) to `present` (inclusive) changed, as they were at `past`.
///
/// # Errors
///
/// [`HistoryError`].
pub(crate) async fn undone(
    store: &dyn Store,
    space: &Space,
    present: Revision,
    past: Revision,
) -> Result<Before, HistoryError> {
    let (mut before, mut at) = (Before::new(), present);
    while at > past {
        let entry = history::expected(store, space, at).await?;
        at = entry.follows.unwrap_or(Revision(at.0 - 1)); // OK because `at` is above `past`
        before.extend(entry.changes.into_iter().map(|change| (change.number, change.before)));
    }
    Ok(before)
}

impl PastTable {
    fn new(space: String, revision: Revision, present: Vec<Arc<Region>>, before: Before) -> Self {
        let (mut regions, mut yields) = (present, YieldEvery::new(STEPS));
        regions.retain(|region| {
            yields.step();
            !before.contains_key(&region.number)
        });
        regions.extend(before.into_values().flatten().map(Arc::new));
        regions.sort_by_key(|region| {
            yields.step();
            region.prefix
        });
        // OK because a table of 2^32 regions does not fit in memory.
        let mut by_number: Vec<u32> = (0..regions.len()).map(|at| u32::try_from(at).unwrap_or(u32::MAX)).collect();
        by_number.sort_by_key(|at| {
            yields.step();
            regions[*at as usize].number
        });
        Self { space, revision, regions, by_number }
    }

    /// Returns up to `size` regions after a prefix, and whether there are more.
    pub(crate) fn page(&self, after: Option<Prefix>, size: usize) -> (&[Arc<Region>], bool) {
        let from = after.map_or(0, |after| self.regions.partition_point(|region| region.prefix <= after));
        let rest = &self.regions[from..];
        (&rest[..rest.len().min(size)], rest.len() > size)
    }

    /// The name of a region at this revision.
    pub(crate) fn name_of(&self, number: RegionNumber) -> Option<&str> {
        let region = |at: &u32| &self.regions[*at as usize];
        let at = self.by_number.binary_search_by_key(&number, |at| region(at).number).ok()?;
        Some(&region(&self.by_number[at]).name)
    }
}
