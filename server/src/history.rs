//! The edits of the past: one record a revision, written in the same commit as the edit.

use std::collections::BTreeMap;

use kent_proto::stored::{self, HistoryEntry, Malformed};
use kent_regions::{Region, RegionNumber, Revision, Table};
use kent_store::{Store, Txn, Version};

use crate::{error::StoreFailure, keys, space::Space};

/// Adds an edit's record to the commit that makes it.
pub(crate) fn record(txn: Txn, space: &Space, revision: Revision, entry: &HistoryEntry) -> Txn {
    stored::encode_history(entry).into_iter().zip(0..).fold(txn, |txn, (part, number)| {
        let key = keys::history(space.key(), revision.0, number);
        txn.expect(key.clone(), Version::ABSENT).put(key, part)
    })
}

/// The edit that made a revision; `None` if nothing is known of it.
pub(crate) async fn entry(
    store: &dyn Store,
    space: &Space,
    revision: Revision,
) -> Result<Option<HistoryEntry>, StoreFailure> {
    Ok(versioned(store, space, revision).await?.map(|(entry, _)| entry))
}

/// The edit that made a revision, and the version that it gave to all records that it wrote.
pub(crate) async fn versioned(
    store: &dyn Store,
    space: &Space,
    revision: Revision,
) -> Result<Option<(HistoryEntry, Version)>, StoreFailure> {
    let parts = store.scan(&keys::history_parts(space.key(), revision.0)).await?;
    let Some((_, first)) = parts.first() else { return Ok(None) };
    let version = first.version;
    let entry = stored::decode_history(parts.iter().map(|(_, part)| part.value.as_ref()))?;
    Ok(Some((entry, version)))
}

/// The regions of a table as they were at an earlier revision, in the order of their prefixes, without counters.
pub(crate) async fn regions_at(
    store: &dyn Store,
    space: &Space,
    revision: Revision,
) -> Result<Vec<Region>, StoreFailure> {
    let (present, mut regions) = space.read(|table: &Table| {
        let regions: BTreeMap<RegionNumber, Region> =
            table.iter().map(|region| (region.number, region.clone())).collect();
        (table.revision(), regions)
    });
    let mut past = present;
    while past > revision {
        let missing = Malformed { what: "the record of an edit is gone" };
        let entry = entry(store, space, past).await?.ok_or(missing)?;
        past = entry.follows.unwrap_or(Revision(past.0 - 1)); // OK because it is above another revision
        for change in entry.changes {
            match change.before {
                Some(before) => drop(regions.insert(before.number, before)),
                None => drop(regions.remove(&change.after.number)),
            }
        }
    }
    let mut regions: Vec<Region> = regions.into_values().collect();
    regions.sort_by_key(|region| region.prefix);
    Ok(regions)
}
