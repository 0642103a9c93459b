//! The client crate against a real daemon.

use std::collections::HashSet;

use kent_client::Client;
use kent_proto::v1::CreateRegionRequest;

use super::harness::{Daemon, data_dir, kentd};

fn client(daemon: &Daemon) -> Client {
    Client::builder().endpoint(daemon.grpc_address()).block_size(1000).build().expect("valid")
}

#[tokio::test]
async fn ok_handles_give_out_what_their_source_issues() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let create = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "orders".to_owned(),
        suffix_bits: 40,
        prefix: Some("101".to_owned()),
        ..CreateRegionRequest::default()
    };
    daemon.regions().create_region(create).await.expect("created");
    let client = client(&daemon);
    let sevens = client.uuid_v7().take(2500).await.expect("granted");
    assert!(sevens.is_sorted_by(|a, b| a < b) && sevens.iter().all(|id| id.get_version_num() == 7));
    let sixes = client.uuid_v6().take(2500).await.expect("granted");
    assert!(sixes.is_sorted_by(|a, b| a < b) && sixes.iter().all(|id| id.get_version_num() == 6));
    let xids: HashSet<_> = client.xid().take(2500).await.expect("granted").into_iter().collect();
    assert_eq!(xids.len(), 2500);
    let orders = client.region("orders");
    for expected in 0..1500 {
        assert_eq!(orders.next().await.expect("granted"), (0b101 << 61) + expected);
    }
    let error = client.region("nowhere").next().await.expect_err("no such region");
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[tokio::test]
async fn ok_a_crash_and_restart_of_the_daemon_go_unnoticed_by_whoever_has_identifiers_in_hand() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let address = daemon.grpc_address().to_owned();
    let handle = client(&daemon).uuid_v7();
    let mut seen = HashSet::new();
    let mut take = async |count: usize| {
        for _ in 0..count {
            let id = handle.next().await.expect("no error reaches the caller");
            // The random tail would hide a position that was given out twice.
            assert!(seen.insert(id.as_u128() >> 46), "{id} was given out twice");
        }
    };
    take(100).await;
    daemon.kill();
    take(300).await;
    let mut again = kentd(data.path());
    again.args(["--listen", &address]);
    let _daemon = Daemon::spawn(&mut again);
    take(20_000).await;
}
