//! Migrates a store from a directory to etcd, permanently.
//!
//! The migration opens the directory as a daemon does, so that no daemon can be using the directory. First, the store
//! on etcd is marked as incomplete ([`filling`]), then the directory is marked as moved, and only then are records
//! written. After the second mark, no daemon starts on either store until the store on etcd is complete. The same
//! command finishes an interrupted migration.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
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
use kent_ids::UnixNanos;
use kent_store::{
    ArchiveError, EtcdAddress, EtcdOpenError, EtcdOptions, EtcdStore, Key, OpenError, SCHEMA, SledOptions, SledStore,
    Store, Txn,
};
use thiserror::Error;

use crate::{
    config::{ConfigError, EtcdSettings},
    maintenance::{
        filling::{self, FillError, Filling},
        restore::{Copy, Restore, RestoreError},
        witness::{Witness, WitnessError},
    },
};

/// The arguments of `kentd migrate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  kentd migrate --from sled:/var/lib/kent --to etcd://10.0.0.1:2379,10.0.0.2:2379/kent --dry-run")]
pub struct MigrateArgs {
    /// The data directory to migrate.
    #[arg(long, value_name = "sled:DIR", value_parser = parse_from)]
    pub from: PathBuf,
    /// The new store on etcd; nothing may exist under its prefix.
    #[arg(long, value_name = "etcd://HOST:PORT/PREFIX", value_parser = parse_to)]
    pub to: EtcdAddress,
    /// Directory that records how many times the store was started, like kentd --witness.
    #[arg(long, env = "KENT_WITNESS", value_name = "DIR")]
    pub witness: Option<PathBuf>,
    /// Show what would be done, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(long)]
    pub yes: bool,
    /// The settings for etcd.
    #[command(flatten)]
    pub etcd: EtcdSettings,
    /// The audit log.
    #[command(flatten)]
    pub audit: AuditArgs,
}

/// A planned migration.
#[derive(Debug)]
pub struct Migration {
    source: Arc<dyn Store>,
    target: Arc<dyn Store>,
    witness: Option<Witness>,
    entropy: Arc<dyn Entropy>,
    /// The changes to the records.
    pub restore: Restore,
    from: PathBuf,
    to: String,
    /// The address that the directory was moved to, according to its mark.
    moved: Option<String>,
}

/// A store that may be migrated.
struct Source {
    store: Arc<dyn Store>,
    records: Vec<(Key, Vec<u8>)>,
    from: PathBuf,
    to: String,
    moved: Option<String>,
}

