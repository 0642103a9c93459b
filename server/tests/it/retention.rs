//! Data that grows with requests: series, request IDs and edits. Each kind of data has a limit or expires. If a request
//! needs expired data, the refusal says so.

use std::{path::Path, process::Command, time::Duration};

use kent_ids::Uuid;
use kent_proto::v1::{
    AllocateRequest, CreateRegionRequest, Encoding, ExpandRegionRequest, GetRegionRequest, ListHistoryRequest, Policy,
    RenameRegionRequest, UpdateRegionRequest, WatchTableRequest,
};
use kent_test_etcd::Etcd;
use serde_json::Value;
use tokio::time::sleep;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{
    backup::{backup, create, restore, said},
    harness::{Daemon, Ledger, data_dir, identifiers, kentd, request},
    operator::kent_binary,
};

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

async fn take(daemon: &Daemon, ledger: &mut Ledger, source: &str, count: u64) -> Result<(), Status> {
    let reply = daemon.allocator().allocate(request(source, count, Encoding::Lease)).await?;
    ledger.record(source, identifiers(reply.get_ref()));
    Ok(())
}

/// The JSON output of `kent`, one object per line.
#[track_caller]
fn kent(daemon: &Daemon, arguments: &str) -> Vec<Value> {
    let mut command = Command::new(kent_binary());
    command.args(arguments.split(' ')).arg("--json").env("KENT_ENDPOINT", daemon.grpc_address());
    let output = command.output().expect("kent runs");
    assert!(output.status.success(), "{arguments}: {}", said(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn err_a_thousand_invented_symbols_do_not_block_other_series() {
    let data = data_dir();
    let mut ledger = Ledger::default();
    let mut daemon = Daemon::start(data.path());
    take(&daemon, &mut ledger, "serial:FIRST", 700).await.expect("granted");
    kent(&daemon, "series create serial:OURS serial:LATE");
    let mut created = 1;
    for number in 0..1100 {
        match take(&daemon, &mut ledger, &format!("serial:X{number}"), 1).await {
            Ok(()) => created += 1,
            Err(refused) => {
                assert_eq!((refused.code(), reason(&refused).as_str()), (Code::ResourceExhausted, "TOO_MANY_SERIES"));
                assert!(refused.message().contains("kent series create serial"), "{refused}");
            }
        }
    }
    assert_eq!(created, 1000);
    for _ in 0..2 {
        for source in ["serial:FIRST", "serial:OURS", "serial:LATE", "serial:X998", "uid11-fullrand"] {
            take(&daemon, &mut ledger, source, 700).await.expect(source);
        }
        take(&daemon, &mut ledger, "serial:X999", 1).await.expect_err("the limit is reached");
        daemon.kill();
        daemon = Daemon::start(data.path());
    }
    let listed = kent(&daemon, "series ls");
    assert_eq!(listed.iter().filter(|series| series["on_demand"] == true).count(), 1000);
    assert_eq!(listed.len(), 1002);
    // A forgotten series no longer counts toward the limit. When the series is created again, it continues where it
    // stopped, even after a restart.
    for round in 0..2 {
        let forgotten = kent(&daemon, "series forget serial:FIRST serial:OURS");
        assert!(forgotten[0]["reserved"].as_str().is_some_and(|reserved| reserved != "0"), "{forgotten:?}");
        if round == 1 {
            daemon.kill();
            daemon = Daemon::start(data.path());
        }
        take(&daemon, &mut ledger, "serial:FIRST", 700).await.expect("below the limit");
        take(&daemon, &mut ledger, "serial:OURS", 1).await.expect_err("only one place was free");
        kent(&daemon, "series create serial:OURS");
        take(&daemon, &mut ledger, "serial:OURS", 700).await.expect("made");
    }
}

async fn make_strict(daemon: &Daemon, region: &str) {
    create(daemon, region).await;
    let update = UpdateRegionRequest {
        name: format!("spaces/default/regions/{region}"),
        policy: Some(Policy { strict: true, ..Policy::default() }),
        ..UpdateRegionRequest::default()
    };
    daemon.regions().update_region(update).await.expect("strict");
}

/// Requests suffixes under a request ID.
async fn draw(daemon: &Daemon, request_id: &str) -> Result<Vec<u128>, Status> {
    let request =
        AllocateRequest { request_id: request_id.to_owned(), ..request("region:invoices", 2, Encoding::Packed) };
    let reply = daemon.allocator().allocate(request).await?;
    Ok(identifiers(reply.get_ref()).iter().map(|id| id & ((1 << 40) - 1)).collect())
}

fn forgetful(data: &Path) -> Daemon {
    Daemon::spawn(kentd(data).args(["--request-retention", "2s", "--history-keep", "5"]))
}

#[tokio::test]
async fn err_an_expired_request_id_is_refused_also_after_a_crash_and_a_restore() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let mut daemon = forgetful(&at("old"));
    make_strict(&daemon, "invoices").await;
    let reply = daemon.allocator().allocate(request("uuidv7", 1, Encoding::Packed)).await.expect("granted");
    let id = Uuid::from_u128(identifiers(reply.get_ref())[0]).to_string();
    assert_eq!(draw(&daemon, &id).await.expect("granted"), [0, 1]);
    assert_eq!(draw(&daemon, "order 1").await.expect("granted"), [2, 3]);
    let mut refused = None;
    for _ in 0..60 {
        match draw(&daemon, &id).await {
            Ok(again) => assert_eq!(again, [0, 1], "once"),
            Err(status) => {
                refused = Some(status);
                break;
            }
        }
        // Wait for one run of the expiry task.
        sleep(Duration::from_millis(500)).await;
        daemon.kill();
        daemon = forgetful(&at("old"));
    }
    let refused = refused.expect("it expires within half a minute");
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::FailedPrecondition, "REQUEST_TOO_OLD"));
    assert!(refused.message().contains("--request-retention"), "{refused}");
    backup(&daemon, &at("backup")).await;
    let more = ["--yes", "--table-unchanged", "--clock-error", "0s", "--floor", "region:invoices=4"];
    let done = restore(&at("backup"), &at("new"), &more);
    assert!(done.status.success(), "{}", said(&done));
    for daemon in [daemon, Daemon::start(&at("new"))] {
        let refused = draw(&daemon, &id).await.expect_err("expired");
        assert_eq!(reason(&refused), "REQUEST_TOO_OLD", "{refused}");
        assert_eq!(draw(&daemon, "order 1").await.expect("kept permanently"), [2, 3]);
        assert_eq!(draw(&daemon, "").await.expect("granted"), [4, 5], "a number was lost meanwhile");
    }
}

