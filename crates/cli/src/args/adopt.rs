//! The arguments of `kent adopt`.

use clap::Args;

/// Continue above the identifiers of another generator: no source issues an identifier at or below its floor.
///
/// FILE has one JSON object per line, such as {"source": "region:orders", "floor": 4711}. The floor is the greatest
/// identifier in use. For a series, it is a number, SYMBOL:NUMBER or a UUID. For a time-based source or a layout, it is
/// an identifier or a time such as "2026-11-26T20:00:00Z"; that time must have passed, and the old generator must have
/// stopped or use other machine numbers. A floor never lowers a source, so the command can be repeated.
///
/// Shows the counters before and after, and asks for confirmation. The counter of a region counts from the beginning of
/// the region. `new` marks a series that has issued nothing. If one floor is refused, nothing is changed. Up to 60 floors
/// are raised in one commit; the floor of a region counts as four. A longer file takes several commits.
///
/// docs/migrating.md has queries that write the file from PostgreSQL, MySQL, Redis and others.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kent adopt floors.jsonl --dry-run
  kent adopt floors.jsonl --yes --reason 'move from PostgreSQL'
  echo '{\"source\": \"region:orders\", \"floor\": 4711}' | kent adopt - --yes")]
pub(crate) struct AdoptArgs {
    /// A file of floors, or - for standard input, which requires --yes or --dry-run.
    pub(crate) file: String,
    /// Do not ask for confirmation.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show what would be skipped, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The reason, which the history of each table records.
    #[arg(long, value_name = "TEXT", default_value = "floors of another generator")]
    pub(crate) reason: String,
}
