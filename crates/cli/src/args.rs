//! What may be written on the command line, and what each part of it means: the contract, as clap reads it.

mod region;
mod value;

use std::{ffi::OsString, num::NonZeroU64, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use kent_client::Client;
use kent_ids::{Series, Source};

use self::{
    region::REGION_HELP,
    value::{parse_count, parse_name, parse_space},
};
pub(crate) use self::{
    region::{
        CreateArgs, EditArgs, HistoryArgs, IdArgs, NamedArgs, OrderArg, PolicyArgs, RegionCommand, RenameArgs,
        ResizeArgs, SetArgs, ShowArgs, SplitArgs, SubdivideArgs, TreeArgs,
    },
    value::NewRegion,
};
use crate::connect::{self, DEFAULT_ENDPOINT};

/// Identifiers that are unique for ever, and the regions that they come from.
///
/// `kent alloc` asks a running kentd for identifiers; `kent space`, `kent region` and `kent classify` keep its prefix
/// tables; `kent inspect` and `kent codec` need no daemon.
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
  kent alloc uuidv7 -n 3                       three UUIDs of version 7
  kent inspect 019aa2be-bb3b-7000-8050-c00000000009
  kent region create orders --suffix 40        a region of 2^40 identifiers
  kent alloc region:orders
  kent classify 1099511627777                  whose identifier is this?

Exit codes: 0 done; 1 the service refused, or does not answer; 2 bad usage.";

#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Write one JSON object a line, errors (on standard error) included.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The daemon: [http://]HOST:PORT; several, separated by commas, are tried in turn.
    #[arg(
        long,
        global = true,
        env = "KENT_ENDPOINT",
        default_value = DEFAULT_ENDPOINT,
        value_name = "URL[,URL...]",
        value_parser = connect::client
    )]
    pub(crate) endpoint: Client,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Alloc(AllocArgs),
    #[command(flatten)]
    Ask(Question),
    Inspect(InspectArgs),
    /// Make a new store from a backup or an old copy of a data directory: `kentd restore` does it, on this machine.
    #[command(disable_help_flag = true)]
    Restore {
        /// What `kentd restore --help` teaches.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Move a store from a directory to etcd: `kentd migrate` does it, on this machine.
    #[command(disable_help_flag = true)]
    Migrate {
        /// What `kentd migrate --help` teaches.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Encode and decode for other programs: JSON lines in, JSON lines out, in order, without a daemon.
    #[command(after_help = CODEC_HELP)]
    Codec,
    /// Print a script that teaches the shell to complete kent's arguments.
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// For which shell.
        shell: Shell,
    },
}

/// What a daemon is asked, to print its answer.
#[derive(Debug, Subcommand)]
pub(crate) enum Question {
    Classify(ClassifyArgs),
    #[command(subcommand, after_help = SPACE_HELP)]
    Space(SpaceCommand),
    #[command(subcommand, after_help = REGION_HELP)]
    Region(Box<RegionCommand>),
    #[command(subcommand, after_help = SERIES_HELP)]
    Series(SeriesCommand),
    #[command(subcommand)]
    Table(TableCommand),
    Watch(WatchArgs),
    /// Write all that the daemon has stored to a file, as it is at one moment.
    #[command(after_help = BACKUP_HELP)]
    Backup {
        /// The file; it is replaced as a whole when the backup is complete.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Show what the daemon makes of its clock, or vouch for it.
    #[command(after_help = CLOCK_HELP)]
    Clock {
        /// What to do about it.
        #[command(subcommand)]
        command: Option<ClockCommand>,
    },
    /// Show how the daemon fares: readiness, store, clock, slot, chunks, limits.
    #[command(after_help = STATUS_HELP)]
    Status,
}

/// What is done about a daemon's clock.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum ClockCommand {
    /// Say that the clock is right although it is further ahead than the daemon believes.
    Accept,
}

const BACKUP_HELP: &str = "\
Examples:
  kent backup kent.backup
  kent restore kent.backup --data /var/lib/kent-new --dry-run";

const CLOCK_HELP: &str = "\
A clock that jumps ahead of the time since boot by more than an hour, or that is more than 31 days later at
a start than everything recorded, is not believed: identifiers would carry a wrong time for ever. The daemon
goes on from the time since boot if it can, and refuses time-based identifiers otherwise.

Examples:
  kent clock
  kent clock accept          the clock is right: go on from it";

const STATUS_HELP: &str = "\
Examples:
  kent status
  kent status --json
  kent status --endpoint 10.0.0.7:7600,10.0.0.8:7600";

const CODEC_HELP: &str = r#"Each line {"verb": V, "in": {...}} is answered with {"ok": true, "out": {...}} or with
{"ok": false, "error": CODE, "message": TEXT}. A bad line is answered, too; it does not end the run.

