//! Bounds on large operations: backups, old tables, spaces.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use kent_proto::v1::{
    BackupPart, BackupRequest, CreateRegionRequest, CreateSpaceRequest, DelegateRegionRequest, ListRegionsRequest,
    UpdateRegionRequest, admin_client::AdminClient, backup_part::Part, regions_client::RegionsClient,
    regions_server::Regions,
};
use kent_store::{Fault, MemoryStore, Operation, StoreId};
use kentd::{Config, Environment, Node, Settings, clock::SystemClock, entropy::SystemEntropy};
use prost::Message;
use tonic::{
    Code, Request, Streaming,
    transport::{Channel, Endpoint},
};

use super::harness::{Daemon, data_dir, kentd_binary};

const SPACE: &str = "spaces/default";

fn create(number: u32) -> CreateRegionRequest {
    let (parent, region_id) = (SPACE.to_owned(), format!("r{number:03}"));
    CreateRegionRequest { parent, region_id, suffix_bits: Some(20), ..CreateRegionRequest::default() }
}

/// Edits until the store has several megabytes, more than the buffers between the daemon and a stalled reader can hold.
async fn fill(regions: &mut RegionsClient<Channel>) {
    regions.create_region(create(0)).await.expect("created");
    for round in 0..400 {
        let description = Some(format!("{round}").repeat(1000));
        let name = format!("{SPACE}/regions/r000");
        let update = UpdateRegionRequest { name, description, ..UpdateRegionRequest::default() };
        regions.update_region(update).await.expect("updated");
    }
}

/// A client with small flow-control windows, which buffers little data.
fn reader(daemon: &Daemon) -> AdminClient<Channel> {
    const WINDOW: u32 = 65_535;
    let endpoint = Endpoint::from_shared(format!("http://{}", daemon.grpc_address())).expect("an address");
    let endpoint = endpoint.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
    AdminClient::new(endpoint.connect_lazy())
}

async fn rest(parts: &mut Streaming<BackupPart>, bytes: &mut Vec<u8>) {
    while let Some(part) = parts.message().await.expect("a whole backup") {
        bytes.extend(part.encode_length_delimited_to_vec());
    }
}

async fn names(regions: &mut RegionsClient<Channel>) -> Vec<String> {
    let list = ListRegionsRequest { parent: SPACE.to_owned(), page_size: 1000, ..ListRegionsRequest::default() };
    let listed = regions.list_regions(list).await.expect("listed").into_inner().regions;
    listed.into_iter().map(|region| region.name).collect()
}

#[tokio::test]
async fn ok_a_backup_is_a_consistent_snapshot_and_concurrent_backups_are_limited() {
    let dir = data_dir();
    let daemon = Daemon::start(&dir.path().join("old"));
    let mut regions = daemon.regions();
    fill(&mut regions).await;
    let mut bytes = Vec::new();
    let mut parts = reader(&daemon).backup(BackupRequest {}).await.expect("a backup").into_inner();
    loop {
        let part = parts.message().await.expect("a part").expect("not the end");
        bytes.extend(part.encode_length_delimited_to_vec());
        if matches!(part.part, Some(Part::Records(_))) {
            break;
        }
    }
    // The backup does not contain later edits.
    let before = names(&mut regions).await;
    for number in 1..20 {
        regions.create_region(create(number)).await.expect("created");
    }
    let other = reader(&daemon).backup(BackupRequest {}).await.expect("another");
    let third = reader(&daemon).backup(BackupRequest {}).await.expect_err("too many");
    assert_eq!(third.code(), Code::ResourceExhausted, "{third}");
    assert!(third.message().contains("2 Backup calls"), "{third}");
    drop(other);
    // The daemon cancels the dropped backup once it detects the closed stream.
    let mut third = loop {
        match reader(&daemon).backup(BackupRequest {}).await {
            Ok(parts) => break parts.into_inner(),
            Err(status) => assert_eq!(status.code(), Code::ResourceExhausted, "{status}"),
        }
    };
    rest(&mut third, &mut Vec::new()).await;
    rest(&mut parts, &mut bytes).await;
    daemon.kill();

    let file = dir.path().join("backup");
    std::fs::write(&file, bytes).expect("written");
    let mut restore = std::process::Command::new(kentd_binary());
    restore.arg("restore").arg(&file).arg("--data").arg(dir.path().join("new")).args(["--yes", "--table-unchanged"]);
    let restored = restore.output().expect("the command runs");
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let daemon = Daemon::start(&dir.path().join("new"));
    assert_eq!(names(&mut daemon.regions()).await, before);
}

#[tokio::test]
async fn err_spaces_beyond_the_limit_are_refused() {
    let store = Arc::new(MemoryStore::new(StoreId::new([7; 16])));
    let node = node(store).await;
    let regions = node.regions();
    // The default space counts as well.
    let make = |number: u32| CreateSpaceRequest { space_id: format!("s{number}"), bits: 64, ..Default::default() };
    for number in 1..10_000 {
        regions.create_space(Request::new(make(number))).await.expect("created");
    }
    let refused = regions.create_space(Request::new(make(10_000))).await.expect_err("one too many");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    regions.create_region(Request::new(create(1))).await.expect("created");
    let delegate = DelegateRegionRequest { name: format!("{SPACE}/regions/r001"), ..Default::default() };
    let refused = regions.delegate_region(Request::new(delegate)).await.expect_err("one too many");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    node.abandon().await;
}

async fn node(store: Arc<MemoryStore>) -> Node {
    let environment = Environment { store, clock: Arc::new(SystemClock::new()), entropy: Arc::new(SystemEntropy) };
    Node::start(environment, &Config::check(Settings::default()).expect("good")).await.expect("started")
}

#[tokio::test]
async fn ok_pages_of_an_old_table_read_the_history_once() {
    const EDITS: u32 = 30;
    let (store, scans) = (MemoryStore::new(StoreId::new([7; 16])), Arc::new(AtomicU32::new(0)));
    let counted = scans.clone();
    store.plan(move |operation| {
        if matches!(operation, Operation::Scan(prefix) if prefix.as_str().starts_with("history/")) {
            counted.fetch_add(1, Relaxed);
        }
        Fault::None
    });
    let node = node(Arc::new(store)).await;
    let regions = node.regions();
    for number in 0..EDITS {
        regions.create_region(Request::new(create(number))).await.expect("created");
    }
    scans.store(0, Relaxed);
    let (at_revision, mut page_token, mut seen) = (u64::from(EDITS / 2), String::new(), Vec::new());
    loop {
        let (parent, page_size) = (SPACE.to_owned(), 4);
        let list = ListRegionsRequest { parent, page_size, page_token, at_revision, ..Default::default() };
        let page = regions.list_regions(Request::new(list)).await.expect("a page").into_inner();
        assert_eq!(page.revision, at_revision);
        seen.extend(page.regions.into_iter().map(|region| region.name));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
        // The current table changes meanwhile.
        regions.create_region(Request::new(create(EDITS + seen.len() as u32))).await.expect("created");
    }
    seen.sort();
    let expected: Vec<_> = (0..EDITS / 2).map(|number| format!("{SPACE}/regions/r{number:03}")).collect();
    assert_eq!(seen, expected);
    assert_eq!(
        scans.load(Relaxed),
        EDITS - EDITS / 2,
        "the history must be scanned once per later edit, and not per page"
    );
    node.stop().await;
}
