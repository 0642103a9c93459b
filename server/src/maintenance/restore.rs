//! Restores a backup or an old copy of a data directory into a new store, in such a way that no identifier is issued
//! twice.
//!
//! A backup does not contain what was issued after it was taken, but the pace of each counter limits how far the
//! counter may have advanced. The restore moves every counter past that limit; if fewer numbers are left, the counter
//! issues nothing until an operator names a floor. The restore reserves every slot until the new store may issue, and
//! raises each slot's fence far above its old value. The restore seals the regions, unless the operator confirms that
//! no table was edited after the backup. If another store was restored earlier from an older backup, the restore also
//! skips what that store may have issued. The clocks of lost hosts may have been ahead of this host's clock by
//! `--clock-error`, so the new store issues nothing for that long. The new store gets a new identity.

mod bound;
mod budgets;
mod renew;
mod tokens;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use clap::Args;
use kent_engine::{
    audit::AuditArgs,
    host::{
        clock::{Clock, SystemClock},
        entropy::{self, Entropy, SystemEntropy},
    },
    records::{
        failure::StoreFailure,
        founding::{self, NotWhole},
        keys,
    },
};
use kent_ids::{Source, UnixNanos, UnixSeconds};
use kent_issue::Lapse;
use kent_proto::stored::{self, Malformed, Restored};
use kent_regions::Count;
use kent_store::{Archiving, Key, OpenError, SledOptions, SledStore, Store, StoreId};
use thiserror::Error;

use crate::{
    config::Span,
    maintenance::{
        archive::{self, FromArchive, NotRestored},
        backup::{self, Backup, BadBackup},
        filling::{self, FillError, Filling},
    },
};

pub(crate) use bound::Copy;
use bound::OlderBackup;

/// The arguments of `kentd restore`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  kentd restore kent.backup --data /var/lib/kent-new --dry-run
  kentd restore kent.backup --data /var/lib/kent-new --clock-error 1s --table-unchanged --yes
  kentd restore --archive /mnt/other/kent-archive --data /var/lib/kent-new --yes
  kentd restore /old/kent-data --data /var/lib/kent-new --floor region:invoices=4712 --yes")]
pub struct RestoreArgs {
    /// A backup file, a data directory that no daemon is using, or an archive; without --archive, an archive is treated
    /// as a backup.
    #[arg(value_name = "FILE|DIR")]
    pub source: PathBuf,
    /// Restore DIR as an archive (kentd --archive DIR): nothing is lost, skipped or sealed. The archived store cannot
    /// be started or restored again.
    #[arg(long, conflicts_with_all = ["clock_error", "floor", "restored_before", "table_unchanged"])]
    pub archive: bool,
    /// The identity of the store, if DIR contains the archives of several stores.
    #[arg(long, value_name = "ID", requires = "archive")]
    pub store: Option<String>,
    /// The directory of the new store; it must not contain a store.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// How far the clock of a host that issued from the lost store may have been ahead of this host's clock. The new
    /// store issues nothing for that long.
    #[arg(long, value_name = "DURATION", default_value = "1h", allow_hyphen_values = true)]
    pub clock_error: Span,
    /// Continue this source at N, regardless of what it may have issued: N must be above every number in use, including
    /// those issued since the backup. Can be repeated.
    #[arg(long, value_name = "SOURCE=N", value_parser = parse_floor)]
    pub floor: Vec<Floor>,
    /// The oldest backup of this store that was restored before, if it is older than the backup to restore now. The
    /// identifiers that the restored store issued are skipped as well.
    #[arg(long, value_name = "FILE|DIR")]
    pub restored_before: Option<PathBuf>,
    /// Confirm that no table was edited after the backup, so that the regions are not sealed.
    #[arg(long)]
    pub table_unchanged: bool,
    /// Keep the tokens of callers. Without this option they are disabled, because some may have been revoked after the
    /// backup.
    #[arg(long)]
    pub keep_tokens: bool,
    /// Show what would be skipped, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(long)]
    pub yes: bool,
    /// The audit log.
    #[command(flatten)]
    pub audit: AuditArgs,
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
    if matches!(source, Source::Format(_) | Source::Layout(_)) {
        return Err(format!("{source} has no counter: only regions and series have a floor"));
    }
    let next = next
        .replace('_', "")
        .parse()
        .map_err(|_| format!("{next:?} is not a whole number from 0 to 2^128, such as 4712"))?;
    Ok(Floor { source, next })
}

