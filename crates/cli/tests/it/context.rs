//! Contexts, and where the settings of a command come from.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use crate::daemon::FakeDaemon;
use crate::run::{Run, command, json_lines};

/// A home directory with a contexts file.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(TempDir::new().expect("a directory"))
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join(".config/kent/config.toml")
    }

    #[track_caller]
    fn run(&self, arguments: &str, variables: &[(&str, &str)]) -> Run {
        let mut command = command();
        command.args(arguments.split_whitespace()).env_remove("KENT_CLIENT_CONFIG").env_remove("XDG_CONFIG_HOME");
        command.env("HOME", self.0.path()).envs(variables.iter().copied());
        let output = command.output().expect("kent starts");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    #[track_caller]
    fn kent(&self, arguments: &str) -> String {
        let run = self.run(arguments, &[]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{arguments}");
        run.stdout
    }

    /// Returns the value of each setting and its origin.
    fn shown(&self, arguments: &str, variables: &[(&str, &str)]) -> Vec<(String, String)> {
        let run = self.run(&format!("context show --json {arguments}"), variables);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{arguments}");
        let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
        json_lines(&run.stdout).iter().map(|line| (text(&line["value"]), text(&line["from"]))).collect()
    }
}

#[test]
fn ok_options_override_variables_which_override_the_context() {
    let home = Home::new();
    home.kent("context set prod --endpoint 10.0.0.7:7600,10.0.0.8:7600 --space shop");
    home.kent("context set test --request-timeout 2s");
    let check = |arguments: &str, variables: &[(&str, &str)], expected: [(&str, &str); 4]| {
        let shown = home.shown(arguments, variables);
        let shown: Vec<_> = shown.iter().map(|(value, from)| (value.as_str(), from.as_str())).collect();
        assert_eq!(shown, expected, "{arguments} {variables:?}");
    };
    let (endpoint, space, timeout) = (("http://127.0.0.1:7600", "default"), ("default", "default"), ("10s", "default"));
    check("", &[], [("none", "default"), endpoint, space, timeout]);
    home.kent("context use prod");
    let both = "10.0.0.7:7600,10.0.0.8:7600";
    let (prod, shop) = ((both, "context prod"), ("shop", "context prod"));
    check("", &[], [("prod", "kent context use"), prod, shop, timeout]);
    check("", &[("KENT_SPACE", "")], [("prod", "kent context use"), prod, shop, timeout]);
    check("", &[("KENT_SPACE", "s")], [("prod", "kent context use"), prod, ("s", "KENT_SPACE"), timeout]);
    check(
        "--space x --endpoint h:1 --request-timeout 1s",
        &[("KENT_SPACE", "s")],
        [("prod", "kent context use"), ("h:1", "--endpoint"), ("x", "--space"), ("1s", "--request-timeout")],
    );
    check("", &[("KENT_CONTEXT", "test")], [("test", "KENT_CONTEXT"), endpoint, space, ("2s", "context test")]);
    check("--context prod", &[("KENT_CONTEXT", "test")], [("prod", "--context"), prod, shop, timeout]);
    home.kent("context use --none");
    check("", &[], [("none", "default"), endpoint, space, timeout]);
}

#[test]
fn ok_contexts_are_listed_changed_and_deleted() {
    let home = Home::new();
    assert_eq!(
        home.kent("context set prod --endpoint h:1"),
        "CONTEXT  ENDPOINT  SPACE  REQUEST TIMEOUT\nprod     h:1       -      -\n\
         use it for all commands with `kent context use prod`\n"
    );
    assert_eq!(
        home.kent("context use prod"),
        "   CONTEXT  ENDPOINT  SPACE  REQUEST TIMEOUT\n*  prod     h:1       -      -\n"
    );
    home.kent("context set prod --space a/b --request-timeout 3s");
    home.kent("context set prod --unset endpoint,request-timeout");
    assert_eq!(
        json_lines(&home.kent("context ls --json")),
        [
            json!({"name": "prod", "current": true, "settings": {"endpoint": null, "space": "a/b", "request-timeout": null}})
        ]
    );
    assert_eq!(home.kent("context rm prod"), "deleted context prod; commands now use no context\n");
    assert_eq!(home.kent("context list --json"), "");
}

#[test]
fn ok_the_file_is_private_and_a_link_stays() {
    let home = Home::new();
    home.kent("context set prod --endpoint h:1");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&home.file()), 0o600);
    assert_eq!(mode(home.file().parent().expect("a folder")), 0o700);
    let real = home.0.path().join("dotfiles.toml");
    fs::write(&real, "# mine\n[contexts.a]\nspace = \"s\"\n").expect("written");
    fs::remove_file(home.file()).expect("removed");
    symlink(&real, home.file()).expect("linked");
    home.kent("context use a");
    assert_eq!(fs::read_to_string(&real).expect("read"), "current = \"a\"\n# mine\n[contexts.a]\nspace = \"s\"\n");
    assert!(fs::symlink_metadata(home.file()).expect("there").is_symlink());
    assert_eq!(fs::read_dir(home.file().parent().expect("a folder")).expect("read").count(), 1);
}

