//! Applies the edits of other replicas.

use kent_proto::stored::{self, Malformed};
use kent_regions::{Change, Plan, RegionNumber, Revision};
use kent_store::{Key, Versioned};
use tracing::info;

use super::{
    directory::Directory,
    history,
    space::{Space, State},
};
use crate::{
    error::{EditError, NoSuchSpace},
    records::{
        failure::{LoadError, StoreFailure},
        keys,
    },
};

/// The maximum number of edits to apply one by one to a small table; for more, the whole table is read.
const STEPS_MAX: usize = 1000;

/// The number of regions whose records are read from sled in the time in which one edit is applied.
pub(super) const REGIONS_PER_STEP: usize = 64;

/// When the counters of changed regions are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counters {
    /// After each edit.
    Follow,
    /// All counters are zero, and are read after the last edit.
    Later,
}

impl Directory {
    /// Updates a table in memory from the store. The caller must hold the `editing` lock.
    pub(crate) async fn reload(&self, space: &Space) -> Result<(), EditError> {
        let read = self.store.get(&keys::space(space.key())).await.map_err(StoreFailure::from)?;
        let missing = Malformed { what: "the record of a space is missing" };
        let record = read.ok_or_else(|| StoreFailure::from(missing))?;
        let facts = stored::decode_space(&record.value).map_err(StoreFailure::from)?;
        if facts.deleted {
            self.remove(space, facts.revision);
            return Err(NoSuchSpace { space: space.name() }.into());
        }
        self.catch_up(space, &record, Counters::Follow).await.map(drop).map_err(EditError::from)
    }

    /// Updates a table to at least the current state of the store.
    pub async fn refresh(&self, space: &Space) -> Result<(), EditError> {
        let _editing = space.editing.lock().await;
        self.reload(space).await
    }

    /// Applies a space record that another replica has written: a new space, edits of a space, or the deletion of a
    /// space. Returns true if another replica may be waiting for our confirmation.
    pub(crate) async fn follow(&self, key: &Key, record: &Versioned) -> Result<bool, LoadError> {
        let key = keys::parse_space(key).map_err(StoreFailure::from)?;
        let facts = stored::decode_space(&record.value).map_err(StoreFailure::from)?;
        if facts.deleted {
            if let Some(space) = self.by_key(key).filter(|space| space.versions(RegionNumber(0)).0 < record.version) {
                let _editing = space.editing.lock().await;
                // An edit of this daemon may have read a newer record meanwhile.
                if space.versions(RegionNumber(0)).0 < record.version {
                    self.remove(&space, facts.revision);
                }
            }
            return Ok(false);
        }
        let space = match self.by_key(key) {
            Some(space) => space,
            None => {
                let _making = self.making.lock().await;
                // The space may have been added to memory meanwhile, or deleted again.
                if self.by_key(key).is_none()
                    && let Some(state) = State::load(&*self.store, key).await?
                {
                    self.insert(key, state)?;
                }
                return Ok(false);
            }
        };
        if space.includes(record.version, facts.revision) {
            return Ok(false);
        }
        let _editing = space.editing.lock().await;
        self.catch_up(&space, record, Counters::Follow).await
    }

    /// Applies the edits up to this record of the space one by one from the history, or reads the whole table if there
    /// are too many. Returns true if another replica may be waiting for our confirmation.
    pub(super) async fn catch_up(
        &self,
        space: &Space,
        record: &Versioned,
        counters: Counters,
    ) -> Result<bool, LoadError> {
        let facts = stored::decode_space(&record.value).map_err(StoreFailure::from)?;
        let mut is_awaited = false;
        while !space.includes(record.version, facts.revision) {
            let (present, regions) = space.read(|table| (table.revision(), table.len()));
            let missing = facts.revision.0.saturating_sub(present.0);
            // Where there are no images, reading a region takes a smaller part of the time of a step.
            let is_embedded = self.store.images().is_some();
            let more = if is_embedded { regions / REGIONS_PER_STEP } else { 0 };
            let steps_max = STEPS_MAX.max(more) as u64; // OK because a length in memory fits 64 bits
            let step = match missing {
                0 => None,
                _ if missing > steps_max => None,
                _ => self.step(space, Revision(present.0 + 1), counters).await?,
            };
            match step {
                Some(is_step_awaited) => is_awaited |= is_step_awaited,
                None => {
                    info!(space = space.name(), missing, "reading the whole table again");
                    let Some(state) = State::load(&*self.store, space.key()).await? else {
                        // The space was deleted; a later record will report the deletion.
                        return Ok(true);
                    };
                    space.replace(state);
                    return Ok(true);
                }
            }
        }
        Ok(is_awaited)
    }

    /// Applies one edit of another replica. Returns whether that replica may be waiting for our confirmation, or `None`
    /// if the edit cannot be applied.
    async fn step(&self, space: &Space, revision: Revision, counters: Counters) -> Result<Option<bool>, LoadError> {
        let Some((entry, version)) = history::versioned(&*self.store, space, revision).await? else { return Ok(None) };
        if entry.follows.is_some() {
            return Ok(None);
        }
        let declared = entry.declared.is_some();
        let is_awaited = declared || entry.changes.iter().any(Change::may_stop_grants);
        let mut plan = Plan::made(revision, entry.changes);
        // The history does not contain counters. The current counter is correct for a deleted heir: the edit's commit
        // compared the counter, so the heir has issued nothing since then.
        space.read(|table| {
            for before in plan.changes.iter_mut().filter(|it| it.after.is_none()).filter_map(|it| it.before.as_mut()) {
                if let Some(present) = table.get(before.number) {
                    before.issued = present.issued.clone();
                }
            }
        });
        if declared {
            // First, because an edit that ends a step also declares the numbers below which another generator may have
            // issued. Until the chunk is dropped, no grant may use the new step.
            plan.changes.iter().for_each(|change| space.drop_chunk(change.number, version));
        }
        if space.apply(&plan, version, entry.edit).is_err() {
            return Ok(None);
        }
        if counters == Counters::Later {
            return Ok(Some(is_awaited));
        }
        for change in plan.changes.iter().filter(|change| change.after.is_some()) {
            space.refresh_reserved(&*self.store, change.number).await?;
        }
        self.give_back_forbidden(space, &plan).await;
        Ok(Some(is_awaited))
    }
}