/// The effect of a restore on one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The source of the counter.
    pub source: String,
    /// The counter's value in the backup.
    pub from: Count,
    /// The counter's value after the restore; `None` if the counter issues nothing until an operator names a floor.
    pub to: Option<Count>,
}

/// A planned restore.
#[derive(Debug)]
pub struct Restore {
    /// When the backup was created. For a data directory or an archive: the latest time recorded in it.
    pub taken: UnixNanos,
    /// The effects on all counters.
    pub skips: Vec<Skip>,
    /// The number of regions that are sealed.
    pub sealed: usize,
    /// The time until which every slot is reserved.
    pub reserved_until: UnixSeconds,
    /// The number of tokens that are disabled.
    pub disabled_tokens: usize,
    /// The number of budgets whose use since the backup is unknown.
    pub marked_budgets: usize,
    /// The number of layouts that are marked as used, because they may have issued since the backup.
    pub used_layouts: usize,
    /// The archive to restore, if the source is one; in this case nothing was lost.
    pub archive: Option<FromArchive>,
    /// Whether the source is an archive that is restored as a backup.
    pub is_archive_as_backup: bool,
    records: BTreeMap<Key, Vec<u8>>,
}

/// Why a restore fails.
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
    /// The source does not exist, or is a directory without a store.
    #[error(
        "there is no backup or store at {}: name a backup file (kent backup FILE), the data directory of a stopped daemon, or an archive",
        dir.display()
    )]
    NoSource {
        /// The path.
        dir: PathBuf,
    },
    /// The backup named by `--restored-before` belongs to another store, or is not older.
    #[error("{} is a backup of another store, or is newer than the backup to restore", path.display())]
    NotOlder {
        /// The backup or directory that `--restored-before` names.
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
    #[error("{0} already holds a store: restore into a new directory, such as --data {0}-new", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// This host's clock is further behind than `--clock-error` allows.
    #[error(
        "this host's clock says {}, but the store contains the later time {}: correct the clock, or allow for the difference (--clock-error)",
        now.rfc3339(0).unwrap_or_default(),
        latest.rfc3339(0).unwrap_or_default()
    )]
    ClockBehind {
        /// The time of this host's clock.
        now: UnixNanos,
        /// The latest known time of a lost daemon's clock.
        latest: UnixNanos,
    },
    /// A floor names a source that the backup does not contain.
    #[error("--floor {floor}: the store has no such region; its {}", Known(known))]
    NoSuchSource {
        /// The source.
        floor: Source,
        /// The regions and series that a floor can name.
        known: Vec<String>,
    },
    /// A floor is below the numbers that the backup records as issued or reserved.
    #[error(
        "--floor {source}={next} is below {}, the counter's position in the backup: N must be above every number in use, including \
         those issued since the backup; leave --floor out to skip by pace",
        kent_ids::grouped(stands),
        source = floor.source,
        next = floor.next
    )]
    FloorTooLow {
        /// The floor.
        floor: Floor,
        /// The first number that the backup does not record as issued or reserved.
        stands: Count,
    },
    /// A floor exceeds the capacity of the source.
    #[error(
        "--floor {floor}: the floor is too high, because {floor} has only {}",
        kent_ids::counted(capacity, "number")
    )]
    FloorTooHigh {
        /// The source.
        floor: Source,
        /// The capacity of the source.
        capacity: Count,
    },
}

