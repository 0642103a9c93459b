//! Deletions on several daemons: a deletion and a concurrent reservation cannot both succeed, and no number or key is
//! used twice.

use kent_proto::v1::{DelegateRegionRequest, DeleteRegionRequest, DeleteSpaceRequest, GetSpaceRequest, Space};
use kent_store::Key;

use super::*;

const SPACE: &str = "spaces/s";

async fn delete(node: &Node) -> Result<(), Status> {
    let delete = DeleteRegionRequest { name: name(), ..DeleteRegionRequest::default() };
    node.regions().delete_region(Request::new(delete)).await.map(drop)
}

async fn delete_space(node: &Node, name: &str) -> Result<Space, Status> {
    let delete = DeleteSpaceRequest { name: name.to_owned(), validate_only: false };
    node.regions().delete_space(Request::new(delete)).await.map(tonic::Response::into_inner)
}

async fn create_space(node: &Node, bits: u32) -> Result<Space, Status> {
    let create = CreateSpaceRequest { space_id: "s".to_owned(), bits, ..CreateSpaceRequest::default() };
    node.regions().create_space(Request::new(create)).await.map(tonic::Response::into_inner)
}

async fn create_in(node: &Node, space: &str) -> Result<Region, Status> {
    let create = CreateRegionRequest {
        parent: space.to_owned(),
        region_id: "r".to_owned(),
        suffix_bits: Some(4),
        ..CreateRegionRequest::default()
    };
    let made = node.regions().create_region(Request::new(create)).await?.into_inner();
    Ok(made.region.expect("a region"))
}

/// Delays commits that write a key below this prefix.
fn delay(disk: &MemoryStore, prefix: Key) {
    disk.plan(move |operation| match operation {
        Operation::Commit(txn) if txn.writes().iter().any(|(key, _)| key.starts_with(&prefix)) => {
            Fault::DelayBefore(Box::pin(time::sleep(Duration::from_millis(300))))
        }
        _ => Fault::None,
    });
}

/// Waits long enough for the replicas to know each other's edits.
async fn settle() {
    time::sleep(Duration::from_millis(200)).await;
}

#[tokio::test]
async fn ok_a_deletion_that_commits_first_prevents_a_reservation_of_another_replica() {
    let disk = disk();
    let (one, other) = (start(&disk, small_chunks()).await, start(&disk, small_chunks()).await);
    make(&one, 20, 4).await;
    settle().await;
    let number = get(&one).await.number;
    // The reservation is planned before the deletion, and its commit arrives after the deletion.
    delay(&disk, keys::COUNTERS);
    let (drawn, deleted) = join(draw(&other), async {
        time::sleep(Duration::from_millis(100)).await;
        delete(&one).await
    })
    .await;
    deleted.expect("nothing was reserved");
    assert_eq!(drawn.expect_err("deleted").code(), Code::NotFound);
    disk.plan(|_| Fault::None);
    // The prefix is used again, but the region's number is not. This also holds for the replica that learns of the
    // deletion late.
    make(&other, 20, 4).await;
    settle().await;
    assert_eq!(get(&other).await.number, number + 1);
    assert_eq!(draw(&one).await.expect("granted"), draw(&other).await.expect("granted") - 1);
    let counter = read_counter(&disk, &keys::counter("default", number)).await.expect("read");
    assert_eq!(counter.version, 0);
}

#[tokio::test]
async fn ok_a_reservation_that_commits_first_prevents_a_deletion_on_another_replica() {
    let disk = disk();
    let (one, other) = (start(&disk, small_chunks()).await, start(&disk, small_chunks()).await);
    make(&one, 20, 4).await;
    settle().await;
    // The deletion is planned before the reservation, and its commit arrives after the reservation.
    delay(&disk, keys::SPACES);
    let (deleted, drawn) = join(delete(&one), async {
        time::sleep(Duration::from_millis(100)).await;
        draw(&other).await
    })
    .await;
    drawn.expect("granted");
    let refused = deleted.expect_err("one is issued");
    assert!(refused.message().contains("issued or reserved"), "{refused}");
    disk.plan(|_| Fault::None);
    draw(&one).await.expect("it is still there");
}

