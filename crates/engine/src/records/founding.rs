//! Decides whether a store is complete. No daemon may issue from an incomplete store, and an incomplete store must not
//! be copied.
//!
//! The commit that writes the record `cluster` completes a store. A daemon initializes a new store with that commit,
//! and writes nothing before it. A restore or a migration (`maintenance/filling.rs` of kentd) marks the store first,
//! and writes `cluster` last, in the commit that removes the mark. The initialization and the mark each compare the key
//! that the other creates, so only one of them succeeds.

use kent_ids::ClusterKey;
use kent_proto::stored;
use kent_store::{CommitError, Key, Store, Txn, Version};
use thiserror::Error;

use crate::{
    host::entropy::{self, Entropy},
    records::{
        failure::{LoadError, StoreFailure},
        keys,
    },
};

/// Reasons that a store or a backup cannot be copied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotWhole {
    /// A restore or a migration into the store was interrupted.
    #[error(
        "it is incomplete: a restore or a migration into it was interrupted, and missing counters would start again at 0. Finish the \
         restore or the migration first, or use another source"
    )]
    HalfFilled,
    /// The store was migrated.
    #[error(
        "it was moved to {to}, and only that store knows what has been issued since: back up that store (kent backup FILE)"
    )]
    Moved {
        /// The address of the new store.
        to: String,
    },
    /// No daemon has started on the store.
    #[error("it does not contain a store")]
    Empty,
}

/// Reads the cluster key and the version of its record. In a new store, draws the key and stores the key before
/// anything else. The record never changes, so a different version means that the store was replaced.
///
/// # Errors
///
/// [`LoadError`] if the daemon must not issue from the store.
pub async fn load_or_found(store: &dyn Store, entropy: &dyn Entropy) -> Result<(ClusterKey, Version), LoadError> {
    loop {
        let known = store.get(&keys::CLUSTER).await.map_err(StoreFailure::from)?;
        if store.get(&keys::RESTORING).await.map_err(StoreFailure::from)?.is_some() {
            return Err(LoadError::HalfRestored);
        }
        if let Some(moved) = store.get(&keys::MOVED).await.map_err(StoreFailure::from)? {
            return Err(LoadError::Moved { to: place(&moved.value) });
        }
        if let Some(known) = known {
            return Ok((stored::decode_cluster(&known.value).map_err(StoreFailure::from)?, known.version));
        }
        let drawn = stored::encode_cluster(&ClusterKey::new(entropy::bytes(entropy)));
        let unmarked = Txn::new().expect(keys::CLUSTER, Version::ABSENT).expect(keys::RESTORING, Version::ABSENT);
        match store.commit(unmarked.put(keys::CLUSTER, drawn)).await {
            // Read the key again: this daemon or another replica has written it, unless the store is marked.
            Ok(_) | Err(CommitError::Conflict { .. } | CommitError::Unknown(_)) => {}
            Err(error) => return Err(StoreFailure::from(error).into()),
        }
    }
}

/// Checks that the records form a complete store that is still in use.
///
/// # Errors
///
/// [`NotWhole`].
pub fn check_whole(records: &[(Key, Vec<u8>)]) -> Result<(), NotWhole> {
    let find = |wanted: &Key| records.iter().find(|(key, _)| key == wanted).map(|(_, value)| value);
    match (find(&keys::RESTORING), find(&keys::MOVED), find(&keys::CLUSTER)) {
        (Some(_), _, _) => Err(NotWhole::HalfFilled),
        (None, Some(to), _) => Err(NotWhole::Moved { to: place(to) }),
        (None, None, None) => Err(NotWhole::Empty),
        (None, None, Some(_)) => Ok(()),
    }
}

/// Decodes the address in the record of a migration.
pub fn place(moved: &[u8]) -> String {
    String::from_utf8_lossy(moved).into_owned()
}
