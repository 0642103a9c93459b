//! Mutants: safeguards that a run disables to check that the simulation detects the consequences.

use clap::ValueEnum;

/// A disabled safeguard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mutant {
    /// The store does not compare the versions of slots.
    SlotVersion,
    /// The store does not compare the versions of counters.
    CounterVersion,
    /// The store does not compare the versions of regions and spaces.
    TableVersion,
    /// The store loses its latest commits when a daemon crashes, as if they had not been flushed.
    NoFlush,
    /// The store applies only the first write of a transaction.
    TornCommit,
    /// Announcements of daemons expire immediately.
    LostPresence,
    /// A restore assumes that all clocks agree with the host's clock.
    ClockError,
    /// An operator passes `--table-unchanged` although tables have been edited since the backup.
    TableUnchanged,
    /// The store answers a commit before the archive has it.
    EarlyAnswer,
    /// An import carries no counters.
    ImportedCounters,
    /// An export contains the counters that a daemon last received instead of those in the store.
    StaleExport,
    /// An edit that only creates regions, such as an import, is not atomic: the store does not write the regions'
    /// counters.
    NewCounters,
}
