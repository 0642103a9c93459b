//! Moving a store from a directory to etcd, once and for ever.
//!
//! The directory is opened as a daemon would open it, so that none holds it. The store on etcd is marked as not whole
//! ([`filling`](crate::maintenance::filling)), then the directory as moved, and only then are records written: from the second mark on no daemon
//! starts on either, until the store on etcd is whole. What breaks off in between is finished by the same command.

use std::{path::PathBuf, sync::Arc};

use clap::Args;
use kent_ids::UnixNanos;
use kent_store::{
    EtcdAddress, EtcdCredentials, EtcdOpenError, EtcdOptions, EtcdStore, EtcdTls, Key, OpenError, SCHEMA, SledOptions,
    SledStore, Store, Txn,
};
use thiserror::Error;

use crate::{
    config::{ConfigError, EtcdSettings},
    host::{
        clock::{Clock, SystemClock},
        entropy::{self, Entropy, SystemEntropy},
    },
    maintenance::{
        filling::{self, FillError, Filling},
        restore::{Copy, Restore, RestoreError},
        witness::{Witness, WitnessError},
    },
    records::{
        failure::StoreFailure,
        founding::{self, NotWhole},
        keys,
    },
};

/// From where, and where to.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  kentd migrate --from sled:/var/lib/kent --to etcd://10.0.0.1:2379,10.0.0.2:2379/kent --dry-run")]
pub struct MigrateArgs {
    /// The directory that the store is in now.
    #[arg(long, value_name = "sled:DIR", value_parser = parse_from)]
    pub from: PathBuf,
    /// Where it is to be: nothing may be there yet.
    #[arg(long, value_name = "etcd://HOST:PORT/PREFIX")]
    pub to: EtcdAddress,
    /// Directory that remembers how often the store was started, as for kentd itself.
    #[arg(long, env = "KENT_WITNESS", value_name = "DIR")]
    pub witness: Option<PathBuf>,
    /// Only say what would be done.
    #[arg(long)]
    pub dry_run: bool,
    /// Do it without asking.
    #[arg(long)]
    pub yes: bool,
    /// How to reach etcd.
    #[command(flatten)]
    pub etcd: EtcdSettings,
}

/// A move that is planned.
#[derive(Debug)]
pub struct Migration {
    source: Arc<dyn Store>,
    target: Arc<dyn Store>,
    witness: Option<Witness>,
    entropy: Arc<dyn Entropy>,
    /// What is done to the records.
    pub restore: Restore,
    from: PathBuf,
    to: String,
    /// Where the directory says that it was moved to.
    moved: Option<String>,
}

/// A store that may be moved.
struct Source {
    store: Arc<dyn Store>,
    records: Vec<(Key, Vec<u8>)>,
    from: PathBuf,
    to: String,
    moved: Option<String>,
}

