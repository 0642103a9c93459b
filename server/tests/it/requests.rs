//! Requests for regions: who may make, see, decline and approve a request, how many requests can be open, and that an
//! approval is stored together with the region.

use kent_proto::v1::{
    CloseRegionRequestRequest, CreateRegionRequest, CreateSpaceRequest, EditResponse, GetRegionRequest,
    ListRegionRequestsRequest, RegionRequest, RequestRegionRequest, access_client::AccessClient, region_request::State,
};
use kent_test_etcd::Etcd;
use serde_json::Value;
use tonic::{Code, Status};

use super::{
    auth::{Guarded, Holder, anonymous, guarded as guarded_on, make, missing, refusal},
    backup::{backup, restore, said},
    cluster::eventually,
    harness::{Daemon, SPACE, create, data_dir, name},
    operator::Operator,
};

fn wanted(region: &str) -> RequestRegionRequest {
    RequestRegionRequest {
        parent: SPACE.to_owned(),
        region_id: region.to_owned(),
        suffix_bits: Some(20),
        owner: "team-a".to_owned(),
        labels: [("env".to_owned(), "prod".to_owned())].into(),
        reason: format!("{region} for the shop"),
        ..RequestRegionRequest::default()
    }
}

async fn ask(daemon: &Daemon, by: &Holder, region: &str) -> Result<RegionRequest, Status> {
    Ok(daemon.regions().request_region(by.send(wanted(region))).await?.into_inner())
}

async fn list(daemon: &Daemon, by: &Holder, include_closed: bool) -> Result<Vec<RegionRequest>, Status> {
    let (parent, page_size) = (SPACE.to_owned(), 1000);
    let list = ListRegionRequestsRequest { parent, page_size, include_closed, ..Default::default() };
    Ok(daemon.regions().list_region_requests(by.send(list)).await?.into_inner().requests)
}

/// The names of the regions in the requests that a caller sees.
async fn seen(daemon: &Daemon, by: &Holder, include_closed: bool) -> Vec<String> {
    let listed = list(daemon, by, include_closed).await.expect("listed");
    listed.into_iter().map(|request| request.region_id).collect()
}

async fn find(daemon: &Daemon, by: &Holder, request: &str) -> Result<RegionRequest, Status> {
    let one = ListRegionRequestsRequest { parent: request.to_owned(), ..Default::default() };
    Ok(daemon.regions().list_region_requests(by.send(one)).await?.into_inner().requests.remove(0))
}

async fn close(daemon: &Daemon, by: &Holder, request: &str, state: State) -> Result<RegionRequest, Status> {
    let (name, note) = (request.to_owned(), "not now".to_owned());
    let close = CloseRegionRequestRequest { name, state: state.into(), note };
    Ok(daemon.regions().close_region_request(by.send(close)).await?.into_inner())
}

fn answer(region: &str, request: &str) -> CreateRegionRequest {
    CreateRegionRequest { answers: request.to_owned(), reason: "as asked".to_owned(), ..create(region) }
}

async fn make_region(daemon: &Daemon, by: &Holder, request: CreateRegionRequest) -> Result<EditResponse, Status> {
    Ok(daemon.regions().create_region(by.send(request)).await?.into_inner())
}

