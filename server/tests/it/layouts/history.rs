//! The edits of layouts: their history, and watches that follow them.

use futures_util::future::join_all;
use kent_proto::v1::{
    DeleteLayoutRequest, Encoding, LayoutEdit, ListLayoutHistoryRequest, ListLayoutHistoryResponse, RevokeTokenRequest,
    WatchLayoutsRequest, WatchLayoutsResponse, watch_layouts_response::Event,
};
use kent_test_etcd::Etcd;
use tonic::{Code, Status, Streaming};

use super::{NARROW, TWITTER, creation, make, reason};
use crate::it::{
    auth::Guarded,
    backup::{backup, restore, said},
    cluster::replica,
    harness::{Daemon, data_dir, request},
    operator::Operator,
};

async fn watch(daemon: &Daemon, after_revision: u64) -> Result<Streaming<WatchLayoutsResponse>, Status> {
    Ok(daemon.layouts().watch_layouts(WatchLayoutsRequest { after_revision }).await?.into_inner())
}

/// Returns the next event in short form: `=REVISION NAMES` for a snapshot, and the operation and the name for an edit.
async fn next(events: &mut Streaming<WatchLayoutsResponse>) -> String {
    match events.message().await.expect("no error").expect("not the end").event.expect("an event") {
        Event::Snapshot(snapshot) => {
            let names: Vec<_> = snapshot.layouts.iter().map(|it| it.name.as_str()).collect();
            format!("={} {}", snapshot.revision, names.join(" "))
        }
        Event::Change(edit) => short(&edit),
    }
}

fn short(edit: &LayoutEdit) -> String {
    let layout = edit.layout.as_ref().map(|it| it.name.as_str()).unwrap_or_default();
    format!("{} {} {layout}", edit.revision, edit.operation)
}

async fn page(daemon: &Daemon, name: &str, page_size: u32, page_token: &str) -> ListLayoutHistoryResponse {
    let (name, page_token) = (name.to_owned(), page_token.to_owned());
    let asked = ListLayoutHistoryRequest { name, page_size, page_token };
    daemon.layouts().list_layout_history(asked).await.expect("a page").into_inner()
}

async fn delete(daemon: &Daemon, name: &str) {
    let delete = DeleteLayoutRequest { name: name.to_owned() };
    daemon.layouts().delete_layout(delete).await.expect("deleted");
}

async fn take(daemon: &Daemon, name: &str) {
    let ask = request(&format!("layout:{name}"), 1, Encoding::Packed);
    daemon.allocator().allocate(ask).await.expect("granted");
}

#[tokio::test]
async fn ok_each_edit_has_a_revision_and_reaches_every_watcher() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut events = watch(&daemon, 0).await.expect("a watch");
    assert_eq!(next(&mut events).await, "=0 ");
    make(&daemon, "a", TWITTER).await;
    make(&daemon, "b", NARROW).await;
    // These are no edits: the layout exists, the request is invalid, or the layout is already in use.
    make(&daemon, "a", TWITTER).await;
    daemon.layouts().create_layout(creation("c", "counter:40", "")).await.expect_err("not safe");
    take(&daemon, "a").await;
    take(&daemon, "a").await;
    delete(&daemon, "b").await;
    let edits = ["1 create a", "2 create b", "3 use a", "4 delete b"];
    for edit in edits {
        assert_eq!(next(&mut events).await, edit);
    }
    // The history is there after a restart, and a watch resumes.
    daemon.kill();
    let daemon = Daemon::start(data.path());
    let mut pages = Vec::new();
    let mut token = String::new();
    loop {
        let ListLayoutHistoryResponse { edits, next_page_token, forgotten_through } =
            page(&daemon, "", 3, &token).await;
        assert_eq!(forgotten_through, 0);
        pages.push(edits.iter().map(short).collect::<Vec<_>>());
        token = next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(pages, [vec![edits[3], edits[2], edits[1]], vec![edits[0]]]);
    let of_b = page(&daemon, "b", 0, "").await.edits;
    assert_eq!(of_b.iter().map(short).collect::<Vec<_>>(), [edits[3], edits[1]]);
    let layout = of_b[0].layout.as_ref().expect("the layout before it was deleted");
    assert_eq!((layout.fields.as_str(), layout.used), (NARROW, false));
    assert!(of_b[0].principal.contains("127.0.0.1") && of_b[0].time.starts_with("20"), "{:?}", of_b[0]);
    let mut resumed = watch(&daemon, 2).await.expect("a watch");
    for edit in &edits[2..] {
        assert_eq!(next(&mut resumed).await, *edit);
    }
    make(&daemon, "b", TWITTER).await;
    assert_eq!(next(&mut resumed).await, "5 create b");
    let future = watch(&daemon, 6).await.expect_err("there is no such revision yet");
    assert_eq!(
        (future.code(), future.message()),
        (Code::InvalidArgument, "after_revision: must be 0 to 5, the current revision of the layouts")
    );
}

