//! Restoring: a new store from a backup or from an old copy of a data directory, from which nothing is issued twice.
//!
//! What was issued after the backup was taken is not in it, but there is a bound: no counter moves faster than its pace. So every
//! counter is moved past what it can have issued since; where that is more than is left, nothing is issued from it until an operator
//! names a floor. Every slot is reserved up to the moment of the restore, and its fence moved far ahead; and the regions are sealed
//! unless the operator vouches that no table was edited since. Where another store was restored from an older backup before, that
//! backup bounds the counters as well. The clocks of lost hosts may have been ahead of this one's by
//! `--clock-error`: the new store issues nothing before they all are past. It has a new identity.

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

/// From what, into which directory, and what is known of the time since.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  kentd restore kent.backup --data /var/lib/kent-new --dry-run
  kentd restore kent.backup --data /var/lib/kent-new --clock-error 1s --table-unchanged --yes
  kentd restore --archive /mnt/other/kent-archive --data /var/lib/kent-new --yes
  kentd restore /old/kent-data --data /var/lib/kent-new --floor region:invoices=4712 --yes")]
pub struct RestoreArgs {
    /// The backup, or a data directory that no daemon holds; or an archive, which is taken for a backup unless --archive is said.
    #[arg(value_name = "FILE|DIR")]
    pub source: PathBuf,
    /// DIR is an archive (kentd --archive DIR): nothing is lost, skipped or sealed. The store that it is of cannot be started again,
    /// nor restored a second time.
    #[arg(long, conflicts_with_all = ["clock_error", "floor", "restored_before", "table_unchanged"])]
    pub archive: bool,
    /// The identity of the store, if DIR is the archive of several.
    #[arg(long, value_name = "ID", requires = "archive")]
    pub store: Option<String>,
    /// The directory of the new store, which must not hold one.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// How far the clock of a host that issued from the lost store may have been ahead of this host's. The new store issues nothing
    /// for that long.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = humantime::parse_duration)]
    pub clock_error: Duration,
    /// Go on from N in this source, whatever it may have issued: N is above every number in use. Can be repeated.
    #[arg(long, value_name = "SOURCE=N", value_parser = parse_floor)]
    pub floor: Vec<Floor>,
    /// The oldest backup of this store that was restored before, if that is older than this one. What that store issued is skipped
    /// as well.
    #[arg(long, value_name = "FILE|DIR")]
    pub restored_before: Option<PathBuf>,
    /// No table was edited after the backup: the regions stay as they are, and are not sealed.
    #[arg(long)]
    pub table_unchanged: bool,
    /// Show what would be skipped, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Do it without asking.
    #[arg(long)]
    pub yes: bool,
}

/// Where an operator says that a source goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Which source.
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

/// What a restore does to one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Whose counter.
    pub source: String,
    /// Where it stood.
    pub from: Count,
    /// Where it goes on; `None` if nothing is issued until an operator names a floor.
    pub to: Option<Count>,
}

/// What a restore does.
#[derive(Debug)]
pub struct Restore {
    /// When the backup was made, or the latest time that the directory knows of.
    pub taken: UnixNanos,
    /// Every counter.
    pub skips: Vec<Skip>,
    /// Regions that are sealed.
    pub sealed: usize,
    /// The second up to which every slot is reserved.
    pub reserved_until: UnixSeconds,
    /// The archive that it is made from; nothing was lost then.
    pub archive: Option<FromArchive>,
    records: BTreeMap<Key, Vec<u8>>,
}

