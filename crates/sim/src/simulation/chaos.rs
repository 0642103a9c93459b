//! Misfortune: clocks, crashes, restarts, partitions, and a store that forgets.

use std::{sync::Arc, sync::atomic::Ordering};

use tokio::time::{self, Instant};

use super::{
    run::Run,
    world::{Dice, Machine},
};

const MILLI: i128 = 1_000_000;
const SECOND: i128 = 1000 * MILLI;
const HOUR: i128 = 3600 * SECOND;
const YEAR: i128 = 365 * 24 * HOUR;
/// What a wall clock may be set to, as an offset to the truth.
const OFFSETS: [i128; 14] = [
    0,
    0,
    -10 * MILLI,
    -400 * MILLI,
    -2 * SECOND,
    -HOUR,
    -24 * HOUR,
    300 * MILLI,
    3 * SECOND,
    50 * 60 * SECOND,
    HOUR,
    2 * HOUR,
    24 * HOUR,
    10 * YEAR,
];

/// What the wall clock of one machine is always ahead of the truth.
const CONSTANT: [i128; 8] = [0, 0, 20 * MILLI, -300 * MILLI, 2 * SECOND, -5 * SECOND, 10 * 60 * SECOND, -HOUR];
/// By how many millionths it goes too fast.
const DRIFTS: [i128; 7] = [0, 0, 50, -50, 500, -20_000, 20_000];

/// The clock of one machine, which differs from those of others.
pub(crate) fn machine(boot: Instant, dice: &Dice) -> Machine {
    let constant = dice.pick(&CONSTANT).copied().unwrap_or_default();
    Machine::new(boot, constant, dice.pick(&DRIFTS).copied().unwrap_or_default())
}

/// Makes one replica's life hard until the end.
pub(crate) async fn chaos(run: Arc<Run>, replica: usize) {
    while !run.ending.load(Ordering::SeqCst) {
        run.step();
        time::sleep(run.dice.millis(200, 6000)).await;
        if run.ending.load(Ordering::SeqCst) {
            return;
        }
        match run.dice.between(0, 9) {
            0..5 => {
                run.faults.jumps.count();
                let off = run.dice.pick(&OFFSETS).copied().unwrap_or_default();
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
                run.backend.memory.compact();
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
