//! The arguments of `kent table`.

use clap::{Args, Subcommand};

use super::{InSpace, value::parse_revision};

/// Export the whole table of a space to a file, or import one.
#[derive(Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Print the table as JSON lines: the space, then every region, outer regions before inner ones.
    ///
    /// The first line has the space, the width of its identifiers, the revision and the number of regions. The file
    /// contains no secret keys. Numbers that are issued after the export are not in it: to move a table, seal its
    /// regions first, and unseal the imported ones.
    #[command(after_help = "Examples:\n  kent table export > table.jsonl\n  kent table export --at 7")]
    Export(ExportArgs),
    /// Create the regions in a file that are missing from the table, after showing them and asking for confirmation.
    ///
    /// Every region is imported whole: prefix, zone, suffix, counter, former prefixes, order, pace, policy, seal,
    /// owner, description and labels. Up to 48 regions are created in one commit. A larger table takes several commits:
    /// if the import is interrupted, repeat the command to continue it.
    ///
    /// If a region of the table differs from the file, the import lists the differences and changes nothing. The space
    /// must be as wide as the one that was exported.
    #[command(
        after_help = "Examples:\n  kent table import table.jsonl --dry-run\n  kent table import table.jsonl --space staging"
    )]
    Import(ImportArgs),
}

pub(super) const TABLE_HELP: &str = "\
Examples:
  kent table export > table.jsonl
  kent table import table.jsonl --dry-run";

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Export the table as of this revision.
    #[arg(long, value_name = "REVISION", value_parser = parse_revision, allow_negative_numbers = true)]
    pub(crate) at: Option<u64>,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A file written by `kent table export`, or - for standard input, which requires --yes or --dry-run.
    pub(crate) file: String,
    /// Do not ask for confirmation.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Start all counters at 0, for a file that was exported with --at and therefore has no counters. Use this only if
    /// no region has issued anything.
    #[arg(long)]
    pub(crate) unissued: bool,
    #[command(flatten)]
    pub(crate) space: InSpace,
}
