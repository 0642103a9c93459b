//! Model checking: every interleaving, within bounds, of what daemons, clocks, the store and misfortune can do.
//!
//! The models drive the real code of `kent-issue` and `kent-regions`; only the store, and the order in which the daemon calls
//! the two, are modelled. stateright explores them breadth first, so a counterexample is a shortest one.

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

/// Check the models of issuing and of table edits, exhaustively within bounds, and that each guard is needed.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Wider bounds: more than ten million states in one run, minutes instead of seconds, and some gigabytes of memory.
    #[arg(long)]
    deep: bool,
    /// Only show how a broken guard goes wrong.
    #[arg(long, value_name = "WHAT")]
    mutant: Option<Mutant>,
}

/// A guard that is taken away: the checker must find what goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mutant {
    /// A slot or counter is rewritten whatever its version.
    NoVersionCheck,
    /// A slot is taken from below its old ceiling.
    StartBelowCeiling,
    /// A commit is answered before it is flushed.
    AnswerBeforeFlush,
    /// What was given back goes on being granted.
    GrantAfterGiveBack,
    /// A chunk is reserved whatever became of its region.
    NoRegionGuard,
    /// A table is edited whatever its revision.
    NoRevisionCheck,
    /// An older value of a counter replaces a newer one, and a plan is guarded by what was read and not by what it was made of.
    OlderCounter,
    /// A thread that has looked at a region grants without another look, however long it slept.
    GrantUnchecked,
    /// A slot whose record names this daemon is taken for its own, by whatever daemon the record was written.
    AdoptRecord,
    /// A restore goes on where the backup's counter stands.
    NoSkip,
    /// A restore does not skip what may have been issued at once after a rest.
    NoBurst,
    /// A restore trusts the clock of its host.
    NoClockError,
    /// A restore trusts the clock that the backup was made by.
    NoSlack,
    /// A restored counter is paid for no longer than the backup says.
    RestoreUnpaid,
    /// A strict grant is committed whatever the counter's version.
    NoCounterCheck,
    /// A dated request_id is granted whatever became of the floor.
    NoFloorCheck,
    /// Nothing is looked up under a request_id, and what is on record is overwritten.
    NoRequestLookUp,
}

/// The models that a guard is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Slots,
    Tables,
    Both,
    Twins,
    Pace,
    Strict,
}

impl Mutant {
    /// In which of the models it makes a difference.
    const fn of(self) -> Of {
        match self {
            Self::NoVersionCheck | Self::AnswerBeforeFlush | Self::GrantAfterGiveBack => Of::Both,
            Self::StartBelowCeiling => Of::Slots,
            Self::NoRegionGuard | Self::NoRevisionCheck | Self::OlderCounter | Self::GrantUnchecked => Of::Tables,
            Self::AdoptRecord => Of::Twins,
            Self::NoSkip | Self::NoBurst | Self::NoClockError | Self::NoSlack | Self::RestoreUnpaid => Of::Pace,
            Self::NoCounterCheck | Self::NoFloorCheck | Self::NoRequestLookUp => Of::Strict,
        }
    }

    /// In how many of them.
    fn models(self) -> usize {
        if self.of() == Of::Both { 2 } else { 1 }
    }
}

/// What a model came to.
struct Found {
    name: &'static str,
    bounds: String,
    states: usize,
    unique: usize,
    depth: usize,
    seconds: f64,
    /// The property that fails first, and the steps to it.
    broken: Option<(&'static str, Vec<String>)>,
    /// Something that must be possible and is not: the model would prove nothing.
    idle: Option<&'static str>,
}

/// Checks everything and tells what was found.
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
        ensure!(found.len() == mutant.models(), "{mutant:?}: taking this guard away was not noticed");
        let steps: Vec<_> =
            found.iter().filter_map(|found| Some((found.name, found.broken.as_ref()?.1.len()))).collect();
        let told: Vec<_> = steps.iter().map(|(name, steps)| format!("{steps} steps ({name})")).collect();
        println!("without {mutant:?}: found in {}", told.join(", "));
    }
    Ok(())
}

