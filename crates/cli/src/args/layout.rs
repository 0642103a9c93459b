//! The arguments of `kent layout`.

use clap::{ArgGroup, Args, Subcommand};
use kent_ids::{
    UnixNanos,
    layout::{FieldKind, Layout, LayoutError, LayoutField, Preset, Spelling, SpellingError},
};

use super::value::{parse_layout_name, parse_positive, parse_revision_or_0, parse_width};

/// Create, list, show, watch or delete custom layouts: identifiers whose fields you choose.
///
/// A layout is a source: kent alloc layout:NAME. Its identifiers have up to 128 bits, in fields such as a time, the slot
/// of the daemon and a counter. Presets have the fields of well-known generators, such as Snowflake or ULID.
#[derive(Debug, Subcommand)]
pub(crate) enum LayoutCommand {
    /// List all layouts.
    #[command(visible_alias = "list", after_help = "Example:\n  kent layout ls")]
    Ls,
    /// Show a layout: its fields, what it can issue and until when, and an example.
    #[command(after_help = "Example:\n  kent layout show orders")]
    Show {
        /// The name of the layout.
        #[arg(value_parser = parse_layout_name)]
        name: String,
    },
    /// Create a layout. A layout never changes.
    #[command(after_help = CREATE_HELP)]
    Create(Box<LayoutCreateArgs>),
    /// Delete a layout from which nothing was ever issued.
    #[command(visible_alias = "rm", after_help = "Example:\n  kent layout delete orders")]
    Delete {
        /// The name of the layout.
        #[arg(value_parser = parse_layout_name)]
        name: String,
    },
    /// Show the edits of a layout, or of all layouts: time, author and fields, newest first.
    ///
    /// The daemon keeps the last 1000 edits. The operation `use` means that identifiers were issued for the first time.
    #[command(after_help = "Examples:\n  kent layout history\n  kent layout history orders -n 5")]
    History(LayoutHistoryArgs),
    /// Print every edit of a layout as it happens, until Ctrl-C.
    #[command(after_help = "Examples:\n  kent layout watch\n  kent layout watch --after 12 --json")]
    Watch {
        /// Resume after this revision. By default, print the current layouts first.
        #[arg(
            long,
            value_name = "REVISION",
            default_value = "0",
            hide_default_value = true,
            value_parser = parse_revision_or_0,
            allow_negative_numbers = true
        )]
        after: u64,
    },
    /// List the presets: the layouts of well-known projects. Needs no daemon.
    #[command(after_help = "Example:\n  kent layout presets")]
    Presets,
}

pub(super) const LAYOUT_HELP: &str = "\
Examples:
  kent layout create orders --fields 'zero:1 time:41:1ms@2015-01-01 slot:10 counter:12'
  kent layout create tweets --preset snowflake-twitter
  kent layout show orders
  kent alloc layout:orders -n 3";

const CREATE_HELP: &str = "\
FIELDS lists the fields, most significant first:
  zero:BITS             zeros
  const:BITS:VALUE      a fixed value
  time:BITS:TICK@EPOCH  ticks since the epoch, as in time:41:1ms@2015-01-01;
                        a tick lasts 1ns to 1d (ns, us, ms, s, min, h, d)
  slot:BITS[:BASE]      the slot of the daemon plus BASE, which avoids the
                        machine numbers of other generators
  counter:BITS          counts the identifiers of a tick
  random:BITS           random bits
  permuted:BITS         the counter after a keyed permutation: looks random
  shard:BITS, tag:BITS  a value that each request supplies
                        (kent alloc layout:NAME --tag N)
Most fields have at most 64 bits; all together have at most 128.

TEXT is decimal, hex, crockford, crockford-lower, base32hex, base36,
base58, base62, base64url, push64 or uuid. Add fixed or minimal for the
width, and prefix:PREFIX for a prefix, as in 'base58 minimal prefix:ord_'.

Examples:
  kent layout create orders --fields 'zero:1 time:41:1ms@2015-01-01 slot:10 counter:12' --bits 64
  kent layout create short --fields 'time:36:10ms@2025-01-01 slot:6 counter:8' --text base58 --prefix ord_
  kent layout create tweets --preset snowflake-twitter --dry-run";

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("form").required(true).args(["fields", "preset"])))]
pub(crate) struct LayoutCreateArgs {
    /// The name: 1 to 63 of a-z A-Z 0-9 - _ . beginning with a letter or digit.
    #[arg(value_parser = parse_layout_name)]
    pub(crate) name: String,
    /// The fields, most significant first, separated by spaces, as in 'time:41:1ms@2015-01-01 slot:10 counter:12'.
    #[arg(long, value_name = "FIELDS", value_parser = parse_fields)]
    pub(crate) fields: Option<Layout>,
    /// Use the fields and the text form of this preset (kent layout presets).
    #[arg(long, value_name = "PRESET", value_parser = parse_preset)]
    pub(crate) preset: Option<&'static Preset>,
    /// With --preset: count the time from this instant, such as 2025-01-01 or 2025-01-01T12:00:00Z.
    #[arg(long, value_name = "TIME", requires = "preset", conflicts_with = "fields", value_parser = parse_epoch)]
    pub(crate) epoch: Option<UnixNanos>,
    /// Fail unless the fields have exactly this many bits.
    #[arg(long, value_name = "N", value_parser = parse_width, allow_negative_numbers = true)]
    pub(crate) bits: Option<u32>,
    /// How identifiers are written, such as base58 [default: decimal, or that of the preset].
    #[arg(long, value_name = "TEXT", value_parser = parse_spelling)]
    pub(crate) text: Option<Spelling>,
    /// Begin the text of every identifier with this, such as ord_.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,
    /// What the identifiers are for.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) description: String,
    /// Check the layout and show what it could issue, but do not create it.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LayoutHistoryArgs {
    /// The name of the layout.
    #[arg(value_parser = parse_layout_name)]
    pub(crate) name: Option<String>,
    /// Show at most N edits.
    #[arg(short = 'n', long, value_name = "N", default_value = "50", value_parser = parse_positive, allow_negative_numbers = true)]
    pub(crate) limit: u32,
}

fn parse_fields(text: &str) -> Result<Layout, String> {
    text.parse().map_err(|error: LayoutError| error.to_string())
}

fn parse_preset(text: &str) -> Result<&'static Preset, String> {
    Preset::by_name(text).map_err(|error| error.to_string())
}

fn parse_spelling(text: &str) -> Result<Spelling, String> {
    text.parse().map_err(|error: SpellingError| error.to_string())
}

/// Parses an instant as a layout writes it.
fn parse_epoch(text: &str) -> Result<UnixNanos, String> {
    match format!("time:64:1ns@{text}").parse::<LayoutField>() {
        Ok(LayoutField { kind: FieldKind::Time { epoch, .. }, .. }) => Ok(epoch),
        Ok(_) | Err(_) => {
            Err("expected a date, or a date and a time in UTC, such as 2025-01-01 or 2025-01-01T12:00:00Z".to_owned())
        }
    }
}
