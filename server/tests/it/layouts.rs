//! Custom layouts: presets and layouts drawn at random survive `kill -9`, and an independent decoder reads them.

mod history;

use std::{
    collections::HashSet,
    time::{Duration, UNIX_EPOCH},
};

use kent_ids::{
    UnixNanos,
    layout::{Ascends, Layout, Preset, Safe},
};
use kent_proto::v1::{
    AllocateRequest, CreateLayoutRequest, DeleteLayoutRequest, Encoding, GetLayoutRequest, Layout as Message,
    ListLayoutsRequest, allocate_response::Identifiers, layouts_client::LayoutsClient,
};
use kent_test_etcd::Etcd;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt;

use super::{
    auth::Guarded,
    backup::{backup, restore, said},
    cluster::replica,
    harness::{Daemon, data_dir, identifiers, request},
    http::{Answer, send},
    operator::Operator,
};

/// A layout that holds only eight slots.
const NARROW: &str = "time:41:1ms@2020-01-01 slot:3 counter:12";
const TWITTER: &str = "zero:1 time:41:1ms@2010-11-04T01:42:54.657Z slot:10 counter:12";

impl Daemon {
    fn layouts(&self) -> LayoutsClient<Channel> {
        LayoutsClient::new(self.channel())
    }
}

fn creation(name: &str, fields: &str, text: &str) -> CreateLayoutRequest {
    let (name, fields, text) = (name.to_owned(), fields.to_owned(), text.to_owned());
    CreateLayoutRequest {
        layout: Some(Message { name, fields, text, ..Message::default() }),
        ..CreateLayoutRequest::default()
    }
}

async fn make(daemon: &Daemon, name: &str, fields: &str) -> Message {
    daemon.layouts().create_layout(creation(name, fields, "")).await.expect(fields).into_inner()
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

fn now() -> UnixNanos {
    UnixNanos::new(UNIX_EPOCH.elapsed().expect("after 1970").as_nanos().try_into().expect("small"))
}

/// A field of an identifier, decoded from the text of the layout alone.
#[derive(Debug)]
struct Decoded<'f> {
    kind: &'f str,
    detail: Option<&'f str>,
    value: u128,
}

/// Splits an identifier into its fields. The widths come from the text of the layout, not from the code of Kent.
fn decode(fields: &str, mut id: u128) -> Vec<Decoded<'_>> {
    let mut decoded = Vec::new();
    for field in fields.split(' ').rev() {
        let mut parts = field.splitn(3, ':');
        let (kind, bits, detail) = (parts.next().expect("a kind"), parts.next().expect("a width"), parts.next());
        let bits: u32 = bits.parse().expect("a number");
        let mask = u128::MAX >> (128 - bits);
        decoded.push(Decoded { kind, detail, value: id & mask });
        id = id.checked_shr(bits).unwrap_or(0);
    }
    assert_eq!(id, 0, "the identifier is wider than its fields");
    decoded
}

/// The layouts of a test, and the identifiers received from them.
struct Received {
    layouts: Vec<(String, String)>,
    seen: HashSet<(usize, Vec<u128>)>,
}

impl Received {
    /// Checks a block of identifiers, which arrived at about the present time.
    fn record(&mut self, of: usize, ids: &[u128]) {
        let (name, fields) = &self.layouts[of];
        let layout: Layout = fields.parse().expect("a layout");
        match layout.ascends() {
            Ascends::Always => assert!(ids.is_sorted_by(|one, other| one < other), "{name}: {ids:x?}"),
            Ascends::ByTick | Ascends::Never => {}
        }
        for id in ids {
            let decoded = decode(fields, *id);
            for Decoded { kind, detail, value } in &decoded {
                match *kind {
                    "zero" => assert_eq!(*value, 0, "{name}: {id:x}"),
                    "const" => assert_eq!(value.to_string(), detail.expect("a value"), "{name}: {id:x}"),
                    "slot" => {
                        let base: u128 = detail.map_or(0, |base| base.parse().expect("a base"));
                        assert!((base..base + 64).contains(value), "{name}: {id:x}");
                    }
                    _ => {}
                }
            }
            let at = layout.time_of(*id).expect("a time").get();
            // A tick may be a day long, and the daemon may be a second ahead.
            assert!((now().get() - at).abs() < 86_402_000_000_000, "{name}: {id:x} has the time {at}");
            // Uniqueness must not depend on random bits, nor on the value that the request supplies.
            let certain = decoded.iter().filter(|it| !["random", "tag", "shard"].contains(&it.kind));
            let certain: Vec<_> = certain.map(|it| it.value).collect();
            assert!(self.seen.insert((of, certain)), "{name}: {id:x} was issued twice");
        }
    }
}

