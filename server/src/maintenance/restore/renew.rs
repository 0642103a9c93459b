//! Turns the records of an old store into the records of a new store: counters move, slots are reserved, regions are
//! sealed.

use std::{collections::BTreeMap, time::Duration};

use kent_engine::{
    host::entropy::{self, Entropy},
    records::{failure::StoreFailure, keys},
};
use kent_ids::{Slot, SlotEpoch, Source, UnixNanos};
use kent_issue::{Forgotten, HolderId, SlotRecord, series_pace};
use kent_proto::stored::{
    self, Counter, HistoryEntry, LayoutChange, LayoutEdit, Malformed, Restored, SpaceFacts, StoredLayout,
};
use kent_regions::{Change, Count, Kind, Order, Region, RegionNumber, Revision};
use kent_store::Key;

use super::{
    Restore, RestoreError, Skip,
    bound::{Copy, CounterKind},
};

/// The minimum distance by which fences, revisions and region numbers move. The distance is assumed to exceed what a
/// store used since its backup.
pub(super) const LEAP: u64 = 1_000_000;
/// How far a timestamp that was issued before the restore can be ahead of the time of the restore.
const AHEAD: Duration = Duration::from_secs(2);

impl Restore {
    /// Plans the records of the new store.
    pub(crate) fn of(
        records: Vec<(Key, Vec<u8>)>,
        taken: UnixNanos,
        copy: &Copy<'_>,
        entropy: &dyn Entropy,
    ) -> Result<Self, RestoreError> {
        let until = copy.lost.map_or(copy.now, |lost| lost.lapse.until);
        let mut restore = Self {
            taken,
            skips: Vec::new(),
            sealed: 0,
            disabled_tokens: 0,
            marked_budgets: 0,
            used_layouts: 0,
            archive: None,
            is_archive_as_backup: false,
            reserved_until: until.offset(i128::try_from(AHEAD.as_nanos()).unwrap_or(0)).ceil_seconds(),
            records: records.into_iter().collect(),
        };
        // The new store counts its starts from zero.
        restore.records.remove(&keys::BOOTS);
        restore.records.remove(&keys::WITNESSES);
        // The new store is written with this program's schema.
        restore.records.remove(&keys::IN_FORCE);
        restore.move_series(copy)?;
        restore.mark_layouts(copy).map_err(StoreFailure::from)?;
        restore.add_layouts_edit(copy).map_err(StoreFailure::from)?;
        let spaces: Vec<(Key, Vec<u8>)> = restore.with_prefix(&keys::SPACES);
        let mut names = BTreeMap::new();
        for (key, value) in spaces {
            let id = keys::parse_space(&key).map_err(StoreFailure::from)?.to_owned();
            let facts = stored::decode_space(&value).map_err(StoreFailure::from)?;
            restore.move_space(&id, &facts, copy, &mut names, entropy)?;
        }
        if let Some(floor) = copy.floors.iter().find(|floor| !restore.has(&floor.source)) {
            let mut known: Vec<_> = restore.skips.iter().map(|skip| skip.source.clone()).collect();
            known.sort();
            return Err(RestoreError::NoSuchSource { floor: floor.source.clone(), known });
        }
        restore.add_lapse(copy).map_err(StoreFailure::from)?;
        restore.reserve_slots(copy.now, entropy).map_err(StoreFailure::from)?;
        Ok(restore)
    }

    fn has(&self, source: &Source) -> bool {
        let token = source.to_string();
        self.skips.iter().any(|skip| skip.source == token)
    }

