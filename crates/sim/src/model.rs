//! Model checking: explores, within bounds, every interleaving of daemons, clocks, the store and faults.
//!
//! The models drive the real code of `kent-issue` and `kent-regions`. They model only the store and the order of the
//! daemon's calls. stateright explores breadth first, so counterexamples are short.

mod pace;
mod shared;
mod slots;
mod store;
mod strict;
mod tables;

use std::{
    fmt::{Debug, Write},
    hash::Hash,
    time::Instant,
};

use anyhow::{bail, ensure};
use clap::{Args, ValueEnum};
use stateright::{Checker, HasDiscoveries, Model};

use self::{
    pace::{PaceBudget, PaceModel},
    slots::{Budget, SlotsModel},
    strict::{StrictBudget, StrictModel},
    tables::{EditKind, TableBudget, TablesModel},
};

/// Check the models of issuing and table edits exhaustively within bounds, and check that each guard is needed.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Use wider bounds: more than ten million states per model, minutes instead of seconds, and several gigabytes of
    /// memory.
    #[arg(long)]
    deep: bool,
    /// Disable only this guard, and show the counterexample.
    #[arg(long, value_name = "WHAT")]
    mutant: Option<Mutant>,
}

/// A guard to disable. The checker must then find a counterexample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mutant {
    /// Slots and counters are written without a check of their versions.
    NoVersionCheck,
    /// A slot is taken with a start below its old ceiling.
    StartBelowCeiling,
    /// A commit is answered before it is flushed.
    AnswerBeforeFlush,
    /// A daemon continues to grant identifiers that it gave back.
    GrantAfterGiveBack,
    /// A chunk is reserved without a check of its region's version.
    NoRegionGuard,
    /// A table is edited without a check of its revision.
    NoRevisionCheck,
    /// An older value of a counter replaces a newer one, and a plan is guarded by the version last read instead of the
    /// version that the plan is based on.
    OlderCounter,
    /// A thread checks a region, and later grants from it without a second check.
    GrantUnchecked,
    /// A daemon grants without a check of the seals that cover the region.
    NoSealCheck,
    /// A daemon adopts a slot whose record names the daemon as holder, even if a twin wrote the record.
    AdoptRecord,
    /// A restore continues from the counter of the backup.
    NoSkip,
    /// A restore does not skip the burst that a counter may issue after a pause.
    NoBurst,
    /// A restore trusts the clock of its host.
    NoClockError,
    /// A restore trusts the clock of the daemon that made the backup.
    NoSlack,
    /// A restored counter keeps the paid-until time of the backup.
    RestoreUnpaid,
    /// A strict grant is committed without a check of the counter's version.
    NoCounterCheck,
    /// A strict grant with a dated request ID is committed without a check of the floor's version.
    NoFloorCheck,
    /// A strict grant does not look up its request ID, and overwrites an existing record.
    NoRequestLookUp,
}

/// The models to which a mutant applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Slots,
    Tables,
    Both,
    Twins,
    Pace,
    Strict,
}

impl Mutant {
    const fn scope(self) -> Scope {
        match self {
            Self::NoVersionCheck | Self::AnswerBeforeFlush | Self::GrantAfterGiveBack => Scope::Both,
            Self::StartBelowCeiling => Scope::Slots,
            Self::NoRegionGuard
            | Self::NoRevisionCheck
            | Self::OlderCounter
            | Self::GrantUnchecked
            | Self::NoSealCheck => Scope::Tables,
            Self::AdoptRecord => Scope::Twins,
            Self::NoSkip | Self::NoBurst | Self::NoClockError | Self::NoSlack | Self::RestoreUnpaid => Scope::Pace,
            Self::NoCounterCheck | Self::NoFloorCheck | Self::NoRequestLookUp => Scope::Strict,
        }
    }

    fn models(self) -> usize {
        if self.scope() == Scope::Both { 2 } else { 1 }
    }
}