#[tokio::test]
async fn ok_the_number_of_kept_edits_does_not_change_across_a_restore() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let daemon = Daemon::start(&at("old"));
    let edit = async |daemon: &Daemon, round: u64| {
        let (parent, region) = ("spaces/default".to_owned(), |round: u64| format!("r{round}"));
        if round == 1 {
            let create =
                CreateRegionRequest { parent, region_id: region(1), suffix_bits: Some(40), ..Default::default() };
            return daemon.regions().create_region(create).await.map(drop).expect("created");
        }
        let name = format!("{parent}/regions/{}", region(round - 1));
        let rename = RenameRegionRequest { name, region_id: region(round), ..RenameRegionRequest::default() };
        daemon.regions().rename_region(rename).await.map(drop).expect("renamed");
    };
    for round in 1..=4 {
        edit(&daemon, round).await;
    }
    backup(&daemon, &at("backup")).await;
    daemon.kill();
    let done = restore(&at("backup"), &at("new"), &["--yes", "--table-unchanged", "--clock-error", "0s"]);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = forgetful(&at("new"));
    // A watch from before the restore cannot resume, because its revision is a million revisions behind.
    let watch = WatchTableRequest { parent: "spaces/default".to_owned(), after_revision: 4 };
    let mut events = daemon.regions().watch_table(watch).await.expect("4 is kept").into_inner();
    let refused = events.message().await.expect_err("it cannot resume");
    let facts = refused.get_details_error_info().map(|info| info.metadata).unwrap_or_default();
    assert_eq!(facts.get("resume_after").map(String::as_str), Some("0"), "{refused}");
    for round in 5..=7 {
        edit(&daemon, round).await;
    }
    let mut listed = Default::default();
    for _ in 0..300 {
        let list = ListHistoryRequest { parent: "spaces/default".to_owned(), ..ListHistoryRequest::default() };
        let history = daemon.regions().list_history(list).await.expect("listed").into_inner();
        let operations: Vec<_> = history.entries.iter().map(|entry| entry.operation.clone()).collect();
        listed = (history.forgotten_through, operations);
        // If the task runs between two of the edits, it deletes fewer records.
        if listed.0 >= 3 {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    let kept = ["rename", "rename", "rename", "restore", "rename"].map(str::to_owned).to_vec();
    assert_eq!(listed, (3, kept), "the revisions that the restore skips must not count as edits");
}

/// A UUID of version 7 with the current time.
async fn dated(daemon: &Daemon) -> String {
    let reply = daemon.allocator().allocate(request("uuidv7", 1, Encoding::Packed)).await.expect("granted");
    Uuid::from_u128(identifiers(reply.get_ref())[0]).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn err_a_replica_refuses_request_ids_that_another_has_expired() {
    let (etcd, dirs) = (Etcd::start(1), [data_dir(), data_dir()]);
    let address = etcd.address("kent");
    // This replica keeps everything for a month. Only the store tells this replica which records the other replica
    // has deleted.
    let patient = Daemon::spawn(kentd(dirs[0].path()).args(["--store", &address]));
    make_strict(&patient, "invoices").await;
    create(&patient, "orders").await;
    let (grant, edit) = (dated(&patient).await, dated(&patient).await);
    assert_eq!(draw(&patient, &grant).await.expect("granted"), [0, 1]);
    let name = "spaces/default/regions/orders".to_owned();
    let expand = ExpandRegionRequest { name, by_bits: 1, request_id: edit, ..ExpandRegionRequest::default() };
    let made = patient.regions().expand_region(expand.clone()).await.expect("expanded").into_inner().revision;
    for revision in made + 1..made + 7 {
        let (name, region_id) = ("spaces/default/regions/invoices".to_owned(), "invoices".to_owned());
        let policy = Some(Policy { strict: true, cap: (1000 + revision).to_string(), ..Policy::default() });
        let update = UpdateRegionRequest { name, policy, ..UpdateRegionRequest::default() };
        let updated = patient.regions().update_region(update).await.expect(&region_id).into_inner();
        assert_eq!(updated.revision, revision);
    }
    let forgets = ["--request-retention", "2s", "--history-keep", "5"];
    let _forgetful = Daemon::spawn(kentd(dirs[1].path()).args(["--store", &address]).args(forgets));
    let (mut refused, mut forgotten) = (None, 0);
    for _ in 0..150 {
        match draw(&patient, &grant).await {
            Ok(again) => assert_eq!(again, [0, 1], "once"),
            Err(status) => refused = Some(status),
        }
        let list = ListHistoryRequest { parent: "spaces/default".to_owned(), ..ListHistoryRequest::default() };
        let history = patient.regions().list_history(list).await.expect("listed").into_inner();
        forgotten = history.forgotten_through;
        if refused.is_some() && forgotten > made {
            break;
        }
        sleep(Duration::from_millis(200)).await;
    }
    let refused = refused.expect("it expires within half a minute");
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::FailedPrecondition, "REQUEST_TOO_OLD"));
    assert_eq!(forgotten, made + 1, "five edits are kept");
    let refused = patient.regions().expand_region(expand.clone()).await.expect_err("expired");
    assert_eq!(reason(&refused), "REQUEST_TOO_OLD", "{refused}");
    let get = GetRegionRequest { name: expand.name, ..GetRegionRequest::default() };
    let region = patient.regions().get_region(get).await.expect("there").into_inner();
    assert_eq!(region.suffix_bits, 41, "the region must be expanded exactly once");
    assert_eq!(draw(&patient, "").await.expect("granted"), [2, 3], "a number was lost meanwhile");
}
