//! What a run breaks on purpose, to see that it is found.

use clap::ValueEnum;

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mutant {
    /// The store does not compare the versions of slots.
    SlotVersion,
    /// The store does not compare the versions of counters.
    CounterVersion,
    /// The store does not compare the versions of regions and spaces.
    TableVersion,
    /// The store forgets its latest commits when a daemon crashes, as if they had not been flushed.
    NoFlush,
    /// The store makes only the first write of a transaction.
    TornCommit,
    /// Daemons that announce themselves are forgotten at once.
    LostPresence,
    /// A restore trusts the clock of its host, and allows for no other.
    ClockError,
    /// An operator says that no table was edited since the backup, though some were.
    TableUnchanged,
    /// A commit is answered before the archive has it.
    EarlyAnswer,
}
