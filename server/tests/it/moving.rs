//! `ImportTable`: all replicas get the imported regions with all their attributes, in one commit.

use std::time::Duration;

use kent_proto::v1::{
    Encoding, FormerPrefix, GetRegionRequest, GetSpaceRequest, ImportTableRequest, ListHistoryRequest, Region,
    UndoEditRequest,
    region::{Kind, Order},
};
use kent_test_etcd::Etcd;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use super::harness::{Daemon, data_dir, identifiers, kentd, request};

const SPACE: &str = "spaces/default";

fn full(name: &str) -> String {
    format!("{SPACE}/regions/{name}")
}

/// A region of the default space that has issued its suffixes below 1000. Its prefix is `number` in 8 bits.
fn region(name: &str, number: u32) -> Region {
    Region {
        name: full(name),
        prefix: format!("{number:08b}"),
        zone_bits: 16,
        suffix_bits: 40,
        kind: Kind::Open.into(),
        reserved: "1000".to_owned(),
        pace: 1 << 20,
        ..Region::default()
    }
}

fn import(regions: Vec<Region>) -> ImportTableRequest {
    ImportTableRequest { parent: SPACE.to_owned(), bits: 64, regions, ..ImportTableRequest::default() }
}

async fn draw(daemon: &Daemon, source: &str) -> Result<u128, Status> {
    let reply = daemon.allocator().allocate(request(source, 1, Encoding::Packed)).await?;
    Ok(identifiers(reply.get_ref())[0])
}

/// Waits up to half a minute until a replica has a region and has read its counter.
async fn arrived(daemon: &Daemon, name: &str) -> Region {
    let began = Instant::now();
    loop {
        match daemon.regions().get_region(GetRegionRequest { name: full(name), ..GetRegionRequest::default() }).await {
            Ok(region) if region.get_ref().reserved != "0" => return region.into_inner(),
            _ => assert!(began.elapsed() < Duration::from_secs(30), "{name} does not arrive"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_the_largest_import_is_one_commit_on_all_replicas() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let replica = || Daemon::spawn(kentd(data_dir().path()).args(["--store", &address, "--log", "error"]));
    let (one, other) = (replica(), replica());
    // Each region has a counter, and all of them together take almost 128 KiB.
    let long = |name: String, number| Region { description: "x".repeat(2600), ..region(&name, number) };
    let mut regions: Vec<Region> = (0..46).map(|number| long(format!("r{number}"), number)).collect();
    let split = FormerPrefix { prefix: "1".to_owned(), from_revision: 40, to_revision: 70, reserved: "9".to_owned() };
    regions.push(Region { order: Order::Scrambled.into(), former_prefixes: vec![split], ..region("split", 200) });
    regions.push(Region { delegated_space: "yes".to_owned(), reserved: "0".to_owned(), ..region("local", 201) });
    let request = ImportTableRequest { request_id: "a name".to_owned(), ..import(regions) };
    for _ in 0..2 {
        let made = one.regions().import_table(request.clone()).await.expect("imported").into_inner();
        assert_eq!((made.base_revision, made.revision, made.changes.len()), (0, 1, 48), "once for each request ID");
    }
    assert_eq!(arrived(&other, "r45").await.description.len(), 2600);
    let split = arrived(&other, "split").await;
    assert_eq!((&*split.reserved, &*split.former_prefixes[0].prefix), ("1024", "1"), "the next octave");
    for daemon in [&one, &other] {
        let first = draw(daemon, "region:r45").await.expect("granted");
        assert!((45 << 56) + 1000 <= first, "{first:x}");
        let space = GetSpaceRequest { name: format!("{SPACE}/local") };
        assert_eq!(daemon.regions().get_space(space).await.expect("a space").into_inner().bits, 40);
        let list = ListHistoryRequest { parent: SPACE.to_owned(), ..ListHistoryRequest::default() };
        let entries = daemon.regions().list_history(list).await.expect("a history").into_inner().entries;
        assert_eq!((entries.len(), &*entries[0].operation, entries[0].changes.len()), (1, "import", 48));
    }
}

#[tokio::test]
async fn err_an_import_is_refused_as_a_whole() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let good = || region("good", 1);
    let issued = Region { reserved: (1u128 << 41).to_string(), ..region("bad", 2) };
    for (request, code, says) in [
        (import(vec![]), Code::InvalidArgument, "at least one region"),
        (
            ImportTableRequest { bits: 32, ..import(vec![good()]) },
            Code::InvalidArgument,
            "import into a space of 32 bits",
        ),
        (import(vec![good(), good()]), Code::AlreadyExists, "\"good\" already exists"),
        (import(vec![good(), region("bad", 1)]), Code::FailedPrecondition, "its prefix exists twice"),
        (import(vec![good(), issued]), Code::FailedPrecondition, "more suffixes are issued than it can hold"),
        (ImportTableRequest { expected_revision: 7, ..import(vec![good()]) }, Code::Aborted, "revision"),
    ] {
        let refused = daemon.regions().import_table(request).await.expect_err(says);
        assert_eq!(refused.code(), code, "{refused}");
        assert!(refused.message().contains(says), "{refused}");
    }
    let both = import(vec![good(), region("other", 2)]);
    let rehearsal = ImportTableRequest { validate_only: true, ..import(vec![good()]) };
    daemon.regions().import_table(rehearsal).await.expect("rehearsed");
    let space = daemon.regions().get_space(GetSpaceRequest { name: SPACE.to_owned() }).await.expect("a space");
    assert_eq!((space.get_ref().revision, space.get_ref().region_count), (0, 0));
    daemon.regions().import_table(both).await.expect("imported");
    let undo = UndoEditRequest { name: SPACE.to_owned(), ..UndoEditRequest::default() };
    let refused = daemon.regions().undo_edit(undo.clone()).await.expect_err("they have issued");
    assert!(refused.message().contains("issued or reserved in region \"good\""), "{refused}");
    let unused = |name: &str, number| Region { reserved: "0".to_owned(), ..region(name, number) };
    daemon.regions().import_table(import(vec![unused("a", 3), unused("b", 4)])).await.expect("imported");
    daemon.regions().undo_edit(undo).await.expect("both are unused");
    let space = daemon.regions().get_space(GetSpaceRequest { name: SPACE.to_owned() }).await.expect("a space");
    assert_eq!((space.get_ref().revision, space.get_ref().region_count), (3, 2));
}
