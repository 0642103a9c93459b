//! Limits of callers against real daemons. Callers overdraw their limits by minutes, so the speed of a test does not
//! matter.

use std::{fs, time::Duration};

use kent_access::Limits;
use kent_client::{Client, Error};
use kent_proto::v1::{
    AllocateRequest, AllocateStreamResponse, CallerLimits, CreateTokenRequest, Encoding, PutRoleRequest, Role,
    RotateTokenRequest, WhoAmIRequest, access_client::AccessClient, allocate_stream_response::Outcome,
    allocator_client::AllocatorClient,
};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};
use tonic_types::StatusExt;

use super::{
    auth::{Guarded, Holder, guarded, holder, owned, refusal},
    harness::{Daemon, data_dir, request},
    operator::run_in,
};

fn limits(text: &str) -> Option<CallerLimits> {
    Some(text.parse::<Limits>().expect("limits").into())
}

/// Creates a token for UUIDs with these limits and roles.
async fn token(guarded: &Guarded, text: &str, roles: &[&str]) -> Holder {
    let new = CreateTokenRequest {
        name: "shop".to_owned(),
        permissions: owned(&["lease:uuidv7", "lease:region:default/*"]),
        roles: owned(roles),
        limits: limits(text),
        ..CreateTokenRequest::default()
    };
    holder(guarded.access().create_token(guarded.admin.send(new)).await.expect("made"))
}

async fn set_role(guarded: &Guarded, name: &str, text: &str) {
    let role = Role { name: name.to_owned(), limits: limits(text), ..Role::default() };
    let put = PutRoleRequest { role: Some(role), update: Vec::new() };
    guarded.access().put_role(guarded.admin.send(put)).await.expect("put");
}

fn lease(count: u64) -> AllocateRequest {
    request("uuidv7", count, Encoding::Lease)
}

/// Takes identifiers on a connection.
async fn take(channel: &Channel, by: &Holder, count: u64) -> Result<(), Status> {
    AllocatorClient::new(channel.clone()).allocate(by.send(lease(count))).await.map(drop)
}

/// The limit that refused a call, its value, and the retry delay.
#[track_caller]
fn limit_of(status: &Status, by: &Holder) -> (String, String, Duration) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let info = status.get_details_error_info().expect("a reason");
    let principal = format!("token:{} (shop)", by.id);
    assert_eq!((info.reason.as_str(), &info.metadata["principal"]), ("LIMIT", &principal));
    assert!(status.message().starts_with(&format!("{principal} has ")), "{status}");
    let delay = status.get_details_retry_info().and_then(|info| info.retry_delay).expect("a delay");
    (info.metadata["limit"].clone(), info.metadata["value"].clone(), delay)
}

#[track_caller]
fn is_limited<T: std::fmt::Debug>(refused: Result<T, Status>, by: &Holder, limit: &str, value: &str) {
    let (found, found_value, _) = limit_of(&refused.expect_err("refused"), by);
    assert_eq!((found.as_str(), found_value.as_str()), (limit, value));
}

