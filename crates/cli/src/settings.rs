//! Where settings come from: an option, an environment variable, the context or the default, in this order of
//! precedence.
//!
//! The context's settings become clap's defaults, so that the arguments of a command contain the effective settings.

use std::env;
use std::ffi::OsString;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};

use crate::args::{Cli, parse_space};
use crate::connect::{Endpoints, parse_timeout};
use crate::contexts::{Context, Contexts, Fault, PATHS, SETTINGS};
use crate::files::Source;
use crate::reach::Reach;
use crate::usage;

/// The options that a suggested command repeats.
const REPEATED: [&str; 6] = ["endpoint", "context", "ca", "cert", "key", "token-file"];

/// A command line, and where its settings come from.
pub(crate) struct Parsed {
    pub(crate) cli: Cli,
    pub(crate) settings: Settings,
}

/// The settings of a command line.
pub(crate) struct Settings {
    /// The matches of the innermost subcommand.
    matches: ArgMatches,
    /// All contexts, if their file is valid.
    pub(crate) contexts: Result<Contexts, Fault>,
    /// The selected context.
    pub(crate) chosen: Result<Chosen, Fault>,
}

/// The selected context, if any.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) name: Option<String>,
    context: Context,
}

/// Parses a command line. An unusable contexts file is an error only for the commands that need it.
pub(crate) fn parse(line: &[OsString]) -> Result<Parsed, clap::Error> {
    let contexts = Contexts::load(|name| env::var_os(name).map(Into::into));
    let (chosen, contexts) = match contexts {
        Ok(contexts) => (choose(line, &contexts), Ok(contexts)),
        Err(fault) => (Ok(Chosen::default()), Err(fault)),
    };
    let make = || command(chosen.as_ref().ok().map(|chosen| &chosen.context));
    let mut command = make();
    let matches = command.try_get_matches_from_mut(line);
    let mut matches = matches.map_err(|error| usage::improve(error, line, make()))?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    cli.global.json |= wants_json(&matches);
    while let Some((_, inner)) = matches.remove_subcommand() {
        cli.global.json |= wants_json(&inner);
        matches = inner;
    }
    Ok(Parsed { cli, settings: Settings { matches, contexts, chosen } })
}

/// Reads the settings from a command line that may be incomplete or invalid.
pub(crate) fn parse_leniently(line: &[OsString]) -> Option<ArgMatches> {
    let contexts = Contexts::load(|name| env::var_os(name).map(Into::into)).ok()?;
    let chosen = choose(line, &contexts).ok()?;
    let mut matches = command(Some(&chosen.context)).ignore_errors(true).try_get_matches_from(line).ok()?;
    while let Some((_, inner)) = matches.remove_subcommand() {
        matches = inner;
    }
    Some(matches)
}

/// Finds those options of an invalid command line that a suggested command needs to reach the same daemon. clap stops
/// at the error, so this function searches the words of the line.
pub(crate) fn reach_leniently(line: &[OsString]) -> Reach {
    let words: Vec<&str> = line.iter().filter_map(|word| word.to_str()).collect();
    let given = |setting: &'static str| {
        let value =
            words.iter().enumerate().find_map(|(at, word)| match word.strip_prefix("--")?.strip_prefix(setting)? {
                "" => words.get(at + 1).copied(),
                value => value.strip_prefix('='),
            });
        Some((setting, value?.to_owned()))
    };
    Reach::of(REPEATED.into_iter().filter_map(given))
}

/// Returns the definition of the command line, with the settings of a context as defaults. An empty environment
/// variable counts as unset.
pub(crate) fn command(context: Option<&Context>) -> Command {
    let adjust = |arg: Arg| {
        let is_empty = |variable| env::var_os(variable).is_some_and(|text| text.is_empty());
        let arg = if arg.get_env().is_some_and(is_empty) { arg.env(Resettable::Reset) } else { arg };
        let setting = arg.get_id().as_str().replace('_', "-");
        match context.and_then(|context| context.get(&setting)) {
            // A context does not set the space of `kent inspect`, which has no default.
            Some(text) if !arg.get_default_values().is_empty() || PATHS.contains(&&*setting) => {
                arg.default_value(text.to_owned())
            }
            _ => arg,
        }
    };
    each_command(Cli::command(), &|command| with_output(command).mut_args(&adjust))
}

/// Adds the option `-o json`, which is the same as `--json`, to a command that does not define `-o` itself.
fn with_output(command: Command) -> Command {
    let is_kentd = command.get_arguments().any(Arg::is_trailing_var_arg_set);
    if is_kentd || command.get_arguments().any(|arg| arg.get_id() == OUTPUT) {
        return command;
    }
    let help = "The output format; json is the same as --json";
    let forms = Arg::new(OUTPUT).short('o').long("output").value_name("FORM").value_parser(["text", "json"]);
    command.arg(forms.help(help).hide_short_help(true).hide_possible_values(false))
}

/// The name of the option `-o`.
const OUTPUT: &str = "output";

/// Returns whether `-o json` is among the arguments of a command.
fn wants_json(matches: &ArgMatches) -> bool {
    let mut forms = matches.try_get_raw(OUTPUT).ok().flatten().into_iter().flatten();
    forms.any(|form| form == "json")
}

/// Applies a change to a command and all its subcommands.
pub(crate) fn each_command(command: Command, change: &dyn Fn(Command) -> Command) -> Command {
    change(command).mut_subcommands(|inner| each_command(inner, change))
}

