//! How far a counter may have advanced by the time its store was lost.

use std::{collections::BTreeMap, path::Path};

use kent_engine::records::{failure::StoreFailure, keys};
use kent_ids::{Source, UnixNanos};
use kent_issue::Lapse;
use kent_proto::stored::{self, Counter, Malformed, Restored};
use kent_regions::{Count, Order, Pace};
use kent_store::Key;

use super::{Floor, RestoreError};
use crate::maintenance::backup::Backup;

/// An older backup from which another store was restored. It limits what that other store may have issued; the newer
/// backup, which is being restored now, does not.
#[derive(Debug)]
pub(crate) struct OlderBackup {
    /// When the backup was created.
    taken: UnixNanos,
    /// The restores before the backup.
    pub(super) restores: Vec<Restored>,
    records: BTreeMap<Key, Vec<u8>>,
}

impl OlderBackup {
    pub(super) fn of(path: &Path, older: Backup, newer: &Backup) -> Result<Self, RestoreError> {
        let key = newer.records.iter().find(|(key, _)| *key == keys::CLUSTER);
        let records: BTreeMap<_, _> = older.records.into_iter().collect();
        if older.unix_nanos > newer.unix_nanos || key.map(|(_, key)| key) != records.get(&keys::CLUSTER) {
            return Err(RestoreError::NotOlder { path: path.to_owned() });
        }
        let restores = records.get(&keys::RESTORES).map(|record| stored::decode_restores(record)).transpose();
        let restores = restores.map_err(StoreFailure::from)?.unwrap_or_default();
        Ok(Self { taken: UnixNanos::new(older.unix_nanos.into()), restores, records })
    }

    pub(super) fn since(&self) -> UnixNanos {
        Lapse::begin(self.taken)
    }

    /// Returns the highest value that a counter of the restored store may have reached at the time `until`, or `None`
    /// if this backup does not bound the counter.
    pub(super) fn bounds(&self, key: &Key, until: UnixNanos, kind: &CounterKind) -> Result<Option<Count>, Malformed> {
        let read = self.records.get(key).map(|value| stored::decode_counter(value)).transpose()?;
        let known = match (read, kind.record.as_ref()) {
            (Some(known), _) => known,
            (None, None) => Counter::of_series(kind.first, &self.restores, kind.pace, kind.capacity),
            (None, Some(region)) if self.records.contains_key(region) => {
                Counter::of_region(Count::ZERO, &self.restores)
            }
            // The same region may exist in the restored store, and an operator may have set its counter to any
            // number.
            (None, Some(_)) => return Ok(None),
        };
        let after = known.after(&Lapse { since: self.since(), until }, kind.pace, kind.capacity);
        Ok((!after.unsure).then_some(after.reserved))
    }
}

/// The properties of a counter that limit how far it can advance.
#[derive(Clone, Debug)]
pub(super) struct CounterKind {
    pub(super) first: Count,
    pub(super) pace: Pace,
    pub(super) capacity: Count,
    pub(super) order: Order,
    /// The key of the region's record; `None` for a series.
    pub(super) record: Option<Key>,
}

/// How to change the records of the old store for the new store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy<'f> {
    /// The name of the operation in the history.
    pub(crate) operation: &'static str,
    pub(crate) now: UnixNanos,
    /// The period whose grants and edits are unknown; `None` if there have been none since the records were read.
    pub(crate) lost: Option<Restored>,
    /// The older backup from which another store was restored.
    pub(crate) older: Option<&'f OlderBackup>,
    pub(crate) floors: &'f [Floor],
}

impl Copy<'_> {
    pub(super) fn seals(&self) -> bool {
        self.lost.is_some_and(|lost| lost.tables_edited)
    }

    /// Returns the new value of a counter.
    pub(super) fn moved(
        &self,
        key: &Key,
        source: &Source,
        from: &Counter,
        kind: &CounterKind,
    ) -> Result<Counter, RestoreError> {
        let CounterKind { pace, capacity, order, .. } = *kind;
        let mut after = self.lost.map_or(*from, |lost| from.after(&lost.lapse, pace, capacity));
        if let (Some(older), Some(lost), false) = (self.older, self.lost, after.unsure) {
            after = match older.bounds(key, lost.lapse.until, kind).map_err(StoreFailure::from)? {
                Some(bound) => Counter { reserved: after.reserved.max(bound), ..after },
                None => Counter { reserved: from.reserved, unsure: true, ..after },
            };
        }
        let floors = self.floors.iter().filter(|floor| floor.source == *source);
        let Some(floor) = floors.max_by_key(|floor| floor.next) else { return Ok(after) };
        let next = order.floor(floor.next);
        if next > capacity {
            return Err(RestoreError::FloorTooHigh { floor: source.clone(), capacity });
        }
        // A floor below the backup's counter says nothing about the numbers issued since the backup. A floor equal to
        // the counter declares that no numbers have been issued since the backup.
        if next < from.reserved {
            return Err(RestoreError::FloorTooLow { floor: floor.clone(), stands: from.reserved });
        }
        Ok(Counter { reserved: next, unsure: false, ..after })
    }
}
