//! The command line: every command, its arguments and its help text. clap derives the parser from these types.

mod access;
mod adopt;
mod ask;
mod audit;
mod budget;
mod check;
mod context;
mod debug;
mod layout;
mod list;
mod region;
mod request;
mod space;
mod table;
mod value;

use std::{ffi::OsString, num::NonZeroU64, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use kent_ids::{DEFAULT_SPACE, Series, Source};

pub(crate) use self::{
    access::{FormArg, RoleCommand, RoleSetArgs, TokenCommand, TokenCreateArgs, TokenRotateArgs},
    adopt::AdoptArgs,
    ask::AskArgs,
    audit::{AuditCommand, AuditTailArgs},
    budget::BudgetCommand,
    check::{CheckArgs, ColumnArg},
    context::{ContextCommand, ContextSetArgs},
    debug::{DebugCommand, LogLevelArgs},
    layout::{LayoutCommand, LayoutCreateArgs, LayoutHistoryArgs},
    list::{FreeArgs, LsArgs, OutputArg, SortKey},
    region::{
        CreateArgs, DeleteArgs, EditArgs, HistoryArgs, IdArgs, NamedArgs, OrderArg, PolicyArgs, RegionCommand,
        RenameArgs, ResizeArgs, SetArgs, ShowArgs, SplitArgs, SubdivideArgs, TreeArgs, UndoArgs,
    },
    request::{ApproveArgs, RequestCommand},
    space::{SpaceCommand, SpaceCreateArgs, SpaceDeleteArgs, TextArg},
    table::{ExportArgs, ImportArgs, TableCommand},
    value::{NewRegion, parse_space},
};
use self::{
    access::{ROLE_HELP, TOKEN_HELP},
    audit::AUDIT_HELP,
    budget::BUDGET_HELP,
    context::CONTEXT_HELP,
    debug::DEBUG_HELP,
    layout::LAYOUT_HELP,
    region::REGION_HELP,
    request::REQUEST_HELP,
    space::SPACE_HELP,
    table::TABLE_HELP,
    value::{
        parse_count, parse_duration, parse_request_id, parse_revision_or_0, parse_source, parse_tag,
        parse_timestamp_width,
    },
};
use crate::connect::{Credentials, DEFAULT_ENDPOINT, DEFAULT_TIMEOUT, Endpoints, parse_timeout};
use crate::failure::Failure;
use crate::prefix::PrefixFormat;

/// Allocate unique identifiers, and manage the regions they come from.
///
/// `kent alloc` requests identifiers from a running kentd. `kent space`, `kent region` and `kent classify` work on its
/// prefix tables. `kent inspect` and `kent codec` need no daemon.
#[derive(Debug, Parser)]
#[command(name = "kent", version, max_term_width = 110, after_help = GENERAL_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const GENERAL_HELP: &str = "\
Examples:
  kent alloc uuidv7 -n 3                       print three UUIDs of version 7
  kent inspect 019aa2be-bb3b-7000-8050-c00000000009
  kent region create orders --suffix 40        create a region of 2^40 identifiers
  kent alloc region:orders
  kent classify 1099511627777                  show the region of an identifier

Exit codes: 0 success; 1 the daemon refused the request or did not answer; 2 bad usage; 130 interrupted.";

// With a heading of its own, these options come after those of each command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Print one JSON object per line. Errors on standard error are JSON objects, too.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Connect to this daemon: HOST:PORT, https://HOST:PORT or unix:PATH. Several addresses, separated by commas, are
    /// tried in order.
    #[arg(long, global = true, env = "KENT_ENDPOINT", default_value = DEFAULT_ENDPOINT, value_name = "URL[,URL...]")]
    pub(crate) endpoint: Endpoints,
    #[command(flatten)]
    pub(crate) credentials: Credentials,
    /// Wait at most this long for each answer from a daemon, such as 500ms, 10s or 2m.
    #[arg(
        long,
        global = true,
        env = "KENT_REQUEST_TIMEOUT",
        default_value = DEFAULT_TIMEOUT,
        value_name = "TIME",
        value_parser = parse_timeout,
        allow_hyphen_values = true
    )]
    pub(crate) request_timeout: Duration,
    /// Take the endpoint, its certificates and token, the space and the timeout from this context unless they are
    /// given; see `kent context --help`.
    #[arg(long, global = true, env = "KENT_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Show prefixes in this format [default: bits, or hex if bits do not fit the terminal]. Commands accept prefixes
    /// in all formats.
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) prefix_format: Option<PrefixFormat>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Alloc(AllocArgs),
    #[command(flatten)]
    Daemon(DaemonCommand),
    Inspect(InspectArgs),
    Check(Box<CheckArgs>),
    #[command(subcommand, after_help = CONTEXT_HELP)]
    Context(ContextCommand),
    #[command(subcommand, after_help = AUDIT_HELP)]
    Audit(AuditCommand),
    /// Create a store from a backup or an old copy of a data directory. Runs `kentd restore` on this machine.
    #[command(disable_help_flag = true)]
    Restore {
        /// Arguments of `kentd restore`; see `kentd restore --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Move a store from a data directory to etcd. Runs `kentd migrate` on this machine.
    #[command(disable_help_flag = true)]
    Migrate {
        /// Arguments of `kentd migrate`; see `kentd migrate --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Encode and decode identifiers for other programs: one JSON answer per JSON line, in order. Needs no daemon.
    #[command(after_help = CODEC_HELP)]
    Codec,
    /// Print a completion script for a shell. It completes commands, options, and the names of regions, spaces,
    /// series and layouts.
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell that will run the script.
        shell: Shell,
    },
    /// Write the manual pages of kent to a directory.
    #[command(after_help = MAN_HELP)]
    Man {
        /// The directory, which is created if it is missing.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

/// Commands that send requests to a daemon and print the responses.
#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    Classify(ClassifyArgs),
    #[command(subcommand, after_help = SPACE_HELP)]
    Space(SpaceCommand),
    #[command(subcommand, after_help = REGION_HELP)]
    Region(Box<RegionCommand>),
    #[command(subcommand, after_help = REQUEST_HELP)]
    Request(Box<RequestCommand>),
    #[command(subcommand, after_help = SERIES_HELP)]
    Series(SeriesCommand),
    #[command(subcommand, after_help = LAYOUT_HELP)]
    Layout(LayoutCommand),
    #[command(subcommand, after_help = TABLE_HELP)]
    Table(TableCommand),
    Adopt(AdoptArgs),
    Watch(WatchArgs),
    /// Write a consistent snapshot of everything the daemon stores to a file.
    #[command(after_help = BACKUP_HELP)]
    Backup {
        /// The file to write, or `-` for standard output. An existing file is replaced once the backup is complete.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    #[command(subcommand, after_help = TOKEN_HELP)]
    Token(TokenCommand),
    #[command(subcommand, after_help = ROLE_HELP)]
    Role(RoleCommand),
    #[command(subcommand, after_help = BUDGET_HELP)]
    Budget(BudgetCommand),
    /// Show how the daemon identifies you, and what you may do.
    #[command(after_help = WHOAMI_HELP)]
    Whoami,
    /// Show the state of the daemon's clock, or confirm that the clock is right.
    #[command(after_help = CLOCK_HELP)]
    Clock {
        /// The action; by default, show the clock.
        #[command(subcommand)]
        command: Option<ClockCommand>,
    },
    /// Show daemon health: readiness, store, clock, slot, chunks, limits and replicas.
    #[command(after_help = STATUS_HELP)]
    Status,
    /// Check the daemon and what it depends on, and give advice for each problem.
    ///
    /// Checks the daemon's clock, disk, store, etcd, open files, replicas and fullest regions, and lists the most
    /// urgent problem first. Exits with 1 if something is wrong, and otherwise with 0, even if there are warnings.
    #[command(after_help = DOCTOR_HELP)]
    Doctor,
    /// Show what happened inside the daemon.
    #[command(subcommand, after_help = DEBUG_HELP)]
    Debug(DebugCommand),
    LogLevel(LogLevelArgs),
}

/// The actions of `kent clock`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum ClockCommand {
    /// Confirm that the clock is right although the daemon distrusts it for being too far ahead.
    #[command(after_help = "Example: kent clock accept")]
    Accept,
}

const BACKUP_HELP: &str = "\
Examples:
  kent backup kent.backup
  kent restore kent.backup --data /var/lib/kent-new --dry-run";

const CLOCK_HELP: &str = "\
The daemon distrusts a clock that jumps ahead of the time since boot by more than an hour, or that at start
is more than 31 days later than every recorded time: identifiers would carry a wrong time permanently. It then
derives the time from the time since boot where it can, and refuses time-based identifiers otherwise.

Examples:
  kent clock
  kent clock accept          use the clock: it is right";

const WHOAMI_HELP: &str = "\
Examples:
  kent whoami
  kent whoami --token-file orders.token";

const STATUS_HELP: &str = "\
Examples:
  kent status
  kent status --json
  kent status --endpoint 10.0.0.7:7600,10.0.0.8:7600";

const DOCTOR_HELP: &str = "\
Examples:
  kent doctor
  kent doctor --json | jq .problems
  kent doctor --endpoint 10.0.0.7:7600         this replica only";

const CODEC_HELP: &str = r#"The answer to each line {"verb": V, "in": {...}} is {"ok": true, "out": {...}} or
{"ok": false, "error": CODE, "message": TEXT}. A malformed line gets an answer as well, and does not end the run.
The exit code is 0 even if answers are errors: check "ok" of each answer.

Examples:
  echo '{"verb":"uuid.inspect","in":{"uuid":"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"}}' | kent codec
  kent codec < requests.jsonl > answers.jsonl"#;

const COMPLETIONS_HELP: &str = "\
Names come from the daemon of the command line (--endpoint, --context, --space), if it answers within 300 ms.

Examples:
  source <(kent completions bash)              in ~/.bashrc
  source <(kent completions zsh)               in ~/.zshrc, after compinit
  kent completions fish > ~/.config/fish/completions/kent.fish";

const MAN_HELP: &str = "\
Examples:
  kent man /usr/local/share/man/man1
  kent man . && man ./kent-region-split.1
  kentd man /usr/local/share/man/man1          the pages of kentd";

/// Print new identifiers, one per line.
///
/// SOURCE is a time-based format (uuidv1, uuidv6, uuidv7, uuidv7-draft01-ms|-us|-ns, uuidv8-draft01-32|-48|-60|-64,
/// xid, uid11-snowish, uid11-ts-seq-rand), a counted series (uid11-fullrand, serial:SYMBOL), a region (region:NAME of
/// the space that --space names, or region:NAME@SPACE), or a custom layout (layout:NAME). UUIDs are printed in
/// hyphenated form, uid11s as 11 characters, the identifiers of a region in the text form of its space (decimal by
/// default), and those of a layout in the text form of the layout. kent waits when the
/// clock does not allow the requested number yet. After a second it says on standard error what it is waiting for. If
/// it stops early, it says how many identifiers it has printed. Identifiers that were fetched but not printed leave a
/// gap, never a duplicate.
#[derive(Debug, Args)]
#[command(after_help = ALLOC_HELP)]
pub(crate) struct AllocArgs {
    /// uuidv7, xid, serial:SYMBOL, region:NAME, region:NAME@SPACE, layout:NAME, or another source (see --help).
    #[arg(value_parser = parse_source)]
    source: Source,
    #[command(flatten)]
    space: InSpace,
    /// Identify a request to a strict region: the daemon grants a request ID once, and answers a retry with the same
    /// identifiers. Use a version 7 UUID if possible (kent alloc uuidv7): the daemon keeps such a request ID for the
    /// time set by kentd --request-retention. It keeps other request IDs permanently, but only a limited number of
    /// them.
    #[arg(long, value_name = "ID", value_parser = parse_request_id)]
    pub(crate) request_id: Option<String>,
    /// Number of identifiers, such as 500, 1_000_000, 10k, 2M or 1G.
    #[arg(
        short = 'n',
        long,
        default_value = "1",
        value_name = "N",
        value_parser = parse_count,
        allow_negative_numbers = true
    )]
    pub(crate) count: NonZeroU64,
    /// Keep trying for this long, such as 500ms, 30s or 5m. Fails at once if no daemon answers at the start [default:
    /// three times --request-timeout without a grant, not counting waits for a limit of the caller].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
    /// The value of the field shard or tag, for a layout with such a field.
    #[arg(long, value_name = "N", value_parser = parse_tag, allow_negative_numbers = true)]
    pub(crate) tag: Option<u64>,
}

