//! The flight recorder and the log filter: `kent debug dump`, `kent log-level` and SIGUSR1.

use std::{fs::File, net::TcpStream, path::Path, time::Duration};

use kent_proto::v1::{DumpEventsRequest, Encoding};
use serde_json::Value;

use super::{
    harness::{Daemon, data_dir, kentd, request},
    operator::{Operator, run_at},
};

/// The events of one kind that `kent debug dump` prints.
fn events(operator: &Operator, kind: &str) -> Vec<Value> {
    let lines = operator.kent("debug dump -o json");
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("one object per line"));
    events.filter(|event| event["event"] == kind).collect()
}

/// Starts a daemon that logs to the file `log` in `dir`.
fn logged(dir: &Path, arguments: &[&str]) -> Daemon {
    let log = File::create(dir.join("log")).expect("created");
    Daemon::spawn(kentd(&dir.join("data")).args(arguments).stderr(log))
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("log")).expect("readable")
}

/// Runs `kent` on this daemon.
fn kent(daemon: &Daemon, words: &str) -> String {
    let (code, shown, message) = run_at(daemon.grpc_address(), words);
    assert_eq!(code, 0, "kent {words}: {message}");
    shown
}

#[test]
fn ok_edits_slots_and_conflicts_are_recorded() {
    let operator = Operator::new();
    operator.kent("region create orders --suffix 20");
    let edits = events(&operator, "edit");
    assert_eq!(edits.len(), 1, "{edits:?}");
    assert_eq!(edits[0]["figures"]["region"], "orders");
    assert_eq!(edits[0]["figures"]["operation"], "create");
    operator.kent("alloc uuidv7");
    assert_eq!(events(&operator, "slot-taken").len(), 1);
    let page = operator.kent("debug dump");
    assert!(page.starts_with("TIME ") && page.contains("region orders"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_grant_that_waits_is_recorded() {
    let operator = Operator::new();
    // Each grant takes about a second's worth of this format, so the later grants wait for the clock.
    for _ in 0..3 {
        let ask = request("uid11-snowish", 4_000_000, Encoding::Lease);
        operator.daemon.allocator().allocate(ask).await.expect("granted");
    }
    let waited = events(&operator, "grant-waited");
    let is_of = |event: &Value| event["figures"]["source"] == "uid11-snowish" && event["figures"]["count"] == "4000000";
    assert!(waited.iter().any(is_of), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_refused_connection_is_recorded() {
    let dir = data_dir();
    let daemon = logged(dir.path(), &["--connections-per-address", "2"]);
    let mut admin = daemon.admin();
    admin.dump_events(DumpEventsRequest {}).await.expect("answered");
    let _held: Vec<_> = (0..4).map(|_| TcpStream::connect(daemon.grpc_address()).expect("connected")).collect();
    let is_refused = async {
        loop {
            let dump = admin.dump_events(DumpEventsRequest {}).await.expect("answered").into_inner();
            if dump.events.iter().any(|event| event.kind == "refused-connection") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    is_refused.await;
}

#[test]
fn ok_the_filter_changes_while_the_daemon_runs() {
    let dir = data_dir();
    let daemon = logged(dir.path(), &["--log", "warn"]);
    assert_eq!(kent(&daemon, "log-level"), "warn\n");
    kent(&daemon, "space create before --bits 32");
    let set = kent(&daemon, "log-level info");
    assert_eq!(set, "info (before: warn); `kent log-level --reset` returns to warn\n");
    kent(&daemon, "space create during --bits 32");
    assert_eq!(kent(&daemon, "log-level --reset"), "warn (before: info)\n");
    kent(&daemon, "space create after --bits 32");
    let log = log(dir.path());
    let created: Vec<_> = ["before", "during", "after"].into_iter().filter(|space| log.contains(*space)).collect();
    assert_eq!(created, ["during"], "{log}");
}

#[test]
fn err_a_filter_with_a_misspelled_level_changes_nothing() {
    let operator = Operator::new();
    let (code, _, message) = operator.run("log-level info,verbose");
    assert_eq!(code, 1, "{message}");
    assert!(
        message.contains("\"verbose\" is not a level") && message.contains("kent log-level info,tonic=debug"),
        "{message}"
    );
    assert_eq!(operator.json("log-level")["filter"], operator.json("log-level")["configured"]);
}

#[test]
fn ok_sigusr1_turns_debug_on_and_off() {
    let dir = data_dir();
    let daemon = logged(dir.path(), &["--log", "warn", "--audit", &dir.path().join("audit").display().to_string()]);
    for expected in ["debug", "warn"] {
        daemon.signal("USR1");
        while !kent(&daemon, "log-level").starts_with(expected) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let audit = std::fs::read_to_string(dir.path().join("audit")).expect("readable");
    assert!(audit.contains("\"warn -> debug\"") && audit.contains("\"debug -> warn\""), "{audit}");
}

#[test]
fn ok_a_line_of_an_edit_names_its_call() {
    let dir = data_dir();
    let daemon = logged(dir.path(), &["--log", "info", "--log-format", "json"]);
    kent(&daemon, "region create orders --suffix 20 --request-id r-1");
    let log = log(dir.path());
    let line = log.lines().find(|line| line.contains("table edited")).unwrap_or_else(|| panic!("no edit: {log}"));
    let line: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(line["call"]["method"], "kent.v1.Regions/CreateRegion", "{line}");
    assert!(line["call"]["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{line}");
    assert_eq!(line["call"]["request_id"], "r-1", "{line}");
}
