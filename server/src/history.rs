//! The edits of the past: one record a revision, written in the same commit as the edit.

use kent_proto::stored::{self, HistoryEntry};
use kent_regions::Revision;
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
