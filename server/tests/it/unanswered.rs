//! Daemons and stores that hang: `kent` names the endpoint, explains how to find out whether an edit was made, and
//! reports that etcd is unreachable.

use std::{process::Stdio, thread, time::Duration};

use kent_proto::v1::Encoding;
use kent_test_etcd::Etcd;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    harness::{Daemon, kentd, request},
    operator::{Operator, kent_in, run_at},
};

#[test]
fn err_a_daemon_that_hangs_is_named_and_the_message_says_how_to_find_out() {
    let operator = Operator::new();
    operator.kent("space create parts --bits 32");
    operator.kent("region create r --suffix 8 --space parts");
    let address = operator.daemon.grpc_address().to_owned();
    operator.daemon.pause();
    let edits = [
        ("region seal r --space parts", "kent region history r --space parts"),
        ("region create q --suffix 8 --request-id 7", "kent region history q --space default"),
        ("space create more --bits 8", "kent space ls"),
    ];
    thread::scope(|scope| {
        for (words, find_out) in edits {
            let operator = &operator;
            let address = &address;
            scope.spawn(move || {
                let (code, stdout, stderr) = operator.run(words);
                assert_eq!((code, stdout.as_str()), (1, ""), "{words}");
                assert!(
                    stderr.starts_with(&format!("error: http://{address}/ accepted the call but did not")),
                    "{stderr}"
                );
                assert!(stderr.contains("The edit may have been made"), "{stderr}");
                assert!(stderr.contains(&format!("To find out: {find_out}\n")), "{stderr}");
                assert_eq!(stderr.contains("repeat the command"), words.contains("--request-id"), "{stderr}");
            });
        }
        scope.spawn(|| {
            let (code, _, stderr) = operator.run("alloc uuidv7 --timeout 6s --request-timeout 2s");
            assert_eq!(code, 1, "{stderr}");
            assert!(stderr.contains(&format!("while waiting: no answer from {address}: ")), "{stderr}");
        });
        for words in ["region ls", "status", "alloc uuidv7", "alloc region:r@parts"] {
            let (operator, address) = (&operator, &address);
            scope.spawn(move || {
                let (code, _, stderr) = operator.run(words);
                assert_eq!(code, 1, "{words}");
                // `kent alloc` first reports that it is waiting.
                assert!(stderr.contains(&format!("error: http://{address}/ ")), "{words}: {stderr}");
                assert!(!stderr.contains("edit"), "{words}: {stderr}");
            });
        }
    });
    operator.daemon.resume();
    // The suggested commands work.
    operator.kent("region history r --space parts");
    operator.kent("space ls");
}

#[test]
fn err_an_interrupted_edit_says_how_to_find_out() {
    let operator = Operator::new();
    let address = operator.daemon.grpc_address().to_owned();
    operator.daemon.pause();
    for (words, expected) in [
        (
            "region create r --suffix 8",
            "interrupted\n  The edit may have been made, or may still be made if the daemon",
        ),
        ("--json space create more --bits 8", "\"find_out\":\"kent space ls\""),
        ("region ls", ""),
    ] {
        let mut kent = kent_in(&[("KENT_ENDPOINT", &address)], words);
        let running = kent.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        // Wait until the command has sent the edit. By then it has installed its signal handler.
        thread::sleep(Duration::from_millis(700));
        let pid = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("an ID");
        kill_process(pid, Signal::INT).expect("it runs");
        let output = running.wait_with_output().expect("ended");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(expected), "{words}: {stderr}");
        if !expected.is_empty() {
            assert_eq!(output.status.code(), Some(130), "{words}: {stderr}");
        }
    }
    operator.daemon.resume();
}

#[test]
fn ok_a_first_endpoint_that_hangs_costs_a_second_and_not_the_whole_deadline() {
    let (hung, other) = (Operator::new(), Operator::new());
    let endpoints = format!("{},{}", hung.daemon.grpc_address(), other.daemon.grpc_address());
    other.kent("region create r --suffix 20");
    hung.daemon.pause();
    for words in ["region show r", "region set r --owner ops", "alloc region:r", "status"] {
        let began = Instant::now();
        let (code, _, stderr) = run_at(&endpoints, words);
        assert_eq!(code, 0, "{words}: {stderr}");
        assert!(began.elapsed() < Duration::from_secs(6), "{words} took {:?}", began.elapsed());
    }
    hung.daemon.resume();
}

#[test]
fn ok_status_says_that_etcd_is_unreachable() {
    let mut etcd = Etcd::start(1);
    let data = tempfile::tempdir().expect("a directory");
    let mut command = kentd(data.path());
    command.args(["--store", &etcd.address("kent")]);
    let daemon = Daemon::spawn(&mut command);
    let status = || -> Value {
        let (code, stdout, stderr) = run_at(daemon.grpc_address(), "status --json");
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str(&stdout).expect("an object")
    };
    assert_eq!(status()["store"]["unreachable"], Value::Null);
    for is_killed in [false, true] {
        if is_killed {
            etcd.kill(0)
        } else {
            etcd.pause(0)
        }
        until(|| status()["store"]["unreachable"].is_string());
        let (_, text, _) = run_at(daemon.grpc_address(), "status");
        assert!(text.contains("etcd is unreachable, last reached "), "{text}");
        if is_killed {
            etcd.restart(0)
        } else {
            etcd.resume(0)
        }
        until(|| status()["store"]["unreachable"].is_null());
    }
}

#[test]
fn err_a_longer_timeout_is_not_advised_while_the_store_is_unreachable() {
    let mut etcd = Etcd::start(1);
    let data = tempfile::tempdir().expect("a directory");
    let mut command = kentd(data.path());
    command.args(["--store", &etcd.address("kent")]);
    let daemon = Daemon::spawn(&mut command);
    assert_eq!(run_at(daemon.grpc_address(), "region create r --suffix 20").0, 0);
    etcd.kill(0);
    let (code, _, said) = run_at(daemon.grpc_address(), "alloc region:r --request-timeout 2s");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("`kent doctor` says why") && !said.contains("--timeout "), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn err_a_strict_grant_waits_for_a_store_that_hangs() {
    let etcd = Etcd::start(1);
    let data = tempfile::tempdir().expect("a directory");
    let mut command = kentd(data.path());
    command.args(["--store", &etcd.address("kent")]);
    let daemon = Daemon::spawn(&mut command);
    let kent = |words| run_at(daemon.grpc_address(), words);
    for words in ["region create invoices --suffix 20", "region set invoices --strict"] {
        assert_eq!(kent(words).0, 0, "{words}");
    }
    let ask = || request("region:invoices", 1, Encoding::Lease);
    let mut allocator = daemon.allocator();
    allocator.allocate(ask()).await.expect("granted");
    etcd.pause(0);
    let refused = allocator.allocate(ask()).await.expect_err("the store hangs");
    assert!(refused.message().contains("may or may not have been granted"), "{refused:?}");
    etcd.resume(0);
    // The wait is recorded although it ended without a grant.
    let (code, events, _) = kent("debug dump -o json");
    assert_eq!(code, 0);
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).expect("one object per line"));
    let is_of = |event: &Value| {
        event["event"] == "grant-waited"
            && event["figures"]["source"] == "region:invoices"
            && event["figures"]["granted"] == "false"
    };
    assert_eq!(events.filter(is_of).count(), 1);
}

/// Waits up to a minute until the condition holds.
#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("not within a minute");
}