#[tokio::test]
async fn err_a_region_that_has_issued_is_not_deleted_on_any_replica() {
    let disk = disk();
    let (one, other) = (start(&disk, Settings::default()).await, start(&disk, Settings::default()).await);
    make(&one, 20, 4).await;
    settle().await;
    draw(&other).await.expect("from a chunk");
    // Another replica may still grant from its chunk.
    delete(&one).await.expect_err("one is issued");
    delete(&other).await.expect_err("one is issued");
}

#[tokio::test]
async fn err_after_a_restore_a_new_region_needs_a_floor_before_it_is_deleted() {
    let disk = disk();
    restored(&disk).await;
    let node = start(&disk, Settings::default()).await;
    make(&node, 8, 8).await;
    assert_eq!(delete(&node).await.expect_err("the floor is unknown").code(), Code::FailedPrecondition);
    set_next(&node, 0).await;
    delete(&node).await.expect("none is in use");
}

/// A restore may have lost regions in the space of a delegated region. These regions may have issued suffixes of the
/// delegated region.
#[tokio::test]
async fn err_after_a_restore_the_end_of_a_delegation_needs_a_floor() {
    let disk = disk();
    let delegate = DelegateRegionRequest { name: name(), ..DelegateRegionRequest::default() };
    let node = start(&disk, Settings::default()).await;
    make(&node, 8, 8).await;
    // Give the counter a record, which a restore keeps.
    set_next(&node, 0).await;
    node.regions().delegate_region(Request::new(delegate)).await.expect("delegated");
    node.stop().await;
    restored(&disk).await;
    let node = start(&disk, Settings::default()).await;
    delete_space(&node, "spaces/default/r").await.expect("it is empty");
    let refused = draw(&node).await.expect_err("the floor is unknown");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    set_next(&node, 7).await;
    assert_eq!(draw(&node).await.expect("granted") & 0xff, 7);
}

async fn restored(disk: &MemoryStore) {
    let lapse = Lapse { since: UnixNanos::new(0), until: UnixNanos::new(1_000_000_000) };
    let restores = encode_restores(&[Restored { lapse, tables_edited: true }]);
    disk.commit(Txn::new().put(keys::RESTORES, restores)).await.expect("committed");
}

async fn set_next(node: &Node, next: u64) {
    let next = Some(kent_proto::v1::Uint128 { high: 0, low: next });
    let update = UpdateRegionRequest { name: name(), next, ..UpdateRegionRequest::default() };
    node.regions().update_region(Request::new(update)).await.expect("set");
}

#[tokio::test]
async fn ok_replicas_follow_the_deletion_of_a_space_and_a_new_one_of_its_name() {
    let disk = disk();
    let (one, other) = (start(&disk, Settings::default()).await, start(&disk, Settings::default()).await);
    create_space(&one, 20).await.expect("created");
    settle().await;
    let made = create_in(&other, SPACE).await.expect("created");
    assert_eq!(delete_space(&one, SPACE).await.expect_err("it has a region").code(), Code::FailedPrecondition);
    let delete = DeleteRegionRequest { name: made.name, ..DeleteRegionRequest::default() };
    one.regions().delete_region(Request::new(delete)).await.expect("deleted");
    delete_space(&other, SPACE).await.expect("it is empty");
    // An edit reads the store, so it does not depend on the changes that this replica has already received.
    assert_eq!(create_in(&one, SPACE).await.expect_err("deleted").code(), Code::NotFound);
    assert_eq!(create_space(&one, 130).await.expect_err("too wide").code(), Code::InvalidArgument);
    let again = create_space(&one, 40).await.expect("created again");
    assert_eq!((again.bits, again.region_count, again.revision), (40, 0, 3));
    settle().await;
    for node in [&one, &other] {
        let get = GetSpaceRequest { name: SPACE.to_owned() };
        assert_eq!(node.regions().get_space(Request::new(get)).await.expect("there").into_inner(), again);
    }
    let second = create_in(&other, SPACE).await.expect("created");
    assert_eq!(second.number, made.number + 1);
    // A daemon that starts later reads the same table.
    let third = start(&disk, Settings::default()).await;
    let list = ListRegionsRequest { parent: SPACE.to_owned(), ..ListRegionsRequest::default() };
    let regions = third.regions().list_regions(Request::new(list)).await.expect("listed").into_inner().regions;
    assert_eq!(regions.iter().map(|region| region.number).collect::<Vec<_>>(), [second.number]);
}

