//! `kent doctor` on daemons with and without problems.

use std::{
    net::TcpStream,
    process::{Command, Stdio},
};

use kent_test_etcd::Etcd;
use serde_json::Value;

use super::{
    harness::{Daemon, data_dir, kentd},
    operator::{Operator, kent_binary, kent_in},
};

/// Runs `kent doctor`. Returns its exit code and its output.
fn doctor(daemon: &Daemon, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(kent_binary());
    command.arg("doctor").args(arguments).env("KENT_ENDPOINT", daemon.grpc_address()).stdin(Stdio::null());
    let output = command.output().expect("kent runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "problems must be printed on standard output only");
    (output.status.code().expect("an exit code"), String::from_utf8(output.stdout).expect("UTF-8"))
}

/// The exit code and the JSON output of `kent doctor`.
fn page(daemon: &Daemon) -> (i32, Value) {
    let (code, text) = doctor(daemon, &["--json"]);
    (code, serde_json::from_str(&text).expect("JSON"))
}

/// The problems of a check, as "state: problem". Omits slow reads of etcd, which also occur on a busy machine.
fn problems(page: &Value, check: &str) -> Vec<String> {
    let problems = page["problems"].as_array().expect("problems").iter();
    let of_check = problems.filter(|problem| problem["check"] == check);
    let text = |problem: &Value, key: &str| problem[key].as_str().expect("a text").to_owned();
    let shown = of_check.map(|problem| format!("{}: {}", text(problem, "state"), text(problem, "problem")));
    shown.filter(|problem| !problem.contains("etcd takes")).collect()
}

#[test]
fn ok_tables_are_drawn_in_a_locale_without_utf8() {
    let operator = Operator::new();
    operator.kent("region create orders --suffix 20");
    operator.kent("region set orders --description Größe");
    let run = |words: &str| {
        let endpoint = ("KENT_ENDPOINT", operator.daemon.grpc_address());
        let output = kent_in(&[endpoint, ("LANG", "C")], words).output().expect("kent runs");
        // The disk of the test machine may be slow, which `kent doctor` reports with 1.
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)) && said.is_empty(), "{words}: {said}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let measured = run("doctor");
    assert!(measured.is_ascii() && measured.contains("+/-"), "{measured}");
    // The text of a user is shown as it is.
    assert!(run("region ls -o wide").contains("Größe"));
}

#[test]
fn ok_a_daemon_on_sled_is_measured() {
    let operator = Operator::new();
    operator.kent("region create orders --suffix 20");
    operator.kent("alloc region:orders -n 100");
    let (code, text) = doctor(&operator.daemon, &[]);
    let (json_code, page) = page(&operator.daemon);
    // The disk of the test machine may be slow or nearly full, which `kent doctor` reports.
    assert_eq!((code, json_code, page["ok"].as_bool()), (i32::from(code != 0), code, Some(code == 0)), "{text}");
    let checks: Vec<_> = page["checks"].as_array().expect("checks").iter().map(|it| it["check"].as_str()).collect();
    assert_eq!(checks, ["daemon", "clock", "disk", "store", "limits", "regions"].map(Some));
    for check in checks.into_iter().flatten() {
        assert!(text.contains(&format!("\n{check} ")), "{text}");
    }
    let measured = &page["measured"];
    let offset = measured["clock_offset_ms"].as_f64().expect("a number");
    assert!(offset.abs() <= measured["clock_offset_error_ms"].as_f64().expect("a number") + 1.0, "{measured}");
    let directory = &measured["directories"][0];
    assert_eq!((directory["setting"].as_str(), directory["problem"].as_str()), (Some("data"), Some("")));
    assert!(directory["sync_micros"].as_u64() <= directory["sync_max_micros"].as_u64(), "{directory}");
    assert!(directory["free_bytes"].as_u64().is_some_and(|free| free > 0), "{directory}");
    assert_eq!(measured["journal_bytes"].as_u64(), Some(1 << 20));
    assert!(measured["store_bytes"].as_u64() > measured["journal_bytes"].as_u64(), "{measured}");
    assert!(problems(&page, "limits").is_empty() && problems(&page, "clock").is_empty(), "{page}");
}

#[test]
fn ok_a_measurement_leaves_the_data_directory_as_it_was() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let files = || {
        let mut names: Vec<_> =
            data.path().read_dir().expect("a directory").map(|it| it.expect("a file").file_name()).collect();
        names.sort();
        names
    };
    let before = files();
    doctor(&daemon, &[]);
    assert_eq!(files(), before);
}