#[tokio::test]
async fn ok_the_last_thousand_edits_are_kept() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    for _ in 0..502 {
        make(&daemon, "a", TWITTER).await;
        delete(&daemon, "a").await;
    }
    let ListLayoutHistoryResponse { edits, next_page_token, forgotten_through } = page(&daemon, "", 1000, "").await;
    assert_eq!((edits.len(), next_page_token.as_str(), forgotten_through), (1000, "", 4));
    watch(&daemon, 4).await.expect("all later edits are kept");
    let forgotten = watch(&daemon, 3).await.expect_err("revision 4 is not kept");
    assert_eq!((forgotten.code(), reason(&forgotten).as_str()), (Code::OutOfRange, "REVISION_FORGOTTEN"));
}

#[tokio::test]
async fn ok_a_caller_sees_the_edits_of_layouts_that_it_may_read() {
    let data = data_dir();
    let guarded = Guarded::start(data.path()).await;
    let mut layouts = guarded.daemon.layouts();
    let team = guarded.token(&["read:layout:team-*"]).await;
    let stranger = guarded.token(&["allocate:uuidv7"]).await;
    let asked = WatchLayoutsRequest::default;
    let mut seen = layouts.watch_layouts(team.send(asked())).await.expect("a watch").into_inner();
    assert_eq!(next(&mut seen).await, "=0 ");
    let denied = layouts.watch_layouts(stranger.send(asked())).await.expect_err("denied");
    assert!(denied.message().contains("lacks the permission read:layout:*"), "{denied}");
    for name in ["orders", "team-a"] {
        layouts.create_layout(guarded.admin.send(creation(name, TWITTER, ""))).await.expect("created");
    }
    assert_eq!(next(&mut seen).await, "2 create team-a");
    let list = |name: &str| ListLayoutHistoryRequest { name: name.to_owned(), ..ListLayoutHistoryRequest::default() };
    let edits = layouts.list_layout_history(team.send(list(""))).await.expect("a page").into_inner().edits;
    assert_eq!(edits.iter().map(short).collect::<Vec<_>>(), ["2 create team-a"]);
    let denied = layouts.list_layout_history(stranger.send(list(""))).await.expect_err("denied");
    assert!(denied.message().contains("lacks the permission read:layout:*"), "{denied}");
    let denied = layouts.list_layout_history(team.send(list("orders"))).await.expect_err("denied");
    assert!(denied.message().contains("lacks the permission read:layout:orders"), "{denied}");
    let anonymous = layouts.watch_layouts(asked()).await.expect_err("no token");
    assert_eq!(anonymous.code(), Code::Unauthenticated);
    // A watch ends with the token.
    let revoke = RevokeTokenRequest { id: team.id.clone() };
    guarded.access().revoke_token(guarded.admin.send(revoke)).await.expect("revoked");
    let ended = seen.message().await.expect_err("revoked");
    assert_eq!(ended.code(), Code::Unauthenticated, "{ended}");
}

