//! The arguments of `kent debug` and `kent log-level`.

use clap::{Args, Subcommand};

/// The actions of `kent debug`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum DebugCommand {
    /// Print the daemon's latest notable events, oldest first: slow commits, conflicts, long waits, edits, steps of the
    /// clock, changes of slots, refused connections. The daemon keeps the last 4_096 in memory. Needs the permission
    /// operate.
    #[command(after_help = DEBUG_HELP)]
    Dump,
}

/// Show what the daemon logs, or change it until the daemon stops.
///
/// Without FILTER, shows the current filter. The signal SIGUSR1 turns the level debug on, and off again. Needs the
/// permission operate.
#[derive(Debug, Args)]
#[command(after_help = LOG_LEVEL_HELP)]
pub(crate) struct LogLevelArgs {
    /// What to log: off, error, warn, info, debug or trace, alone or for modules, such as
    /// info,kent_engine::tables=debug.
    #[arg(value_name = "FILTER", conflicts_with = "reset")]
    pub(crate) filter: Option<String>,
    /// Return to the filter of the daemon's settings (kentd --log).
    #[arg(long)]
    pub(crate) reset: bool,
}

pub(super) const DEBUG_HELP: &str = "\
Examples:
  kent debug dump
  kent debug dump --json | jq 'select(.event == \"slow-commit\")'";

const LOG_LEVEL_HELP: &str = "\
Examples:
  kent log-level                               show the filter
  kent log-level info,kent_engine::tables=debug
  kent log-level --reset";