#[test]
fn err_a_daemon_without_files_for_connections_is_wrong() {
    let data = data_dir();
    let mut command = Command::new("bash");
    let kentd = kentd(data.path());
    command.args(["-c", "ulimit -n 100 && exec \"$0\" \"$@\""]).arg(kentd.get_program()).args(kentd.get_args());
    super::harness::copy_environment(&kentd, &mut command);
    let daemon = Daemon::spawn(&mut command);
    let (_, before) = page(&daemon);
    let open = before["measured"]["open_files"].as_u64().expect("a number");
    assert!(problems(&before, "limits").is_empty(), "{before}");
    // The connection of `kent doctor` needs one more file.
    let connect = || TcpStream::connect(daemon.grpc_address()).expect("connected");
    let _connections: Vec<TcpStream> = (open..96).map(|_| connect()).collect();
    let (code, page) = page(&daemon);
    assert_eq!((code, page["ok"].as_bool()), (1, Some(false)), "{page}");
    let found = problems(&page, "limits");
    assert!(found.len() == 1 && found[0].starts_with("wrong: ") && found[0].contains("of 100 open files"), "{found:?}");
    assert!(page["problems"][0]["advice"].as_str().is_some_and(|advice| advice.contains("LimitNOFILE")), "{page}");
}

#[test]
fn err_a_full_region_is_a_problem() {
    let operator = Operator::new();
    operator.kent("space create parts --bits 32");
    operator.kent("region create bolts --suffix 4 --space parts");
    operator.kent("alloc region:bolts@parts -n 16");
    let (code, page) = page(&operator.daemon);
    assert_eq!(code, 1, "{page}");
    assert_eq!(problems(&page, "regions"), ["wrong: region:bolts@parts is full"]);
    let advice = page["problems"][0]["advice"].as_str().expect("a text");
    let command = advice.split('`').find(|part| part.starts_with("kent region expand")).expect("a command");
    operator.kent(command.trim_start_matches("kent "));
    assert_eq!(
        problems(&self::page(&operator.daemon).1, "regions").len(),
        1,
        "after the expansion, one problem is left: the region fills up soon"
    );
}

#[test]
fn ok_the_members_of_etcd_are_measured() {
    let mut etcd = Etcd::start(3);
    let data = data_dir();
    let start = |number: &str| {
        Daemon::spawn(kentd(&data.path().join(number)).args(["--store", &etcd.address("kent"), "--window", "1h"]))
    };
    let (daemon, _other) = (start("1"), start("2"));
    let (_, page) = self::page(&daemon);
    let checks: Vec<_> = page["checks"].as_array().expect("checks").iter().map(|it| it["check"].as_str()).collect();
    assert_eq!(checks, ["daemon", "clock", "store", "etcd", "limits", "replicas"].map(Some));
    let measured = &page["measured"]["etcd"];
    let members = measured["members"].as_array().expect("members");
    let names: Vec<_> = members.iter().map(|member| member["name"].as_str().unwrap_or("")).collect();
    assert_eq!((names, measured["alarms"].as_array().map(Vec::len)), (vec!["m0", "m1", "m2"], Some(0)));
    assert_eq!(members.iter().filter(|member| member["leader"] == true).count(), 1, "{measured}");
    for member in members {
        assert_eq!(member["problem"], "", "{member}");
        assert!(member["version"].as_str().is_some_and(|version| version.starts_with("3.")), "{member}");
        assert!(member["latency_micros"].as_u64() > Some(0) && member["database_bytes"].as_u64() > Some(0), "{member}");
    }
    assert!(measured["read_micros"].as_u64() > Some(0) && problems(&page, "etcd").is_empty(), "{page}");

    etcd.kill(1);
    let (_, page) = self::page(&daemon);
    let found = problems(&page, "etcd");
    assert!(found[0].starts_with("warning: m1 at 127.0.0.1:") && found[0].ends_with(" does not answer"), "{found:?}");
    assert!(found[1].starts_with("warning: 1 of 3 members do not answer: if one more fails"), "{found:?}");

    etcd.kill(2);
    let (code, page) = self::page(&daemon);
    assert_eq!((code, page["ok"].as_bool()), (1, Some(false)), "{page}");
    let found = problems(&page, "etcd");
    assert!(found.iter().any(|problem| problem.starts_with("wrong: etcd does not answer (")), "{found:?}");
}

#[test]
fn err_a_full_etcd_and_a_missing_endpoint_are_found() {
    const QUOTA: &str = "4000000";
    let etcd = Etcd::start_with(3, &["--quota-backend-bytes", QUOTA]);
    let data = data_dir();
    let store = format!("etcd://{}/kent", etcd.clients()[0]);
    let daemon = Daemon::spawn(kentd(data.path()).args(["--store", &store, "--window", "1h"]));
    let (_, page) = self::page(&daemon);
    let found = problems(&page, "etcd");
    assert!(found.len() == 2 && found.iter().all(|it| it.contains("but --store does not list it")), "{found:?}");
    // Write until etcd raises its alarm.
    let value = "x".repeat(100_000);
    for number in 0..200 {
        let mut put = Command::new("etcdctl");
        put.env("ETCDCTL_API", "3").args(["--endpoints", &etcd.clients()[0].to_string(), "put"]);
        let output = put.args([&format!("filler/{number}"), &value]).output().expect("etcdctl runs");
        if !output.status.success() {
            break;
        }
    }
    let (code, page) = self::page(&daemon);
    let found = problems(&page, "etcd");
    assert!(code == 1 && found[0].starts_with("wrong: etcd has the alarm NOSPACE on m"), "{found:?}");
}
