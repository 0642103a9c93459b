//! Tests of retention, on replicas whose clocks differ.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::TryStreamExt;
use kent_engine::{
    host::{clock::Clock, entropy::SystemEntropy},
    records::keys,
};
use kent_ids::UnixNanos;
use kent_proto::v1::{
    AllocateRequest, CreateRegionRequest, CreateSeriesRequest, ForgetSeriesRequest, ListHistoryRequest,
    ListRegionsRequest, ListSeriesRequest, Policy, RenameRegionRequest, UpdateRegionRequest, WatchTableRequest,
    admin_server::Admin, allocate_response::Identifiers, allocator_server::Allocator, regions_server::Regions,
    watch_table_response::Event,
};
use kent_store::{Key, MemoryStore, Store, StoreId};
use tokio::time;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use crate::{Config, Environment, Node, Settings, Span};

const NOW: i64 = 1_800_000_000;

/// A clock that the test advances.
#[derive(Debug)]
struct ManualClock {
    /// Seconds since 1970, and since boot.
    shown: Mutex<(i64, u64)>,
}

impl ManualClock {
    fn at(seconds: i64) -> Arc<Self> {
        Arc::new(Self { shown: Mutex::new((seconds, 1000)) })
    }

    fn advance(&self, seconds: u32) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = (shown.0 + i64::from(seconds), shown.1 + u64::from(seconds));
    }

    fn shown(&self) -> (i64, u64) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> UnixNanos {
        UnixNanos::new(i128::from(self.shown().0) * 1_000_000_000)
    }

    fn steady(&self) -> Duration {
        Duration::from_secs(self.shown().1)
    }
}

struct Replicas {
    disk: MemoryStore,
    settings: Settings,
}

impl Replicas {
    fn new(settings: Settings) -> Self {
        Self { disk: MemoryStore::new(StoreId::new([3; 16])), settings }
    }

    async fn start(&self, clock: &Arc<ManualClock>) -> Node {
        let config = Config::check(self.settings.clone()).expect("valid");
        let (store, clock, entropy) = (Arc::new(self.disk.reopen()), clock.clone(), Arc::new(SystemEntropy));
        Node::start(Environment { store, clock, entropy }, &config).await.expect("it starts")
    }

    /// Counts the records below a key.
    async fn count(&self, prefix: &Key) -> usize {
        self.disk.scan(prefix).await.expect("read").len()
    }

    /// Waits until there are no records below a key.
    async fn emptied(&self, prefix: &Key) {
        for _ in 0..1000 {
            if self.count(prefix).await == 0 {
                return;
            }
            time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the records below {prefix} are not removed");
    }
}

/// A version 7 UUID whose time is this second.
fn dated(seconds: i64, number: u64) -> String {
    let millis = format!("{:012x}", seconds * 1000);
    format!("{}-{}-7000-8000-{number:012x}", &millis[..8], &millis[8..])
}

async fn make_strict(node: &Node, region: &str, prefix: &str) {
    let create = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: region.to_owned(),
        suffix_bits: Some(32),
        prefix: Some(prefix.to_owned()),
        ..CreateRegionRequest::default()
    };
    node.regions().create_region(Request::new(create)).await.expect("created");
    let update = UpdateRegionRequest {
        name: format!("spaces/default/regions/{region}"),
        policy: Some(Policy { strict: true, ..Policy::default() }),
        ..UpdateRegionRequest::default()
    };
    node.regions().update_region(Request::new(update)).await.expect("strict");
}

/// Requests one number under a request ID, and returns the number.
async fn draw(node: &Node, region: &str, request_id: &str) -> Result<u64, Status> {
    let source = format!("region:{region}");
    let request = AllocateRequest { source, count: 1, request_id: request_id.to_owned(), ..Default::default() };
    let granted = node.allocator().allocate(Request::new(request)).await?.into_inner();
    let Some(Identifiers::Lease(lease)) = granted.identifiers else { panic!("expected a lease") };
    Ok(lease.first.expect("a number").low)
}

fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

#[track_caller]
fn check_refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, expected: &str) {
    let status = answer.expect_err(expected);
    assert_eq!((status.code(), reason(&status).as_str()), (code, expected), "{status}");
}

