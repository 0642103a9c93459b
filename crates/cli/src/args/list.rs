//! The arguments of `kent region ls` and `kent space free`.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use kent_ids::DEFAULT_SPACE;

use super::InSpace;
use super::value::{parse_bits, parse_positive, parse_space};
use crate::failure::Failure;
use crate::filter::{Condition, Selector};

#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// List only regions that meet this condition, such as owner=billing, 'name=eu-*' or 'fill>80'. Repeat the option
    /// for more conditions, which must all hold.
    ///
    /// The fields name, owner, description, order, state and label.NAME take = or != and a pattern, in which * matches
    /// any text. The states are open, partial, closed, sealed and delegated. The field fill, the issued share of the
    /// capacity in percent, takes =, !=, <, <=, > or >=. Quote conditions with < or > for the shell.
    #[arg(long = "filter", value_name = "CONDITION")]
    pub(crate) filters: Vec<Condition>,
    /// List only regions with these labels: NAME=VALUE, NAME!=VALUE, NAME (any value) or !NAME (not set), separated by
    /// commas.
    #[arg(short = 'l', long = "selector", value_name = "LABELS")]
    pub(crate) selectors: Vec<Selector>,
    /// Sort by name, owner, prefix, suffix, fill, issued, rate, or full (the time until the region is full). A minus
    /// before the key, as in -fill, reverses the order [default: prefix].
    #[arg(long, value_name = "[-]KEY", allow_hyphen_values = true)]
    pub(crate) sort: Option<SortOrder>,
    /// The output format; json is the same as --json.
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub(crate) output: OutputArg,
    /// List the regions of all spaces: the table has a column SPACE, and names are NAME@SPACE, as `kent alloc` accepts
    /// them.
    #[arg(short = 'A', long)]
    pub(crate) all_spaces: bool,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

pub(super) const LS_HELP: &str = "\
Examples:
  kent region ls
  kent region ls --filter owner=billing --filter 'fill>80'
  kent region ls -l team=checkout --sort -fill -o wide
  kent region ls --filter 'name=eu-*' -o name --space parts
  kent region ls -A --sort -fill";

/// The output format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputArg {
    Table,
    /// With order, rate, forecast, owner, labels and description.
    Wide,
    /// One JSON object per line.
    Json,
    /// Only the names, one per line.
    Name,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortOrder {
    pub(crate) key: SortKey,
    pub(crate) is_descending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortKey {
    Name,
    Owner,
    Prefix,
    Suffix,
    Fill,
    Issued,
    Rate,
    Full,
}

impl LsArgs {
    /// Fails if the command line has both `--space` and `--all-spaces`: `--space` would have no effect.
    pub(crate) fn check_space(&self, is_option: bool) -> Result<(), Failure> {
        match self.all_spaces && is_option {
            true => {
                Err(Failure::Usage("-A lists the regions of all spaces: leave out either --space or -A".to_owned()))
            }
            false => Ok(()),
        }
    }
}

impl FromStr for SortOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, is_descending) = text.strip_prefix('-').map_or((text, false), |key| (key, true));
        let key = SortKey::from_str(key, false).map_err(|_| {
            "expected name, owner, prefix, suffix, fill, issued, rate or full, or one of them after a minus, such as -fill"
        })?;
        Ok(Self { key, is_descending })
    }
}

/// List the free blocks of a space, largest first, and show where a new region would go.
///
/// A free block is a prefix that overlaps no top-level region: `kent region create` puts regions there. A block of B
/// bits holds 2^B identifiers. With --suffix, also show the prefix that `kent region create` would choose.
#[derive(Debug, Args)]
#[command(after_help = FREE_HELP)]
pub(crate) struct FreeArgs {
    /// The space.
    #[arg(env = "KENT_SPACE", default_value = DEFAULT_SPACE, value_parser = parse_space)]
    pub(crate) space: String,
    /// List only blocks of at least 2^BITS identifiers.
    #[arg(long, value_name = "BITS", default_value = "0", hide_default_value = true, value_parser = parse_bits, allow_negative_numbers = true)]
    pub(crate) at_least: u32,
    /// Show where a region with a suffix of S bits would go.
    #[arg(long, value_name = "S", value_parser = parse_bits, allow_negative_numbers = true)]
    pub(crate) suffix: Option<u32>,
    /// Show where a region with an expansion zone of Z bits would go [default: 8, or fewer if no block leaves 8].
    #[arg(long, value_name = "Z", requires = "suffix", value_parser = parse_bits, allow_negative_numbers = true)]
    pub(crate) zone: Option<u32>,
    /// Show at most N blocks [default: 20; with --json all].
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_positive, allow_negative_numbers = true)]
    pub(crate) limit: Option<u32>,
}

const FREE_HELP: &str = "\
Examples:
  kent space free
  kent space free parts --at-least 24
  kent space free --suffix 40 --zone 8         where kent region create NAME --suffix 40 --zone 8 would go";
