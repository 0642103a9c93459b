//! Reads the records of counters and of restores.

use kent_ids::Position;
use kent_issue::{Reserved, Stored, StrictState};
use kent_proto::stored::{self, Restored};
use kent_regions::Count;
use kent_store::{Key, Store, Versioned};

use super::{failure::StoreFailure, keys};

/// Reads a counter, and the version that a commit compares.
pub async fn read_counter(store: &dyn Store, key: &Key) -> Result<Stored<stored::Counter>, StoreFailure> {
    match store.get(key).await? {
        Some(Versioned { version, value }) => {
            Ok(Stored { version: version.get(), value: stored::decode_counter(&value)? })
        }
        None => Ok(Stored { version: 0, value: stored::Counter::NEW }),
    }
}

/// Converts a count to a position; 2^128 becomes the last position.
pub(crate) fn position(count: Count) -> Position {
    Position::new(count.get().unwrap_or(u128::MAX))
}

/// Converts a counter's record to the state that a strict commit compares.
pub(crate) fn strict_state(Stored { version, value }: Stored<stored::Counter>) -> StrictState {
    let reserved = Reserved { below: position(value.reserved), paid: value.paid };
    let counter = Stored { version, value: reserved };
    StrictState { counter, is_unsure: value.unsure, undated: None, is_remembered: false }
}

/// Reads the restores in the history of a store, oldest first.
pub(crate) async fn restores(store: &dyn Store) -> Result<Vec<Restored>, StoreFailure> {
    let record = store.get(&keys::RESTORES).await?;
    Ok(record.map_or(Ok(Vec::new()), |record| stored::decode_restores(&record.value))?)
}
