//! The arguments of `kent region ask`.

use clap::Args;

use super::{
    InSpace,
    value::{parse_bits, parse_label, parse_region},
};

/// Ask for a region that you may not create yourself.
///
/// An operator of the space sees the request, and creates the region or declines. `kent request ls` shows the outcome.
/// You need at least one permission for any region of the space.
#[derive(Debug, Args)]
#[command(after_help = ASK_HELP)]
pub(crate) struct AskArgs {
    /// The wanted name: 1 to 63 of a-z A-Z 0-9 - _ . beginning with a letter or digit.
    #[arg(value_parser = parse_region)]
    pub(crate) name: String,
    /// The wanted width of the suffix in bits: the region can issue 2^S identifiers.
    #[arg(long, value_name = "S", value_parser = parse_bits, allow_negative_numbers = true)]
    pub(crate) suffix: u32,
    /// The wanted width of the expansion zone in bits, reserved for growth [default: the operator decides].
    #[arg(long, value_name = "Z", value_parser = parse_bits, allow_negative_numbers = true)]
    pub(crate) zone: Option<u32>,
    /// Why you need the region, for the operator who decides.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// The owner of the region.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) owner: String,
    /// A label of the region. Repeat the option for more labels.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_label)]
    pub(crate) labels: Vec<(String, Option<String>)>,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

const ASK_HELP: &str = "\
Examples:
  kent region ask returns --suffix 32 --reason 'returned parcels of the shop'
  kent region ask bolts --suffix 32 --zone 8 --owner team-a --reason 'a catalog' --space parts
  kent request ls                              show the outcome";