/// Draws a layout with all kinds of fields in a random order.
fn draw(rng: &mut StdRng) -> Layout {
    loop {
        let counter = format!("{}:{}", ["counter", "permuted"].choose(rng).expect("two"), rng.random_range(10..36));
        let tick = ["1us", "100us", "1ms", "10ms", "1s", "90s", "1h", "1d"].choose(rng).expect("some");
        let mut fields = vec![format!("time:{}:{tick}@2020-01-01", rng.random_range(24..56)), counter];
        fields.push(format!("slot:{}:{}", rng.random_range(6..12), rng.random_range(0..3)));
        for (odds, field) in [(0.3, "zero:1"), (0.3, "const:3:5"), (0.4, "random:20"), (0.3, "tag:4")] {
            if rng.random_bool(odds) {
                fields.insert(rng.random_range(0..=fields.len()), field.to_owned());
            }
        }
        let first = rng.random_range(0..fields.len());
        fields.rotate_left(first);
        if let Ok(layout) = fields.join(" ").parse::<Layout>()
            && matches!(layout.check(8, now()), Ok(Safe::Timed { per_second: 20_000.., .. }))
        {
            return layout;
        }
    }
}

/// Allocates identifiers, and waits while a slow layout has used up those of the present second.
async fn patiently(daemon: &Daemon, ask: AllocateRequest) -> Result<Vec<u128>, Status> {
    let began = Instant::now();
    loop {
        match daemon.allocator().allocate(ask.clone()).await {
            Ok(reply) => return Ok(identifiers(reply.get_ref())),
            Err(refused) if reason(&refused) == "CLOCK_LIMIT" && began.elapsed() < Duration::from_secs(30) => {
                sleep(Duration::from_millis(50)).await;
            }
            Err(refused) => return Err(refused),
        }
    }
}

