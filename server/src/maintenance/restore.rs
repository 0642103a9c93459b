//! Restores a new store from a backup or an old copy of a data directory, such that no identifier is issued twice.
//!
//! A backup does not contain what was issued after it was taken, but the pace of each counter bounds how far it can have come. The
//! restore moves every counter past that bound; if fewer numbers are left, the counter issues nothing until an operator names a
//! floor. It reserves every slot until the time of the restore, and moves its fence far ahead. It seals the regions, unless the
//! operator confirms that no table was edited since. If another store was restored from an older backup before, that backup bounds
//! the counters as well. The clocks of lost hosts may have been ahead of this one's by `--clock-error`, so the new store issues
//! nothing before that time has passed. It gets a new identity.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use kent_ids::{ClockSeq, Node, Slot, SlotEpoch, Source, UnixNanos, UnixSeconds};
use kent_issue::{Forgotten, HolderId, Lapse, SlotRecord, series_pace};
use kent_proto::stored::{self, Counter, HistoryEntry, Malformed, Restored, SpaceFacts};
use kent_regions::{Change, Count, Kind, Order, Pace, Region, RegionNumber, Revision};
use kent_store::{Archiving, Key, OpenError, SledOptions, SledStore, Store, StoreId};
use thiserror::Error;

use crate::{
    host::{
        clock::{Clock, SystemClock},
        entropy::{self, Entropy, SystemEntropy},
    },
    maintenance::{
        archive::{self, FromArchive, NotRestored},
        backup::{self, Backup, BadBackup},
        filling::{self, FillError, Filling},
    },
    records::{
        failure::StoreFailure,
        founding::{self, NotWhole},
        keys,
    },
};

/// The arguments of `kentd restore`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  kentd restore kent.backup --data /var/lib/kent-new --dry-run
  kentd restore kent.backup --data /var/lib/kent-new --clock-error 1s --table-unchanged --yes
  kentd restore --archive /mnt/other/kent-archive --data /var/lib/kent-new --yes
  kentd restore /old/kent-data --data /var/lib/kent-new --floor region:invoices=4712 --yes")]
pub struct RestoreArgs {
    /// A backup file, a data directory that no daemon is using, or an archive; without --archive, an archive is treated as a
    /// backup.
    #[arg(value_name = "FILE|DIR")]
    pub source: PathBuf,
    /// Restore DIR as an archive (kentd --archive DIR): nothing is lost, skipped or sealed. The archived store cannot be started or
    /// restored again.
    #[arg(long, conflicts_with_all = ["clock_error", "floor", "restored_before", "table_unchanged"])]
    pub archive: bool,
    /// The identity of the store, if DIR contains the archives of several stores.
    #[arg(long, value_name = "ID", requires = "archive")]
    pub store: Option<String>,
    /// The directory of the new store; it must not contain a store.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// How far the clock of a host that issued from the lost store may have been ahead of this host's. The new store issues nothing
    /// for that long.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = humantime::parse_duration)]
    pub clock_error: Duration,
    /// Continue this source at N, regardless of what it may have issued: N must be above every number in use. Can be repeated.
    #[arg(long, value_name = "SOURCE=N", value_parser = parse_floor)]
    pub floor: Vec<Floor>,
    /// The oldest backup of this store that was restored before, if it is older than this one. What that restored store issued is
    /// skipped as well.
    #[arg(long, value_name = "FILE|DIR")]
    pub restored_before: Option<PathBuf>,
    /// Confirm that no table was edited after the backup, so that the regions are not sealed.
    #[arg(long)]
    pub table_unchanged: bool,
    /// Show what would be skipped, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(long)]
    pub yes: bool,
}

/// The number at which an operator continues a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floor {
    /// The source.
    pub source: Source,
    /// The first number to issue.
    pub next: Count,
}

fn parse_floor(text: &str) -> Result<Floor, String> {
    let (source, next) = text.rsplit_once('=').ok_or("a floor is SOURCE=N, such as region:orders=5000")?;
    let source = source.parse::<Source>().map_err(|error| error.to_string())?;
    if matches!(source, Source::Format(_)) {
        return Err(format!("{source} counts nothing: only regions and series have a floor"));
    }
    let next = next.replace('_', "").parse().map_err(|_| format!("{next:?} is not a number"))?;
    Ok(Floor { source, next })
}