Examples:
  echo '{"verb":"uuid.inspect","in":{"uuid":"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"}}' | kent codec
  kent codec < questions.jsonl > answers.jsonl"#;

const COMPLETIONS_HELP: &str = "\
Examples:
  source <(kent completions bash)
  kent completions zsh > ~/.zfunc/_kent
  kent completions fish > ~/.config/fish/completions/kent.fish";

/// Print new identifiers, one a line.
///
/// SOURCE is a format that holds the time (uuidv1, uuidv6, uuidv7, uuidv7-draft01-ms|-us|-ns, uuidv8-draft01-32|-48|-60|-64,
/// xid, uid11-snowish, uid11-ts-seq-rand), a counted series (uid11-fullrand, serial:SYMBOL), or a region (region:NAME, or
/// region:NAME@SPACE). UUIDs are printed as such, uid11s as 11 symbols, the identifiers of regions in decimal. When more is asked for than the clock allows at once, kent
/// waits. What was fetched and not printed, because kent was interrupted, is lost: a gap, never a duplicate.
#[derive(Debug, Args)]
#[command(after_help = ALLOC_HELP)]
pub(crate) struct AllocArgs {
    /// uuidv7, xid, serial:SYMBOL, region:NAME or region:NAME@SPACE, or one of the others.
    pub(crate) source: Source,
    /// For strict regions: a name for the request, under which it is granted once. Asking again gives the same identifiers. Best a
    /// UUID of version 7 (kent alloc uuidv7): the daemon keeps it for --request-retention, others for ever, up to a number.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub(crate) request_id: String,
    /// How many; 1_000_000 is understood.
    #[arg(short = 'n', long, default_value = "1", value_name = "N", value_parser = parse_count)]
    pub(crate) count: NonZeroU64,
}

const ALLOC_HELP: &str = "\
Examples:
  kent alloc uuidv7
  kent alloc xid -n 1_000_000 > ids.txt
  kent alloc region:orders@default -n 5 --json";

/// Say what identifiers are: format, time, fields, and which bits are what. Needs no daemon.
#[derive(Debug, Args)]
#[command(after_help = INSPECT_HELP)]
pub(crate) struct InspectArgs {
    /// UUIDs, xids and other identifiers, as text, or - for the lines of standard input.
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Read them as this format, such as uuidv7-draft01-us, uuidv8-draft01-60 or uid11-snowish: formats that share a
    /// version, and the profiles of uid11, cannot be told apart by their bits.
    #[arg(long = "as", value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// The bytes of the UUIDs are in GUID order.
    #[arg(long)]
    pub(crate) guid: bool,
    /// They are beginnings of uid11s: show the range of values and, as xids, of times.
    #[arg(long, conflicts_with_all = ["format", "guid"])]
    pub(crate) prefix: bool,
    /// With --as uuidv7-draft01: the layout.
    #[arg(long, value_name = "ms|us|ns")]
    pub(crate) layout: Option<String>,
    /// With --as uuidv7-draft01: to which unit the fraction of the second is wanted.
    #[arg(long, value_name = "s|ms|us|ns")]
    pub(crate) precision: Option<String>,
    /// With --as uuidv8-draft01: how wide the timestamp is.
    #[arg(long, value_name = "32|48|60|64")]
    pub(crate) width: Option<u32>,
    /// Ask a daemon, too, to which regions of this space they belong.
    #[arg(long, value_name = "SPACE", value_parser = parse_space)]
    pub(crate) space: Option<String>,
}

const INSPECT_HELP: &str = "\
Examples:
  kent inspect 017f22e2-79b0-7cc3-98c4-dc0c0c07398f
  kent inspect --as uuidv7-draft01-us 06086028-01f9-7ad0-8005-000000000001
  kent inspect --guid e2227f01b079c37c98c4dc0c0c07398f
  kent inspect --prefix 113q8K                 the times of the xids that begin so
  kent inspect 5Jxqwr73FDS --json
  kent inspect 1099511627777 --space default   to which region it belongs, too: a daemon is asked
  kent alloc uuidv7 -n 2 | kent inspect -";

