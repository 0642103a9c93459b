//! The arguments of `kent region`, which shows and edits regions.

use std::num::NonZeroU64;

use clap::{Args, Subcommand, ValueEnum};

use super::InSpace;
use super::ask::AskArgs;
use super::list::{LS_HELP, LsArgs};
use super::value::{
    Bits, NewRegion, parse_auto_expand, parse_bits, parse_chunk, parse_label, parse_offset, parse_pace, parse_positive,
    parse_region, parse_request_id, parse_revision, parse_step, parse_u128, parse_width,
};

/// Show and edit the regions of a space.
///
/// An n-bit identifier of a region consists of the region's prefix (p bits), an expansion zone of z zeros, and a suffix
/// of s bits, which is a number within the region: p + z + s = n. Every issued identifier stays valid through every
/// edit.
#[derive(Debug, Subcommand)]
pub(crate) enum RegionCommand {
    /// List all regions in the order of their prefixes.
    #[command(visible_alias = "list", after_help = LS_HELP)]
    Ls(LsArgs),
    /// Draw the regions as a tree. The regions of a delegated space are below the delegated region, as REGION@SPACE.
    #[command(after_help = "Examples:\n  kent region tree --space parts\n  kent region tree --filter orders --depth 2")]
    Tree(TreeArgs),
    /// Show everything about one region.
    #[command(visible_aliases = ["get", "describe"], after_help = "Example:\n  kent region show orders")]
    Show(ShowArgs),
    Create(CreateArgs),
    Ask(AskArgs),
    /// Move bits from a region's expansion zone to its suffix. Each bit doubles the capacity.
    ///
    /// The prefix and every identifier stay unchanged.
    #[command(after_help = "Example:\n  kent region expand orders --by 2")]
    Expand(ResizeArgs),
    /// Move bits from a region's suffix back to its expansion zone.
    ///
    /// The daemon refuses if an identifier that needs these bits may have been issued.
    #[command(after_help = "Example:\n  kent region shrink orders --by 2")]
    Shrink(ResizeArgs),
    Split(SplitArgs),
    Subdivide(SubdivideArgs),
    /// Turn the suffixes of an unused region into a separate space, SPACE/REGION, with its own table.
    #[command(
        after_help = "Example:\n  kent region delegate emea\n  kent region create orders --suffix 20 --space default/emea"
    )]
    Delegate(NamedArgs),
    /// Stop granting from a region and everything inside it. Issued identifiers stay valid.
    ///
    /// A seal covers all identifiers that begin with the region's prefix: its subregions, and the spaces of delegated
    /// regions in it, to any depth, including those created later. The answer says whether all replicas have stopped.
    #[command(after_help = "Example:\n  kent region seal orders --reason 'audit'")]
    Seal(NamedArgs),
    /// Lift the seal of a region. Seals of regions inside or around it stay in place.
    #[command(after_help = UNSEAL_HELP)]
    Unseal(NamedArgs),
    Rename(RenameArgs),
    Set(SetArgs),
    /// Delete a region without subregions, if none of its suffixes was ever issued or reserved.
    ///
    /// Its name and its prefix become free. Its number is never used again. `kent region seal` stops the grants of a
    /// region that cannot be deleted.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:\n  kent region delete ordrs\n  kent region delete orders --dry-run"
    )]
    Delete(DeleteArgs),
    /// Revert the last edit of a region, or of the whole space, by another edit.
    ///
    /// Regions that the edit created are deleted, and regions that it deleted are created again, with new region
    /// numbers. The daemon refuses an undo, and says why, if identifiers of the regions to delete may be in use. An
    /// undo can itself be undone.
    #[command(after_help = "Examples:\n  kent region undo --dry-run\n  kent region undo orders")]
    Undo(UndoArgs),
    History(HistoryArgs),
    Id(IdArgs),
}

pub(super) const REGION_HELP: &str = "\
Examples:
  kent region create orders --suffix 40
  kent region ask returns --suffix 32 --reason 'returned parcels'
  kent region tree
  kent region expand orders --by 2 --dry-run
  kent region split orders --by 1 --new returns:38
  kent region subdivide orders --by 1 --new eu::0 --new us:38:1";