/// The effect of a restore on one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The source of the counter.
    pub source: String,
    /// Its value in the backup.
    pub from: Count,
    /// Its value after the restore; `None` if it issues nothing until an operator names a floor.
    pub to: Option<Count>,
}

/// A planned restore.
#[derive(Debug)]
pub struct Restore {
    /// When the backup was made, or the latest time recorded in the directory.
    pub taken: UnixNanos,
    /// The effects on all counters.
    pub skips: Vec<Skip>,
    /// The number of regions that are sealed.
    pub sealed: usize,
    /// The time until which every slot is reserved.
    pub reserved_until: UnixSeconds,
    /// The archive that is restored; then nothing was lost.
    pub archive: Option<FromArchive>,
    records: BTreeMap<Key, Vec<u8>>,
}

/// Reasons that nothing is restored.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The source is not a valid backup.
    #[error("{} cannot be restored", path.display())]
    Source {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        source: BadBackup,
    },
    /// The source is not a complete store.
    #[error("{} cannot be restored", path.display())]
    NotWhole {
        /// The backup or the directory.
        path: PathBuf,
        /// The reason.
        source: NotWhole,
    },
    /// The older backup is of another store, or not older.
    #[error("{} is not of the same store, or not older", path.display())]
    NotOlder {
        /// The other backup or directory.
        path: PathBuf,
    },
    /// The source or the target cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A record is malformed, or the target does not accept it.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// The target was not filled.
    #[error(transparent)]
    Fill(#[from] FillError),
    /// The archive cannot be restored.
    #[error(transparent)]
    Archive(#[from] NotRestored),
    /// The target directory is in use.
    #[error("{} holds a store already: restore into a new directory", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// This host's clock is further behind than assumed.
    #[error(
        "this host's clock says {}, but the store contains the later time {}: correct the clock, or allow for the difference (--clock-error)",
        now.rfc3339(0).unwrap_or_default(),
        latest.rfc3339(0).unwrap_or_default()
    )]
    ClockBehind {
        /// The time of this host's clock.
        now: UnixNanos,
        /// The latest time of a clock of the lost store.
        latest: UnixNanos,
    },
    /// A floor names a source that the backup does not contain.
    #[error("--floor {floor}: the store has no such region")]
    NoSuchSource {
        /// The source.
        floor: Source,
    },
    /// A floor exceeds the capacity of the source.
    #[error("--floor {floor}: it has only {capacity} numbers")]
    FloorTooHigh {
        /// The source.
        floor: Source,
        /// The capacity of the source.
        capacity: Count,
    },
}

/// The least distance by which fences, revisions and region numbers move: more than a store used since its backup.
const LEAP: u64 = 1_000_000;
/// The longest time by which an identifier issued before the restore can be ahead of the restore.
const AHEAD: Duration = Duration::from_secs(2);

impl Restore {
    /// Reads the source and plans the restore. Writes nothing.
    ///
    /// # Errors
    ///
    /// [`RestoreError`].
    pub async fn plan(args: &RestoreArgs) -> Result<Self, RestoreError> {
        Self::plan_at(args, SystemClock::new().wall(), &SystemEntropy).await
    }

    /// Like [`Restore::plan`], with a time and random bits of the caller.
    ///
    /// # Errors
    ///
    /// [`RestoreError`].
    pub async fn plan_at(args: &RestoreArgs, now: UnixNanos, entropy: &dyn Entropy) -> Result<Self, RestoreError> {
        if args.archive {
            return plan_exact(args, now, entropy);
        }
        let backup = load(&args.source).await?;
        let older = match &args.restored_before {
            Some(path) => Some(OlderBackup::of(path, load(path).await?, &backup)?),
            None => None,
        };
        plan(args, backup, older, now, entropy)
    }