/// Say to which regions identifiers belong, outermost first.
///
/// An ID is decimal (42, 1_000_000), hexadecimal (0x2a), or the 11 symbols of a uid11 if at least one of them is no
/// digit: 11 digits are read as a decimal number. `-` reads IDs from standard input, one a line.
#[derive(Debug, Args)]
#[command(after_help = CLASSIFY_HELP)]
pub(crate) struct ClassifyArgs {
    /// Decimal, 0x and hexadecimal, 11 symbols of uid11, or - for standard input.
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

const CLASSIFY_HELP: &str = "\
Statuses:
  member       it is one of the region's identifiers; issued says whether it was handed out
  reserved     a bit of the region's expansion zone is set
  unassigned   under an extension of a closed region that no subregion has
  free         in no region

Examples:
  kent classify 1099511627777 0x8f
  kent alloc region:orders -n 5 | kent classify - --json";

#[derive(Clone, Debug, Args)]
pub(crate) struct InSpace {
    /// The space whose table is meant.
    #[arg(long, default_value = "default", value_name = "SPACE", value_parser = parse_space)]
    pub(crate) space: String,
}

/// List spaces, or make one: a table of regions over n-bit identifiers.
#[derive(Debug, Subcommand)]
pub(crate) enum SpaceCommand {
    /// List all spaces.
    #[command(after_help = "Example:\n  kent space ls")]
    Ls,
    /// Make a space.
    #[command(after_help = "Example:\n  kent space create parts --bits 32")]
    Create(SpaceCreateArgs),
}

const SPACE_HELP: &str = "\
Examples:
  kent space ls
  kent space create parts --bits 32";

#[derive(Debug, Args)]
pub(crate) struct SpaceCreateArgs {
    /// 1 to 63 of a-z A-Z 0-9 - _ . and beginning with a letter or digit.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// The width n of the space's identifiers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) bits: u32,
    /// How its identifiers are written for people.
    #[arg(long, value_name = "FORM", default_value = "decimal")]
    pub(crate) text: TextArg,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// How identifiers are written for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextArg {
    Decimal,
    Hex,
    Uid11,
}

/// List series, make some, or forget them: numbers of a symbol, without a region.
#[derive(Debug, Subcommand)]
pub(crate) enum SeriesCommand {
    /// List all series: what is reserved of each, and whether a caller has begun it by asking.
    #[command(visible_alias = "list", after_help = "Examples:\n  kent series ls\n  kent series ls --json")]
    Ls,
    /// Make series, or take over what callers have begun: then they do not count toward kentd --series-on-demand.
    #[command(after_help = "Example:\n  kent series create serial:INVOICE serial:ORDER")]
    Create(SeriesArgs),
    /// Forget series: they are not listed, and make room for others. Asked for again, they go on where they were.
    #[command(after_help = "Example:\n  kent series forget serial:TYPO")]
    Forget(SeriesArgs),
}

const SERIES_HELP: &str = "\
Callers begin a series by asking for it (kent alloc serial:SYMBOL), up to kentd --series-on-demand of them.

Examples:
  kent series ls
  kent series create serial:INVOICE
  kent series forget serial:TYPO";

#[derive(Debug, Args)]
pub(crate) struct SeriesArgs {
    /// serial:SYMBOL, or serialA:SYMBOL with the letter of a scheme.
    #[arg(required = true, value_name = "SERIES")]
    pub(crate) series: Vec<Series>,
}

/// Take the whole table out, for review and backup, or bring one in.
#[derive(Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Write the table as JSON lines: the space, then every region, outer before inner.
    #[command(after_help = "Examples:\n  kent table export > table.jsonl\n  kent table export --at 7")]
    Export(ExportArgs),
    /// Make what a file has and the table lacks, after showing it and asking. Where a region differs, that is told, and nothing is made.
    /// An import that broke off is finished by the same command.
    #[command(after_help = "Example:\n  kent table import table.jsonl --space staging")]
    Import(ImportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// As it was at this revision.
    #[arg(long, value_name = "REVISION", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) at: Option<u64>,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// What `kent table export` wrote; - for standard input (then with --yes).
    pub(crate) file: String,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The file is of an earlier revision, which does not know what was issued: nothing was. Counters begin at 0.
    #[arg(long)]
    pub(crate) unissued: bool,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

/// Watch the table of a space: every change as it is made, until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  kent watch\n  kent watch --after 12 --json")]
pub(crate) struct WatchArgs {
    /// Resume after this revision; otherwise the regions there are come first.
    #[arg(long, value_name = "REVISION", default_value = "0", hide_default_value = true)]
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

    /// Command lines that must be understood, or refused.
    #[test]
    fn ok_and_err_command_lines() {
        for (line, understood) in [
            ("alloc uuidv7", true),
            ("alloc uuidv7 -n 1_000_000 --json", true),
            ("--json alloc region:orders@default", true),
            ("alloc uuidv7 -n 0", false),
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
            ("region subdivide a --by 1", false),
            ("region subdivide a --by 1 --new b::0 --abstract", true),
            ("space create parts --bits 32", true),
            ("space create parts --bits 129", false),
            ("space create parts", false),
            ("series create serial:A serialB:b", true),
            ("series forget", false),
            ("series create region:a", false),
            ("classify 1 0x2 - --space parts", true),
            ("classify", false),
            ("status --endpoint 10.0.0.7:7600,10.0.0.8:7600", true),
            ("status --endpoint https://10.0.0.7", false),
            ("completions zsh", true),
            ("completions tcsh", false),
        ] {
            let result = Cli::try_parse_from(["kent"].into_iter().chain(line.split(' ')));
            assert_eq!(result.is_ok(), understood, "{line}: {:?}", result.err());
        }
    }
}
