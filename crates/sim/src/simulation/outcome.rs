//! What runs came to: how much was done, what went wrong on purpose, and which promises broke.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

/// What runs came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) steps: u64,
    pub(crate) identifiers: u64,
    pub(crate) edits: u64,
    pub(crate) faults: [u64; FAULTS.len()],
    /// A sum of all that happened, in its order.
    pub(crate) digest: u64,
    /// Broken promises, with the seeds that broke them.
    pub(crate) violations: Vec<(u64, String)>,
}

/// Faults that were injected, by kind.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) lost: Count,
    pub(crate) jumps: Count,
    pub(crate) crashes: Count,
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
}

/// A number that only grows.
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

const FAULTS: [&str; 17] = [
    "messages lost",
    "clock jumps",
    "crashes",
    "clean restarts",
    "partitions",
    "clients gone in the middle of a call",
    "compactions: old changes forgotten by the store",
    "backlogs: watches that stopped for up to a minute",
    "backups",
    "stores lost and restored from a backup",
    "stores moved",
    "stores lost and restored from their archive",
    "archives that could not be written for a while",
    "old copies put back, and noticed by the witness",
    "lost splits that were repeated",
    "lost shrinks that were repeated",
    "lost delegations that were repeated",
];

impl Faults {
    /// In the order of their names.
    pub(crate) fn counts(&self) -> [u64; FAULTS.len()] {
        let Self { lost, jumps, crashes, stops, cuts, gone, compactions, backlogs, .. } = self;
        let Self { backups, restores, moves, archive_restores, outages, copies, .. } = self;
        let misfortune = [lost, jumps, crashes, stops, cuts, gone, compactions, backlogs];
        let losses = [backups, restores, moves, archive_restores, outages, copies];
        let repeated = [&self.splits, &self.shrinks, &self.delegations];
        let mut counts = [0; FAULTS.len()];
        misfortune.into_iter().chain(losses).chain(repeated).zip(&mut counts).for_each(|(count, to)| *to = count.get());
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

    /// How many runs broke a promise.
    pub(crate) fn broken(&self) -> usize {
        let seeds: BTreeSet<u64> = self.violations.iter().map(|(seed, _)| *seed).collect();
        seeds.len()
    }

    pub(crate) fn print(&self, seeds: u64) {
        println!("{seeds} runs, {} steps", self.steps);
        println!("  {:>12} identifiers checked, no two the same", self.identifiers);
        println!("  {:>12} table edits acknowledged, each of them once in the history", self.edits);
        for (what, count) in FAULTS.iter().zip(self.faults) {
            println!("  {count:>12} {what}");
        }
        println!("  {:>12} broken promises", self.violations.len());
    }
}
