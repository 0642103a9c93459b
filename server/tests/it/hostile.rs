//! Attempts to make a daemon issue an identifier twice, found by adversarial code review.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use kent_client::Client;
use kent_proto::v1::{Encoding, UpdateRegionRequest};
use kent_test_etcd::Etcd;
use tokio::{task::JoinSet, time::timeout};

use super::{
    backup::{create, restore, said},
    disk::SmallDisk,
    harness::{Daemon, Ledger, data_dir, identifiers, keep_home, kentd, kentd_binary, request},
};

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(done.success());
}

async fn take(daemon: &Daemon, ledger: &mut Ledger) {
    let reply = daemon.allocator().allocate(request("region:orders", 100, Encoding::Packed)).await.expect("granted");
    ledger.record("region:orders", identifiers(reply.get_ref()));
}

/// A script declares two different numbers under the same request ID. The daemon must not answer the second declaration
/// with the result of the first. Strict grants also refuse a repeated request ID with another count.
#[tokio::test]
async fn err_a_request_id_of_an_edit_is_not_used_again_for_another_number() {
    let dir = data_dir();
    let daemon = Daemon::start(&dir.path().join("data"));
    create(&daemon, "orders").await;
    let declare = |next: u128| UpdateRegionRequest {
        name: "spaces/default/regions/orders".to_owned(),
        next: Some(next.into()),
        request_id: "used-numbers".to_owned(),
        ..UpdateRegionRequest::default()
    };
    daemon.regions().update_region(declare(5000)).await.expect("declared");
    if daemon.regions().update_region(declare(9000)).await.is_ok() {
        let reply = daemon.allocator().allocate(request("region:orders", 1, Encoding::Lease)).await.expect("granted");
        let id = identifiers(reply.get_ref())[0] & ((1 << 40) - 1);
        assert!(id >= 9000, "the call said that all numbers below 9000 are in use, and {id} was issued");
    }
}

/// An operator copies an archive to a larger disk, and configures the daemon to use the copy. The old directory lacks
/// all later commits, but does not record that. A later restore from the old directory must not treat it as complete.
#[tokio::test]
async fn err_an_archive_that_the_daemon_has_left_for_a_copy_is_not_restored_as_complete() {
    let dir = data_dir();
    let at = |name: &str| dir.path().join(name);
    let start =
        |archive: &str| Daemon::try_spawn(kentd(&at("data")).arg("--archive").arg(at(archive)).stderr(Stdio::null()));
    fs::create_dir(at("first")).expect("made");
    let mut ledger = Ledger::default();
    let daemon = start("first").expect("started");
    create(&daemon, "orders").await;
    take(&daemon, &mut ledger).await;
    // The copy is made while the daemon runs, so it lacks the commits after this point.
    copy(&at("first"), &at("larger"));
    for _ in 0..30 {
        take(&daemon, &mut ledger).await;
    }
    daemon.kill();
    let Some(daemon) = start("larger") else { return };
    for _ in 0..30 {
        take(&daemon, &mut ledger).await;
    }
    daemon.kill();
    let restored = restore(&at("first"), &at("new"), &["--archive", "--yes"]);
    if restored.status.success() {
        let daemon = Daemon::start(&at("new"));
        take(&daemon, &mut ledger).await;
        panic!("the incomplete archive was restored without skipping identifiers");
    }
}

/// Tasks share a handle, and drop their futures at arbitrary moments.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ok_dropped_futures_of_a_shared_handle_repeat_nothing() {
    let dir = data_dir();
    let daemon = Daemon::start(&dir.path().join("data"));
    create(&daemon, "orders").await;
    let client =
        Client::builder().endpoint(daemon.grpc_address()).block_size(7).block_size_max(50).build().expect("valid");
    let (orders, sevens) = (client.region("orders"), client.uuid_v7());
    let mut tasks = JoinSet::new();
    for task in 0..8_u64 {
        let (orders, sevens) = (orders.clone(), sevens.clone());
        tasks.spawn(async move {
            let (mut numbers, mut uuids) = (Vec::new(), Vec::new());
            for round in 0..1500_u64 {
                let patience = Duration::from_micros((round * 37 + task * 101) % 900);
                match round % 4 {
                    0 => numbers.extend(timeout(patience, orders.next()).await.ok().and_then(Result::ok)),
                    1 => numbers.extend(
                        timeout(patience, orders.take(31)).await.ok().and_then(Result::ok).into_iter().flatten(),
                    ),
                    2 => uuids.extend(timeout(patience, sevens.next()).await.ok().and_then(Result::ok)),
                    _ => uuids.extend(
                        timeout(patience, sevens.take(13)).await.ok().and_then(Result::ok).into_iter().flatten(),
                    ),
                }
            }
            (numbers, uuids)
        });
    }
    let mut ledger = Ledger::default();
    for (numbers, uuids) in tasks.join_all().await {
        ledger.record("region:orders", numbers);
        ledger.record("uuidv7", uuids.into_iter().map(|uuid| uuid.as_u128()));
    }
    assert!(ledger.len() > 5000, "only {} identifiers were received", ledger.len());
}

