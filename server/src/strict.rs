//! Strict regions: every grant is durable before it is answered, nothing is reserved beyond it, and a request_id is granted once.

use std::num::NonZeroU64;

use kent_ids::Position;
use kent_proto::stored::{self, StrictGrant};
use kent_regions::Count;
use kent_store::{CommitError, Key, Store, Txn, Version};

use crate::{
    cell::{Record, read_counter},
    error::StoreFailure,
    space::RegionFacts,
};

/// How an attempt at a strict grant ended.
#[derive(Debug)]
pub(crate) enum Granted {
    /// From this position on; so many are issued now.
    Now(Position, Count),
    /// It was granted under the same request_id before: from this position on, so many.
    Before(Position, u64),
    /// There is no room for as many: so many are issued.
    Full(Position),
    /// Somebody else wrote this record first.
    Conflict(Key),
}

/// One attempt at a grant: the counter moves and, with a request_id, what was granted is recorded, in one commit.
pub(crate) async fn grant(
    store: &dyn Store,
    record: &Record,
    request: Option<&Key>,
    count: NonZeroU64,
    unix_nanos: i64,
) -> Result<Granted, StoreFailure> {
    if let Some(key) = request
        && let Some(before) = store.get(key).await?
    {
        let before = stored::decode_grant(&before.value)?;
        return Ok(Granted::Before(Position::new(before.first), before.count));
    }
    let read = read_counter(store, &record.key).await?;
    let first = Position::new(read.value.get().unwrap_or(u128::MAX));
    let next = first.checked_add(count.get().into()).filter(|next| *next <= record.capacity);
    let Some(next) = next else { return Ok(Granted::Full(first)) };
    let reserved = Count::Below(next.get());
    let txn = Txn::new().expect(record.key.clone(), Version::new(read.version));
    let txn = record.guard.iter().fold(txn, |txn, (key, version)| txn.expect(key.clone(), *version));
    let txn = match request {
        Some(key) => {
            let grant = StrictGrant { first: first.get(), count: count.get(), unix_nanos };
            txn.expect(key.clone(), Version::ABSENT).put(key.clone(), stored::encode_grant(&grant))
        }
        None => txn,
    };
    match store.commit(txn.put(record.key.clone(), stored::encode_counter(reserved))).await {
        Ok(_) => Ok(Granted::Now(first, reserved)),
        Err(CommitError::Conflict { key, .. }) => Ok(Granted::Conflict(key)),
        // Whether it was granted is not known. With a request_id, a retry finds out.
        Err(error) => Err(error.into()),
    }
}

/// By how many bits a region expands by itself now, if it does: its policy says at which share, by how many and how far.
pub(crate) fn due(facts: &RegionFacts, count: NonZeroU64) -> Option<u8> {
    let auto = facts.policy.auto_expand?;
    let suffix = facts.constants.suffix_bits;
    let by = auto.by_bits.min(facts.expandable_bits).min(auto.max_suffix.saturating_sub(suffix));
    let capacity = Count::power_of_two(suffix).get()?;
    // A region that is capped below that never needs it.
    let needed = facts.reserved.get()?.checked_add(count.get().into())?;
    if by == 0 || facts.policy.cap.is_some_and(|cap| cap <= Count::Below(capacity)) {
        return None;
    }
    // needed / capacity >= percent / 100, without overflow: the capacity is a power of two.
    let threshold = capacity / 100 * u128::from(auto.at_percent) + capacity % 100 * u128::from(auto.at_percent) / 100;
    (needed > threshold || needed >= capacity).then_some(by)
}
