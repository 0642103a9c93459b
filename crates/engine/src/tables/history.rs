//! The history of edits: one record for each revision, written in the commit of the edit. The last `--history-keep`
//! edits are kept.
//!
//! The revision up to which edits are forgotten is stored before their records are removed, so a missing record always
//! has a known reason.

use kent_issue::{Forgotten, Stored};
use kent_proto::stored::{self, HistoryEntry, Malformed};
use kent_regions::Revision;
use kent_store::{CommitError, Store, Txn, Version};
use thiserror::Error;

use crate::{
    issuing::requests::remove,
    records::{failure::StoreFailure, keys},
    tables::space::Space,
};

/// Reasons that the record of an edit cannot be shown.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// The record was removed.
    #[error(transparent)]
    Forgotten(#[from] ForgottenRevision),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

/// The requested revision is older than the oldest one that can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the history up to revision {oldest} has been deleted (kentd --history-keep): the table can be shown and watched from revision \
     {oldest} on"
)]
pub struct ForgottenRevision {
    /// The oldest revision that can be shown.
    pub(crate) oldest: Revision,
}

/// Adds the record of an edit to the commit of the edit.
pub(crate) fn record(txn: Txn, space: &Space, revision: Revision, entry: &HistoryEntry) -> Txn {
    stored::encode_history(entry).into_iter().zip(0..).fold(txn, |txn, (part, number)| {
        let key = keys::history(space.key(), revision.0, number);
        txn.expect(key.clone(), Version::ABSENT).put(key, part)
    })
}

/// Reads the edit that made a revision; returns `None` if the edit has no record, or if its record is being removed.
pub async fn entry(store: &dyn Store, space: &Space, revision: Revision) -> Result<Option<HistoryEntry>, StoreFailure> {
    Ok(versioned(store, space, revision).await?.map(|(entry, _)| entry))
}

/// Reads the edit that made a revision, and the version of all records that the edit wrote. Returns `None` if the edit
/// has no record, or if its record is being removed.
pub(crate) async fn versioned(
    store: &dyn Store,
    space: &Space,
    revision: Revision,
) -> Result<Option<(HistoryEntry, Version)>, StoreFailure> {
    let parts = store.scan(&keys::history_parts(space.key(), revision.0)).await?;
    let Some((_, first)) = parts.first() else { return Ok(None) };
    let version = first.version;
    match stored::decode_history(parts.iter().map(|(_, part)| part.value.as_ref())) {
        Ok(entry) => Ok(Some((entry, version))),
        // The record of a large edit may be removed in several commits, so parts of it may be missing.
        Err(_) if revision <= oldest(store, space).await? => Ok(None),
        Err(malformed) => Err(malformed.into()),
    }
}

/// Reads the edit that made a revision. The revision must not be later than the current one.
pub(crate) async fn expected(
    store: &dyn Store,
    space: &Space,
    revision: Revision,
) -> Result<HistoryEntry, HistoryError> {
    if let Some(entry) = entry(store, space, revision).await? {
        return Ok(entry);
    }
    check(store, space, Revision(revision.0.saturating_sub(1))).await?;
    Err(StoreFailure::from(Malformed { what: "the record of an edit is missing" }).into())
}

/// Fails unless all edits after a revision are kept, so that the table can be shown and watched from that revision.
pub async fn check(store: &dyn Store, space: &Space, after: Revision) -> Result<(), HistoryError> {
    let oldest = oldest(store, space).await?;
    if after < oldest { Err(ForgottenRevision { oldest }.into()) } else { Ok(()) }
}

/// The oldest revision at which the table can be shown.
pub async fn oldest(store: &dyn Store, space: &Space) -> Result<Revision, StoreFailure> {
    Ok(Revision(forgotten(store, space).await?.value.through))
}

async fn forgotten(store: &dyn Store, space: &Space) -> Result<Stored<Forgotten>, StoreFailure> {
    Ok(match store.get(&keys::oldest(space.key())).await? {
        Some(read) => Stored { version: read.version.get(), value: stored::decode_forgotten(&read.value)? },
        None => Stored { version: 0, value: Forgotten::default() },
    })
}

/// Removes the oldest edits of a table, up to one page, and keeps the last `keep` edits. Returns the revision up to
/// which edits are then forgotten, and whether there may be more to remove.
pub(crate) async fn forget(store: &dyn Store, space: &Space, keep: u64) -> Result<(Forgotten, bool), StoreFailure> {
    let before = forgotten(store, space).await?;
    let present = space.read(kent_regions::Table::revision).0;
    if before.value.excess(present, keep) == 0 && !is_left_over(store, space, before.value).await? {
        return Ok((before.value, false));
    }
    let page = store.pages(&keys::histories(space.key())).await?.next().await?.unwrap_or_default();
    let (mut after, mut due) = (before.value, Vec::new());
    for (key, part) in &page {
        let (revision, number) = keys::parse_history(key)?;
        if revision > after.through {
            // The first part of an edit's record contains the revision before the edit.
            if number != 0 || after.excess(present, keep) == 0 {
                break;
            }
            after = after.and(revision, stored::decode_history_follows(&part.value)?);
        }
        due.push(key.clone());
    }
    if after != before.value {
        let key = keys::oldest(space.key());
        let txn = Txn::new().expect(key.clone(), Version::new(before.version));
        match store.commit(txn.put(key, stored::encode_forgotten(after))).await {
            Ok(_) => {}
            // Another replica may have changed the record; the next round reads it again.
            Err(CommitError::Conflict { .. } | CommitError::Unknown(_)) => return Ok((before.value, true)),
            Err(error) => return Err(error.into()),
        }
    }
    remove(store, &due).await?;
    Ok((after, !due.is_empty()))
}

/// Whether a forgotten record is still present, because an earlier removal was interrupted.
async fn is_left_over(store: &dyn Store, space: &Space, forgotten: Forgotten) -> Result<bool, StoreFailure> {
    let page = store.pages(&keys::histories(space.key())).await?.next().await?.unwrap_or_default();
    let Some((first, _)) = page.first() else { return Ok(false) };
    Ok(keys::parse_history(first)?.0 <= forgotten.through)
}
