//! Tips for wrong command lines of `kentd`: Kent's equivalent of another tool's option, the help of the option
//! concerned, and an example.

use std::{env, ffi::OsString};

use clap::{
    Command,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::config::is_list;

/// An option or command that users know from another tool, or from `kent`.
struct Habit {
    /// The command that the tip applies to; empty for all commands.
    of: &'static str,
    /// The names of the option or command, without hyphens.
    names: &'static [&'static str],
    /// What Kent has instead.
    tip: &'static str,
    /// A command that does what the user wants.
    command: &'static str,
}

const fn habit(of: &'static str, names: &'static [&'static str], tip: &'static str, command: &'static str) -> Habit {
    Habit { of, names, tip, command }
}

/// Options that users may expect. The first match counts.
const OPTIONS: [Habit; 26] = [
    habit(
        "restore",
        &["force", "f", "overwrite"],
        "a restore never writes over a store: --data names a new directory, and --yes skips the question",
        "kentd restore kent.backup --data /var/lib/kent-new --yes",
    ),
    habit(
        "restore",
        &["y", "assume-yes", "non-interactive", "no-input"],
        "for this, use --yes",
        "kentd restore kent.backup --data /var/lib/kent-new --yes",
    ),
    habit(
        "restore",
        &["input", "i", "file", "from", "backup", "source", "snapshot"],
        "the backup is an argument without a flag",
        "kentd restore kent.backup --data /var/lib/kent-new --dry-run",
    ),
    habit(
        "restore",
        &["to", "into", "target", "output", "o", "out", "dir", "data-dir"],
        "--data names the directory of the new store",
        "kentd restore kent.backup --data /var/lib/kent-new --dry-run",
    ),
    habit(
        "migrate",
        &["force", "f", "overwrite", "y", "assume-yes", "non-interactive", "no-input"],
        "the new store must be empty; to skip the question, use --yes",
        "kentd migrate --from sled:/var/lib/kent --to etcd://127.0.0.1:2379/kent --yes",
    ),
    habit(
        "migrate",
        &["data", "source", "src", "data-dir", "store"],
        "--from names the data directory",
        "kentd migrate --from sled:/var/lib/kent --to etcd://127.0.0.1:2379/kent --dry-run",
    ),
    habit(
        "migrate",
        &["target", "dest", "destination", "into"],
        "--to names the new store",
        "kentd migrate --from sled:/var/lib/kent --to etcd://127.0.0.1:2379/kent --dry-run",
    ),
    habit(
        "restore",
        VERBOSE,
        "--dry-run shows what would be done",
        "kentd restore kent.backup --data /var/lib/kent-new --dry-run",
    ),
    habit(
        "migrate",
        VERBOSE,
        "--dry-run shows what would be done",
        "kentd migrate --from sled:/var/lib/kent --to etcd://127.0.0.1:2379/kent --dry-run",
    ),
    habit(
        "kentd",
        &["restore", "recover"],
        "restore is a command, without hyphens",
        "kentd restore kent.backup --data /var/lib/kent-new --dry-run",
    ),
    habit(
        "kentd",
        &["migrate"],
        "migrate is a command, without hyphens",
        "kentd migrate --from sled:/var/lib/kent --to etcd://127.0.0.1:2379/kent --dry-run",
    ),
    habit(
        "kentd",
        &["tls-ca", "ca", "cacert", "client-ca", "ca-file", "trusted-ca-file"],
        "--tls-client-ca names the CAs that sign the certificates of callers",
        "kentd --tls-cert server.pem --tls-key server.key --tls-client-ca ca.pem",
    ),
    habit("kentd", VERBOSE, "--log sets the log levels", "kentd --log debug"),
    habit("kentd", &["quiet", "q", "silent"], "--log sets the log levels", "kentd --log warn"),
    habit(
        "kentd",
        &["cluster", "peers", "join", "replicas", "initial-cluster", "initial-advertise-peer-urls"],
        "replicas find each other through their store on etcd (--store)",
        "kentd --store etcd://127.0.0.1:2379/kent",
    ),
    habit(
        "kentd",
        &["port", "p", "bind", "b", "host", "addr", "address", "listen-addr", "listen-address", "listen-client-urls"],
        "--listen sets the address of the gRPC port, --http that of metrics and probes",
        "kentd --listen 127.0.0.1:7600 --http 127.0.0.1:7601",
    ),
    habit(
        "kentd",
        &["advertise-client-urls", "advertise-address", "name", "hostname"],
        "--advertise sets the address at which clients and other replicas reach this one",
        "kentd --advertise kent-1.example.com:7600",
    ),
    habit(
        "kentd",
        &["data-dir", "datadir", "dir", "path", "storage", "D"],
        "--data names the directory of the store",
        "kentd --data /var/lib/kent",
    ),
    habit(
        "kentd",
        &["c", "f", "conf", "config-file", "settings"],
        "--config names the settings file",
        "kentd --config /etc/kent/kentd.toml",
    ),
    habit(
        "kentd",
        &["daemon", "d", "detach", "background", "fork"],
        "kentd stays in the foreground, where a service manager expects it (deploy/debian/kentd.service)",
        "kentd --data /var/lib/kent &",
    ),
    habit(
        "kentd",
        &["tls", "ssl", "cert", "key", "cert-file", "key-file", "tls-key-file", "tls-cert-file"],
        "TLS needs --tls-cert and --tls-key",
        "kentd --tls-cert server.pem --tls-key server.key",
    ),
    habit(
        "kentd",
        &["force", "force-new-cluster", "init", "create"],
        "kentd creates its store if it is missing; --new-store creates a store where there was another one before",
        "kentd --data /var/lib/kent",
    ),
    habit(
        "kentd",
        &["check", "test", "t", "dry-run", "validate"],
        "for this, use --check-config",
        "kentd --check-config",
    ),
    habit(
        "kentd",
        &["etcd", "endpoints", "etcd-servers", "database", "db", "dsn"],
        "--store names the store: sled, memory or etcd://HOST:PORT/PREFIX",
        "kentd --store etcd://127.0.0.1:2379/kent",
    ),
    habit(
        "kentd",
        &["backup", "backup-dir", "snapshot"],
        "`kent` backs up a running daemon; --archive DIR keeps a copy of every commit",
        "kent backup kent.backup",
    ),
    habit(
        "",
        &[
            "endpoint",
            "space",
            "json",
            "request-timeout",
            "context",
            "token-file",
            "allow-plain-token",
            "prefix-format",
            "ca",
        ],
        "this is an option of `kent`, the command-line client",
        "kent status",
    ),
];

/// Options of other tools for more output.
const VERBOSE: &[&str] = &["verbose", "v", "vv", "debug", "trace", "log-level", "loglevel", "logging"];

/// Commands that users may expect.
const COMMANDS: [Habit; 9] = [
    habit(
        "",
        &["start", "serve", "run", "server", "daemon", "up", "init", "open"],
        "kentd needs no command to serve",
        "kentd --data /var/lib/kent",
    ),
    habit(
        "",
        &["stop", "shutdown", "quit", "exit", "down", "kill"],
        "SIGTERM or Ctrl-C stops a daemon",
        "kill -TERM $(pidof kentd)",
    ),
    habit(
        "",
        &["restart", "reload"],
        "SIGTERM stops a daemon; start it again, or let a service manager restart it",
        "systemctl restart kentd",
    ),
    habit("", &["health", "info", "ping", "ready"], "`kent` queries a running daemon", "kent status"),
    habit("", &["dump", "save", "snapshot"], "`kent` backs up a running daemon", "kent backup kent.backup"),
    habit("", &["version"], "for this, use --version", "kentd --version"),
    habit(
        "",
        &["check", "check-config", "config", "validate", "test"],
        "for this, use --check-config",
        "kentd --check-config",
    ),
    habit("", &["export"], "`kent` exports the table of a space", "kent table export"),
    habit(
        "",
        &["recover", "import", "load"],
        "`restore` creates a new store from a backup",
        "kentd restore kent.backup --data /var/lib/kent-new --dry-run",
    ),
];

/// The commands of `kent`, except those that `kentd` has too, such as `restore`.
const CLIENT_COMMANDS: [&str; 23] = [
    "alloc",
    "audit",
    "backup",
    "budget",
    "classify",
    "clock",
    "codec",
    "completions",
    "context",
    "debug",
    "doctor",
    "inspect",
    "log-level",
    "region",
    "request",
    "role",
    "series",
    "space",
    "status",
    "table",
    "token",
    "watch",
    "whoami",
];

/// Adds the help of the option concerned and an example to an error. The first word of `line` is the program.
pub(super) fn improve(mut error: clap::Error, line: &[OsString], command: &Command) -> clap::Error {
    if !error.use_stderr() {
        return error;
    }
    let unknown = text(&error, ContextKind::InvalidSubcommand).filter(|typed| command.find_subcommand(typed).is_none());
    if let Some(typed) = unknown.filter(|_| error.kind() == ErrorKind::ArgumentConflict) {
        // For an unknown command after options, clap reports a conflict with the options.
        let typed = typed.to_owned();
        error = clap::Error::new(ErrorKind::InvalidSubcommand).with_cmd(command);
        error.insert(ContextKind::InvalidSubcommand, ContextValue::String(typed));
        error.insert(ContextKind::Usage, ContextValue::StyledStr(command.clone().render_usage()));
    }
    let words = line.get(1..).unwrap_or_default();
    let mut command = command.clone();
    // A command knows its full name only after it is built.
    command.build();
    let command = &command;
    let inner = words.iter().find_map(|word| command.find_subcommand(word)).unwrap_or(command);
    let (tips, example) = match error.kind() {
        ErrorKind::ArgumentConflict if text(&error, ContextKind::InvalidSubcommand).is_some() => {
            command_first(words, inner, command)
        }
        ErrorKind::ArgumentConflict => of_conflict(&error, words, (inner, command)),
        ErrorKind::InvalidSubcommand => of_command(&error, words, command),
        ErrorKind::UnknownArgument => of_option(&error, inner, command),
        _ => of_value(&error, inner, command),
    };
    let is_tip = !tips.is_empty();
    let example = example.or_else(|| example_of(inner, long(&error))).map(|example| format!("for example: {example}"));
    let tips = tips.into_iter().chain(example).map(StyledStr::from).collect();
    if error.get(ContextKind::Usage).is_some() {
        error.insert(ContextKind::Usage, ContextValue::StyledStr(inner.clone().render_usage()));
    }
    error.remove(ContextKind::SuggestedSubcommand);
    if is_tip {
        error.remove(ContextKind::SuggestedArg);
    }
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    if let Some(value) = text(&error, ContextKind::InvalidValue).and_then(without_password) {
        error.insert(ContextKind::InvalidValue, ContextValue::String(value));
    }
    error
}

/// Returns a URL without the user and the password in it, so that they do not get into logs.
fn without_password(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (_, rest) = rest.rsplit_once('@')?;
    Some(format!("{scheme}://...@{rest}"))
}

/// Returns the tip that a command's options must follow its name, and the reordered command line.
fn command_first(words: &[OsString], inner: &Command, command: &Command) -> (Vec<String>, Option<String>) {
    let name = inner.get_name();
    let rest: Vec<_> = words.iter().filter(|word| *word != name).cloned().collect();
    let line = plain(&rest).map(|rest| format!("kentd {name} {rest}"));
    let line = line.filter(|line| command.clone().try_get_matches_from(line.split(' ')).is_ok());
    (vec![format!("the options of `kentd {name}` follow the word {name}")], line)
}

/// Returns the tip to write the values of a repeated option as one list.
fn of_conflict(
    error: &clap::Error,
    words: &[OsString],
    (inner, command): (&Command, &Command),
) -> (Vec<String>, Option<String>) {
    let list = long(error).filter(|long| inner.get_arguments().any(|arg| arg.get_long() == Some(long) && is_list(arg)));
    let Some(long) = list else { return of_value(error, inner, command) };
    let flag = format!("--{long}");
    let pairs = words.iter().zip(words.iter().skip(1).map(Some).chain([None]));
    let values = pairs.filter_map(|(word, next)| match word.to_str()?.strip_prefix(&flag)? {
        "" => next?.to_str(),
        value => value.strip_prefix('='),
    });
    let values: Vec<_> = values.collect();
    (vec![format!("{flag} takes a list: write {flag} {}", values.join(","))], None)
}

/// Returns what to use instead of an unknown command, and an example.
fn of_command(error: &clap::Error, words: &[OsString], command: &Command) -> (Vec<String>, Option<String>) {
    let typed = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
    if CLIENT_COMMANDS.contains(&typed) {
        let line = plain(words).filter(|_| words.first().is_some_and(|first| first == typed));
        let line = line.filter(|line| line.contains(' ')).map(|line| format!("kent {line}"));
        let line = line.or_else(|| (typed == "status").then(|| "kent status".to_owned()));
        let line = line.unwrap_or_else(|| format!("kent {typed} --help"));
        return (vec![format!("`{typed}` is a command of `kent`, the command-line client")], Some(line));
    }
    match COMMANDS.iter().find(|habit| habit.names.contains(&typed)) {
        Some(habit) => {
            let rest: Vec<_> = words.iter().filter(|word| *word != typed).cloned().collect();
            // Options next to `start` or a similar word are probably meant for kentd.
            let is_serving = habit.command.starts_with("kentd --data") && !rest.is_empty();
            let same = is_serving.then(|| plain(&rest)).flatten().map(|rest| format!("kentd {rest}"));
            let same = same.filter(|line| command.clone().try_get_matches_from(line.split(' ')).is_ok());
            (vec![habit.tip.to_owned()], Some(same.unwrap_or_else(|| habit.command.to_owned())))
        }
        None => {
            let commands: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
            let tip = format!("kentd needs no command to serve; its commands are {}", commands.join(", "));
            (vec![tip], None)
        }
    }
}

/// Returns what to use instead of an unknown option, and an example.
fn of_option(error: &clap::Error, inner: &Command, command: &Command) -> (Vec<String>, Option<String>) {
    let typed = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let typed = typed.split('=').next().unwrap_or(typed).trim_start_matches('-');
    let habit = OPTIONS
        .iter()
        .find(|habit| habit.names.contains(&typed) && (habit.of.is_empty() || habit.of == inner.get_name()));
    match habit {
        Some(habit) => (vec![habit.tip.to_owned()], Some(habit.command.to_owned())),
        // An option with an environment variable is a setting of the daemon.
        None if command.get_arguments().any(|arg| arg.get_long() == Some(typed) && arg.get_env().is_some()) => {
            let name = inner.get_name();
            (
                vec![format!(
                    "--{typed} is an option of `kentd`, not of `kentd {name}`: give it when you start the daemon"
                )],
                None,
            )
        }
        None => (Vec::new(), None),
    }
}

/// Returns the help of the option whose value is wrong, and the environment variable that set it, if any.
fn of_value(error: &clap::Error, inner: &Command, command: &Command) -> (Vec<String>, Option<String>) {
    let Some(long) = long(error) else { return (Vec::new(), None) };
    let mut args = [inner, command].into_iter().flat_map(Command::get_arguments);
    let Some(arg) = args.find(|arg| arg.get_long() == Some(long)) else { return (Vec::new(), None) };
    let value = text(error, ContextKind::InvalidValue).map(Into::into);
    let variable = arg.get_env().filter(|name| value.is_some() && env::var_os(name) == value);
    let variable = variable.map(|name| format!("the value comes from the variable {}", name.to_string_lossy()));
    let help = arg.get_help().map(|help| format!("--{long}: {help}"));
    (variable.into_iter().chain(help).collect(), None)
}

/// Returns the option that an error is about, without hyphens.
fn long(error: &clap::Error) -> Option<&str> {
    text(error, ContextKind::InvalidArg)?.split([' ', '=', '[']).next()?.strip_prefix("--")
}

/// Returns an example from a command's help: one with this option, or else the first one.
fn example_of(command: &Command, option: Option<&str>) -> Option<String> {
    let after = command.get_after_help()?.to_string();
    let examples = after.lines().map(|line| line.trim_start().trim_start_matches("Example: "));
    let examples: Vec<_> = examples.filter(|line| line.starts_with("kentd ")).collect();
    let about = examples.iter().find(|line| option.is_some_and(|option| line.contains(&format!("--{option} "))));
    about.or(examples.first()).map(|line| (*line).to_owned())
}

/// Joins the words into a command line, if none of them needs quoting in a shell.
fn plain(words: &[OsString]) -> Option<String> {
    let is_plain = |word: &&str| {
        !word.is_empty() && word.chars().all(|mark| mark.is_alphanumeric() || "-_.,:/@%+=".contains(mark))
    };
    let words: Option<Vec<_>> = words.iter().map(|word| word.to_str().filter(is_plain)).collect();
    words.map(|words| words.join(" "))
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;

    fn message(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Args::parse_line(&words).expect_err(line).render().to_string()
    }

    #[test]
    fn err_a_habit_of_another_tool_gets_the_flag_or_the_command_of_kent() {
        for (line, tips) in [
            ("kentd --force", &["--new-store", "for example: kentd --data /var/lib/kent\n"][..]),
            ("kentd --verbose", &["for example: kentd --log debug\n"]),
            ("kentd -v", &["for example: kentd --log debug\n"]),
            ("kentd --debug", &["for example: kentd --log debug\n"]),
            ("kentd --loglevel=debug", &["for example: kentd --log debug\n"]),
            ("kentd --cluster x", &["for example: kentd --store etcd://"]),
            ("kentd --port 7600", &["--listen sets the address", "kentd --listen 127.0.0.1:7600"]),
            ("kentd --bind 0.0.0.0", &["--listen sets the address"]),
            ("kentd -c kentd.toml", &["--config names the settings file", "kentd --config /etc/kent/kentd.toml"]),
            ("kentd --data-dir x", &["--data names the directory of the store", "kentd --data /var/lib/kent\n"]),
            ("kentd -d", &["stays in the foreground"]),
            ("kentd --json", &["an option of `kent`", "for example: kent status\n"]),
            ("kentd --endpoint x", &["an option of `kent`"]),
            (
                "kentd --restore a.bak",
                &["restore is a command, without hyphens", "for example: kentd restore kent.backup"],
            ),
            ("kentd --migrate", &["migrate is a command, without hyphens"]),
            (
                "kentd --listen 127.0.0.1:1 --log debug --listen=unix:a",
                &["cannot be used multiple times", "--listen takes a list: write --listen 127.0.0.1:1,unix:a\n"],
            ),
            ("kentd --metrics-regions a --metrics-regions b", &["write --metrics-regions a,b\n"]),
            ("kentd start", &["kentd needs no command to serve", "for example: kentd --data /var/lib/kent\n"]),
            ("kentd run --log debug", &["for example: kentd --log debug\n"]),
            ("kentd status", &["a command of `kent`", "for example: kent status\n"]),
            ("kentd backup kent.backup", &["a command of `kent`", "for example: kent backup kent.backup\n"]),
            ("kentd region ls", &["for example: kent region ls\n"]),
            ("kentd region", &["a command of `kent`, the command-line client", "region --help\n"]),
            ("kentd stop", &["SIGTERM or Ctrl-C", "for example: kill -TERM $(pidof kentd)\n"]),
            ("kentd version", &["for example: kentd --version\n"]),
            ("kentd frobnicate", &["its commands are restore, migrate, man"]),
            ("kentd --lisen 127.0.0.1:1", &["a similar argument exists: '--listen'"]),
            ("kentd restore --force", &["never writes over a store", "--yes"]),
            ("kentd restore -v", &["for example: kentd restore kent.backup --data /var/lib/kent-new --dry-run\n"]),
            ("kentd restore --input x", &["an argument without a flag"]),
            ("kentd restore -y", &["use --yes"]),
            (
                "kentd restore a --data b --listen 127.0.0.1:1",
                &["--listen is an option of `kentd`, not of `kentd restore`: give it when you start the daemon\n"],
            ),
            ("kentd migrate --listen=x", &["--listen is an option of `kentd`, not of `kentd migrate`"]),
            ("kentd migrate --data x", &["--from names the data directory"]),
            ("kentd migrate --target x", &["--to names the new store"]),
            ("kentd migrate --force", &["must be empty"]),
        ] {
            let message = message(line);
            tips.iter().for_each(|tip| assert!(message.contains(tip), "{line}: {message}"));
            assert!(message.matches("similar").count() == line.matches("lisen").count(), "{line}: {message}");
        }
    }

    #[test]
    fn err_an_empty_audit_log_gets_an_example_of_one() {
        let expected = "'--audit <FILE|stderr>': expected a file, such as /var/log/kent/audit.jsonl, or stderr";
        for line in ["kentd --audit=", "kentd restore a --data b --audit="] {
            assert!(message(line).contains(expected), "{line}: {}", message(line));
        }
    }

    #[test]
    fn ok_every_command_of_a_tip_can_be_parsed() {
        for Habit { command, .. } in OPTIONS.iter().chain(&COMMANDS) {
            let words: Vec<OsString> = command.trim_end_matches(" &").split(' ').map(OsString::from).collect();
            if words[0] == "kentd" {
                let parsed = Args::parse_line(&words);
                assert!(parsed.as_ref().err().is_none_or(|error| !error.use_stderr()), "{command}: {parsed:?}");
            }
        }
    }

    #[test]
    fn err_a_flag_of_a_command_that_writes_is_given_once() {
        for line in [
            "kentd restore a --data x --data y",
            "kentd migrate --from sled:a --from sled:b --to etcd://127.0.0.1:1/k",
            "kentd migrate --from sled:a --to etcd://127.0.0.1:1/k --to etcd://127.0.0.1:1/l",
        ] {
            assert!(message(line).contains("cannot be used multiple times"), "{line}: {}", message(line));
        }
        let words = ["kentd", "--log", "debug", "--log", "warn", "--new-store", "--new-store"].map(OsString::from);
        Args::parse_line(&words).expect("the last one counts");
    }
}
