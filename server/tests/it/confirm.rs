//! Confirmation prompts on a terminal before edits that cannot be undone.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use super::operator::{Operator, keep_settings, kent_binary};

/// Runs `kent` on a pseudo-terminal and types this answer. Returns the exit code and the contents of the terminal.
fn on_terminal(operator: &Operator, words: &str, answer: &str) -> (i32, String) {
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &format!("{} {words}", kent_binary().display()), "/dev/null"]);
    keep_settings(&mut script);
    script.env("KENT_ENDPOINT", operator.daemon.grpc_address()).env("NO_COLOR", "1");
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script runs");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(answer.as_bytes()).expect("typed");
    let output = child.wait_with_output().expect("kent exits");
    (output.status.code().expect("an exit code"), String::from_utf8(output.stdout).expect("UTF-8"))
}

#[test]
fn ok_a_terminal_is_asked_before_an_edit_that_cannot_be_undone() {
    let operator = Operator::new();
    operator.kent("region create a --prefix 01 --suffix 40");
    for (words, why) in [
        ("region split a --by 1 --new b:20", "no other region uses the freed prefixes"),
        ("region subdivide a --by 1 --new c:20:0 --new d:20:1", "until a subregion issues an identifier"),
        ("region set a --next 100", "a counter never goes back"),
    ] {
        let before = operator.kent("region ls");
        for no in ["n\n", "\n"] {
            let (code, shown) = on_terminal(&operator, words, no);
            assert_eq!(code, 1, "{words}: {shown}");
            assert!(shown.contains(why) && shown.contains("[y/N]"), "{words}: {shown}");
            assert!(shown.contains("not confirmed: nothing was changed"), "{words}: {shown}");
        }
        assert_eq!(operator.kent("region ls"), before, "{words}");
    }
    let (code, shown) = on_terminal(&operator, "region split a --by 1 --new b:20", "y\n");
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("[y/N]") && shown.contains("revision 1 → 2"), "{shown}");
}

#[test]
fn ok_yes_dry_runs_other_edits_and_scripts_are_not_asked() {
    let operator = Operator::new();
    operator.kent("region create a --prefix 01 --suffix 40");
    for words in [
        "region expand a --by 1",
        "region shrink a --by 1",
        "region seal a",
        "region unseal a",
        "region set a --owner ops",
        "region split a --by 1 --dry-run",
        "region split a --by 1 --yes",
        "region set a --next 100 --yes",
    ] {
        let (code, shown) = on_terminal(&operator, words, "");
        assert_eq!(code, 0, "{words}: {shown}");
        assert!(!shown.contains("[y/N]"), "{words}: {shown}");
    }
    // Here, standard input is not a terminal.
    operator.kent("region split a --by 1");
}

#[test]
fn ok_a_terminal_is_asked_before_credentials_end() {
    let operator = Operator::new();
    let token = |name: &str| {
        let made = operator.json(&format!("token create {name} --allow read:*"));
        made["id"].as_str().expect("a text").to_owned()
    };
    let (revoked, rotated) = (token("a"), token("b"));
    operator.kent("role set ops --allow read:*");
    let lists = || operator.kent("token ls -o wide") + &operator.kent("role ls");
    for (words, why, done) in [
        (format!("token revoke {revoked}"), "This cannot be undone", format!("revoked {revoked}")),
        (format!("token rotate {rotated} --grace 0s"), "refused at once", "the old secret is refused".to_owned()),
        ("role rm ops".to_owned(), "lose its permissions", "deleted role ops".to_owned()),
    ] {
        let before = lists();
        for no in ["n\n", "\n"] {
            let (code, shown) = on_terminal(&operator, &words, no);
            assert_eq!(code, 1, "{words}: {shown}");
            assert!(shown.contains(why) && shown.contains("[y/N]"), "{words}: {shown}");
            assert!(shown.contains("not confirmed: nothing was changed"), "{words}: {shown}");
        }
        assert_eq!(lists(), before, "{words}");
        let (code, shown) = on_terminal(&operator, &words, "y\n");
        assert!(code == 0 && shown.contains(&done), "{words}: {shown}");
    }
    let again = token("c");
    operator.kent("role set ops --allow read:*");
    let commands = [
        format!("token rotate {again} --grace 0s --yes"),
        format!("token revoke {again} --yes"),
        "role rm ops --yes".to_owned(),
    ];
    for words in commands {
        let (code, shown) = on_terminal(&operator, &words, "");
        assert!(code == 0 && !shown.contains("[y/N]"), "{words}: {shown}");
    }
}