#[derive(Debug, Args)]
pub(crate) struct TreeArgs {
    /// Draw at most N levels.
    #[arg(long, value_name = "N", value_parser = parse_positive, allow_negative_numbers = true)]
    pub(crate) depth: Option<u32>,
    /// Draw only regions whose name contains TEXT, and the regions that contain them.
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Draw every region. By default, only the first 40 siblings of each region are drawn.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The region.
    #[arg(value_parser = parse_region)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

/// The arguments common to all edits of a table.
#[derive(Clone, Debug, Args)]
pub(crate) struct EditArgs {
    #[command(flatten)]
    pub(crate) space: InSpace,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask before an edit that cannot be undone. A command whose standard input is not a terminal never asks.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Fail if the table is no longer at revision R.
    #[arg(long, value_name = "R", value_parser = parse_revision, allow_negative_numbers = true)]
    pub(crate) expect_revision: Option<u64>,
    /// Identify the edit: the daemon applies it once, so repeating the command after a lost answer is safe.
    #[arg(long, value_name = "ID", value_parser = parse_request_id)]
    pub(crate) request_id: Option<String>,
    /// The reason for the edit, recorded in the history.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
}

/// Create a top-level region.
///
/// Without --prefix, the daemon takes the free prefix that wastes the least space, and leaves an expansion zone of Z
/// bits (by default 8, or fewer if no prefix leaves 8).
#[derive(Debug, Args)]
#[command(after_help = CREATE_HELP)]
pub(crate) struct CreateArgs {
    /// The name: 1 to 63 of a-z A-Z 0-9 - _ . beginning with a letter or digit.
    #[arg(value_parser = parse_region)]
    pub(crate) name: String,
    /// The width of the suffix in bits: the region can issue 2^S identifiers.
    #[arg(long, value_name = "S", value_parser = parse_bits, allow_negative_numbers = true)]
    pub(crate) suffix: u32,
    /// The width of the expansion zone in bits, reserved for growth.
    #[arg(long, value_name = "Z", conflicts_with = "prefix", value_parser = parse_bits, allow_negative_numbers = true)]
    pub(crate) zone: Option<u32>,
    /// The prefix: zeros and ones, or a form such as 0xb4/6 or b400::/6. The expansion zone takes the bits between
    /// prefix and suffix.
    #[arg(long, value_name = "BITS")]
    pub(crate) prefix: Option<Bits>,
    /// The first suffix to issue. All suffixes below it count as issued, for example by an earlier system.
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_u128, allow_negative_numbers = true)]
    pub(crate) next: u128,
    /// The order in which suffixes are issued: sequential, scrambled (consecutive identifiers differ widely in value),
    /// or external (you choose the numbers: the daemon grants none, and `kent region id` composes identifiers from
    /// them). The order cannot be changed later.
    #[arg(long, value_name = "ORDER", default_value = "sequential")]
    pub(crate) order: OrderArg,
    /// Issue at most N identifiers per second on average. The pace cannot be changed later. A restore skips the
    /// identifiers that the region may have issued at this pace since the backup, so a small pace loses fewer [default:
    /// 2^20 for a suffix of up to 40 bits, 2^30 from 50 bits on].
    #[arg(long, value_name = "N", value_parser = parse_pace, allow_negative_numbers = true)]
    pub(crate) pace: Option<NonZeroU64>,
    /// If no prefix is free, split the region that loses the least capacity.
    #[arg(long, conflicts_with = "split_donor")]
    pub(crate) auto_split: bool,
    /// If no prefix is free, split this region.
    #[arg(long, value_name = "REGION", value_parser = parse_region)]
    pub(crate) split_donor: Option<String>,
    /// Show the prefix that the region would get, or, if no prefix is free, which regions could be split and at what
    /// cost. Changes nothing.
    #[arg(long)]
    pub(crate) plan: bool,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// The order in which a region's suffixes are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderArg {
    Sequential,
    Scrambled,
    External,
}

const UNSEAL_HELP: &str = "\
Example:
  kent region unseal orders

After a restore, repeat the lost edits of the table that kentd restore lists, then unseal the region.";

const CREATE_HELP: &str = "\
Examples:
  kent region create orders --suffix 40
  kent region create invoices --suffix 32 --zone 16 --dry-run
  kent region create legacy --suffix 32 --prefix 0000 --next 4_500_000
  kent region create employees --suffix 20 --order external
  kent region create large --suffix 60 --plan
  kent region create large --suffix 60 --split-donor orders";

