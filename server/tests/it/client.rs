//! The client crate against a real daemon.

use std::collections::HashSet;

use kent_client::{
    Client, Error,
    regions::{Region, RegionNumber, Revision, Table},
};
use kent_proto::v1::{
    AddSubregionsRequest, CreateRegionRequest, NewRegion, RenameRegionRequest, SplitRegionRequest, UpdateRegionRequest,
};
use tonic::Code;

use super::harness::{Daemon, data_dir, kentd};

fn client(daemon: &Daemon) -> Client {
    Client::builder().endpoint(daemon.grpc_address()).block_size(1000).build().expect("valid")
}

#[tokio::test]
async fn ok_handles_return_identifiers_of_their_source() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let create = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "orders".to_owned(),
        suffix_bits: Some(40),
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
async fn ok_a_handle_bridges_a_crash_and_restart_of_the_daemon() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let address = daemon.grpc_address().to_owned();
    let handle = client(&daemon).uuid_v7();
    let mut seen = HashSet::new();
    let mut take = async |count: usize| {
        for _ in 0..count {
            let id = handle.next().await.expect("no error reaches the caller");
            // The random tail would hide a position that was issued twice.
            assert!(seen.insert(id.as_u128() >> 46), "{id} was issued twice");
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

#[tokio::test]
async fn ok_a_handle_follows_the_heirs_of_a_closed_region_if_configured() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    create(&daemon, "orders", 20).await;
    let [stays, follows] = [false, true].map(|follow| {
        let builder = Client::builder().endpoint(daemon.grpc_address()).block_size(10).follow_heirs(follow);
        builder.build().expect("valid").region("orders")
    });
    let mut seen = HashSet::new();
    for handle in [&stays, &follows] {
        assert!(seen.insert(handle.next().await.expect("granted")));
    }
    for (parent, heir) in [("orders", "eu"), ("eu", "de")] {
        let new_regions =
            vec![NewRegion { region_id: heir.to_owned(), extension: Some("0".to_owned()), ..NewRegion::default() }];
        let name = format!("spaces/default/regions/{parent}");
        let close = AddSubregionsRequest { name, by_bits: 1, new_regions, r#abstract: true, ..Default::default() };
        daemon.regions().add_subregions(close).await.expect("closed");
        for _ in 0..200 {
            assert!(seen.insert(follows.next().await.expect("from the heir")));
        }
    }
    assert!(seen.iter().all(|id| id >> 21 == seen.iter().min().expect("some") >> 21), "all are inside `orders`");
    let block = follows.fetch_block(5).await.expect("from the heir");
    assert!(block.into_iter().all(|id| seen.insert(id)));
    let error = stays.take(100).await.expect_err("closed");
    assert_eq!((error.heir().as_deref(), error.is_retryable()), (Some("region:de"), false));
    let Error::Refused { reason, message, .. } = error else { panic!("refused") };
    assert!(reason == "CLOSED" && message.contains("(kent alloc region:de@default)"), "{message}");
    // A request ID belongs to one region, which is closed. The heir would grant the request a second time.
    let refused = follows.fetch_block(1).request_id("once").await.expect_err("closed");
    assert_eq!(refused.heir().as_deref(), Some("region:de"), "{refused}");
}

/// All attributes of each region except its counter.
fn places(table: &Table) -> Vec<(u64, String, String, u8, Option<u64>, String)> {
    let place = |region: &Region| {
        let parent = region.parent().map(|parent| parent.0);
        let history = format!("{:?} {:?} {:?}", region.past(), region.since, region.texts());
        (region.number.0, region.name.to_string(), region.prefix.to_string(), region.suffix, parent, history)
    };
    table.iter().map(place).collect()
}

async fn create(daemon: &Daemon, name: &str, suffix_bits: u32) -> u64 {
    let (parent, region_id) = ("spaces/default".to_owned(), name.to_owned());
    let create =
        CreateRegionRequest { parent, region_id, suffix_bits: Some(suffix_bits), ..CreateRegionRequest::default() };
    daemon.regions().create_region(create).await.expect("created").into_inner().revision
}

#[tokio::test]
async fn ok_a_copy_of_a_table_follows_every_edit_and_answers_without_a_call() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let new_region = |name: &str, suffix_bits| NewRegion {
        region_id: name.to_owned(),
        suffix_bits: Some(suffix_bits),
        ..NewRegion::default()
    };
    create(&daemon, "orders", 20).await;
    let client = client(&daemon);
    let copy = client.table("default").await.expect("a snapshot");
    let orders: Vec<u128> = client.region("orders").take(500).await.expect("granted");
    for at in 0..300 {
        create(&daemon, &format!("r{at}"), 10).await;
    }
    let name = "spaces/default/regions/orders".to_owned();
    let new_regions = vec![new_region("returns", 20)];
    let split = SplitRegionRequest { name: name.clone(), by_bits: 2, new_regions, ..SplitRegionRequest::default() };
    daemon.regions().split_region(split).await.expect("split");
    let new_regions = vec![new_region("europe", 20), new_region("asia", 20)];
    let divide =
        AddSubregionsRequest { name: name.clone(), by_bits: 1, new_regions, ..AddSubregionsRequest::default() };
    daemon.regions().add_subregions(divide).await.expect("divided");
    let labels = [("team".to_owned(), "a".to_owned())].into();
    let update = UpdateRegionRequest { name: name.clone(), set_labels: labels, ..UpdateRegionRequest::default() };
    daemon.regions().update_region(update).await.expect("updated");
    let rename = RenameRegionRequest { name, region_id: "sales".to_owned(), ..RenameRegionRequest::default() };
    let renamed = daemon.regions().rename_region(rename).await.expect("renamed").into_inner();

    copy.reached(Revision(renamed.revision)).await;
    let fresh = client.table("default").await.expect("a snapshot");
    assert_eq!(copy.read(places), fresh.read(places));
    // The copy answers without an index at first, and later with one.
    loop {
        for id in &orders {
            let path = copy.read(|table| {
                let found = table.classify(*id).expect("an identifier of the space");
                found.path.iter().map(|region| region.name.clone()).collect::<Vec<_>>()
            });
            assert_eq!(path, ["sales", "europe"]);
            assert_eq!(copy.region_of(*id), Some(RegionNumber(303)));
        }
        if copy.read(|table| table.index().is_some()) {
            break;
        }
        tokio::task::yield_now().await;
    }

    // The copy resumes after a restart of the daemon.
    let address = daemon.grpc_address().to_owned();
    daemon.kill();
    assert_eq!(copy.region_of(orders[0]), Some(RegionNumber(303)));
    let daemon = Daemon::spawn(kentd(data.path()).args(["--listen", &address]));
    let revision = create(&daemon, "later", 10).await;
    copy.reached(Revision(revision)).await;
    assert_eq!(copy.read(places), client.table("default").await.expect("a snapshot").read(places));
    assert!(matches!(client.table("nowhere").await, Err(Error::Refused { code: Code::NotFound, .. })));
}

#[tokio::test]
async fn ok_a_copy_detects_another_table_with_the_same_revision() {
    let (data, other) = (data_dir(), data_dir());
    let daemon = Daemon::start(data.path());
    let address = daemon.grpc_address().to_owned();
    let copy = client(&daemon).table("default").await.expect("a snapshot");
    for name in ["a", "b"] {
        let revision = create(&daemon, name, 10).await;
        copy.reached(Revision(revision)).await;
    }
    daemon.kill();
    // This simulates an operator who has put back an old copy of the store, and then edited the table.
    let daemon = Daemon::spawn(kentd(other.path()).args(["--listen", &address]));
    create(&daemon, "x", 12).await;
    create(&daemon, "y", 12).await;
    let revision = create(&daemon, "z", 12).await;
    let update = UpdateRegionRequest {
        name: "spaces/default/regions/x".to_owned(),
        owner: Some("ops".to_owned()),
        ..UpdateRegionRequest::default()
    };
    let updated = daemon.regions().update_region(update).await.expect("updated").into_inner();
    assert_eq!(updated.revision, revision + 1);
    copy.reached(Revision(updated.revision)).await;
    let names = copy.read(|table| table.iter().map(|region| region.name.clone()).collect::<Vec<_>>());
    assert_eq!(names, ["x", "y", "z"]);
}
