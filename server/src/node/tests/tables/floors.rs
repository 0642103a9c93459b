//! Floors of several regions: they are raised together or not at all.

use std::sync::{Arc, Mutex};

use kent_proto::v1::{
    RaiseFloorsRequest, RaiseFloorsResponse, RenameRegionRequest, admin_server::Admin, raise_floors_request::Floor,
};

use super::*;

/// The floors of these tests, which need edits of two spaces and the counter of a series.
const FLOORS: [(&str, &str); 4] =
    [("region:a", "100"), ("region:c@parts", "300"), ("serial:GBP", "7"), ("region:b", "16777416")];

/// Creates the regions `a` and `b` of the space `default`, and `c` of the space `parts`.
async fn make_all(node: &Node) {
    let create = CreateSpaceRequest { space_id: "parts".to_owned(), bits: 32, ..CreateSpaceRequest::default() };
    node.regions().create_space(Request::new(create)).await.expect("created");
    for (space, region, prefix) in
        [("default", "a", "0".repeat(40)), ("default", "b", "0".repeat(39) + "1"), ("parts", "c", "0".repeat(8))]
    {
        let create = CreateRegionRequest {
            parent: format!("spaces/{space}"),
            region_id: region.to_owned(),
            suffix_bits: Some(24),
            prefix: Some(prefix),
            ..CreateRegionRequest::default()
        };
        node.regions().create_region(Request::new(create)).await.expect("created");
    }
}

async fn raise(node: &Node, floors: &[(&str, &str)]) -> Result<RaiseFloorsResponse, Status> {
    let floor = |(source, floor): &(&str, &str)| Floor { source: (*source).to_owned(), floor: (*floor).to_owned() };
    let floors = floors.iter().map(floor).collect();
    let raise = RaiseFloorsRequest { floors, validate_only: false, reason: "moved".to_owned() };
    Ok(node.admin().raise_floors(Request::new(raise)).await?.into_inner())
}

/// Draws a suffix of each of the regions.
async fn draw_all(node: &Node) -> Vec<u64> {
    let mut drawn = Vec::new();
    for source in ["region:a", "region:b", "region:c@parts"] {
        drawn.push(draw_from(node, source).await.expect("granted"));
    }
    drawn
}

fn revisions(node: &Node) -> Vec<u64> {
    let directory = node.engine().directory();
    ["default", "parts"].map(|space| directory.find(space).expect("there").read(Table::revision).0).to_vec()
}

/// Whether a commit edits tables.
fn edits(txn: &Txn) -> bool {
    txn.writes().iter().any(|(key, _)| key.starts_with(&keys::SPACES))
}

#[tokio::test]
async fn ok_floors_of_several_tables_are_one_commit() {
    let disk = disk();
    let node = start(&disk, Settings::default()).await;
    make_all(&node).await;
    let before = revisions(&node);
    draw_all(&node).await;
    let commits = Arc::new(Mutex::new(Vec::new()));
    let seen = commits.clone();
    disk.plan(move |operation| {
        if let Operation::Commit(txn) = operation
            && edits(txn)
        {
            let keys = txn.writes().iter().map(|(key, _)| key.to_string());
            seen.lock().expect("unpoisoned").push(keys.collect::<Vec<_>>());
        }
        Fault::None
    });
    let raised = raise(&node, &FLOORS).await.expect("raised");
    let results: Vec<_> = raised
        .floors
        .iter()
        .map(|it| (it.source.as_str(), it.before.as_str(), it.after.as_str(), it.changed))
        .collect();
    assert_eq!(
        results,
        [
            ("region:a", "1", "101", true),
            ("region:c@parts", "1", "301", true),
            ("serial:GBP", "1", "8", true),
            ("region:b", "1", "201", true)
        ]
    );
    let commits = std::mem::take(&mut *commits.lock().expect("unpoisoned"));
    let [commit] = commits.as_slice() else { panic!("{} commits", commits.len()) };
    for key in [keys::space("default"), keys::space("parts"), keys::series(&"serial:GBP".parse().expect("a series"))] {
        assert_eq!(commit.iter().filter(|written| **written == key.to_string()).count(), 1, "{key}");
    }
    // Each edit is a revision, and a daemon that reads the store later finds the same.
    assert_eq!(revisions(&node), [before[0] + 2, before[1] + 1]);
    let later = start(&disk, Settings::default()).await;
    assert_eq!(revisions(&later), revisions(&node));
    assert_eq!(draw_all(&node).await, [101, 201, 301]);
    assert!(draw_all(&later).await.into_iter().zip([101, 201, 301]).all(|(id, next)| id > next));
    // All are above their floors already.
    let again = raise(&node, &FLOORS[..2]).await.expect("raised");
    assert!(again.floors.iter().all(|floor| floor.before == floor.after), "{again:?}");
}