fn print(found: &Found) -> anyhow::Result<()> {
    let Found { name, bounds, states, unique, depth, seconds, .. } = found;
    println!("{name}: {unique} states ({states} with repetitions), up to {depth} steps deep, in {seconds:.1} s");
    println!("  {bounds}");
    if let Some(idle) = found.idle {
        bail!("{name}: never happens: {idle}");
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

/// Two daemons, one of which becomes a copy of the other one. What was in hand or on its way then, both have; nothing after it.
const fn twins(mutant: Option<Mutant>) -> SlotsModel {
    let budget = Budget { clock_readings: 1, supplies: 4, grants: 2, faults: 0, twins: 1 };
    SlotsModel { replicas: 2, clocks: &[100, 102], budget, mutant }
}

/// A store that is lost and restored, some times.
const fn paces(deep: bool, mutant: Option<Mutant>) -> PaceModel {
    let (ticks, budget): (&[i64], _) = match deep {
        false => (&[1000], PaceBudget { ticks: 2, reservations: 4, backups: 1, restores: 2 }),
        true => (&[500, 1000], PaceBudget { ticks: 2, reservations: 4, backups: 1, restores: 2 }),
    };
    PaceModel { ticks, budget, mutant }
}

/// Strict grants under request_ids, some of which are forgotten.
const fn stricts(deep: bool, mutant: Option<Mutant>) -> StrictModel {
    let budget = if deep { StrictBudget { attempts: 4, faults: 3 } } else { StrictBudget { attempts: 3, faults: 2 } };
    StrictModel { daemons: 2, budget, mutant }
}

const fn tables(replicas: usize, deep: bool, mutant: Option<Mutant>) -> TablesModel {
    let budget = match (replicas, deep) {
        (2, false) => TableBudget { edits: 1, reservations: 2, grants: 2, faults: 1 },
        (_, false) => TableBudget { edits: 1, reservations: 2, grants: 2, faults: 0 },
        // More than 10^7 states.
        (2, true) => TableBudget { edits: 2, reservations: 2, grants: 2, faults: 1 },
        (_, true) => TableBudget { edits: 1, reservations: 2, grants: 2, faults: 1 },
    };
    TablesModel { replicas, edits: &EditKind::ALL, budget, mutant }
}

/// The models in which a mutant must be found, and is.
fn mutated(mutant: Mutant) -> Vec<Found> {
    let mut found = Vec::new();
    if matches!(mutant.of(), Of::Slots | Of::Both) {
        found.push(explore(&slots_under_wild_clocks(Some(mutant)), "slots"));
    }
    if matches!(mutant.of(), Of::Tables | Of::Both) {
        found.push(explore(&tables(2, false, Some(mutant)), "tables"));
    }
    if mutant.of() == Of::Twins {
        found.push(explore(&twins(Some(mutant)), "twins"));
    }
    if mutant.of() == Of::Pace {
        found.push(explore(&paces(false, Some(mutant)), "pace"));
    }
    if mutant.of() == Of::Strict {
        found.push(explore(&stricts(false, Some(mutant)), "strict"));
    }
    found.retain(|found| found.broken.is_some());
    found
}

#[expect(clippy::disallowed_methods, reason = "how long a check took is for people to read")]
fn explore<M>(model: &M, name: &'static str) -> Found
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
    Found { name, bounds, states, unique, depth, seconds: began.elapsed().as_secs_f64(), broken, idle }
}

fn counterexample(found: &Found) -> String {
    let mut text = String::new();
    if let Some((property, steps)) = &found.broken {
        // OK because a String takes everything.
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

    fn check_holds(found: &Found) {
        assert!(found.broken.is_none(), "{}", counterexample(found));
        assert_eq!(found.idle, None, "{}: never happens", found.name);
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
    fn ok_a_cloned_daemon_adopts_nothing_of_its_twin() {
        check_holds(&explore(&twins(None), "twins"));
    }

    #[test]
    fn ok_a_store_that_is_restored_again_and_again_reserves_no_number_twice() {
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
    fn err_no_guard_can_be_taken_away() {
        for mutant in Mutant::value_variants() {
            let found = mutated(*mutant);
            assert_eq!(found.len(), mutant.models(), "{mutant:?} was not found");
        }
    }
}
