//! The server's part of the console: maps, figures, suggested edits, sessions and files.

use std::{fs, time::Duration};

use kent_proto::{
    model::suggestion_of,
    v1::{
        CreateRegionRequest, CreateSpaceRequest, DelegateRegionRequest, DeleteSpaceRequest, Encoding,
        ExpandRegionRequest, FiguresOfSecond, ListFullestRegionsRequest, MapCell, MapRegionsRequest,
        MapRegionsResponse, Policy, Region, RevokeTokenRequest, SealRegionRequest, WatchConsoleRequest,
        WatchConsoleResponse, edit_suggestion,
        map_cell::Kind,
        watch_console_request::{Figures, Table},
        watch_console_response::{Begin, Edit, Event, Refused, Seconds, refused::Topic},
    },
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tonic::{Code, Status, Streaming};

use super::{
    auth::{Guarded, Holder, anonymous, make},
    harness::{Daemon, SPACE, create, data_dir, kentd, name, request},
    http::{Answer, JSON, send},
};

const MARK: &str = "kent-console: 1";

fn map(prefix: &str, max_cells: u32, at_revision: u64) -> MapRegionsRequest {
    MapRegionsRequest { parent: SPACE.to_owned(), prefix: prefix.to_owned(), max_cells, at_revision }
}

fn at(region: &str, prefix: &str) -> CreateRegionRequest {
    CreateRegionRequest { prefix: Some(prefix.to_owned()), ..create(region) }
}

/// Each cell as a string: prefix, number of regions, issued suffixes, and the region that it shows.
fn cells(map: &MapRegionsResponse) -> Vec<String> {
    let region = |cell: &MapCell| cell.region.as_ref().map(|region| region.name.clone()).unwrap_or_default();
    let cell = |cell: &MapCell| format!("{} {} {} {}", cell.prefix, cell.region_count, cell.issued, region(cell));
    map.cells.iter().map(cell).collect()
}

#[tokio::test]
async fn ok_a_map_shows_regions_free_space_and_counters() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    regions.create_region(at("orders", "01")).await.expect("created");
    regions.create_region(at("parts", "101")).await.expect("created");
    daemon.allocator().allocate(request("region:orders", 3, Encoding::Packed)).await.expect("granted");
    let whole = regions.map_regions(map("", 0, 0)).await.expect("a map").into_inner();
    let (orders, parts) = (name("orders"), name("parts"));
    assert_eq!(
        cells(&whole),
        ["00 0 0 ", &format!("01 1 3 {orders}"), "100 0 0 ", &format!("101 1 0 {parts}"), "11 0 0 "]
    );
    assert_eq!((whole.revision, whole.bits, whole.partial), (2, 64, false));
    let cell = &whole.cells[1];
    assert_eq!((cell.capacity.as_str(), cell.free_share), ("1048576", 0.0));
    assert_eq!(cell.kinds, [Kind::Region as i32, Kind::Zone as i32]);
    assert!(cell.fill.is_some_and(|fill| fill > 0.0 && fill < 0.001), "{:?}", cell.fill);
    assert!(cell.region.as_ref().is_some_and(|region| region.zone_bits == 42 && region.rate > 0.0));
    assert_eq!(whole.cells[0].kinds, [Kind::Free as i32]);
    // Two cells: the second one has a region and free space.
    let coarse = regions.map_regions(map("", 2, 0)).await.expect("a map").into_inner();
    assert_eq!(coarse.cells.iter().map(|cell| cell.region_count).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(coarse.cells[1].free_share, 0.75);
    let inner = regions.map_regions(map("0111", 9, 0)).await.expect("a map").into_inner();
    assert_eq!((cells(&inner), inner.around[0].name.clone()), (vec!["0111 0 0 ".to_owned()], orders.clone()));
    assert_eq!(
        (inner.cells[0].inside.clone(), inner.cells[0].kinds.clone()),
        (orders.clone(), vec![Kind::Zone as i32])
    );
    // The map marks a sealed region. A map of an earlier revision has no counters.
    let seal = SealRegionRequest { name: orders.clone(), ..SealRegionRequest::default() };
    regions.seal_region(seal).await.expect("sealed");
    let now = regions.map_regions(map("01", 9, 0)).await.expect("a map").into_inner();
    assert!(now.cells[0].kinds.contains(&(Kind::Sealed as i32)));
    let past = regions.map_regions(map("", 9, 1)).await.expect("a map").into_inner();
    assert_eq!(cells(&past), ["00 0  ", &format!("01 1  {orders}"), "1 0  "]);
    assert_eq!((past.revision, past.cells[1].fill), (1, None));
    assert!(!past.cells[1].kinds.contains(&(Kind::Sealed as i32)));
}

/// An earlier revision looks the same after each later edit, also while edits are made.
#[tokio::test(flavor = "multi_thread")]
async fn ok_a_map_of_an_earlier_revision_stays_the_same() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    for prefix in 0..40_u32 {
        regions.create_region(at(&format!("r{prefix}"), &format!("{prefix:08b}"))).await.expect("created");
    }
    let mut editor = daemon.regions();
    let mut edits = JoinSet::new();
    edits.spawn(async move {
        for round in 0..30_u32 {
            let region = format!("r{}", round % 40);
            let seal = SealRegionRequest { name: name(&region), ..SealRegionRequest::default() };
            editor.seal_region(seal).await.expect("sealed");
            let (new, prefix) = (format!("n{round}"), format!("1{round:07b}"));
            editor.create_region(at(&new, &prefix)).await.expect("created");
        }
    });
    let expected = |revision: u64| {
        let named = |prefix: u64| format!("{prefix:08b} 1  {}", name(&format!("r{prefix}")));
        (0..revision).map(named).collect::<Vec<_>>()
    };
    let (mut maps, mut is_edited) = (0, false);
    while !is_edited || maps < 20 {
        let revision = 1 + maps % 40;
        let past = regions.map_regions(map("", 4096, revision)).await.expect("a map").into_inner();
        let used: Vec<_> = cells(&past).into_iter().filter(|cell| !cell.ends_with(' ')).collect();
        assert_eq!(used, expected(revision), "at {revision}");
        assert!(past.cells.iter().all(|cell| !cell.kinds.contains(&(Kind::Sealed as i32))));
        maps += 1;
        if let Some(ended) = edits.try_join_next() {
            ended.expect("no panic");
            is_edited = true;
        }
    }
}

