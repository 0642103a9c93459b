//! `kent` in pipelines: it answers each line as it arrives, an invalid line does not affect the others, and `-` means
//! standard output.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
    thread,
};

use super::{
    backup::restore,
    operator::{Operator, kent_binary},
};

fn start(operator: &Operator, words: &str) -> Child {
    let mut command = Command::new(kent_binary());
    command.args(words.split_whitespace()).env("KENT_ENDPOINT", operator.daemon.grpc_address());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kent starts")
}

/// If standard output is closed, `kent alloc` must fail, because no reader would get the identifiers.
#[test]
fn err_a_closed_standard_output() {
    let operator = Operator::new();
    let run = |redirection: &str| {
        let line = format!("{} alloc uuidv7 {redirection}", kent_binary().display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).env("KENT_ENDPOINT", operator.daemon.grpc_address());
        let output = shell.output().expect("a shell");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, stderr) = run(">&-");
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("standard output: it is closed"), "{stderr}");
    assert_eq!(run(">/dev/null"), (Some(0), String::new()));
}

/// With a slow pipe, such as `tail -f`, each line is answered before the next line is written.
#[test]
fn ok_lines_are_answered_as_they_arrive_and_bad_ones_are_reported() {
    let operator = Operator::new();
    for (words, bad) in [("classify - --json", "line 2"), ("inspect - --json", "zebra")] {
        let mut kent = start(&operator, words);
        let (mut input, mut output) = (kent.stdin.take().expect("piped"), kent.stdout.take().expect("piped"));
        let mut answers = BufReader::new(&mut output);
        let mut ask = |text: &str| {
            writeln!(input, "{text}").expect("kent reads");
            input.flush().expect("written");
        };
        let mut answer = || {
            let mut line = String::new();
            answers.read_line(&mut line).expect("kent answers");
            line
        };
        ask("5");
        assert!(answer().contains('5'), "{words}");
        ask("zebra\n6");
        assert!(answer().contains('6'), "{words}: the line after a bad one");
        drop(input);
        assert_eq!(answer(), "", "{words}");
        let ended = kent.wait_with_output().expect("kent exits");
        let said = String::from_utf8(ended.stderr).expect("UTF-8");
        assert_eq!(ended.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains(bad), "{words}: {said}");
    }
}

/// If no process reads standard error, as in `2> >(head -1)`, the command still completes.
#[test]
fn ok_a_closed_standard_error_loses_no_answer() {
    let operator = Operator::new();
    let lines = "zebra\n5\n".repeat(2000);
    for (words, code, answers) in [("classify - --json", 2, 2000), ("inspect - --json", 2, 2000), ("region show", 2, 0)]
    {
        let mut kent = start(&operator, words);
        drop(kent.stderr.take());
        let mut input = kent.stdin.take().expect("piped");
        let lines = lines.clone();
        let writer = thread::spawn(move || drop(input.write_all(lines.as_bytes())));
        let ended = kent.wait_with_output().expect("kent exits");
        writer.join().expect("written");
        let answered = ended.stdout.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!((ended.status.code(), answered), (Some(code), answers), "{words}");
    }
}

/// The reader stops early, like `head -1`.
#[test]
fn ok_a_reader_that_goes_away_ends_the_command_quietly() {
    let operator = Operator::new();
    operator.kent("region create r --prefix 0 --suffix 10");
    for words in [
        "alloc uuidv7 -n 1000000",
        "alloc region:r -n 500 --json",
        "classify -",
        "classify - --json",
        "classify 1 2 3",
        "inspect -",
        "inspect - --json",
        "inspect 01a1fb46-21bf-7000-8000-3cf49345d9a8",
        "codec",
        "region ls",
        "region ls --json",
        "region tree",
        "region show r",
        "region history",
        "space ls",
        "series ls",
        "table export",
        "status",
        "clock",
        "completions bash",
        "--help",
        "region set --help",
    ] {
        let mut kent = start(&operator, words);
        drop(kent.stdout.take());
        let mut input = kent.stdin.take().expect("piped");
        // The write fails once kent has ended.
        let _ = (0..20_000).try_for_each(|number| writeln!(input, "{number}"));
        drop(input);
        let ended = kent.wait_with_output().expect("kent exits");
        let said = String::from_utf8(ended.stderr).expect("UTF-8");
        assert_eq!((ended.status.code(), said.as_str()), (Some(0), ""), "{words}");
    }
    // An incomplete backup is an error.
    let mut kent = start(&operator, "backup -");
    drop(kent.stdout.take());
    let ended = kent.wait_with_output().expect("kent exits");
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("cannot write the backup to standard output"));
}

#[test]
fn ok_a_backup_goes_to_standard_output() {
    let operator = Operator::new();
    operator.kent("region create r --suffix 10");
    let mut kent = start(&operator, "backup -");
    let mut backup = Vec::new();
    kent.stdout.take().expect("piped").read_to_end(&mut backup).expect("read");
    let ended = kent.wait_with_output().expect("kent exits");
    let said = String::from_utf8(ended.stderr).expect("UTF-8");
    assert!(ended.status.success() && said.contains("records"), "{said}");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("kent.backup");
    std::fs::write(&file, backup).expect("written");
    let restored = restore(&file, &dir.path().join("new"), &["--dry-run"]);
    assert!(restored.status.success(), "{restored:?}");
}

/// While `kent alloc` waits, it prints the reason on standard error, and at the end the number of printed identifiers.
#[test]
fn ok_alloc_says_what_it_waits_for_and_how_many_it_printed() {
    let operator = Operator::new();
    operator.kent("region create slow --suffix 20 --pace 1");
    let (code, printed, said) = operator.run("alloc region:slow -n 5k --timeout 3s");
    let lines = printed.lines().count();
    assert!(code == 1 && lines > 0, "{said}");
    for part in [
        "waiting for",
        "of region:slow, 1 s so far; gives up at --timeout 3s",
        "issues at most 1",
        "stopped at --timeout 3s",
    ] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    let last = said.lines().last().expect("a line").replace('_', "");
    assert_eq!(last, format!("  printed {lines} of 5000 identifiers"));
    let (code, _, said) = operator.run("alloc region:slow -n 5k");
    assert!(code == 1 && said.contains("timeout: --timeout "), "{said}");
}
