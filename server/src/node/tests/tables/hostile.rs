//! Attempts to make daemons issue an identifier twice, found by adversarial code review.

use kent_issue::Stored;
use kent_proto::v1::{
    AddSubregionsRequest, DeleteRegionRequest, ImportTableRequest, NewRegion, ShrinkRegionRequest, SplitRegionRequest,
    UndoEditRequest,
};
use kent_regions::RegionNumber;

use super::*;

async fn update(node: &Node, update: UpdateRegionRequest) -> Result<(), Status> {
    node.regions().update_region(Request::new(UpdateRegionRequest { name: name(), ..update })).await.map(drop)
}

async fn set_strict(node: &Node, strict: bool) {
    let policy_mask = Some(kent_proto::v1::FieldMask { paths: vec!["strict".to_owned()] });
    let policy = Some(Policy { strict, ..Policy::default() });
    update(node, UpdateRegionRequest { policy, policy_mask, ..Default::default() }).await.expect("set");
}

/// Writes a lower counter, as if etcd had been rolled back, and other replicas had then reserved suffixes.
async fn roll_back(disk: &MemoryStore, number: u64, reserved: u128) {
    let key = keys::counter("default", number);
    let counter = read_counter(disk, &key).await.expect("read").value;
    let lower = kent_proto::stored::Counter { reserved: Count::Below(reserved), ..counter };
    disk.commit(Txn::new().put(key, kent_proto::stored::encode_counter(&lower))).await.expect("committed");
}

/// A strict region keeps no chunk, but the daemon knows what it has granted, even from the time when the region was not
/// strict.
#[tokio::test]
async fn err_a_strict_region_does_not_continue_below_what_its_daemon_has_granted() {
    for (before, after) in [(true, true), (true, false), (false, true)] {
        let disk = disk();
        let node = start(&disk, small_chunks()).await;
        make(&node, 32, 4).await;
        set_strict(&node, before).await;
        let mut granted = Vec::new();
        for _ in 0..5 {
            granted.push(draw(&node).await.expect("granted"));
        }
        set_strict(&node, after).await;
        roll_back(&disk, get(&node).await.number, 2).await;
        for _ in 0..3 {
            if let Ok(number) = draw(&node).await {
                assert!(!granted.contains(&number), "{number} was granted twice ({before} {after})");
                granted.push(number);
            }
        }
        assert_eq!(granted.len(), 5, "nothing is granted from a store that was rolled back ({before} {after})");
    }
}

/// A deletion would free the prefix, and another region could issue the granted number again.
#[tokio::test]
async fn err_a_region_is_not_deleted_if_its_daemon_has_granted_more_than_the_store_says() {
    for strict in [false, true] {
        let disk = disk();
        let node = start(&disk, small_chunks()).await;
        make(&node, 32, 4).await;
        set_strict(&node, strict).await;
        draw(&node).await.expect("granted");
        roll_back(&disk, get(&node).await.number, 0).await;
        let delete = DeleteRegionRequest { name: name(), ..DeleteRegionRequest::default() };
        node.regions().delete_region(Request::new(delete)).await.expect_err("one of its numbers was issued");
    }
}

/// A script with a fixed request ID creates a region whose numbers below `--next` are in use, and runs again with
/// another `--next`.
#[tokio::test]
async fn err_a_request_id_of_a_new_region_is_not_used_again_for_another_counter() {
    let node = start(&disk(), small_chunks()).await;
    let create = |next: u128, region: &str, id: &str| CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: region.to_owned(),
        suffix_bits: Some(20),
        next: Some(next.into()),
        request_id: id.to_owned(),
        ..CreateRegionRequest::default()
    };
    let regions = node.regions();
    regions.create_region(Request::new(create(50, "r", "c"))).await.expect("created");
    draw(&node).await.expect("granted");
    for (next, fits) in [(50, true), (7, true), (5000, false)] {
        let again = regions.create_region(Request::new(create(next, "r", "c"))).await;
        assert_eq!(again.is_ok(), fits, "{next}");
    }
    let new = |next: u128, region: &str, extension: &str| NewRegion {
        region_id: region.to_owned(),
        suffix_bits: Some(4),
        extension: Some(extension.to_owned()),
        next: Some(next.into()),
        ..NewRegion::default()
    };
    regions.create_region(Request::new(create(0, "s", ""))).await.expect("created");
    let name = || "spaces/default/regions/s".to_owned();
    for (next, fits) in [(3, true), (3, true), (4, false)] {
        let new_regions = vec![new(next, "t", "1")];
        let request_id = "split".to_owned();
        let split = SplitRegionRequest { name: name(), by_bits: 1, new_regions, request_id, ..Default::default() };
        assert_eq!(regions.split_region(Request::new(split)).await.is_ok(), fits, "{next}");
    }
    for (next, fits) in [(9, true), (9, true), (10, false)] {
        let new_regions = vec![new(next, "u", "0"), new(0, "v", "1")];
        let request_id = "divide".to_owned();
        let divide = AddSubregionsRequest { name: name(), by_bits: 1, new_regions, request_id, ..Default::default() };
        assert_eq!(regions.add_subregions(Request::new(divide)).await.is_ok(), fits, "{next}");
    }
    // The region `w` closes after its creation, and its heir continues the counter.
    regions.create_region(Request::new(create(5, "w", "w"))).await.expect("created");
    let new_regions = vec![new(0, "x", "0"), new(0, "y", "1")];
    let new_regions = new_regions.into_iter().map(|new| NewRegion { suffix_bits: Some(20), ..new }).collect();
    let name = "spaces/default/regions/w".to_owned();
    let divide = AddSubregionsRequest { name, by_bits: 1, new_regions, ..Default::default() };
    regions.add_subregions(Request::new(divide)).await.expect("divided");
    regions.create_region(Request::new(create(5, "w", "w"))).await.expect("made before");
    regions.create_region(Request::new(create(6, "w", "w"))).await.expect_err("another number");
}

