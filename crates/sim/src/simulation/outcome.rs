//! The results of runs: counts of steps, identifiers, edits and faults, and broken promises.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

/// The result of one or more runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) steps: u64,
    pub(crate) identifiers: u64,
    pub(crate) edits: u64,
    pub(crate) faults: [u64; FAULTS.len()],
    /// A checksum of all events in order.
    pub(crate) digest: u64,
    /// Broken promises with their seeds.
    pub(crate) violations: Vec<(u64, String)>,
}

/// Injected faults by kind.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) lost: Count,
    pub(crate) jumps: Count,
    pub(crate) crashes: Count,
    pub(crate) power_failures: Count,
    pub(crate) stops: Count,
    pub(crate) cuts: Count,
    pub(crate) gone: Count,
    pub(crate) compactions: Count,
    pub(crate) backlogs: Count,
    pub(crate) backups: Count,
    pub(crate) restores: Count,
    pub(crate) moves: Count,
    pub(crate) archive_restores: Count,
    pub(crate) outages: Count,
    pub(crate) splits: Count,
    pub(crate) shrinks: Count,
    pub(crate) delegations: Count,
    pub(crate) copies: Count,
    pub(crate) deletions: Count,
    pub(crate) undelegations: Count,
    pub(crate) undone: Count,
    pub(crate) imports: Count,
    pub(crate) reimports: Count,
    pub(crate) misfits: Count,
}

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

const FAULTS: [&str; 24] = [
    "messages lost",
    "clock jumps",
    "crashes",
    "power failures of all machines",
    "clean restarts",
    "partitions",
    "clients that canceled a call",
    "compactions: old changes deleted from the store",
    "backlogs: watches that paused for up to a minute",
    "backups",
    "stores lost and restored from a backup",
    "stores moved",
    "stores lost and restored from their archive",
    "archives that were temporarily not writable",
    "old copies put back and detected by the witness",
    "lost splits repeated",
    "lost shrinks repeated",
    "lost delegations repeated",
    "regions deleted",
    "delegations ended",
    "edits undone",
    "tables exported and imported into another space",
    "lost imports repeated",
    "imports refused, as they must be",
];

impl Faults {
    /// Returns the counts in the order of [`FAULTS`].
    pub(crate) fn counts(&self) -> [u64; FAULTS.len()] {
        let Self { lost, jumps, crashes, power_failures, stops, cuts, gone, compactions, backlogs, .. } = self;
        let Self { backups, restores, moves, archive_restores, outages, copies, .. } = self;
        let disturbances = [lost, jumps, crashes, power_failures, stops, cuts, gone, compactions, backlogs];
        let losses = [backups, restores, moves, archive_restores, outages, copies];
        let repeated = [&self.splits, &self.shrinks, &self.delegations];
        let edits = [&self.deletions, &self.undelegations, &self.undone, &self.imports, &self.reimports, &self.misfits];
        let mut counts = [0; FAULTS.len()];
        disturbances
            .into_iter()
            .chain(losses)
            .chain(repeated)
            .chain(edits)
            .zip(&mut counts)
            .for_each(|(count, to)| *to = count.get());
        counts
    }
}

impl Outcome {
    pub(crate) fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.identifiers += other.identifiers;
        self.edits += other.edits;
        self.faults.iter_mut().zip(other.faults).for_each(|(sum, more)| *sum += more);
        self.violations.extend(other.violations);
    }

    /// Returns the number of runs that broke a promise.
    pub(crate) fn broken(&self) -> usize {
        let seeds: BTreeSet<u64> = self.violations.iter().map(|(seed, _)| *seed).collect();
        seeds.len()
    }

    pub(crate) fn print(&self, seeds: u64) {
        println!("{seeds} runs, {} steps", self.steps);
        println!("  {:>12} identifiers checked for duplicates", self.identifiers);
        println!("  {:>12} acknowledged table edits checked against the history", self.edits);
        for (what, count) in FAULTS.iter().zip(self.faults) {
            println!("  {count:>12} {what}");
        }
        println!("  {:>12} broken promises", self.violations.len());
    }
}