/// Tries again until a call succeeds.
async fn until_ok<T>(mut call: impl AsyncFnMut() -> Result<T, Status>) -> T {
    loop {
        match call().await {
            Ok(done) => return done,
            Err(status) => assert_eq!(status.code(), Code::ResourceExhausted, "{status}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn limited_total(daemon: &Daemon, limit: &str) -> u64 {
    let metrics = daemon.get("/metrics").1;
    let line = format!("kent_limited_total{{limit=\"{limit}\"}} ");
    metrics.lines().find_map(|text| text.strip_prefix(&line)?.parse().ok()).expect("a count")
}

/// A caller's stream, and the sender of its requests.
struct Stream {
    asking: mpsc::Sender<AllocateRequest>,
    answers: Streaming<AllocateStreamResponse>,
}

impl Stream {
    async fn open(channel: &Channel, by: &Holder) -> Result<Self, Status> {
        let (asking, asked) = mpsc::channel(1);
        let answers = AllocatorClient::new(channel.clone()).allocate_stream(by.send(ReceiverStream::new(asked))).await;
        Ok(Self { asking, answers: answers?.into_inner() })
    }

    async fn take(&mut self, count: u64) -> Result<(), Status> {
        self.ask(lease(count)).await
    }

    async fn ask(&mut self, request: AllocateRequest) -> Result<(), Status> {
        self.asking.send(request).await.expect("sent");
        let answer = self.answers.message().await?.expect("the stream goes on");
        match answer.outcome.expect("an outcome") {
            Outcome::Granted(_) => Ok(()),
            Outcome::Refused(refused) => {
                let code = Code::from(refused.code);
                Err(Status::with_details(code, refused.message.clone(), refused.encode_to_vec().into()))
            }
        }
    }
}

#[tokio::test]
async fn ok_connections_and_secrets_share_a_limit_and_others_are_not_affected() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let (shop, other) = (token(&guarded, "ids=10/s", &[]).await, token(&guarded, "", &[]).await);
    let channel = || guarded.daemon.channel();
    let (first, second) = (channel(), channel());
    take(&second, &shop, 1).await.expect("granted");
    // A request for more than a second's worth is granted, and the next request must wait for a thousand seconds.
    take(&first, &shop, 10_000).await.expect("granted");
    let refused = take(&first, &shop, 1).await.expect_err("refused");
    let (limit, value, delay) = limit_of(&refused, &shop);
    assert_eq!((limit.as_str(), value.as_str()), ("ids", "10"));
    assert!(delay > Duration::from_secs(600) && delay < Duration::from_secs(1001), "{delay:?}");
    assert!(refused.message().contains(" has used its limit of 10 identifiers a second; retry in 9"), "{refused}");
    assert!(refused.message().contains(" s (`kent whoami` shows the limits)"), "{refused}");
    is_limited(take(&second, &shop, 1).await, &shop, "ids", "10");
    drop((first, second));
    is_limited(take(&channel(), &shop, 1).await, &shop, "ids", "10");
    let rotate = RotateTokenRequest { id: shop.id.clone(), grace_seconds: 60 };
    let rotated = holder(guarded.access().rotate_token(guarded.admin.send(rotate)).await.expect("rotated"));
    is_limited(take(&channel(), &rotated, 1).await, &rotated, "ids", "10");
    for by in [&other, &guarded.admin] {
        take(&channel(), by, 1_000_000).await.expect("granted");
        take(&channel(), by, 1_000_000).await.expect("granted");
    }
    assert_eq!(limited_total(&guarded.daemon, "ids"), 4);
    assert_eq!(limited_total(&guarded.daemon, "calls"), 0);
}

#[tokio::test]
async fn ok_each_call_and_each_message_of_a_stream_counts() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let channel = guarded.daemon.channel();
    // Calls of any service count. Call until the two calls per second are used up.
    let shop = token(&guarded, "calls=2/s", &[]).await;
    let who = async || AccessClient::new(channel.clone()).who_am_i(shop.send(WhoAmIRequest {})).await;
    who().await.expect("answered");
    let refused = loop {
        if let Err(refused) = who().await {
            break refused;
        }
    };
    let (limit, value, delay) = limit_of(&refused, &shop);
    assert_eq!((limit.as_str(), value.as_str()), ("calls", "2"));
    assert!(delay <= Duration::from_millis(500), "{delay:?}");
    let shop = token(&guarded, "calls=2/s", &[]).await;
    let mut stream = Stream::open(&channel, &shop).await.expect("open");
    let refused = loop {
        if let Err(refused) = stream.take(1).await {
            break refused;
        }
    };
    assert_eq!(limit_of(&refused, &shop).0, "calls");
    // The refusal of a message does not end the stream.
    until_ok(async || stream.take(1).await).await;
}

#[tokio::test]
async fn ok_identifiers_that_are_not_granted_are_not_counted() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let shop = token(&guarded, "ids=10/s", &[]).await;
    let channel = guarded.daemon.channel();
    let absent = || request("region:absent", 10_000, Encoding::Lease);
    let forbidden = || request("xid", 10_000, Encoding::Lease);
    let mut stream = Stream::open(&channel, &shop).await.expect("open");
    for refused in [absent(), forbidden(), lease(1_000_000_001)] {
        let unary = AllocatorClient::new(channel.clone()).allocate(shop.send(refused.clone())).await;
        assert_ne!(refusal(unary).1, "LIMIT", "{refused:?}");
        assert_ne!(refusal(stream.ask(refused.clone()).await).1, "LIMIT", "{refused:?}");
    }
    take(&channel, &shop, 1).await.expect("granted");
    stream.take(10_000).await.expect("granted");
    is_limited(stream.take(1).await, &shop, "ids", "10");
    is_limited(take(&channel, &shop, 1).await, &shop, "ids", "10");
}

