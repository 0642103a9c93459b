//! The command line of `kentd`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{CommandFactory, Parser};

use crate::{
    config::{Config, ConfigError, Settings},
    maintenance::{migrate::MigrateArgs, restore::RestoreArgs},
};

/// The arguments of the daemon, from flags and environment variables.
#[derive(Debug, Parser)]
#[command(
    name = "kentd",
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    version,
    about = "The Kent daemon: hands out blocks of identifiers and issues each identifier at most once",
    long_about = "The Kent daemon keeps durable generator state and the prefix tables of spaces, and issues blocks of \
                  identifiers over gRPC. Settings come from the --config file, then KENT_* variables, then flags.",
    after_help = "Example: kentd --data /var/lib/kent --listen 127.0.0.1:7600"
)]
pub struct Args {
    /// TOML file with settings; its keys have the same names as the flags.
    #[arg(long, env = "KENT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The command to run instead of serving.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Print the settings in force as TOML, and exit.
    #[arg(long)]
    pub check_config: bool,

    /// The settings.
    #[command(flatten)]
    pub settings: Settings,
}

/// The commands that `kentd` runs instead of serving.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a new store from a backup, or from an old copy of a data directory.
    ///
    /// A backup does not contain the identifiers issued after it was taken. The restore therefore moves every counter past the
    /// highest position that the counter can have reached since then at its pace. If too few positions are left, the counter issues
    /// nothing until --floor or `set --next` says where it continues. The restore also seals all regions, because it does not know
    /// which regions were created, split, subdivided or expanded after the backup. Repeat those edits and unseal the regions, or
    /// pass --table-unchanged if there were none.
    Restore(RestoreArgs),
    /// Move a store from a directory to etcd.
    ///
    /// No daemon may be using the directory. The move marks the directory as moved, and no daemon starts on it again, so its
    /// counters are exact, and they continue where they stopped. To finish an interrupted move, run the same command again.
    Migrate(MigrateArgs),
    /// Write the manual pages of kentd to a directory.
    #[command(after_help = "Example: kentd man /usr/local/share/man/man1")]
    Man {
        /// The directory, which is created if it is missing.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

impl Args {
    /// Writes a manual page for `kentd` and one for each command.
    ///
    /// # Errors
    ///
    /// The directory or a page cannot be written.
    pub fn write_manual(dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        clap_mangen::generate_to(Self::command(), dir)
    }

    /// Returns the settings in force: those of the file, overridden by flags and environment variables.
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