#[tokio::test]
async fn err_a_forgotten_request_id_is_not_granted_again() {
    let replicas =
        Replicas::new(Settings { request_retention: Some(Span(Duration::from_secs(1))), ..Settings::default() });
    // The other replica's clock is an hour behind, so that nothing has expired there.
    let (clock, behind) = (ManualClock::at(NOW), ManualClock::at(NOW - 3600));
    let (one, other) = (replicas.start(&clock).await, replicas.start(&behind).await);
    make_strict(&one, "r", "01").await;
    time::sleep(Duration::from_millis(100)).await;
    let id = dated(NOW, 1);
    assert_eq!(draw(&one, "r", &id).await.expect("granted"), 0);
    assert_eq!(draw(&other, "r", &id).await.expect("granted before"), 0);
    assert_eq!(draw(&other, "r", &id.to_uppercase()).await.expect("the same UUID"), 0);
    assert_eq!(replicas.count(&keys::DATED).await, 1);
    for clock in [&clock, &behind] {
        clock.advance(10);
    }
    replicas.emptied(&keys::DATED).await;
    // The other replica has not read the new floor yet, but its commit detects the change.
    check_refused(draw(&other, "r", &id).await, Code::FailedPrecondition, "REQUEST_TOO_OLD");
    check_refused(draw(&one, "r", &id).await, Code::FailedPrecondition, "REQUEST_TOO_OLD");
    // A replica that starts later also uses the stored floor.
    let third = replicas.start(&behind).await;
    check_refused(draw(&third, "r", &id).await, Code::FailedPrecondition, "REQUEST_TOO_OLD");
    assert_eq!(draw(&other, "r", &dated(NOW + 10, 2)).await.expect("granted"), 1, "no number was used meanwhile");
    check_refused(draw(&one, "r", &dated(NOW + 86_412, 3)).await, Code::FailedPrecondition, "REQUEST_TOO_NEW");
}

#[tokio::test]
async fn err_an_edit_under_a_forgotten_request_id_is_not_made_again() {
    let replicas =
        Replicas::new(Settings { request_retention: Some(Span(Duration::from_secs(1))), ..Settings::default() });
    let (clock, behind) = (ManualClock::at(NOW), ManualClock::at(NOW - 3600));
    let (one, other) = (replicas.start(&clock).await, replicas.start(&behind).await);
    make_strict(&one, "r", "01").await;
    let rename = |from: &str, to: &str, request_id: String| RenameRegionRequest {
        name: format!("spaces/default/regions/{from}"),
        region_id: to.to_owned(),
        request_id,
        ..RenameRegionRequest::default()
    };
    let id = dated(NOW, 1);
    one.regions().rename_region(Request::new(rename("r", "s", id.clone()))).await.expect("renamed");
    one.regions().rename_region(Request::new(rename("s", "r", dated(NOW, 2)))).await.expect("renamed back");
    other.regions().rename_region(Request::new(rename("r", "s", id.clone()))).await.expect("made before");
    assert_eq!(replicas.count(&keys::DATED).await, 2);
    clock.advance(10);
    replicas.emptied(&keys::DATED).await;
    for node in [&one, &other] {
        let again = node.regions().rename_region(Request::new(rename("r", "s", id.clone()))).await;
        check_refused(again, Code::FailedPrecondition, "REQUEST_TOO_OLD");
    }
    other.regions().rename_region(Request::new(rename("r", "s", dated(NOW + 10, 3)))).await.expect("a new one");
}

#[tokio::test]
async fn err_undated_request_ids_beyond_the_limit_are_refused() {
    let replicas = Replicas::new(Settings { requests_max: Some(3), ..Settings::default() });
    let clock = ManualClock::at(NOW);
    let (one, other) = (replicas.start(&clock).await, replicas.start(&clock).await);
    make_strict(&one, "r", "01").await;
    make_strict(&one, "s", "10").await;
    time::sleep(Duration::from_millis(100)).await;
    for (number, node) in (0..3).zip([&one, &other, &one]) {
        assert_eq!(draw(node, "r", &format!("order {number}")).await.expect("granted"), number);
    }
    let third = replicas.start(&clock).await;
    for node in [&one, &other, &third] {
        check_refused(draw(node, "r", "order 3").await, Code::ResourceExhausted, "TOO_MANY_REQUEST_IDS");
        assert_eq!(draw(node, "r", "order 1").await.expect("granted before"), 1);
    }
    assert_eq!(draw(&other, "r", &dated(NOW, 1)).await.expect("dated ones are not counted"), 3);
    assert_eq!(draw(&other, "r", "").await.expect("granted"), 4);
    assert_eq!(draw(&one, "s", "order 3").await.expect("another region"), 0);
}

