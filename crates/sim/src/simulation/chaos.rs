//! Injected faults: clock jumps, crashes, restarts, partitions, compactions, power failures, and archives that cannot
//! be written.

use std::sync::{Arc, atomic::Ordering};

use tokio::time;

use super::{actors, run::Run};

/// Injects faults into one replica until the run ends.
pub(crate) async fn chaos(run: Arc<Run>, replica: usize) {
    while !run.is_ending() {
        run.step();
        time::sleep(run.dice.millis(200, 6000)).await;
        // Inject no faults while a lost store is being restored.
        let _gate = run.gate.read().await;
        if run.is_ending() {
            return;
        }
        match run.dice.between(0, 9) {
            0..5 => {
                run.faults.jumps.count();
                let off = run.dice.pick(run.clocks.offsets()).copied().unwrap_or_default();
                run.replicas[replica].machine.set_off(off);
            }
            5 | 6 => {
                run.crash(replica).await;
                time::sleep(run.dice.millis(0, 4000)).await;
                run.start(replica).await;
            }
            7 => {
                run.faults.stops.count();
                run.stop(replica).await;
                run.start(replica).await;
            }
            8 => {
                run.faults.compactions.count();
                run.backend().memory.compact();
            }
            _ => {
                run.faults.cuts.count();
                run.replicas[replica].cut.store(true, Ordering::SeqCst);
                time::sleep(run.dice.millis(100, 9000)).await;
                run.replicas[replica].cut.store(false, Ordering::SeqCst);
            }
        }
    }
}

/// Repeatedly cuts the power of all machines, until the run ends. When it returns, the daemons start together, and so
/// compete for the same slots.
pub(crate) async fn power_failures(run: Arc<Run>) {
    while !run.is_ending() {
        time::sleep(run.dice.millis(5000, 60_000)).await;
        let exclusive = run.gate.write().await;
        if run.is_ending() {
            return;
        }
        run.faults.power_failures.count();
        run.crash_all().await;
        time::sleep(run.dice.millis(0, 20_000)).await;
        run.start_all().await;
        drop(exclusive);
        actors::use_slots(&run).await;
    }
}

/// Repeatedly makes archives unwritable for a while, until the run ends.
pub(crate) async fn outages(run: Arc<Run>) {
    while !run.is_ending() {
        time::sleep(run.dice.millis(1000, 20_000)).await;
        let Some(archive) = run.backend().archive else { continue };
        run.faults.outages.count();
        archive.set_away(true);
        time::sleep(run.dice.millis(50, 4000)).await;
        archive.set_away(false);
    }
}
