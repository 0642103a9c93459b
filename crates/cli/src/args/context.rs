//! The arguments of `kent context`.

use clap::{Args, Subcommand};

use super::{InSpace, value::parse_name};
use crate::contexts::SETTINGS;

/// Give names to daemons, and choose the one that commands use.
///
/// A context holds the endpoints of a daemon or its replicas, the paths of certificate files and a token file, a space
/// and a timeout. Commands take these from the current context, or from the one that --context or KENT_CONTEXT names.
/// An option (--endpoint, --ca, --cert, --key, --token-file, --space, --request-timeout) overrides its variable
/// (KENT_ENDPOINT, KENT_CA and so on), which overrides the context. `kent context show` says where each value comes
/// from.
#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// List all contexts. An asterisk marks the one that commands use.
    #[command(visible_alias = "ls", after_help = "Examples:\n  kent context list\n  kent context list --json")]
    List,
    Set(ContextSetArgs),
    Use(ContextUseArgs),
    /// Show the settings that commands use, and where each comes from.
    #[command(
        visible_aliases = ["get", "describe"],
        after_help = "Examples:\n  kent context show\n  kent context show --context prod"
    )]
    Show(InSpace),
    /// Delete a context.
    #[command(visible_alias = "rm", after_help = "Example:\n  kent context delete staging")]
    Delete {
        /// The context.
        #[arg(value_parser = parse_name)]
        name: String,
    },
}

pub(super) const CONTEXT_HELP: &str = "\
Examples:
  kent context set prod --endpoint 10.0.0.7:7600,10.0.0.8:7600 --space shop
  kent context use prod
  kent context show
  kent region tree --context staging           use another context for one command

The file is ~/.config/kent/config.toml, or the one that KENT_CLIENT_CONFIG names.";

/// Create a context, or change settings of an existing one.
#[derive(Debug, Args)]
#[command(after_help = SET_HELP)]
pub(crate) struct ContextSetArgs {
    /// The context: 1 to 63 of a-z A-Z 0-9 - _ . beginning with a letter or digit.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Remove a setting from the context.
    #[arg(long, value_name = "SETTING", value_delimiter = ',', value_parser = SETTINGS)]
    pub(crate) unset: Vec<String>,
    #[command(flatten)]
    pub(crate) space: InSpace,
}

const SET_HELP: &str = "\
Only the options of the command line are stored (--endpoint, --ca, --cert, --key, --token-file, --space, --request-timeout), not variables
or defaults. The certificates and the token stay in their files; the context has their paths.

Examples:
  kent context set prod --endpoint 10.0.0.7:7600,10.0.0.8:7600
  kent context set prod --space shop --request-timeout 30s
  kent context set prod --endpoint https://kent.example:7600 --ca ca.pem --cert me.pem --key me.key
  kent context set prod --endpoint https://kent.example:7600 --token-file ~/.config/kent/prod.token
  kent context set prod --unset space,request-timeout";

/// Choose the context that commands use from now on.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  kent context use prod\n  kent context use --none     use no context")]
pub(crate) struct ContextUseArgs {
    /// The context.
    #[arg(value_parser = parse_name, required_unless_present = "none", conflicts_with = "none")]
    pub(crate) name: Option<String>,
    /// Use no context.
    #[arg(long)]
    pub(crate) none: bool,
}
