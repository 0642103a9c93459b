//! The simulation of whole daemons: runs many seeds in parallel and reports the results.

mod actors;
mod archive;
mod chaos;
mod checks;
mod clocks;
mod edits;
mod imports;
mod ledger;
mod link;
mod losses;
mod mutant;
mod outcome;
mod places;
mod play;
mod run;
mod world;

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use anyhow::{bail, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use self::{mutant::Mutant, outcome::Outcome, play::simulate};

/// Options of the simulation.
#[derive(Debug, Args)]
pub(crate) struct SimulationArgs {
    /// Set the number of runs.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Start at this seed. With `--seeds 1`, repeat the run of this seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Run every seed twice and compare all events.
    #[arg(long)]
    twice: bool,
    /// Disable a safeguard. The simulation must then find a broken promise.
    #[arg(long, value_name = "WHAT")]
    mutant: Option<Mutant>,
    /// Set the number of concurrent runs.
    #[arg(long, default_value_t = NonZeroUsize::new(2).unwrap_or(NonZeroUsize::MIN))]
    jobs: NonZeroUsize,
}

/// The maximum number of failed seeds to print.
const SHOWN: usize = 20;

/// Runs the seeds with a progress bar, and prints the results.
pub(crate) fn run(args: &SimulationArgs) -> anyhow::Result<()> {
    let bar = ProgressBar::new(args.seeds);
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos} of {len} runs, {eta} to go  {msg}")?);
    let (next, end) = (AtomicU64::new(args.from), args.from.saturating_add(args.seeds));
    let work = || {
        let mut sum = Outcome::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return sum;
            }
            let outcome = simulate(seed, args.mutant);
            if args.twice {
                let again = simulate(seed, args.mutant);
                if again != outcome {
                    sum.violations.push((seed, "two runs of the same seed differ".to_owned()));
                }
            }
            sum.add(outcome);
            bar.inc(1);
        }
    };
    let sums = thread::scope(|scope| {
        let workers: Vec<_> = (0..args.jobs.get()).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>()
    });
    bar.finish_and_clear();
    let mut whole = Outcome::default();
    for sum in sums {
        match sum {
            Ok(sum) => whole.add(sum),
            Err(_) => {
                bail!("a run panicked; repeat with --jobs 1 to find its seed")
            }
        }
    }
    whole.print(args.seeds);
    // The sort is stable, so the first violation of each run is kept.
    whole.violations.sort_by_key(|(seed, _)| *seed);
    whole.violations.dedup_by_key(|(seed, _)| *seed);
    for (seed, violation) in whole.violations.iter().take(SHOWN) {
        println!("seed {seed}: {violation}");
    }
    match (args.mutant, whole.violations.is_empty()) {
        (None, true) => Ok(()),
        (None, false) => {
            bail!("{} of {} runs broke a promise; repeat one with --from SEED --seeds 1", whole.broken(), args.seeds)
        }
        (Some(mutant), empty) => {
            ensure!(!empty, "{mutant:?} was not found");
            println!("{mutant:?} was found in {} of {} runs", whole.broken(), args.seeds);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    fn first_violation(mutant: Mutant) -> Option<String> {
        // About 1 of 50 runs finds the rarest mutants.
        let mut runs = (1..=500).map(|seed| simulate(seed, Some(mutant)));
        runs.find_map(|run| run.violations.first().map(|(_, what)| what.clone()))
    }

    #[test]
    fn ok_hundreds_of_seeds_keep_every_promise() {
        let mut sum = Outcome::default();
        (1..=200).for_each(|seed| sum.add(simulate(seed, None)));
        assert_eq!(sum.violations, []);
        sum.print(200);
    }

    #[test]
    fn ok_a_clock_far_ahead_of_all_others_waits_for_an_operator() {
        // One machine is ten minutes ahead, and the others are an hour behind.
        assert_eq!(simulate(3543, None).violations, []);
    }

    #[test]
    fn ok_a_seed_determines_a_run() {
        for seed in 1..=10 {
            assert_eq!(simulate(seed, None), simulate(seed, None), "seed {seed}");
        }
    }

    #[test]
    fn err_every_mutant_is_found() {
        for mutant in Mutant::value_variants() {
            assert!(first_violation(*mutant).is_some(), "{mutant:?} was not found");
        }
    }
}
