//! A restore as an operator writes it.

use clap::Parser;
use kentd::RestoreArgs;

/// The arguments of `kentd restore`.
#[derive(Debug, Parser)]
pub(super) struct Line {
    #[command(flatten)]
    pub(super) args: RestoreArgs,
}
