//! The arguments of `kent region`: what shows regions, and what edits them.

use std::num::NonZeroU64;

use clap::{Args, Subcommand, ValueEnum};

use super::InSpace;
use super::value::{Bits, NewRegion, parse_auto_expand, parse_chunk, parse_label, parse_name, parse_pace, parse_u128};

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
    /// Move bits from a region's expansion zone to its suffix: twice as many identifiers for each bit.
    ///
    /// The prefix and every identifier stay as they are.
    #[command(after_help = "Example:\n  kent region expand orders --by 2")]
    Expand(ResizeArgs),
    /// Move bits from a region's suffix back to its expansion zone.
    ///
    /// Refused if an identifier that needs them may have been issued.
    #[command(after_help = "Example:\n  kent region shrink orders --by 2")]
    Shrink(ResizeArgs),
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
    #[command(after_help = UNSEAL_HELP)]
    Unseal(NamedArgs),
    Rename(RenameArgs),
    Set(SetArgs),
    History(HistoryArgs),
    Id(IdArgs),
}

pub(super) const REGION_HELP: &str = "\
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
#[derive(Clone, Debug, Args)]
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
    /// Issue at most N identifiers a second, on average. Fixed for ever: a restore from a backup skips what may have been issued
    /// since at this pace, so a region that grows slowly loses less with a small one [default: 2^20 for a suffix of up to 40 bits,
    /// 2^30 from 50 bits on].
    #[arg(long, value_name = "N", value_parser = parse_pace)]
    pub(crate) pace: Option<NonZeroU64>,
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

const UNSEAL_HELP: &str = "\
Example:
  kent region unseal orders

After a restore, unseal a region when all lost edits of the table were repeated: kentd restore says which.";

const CREATE_HELP: &str = "\
Examples:
  kent region create orders --suffix 40
  kent region create invoices --suffix 32 --zone 16 --dry-run
  kent region create legacy --suffix 32 --prefix 0000 --next 4_500_000
  kent region create employees --suffix 20 --order external
  kent region create large --suffix 60 --plan
  kent region create large --suffix 60 --split-donor orders";

/// A region, and by how many bits its suffix changes.
#[derive(Debug, Args)]
pub(crate) struct ResizeArgs {
    /// The region.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// By how many bits.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) by: u32,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// Lengthen a region's prefix by zeros, and give the freed prefixes to new, independent regions.
///
/// The region keeps its suffix and its identifiers; its expansion zone becomes shorter by K bits. Freed prefixes that no
/// new region takes are free for `kent region create`.
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
    pub(crate) new_regions: Vec<NewRegion>,
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
    pub(crate) new_regions: Vec<NewRegion>,
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
    /// Suffixes below this count as issued from now on. After a restore: a number above every one in use.
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
