//! Replicas issue nothing more when their etcd is replaced or rolled back, and wait for an operator.

use std::{
    fs::{self, File},
    path::Path,
    time::Duration,
};

use kent_proto::v1::{CreateRegionRequest, Encoding};
use kent_test_etcd::Etcd;
use tokio::time::{sleep, timeout};

use super::harness::{Daemon, Ledger, data_dir, identifiers, kentd, request};

const SOURCES: [&str; 3] = ["uuidv7", "region:orders", "uid11-fullrand"];

fn replica(etcd: &Etcd, log: &Path) -> Daemon {
    let mut command = kentd(data_dir().path());
    let command = command.args(["--store", &etcd.address("kent"), "--window", "20s", "--log", "error"]);
    Daemon::spawn(command.stderr(File::create(log).expect("created")))
}

async fn draw(daemon: &Daemon, ledger: &mut Ledger, count: u64) {
    for source in SOURCES {
        if let Ok(granted) = daemon.allocator().allocate(request(source, count, Encoding::Packed)).await {
            ledger.record(source, identifiers(granted.get_ref()));
        }
    }
}

/// Calls `keep`, issues many chunks on two replicas, calls `set_back`, and checks that both replicas issue nothing more,
/// but end only when an operator stops them.
async fn check(keep: impl FnOnce(&mut Etcd) -> std::path::PathBuf, set_back: impl FnOnce(&mut Etcd, &Path)) {
    let mut etcd = Etcd::start(1);
    let logs = data_dir();
    let log = |replica: usize| logs.path().join(replica.to_string());
    let replicas = [0, 1].map(|number| replica(&etcd, &log(number)));
    let orders = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "orders".to_owned(),
        suffix_bits: Some(40),
        ..CreateRegionRequest::default()
    };
    replicas[0].regions().create_region(orders).await.expect("created");
    let mut ledger = Ledger::default();
    let kept = keep(&mut etcd);
    // Draw enough identifiers to make both replicas reserve many chunks.
    for _ in 0..20 {
        for daemon in &replicas {
            draw(daemon, &mut ledger, 5000).await;
        }
    }
    set_back(&mut etcd, &kept);
    for (number, daemon) in replicas.into_iter().enumerate() {
        let stopped = async {
            while !daemon.get("/readyz").1.contains("stopped issuing identifiers for good") {
                draw(&daemon, &mut ledger, 1).await;
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(Duration::from_secs(30), stopped).await.expect("it stops issuing");
        let issued = ledger.len();
        draw(&daemon, &mut ledger, 1).await;
        assert_eq!((ledger.len(), daemon.get("/livez").0), (issued, 200), "it serves, but issues nothing");
        daemon.signal("TERM");
        let ended = timeout(Duration::from_secs(30), daemon.wait()).await.expect("it stops");
        assert_eq!(ended.code(), Some(1), "the exit code does not report a failure");
        // In the log, the flight recorder's events follow the error.
        let log = fs::read_to_string(log(number)).expect("readable");
        let events = log.split_once("an invariant is broken").map(|(_, after)| after).unwrap_or_default();
        assert!(events.contains("kentd::flight: recorded event") && events.contains("slot-taken"), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn err_after_a_restored_snapshot_replicas_issue_nothing() {
    check(|etcd| etcd.save_snapshot(), |etcd, kept| etcd.restore_snapshot(kept, "another")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn err_with_old_data_of_the_only_member_replicas_issue_nothing() {
    check(|etcd| etcd.copy_data(0), |etcd, kept| etcd.put_back_data(0, kept)).await;
}

/// An etcd that lost its data looks like a new one. A witness remembers the store that was there.
#[tokio::test(flavor = "multi_thread")]
async fn err_an_emptied_etcd_is_not_a_new_store_for_a_witness() {
    let mut etcd = Etcd::start(1);
    let empty = etcd.copy_data(0);
    let witness = data_dir();
    let command = |more: &[&str]| {
        let mut command = kentd(data_dir().path());
        command.args(["--store", &etcd.address("kent"), "--witness", &witness.path().display().to_string()]).args(more);
        command
    };
    let (mut first, mut again, mut anyway) = (command(&[]), command(&[]), command(&["--new-store"]));
    Daemon::spawn(&mut first).kill();
    etcd.put_back_data(0, &empty);
    let refused = again.output().expect("kentd runs");
    let message = String::from_utf8_lossy(&refused.stderr);
    let place = etcd.address("kent");
    assert!(!refused.status.success() && message.contains("was there before, with a start count of 1"), "{message}");
    assert!(message.contains(&format!("kentd --store {place} --new-store")), "{message}");
    Daemon::spawn(&mut anyway).kill();
}
