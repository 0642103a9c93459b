//! Exit codes and error messages: bad usage, no daemon, a closed pipe.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::process::Stdio;

use crate::run::{command, json_lines, kent};

/// Returns an endpoint without a listener: the port was free a moment ago.
fn closed_endpoint() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it has an address").to_string()
}

#[test]
fn err_bad_usage_is_printed_to_standard_error_and_exits_with_2() {
    for (arguments, hint) in [
        ("", "Usage"),
        ("frobnicate", "unrecognized subcommand"),
        ("alloc", "<SOURCE>"),
        ("alloc uuidv9", "uuidv7"),
        ("alloc uuidv7 -n 0", "from 1 to 2^64 - 1, such as 500, 10_000, 10k"),
        ("alloc uuidv7 -n ten", "10k, 2M or 1G"),
        ("alloc uuidv7 --timeout 5", "500ms, 30s or 5m"),
        ("region ls --filter fill", "'fill>80' (with the quotes)"),
        ("alloc uuidv7 --num 5", "for this, use -n, such as -n 5"),
        ("alloc region:parts/bolts", "region:NAME@SPACE, here region:bolts@parts"),
        ("region ls --sort size", "-fill"),
        ("space free --suffix x", "from 0 to 128, such as 40"),
        ("region expand a --by x", "from 1 to 128, such as 2"),
        ("region expand a --by 1 --expect-revision 0", "such as 12 (`kent region history` lists them)"),
        ("alloc region:", "a name has"),
        ("inspect", "<ID>"),
        ("region create orders", "--suffix"),
        ("region create orders --suffix 4 --prefix 01 --zone 2", "cannot be used with"),
        ("region split orders --by 1 --new returns", "NAME:SUFFIX"),
        ("classify 12x", "'x' is not a digit"),
        ("classify 340282366920938463463374607431768211456", "2^128 - 1"),
        ("status --endpoint https://127.0.0.1", "it must be HOST:PORT"),
        ("space create parts --bits 129", "from 1 to 128, such as"),
        ("region create orders --suffix lots", "from 0 to 128, such as 40"),
        ("region set orders --chunk 5", "1 <= MIN <= MAX, such as 1:64"),
    ] {
        let run = kent(arguments);
        assert_eq!(run.code, Some(2), "{arguments}: {}", run.stderr);
        assert!(run.stderr.contains(hint), "{arguments}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{arguments}");
    }
}

#[test]
fn err_the_commands_of_a_usage_error_repeat_the_endpoint() {
    let run = kent("--endpoint h:1 token revoke low");
    assert!(run.stderr.contains("(`kent --endpoint h:1 token ls` lists them)"), "{}", run.stderr);
    // The usage line is not a command to paste, so it stays unchanged.
    let run = kent("--endpoint h:1 token revoke");
    assert!(run.stderr.contains("Usage: kent token revoke [OPTIONS] <ID>..."), "{}", run.stderr);
}

#[test]
fn err_a_negative_number_is_a_wrong_number_and_not_a_flag() {
    for arguments in ["alloc uuidv7 -n -1", "region create a --suffix -4", "region expand a --by -1", "classify -5"] {
        let run = kent(arguments);
        assert_eq!(run.code, Some(2), "{arguments}");
        assert!(
            !run.stderr.contains("-- -") && run.stderr.contains("expected a number"),
            "{arguments}: {}",
            run.stderr
        );
    }
}

#[test]
fn err_bad_usage_is_one_json_object_with_json() {
    for arguments in ["alloc uuidv9 --json", "--json region create orders", "classify 12x --json"] {
        let run = kent(arguments);
        assert_eq!(run.code, Some(2), "{arguments}: {}", run.stderr);
        let lines = json_lines(&run.stderr);
        assert_eq!(lines.len(), 1, "{arguments}: {}", run.stderr);
        assert_eq!(lines[0]["error"]["code"], "INVALID_ARGUMENT", "{arguments}");
        assert_eq!(lines[0]["error"]["reason"], "BAD_USAGE", "{arguments}");
        assert!(lines[0]["error"]["message"].is_string(), "{arguments}");
        assert!(lines[0]["error"]["details"].is_object(), "{arguments}");
    }
}