#[tokio::test]
async fn err_a_map_of_bad_parts_says_what_is_allowed() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    for (bad, code, part) in [
        (map("2", 0, 0), Code::InvalidArgument, "consists of 0s and 1s"),
        (map(&"0".repeat(65), 0, 0), Code::InvalidArgument, "has 65 bits, but the identifiers of the space have 64"),
        (map("", 4097, 0), Code::InvalidArgument, "must be at most 4096"),
        (map("", 0, 9), Code::InvalidArgument, "the current revision of the table"),
        (MapRegionsRequest { parent: "spaces/none".into(), ..map("", 0, 0) }, Code::NotFound, "there is no space"),
    ] {
        let refused = daemon.regions().map_regions(bad).await.expect_err("refused");
        assert!(refused.code() == code && refused.message().contains(part), "{refused}");
    }
}

#[tokio::test]
async fn ok_a_map_shows_only_what_the_caller_may_read() {
    let data = data_dir();
    let guarded = Guarded::start(data.path()).await;
    let mut regions = guarded.daemon.regions();
    for (region, prefix) in [("orders", "01"), ("parts", "101")] {
        regions.create_region(guarded.admin.send(at(region, prefix))).await.expect("created");
    }
    let shop = guarded.token(&["read:region:default/orders"]).await;
    let some = regions.map_regions(shop.send(map("", 0, 0))).await.expect("a map").into_inner();
    assert_eq!(cells(&some), ["00 0 0 ", &format!("01 1 0 {}", name("orders")), "1 0 0 "]);
    assert!(some.partial);
    let all = regions.map_regions(guarded.admin.send(map("", 0, 0))).await.expect("a map").into_inner();
    assert!(!all.partial && all.cells.len() == 5);
    let past = regions.map_regions(shop.send(map("", 0, 1))).await.expect_err("refused");
    assert_eq!(past.code(), Code::PermissionDenied);
    let none = guarded.token(&["allocate:region:default/orders"]).await;
    let refused = regions.map_regions(none.send(map("", 0, 0))).await.expect_err("refused");
    assert_eq!(refused.code(), Code::PermissionDenied);
}

