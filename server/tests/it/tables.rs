//! Features of tables: request IDs, strict and scrambled regions, seals, renames, delegation, policies, history and
//! watches.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use futures_util::future::{join, join_all};
use kent_proto::v1::{
    AddSubregionsRequest, AutoExpand, ClassifyRequest, ComposeRequest, CreateRegionRequest, DelegateRegionRequest,
    EditResponse, Encoding, ExpandRegionRequest, GetRegionRequest, ListHistoryRequest, ListRegionsRequest, NewRegion,
    Policy, RenameRegionRequest, SealRegionRequest, ShrinkRegionRequest, UpdateRegionRequest, WatchTableRequest,
    classification::Status, region::Order, regions_client::RegionsClient, watch_table_response::Event,
};
use tonic::{Code, transport::Channel};

use super::harness::{Daemon, data_dir, identifiers, request};

const SPACE: &str = "spaces/default";

fn name(region: &str) -> String {
    format!("{SPACE}/regions/{region}")
}

fn create(region: &str, suffix_bits: u32) -> CreateRegionRequest {
    CreateRegionRequest {
        parent: SPACE.to_owned(),
        region_id: region.to_owned(),
        suffix_bits: Some(suffix_bits),
        ..CreateRegionRequest::default()
    }
}

async fn created(client: &mut RegionsClient<Channel>, create: CreateRegionRequest) -> EditResponse {
    client.create_region(create).await.expect("created").into_inner()
}

async fn set_policy(client: &mut RegionsClient<Channel>, region: &str, policy: Policy) {
    let update = UpdateRegionRequest { name: name(region), policy: Some(policy), ..UpdateRegionRequest::default() };
    client.update_region(update).await.expect("updated");
}

async fn draw(daemon: &Daemon, source: &str, count: u64, request_id: &str) -> Result<Vec<u128>, tonic::Status> {
    let mut ask = request(source, count, Encoding::Packed);
    ask.request_id = request_id.to_owned();
    daemon.allocator().allocate(ask).await.map(|reply| identifiers(reply.get_ref()))
}

#[tokio::test]
async fn ok_an_edit_with_a_request_id_is_applied_once_even_after_a_crash() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let ask = || CreateRegionRequest { request_id: "once".to_owned(), ..create("r", 10) };
    let first = created(&mut daemon.regions(), ask()).await;
    assert_eq!(created(&mut daemon.regions(), ask()).await.revision, first.revision);
    daemon.kill();
    let daemon = Daemon::start(data.path());
    let again = created(&mut daemon.regions(), ask()).await;
    assert_eq!((again.revision, again.changes.len()), (first.revision, 1));
    let other = CreateRegionRequest { request_id: "twice".to_owned(), ..create("r", 10) };
    assert_eq!(daemon.regions().create_region(other).await.expect_err("taken").code(), Code::AlreadyExists);
}

#[tokio::test]
async fn ok_a_strict_region_has_no_gaps_and_grants_a_request_id_once() {
    let data = data_dir();
    let mut numbers = Vec::new();
    for round in 0..5 {
        let daemon = Daemon::start(data.path());
        let mut regions = daemon.regions();
        if round == 0 {
            created(&mut regions, CreateRegionRequest { prefix: Some("0".to_owned()), ..create("invoices", 20) }).await;
            // The rest of an earlier chunk is returned, not lost.
            numbers.extend(draw(&daemon, "region:invoices", 3, "").await.expect("granted"));
            set_policy(&mut regions, "invoices", Policy { strict: true, ..Policy::default() }).await;
        }
        let id = format!("request {round}");
        let first = draw(&daemon, "region:invoices", 2, &id).await.expect("granted");
        assert_eq!(draw(&daemon, "region:invoices", 2, &id).await.expect("granted"), first);
        numbers.extend(&first);
        numbers.extend(draw(&daemon, "region:invoices", 1, "").await.expect("granted"));
        daemon.kill();
        let daemon = Daemon::start(data.path());
        assert_eq!(draw(&daemon, "region:invoices", 2, &id).await.expect("granted"), first, "even after a crash");
        let other = draw(&daemon, "region:invoices", 3, &id).await.expect_err("another count");
        assert_eq!(other.code(), Code::InvalidArgument);
        daemon.kill();
    }
    assert_eq!(numbers, (0..18).collect::<Vec<u128>>());
    let daemon = Daemon::start(data.path());
    let refused = draw(&daemon, "uuidv7", 1, "x").await.expect_err("not strict");
    assert!(refused.message().contains("request_id"), "{refused}");
}