/// The answer to a creation was lost, and the client retries on another replica, which does not know the counter yet.
#[tokio::test]
async fn ok_a_creation_with_a_counter_is_repeated_at_a_replica_that_does_not_know_the_counter() {
    let disk = disk();
    let (one, other) = (start(&disk, Settings::default()).await, start(&disk, Settings::default()).await);
    let create = |next: u128| CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "r".to_owned(),
        suffix_bits: Some(20),
        next: Some(next.into()),
        request_id: "c".to_owned(),
        ..CreateRegionRequest::default()
    };
    let made = one.regions().create_region(Request::new(create(50))).await.expect("created").into_inner();
    let directory = other.engine().directory();
    let space = directory.by_key("default").expect("there");
    directory.refresh(&space).await.expect("read");
    let number = RegionNumber(get(&one).await.number);
    for (next, fits) in [(50, true), (51, false)] {
        let version = read_counter(&disk, &keys::counter("default", number.0)).await.expect("read").version;
        space.set_reserved(number, Stored { version, value: Count::ZERO });
        let again = other.regions().create_region(Request::new(create(next))).await;
        assert_eq!(again.is_ok(), fits, "{next}");
        if let Ok(again) = again {
            assert_eq!(again.into_inner(), made);
        }
    }
}

/// Numbers are declared as issued while another replica has a chunk of these numbers. The record of the edit is removed
/// before that replica reads it, so the replica reads the whole table.
#[tokio::test]
async fn ok_a_replica_that_reads_a_whole_table_again_drops_its_chunks() {
    let disk = disk();
    let (one, other) = (start(&disk, Settings::default()).await, start(&disk, Settings::default()).await);
    make(&one, 32, 4).await;
    time::sleep(Duration::from_millis(200)).await;
    assert_eq!(draw(&other).await.expect("from its chunk"), 0);
    let record = keys::histories("default");
    disk.plan(move |operation| match operation {
        Operation::Scan(prefix) if prefix.starts_with(&record) => Fault::Unavailable,
        _ => Fault::None,
    });
    let next = Some(kent_proto::v1::Uint128 { high: 0, low: 5000 });
    update(&one, UpdateRegionRequest { next, ..Default::default() }).await.expect("declared");
    let revision = one.engine().directory().find("default").expect("there").read(Table::revision);
    disk.commit(Txn::new().delete(keys::history("default", revision.0, 0))).await.expect("removed");
    assert_eq!(draw(&other).await.expect("from its chunk"), 1, "the other replica does not know the edit yet");
    disk.plan(|_| Fault::None);
    let space = other.engine().directory().find("default").expect("there");
    other.engine().directory().refresh(&space).await.expect("read");
    assert!(draw(&other).await.expect("granted") >= 5000, "suffixes below 5000 count as issued");
}

/// Another replica has reserved suffixes, but the watch was interrupted and has missed the reservation. An export may
/// be imported elsewhere, so it must not contain an outdated counter.
#[tokio::test]
async fn ok_an_exact_list_has_counters_that_no_watch_has_reported() {
    let disk = disk();
    let node = start(&disk, Settings::default()).await;
    make(&node, 32, 4).await;
    time::sleep(Duration::from_millis(200)).await;
    // There is no pause between the change and the compaction in which the watch could report the change.
    let (number, counter) = (get(&node).await.number, kent_proto::stored::Counter::NEW);
    let reserved = kent_proto::stored::Counter { reserved: Count::Below(1024), ..counter };
    let record = kent_proto::stored::encode_counter(&reserved);
    disk.commit(Txn::new().put(keys::counter("default", number), record)).await.expect("committed");
    disk.compact();
    time::sleep(Duration::from_millis(200)).await;
    assert_eq!(list_exactly(&node).await, [("r".to_owned(), "1024".to_owned(), false)]);
}