fn fullest(max_regions: u32) -> ListFullestRegionsRequest {
    ListFullestRegionsRequest { parent: SPACE.to_owned(), max_regions }
}

/// The names of these regions in the default space.
fn short_names(regions: &[Region]) -> Vec<&str> {
    let prefix = format!("{SPACE}/regions/").len();
    regions.iter().map(|region| &region.name[prefix..]).collect()
}

#[tokio::test]
async fn ok_the_fullest_regions_are_listed_with_what_the_caller_may_read() {
    let data = data_dir();
    let guarded = Guarded::start(data.path()).await;
    let (mut regions, mut allocator) = (guarded.daemon.regions(), guarded.daemon.allocator());
    // Strict regions give out exactly what is asked for. Each of these has 16 identifiers.
    let strict = Some(Policy { strict: true, ..Policy::default() });
    for region in ["empty", "some", "more", "full", "delegated"] {
        let create = CreateRegionRequest { suffix_bits: Some(4), policy: strict.clone(), ..create(region) };
        regions.create_region(guarded.admin.send(create)).await.expect("created");
    }
    for (region, count) in [("some", 2), ("more", 8), ("full", 16)] {
        let take = request(&format!("region:{region}"), count, Encoding::Packed);
        allocator.allocate(guarded.admin.send(take)).await.expect("granted");
    }
    let delegate = DelegateRegionRequest { name: name("delegated"), ..DelegateRegionRequest::default() };
    regions.delegate_region(guarded.admin.send(delegate)).await.expect("delegated");
    let listed = regions.list_fullest_regions(guarded.admin.send(fullest(0))).await.expect("listed").into_inner();
    assert_eq!(short_names(&listed.regions), ["full", "more", "some"]);
    assert_eq!((listed.regions[1].issued.as_str(), listed.regions[1].capacity.as_str()), ("8", "16"));
    assert!(listed.regions[1].full_in_seconds.is_some_and(|seconds| seconds > 0.0), "{:?}", listed.regions[1]);
    let two = regions.list_fullest_regions(guarded.admin.send(fullest(2))).await.expect("listed").into_inner();
    assert_eq!(short_names(&two.regions), ["full", "more"]);
    let some = guarded.token(&["read:region:default/some", "read:region:default/empty"]).await;
    let readable = regions.list_fullest_regions(some.send(fullest(0))).await.expect("listed").into_inner();
    assert_eq!(short_names(&readable.regions), ["some"]);
    let none = guarded.token(&["allocate:region:default/some"]).await;
    let refused = regions.list_fullest_regions(none.send(fullest(0))).await.expect_err("refused");
    assert_eq!(refused.code(), Code::PermissionDenied);
    let refused = regions.list_fullest_regions(guarded.admin.send(fullest(101))).await.expect_err("refused");
    assert!(refused.message().contains("max_regions: is 101, but must be at most 100"), "{refused}");
}

/// An open `WatchConsole` call.
struct Watch(Streaming<WatchConsoleResponse>);

impl Watch {
    async fn open(daemon: &Daemon, by: &Holder, figures: Option<i64>, tables: &[(&str, Option<u64>)]) -> Self {
        let table =
            |&(parent, after_revision): &(&str, Option<u64>)| Table { parent: parent.to_owned(), after_revision };
        let request = WatchConsoleRequest {
            figures: figures.map(|after_unix_seconds| Figures { after_unix_seconds }),
            tables: tables.iter().map(table).collect(),
        };
        Self(daemon.admin().watch_console(by.send(request)).await.expect("watched").into_inner())
    }

    async fn next(&mut self) -> Option<Event> {
        self.0.message().await.expect("no error").map(|message| message.event.expect("an event"))
    }

    /// The next message with seconds. Messages of other kinds fail the test.
    async fn seconds(&mut self) -> Vec<FiguresOfSecond> {
        match self.next().await {
            Some(Event::Seconds(Seconds { seconds })) => seconds,
            other => panic!("{other:?}"),
        }
    }

