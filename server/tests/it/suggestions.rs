//! Commands suggested by error messages work when pasted, even if a variable or a context changes the default space.

use std::fs;

use regex::Regex;

use super::operator::{Operator, run_in};

/// Commands that create the regions of [`REFUSED`], such as a full, a closed and a sealed region. The tests run these
/// commands in each space.
const SETUP: [&str; 8] = [
    "region create full --suffix 4 --zone 4",
    "region create shut --suffix 4",
    "region subdivide shut --by 1 --new old::0 --new new:4:1",
    "region create sealed --suffix 4",
    "region create capped --suffix 8",
    "region create people --suffix 8 --order external",
    "region seal sealed",
    "region set capped --cap 2",
];

const SPACES: [&str; 3] = ["default", "parts", "other"];

/// A refused command about a region of space S, the first command that its message suggests, and a command that works
/// afterward.
const REFUSED: [(&str, &str, &str); 16] = [
    ("alloc region:full@S -n 17", "region expand full --space S --by 1", "alloc region:full@S -n 17"),
    ("alloc region:capped@S -n 9", "region set capped --space S --cap 9", "alloc region:capped@S -n 9"),
    ("alloc region:sealed@S", "region unseal sealed --space S", "alloc region:sealed@S"),
    ("alloc region:shut@S", "alloc region:old@S", "alloc region:new@S"),
    ("alloc region:people@S", "region id people --space S VALUE", "region id people --space S 7"),
    ("alloc region:nothing@S", "region ls --space S", "region ls --space S"),
    ("alloc region:nothing@nowhere", "space ls", "space ls"),
    ("region show nothing --space S", "region ls --space S", "region ls --space S"),
    ("region expand nothing --by 1 --space S", "region ls --space S", "region ls --space S"),
    ("region expand shut --by 1 --space S", "region show old --space S", "region expand old --by 1 --space S"),
    ("region create full --suffix 4 --space S", "region show full --space S", "region show full --space S"),
    ("region create full2 --suffix 4 --prefix 0 --space S", "region show full --space S", "space free S"),
    ("region create wide --suffix 100 --space S", "space free S", "space free S"),
    ("region delete shut --space S", "region tree --filter shut --space S", "region show new --space S"),
    ("region id shut 5 --space S", "region tree --filter shut --space S", "region id new 5 --space S"),
    (
        "region set capped --space S",
        "region set capped --space S --owner shop",
        "region set capped --space S --owner ops",
    ),
];

/// The commands in a message, each up to the end of its clause.
fn suggested(message: &str) -> Vec<String> {
    let command = Regex::new(r"\bkent ((?:alloc|region|space|series|table|clock) [^`(),;\n]+?)(?:[`(),;\n]|: |$)")
        .expect("a regex");
    command.captures_iter(message).map(|found| found[1].to_owned()).collect()
}

/// Checks all refusals about one space, with these environment variables.
#[track_caller]
fn check(subject: &str, variables: &[(&str, &str)]) {
    let operator = Operator::new();
    for space in SPACES {
        if space != "default" {
            operator.kent(&format!("space create {space} --bits 32"));
        }
        SETUP.iter().for_each(|words| drop(operator.kent(&format!("{words} --space {space}"))));
    }
    let variables = [&[("KENT_ENDPOINT", operator.daemon.grpc_address())], variables].concat();
    let kent = |words: &str| {
        let (code, stdout, stderr) = run_in(&variables, words);
        assert_eq!(code, 0, "{subject}, {variables:?}: kent {words}: {stderr}");
        stdout
    };
    let tables = || SPACES.map(|space| operator.kent(&format!("table export --space {space}")));
    let before = tables();
    for words in REFUSED {
        let [refused, suggestion, then] = <[&str; 3]>::from(words).map(|words| {
            let words = words.replace("@S", &format!("@{subject}")).replace("--space S", &format!("--space {subject}"));
            words.replace("free S", &format!("free {subject}"))
        });
        let (code, _, message) = run_in(&variables, &refused);
        assert_ne!(code, 0, "{refused}: {message}");
        let commands = suggested(&message);
        assert_eq!(commands.first().map_or("", String::as_str), suggestion, "{refused}: {message}");
        for command in commands {
            kent(&command.replace("VALUE", "7"));
        }
        kent(&then);
    }
    for ((space, before), after) in SPACES.iter().zip(before).zip(tables()) {
        assert_eq!(before == after, *space != subject, "{space} has changed, or {subject} has not: {variables:?}");
    }
}

#[test]
fn ok_suggested_commands_work_when_pasted() {
    check("parts", &[]);
    check("default", &[("KENT_SPACE", "other")]);
    check("parts", &[("KENT_SPACE", "other")]);
}

#[test]
fn ok_suggested_commands_work_in_a_context_with_another_space() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("config.toml");
    fs::write(&file, "current = \"c\"\n[contexts.c]\nspace = \"other\"\n").expect("written");
    check("default", &[("KENT_CLIENT_CONFIG", file.to_str().expect("UTF-8"))]);
}

#[test]
fn ok_suggested_commands_reach_the_daemon_of_the_command_line() {
    let operator = Operator::new();
    operator.kent("region create r --suffix 4");
    operator.kent("region seal r");
    let endpoint = format!("--endpoint {}", operator.daemon.grpc_address());
    let elsewhere = [("KENT_ENDPOINT", "127.0.0.1:1")];
    let (code, _, message) = run_in(&elsewhere, &format!("alloc region:r {endpoint}"));
    assert_eq!(code, 1, "{message}");
    let command = format!("{endpoint} region unseal r --space default");
    assert!(message.contains(&format!("(kent {command})")), "{message}");
    // The output of a command that succeeds can suggest a command, too.
    let shown = run_in(&elsewhere, &format!("space free default --suffix 4 {endpoint}")).1;
    assert!(shown.contains(&format!("kent {endpoint} region create NAME")), "{shown}");
    assert_eq!(run_in(&elsewhere, &command).0, 0);
    operator.kent("alloc region:r");
    let (code, _, warning) = run_in(&elsewhere, &format!("region set r --cap 1 {endpoint}"));
    assert!(code == 0 && warning.contains(&format!("`kent {endpoint} region set r")), "{warning}");
}
