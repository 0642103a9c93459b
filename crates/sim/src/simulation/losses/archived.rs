//! Restores from an archive, with the daemon's code and real files. Such a restore must lose no commit and skip no
//! number.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Parser;
use kent_ids::UnixNanos;
use kent_regions::Count;
use kent_store::{
    ArchiveError, Archived, Archiving, Key, MemoryStore, OpenError, SledOptions, SledStore, Store, StoreId, Txn,
};
use kentd::{Environment, Node, NotRestored, Restore, RestoreArgs, RestoreError, clock::Clock};
use tempfile::TempDir;
use tokio::time;

use super::{
    super::{
        clocks::Clocks,
        link::{Backend, Link},
        run::{ARCHIVED, Run, TRIES},
        world::{Dice, Machine},
    },
    backup::Backup,
    line::Line,
};

/// Loses the store and restores it from its archive. Returns the archive, which can then only serve as a backup.
pub(super) async fn restore(run: &Arc<Run>) -> Option<Backup> {
    let old = run.backend();
    let kept = old.archive.as_ref()?.lose();
    run.crash_all().await;
    // Wait until all responses of lost daemons are recorded, and keep faults from starting a daemon.
    let _exclusive = run.gate.write().await;
    run.crash_all().await;
    let host = run.any_machine();
    if run.clocks == Clocks::Wild {
        // A host clock that is years ahead would reserve every slot for years.
        host.set_off(0);
    }
    let place = match Place::of_lost(old.memory.store_id(), kept) {
        Ok(place) => place,
        Err(error) => {
            run.violation(format!("cannot write the files of the archive: {error:#}"));
            return None;
        }
    };
    match restored(run, &old, &place, &host).await.and_then(|made| place.check_refused().map(|()| made)) {
        Ok((backend, until)) => {
            run.faults.archive_restores.count();
            run.replace_store(backend, until);
            run.start_all().await;
            let own = place.own().ok()?;
            Some(Backup::archive(place.files, own))
        }
        Err(error) => {
            run.violation(format!("restore from an archive: {error:#}"));
            None
        }
    }
}

/// Repeats the restore until it succeeds. The new store may have an archive.
async fn restored(run: &Run, old: &Backend, place: &Place, host: &Machine) -> anyhow::Result<(Backend, UnixNanos)> {
    let new = old.with_store(MemoryStore::new(StoreId::new(run.dice.bytes())));
    let args = place.args("new")?;
    // Create the directory of the new store, as the first attempt would.
    fs::create_dir_all(args.data.join("db"))?;
    let mut until = UnixNanos::new(0);
    for _ in 0..TRIES {
        let plan = Restore::plan_at(&args, host.wall(), &run.dice).await?;
        ensure!(plan.sealed == 0, "{} regions are sealed", plan.sealed);
        // A counter that has needed a floor since an earlier restore still needs one.
        let was_restored = run.restores() > 0;
        let skips = |to: Option<Count>, from: Count| to.map_or(!was_restored, |to| to != from);
        let skipped = plan.skips.iter().find(|skip| skips(skip.to, skip.from));
        ensure!(skipped.is_none(), "the restore skips {skipped:?}");
        until = until.max(plan.reserved_until.nanos());
        let link = Link::new(new.clone(), Arc::new(AtomicBool::new(false)));
        // Some attempts are interrupted, and the same command finishes the restore.
        let limit = if run.dice.per_mille(300) { run.dice.millis(1, 300) } else { Duration::from_secs(1000) };
        match time::timeout(limit, plan.write_to(&link, &args, &run.dice)).await {
            Ok(Ok(())) => return Ok((new.archived(ARCHIVED).await?, until)),
            // An interrupted attempt has already applied its last step.
            Ok(Err(RestoreError::NotEmpty { .. })) => {
                let (store, clock) = (Arc::new(new.memory.reopen()), run.any_machine());
                let entropy = Arc::new(run.dice.clone());
                let node = Node::start(Environment { store, clock, entropy }, run.config()).await?;
                node.abandon().await;
                return Ok((new.archived(ARCHIVED).await?, until));
            }
            Ok(Err(RestoreError::Fill(_) | RestoreError::Store(_))) => {
                time::sleep(run.dice.millis(100, 2000)).await;
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => time::sleep(run.dice.millis(0, 2000)).await,
        }
    }
    bail!("the restore does not finish")
}

/// The files of a lost store: its archive, and the store itself in case its disk returns.
#[derive(Debug)]
struct Place {
    files: TempDir,
    store: StoreId,
}

impl Place {
    fn of_lost(store: StoreId, kept: Vec<(Key, Vec<u8>)>) -> anyhow::Result<Self> {
        let place = Self { files: tempfile::tempdir()?, store };
        fs::create_dir(place.path("archive"))?;
        place.open_old(async |old| {
            let old = old?;
            for records in kept.chunks(64) {
                let put = |txn: Txn, (key, value): &(Key, Vec<u8>)| txn.put(key.clone(), value.clone());
                old.commit(records.iter().fold(Txn::new(), put)).await?;
            }
            old.close().await;
            Ok(())
        })?;
        Ok(place)
    }

    /// Checks that neither a second restore nor a start on the old store is possible.
    fn check_refused(&self) -> anyhow::Result<()> {
        let again = self.args("again")?;
        match in_real_time(async || Ok(Restore::plan_at(&again, UnixNanos::new(0), &Dice::new(0)).await))? {
            Err(RestoreError::Archive(NotRestored::Archive(ArchiveError::Restored { .. }))) => {}
            again => bail!("the archive can be restored a second time: {again:?}"),
        }
        self.open_old(async |old| match old {
            Err(OpenError::Archive(ArchiveError::Restored { .. })) => Ok(()),
            old => bail!("the old store can be started: {old:?}"),
        })
    }

    /// Opens the old store, outside of simulated time.
    fn open_old(
        &self,
        act: impl AsyncFnOnce(Result<SledStore, OpenError>) -> anyhow::Result<()> + Send,
    ) -> anyhow::Result<()> {
        let options = SledOptions { dir: self.path("old"), new_id: self.store.to_bytes() };
        let archiving = Archiving::To { dir: self.path("archive"), base_after: 1 << 20 };
        in_real_time(async || act(SledStore::open_archived(options, archiving)).await)
    }

    fn args(&self, new: &str) -> anyhow::Result<RestoreArgs> {
        let (archive, new) = (self.path("archive"), self.path(new));
        let line = ["kentd restore", &archive.to_string_lossy(), "--archive", "--data", &new.to_string_lossy()]
            .map(str::to_owned);
        Ok(Line::try_parse_from(line)?.args)
    }

    /// Returns the store's directory in the archive, relative to the directory of all files.
    fn own(&self) -> anyhow::Result<PathBuf> {
        let (own, _) = Archived::list(&self.path("archive"))?.pop().context("the archive has no store")?;
        Ok(own.strip_prefix(self.files.path())?.to_owned())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }
}

/// Runs a future to completion in real time, while simulated time stands still.
fn in_real_time<T: Send>(act: impl AsyncFnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    let run = || tokio::runtime::Builder::new_current_thread().build()?.block_on(act());
    thread::scope(|scope| scope.spawn(run).join()).map_err(|_| anyhow!("the task panicked"))?
}