/// Displays the regions and series that have a counter.
struct Known<'k>(&'k [String]);

/// The maximum number of sources that a message lists.
const KNOWN_MAX: usize = 10;

impl fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("tables have no region with a counter");
        }
        let listed = self.0.iter().take(KNOWN_MAX).map(String::as_str).collect::<Vec<_>>();
        write!(f, "sources with a counter are {}", listed.join(", "))?;
        match self.0.len() - listed.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl Restore {
    /// Reads the source and plans the restore. Checks that the target has no store yet, so that only a plan that can be
    /// executed is shown.
    ///
    /// # Errors
    ///
    /// [`RestoreError`].
    pub async fn plan(args: &RestoreArgs) -> Result<Self, RestoreError> {
        if args.data.exists() && !args.data.is_dir() {
            return Err(OpenError::NotADirectory { dir: args.data.clone() }.into());
        }
        let restore = Self::plan_at(args, SystemClock::new().wall(), &SystemEntropy).await?;
        // Without this file the directory contains no store, and opening the directory would create one.
        if args.data.join("db").exists() {
            let new_id = entropy::bytes(&SystemEntropy);
            let options = SledOptions { dir: args.data.clone(), new_id };
            let store = SledStore::open_archived(options, Archiving::ReadOnly).map_err(|error| match error {
                // The error for a store in use suggests stopping the daemon, but that would interrupt a service for
                // nothing.
                OpenError::InUse { .. } => not_empty(args),
                error => error.into(),
            })?;
            let checked = restore.check_target(&store, args).await;
            store.close().await;
            checked?;
        }
        Ok(restore)
    }

    /// Like [`Restore::plan`], with the caller's time and random bits. Writes nothing, and does not check the target.
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
        let is_archive_as_backup = args.source.is_dir() && archive::is_complete(&args.source)?;
        Ok(Self { is_archive_as_backup, ..plan(args, backup, older, now, entropy)? })
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

    /// Writes the new store. No daemon starts on the new store until the store is complete.
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
        self.check_target(store, args).await?;
        if let Some(archive) = &self.archive {
            archive.hand_over(store.store_id(), &args.data)?;
        }
        // Without an archive, the origin is random, so that no other attempt continues this one.
        let origin = self.archive.as_ref().map(|archive| archive.store);
        let origin = origin.unwrap_or_else(|| StoreId::new(entropy::bytes(entropy)));
        let filled = match Filling::begin(store, origin, self.records, entropy).await {
            Ok(filling) => filling.write(|_, _| {}).await,
            Err(error) => Err(error),
        };
        filled.map_err(|error| match error {
            FillError::Occupied => not_empty(args),
            error => error.into(),
        })
    }

    /// Checks that the target is empty, or that this restore continues an interrupted one. Only a restore from an
    /// archive can be continued: the archive names the new store, and no other store can be restored from the archive.
    async fn check_target(&self, store: &dyn Store, args: &RestoreArgs) -> Result<(), RestoreError> {
        // Read the mark after the records, because the mark of an interrupted attempt may arrive in between.
        let is_empty = store.scan(&Key::ROOT).await.map_err(StoreFailure::from)?.is_empty();
        let can_begin = match &self.archive {
            Some(archive) if !is_empty => filling::is_begun(store, archive.store).await?,
            _ => is_empty,
        };
        match can_begin {
            true => Ok(()),
            false => Err(not_empty(args)),
        }
    }

    /// Returns the records of the new store.
    pub(crate) fn into_records(self) -> BTreeMap<Key, Vec<u8>> {
        self.records
    }
}

fn not_empty(args: &RestoreArgs) -> RestoreError {
    // Collect the components to drop a slash at the end, because the message appends `-new` to the path.
    RestoreError::NotEmpty { dir: args.data.components().collect() }
}

