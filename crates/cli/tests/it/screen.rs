//! Colors, and plain ASCII where the locale requires it.

use std::process::Output;

use crate::run::command;

fn run(arguments: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = command();
    command.args(arguments.split_whitespace()).env_remove("NO_COLOR").envs(variables.iter().copied());
    command.output().expect("kent starts")
}

fn stderr(arguments: &str, variables: &[(&str, &str)]) -> String {
    String::from_utf8(run(arguments, variables).stderr).expect("UTF-8")
}

const FORCED: (&str, &str) = ("CLICOLOR_FORCE", "1");

#[test]
fn ok_errors_are_red_on_a_terminal_only() {
    // The first error is clap's, the others are kent's.
    for arguments in
        ["frobnicate", "status --endpoint 127.0.0.1:1", "classify 12x", "inspect 0O", "context use nowhere"]
    {
        let colored = stderr(arguments, &[FORCED]);
        let mark = colored.split_once("error:").unwrap_or_else(|| panic!("{arguments}: {colored}")).0;
        assert!(mark.starts_with("\u{1b}[") && mark.contains("31m"), "{arguments}: {colored:?}");
        for variables in [&[][..], &[FORCED, ("NO_COLOR", "1")], &[("CLICOLOR", "0")]] {
            let plain = stderr(arguments, variables);
            assert!(plain.starts_with("error: "), "{arguments}: {plain:?}");
            assert!(!plain.contains('\u{1b}'), "{arguments}: {plain:?}");
        }
        assert!(!stderr(&format!("{arguments} --json"), &[FORCED]).contains('\u{1b}'), "{arguments}");
    }
}

#[test]
fn ok_drawings_are_ascii_in_a_locale_without_utf8() {
    let inspect = "inspect 017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
    for variables in [&[("LANG", "C")][..], &[("LC_ALL", "POSIX")], &[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]] {
        let plain = run(inspect, variables).stdout;
        assert!(plain.is_ascii(), "{}", String::from_utf8_lossy(&plain));
    }
    let plain = String::from_utf8(run(inspect, &[("LANG", "C")]).stdout).expect("ASCII");
    assert!(plain.contains("   0 |0 0 0 0 0 0 0 1 0"), "{plain}");
    assert!(plain.contains("     +---+"), "{plain}");
    assert!(plain.contains("|va.|"), "{plain}");
    let drawn = String::from_utf8(run(inspect, &[]).stdout).expect("UTF-8");
    assert!(drawn.contains("├───┬"), "{drawn}");
    let width = |text: &str| text.lines().map(|line| line.chars().count()).collect::<Vec<_>>();
    assert_eq!(width(&drawn), width(&plain));
}

#[test]
fn ok_help_is_ascii() {
    let help = |command: &str| run(&format!("{command} --help"), &[]).stdout;
    let mut pending = vec![String::new()];
    while let Some(command) = pending.pop() {
        let help = String::from_utf8(help(&command)).expect("UTF-8");
        assert!(help.is_ascii(), "{command}: {help}");
        let listed = help.split_once("\nCommands:\n").map_or("", |(_, list)| list.split("\n\n").next().unwrap_or(""));
        let names = listed.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
        let inner = names.filter(|name| !matches!(*name, "help" | "restore" | "migrate") && !name.is_empty());
        pending
            .extend(inner.filter(|name| name.starts_with(char::is_alphabetic)).map(|name| format!("{command} {name}")));
    }
}
