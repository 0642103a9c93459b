//! The history of the layouts: one record for each of the last edits, written in the commit of the edit.
//!
//! All layouts share one revision, which every edit increases. An edit's record names the revision before it, so a
//! watcher notices if it has missed an edit.

use kent_ids::UnixNanos;
use kent_proto::stored::{self, LayoutChange, LayoutEdit};
use kent_store::{Txn, Version};
use tokio::sync::watch;

use super::{LayoutGrants, ListedLayout};
use crate::{
    error::LayoutError,
    records::{failure::StoreFailure, keys},
};

/// The number of edits that are kept.
const KEPT: usize = 1000;

/// The maximum number of old records that one commit removes.
const REMOVED_MAX: usize = 4;

impl LayoutGrants {
    /// Adds an edit to its commit. The principal is who made the edit.
    pub(super) async fn record(
        &self,
        txn: Txn,
        change: LayoutChange,
        (principal, now): (String, UnixNanos),
    ) -> Result<Txn, StoreFailure> {
        let (revision, version) = self.revision().await?;
        let next = revision.saturating_add(1);
        let unix_nanos = i64::try_from(now.get()).unwrap_or(i64::MAX);
        let edit = stored::encode_layout_edit(&LayoutEdit { change, principal, unix_nanos, follows: revision });
        let txn = txn
            .expect(keys::LAYOUTS_REVISION, version)
            .put(keys::LAYOUTS_REVISION, stored::encode_layouts(next))
            .expect(keys::layout_edit(next), Version::ABSENT)
            .put(keys::layout_edit(next), edit);
        let kept = self.store.scan(&keys::LAYOUT_EDITS).await?;
        let removed = kept.len().saturating_sub(KEPT - 1).min(REMOVED_MAX);
        Ok(kept.into_iter().take(removed).fold(txn, |txn, (key, _)| txn.delete(key)))
    }

    /// Changes after each edit, also of another replica. It may change without an edit.
    pub fn edited(&self) -> watch::Receiver<()> {
        self.edited.subscribe()
    }

    /// Returns all layouts, by name, and their revision.
    pub async fn snapshot(&self, now: UnixNanos) -> Result<(Vec<ListedLayout>, u64), LayoutError> {
        let mut before = self.revision().await?.0;
        loop {
            let listed = self.list(now).await?;
            let after = self.revision().await?.0;
            if before == after {
                return Ok((listed, after));
            }
            before = after;
        }
    }

    /// Returns the edits that are kept, each with the revision that it made, oldest first.
    pub async fn edits(&self) -> Result<Vec<(u64, LayoutEdit)>, StoreFailure> {
        let mut edits = Vec::new();
        for (key, read) in self.store.scan(&keys::LAYOUT_EDITS).await? {
            edits.push((keys::parse_layout_edit(&key)?, stored::decode_layout_edit(&read.value)?));
        }
        Ok(edits)
    }

    /// Returns the first edit after a revision, with the revision that it made, or `None` if no edit follows yet.
    ///
    /// # Errors
    ///
    /// - [`LayoutError::Future`] if the layouts have not reached the revision.
    /// - [`LayoutError::Forgotten`] if the edit is no longer kept, or if the revision belongs to a store that was restored
    ///   from a backup since.
    pub async fn edit_after(&self, after: u64) -> Result<Option<(u64, LayoutEdit)>, LayoutError> {
        let present = self.revision().await?.0;
        if after >= present {
            return if after == present { Ok(None) } else { Err(LayoutError::Future { present }) };
        }
        let next = after.saturating_add(1);
        if let Some(read) = self.store.get(&keys::layout_edit(next)).await.map_err(StoreFailure::from)? {
            return Ok(Some((next, stored::decode_layout_edit(&read.value).map_err(StoreFailure::from)?)));
        }
        // Only a restore or a migration leaves a gap between revisions.
        let follows = |(_, edit): &(u64, LayoutEdit)| edit.follows == after;
        self.edits().await?.into_iter().find(follows).map(Some).ok_or(LayoutError::Forgotten { after })
    }

    /// Reads the revision of the layouts, and the version of its record.
    async fn revision(&self) -> Result<(u64, Version), StoreFailure> {
        Ok(match self.store.get(&keys::LAYOUTS_REVISION).await? {
            Some(read) => (stored::decode_layouts(&read.value)?, read.version),
            None => (0, Version::ABSENT),
        })
    }
}
