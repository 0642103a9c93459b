//! The audit log of real daemons: what it contains, and what happens when it rotates or cannot be written.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use kent_proto::v1::{AcceptClockRequest, AllocateRequest, CreateRegionRequest, Encoding};
use serde_json::Value;
use tonic::Request;

use super::{
    auth::{Guarded, anonymous, guarded},
    harness::{Daemon, create, data_dir, kentd, kentd_binary, request},
    operator::{keep_settings, kent_binary, run_at, run_in},
};

fn daemon(data: &Path, audit: &Path, more: &[&str]) -> Daemon {
    Daemon::spawn(kentd(data).arg("--audit").arg(audit).args(more))
}

fn lines(audit: &Path) -> Vec<Value> {
    let text = fs::read_to_string(audit).expect("the log is there");
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn text<'l>(line: &'l Value, field: &str) -> &'l str {
    line[field].as_str().unwrap_or_default()
}

/// The action, the outcome and the resource of each line.
fn summary(lines: &[Value]) -> Vec<String> {
    let fields = |line| ["action", "outcome", "resource"].map(|field| text(line, field)).join(" ");
    lines.iter().map(|line| fields(line).trim_end().to_owned()).collect()
}

/// The test makes this step with a direct call, because `kent clock accept` sends nothing to a daemon that trusts its
/// clock.
const ACCEPT: &str = "clock accept";

#[tokio::test]
async fn ok_every_change_is_in_the_log_with_its_author() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let running = daemon(&at("data"), &at("audit.jsonl"), &[]);
    let variables = [("KENT_ENDPOINT", running.grpc_address()), ("KENT_PRINCIPAL", "ada")];
    let backup = format!("backup {}", at("backup").display());
    for (words, code) in [
        ("space create parts --bits 32", 0),
        ("region create orders --suffix 4 --zone 4 --reason first --request-id r1", 0),
        ("region create orders --suffix 4 --zone 4 --reason first --request-id r1", 0),
        ("region create never --suffix 4 --dry-run", 0),
        ("region set orders --auto-expand 80:2", 0),
        ("region set orders --auto-expand 80:2", 0),
        ("region create orders --suffix 9", 1),
        ("region create orders --suffix 9", 1),
        ("region rename orders sales", 0),
        ("region undo", 0),
        ("alloc region:orders -n 16", 0),
        ("alloc serial:DEMAND", 0),
        ("series create serial:X", 0),
        ("series forget serial:X", 0),
        (ACCEPT, 0),
        (&backup, 0),
        ("space delete parts", 0),
    ] {
        if words == ACCEPT {
            let mut request = Request::new(AcceptClockRequest {});
            request.metadata_mut().insert("kent-principal", "ada".parse().expect("ASCII"));
            running.admin().accept_clock(request).await.expect("accepted");
            continue;
        }
        let (found, stdout, stderr) = run_in(&variables, words);
        assert_eq!(found, code, "kent {words}: {stdout}{stderr}");
    }
    running.signal("TERM");
    assert!(running.wait().await.success());
    let mut restore = Command::new(kentd_binary());
    restore.arg("restore").arg(at("backup")).arg("--data").arg(at("new")).args(["--yes", "--clock-error", "0s"]);
    let restored = restore.arg("--audit").arg(at("audit.jsonl")).output().expect("kentd runs");
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));

    let lines = lines(&at("audit.jsonl"));
    assert_eq!(
        summary(&lines),
        [
            "daemon.start done",
            "space.create done space:parts",
            "region.create done region:default/orders",
            "region.create again region:default/orders",
            "region.update done region:default/orders",
            "region.update unchanged region:default/orders",
            "region.create refused region:default/orders",
            "region.rename done region:default/orders",
            "table.undo done space:default",
            "region.expand done region:default/orders",
            "series.create done serial:DEMAND",
            "series.create done serial:X",
            "series.forget done serial:X",
            "clock.accept done",
            "backup begun",
            "backup done",
            "space.delete done space:parts",
            "daemon.stop done",
            "region.create refused region:default/orders",
            "store.restore begun",
            "store.restore done",
        ]
    );
    let made = &lines[2];
    assert_eq!((text(made, "request_id"), text(made, "note"), &made["revision"]), ("r1", "first", &1.into()));
    assert_eq!(text(made, "on_behalf_of"), "ada");
    assert!(text(made, "peer").starts_with("127.0.0.1:"));
    assert!(text(made, "time").ends_with('Z'));
    assert_eq!((text(&lines[6], "code"), text(&lines[6], "reason")), ("ALREADY_EXISTS", "NAME_TAKEN"));
    assert_eq!((text(&lines[9], "principal"), text(&lines[9], "note")), ("kentd", "the region's policy"));
    assert_eq!(
        lines[18]["count"], 1,
        "the second refusal must be counted in the line that is written when the daemon stops"
    );
    assert!(text(&lines[19], "principal").starts_with("uid:"));
    assert!(text(&lines[20], "note").ends_with("/new"));
    assert_eq!(fs::metadata(at("audit.jsonl")).expect("there").permissions().mode() & 0o777, 0o600);

    let tail = |more: &str| run_in(&[], &format!("audit tail {} {more}", at("audit.jsonl").display())).1;
    let misspelt = run_in(&[], &format!("audit tail {} --action region.craete", at("audit.jsonl").display()));
    assert!(
        misspelt.1.is_empty() && misspelt.2.contains("has no event of action region.craete; the actions of"),
        "{misspelt:?}"
    );
    assert_eq!(tail("-n 1").lines().count(), 1);
    let cut: Vec<_> = fs::read_to_string(at("audit.jsonl")).expect("read").lines().take(3).map(str::to_owned).collect();
    fs::write(at("cut.jsonl"), format!("{}\n{}\n{}\n", cut[0], &cut[1][..60], cut[2])).expect("written");
    let (code, shown, warning) = run_in(&[], &format!("audit tail {}", at("cut.jsonl").display()));
    assert_eq!((code, shown.lines().count()), (0, 2), "{warning}");
    assert!(warning.contains("cut.jsonl: 1 line is damaged and was left out"), "{warning}");
    let garbage = Command::new("sh").args(["-c", "echo garbage | \"$0\" audit tail -"]).arg(kent_binary()).output();
    let garbage = String::from_utf8(garbage.expect("run").stderr).expect("UTF-8");
    assert!(garbage.contains("standard input contains no audit events"), "{garbage}");
    assert_eq!(tail("-n 100 --action region.create --outcome done").lines().count(), 1);
    assert!(tail("-n 100 --action clock").contains("clock.accept   on behalf of ada from 127.0.0.1:"));
}