/// Why nothing was restored.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The source is no backup.
    #[error("{} cannot be restored", path.display())]
    Source {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: BadBackup,
    },
    /// The source is not a whole store.
    #[error("{} cannot be restored", path.display())]
    NotWhole {
        /// The backup or the directory.
        path: PathBuf,
        /// Why.
        source: NotWhole,
    },
    /// What was restored before is of another store.
    #[error("{} is not of the same store, or not older", path.display())]
    NotOlder {
        /// The other backup or directory.
        path: PathBuf,
    },
    /// The source or the target cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A record makes no sense, or the target does not take it.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// The target was not filled.
    #[error(transparent)]
    Fill(#[from] FillError),
    /// An archive is not restored.
    #[error(transparent)]
    Archive(#[from] NotRestored),
    /// The target is in use already.
    #[error("{} holds a store already: restore into a new directory", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// The assumption about clocks does not hold.
    #[error(
        "this host's clock says {}, and the store knows of {}: set the clock right, or say how far it may be behind (--clock-error)",
        now.rfc3339(0).unwrap_or_default(),
        latest.rfc3339(0).unwrap_or_default()
    )]
    ClockBehind {
        /// What this host's clock says.
        now: UnixNanos,
        /// The latest time that a clock of the lost store is known to have said.
        latest: UnixNanos,
    },
    /// A floor is named for a source that the backup does not know.
    #[error("--floor {floor}: the store has no such region")]
    NoSuchSource {
        /// The source.
        floor: Source,
    },
    /// A floor is above what the source has.
    #[error("--floor {floor}: it has only {capacity} numbers")]
    FloorTooHigh {
        /// The source.
        floor: Source,
        /// How many it has.
        capacity: Count,
    },
}

/// How far fences, revisions and numbers of regions are moved at least: more than a store saw since its backup.
const LEAP: u64 = 1_000_000;
/// No identifier that was issued before the restore has a later time than this after it.
const AHEAD: Duration = Duration::from_secs(2);

impl Restore {
    /// Reads the source and says what is to be done. Nothing is written.
    ///
    /// # Errors
    ///
    /// [`RestoreError`].
    pub async fn plan(args: &RestoreArgs) -> Result<Self, RestoreError> {
        Self::plan_at(args, SystemClock::new().wall(), &SystemEntropy).await
    }

    /// The same at a time and with random bits that the caller brings.
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
            Some(path) => Some(Older::of(path, load(path).await?, &backup)?),
            None => None,
        };
        plan(args, backup, older, now, entropy)
    }

    /// The same for a backup in memory.
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

    /// Writes the new store. Until it is whole, no daemon takes it.
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

    /// Writes the new store into one that the caller has opened.
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
        // One from an archive that was broken off is gone on with: the archive names this store, and is given to no other one.
        let origin = self.archive.as_ref().map(|archive| archive.store);
        let goes_on = match origin {
            Some(origin) => filling::is_begun(store, origin).await?,
            None => false,
        };
        if !goes_on && !store.scan(&Key::ROOT).await.map_err(StoreFailure::from)?.is_empty() {
            return Err(not_empty());
        }
        if let Some(archive) = &self.archive {
            archive.hand_over(store.store_id(), &args.data)?;
        }
        // Drawn, so that no other attempt goes on with what this one leaves behind.
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

    /// What the new store is to hold.
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

/// The records of a store, as a backup that was taken when they were last written.
fn as_backup(path: &Path, records: Vec<(Key, Vec<u8>)>) -> Result<Backup, RestoreError> {
    let taken = latest(&records).map_err(StoreFailure::from)?;
    // OK because a time is within some centuries of 1970.
    checked(path, Backup { unix_nanos: i64::try_from(taken.get()).unwrap_or(i64::MAX), records })
}

/// Reads an archive, which has every commit that was acknowledged: what it says is exact.
fn plan_exact(args: &RestoreArgs, now: UnixNanos, entropy: &dyn Entropy) -> Result<Restore, RestoreError> {
    let (from, records) = archive::open(&args.source, args.store.as_deref(), &args.data, !args.dry_run)?;
    let not_whole = |source| RestoreError::NotWhole { path: from.dir.clone(), source };
    founding::check_whole(&records).map_err(not_whole)?;
    let taken = latest(&records).map_err(StoreFailure::from)?;
    let copy = Copy { operation: "restore", now, lost: None, older: None, floors: &[] };
    let restore = Restore::of(records, taken, &copy, entropy)?;
    Ok(Restore { archive: Some(from), ..restore })
}

