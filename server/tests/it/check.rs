//! `kent check` with a real daemon: duplicates, identifiers that were never issued, floors, CSV and standard input.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    harness::data_dir,
    operator::{Operator, kent_in},
};

/// Runs `kent check` with this input. Returns its exit code, standard output and standard error.
fn check(operator: &Operator, words: &str, input: &str) -> (i32, String, String) {
    let mut command = kent_in(&[("KENT_ENDPOINT", operator.daemon.grpc_address())], &format!("check {words}"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kent runs");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("kent ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

/// Like [`check`], but returns the exit code and the JSON object.
fn checked(operator: &Operator, words: &str, input: &str) -> (i32, Value) {
    let (code, out, err) = check(operator, &format!("{words} --json"), input);
    assert_eq!(err, "", "{words}: {out}");
    (code, serde_json::from_str(&out).expect("one object"))
}

fn written(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn ok_duplicates_of_a_daemons_uuids_are_found() {
    let operator = Operator::new();
    let dir = data_dir();
    let ids = operator.kent("alloc uuidv7 -n 100000");
    let (code, found) = checked(&operator, "", &ids);
    assert_eq!((code, &found["ok"], &found["identifiers"]), (0, &true.into(), &100_000.into()));
    assert_eq!(found["formats"], json!([{"format": "uuidv7", "identifiers": 100_000}]));

    let doubled = ids.lines().nth(4_710).expect("a line");
    let (one, two) = (written(dir.path(), "one", &ids), written(dir.path(), "two", &doubled.to_uppercase()));
    // With 1 MiB, there are temporary files.
    for memory in ["256MiB", "1MiB"] {
        let temp = data_dir();
        let words = format!("{one} {two} --memory {memory} --temp-dir {}", temp.path().display());
        let (code, found) = checked(&operator, &words, "");
        assert_eq!((code, &found["distinct"]["count"]), (1, &100_000.into()));
        let places = json!([{"file": one, "line": 4_711}, {"file": two, "line": 1}]);
        let first = json!([{"id": doubled, "times": 2, "places": places}]);
        assert_eq!(found["duplicates"], json!({"identifiers": 1, "extra_lines": 1, "first": first}));
        assert_eq!(fs::read_dir(temp.path()).expect("readable").count(), 0);
    }
    let (code, out, _) = check(&operator, &format!("{one} {two}"), "");
    assert!(code == 1 && out.contains(&format!("{two}:1: {doubled}: the same as {one}:4711")), "{out}");
    let (code, found) = checked(&operator, "--quick", &ids);
    let estimate = found["distinct"]["count"].as_f64().expect("a number");
    assert!(code == 0 && (estimate / 100_000.0 - 1.0).abs() < 0.03 && found["duplicates"].is_null(), "{found}");
}

#[test]
fn ok_numbers_that_no_region_has_issued_are_found() {
    let operator = Operator::new();
    operator.kent("region create orders --suffix 40");
    let ids = operator.kent("alloc region:orders -n 20000");
    let last: u128 = ids.lines().map(|id| id.parse().expect("a number")).max().expect("some");
    let (code, found) = checked(&operator, "--space default", &ids);
    assert_eq!((code, &found["regions"]), (0, &json!([{"region": "orders", "identifiers": 20_000}])));

    let first: u128 = ids.lines().next().expect("a line").parse().expect("a number");
    // The first one again, in hexadecimal; one that is not issued yet; one in no region; and one that is too wide.
    let more = format!("{ids}{first:#x}\n{}\n{}\n{}\n", last + (1 << 30), 1_u64 << 63, 1_u128 << 70);
    let (code, found) = checked(&operator, "--space default", &more);
    let reasons: Vec<_> = found["never_issued"]["first"].as_array().expect("a list").iter().collect();
    assert_eq!((code, reasons.len(), &found["never_issued"]["count"]), (1, 2, &2.into()));
    assert_eq!(reasons[0]["reason"], "it is in orders, which has not issued it");
    assert_eq!((&reasons[1]["reason"], &reasons[1]["line"]), (&"it is in no region".into(), &20_003.into()));
    assert_eq!((&found["not_identifiers"]["count"], &found["duplicates"]["identifiers"]), (&1.into(), &1.into()));

    let dir = data_dir();
    let floor = format!("{{\"source\": \"region:orders\", \"floor\": \"{}\"}}\n", first + 9);
    let floors = written(dir.path(), "floors.jsonl", &floor);
    let below = ids.lines().filter(|id| id.parse::<u128>().expect("a number") <= first + 9).count();
    let (code, found) = checked(&operator, &format!("--space default --floors {floors}"), &ids);
    assert_eq!((code, &found["below_floor"]["count"]), (1, &below.into()));
    let (code, out, err) = check(&operator, &format!("--floors {floors}"), "42\n");
    assert!(code == 0 && out.contains("below a floor    none"), "{out}");
    assert!(err.contains("warning: the floor of region:orders is not checked, which needs --space default"), "{err}");
    let (code, _, err) = check(&operator, "--space nowhere", "1\n");
    assert!(code == 1 && err.contains("NO_SUCH_SPACE"), "{err}");
}

#[test]
fn ok_times_and_floors() {
    let operator = Operator::new();
    let (before, after) = (operator.kent("alloc uuidv7 -n 3"), "ffffffff-ffff-7000-8000-000000000000");
    thread::sleep(Duration::from_millis(50));
    let later = operator.kent("alloc uuidv7 -n 2");
    let (code, found) = checked(&operator, "", &format!("{before}{after}\n"));
    let late = &found["never_issued"];
    assert_eq!((code, &late["count"], &late["first"][0]["line"]), (1, &1.into(), &4.into()));
    let reason = late["first"][0]["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("its time is ") && reason.ends_with(" later than now"), "{reason}");

    let dir = data_dir();
    for floor in [before.lines().last().expect("a line"), "2000-01-01T00:00:00Z"] {
        let floors = written(dir.path(), "floors.jsonl", &json!({"source": "uuidv7", "floor": floor}).to_string());
        let (code, found) = checked(&operator, &format!("--floors {floors}"), &format!("{later}{before}"));
        let below = if floor.starts_with("2000") { 0 } else { 3 };
        assert_eq!((code, &found["below_floor"]["count"]), (i32::from(below > 0), &below.into()));
    }
}

#[test]
fn ok_numbers_of_a_series_and_of_a_layout() {
    let operator = Operator::new();
    let (pounds, other) = (operator.kent("alloc serial:GBP -n 5"), operator.kent("alloc serial:EUR"));
    let (code, found) = checked(&operator, "--as serial:GBP", &pounds);
    assert_eq!((code, &found["formats"][0]["format"]), (0, &"serial:GBP".into()));
    // The daemon has reserved more than five numbers, but not a billion.
    let beyond = "extuuid:GBP:1000000000";
    let (code, found) = checked(&operator, "--as serial:GBP", &format!("{pounds}{other}{beyond}\n"));
    assert_eq!((code, &found["not_identifiers"]["count"], &found["never_issued"]["count"]), (1, &1.into(), &1.into()));
    let (code, _, err) = check(&operator, "--as serial:JPY", &pounds);
    assert!(code == 2 && err.contains("the daemon has no series serial:JPY"), "{err}");

    operator.kent("layout create tweets --preset snowflake-twitter --prefix t_ --text base62");
    let tweets = operator.kent("alloc layout:tweets -n 1000");
    let first = tweets.lines().next().expect("a line");
    let (code, found) = checked(&operator, "--as layout:tweets", &format!("{tweets}{first}\n7\n"));
    assert_eq!((code, &found["identifiers"], &found["not_identifiers"]["count"]), (1, &1_001.into(), &1.into()));
    assert_eq!(found["duplicates"]["first"][0]["id"], first);
}

#[test]
fn ok_columns_of_csv() {
    let operator = Operator::new();
    let dir = data_dir();
    let rows = "name;id\r\n\"Ada; Lovelace\";1\r\n\"two\nlines\";2\r\nc;1\r\nd;x\r\ne\r\n";
    let file = written(dir.path(), "people.csv", rows);
    let (code, found) = checked(&operator, &format!("{file} --csv id --delimiter ;"), "");
    assert_eq!((code, &found["identifiers"], &found["not_identifiers"]["count"]), (1, &3.into(), &2.into()));
    let places = json!([{"file": file, "line": 2}, {"file": file, "line": 5}]);
    assert_eq!(found["duplicates"]["first"][0]["places"], places);
    let (code, found) = checked(&operator, "--csv 2", "a,1\nb,2\n");
    assert_eq!((code, &found["identifiers"]), (0, &2.into()));
    let (code, _, err) = check(&operator, &format!("{file} --csv number --delimiter ;"), "");
    assert!(code == 2 && err.contains("has no column \"number\" in its first line; its columns are name, id"), "{err}");
}

#[test]
fn err_bad_usage() {
    let operator = Operator::new();
    let dir = data_dir();
    let here = dir.path().display();
    for (words, expected) in [
        (format!("{here}/nothing.txt"), "cannot read"),
        (format!("{here}"), "is a directory"),
        ("--as nonsense".to_owned(), "there is no format \"nonsense\""),
        ("--as layout:nobody".to_owned(), "there is no layout \"nobody\""),
        ("--as serialX".to_owned(), "--as"),
        ("--as region:ids@orders".to_owned(), "for the identifiers of a region, use --space orders"),
        (format!("--temp-dir {here}/nothing"), "is not a directory"),
        (format!("--floors {here}/nothing"), "cannot read"),
        ("--memory 1KiB".to_owned(), "at least 1MiB"),
    ] {
        let (code, out, err) = check(&operator, &words, "");
        assert!([1, 2].contains(&code) && out.is_empty() && err.contains(expected), "{words}: {code} {err}");
    }
}

/// A pipe whose first command has failed is empty, and a report that is lost must not look like a finding.
#[test]
fn err_an_empty_input_and_a_lost_report_are_not_silent() {
    let operator = Operator::new();
    for words in ["", "--csv id"] {
        let (code, _, err) = check(&operator, words, "");
        assert!(code == 0 && err.contains("there is no identifier in the input"), "{words}: {code} {err}");
    }
    let mut command = kent_in(&[("KENT_ENDPOINT", operator.daemon.grpc_address())], "check");
    let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut child = command.stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped()).spawn().expect("kent runs");
    child.stdin.take().expect("a pipe").write_all(b"7\n7\n").expect("written");
    let output = child.wait_with_output().expect("kent ends");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && err.contains("cannot write standard output"), "{err}");
}

#[test]
fn ok_ctrl_c_leaves_no_file() {
    let operator = Operator::new();
    let temp = data_dir();
    let words = format!("check --memory 1MiB --temp-dir {}", temp.path().display());
    let mut command = kent_in(&[("KENT_ENDPOINT", operator.daemon.grpc_address())], &words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kent runs");
    // The numbers need more memory than there is, and the pipe stays open.
    let mut pipe = child.stdin.take().expect("a pipe");
    let numbers: String = (0..200_000).map(|number| format!("{number}\n")).collect();
    pipe.write_all(numbers.as_bytes()).expect("written");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let output = child.wait_with_output().expect("kent ends");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(130), 0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted: the check is not complete"));
    assert_eq!(fs::read_dir(temp.path()).expect("readable").count(), 0);
}