    /// The next message about a table or a refusal, as a string.
    async fn told(&mut self) -> String {
        loop {
            return match self.next().await {
                None => "the end".to_owned(),
                Some(Event::Seconds(_)) => continue,
                Some(Event::Begin(Begin { parent, revision })) => format!("{parent} from {revision}"),
                Some(Event::Edit(Edit { parent, entry })) => {
                    let entry = entry.expect("an entry");
                    format!("{parent} {}: {}", entry.revision, entry.operation)
                }
                Some(Event::Refused(Refused { topic, status })) => {
                    let code = Code::from(status.expect("a status").code);
                    match topic.expect("a topic") {
                        Topic::Figures(_) => format!("figures {code:?}"),
                        Topic::Parent(parent) => format!("{parent} {code:?}"),
                    }
                }
            };
        }
    }

    /// The next `count` messages of `told`, sorted.
    async fn told_in_any_order(&mut self, count: usize) -> Vec<String> {
        let mut told = Vec::new();
        for _ in 0..count {
            told.push(self.told().await);
        }
        told.sort();
        told
    }
}

async fn create_space(daemon: &Daemon, by: &Holder, space: &str) {
    let request = CreateSpaceRequest { space_id: space.to_owned(), bits: 64, ..CreateSpaceRequest::default() };
    daemon.regions().create_space(by.send(request)).await.expect("created");
}

async fn create_in(daemon: &Daemon, by: &Holder, parent: &str, region: &str) {
    let request = CreateRegionRequest { parent: parent.to_owned(), ..create(region) };
    daemon.regions().create_region(by.send(request)).await.expect("created");
}

#[tokio::test]
async fn ok_figures_of_each_second_are_streamed() {
    let (data, anyone) = (data_dir(), anonymous());
    let daemon = Daemon::start(data.path());
    daemon.regions().create_region(create("orders")).await.expect("created");
    for source in ["region:orders", "uuidv7", "uuidv7"] {
        daemon.allocator().allocate(request(source, 5, Encoding::Packed)).await.expect("granted");
    }
    let sum = async |daemon: &Daemon| {
        let mut stream = Watch::open(daemon, &anyone, Some(0), &[]).await;
        let (mut grants, mut identifiers, mut last) = (0.0, 0.0, 0);
        while grants < 3.0 {
            for second in stream.seconds().await {
                assert!(second.unix_seconds >= last, "in order");
                last = second.unix_seconds;
                let own = &second.replicas[0];
                assert!(own.answering && own.clock_ahead_ms.is_none() && second.replicas.len() == 1);
                assert_eq!((own.grants > 0.0, own.p99_micros.is_some()), (own.grants > 0.0, own.grants > 0.0));
                assert!(own.window_left_ms.is_some_and(|left| left <= 60_000));
                assert_eq!(second.sources.iter().map(|source| source.grants).sum::<u64>() as f64, own.grants);
                (grants, identifiers) = (grants + own.grants, identifiers + own.identifiers);
            }
        }
        (grants, identifiers)
    };
    assert_eq!(sum(&daemon).await, (3.0, 15.0));
    // A later watcher gets what the daemon remembers, and then each new second.
    assert_eq!(sum(&daemon).await, (3.0, 15.0));
    let mut stream = Watch::open(&daemon, &anyone, Some(0), &[]).await;
    let (first, next) = (stream.seconds().await, stream.seconds().await);
    assert!(!first.is_empty() && next.len() == 1 && next[0].unix_seconds > first[0].unix_seconds);
    // A watcher that resumes gets no second twice.
    let mut resumed = Watch::open(&daemon, &anyone, Some(next[0].unix_seconds), &[]).await;
    assert!(resumed.seconds().await[0].unix_seconds > next[0].unix_seconds);
}

