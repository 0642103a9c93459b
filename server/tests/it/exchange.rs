//! Replicas stop and issue nothing more when their etcd is replaced or rolled back.

use std::{
    fs::{self, File},
    path::Path,
    time::Duration,
};

use kent_proto::v1::{CreateRegionRequest, Encoding};
use kent_test_etcd::Etcd;
use tokio::time::timeout;

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

/// Calls `keep`, issues many chunks on two replicas, calls `set_back`, and checks that both replicas stop.
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
        let ended = timeout(Duration::from_secs(30), daemon.wait()).await.expect("it stops");
        assert_eq!(ended.code(), Some(1), "the exit code does not report a failure");
        // In the log, the flight recorder's events follow the error.
        let log = fs::read_to_string(log(number)).expect("readable");
        let events = log.split_once("an invariant is broken").map(|(_, after)| after).unwrap_or_default();
        assert!(events.contains("kentd::flight: recorded event") && events.contains("slot-taken"), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn err_a_restored_snapshot_stops_the_replicas() {
    check(|etcd| etcd.save_snapshot(), |etcd, kept| etcd.restore_snapshot(kept, "another")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn err_old_data_of_the_only_member_stops_the_replicas() {
    check(|etcd| etcd.copy_data(0), |etcd, kept| etcd.put_back_data(0, kept)).await;
}