/// The result of checking a model.
struct Report {
    name: &'static str,
    bounds: String,
    states: usize,
    unique: usize,
    depth: usize,
    seconds: f64,
    /// The first broken property, and the steps that break it.
    broken: Option<(&'static str, Vec<String>)>,
    /// An event that must be possible, but never happened. A model without such an event proves nothing.
    idle: Option<&'static str>,
}

/// Checks all models and mutants, and prints the results.
pub(crate) fn run(args: &ModelArgs) -> anyhow::Result<()> {
    if let Some(mutant) = args.mutant {
        let found = mutated(mutant);
        ensure!(!found.is_empty(), "{mutant:?} was not found");
        for found in &found {
            print!("{}", counterexample(found));
        }
        return Ok(());
    }
    print(&explore(&slots(2, args.deep, None), "slots, 2 daemons"))?;
    print(&explore(&slots_under_wild_clocks(None), "slots, 2 daemons, more clock readings"))?;
    print(&explore(&slots(3, args.deep, None), "slots, 3 daemons"))?;
    print(&explore(&twins(None), "slots, 2 daemons, one of which is cloned"))?;
    print(&explore(&paces(args.deep, None), "a counter's pace, backups and restores"))?;
    print(&explore(&stricts(args.deep, None), "strict grants, 2 daemons"))?;
    print(&explore(&tables(2, args.deep, None), "tables and counters, 2 daemons"))?;
    print(&explore(&tables(3, args.deep, None), "tables and counters, 3 daemons"))?;
    for mutant in Mutant::value_variants() {
        let found = mutated(*mutant);
        ensure!(found.len() == mutant.models(), "{mutant:?}: no counterexample without this guard");
        let steps: Vec<_> =
            found.iter().filter_map(|found| Some((found.name, found.broken.as_ref()?.1.len()))).collect();
        let lengths: Vec<_> = steps.iter().map(|(name, steps)| format!("{steps} steps ({name})")).collect();
        println!("{mutant:?}: found in {}", lengths.join(", "));
    }
    Ok(())
}

fn print(found: &Report) -> anyhow::Result<()> {
    let Report { name, bounds, states, unique, depth, seconds, .. } = found;
    println!("{name}: {unique} states ({states} with repetitions), up to {depth} steps deep, in {seconds:.1} s");
    println!("  {bounds}");
    if let Some(idle) = found.idle {
        bail!("{name}: this never happens: {idle}");
    }
    if found.broken.is_some() {
        print!("{}", counterexample(found));
        bail!("{name}: a promise is broken");
    }
    println!("  every promise holds");
    Ok(())
}

const fn slots(replicas: usize, deep: bool, mutant: Option<Mutant>) -> SlotsModel {
    let budget = match (replicas, deep) {
        (2, _) => Budget { clock_readings: 1, supplies: 3, grants: 2, faults: 2, twins: 0 },
        (_, false) => Budget { clock_readings: 1, supplies: 3, grants: 2, faults: 1, twins: 0 },
        (_, true) => Budget { clock_readings: 2, supplies: 4, grants: 3, faults: 2, twins: 0 },
    };
    SlotsModel { replicas, clocks: &[100, 98, 102], budget, mutant }
}

const fn slots_under_wild_clocks(mutant: Option<Mutant>) -> SlotsModel {
    let budget = Budget { clock_readings: 2, supplies: 3, grants: 2, faults: 1, twins: 0 };
    SlotsModel { replicas: 2, clocks: &[100, 98, 102], budget, mutant }
}

/// Returns a model of two daemons, one of which becomes a copy of the other. Both keep the windows that were held or in
/// flight at that moment, but must not share later windows.
const fn twins(mutant: Option<Mutant>) -> SlotsModel {
    let budget = Budget { clock_readings: 1, supplies: 4, grants: 2, faults: 0, twins: 1 };
    SlotsModel { replicas: 2, clocks: &[100, 102], budget, mutant }
}

/// Returns a model of a store that is lost and restored repeatedly.
const fn paces(deep: bool, mutant: Option<Mutant>) -> PaceModel {
    let (ticks, budget): (&[i64], _) = match deep {
        false => (&[1000], PaceBudget { ticks: 2, reservations: 4, backups: 1, restores: 2 }),
        true => (&[500, 1000], PaceBudget { ticks: 2, reservations: 4, backups: 1, restores: 2 }),
    };
    PaceModel { ticks, budget, mutant }
}

/// Returns a model of strict grants with request IDs, some of which expire.
const fn stricts(deep: bool, mutant: Option<Mutant>) -> StrictModel {
    let budget = if deep { StrictBudget { attempts: 4, faults: 3 } } else { StrictBudget { attempts: 3, faults: 2 } };
    StrictModel { daemons: 2, budget, mutant }
}

const fn tables(replicas: usize, deep: bool, mutant: Option<Mutant>) -> TablesModel {
    let budget = match (replicas, deep) {
        (2, false) => TableBudget { edits: 1, reservations: 2, grants: 2, faults: 1 },
        (_, false) => TableBudget { edits: 1, reservations: 2, grants: 2, faults: 0 },
        // These bounds give more than 10^7 states.
        (2, true) => TableBudget { edits: 2, reservations: 2, grants: 2, faults: 1 },
        (_, true) => TableBudget { edits: 1, reservations: 2, grants: 2, faults: 1 },
    };
    TablesModel { replicas, edits: &EditKind::ALL, budget, mutant }
}

/// Checks the models to which a mutant applies, and returns the reports of those that find the mutant.
fn mutated(mutant: Mutant) -> Vec<Report> {
    let mut found = Vec::new();
    if matches!(mutant.scope(), Scope::Slots | Scope::Both) {
        found.push(explore(&slots_under_wild_clocks(Some(mutant)), "slots"));
    }
    if matches!(mutant.scope(), Scope::Tables | Scope::Both) {
        found.push(explore(&tables(2, false, Some(mutant)), "tables"));
    }
    if mutant.scope() == Scope::Twins {
        found.push(explore(&twins(Some(mutant)), "twins"));
    }
    if mutant.scope() == Scope::Pace {
        found.push(explore(&paces(false, Some(mutant)), "pace"));
    }
    if mutant.scope() == Scope::Strict {
        found.push(explore(&stricts(false, Some(mutant)), "strict"));
    }
    found.retain(|found| found.broken.is_some());
    found
}

#[expect(clippy::disallowed_methods, reason = "the duration of a check is only printed")]
fn explore<M>(model: &M, name: &'static str) -> Report
where
    M: Model + Clone + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let began = Instant::now();
    let checker = model.clone().checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut broken = None;
    let mut idle = None;
    for property in model.properties() {
        match (property.expectation, checker.discovery(property.name)) {
            (stateright::Expectation::Always, Some(path)) if broken.is_none() => {
                let steps = path.into_actions().iter().map(|step| format!("{step:?}")).collect();
                broken = Some((property.name, steps));
            }
            (stateright::Expectation::Sometimes, None) => idle = Some(property.name),
            _ => {}
        }
    }
    let bounds = format!("{model:?}");
    let (states, unique, depth) = (checker.state_count(), checker.unique_state_count(), checker.max_depth());
    Report { name, bounds, states, unique, depth, seconds: began.elapsed().as_secs_f64(), broken, idle }
}

fn counterexample(found: &Report) -> String {
    let mut text = String::new();
    if let Some((property, steps)) = &found.broken {
        // OK because writing to a string cannot fail.
        let _ = writeln!(text, "{}: broken after {} steps: {property}", found.name, steps.len());
        for step in steps {
            let _ = writeln!(text, "  {step}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_holds(found: &Report) {
        assert!(found.broken.is_none(), "{}", counterexample(found));
        assert_eq!(found.idle, None, "{}: an event never happens", found.name);
    }

    #[test]
    fn ok_two_daemons_share_slots() {
        check_holds(&explore(&slots(2, false, None), "slots"));
    }

    #[test]
    fn ok_two_daemons_share_slots_under_wild_clocks() {
        check_holds(&explore(&slots_under_wild_clocks(None), "slots"));
    }

    #[test]
    fn ok_three_daemons_share_slots() {
        check_holds(&explore(&slots(3, false, None), "slots"));
    }

    #[test]
    fn ok_a_cloned_daemon_does_not_adopt_records_of_its_twin() {
        check_holds(&explore(&twins(None), "twins"));
    }

    #[test]
    fn ok_repeated_restores_reserve_no_number_twice() {
        check_holds(&explore(&paces(false, None), "pace"));
    }

    #[test]
    fn ok_two_daemons_share_strict_grants() {
        check_holds(&explore(&stricts(false, None), "strict"));
    }

    #[test]
    fn ok_two_daemons_share_tables_and_counters() {
        check_holds(&explore(&tables(2, false, None), "tables"));
    }

    #[test]
    fn ok_three_daemons_share_tables_and_counters() {
        check_holds(&explore(&tables(3, false, None), "tables"));
    }

    #[test]
    fn err_every_mutant_is_found() {
        for mutant in Mutant::value_variants() {
            let found = mutated(*mutant);
            assert_eq!(found.len(), mutant.models(), "{mutant:?} was not found");
        }
    }
}