#[tokio::test]
async fn ok_figures_and_two_tables_share_one_stream() {
    let (data, anyone) = (data_dir(), anonymous());
    let daemon = Daemon::start(data.path());
    create_space(&daemon, &anyone, "other").await;
    create_in(&daemon, &anyone, SPACE, "before").await;
    let tables = [(SPACE, None), ("spaces/other", None)];
    let mut watch = Watch::open(&daemon, &anyone, Some(0), &tables).await;
    assert_eq!(watch.told_in_any_order(2).await, ["spaces/default from 1", "spaces/other from 0"]);
    create_in(&daemon, &anyone, SPACE, "orders").await;
    assert_eq!(watch.told().await, "spaces/default 2: create");
    create_in(&daemon, &anyone, "spaces/other", "parts").await;
    assert_eq!(watch.told().await, "spaces/other 1: create");
    watch.seconds().await;
    let metrics = daemon.get("/metrics").1;
    assert!(metrics.contains("\nkent_watchers 1\n"), "{metrics}");
    // A watcher that resumes after revision 0 gets no snapshot, but all edits.
    let mut resumed = Watch::open(&daemon, &anyone, None, &[(SPACE, Some(1)), ("spaces/other", Some(0))]).await;
    let expected =
        ["spaces/default 2: create", "spaces/default from 1", "spaces/other 1: create", "spaces/other from 0"];
    assert_eq!(resumed.told_in_any_order(4).await, expected);
}

#[tokio::test]
async fn err_what_cannot_be_watched_is_refused_and_the_rest_continues() {
    let (data, anyone) = (data_dir(), anonymous());
    let daemon = Daemon::start(data.path());
    create_space(&daemon, &anyone, "other").await;
    let tables = [(SPACE, None), ("spaces/none", None), ("bad", None), (SPACE, Some(9)), ("spaces/other", None)];
    let mut watch = Watch::open(&daemon, &anyone, None, &tables).await;
    let expected = [
        "bad InvalidArgument",
        "spaces/default InvalidArgument",
        "spaces/default from 0",
        "spaces/none NotFound",
        "spaces/other from 0",
    ];
    assert_eq!(watch.told_in_any_order(5).await, expected);
    // A table ends with its space.
    let delete = DeleteSpaceRequest { name: "spaces/other".to_owned(), ..DeleteSpaceRequest::default() };
    daemon.regions().delete_space(delete).await.expect("deleted");
    assert_eq!(watch.told().await, "spaces/other Aborted");
    create_in(&daemon, &anyone, SPACE, "orders").await;
    assert_eq!(watch.told().await, "spaces/default 1: create");
    let mut again = Watch::open(&daemon, &anyone, None, &[("spaces/other", None)]).await;
    assert_eq!([again.told().await, again.told().await], ["spaces/other NotFound", "the end"]);
    for (tables, expected) in [(0, "name something to watch"), (65, "at most 64")] {
        let request = WatchConsoleRequest { figures: None, tables: vec![Table::default(); tables] };
        let refused = daemon.admin().watch_console(request).await.expect_err("refused");
        assert!(refused.code() == Code::InvalidArgument && refused.message().contains(expected), "{refused}");
    }
}

#[tokio::test]
async fn err_each_part_of_a_stream_needs_its_own_permission() {
    let data = data_dir();
    let guarded = Guarded::start(data.path()).await;
    let daemon = &guarded.daemon;
    create_space(daemon, &guarded.admin, "other").await;
    let tables = [(SPACE, None), ("spaces/other", None)];
    let reader = guarded.token(&["read:space:default"]).await;
    let mut watch = Watch::open(daemon, &reader, Some(0), &tables).await;
    let expected = ["figures PermissionDenied", "spaces/default from 0", "spaces/other PermissionDenied"];
    assert_eq!(watch.told_in_any_order(3).await, expected);
    let operator = guarded.token(&["operate:*"]).await;
    let mut operating = Watch::open(daemon, &operator, Some(0), &tables).await;
    let expected = ["spaces/default PermissionDenied", "spaces/other PermissionDenied"];
    assert_eq!(operating.told_in_any_order(2).await, expected);
    operating.seconds().await;
    // An open stream ends with its token.
    for (token, mut open, expected) in [
        (reader, watch, vec!["spaces/default Unauthenticated", "the end"]),
        (operator, operating, vec!["figures Unauthenticated", "the end"]),
    ] {
        let revoke = RevokeTokenRequest { id: token.id.clone() };
        guarded.access().revoke_token(guarded.admin.send(revoke)).await.expect("revoked");
        assert_eq!(open.told_in_any_order(2).await, expected);
    }
    let nobody = daemon.admin().watch_console(anonymous().send(WatchConsoleRequest::default())).await;
    assert_eq!(nobody.expect_err("refused").code(), Code::Unauthenticated);
}

