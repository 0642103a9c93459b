//! `kent alloc` against a fake daemon that refuses some requests.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::daemon::{BASE, FakeDaemon, LEASE_COUNT};
use crate::run::{Run, command, json_lines, kent};

fn alloc(daemon: &FakeDaemon, arguments: &str) -> Run {
    kent(&format!("alloc {arguments} --endpoint {}", daemon.endpoint))
}

fn refusal(code: Code, retry_after: Option<Duration>) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info("CAPACITY_EXHAUSTED", "kent", [("capacity".to_owned(), "1024".to_owned())]);
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    Status::with_error_details(code, "not now", details)
}

#[test]
fn ok_exactly_the_requested_count_is_granted_and_all_differ() {
    for count in [1, 2, 9_999, 10_001, 1_234_567] {
        let daemon = FakeDaemon::start(|_| None);
        let run = alloc(&daemon, &format!("uuidv7 -n {count}"));
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        let ids: HashSet<_> = run.stdout.lines().collect();
        assert_eq!((ids.len(), daemon.granted()), (count, count as u64));
        assert!(ids.iter().all(|id| id.len() == 36));
        assert!(
            daemon.calls().iter().all(|&(count, granted)| !granted || count <= LEASE_COUNT),
            "{:?}",
            daemon.calls()
        );
    }
}

#[test]
fn ok_regions_are_decimal_and_xids_have_11_symbols() {
    let daemon = FakeDaemon::start(|_| None);
    let run = alloc(&daemon, "region:orders -n 3");
    let expected: Vec<_> = (BASE..BASE + 3).map(|id| id.to_string()).collect();
    assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
    let run = alloc(&daemon, "region:orders -n 2 --json");
    assert_eq!(json_lines(&run.stdout)[0], json!({"id": (BASE + 3).to_string()}));
    let run = alloc(&daemon, "xid -n 100");
    assert!(run.stdout.lines().all(|id| id.len() == 11), "{}", run.stdout);
}

#[test]
fn err_a_named_request_that_is_too_large_is_not_split() {
    let daemon = FakeDaemon::start(|_| None);
    let count = LEASE_COUNT + 1;
    let run = alloc(&daemon, &format!("region:orders -n {count} --request-id a"));
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
    assert_eq!(daemon.calls(), [(count, false)], "a request with a request ID must not be split");
}

#[test]
fn ok_kent_waits_for_the_clock_and_the_store() {
    let moment = Some(Duration::from_millis(5));
    let daemon = FakeDaemon::start(move |call| match call % 4 {
        1 => Some(refusal(Code::ResourceExhausted, moment)),
        2 => Some(refusal(Code::Unavailable, moment)),
        3 => Some(refusal(Code::Unavailable, None)),
        _ => None,
    });
    let run = alloc(&daemon, "uuidv6 -n 50_000");
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    assert_eq!((run.stdout.lines().count(), daemon.granted()), (50_000, 50_000));
}

#[test]
fn err_a_full_region_is_not_retried_and_the_printed_count_is_reported() {
    let daemon = FakeDaemon::start(|call| (call > 0).then(|| refusal(Code::ResourceExhausted, None)));
    let run = alloc(&daemon, "region:orders -n 50_000 --json");
    assert_eq!(run.code, Some(1));
    assert_eq!(run.stdout.lines().count(), 10_000);
    let lines = json_lines(&run.stderr);
    assert_eq!(lines.len(), 1);
    assert_eq!(
        lines[0],
        json!({"error": {
            "code": "RESOURCE_EXHAUSTED",
            "reason": "CAPACITY_EXHAUSTED",
            "message": "not now",
            "details": {"capacity": "1024", "printed": "10000", "wanted": "50000"},
        }})
    );
    assert_eq!(daemon.calls().len(), 2);
    let daemon = FakeDaemon::start(|call| (call > 0).then(|| refusal(Code::ResourceExhausted, None)));
    let run = alloc(&daemon, "region:orders -n 50k");
    assert!(run.stderr.ends_with("  printed 10_000 of 50_000 identifiers\n"), "{}", run.stderr);
}

#[test]
fn ok_kent_says_what_it_waits_for_and_stops_at_the_timeout() {
    let later = Some(Duration::from_secs(60));
    let refuse = move |call| (call > 0).then(|| refusal(Code::ResourceExhausted, later));
    for (json, parts) in [
        (
            "",
            [
                "waiting for 1 identifier of xid",
                "so far; gives up at --timeout 2s: not now",
                "printed 10_000 of 10_001",
            ],
        ),
        ("--json", [r#""source":"xid""#, r#""reason":"not now""#, r#""reason":"TIMEOUT""#]),
    ] {
        let daemon = FakeDaemon::start(refuse);
        let run = alloc(&daemon, &format!("xid -n 10_001 --timeout 2s {json}"));
        assert_eq!((run.code, run.stdout.lines().count()), (Some(1), 10_000), "{}", run.stderr);
        for part in parts {
            assert!(run.stderr.contains(part), "{part} is not in {}", run.stderr);
        }
        assert!(json.is_empty() || json_lines(&run.stderr).len() >= 2, "{}", run.stderr);
    }
}

#[test]
fn ok_a_timeout_outlasts_the_retries_of_a_request() {
    // When asked to retry after a whole minute, the client itself gives up immediately.
    let daemon =
        FakeDaemon::start(|call| (call < 2).then(|| refusal(Code::ResourceExhausted, Some(Duration::from_secs(60)))));
    let run = alloc(&daemon, "xid --timeout 1m");
    assert_eq!((run.code, run.stdout.lines().count()), (Some(0), 1), "{}", run.stderr);
}

#[test]
fn ok_the_second_endpoint_replaces_an_unavailable_first() {
    let (away, here) = (FakeDaemon::start(|_| Some(refusal(Code::Unavailable, None))), FakeDaemon::start(|_| None));
    let run = kent(&format!("alloc uuidv7 -n 5 --endpoint {},{}", away.endpoint, here.endpoint));
    assert_eq!((run.code, run.stdout.lines().count()), (Some(0), 5), "{}", run.stderr);
    assert_eq!((away.granted(), here.granted()), (0, 5));
}

#[test]
fn ok_ctrl_c_ends_with_a_whole_line_and_130() {
    let daemon = FakeDaemon::start(|_| None);
    let mut child = command()
        .args(["alloc", "uuidv7", "-n", "1_000_000_000_000", "--endpoint", &daemon.endpoint])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kent starts");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    output.read_line(&mut String::new()).expect("kent prints");
    let killed = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().expect("sh starts");
    assert!(killed.success());
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).expect("kent prints");
    let lines = 1 + rest.split(|&byte| byte == b'\n').count() - 1;
    let ended = child.wait_with_output().expect("kent exits");
    assert_eq!(ended.status.code(), Some(130));
    let said = String::from_utf8(ended.stderr).expect("UTF-8").replace('_', "");
    assert_eq!(said, format!("interrupted: printed {lines} of 1000000000000 identifiers\n"));
    let last = rest.split(|&byte| byte == b'\n').nth_back(1).expect("a line");
    assert_eq!((last.len(), rest.last()), (36, Some(&b'\n')));
}

#[test]
fn ok_a_closed_pipe_ends_the_run_without_an_error() {
    let daemon = FakeDaemon::start(|_| None);
    let mut child = command()
        .args(["alloc", "uuidv7", "-n", "1_000_000_000_000", "--endpoint", &daemon.endpoint])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kent starts");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    output.read_line(&mut String::new()).expect("kent prints");
    drop(output);
    let ended = child.wait_with_output().expect("kent exits");
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), b"".as_slice()));
}