/// Requests numbers of a source, and returns the first number and the count.
async fn lease(node: &Node, source: &str, count: u64) -> Result<(u64, u64), Status> {
    let request = AllocateRequest { source: source.to_owned(), count, ..Default::default() };
    let granted = node.allocator().allocate(Request::new(request)).await?.into_inner();
    let Some(Identifiers::Lease(lease)) = granted.identifiers else { panic!("expected a lease") };
    Ok((lease.first.expect("a number").low, lease.count))
}

async fn make_series(node: &Node, source: &str) {
    let create = CreateSeriesRequest { source: source.to_owned() };
    node.admin().create_series(Request::new(create)).await.expect("made");
}

async fn forget_series(node: &Node, source: &str) -> Result<String, Status> {
    let forget = ForgetSeriesRequest { source: source.to_owned() };
    Ok(node.admin().forget_series(Request::new(forget)).await?.into_inner().reserved)
}

/// Every listed series, and whether a request created it.
async fn list_series(node: &Node) -> Vec<(String, bool)> {
    let pages = node.admin().list_series(Request::new(ListSeriesRequest {})).await.expect("listed").into_inner();
    let pages: Vec<_> = pages.try_collect().await.expect("listed");
    pages.into_iter().flat_map(|page| page.series).map(|series| (series.source, series.on_demand)).collect()
}

#[tokio::test]
async fn err_invented_symbols_do_not_lock_out_operators() {
    let replicas = Replicas::new(Settings { series_on_demand: Some(5), ..Settings::default() });
    let clock = ManualClock::at(NOW);
    let (one, other) = (replicas.start(&clock).await, replicas.start(&clock).await);
    make_series(&one, "serial:OURS").await;
    let mut begun = 0;
    for number in 0..20 {
        let symbol = format!("serial:X{number}");
        match lease(if number % 2 == 0 { &one } else { &other }, &symbol, 1).await {
            Ok(_) => begun += 1,
            refused => check_refused(refused, Code::ResourceExhausted, "TOO_MANY_SERIES"),
        }
    }
    assert_eq!(begun, 5, "on both replicas together");
    let third = replicas.start(&clock).await;
    for node in [&one, &other, &third] {
        for source in ["serial:OURS", "serial:X0", "serial:X4", "uid11-fullrand"] {
            lease(node, source, 1).await.expect(source);
        }
        check_refused(lease(node, "serial:X5", 1).await, Code::ResourceExhausted, "TOO_MANY_SERIES");
    }
    // An operator creates a series, and takes over one that a request created. Requests can then create one more
    // series.
    make_series(&other, "serial:X5").await;
    lease(&one, "serial:X5", 1).await.expect("made");
    make_series(&other, "serial:X4").await;
    make_series(&one, "serial:X4").await;
    for node in [&one, &other, &third] {
        lease(node, "serial:X4", 2000).await.expect("the series continues where it stopped");
    }
    lease(&one, "serial:X6", 1).await.expect("below the limit");
    check_refused(lease(&other, "serial:X7", 1).await, Code::ResourceExhausted, "TOO_MANY_SERIES");
    let on_demand = list_series(&third).await.into_iter().filter(|(_, on_demand)| *on_demand).count();
    assert_eq!((on_demand, list_series(&one).await.len()), (5, 8));
}

#[tokio::test]
async fn ok_a_forgotten_series_continues_where_it_was() {
    let replicas = Replicas::new(Settings { series_on_demand: Some(1), ..Settings::default() });
    let clock = ManualClock::at(NOW);
    let (one, other) = (replicas.start(&clock).await, replicas.start(&clock).await);
    let mut granted = Vec::new();
    for round in 0..4 {
        for node in [&one, &other, &one, &other] {
            granted.push(lease(node, "serial:AB", 700).await.expect("granted"));
        }
        // The other replica still has a chunk, and continues with it.
        let reserved: u64 = forget_series(&one, "serial:AB").await.expect("forgotten").parse().expect("a number");
        assert!(granted.iter().all(|(first, count)| first + count <= reserved), "{reserved}");
        granted.push(lease(&other, "serial:AB", 1).await.expect("granted"));
        // When the other replica needs another chunk, it notices that the series was forgotten, and lists the series
        // again.
        granted.push(lease(&other, "serial:AB", 2000).await.expect("granted"));
        assert_eq!(list_series(&one).await, [("serial:AB".to_owned(), true)]);
        check_refused(forget_series(&one, "serial:CD").await, Code::NotFound, "NO_SUCH_SERIES");
        if round % 2 == 0 {
            let third = replicas.start(&clock).await;
            granted.push(lease(&third, "serial:AB", 700).await.expect("granted"));
        }
    }
    granted.sort_unstable();
    let repeated = granted.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0);
    assert_eq!(repeated, None, "{granted:?}");
    check_refused(forget_series(&one, "uid11-fullrand").await, Code::FailedPrecondition, "ALWAYS_THERE");
}

