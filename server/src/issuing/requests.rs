//! Request_ids: what was granted or edited under one is on record, and not made again.
//!
//! Dated ones (UUIDs of version 7) are kept for a time, the others for ever, up to a number. What a commit makes under a dated one
//! compares the floor's version, and what is removed lies below the floor: so nothing that was removed is made again, also by a
//! replica that has not heard of it, and whatever its clock says.

use std::sync::{Arc, Mutex, PoisonError};

use kent_ids::UnixNanos;
use kent_issue::{DatedRequest, RequestPolicy, RequestRefusal, RequestRules, Stored};
use kent_proto::stored;
use kent_store::{CommitError, Key, Store, Txn, Version};

use crate::{
    issuing::slots::Slots,
    records::{
        failure::StoreFailure,
        keys::{self, Requested},
    },
};

/// A request_id of one region's grants, or of one space's edits.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Where it is on record what was made.
    pub(crate) key: Key,
    pub(crate) kind: RequestKind,
}

/// For how long a request_id is kept.
#[derive(Clone, Debug)]
pub(crate) enum RequestKind {
    /// For a time.
    Dated(DatedRequest),
    /// For ever: under this key it is counted.
    Undated(Key),
}

/// What all request_ids of a store are judged by.
#[derive(Debug)]
pub(crate) struct Requests {
    policy: RequestPolicy,
    slots: Arc<Slots>,
    /// As it was last seen: a commit compares it.
    floor: Mutex<Stored<UnixNanos>>,
}

impl Request {
    /// The request_id, if there is one.
    pub(crate) fn new(request_id: &str, requested: Requested<'_>) -> Option<Self> {
        if request_id.is_empty() {
            return None;
        }
        let request = match DatedRequest::parse(request_id) {
            Some(dated) => Self { key: requested.dated(dated), kind: RequestKind::Dated(dated) },
            None => Self { key: requested.undated(request_id), kind: RequestKind::Undated(requested.count()) },
        };
        Some(request)
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

    /// By what request_ids are judged now, and the version of the floor in it.
    pub(crate) fn rules(&self) -> (RequestRules, u64) {
        let floor = *self.floor.lock().unwrap_or_else(PoisonError::into_inner);
        (RequestRules { policy: self.policy, floor: floor.value, now: self.slots.believed() }, floor.version)
    }

    /// Reads the floor again, after a commit has found that it moved.
    pub(crate) async fn learn_floor(&self, store: &dyn Store) -> Result<Stored<UnixNanos>, StoreFailure> {
        let read = read_floor(store).await?;
        let mut floor = self.floor.lock().unwrap_or_else(PoisonError::into_inner);
        // Two readings may come in the wrong order.
        if floor.version < read.version {
            *floor = read;
        }
        Ok(*floor)
    }

    /// Adds the record of a request_id to the commit that makes what was asked for, unless that must not be made.
    pub(crate) async fn record(
        &self,
        store: &dyn Store,
        txn: Txn,
        request: &Request,
        record: Vec<u8>,
    ) -> Result<Result<Txn, RequestRefusal>, StoreFailure> {
        let txn = match &request.kind {
            RequestKind::Dated(dated) => {
                let floor = self.learn_floor(store).await?;
                match self.policy.check_dated(*dated, floor.value, self.slots.believed()) {
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

    /// Removes what is due of the oldest dated request_ids, after raising the floor above it. True if there may be more.
    pub(crate) async fn forget(&self, store: &dyn Store) -> Result<bool, StoreFailure> {
        let page = store.pages(&keys::DATED).await?.next().await?.unwrap_or_default();
        let Some((oldest, _)) = page.first() else { return Ok(false) };
        let oldest = keys::parse_dated(oldest)?;
        let mut floor = self.learn_floor(store).await?;
        if let Some(raised) = self.policy.raised(floor.value, oldest, self.slots.believed()) {
            let record = stored::encode_forgotten_requests(raised);
            match store.commit(expect_floor(Txn::new(), floor.version).put(keys::FORGOTTEN, record)).await {
                Ok(_) => {}
                // Another replica has raised it, or may have: what is stored counts.
                Err(CommitError::Conflict { .. } | CommitError::Unknown(_)) => {}
                Err(error) => return Err(error.into()),
            }
            floor = self.learn_floor(store).await?;
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

/// The most records that are removed by one commit.
const REMOVED_AT_ONCE: usize = 100;

/// Removes records that nothing writes any more.
pub(crate) async fn remove(store: &dyn Store, keys: &[Key]) -> Result<(), StoreFailure> {
    for some in keys.chunks(REMOVED_AT_ONCE) {
        store.commit(some.iter().cloned().fold(Txn::new(), Txn::delete)).await?;
    }
    Ok(())
}

/// A commit that is made only while the floor of dated request_ids has this version.
pub(crate) fn expect_floor(txn: Txn, version: u64) -> Txn {
    txn.expect(keys::FORGOTTEN, Version::new(version))
}

/// Counts request_ids without a time in the commit that writes their records. `version` is that of the last count.
pub(crate) fn count_undated(txn: Txn, key: Key, version: u64, count: u64) -> Txn {
    txn.expect(key.clone(), Version::new(version)).put(key, stored::encode_undated(count))
}

/// How many request_ids without a time are kept under this key.
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