#[tokio::test]
async fn ok_each_strict_region_has_its_own_request_ids() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    for (region, prefix) in [("a", "0"), ("b", "1")] {
        created(&mut regions, CreateRegionRequest { prefix: Some(prefix.to_owned()), ..create(region, 20) }).await;
        set_policy(&mut regions, region, Policy { strict: true, ..Policy::default() }).await;
    }
    // The counters differ, so that the grants of the two regions differ.
    draw(&daemon, "region:b", 5, "another").await.expect("granted");
    let a = draw(&daemon, "region:a", 2, "one").await.expect("granted");
    let b = draw(&daemon, "region:b", 2, "one").await.expect("granted");
    assert_eq!((a.as_slice(), b.as_slice()), (&[0, 1][..], &[(1 << 63) + 5, (1 << 63) + 6][..]));
    for (source, granted) in [("region:a", a), ("region:b", b)] {
        assert_eq!(draw(&daemon, source, 2, "one").await.expect("granted"), granted, "each once");
    }
}

#[tokio::test]
async fn ok_concurrent_strict_grants_share_commits_and_leave_no_gap() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    created(&mut regions, CreateRegionRequest { prefix: Some("0".to_owned()), ..create("invoices", 9) }).await;
    set_policy(&mut regions, "invoices", Policy { strict: true, ..Policy::default() }).await;

    // Forty request IDs, each sent twice concurrently, get one block each.
    let named = |at: u32| {
        let daemon = &daemon;
        let id = format!("request {at}");
        async move {
            let ask = || draw(daemon, "region:invoices", 2, &id);
            let (one, other) = join(ask(), ask()).await;
            assert_eq!(one.as_ref().expect("granted"), &other.expect("granted"));
            one.expect("granted")
        }
    };
    let mut numbers: Vec<u128> = join_all((0..40).map(named)).await.into_iter().flatten().collect();
    assert_eq!(numbers.len(), 80);

    // Request more than the capacity: every number is granted, and all refusals say that the region is full.
    let allocator = daemon.allocator();
    let others = join_all((0..500).map(|_| {
        let mut allocator = allocator.clone();
        async move { allocator.allocate(request("region:invoices", 1, Encoding::Packed)).await }
    }));
    for answer in others.await {
        match answer {
            Ok(reply) => numbers.extend(identifiers(reply.get_ref())),
            Err(refused) => assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}"),
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..512).collect::<Vec<u128>>());
    let metrics = daemon.get("/metrics").1;
    let commits: u64 = metrics
        .lines()
        .find_map(|line| line.strip_prefix("kent_store_commits_total "))
        .and_then(|count| count.parse().ok())
        .expect("counted");
    assert!(commits < 300, "552 requests took {commits} commits");
}

#[tokio::test]
async fn ok_scrambled_suffixes_fill_their_octaves_and_classify_as_issued() {
    let data = data_dir();
    let daemon = Daemon::spawn(super::harness::kentd(data.path()).args(["--chunk-min", "1", "--chunk-max", "1"]));
    let scrambled =
        CreateRegionRequest { order: Order::Scrambled.into(), prefix: Some("0".to_owned()), ..create("s", 12) };
    created(&mut daemon.regions(), scrambled).await;
    let mut drawn = Vec::new();
    for _ in 0..37 {
        drawn.extend(draw(&daemon, "region:s", 1, "").await.expect("granted"));
    }
    let set: BTreeSet<u128> = drawn.iter().copied().collect();
    assert_eq!(set.len(), 37);
    assert_eq!(set.range(..32).count(), 32, "the first 32 grants are not the suffixes below 32");
    assert!(!drawn.is_sorted(), "consecutive grants have consecutive values");
    let ask = ClassifyRequest { parent: SPACE.to_owned(), identifiers: (0..64).map(Into::into).collect() };
    let answers = daemon.regions().classify(ask).await.expect("classified").into_inner().classifications;
    for (id, answer) in (0..).zip(answers) {
        assert_eq!(answer.issued, set.contains(&id), "{id}");
    }
    // A client's copy of the table agrees.
    let copy = kent_client::Client::new(format!("http://{}", daemon.grpc_address()))
        .expect("an address")
        .table("default")
        .await
        .expect("a snapshot");
    for id in 0..64 {
        let issued = copy.read(|table| table.classify(id).expect("of the space").issued());
        assert_eq!(issued, Some(set.contains(&id)), "{id}");
    }
    // The all-zero subregion of `s` continues the counter, which is not at a power of two.
    let heir = NewRegion { region_id: "heir".to_owned(), extension: Some("0".to_owned()), ..NewRegion::default() };
    let close = AddSubregionsRequest {
        name: name("s"),
        by_bits: 1,
        new_regions: vec![heir],
        r#abstract: true,
        ..AddSubregionsRequest::default()
    };
    daemon.regions().add_subregions(close).await.expect("divided");
    for _ in 37..64 {
        drawn.extend(draw(&daemon, "region:heir", 1, "").await.expect("granted"));
    }
    assert!(BTreeSet::from_iter(drawn).into_iter().eq(0..64), "not every suffix below 64 was granted exactly once");
}