/// The names of all regions, their counters, and whether they need a floor.
async fn list_exactly(node: &Node) -> Vec<(String, String, bool)> {
    let parent = "spaces/default".to_owned();
    let list = ListRegionsRequest { parent, exact_counters: true, ..ListRegionsRequest::default() };
    let regions = node.regions().list_regions(Request::new(list)).await.expect("listed").into_inner().regions;
    let short = |name: String| name.rsplit('/').next().unwrap_or_default().to_owned();
    regions.into_iter().map(|region| (short(region.name), region.reserved, region.needs_floor)).collect()
}

/// A region of a restored store issues nothing until an operator declares a floor. The same applies to a copy of the
/// region that is imported into another store.
#[tokio::test]
async fn err_an_imported_region_needs_a_floor_if_it_says_so() {
    for (of_region, reserved) in [(false, "0"), (false, "7"), (true, "0"), (true, "7")] {
        let node = start(&disk(), Settings::default()).await;
        let region = Region {
            name: name(),
            prefix: "01".to_owned(),
            zone_bits: 54,
            suffix_bits: 8,
            kind: kent_proto::v1::region::Kind::Open.into(),
            pace: 1 << 20,
            reserved: reserved.to_owned(),
            needs_floor: of_region,
            ..Region::default()
        };
        let parent = "spaces/default".to_owned();
        let import = ImportTableRequest { parent, bits: 64, regions: vec![region], ..Default::default() };
        node.regions().import_table(Request::new(import)).await.expect("imported");
        assert_eq!(list_exactly(&node).await, [("r".to_owned(), reserved.to_owned(), of_region)]);
        assert_eq!(draw(&node).await.is_err(), of_region, "{reserved}");
        if of_region {
            let next = Some(kent_proto::v1::Uint128 { high: 0, low: 9 });
            update(&node, UpdateRegionRequest { next, ..Default::default() }).await.expect("a floor");
            assert_eq!(list_exactly(&node).await, [("r".to_owned(), "9".to_owned(), false)]);
            assert_eq!(draw(&node).await.expect("granted") & 0xff, 9);
        }
    }
}

/// A restore seals the only region. By unsealing the region, the operator confirms that the table is correct. An undo
/// must not confirm that.
#[tokio::test]
async fn err_a_restore_is_not_undone() {
    let disk = disk();
    let node = start(&disk, Settings::default()).await;
    make(&node, 40, 4).await;
    node.stop().await;
    let lapse = Lapse { since: UnixNanos::new(0), until: UnixNanos::new(1_000_000_000) };
    let lost = Some(Restored { lapse, tables_edited: true });
    let records = disk.scan(&kent_store::Key::ROOT).await.expect("read");
    let records = records.into_iter().map(|(key, versioned)| (key, versioned.value)).collect();
    let now = UnixNanos::new(1_000_000_000);
    let copy = crate::maintenance::restore::Copy { operation: "restore", now, lost, older: None, floors: &[] };
    let restored = crate::maintenance::restore::Restore::of(records, now, &copy, &SystemEntropy).expect("planned");
    let disk = MemoryStore::new(StoreId::new([4; 16]));
    for (key, value) in restored.into_records() {
        disk.commit(Txn::new().put(key, value)).await.expect("committed");
    }
    let node = start(&disk, Settings::default()).await;
    assert!(get(&node).await.sealed);
    let undo = |name: &str| Request::new(UndoEditRequest { name: name.to_owned(), ..Default::default() });
    for of in ["spaces/default", &name()] {
        let refused = node.regions().undo_edit(undo(of)).await.expect_err("only its operator knows the table");
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    }
    assert!(get(&node).await.sealed);
}

/// The answer to an edit that depends on the counter is lost, so the table is read again. The region has a cap, so the
/// daemon then returns its chunk. Returning the chunk must not block the edit or later edits of the space.
#[tokio::test]
async fn ok_an_edit_of_a_capped_region_without_an_answer_ends() {
    let disk = disk();
    let node = start(&disk, small_chunks()).await;
    make(&node, 20, 4).await;
    let policy = Some(Policy { cap: "9".to_owned(), ..Policy::default() });
    update(&node, UpdateRegionRequest { policy, ..Default::default() }).await.expect("set");
    draw(&node).await.expect("granted");
    disk.plan(|operation| match operation {
        Operation::Commit(txn) if txn.writes().iter().any(|(key, _)| key.starts_with(&keys::SPACES)) => {
            Fault::AppliedUnknown
        }
        _ => Fault::None,
    });
    let shrink = ShrinkRegionRequest { name: name(), by_bits: 1, ..ShrinkRegionRequest::default() };
    let shrunk = time::timeout(Duration::from_secs(10), node.regions().shrink_region(Request::new(shrink))).await;
    shrunk.expect("it ends").expect("it was made");
    assert_eq!(get(&node).await.suffix_bits, 19);
}