fn suggested(refused: &Status) -> Option<edit_suggestion::Edit> {
    suggestion_of(refused)?.edit
}

#[tokio::test]
async fn ok_a_refused_edit_suggests_one_that_works() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    regions.create_region(at("orders", "01")).await.expect("created");
    let expand = ExpandRegionRequest { name: name("orders"), by_bits: 50, ..ExpandRegionRequest::default() };
    let refused = regions.expand_region(expand).await.expect_err("refused");
    let suggestion = suggestion_of(&refused).expect("a suggestion");
    assert_eq!((suggestion.rule.as_str(), suggestion.revision), ("ZONE_TOO_SMALL", 1));
    let Some(edit_suggestion::Edit::Expand(request)) = suggestion.edit else { panic!("{suggestion:?}") };
    assert_eq!(request.by_bits, 42);
    regions.expand_region(request).await.expect("legal");
    let refused = regions.create_region(at("parts", "011")).await.expect_err("refused");
    let Some(edit_suggestion::Edit::Create(request)) = suggested(&refused) else { panic!("{refused}") };
    assert_eq!(request.prefix.as_deref(), Some("000"));
    // A web page finds the suggested edit in the JSON form of the error.
    let body = json!({"parent": SPACE, "regionId": "parts", "suffixBits": 20, "prefix": "011"});
    let answer = send(&daemon, "POST", "/kent.v1.Regions/CreateRegion", &[JSON], &body.to_string()).json();
    let details = answer["details"].as_array().expect("details");
    let detail = details.iter().find(|detail| detail["type"] == "kent.v1.EditSuggestion").expect("a suggestion");
    assert_eq!(detail["debug"]["create"]["prefix"], "000");
    regions.create_region(request).await.expect("legal");
    let missing = ExpandRegionRequest { name: name("nosuch"), by_bits: 1, ..ExpandRegionRequest::default() };
    assert_eq!(suggested(&regions.expand_region(missing).await.expect_err("refused")), None);
}

#[tokio::test]
async fn ok_a_suggestion_is_an_edit_that_the_caller_may_make_and_know() {
    let data = data_dir();
    let guarded = Guarded::start(data.path()).await;
    let mut regions = guarded.daemon.regions();
    regions.create_region(guarded.admin.send(at("orders", "01"))).await.expect("created");
    // A suggested prefix would tell this editor which prefixes others have.
    let editor = guarded.token(&["edit:region:default/parts*", "edit:region:default/orders"]).await;
    let refused = regions.create_region(editor.send(at("parts", "011"))).await.expect_err("refused");
    assert_eq!(suggested(&refused), None);
    let expand = ExpandRegionRequest { name: name("orders"), by_bits: 50, ..ExpandRegionRequest::default() };
    let refused = regions.expand_region(editor.send(expand)).await.expect_err("refused");
    assert!(matches!(suggested(&refused), Some(edit_suggestion::Edit::Expand(_))), "{refused}");
}

/// Signs in with a token. Returns the answer, and the cookie that later requests send.
fn sign_in(daemon: &Daemon, token: &str) -> (Answer, String) {
    let body = json!({"token": token}).to_string();
    let answer = send(daemon, "POST", "/console/session", &[JSON, MARK], &body);
    // `head` is in lower case, which would change the cookie's value.
    let cookie = answer.raw.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let pair = cookie.and_then(|cookie| cookie.split(';').next()).map(str::to_owned);
    (answer, pair.map(|pair| format!("cookie: other=1; {pair}")).unwrap_or_default())
}