async fn load(path: &Path) -> Result<Backup, RestoreError> {
    if !path.exists() {
        return Err(RestoreError::NoSource { dir: path.to_owned() });
    }
    if !path.is_dir() {
        let bad = |source| RestoreError::Source { path: path.to_owned(), source };
        return checked(path, backup::read(path).map_err(bad)?);
    }
    if let Some((dir, records)) = archive::read(path)? {
        return as_backup(&dir, records);
    }
    let new_id = entropy::bytes(&SystemEntropy);
    let options = SledOptions { dir: path.to_owned(), new_id };
    let store = SledStore::open_archived(options, Archiving::ReadOnly).map_err(|error| match error {
        OpenError::NoStore { dir } | OpenError::NotAStore { dir, .. } => RestoreError::NoSource { dir },
        error => error.into(),
    })?;
    let records = store.scan(&Key::ROOT).await.map_err(StoreFailure::from);
    store.close().await;
    let records: Vec<_> = records?.into_iter().map(|(key, versioned)| (key, versioned.value)).collect();
    as_backup(path, records)
}

/// Creates a backup from the records of a store, dated with the time of the last write of a slot.
fn as_backup(path: &Path, records: Vec<(Key, Vec<u8>)>) -> Result<Backup, RestoreError> {
    let taken = latest(&records).map_err(StoreFailure::from)?;
    // OK because the time is within centuries of 1970.
    checked(path, Backup { unix_nanos: i64::try_from(taken.get()).unwrap_or(i64::MAX), records })
}

/// Plans a restore from an archive. The archive contains every acknowledged commit, so the restore is exact.
fn plan_exact(args: &RestoreArgs, now: UnixNanos, entropy: &dyn Entropy) -> Result<Restore, RestoreError> {
    let (from, records) = archive::open(&args.source, args.store.as_deref(), &args.data, !args.dry_run)?;
    let not_whole = |source| RestoreError::NotWhole { path: from.dir.clone(), source };
    founding::check_whole(&records).map_err(not_whole)?;
    let taken = latest(&records).map_err(StoreFailure::from)?;
    let copy = Copy { operation: "restore", now, lost: None, older: None, floors: &[] };
    let restore = Restore::of(records, taken, &copy, entropy)?.disable_tokens(args)?;
    Ok(Restore { archive: Some(from), ..restore })
}

/// Checks that a backup contains a complete store.
fn checked(path: &Path, backup: Backup) -> Result<Backup, RestoreError> {
    let not_whole = |source| RestoreError::NotWhole { path: path.to_owned(), source };
    founding::check_whole(&backup.records).map_err(not_whole)?;
    Ok(backup)
}

/// The latest `paid` of all counters: the time until which a counter has used what its pace allows.
fn latest_paid(records: &[(Key, Vec<u8>)]) -> Result<UnixNanos, Malformed> {
    let is_counter = |key: &Key| key.starts_with(&keys::COUNTERS) || key.starts_with(&keys::SERIES);
    let counters = records.iter().filter(|(key, _)| is_counter(key));
    counters
        .map(|(_, value)| Ok(stored::decode_counter(value)?.paid))
        .try_fold(UnixNanos::new(0), |latest, paid| Ok(latest.max(paid?)))
}

/// The latest time recorded in a store: the time of the last write of a slot. The slot's record rounds the time up, so
/// one second is subtracted.
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
    let lapse = Lapse::since_backup(taken, paid, now, args.clock_error.0)
        .map_err(|latest| RestoreError::ClockBehind { now, latest })?;
    let now = now.max(taken);
    let lost = Restored { lapse, tables_edited: !args.table_unchanged };
    let copy = Copy { operation: "restore", now, lost: Some(lost), older: older.as_ref(), floors: &args.floor };
    Restore::of(backup.records, taken, &copy, entropy)?.mark_budgets(now)?.disable_tokens(args)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod lapse_tests;