#[tokio::test]
async fn ok_each_caller_sees_and_answers_what_it_may() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let daemon = &guarded.daemon;
    guarded.create(&guarded.admin, "orders").await.expect("created");
    let asker = guarded.token(&["allocate:region:default/orders"]).await;
    let colleague = guarded.token(&["allocate:region:default/orders"]).await;
    let team = guarded.token(&["edit:region:default/team-a-*"]).await;
    let stranger = guarded.token(&["allocate:uuidv7", "edit:region:other/*"]).await;

    // A caller without any permission in a space cannot tell whether the space exists.
    let refused = ask(daemon, &stranger, "x").await;
    let none = RequestRegionRequest { parent: "spaces/none".to_owned(), ..wanted("x") };
    let absent = daemon.regions().request_region(stranger.send(none)).await.map(drop);
    assert_eq!(missing(refused).replace("default", "none"), missing(absent));
    assert_eq!(missing(list(daemon, &stranger, true).await), "read:region:default/*");

    // Only a caller that may read a region learns that its name is taken.
    let reader = guarded.token(&["read:region:default/orders"]).await;
    let taken = refusal(ask(daemon, &reader, "orders").await);
    assert_eq!(taken, (Code::AlreadyExists, "NAME_TAKEN".to_owned()));
    let hidden = ask(daemon, &team, "orders").await.expect("asked");
    close(daemon, &team, &hidden.name, State::Withdrawn).await.expect("withdrawn");

    let first = ask(daemon, &asker, "team-a-parts").await.expect("asked");
    let second = ask(daemon, &asker, "team-b-parts").await.expect("asked");
    assert_eq!((first.state(), first.mine, first.decidable), (State::Open, true, false));
    assert!(first.requester.starts_with(&format!("token:{} (test) from 127.0.0.1", asker.id)), "{first:?}");
    assert!(first.create_time.ends_with('Z') && first.close_time.is_empty(), "{first:?}");
    assert_eq!(
        ask(daemon, &asker, "team-b-parts").await.expect("asked"),
        second,
        "a repeated request was stored twice"
    );
    assert_eq!(seen(daemon, &asker, false).await, ["team-b-parts", "team-a-parts"]);
    assert_eq!(seen(daemon, &colleague, false).await, [""; 0]);
    assert_eq!(seen(daemon, &team, false).await, ["team-a-parts"]);
    assert_eq!(seen(daemon, &guarded.admin, false).await.len(), 2);

    // To a caller that may not see a request, the request does not exist.
    let not_there = (Code::NotFound, "NO_SUCH_REQUEST".to_owned());
    for request in [&*second.name, "spaces/default/requests/99"] {
        assert_eq!(refusal(find(daemon, &team, request).await), not_there);
        assert_eq!(refusal(close(daemon, &team, request, State::Declined).await), not_there);
        assert_eq!(refusal(make_region(daemon, &team, answer("team-a-x", request)).await), not_there);
    }
    assert_eq!(missing(close(daemon, &asker, &first.name, State::Declined).await), "edit:region:default/team-a-parts*");
    let not_yours = (Code::FailedPrecondition, "NOT_YOURS".to_owned());
    assert_eq!(refusal(close(daemon, &team, &first.name, State::Withdrawn).await), not_yours);
    assert_eq!(
        missing(make_region(daemon, &asker, answer("team-a-parts", &first.name)).await),
        "edit:region:default/team-a-parts*"
    );

    let declined = close(daemon, &team, &first.name, State::Declined).await.expect("declined");
    assert_eq!((declined.state(), &*declined.note), (State::Declined, "not now"));
    assert!(declined.closed_by.contains(&team.id) && !declined.close_time.is_empty(), "{declined:?}");
    assert_eq!(close(daemon, &team, &first.name, State::Declined).await.expect("again"), declined);
    let closed = (Code::FailedPrecondition, "REQUEST_CLOSED".to_owned());
    assert_eq!(refusal(close(daemon, &asker, &first.name, State::Withdrawn).await), closed);
    let withdrawn = close(daemon, &asker, &second.name, State::Withdrawn).await.expect("withdrawn");
    assert_eq!(withdrawn.state(), State::Withdrawn);
    assert_eq!(seen(daemon, &guarded.admin, false).await, [""; 0]);
    assert_eq!(seen(daemon, &asker, true).await, ["team-b-parts", "team-a-parts"]);
}

