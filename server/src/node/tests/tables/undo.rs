//! Reversals on several daemons: a counter that returns to a reopened region, and prefixes that a restore may have
//! lost.

use kent_proto::v1::{
    AddSubregionsRequest, NewRegion, SealRegionRequest, SplitRegionRequest, Uint128, UndoEditRequest,
};

use super::*;

fn undo() -> Request<UndoEditRequest> {
    Request::new(UndoEditRequest { name: "spaces/default".to_owned(), ..UndoEditRequest::default() })
}

fn new_region(name: &str, extension: &str) -> NewRegion {
    NewRegion {
        region_id: name.to_owned(),
        suffix_bits: Some(20),
        extension: Some(extension.to_owned()),
        ..NewRegion::default()
    }
}

async fn draw_from(node: &Node, region: &str) -> u128 {
    let request = AllocateRequest { source: format!("region:{region}"), count: 1, ..Default::default() };
    let answer = node.allocator().allocate(Request::new(request)).await.expect("granted").into_inner();
    let Some(Identifiers::Lease(lease)) = answer.identifiers else { panic!("a lease") };
    kent_ids::Block::try_from(lease).expect("a block").first().get()
}

/// Both daemons have chunks of the region, then of its heir in one round, then of the region again.
#[tokio::test]
async fn ok_a_counter_that_comes_back_repeats_nothing() {
    let disk = disk();
    let (one, other) = (start(&disk, Settings::default()).await, start(&disk, Settings::default()).await);
    make(&one, 20, 4).await;
    time::sleep(Duration::from_millis(200)).await;
    let mut drawn = Vec::new();
    for round in 0..3 {
        for node in [&one, &other, &one, &other] {
            drawn.push(draw_from(node, "r").await);
        }
        let new_regions = vec![new_region("zero", "0"), new_region("one", "1")];
        let divide = AddSubregionsRequest { name: name(), by_bits: 1, new_regions, ..Default::default() };
        one.regions().add_subregions(Request::new(divide)).await.expect("divided");
        time::sleep(Duration::from_millis(200)).await;
        let editor = if round == 1 { &one } else { &other };
        if round == 2 {
            drawn.push(draw_from(&other, "zero").await);
            let refused = one.regions().undo_edit(undo()).await.expect_err("an identifier would leave its region");
            assert!(refused.message().contains("reserved in region \"zero\""), "{refused}");
            break;
        }
        editor.regions().undo_edit(undo()).await.expect("nothing has been issued since");
        time::sleep(Duration::from_millis(200)).await;
    }
    let count = drawn.len();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), count, "a number was granted twice: {drawn:?}");
    let third = start(&disk, Settings::default()).await;
    assert!(draw_from(&third, "zero").await > drawn[count - 1], "the counter is above all");
}

/// A daemon that stops returns its chunks, except for a chunk of a closed region. Otherwise, the heir's counter would
/// seem to be above the counter that the heir inherited.
#[tokio::test]
async fn ok_a_region_opens_again_after_a_daemon_with_a_chunk_of_it_has_stopped() {
    let disk = disk();
    let (one, other) = (start(&disk, Settings::default()).await, start(&disk, Settings::default()).await);
    make(&one, 20, 4).await;
    time::sleep(Duration::from_millis(200)).await;
    let first = draw_from(&other, "r").await;
    let new_regions = vec![new_region("zero", "0"), new_region("one", "1")];
    let divide = AddSubregionsRequest { name: name(), by_bits: 1, new_regions, ..Default::default() };
    one.regions().add_subregions(Request::new(divide)).await.expect("divided");
    time::sleep(Duration::from_millis(200)).await;
    other.stop().await;
    one.regions().undo_edit(undo()).await.expect("nothing was issued since");
    assert!(draw_from(&one, "r").await > first);
}

/// Another daemon applies the reversal from the history, which does not contain counters. The daemon need not read the
/// whole table again, which would drop its chunks.
#[tokio::test]
async fn ok_a_reversal_drops_no_chunk_of_another_region() {
    let disk = disk();
    let (one, other) = (start(&disk, Settings::default()).await, start(&disk, Settings::default()).await);
    make(&one, 20, 4).await;
    let (parent, region_id) = ("spaces/default".to_owned(), "quiet".to_owned());
    let quiet = CreateRegionRequest { parent, region_id, suffix_bits: Some(20), ..CreateRegionRequest::default() };
    one.regions().create_region(Request::new(quiet)).await.expect("made");
    draw_from(&one, "r").await;
    time::sleep(Duration::from_millis(200)).await;
    let first = draw_from(&other, "quiet").await;
    let new_regions = vec![new_region("zero", "0"), new_region("one", "1")];
    let divide = AddSubregionsRequest { name: name(), by_bits: 1, new_regions, ..Default::default() };
    one.regions().add_subregions(Request::new(divide)).await.expect("divided");
    time::sleep(Duration::from_millis(200)).await;
    one.regions().undo_edit(undo()).await.expect("nothing has been issued since");
    time::sleep(Duration::from_millis(200)).await;
    assert_eq!(draw_from(&other, "quiet").await, first + 1, "the chunk was dropped");
}