#[tokio::test]
async fn ok_a_browser_signs_in_calls_and_signs_out() {
    let data = data_dir();
    let guarded = Guarded::start(data.path()).await;
    let daemon = &guarded.daemon;
    let (answer, cookie) = sign_in(daemon, &guarded.admin.secret);
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert!(answer.head.contains("; httponly; samesite=strict\r\n"), "{}", answer.head);
    assert!(answer.head.contains("; max-age=43200;") && answer.head.contains("cache-control: no-store"));
    let secret = guarded.admin.secret.rsplit('_').next().expect("a secret");
    assert!(!answer.raw.contains(secret), "the cookie reveals the token");
    let list = |headers: &[&str]| send(daemon, "POST", "/kent.v1.Regions/ListSpaces", headers, "{}").code;
    assert_eq!(list(&[JSON, MARK, &cookie]), 200);
    // Without the header `kent-console`, the cookie is ignored, because another site may have caused the request.
    assert_eq!(list(&[JSON, &cookie]), 401);
    assert_eq!(list(&[JSON, "kent-console: 0", &cookie]), 401);
    let show = |headers: &[&str]| send(daemon, "GET", "/console/session", headers, "");
    let shown = show(&[MARK, &cookie]).json();
    assert_eq!(shown["principal"], format!("token:{} (test)", guarded.admin.id));
    assert_eq!((&shown["permissions"], &shown["by"]), (&json!(["admin:*"]), &json!("session")));
    assert!(shown["expiresUnixMs"].as_i64().is_some_and(|end| end > 1_700_000_000_000));
    assert_eq!((show(&[&cookie]).code, show(&[MARK]).code), (401, 401));
    let bearer = format!("authorization: Bearer {}", guarded.admin.secret);
    assert_eq!(show(&[&bearer]).json()["by"], "token");
    let sign_out = |headers: &[&str]| send(daemon, "DELETE", "/console/session", headers, "");
    assert_eq!(sign_out(&[&cookie]).code, 400);
    assert_eq!(list(&[JSON, MARK, &cookie]), 200);
    let out = sign_out(&[MARK, &cookie]);
    assert!(out.code == 204 && out.head.contains("; max-age=0;"), "{}", out.head);
    assert_eq!((list(&[JSON, MARK, &cookie]), sign_out(&[MARK, &cookie]).code), (401, 204));
}

#[tokio::test]
async fn err_a_browser_does_not_sign_in() {
    let data = data_dir();
    let guarded = Guarded::start(data.path()).await;
    let daemon = &guarded.daemon;
    let body = json!({"token": guarded.admin.secret}).to_string();
    let wrong = format!("{}x", guarded.admin.secret);
    let large = json!({"token": "x".repeat(5000)}).to_string();
    for (headers, body, code) in [
        (&[JSON][..], body.as_str(), 400),
        (&[JSON, MARK], &json!({"token": wrong}).to_string(), 401),
        (&[JSON, MARK], &json!({"token": ""}).to_string(), 401),
        (&[JSON, MARK], &json!({"token": "a\nb"}).to_string(), 400),
        (&[JSON, MARK], &json!({"tokens": "a"}).to_string(), 400),
        (&[JSON, MARK], "", 400),
        (&[JSON, MARK], &large, 400),
        (&[JSON, MARK, "origin: https://evil.example"], body.as_str(), 403),
    ] {
        let answer = send(daemon, "POST", "/console/session", headers, body);
        assert_eq!(answer.code, code, "{headers:?} {body:.60}: {}", answer.body);
        assert!(!answer.head.contains("set-cookie"), "{}", answer.head);
    }
}

#[tokio::test]
async fn ok_a_session_ends_with_its_token() {
    let data = data_dir();
    let guarded = Guarded::start(data.path()).await;
    let daemon = &guarded.daemon;
    let brief = make(&mut guarded.access(), &guarded.admin, &["read:*"], 3).await.expect("made");
    let (answer, cookie) = sign_in(daemon, &brief.secret);
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert!(
        ["; max-age=2;", "; max-age=1;", "; max-age=0;"].iter().any(|age| answer.head.contains(age)),
        "{}",
        answer.head
    );
    let list = |cookie: &str| send(daemon, "POST", "/kent.v1.Regions/ListSpaces", &[JSON, MARK, cookie], "{}").code;
    tokio::time::sleep(Duration::from_millis(3100)).await;
    assert_eq!(list(&cookie), 401);
    // Revoking a token ends its sessions immediately.
    let other = guarded.token(&["read:*"]).await;
    let (_, cookie) = sign_in(daemon, &other.secret);
    assert_eq!(list(&cookie), 200);
    let revoke = RevokeTokenRequest { id: other.id.clone() };
    guarded.access().revoke_token(guarded.admin.send(revoke)).await.expect("revoked");
    assert_eq!(list(&cookie), 401);
}