#[tokio::test]
async fn ok_a_region_and_its_request_are_stored_together() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let admin = guarded.admin.clone();
    guarded.create(&admin, "orders").await.expect("created");
    let asker = guarded.token(&["allocate:region:default/orders"]).await;
    let asked = ask(&guarded.daemon, &asker, "returns").await.expect("asked");
    let other = ask(&guarded.daemon, &asker, "parts").await.expect("asked");
    guarded.daemon.kill();
    let daemon = Daemon::spawn(&mut guarded_on(dir.path()));
    assert_eq!(find(&daemon, &asker, &asked.name).await.expect("kept"), asked);

    // A dry run and a refused edit leave the request open.
    let dry = CreateRegionRequest { validate_only: true, ..answer("returns", &asked.name) };
    let planned = make_region(&daemon, &admin, dry).await.expect("planned").region.expect("a region");
    assert_eq!((&*planned.owner, &*planned.labels["env"]), ("team-a", "prod"));
    let taken = make_region(&daemon, &admin, answer("orders", &asked.name)).await;
    assert_eq!(refusal(taken).1, "NAME_TAKEN");
    let stale = CreateRegionRequest { expected_revision: 77, ..answer("returns", &asked.name) };
    assert_eq!(refusal(make_region(&daemon, &admin, stale).await).1, "STALE_REVISION");
    let elsewhere = make_region(&daemon, &admin, answer("returns", "spaces/other/requests/1")).await;
    assert_eq!(refusal(elsewhere).0, Code::InvalidArgument);
    assert_eq!(find(&daemon, &asker, &asked.name).await.expect("kept").state(), State::Open);

    let request_id = "11111111-2222-4333-8444-555555555555".to_owned();
    let make = CreateRegionRequest { request_id, ..answer("returns", &asked.name) };
    let made = make_region(&daemon, &admin, make.clone()).await.expect("made");
    let region = made.region.clone().expect("a region");
    assert_eq!((&*region.owner, &*region.labels["env"]), ("team-a", "prod"));
    assert_eq!(make_region(&daemon, &admin, make).await.expect("again").revision, made.revision);
    let again = make_region(&daemon, &admin, answer("returns-2", &asked.name)).await;
    assert_eq!(refusal(again), (Code::FailedPrecondition, "REQUEST_CLOSED".to_owned()));
    // The region can differ from what was asked for.
    let smaller = CreateRegionRequest { suffix_bits: Some(10), ..answer("parts-1", &other.name) };
    make_region(&daemon, &admin, smaller).await.expect("made");
    daemon.kill();
    let daemon = Daemon::spawn(&mut guarded_on(dir.path()));
    let closed = find(&daemon, &asker, &asked.name).await.expect("kept");
    assert_eq!((closed.state(), &*closed.region, &*closed.note), (State::Made, &*name("returns"), "as asked"));
    assert_eq!(find(&daemon, &asker, &other.name).await.expect("kept").region, name("parts-1"));
    let kept = daemon
        .regions()
        .get_region(admin.send(GetRegionRequest { name: name("returns"), ..GetRegionRequest::default() }))
        .await;
    assert_eq!(kept.expect("there").into_inner().owner, "team-a");
}

/// Kills the daemon while an operator makes regions. A region exists if and only if its request is closed as made.
#[tokio::test(flavor = "multi_thread")]
async fn ok_a_crash_leaves_both_or_neither() {
    let dir = data_dir();
    let nobody = anonymous();
    for round in 0..6_u64 {
        let daemon = Daemon::start(dir.path());
        let mut asked = Vec::new();
        for number in 0..4 {
            asked.push(ask(&daemon, &nobody, &format!("r{round}-{number}")).await.expect("asked"));
        }
        let mut regions = daemon.regions();
        let requests: Vec<_> = asked.iter().map(|asked| answer(&asked.region_id, &asked.name)).collect();
        let making = async {
            for request in requests {
                // The last calls fail, because the daemon is killed.
                let _ = regions.create_region(request).await;
            }
        };
        let killing = async {
            tokio::time::sleep(std::time::Duration::from_millis(round * 3)).await;
            daemon.kill();
        };
        tokio::join!(making, killing);
        let daemon = Daemon::start(dir.path());
        for asked in &asked {
            let state = find(&daemon, &nobody, &asked.name).await.expect("kept").state();
            let get = GetRegionRequest { name: name(&asked.region_id), ..GetRegionRequest::default() };
            let exists = daemon.regions().get_region(get).await.is_ok();
            assert_eq!(exists, state == State::Made, "{}: {state:?}", asked.region_id);
        }
        daemon.kill();
    }
}