#[tokio::test]
async fn ok_streams_of_a_caller_are_limited() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let (shop, other) = (token(&guarded, "streams=2", &[]).await, token(&guarded, "", &[]).await);
    let (first, second) = (guarded.daemon.channel(), guarded.daemon.channel());
    let mut one = Stream::open(&first, &shop).await.expect("open");
    let two = Stream::open(&second, &shop).await.expect("open");
    one.take(1).await.expect("granted");
    is_limited(Stream::open(&first, &shop).await.map(drop), &shop, "streams", "2");
    is_limited(Stream::open(&guarded.daemon.channel(), &shop).await.map(drop), &shop, "streams", "2");
    Stream::open(&first, &other).await.expect("open");
    one.take(1).await.expect("granted");
    drop(two);
    until_ok(async || Stream::open(&first, &shop).await).await;
    assert!(limited_total(&guarded.daemon, "streams") >= 2);
}

#[tokio::test]
async fn ok_connections_of_a_caller_are_limited() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let (shop, other) = (token(&guarded, "connections=2", &[]).await, token(&guarded, "", &[]).await);
    let [one, two, three] = [(); 3].map(|()| guarded.daemon.channel());
    for _ in 0..2 {
        take(&one, &shop, 1).await.expect("granted");
        take(&two, &shop, 1).await.expect("granted");
        is_limited(take(&three, &shop, 1).await, &shop, "connections", "2");
    }
    // A connection counts for the caller of its last call.
    take(&three, &other, 1).await.expect("granted");
    take(&one, &other, 1).await.expect("granted");
    take(&three, &shop, 1).await.expect("granted");
    is_limited(take(&one, &shop, 1).await, &shop, "connections", "2");
    drop(two);
    until_ok(async || take(&one, &shop, 1).await).await;
}

#[tokio::test]
async fn ok_limits_of_roles_change_without_a_new_connection() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    for (role, text) in [("a", ""), ("b", "")] {
        set_role(&guarded, role, text).await;
    }
    let shop = token(&guarded, "", &["a", "b"]).await;
    let channel = guarded.daemon.channel();
    let mut stream = Stream::open(&channel, &shop).await.expect("open");
    for _ in 0..2 {
        stream.take(100_000).await.expect("no limit");
    }
    // Calls before the limit was set do not count. The greatest limit of several roles applies.
    set_role(&guarded, "a", "ids=10/s,streams=1").await;
    stream.take(10_000).await.expect("granted");
    is_limited(stream.take(1).await, &shop, "ids", "10");
    set_role(&guarded, "b", "ids=20/s").await;
    is_limited(stream.take(1).await, &shop, "ids", "20");
    is_limited(take(&channel, &shop, 1).await, &shop, "ids", "20");
    // A stream that was opened before the limit was set counts, too.
    is_limited(Stream::open(&channel, &shop).await.map(drop), &shop, "streams", "1");
    for role in ["a", "b"] {
        set_role(&guarded, role, "").await;
    }
    stream.take(100_000).await.expect("no limit");
    take(&channel, &shop, 100_000).await.expect("no limit");
}

