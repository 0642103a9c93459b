//! When a store is whole, and may be issued from or copied.
//!
//! A store is whole from the commit on that writes the record `cluster`. A daemon founds a new store with that commit and writes
//! nothing before it. A restore or a move ([`filling`](crate::maintenance::filling)) marks the store first, and writes `cluster` last, in the
//! commit that takes the mark away. Each of the two compares the key that the other creates, so only one of them gets the store.

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

/// Why a store or a backup cannot be copied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotWhole {
    /// A restore or a move into it was broken off.
    #[error(
        "it is not whole: a restore or a move into it was broken off, and what it lacks would be issued again from 0. Finish that \
         first, or take another source"
    )]
    HalfFilled,
    /// It was moved elsewhere.
    #[error(
        "it was moved to {to}, and only that store knows what was issued since: take a backup of that one (kent backup)"
    )]
    Moved {
        /// Where.
        to: String,
    },
    /// No daemon has ever started on it.
    #[error("it holds no store")]
    Empty,
}

/// The key of the keyed permutation: read, or drawn and stored if the store is new. Until it is known, a daemon writes nothing.
///
/// # Errors
///
/// [`LoadError`] if nothing may be issued from the store.
pub(crate) async fn found(store: &dyn Store, entropy: &dyn Entropy) -> Result<ClusterKey, LoadError> {
    loop {
        let known = store.get(&keys::CLUSTER).await.map_err(StoreFailure::from)?;
        if store.get(&keys::RESTORING).await.map_err(StoreFailure::from)?.is_some() {
            return Err(LoadError::HalfRestored);
        }
        if let Some(moved) = store.get(&keys::MOVED).await.map_err(StoreFailure::from)? {
            return Err(LoadError::Moved { to: place(&moved.value) });
        }
        if let Some(known) = known {
            return Ok(stored::decode_cluster(&known.value).map_err(StoreFailure::from)?);
        }
        let drawn = stored::encode_cluster(&ClusterKey::new(entropy::bytes(entropy)));
        let unmarked = Txn::new().expect(keys::CLUSTER, Version::ABSENT).expect(keys::RESTORING, Version::ABSENT);
        match store.commit(unmarked.put(keys::CLUSTER, drawn)).await {
            // The key is read back: it is ours, or another replica's, or a mark is there.
            Ok(_) | Err(CommitError::Conflict { .. } | CommitError::Unknown(_)) => {}
            Err(error) => return Err(StoreFailure::from(error).into()),
        }
    }
}

/// Checks that records are those of a whole store that is still in use.
///
/// # Errors
///
/// [`NotWhole`].
pub(crate) fn check_whole(records: &[(Key, Vec<u8>)]) -> Result<(), NotWhole> {
    let find = |wanted: &Key| records.iter().find(|(key, _)| key == wanted).map(|(_, value)| value);
    match (find(&keys::RESTORING), find(&keys::MOVED), find(&keys::CLUSTER)) {
        (Some(_), _, _) => Err(NotWhole::HalfFilled),
        (None, Some(to), _) => Err(NotWhole::Moved { to: place(to) }),
        (None, None, None) => Err(NotWhole::Empty),
        (None, None, Some(_)) => Ok(()),
    }
}

/// The address in the record of a move.
pub(crate) fn place(moved: &[u8]) -> String {
    String::from_utf8_lossy(moved).into_owned()
}