    fn with_prefix(&self, prefix: &Key) -> Vec<(Key, Vec<u8>)> {
        let within = self.records.iter().filter(|(key, _)| key.starts_with(prefix));
        within.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Returns the restores in the history of the old store.
    fn earlier_restores(&self) -> Result<Vec<Restored>, Malformed> {
        self.records.get(&keys::RESTORES).map_or(Ok(Vec::new()), |record| stored::decode_restores(record))
    }

    /// Adds this restore to the list of restores. Daemons use the list for sources without a counter, because the
    /// counter may have been lost.
    fn add_lapse(&mut self, copy: &Copy<'_>) -> Result<(), Malformed> {
        let Some(mut lost) = copy.lost else { return Ok(()) };
        let mut restores = self.earlier_restores()?;
        if let Some(older) = copy.older {
            lost.lapse.since = lost.lapse.since.min(older.since());
            // The new entry covers all restores since the older backup, because none of them applied to the store that
            // was restored from the older backup. The lapses of these restores may have begun before the older backup.
            let (before, since): (Vec<_>, Vec<_>) =
                restores.into_iter().partition(|restored| older.restores.contains(restored));
            for replaced in since {
                lost.lapse.since = lost.lapse.since.min(replaced.lapse.since);
                lost.lapse.until = lost.lapse.until.max(replaced.lapse.until);
                lost.tables_edited |= replaced.tables_edited;
            }
            restores = before;
        }
        restores.push(lost);
        self.records.insert(keys::RESTORES, stored::encode_restores(&restores));
        Ok(())
    }

    /// Marks every layout as used, because identifiers may have been issued since the backup.
    fn mark_layouts(&mut self, copy: &Copy<'_>) -> Result<(), Malformed> {
        if copy.lost.is_none() {
            return Ok(());
        }
        for (key, value) in self.with_prefix(&keys::LAYOUTS) {
            let stored = StoredLayout { used: true, ..stored::decode_layout(&value)? };
            self.records.insert(key, stored::encode_layout(&stored));
            self.used_layouts += 1;
        }
        Ok(())
    }

    /// Adds this operation to the history of the layouts. The revision moves, because edits since the backup were lost.
    fn add_layouts_edit(&mut self, copy: &Copy<'_>) -> Result<(), Malformed> {
        let known =
            self.records.get(&keys::LAYOUTS_REVISION).map(|record| stored::decode_layouts(record)).transpose()?;
        let (before, after) = (known.unwrap_or(0), advanced(known.unwrap_or(0), copy.now));
        let edit = LayoutEdit {
            change: LayoutChange::All { operation: copy.operation.to_owned() },
            principal: format!("kentd {}", copy.operation),
            unix_nanos: i64::try_from(copy.now.get()).unwrap_or(i64::MAX),
            follows: before,
        };
        self.records.insert(keys::layout_edit(after), stored::encode_layout_edit(&edit));
        self.records.insert(keys::LAYOUTS_REVISION, stored::encode_layouts(after));
        Ok(())
    }

    fn move_series(&mut self, copy: &Copy<'_>) -> Result<(), RestoreError> {
        let mut counters = BTreeMap::new();
        for (key, value) in self.with_prefix(&keys::SERIES) {
            let series = keys::parse_series(&key).map_err(StoreFailure::from)?;
            let counter = stored::decode_counter(&value).map_err(StoreFailure::from)?;
            counters.insert(series.to_string(), (series, counter));
        }
        // A floor may name a series whose counter was lost.
        for floor in copy.floors {
            if let Source::Series(series) = &floor.source {
                counters.entry(series.to_string()).or_insert((series.clone(), Counter::NEW));
            }
        }
        for (_, (series, counter)) in counters {
            let (pace, capacity) = (series_pace(&series), Count::Below(series.end().get()));
            let first = Count::Below(series.first().get());
            let kind = CounterKind { first, pace, capacity, order: Order::Sequential, record: None };
            self.move_counter(copy, keys::series(&series), Source::Series(series), &counter, &kind)?;
        }
        Ok(())
    }

    fn move_counter(
        &mut self,
        copy: &Copy<'_>,
        key: Key,
        source: Source,
        from: &Counter,
        kind: &CounterKind,
    ) -> Result<(), RestoreError> {
        let to = copy.moved(&key, &source, from, kind)?;
        if to != Counter::NEW {
            self.records.insert(key, stored::encode_counter(&to));
        }
        let to = (!to.unsure).then_some(to.reserved);
        self.skips.push(Skip { source: source.to_string(), from: from.reserved, to });
        Ok(())
    }

    fn move_space(
        &mut self,
        id: &str,
        facts: &SpaceFacts,
        copy: &Copy<'_>,
        names: &mut BTreeMap<String, String>,
        entropy: &dyn Entropy,
    ) -> Result<(), RestoreError> {
        let space = names.get(id).map_or(id, String::as_str).to_owned();
        let earlier = self.earlier_restores().map_err(StoreFailure::from)?;
        let mut changes = Vec::new();
        for (key, value) in self.with_prefix(&keys::regions(id)) {
            let number = RegionNumber(keys::parse_number(&key).map_err(StoreFailure::from)?);
            let counter = keys::counter(id, number.0);
            let read = self.records.get(&counter).map(|value| stored::decode_counter(value)).transpose();
            let read = read.map_err(StoreFailure::from)?;
            let issued = read.map_or(Count::ZERO, |counter| counter.reserved);
            let region = stored::decode_region(&value, number, issued).map_err(StoreFailure::from)?;
            let from = read.unwrap_or_else(|| Counter::of_region(Count::ZERO, &earlier));
            if region.delegated {
                // A space's key begins with the key of the outer space, so inner spaces come later.
                names.insert(keys::inner_space(id, number.0), format!("{space}/{}", region.name));
            }
            if region.kind != Kind::Closed && region.order != Order::External && !region.delegated {
                // Even a region without a counter may have issued numbers since the backup.
                let source = Source::Region { name: region.name.to_string(), space: space.clone() };
                let (first, capacity, record) = (Count::ZERO, region.capacity(), Some(key.clone()));
                let kind = CounterKind { first, pace: region.pace, capacity, order: region.order, record };
                self.move_counter(copy, counter, source, &from, &kind)?;
            }
            if copy.seals() && region.kind != Kind::Closed && !region.sealed && !region.delegated {
                let sealed = Region { sealed: true, ..region.clone() };
                self.records.insert(key, stored::encode_region(&sealed));
                changes.push(Change::changed(region, sealed));
            }
        }
        self.sealed += changes.len();
        let revision = Revision(advanced(facts.revision.0, copy.now));
        let last_edit = stored::EditId(entropy::bytes(entropy));
        let entry = HistoryEntry {
            edit: last_edit,
            unix_nanos: i64::try_from(copy.now.get()).unwrap_or(i64::MAX),
            principal: format!("kentd {}", copy.operation),
            operation: copy.operation.to_owned(),
            reason: format!("the records were those of revision {}", facts.revision),
            request_id: String::new(),
            changes,
            declared: None,
            undoes: None,
            follows: Some(facts.revision),
        };
        for (part, number) in stored::encode_history(&entry).into_iter().zip(0..) {
            self.records.insert(keys::history(id, revision.0, number), part);
        }
        self.pass_over(id, facts.revision, revision).map_err(StoreFailure::from)?;
        // Numbers of regions created since the backup must not be reused.
        let next_number = facts.next_number.0.saturating_add(LEAP);
        let facts = SpaceFacts { revision, last_edit, next_number: RegionNumber(next_number), ..*facts };
        self.records.insert(keys::space(id), stored::encode_space(&facts));
        Ok(())
    }

    /// Records how many revisions are skipped, so that they do not count as edits that the history keeps.
    fn pass_over(&mut self, id: &str, before: Revision, after: Revision) -> Result<(), Malformed> {
        let key = keys::oldest(id);
        let known = self.records.get(&key).map(|record| stored::decode_forgotten(record)).transpose()?;
        let forgotten = known.unwrap_or_default();
        let passed_over = forgotten.passed_over.saturating_add((after.0 - before.0).saturating_sub(1)); // OK because after > before
        self.records.insert(key, stored::encode_forgotten(Forgotten { passed_over, ..forgotten }));
        Ok(())
    }

    /// Reserves every slot, even one without a record, until the new store may issue or later, and gives the slot a
    /// fence that was never used.
    fn reserve_slots(&mut self, now: UnixNanos, entropy: &dyn Entropy) -> Result<(), Malformed> {
        for slot in Slot::all() {
            let key = keys::slot(slot);
            let known = self.records.get(&key).map(|value| stored::decode_slot(value)).transpose()?;
            let (nobody, random) = (HolderId::new(entropy::bytes(entropy)), entropy::number(entropy));
            let known = known.unwrap_or(SlotRecord::unheld(slot, self.reserved_until, nobody, random));
            let record = SlotRecord {
                epoch: SlotEpoch::new(advanced(known.epoch.get(), now)),
                holder: nobody,
                reserved_until: known.reserved_until.max(self.reserved_until),
                ..known
            };
            self.records.insert(key, stored::encode_slot(&record));
        }
        Ok(())
    }
}

/// Returns a fence or a revision after a restore. The result exceeds what the lost store used since its backup, and
/// what an earlier restore of the same backup used. A store has less than one start or edit per microsecond, so the
/// microseconds since 1970 exceed both.
pub(super) fn advanced(known: u64, now: UnixNanos) -> u64 {
    known.saturating_add(LEAP).max(u64::try_from(now.get() / 1000).unwrap_or(0))
}