#[tokio::test]
async fn err_no_floor_is_raised_if_the_commit_fails() {
    let disk = disk();
    let node = start(&disk, Settings::default()).await;
    make_all(&node).await;
    let before = revisions(&node);
    disk.plan(|operation| match operation {
        Operation::Commit(txn) if edits(txn) => Fault::Unavailable,
        _ => Fault::None,
    });
    let refused = raise(&node, &FLOORS).await.expect_err("the store does not answer");
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    disk.plan(|_| Fault::None);
    let later = start(&disk, Settings::default()).await;
    for node in [&node, &later] {
        assert_eq!(revisions(node), before);
    }
    assert_eq!(draw_all(&node).await, [0, 0, 0]);
}

#[tokio::test]
async fn ok_floors_whose_commit_has_no_answer_are_found_raised() {
    let disk = disk();
    let node = start(&disk, Settings::default()).await;
    make_all(&node).await;
    let before = revisions(&node);
    let mut is_first = true;
    disk.plan(move |operation| match operation {
        Operation::Commit(txn) if edits(txn) && std::mem::take(&mut is_first) => Fault::AppliedUnknown,
        _ => Fault::None,
    });
    raise(&node, &FLOORS).await.expect("raised");
    assert_eq!(revisions(&node), [before[0] + 2, before[1] + 1], "each is raised once");
    assert_eq!(draw_all(&node).await, [101, 201, 301]);
}

/// One replica raises floors while the other grants and edits the same regions.
#[tokio::test]
async fn ok_floors_hold_while_another_replica_grants_and_edits() {
    let disk = disk();
    let (one, other) = (start(&disk, small_chunks()).await, start(&disk, small_chunks()).await);
    make_all(&one).await;
    while draw_from(&other, "region:c@parts").await.is_err() {
        time::sleep(Duration::from_millis(1)).await;
    }
    for round in 1..=10_u64 {
        let floor = round * 1000;
        let busy = async {
            for _ in 0..5 {
                draw_all(&other).await;
                for (from, to) in [("b", "d"), ("d", "b")] {
                    let name = format!("spaces/default/regions/{from}");
                    let rename =
                        RenameRegionRequest { name, region_id: to.to_owned(), ..RenameRegionRequest::default() };
                    // An edit may conflict, but does not disturb the floors.
                    let _ = other.regions().rename_region(Request::new(rename)).await;
                }
            }
        };
        let texts = [floor.to_string(), floor.to_string()];
        let floors = [("region:a", texts[0].as_str()), ("region:c@parts", &texts[1])];
        let (raised, ()) = join(raise(&one, &floors), busy).await;
        raised.expect("raised");
        for node in [&one, &other] {
            for source in ["region:a", "region:c@parts"] {
                let id = draw_from(node, source).await.expect("granted");
                assert!(id > floor && id < floor + 500, "{source} {id} {floor}");
            }
        }
    }
}