/// Adds the header in which a caller names the user on whose behalf it acts.
fn on_behalf<T>(mut request: Request<T>) -> Request<T> {
    request.metadata_mut().insert("kent-principal", "ada".parse().expect("ASCII"));
    request
}

#[tokio::test]
async fn err_a_denied_call_is_in_the_log_with_its_method_and_its_request() {
    let dir = data_dir();
    let (data, audit) = (dir.path().join("data"), dir.path().join("audit.jsonl"));
    let Guarded { daemon, admin } = Guarded::start(&data).await;
    daemon.kill();
    let guarded = Guarded { daemon: Daemon::spawn(guarded(&data).arg("--audit").arg(&audit)), admin };
    let (weak, stranger) = (guarded.token(&["allocate:uuidv7"]).await, anonymous());
    let new = |name: &str| CreateRegionRequest { request_id: format!("{name}-1"), ..create(name) };
    let ids =
        |source: &str| AllocateRequest { request_id: "draw-1".to_owned(), ..request(source, 1, Encoding::Packed) };
    let (mut regions, mut allocator) = (guarded.daemon.regions(), guarded.daemon.allocator());
    for by in [&weak, &stranger] {
        regions.create_region(on_behalf(by.send(new("a")))).await.expect_err("denied");
        allocator.allocate(on_behalf(by.send(ids("region:b")))).await.expect_err("denied");
        let stream = on_behalf(by.send(tokio_stream::once(ids("serial:C"))));
        if let Ok(replies) = allocator.allocate_stream(stream).await {
            replies.into_inner().message().await.expect("answered");
        }
        // The log does not name an unknown method, so that a caller cannot fill it with invented names.
        let path = "/kent.v1.Regions/Invented".parse().expect("a path");
        let mut grpc = tonic::client::Grpc::new(guarded.daemon.channel());
        grpc.ready().await.expect("connected");
        let codec = tonic_prost::ProstCodec::<(), ()>::default();
        grpc.unary(on_behalf(by.send(())), path, codec).await.expect_err("denied");
    }
    let found = lines(&audit);
    let found: Vec<_> = found.iter().filter(|line| text(line, "outcome") == "denied").collect();
    let found: Vec<String> = found
        .iter()
        .map(|line| {
            ["method", "on_behalf_of", "request_id", "resource", "reason"].map(|field| text(line, field)).join(" ")
        })
        .collect();
    let expected = [
        "kent.v1.Regions/CreateRegion ada a-1 edit:region:default/a* PERMISSION_DENIED",
        "kent.v1.Allocator/Allocate ada draw-1 allocate:region:default/b PERMISSION_DENIED",
        "kent.v1.Allocator/AllocateStream ada draw-1 allocate:serial:C PERMISSION_DENIED",
        // The message of a call that is not admitted is never read.
        "kent.v1.Regions/CreateRegion ada   NO_CREDENTIAL",
        "kent.v1.Allocator/Allocate ada draw-1  NO_CREDENTIAL",
        "kent.v1.Allocator/AllocateStream ada   NO_CREDENTIAL",
        " ada   NO_CREDENTIAL",
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn ok_a_log_is_followed_while_it_rotates() {
    let dir = data_dir();
    let audit = dir.path().join("audit.jsonl");
    let running = daemon(&dir.path().join("data"), &audit, &["--audit-bytes", "4096", "--audit-files", "3"]);
    let mut command = Command::new(kent_binary());
    keep_settings(&mut command);
    command.args(["audit", "tail", "-f", "--json", "--action", "region.create"]).arg(&audit);
    let mut follower = command.stdout(Stdio::piped()).spawn().expect("kent runs");
    let mut printed = BufReader::new(follower.stdout.take().expect("piped")).lines();
    let mut regions = running.regions();
    for n in 1..=100 {
        regions.create_region(create(&format!("r{n}"))).await.expect("created");
        let line = printed.next().expect("a line").expect("read");
        let event: Value = serde_json::from_str(&line).expect("an object");
        assert_eq!(event["revision"], n);
    }
    follower.kill().expect("killed");
    follower.wait().expect("ended");
    let sizes = ["", ".1", ".2", ".3"].map(|end| {
        let path = format!("{}{end}", audit.display());
        fs::metadata(path).map_or(0, |file| file.len())
    });
    assert!(sizes[..3].iter().all(|size| (1..=4096).contains(size)) && sizes[3] == 0, "{sizes:?}");
}

#[tokio::test]
async fn err_a_log_that_cannot_be_written_stops_only_a_daemon_that_requires_it() {
    for is_required in ["false", "true"] {
        let dir = data_dir();
        let logs = dir.path().join("logs");
        fs::create_dir(&logs).expect("created");
        let audit = logs.join("audit.jsonl");
        let running = daemon(&dir.path().join("data"), &audit, &["--audit-required", is_required]);
        fs::remove_dir_all(&logs).expect("removed");
        let mut regions = running.regions();
        let made = regions.create_region(create("one")).await;
        if is_required == "true" {
            // The edit is made, but the daemon may stop before its answer arrives.
            let ended = tokio::time::timeout(Duration::from_secs(30), running.wait()).await.expect("it stops");
            assert!(!ended.success());
            continue;
        }
        made.expect("the edit is made");
        fs::create_dir(&logs).expect("created");
        regions.create_region(create("two")).await.expect("the edit is made");
        let lines = lines(&audit);
        assert_eq!(summary(&lines), ["audit.lost failed", "region.create done region:default/two"]);
        assert_eq!(lines[0]["count"], 1);
    }
}

#[test]
fn err_a_log_that_cannot_be_opened_keeps_the_daemon_from_starting() {
    let dir = data_dir();
    let missing = dir.path().join("missing/audit.jsonl");
    for (audit, expected) in [(&*missing, "cannot be written to"), (&dir.path().join("data/a"), "outside of")] {
        let data = dir.path().join("data");
        let output = kentd(&data).arg("--audit").arg(audit).output().expect("kentd runs");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains(expected), "{stderr}");
        assert!(!data.exists());
    }
    let (code, _, stderr) = run_at("127.0.0.1:1", &format!("audit tail {}", missing.display()));
    assert_eq!(code, 2);
    assert!(stderr.contains("cannot read the audit log"), "{stderr}");
}
