//! Tables at earlier revisions.
//!
//! A past table is computed once, from the current table and the edits after the past revision. The table is kept for
//! later pages, so that a page costs only its own regions. One table is computed at a time, and the last two are kept.
//! Unchanged regions are shared with the current table.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use kent_regions::{Prefix, Region, RegionNumber, Revision, Rewind, Table};
use kent_store::Store;
use thiserror::Error;

use crate::{
    host::computing::{Busy, Computing, YieldEvery},
    tables::{
        history::{self, HistoryError},
        space::Space,
    },
};

/// The number of past tables, and of earlier revisions of maps, to keep.
const KEPT_MAX: usize = 2;

/// The past tables and the earlier revisions of maps that were requested most recently.
#[derive(Debug, Default)]
pub struct Past {
    kept: Mutex<VecDeque<Arc<PastTable>>>,
    earlier: Mutex<VecDeque<Arc<Earlier>>>,
    /// Held during the computation of a table.
    making: tokio::sync::Mutex<()>,
}

/// A table at an earlier revision, without counters.
#[derive(Debug)]
pub struct PastTable {
    space: String,
    revision: Revision,
    /// The regions, in the order of their prefixes.
    regions: Vec<Arc<Region>>,
    /// Indexes into `regions`, in the order of the regions' numbers.
    by_number: Vec<u32>,
}

/// An earlier revision of a table for maps: only the regions that have changed since.
#[derive(Debug)]
pub struct Earlier {
    space: String,
    revision: Revision,
    /// The revision of the current table that `before` goes back from.
    present: Revision,
    before: Before,
    rewind: OnceLock<Rewind>,
}

/// Reasons that a past table cannot be shown.
#[derive(Debug, Error)]
pub enum PastError {
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
    pub async fn table(
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

impl Past {
    /// Returns an earlier revision for maps of a space. Later edits are undone, also those since the last call.
    ///
    /// # Errors
    ///
    /// [`HistoryError`].
    pub async fn earlier(
        &self,
        store: &dyn Store,
        space: &Space,
        revision: Revision,
    ) -> Result<Arc<Earlier>, HistoryError> {
        history::check(store, space, revision).await?;
        let present = space.read(Table::revision);
        let is_same = |earlier: &Arc<Earlier>| earlier.space == space.key() && earlier.revision == revision;
        let known = {
            let kept = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().find(|earlier| is_same(earlier) && earlier.present <= present).cloned()
        };
        if let Some(known) = known.as_ref().filter(|known| known.present == present) {
            return Ok(known.clone());
        }
        let mut before = undone(store, space, present, known.as_ref().map_or(revision, |known| known.present)).await?;
        if let Some(known) = known {
            // If several edits changed a region, the earliest of them shows the region as it was.
            before.extend(known.before.iter().map(|(number, region)| (*number, region.clone())));
        }
        let made = Earlier { space: space.key().to_owned(), revision, present, before, rewind: OnceLock::new() };
        let made = Arc::new(made);
        let mut kept = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|earlier| !is_same(earlier));
        kept.push_front(made.clone());
        kept.truncate(KEPT_MAX);
        Ok(made)
    }
}

/// The number of regions to look up under one lock.
const LOOKUPS: usize = 64;

impl Earlier {
    /// Returns the differences from the current table. The first call looks up the changed regions there.
    pub fn rewind(&self, space: &Space) -> &Rewind {
        self.rewind.get_or_init(|| {
            let (numbers, mut now) = (self.before.keys().copied().collect::<Vec<_>>(), Vec::new());
            for part in numbers.chunks(LOOKUPS) {
                space.read(|table| now.extend(part.iter().filter_map(|number| table.get_shared(*number)).cloned()));
            }
            Rewind::new(self.present, now, self.before.values().flatten().cloned())
        })
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
type Before = HashMap<RegionNumber, Option<Arc<Region>>>;

/// Returns the regions that the edits from `past` (exclusive) to `present` (inclusive) changed, as they were at `past`.
async fn undone(store: &dyn Store, space: &Space, present: Revision, past: Revision) -> Result<Before, HistoryError> {
    let (mut before, mut at) = (Before::new(), present);
    while at > past {
        let entry = history::expected(store, space, at).await?;
        at = entry.follows.unwrap_or(Revision(at.0 - 1)); // OK because `at` is above `past`
        before.extend(entry.changes.into_iter().map(|change| (change.number, change.before.map(Arc::new))));
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
        regions.extend(before.into_values().flatten());
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
    pub fn page(&self, after: Option<Prefix>, size: usize) -> (&[Arc<Region>], bool) {
        let from = after.map_or(0, |after| self.regions.partition_point(|region| region.prefix <= after));
        let rest = &self.regions[from..];
        (&rest[..rest.len().min(size)], rest.len() > size)
    }

    /// The name of a region at this revision.
    pub fn name_of(&self, number: RegionNumber) -> Option<&str> {
        let region = |at: &u32| &self.regions[*at as usize];
        let at = self.by_number.binary_search_by_key(&number, |at| region(at).number).ok()?;
        Some(&region(&self.by_number[at]).name)
    }
}
