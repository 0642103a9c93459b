//! One run from start to end: a phase with faults, a quiet phase without faults, and the checks.
//!
//! In every second run, the store is lost and restored or moved several times. A restore from a backup assumes a bound
//! on clock errors, so the clocks of these runs stay within the bound. In the other runs, clocks may be wrong by any
//! amount. In half of the other runs, the store has an archive, is lost, and is restored from the archive.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::time;

use super::{
    actors, chaos, checks,
    clocks::Clocks,
    imports,
    link::spawn,
    losses,
    mutant::Mutant,
    outcome::Outcome,
    run::{ARCHIVED, REPLICAS, Run},
    world::Dice,
};

/// The length of the phase with faults.
const FAULTS: Duration = Duration::from_secs(60);
/// The length of the quiet phase. The phase is long enough for all windows to end and for all daemons to trust their
/// clocks again, so every operation must work afterward.
const QUIET: Duration = Duration::from_secs(200);
/// The time after which a run counts as hung.
const HANGS: Duration = Duration::from_secs(60_000);

/// Runs one seed from start to end.
pub(crate) fn simulate(seed: u64, mutant: Option<Mutant>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let run = match runtime {
        Ok(runtime) => catch_unwind(AssertUnwindSafe(|| runtime.block_on(whole(seed, mutant)))),
        Err(error) => return Outcome { violations: vec![(seed, error.to_string())], ..Outcome::default() },
    };
    run.unwrap_or_else(|_| Outcome { violations: vec![(seed, "P6: a panic".to_owned())], ..Outcome::default() })
}

async fn whole(seed: u64, mutant: Option<Mutant>) -> Outcome {
    // The seed number selects the bound on clock errors. A random draw would change the runs of existing seeds.
    let clocks = match seed % 4 {
        0 => Clocks::Within,
        2 => Clocks::Synchronized,
        _ => Clocks::Wild,
    };
    // A restore from an archive makes no assumption about clocks.
    let archived = match (clocks, seed % 4) {
        (Clocks::Wild, 1) => 1000,
        (Clocks::Wild, _) => 0,
        _ => ARCHIVED,
    };
    let run = match Run::new(Dice::new(seed), clocks, mutant) {
        Ok(run) => Arc::new(run),
        Err(error) => return Outcome { violations: vec![(seed, error.to_string())], ..Outcome::default() },
    };
    // The seed number also selects the runs that import tables: half of each kind of run.
    let imports = matches!(seed % 8, 0 | 3 | 5 | 6);
    if time::timeout(HANGS, play(&run, archived, imports)).await.is_err() {
        run.violation("P6: the run hangs".to_owned());
    }
    run.outcome(seed)
}

/// Runs the phase with faults, the quiet phase, and the checks.
async fn play(run: &Arc<Run>, archived: u64, imports: bool) {
    if archived > 0 {
        run.archive(archived).await;
    }
    run.start_all().await;
    actors::prepare(run).await;
    for client in 0..4 {
        spawn(actors::client(run.clone(), client));
    }
    for operator in 0..2 {
        spawn(actors::operator(run.clone(), operator));
    }
    if imports {
        spawn(imports::importer(run.clone()));
    }
    spawn(actors::auditor(run.clone()));
    spawn(actors::audited(run.clone()));
    for replica in 0..REPLICAS {
        spawn(chaos::chaos(run.clone(), replica));
    }
    // This mutant is found only if tables are edited shortly before the store is lost. Power failures delay edits.
    if run.backend().mutant != Some(Mutant::TableUnchanged) {
        spawn(chaos::power_failures(run.clone()));
    }
    if run.loses_stores() {
        spawn(actors::rush(run.clone()));
    }
    if archived > 0 {
        spawn(chaos::outages(run.clone()));
        losses::losses(run.clone()).await;
    } else {
        time::sleep(FAULTS).await;
    }
    run.end();
    let wait = run.time_until_issuing();
    if !wait.is_zero() {
        // A fault has set a clock back to before the time at which a restored or moved store starts to issue.
        let _exclusive = run.gate.write().await;
        run.crash_all().await;
        time::sleep(wait).await;
        run.start_all().await;
    }
    time::sleep(QUIET).await;
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