    /// Like [`Restore::plan_at`], for a backup in memory.
    ///
    /// # Errors
    ///
    /// [`RestoreError`].
    pub fn plan_in_memory(
        args: &RestoreArgs,
        backup: &[u8],
        now: UnixNanos,
        entropy: &dyn Entropy,
    ) -> Result<Self, RestoreError> {
        let bad = |source| RestoreError::Source { path: args.source.clone(), source };
        plan(args, checked(&args.source, backup::decode(backup).map_err(bad)?)?, None, now, entropy)
    }

    /// Writes the new store. No daemon starts on it until it is complete.
    ///
    /// # Errors
    ///
    /// [`RestoreError`].
    pub async fn write(self, args: &RestoreArgs) -> Result<(), RestoreError> {
        let new_id = entropy::bytes(&SystemEntropy);
        let store = SledStore::open(SledOptions { dir: args.data.clone(), new_id })?;
        let written = self.write_to(&store, args, &SystemEntropy).await;
        store.close().await;
        written
    }

    /// Writes the new store into a store that the caller has opened.
    ///
    /// # Errors
    ///
    /// [`RestoreError`].
    pub async fn write_to(
        self,
        store: &dyn Store,
        args: &RestoreArgs,
        entropy: &dyn Entropy,
    ) -> Result<(), RestoreError> {
        let not_empty = || RestoreError::NotEmpty { dir: args.data.clone() };
        // An interrupted restore from an archive is continued, because the archive names this store, and no other one can be
        // restored from it.
        let origin = self.archive.as_ref().map(|archive| archive.store);
        let is_resumed = match origin {
            Some(origin) => filling::is_begun(store, origin).await?,
            None => false,
        };
        if !is_resumed && !store.scan(&Key::ROOT).await.map_err(StoreFailure::from)?.is_empty() {
            return Err(not_empty());
        }
        if let Some(archive) = &self.archive {
            archive.hand_over(store.store_id(), &args.data)?;
        }
        // A random origin, so that no other attempt continues this one.
        let origin = origin.unwrap_or_else(|| StoreId::new(entropy::bytes(entropy)));
        let filled = match Filling::begin(store, origin, self.records, entropy).await {
            Ok(filling) => filling.write(|_, _| {}).await,
            Err(error) => Err(error),
        };
        filled.map_err(|error| match error {
            FillError::Occupied => not_empty(),
            error => error.into(),
        })
    }

    /// The records of the new store.
    pub(crate) fn into_records(self) -> BTreeMap<Key, Vec<u8>> {
        self.records
    }
}

async fn load(path: &Path) -> Result<Backup, RestoreError> {
    if !path.is_dir() {
        let bad = |source| RestoreError::Source { path: path.to_owned(), source };
        return checked(path, backup::read(path).map_err(bad)?);
    }
    if let Some((dir, records)) = archive::read(path)? {
        return as_backup(&dir, records);
    }
    let new_id = entropy::bytes(&SystemEntropy);
    let options = SledOptions { dir: path.to_owned(), new_id };
    let store = SledStore::open_archived(options, Archiving::ReadOnly)?;
    let records = store.scan(&Key::ROOT).await.map_err(StoreFailure::from);
    store.close().await;
    let records: Vec<_> = records?.into_iter().map(|(key, versioned)| (key, versioned.value)).collect();
    as_backup(path, records)
}

/// Makes a backup of the records of a store; its time is that of the last slot write.
fn as_backup(path: &Path, records: Vec<(Key, Vec<u8>)>) -> Result<Backup, RestoreError> {
    let taken = latest(&records).map_err(StoreFailure::from)?;
    // OK because the time is within centuries of 1970.
    checked(path, Backup { unix_nanos: i64::try_from(taken.get()).unwrap_or(i64::MAX), records })
}

/// Plans a restore from an archive, which is exact because it contains every acknowledged commit.
fn plan_exact(args: &RestoreArgs, now: UnixNanos, entropy: &dyn Entropy) -> Result<Restore, RestoreError> {
    let (from, records) = archive::open(&args.source, args.store.as_deref(), &args.data, !args.dry_run)?;
    let not_whole = |source| RestoreError::NotWhole { path: from.dir.clone(), source };
    founding::check_whole(&records).map_err(not_whole)?;
    let taken = latest(&records).map_err(StoreFailure::from)?;
    let copy = Copy { operation: "restore", now, lost: None, older: None, floors: &[] };
    let restore = Restore::of(records, taken, &copy, entropy)?;
    Ok(Restore { archive: Some(from), ..restore })
}