#[tokio::test]
async fn ok_external_regions_compose_and_grant_nothing() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    let external =
        CreateRegionRequest { order: Order::External.into(), prefix: Some("101".to_owned()), ..create("emp", 20) };
    created(&mut regions, external).await;
    let refused = draw(&daemon, "region:emp", 1, "").await.expect_err("external");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let base = 0b101_u128 << 61;
    let compose = |suffixes: &[u128], identifiers: &[u128]| ComposeRequest {
        name: name("emp"),
        suffixes: suffixes.iter().map(|number| (*number).into()).collect(),
        identifiers: identifiers.iter().map(|number| (*number).into()).collect(),
    };
    let composed = regions.compose(compose(&[4711], &[base | 7])).await.expect("composed").into_inner().composed;
    let found: Vec<(u128, u128)> = composed
        .iter()
        .map(|it| (it.suffix.expect("a suffix").into(), it.identifier.expect("an identifier").into()))
        .collect();
    assert_eq!(found, [(4711, base | 4711), (7, base | 7)]);
    for (suffixes, identifiers) in [(vec![1 << 20], vec![]), (vec![], vec![7]), (vec![], vec![base | 1 << 30])] {
        let refused = regions.compose(compose(&suffixes, &identifiers)).await.expect_err("outside");
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
    // Declaring that numbers are in use prevents edits that would cut them off.
    let declare = UpdateRegionRequest { name: name("emp"), next: Some(4712.into()), ..UpdateRegionRequest::default() };
    regions.update_region(declare).await.expect("declared");
    let shrink = ShrinkRegionRequest { name: name("emp"), by_bits: 8, ..ShrinkRegionRequest::default() };
    assert_eq!(regions.shrink_region(shrink).await.expect_err("in use").code(), Code::FailedPrecondition);
    let shrink = ShrinkRegionRequest { name: name("emp"), by_bits: 7, ..ShrinkRegionRequest::default() };
    regions.shrink_region(shrink).await.expect("4711 needs 13 bits");
}

#[tokio::test]
async fn ok_a_sealed_region_grants_nothing_and_a_renamed_region_continues() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    created(&mut regions, create("r", 30)).await;
    let first = draw(&daemon, "region:r", 1, "").await.expect("granted")[0];
    let seal = || SealRegionRequest { name: name("r"), ..SealRegionRequest::default() };
    regions.seal_region(seal()).await.expect("sealed");
    assert_eq!(draw(&daemon, "region:r", 1, "").await.expect_err("sealed").code(), Code::FailedPrecondition);
    regions.unseal_region(seal()).await.expect("unsealed");
    let rename = RenameRegionRequest { name: name("r"), region_id: "q".to_owned(), ..RenameRegionRequest::default() };
    regions.rename_region(rename).await.expect("renamed");
    assert_eq!(draw(&daemon, "region:r", 1, "").await.expect_err("gone").code(), Code::NotFound);
    assert_eq!(draw(&daemon, "region:q", 1, "").await.expect("granted"), [first + 1]);
}

