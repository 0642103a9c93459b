//! What may be written on the command line, and what each part of it means: the contract, as clap reads it.

use std::{ffi::OsString, path::PathBuf};

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use kent_ids::{Source, check_name};

use crate::connect::{DEFAULT_ENDPOINT, Endpoints};
use crate::number;

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
        value_name = "URL[,URL...]"
    )]
    pub(crate) endpoint: Endpoints,
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
    /// For strict regions: a name for the request, under which it is granted once. Asking again gives the same identifiers.
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
    /// UUIDs, xids and other identifiers, as text.
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Read them as this format, such as uuidv7-draft01-us, uuidv8-draft01-60 or uid11-snowish: formats that share a
    /// version, and the profiles of uid11, cannot be told apart by their bits.
    #[arg(long = "as", value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// The octets of the UUIDs are in GUID order.
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
  kent alloc uuidv7 -n 2 | xargs kent inspect";

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

#[derive(Debug, Args)]
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

/// Show and edit the regions of a space.
///
/// An n-bit identifier of a region is its prefix (p bits), an expansion zone of z zeros, and a suffix of s bits that
/// counts: p + z + s = n. Every edit keeps every identifier that was ever issued.
#[derive(Debug, Subcommand)]
pub(crate) enum RegionCommand {
    /// List all regions, in the order of their prefixes.
    #[command(after_help = "Examples:\n  kent region ls\n  kent region ls --space parts --json")]
    Ls(InSpace),
    /// Draw the regions as a tree.
    #[command(after_help = "Examples:\n  kent region tree --space parts\n  kent region tree --filter orders --depth 2")]
    Tree(TreeArgs),
    /// Show everything about one region.
    #[command(after_help = "Example:\n  kent region show orders")]
    Show(ShowArgs),
    Create(CreateArgs),
    Expand(ExpandArgs),
    Shrink(ShrinkArgs),
    Split(SplitArgs),
    Subdivide(SubdivideArgs),
    /// Make the suffixes of an untouched region a space of their own, SPACE/REGION, with a table of its own.
    #[command(
        after_help = "Example:\n  kent region delegate emea\n  kent region create orders --suffix 20 --space default/emea"
    )]
    Delegate(NamedArgs),
    /// Stop granting from a region. What was issued stays valid.
    #[command(after_help = "Example:\n  kent region seal orders --reason 'audit'")]
    Seal(NamedArgs),
    /// Resume granting from a sealed region.
    #[command(after_help = "Example:\n  kent region unseal orders")]
    Unseal(NamedArgs),
    Rename(RenameArgs),
    Set(SetArgs),
    History(HistoryArgs),
    Id(IdArgs),
}

