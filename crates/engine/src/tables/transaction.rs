//! The records that the commit of an edit compares and writes.

use kent_proto::stored::{self, Declared, HistoryEntry};
use kent_regions::{Count, Edit, RegionNumber};
use kent_store::{Txn, Version};

use super::{
    directory::Directory,
    edits::{Draft, EditCommand},
    history,
    space::{Space, space_record},
};
use crate::records::keys;

impl Directory {
    /// Adds an edit's changes of regions, counters and the history to a commit, with the versions that they compare.
    pub(super) fn change(&self, mut txn: Txn, space: &Space, draft: &Draft, command: &EditCommand) -> Txn {
        let (Draft { plan, counters, .. }, id) = (draft, space.key());
        let settled = |number: RegionNumber| counters.iter().find(|(of, _)| *of == number).map(|(_, settled)| *settled);
        for change in &plan.changes {
            let key = keys::region(id, change.number.0);
            let (_, version) = space.versions(change.number);
            txn = txn.expect(key.clone(), version);
            let Some(after) = &change.after else {
                // The commit compares the counter, so nothing has been reserved since the counter was read. Every
                // reservation compares the region's record, so nothing is reserved later. The counter's record, if any,
                // is kept: counters are never deleted.
                txn = txn.delete(key);
                continue;
            };
            txn = txn.put(key, stored::encode_region(after));
            // When a region closes, its all-zero subregion inherits the counter, if the counter has a record. When the
            // edit that closed the region is reverted, the region gets the counter back.
            let moved = plan.counter_move.filter(|moved| moved.to == change.number);
            let inherited = moved.and_then(|moved| settled(moved.from)).filter(|from| from.version != 0);
            let (key, reserved) = (keys::counter(id, change.number.0), after.issued);
            let is_unsure = plan.unsure.contains(&change.number);
            match inherited {
                Some(from) => {
                    // If the region existed before, the version is compared below.
                    txn = if change.before.is_none() { txn.expect(key.clone(), Version::ABSENT) } else { txn };
                    txn = txn.put(key, stored::encode_counter(&stored::Counter { reserved, ..from.value }));
                }
                None if change.before.is_none() && (reserved != Count::ZERO || is_unsure) => {
                    let new = stored::Counter::of_region(reserved, &self.restores);
                    let new = stored::Counter { unsure: new.unsure || is_unsure, ..new };
                    txn = txn.expect(key.clone(), Version::ABSENT).put(key, stored::encode_counter(&new));
                }
                None => {}
            }
        }
        for (number, settled) in counters.iter().copied() {
            txn = txn.expect(keys::counter(id, number.0), Version::new(settled.version));
            if let Some((_, declared)) = plan.declared.filter(|(declared, _)| *declared == number) {
                let declared = stored::Counter { reserved: declared, unsure: false, ..settled.value };
                txn = txn.put(keys::counter(id, number.0), stored::encode_counter(&declared));
            }
            // A restore may have lost regions in the delegated region's space, and these regions may have issued the
            // delegated region's suffixes.
            let unsure = stored::Counter { unsure: true, ..settled.value };
            let is_undelegated = matches!(command.edit, Edit::Undelegate { .. });
            if is_undelegated && self.may_have_lost_edits() && settled.version != 0 {
                txn = txn.put(keys::counter(id, number.0), stored::encode_counter(&unsure));
            }
        }
        let declared = plan.declared.and_then(|(_, after)| {
            let before = plan.changes.first()?.before.as_ref()?.issued;
            Some(Declared { before, after })
        });
        let entry = HistoryEntry {
            // OK because the wall clock is within centuries of 1970; otherwise, a wrong time is recorded.
            unix_nanos: i64::try_from(self.clock.wall().get()).unwrap_or(i64::MAX),
            principal: command.principal.clone(),
            operation: command.edit.operation().to_owned(),
            reason: command.options.reason.clone(),
            request_id: command.options.request_id.clone(),
            changes: plan.changes.clone(),
            declared,
            follows: None,
            undoes: command.undoes,
        };
        history::record(txn, space, plan.revision, &entry)
    }
}

/// Adds the record of the space at an edit's revision to a commit. Of several edits in one commit, only the last one
/// writes it.
pub(super) fn revise(txn: Txn, space: &Space, Draft { plan, edit, .. }: &Draft) -> Txn {
    let (key, constants) = (keys::space(space.key()), space.constants());
    let record = space.read(|table| space_record(table, Some(plan), *edit, constants));
    let (version, _) = space.versions(RegionNumber(0));
    txn.expect(key.clone(), version).put(key, record)
}
