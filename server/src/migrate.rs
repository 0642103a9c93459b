//! Moving a store from a directory to etcd, once and for ever.
//!
//! The directory is opened as a daemon would open it, so that none holds it, and marked as moved before anything is
//! written elsewhere: from then on no daemon starts on it. The store on etcd is marked as not whole until it is. Whatever
//! breaks off between, nothing is issued from either, and the same command finishes it.

use std::path::PathBuf;

use clap::Args;
use kent_store::{
    EtcdAddress, EtcdCredentials, EtcdOpenError, EtcdOptions, EtcdStore, EtcdTls, Key, OpenError, SCHEMA, SledOptions,
    SledStore, Store, Txn,
};
use thiserror::Error;

use crate::{
    clock::{Clock, SystemClock},
    config::{ConfigError, EtcdSettings},
    entropy::{self, SystemEntropy},
    error::StoreFailure,
    keys,
    restore::{CHUNKS, Restore, RestoreError, Standing, Why},
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
    /// Move every counter by so many identifiers at the most [default: two of the largest chunks, 2097152].
    #[arg(long, value_name = "COUNT")]
    pub skip: Option<u64>,
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
    source: SledStore,
    target: EtcdStore,
    /// What is done to the records.
    pub restore: Restore,
    to: String,
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
    /// It was moved to another place.
    #[error("{} was moved to {to} before", dir.display())]
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
    /// etcd cannot be used.
    #[error(transparent)]
    Etcd(#[from] EtcdOpenError),
    /// The settings for etcd cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A record makes no sense, or one of the stores does not answer.
    #[error(transparent)]
    Store(#[from] StoreFailure),
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
        let new_id = || entropy::octets(&SystemEntropy);
        let source = SledStore::open(SledOptions { dir: args.from.clone(), new_id: new_id() })?;
        let target = EtcdStore::open(EtcdOptions {
            address: args.to.clone(),
            tls,
            credentials,
            new_id: new_id(),
            schema: SCHEMA,
        })
        .await?;
        let to = args.to.to_string();
        let moved = source.get(&keys::MOVED).await.map_err(StoreFailure::from)?;
        let moved = moved.map(|moved| String::from_utf8_lossy(&moved.value).into_owned());
        if let Some(elsewhere) = moved.clone().filter(|before| *before != to) {
            return Err(MigrateError::MovedBefore { dir: args.from.clone(), to: elsewhere });
        }
        // What an attempt that was broken off has written is written again.
        let is_begun = moved.is_some() && target.get(&keys::RESTORING).await.map_err(StoreFailure::from)?.is_some();
        if !is_begun && !target.scan(&Key::ROOT).await.map_err(StoreFailure::from)?.is_empty() {
            return Err(MigrateError::NotEmpty { to });
        }
        let records = source.scan(&Key::ROOT).await.map_err(StoreFailure::from)?;
        let records = records.into_iter().filter(|(key, _)| *key != keys::MOVED);
        let records = records.map(|(key, versioned)| (key, versioned.value)).collect();
        let now = SystemClock::new().wall();
        let most = args.skip.map_or(CHUNKS, u128::from);
        let by = |counter: &Standing<'_>| if counter.is_strict { 0 } else { most.min(counter.left() / 2) };
        let why = Why { operation: "migrate", table_unchanged: true, now };
        let restore = Restore::of(records, now, &why, by, &SystemEntropy)?;
        Ok(Self { source, target, restore, to })
    }

    /// Marks the directory as moved, and fills the store on etcd.
    ///
    /// # Errors
    ///
    /// [`StoreFailure`]; the same move can then be planned and made again.
    pub async fn make(self, progress: impl Fn(usize, usize)) -> Result<(), StoreFailure> {
        let Self { source, target, restore, to } = self;
        source.commit(Txn::new().put(keys::MOVED, to.into_bytes())).await?;
        target.commit(Txn::new().put(keys::RESTORING, b"migrating".to_vec())).await?;
        restore.fill(&target, progress).await?;
        source.close().await;
        target.close().await;
        Ok(())
    }
}
