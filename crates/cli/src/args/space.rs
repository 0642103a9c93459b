//! The arguments of `kent space`.

use clap::{Args, Subcommand, ValueEnum};

use super::{
    FreeArgs,
    value::{parse_new_space, parse_space, parse_width},
};

/// List, create or delete spaces, and show free blocks. A space is a table of regions of n-bit identifiers.
#[derive(Debug, Subcommand)]
pub(crate) enum SpaceCommand {
    /// List all spaces.
    #[command(visible_alias = "list", after_help = "Example:\n  kent space ls")]
    Ls,
    Free(FreeArgs),
    /// Create a space.
    #[command(after_help = "Example:\n  kent space create parts --bits 32")]
    Create(SpaceCreateArgs),
    /// Delete a space without regions. If it is the space of a delegated region, this ends the delegation.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:\n  kent space delete parts\n  kent space delete default/emea --dry-run"
    )]
    Delete(SpaceDeleteArgs),
}

pub(super) const SPACE_HELP: &str = "\
Examples:
  kent space ls
  kent space free --suffix 40
  kent space create parts --bits 32
  kent space delete parts";

#[derive(Debug, Args)]
pub(crate) struct SpaceCreateArgs {
    /// The name: 1 to 63 of a-z A-Z 0-9 - _ . beginning with a letter or digit.
    #[arg(value_parser = parse_new_space)]
    pub(crate) name: String,
    /// The width of the space's identifiers in bits.
    #[arg(long, value_name = "N", value_parser = parse_width, allow_negative_numbers = true)]
    pub(crate) bits: u32,
    /// The text form of the space's identifiers.
    #[arg(long, value_name = "FORM", default_value = "decimal")]
    pub(crate) text: TextArg,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SpaceDeleteArgs {
    /// The name of the space, such as parts or default/emea.
    #[arg(value_parser = parse_space)]
    pub(crate) name: String,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The text form of a space's identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextArg {
    Decimal,
    Hex,
    Uid11,
}
