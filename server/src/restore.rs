//! Restoring: a new store from a backup or from an old copy of a data directory, from which nothing is issued twice.
//!
//! What was issued after the backup was taken is not in it. So every counter is moved past what may have been issued since; every
//! slot is reserved up to the moment of the restore, and its fence moved far ahead; and the regions are sealed unless the
//! operator vouches that no table was edited since, since nobody else knows what a region that was made, split or expanded
//! since has issued. The new store has a new identity.

use std::{collections::BTreeMap, num::NonZeroU64, path::PathBuf, time::Duration};

use clap::Args;
use kent_ids::{ClockSeq, Node, Slot, SlotEpoch, UnixNanos, UnixSeconds};
use kent_issue::{HolderId, SlotRecord};
use kent_proto::stored::{self, HistoryEntry, Malformed, SpaceFacts};
use kent_regions::{Change, ChunkPolicy, Count, Kind, Order, Region, RegionNumber, Revision};
use kent_store::{Key, OpenError, SledOptions, SledStore, Store, StoreId};
use thiserror::Error;

use crate::{
    backup::{self, Backup, BadBackup},
    clock::{Clock, SystemClock},
    entropy::{self, Entropy, SystemEntropy},
    error::StoreFailure,
    filling::{FillError, Filling},
    founding::{self, NotWhole},
    keys,
};

/// From what, into which directory, and by how much counters move.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  kentd restore kent.backup --data /var/lib/kent-new --dry-run
  kentd restore kent.backup --data /var/lib/kent-new --until 2h --table-unchanged --yes
  kentd restore /old/kent-data --data /var/lib/kent-new --skip 1000000000 --yes")]
pub struct RestoreArgs {
    /// The backup, or a data directory that no daemon holds.
    #[arg(value_name = "FILE|DIR")]
    pub source: PathBuf,
    /// The directory of the new store, which must not hold one.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Move every counter by so many identifiers.
    #[arg(long, value_name = "COUNT", conflicts_with = "until")]
    pub skip: Option<NonZeroU64>,
    /// Move every counter by what ten times its rate comes to if issuing went on for so long after the backup, and by two of
    /// the largest chunks [default: until now].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub until: Option<Duration>,
    /// No table was edited after the backup: the regions stay as they are, and are not sealed.
    #[arg(long)]
    pub table_unchanged: bool,
    /// Only say what would be skipped.
    #[arg(long)]
    pub dry_run: bool,
    /// Do it without asking.
    #[arg(long)]
    pub yes: bool,
}

/// What a restore does to one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Whose counter.
    pub source: String,
    /// Where it stood.
    pub from: Count,
    /// Where it goes on.
    pub to: Count,
}

/// What a restore does.
#[derive(Debug)]
pub struct Restore {
    /// When the backup was made.
    pub taken: UnixNanos,
    /// Every counter.
    pub skips: Vec<Skip>,
    /// Regions that are sealed.
    pub sealed: usize,
    /// Up to which second every slot is spoken for.
    pub reserved_until: UnixSeconds,
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
    /// The source or the target cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A record makes no sense, or the target does not take it.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// The target was not filled.
    #[error(transparent)]
    Fill(#[from] FillError),
    /// The target is in use already.
    #[error("{} holds a store already: restore into a new directory", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// An old directory says nothing of rates.
    #[error(
        "a data directory does not say how fast identifiers were issued: say by how much to move the counters (--skip)"
    )]
    SkipWanted,
}