#[test]
fn ok_without_credentials_everyone_is_signed_in() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let shown = send(&daemon, "GET", "/console/session", &[], "").json();
    let expected =
        json!({"principal": "anyone", "permissions": ["admin:*"], "roles": [], "by": "off", "authRequired": false});
    assert_eq!(shown, expected);
    let (answer, cookie) = sign_in(&daemon, "kent_0_0");
    assert_eq!((answer.json(), cookie.as_str()), (expected, ""));
}

#[tokio::test]
async fn ok_the_audit_log_has_sign_ins_and_refused_ones() {
    let data = data_dir();
    let guarded = Guarded::start(data.path()).await;
    let token = guarded.admin.secret.clone();
    drop(guarded);
    let audit = data.path().with_extension("audit");
    let mut command = kentd(data.path());
    let daemon = Daemon::spawn(command.args(["--auth", "required", "--audit"]).arg(&audit));
    let (_, cookie) = sign_in(&daemon, &token);
    sign_in(&daemon, "kent_wrong");
    send(&daemon, "DELETE", "/console/session", &[MARK, &cookie], "");
    let text = fs::read_to_string(&audit).expect("the audit log");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |action: &str| events.iter().filter(|event| event["action"] == action).collect::<Vec<_>>();
    let (made, ended, refused) = (of("session.create"), of("session.delete"), of("call"));
    assert_eq!((made.len(), ended.len(), refused.len()), (1, 1, 1), "{text}");
    assert!(made[0]["principal"].as_str().is_some_and(|name| name.starts_with("token:")), "{text}");
    assert!(made[0]["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1")), "{text}");
    assert_eq!((&refused[0]["outcome"], &refused[0]["reason"]), (&json!("denied"), &json!("BAD_CREDENTIAL")));
    assert!(!text.contains(token.rsplit('_').next().expect("a secret")));
    fs::remove_file(audit).expect("removed");
}

#[test]
fn ok_the_files_have_headers_tags_and_relative_addresses() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let get = |path: &str, headers: &[&str]| send(&daemon, "GET", path, headers, "");
    let page = get("/console/", &[]);
    assert_eq!(page.code, 200);
    for line in [
        "content-type: text/html; charset=utf-8",
        "cache-control: no-cache",
        "content-security-policy: default-src 'self';",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "vary: accept-encoding",
    ] {
        assert!(page.head.contains(line), "{line}: {}", page.head);
    }
    assert!(!page.head.contains("unsafe-inline"));
    let tag = page.raw.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").to_owned();
    let known = get("/console/index.html", &[&format!("if-none-match: {tag}")]);
    assert_eq!((known.code, known.body.as_str()), (304, ""));
    // A proxy may add a prefix to the path, so no address begins with a slash.
    let redirect = get("/console", &[]);
    assert!(redirect.code == 308 && redirect.head.contains("\r\nlocation: console/\r\n"), "{}", redirect.head);
    for absolute in ["href=\"/", "src=\"/", "href='/", "src='/"] {
        assert!(!page.body.contains(absolute), "{}", page.body);
    }
    for path in ["/console/nothing.js", "/console/../Cargo.toml", "/console/%2e%2e/Cargo.toml", "/console/session/"] {
        assert_eq!(get(path, &[]).code, 404, "{path}");
    }
    assert_eq!(send(&daemon, "POST", "/console/", &[], "").code, 405);
    assert!(get("/", &[]).body.contains("/console/"));
}

#[test]
fn ok_the_console_can_be_left_out() {
    let data = data_dir();
    let daemon = Daemon::spawn(kentd(data.path()).arg("--no-console"));
    for path in ["/console", "/console/", "/console/session"] {
        assert_eq!(send(&daemon, "GET", path, &[], "").code, 404, "{path}");
    }
    assert_eq!(send(&daemon, "POST", "/v1/alloc/uuidv7", &[], "").code, 200);
}