/// What was read, if it is a whole store's.
fn checked(path: &Path, backup: Backup) -> Result<Backup, RestoreError> {
    let not_whole = |source| RestoreError::NotWhole { path: path.to_owned(), source };
    founding::check_whole(&backup.records).map_err(not_whole)?;
    Ok(backup)
}

/// Until when the counter is paid that is paid for longest.
fn latest_paid(records: &[(Key, Vec<u8>)]) -> Result<UnixNanos, Malformed> {
    let is_counter = |key: &Key| key.starts_with(&keys::COUNTERS) || key.starts_with(&keys::SERIES);
    let counters = records.iter().filter(|(key, _)| is_counter(key));
    counters
        .map(|(_, value)| Ok(stored::decode_counter(value)?.paid))
        .try_fold(UnixNanos::new(0), |latest, paid| Ok(latest.max(paid?)))
}

/// The latest time that a store knows to have passed: when a slot was last written, which is rounded up.
fn latest(records: &[(Key, Vec<u8>)]) -> Result<UnixNanos, Malformed> {
    let slots = records.iter().filter(|(key, _)| key.starts_with(&keys::SLOTS));
    slots
        .map(|(_, value)| Ok(stored::decode_slot(value)?.seen.offset(-1).nanos()))
        .try_fold(UnixNanos::new(0), |latest, seen| Ok(latest.max(seen?)))
}

fn plan(
    args: &RestoreArgs,
    backup: Backup,
    older: Option<Older>,
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

/// What an older backup knows, from which another store went on: what that issued is bounded by it, not by a newer one.
#[derive(Debug)]
pub(crate) struct Older {
    /// When it was made.
    taken: UnixNanos,
    /// The restores before it.
    restores: Vec<Restored>,
    records: BTreeMap<Key, Vec<u8>>,
}

impl Older {
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

    /// Where a counter can have come to that another store went on with until a time; `None` if this does not bound it.
    fn bounds(&self, key: &Key, until: UnixNanos, kind: &CounterKind) -> Result<Option<Count>, Malformed> {
        let read = self.records.get(key).map(|value| stored::decode_counter(value)).transpose()?;
        let known = match (read, kind.record.as_ref()) {
            (Some(known), _) => known,
            (None, None) => Counter::of_series(kind.first, &self.restores, kind.pace, kind.capacity),
            (None, Some(region)) if self.records.contains_key(region) => {
                Counter::of_region(Count::ZERO, &self.restores)
            }
            // The other store may have got such a region as well, and its operator have named any number.
            (None, Some(_)) => return Ok(None),
        };
        let after = known.after(&Lapse { since: self.since(), until }, kind.pace, kind.capacity);
        Ok((!after.unsure).then_some(after.reserved))
    }
}

/// What a counter may do.
#[derive(Clone, Debug)]
struct CounterKind {
    first: Count,
    pace: Pace,
    capacity: Count,
    order: Order,
    /// That of its region, if it is one's.
    record: Option<Key>,
}

/// How records become those of a new store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy<'f> {
    /// As the history calls it.
    pub(crate) operation: &'static str,
    pub(crate) now: UnixNanos,
    /// What is not known of the time since the records were read; `None` if nothing has happened since.
    pub(crate) lost: Option<Restored>,
    /// What another store went on from.
    pub(crate) older: Option<&'f Older>,
    pub(crate) floors: &'f [Floor],
}

