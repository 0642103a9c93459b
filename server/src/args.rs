//! The command line of `kentd`.

use std::path::PathBuf;

use clap::Parser;

use crate::{
    config::{Config, ConfigError, Settings},
    maintenance::{migrate::MigrateArgs, restore::RestoreArgs},
};

/// What the daemon was told, by flags and environment.
#[derive(Debug, Parser)]
#[command(
    name = "kentd",
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    version,
    about = "The Kent daemon: hands out blocks of identifiers, each of them once, for ever",
    long_about = "The Kent daemon keeps durable generator state and the prefix tables of spaces, and hands out blocks of \
                  identifiers over gRPC. Settings come from the --config file, then KENT_* variables, then flags.",
    after_help = "Example: kentd --data /var/lib/kent --listen 127.0.0.1:7600"
)]
pub struct Args {
    /// TOML file with settings, named as the flags are.
    #[arg(long, env = "KENT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What to do instead of serving.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Prints the settings in force, as TOML, and exits.
    #[arg(long)]
    pub check_config: bool,

    /// The settings.
    #[command(flatten)]
    pub settings: Settings,
}

/// What can be done instead of serving.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a new store from a backup, or from an old copy of a data directory.
    ///
    /// What was issued after the backup was taken is not in it. Every counter is therefore moved past what can have been issued
    /// since, by its pace; where less than that is left, nothing is issued until --floor or `set --next` says from where.
    /// Regions are sealed, since what was created, split, subdivided or expanded after the backup is not known; repeat those
    /// edits and unseal, or say --table-unchanged if there were none.
    Restore(RestoreArgs),
    /// Move a store from a directory to etcd.
    ///
    /// The directory must not be in use. It is marked as moved, and no daemon starts on it any more; so what it says is exact.
    /// All the same every counter is moved by two of the largest chunks, though never by more than half of what is left; those
    /// of strict regions are not moved. A move that was broken off is finished by the same command.
    Migrate(MigrateArgs),
}

impl Args {
    /// The settings in force: the file's, overridden by these.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the file or a value cannot be used.
    pub fn into_config(self) -> Result<Config, ConfigError> {
        let file = match self.config {
            Some(path) => Settings::read(&path)?,
            None => Settings::default(),
        };
        Config::check(self.settings.over(file))
    }
}