/// Returns the context that `--context`, `KENT_CONTEXT` or the contexts file selects.
fn choose(line: &[OsString], contexts: &Contexts) -> Result<Chosen, Fault> {
    let matches = command(None).ignore_errors(true).try_get_matches_from(line).ok();
    let named = matches.as_ref().and_then(|matches| matches.get_one::<String>("context"));
    let is_in_variable =
        matches.as_ref().is_some_and(|matches| matches.value_source("context") == Some(ValueSource::EnvVariable));
    let of_variable = |fault| match fault {
        Fault::Unknown { name, names } if is_in_variable => Fault::UnknownInVariable { name, names },
        other => other,
    };
    let chosen = match named {
        Some(name) => Some((name.as_str(), contexts.get(name).map_err(of_variable)?)),
        None => contexts.get_current()?,
    };
    let Some((name, context)) = chosen else { return Ok(Chosen::default()) };
    let (name, context) = (name.to_owned(), context.clone());
    for setting in SETTINGS {
        let Some(text) = context.get(setting) else { continue };
        let valid = match setting {
            "endpoint" => text.parse::<Endpoints>().map(drop).map_err(|error| error.to_string()),
            "space" => parse_space(text).map(drop),
            "ca" | "cert" | "key" | "token-file" => Ok(()),
            _ => parse_timeout(text).map(drop),
        };
        if let Err(error) = valid {
            let (path, text) = (contexts.path().to_owned(), text.to_owned());
            return Err(Fault::Setting { path, name, setting, text, error });
        }
    }
    Ok(Chosen { name: Some(name), context })
}

/// Where the value of a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Option,
    Variable,
    /// The selected context, if it has the setting.
    Context,
    Default,
}

impl Settings {
    /// Fails if the contexts file or the selected context cannot be used.
    pub(crate) fn check(&self) -> Result<(), &Fault> {
        self.contexts.as_ref()?;
        self.chosen.as_ref().map(drop)
    }

    /// Returns those options of the command line that a suggested command needs to reach the same daemon.
    pub(crate) fn reach(&self) -> Reach {
        let options = REPEATED.map(|setting| (setting, self.get(setting)));
        Reach::of(
            options
                .into_iter()
                .filter_map(|(setting, (text, origin))| (origin == Origin::Option).then_some((setting, text))),
        )
    }

    /// Returns where the path of a setting was given.
    pub(crate) fn source(&self, setting: &str) -> Source {
        let name = self.chosen.as_ref().ok().and_then(|chosen| chosen.name.clone());
        match (self.get(setting).1, name) {
            (Origin::Variable, _) => Source::Variable,
            (Origin::Context, Some(name)) => Source::Context(name),
            _ => Source::Option,
        }
    }

    /// Returns the space and where it comes from, unless the command line names it.
    pub(crate) fn space_origin(&self) -> Option<(String, &'static str)> {
        match self.get("space") {
            (space, Origin::Variable) => Some((space, "the variable KENT_SPACE")),
            (space, Origin::Context) => Some((space, "the context (kent context show)")),
            (_, Origin::Option | Origin::Default) => None,
        }
    }

    /// Returns the effective text of a setting, and its origin.
    pub(crate) fn get(&self, setting: &str) -> (String, Origin) {
        let id = &setting.replace('-', "_");
        // Some commands lack some of the settings.
        let source = self.matches.try_contains_id(id).ok().and_then(|_| self.matches.value_source(id));
        let raw = self.matches.try_get_raw(id).ok().flatten().and_then(|mut values| values.next());
        let text = raw.map(|text| text.to_string_lossy().into_owned());
        let origin = match source {
            Some(ValueSource::CommandLine) => Origin::Option,
            Some(ValueSource::EnvVariable) => Origin::Variable,
            _ if self.chosen.as_ref().is_ok_and(|chosen| chosen.context.get(setting).is_some()) => Origin::Context,
            _ => Origin::Default,
        };
        (text.unwrap_or_default(), origin)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn ok_a_wrong_command_line_says_which_daemon_it_is_for() {
        for line in [
            "--endpoint h:1 token revoke low",
            "token revoke low --endpoint h:1",
            "token revoke --endpoint=h:1 low",
            "--endpoint h:1 budget set Shop uuidv7 1",
        ] {
            let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let reach = reach_leniently(&line);
            assert_eq!(reach.add_to("`kent token ls`"), "`kent --endpoint h:1 token ls`", "{line:?}");
        }
    }

    #[test]
    fn ok_the_command_line_is_consistent_with_the_defaults_of_a_context() {
        let context = Context {
            endpoint: Some("h:1".to_owned()),
            ca: Some("/etc/kent/ca.pem".to_owned()),
            space: Some("parts".to_owned()),
            request_timeout: Some("2s".to_owned()),
            ..Context::default()
        };
        command(Some(&context)).debug_assert();
        let matches = command(Some(&context)).try_get_matches_from(["kent", "region", "ls"]).expect("valid");
        let (_, region) = matches.subcommand().expect("region");
        let (_, list) = region.subcommand().expect("ls");
        assert_eq!(list.get_one::<String>("space").map(String::as_str), Some("parts"));
        assert_eq!(list.get_one::<PathBuf>("ca"), Some(&PathBuf::from("/etc/kent/ca.pem")));
        let matches = command(Some(&context)).try_get_matches_from(["kent", "inspect", "1"]).expect("valid");
        let (_, inspect) = matches.subcommand().expect("inspect");
        assert_eq!(inspect.get_one::<String>("space"), None);
    }
}
