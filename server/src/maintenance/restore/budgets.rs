//! Marks the budgets of callers, because their use since the backup is unknown.

use kent_access::Spent;
use kent_engine::records::{
    failure::StoreFailure,
    keys::{self, AccessKey},
};
use kent_ids::UnixNanos;
use kent_proto::stored::{decode_spent, encode_spent};

use super::{Restore, RestoreError};

impl Restore {
    /// Marks all budgets as restored at `now`.
    pub(super) fn mark_budgets(mut self, now: UnixNanos) -> Result<Self, RestoreError> {
        let keys = self.records.keys().filter(|key| key.starts_with(&keys::ACCESS)).map(keys::parse_access);
        let keys: Vec<_> = keys
            .filter_map(|key| match key {
                Ok(AccessKey::Budget(_, id)) => Some(Ok(keys::spent(id))),
                Ok(AccessKey::Token(_) | AccessKey::Role(_) | AccessKey::Version) => None,
                Err(malformed) => Some(Err(malformed)),
            })
            .collect::<Result<_, _>>()
            .map_err(StoreFailure::from)?;
        let restored = i64::try_from(now.get() / 1_000_000).ok();
        self.marked_budgets = keys.len();
        for key in keys {
            let spent = self.records.get(&key).map_or(Ok(Spent::default()), |value| decode_spent(value));
            let spent = Spent { restored, ..spent.map_err(StoreFailure::from)? };
            self.records.insert(key, encode_spent(&spent));
        }
        Ok(self)
    }
}