/// A replica fails to read the second of two edits that are one commit.
#[tokio::test]
async fn ok_a_replica_that_has_read_half_of_a_commit_reads_the_rest() {
    let disk = disk();
    let (one, other) = (start(&disk, Settings::default()).await, start(&disk, Settings::default()).await);
    make_all(&one).await;
    // The other replica holds chunks that begin below the floors.
    for source in ["region:a", "region:b"] {
        while draw_from(&other, source).await.is_err() {
            time::sleep(Duration::from_millis(1)).await;
        }
    }
    let second = revisions(&one)[0] + 2;
    let failures = Arc::new(Mutex::new(0));
    let failed = failures.clone();
    disk.plan(move |operation| match operation {
        Operation::Scan(prefix) if prefix.starts_with(&keys::history_parts("default", second)) => {
            let mut failed = failed.lock().expect("unpoisoned");
            *failed += 1;
            if *failed <= 2 { Fault::Unavailable } else { Fault::None }
        }
        _ => Fault::None,
    });
    raise(&one, &[("region:a", "100"), ("region:b", "16777416")]).await.expect("raised");
    // The replica reads the table again with its next heartbeat.
    time::timeout(Duration::from_secs(60), async {
        while revisions(&other) != revisions(&one) {
            time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the replica reads the rest");
    assert!(*failures.lock().expect("unpoisoned") > 2, "the replica must have read again");
    for (source, floor) in [("region:a", 100), ("region:b", 200)] {
        let id = draw_from(&other, source).await.expect("granted");
        assert!(id > floor, "{source} {id}");
    }
}

/// A replica that has followed the first of two tables of a commit has not applied the commit, and so does not confirm
/// it.
#[tokio::test]
async fn ok_floors_in_effect_are_followed_in_all_tables() {
    let disk = disk();
    let (one, other) = (start(&disk, Settings::default()).await, start(&disk, Settings::default()).await);
    make_all(&one).await;
    while draw_from(&other, "region:c@parts").await.is_err() {
        time::sleep(Duration::from_millis(1)).await;
    }
    let second = revisions(&one)[1] + 1;
    disk.plan(move |operation| match operation {
        Operation::Scan(prefix) if prefix.starts_with(&keys::history_parts("parts", second)) => {
            Fault::DelayBefore(Box::pin(time::sleep(Duration::from_millis(300))))
        }
        _ => Fault::None,
    });
    let raised = raise(&one, &[("region:a", "100"), ("region:c@parts", "300")]).await.expect("raised");
    assert_eq!(raised.effective_within_ms, 0, "the replica confirms within a second");
    let id = draw_from(&other, "region:c@parts").await.expect("granted");
    assert!(id > 300, "{id}");
}

/// A request is repeated before all replicas have followed the edits of the first one.
#[tokio::test]
async fn ok_a_repeated_request_waits_for_the_edits_of_the_first() {
    let disk = disk();
    let (one, other) = (start(&disk, Settings::default()).await, start(&disk, Settings::default()).await);
    make_all(&one).await;
    while draw_from(&other, "region:a").await.is_err() {
        time::sleep(Duration::from_millis(1)).await;
    }
    let next = revisions(&one)[0] + 1;
    let mut is_first = true;
    disk.plan(move |operation| match operation {
        Operation::Scan(prefix)
            if prefix.starts_with(&keys::history_parts("default", next)) && std::mem::take(&mut is_first) =>
        {
            Fault::DelayBefore(Box::pin(time::sleep(Duration::from_secs(20))))
        }
        _ => Fault::None,
    });
    let floors = [("region:a", "100")];
    let first = raise(&one, &floors).await.expect("raised");
    assert!(first.effective_within_ms > 0, "the other replica cannot follow");
    let again = raise(&one, &floors).await.expect("raised");
    assert!(!again.floors[0].changed, "{again:?}");
    assert!(again.effective_within_ms > 0, "the other replica still cannot follow");
    let id = draw_from(&other, "region:a").await.expect("granted");
    assert!(id < 100, "the other replica must hold numbers below the floor: {id}");
}

/// A region above its floor grants while its floor is raised.
#[tokio::test]
async fn ok_a_busy_region_above_its_floor_does_not_disturb_the_others() {
    let disk = disk();
    let node = start(&disk, Settings::default()).await;
    make_all(&node).await;
    let stop = AtomicBool::new(false);
    let busy = async {
        while !stop.load(SeqCst) {
            draw_from(&node, "region:a").await.expect("granted");
            task::yield_now().await;
        }
    };
    let raise = async {
        for round in 1..=50_u64 {
            let floor = round.to_string();
            let raised = raise(&node, &[("region:a", "0"), ("region:c@parts", &floor)]).await.expect("raised");
            assert!(raised.floors[1].changed, "{raised:?}");
        }
        stop.store(true, SeqCst);
    };
    join(busy, raise).await;
}

/// A counter that moves on another replica does not make an idle region skip numbers.
#[tokio::test]
async fn ok_an_idle_region_skips_nothing_while_the_counter_of_another_moves() {
    let disk = disk();
    let (one, other) = (start(&disk, small_chunks()).await, start(&disk, small_chunks()).await);
    make_all(&one).await;
    while draw_from(&other, "region:a").await.is_err() {
        time::sleep(Duration::from_millis(1)).await;
    }
    raise(&one, &[("region:b", "16777416")]).await.expect("raised");
    let stop = AtomicBool::new(false);
    let busy = async {
        while !stop.load(SeqCst) {
            draw_from(&other, "region:a").await.expect("granted");
            task::yield_now().await;
        }
    };
    let repeat = async {
        let mut raised = 0;
        for _ in 0..20 {
            match raise(&one, &[("region:a", "0"), ("region:b", "16777416")]).await {
                Ok(answer) => {
                    raised += 1;
                    assert_eq!((answer.floors[1].after.as_str(), answer.floors[1].changed), ("201", false));
                }
                // The other replica's commits may come first each time.
                Err(status) => assert_eq!(status.code(), Code::Aborted, "{status}"),
            }
        }
        stop.store(true, SeqCst);
        raised
    };
    let ((), raised) = join(busy, repeat).await;
    println!("{raised} of 20 requests raised the floors");
}