#[tokio::test]
async fn ok_a_caller_learns_which_limits_apply() {
    let dir = data_dir();
    let Guarded { daemon, admin } = Guarded::start(dir.path()).await;
    daemon.kill();
    let daemon = Daemon::spawn(guarded(dir.path()).args(["--caller-limits", "ids=7/s, calls=8k/s"]));
    let guarded = Guarded { daemon, admin };
    set_role(&guarded, "a", "ids=5/s,streams=5").await;
    set_role(&guarded, "b", "ids=6/s").await;
    let (own, of_roles) = (token(&guarded, "ids=3/s", &["a", "b"]).await, token(&guarded, "", &["a", "b"]).await);
    for (by, expected) in [
        (&own, "ids=3/s,calls=8k/s,streams=5"),
        (&of_roles, "ids=6/s,calls=8k/s,streams=5"),
        (&guarded.admin, "ids=7/s,calls=8k/s"),
    ] {
        let who = guarded.access().who_am_i(by.send(WhoAmIRequest {})).await.expect("answered").into_inner();
        assert_eq!(who.limits, limits(expected), "{}", who.name);
    }
    let large = CallerLimits { streams: u64::MAX, ..CallerLimits::default() };
    let role = Role { name: "x".to_owned(), limits: Some(large), ..Role::default() };
    let refused =
        guarded.access().put_role(guarded.admin.send(PutRoleRequest { role: Some(role), update: Vec::new() })).await;
    assert_eq!(refusal(refused), (Code::InvalidArgument, "BAD_INPUT".to_owned()));
    // The daemon's own user has no limits.
    let client = Client::new(format!("unix:{}", dir.path().join("kent.sock").display())).expect("an address");
    for _ in 0..3 {
        client.uuid_v7().fetch_block(100_000).await.expect("granted");
    }
}

#[tokio::test]
async fn ok_the_client_waits_for_a_limit_within_its_timeout() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let shop = token(&guarded, "ids=1k/s", &[]).await;
    let client = |timeout| {
        let builder = Client::builder().endpoint(guarded.daemon.grpc_address()).token(&shop.secret);
        builder.request_timeout(timeout).discover(false).build().expect("a client")
    };
    let ids = client(Duration::from_secs(60)).uuid_v7();
    ids.fetch_block(3_000).await.expect("granted");
    // The limit is overdrawn by two seconds: the client waits instead of retrying repeatedly.
    ids.fetch_block(100_000).await.expect("granted after the wait");
    let asked = limited_total(&guarded.daemon, "ids");
    assert!(asked <= 2, "it asked {asked} times");
    // Now the wait would exceed the client's timeout.
    for timeout in [Duration::from_secs(1), Duration::from_secs(2)] {
        let error = client(timeout).uuid_v7().next().await.expect_err("limited");
        assert!(error.is_retryable() && error.has_no_side_effects());
        let Error::Limited { limit, retry_after, message, .. } = &error else { panic!("{error}") };
        assert!(limit == "ids" && *retry_after > Duration::from_secs(30), "{retry_after:?}");
        assert!(message.contains("1_000 identifiers a second") && error.to_string() == *message);
    }
    assert_eq!(limited_total(&guarded.daemon, "ids"), asked + 2);
}

