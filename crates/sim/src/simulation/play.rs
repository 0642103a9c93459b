//! One run from its beginning to its end: what goes wrong for a while, then some calm, and the checks.
//!
//! In every second run the store is lost and restored or moved, some times. A restore from a backup assumes something about clocks, so
//! they keep to that in such runs. In the others they say anything; in half of these the store is lost as well, and has an archive.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::time;

use super::{
    actors, chaos, checks,
    clocks::Clocks,
    link::on_its_way,
    losses,
    mutant::Mutant,
    outcome::Outcome,
    run::{ARCHIVED, REPLICAS, Run},
    world::Dice,
};

/// How long faults go on.
const FOUL: Duration = Duration::from_secs(60);
/// After this long without faults everything must be as if nothing had been: windows are over, and clocks are believed.
const CALM: Duration = Duration::from_secs(200);
/// A run that takes longer hangs.
const HANGS: Duration = Duration::from_secs(60_000);

/// Runs a seed to its end.
pub(crate) fn simulate(seed: u64, mutant: Option<Mutant>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let run = match runtime {
        Ok(runtime) => catch_unwind(AssertUnwindSafe(|| runtime.block_on(whole(seed, mutant)))),
        Err(error) => return Outcome { violations: vec![(seed, error.to_string())], ..Outcome::default() },
    };
    run.unwrap_or_else(|_| Outcome {
        violations: vec![(seed, "P6: something panicked".to_owned())],
        ..Outcome::default()
    })
}

async fn whole(seed: u64, mutant: Option<Mutant>) -> Outcome {
    // Not drawn, so that what the other runs draw stays the same.
    let clocks = match seed % 4 {
        0 => Clocks::Within,
        2 => Clocks::Synchronized,
        _ => Clocks::Wild,
    };
    // Nothing asks anything of clocks where stores are lost that have an archive.
    let archived = match (clocks, seed % 4) {
        (Clocks::Wild, 1) => 1000,
        (Clocks::Wild, _) => 0,
        _ => ARCHIVED,
    };
    let run = match Run::new(Dice::new(seed), clocks, mutant) {
        Ok(run) => Arc::new(run),
        Err(error) => return Outcome { violations: vec![(seed, error.to_string())], ..Outcome::default() },
    };
    if time::timeout(HANGS, play(&run, archived)).await.is_err() {
        run.violation("P6: the run hangs".to_owned());
    }
    run.outcome(seed)
}

/// The foul time, the calm, and the checks.
async fn play(run: &Arc<Run>, archived: u64) {
    if archived > 0 {
        run.archive(archived).await;
    }
    run.start_all().await;
    actors::prepare(run).await;
    for client in 0..4 {
        on_its_way(actors::client(run.clone(), client));
    }
    for operator in 0..2 {
        on_its_way(actors::operator(run.clone(), operator));
    }
    on_its_way(actors::auditor(run.clone()));
    on_its_way(actors::audited(run.clone()));
    for replica in 0..REPLICAS {
        on_its_way(chaos::chaos(run.clone(), replica));
    }
    if run.loses_stores() {
        on_its_way(actors::rush(run.clone()));
    }
    if archived > 0 {
        on_its_way(chaos::outages(run.clone()));
        losses::losses(run.clone()).await;
    } else {
        time::sleep(FOUL).await;
    }
    run.end();
    let wait = run.until_issued_again();
    if !wait.is_zero() {
        // A clock was set back behind the moment from which on a restored or moved store issues.
        let _alone = run.gate.write().await;
        run.crash_all().await;
        time::sleep(wait).await;
        run.start_all().await;
    }
    time::sleep(CALM).await;
    for replica in 0..REPLICAS {
        if run.life(replica).is_none() {
            run.start(replica).await;
        }
    }
    actors::check_liveness(run).await;
    if let Err(violation) = checks::check_spaces(run).await {
        run.violation(violation);
    }
    for replica in 0..REPLICAS {
        run.stop(replica).await;
    }
}