#[test]
fn err_each_fault_says_what_helps() {
    let home = Home::new();
    for (arguments, hint) in [
        ("context use prod", "create one with `kent context set NAME --endpoint HOST:PORT`"),
        ("status --context prod", "there is no context \"prod\""),
        ("context set prod", "nothing to set: add --endpoint"),
        ("context set prod --endpoint h:1 --unset endpoint", "--unset endpoint contradicts"),
        ("context set prod --endpoint h", "--endpoint"),
        ("context set prod --request-timeout 10", "such as 500ms, 10s or 2m"),
        ("context delete prod", "there is no context \"prod\""),
        ("context use", "<NAME>"),
    ] {
        let run = home.run(arguments, &[]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{arguments}");
        assert!(run.stderr.contains(hint), "{arguments}: {}", run.stderr);
        assert!(!home.file().exists(), "{arguments}");
    }
    home.kent("context set prod --space shop");
    let run = home.run("context use pord", &[]);
    assert!(run.stderr.contains("the contexts are prod"), "{}", run.stderr);
}

#[test]
fn err_a_bad_file_fails_only_the_commands_that_need_it() {
    let home = Home::new();
    home.kent("context set prod --space shop");
    for (text, hint) in [
        ("current = \"prod\"\n[contexts.prod]\nspace = \"a b\"\n", "the space \"a b\" of context prod"),
        ("[contexts.prod]\nport = 1\n", "unknown field `port`"),
        (
            "current = \"test\"\n[contexts.prod]\n",
            "config.toml names the context \"test\", which does not exist; the contexts are prod: choose one with `kent context use prod`",
        ),
    ] {
        fs::write(home.file(), text).expect("written");
        for arguments in ["status", "alloc xid", "inspect 1 --space default", "context show"] {
            let run = home.run(arguments, &[]);
            assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{arguments}");
            assert!(run.stderr.contains(hint), "{arguments}: {}", run.stderr);
        }
        home.kent("inspect 1");
        home.kent("completions bash");
    }
    // The last of these files can be repaired.
    home.kent("context use prod");
}

#[test]
fn ok_a_region_without_a_space_is_in_the_space_of_the_context() {
    let (home, daemon) = (Home::new(), FakeDaemon::start(|_| None));
    home.kent(&format!("context set prod --endpoint {} --space shop", daemon.endpoint));
    home.kent("alloc region:orders --context prod");
    home.kent("alloc region:orders@parts --context prod");
    home.kent("alloc region:orders --context prod --space default");
    home.kent("alloc xid --context prod");
    assert_eq!(daemon.sources(), ["region:orders@shop", "region:orders@parts", "region:orders", "xid"]);
}

#[test]
fn ok_a_variable_that_overrides_the_chosen_context_is_reported() {
    let home = Home::new();
    home.kent("context set prod --space shop");
    home.kent("context set test --space shop");
    let run = home.run("context use prod", &[("KENT_CONTEXT", "test")]);
    assert_eq!(run.stderr, "warning: KENT_CONTEXT is \"test\" in this shell and takes precedence\n");
    let run = home.run("context use prod --json", &[("KENT_CONTEXT", "test")]);
    assert_eq!(
        json_lines(&run.stderr),
        [json!({"warning": {"message": "KENT_CONTEXT is \"test\" in this shell and takes precedence"}})]
    );
}

#[test]
fn err_a_file_that_cannot_be_used_is_refused_when_the_context_is_set() {
    let home = Home::new();
    let path = |name: &str| home.0.path().join(name).display().to_string();
    let pem = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
    for (name, text) in [
        ("cert.pem", pem("CERTIFICATE")),
        ("key.pem", pem("PRIVATE KEY")),
        ("encrypted.pem", pem("ENCRYPTED PRIVATE KEY")),
        ("notes.txt", "no PEM".to_owned()),
    ] {
        fs::write(path(name), text).expect("written");
    }
    let (cert, key, encrypted, notes) = (path("cert.pem"), path("key.pem"), path("encrypted.pem"), path("notes.txt"));
    for (options, part) in [
        (format!("--ca {}", path("absent")), "of --ca: No such file"),
        (format!("--ca {}", home.0.path().display()), "of --ca: Is a directory"),
        (format!("--ca {key}"), "holds a private key, not a certificate"),
        (format!("--ca {notes}"), "is not in PEM"),
        (format!("--cert {key} --key {cert}"), "--cert needs a PEM file with a certificate"),
        (format!("--cert {cert} --key {cert}"), "holds a certificate, not a private key"),
        (format!("--cert {cert} --key {encrypted}"), "`openssl pkey -in "),
        (format!("--cert {cert}"), "only --cert is given: add --key FILE"),
        (format!("--key {key}"), "only --key is given: add --cert FILE"),
        (format!("--token-file {notes}"), "--token-file needs a file that contains only a token"),
        (format!("--token-file {}", path("absent")), "of --token-file: No such file"),
        (format!("--ca {cert} --endpoint http://h:1"), "the certificates cannot be used"),
    ] {
        let run = home.run(&format!("context set prod {options}"), &[]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{options}");
        assert!(run.stderr.contains(part) && run.stderr.lines().count() == 1, "{options}: {}", run.stderr);
        assert!(!home.file().exists(), "{options}");
    }
}

#[test]
fn err_a_file_that_is_gone_is_named_with_the_command_that_corrects_it() {
    let home = Home::new();
    fs::create_dir_all(home.file().parent().expect("a folder")).expect("created");
    fs::write(home.file(), "current = \"q\"\n[contexts.q]\nca = \"/absent/ca\"\n").expect("written");
    let correct = "`kent context set q --ca FILE`";
    for (options, variables, parts) in [
        ("", &[][..], &["/absent/ca of ca in context q: No such file", correct][..]),
        ("--context q", &[], &["in context q", correct]),
        ("", &[("KENT_CA", "/absent/own")], &["/absent/own of the variable KENT_CA: No such", "`unset KENT_CA`"]),
        ("--ca /absent/option", &[("KENT_CA", "/absent/own")], &["/absent/option of --ca: No such"]),
    ] {
        let run = home.run(&format!("status {options}"), variables);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{options}");
        parts.iter().for_each(|part| assert!(run.stderr.contains(part), "{options}: {}", run.stderr));
        assert_eq!(run.stderr.contains(correct), parts.contains(&correct), "{}", run.stderr);
    }
    // The other settings of the context can still be changed, and the bad one can be removed.
    home.kent("context set q --space shop --endpoint h:1");
    home.kent("context set q --unset ca");
}