/// A replica is started before the move, so `kentd migrate` refuses the prefix. The operator deletes the keys with this
/// prefix and repeats the command while the replica hangs. (The announcement of a running replica would make the move
/// fail again.) When the replica resumes, it must not continue in the moved store as if it were the deleted one.
#[tokio::test(flavor = "multi_thread")]
async fn err_a_replica_does_not_continue_in_another_store_under_the_same_prefix() {
    let (dir, etcd) = (data_dir(), Etcd::start(1));
    let (data, address) = (dir.path().join("data"), etcd.address("kent"));
    let daemon = Daemon::start(&data);
    create(&daemon, "orders").await;
    daemon.signal("TERM");
    daemon.wait().await;
    let replica = || Daemon::spawn(kentd(&dir.path().join("unused")).args(["--store", &address]));
    let early = replica();
    let migrate = || {
        let mut command = Command::new(kentd_binary());
        keep_home(&mut command);
        let from = format!("sled:{}", data.display());
        command.args(["migrate", "--from", &from, "--to", &address, "--yes"]).output().expect("the command runs")
    };
    let refused = migrate();
    assert!(!refused.status.success() && said(&refused).contains("already holds a store"), "{}", said(&refused));
    early.pause();
    let removed = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .arg(format!("--endpoints={}", etcd.clients()[0]))
        .args(["del", "--prefix", "kent/"])
        .stdout(Stdio::null())
        .status();
    assert!(removed.expect("etcdctl runs").success());
    let moved = migrate();
    assert!(moved.status.success(), "{}", said(&moved));
    early.resume();
    let late = replica();
    // The early replica must extend its window, which is possible only in the moved store.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let mut ledger = Ledger::default();
    let many = |daemon: &Daemon| {
        let mut client = daemon.allocator();
        async move { client.allocate(request("xid", 60_000, Encoding::Packed)).await }
    };
    for _ in 0..20 {
        let (one, other) = tokio::join!(many(&early), many(&late));
        for reply in [one, other].into_iter().flatten() {
            ledger.record("xid", identifiers(reply.get_ref()));
        }
    }
}

/// A running replica reads a counter below the numbers that it has issued, because the records were deleted, or because
/// etcd was rolled back and the replica has not detected it yet.
#[tokio::test(flavor = "multi_thread")]
async fn err_a_replica_does_not_reserve_below_what_it_has_issued() {
    let (dir, etcd) = (data_dir(), Etcd::start(1));
    let replica = Daemon::spawn(kentd(&dir.path().join("unused")).args(["--store", &etcd.address("kent")]));
    let mut ledger = Ledger::default();
    let take = async |count| replica.allocator().allocate(request("uid11-fullrand", count, Encoding::Packed)).await;
    ledger.record("uid11-fullrand", identifiers(take(100).await.expect("granted").get_ref()));
    let removed = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .arg(format!("--endpoints={}", etcd.clients()[0]))
        .args(["del", "--prefix", "kent/data/series/"])
        .stdout(Stdio::null())
        .status();
    assert!(removed.expect("etcdctl runs").success());
    // This count exceeds the rest of the chunk.
    if let Ok(reply) = take(3000).await {
        ledger.record("uid11-fullrand", identifiers(reply.get_ref()));
    }
}

/// After a reboot, the data disk is not mounted. By default, the witness is in the first of several candidate
/// directories that is not on the data disk. The empty mount point is on the same disk as the witness, so by default
/// the daemon would look for a witness in another directory.
#[tokio::test]
async fn err_an_empty_mount_point_is_not_a_new_store_with_two_state_directories() {
    let (dir, other) = (data_dir(), tempfile::tempdir_in("/dev/shm").expect("another file system"));
    let (data, state, home) = (dir.path().join("disk"), dir.path().join("service"), other.path().join("home"));
    fs::create_dir(&data).expect("a mount point");
    let Some(disk) = SmallDisk::mount(&data) else {
        eprintln!("skipped: this machine does not allow mounting a disk in a user namespace");
        return;
    };
    let start = |mut command: Command| {
        command.env("STATE_DIRECTORY", &state).env("XDG_STATE_HOME", &home).stderr(Stdio::null());
        Daemon::try_spawn(&mut command)
    };
    let take = async |daemon: &Daemon| {
        let reply = daemon.allocator().allocate(request("serial:INVOICE", 3, Encoding::Packed)).await;
        identifiers(reply.expect("granted").get_ref())
    };
    let mut ledger = Ledger::default();
    let daemon = start(disk.run(&kentd(&data))).expect("started");
    ledger.record("serial:INVOICE", take(&daemon).await);
    daemon.kill();
    // Outside of the namespace, the disk is not mounted.
    if let Some(daemon) = start(kentd(&data)) {
        ledger.record("serial:INVOICE", take(&daemon).await);
    }
}
