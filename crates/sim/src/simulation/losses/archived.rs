//! Restores from an archive, by the daemon's own code on real files: nothing is lost, and nothing is skipped.

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
        actors::TRIES,
        clocks::Clocks,
        link::{Backend, Link},
        run::{ARCHIVED, Run},
        world::{Dice, Machine},
    },
    backup::Backup,
    line::Line,
};

/// The store is lost at some moment, and restored from its archive, which is a mere backup from then on.
pub(super) async fn restore(run: &Arc<Run>) -> Option<Backup> {
    let old = run.backend();
    let kept = old.archive.as_ref()?.lose();
    run.crash_all().await;
    // Answers that came from the lost daemons are taken note of, and nothing starts one.
    let _alone = run.gate.write().await;
    run.crash_all().await;
    let host = run.any_machine();
    if run.clocks == Clocks::Wild {
        // A host that is years ahead would reserve every slot for years.
        host.set_off(0);
    }
    let place = match Place::of_lost(old.memory.store_id(), kept) {
        Ok(place) => place,
        Err(error) => {
            run.violation(format!("the archive cannot be laid down: {error:#}"));
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

/// Restores as often as it takes. The new store is archived or not.
async fn restored(run: &Run, old: &Backend, place: &Place, host: &Machine) -> anyhow::Result<(Backend, UnixNanos)> {
    let new = old.with_store(MemoryStore::new(StoreId::new(run.dice.bytes())));
    let args = place.args("new")?;
    // The new store's directory is there from the first attempt on.
    fs::create_dir_all(args.data.join("db"))?;
    let mut until = UnixNanos::new(0);
    for _ in 0..TRIES {
        let plan = Restore::plan_at(&args, host.wall(), &run.dice).await?;
        ensure!(plan.sealed == 0, "{} regions are sealed", plan.sealed);
        // One that an earlier restore left without a place to go on from stays so.
        let was_restored = run.restores() > 0;
        let skips = |to: Option<Count>, from: Count| to.map_or(!was_restored, |to| to != from);
        let skipped = plan.skips.iter().find(|skip| skips(skip.to, skip.from));
        ensure!(skipped.is_none(), "it skips: {skipped:?}");
        until = until.max(plan.reserved_until.nanos());
        let link = Link::new(new.clone(), Arc::new(AtomicBool::new(false)));
        // At times it is broken off, and the same command finishes it.
        let limit = if run.dice.per_mille(300) { run.dice.millis(1, 300) } else { Duration::from_secs(1000) };
        match time::timeout(limit, plan.write_to(&link, &args, &run.dice)).await {
            Ok(Ok(())) => return Ok((new.archived(ARCHIVED).await?, until)),
            // The last step of an attempt that was broken off came through all the same.
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
    bail!("it does not come to an end")
}

/// The files that are left when a store is lost: its archive; and the store, should its disk turn up again.
#[derive(Debug)]
struct Place {
    files: TempDir,
    store: StoreId,
}

impl Place {
    fn of_lost(store: StoreId, kept: Vec<(Key, Vec<u8>)>) -> anyhow::Result<Self> {
        let place = Self { files: tempfile::tempdir()?, store };
        fs::create_dir(place.path("archive"))?;
        place.on_its_own(async |old| {
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

    /// The old store is refused from now on, and so is another restore.
    fn check_refused(&self) -> anyhow::Result<()> {
        let again = self.args("again")?;
        match runs(async || Ok(Restore::plan_at(&again, UnixNanos::new(0), &Dice::new(0)).await))? {
            Err(RestoreError::Archive(NotRestored::Archive(ArchiveError::Restored { .. }))) => {}
            again => bail!("it can be restored again: {again:?}"),
        }
        self.on_its_own(async |old| match old {
            Err(OpenError::Archive(ArchiveError::Restored { .. })) => Ok(()),
            old => bail!("the old store can be started: {old:?}"),
        })
    }

    /// Opens the old store beside simulated time.
    fn on_its_own(
        &self,
        act: impl AsyncFnOnce(Result<SledStore, OpenError>) -> anyhow::Result<()> + Send,
    ) -> anyhow::Result<()> {
        let options = SledOptions { dir: self.path("old"), new_id: self.store.to_bytes() };
        let archiving = Archiving::To { dir: self.path("archive"), base_after: 1 << 20 };
        runs(async || act(SledStore::open_archived(options, archiving)).await)
    }

    fn args(&self, new: &str) -> anyhow::Result<RestoreArgs> {
        let (archive, new) = (self.path("archive"), self.path(new));
        let line = ["kentd restore", &archive.to_string_lossy(), "--archive", "--data", &new.to_string_lossy()]
            .map(str::to_owned);
        Ok(Line::try_parse_from(line)?.args)
    }

    /// The directory of the store in the archive, from that of all files.
    fn own(&self) -> anyhow::Result<PathBuf> {
        let (own, _) = Archived::list(&self.path("archive"))?.pop().context("there is no archive")?;
        Ok(own.strip_prefix(self.files.path())?.to_owned())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }
}

/// Runs something on real time to its end, while simulated time stands still.
fn runs<T: Send>(act: impl AsyncFnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    let run = || tokio::runtime::Builder::new_current_thread().build()?.block_on(act());
    thread::scope(|scope| scope.spawn(run).join()).map_err(|_| anyhow!("it panicked"))?
}