#[tokio::test]
async fn err_after_a_restore_no_prefix_becomes_shorter() {
    let disk = disk();
    let lapse = Lapse { since: UnixNanos::new(0), until: UnixNanos::new(1_000_000_000) };
    let restores = encode_restores(&[Restored { lapse, tables_edited: true }]);
    disk.commit(Txn::new().put(keys::RESTORES, restores)).await.expect("committed");
    let node = start(&disk, Settings::default()).await;
    make(&node, 8, 8).await;
    let next = Some(Uint128::default());
    let update = UpdateRegionRequest { name: name(), next, ..UpdateRegionRequest::default() };
    node.regions().update_region(Request::new(update)).await.expect("none is in use");
    let split = SplitRegionRequest { name: name(), by_bits: 1, ..SplitRegionRequest::default() };
    node.regions().split_region(Request::new(split)).await.expect("split");
    let refused = node.regions().undo_edit(undo()).await.expect_err("lost regions may have had the other half");
    assert!(refused.message().contains("lost regions may have had the freed prefixes"), "{refused}");
    assert_eq!(refused.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn err_the_request_id_of_the_undo_of_another_region() {
    let disk = disk();
    let node = start(&disk, Settings::default()).await;
    make(&node, 8, 8).await;
    let (parent, region_id) = ("spaces/default".to_owned(), "q".to_owned());
    let create = CreateRegionRequest { parent, region_id, suffix_bits: Some(8), ..CreateRegionRequest::default() };
    node.regions().create_region(Request::new(create)).await.expect("made");
    let other = "spaces/default/regions/q".to_owned();
    for name in [name(), other.clone()] {
        let update = UpdateRegionRequest { name, owner: Some("ops".to_owned()), ..UpdateRegionRequest::default() };
        node.regions().update_region(Request::new(update)).await.expect("updated");
    }
    let undo = |name: String| {
        let request_id = "9b0f6a52-6f0c-4d35-9a5f-0f4d1f7b7a11".to_owned();
        Request::new(UndoEditRequest { name, request_id, ..UndoEditRequest::default() })
    };
    for _ in 0..2 {
        let undone = node.regions().undo_edit(undo(name())).await.expect("reverted once").into_inner();
        assert_eq!(undone.region.map(|region| region.owner), Some(String::new()));
    }
    let refused = node.regions().undo_edit(undo(other)).await.expect_err("that was another undo");
    assert!(refused.message().contains("was used before"), "{refused}");
}

/// An operator seals a subregion on another daemon just before the reversal of the subdivision is committed. The last
/// edit is then the seal, which the author of the reversal does not know.
#[tokio::test]
async fn err_an_edit_that_comes_before_the_reversal_is_not_reverted_in_its_place() {
    let sub = || "spaces/default/regions/sub".to_owned();
    for (undone, expected) in [("spaces/default", "has changed"), ("spaces/default/regions/sub", "has changed")] {
        let disk = disk();
        let (one, other) = (start(&disk, Settings::default()).await, Arc::new(start(&disk, Settings::default()).await));
        make(&one, 20, 4).await;
        let new_regions = vec![new_region("sub", "1")];
        let divide = AddSubregionsRequest { name: name(), by_bits: 1, new_regions, ..Default::default() };
        one.regions().add_subregions(Request::new(divide)).await.expect("divided");
        let (is_first, sealing) = (Arc::new(AtomicBool::new(true)), other.clone());
        let seal = move || {
            let sealing = sealing.clone();
            async move {
                let seal = SealRegionRequest { name: sub(), ..SealRegionRequest::default() };
                sealing.regions().seal_region(Request::new(seal)).await.expect("sealed");
            }
        };
        disk.plan(move |operation| match operation {
            Operation::Commit(_) if is_first.swap(false, SeqCst) => Fault::DelayBefore(Box::pin(seal())),
            _ => Fault::None,
        });
        let undo = UndoEditRequest { name: undone.to_owned(), ..UndoEditRequest::default() };
        let refused = one.regions().undo_edit(Request::new(undo)).await.expect_err("another edit is the last one now");
        assert!(refused.message().contains(expected), "{refused}");
        let sub = GetRegionRequest { name: sub(), ..GetRegionRequest::default() };
        assert!(one.regions().get_region(Request::new(sub)).await.expect("there").into_inner().sealed, "{undone}");
    }
}
