//! The command line of a restore.

use clap::Parser;
use kentd::RestoreArgs;

/// The arguments of `kentd restore`.
#[derive(Debug, Parser)]
pub(super) struct Line {
    #[command(flatten)]
    pub(super) args: RestoreArgs,
}