#[tokio::test]
async fn ok_a_restore_is_an_edit_that_all_watchers_notice() {
    let dir = data_dir();
    let (old, file, new) = (dir.path().join("old"), dir.path().join("kent.backup"), dir.path().join("new"));
    let daemon = Daemon::start(&old);
    make(&daemon, "a", TWITTER).await;
    backup(&daemon, &file).await;
    make(&daemon, "lost", TWITTER).await;
    daemon.kill();
    let restored = restore(&file, &new, &["--clock-error", "0s", "--yes"]);
    assert!(restored.status.success(), "{}", said(&restored));
    let daemon = Daemon::start(&new);
    let edits = page(&daemon, "", 0, "").await.edits;
    let revision = edits[0].revision;
    assert_eq!(edits.iter().map(short).collect::<Vec<_>>(), [format!("{revision} restore "), "1 create a".to_owned()]);
    assert!(revision > 1_000_000, "{revision}");
    // A watcher that has seen the revision of the backup gets the layouts again, because all are now in use.
    let mut events = watch(&daemon, 1).await.expect("a watch");
    assert_eq!(next(&mut events).await, format!("={revision} a"));
    // A watcher that has seen the lost edit must start again.
    let lost = watch(&daemon, 2).await.expect_err("revision 2 is lost");
    assert_eq!(reason(&lost), "REVISION_FORGOTTEN");
    make(&daemon, "b", TWITTER).await;
    assert_eq!(next(&mut events).await, format!("{} create b", revision + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_watcher_sees_the_edits_of_other_replicas() {
    let etcd = Etcd::start(1);
    let address = etcd.address("kent");
    let [one, other] = [(); 2].map(|()| replica(&address, 60));
    let mut events = watch(&other, 0).await.expect("a watch");
    assert_eq!(next(&mut events).await, "=0 ");
    make(&one, "a", TWITTER).await;
    assert_eq!(next(&mut events).await, "1 create a");
    take(&one, "a").await;
    assert_eq!(next(&mut events).await, "2 use a");
    // Concurrent edits of both replicas conflict, and all succeed.
    let names: Vec<_> = (0..20).map(|number| format!("x{number}")).collect();
    let made = names.iter().enumerate().map(|(at, name)| make(if at % 2 == 0 { &one } else { &other }, name, TWITTER));
    join_all(made).await;
    let mut created = Vec::new();
    for revision in 3..23 {
        let edit = next(&mut events).await;
        created.push(edit.strip_prefix(&format!("{revision} create ")).expect(&edit).to_owned());
    }
    created.sort_by_key(|name| names.iter().position(|it| it == name));
    assert_eq!(created, names);
}

#[test]
fn ok_an_operator_reads_the_history() {
    let operator = Operator::new();
    for words in [
        "layout create tweets --preset snowflake-twitter",
        "layout create other --preset ulid",
        "alloc layout:tweets",
        "layout delete other",
    ] {
        let (code, _, err) = operator.run(words);
        assert_eq!((code, err.as_str()), (0, ""), "{words}");
    }
    let (code, out, err) = operator.run("layout history");
    assert_eq!((code, err.as_str()), (0, ""));
    let mut lines = out.lines();
    for (operation, second) in [
        ("delete by ", "  - other  "),
        ("use", "  ~ tweets  zero:1 time:41"),
        ("create by ", "  + other  "),
        ("create by ", "  + tweets  zero:1 time:41"),
    ] {
        let line = lines.next().expect("a line");
        assert!(line.starts_with("revision ") && line.contains(operation), "{out}");
        assert!(lines.next().expect("a line").starts_with(second), "{out}");
    }
    let (code, out, err) = operator.run("layout history nosuch");
    assert_eq!((code, out.as_str(), err.as_str()), (0, "there are no edits of layout \"nosuch\"\n", ""));
    let (code, out, _) = operator.run("layout history tweets -n 1 --json");
    let edit: serde_json::Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!((code, &edit["operation"], &edit["layout"]["name"]), (0, &"use".into(), &"tweets".into()));
}