/// The arguments of `expand` and `shrink`: a region, and the number of bits.
#[derive(Debug, Args)]
pub(crate) struct ResizeArgs {
    /// The region.
    #[arg(value_parser = parse_region)]
    pub(crate) name: String,
    /// The number of bits.
    #[arg(long, value_name = "K", value_parser = parse_width, allow_negative_numbers = true)]
    pub(crate) by: u32,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// Extend a region's prefix by zeros, and give the freed prefixes to new, independent regions.
///
/// The region keeps its suffix and its identifiers. Its expansion zone becomes K bits narrower. `kent region create`
/// can use the freed prefixes that no new region takes.
#[derive(Debug, Args)]
#[command(after_help = SPLIT_HELP)]
pub(crate) struct SplitArgs {
    /// The region; it must be a top-level region without subregions.
    #[arg(value_parser = parse_region)]
    pub(crate) name: String,
    /// The number of zeros to append to the prefix.
    #[arg(long, value_name = "K", value_parser = parse_width, allow_negative_numbers = true)]
    pub(crate) by: u32,
    /// Create a region with a suffix of SUFFIX bits. BITS are the K bits after the old prefix; by default the lowest
    /// free ones.
    #[arg(long = "new", value_name = "NAME:SUFFIX[:BITS]")]
    pub(crate) new_regions: Vec<NewRegion>,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

const SPLIT_HELP: &str = "\
Examples:
  kent region split orders --by 1
  kent region split orders --by 2 --new returns:38 --new refunds:36:11";

/// Create subregions of a region, with prefixes that are K bits longer.
///
/// The region keeps issuing until a subregion takes the all-zero bits. The region is closed once all 2^K subregions
/// exist: the all-zero subregion takes over the region's identifiers. The SUFFIX of that subregion may be empty, as in
/// `NAME::000`: the subregion then inherits the region's suffix.
#[derive(Debug, Args)]
#[command(after_help = SUBDIVIDE_HELP)]
pub(crate) struct SubdivideArgs {
    /// The region to subdivide.
    #[arg(value_parser = parse_region)]
    pub(crate) name: String,
    /// The number of bits by which the subregions' prefixes are longer.
    #[arg(long, value_name = "K", value_parser = parse_width, allow_negative_numbers = true)]
    pub(crate) by: u32,
    /// Create a subregion with a suffix of SUFFIX bits. BITS are the K bits after the region's prefix; by default the
    /// lowest free ones. All zeros are the default only with --abstract, or if the command creates the last missing
    /// subregions.
    #[arg(long = "new", value_name = "NAME:SUFFIX[:BITS]", required = true)]
    pub(crate) new_regions: Vec<NewRegion>,
    /// Assign the all-zero bits even if other subregions do not exist yet. The missing subregions stay reserved.
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

/// A region, and the arguments common to all edits.
#[derive(Debug, Args)]
pub(crate) struct NamedArgs {
    /// The region.
    #[arg(value_parser = parse_region)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// The arguments of `delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The region.
    #[arg(value_parser = parse_region)]
    pub(crate) name: String,
    /// Confirm that no number of an external region is in use: you chose the numbers, so the daemon does not know.
    #[arg(long)]
    pub(crate) unused: bool,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// The arguments of `undo`.
#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// Revert the last edit of this region, or its deletion. By default, revert the last edit of the space.
    #[arg(value_parser = parse_region)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// Rename a region. It keeps its number, its identifiers and its history.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kent region rename orders purchases")]
pub(crate) struct RenameArgs {
    /// The region.
    #[arg(value_parser = parse_region)]
    pub(crate) name: String,
    /// The new name.
    #[arg(value_parser = parse_region)]
    pub(crate) new_name: String,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// Change a region's owner, description, labels, policies, or the number of suffixes that count as issued.
///
/// Attributes without an option stay unchanged; `--no-...` options clear a policy.
#[derive(Debug, Args)]
#[command(after_help = SET_HELP)]
pub(crate) struct SetArgs {
    /// The region.
    #[arg(value_parser = parse_region)]
    pub(crate) name: String,
    /// The owner of the region, such as a team.
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// The purpose of the region.
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Set a label, or remove it if VALUE is empty. Can be repeated. VALUE is everything after the first `=`, including
    /// commas.
    #[arg(long = "label", value_name = "NAME=[VALUE]", value_parser = parse_label)]
    pub(crate) labels: Vec<(String, Option<String>)>,
    /// Count all suffixes below N as issued. After a restore, choose N above every suffix in use.
    #[arg(long, value_name = "N", value_parser = parse_u128, allow_negative_numbers = true)]
    pub(crate) next: Option<u128>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

/// The policies of a region.
#[derive(Debug, Default, Args)]
#[group(id = "policies", multiple = true)]
pub(crate) struct PolicyArgs {
    /// Remove all policies: no automatic expansion, no cap, no step, and chunk sizes chosen by the daemon.
    #[arg(long, conflicts_with_all = ["auto_expand", "cap", "chunk", "strict", "step", "no_auto_expand", "no_cap", "no_chunk", "no_strict", "no_step"])]
    pub(crate) no_policy: bool,
    /// Expand by K bits whenever PERCENT percent of the capacity is reserved, up to a suffix of MAX bits.
    #[arg(long, value_name = "PERCENT:K[:MAX]", value_parser = parse_auto_expand, allow_hyphen_values = true)]
    pub(crate) auto_expand: Option<(u32, u32, u32)>,
    /// Never expand automatically.
    #[arg(long, conflicts_with = "auto_expand")]
    pub(crate) no_auto_expand: bool,
    /// Issue at most N identifiers in total, including those from chunks that daemons already hold.
    #[arg(long, value_name = "N", value_parser = parse_u128, allow_negative_numbers = true)]
    pub(crate) cap: Option<u128>,
    /// Remove the cap: issue all identifiers that fit the suffix.
    #[arg(long, conflicts_with = "cap")]
    pub(crate) no_cap: bool,
    /// Reserve chunks of MIN to MAX suffixes.
    #[arg(long, value_name = "MIN:MAX", value_parser = parse_chunk, allow_hyphen_values = true, conflicts_with = "strict")]
    pub(crate) chunk: Option<(u64, u64)>,
    /// Let the daemon choose the size of chunks.
    #[arg(long, conflicts_with = "chunk")]
    pub(crate) no_chunk: bool,
    /// Issue numbers without gaps: every grant is durable before the answer, and a request with `kent alloc
    /// --request-id` is granted once.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Turn off --strict: reserve chunks again, which can leave gaps.
    #[arg(long, conflicts_with = "strict")]
    pub(crate) no_strict: bool,
    /// Issue only every N-th number, so that another generator can issue the others: with --step 2, the even numbers.
    #[arg(long, value_name = "N", value_parser = parse_step, allow_negative_numbers = true)]
    pub(crate) step: Option<u32>,
    /// The remainder of the numbers to issue when they are divided by the step: with --step 2 --offset 1, the odd numbers.
    #[arg(long, value_name = "N", requires = "step", default_value_t = 0, value_parser = parse_offset, allow_negative_numbers = true)]
    pub(crate) offset: u32,
    /// Issue every number again. Requires --next, because the other generator may have issued some.
    #[arg(long, conflicts_with = "step")]
    pub(crate) no_step: bool,
}

const SET_HELP: &str = "\
Examples:
  kent region set orders --owner shop --label team=checkout
  kent region set orders --auto-expand 80:2:50
  kent region set invoices --strict
  kent region set orders --step 2 --offset 1    odd numbers; another generator issues the even ones
  kent region set employees --next 4_711        the largest number in use is 4_710";

/// Show the edits of a region, or of the whole space: time, author, changes and reason, newest first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  kent region history\n  kent region history orders -n 5")]
pub(crate) struct HistoryArgs {
    /// The region.
    #[arg(value_parser = parse_region)]
    pub(crate) name: Option<String>,
    /// Show at most N edits.
    #[arg(short = 'n', long, value_name = "N", default_value = "50", value_parser = parse_positive, allow_negative_numbers = true)]
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
    #[arg(value_parser = parse_region)]
    pub(crate) name: String,
    /// The suffixes; with --back, the identifiers.
    #[arg(required = true, value_name = "SUFFIX", value_parser = parse_u128, allow_negative_numbers = true)]
    pub(crate) numbers: Vec<u128>,
    /// Convert identifiers back to suffixes.
    #[arg(long)]
    pub(crate) back: bool,
    #[command(flatten)]
    pub(crate) space: InSpace,
}