/// Starts a daemon that requires credentials. Returns the daemon, and the path of a file with an administrator's token.
async fn operator(dir: &std::path::Path) -> (Guarded, String) {
    let guarded = Guarded::start(&dir.join("data")).await;
    let file = dir.join("admin.token");
    fs::write(&file, &guarded.admin.secret).expect("written");
    (guarded, file.display().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_limits_on_the_command_line() {
    let dir = data_dir();
    let (guarded, admin) = operator(dir.path()).await;
    let file = dir.path().join("shop.token").display().to_string();
    let run = |token: &str, words: &str| {
        run_in(&[("KENT_ENDPOINT", guarded.daemon.grpc_address()), ("KENT_TOKEN_FILE", token)], words)
    };
    let kent = |token: &str, words: &str| {
        let (code, stdout, stderr) = run(token, words);
        assert_eq!(code, 0, "kent {words}: {stderr}");
        (stdout, stderr)
    };
    let create =
        format!("token create shop --allow lease:uuidv7 --limit ids=1k/s,streams=10 --limit calls=500/s --out {file}");
    assert!(kent(&admin, &create).1.contains(": lease:uuidv7; at most ids=1_000/s, calls=500/s, streams=10\n"));
    let (listed, _) = kent(&admin, "token ls");
    assert!(listed.contains("LIMITS") && listed.contains("  ids=1_000/s, calls=500/s, streams=10  "), "{listed}");
    let (who, _) = kent(&file, "whoami");
    assert!(who.lines().any(|line| line == "limits   ids=1_000/s, calls=500/s, streams=10"), "{who}");
    assert!(
        kent(&file, "whoami --json")
            .0
            .contains(r#""limits":{"calls_per_second":500,"ids_per_second":1000,"streams":10}"#)
    );
    let (set, _) = kent(&admin, "role set shops --allow lease:xid --limit ids=5M/s");
    assert!(set.contains("LIMITS") && set.contains("ids=5_000_000/s"), "{set}");
    assert!(kent(&admin, "role ls --json").0.contains(r#""limits":{"ids_per_second":5000000}"#));
    kent(&admin, "role set shops --allow lease:uuidv7");
    assert!(kent(&admin, "role ls").0.contains("ids=5_000_000/s"), "a part that is not given must stay as it was");
    kent(&admin, "role set shops --no-limits");
    assert!(!kent(&admin, "role ls").0.contains("LIMITS"));
    for (words, expected) in [
        ("token create x --allow lease:xid --limit ids=10", "ids=10k/s, calls=500/s, streams=10 or connections=20"),
        ("token create x --allow lease:xid --limit ids=1/s --limit ids=2/s", "ids is limited twice"),
        ("role set shops --limit streams=1/s", "\"streams=1/s\" is not a limit"),
        ("role set shops --no-limits --limit streams=1", "cannot be used with"),
    ] {
        let (code, _, stderr) = run(&admin, words);
        assert!(code == 2 && stderr.contains(expected), "{words}: {stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_kent_alloc_waits_for_a_limit_and_says_so() {
    let dir = data_dir();
    let guarded = Guarded::start(&dir.path().join("data")).await;
    let file = dir.path().join("shop.token").display().to_string();
    let run = |token: &str, words: &str| {
        run_in(&[("KENT_ENDPOINT", guarded.daemon.grpc_address()), ("KENT_TOKEN_FILE", token)], words)
    };
    let shop = token(&guarded, "ids=10k/s", &[]).await;
    fs::write(&file, &shop.secret).expect("written");
    let channel = guarded.daemon.channel();
    take(&channel, &shop, 50_000).await.expect("granted");
    // The limit is overdrawn by four seconds, longer than the request timeout.
    let (code, stdout, stderr) = run(&file, "alloc uuidv7 -n 11k --request-timeout 1s");
    assert_eq!((code, stdout.lines().count()), (0, 11_000), "{stderr}");
    let waiting = stderr.lines().find(|line| line.starts_with("waiting for 10_000 identifiers of uuidv7, "));
    let waiting = waiting.expect(&stderr);
    assert!(waiting.contains("(shop) has used its limit of 10_000 identifiers a second; retry in "), "{waiting}");
    assert!(!waiting.contains("gives up"), "{waiting}");
    until_ok(async || take(&channel, &shop, 1_000_000).await).await;
    let (code, stdout, stderr) = run(&file, "alloc uuidv7 --timeout 1500ms");
    assert!(code == 1 && stdout.is_empty() && stderr.contains("gives up at --timeout 1s 500ms: token:"), "{stderr}");
}
