//! Simulates lost stores: takes backups at random times, crashes all daemons, and replaces the lost store with a
//! restored one.
//!
//! Only the newest backup is restored, sometimes repeatedly. Operators follow docs/restore.md: they know the edits
//! since the backup, repeat them where possible, and unseal the regions that match the lost store.

mod archived;
mod backup;
mod line;
mod moves;
mod repair;

use std::sync::Arc;

use kent_store::{Key, MemoryStore, Store, Txn, Versioned};
use kentd::{Environment, StartError, WitnessError};
use tokio::time;

use super::{clocks::Clocks, run::Run};

/// Loses the store one to three times, and restores or moves it.
pub(crate) async fn losses(run: Arc<Run>) {
    let mut backup = None;
    for number in 0..run.dice.between(1, 3) {
        time::sleep(run.dice.millis(3000, 20_000)).await;
        if run.clocks == Clocks::Wild {
            time::sleep(run.dice.millis(0, 20_000)).await;
            archived::restore(&run).await;
            continue;
        }
        // In some cases, operators make no edits from here on, so they may pass `--table-unchanged`.
        run.pause_edits(run.dice.per_mille(400)).await;
        if backup.is_none() || run.dice.per_mille(700) {
            backup = backup::take_backup(&run).await.or(backup);
        }
        let copy = copy(&run).await;
        time::sleep(run.dice.millis(0, 20_000)).await;
        if let Some(copy) = copy {
            put_back(&run, copy).await;
        }
        let is_archived = run.backend().archive.is_some();
        match &mut backup {
            _ if is_archived && run.dice.per_mille(600) => {
                let archive = archived::restore(&run).await;
                if run.dice.per_mille(500) {
                    backup = archive.or(backup);
                }
            }
            Some(backup) if run.dice.per_mille(800) => backup::restore(&run, backup, number).await,
            _ => moves::migrate(&run).await,
        }
        run.pause_edits(false).await;
    }
    time::sleep(run.dice.millis(3000, 15_000)).await;
}

/// Returns a copy of the store, like a snapshot of its disk, and the number of daemon starts that had begun by the time
/// of the copy.
async fn copy(run: &Run) -> Option<(MemoryStore, u64)> {
    let (memory, begun) = (run.backend().memory.reopen(), run.begun());
    let copy = MemoryStore::new(memory.store_id());
    for records in memory.scan(&Key::ROOT).await.ok()?.chunks(50) {
        let put = |txn: Txn, (key, versioned): &(Key, Versioned)| txn.put(key.clone(), versioned.value.clone());
        copy.commit(records.iter().fold(Txn::new(), put)).await.ok()?;
    }
    Some((copy, begun))
}

/// Starts a daemon on an old copy of the store. The witness has recorded a later start, so it must reject the copy.
async fn put_back(run: &Run, (copy, begun): (MemoryStore, u64)) {
    let Some(witness) = &run.witness else { return };
    if run.attested() <= begun || copy.store_id() != run.backend().memory.store_id() {
        return;
    }
    let (clock, entropy) = (run.any_machine(), Arc::new(run.dice.clone()));
    let environment = Environment { store: Arc::new(copy), clock, entropy };
    match kentd::attest(&environment, witness.path()).await {
        Err(StartError::Witness(WitnessError::OldCopy { .. })) => run.faults.copies.count(),
        attested => run.violation(format!("the witness does not detect an old copy of the store: {attested:?}")),
    }
}
