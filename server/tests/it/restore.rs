//! Restores: whatever was issued between a backup and its restore is skipped, by construction, or nothing is issued at all.

use std::{path::Path, process::Command};

use kent_proto::v1::{CreateRegionRequest, Encoding, Policy, UpdateRegionRequest};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{
    backup::{backup, create, issue, restore, said, unseal},
    clocks::libfaketime,
    harness::{Daemon, Ledger, data_dir, identifiers, kentd, request},
};

/// Nothing but what the promise rests on: an operator who knows that clocks are right, and edited no table.
const KNOWN: [&str; 5] = ["--yes", "--table-unchanged", "--clock-error", "0s", "--dry-run"];

async fn take(daemon: &Daemon, ledger: &mut Ledger, source: &str, count: u64) {
    let reply = daemon.allocator().allocate(request(source, count, Encoding::Lease)).await.expect(source);
    ledger.record(source, identifiers(reply.get_ref()));
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

async fn refusal(daemon: &Daemon, source: &str) -> (Code, String) {
    let refused = daemon.allocator().allocate(request(source, 1, Encoding::Packed)).await.expect_err(source);
    (refused.code(), reason(&refused))
}

/// A daemon whose clock differs from the machine's.
fn faked(command: &mut Command, offset: &str) {
    command.env("LD_PRELOAD", libfaketime()).env("FAKETIME", offset).env("FAKETIME_NO_CACHE", "1");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
}

#[tokio::test]
async fn ok_a_backup_is_restored_twice_and_nothing_is_issued_twice() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let mut ledger = Ledger::default();
    let mut daemon = Daemon::start(&at("old"));
    create(&daemon, "orders").await;
    backup(&daemon, &at("backup")).await;
    // Series that the backup has never heard of, and far more than was ever issued before it.
    for round in ["one", "two", "three"] {
        take(&daemon, &mut ledger, "uid11-fullrand", 4_000_000).await;
        take(&daemon, &mut ledger, "region:orders", 4_000_000).await;
        take(&daemon, &mut ledger, "serial:NEW", 1000).await;
        daemon.kill();
        let done = restore(&at("backup"), &at(round), &KNOWN[..4]);
        assert!(done.status.success(), "{}", said(&done));
        daemon = Daemon::start(&at(round));
    }
    take(&daemon, &mut ledger, "uid11-fullrand", 1000).await;
    take(&daemon, &mut ledger, "region:orders", 1000).await;
    take(&daemon, &mut ledger, "serial:NEW", 1000).await;
    // A restored store's own backup knows that a series may have been lost before.
    backup(&daemon, &at("second")).await;
    daemon.kill();
    let done = restore(&at("second"), &at("four"), &KNOWN[..4]);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&at("four"));
    take(&daemon, &mut ledger, "serial:NEW", 1000).await;
    take(&daemon, &mut ledger, "uid11-fullrand", 1000).await;
}

#[tokio::test]
async fn ok_a_counter_that_may_have_issued_all_waits_for_a_floor() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&at("old"));
    let region = |name: &str, suffix_bits| CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: name.to_owned(),
        suffix_bits,
        ..CreateRegionRequest::default()
    };
    for name in ["small", "invoices"] {
        daemon.regions().create_region(region(name, 20)).await.expect("created");
    }
    let name = "spaces/default/regions/invoices".to_owned();
    let policy = Some(Policy { strict: true, ..Policy::default() });
    let strict = UpdateRegionRequest { name: name.clone(), policy, ..UpdateRegionRequest::default() };
    daemon.regions().update_region(strict).await.expect("strict");
    backup(&daemon, &at("backup")).await;
    take(&daemon, &mut ledger, "region:small", 5000).await;
    take(&daemon, &mut ledger, "region:invoices", 70).await;
    daemon.regions().create_region(region("lost", 20)).await.expect("created");
    take(&daemon, &mut ledger, "region:lost", 100).await;
    daemon.kill();

    let shown = restore(&at("backup"), &at("new"), &KNOWN);
    assert!(said(&shown).contains("region:small: 0 -> unknown"), "{}", said(&shown));
    assert!(said(&shown).contains("--floor region:small=N"), "{}", said(&shown));
    let floor = ["--yes", "--clock-error", "0s", "--floor", "region:invoices=70"];
    for (wrong, why) in [("region:nowhere=5", "no such region"), ("region:small=1048577", "only 1048576 numbers")] {
        let refused = restore(&at("backup"), &at("new"), &["--yes", "--floor", wrong]);
        assert!(!refused.status.success() && said(&refused).contains(why), "{}", said(&refused));
    }
    let done = restore(&at("backup"), &at("new"), &floor);
    assert!(done.status.success(), "{}", said(&done));
    let daemon = Daemon::start(&at("new"));
    for region in ["small", "invoices"] {
        daemon.regions().unseal_region(unseal(region)).await.expect("unsealed");
    }
    assert_eq!(refusal(&daemon, "region:small").await, (Code::FailedPrecondition, "FLOOR_UNKNOWN".to_owned()));
    take(&daemon, &mut ledger, "region:invoices", 3).await;
    // The operator repeats what was lost: how much of it had been issued, only an operator can know.
    daemon.regions().create_region(region("lost", 20)).await.expect("created");
    assert_eq!(refusal(&daemon, "region:lost").await, (Code::FailedPrecondition, "FLOOR_UNKNOWN".to_owned()));
    for (region, next) in [("small", 5000_u64), ("lost", 100)] {
        let name = format!("spaces/default/regions/{region}");
        let next = Some(u128::from(next).into());
        let floor = UpdateRegionRequest { name, next, ..UpdateRegionRequest::default() };
        daemon.regions().update_region(floor).await.expect("a floor");
        take(&daemon, &mut ledger, &format!("region:{region}"), 1000).await;
    }
}