impl Copy<'_> {
    fn seals(&self) -> bool {
        self.lost.is_some_and(|lost| lost.tables_edited)
    }

    /// Where a counter goes on.
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
    /// What a new store gets of these records.
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
        // The old store may hold the mark of how often it was started; the new one begins anew.
        restore.records.remove(&keys::BOOTS);
        // It is written by this program's own schema.
        restore.records.remove(&keys::IN_FORCE);
        restore.move_series(copy)?;
        let spaces: Vec<(Key, Vec<u8>)> = restore.under(&keys::SPACES);
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

    fn under(&self, prefix: &Key) -> Vec<(Key, Vec<u8>)> {
        let within = self.records.iter().filter(|(key, _)| key.starts_with(prefix));
        within.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The restores that the old store came through.
    fn earlier(&self) -> Result<Vec<Restored>, Malformed> {
        self.records.get(&keys::RESTORES).map_or(Ok(Vec::new()), |record| stored::decode_restores(record))
    }

    /// A source that has no counter yet may have got one that was lost: the daemon asks for the restores then.
    fn add_lapse(&mut self, copy: &Copy<'_>) -> Result<(), Malformed> {
        let Some(mut lost) = copy.lost else { return Ok(()) };
        let mut restores = self.earlier()?;
        if let Some(older) = copy.older {
            lost.lapse.since = lost.lapse.since.min(older.since());
            // From then on one bound holds: the other store came through none of the restores since.
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
        for (key, value) in self.under(&keys::SERIES) {
            let series = keys::parse_series(&key).map_err(StoreFailure::from)?;
            let counter = stored::decode_counter(&value).map_err(StoreFailure::from)?;
            counters.insert(series.to_string(), (series, counter));
        }
        // A floor may be that of a series whose counter was lost.
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
        let earlier = self.earlier().map_err(StoreFailure::from)?;
        let mut changes = Vec::new();
        for (key, value) in self.under(&keys::regions(id)) {
            let number = RegionNumber(keys::parse_number(&key).map_err(StoreFailure::from)?);
            let counter = keys::counter(id, number.0);
            let read = self.records.get(&counter).map(|value| stored::decode_counter(value)).transpose();
            let read = read.map_err(StoreFailure::from)?;
            let issued = read.map_or(Count::ZERO, |counter| counter.reserved);
            let region = stored::decode_region(&value, number, issued).map_err(StoreFailure::from)?;
            let from = read.unwrap_or_else(|| Counter::of_region(Count::ZERO, &earlier));
            if region.delegated {
                // A space's key begins with that of the space around it, so its regions come later.
                names.insert(keys::inner_space(id, number.0), format!("{space}/{}", region.name));
            }
            if region.kind != Kind::Closed && region.order != Order::External && !region.delegated {
                // A region of which nothing had been issued may have been issued from since.
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
        let revision = Revision(leapt(facts.revision.0, copy.now));
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
        // Those of regions that were made since the backup are not given again.
        let next_number = facts.next_number.0.saturating_add(LEAP);
        let facts = SpaceFacts { revision, last_edit, next_number: RegionNumber(next_number), ..*facts };
        self.records.insert(keys::space(id), stored::encode_space(&facts));
        Ok(())
    }

    /// Counts the revisions that no edit makes, so that as many edits are kept as before.
    fn pass_over(&mut self, id: &str, before: Revision, after: Revision) -> Result<(), Malformed> {
        let key = keys::oldest(id);
        let known = self.records.get(&key).map(|record| stored::decode_forgotten(record)).transpose()?;
        let forgotten = known.unwrap_or_default();
        let passed_over = forgotten.passed_over.saturating_add((after.0 - before.0).saturating_sub(1)); // OK because after > before
        self.records.insert(key, stored::encode_forgotten(Forgotten { passed_over, ..forgotten }));
        Ok(())
    }

    /// Every slot, also those that had no record, is spoken for up to the restore; none of its fences is one that was seen.
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
                epoch: SlotEpoch::new(leapt(known.epoch.get(), now)),
                holder: HolderId::new(entropy::bytes(entropy)),
                reserved_until: known.reserved_until.max(self.reserved_until),
                ..known
            };
            self.records.insert(key, stored::encode_slot(&record));
        }
        Ok(())
    }
}

/// A fence or a revision after a restore: above what the lost store saw since its backup, and above what came of an earlier restore
/// of the same backup. The microseconds since 1970 grow faster than either does by starts and edits.
fn leapt(known: u64, now: UnixNanos) -> u64 {
    known.saturating_add(LEAP).max(u64::try_from(now.get() / 1000).unwrap_or(0))
}

#[cfg(test)]
mod tests;