/// Two of the largest chunks that a daemon reserves at once: one may have been in hand, and one on its way.
pub(crate) const CHUNKS: u128 = 2 << 20;
/// Rates are over the last minutes; whoever was faster afterwards was hardly ten times as fast.
const MARGIN: f64 = 10.0;
/// How far fences and revisions are moved: more than a store saw since its backup.
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
        let now = SystemClock::new().wall();
        let backup = load(args, now).await?;
        plan(args, backup, now, &SystemEntropy)
    }

    /// Writes the new store. Until it is whole, no daemon takes it.
    ///
    /// # Errors
    ///
    /// [`RestoreError`].
    pub async fn write(self, args: &RestoreArgs) -> Result<(), RestoreError> {
        let new_id = entropy::octets(&SystemEntropy);
        let store = SledStore::open(SledOptions { dir: args.data.clone(), new_id })?;
        let written = self.write_to(&store, args).await;
        store.close().await;
        written
    }

    async fn write_to(self, store: &dyn Store, args: &RestoreArgs) -> Result<(), RestoreError> {
        let not_empty = || RestoreError::NotEmpty { dir: args.data.clone() };
        if !store.scan(&Key::ROOT).await.map_err(StoreFailure::from)?.is_empty() {
            return Err(not_empty());
        }
        // Drawn, so that no other attempt goes on with what this one leaves behind.
        let origin = StoreId::new(entropy::octets(&SystemEntropy));
        let filled = match Filling::begin(store, origin, self.records, &SystemEntropy).await {
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

async fn load(args: &RestoreArgs, now: UnixNanos) -> Result<Backup, RestoreError> {
    let not_whole = |source| RestoreError::NotWhole { path: args.source.clone(), source };
    if !args.source.is_dir() {
        let bad = |source| RestoreError::Source { path: args.source.clone(), source };
        let backup = backup::read(&args.source).map_err(bad)?;
        founding::check_whole(&backup.records).map_err(not_whole)?;
        return Ok(backup);
    }
    if args.skip.is_none() {
        return Err(RestoreError::SkipWanted);
    }
    let new_id = entropy::octets(&SystemEntropy);
    let store = SledStore::open(SledOptions { dir: args.source.clone(), new_id })?;
    let records = store.scan(&Key::ROOT).await.map_err(StoreFailure::from);
    store.close().await;
    let records: Vec<_> = records?.into_iter().map(|(key, versioned)| (key, versioned.value)).collect();
    founding::check_whole(&records).map_err(not_whole)?;
    let unix_nanos = i64::try_from(now.get()).unwrap_or(i64::MAX);
    Ok(Backup { unix_nanos, records, rates: Vec::new() })
}

fn plan(args: &RestoreArgs, backup: Backup, now: UnixNanos, entropy: &dyn Entropy) -> Result<Restore, RestoreError> {
    let taken = UnixNanos::new(backup.unix_nanos.into());
    let since = args
        .until
        .unwrap_or_else(|| Duration::from_nanos(u64::try_from((now.get() - taken.get()).max(0)).unwrap_or(u64::MAX)));
    let rates: BTreeMap<&Key, f64> = backup.rates.iter().map(|(key, rate)| (key, *rate)).collect();
    let by = |counter: &Standing<'_>| match args.skip {
        Some(skip) => u128::from(skip.get()),
        // OK because a rate and a time that overflow saturate.
        None => (rates.get(counter.key).copied().unwrap_or(0.0) * MARGIN * since.as_secs_f64()) as u128 + CHUNKS,
    };
    let why = Why { operation: "restore", table_unchanged: args.table_unchanged, now };
    Restore::of(backup.records, taken, &why, by, entropy)
}

/// Where a counter stands.
#[derive(Debug)]
pub(crate) struct Standing<'k> {
    pub(crate) key: &'k Key,
    pub(crate) from: Count,
    /// As far as it can go.
    pub(crate) most: Count,
    /// Every number counts: there are no chunks of it.
    pub(crate) is_strict: bool,
}

/// What moves the counters, and what is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Why {
    /// As the history calls it.
    pub(crate) operation: &'static str,
    /// No table was edited since the records were read.
    pub(crate) table_unchanged: bool,
    pub(crate) now: UnixNanos,
}