#[tokio::test]
async fn ok_strict_regions_have_no_gaps_when_renamed_under_load() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    let create_strict = async |regions: &mut RegionsClient<Channel>| {
        created(regions, create("r", 20)).await;
        set_policy(regions, "r", Policy { strict: true, ..Policy::default() }).await;
    };
    create_strict(&mut regions).await;
    let (allocator, stop) = (daemon.allocator(), &AtomicBool::new(false));
    let callers = join_all((0..24).map(|_| {
        let mut allocator = allocator.clone();
        async move {
            let mut numbers = Vec::new();
            while !stop.load(Relaxed) {
                match allocator.allocate(request("region:r", 1, Encoding::Packed)).await {
                    Ok(reply) => numbers.extend(identifiers(reply.get_ref())),
                    // On a busy machine a caller may also lose the race for every chunk until its deadline.
                    Err(gone) => assert!(matches!(gone.code(), Code::NotFound | Code::Unavailable), "{gone}"),
                }
            }
            numbers
        }
    }));
    // After each rename, a new region gets the old name.
    let renaming = async {
        for turn in 0..20 {
            let rename = RenameRegionRequest {
                name: name("r"),
                region_id: format!("r{turn}"),
                ..RenameRegionRequest::default()
            };
            regions.rename_region(rename).await.expect("renamed");
            create_strict(&mut regions).await;
        }
        stop.store(true, Relaxed);
    };
    let (numbers, ()) = join(callers, renaming).await;
    let mut numbers = numbers.concat();
    numbers.sort_unstable();
    let granted = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), granted, "a duplicate identifier");
    let runs = numbers.chunk_by(|one, next| one + 1 == *next).count();
    assert!((2..=21).contains(&runs), "{granted} identifiers of 21 regions have {runs} runs");
}

#[tokio::test]
async fn ok_regions_that_swap_names_under_load_issue_no_duplicates() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    for (region, prefix) in [("a", "0"), ("b", "1")] {
        created(&mut regions, CreateRegionRequest { prefix: Some(prefix.to_owned()), ..create(region, 30) }).await;
        // With chunks of one number, nearly every grant reserves a chunk and races with a rename.
        set_policy(&mut regions, region, Policy { min_chunk: 1, max_chunk: 1, ..Policy::default() }).await;
    }
    let (allocator, stop) = (daemon.allocator(), &AtomicBool::new(false));
    let callers = join_all((0..24).map(|caller| {
        let mut allocator = allocator.clone();
        async move {
            let mut numbers = Vec::new();
            while !stop.load(Relaxed) {
                let source = if caller % 2 == 0 { "region:a" } else { "region:b" };
                match allocator.allocate(request(source, 1, Encoding::Packed)).await {
                    Ok(reply) => numbers.extend(identifiers(reply.get_ref())),
                    // If other callers take the chunks in every attempt, the call fails, and the caller may try again.
                    Err(gone) => assert!(matches!(gone.code(), Code::NotFound | Code::Unavailable), "{gone}"),
                }
            }
            numbers
        }
    }));
    let renaming = async {
        for _ in 0..60 {
            for (from, to) in [("a", "c"), ("b", "a"), ("c", "b")] {
                let rename = RenameRegionRequest {
                    name: name(from),
                    region_id: to.to_owned(),
                    ..RenameRegionRequest::default()
                };
                regions.rename_region(rename).await.expect("renamed");
            }
        }
        stop.store(true, Relaxed);
    };
    let (numbers, ()) = join(callers, renaming).await;
    let mut numbers = numbers.concat();
    let granted = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), granted, "a duplicate identifier");
}

#[tokio::test]
async fn ok_delegated_regions_are_nested_spaces() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    created(&mut regions, CreateRegionRequest { prefix: Some("1".to_owned()), ..create("D", 40) }).await;
    let delegate = |name: &str| DelegateRegionRequest { name: name.to_owned(), ..DelegateRegionRequest::default() };
    regions.delegate_region(delegate(&name("D"))).await.expect("delegated");
    assert_eq!(draw(&daemon, "region:D", 1, "").await.expect_err("delegated").code(), Code::FailedPrecondition);
    let inner = CreateRegionRequest { parent: format!("{SPACE}/D"), prefix: Some("01".to_owned()), ..create("x", 20) };
    created(&mut regions, inner).await;
    regions.delegate_region(delegate(&format!("{SPACE}/D/regions/x"))).await.expect("delegated");
    let innermost =
        CreateRegionRequest { parent: format!("{SPACE}/D/x"), prefix: Some("1".to_owned()), ..create("y", 8) };
    created(&mut regions, innermost).await;
    daemon.kill();
    let daemon = Daemon::start(data.path());
    let suffix = draw(&daemon, "region:y@default/D/x", 1, "").await.expect("granted")[0];
    assert_eq!(suffix, 1 << 19);
    let id = 1 << 63 | 1 << 38 | suffix;
    let ask = ClassifyRequest { parent: SPACE.to_owned(), identifiers: vec![id.into()] };
    let answers = daemon.regions().classify(ask).await.expect("classified").into_inner().classifications;
    let mut levels = Vec::new();
    let mut level = answers.into_iter().next().map(Box::new);
    while let Some(answer) = level {
        assert_eq!(answer.status(), Status::Member);
        levels.push(answer.path.last().cloned().expect("a region"));
        level = answer.local;
    }
    let expected = [name("D"), format!("{SPACE}/D/regions/x"), format!("{SPACE}/D/x/regions/y")];
    assert_eq!(levels, expected);
    // Renaming the outer region renames its space.
    let rename = RenameRegionRequest { name: name("D"), region_id: "E".to_owned(), ..RenameRegionRequest::default() };
    daemon.regions().rename_region(rename).await.expect("renamed");
    assert_eq!(draw(&daemon, "region:y@default/E/x", 1, "").await.expect("granted"), [suffix + 1]);
}