#[tokio::test]
async fn ok_a_host_whose_clock_is_an_hour_behind_issues_nothing_until_it_has_caught_up() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let mut ledger = Ledger::default();
    let daemon = Daemon::start(&at("old"));
    create(&daemon, "orders").await;
    backup(&daemon, &at("backup")).await;
    issue(&daemon, &mut ledger, 2).await;
    daemon.kill();
    let behind = |data: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kentd"));
        command.arg("restore").arg(at("backup")).arg("--data").arg(data).args(["--yes", "--table-unchanged"]);
        faked(&mut command, "-3500s");
        command.output().expect("it ran")
    };
    let done = behind(&at("new"));
    assert!(done.status.success() && said(&done).contains("nothing is issued for 1h"), "{}", said(&done));

    let mut command = kentd(&at("new"));
    faked(command.args(["--log", "off"]), "-3500s");
    let daemon = Daemon::spawn(&mut command);
    for source in ["uid11-fullrand", "region:orders"] {
        assert_eq!(refusal(&daemon, source).await, (Code::Unavailable, "RESTORED".to_owned()));
    }
    assert_eq!(refusal(&daemon, "xid").await, (Code::Unavailable, "NO_SLOT".to_owned()));
    daemon.kill();
    // Its clock was behind the backup, so the hour counts from the backup on. It has caught up.
    let mut command = kentd(&at("new"));
    faked(command.args(["--log", "off"]), "+3700s");
    let daemon = Daemon::spawn(&mut command);
    issue(&daemon, &mut ledger, 2).await;
}

#[tokio::test]
async fn ok_a_counter_keeps_its_pace() {
    let dir = data_dir();
    let daemon = Daemon::start(&dir.path().join("data"));
    let slow = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "slow".to_owned(),
        suffix_bits: 40,
        pace: 2,
        ..CreateRegionRequest::default()
    };
    daemon.regions().create_region(slow).await.expect("created");
    let mut client = daemon.allocator();
    client.allocate(request("region:slow", 2048, Encoding::Lease)).await.expect("a burst");
    let refused = client.allocate(request("region:slow", 2000, Encoding::Lease)).await.expect_err("too fast");
    assert_eq!((refused.code(), reason(&refused)), (Code::ResourceExhausted, "TOO_FAST".to_owned()));
    let wait = refused.get_details_retry_info().and_then(|info| info.retry_delay).expect("a delay");
    assert!((900..=1000).contains(&wait.as_secs()), "{wait:?}");
    let refused = client.allocate(request("region:slow", 2049, Encoding::Lease)).await.expect_err("never");
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    // A kill -9 does not make it faster.
    daemon.kill();
    let daemon = Daemon::start(&dir.path().join("data"));
    let refused =
        daemon.allocator().allocate(request("region:slow", 100, Encoding::Lease)).await.expect_err("too fast");
    assert_eq!(reason(&refused), "TOO_FAST");
}