#[tokio::test]
async fn err_open_requests_are_limited() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let daemon = &guarded.daemon;
    guarded.create(&guarded.admin, "orders").await.expect("created");
    let token = async || guarded.token(&["allocate:region:default/orders"]).await;
    let mut asked = Vec::new();
    let mut askers = Vec::new();
    for asker in 0..10 {
        let by = token().await;
        for number in 0..100 {
            asked.push(ask(daemon, &by, &format!("r{asker}-{number}")).await.expect("asked"));
        }
        askers.push(by);
    }
    let too_many = (Code::ResourceExhausted, "TOO_MANY_REQUESTS".to_owned());
    let refused = ask(daemon, &askers[0], "more").await;
    let message = refused.as_ref().expect_err("refused").message().to_owned();
    assert!(
        message.contains("you have 100 open requests") && message.contains("kent request withdraw ID"),
        "{message}"
    );
    assert_eq!(refusal(refused), too_many);
    let last = token().await;
    let refused = ask(daemon, &last, "more").await;
    let message = refused.as_ref().expect_err("refused").message().to_owned();
    assert!(message.contains("has 1_000 open requests") && message.contains("kent request ls"), "{message}");
    assert_eq!(refusal(refused), too_many);
    close(daemon, &askers[0], &asked[0].name, State::Withdrawn).await.expect("withdrawn");
    ask(daemon, &last, "more").await.expect("asked");
    // Pages follow each other without gaps.
    let (mut found, mut page_token) = (Vec::new(), String::new());
    loop {
        let parent = SPACE.to_owned();
        let page = ListRegionRequestsRequest { parent, page_size: 300, page_token, include_closed: false };
        let page = daemon.regions().list_region_requests(guarded.admin.send(page)).await.expect("listed").into_inner();
        found.extend(page.requests.into_iter().map(|request| request.region_id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!((found.len(), &*found[0], &*found[999]), (1000, "more", "r0-1"));
    let bad = ListRegionRequestsRequest { parent: SPACE.to_owned(), page_token: "!".to_owned(), ..Default::default() };
    let bad = daemon.regions().list_region_requests(guarded.admin.send(bad)).await;
    assert_eq!(refusal(bad).0, Code::InvalidArgument);
}

#[tokio::test]
async fn err_bad_requests_are_refused_with_the_field() {
    let dir = data_dir();
    let daemon = Daemon::start(dir.path());
    let cases = [
        ("reason", RequestRegionRequest { reason: String::new(), ..wanted("r") }),
        ("reason", RequestRegionRequest { reason: "r".repeat(1025), ..wanted("r") }),
        ("suffix_bits", RequestRegionRequest { suffix_bits: None, ..wanted("r") }),
        ("suffix_bits", RequestRegionRequest { suffix_bits: Some(60), zone_bits: Some(8), ..wanted("r") }),
        ("region_id", wanted("no/name")),
    ];
    for (field, request) in cases {
        let refused = daemon.regions().request_region(request).await.expect_err("refused");
        assert!(refused.code() == Code::InvalidArgument && refused.message().starts_with(field), "{refused}");
    }
    let none = RequestRegionRequest { parent: "spaces/none".to_owned(), ..wanted("r") };
    assert_eq!(daemon.regions().request_region(none).await.expect_err("refused").code(), Code::NotFound);
}

#[tokio::test]
async fn ok_closed_requests_are_removed_beyond_a_thousand() {
    let dir = data_dir();
    let (daemon, nobody) = (Daemon::start(dir.path()), anonymous());
    let other = CreateSpaceRequest { space_id: "other".to_owned(), ..Default::default() };
    daemon.regions().create_space(other).await.expect("created");
    let elsewhere = RequestRegionRequest { parent: "spaces/other".to_owned(), ..wanted("kept") };
    daemon.regions().request_region(elsewhere).await.expect("asked");
    for number in 0..1010 {
        let asked = ask(&daemon, &nobody, &format!("r{number}")).await.expect("asked");
        close(&daemon, &nobody, &asked.name, State::Withdrawn).await.expect("withdrawn");
    }
    let kept = seen(&daemon, &nobody, true).await;
    assert_eq!((kept.len(), &*kept[0], &*kept[999]), (1000, "r1009", "r10"));
    assert_eq!(refusal(find(&daemon, &nobody, "spaces/default/requests/1").await).1, "NO_SUCH_REQUEST");
    assert_eq!(find(&daemon, &nobody, "spaces/other/requests/1").await.expect("kept").region_id, "kept");
}

#[tokio::test]
async fn ok_a_backup_has_the_requests() {
    let dir = data_dir();
    let (data, file, restored) = (dir.path().join("data"), dir.path().join("kent.backup"), dir.path().join("new"));
    let (daemon, nobody) = (Daemon::start(&data), anonymous());
    let asked = ask(&daemon, &nobody, "returns").await.expect("asked");
    backup(&daemon, &file).await;
    daemon.kill();
    let output = restore(&file, &restored, &["--clock-error", "0s", "--yes"]);
    assert!(output.status.success(), "{}", said(&output));
    let daemon = Daemon::start(&restored);
    assert_eq!(list(&daemon, &nobody, false).await.expect("listed"), std::slice::from_ref(&asked));
    let next = ask(&daemon, &nobody, "parts").await.expect("asked");
    assert_ne!(next.name, asked.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_replicas_see_each_others_requests() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let dir = data_dir();
    let replica = |auth: &str| {
        let mut command = super::harness::kentd(dir.path());
        Daemon::spawn(command.args(["--store", &address, "--log", "error", "--auth", auth]))
    };
    let open = replica("off");
    let admin = make(&mut AccessClient::new(open.channel()), &anonymous(), &["admin:*"], 0).await.expect("made");
    open.signal("TERM");
    assert!(open.wait().await.success());
    let (one, two) = (replica("required"), replica("required"));
    let asked = ask(&one, &admin, "returns").await.expect("asked");
    assert_eq!(list(&two, &admin, false).await.expect("listed"), std::slice::from_ref(&asked));
    // Both replicas accept requests and answers at the same time.
    let (one, two) = (&one, &two);
    let admin = &admin;
    let asks = (0..40).map(|number| async move {
        let daemon = if number % 2 == 0 { one } else { two };
        ask(daemon, admin, &format!("r{number}")).await.expect("asked").name
    });
    let mut names = futures_util::future::join_all(asks).await;
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 40, "two requests have the same number");
    // Only one of two concurrent answers succeeds.
    let (here, there) = tokio::join!(
        make_region(one, admin, answer("returns", &asked.name)),
        make_region(two, admin, answer("returns-2", &asked.name))
    );
    assert!(here.is_ok() != there.is_ok(), "{here:?} {there:?}");
    let refused = refusal(if here.is_ok() { there } else { here });
    assert_eq!(refused, (Code::FailedPrecondition, "REQUEST_CLOSED".to_owned()));
    eventually("both replicas see the answer", async || {
        let states = [find(one, admin, &asked.name).await, find(two, admin, &asked.name).await];
        states.iter().all(|found| found.as_ref().is_ok_and(|found| found.state() == State::Made))
    })
    .await;
}

#[test]
fn ok_the_commands_ask_show_approve_decline_and_withdraw() {
    let operator = Operator::new();
    let run = |words: &str| super::operator::run_at(operator.daemon.grpc_address(), words);
    let kent = |words: &str| {
        let (code, stdout, stderr) = run(words);
        assert_eq!(code, 0, "kent {words}: {stderr}");
        stdout
    };
    let asked = kent("region ask returns --suffix 20 --owner team-a --label env=prod --reason parcels");
    assert_eq!(
        asked,
        "asked for region returns of space default: request 1\n\
         an operator creates the region or declines the request (kent request show 1 --space default)\n"
    );
    kent("region ask parts --suffix 20 --reason catalog");
    kent("region ask bolts --suffix 20 --reason catalog");
    let listed = kent("request ls");
    let ids: Vec<_> = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(ids, ["3", "2", "1"], "{listed}");
    let shown = kent("request show 1");
    assert!(shown.contains("env=prod") && shown.contains("kent request approve 1 --space default"), "{shown}");

    let planned = kent("request approve 1 --dry-run");
    assert!(planned.contains("+  returns") && planned.contains("dry run: nothing was changed"), "{planned}");
    assert_eq!(kent("request ls -o name"), "3\n2\n1\n");
    let made = kent("request approve 1 --yes");
    assert!(made.contains("+  returns") && made.contains("revision 0 → 1"), "{made}");
    assert!(kent("region history").contains("request 1: parcels"));
    assert!(kent("region show returns").contains("team-a"));
    assert_eq!(kent("request decline 2 --reason later"), "request 2 for region parts: declined\n");
    assert_eq!(kent("request withdraw 3"), "request 3 for region bolts: withdrawn\n");
    assert_eq!(kent("request ls"), "");
    let all: Vec<Value> =
        kent("request ls --all --json").lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let states: Vec<_> = all.iter().map(|asked| asked["state"].as_str().unwrap_or_default()).collect();
    assert_eq!(states, ["withdrawn", "declined", "made"]);
    assert_eq!((&all[2]["made"], &all[1]["note"]), (&"returns".into(), &"later".into()));

    kent("region ask huge --suffix 64 --reason everything");
    kent("region ask later --suffix 20 --reason again");
    kent("region create later --suffix 20");
    for (words, code, told) in [
        ("request approve 1 --yes", 1, "request 1 of space \"default\" was made already"),
        ("request approve 4 --dry-run", 1, "kent request approve 4 --suffix 63 --space default"),
        (
            "request approve 5 --yes",
            1,
            "to create it with another name: kent request approve 5 --name NAME --space default",
        ),
        ("request approve 5 --yes", 1, "kent request decline 5 --reason TEXT --space default"),
        (
            "region ask returns --suffix 20 --reason again",
            1,
            "region \"returns\" already exists in space \"default\": take identifiers from it (kent alloc region:returns@default)",
        ),
        ("request show 99", 1, "there is no request 99 in space \"default\""),
        ("request show x", 2, "expected the number of a request"),
        ("region ask r --suffix 20", 2, "--reason <TEXT>"),
    ] {
        let (got, _, stderr) = run(words);
        assert!(got == code && stderr.contains(told), "kent {words}: {got} {stderr}");
    }
}

#[test]
fn ok_the_audit_log_has_requests_and_their_answers() {
    let dir = data_dir();
    let log = dir.path().join("audit.jsonl");
    let mut command = super::harness::kentd(&dir.path().join("data"));
    let daemon = Daemon::spawn(command.arg("--audit").arg(&log));
    let kent = |words: &str| {
        let (code, _, stderr) = super::operator::run_at(daemon.grpc_address(), words);
        assert_eq!(code, 0, "kent {words}: {stderr}");
    };
    for name in ["one", "two", "three"] {
        kent(&format!("region ask {name} --suffix 20 --reason why"));
    }
    kent("request approve 1 --yes");
    kent("request decline 2 --reason no");
    kent("request withdraw 3");
    drop(daemon);
    let text = std::fs::read_to_string(log).expect("the audit log");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let found: Vec<_> = events
        .iter()
        .filter(|event| event["action"].as_str().is_some_and(|action| action.starts_with("request.")))
        .map(|event| [&event["action"], &event["resource"], &event["note"]].map(|it| it.as_str().unwrap_or_default()))
        .collect();
    assert_eq!(
        found,
        [
            ["request.create", "region:default/one", "request:default/1: why"],
            ["request.create", "region:default/two", "request:default/2: why"],
            ["request.create", "region:default/three", "request:default/3: why"],
            ["request.make", "request:default/1", "region:default/one"],
            ["request.decline", "request:default/2", "no"],
            ["request.withdraw", "request:default/3", ""],
        ]
    );
}