/// Kills a daemon `rounds` times under load from presets and random layouts. Each source gets blocks of `count`.
async fn crash_repeatedly(rounds: u32, count: u64) {
    let (data, seed) = (data_dir(), rand::random());
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let later: UnixNanos = UnixNanos::new(1_735_689_600_000_000_000);
    let epoch = |name: &str| (name == "baidu-uid").then_some(later);
    let presets = Preset::all().map(|it| (it.name.to_owned(), it.layout(epoch(it.name)).expect(it.name).to_string()));
    let random = (0..20).map(|number| (format!("random-{number}"), draw(&mut rng).to_string()));
    let mut received = Received { layouts: presets.chain(random).collect(), seen: HashSet::new() };
    let daemon = Daemon::start(data.path());
    for (name, fields) in &received.layouts {
        assert_eq!(make(&daemon, name, fields).await.fields, *fields);
    }
    daemon.kill();
    for round in 0..rounds {
        let daemon = Daemon::start(data.path());
        let mut order: Vec<usize> = (0..received.layouts.len()).collect();
        let first = rng.random_range(0..order.len());
        order.rotate_left(first);
        // Some rounds end before all layouts are used.
        for of in order.into_iter().take(rng.random_range(20..=34)) {
            let (name, fields) = &received.layouts[of];
            let tag = ["tag:", "shard:"].iter().any(|kind| fields.contains(kind)).then_some(u64::from(round % 16));
            let encoding = if rng.random_bool(0.5) { Encoding::Lease } else { Encoding::Packed };
            let ask = AllocateRequest { tag, ..request(&format!("layout:{name}"), count, encoding) };
            let ids = patiently(&daemon, ask).await.unwrap_or_else(|error| panic!("{name} {fields}: {error}"));
            assert_eq!(ids.len() as u64, count);
            received.record(of, &ids);
        }
        daemon.kill();
    }
    assert!(received.seen.len() as u64 > 20 * u64::from(rounds), "only {} were received", received.seen.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_presets_and_random_layouts_survive_crashes() {
    crash_repeatedly(5, 300).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: a million identifiers of each layout"]
async fn long_a_million_identifiers_of_each_layout_survive_crashes() {
    crash_repeatedly(100, 10_000).await;
}

#[tokio::test]
async fn ok_a_layout_can_be_deleted_until_it_is_used() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let made = make(&daemon, "orders", TWITTER).await;
    assert_eq!((made.bits, made.used, made.slots, made.text.as_str()), (64, false, 64, "decimal"));
    assert_eq!(made.per_second, "4096000");
    // The same layout again is no error; another one is.
    assert_eq!(make(&daemon, "orders", TWITTER).await.created_unix_ms, made.created_unix_ms);
    let other = daemon.layouts().create_layout(creation("orders", TWITTER, "hex")).await.expect_err("taken");
    assert_eq!((other.code(), reason(&other).as_str()), (Code::AlreadyExists, "NAME_TAKEN"));
    let delete = || DeleteLayoutRequest { name: "orders".to_owned() };
    daemon.layouts().delete_layout(delete()).await.expect("nothing was issued");
    let missing = daemon.layouts().delete_layout(delete()).await.expect_err("it is gone");
    assert_eq!((missing.code(), reason(&missing).as_str()), (Code::NotFound, "NO_SUCH_LAYOUT"));
    let none = daemon.allocator().allocate(request("layout:orders", 1, Encoding::Packed)).await.expect_err("gone");
    assert_eq!((none.code(), reason(&none).as_str()), (Code::NotFound, "NO_SUCH_LAYOUT"));
    // The name may be used again, because nothing was issued under it.
    daemon.layouts().create_layout(creation("orders", TWITTER, "hex")).await.expect("free again");
    daemon.allocator().allocate(request("layout:orders", 1, Encoding::Packed)).await.expect("granted");
    let used = daemon.layouts().delete_layout(delete()).await.expect_err("used");
    assert_eq!((used.code(), reason(&used).as_str()), (Code::FailedPrecondition, "LAYOUT_USED"));
    daemon.kill();
    let daemon = Daemon::start(data.path());
    let get = GetLayoutRequest { name: "orders".to_owned() };
    assert!(daemon.layouts().get_layout(get).await.expect("there").into_inner().used);
    assert_eq!(
        daemon.layouts().list_layouts(ListLayoutsRequest {}).await.expect("listed").into_inner().layouts.len(),
        1
    );
}

#[tokio::test]
async fn err_layouts_that_are_not_safe() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    for (fields, text, code, expected) in [
        ("counter:40", "", "NO_TIME", "the layout has no field time"),
        ("time:30:1ms@2020-01-01 slot:6 counter:8", "", "UNSAFE_LAYOUT", "must last for at least another year"),
        ("time:41:1ms@2020-01-01 slot:1:2 counter:8", "", "BAD_INPUT", "layout.fields: "),
        ("time:41:1ms@2090-01-01 slot:6 counter:8", "", "UNSAFE_LAYOUT", "in the future"),
        ("time:41 slot:6", "", "BAD_INPUT", "layout.fields: "),
        (TWITTER, "base99", "BAD_INPUT", "layout.text: there is no text form"),
        (TWITTER, "uuid", "BAD_INPUT", "layout.text: uuid writes identifiers of 128 bits"),
    ] {
        let refused = daemon.layouts().create_layout(creation("x", fields, text)).await.expect_err(fields);
        assert_eq!(reason(&refused), code, "{fields}: {refused}");
        assert!(refused.message().contains(expected), "{fields}: {refused}");
    }
    let dry = CreateLayoutRequest { validate_only: true, ..creation("x", TWITTER, "") };
    daemon.layouts().create_layout(dry).await.expect("safe");
    assert!(daemon.layouts().list_layouts(ListLayoutsRequest {}).await.expect("listed").get_ref().layouts.is_empty());
}

#[tokio::test]
async fn ok_each_request_supplies_the_tag_of_a_layout_that_has_one() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    make(&daemon, "shards", "time:41:1ms@2020-01-01 shard:5 slot:6 counter:12").await;
    make(&daemon, "plain", TWITTER).await;
    let ask = |source: &str, tag| AllocateRequest { tag, ..request(source, 2, Encoding::Packed) };
    // A request that is refused does not use the layout.
    daemon.allocator().allocate(ask("layout:shards", None)).await.expect_err("no tag");
    let many = AllocateRequest { tag: Some(1), ..request("layout:shards", 10_000_000, Encoding::Packed) };
    daemon.allocator().allocate(many).await.expect_err("too many for one reply");
    let get = GetLayoutRequest { name: "shards".to_owned() };
    assert!(!daemon.layouts().get_layout(get).await.expect("there").into_inner().used);
    let reply = daemon.allocator().allocate(ask("layout:shards", Some(31))).await.expect("granted");
    assert!(identifiers(reply.get_ref()).iter().all(|id| id >> 18 & 31 == 31));
    for (source, tag, expected) in [
        ("layout:shards", None, "tag: is missing, but this layout needs a value from 0 to 31"),
        ("layout:shards", Some(32), "tag: is 32, but this layout needs a value from 0 to 31"),
        ("layout:plain", Some(0), "tag: is given, but the layout has no field shard or tag"),
        ("uuidv7", Some(0), "tag: is allowed only for layouts"),
    ] {
        let refused = daemon.allocator().allocate(ask(source, tag)).await.expect_err(expected);
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().starts_with(expected), "{refused}");
    }
}

