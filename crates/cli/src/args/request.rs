//! The arguments of `kent request`.

use clap::{Args, Subcommand};

use super::{
    InSpace,
    access::FormArg,
    region::EditArgs,
    value::{Bits, parse_bits, parse_number, parse_region},
};

/// Show and answer requests for regions, which callers make with `kent region ask`.
///
/// You see your own requests, and those for regions that you may create.
#[derive(Debug, Subcommand)]
pub(crate) enum RequestCommand {
    /// List requests, newest first.
    #[command(
        visible_alias = "list",
        after_help = "Examples:\n  kent request ls\n  kent request ls --all -o wide\n  kent request ls --json"
    )]
    Ls {
        /// List closed requests, too.
        #[arg(long)]
        all: bool,
        /// The output format; json is the same as --json.
        #[arg(short, long, value_name = "FORM", default_value = "table")]
        output: FormArg,
        #[command(flatten)]
        space: InSpace,
    },
    /// Show everything about one request.
    #[command(visible_alias = "get", after_help = "Example:\n  kent request show 7")]
    Show {
        /// The request, as `kent request ls` shows it.
        #[arg(value_parser = parse_id)]
        id: u64,
        #[command(flatten)]
        space: InSpace,
    },
    Approve(ApproveArgs),
    /// Decline a request. The requester sees the reason.
    #[command(after_help = "Example:\n  kent request decline 7 --reason 'use the region orders'")]
    Decline {
        /// The request, as `kent request ls` shows it.
        #[arg(value_parser = parse_id)]
        id: u64,
        /// Why you decline.
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        space: InSpace,
    },
    /// Withdraw one of your requests.
    #[command(after_help = "Example:\n  kent request withdraw 7")]
    Withdraw {
        /// The request, as `kent request ls` shows it.
        #[arg(value_parser = parse_id)]
        id: u64,
        /// Why you withdraw it.
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        reason: String,
        #[command(flatten)]
        space: InSpace,
    },
}

pub(super) const REQUEST_HELP: &str = "\
Examples:
  kent region ask returns --suffix 32 --reason 'returned parcels of the shop'
  kent request ls
  kent request approve 7 --dry-run
  kent request approve 7
  kent request decline 7 --reason 'use the region orders'
  kent request withdraw 7";

/// Create the region that a request asks for. On a terminal, shows the request and the planned region first, and asks
/// for confirmation.
///
/// The region gets the owner and the labels of the request. One commit creates the region and closes the request, so a
/// crash cannot leave one without the other. Options override what the request asks for. Without --reason, the history
/// records the reason of the request.
#[derive(Debug, Args)]
#[command(after_help = APPROVE_HELP)]
pub(crate) struct ApproveArgs {
    /// The request, as `kent request ls` shows it.
    #[arg(value_parser = parse_id)]
    pub(crate) id: u64,
    /// Give the region this name instead.
    #[arg(long, value_name = "REGION", value_parser = parse_region)]
    pub(crate) name: Option<String>,
    /// Make the suffix this wide instead, in bits.
    #[arg(long, value_name = "S", value_parser = parse_bits, allow_negative_numbers = true)]
    pub(crate) suffix: Option<u32>,
    /// Make the expansion zone this wide instead, in bits.
    #[arg(long, value_name = "Z", conflicts_with = "prefix", value_parser = parse_bits, allow_negative_numbers = true)]
    pub(crate) zone: Option<u32>,
    /// Use this prefix: zeros and ones, or a form such as 0xb4/6 [default: the daemon chooses]. The prefix determines
    /// the expansion zone.
    #[arg(long, value_name = "BITS")]
    pub(crate) prefix: Option<Bits>,
    /// If no prefix is free, split the region that loses the least capacity.
    #[arg(long, conflicts_with = "split_donor")]
    pub(crate) auto_split: bool,
    /// If no prefix is free, split this region.
    #[arg(long, value_name = "REGION", value_parser = parse_region)]
    pub(crate) split_donor: Option<String>,
    #[command(flatten)]
    pub(crate) edit: EditArgs,
}

const APPROVE_HELP: &str = "\
Examples:
  kent request approve 7 --dry-run
  kent request approve 7 --suffix 28 --reason 'smaller, as discussed' --yes";

fn parse_id(text: &str) -> Result<u64, String> {
    parse_number(text)
        .ok_or_else(|| "expected the number of a request, such as 7 (`kent request ls` lists them)".to_owned())
}
