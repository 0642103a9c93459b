//! Makes suggested commands reach the same daemon: they repeat the `--endpoint`, `--context`, certificates and token
//! file of the command line. They need not repeat environment variables and the current context, which still apply.

/// The commands that connect to a daemon.
const COMMANDS: [&str; 20] = [
    "adopt",
    "alloc",
    "backup",
    "budget",
    "classify",
    "clock",
    "debug",
    "doctor",
    "layout",
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

/// The options to repeat, as names and values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach(Vec<(&'static str, String)>);

impl Reach {
    /// Repeats these options of the command line, given as names and values.
    pub(crate) fn of(options: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        // A message may be JSON, in which these characters would need an escape, so leave out such options.
        Self(options.into_iter().filter(|(_, text)| !text.contains(['"', '\'', '\\'])).collect())
    }

    /// Adds the options to each command in a message, unless the command already has them. For example, a command that
    /// grants a missing permission already names an operator's token file.
    pub(crate) fn add_to(&self, message: &str) -> String {
        if self.0.is_empty() {
            return message.to_owned();
        }
        let mut whole = String::with_capacity(message.len());
        let mut rest = message;
        while let Some(at) = rest.find("kent ") {
            let (before, command) = rest.split_at(at + "kent".len());
            whole.push_str(before);
            let is_word =
                before.chars().nth_back("kent".len()).is_none_or(|mark| matches!(mark, ' ' | '`' | '(' | '"' | '\n'));
            // A command that already has an endpoint needs no other options.
            let end = command.find(['`', ')', ';', '\n']).unwrap_or(command.len());
            let is_complete = command[..end].contains(" --endpoint ");
            let is_letter = |mark: char| mark == '-' || mark.is_ascii_lowercase();
            let name = command.trim_start().split(|mark| !is_letter(mark)).next();
            if is_word && !is_complete && COMMANDS.iter().any(|known| name == Some(known)) {
                let is_missing = |name: &str| !command[..end].contains(&format!(" --{name} "));
                let options = self.0.iter().filter(|(name, _)| is_missing(name));
                options.for_each(|(name, text)| whole.extend([" --", name, " ", &quoted(text)]));
            }
            rest = command;
        }
        whole + rest
    }
}

/// Quotes the text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |symbol: char| symbol.is_ascii_alphanumeric() || "-_.:/,@%".contains(symbol);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{text}'") }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    /// The commands that need no daemon, or need one only with an option.
    const LOCAL: [&str; 9] =
        ["audit", "check", "codec", "completions", "context", "inspect", "man", "migrate", "restore"];

    #[test]
    fn ok_every_command_is_known() {
        let mut known = [&COMMANDS[..], &LOCAL].concat();
        known.sort_unstable();
        let line = Cli::command();
        let mut commands: Vec<_> = line.get_subcommands().map(clap::Command::get_name).collect();
        commands.sort_unstable();
        assert_eq!(commands, known);
    }

    #[test]
    fn ok_commands_reach_the_same_daemon() {
        let reach = Reach::of([("endpoint", "h:1".to_owned())]);
        for (message, expected) in [
            ("sealed (kent region unseal r)", "sealed (kent --endpoint h:1 region unseal r)"),
            (
                "`kent clock accept`, or kent space ls",
                "`kent --endpoint h:1 clock accept`, or kent --endpoint h:1 space ls",
            ),
            (
                "start kentd, use a kent client, or kent context show",
                "start kentd, use a kent client, or kent context show",
            ),
            (
                "`kent whoami` shows it; try kent status, or \"kent whoami\"",
                "`kent --endpoint h:1 whoami` shows it; try kent --endpoint h:1 status, or \"kent --endpoint h:1 whoami\"",
            ),
            ("for kent", "for kent"),
            ("as in `kent status --endpoint h:2`", "as in `kent status --endpoint h:2`"),
        ] {
            assert_eq!(reach.add_to(message), expected);
            assert_eq!(Reach::default().add_to(message), message);
        }
        let reach = Reach::of([("endpoint", "h:1".to_owned()), ("token-file", "my token".to_owned())]);
        for (message, expected) in [
            ("(kent role ls)", "(kent --endpoint h:1 --token-file 'my token' role ls)"),
            (
                "(kent budget show; kent role ls --token-file FILE)",
                "(kent --endpoint h:1 --token-file 'my token' budget show; kent --endpoint h:1 role ls --token-file FILE)",
            ),
        ] {
            assert_eq!(reach.add_to(message), expected);
        }
        assert_eq!(
            (quoted("[::1]:7600").as_str(), quoted("http://a:1,b:2").as_str()),
            ("'[::1]:7600'", "http://a:1,b:2")
        );
    }
}
