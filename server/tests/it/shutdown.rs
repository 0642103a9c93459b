//! Clean shutdowns, a second daemon on a store, and invalid configurations.

use std::{
    process::Command,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use futures_util::future::{join, join_all};
use kent_proto::v1::{CreateRegionRequest, Encoding, Policy, UpdateRegionRequest, allocate_stream_response::Outcome};
use tokio::io::AsyncWriteExt;

use super::harness::{Daemon, data_dir, identifiers, kentd, kentd_binary, request};

/// Creates a region whose first identifier is 2^63.
async fn create_invoices(daemon: &Daemon) {
    let create = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "invoices".to_owned(),
        suffix_bits: Some(40),
        prefix: Some("1".to_owned()),
        ..CreateRegionRequest::default()
    };
    daemon.regions().create_region(create).await.expect("created");
}

#[tokio::test]
async fn ok_sigterm_ends_streams_after_the_current_answer_and_leaves_no_gap() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    create_invoices(&daemon).await;
    let mut received = 0;
    let (requests, receiver) = tokio::sync::mpsc::channel(4);
    let outgoing = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut replies = daemon.allocator().allocate_stream(outgoing).await.expect("a stream").into_inner();
    for _ in 0..3 {
        requests.send(request("region:invoices", 5, Encoding::Packed)).await.expect("open");
        let reply = replies.message().await.expect("no error").expect("an answer");
        let Some(Outcome::Granted(granted)) = reply.outcome else { panic!("refused") };
        received += identifiers(&granted).len() as u128;
    }
    daemon.signal("TERM");
    assert!(replies.message().await.expect("a clean end").is_none());
    assert!(daemon.wait().await.success());
    let daemon = Daemon::start(data.path());
    let next = daemon.allocator().allocate(request("region:invoices", 1, Encoding::Packed)).await.expect("granted");
    assert_eq!(identifiers(next.get_ref())[0], (1 << 63) + received, "the exact counter was not written back");
}

#[tokio::test]
async fn ok_sigterm_loses_no_strict_grant_that_a_stream_waits_for() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    create_invoices(&daemon).await;
    let policy = Some(Policy { strict: true, ..Policy::default() });
    let name = "spaces/default/regions/invoices".to_owned();
    let update = UpdateRegionRequest { name, policy, ..UpdateRegionRequest::default() };
    daemon.regions().update_region(update).await.expect("updated");
    let ask = || request("region:invoices", 1, Encoding::Packed);
    let (allocator, granted) = (daemon.allocator(), &AtomicU64::new(0));
    let streams = join_all((0..24).map(|_| {
        let mut allocator = allocator.clone();
        async move {
            let (requests, receiver) = tokio::sync::mpsc::channel(1);
            let outgoing = tokio_stream::wrappers::ReceiverStream::new(receiver);
            let mut replies = allocator.allocate_stream(outgoing).await.expect("a stream").into_inner();
            while requests.send(ask()).await.is_ok()
                && let Some(reply) = replies.message().await.expect("a clean end")
            {
                let Some(Outcome::Granted(_)) = reply.outcome else { panic!("refused") };
                granted.fetch_add(1, Relaxed);
            }
        }
    }));
    let ending = async {
        while granted.load(Relaxed) < 1000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Send the signal on another thread, so that the streams continue meanwhile.
        thread::spawn(move || {
            daemon.signal("TERM");
            daemon
        })
    };
    let (_, signaled) = join(streams, ending).await;
    let daemon = signaled.join().expect("it was sent");
    assert!(daemon.wait().await.success());
    let daemon = Daemon::start(data.path());
    let next = daemon.allocator().allocate(ask()).await.expect("granted");
    let granted = u128::from(granted.load(Relaxed));
    assert_eq!(identifiers(next.get_ref())[0], (1 << 63) + granted, "a grant was lost");
}

/// These connections have not begun HTTP/2, so a stop has nothing to wait for.
#[tokio::test]
async fn ok_sigterm_does_not_wait_for_connections_that_have_not_begun() {
    let data = data_dir();
    let errors = data.path().join("errors");
    let mut command = kentd(&data.path().join("store"));
    // Less than the time within which a connection must begin.
    command.args(["--grace", "2s"]).stderr(std::fs::File::create(&errors).expect("created"));
    let daemon = Daemon::spawn(&mut command);
    let mut open = Vec::new();
    for first in ["", "P", "PRI", "PRI * HTTP/2.0\r\n"] {
        let mut stream = tokio::net::TcpStream::connect(daemon.grpc_address()).await.expect("connected");
        stream.write_all(first.as_bytes()).await.expect("sent");
        open.push(stream);
    }
    // A call on a later connection of each thread shows that the daemon has these connections.
    for _ in 0..8 {
        daemon.allocator().allocate(request("uuidv7", 1, Encoding::Lease)).await.expect("granted");
    }
    daemon.signal("TERM");
    assert!(daemon.wait().await.success());
    assert_eq!(std::fs::read_to_string(&errors).expect("read"), "", "the grace period has passed");
    drop(open);
}

#[tokio::test]
async fn ok_a_restart_after_a_clean_shutdown_reuses_the_slot() {
    let data = data_dir();
    let mut slots = Vec::new();
    for _ in 0..2 {
        let daemon = Daemon::start(data.path());
        let status =
            daemon.admin().get_status(kent_proto::v1::GetStatusRequest {}).await.expect("answered").into_inner();
        slots.push((status.slots[0].slot, status.slots[0].slot_epoch));
        daemon.signal("INT");
        assert!(daemon.wait().await.success());
    }
    assert_eq!(slots, [(0, 1), (0, 2)], "the same slot in another epoch");
}

#[test]
fn err_a_second_daemon_on_the_same_store_fails() {
    let data = data_dir();
    let _first = Daemon::start(data.path());
    let second = kentd(data.path()).output().expect("the command runs");
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("another") && said.contains(&*data.path().to_string_lossy()), "{said}");
}

#[test]
fn err_a_data_path_that_is_a_file_is_named() {
    let data = data_dir();
    let file = data.path().join("file");
    std::fs::write(&file, "not a store").expect("written");
    let refused = kentd(&file).output().expect("the command runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains(&*file.to_string_lossy()) && said.contains("directory"), "{said}");
}

#[track_caller]
fn check_usage(arguments: &[&str], expected: &str) {
    let refused = Command::new(kentd_binary()).args(arguments).output().expect("the command runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(matches!(refused.status.code(), Some(2 | 64)), "{arguments:?}: {:?}", refused.status);
    assert!(said.contains(expected), "{arguments:?}: {said}");
}

#[test]
fn err_invalid_configurations_are_refused_before_anything_is_opened() {
    check_usage(&["--listen", "0.0.0.0:0"], "--insecure");
    check_usage(&["--window", "1s"], "window is 1s, but must be 2s to 1h");
    check_usage(&["--listen", "nowhere"], "--listen");
    check_usage(&["--store", "paper"], "use `sled`, `memory` or etcd://");
    check_usage(&["--config", "does-not-exist.toml"], "does-not-exist.toml");
    check_usage(&["--log", "kentd=loud=1"], "log");
}

#[test]
fn ok_check_config_prints_the_effective_settings() {
    let mut command = Command::new(kentd_binary());
    let shown = command
        .args(["--check-config", "--grace", "3s"])
        .env("KENT_CHUNK_MIN", "7")
        .output()
        .expect("the command runs");
    let said = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success());
    assert!(said.contains("grace = \"3s\"") && said.contains("chunk-min = 7"), "{said}");
}