/// Checks that a backup is that of a complete store.
fn checked(path: &Path, backup: Backup) -> Result<Backup, RestoreError> {
    let not_whole = |source| RestoreError::NotWhole { path: path.to_owned(), source };
    founding::check_whole(&backup.records).map_err(not_whole)?;
    Ok(backup)
}

/// The latest time until which any counter has used its pace.
fn latest_paid(records: &[(Key, Vec<u8>)]) -> Result<UnixNanos, Malformed> {
    let is_counter = |key: &Key| key.starts_with(&keys::COUNTERS) || key.starts_with(&keys::SERIES);
    let counters = records.iter().filter(|(key, _)| is_counter(key));
    counters
        .map(|(_, value)| Ok(stored::decode_counter(value)?.paid))
        .try_fold(UnixNanos::new(0), |latest, paid| Ok(latest.max(paid?)))
}

/// The latest time recorded in a store: the last write of a slot, which was rounded up.
fn latest(records: &[(Key, Vec<u8>)]) -> Result<UnixNanos, Malformed> {
    let slots = records.iter().filter(|(key, _)| key.starts_with(&keys::SLOTS));
    slots
        .map(|(_, value)| Ok(stored::decode_slot(value)?.seen.offset(-1).nanos()))
        .try_fold(UnixNanos::new(0), |latest, seen| Ok(latest.max(seen?)))
}

fn plan(
    args: &RestoreArgs,
    backup: Backup,
    older: Option<OlderBackup>,
    now: UnixNanos,
    entropy: &dyn Entropy,
) -> Result<Restore, RestoreError> {
    let taken = UnixNanos::new(backup.unix_nanos.into());
    let paid = latest_paid(&backup.records).map_err(StoreFailure::from)?;
    let lapse = Lapse::since_backup(taken, paid, now, args.clock_error)
        .map_err(|latest| RestoreError::ClockBehind { now, latest })?;
    let now = now.max(taken);
    let lost = Restored { lapse, tables_edited: !args.table_unchanged };
    let copy = Copy { operation: "restore", now, lost: Some(lost), older: older.as_ref(), floors: &args.floor };
    Restore::of(backup.records, taken, &copy, entropy)
}

/// An older backup from which another store was restored: it bounds what that store issued, which a newer backup does not.
#[derive(Debug)]
pub(crate) struct OlderBackup {
    /// When it was made.
    taken: UnixNanos,
    /// The restores before the backup.
    restores: Vec<Restored>,
    records: BTreeMap<Key, Vec<u8>>,
}

impl OlderBackup {
    fn of(path: &Path, older: Backup, newer: &Backup) -> Result<Self, RestoreError> {
        let key = newer.records.iter().find(|(key, _)| *key == keys::CLUSTER);
        let records: BTreeMap<_, _> = older.records.into_iter().collect();
        if older.unix_nanos > newer.unix_nanos || key.map(|(_, key)| key) != records.get(&keys::CLUSTER) {
            return Err(RestoreError::NotOlder { path: path.to_owned() });
        }
        let restores = records.get(&keys::RESTORES).map(|record| stored::decode_restores(record)).transpose();
        let restores = restores.map_err(StoreFailure::from)?.unwrap_or_default();
        Ok(Self { taken: UnixNanos::new(older.unix_nanos.into()), restores, records })
    }

    fn since(&self) -> UnixNanos {
        Lapse::begin(self.taken)
    }

    /// The highest value that a counter of the other store can have reached at a time; `None` if this backup does not bound it.
    fn bounds(&self, key: &Key, until: UnixNanos, kind: &CounterKind) -> Result<Option<Count>, Malformed> {
        let read = self.records.get(key).map(|value| stored::decode_counter(value)).transpose()?;
        let known = match (read, kind.record.as_ref()) {
            (Some(known), _) => known,
            (None, None) => Counter::of_series(kind.first, &self.restores, kind.pace, kind.capacity),
            (None, Some(region)) if self.records.contains_key(region) => {
                Counter::of_region(Count::ZERO, &self.restores)
            }
            // The other store may have created the same region, and its operator may have set any number.
            (None, Some(_)) => return Ok(None),
        };
        let after = known.after(&Lapse { since: self.since(), until }, kind.pace, kind.capacity);
        Ok((!after.unsure).then_some(after.reserved))
    }
}

