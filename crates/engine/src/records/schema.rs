//! The schema in force for the records of a store.

use kent_proto::stored;
use kent_store::{Store, Version};

use super::{failure::StoreFailure, keys};

/// Reads the schema that replicas use to write records, and the version of the schema's record.
pub async fn schema_in_force(store: &dyn Store) -> Result<(u16, Version), StoreFailure> {
    let Some(record) = store.get(&keys::IN_FORCE).await? else { return Ok((1, Version::ABSENT)) };
    let malformed = |_| stored::Malformed { what: "the schema in force" };
    let bytes = <[u8; 2]>::try_from(&record.value[..]).map_err(malformed)?;
    Ok((u16::from_be_bytes(bytes), record.version))
}