/// Move bits from a region's suffix back to its expansion zone.
///
/// Refused if an identifier that needs them may have been issued.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kent region shrink orders --by 2")]
pub(crate) struct ShrinkArgs {
    /// The region.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// How many bits the suffix loses.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) by: u32,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// A region, and what every edit takes.
#[derive(Debug, Args)]
pub(crate) struct NamedArgs {
    /// The region.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// Give a region another name. Its number, its identifiers and its history stay.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kent region rename orders purchases")]
pub(crate) struct RenameArgs {
    /// The region.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Its new name.
    #[arg(value_parser = parse_name)]
    pub(crate) new_name: String,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// Change what is kept with a region: owner, description, labels, policies, and what counts as issued.
///
/// What is not named stays. Naming any policy replaces all of them.
#[derive(Debug, Args)]
#[command(after_help = SET_HELP)]
pub(crate) struct SetArgs {
    /// The region.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Whose it is.
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// What it is for.
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// A label to set, or with nothing after the equals sign to remove.
    #[arg(long = "label", value_name = "NAME=[VALUE]", value_parser = parse_label)]
    pub(crate) labels: Vec<(String, Option<String>)>,
    /// Suffixes below this count as issued from now on.
    #[arg(long, value_name = "N", value_parser = parse_u128)]
    pub(crate) next: Option<u128>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// What a region does by itself.
#[derive(Debug, Args)]
#[group(id = "policies", multiple = true)]
pub(crate) struct PolicyArgs {
    /// No policy: it never expands by itself, has no cap, and chunks are the daemon's.
    #[arg(long, conflicts_with_all = ["auto_expand", "cap", "chunk", "strict"])]
    pub(crate) no_policy: bool,
    /// Expand by K bits whenever so many percent are reserved, up to a suffix of MAX bits.
    #[arg(long, value_name = "PERCENT:K[:MAX]", value_parser = parse_auto_expand)]
    pub(crate) auto_expand: Option<(u32, u32, u32)>,
    /// Never issue more than so many.
    #[arg(long, value_name = "N", value_parser = parse_u128)]
    pub(crate) cap: Option<u128>,
    /// Reserve at least MIN and at most MAX suffixes at once.
    #[arg(long, value_name = "MIN:MAX", value_parser = parse_chunk, conflicts_with = "strict")]
    pub(crate) chunk: Option<(u64, u64)>,
    /// Number without gaps: every grant is durable before it is answered, and `kent alloc --request-id` is granted once.
    #[arg(long)]
    pub(crate) strict: bool,
}

const SET_HELP: &str = "\
Examples:
  kent region set orders --owner shop --label team=checkout
  kent region set orders --auto-expand 80:2:50
  kent region set invoices --strict
  kent region set employees --next 4_711        the largest number in use is 4710";

/// Show who changed what, when and why, the newest first: of a region, or without one of the whole space.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  kent region history\n  kent region history orders -n 5")]
pub(crate) struct HistoryArgs {
    /// The region.
    #[arg(value_parser = parse_name)]
    pub(crate) name: Option<String>,
    /// At most so many edits.
    #[arg(short = 'n', long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

/// Compose identifiers of a region from your own numbers, checked against its prefix, zone and suffix.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kent region id employees 4711 4712\n  kent region id employees --back 0x9000000000001267"
)]
pub(crate) struct IdArgs {
    /// The region.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Suffixes; with --back, identifiers.
    #[arg(required = true, value_name = "SUFFIX", value_parser = parse_u128)]
    pub(crate) numbers: Vec<u128>,
    /// From identifiers to suffixes.
    #[arg(long)]
    pub(crate) back: bool,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

/// Take the whole table out, for review and backup, or bring one in.
#[derive(Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Write the table as JSON lines: the space, then every region, outer before inner.
    #[command(after_help = "Examples:\n  kent table export > table.jsonl\n  kent table export --at 7")]
    Export(ExportArgs),
    /// Make what a file has and the table lacks, after showing it and asking. What differs is told and left as it is.
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

fn parse_label(text: &str) -> Result<(String, Option<String>), String> {
    match text.split_once('=') {
        Some(("", _)) | None => Err("a label is written NAME=VALUE, or NAME= to remove it".to_owned()),
        Some((name, value)) => Ok((name.to_owned(), (!value.is_empty()).then(|| value.to_owned()))),
    }
}

fn parse_auto_expand(text: &str) -> Result<(u32, u32, u32), String> {
    let wrong = |_| "this is written PERCENT:K or PERCENT:K:MAX, such as 80:2:50".to_owned();
    let parts: Vec<u32> = text.split(':').map(str::parse).collect::<Result<_, _>>().map_err(wrong)?;
    match parts[..] {
        [percent, by] => Ok((percent, by, 0)),
        [percent, by, max] => Ok((percent, by, max)),
        _ => Err("this is written PERCENT:K or PERCENT:K:MAX, such as 80:2:50".to_owned()),
    }
}

fn parse_chunk(text: &str) -> Result<(u64, u64), String> {
    let (min, max) = text.split_once(':').ok_or("this is written MIN:MAX, such as 1:64")?;
    let number = |text: &str| u64::try_from(number::parse(text)?).map_err(|_| "this is too large".to_owned());
    Ok((number(min)?, number(max)?))
}

/// The name of a space: for a delegated region's, a path such as default/emea.
fn parse_space(text: &str) -> Result<String, String> {
    text.split('/').try_for_each(|part| parse_name(part).map(drop))?;
    Ok(text.to_owned())
}

const REGION_HELP: &str = "\
Examples:
  kent region create orders --suffix 40
  kent region tree
  kent region expand orders --by 2 --dry-run
  kent region split orders --by 1 --new returns:38
  kent region subdivide orders --by 1 --new eu::0 --new us:38:1";

#[derive(Debug, Args)]
pub(crate) struct TreeArgs {
    /// Not deeper than so many levels.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) depth: Option<u32>,
    /// Only regions whose name contains this, and those around them.
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Every region; without this, of more than 40 siblings the first 40 are drawn.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The region.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

/// What every edit of a table takes.
#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    #[command(flatten)]
    pub(crate) space: InSpace,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Refuse if the table is not at this revision any more.
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) expect_revision: Option<u64>,
    /// A name for the edit, under which it is made once: repeating the command after a lost answer is safe.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub(crate) request_id: String,
    /// Why; kept in the history.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
}

/// Make a top-level region.
///
/// Without --prefix the table chooses the free prefix that wastes least, and leaves an expansion zone of Z bits (8, or
/// what there is).
#[derive(Debug, Args)]
#[command(after_help = CREATE_HELP)]
pub(crate) struct CreateArgs {
    /// 1 to 63 of a-z A-Z 0-9 - _ . and beginning with a letter or digit.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Bits that count: the region can issue 2^S identifiers.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(0..=128))]
    pub(crate) suffix: u32,
    /// Bits kept for growth.
    #[arg(long, value_name = "Z", conflicts_with = "prefix", value_parser = clap::value_parser!(u32).range(0..=128))]
    pub(crate) zone: Option<u32>,
    /// The prefix as zeros and ones; the expansion zone is what remains.
    #[arg(long, value_name = "BITS")]
    pub(crate) prefix: Option<Bits>,
    /// The first suffix to issue: all below count as issued, by whatever system numbered before.
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_u128)]
    pub(crate) next: u128,
    /// In which order the suffixes are issued: sequential, scrambled (neighbours in time are not neighbours in value), or
    /// external (the values come from you: nothing is granted, `kent region id` composes). Fixed for ever.
    #[arg(long, value_name = "ORDER", default_value = "sequential")]
    pub(crate) order: OrderArg,
    /// Where no prefix is free, split the region that loses least.
    #[arg(long, conflicts_with = "split_donor")]
    pub(crate) auto_split: bool,
    /// Where no prefix is free, split this region.
    #[arg(long, value_name = "REGION", value_parser = parse_name)]
    pub(crate) split_donor: Option<String>,
    /// Show where the region would go, and if no prefix is free, which regions could be split and what that costs them.
    #[arg(long)]
    pub(crate) plan: bool,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// In which order a region's suffixes are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderArg {
    Sequential,
    Scrambled,
    External,
}

const CREATE_HELP: &str = "\
Examples:
  kent region create orders --suffix 40
  kent region create invoices --suffix 32 --zone 16 --dry-run
  kent region create legacy --suffix 32 --prefix 0000 --next 4_500_000
  kent region create employees --suffix 20 --order external
  kent region create large --suffix 60 --plan
  kent region create large --suffix 60 --split-donor orders";

/// Move bits from a region's expansion zone to its suffix: twice as many identifiers for each bit.
///
/// The prefix and every identifier stay as they are.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kent region expand orders --by 2")]
pub(crate) struct ExpandArgs {
    /// The region.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// How many bits the suffix gains.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) by: u32,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// Lengthen a region's prefix by zeros, and give the freed prefixes to new, independent regions.
///
/// The region keeps its suffix and its identifiers; its expansion zone becomes shorter by K bits. Freed prefixes that no
/// newcomer takes are free for `kent region create`.
#[derive(Debug, Args)]
#[command(after_help = SPLIT_HELP)]
pub(crate) struct SplitArgs {
    /// The region; at the top level, without subregions.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// By how many zeros the prefix grows.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) by: u32,
    /// A region to make: its suffix bits, and the K bits after the old prefix (otherwise the lowest free ones).
    #[arg(long = "new", value_name = "NAME:SUFFIX[:BITS]")]
    pub(crate) newcomers: Vec<Newcomer>,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

const SPLIT_HELP: &str = "\
Examples:
  kent region split orders --by 1
  kent region split orders --by 2 --new returns:38 --new refunds:36:11";

/// Give a region subregions, K bits below it.
///
/// The region stays usable as long as no subregion has the all-zero bits. With all 2^K subregions the region is closed:
/// the all-zero one takes over its identifiers. Its SUFFIX may be left empty, `NAME::000`: then it inherits the region's.
#[derive(Debug, Args)]
#[command(after_help = SUBDIVIDE_HELP)]
pub(crate) struct SubdivideArgs {
    /// The region that gets subregions.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// By how many bits their prefixes are longer.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) by: u32,
    /// A subregion to make: its suffix bits, and the K bits after the prefix (otherwise the lowest free ones).
    #[arg(long = "new", value_name = "NAME:SUFFIX[:BITS]", required = true)]
    pub(crate) newcomers: Vec<Newcomer>,
    /// Take the all-zero bits although other subregions are still missing; what is missing stays reserved.
    #[arg(long = "abstract")]
    pub(crate) is_abstract: bool,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

const SUBDIVIDE_HELP: &str = "\
Examples:
  kent region subdivide orders --by 2 --new eu:36:01 --new us:36:10
  kent region subdivide orders --by 1 --new old::0 --new new:38:1
  kent region subdivide parts --by 3 --new mechanical:20:000 --abstract";

fn parse_count(text: &str) -> Result<NonZeroU64, String> {
    let count = u64::try_from(number::parse(text)?).map_err(|_| format!("N is at most {}", u64::MAX))?;
    NonZeroU64::new(count).ok_or_else(|| "N is at least 1".to_owned())
}

/// The name of a region or a space, by the rule that the daemon keeps, too.
fn parse_name(text: &str) -> Result<String, String> {
    match check_name(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(fault) => Err(fault.to_string()),
    }
}

fn parse_u128(text: &str) -> Result<u128, String> {
    number::parse(text)
}

/// Up to 128 zeros and ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(String);

impl FromStr for Bits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(stranger) = text.chars().find(|symbol| !matches!(symbol, '0' | '1')) {
            return Err(format!("bits are zeros and ones; {stranger:?} is neither"));
        }
        if text.len() > 128 {
            return Err(format!("there are at most 128 bits, not {}", text.len()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A region that a split or a subdivision makes: `NAME:SUFFIX[:BITS]`, or `NAME::00...0` for the subregion that inherits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Newcomer {
    pub(crate) name: String,
    pub(crate) suffix_bits: Option<u32>,
    pub(crate) extension: Option<Bits>,
}

impl FromStr for Newcomer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let (name, suffix, bits) = match parts[..] {
            [name, suffix] => (name, suffix, None),
            [name, suffix, bits] => (name, suffix, Some(bits)),
            _ => return Err("a newcomer is written NAME:SUFFIX or NAME:SUFFIX:BITS, such as returns:38:01".to_owned()),
        };
        let name = parse_name(name)?;
        let extension = bits.map(parse_extension).transpose()?;
        let suffix_bits = parse_suffix(suffix, extension.as_ref())?;
        Ok(Self { name, suffix_bits, extension })
    }
}

fn parse_extension(bits: &str) -> Result<Bits, String> {
    if bits.is_empty() {
        return Err("BITS is empty; leave out the colon before it to take the lowest free ones".to_owned());
    }
    bits.parse()
}

fn parse_suffix(suffix: &str, extension: Option<&Bits>) -> Result<Option<u32>, String> {
    if suffix.is_empty() {
        return match extension {
            Some(bits) if bits.0.bytes().all(|bit| bit == b'0') => Ok(None),
            _ => {
                Err("SUFFIX may be left empty only for the all-zero subregion, NAME::00...0, which inherits".to_owned())
            }
        };
    }
    match suffix.parse::<u32>() {
        Ok(bits) if bits <= 128 => Ok(Some(bits)),
        _ => Err(format!("SUFFIX is a number of bits from 0 to 128, not {suffix:?}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn newcomer(name: &str, suffix_bits: Option<u32>, extension: Option<&str>) -> Newcomer {
        Newcomer { name: name.to_owned(), suffix_bits, extension: extension.map(|bits| Bits(bits.to_owned())) }
    }

    #[test]
    fn ok_the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn ok_newcomers() {
        for (text, expected) in [
            ("returns:38", newcomer("returns", Some(38), None)),
            ("returns:38:01", newcomer("returns", Some(38), Some("01"))),
            ("old::000", newcomer("old", None, Some("000"))),
            ("r.1-a_B:0:1", newcomer("r.1-a_B", Some(0), Some("1"))),
        ] {
            assert_eq!(text.parse::<Newcomer>(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn err_newcomers() {
        for (text, hint) in [
            ("", "NAME:SUFFIX"),
            ("returns", "NAME:SUFFIX"),
            (":38", "a name has"),
            ("a b:38", "' ' is not one of"),
            ("returns:", "all-zero"),
            ("returns::01", "all-zero"),
            ("returns:38:", "BITS is empty"),
            ("returns:38:012", "'2'"),
            ("returns:129", "from 0 to 128"),
            ("returns:-1", "from 0 to 128"),
            ("returns:38:0:1", "NAME:SUFFIX"),
        ] {
            let error = text.parse::<Newcomer>().expect_err(text);
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn ok_counts() {
        for (text, expected) in [("1", 1), ("1_000_000", 1_000_000), ("18446744073709551615", u64::MAX)] {
            assert_eq!(parse_count(text).map(NonZeroU64::get), Ok(expected), "{text}");
        }
    }

    #[test]
    fn err_counts() {
        for text in ["0", "", "-1", "1e6", "18446744073709551616", "_"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
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