#[tokio::test]
async fn ok_identifiers_as_text_have_the_spelling_of_the_layout() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    daemon.layouts().create_layout(creation("short", TWITTER, "base58 prefix:ord_")).await.expect("created");
    let ask = request("layout:short", 5000, Encoding::Text);
    let reply = daemon.allocator().allocate(ask).await.expect("granted").into_inner();
    let Some(Identifiers::Text(text)) = reply.identifiers else { panic!("expected text") };
    let spelling: kent_ids::layout::Spelling = "base58 prefix:ord_".parse().expect("a spelling");
    let values: Vec<_> = text.ids.iter().map(|id| spelling.parse(id, 64).expect("canonical")).collect();
    assert!(values.len() == 5000 && values.is_sorted_by(|one, other| one < other));
    // The slot and its epoch are the fencing token.
    assert!(text.fence_subject < 64);
    // The short path of the HTTP port.
    make(&daemon, "shards", "time:41:1ms@2020-01-01 shard:5 slot:6 counter:12").await;
    for (query, start) in [("layout:short?n=2", "ord_"), ("layout:shards?tag=31", "")] {
        let Answer { code, body, .. } = send(&daemon, "POST", &format!("/v1/alloc/{query}"), &[], "");
        assert!(code == 200 && body.lines().all(|id| id.starts_with(start)), "{query}: {body}");
    }
    let Answer { code, body, .. } = send(&daemon, "POST", "/v1/alloc/layout:shards?tag=x", &[], "");
    assert!(code == 400 && body.contains("tag: must be a whole number"), "{body}");
}

