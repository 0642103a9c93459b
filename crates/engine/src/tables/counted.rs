//! The counters that an edit depends on, for example the counter of a region that the edit shrinks, divides or deletes.

use std::sync::Arc;

use futures_util::future::try_join_all;
use kent_issue::Stored;
use kent_proto::stored;
use kent_regions::{Change, Count, Edit, Kind, Patch, Region, RegionNumber};
use tokio::sync::MutexGuard;

use super::{directory::Directory, space::Space};
use crate::{issuing::cell::Cell, records::failure::StoreFailure};

/// The number of a region whose counter an edit depends on, and the counter.
pub(super) type EditedCounter = (RegionNumber, Arc<Cell>);

impl Directory {
    /// The counters that an edit depends on, in the order of their regions' numbers.
    pub(super) fn counters_of(&self, space: &Space, edit: &Edit) -> Vec<EditedCounter> {
        let numbers = match edit {
            Edit::Shrink { name, .. }
            | Edit::Subdivide { name, .. }
            | Edit::Delegate { name }
            | Edit::Undelegate { name }
            | Edit::Delete { name, .. }
            | Edit::Update { name, patch: Patch { next: Some(_), .. } } => {
                space.read(|table| table.named(name).map(|region| region.number)).into_iter().collect()
            }
            Edit::Revert { changes } => reverted_counters(changes),
            _ => Vec::new(),
        };
        self.counters_at(space, numbers)
    }

    /// The counters of these regions, in the order of their numbers.
    pub(super) fn counters_at(&self, space: &Space, mut numbers: Vec<RegionNumber>) -> Vec<EditedCounter> {
        numbers.sort_unstable();
        numbers.into_iter().map(|number| (number, space.cell(number, self.chunk))).collect()
    }

    /// Reads the counters of the regions that an edit has created, or the heirs' counters for regions that have closed
    /// since the edit.
    pub(super) async fn read_created(&self, space: &Space, changes: &[Change]) -> Result<(), StoreFailure> {
        let created = changes.iter().filter(|change| change.creates()).map(|change| change.number);
        let numbers: Vec<RegionNumber> = space.read(|table| {
            let heir = |region| table.heir(region).unwrap_or(region).number;
            created.filter_map(|number| table.get(number)).map(heir).collect()
        });
        try_join_all(numbers.into_iter().map(|number| self.read_counter(space, number))).await.map(drop)
    }

    /// Whether the position of a region's counter is unknown after a restore.
    pub(crate) fn is_unsure(&self, read: &Stored<stored::Counter>) -> bool {
        match read.version {
            0 => self.may_have_lost_edits(),
            _ => read.value.unsure,
        }
    }

    /// Whether a restore may have lost edits of tables.
    pub(super) fn may_have_lost_edits(&self) -> bool {
        stored::Counter::of_region(Count::ZERO, &self.restores).unsure
    }

    /// Whether an edit depends on a counter whose position is unknown after a restore.
    pub(super) fn needs_sure(&self, edit: &Edit, number: RegionNumber, read: &Stored<stored::Counter>) -> bool {
        // After a restore, a missing counter may have been lost. Most edits leave the counter missing, so a later grant
        // still detects the loss. No later grant would detect it after a delegation (which starts a new space), a
        // deletion (which frees the prefix) or a declaration of issued suffixes (which sets the counter's position), so
        // these edits are checked here.
        match edit {
            // The region issues nothing until the position of the counter is known.
            Edit::Undelegate { .. } => false,
            Edit::Delegate { .. } | Edit::Delete { .. } => self.is_unsure(read),
            // Only regions that the reversal deletes need the check: the counter of a closed region continues in its
            // heir.
            Edit::Revert { changes } => {
                let is_deleted = changes.iter().any(|change| change.number == number && change.creates());
                is_deleted && self.is_unsure(read)
            }
            edit if edit.names_a_floor() => self.is_unsure(read),
            _ => read.value.unsure,
        }
    }
}

/// Locks counters, in the order of their regions' numbers.
pub(super) async fn lock_all(counters: &[EditedCounter]) -> Vec<MutexGuard<'_, ()>> {
    let mut locked = Vec::new();
    for (_, cell) in counters {
        locked.push(cell.reserving.lock().await);
    }
    locked
}

/// The regions whose counters decide whether an edit with these changes can be reverted: those that the edit created,
/// closed or reopened.
pub(super) fn reverted_counters(changes: &[Change]) -> Vec<RegionNumber> {
    let is_closed = |region: Option<&Region>| region.is_some_and(|region| region.kind == Kind::Closed);
    let counted = changes.iter().filter(|change| {
        let closes = is_closed(change.before.as_ref()) != is_closed(change.after.as_ref());
        change.creates() || (change.before.is_some() && change.after.is_some() && closes)
    });
    counted.map(|change| change.number).collect()
}