#[tokio::test]
async fn ok_policies_expand_and_cap() {
    let data = data_dir();
    let daemon = Daemon::spawn(super::harness::kentd(data.path()).args(["--chunk-min", "1", "--chunk-max", "1"]));
    let mut regions = daemon.regions();
    created(&mut regions, CreateRegionRequest { zone_bits: Some(6), ..create("r", 2) }).await;
    let auto_expand = Some(AutoExpand { at_percent: 75, by_bits: 2, max_suffix_bits: 5 });
    set_policy(&mut regions, "r", Policy { auto_expand, ..Policy::default() }).await;
    draw(&daemon, "region:r", 3, "").await.expect("three of four");
    let get = || GetRegionRequest { name: name("r"), ..GetRegionRequest::default() };
    assert_eq!(regions.get_region(get()).await.expect("there").into_inner().suffix_bits, 2);
    draw(&daemon, "region:r", 1, "").await.expect("granted");
    assert_eq!(regions.get_region(get()).await.expect("there").into_inner().suffix_bits, 4);
    draw(&daemon, "region:r", 20, "").await.expect("granted");
    assert_eq!(regions.get_region(get()).await.expect("there").into_inner().suffix_bits, 5, "no further");
    assert_eq!(draw(&daemon, "region:r", 20, "").await.expect_err("full").code(), Code::ResourceExhausted);
    set_policy(&mut regions, "r", Policy { cap: "26".to_owned(), ..Policy::default() }).await;
    draw(&daemon, "region:r", 2, "").await.expect("up to the cap");
    assert_eq!(draw(&daemon, "region:r", 1, "").await.expect_err("capped").code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn ok_history_is_kept_and_watches_have_no_gaps() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    created(&mut regions, CreateRegionRequest { reason: "first".to_owned(), ..create("a", 20) }).await;
    created(&mut regions, create("b", 20)).await;
    let watch = |after_revision| WatchTableRequest { parent: SPACE.to_owned(), after_revision };
    let mut events = regions.watch_table(watch(0)).await.expect("watched").into_inner();
    let Some(Event::Snapshot(snapshot)) = events.message().await.expect("an event").expect("one").event else {
        panic!("a snapshot comes first")
    };
    assert_eq!((snapshot.regions.len(), snapshot.revision, snapshot.last), (2, 2, true));
    regions.seal_region(SealRegionRequest { name: name("a"), ..SealRegionRequest::default() }).await.expect("sealed");
    created(&mut regions, create("c", 20)).await;
    for revision in 3..=4 {
        let Some(Event::Change(change)) = events.message().await.expect("an event").expect("one").event else {
            panic!("a change follows")
        };
        assert_eq!(change.revision, revision);
    }
    daemon.kill();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    let mut resumed = regions.watch_table(watch(1)).await.expect("watched").into_inner();
    for revision in 2..=4 {
        let Some(Event::Change(change)) = resumed.message().await.expect("an event").expect("one").event else {
            panic!("missed changes come first")
        };
        assert_eq!(change.revision, revision);
    }
    assert_eq!(regions.watch_table(watch(9)).await.expect_err("the future").code(), Code::InvalidArgument);
    let history = |parent: String| ListHistoryRequest { parent, ..ListHistoryRequest::default() };
    let all = regions.list_history(history(SPACE.to_owned())).await.expect("listed").into_inner().entries;
    let entries: Vec<(u64, &str)> = all.iter().map(|entry| (entry.revision, entry.operation.as_str())).collect();
    assert_eq!(entries, [(4, "create"), (3, "seal"), (2, "create"), (1, "create")]);
    assert_eq!((all[3].reason.as_str(), all[3].principal.as_str()), ("first", "127.0.0.1"));
    let one = regions.list_history(history(name("a"))).await.expect("listed").into_inner().entries;
    assert_eq!(one.iter().map(|entry| entry.revision).collect::<Vec<_>>(), [3, 1]);
    for (at_revision, expected) in [(1, vec!["a"]), (2, vec!["a", "b"]), (4, vec!["a", "b", "c"])] {
        let list = ListRegionsRequest { parent: SPACE.to_owned(), at_revision, ..ListRegionsRequest::default() };
        let mut then = regions.list_regions(list).await.expect("listed").into_inner().regions;
        then.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(
            then.iter().map(|it| it.name.clone()).collect::<Vec<_>>(),
            expected.iter().map(|it| name(it)).collect::<Vec<_>>()
        );
        assert!(!then[0].sealed || at_revision > 2);
    }
}

#[tokio::test]
async fn ok_refused_edits_and_dry_runs_have_no_visible_effect() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut client = daemon.regions();
    let create = CreateRegionRequest {
        parent: "spaces/default".to_owned(),
        region_id: "a".to_owned(),
        suffix_bits: Some(20),
        prefix: Some("0".to_owned()),
        ..CreateRegionRequest::default()
    };
    client.create_region(create).await.expect("created");
    daemon.allocator().allocate(request("region:a", 3, Encoding::Packed)).await.expect("granted");
    let name = || "spaces/default/regions/a".to_owned();
    let get = GetRegionRequest { name: name(), ..GetRegionRequest::default() };
    let before = client.get_region(get.clone()).await.expect("there").into_inner();
    assert_eq!((before.issued.as_str(), before.reserved.as_str()), ("3", "1024"));

    // A dry run considers issued identifiers, not reserved ones, and does not return the chunk.
    let shrink =
        |by_bits| ShrinkRegionRequest { name: name(), by_bits, validate_only: true, ..ShrinkRegionRequest::default() };
    client.shrink_region(shrink(18)).await.expect("4 suffixes are enough");
    client.shrink_region(shrink(19)).await.expect_err("2 are not");
    let refused = ShrinkRegionRequest { validate_only: false, ..shrink(19) };
    client.shrink_region(refused).await.expect_err("2 are not");
    let after = client.get_region(get.clone()).await.expect("there").into_inner();
    assert_eq!((after.issued, after.reserved), (before.issued, before.reserved));

    // The response to an edit equals the region as read later, even when the edit is repeated.
    let expand = ExpandRegionRequest {
        name: name(),
        by_bits: 1,
        request_id: "once".to_owned(),
        ..ExpandRegionRequest::default()
    };
    for _ in 0..2 {
        let made = client.expand_region(expand.clone()).await.expect("expanded").into_inner().region.expect("it");
        assert_eq!((made.issued.as_str(), made.reserved.as_str(), made.suffix_bits), ("3", "1024", 21));
    }
    let other = ShrinkRegionRequest { name: name(), by_bits: 1, request_id: "once".to_owned(), ..shrink(1) };
    let other = ShrinkRegionRequest { validate_only: false, ..other };
    let refused = client.shrink_region(other).await.expect_err("the request_id was used for another edit");
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");

    // A closed region has no counter, so its next number cannot be set.
    let zero = NewRegion { region_id: "b".to_owned(), extension: Some("0".to_owned()), ..NewRegion::default() };
    let divide = AddSubregionsRequest {
        name: name(),
        by_bits: 1,
        new_regions: vec![zero],
        r#abstract: true,
        ..AddSubregionsRequest::default()
    };
    client.add_subregions(divide).await.expect("divided");
    let update = UpdateRegionRequest { name: name(), next: Some(1.into()), ..UpdateRegionRequest::default() };
    client.update_region(update).await.expect_err("it is closed");
    let closed = client.get_region(get).await.expect("there").into_inner();
    assert_eq!((closed.issued.as_str(), closed.reserved.as_str(), closed.capacity.as_str()), ("0", "0", "0"));
}