/// Why a store was not migrated.
#[derive(Debug, Error)]
pub enum MigrateError {
    /// The directory cannot be opened.
    #[error("the store cannot be opened")]
    Source(#[source] OpenError),
    /// The directory is archived, and a migration would leave the archive without an end mark.
    #[error(
        "the store in {0} has an archive in {1}, and a store on etcd has none: end it first (start once with kentd --data {0} \
         --no-archive, and stop the daemon with Ctrl-C), then repeat this command", dir.display(), archive.display()
    )]
    Archived {
        /// The directory.
        dir: PathBuf,
        /// The directory of the archive.
        archive: PathBuf,
    },
    /// The directory does not contain a store.
    #[error("there is no store in {}: name the data directory of the daemon, such as --from sled:/var/lib/kent", dir.display())]
    NoSource {
        /// The directory.
        dir: PathBuf,
    },
    /// The store in the directory is not complete.
    #[error("{} cannot be moved", dir.display())]
    NotWhole {
        /// The directory.
        dir: PathBuf,
        /// The reason.
        source: NotWhole,
    },
    /// The store was moved earlier, to this or to another address.
    #[error(
        "{} was moved to {to} earlier, and only that store knows what has been issued since: start replicas with kentd --store {to}",
        dir.display()
    )]
    MovedBefore {
        /// The directory.
        dir: PathBuf,
        /// The address of the new store.
        to: String,
    },
    /// The prefix on etcd is in use.
    #[error(
        "{to} already holds a store with counters of its own, and using both stores would issue identifiers twice. If {from} is a copy of the \
         store that was moved there, do not migrate it: only that store knows what has been issued since. Otherwise choose another prefix, such \
         as --to {to}-2", from = from.display()
    )]
    NotEmpty {
        /// The directory.
        from: PathBuf,
        /// The address on etcd.
        to: String,
    },
    /// The store in the directory is an old copy.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// etcd does not answer.
    #[error("{0}; check that etcd is running, and that --to names its address")]
    NoEtcd(EtcdOpenError),
    /// The store on etcd cannot be opened.
    #[error(transparent)]
    Etcd(EtcdOpenError),
    /// The settings for etcd are not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A record is malformed, or one of the stores does not answer.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// The store on etcd was not filled.
    #[error(transparent)]
    Fill(#[from] FillError),
    /// A record is malformed.
    #[error(transparent)]
    Records(#[from] RestoreError),
}

impl From<EtcdOpenError> for MigrateError {
    fn from(error: EtcdOpenError) -> Self {
        if error.is_retryable() { Self::NoEtcd(error) } else { Self::Etcd(error) }
    }
}

fn parse_from(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("sled:") {
        Some(dir) if !dir.is_empty() => Ok(dir.into()),
        _ if text.contains("://") => {
            Err("only a directory can be moved: use sled:DIR, such as sled:/var/lib/kent".to_owned())
        }
        None if Path::new(text).is_dir() => Err(format!("write sled: before the directory: --from sled:{text}")),
        _ => Err("use sled:DIR, with the data directory to migrate, such as sled:/var/lib/kent".to_owned()),
    }
}

fn parse_to(text: &str) -> Result<EtcdAddress, String> {
    match text.parse::<EtcdAddress>() {
        Ok(address) => Ok(address),
        Err(_) if text.starts_with("sled:") || Path::new(text).is_dir() => {
            Err("a store moves only to etcd: use etcd://HOST:PORT/PREFIX".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn refused(error: OpenError, dir: &Path) -> MigrateError {
    match error {
        OpenError::Archive(ArchiveError::NotConfigured { dir: archive }) => {
            MigrateError::Archived { dir: dir.to_owned(), archive }
        }
        error => MigrateError::Source(error),
    }
}

impl Migration {
    /// Opens both stores and plans the migration. Writes only the identity of the new store to etcd.
    ///
    /// # Errors
    ///
    /// [`MigrateError`].
    pub async fn plan(args: &MigrateArgs) -> Result<Self, MigrateError> {
        // Without this file the directory contains no store, and opening the directory would create one.
        if !args.from.join("db").exists() {
            return Err(MigrateError::NoSource { dir: args.from.clone() });
        }
        let (tls, credentials) = args.etcd.read(&args.to)?;
        let new_id = || entropy::bytes(&SystemEntropy);
        let source = SledStore::open(SledOptions { dir: args.from.clone(), new_id: new_id() })
            .map_err(|error| refused(error, &args.from))?;
        let source = Source::read(Arc::new(source), args.from.clone(), args.to.to_string()).await?;
        let (address, new_id) = (args.to.clone(), new_id());
        let target = EtcdStore::open(EtcdOptions { address, tls, credentials, new_id, schema: SCHEMA }).await?;
        let witness = Witness::of(args.witness.as_deref(), Some(&args.from));
        source.onto(Arc::new(target), witness, SystemClock::new().wall(), Arc::new(SystemEntropy)).await
    }

    /// Like [`Migration::plan`], for two stores that the caller has opened, with the caller's time and random bits.
    /// `to` is the address of the target. The source records this address.
    ///
    /// # Errors
    ///
    /// [`MigrateError`].
    pub async fn plan_between(
        source: Arc<dyn Store>,
        target: Arc<dyn Store>,
        to: String,
        now: UnixNanos,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, MigrateError> {
        Source::read(source, PathBuf::new(), to).await?.onto(target, None, now, entropy).await
    }

    /// Marks both stores, and fills the one on etcd.
    ///
    /// # Errors
    ///
    /// [`MigrateError`]; the same migration can then be planned and executed again.
    pub async fn make(self, progress: impl Fn(usize, usize)) -> Result<(), MigrateError> {
        let Self { source, target, witness, entropy, restore, from, to, moved } = self;
        let mut _claim = None;
        if let Some(witness) = witness {
            // The migration counts as a start, so that the witness rejects an earlier copy of the directory.
            let location = from.canonicalize().unwrap_or_else(|_| from.clone()).display().to_string();
            _claim = Some(witness.claim(&*source, &location).await?);
            witness.attest(&*source, &location).await?;
        }
        let filling = match Filling::begin(&*target, source.store_id(), restore.into_records(), &*entropy).await {
            Err(FillError::Occupied) => return Err(MigrateError::NotEmpty { from, to }),
            filling => filling?,
        };
        if moved.is_some() && !filling.is_resumed() {
            return Err(MigrateError::MovedBefore { dir: from, to });
        }
        // The directory is marked only now: if another store had taken the prefix first, the mark would make the
        // directory useless.
        source.commit(Txn::new().put(keys::MOVED, to.into_bytes())).await.map_err(StoreFailure::from)?;
        filling.write(progress).await?;
        source.close().await;
        target.close().await;
        Ok(())
    }
}

impl Source {
    /// Reads a store, and checks that it may be migrated to `to`.
    async fn read(store: Arc<dyn Store>, from: PathBuf, to: String) -> Result<Self, MigrateError> {
        let (records, moved) = records(&*store).await?;
        if let Some(elsewhere) = moved.clone().filter(|before| *before != to) {
            return Err(MigrateError::MovedBefore { dir: from, to: elsewhere });
        }
        founding::check_whole(&records).map_err(|source| MigrateError::NotWhole { dir: from.clone(), source })?;
        Ok(Self { store, records, from, to, moved })
    }

    /// Plans the migration. Checks that the target is empty, or that the same migration into it was started.
    async fn onto(
        self,
        target: Arc<dyn Store>,
        witness: Option<Witness>,
        now: UnixNanos,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Migration, MigrateError> {
        let Self { store: source, records, from, to, moved } = self;
        // The mark is read last, because the first commit of an interrupted attempt may arrive meanwhile.
        let is_empty = target.scan(&Key::ROOT).await.map_err(StoreFailure::from)?.is_empty();
        if !filling::is_begun(&*target, source.store_id()).await? {
            if moved.is_some() {
                return Err(MigrateError::MovedBefore { dir: from, to });
            }
            if !is_empty {
                return Err(MigrateError::NotEmpty { from, to });
            }
        }
        // The stored counters are above all issued numbers, and nothing more is issued, so the counters keep their
        // positions.
        let copy = Copy { operation: "migrate", now, lost: None, older: None, floors: &[] };
        let restore = Restore::of(records, now, &copy, &*entropy)?;
        Ok(Migration { source, target, witness, entropy, restore, from, to, moved })
    }
}

/// Reads the records of the directory, and the address that the store was moved to, if any.
async fn records(source: &dyn Store) -> Result<(Vec<(Key, Vec<u8>)>, Option<String>), StoreFailure> {
    let records = source.scan(&Key::ROOT).await?.into_iter().map(|(key, versioned)| (key, versioned.value));
    let (moved, records): (Vec<_>, Vec<_>) = records.partition(|(key, _)| *key == keys::MOVED);
    Ok((records, moved.first().map(|(_, to)| founding::place(to))))
}

#[cfg(test)]
mod tests;
