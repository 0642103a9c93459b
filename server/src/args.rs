//! The command line of `kentd`.

mod tips;

use std::{
    env,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser};

use crate::{
    config::{Config, ConfigError, Settings, is_list},
    maintenance::{migrate::MigrateArgs, restore::RestoreArgs},
};

/// The arguments of the daemon, from flags and environment variables.
#[derive(Debug, Parser)]
#[command(
    name = "kentd",
    args_conflicts_with_subcommands = true,
    version,
    about = "The Kent daemon: hands out blocks of identifiers and issues each identifier at most once",
    long_about = "The Kent daemon keeps durable generator state and the prefix tables of spaces, and issues blocks of \
                  identifiers over gRPC. Settings come from the --config file, then KENT_* variables, then flags.",
    after_help = "Example: kentd --data /var/lib/kent --listen 127.0.0.1:7600"
)]
pub(crate) struct Args {
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
pub(crate) enum Command {
    /// Create a new store from a backup, or from an old copy of a data directory.
    ///
    /// A backup does not contain the identifiers issued after it was taken. The restore therefore moves every counter
    /// past the highest position that the counter can have reached at its pace since then. If too few positions are
    /// left, the counter issues nothing until --floor or `set --next` says where it continues. The restore also seals
    /// all regions, because it does not know which regions were created, split, subdivided, expanded, shrunk or
    /// delegated after the backup. Repeat those edits and unseal the regions, or pass --table-unchanged if the tables
    /// were not edited.
    Restore(RestoreArgs),
    /// Move a store from a directory to etcd.
    ///
    /// The directory must not be in use by a daemon. The move marks the directory as moved, so that no daemon starts on
    /// it again. The counters are therefore exact, and continue where they stopped. To finish an interrupted move, run
    /// the same command again.
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
    /// Reads the command line and the environment variables.
    ///
    /// # Errors
    ///
    /// The error from clap, with the help of the option concerned: its purpose, its range and its default.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        Self::parse_line(&env::args_os().collect::<Vec<_>>())
    }

    /// Parses a command line, whose first word is the program's name.
    fn parse_line(line: &[OsString]) -> Result<Self, clap::Error> {
        let mut command = with_negative_numbers(Self::command()).mut_args(last_counts);
        let matches = command.try_get_matches_from_mut(line);
        let matches = matches.map_err(|error| tips::improve(error, line, &command))?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }

    /// Writes a manual page for `kentd` and one for each command.
    ///
    /// # Errors
    ///
    /// The directory or a page cannot be written.
    pub(crate) fn write_manual(dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        clap_mangen::generate_to(Self::command(), dir)
    }

    /// Returns the settings in force: those of the file, overridden by flags and environment variables.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the file or a value cannot be used.
    pub(crate) fn into_config(self) -> Result<Config, ConfigError> {
        let file = match self.config {
            Some(path) => Settings::read(&path)?,
            None => Settings::default(),
        };
        Config::check(self.settings.over(file)).map_err(with_variable)
    }
}

/// Names the environment variable of a value that is out of range. A flag takes precedence over a variable.
fn with_variable(error: ConfigError) -> ConfigError {
    let ConfigError::OutOfRange { setting, .. } = &error else { return error };
    let variable = format!("KENT_{}", setting.replace('-', "_").to_uppercase());
    let flag = format!("--{setting}");
    let is_flag = |word: OsString| word.to_string_lossy().split('=').next() == Some(&*flag);
    match env::var_os(&variable).is_some() && !env::args_os().any(is_flag) {
        true => ConfigError::Variable { variable, error: error.into() },
        false => error,
    }
}

/// Lets clap parse a negative number or duration as a value instead of a flag, so that the error says what is allowed.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let is_duration =
        |arg: &clap::Arg| arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "DURATION"));
    let command = command.mut_args(|arg| match arg.get_action().takes_values() {
        true if is_duration(&arg) => arg.allow_hyphen_values(true),
        true => arg.allow_negative_numbers(true),
        false => arg,
    });
    command.mut_subcommands(with_negative_numbers)
}

/// Lets the last occurrence of a setting override the earlier ones, for scripts that append options. A list cannot be
/// repeated, because the user probably means both values. The options of commands that write a store cannot be
/// repeated, either.
fn last_counts(arg: clap::Arg) -> clap::Arg {
    match arg.get_action() {
        ArgAction::Set | ArgAction::SetTrue if !is_list(&arg) => {
            let id = arg.get_id().clone();
            arg.overrides_with(id)
        }
        _ => arg,
    }
}