/// Why a store was not moved.
#[derive(Debug, Error)]
pub enum MigrateError {
    /// The directory cannot be opened.
    #[error("the store cannot be opened")]
    Source(#[from] OpenError),
    /// There is no store to move.
    #[error("there is no store in {}", dir.display())]
    NoSource {
        /// The directory.
        dir: PathBuf,
    },
    /// What is in the directory is no whole store.
    #[error("{} cannot be moved", dir.display())]
    NotWhole {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: NotWhole,
    },
    /// It was moved before, to another place or to this one, and the store is not there any more.
    #[error("{} was moved to {to} before, and only that store knows what was issued since", dir.display())]
    MovedBefore {
        /// The directory.
        dir: PathBuf,
        /// Where it is.
        to: String,
    },
    /// Something is there already.
    #[error("{to} holds a store already: choose another prefix")]
    NotEmpty {
        /// Where.
        to: String,
    },
    /// What is in the directory is an old copy.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// etcd cannot be used.
    #[error(transparent)]
    Etcd(#[from] EtcdOpenError),
    /// The settings for etcd cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A record makes no sense, or one of the stores does not answer.
    #[error(transparent)]
    Store(#[from] StoreFailure),
    /// The store on etcd was not filled.
    #[error(transparent)]
    Fill(#[from] FillError),
    /// A record makes no sense.
    #[error(transparent)]
    Records(#[from] RestoreError),
}

fn parse_from(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("sled:") {
        Some(dir) if !dir.is_empty() => Ok(dir.into()),
        _ => Err("what can be moved is a directory: sled:DIR".to_owned()),
    }
}

impl Migration {
    /// Opens both stores and says what is to be done. Nothing is written but, on etcd, the identity of the new store.
    ///
    /// # Errors
    ///
    /// [`MigrateError`].
    pub async fn plan(args: &MigrateArgs) -> Result<Self, MigrateError> {
        if !args.from.is_dir() {
            return Err(MigrateError::NoSource { dir: args.from.clone() });
        }
        let (tls, credentials): (Option<EtcdTls>, Option<EtcdCredentials>) = args.etcd.read(&args.to)?;
        let new_id = || entropy::bytes(&SystemEntropy);
        let source = SledStore::open(SledOptions { dir: args.from.clone(), new_id: new_id() })?;
        let source = Source::read(Arc::new(source), args.from.clone(), args.to.to_string()).await?;
        let (address, new_id) = (args.to.clone(), new_id());
        let target = EtcdStore::open(EtcdOptions { address, tls, credentials, new_id, schema: SCHEMA }).await?;
        let witness = Witness::of(args.witness.as_deref(), Some(&args.from));
        source.onto(Arc::new(target), witness, SystemClock::new().wall(), Arc::new(SystemEntropy)).await
    }

    /// The same for two stores that the caller has opened, at a time and with random bits that the caller brings. `to` is the name
    /// of the second one, as the first one will tell it.
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
    /// [`MigrateError`]; the same move can then be planned and made again.
    pub async fn make(self, progress: impl Fn(usize, usize)) -> Result<(), MigrateError> {
        let Self { source, target, witness, entropy, restore, from, to, moved } = self;
        if let Some(witness) = witness {
            // The move counts as a start: a copy of the directory that was made before it is an old one from now on.
            witness.attest(&*source, &from.display().to_string()).await?;
        }
        let filling = match Filling::begin(&*target, source.store_id(), restore.into_records(), &*entropy).await {
            Err(FillError::Occupied) => return Err(MigrateError::NotEmpty { to }),
            filling => filling?,
        };
        if moved.is_some() && !filling.goes_on() {
            return Err(MigrateError::MovedBefore { dir: from, to });
        }
        // Only now, since the directory would be of no use if another store had come first.
        source.commit(Txn::new().put(keys::MOVED, to.into_bytes())).await.map_err(StoreFailure::from)?;
        filling.write(progress).await?;
        source.close().await;
        target.close().await;
        Ok(())
    }
}

impl Source {
    /// Reads a store, and checks that it may be moved to `to`.
    async fn read(store: Arc<dyn Store>, from: PathBuf, to: String) -> Result<Self, MigrateError> {
        let (records, moved) = records(&*store).await?;
        if let Some(elsewhere) = moved.clone().filter(|before| *before != to) {
            return Err(MigrateError::MovedBefore { dir: from, to: elsewhere });
        }
        founding::check_whole(&records).map_err(|source| MigrateError::NotWhole { dir: from.clone(), source })?;
        Ok(Self { store, records, from, to, moved })
    }

    /// Checks that the target is empty, or that the same move into it was begun, and says what is to be done.
    async fn onto(
        self,
        target: Arc<dyn Store>,
        witness: Option<Witness>,
        now: UnixNanos,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Migration, MigrateError> {
        let Self { store: source, records, from, to, moved } = self;
        if !filling::is_begun(&*target, source.store_id()).await? {
            if !target.scan(&Key::ROOT).await.map_err(StoreFailure::from)?.is_empty() {
                return Err(MigrateError::NotEmpty { to });
            }
            if moved.is_some() {
                return Err(MigrateError::MovedBefore { dir: from, to });
            }
        }
        // What is stored is above everything issued, and nothing is issued any more: counters go on from there.
        let copy = Copy { operation: "migrate", now, lost: None, older: None, floors: &[] };
        let restore = Restore::of(records, now, &copy, &*entropy)?;
        Ok(Migration { source, target, witness, entropy, restore, from, to, moved })
    }
}

/// The records of the directory, and where it was moved to, if it was.
async fn records(source: &dyn Store) -> Result<(Vec<(Key, Vec<u8>)>, Option<String>), StoreFailure> {
    let records = source.scan(&Key::ROOT).await?.into_iter().map(|(key, versioned)| (key, versioned.value));
    let (moved, records): (Vec<_>, Vec<_>) = records.partition(|(key, _)| *key == keys::MOVED);
    Ok((records, moved.first().map(|(_, to)| founding::place(to))))
}

#[cfg(test)]
mod tests;