impl AllocArgs {
    /// Fails if the source and `--space` name two different spaces.
    pub(crate) fn check_space(&self, option: &str, is_given: bool) -> Result<(), Failure> {
        match &self.source {
            Source::Region { name, space } if is_given && !space.is_empty() && space != option => {
                Err(Failure::Usage(format!(
                    "region:{name}@{space} names the space {space}, and --space the space {option}: give one of the two, as in `kent alloc \
                     region:{name}@{space}`"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the source. A region without a space is in the space of --space.
    pub(crate) fn source(&self) -> Source {
        match &self.source {
            Source::Region { name, space } if space.is_empty() => {
                Source::Region { name: name.clone(), space: self.space.space.clone() }
            }
            source => source.clone(),
        }
    }
}

const ALLOC_HELP: &str = "\
Examples:
  kent alloc uuidv7
  kent alloc xid -n 1M > ids.txt
  kent alloc uuidv7 -n 10k --timeout 5s        stop after 5 seconds, even if fewer were printed
  kent alloc region:orders@default -n 5 --json";

/// Explain identifiers: format, time, fields and bit layout. Needs no daemon.
#[derive(Debug, Args)]
#[command(after_help = INSPECT_HELP)]
pub(crate) struct InspectArgs {
    /// UUIDs, xids and other identifiers as text, or - to read identifiers from standard input, one per line.
    #[arg(required = true, value_name = "ID", allow_negative_numbers = true)]
    pub(crate) ids: Vec<String>,
    /// Read the identifiers in this format, such as uuidv7-draft01-us, uuidv8-draft01-60, uid11-snowish, ulid or
    /// snowflake-discord, or in the layout of a daemon, as in layout:orders. The bits alone do not distinguish formats that share a version, the profiles of uid11, or the
    /// services that issue Snowflakes.
    #[arg(long = "as", value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Read the bytes of the UUIDs in GUID order.
    #[arg(long)]
    pub(crate) guid: bool,
    /// Read each ID as the first characters of a uid11. Show the range of values with this prefix and, if they are
    /// xids, of their times.
    #[arg(long, conflicts_with_all = ["format", "guid"])]
    pub(crate) prefix: bool,
    /// With --as uuidv7-draft01: the precision of the layout.
    #[arg(long, value_name = "ms|us|ns")]
    pub(crate) layout: Option<String>,
    /// With --as uuidv7-draft01: the unit in which to show the fraction of the second.
    #[arg(long, value_name = "s|ms|us|ns")]
    pub(crate) precision: Option<String>,
    /// With --as uuidv8-draft01: the width of the timestamp in bits.
    #[arg(long, value_name = "32|48|60|64", value_parser = parse_timestamp_width, allow_negative_numbers = true)]
    pub(crate) width: Option<u32>,
    /// Also ask a daemon which regions of this space the identifiers belong to.
    #[arg(long, value_name = "SPACE", value_parser = parse_space)]
    pub(crate) space: Option<String>,
}

const INSPECT_HELP: &str = "\
Examples:
  kent inspect 017f22e2-79b0-7cc3-98c4-dc0c0c07398f
  kent inspect --as uuidv7-draft01-us 06086028-01f9-7ad0-8005-000000000001
  kent inspect --guid e2227f01b079c37c98c4dc0c0c07398f
  kent inspect --prefix 113q8K                 show the times of the xids with this prefix
  kent inspect 5Jxqwr73FDS --json
  kent inspect 1099511627777 --space default   also show its region; needs a daemon
  kent inspect 50018347528192 --as layout:orders   needs a daemon
  kent alloc uuidv7 -n 2 | kent inspect -";

/// Show which regions identifiers belong to, outermost region first.
///
/// An ID is a decimal number (42, 1_000_000), a hexadecimal number (0x2a), a UUID in a space of 128 bits, or the 11
/// characters of a uid11, at least one of which is not a digit. 11 digits are read as a decimal number. `-` reads IDs
/// from standard input, one per line.
#[derive(Debug, Args)]
#[command(after_help = CLASSIFY_HELP)]
pub(crate) struct ClassifyArgs {
    /// A decimal number, a hexadecimal number after 0x, a UUID, the 11 characters of a uid11, or - for standard input.
    #[arg(required = true, value_name = "ID", allow_negative_numbers = true)]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

const CLASSIFY_HELP: &str = "\
Statuses:
  member       an identifier of the region; the column ISSUED says whether it was issued
  reserved     a bit of the region's expansion zone is set
  unassigned   inside a closed region, but in none of its subregions
  free         not inside any region

Examples:
  kent classify 1099511627777 0x8f
  kent classify 019aa2be-bb3b-7000-8050-c00000000009 --space events    a space of 128 bits
  kent alloc region:orders -n 5 | kent classify - --json";

#[derive(Clone, Debug, Args)]
pub(crate) struct InSpace {
    /// Use the regions of this space.
    #[arg(long, env = "KENT_SPACE", default_value = DEFAULT_SPACE, value_name = "SPACE", value_parser = parse_space)]
    pub(crate) space: String,
}

/// List, create or forget series. A series is a counter under a symbol, without a region.
#[derive(Debug, Subcommand)]
pub(crate) enum SeriesCommand {
    /// List all series, with the count of reserved numbers, and whether an operator or a caller's first request created
    /// the series.
    #[command(visible_alias = "list", after_help = "Examples:\n  kent series ls\n  kent series ls --json")]
    Ls,
    /// Create series, or take over series that callers' requests created: these no longer count toward
    /// kentd --series-on-demand.
    #[command(after_help = "Example:\n  kent series create serial:INVOICE serial:ORDER")]
    Create(SeriesArgs),
    /// Remove series from the list, so that they no longer count toward kentd --series-on-demand. A later request for
    /// the series continues where it stopped.
    #[command(visible_alias = "rm", after_help = "Example:\n  kent series forget serial:TYPO")]
    Forget(SeriesArgs),
}

const SERIES_HELP: &str = "\
A caller's first request for a series (kent alloc serial:SYMBOL) creates it, up to kentd --series-on-demand series.

Examples:
  kent series ls
  kent series create serial:INVOICE
  kent series forget serial:TYPO";

#[derive(Debug, Args)]
pub(crate) struct SeriesArgs {
    /// serial:SYMBOL, or serialA:SYMBOL with the letter of a numbering scheme.
    #[arg(required = true, value_name = "SERIES")]
    pub(crate) series: Vec<Series>,
}

/// Print every change of a space's table as it happens, until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  kent watch\n  kent watch --after 12 --json")]
pub(crate) struct WatchArgs {
    /// Resume after this revision. By default, print the current regions first.
    #[arg(
        long,
        value_name = "REVISION",
        default_value = "0",
        hide_default_value = true,
        value_parser = parse_revision_or_0,
        allow_negative_numbers = true
    )]
    pub(crate) after: u64,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn ok_the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Command lines, and whether clap must accept them.
    #[test]
    fn ok_and_err_command_lines() {
        for (line, accepted) in [
            ("alloc uuidv7", true),
            ("alloc uuidv7 -n 1_000_000 --json", true),
            ("--json alloc region:orders@default", true),
            ("alloc uuidv7 -n 0", false),
            ("alloc uuidv7 -n -1", false),
            ("alloc uuidv7 -n 10k --timeout 5s", true),
            ("alloc uuidv7 --timeout 5", false),
            ("alloc", false),
            ("alloc uuidv9", false),
            ("region create a --suffix 4 --next 340282366920938463463374607431768211455", true),
            ("region create a --suffix 4 --next 340282366920938463463374607431768211456", false),
            ("region create a --suffix 4 --zone 3", true),
            ("region create a --suffix 4 --zone 3 --prefix 01", false),
            ("region create a --suffix 129", false),
            ("region create a --suffix 4 --prefix 012", false),
            ("region create a", false),
            ("region create a/b --suffix 4", false),
            ("region ls --space a/b", true),
            ("region list", true),
            ("region get a", true),
            ("region describe a --space b", true),
            ("space list", true),
            ("series rm serial:A", true),
            ("context rm a", true),
            ("context use", false),
            ("context use a --none", false),
            ("context set a --unset nothing", false),
            ("status --request-timeout 5s --context a", true),
            ("status --request-timeout 5", false),
            ("region ls --space a//b", false),
            ("region set a", true),
            ("region set a --chunk 1:8 --strict", false),
            ("region set a --label =x", false),
            ("region create a --suffix 4 --order external --plan", true),
            ("region create a --suffix 4 --auto-split --split-donor b", false),
            ("region expand a --by 0", false),
            ("region expand a --by 1 --dry-run --expect-revision 7 --space parts", true),
            ("region expand a --by 1 --expect-revision 0", false),
            ("region split a --by 1", true),
            ("region split a --by 1 --new b:3 --new c:4:1", true),
            ("region delete a --unused --dry-run", true),
            ("region delete", false),
            ("region undo", true),
            ("region undo a --space parts", true),
            ("region set a --no-cap --no-strict --auto-expand 80:2", true),
            ("region set a --cap 5 --no-cap", false),
            ("region set a --strict --no-strict", false),
            ("region set a --chunk 1:8 --no-chunk", false),
            ("region set a --no-policy --no-cap", false),
            ("region subdivide a --by 1", false),
            ("region subdivide a --by 1 --new b::0 --abstract", true),
            ("space create parts --bits 32", true),
            ("space create parts --bits 129", false),
            ("space free", true),
            ("space free default/emea --at-least 20 --suffix 10 --zone 2 -n 5", true),
            ("space free --zone 2", false),
            ("space free --at-least -1", false),
            ("region ls --filter owner=a --filter fill>80 -l team=x,!y --sort -fill -o wide", true),
            ("region ls --filter fill~80", false),
            ("region ls --sort size", false),
            ("region ls -o yaml", false),
            ("region tree --prefix-format cidr", true),
            ("region create a --suffix 4 --prefix 0xb4/6", true),
            ("region create a --suffix 4 --prefix b400::/6", true),
            ("region create a --suffix 4 --prefix 0xb5/6", false),
            ("space create parts", false),
            ("space delete default/emea", true),
            ("space delete", false),
            ("series create serial:A serialB:b", true),
            ("series forget", false),
            ("series create region:a", false),
            ("classify 1 0x2 - --space parts", true),
            ("classify", false),
            ("check", true),
            ("check a.txt b.txt - --memory 32MiB --temp-dir /tmp", true),
            ("check --memory 1", false),
            ("check --memory many", false),
            ("check a.csv --csv id --delimiter ;", true),
            ("check a.csv --csv 2 --delimiter tab", true),
            ("check a.csv --csv 0", false),
            ("check a.csv --csv id --delimiter ;;", false),
            ("check a.csv --delimiter ;", false),
            ("check --quick --memory 32MiB", false),
            ("check --as uuidv7 --space parts", false),
            ("status --endpoint 10.0.0.7:7600,10.0.0.8:7600", true),
            ("status --endpoint https://10.0.0.7", false),
            ("doctor --json", true),
            ("doctor now", false),
            ("audit tail a.jsonl -f -n 5 --action region --outcome denied", true),
            ("audit tail a.jsonl --outcome maybe", false),
            ("audit", false),
            (
                "token create orders --allow lease:uuidv7 --allow lease:region:default/orders --expires 30d --out f",
                true,
            ),
            ("token create orders --role ops", true),
            ("token create orders", false),
            ("token create orders --allow lease:nonsense", false),
            ("token create orders --allow grant:uuidv7", false),
            ("token create orders --role ops --expires 0s", false),
            ("token ls -o wide", true),
            ("token revoke 3f9a1c0b77de 3f9a1c0b77df --yes", true),
            ("token revoke", false),
            ("token revoke orders", false),
            ("token rotate 3f9a1c0b77de --grace 0s --out f", true),
            ("role set ops --allow operate:* --certificate spiffe://example/*", true),
            ("role set Ops --allow operate:*", false),
            ("role set ops --certificate a --no-certificates", false),
            ("role rm ops --yes", true),
            ("token create orders --allow lease:uuidv7 --budget uuidv7=10k --budget serial:GBP=0", true),
            ("token create orders --allow lease:uuidv7 --budget uuidv7", false),
            ("budget show", true),
            ("budget ls shop --json", true),
            ("budget set shop region:default/orders 1M", true),
            ("budget set shop region:default/* 1M", false),
            ("budget set shop region:default/orders", false),
            ("budget add 3f9a1c0b77de uuidv7 +1M", true),
            ("budget add Shop uuidv7 1", false),
            ("budget rm token:3f9a1c0b77de uuidv7 --yes", true),
            ("whoami --token-file f", true),
            ("completions zsh", true),
            ("completions tcsh", false),
        ] {
            let result = Cli::try_parse_from(["kent"].into_iter().chain(line.split(' ')));
            assert_eq!(result.is_ok(), accepted, "{line}: {:?}", result.err());
        }
    }
}