#[tokio::test]
async fn ok_permissions_name_layouts() {
    let data = data_dir();
    let guarded = Guarded::start(data.path()).await;
    let mut layouts = guarded.daemon.layouts();
    layouts.create_layout(guarded.admin.send(creation("orders", TWITTER, ""))).await.expect("created");
    layouts.create_layout(guarded.admin.send(creation("team-a-x", TWITTER, ""))).await.expect("created");
    let taker = guarded.token(&["allocate:layout:orders"]).await;
    guarded.pack(&taker, "layout:orders").await.expect("allowed");
    let team = guarded.token(&["edit:layout:team-a-*", "read:layout:team-a-*"]).await;
    layouts.create_layout(team.send(creation("team-a-y", TWITTER, ""))).await.expect("allowed");
    let listed = layouts.list_layouts(team.send(ListLayoutsRequest {})).await.expect("listed").into_inner().layouts;
    assert_eq!(listed.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["team-a-x", "team-a-y"]);
    // Whether a layout exists is not shown to a caller who may not use it.
    for name in ["team-a-x", "missing"] {
        let denied = guarded.pack(&taker, &format!("layout:{name}")).await.expect_err("denied");
        assert_eq!(denied.code(), Code::PermissionDenied);
        assert!(denied.message().contains(&format!("lacks the permission allocate:layout:{name}")), "{denied}");
        let get = GetLayoutRequest { name: name.to_owned() };
        let denied = layouts.get_layout(taker.send(get)).await.expect_err("denied");
        assert!(denied.message().contains(&format!("lacks the permission read:layout:{name}")), "{denied}");
    }
    let denied = layouts.create_layout(team.send(creation("orders2", TWITTER, ""))).await.expect_err("denied");
    assert!(denied.message().contains("lacks the permission edit:layout:orders2"), "{denied}");
    let denied = guarded.draw(&taker, "layout:orders", Encoding::Lease).await.expect_err("a lease holds a key");
    assert!(denied.message().contains("lacks the permission lease:layout:orders"), "{denied}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_replicas_share_layouts() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let all = [(); 3].map(|()| replica(&address, 60));
    make(&all[0], "orders", TWITTER).await;
    let mut received = Received { layouts: vec![("orders".to_owned(), TWITTER.to_owned())], seen: HashSet::new() };
    for _ in 0..5 {
        for daemon in &all {
            let reply =
                daemon.allocator().allocate(request("layout:orders", 500, Encoding::Lease)).await.expect("granted");
            received.record(0, &identifiers(reply.get_ref()));
        }
    }
    let delete = DeleteLayoutRequest { name: "orders".to_owned() };
    let used = all[2].layouts().delete_layout(delete).await.expect_err("used by all");
    assert_eq!(reason(&used), "LAYOUT_USED");
}

#[tokio::test]
async fn ok_a_restored_store_keeps_its_layouts_and_repeats_nothing() {
    let dir = data_dir();
    let (old, file, new) = (dir.path().join("old"), dir.path().join("kent.backup"), dir.path().join("new"));
    let daemon = Daemon::start(&old);
    make(&daemon, "orders", TWITTER).await;
    make(&daemon, "narrow", NARROW).await;
    let mut received = Received { layouts: vec![("orders".to_owned(), TWITTER.to_owned())], seen: HashSet::new() };
    let take = async |daemon: &Daemon, received: &mut Received| {
        let reply =
            daemon.allocator().allocate(request("layout:orders", 900, Encoding::Packed)).await.expect("granted");
        received.record(0, &identifiers(reply.get_ref()));
    };
    // The backup does not show that the layout is used.
    backup(&daemon, &file).await;
    take(&daemon, &mut received).await;
    daemon.kill();
    let restored = restore(&file, &new, &["--clock-error", "0s", "--yes"]);
    assert!(restored.status.success(), "{}", said(&restored));
    assert!(said(&restored).contains("layouts: 2 layouts are marked as used."), "{}", said(&restored));
    let daemon = Daemon::start(&new);
    take(&daemon, &mut received).await;
    for name in ["orders", "narrow"] {
        let delete = DeleteLayoutRequest { name: name.to_owned() };
        let used = daemon.layouts().delete_layout(delete).await.expect_err("it may have issued since the backup");
        assert_eq!(reason(&used), "LAYOUT_USED");
    }
    // All slots were reserved for a moment, but a layout with few slots can be created again.
    make(&daemon, "narrow", NARROW).await;
    make(&daemon, "narrow-2", NARROW).await;
}

#[test]
fn ok_an_operator_creates_and_uses_a_layout() {
    let operator = Operator::new();
    let (code, out, err) = operator.run("layout create tweets --preset snowflake-twitter --prefix t_ --text base62");
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for expected in [
        "each of up to 64 slots issues up to 4_096_000 identifiers a second, until 2080-07-10T17:30:30Z",
        "An example of slot 0:",
        "take identifiers with `kent alloc layout:tweets`",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let (code, out, _) = operator.run("alloc layout:tweets -n 3");
    let ids: Vec<_> = out.lines().collect();
    assert!(code == 0 && ids.len() == 3 && ids.iter().all(|id| id.starts_with("t_")), "{out}");
    let (code, out, err) = operator.run(&format!("inspect {} --as layout:tweets", ids[0]));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("format  layout:tweets") && out.contains("kent_slot"), "{out}");
    let (code, out, _) = operator.run("layout ls");
    assert!(code == 0 && out.contains("tweets") && out.contains("yes"), "{out}");
    let (code, out, _) = operator.run("layout show tweets --json");
    let shown: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &shown["used"], &shown["text"]), (0, &true.into(), &"base62 prefix:t_".into()));
    for (words, expected) in [
        ("layout delete tweets", "identifiers of layout \"tweets\" may have been issued, so it is kept"),
        ("layout show nobody", "there is no layout \"nobody\": `kent layout ls` lists all layouts"),
        ("alloc layout:nobody", "there is no layout \"nobody\""),
        ("layout create x --preset ksuid", "ksuid is too wide"),
        ("layout create x", "--fields <FIELDS>"),
        ("layout create x --preset ulid --bits 64", "--bits: "),
        ("layout create x --preset baidu-uid", "the time of the layout ends at 2024-11-20"),
        ("inspect 5 --as layout:nobody", "there is no layout \"nobody\""),
    ] {
        let (code, _, err) = operator.run(words);
        assert!(code != 0 && err.contains(expected), "{words}: {err}");
    }
    let (code, out, _) = operator.run("layout presets");
    assert!(code == 0 && Preset::all().all(|preset| out.contains(preset.name)), "{out}");
}