#[test]
fn err_no_daemon_exits_with_1_and_lists_endpoints_and_a_remedy() {
    let endpoints = format!("{},http://{}", closed_endpoint(), closed_endpoint());
    for command in ["status", "space ls", "region tree", "region create a --suffix 4", "classify 1", "alloc xid"] {
        let run = kent(&format!("{command} --endpoint {endpoints}"));
        assert_eq!(run.code, Some(1), "{command}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{command}");
        for endpoint in endpoints.split(',') {
            assert!(run.stderr.contains(endpoint), "{command}: {}", run.stderr);
        }
        assert!(run.stderr.contains("kentd") && run.stderr.contains("--endpoint"), "{command}: {}", run.stderr);
    }
}

#[test]
fn err_no_daemon_as_json() {
    let endpoint = closed_endpoint();
    let output = command().args(["status", "--json"]).env("KENT_ENDPOINT", &endpoint).output().expect("kent starts");
    assert_eq!(output.status.code(), Some(1));
    let lines = json_lines(&String::from_utf8_lossy(&output.stderr));
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["error"]["code"], "UNAVAILABLE");
    assert_eq!(lines[0]["error"]["reason"], "NO_DAEMON");
    assert_eq!(lines[0]["error"]["details"]["tried"][0]["endpoint"], format!("http://{endpoint}/"));
}

#[test]
fn ok_every_command_has_help_with_an_example() {
    for command in [
        "",
        "alloc",
        "classify",
        "space",
        "space ls",
        "space create",
        "space free",
        "region",
        "region ls",
        "region tree",
        "region show",
        "region create",
        "region expand",
        "region split",
        "region subdivide",
        "status",
        "inspect",
        "codec",
        "context",
        "context list",
        "context set",
        "context use",
        "context show",
        "context delete",
        "completions",
        "man",
    ] {
        let run = kent(&format!("{command} --help"));
        assert_eq!(run.code, Some(0), "{command}");
        assert!(run.stdout.contains("Example"), "{command}: {}", run.stdout);
        assert_eq!(run.stderr, "", "{command}");
    }
}

#[test]
fn ok_completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = kent(&format!("completions {shell}"));
        assert_eq!(run.code, Some(0), "{shell}");
        assert!(run.stdout.contains("KENT_COMPLETE"), "{shell}");
    }
}

#[test]
fn ok_a_closed_pipe_is_not_a_failure() {
    let mut child = command()
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kent starts");
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("standard error is UTF-8");
    assert_eq!(child.wait().expect("kent exits").code(), Some(0));
    assert_eq!(stderr, "");
}

#[test]
fn err_a_duplicate_is_a_failure_even_if_the_reader_closes_the_pipe() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("ids.txt");
    fs::write(&file, "5Jxqwr73FDS\n5Jxqwr73FDS\n").expect("written");
    let mut child = command().arg("check").arg(file).stdout(Stdio::piped()).spawn().expect("kent starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("kent exits").code(), Some(1));
}

#[test]
fn ok_every_command_takes_json_as_a_form_of_its_output() {
    for arguments in
        ["inspect 5Jxqwr73FDS", "context list", "status", "region ls", "token ls", "alloc uuidv9", "whoami"]
    {
        let endpoint = closed_endpoint();
        let run = |form: &str| {
            let run = kent(&format!("{arguments} {form} --endpoint {endpoint}"));
            (run.code, run.stdout, run.stderr)
        };
        let expected = run("--json");
        for form in ["-o json", "-ojson", "--output json", "--output=json", "-o json --json"] {
            assert_eq!(run(form), expected, "{arguments} {form}");
        }
        json_lines(&expected.1);
        json_lines(&expected.2);
    }
    let (before, after) = (kent("-o json inspect 5Jxqwr73FDS"), kent("inspect 5Jxqwr73FDS --json"));
    assert_eq!((before.code, before.stdout), (after.code, after.stdout));
}

#[test]
fn err_bad_usage_as_json_has_the_tips() {
    for (arguments, tip) in [
        ("region shw", "a similar subcommand exists: 'show'"),
        ("status --endpont x", "a similar argument exists: '--endpoint'"),
        ("region create orders --suffix lots", "for example: kent region create orders --suffix 40"),
    ] {
        for form in ["--json", "-o json"] {
            let run = kent(&format!("{form} {arguments}"));
            assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{arguments}");
            let tips = json_lines(&run.stderr).remove(0)["error"]["details"]["tips"].clone();
            let tips = tips.as_array().expect("a list");
            assert!(tips.iter().any(|found| found == tip), "{arguments}: {tips:?}");
        }
    }
}