impl Restore {
    /// What a new store gets of these records, with each counter moved by as much as `by` says.
    pub(crate) fn of(
        records: Vec<(Key, Vec<u8>)>,
        taken: UnixNanos,
        why: &Why,
        by: impl Fn(&Standing<'_>) -> u128,
        entropy: &dyn Entropy,
    ) -> Result<Self, RestoreError> {
        let mut restore = Self {
            taken,
            skips: Vec::new(),
            sealed: 0,
            reserved_until: why.now.offset(i128::try_from(AHEAD.as_nanos()).unwrap_or(0)).ceil_seconds(),
            records: records.into_iter().collect(),
        };
        // The old store may hold the mark of how often it was started; the new one begins anew.
        restore.records.remove(&keys::BOOTS);
        // It is written by this program's own schema.
        restore.records.remove(&keys::IN_FORCE);
        restore.move_series(&by).map_err(StoreFailure::from)?;
        let spaces: Vec<(Key, Vec<u8>)> = restore.under(&keys::SPACES);
        for (key, value) in spaces {
            let id = keys::parse_space(&key).map_err(StoreFailure::from)?.to_owned();
            let facts = stored::decode_space(&value).map_err(StoreFailure::from)?;
            restore.move_space(&id, &facts, why, &by, entropy).map_err(StoreFailure::from)?;
        }
        restore.reserve_slots(entropy).map_err(StoreFailure::from)?;
        Ok(restore)
    }

    fn under(&self, prefix: &Key) -> Vec<(Key, Vec<u8>)> {
        let within = self.records.iter().filter(|(key, _)| key.starts_with(prefix));
        within.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn move_series(&mut self, by: impl Fn(&Standing<'_>) -> u128) -> Result<(), Malformed> {
        for (key, value) in self.under(&keys::SERIES) {
            let series = keys::parse_series(&key)?;
            let from = stored::decode_counter(&value)?;
            let standing = Standing { key: &key, from, most: Count::Below(series.end().get()), is_strict: false };
            let to = standing.moved(by(&standing));
            self.records.insert(key, stored::encode_counter(to));
            self.skips.push(Skip { source: series.to_string(), from, to });
        }
        Ok(())
    }

    fn move_space(
        &mut self,
        id: &str,
        facts: &SpaceFacts,
        why: &Why,
        by: impl Fn(&Standing<'_>) -> u128,
        entropy: &dyn Entropy,
    ) -> Result<(), Malformed> {
        let mut changes = Vec::new();
        for (key, value) in self.under(&keys::regions(id)) {
            let number = RegionNumber(keys::parse_number(&key)?);
            let counter = keys::counter(id, number.0);
            let from = self.records.get(&counter).map(|value| stored::decode_counter(value)).transpose()?;
            let from = from.unwrap_or(Count::ZERO);
            let region = stored::decode_region(&value, number, from)?;
            if region.kind != Kind::Closed && region.order != Order::External && !region.delegated {
                // A region of which nothing had been issued may have been issued from since.
                let is_strict = region.policy.chunk == ChunkPolicy::Strict;
                let standing = Standing { key: &counter, from, most: region.capacity(), is_strict };
                let to = standing.moved(by(&standing));
                self.records.insert(counter, stored::encode_counter(to));
                self.skips.push(Skip { source: format!("region:{}@{id}", region.name), from, to });
            }
            if !why.table_unchanged && region.kind != Kind::Closed && !region.sealed && !region.delegated {
                let sealed = Region { sealed: true, ..region.clone() };
                self.records.insert(key, stored::encode_region(&sealed));
                changes.push(Change { before: Some(region), after: sealed });
            }
        }
        self.sealed += changes.len();
        let revision = Revision(facts.revision.0.saturating_add(LEAP));
        let entry = HistoryEntry {
            unix_nanos: i64::try_from(why.now.get()).unwrap_or(i64::MAX),
            principal: format!("kentd {}", why.operation),
            operation: why.operation.to_owned(),
            reason: format!("the records were those of revision {}", facts.revision),
            request_id: String::new(),
            changes,
            follows: Some(facts.revision),
        };
        for (part, number) in stored::encode_history(&entry).into_iter().zip(0..) {
            self.records.insert(keys::history(id, revision.0, number), part);
        }
        let last_edit = stored::EditId(entropy::octets(entropy));
        let facts = SpaceFacts { revision, last_edit, next_number: leapt(facts.next_number), ..*facts };
        self.records.insert(keys::space(id), stored::encode_space(&facts));
        Ok(())
    }

    /// Every slot, also those that had no record, is spoken for up to the restore; none of its fences is one that was seen.
    fn reserve_slots(&mut self, entropy: &dyn Entropy) -> Result<(), Malformed> {
        for slot in Slot::all() {
            let key = keys::slot(slot);
            let known = self.records.get(&key).map(|value| stored::decode_slot(value)).transpose()?;
            let random = entropy::number(entropy);
            let known = known.unwrap_or(SlotRecord {
                node: Node::for_slot(random, slot),
                clock_seq: ClockSeq::from_random(random >> 48),
                epoch: SlotEpoch::new(0),
                holder: HolderId::new(entropy::octets(entropy)),
                reserved_until: self.reserved_until,
                seen: self.reserved_until,
            });
            let record = SlotRecord {
                epoch: SlotEpoch::new(known.epoch.get().saturating_add(LEAP)),
                holder: HolderId::new(entropy::octets(entropy)),
                reserved_until: known.reserved_until.max(self.reserved_until),
                ..known
            };
            self.records.insert(key, stored::encode_slot(&record));
        }
        Ok(())
    }
}

/// Numbers of regions that were made since the backup are not given again.
const fn leapt(next: RegionNumber) -> RegionNumber {
    RegionNumber(next.0.saturating_add(LEAP))
}

impl Standing<'_> {
    /// The counter moved ahead, up to what there is.
    fn moved(&self, by: u128) -> Count {
        self.from.checked_add(by).map_or(self.most, |to| to.min(self.most)).max(self.from)
    }

    /// How much is left.
    pub(crate) fn left(&self) -> u128 {
        match (self.from, self.most) {
            (Count::Max, _) => 0,
            (Count::Below(from), most) => most.get().unwrap_or(u128::MAX).saturating_sub(from),
        }
    }
}