const SPACE: &str = "spaces/default";

/// Renames the only region from its name in the previous round to its name in this round.
async fn rename(node: &Node, round: u64, request_id: &str) -> Result<u64, Status> {
    let rename = RenameRegionRequest {
        name: format!("{SPACE}/regions/r{}", round - 1),
        region_id: format!("r{round}"),
        request_id: request_id.to_owned(),
        ..RenameRegionRequest::default()
    };
    Ok(node.regions().rename_region(Request::new(rename)).await?.into_inner().revision)
}

/// The name of the only region at a revision.
async fn name_at(node: &Node, at_revision: u64) -> Result<String, Status> {
    let list = ListRegionsRequest { parent: SPACE.to_owned(), at_revision, ..ListRegionsRequest::default() };
    let regions = node.regions().list_regions(Request::new(list)).await?.into_inner().regions;
    Ok(regions.into_iter().map(|region| region.name).collect())
}

/// The first revision that a watch after this revision reports.
async fn watch(node: &Node, after_revision: u64) -> Result<u64, Status> {
    let watch = WatchTableRequest { parent: SPACE.to_owned(), after_revision };
    let mut events = Box::pin(node.regions().watch_table(Request::new(watch)).await?.into_inner());
    match events.try_next().await?.expect("an event").event {
        Some(Event::Change(entry)) => Ok(entry.revision),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn ok_the_last_edits_are_kept_and_older_ones_are_reported_as_deleted() {
    let (keep, last) = (10, 300);
    let retention = Some(Duration::from_secs(1));
    let settings = Settings { history_keep: Some(keep), request_retention: retention.map(Span), ..Settings::default() };
    let replicas = Replicas::new(settings);
    let clock = ManualClock::at(NOW);
    let (one, other) = (replicas.start(&clock).await, replicas.start(&clock).await);
    let create = CreateRegionRequest {
        parent: SPACE.to_owned(),
        region_id: "r1".to_owned(),
        suffix_bits: Some(20),
        ..CreateRegionRequest::default()
    };
    one.regions().create_region(Request::new(create)).await.expect("created");
    // Together, the replicas write more than one page of records.
    for round in 2..=last {
        let node = if round % 2 == 0 { &one } else { &other };
        assert_eq!(rename(node, round, &format!("rename {round}")).await.expect("renamed"), round);
    }
    let history = keys::histories("default");
    for _ in 0..1000 {
        if replicas.count(&history).await == 10 {
            break;
        }
        time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(replicas.count(&history).await, 10);
    let (oldest, third) = (last - keep, replicas.start(&clock).await);
    for node in [&one, &other, &third] {
        let list = ListHistoryRequest { parent: SPACE.to_owned(), ..ListHistoryRequest::default() };
        let listed = node.regions().list_history(Request::new(list)).await.expect("listed").into_inner();
        let revisions: Vec<u64> = listed.entries.iter().map(|entry| entry.revision).collect();
        assert_eq!((revisions, listed.forgotten_through), ((oldest + 1..=last).rev().collect(), oldest));
        for revision in [oldest, oldest + 1, last] {
            let name = name_at(node, revision).await.expect("it is kept");
            assert_eq!(name, format!("{SPACE}/regions/r{revision}"));
        }
        assert_eq!(watch(node, oldest).await.expect("it is kept"), oldest + 1);
        for revision in [1, oldest - 1] {
            check_refused(name_at(node, revision).await, Code::OutOfRange, "REVISION_FORGOTTEN");
            check_refused(watch(node, revision).await, Code::OutOfRange, "REVISION_FORGOTTEN");
        }
        // The request IDs are still known, but not the changes of the forgotten edits.
        assert_eq!(rename(node, last, &format!("rename {last}")).await.expect("made before"), last);
        check_refused(rename(node, 2, "rename 2").await, Code::AlreadyExists, "MADE_AND_FORGOTTEN");
    }
    let said = name_at(&one, 1).await.expect_err("forgotten");
    assert!(said.message().contains(&format!("from revision {oldest} on")), "{said}");
}
