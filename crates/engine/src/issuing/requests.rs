//! Request IDs: each grant or edit under a request ID is recorded, so that it is not made again.
//!
//! Dated request IDs (version 7 UUIDs) are kept for the retention time; the others are kept permanently, up to a
//! maximum number. Records of dated request IDs are removed only below the *floor*, a stored time. Every commit under a
//! dated request ID compares the floor's version, so a removed request is never made again. This holds even if a
//! replica does not know of the removal or has a wrong clock.

use std::sync::{Arc, Mutex, PoisonError};

use kent_ids::UnixNanos;
use kent_issue::{DatedRequest, RequestPolicy, RequestRefusal, RequestRules, Stored};
use kent_proto::stored;
use kent_store::{CommitError, Key, Store, Txn, Version};

use crate::{
    issuing::slots::Slots,
    records::{
        failure::StoreFailure,
        keys::{self, RequestScope},
    },
};

/// A request ID for a region's grants or a space's edits.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The key of the record that stores the grant or edit.
    pub(crate) key: Key,
    pub(crate) kind: RequestKind,
    /// The identity of the caller. A request ID belongs to the caller that used it first.
    pub(crate) caller: Box<str>,
}

/// The retention of a request ID.
#[derive(Clone, Debug)]
pub(crate) enum RequestKind {
    /// The ID is kept until the floor passes it.
    Dated(DatedRequest),
    /// The ID is kept permanently. The key belongs to the record that counts undated request IDs.
    Undated(Key),
}

/// The rules for all request IDs of a store.
#[derive(Debug)]
pub(crate) struct Requests {
    policy: RequestPolicy,
    slots: Arc<Slots>,
    /// The floor as it was last read; commits compare its version.
    floor: Mutex<Stored<UnixNanos>>,
}

impl Request {
    /// Returns the request ID, or `None` if `request_id` is empty.
    pub(crate) fn new(request_id: &str, requested: RequestScope<'_>, caller: &str) -> Option<Self> {
        if request_id.is_empty() {
            return None;
        }
        let (key, kind) = match DatedRequest::parse(request_id) {
            Some(dated) => (requested.dated(dated), RequestKind::Dated(dated)),
            None => (requested.undated(request_id), RequestKind::Undated(requested.count())),
        };
        Some(Self { key, kind, caller: caller.into() })
    }
}

impl Requests {
    /// Reads the floor.
    pub(crate) async fn load(
        store: &dyn Store,
        policy: RequestPolicy,
        slots: Arc<Slots>,
    ) -> Result<Arc<Self>, StoreFailure> {
        let floor = Mutex::new(read_floor(store).await?);
        Ok(Arc::new(Self { policy, slots, floor }))
    }

    /// Returns the current rules, and the version of the floor that they contain.
    pub(crate) fn rules(&self) -> (RequestRules, u64) {
        let floor = *self.floor.lock().unwrap_or_else(PoisonError::into_inner);
        (RequestRules { policy: self.policy, floor: floor.value, now: self.slots.trusted_now() }, floor.version)
    }

    /// Reads the floor again, because another replica may have raised it.
    pub(crate) async fn refresh_floor(&self, store: &dyn Store) -> Result<Stored<UnixNanos>, StoreFailure> {
        let read = read_floor(store).await?;
        let mut floor = self.floor.lock().unwrap_or_else(PoisonError::into_inner);
        // Two reads may finish in the wrong order.
        if floor.version < read.version {
            *floor = read;
        }
        Ok(*floor)
    }

    /// Adds the record of a request ID to a commit, unless the request ID is rejected.
    pub(crate) async fn record(
        &self,
        store: &dyn Store,
        txn: Txn,
        request: &Request,
        record: Vec<u8>,
    ) -> Result<Result<Txn, RequestRefusal>, StoreFailure> {
        let txn = match &request.kind {
            RequestKind::Dated(dated) => {
                let floor = self.refresh_floor(store).await?;
                match self.policy.check_dated(*dated, floor.value, self.slots.trusted_now()) {
                    Ok(()) => expect_floor(txn, floor.version),
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
            RequestKind::Undated(key) => {
                let kept = read_undated(store, key).await?;
                match self.policy.check_undated(kept.value) {
                    Ok(()) => count_undated(txn, key.clone(), kept.version, kept.value.saturating_add(1)),
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
        };
        Ok(Ok(txn.expect(request.key.clone(), Version::ABSENT).put(request.key.clone(), record)))
    }

    /// Raises the floor, and removes the oldest records below it. Returns true if there may be more to remove.
    pub(crate) async fn forget(&self, store: &dyn Store) -> Result<bool, StoreFailure> {
        let page = store.pages(&keys::DATED).await?.next().await?.unwrap_or_default();
        let Some((oldest, _)) = page.first() else { return Ok(false) };
        let oldest = keys::parse_dated(oldest)?;
        let mut floor = self.refresh_floor(store).await?;
        if let Some(raised) = self.policy.raised(floor.value, oldest, self.slots.trusted_now()) {
            let record = stored::encode_forgotten_requests(raised);
            match store.commit(expect_floor(Txn::new(), floor.version).put(keys::FORGOTTEN, record)).await {
                Ok(_) => {}
                // Another replica may have raised the floor, so use the stored one.
                Err(CommitError::Conflict { .. } | CommitError::Unknown(_)) => {}
                Err(error) => return Err(error.into()),
            }
            floor = self.refresh_floor(store).await?;
        }
        let mut due = Vec::new();
        for (key, _) in &page {
            if keys::parse_dated(key)?.time() < floor.value {
                due.push(key.clone());
            }
        }
        remove(store, &due).await?;
        Ok(!due.is_empty() && due.len() == page.len())
    }
}

/// The maximum number of records that one commit removes.
const REMOVALS_PER_COMMIT: usize = 100;

/// Removes records. Compares no versions, because nothing writes these records any more.
pub(crate) async fn remove(store: &dyn Store, keys: &[Key]) -> Result<(), StoreFailure> {
    for some in keys.chunks(REMOVALS_PER_COMMIT) {
        store.commit(some.iter().cloned().fold(Txn::new(), Txn::delete)).await?;
    }
    Ok(())
}

/// Makes a commit conditional on this version of the floor.
pub(crate) fn expect_floor(txn: Txn, version: u64) -> Txn {
    txn.expect(keys::FORGOTTEN, Version::new(version))
}

/// Updates the number of undated request IDs in the commit that writes their records. `version` is the version of the
/// previous count.
pub(crate) fn count_undated(txn: Txn, key: Key, version: u64, count: u64) -> Txn {
    txn.expect(key.clone(), Version::new(version)).put(key, stored::encode_undated(count))
}

/// Reads the number of undated request IDs under this key.
pub(crate) async fn read_undated(store: &dyn Store, key: &Key) -> Result<Stored<u64>, StoreFailure> {
    Ok(match store.get(key).await? {
        Some(read) => Stored { version: read.version.get(), value: stored::decode_undated(&read.value)? },
        None => Stored { version: 0, value: 0 },
    })
}

async fn read_floor(store: &dyn Store) -> Result<Stored<UnixNanos>, StoreFailure> {
    Ok(match store.get(&keys::FORGOTTEN).await? {
        Some(read) => Stored { version: read.version.get(), value: stored::decode_forgotten_requests(&read.value)? },
        None => Stored { version: 0, value: UnixNanos::new(0) },
    })
}