#[tokio::test]
async fn ok_a_new_region_and_the_deletion_of_its_space_do_not_both_succeed() {
    let disk = disk();
    let (one, other) = (start(&disk, Settings::default()).await, start(&disk, Settings::default()).await);
    create_space(&one, 20).await.expect("created");
    settle().await;
    delay(&disk, keys::regions("s"));
    let (made, deleted) = join(create_in(&one, SPACE), async {
        time::sleep(Duration::from_millis(100)).await;
        delete_space(&other, SPACE).await
    })
    .await;
    deleted.expect("it was empty");
    assert_eq!(made.expect_err("deleted").code(), Code::NotFound);
}

/// A region is created in the space of a delegated region while another replica ends the delegation. If both succeeded,
/// the new region and the delegated region would grant the same suffixes.
#[tokio::test]
async fn ok_a_new_region_and_the_end_of_the_delegation_around_it_do_not_both_succeed() {
    for deletion_is_late in [true, false] {
        let disk = disk();
        let (one, other) = (start(&disk, Settings::default()).await, start(&disk, Settings::default()).await);
        make(&one, 20, 4).await;
        let delegate = DelegateRegionRequest { name: name(), ..DelegateRegionRequest::default() };
        one.regions().delegate_region(Request::new(delegate)).await.expect("delegated");
        settle().await;
        let (inner, key) = ("spaces/default/r", keys::inner_space("default", get(&one).await.number));
        let make_one = async |node: &Node| create_in(node, inner).await.map(drop);
        let end = async |node: &Node| delete_space(node, inner).await.map(drop);
        delay(&disk, if deletion_is_late { keys::regions("default") } else { keys::regions(&key) });
        let pause = time::sleep(Duration::from_millis(100));
        let (late, early) = match deletion_is_late {
            true => join(end(&one), async { (pause.await, make_one(&other).await).1 }).await,
            false => join(make_one(&other), async { (pause.await, end(&one).await).1 }).await,
        };
        early.expect("it was first");
        late.expect_err("the other was first");
    }
}

/// The answer to the commit of a deletion is lost, or the commit itself is lost.
#[tokio::test]
async fn ok_a_deletion_of_a_space_without_an_answer_is_looked_up_in_the_store() {
    let disk = disk();
    let node = start(&disk, Settings::default()).await;
    create_space(&node, 20).await.expect("created");
    let lose = |fault: fn() -> Fault| {
        disk.plan(move |operation| match operation {
            Operation::Commit(txn) if txn.writes().iter().any(|(key, _)| *key == keys::space("s")) => fault(),
            _ => Fault::None,
        });
    };
    lose(|| Fault::LostUnknown);
    assert_eq!(delete_space(&node, SPACE).await.expect_err("no answer").code(), Code::Unknown);
    lose(|| Fault::AppliedUnknown);
    delete_space(&node, SPACE).await.expect("it was made");
    disk.plan(|_| Fault::None);
    assert_eq!(delete_space(&node, SPACE).await.expect_err("gone").code(), Code::NotFound);
    create_space(&node, 30).await.expect("created again");
}
