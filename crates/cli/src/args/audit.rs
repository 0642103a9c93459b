//! The arguments of `kent audit`.

use clap::{Args, Subcommand};

use super::value::parse_lines;

/// Read the audit log of a daemon on this machine.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    Tail(AuditTailArgs),
}

pub(super) const AUDIT_HELP: &str = "\
kentd --audit FILE writes the log: every edit, backup, series and clock acceptance, every change of tokens and roles, and every
denied call.

Examples:
  kent audit tail /var/log/kent/audit.jsonl
  kent audit tail /var/log/kent/audit.jsonl -f --action region";

/// Print the last events of an audit log.
///
/// Older parts of the log (FILE.1, FILE.2 and so on) are read as well. The first of several equal refusals is written at
/// once, and the others as one line per minute, with their count.
#[derive(Debug, Args)]
#[command(after_help = TAIL_HELP)]
pub(crate) struct AuditTailArgs {
    /// The file, or - for standard input.
    #[arg(env = "KENT_AUDIT")]
    pub(crate) file: String,
    /// Print events as they are written, until Ctrl-C, even after the file is rotated.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Print at most the last N events.
    #[arg(short = 'n', long = "lines", value_name = "N", default_value = "20", value_parser = parse_lines, allow_negative_numbers = true)]
    pub(crate) lines: usize,
    /// Print only events with this action, such as region.create, or with any action of this kind: region, table,
    /// space, series, token, role, budget, request, session, backup, store, clock, daemon, log, audit, connect or call.
    #[arg(long, value_name = "ACTION")]
    pub(crate) action: Option<String>,
    /// Print only events with this outcome.
    #[arg(long, value_name = "OUTCOME", value_parser = OUTCOMES)]
    pub(crate) outcome: Option<String>,
}

/// The outcomes of events.
const OUTCOMES: [&str; 8] = ["done", "unchanged", "again", "begun", "refused", "denied", "failed", "unknown"];

const TAIL_HELP: &str = "\
Examples:
  kent audit tail /var/log/kent/audit.jsonl
  kent audit tail /var/log/kent/audit.jsonl -f --outcome denied
  kent audit tail audit.jsonl --action region.delete --json
  journalctl -u kentd -o cat | kent audit tail -            with kentd --audit stderr";