/// The properties of a counter that bound it.
#[derive(Clone, Debug)]
struct CounterKind {
    first: Count,
    pace: Pace,
    capacity: Count,
    order: Order,
    /// The key of its region's record; `None` for a series.
    record: Option<Key>,
}

/// How the records of the old store change for the new one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy<'f> {
    /// The name of the operation in the history.
    pub(crate) operation: &'static str,
    pub(crate) now: UnixNanos,
    /// The time for which nothing is known; `None` if nothing has happened since the records were read.
    pub(crate) lost: Option<Restored>,
    /// The older backup from which another store was restored.
    pub(crate) older: Option<&'f OlderBackup>,
    pub(crate) floors: &'f [Floor],
}

impl Copy<'_> {
    fn seals(&self) -> bool {
        self.lost.is_some_and(|lost| lost.tables_edited)
    }

    /// Returns the new value of a counter.
    fn moved(&self, key: &Key, source: &Source, from: &Counter, kind: &CounterKind) -> Result<Counter, RestoreError> {
        let CounterKind { pace, capacity, order, .. } = *kind;
        let mut after = self.lost.map_or(*from, |lost| from.after(&lost.lapse, pace, capacity));
        if let (Some(older), Some(lost), false) = (self.older, self.lost, after.unsure) {
            after = match older.bounds(key, lost.lapse.until, kind).map_err(StoreFailure::from)? {
                Some(bound) => Counter { reserved: after.reserved.max(bound), ..after },
                None => Counter { reserved: from.reserved, unsure: true, ..after },
            };
        }
        let Some(floor) = self.floors.iter().find(|floor| floor.source == *source) else { return Ok(after) };
        let next = order.floor(floor.next);
        if next > capacity {
            return Err(RestoreError::FloorTooHigh { floor: source.clone(), capacity });
        }
        Ok(Counter { reserved: next.max(from.reserved), unsure: false, ..after })
    }
}

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
            archive: None,
            reserved_until: until.offset(i128::try_from(AHEAD.as_nanos()).unwrap_or(0)).ceil_seconds(),
            records: records.into_iter().collect(),
        };
        // The new store counts its starts from zero.
        restore.records.remove(&keys::BOOTS);
        // The new store is written with this program's schema.
        restore.records.remove(&keys::IN_FORCE);
        restore.move_series(copy)?;
        let spaces: Vec<(Key, Vec<u8>)> = restore.with_prefix(&keys::SPACES);
        let mut names = BTreeMap::new();
        for (key, value) in spaces {
            let id = keys::parse_space(&key).map_err(StoreFailure::from)?.to_owned();
            let facts = stored::decode_space(&value).map_err(StoreFailure::from)?;
            restore.move_space(&id, &facts, copy, &mut names, entropy)?;
        }
        if let Some(floor) = copy.floors.iter().find(|floor| !restore.has(&floor.source)) {
            return Err(RestoreError::NoSuchSource { floor: floor.source.clone() });
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

    /// The restores in the history of the old store.
    fn earlier_restores(&self) -> Result<Vec<Restored>, Malformed> {
        self.records.get(&keys::RESTORES).map_or(Ok(Vec::new()), |record| stored::decode_restores(record))
    }

    /// Adds this restore to the list of restores. Daemons use the list for sources without a counter, because their counter may
    /// have been lost.
    fn add_lapse(&mut self, copy: &Copy<'_>) -> Result<(), Malformed> {
        let Some(mut lost) = copy.lost else { return Ok(()) };
        let mut restores = self.earlier_restores()?;
        if let Some(older) = copy.older {
            lost.lapse.since = lost.lapse.since.min(older.since());
            // The new entry covers all restores since the older backup, because the other store went through none of those.
            let (before, since): (Vec<_>, Vec<_>) =
                restores.into_iter().partition(|restored| older.restores.contains(restored));
            lost.tables_edited |= since.iter().any(|restored| restored.tables_edited);
            restores = before;
        }
        restores.push(lost);
        self.records.insert(keys::RESTORES, stored::encode_restores(&restores));
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
                // Even a region without a counter may have issued since.
                let source = Source::Region { name: region.name.clone(), space: space.clone() };
                let (first, capacity, record) = (Count::ZERO, region.capacity(), Some(key.clone()));
                let kind = CounterKind { first, pace: region.pace, capacity, order: region.order, record };
                self.move_counter(copy, counter, source, &from, &kind)?;
            }
            if copy.seals() && region.kind != Kind::Closed && !region.sealed && !region.delegated {
                let sealed = Region { sealed: true, ..region.clone() };
                self.records.insert(key, stored::encode_region(&sealed));
                changes.push(Change { before: Some(region), after: sealed });
            }
        }
        self.sealed += changes.len();
        let revision = Revision(advanced(facts.revision.0, copy.now));
        let entry = HistoryEntry {
            unix_nanos: i64::try_from(copy.now.get()).unwrap_or(i64::MAX),
            principal: format!("kentd {}", copy.operation),
            operation: copy.operation.to_owned(),
            reason: format!("the records were those of revision {}", facts.revision),
            request_id: String::new(),
            changes,
            declared: false,
            follows: Some(facts.revision),
        };
        for (part, number) in stored::encode_history(&entry).into_iter().zip(0..) {
            self.records.insert(keys::history(id, revision.0, number), part);
        }
        self.pass_over(id, facts.revision, revision).map_err(StoreFailure::from)?;
        let last_edit = stored::EditId(entropy::bytes(entropy));
        // Numbers of regions created since the backup must not be reused.
        let next_number = facts.next_number.0.saturating_add(LEAP);
        let facts = SpaceFacts { revision, last_edit, next_number: RegionNumber(next_number), ..*facts };
        self.records.insert(keys::space(id), stored::encode_space(&facts));
        Ok(())
    }

    /// Counts the skipped revisions, so that the same number of edits is kept as before.
    fn pass_over(&mut self, id: &str, before: Revision, after: Revision) -> Result<(), Malformed> {
        let key = keys::oldest(id);
        let known = self.records.get(&key).map(|record| stored::decode_forgotten(record)).transpose()?;
        let forgotten = known.unwrap_or_default();
        let passed_over = forgotten.passed_over.saturating_add((after.0 - before.0).saturating_sub(1)); // OK because after > before
        self.records.insert(key, stored::encode_forgotten(Forgotten { passed_over, ..forgotten }));
        Ok(())
    }

    /// Reserves every slot, even without a record, until the restore, and gives it a fence that was never used.
    fn reserve_slots(&mut self, now: UnixNanos, entropy: &dyn Entropy) -> Result<(), Malformed> {
        for slot in Slot::all() {
            let key = keys::slot(slot);
            let known = self.records.get(&key).map(|value| stored::decode_slot(value)).transpose()?;
            let random = entropy::number(entropy);
            let known = known.unwrap_or(SlotRecord {
                node: Node::for_slot(random, slot),
                clock_seq: ClockSeq::from_random(random >> 48),
                epoch: SlotEpoch::new(0),
                holder: HolderId::new(entropy::bytes(entropy)),
                reserved_until: self.reserved_until,
                seen: self.reserved_until,
            });
            let record = SlotRecord {
                epoch: SlotEpoch::new(advanced(known.epoch.get(), now)),
                holder: HolderId::new(entropy::bytes(entropy)),
                reserved_until: known.reserved_until.max(self.reserved_until),
                ..known
            };
            self.records.insert(key, stored::encode_slot(&record));
        }
        Ok(())
    }
}

/// A fence or a revision after a restore: above what the lost store used since its backup, and above those of an earlier restore of
/// the same backup. Starts and edits are slower than one per microsecond, so the microseconds since 1970 exceed both.
fn advanced(known: u64, now: UnixNanos) -> u64 {
    known.saturating_add(LEAP).max(u64::try_from(now.get() / 1000).unwrap_or(0))
}

#[cfg(test)]
mod tests;
