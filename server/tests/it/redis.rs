//! The Redis port: a raw client, `redis-cli`, `redis-benchmark` and redis-py.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    path::Path,
    process::Command,
    sync::mpsc,
    thread,
    time::Duration,
};

use kent_proto::v1::{
    CallerLimits, CreateRegionRequest, CreateSpaceRequest, CreateTokenRequest, Encoding, NewBudget, Policy,
    RevokeTokenRequest, Stride, UpdateRegionRequest, region::Order,
};
use rand::RngExt;
use redis_protocol::{
    resp2::{self, types::OwnedFrame as Frame},
    resp3::{self, types::OwnedFrame as Frame3},
};

use super::{
    auth::{Guarded, guarded, holder},
    harness::{Daemon, create, data_dir, identifiers, kentd, kentd_in_memory, name, request},
    python::python,
    tls::{Ca, Files, secured},
};

/// The arguments that open the Redis port.
const OPEN: [&str; 2] = ["--redis", "127.0.0.1:0"];

/// A connection to the Redis port.
struct Raw<S> {
    stream: S,
    input: Vec<u8>,
}

impl Raw<TcpStream> {
    fn connect(daemon: &Daemon) -> Self {
        let stream = TcpStream::connect(daemon.redis_address()).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        Self::new(stream)
    }
}

impl<S: Read + Write> Raw<S> {
    fn new(stream: S) -> Self {
        Self { stream, input: Vec::new() }
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("sent");
    }

    /// Returns what `decode` finds at the beginning of the input, or `None` if the connection has ended.
    fn read<F>(&mut self, decode: impl Fn(&[u8]) -> Option<(F, usize)>) -> Option<F> {
        loop {
            if let Some((frame, length)) = decode(&self.input) {
                self.input.drain(..length);
                return Some(frame);
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(read) => self.input.extend_from_slice(&bytes[..read]),
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    /// The next reply, or `None` if the connection has ended.
    fn reply(&mut self) -> Option<Frame> {
        self.read(|bytes| resp2::decode::decode(bytes).expect("a valid reply"))
    }

    fn ask(&mut self, line: &str) -> Frame {
        self.send(array(line));
        self.reply().expect("a reply")
    }

    fn ask3(&mut self, line: &str) -> Frame3 {
        self.send(array(line));
        self.read(|bytes| resp3::decode::complete::decode(bytes).expect("a valid reply")).expect("a reply")
    }

    fn integer(&mut self, line: &str) -> i64 {
        match self.ask(line) {
            Frame::Integer(number) => number,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[track_caller]
    fn refused(&mut self, line: &str, expected: &str) {
        match self.ask(line) {
            Frame::Error(error) => assert!(error.starts_with(expected), "{line}: {error}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}

/// A command as an array of strings.
fn array(line: &str) -> Vec<u8> {
    let parts: Vec<_> = line.split(' ').map(|part| format!("${}\r\n{part}\r\n", part.len())).collect();
    format!("*{}\r\n{}", parts.len(), parts.concat()).into_bytes()
}

fn text(text: &str) -> Frame {
    Frame::BulkString(text.as_bytes().to_vec())
}

fn simple(text: &str) -> Frame {
    Frame::SimpleString(text.as_bytes().to_vec())
}

/// A daemon with the regions `orders` and `strict`, whose first identifiers are below 2^63.
async fn with_regions(daemon: Daemon) -> Daemon {
    let regions = || daemon.regions();
    for (region, prefix) in [("orders", "0000001"), ("strict", "0000010")] {
        let create = CreateRegionRequest { prefix: Some(prefix.to_owned()), suffix_bits: Some(40), ..create(region) };
        regions().create_region(create).await.expect("created");
    }
    let policy = Some(Policy { strict: true, ..Policy::default() });
    let update = UpdateRegionRequest { name: name("strict"), policy, ..UpdateRegionRequest::default() };
    regions().update_region(update).await.expect("updated");
    daemon
}

async fn start(data: &Path) -> Daemon {
    with_regions(Daemon::spawn(kentd(data).args(OPEN))).await
}

/// A daemon that requires credentials.
async fn start_guarded(data: &Path) -> Guarded {
    let Guarded { daemon, admin } = Guarded::start(data).await;
    daemon.kill();
    Guarded { daemon: Daemon::spawn(guarded(data).args(OPEN)), admin }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_incr_counts_and_get_shows_the_last_identifier() {
    let data = data_dir();
    let daemon = start(data.path()).await;
    daemon
        .regions()
        .create_space(CreateSpaceRequest { space_id: "parts".to_owned(), bits: 32, ..Default::default() })
        .await
        .expect("created");
    let bolts = CreateRegionRequest { parent: "spaces/parts".to_owned(), ..create("bolts") };
    daemon.regions().create_region(bolts).await.expect("created");
    let mut redis = Raw::connect(&daemon);
    for (key, first) in [("orders", 1_i64 << 57), ("strict", 1 << 58), ("bolts@parts", 0)] {
        assert_eq!(redis.ask(&format!("GET {key}")), Frame::Null);
        assert_eq!(redis.integer(&format!("INCR {key}")), first);
        assert_eq!(redis.integer(&format!("incr {key}")), first + 1);
        assert_eq!(redis.integer(&format!("INCRBY {key} 1")), first + 2);
        // The caller owns the ten numbers up to the answer.
        assert_eq!(redis.integer(&format!("INCRBY {key} 10")), first + 12);
        assert_eq!(redis.ask(&format!("GET {key}")), text(&(first + 12).to_string()));
        let source = format!("region:{key}");
        let next = daemon.allocator().allocate(request(&source, 1, Encoding::Packed)).await.expect("granted");
        assert_eq!(identifiers(next.get_ref()), [first as u128 + 13], "the ports share the counter");
    }
    // As many as a lease may hold.
    assert_eq!(redis.integer("INCRBY orders 1000000000"), (1 << 57) + 13 + 1_000_000_000);
    assert_eq!(redis.integer("INCR orders"), (1 << 57) + 14 + 1_000_000_000);
    let (_, metrics) = daemon.get("/metrics");
    for line in ["kent_connections{port=\"redis\"} 1", "kent_connections_max{port=\"redis\"}"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_a_split_does_not_change_the_last_identifier() {
    let data = data_dir();
    let daemon = start(data.path()).await;
    let mut redis = Raw::connect(&daemon);
    let last = redis.integer("INCRBY strict 3");
    let split = kent_proto::v1::SplitRegionRequest { name: name("strict"), by_bits: 2, ..Default::default() };
    daemon.regions().split_region(split).await.expect("split");
    assert_eq!(redis.ask("GET strict"), text(&last.to_string()));
    assert_eq!(redis.integer("INCR strict"), last + 1);
    assert_eq!(redis.ask("GET strict"), text(&(last + 1).to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_the_other_commands() {
    let daemon = with_regions(Daemon::spawn(kentd_in_memory().args(OPEN))).await;
    let mut redis = Raw::connect(&daemon);
    for (line, expected) in [
        ("PING", simple("PONG")),
        ("ping text", text("text")),
        ("ECHO text", text("text")),
        ("SELECT 0", simple("OK")),
        ("CLIENT SETINFO LIB-NAME test", simple("OK")),
        ("CLIENT GETNAME", text("")),
        ("CLIENT SETNAME me", simple("OK")),
        ("CLIENT GETNAME", text("me")),
        ("COMMAND DOCS", Frame::Array(Vec::new())),
        ("CONFIG GET save", Frame::Array(vec![text("save"), text("")])),
        ("CONFIG GET other", Frame::Array(Vec::new())),
        ("AUTH anything", simple("OK")),
        ("RESET", simple("RESET")),
        ("CLIENT GETNAME", text("")),
    ] {
        assert_eq!(redis.ask(line), expected, "{line}");
    }
    let Frame::Array(time) = redis.ask("TIME") else { panic!("no time") };
    let [Frame::BulkString(seconds), Frame::BulkString(micros)] = &time[..] else { panic!("{time:?}") };
    let number = |digits: &[u8]| std::str::from_utf8(digits).expect("ASCII").parse::<u64>().expect("a number");
    let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    assert!(number(seconds).abs_diff(now) < 60 && number(micros) < 1_000_000, "{time:?}");
    let other = Raw::connect(&daemon).integer("CLIENT ID");
    assert_ne!(redis.integer("CLIENT ID"), other);
    // A person may type commands.
    redis.send("PING\r\n\r\nINCR orders\n");
    assert_eq!(redis.reply(), Some(simple("PONG")));
    assert_eq!(redis.reply(), Some(Frame::Integer(1 << 57)));
    assert_eq!(redis.ask("QUIT"), simple("OK"));
    assert_eq!(redis.reply(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_version_3_of_the_protocol() {
    let daemon = with_regions(Daemon::spawn(kentd_in_memory().args(OPEN))).await;
    let mut redis = Raw::connect(&daemon);
    let Frame::Array(hello) = redis.ask("HELLO") else { panic!("no array") };
    assert_eq!((hello.len(), &hello[..2]), (14, &[text("server"), text("kent")][..]));
    let Frame3::Map { data, .. } = redis.ask3("HELLO 3 SETNAME me") else { panic!("no map") };
    let key = |name: &str| Frame3::BlobString { data: name.as_bytes().to_vec(), attributes: None };
    assert_eq!(data.get(&key("proto")), Some(&Frame3::Number { data: 3, attributes: None }));
    assert_eq!(redis.ask3("GET orders"), Frame3::Null);
    assert_eq!(redis.ask3("INCR orders"), Frame3::Number { data: 1 << 57, attributes: None });
    assert_eq!(redis.ask3("CLIENT GETNAME"), key("me"));
    assert!(matches!(redis.ask3("CONFIG GET save"), Frame3::Map { data, .. } if data.len() == 1));
    assert!(matches!(redis.ask3("HELLO 4"), Frame3::SimpleError { data, .. } if data.starts_with("NOPROTO ")));
    assert!(matches!(redis.ask("HELLO 2"), Frame::Array(_)));
    assert_eq!(redis.ask("GET strict"), Frame::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn err_what_cannot_be_counted_is_refused_before_anything_is_issued() {
    let daemon = with_regions(Daemon::spawn(kentd_in_memory().args(OPEN))).await;
    let region = |region, prefix: &str, order: Order| CreateRegionRequest {
        prefix: Some(prefix.to_owned()),
        order: order.into(),
        ..create(region)
    };
    for create in [
        region("mixed", "0001", Order::Scrambled),
        region("chosen", "0010", Order::External),
        region("high", "1", Order::Sequential),
        region("small", "0011", Order::Sequential),
    ] {
        daemon.regions().create_region(create).await.expect("created");
    }
    let mut redis = Raw::connect(&daemon);
    for (line, expected) in [
        ("INCR mixed", "ERR NOT_COUNTED key: is a scrambled region"),
        ("GET mixed", "ERR NOT_COUNTED key: "),
        ("INCR chosen", "ERR EXTERNAL "),
        ("GET chosen", "ERR NOT_COUNTED "),
        ("INCR high", "ERR NOT_AN_INTEGER key: is a region whose next identifiers are above 9223372036854775807"),
        ("INCR absent", "ERR NO_SUCH_REGION "),
        ("GET absent", "ERR NO_SUCH_REGION "),
        ("INCR orders@absent", "ERR NO_SUCH_SPACE "),
        ("INCR region:orders", "ERR BAD_INPUT key: leave out region:, so that the key is orders"),
        ("GET region:orders@x", "ERR BAD_INPUT key: leave out region:, so that the key is orders@x"),
        ("INCR a@b@c", "ERR "),
        ("GET a@b@c", "ERR "),
        ("INCR ", "ERR "),
        ("INCRBY orders 0", "ERR identifiers only ascend"),
        ("INCRBY orders -3", "ERR identifiers only ascend"),
        ("INCRBY orders many", "ERR value is not an integer or out of range"),
        ("INCRBY orders 1000000001", "ERR BAD_INPUT count: is 1_000_000_001, but at most"),
        ("INCRBY small 1048577", "ERR CAPACITY_EXHAUSTED "),
        ("SET orders 1", "ERR unknown command 'SET'"),
        ("DECR orders", "ERR unknown command 'DECR'"),
        ("SELECT 1", "ERR DB index is out of range"),
    ] {
        redis.refused(line, expected);
    }
    for region in ["orders", "small"] {
        assert_eq!(redis.ask(&format!("GET {region}")), Frame::Null, "nothing was issued");
    }
    assert_eq!(redis.integer("INCRBY small 1048576"), (3 << 60) + (1 << 20) - 1, "all identifiers of the region");
    redis.refused("INCR small", "ERR CAPACITY_EXHAUSTED ");
    let high = daemon.allocator().allocate(request("region:high", 1, Encoding::Packed)).await.expect("granted");
    assert_eq!(identifiers(high.get_ref()), [1 << 63], "INCR has issued nothing from it");
}

/// A region with a step counts in steps. A run of several numbers would hold those of the other generator.
#[tokio::test(flavor = "multi_thread")]
async fn ok_and_err_a_region_with_a_step() {
    let daemon = Daemon::spawn(kentd_in_memory().args(OPEN));
    for (region, prefix, strict) in [("odd", "00", false), ("strict", "01", true)] {
        let policy = Some(Policy { strict, stride: Some(Stride { step: 2, offset: 1 }), ..Policy::default() });
        let create = CreateRegionRequest { prefix: Some(prefix.to_owned()), policy, ..create(region) };
        daemon.regions().create_region(create).await.expect("created");
    }
    let mut redis = Raw::connect(&daemon);
    for (region, base) in [("odd", 0), ("strict", 1 << 62)] {
        assert_eq!(redis.ask(&format!("GET {region}")), Frame::Null);
        let numbers = [(); 3].map(|()| redis.integer(&format!("INCR {region}")) - base);
        assert_eq!(numbers, [1, 3, 5], "{region}");
        assert_eq!(redis.integer(&format!("INCRBY {region} 1")) - base, 7);
        redis.refused(
            &format!("INCRBY {region} 2"),
            "ERR NOT_CONSECUTIVE key: is a region that issues every 2nd number",
        );
    }
    assert_eq!(redis.ask("GET strict"), text(&((1_u64 << 62) + 7).to_string()));
}

/// A region of 2^64 identifiers, whose counter is set near 2^63: the numbers end at the largest signed integer.
#[tokio::test(flavor = "multi_thread")]
async fn err_no_identifier_is_above_the_largest_integer() {
    for strict in [false, true] {
        let daemon = Daemon::spawn(kentd_in_memory().args(OPEN));
        let all = CreateRegionRequest { prefix: Some(String::new()), suffix_bits: Some(64), ..create("all") };
        daemon.regions().create_region(all).await.expect("created");
        let update = UpdateRegionRequest {
            name: name("all"),
            next: Some(((1_u128 << 63) - 5).into()),
            policy: Some(Policy { strict, ..Policy::default() }),
            ..UpdateRegionRequest::default()
        };
        daemon.regions().update_region(update).await.expect("updated");
        let mut redis = Raw::connect(&daemon);
        redis.refused("INCRBY all 6", "ERR NOT_AN_INTEGER ");
        assert_eq!(redis.integer("INCRBY all 4"), i64::MAX - 1);
        redis.refused("INCRBY all 2", "ERR NOT_AN_INTEGER ");
        assert_eq!(redis.integer("INCR all"), i64::MAX);
        redis.refused("INCR all", "ERR NOT_AN_INTEGER ");
        let next = daemon.allocator().allocate(request("region:all", 1, Encoding::Packed)).await.expect("granted");
        assert_eq!(identifiers(next.get_ref()), [1 << 63], "strict: {strict}");
        redis.refused("INCR all", "ERR NOT_AN_INTEGER ");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_pipelined_commands_are_answered_in_order() {
    let data = data_dir();
    let daemon = start(data.path()).await;
    for (key, first, count) in [("orders", 1_i64 << 57, 20_000), ("strict", 1 << 58, 300)] {
        let mut redis = Raw::connect(&daemon);
        let mut writer = redis.stream.try_clone().expect("cloned");
        let commands = [array(&format!("INCR {key}")), array("DECR x"), array("PING")].concat().repeat(count);
        let writing = thread::spawn(move || writer.write_all(&commands).expect("sent"));
        for number in 0..count as i64 {
            assert_eq!(redis.reply(), Some(Frame::Integer(first + number)));
            assert!(matches!(redis.reply(), Some(Frame::Error(_))));
            assert_eq!(redis.reply(), Some(simple("PONG")));
        }
        writing.join().expect("written");
    }
}

/// A caller that does not read its replies is served no further, until it reads.
#[tokio::test(flavor = "multi_thread")]
async fn ok_a_reader_who_does_not_read_is_served_no_further() {
    let daemon = with_regions(Daemon::spawn(kentd_in_memory().args(OPEN))).await;
    let mut redis = Raw::connect(&daemon);
    redis.stream.set_write_timeout(Some(Duration::from_millis(500))).expect("set");
    let command = [array("INCR orders"), array(&format!("ECHO {}", "x".repeat(60_000)))].concat();
    let (mut sent, max) = (0, 1024 << 20);
    while sent < max {
        match redis.stream.write(&command[sent % command.len()..]) {
            Ok(written) => sent += written,
            Err(_) => break,
        }
    }
    assert!(sent < max, "the daemon read everything");
    assert_eq!(Raw::connect(&daemon).ask("PING"), simple("PONG"), "others are served");
    for number in 0..10 {
        assert_eq!(redis.reply(), Some(Frame::Integer((1 << 57) + number)));
        assert!(matches!(redis.reply(), Some(Frame::BulkString(bytes)) if bytes.len() == 60_000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn err_malformed_input_ends_only_its_connection() {
    let daemon = with_regions(Daemon::spawn(kentd_in_memory().args(OPEN))).await;
    let mut healthy = Raw::connect(&daemon);
    for (bytes, expected) in [
        (&b"*1000000\r\n"[..], "ERR Protocol error: a command has at most 16 parts"),
        (b"*17\r\n", "ERR Protocol error: a command has at most 16 parts"),
        (b"*1\r\n$-5\r\n", "ERR Protocol error: invalid length"),
        (b"*1\r\n$99999999\r\n", "ERR Protocol error: a command has at most 65536 bytes"),
        (b"*1\r\n$x\r\n", "ERR Protocol error: invalid length"),
        (b"*1\r\n:1\r\n", "ERR Protocol error: expected '$'"),
        (&b"*1\r\n".repeat(5000), "ERR Protocol error: expected '$'"),
        (b"*1\r\n$4\r\nPINGPONG\r\n", "ERR Protocol error: a string does not end"),
        (&[b'a'; 5000], "ERR Protocol error: a command has at most"),
        (b"POST / HTTP/1.1\r\nhost: a\r\n\r\nINCR orders\r\n", "ERR unknown command 'POST'"),
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\n", "ERR unknown command"),
    ] {
        let mut hostile = Raw::connect(&daemon);
        hostile.send(bytes);
        match hostile.reply() {
            Some(Frame::Error(error)) => assert!(error.starts_with(expected), "{bytes:?}: {error}"),
            other => panic!("{bytes:?}: {other:?}"),
        }
        assert_eq!(hostile.reply(), None, "the connection ends");
        assert_eq!(healthy.ask("PING"), simple("PONG"));
    }
    for half in [&b"*"[..], b"*2\r\n$4\r\nINCR\r\n", b"*2\r\n$4\r\nINCR\r\n$6\r\norders", b"INCR orders"] {
        let mut hostile = Raw::connect(&daemon);
        hostile.send(half);
        hostile.stream.shutdown(Shutdown::Write).expect("half closed");
        assert_eq!(hostile.reply(), None, "{half:?}");
    }
    assert_eq!(healthy.ask("GET orders"), Frame::Null, "nothing was issued");
    // Random bytes, and random changes of good commands.
    let mut random = rand::rng();
    for _ in 0..300 {
        let mut bytes = [array("INCR orders"), array("HELLO 3 AUTH default x"), array("INCRBY orders 5")].concat();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        let mut hostile = Raw::connect(&daemon);
        hostile.send(&bytes);
        let _ = hostile.stream.shutdown(Shutdown::Write);
        // OK because the daemon may end the connection with unread bytes.
        let _ = hostile.stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(healthy.ask("PING"), simple("PONG"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_and_err_tokens() {
    let data = data_dir();
    let Guarded { daemon, admin } = Guarded::start(data.path()).await;
    daemon.kill();
    let dir = data_dir();
    let file = dir.path().join("audit");
    let daemon = Daemon::spawn(guarded(data.path()).args(OPEN).arg("--audit").arg(&file));
    let guarded = Guarded { daemon, admin };
    for region in ["orders", "secrets"] {
        guarded.create(&guarded.admin.clone(), region).await.expect("created");
    }
    let clerk = guarded.token(&["allocate:region:default/orders"]).await;
    let auditor = guarded.token(&["read:region:default/*"]).await;
    let mut redis = Raw::connect(&guarded.daemon);
    for line in ["PING", "INCR orders", "GET orders", "TIME", "HELLO 3", "CLIENT ID", "COMMAND"] {
        redis.refused(line, "NOAUTH NO_CREDENTIAL this daemon answers only callers that it knows: send AUTH TOKEN");
    }
    redis.refused("SET a b", "ERR unknown command");
    redis.refused("AUTH nonsense", "WRONGPASS BAD_CREDENTIAL the token is not valid: this daemon has no such token");
    redis.refused("AUTH a\tb", "WRONGPASS BAD_CREDENTIAL ");
    redis.refused(&format!("AUTH clerk {}", clerk.secret), "WRONGPASS a token needs no user name");
    assert_eq!(redis.ask(&format!("AUTH {}", clerk.secret)), simple("OK"));
    let first = redis.integer("INCR orders");
    redis.refused("INCR secrets", "NOPERM PERMISSION_DENIED ");
    redis.refused("INCR absent", "NOPERM PERMISSION_DENIED ");
    redis.refused("GET orders", "NOPERM PERMISSION_DENIED ");
    // A token that is refused leaves the earlier one in force.
    redis.refused("AUTH nonsense", "WRONGPASS BAD_CREDENTIAL ");
    assert_eq!(redis.integer("INCR orders"), first + 1);
    assert!(matches!(redis.ask(&format!("HELLO 2 AUTH default {}", auditor.secret)), Frame::Array(_)));
    assert_eq!(redis.ask("GET orders"), text(&(first + 1).to_string()));
    redis.refused("INCR orders", "NOPERM PERMISSION_DENIED ");
    assert_eq!(redis.ask("RESET"), simple("RESET"));
    redis.refused("PING", "NOAUTH NO_CREDENTIAL ");
    // A token that is revoked is refused at the next command.
    let mut clerks = Raw::connect(&guarded.daemon);
    assert_eq!(clerks.ask(&format!("AUTH default {}", clerk.secret)), simple("OK"));
    assert_eq!(clerks.integer("INCR orders"), first + 2);
    let revoke = guarded.admin.send(RevokeTokenRequest { id: clerk.id.clone() });
    guarded.access().revoke_token(revoke).await.expect("revoked");
    for line in ["INCR orders", "GET orders", "PING"] {
        clerks.refused(line, "NOAUTH CREDENTIAL_ENDED ");
    }
    let audit = std::fs::read_to_string(&file).expect("an audit log");
    for method in ["kent.v1.Allocator/Allocate", "kent.v1.Regions/GetRegion", "redis AUTH", "redis PING"] {
        let is_denied = |line: &&str| line.contains("denied") && line.contains(method);
        assert!(audit.lines().any(|line| is_denied(&line)), "{method}: {audit}");
    }
    assert!(!audit.contains(&clerk.secret) && !audit.contains("nonsense"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_budgets_and_limits() {
    let data = data_dir();
    let guarded = start_guarded(data.path()).await;
    guarded.create(&guarded.admin.clone(), "orders").await.expect("created");
    let token = async |limits: CallerLimits, budgets: &[(&str, u64)]| {
        let new = CreateTokenRequest {
            name: "clerk".to_owned(),
            permissions: vec!["allocate:region:default/orders".to_owned()],
            limits: Some(limits),
            budgets: budgets
                .iter()
                .map(|(of, total)| NewBudget { resource: (*of).to_owned(), total: *total })
                .collect(),
            ..CreateTokenRequest::default()
        };
        holder(guarded.access().create_token(guarded.admin.send(new)).await.expect("made"))
    };
    let mut redis = Raw::connect(&guarded.daemon);
    let thrifty = token(CallerLimits::default(), &[("region:default/orders", 10)]).await;
    assert_eq!(redis.ask(&format!("AUTH {}", thrifty.secret)), simple("OK"));
    let first = redis.integer("INCR orders");
    assert_eq!(redis.integer("INCRBY orders 8"), first + 8);
    redis.refused("INCRBY orders 2", "ERR BUDGET the budget of token:");
    assert_eq!(redis.integer("INCR orders"), first + 9);
    redis.refused("INCR orders", "ERR BUDGET the budget of token:");
    // A limit on calls counts each command. A command that is refused issues nothing.
    let hurried = token(CallerLimits { calls_per_second: 5, ..CallerLimits::default() }, &[]).await;
    assert_eq!(redis.ask(&format!("AUTH {}", hurried.secret)), simple("OK"));
    redis.send(array("INCR orders").repeat(100));
    let (mut next, mut refused) = (first + 10, 0);
    for _ in 0..100 {
        match redis.reply().expect("a reply") {
            Frame::Integer(number) => {
                assert_eq!(number, next);
                next += 1;
            }
            Frame::Error(error) => {
                assert!(error.starts_with("TRYAGAIN LIMIT "), "{error}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(refused > 0 && next > first + 10, "{refused} of 100 are refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn err_slow_callers_lose_their_connection() {
    let data = data_dir();
    let guarded = start_guarded(data.path()).await;
    let [mut idle, mut slow, mut known] = [(); 3].map(|()| Raw::connect(&guarded.daemon));
    for redis in [&mut slow, &mut known] {
        assert_eq!(redis.ask(&format!("AUTH {}", guarded.admin.secret)), simple("OK"));
    }
    // Half of a command is as bad as none.
    slow.send("*2\r\n$4\r\nPI");
    assert_eq!((idle.reply(), slow.reply()), (None, None));
    // A caller with a credential may be idle for longer.
    assert_eq!(known.ask("PING"), simple("PONG"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_and_err_tls() {
    let (data, ca, other) = (data_dir(), Ca::new("kent"), Ca::new("other"));
    let mut files = Files::new(&ca.server(), Some(&ca), Some(&ca.revoke(&[])));
    let daemon = Daemon::spawn(files.command(data.path()).args(OPEN));
    let caller = ca.client("spiffe://example/orders", 2);
    let mut redis = Raw::new(secured(daemon.redis_address(), &ca, Some(&caller)));
    assert_eq!(redis.ask("PING"), simple("PONG"));
    redis.refused("INCR absent", "ERR NO_SUCH_REGION ");
    let mut plain = Raw::connect(&daemon);
    plain.send(array("PING"));
    assert!(matches!(plain.reply(), Some(Frame::Error(error)) if error.starts_with("ERR this port speaks TLS")));
    let strangers = [None, Some(other.client("spiffe://example/orders", 2))];
    for stranger in &strangers {
        let mut stream = secured(daemon.redis_address(), &ca, stranger.as_ref());
        let _ = stream.write_all(&array("PING"));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"", "a caller without a certificate of the CA");
    }
    // The connection of a caller whose certificate is revoked ends.
    let server = ca.server();
    files.exchange(&server.certificate, &server.key, Some(&ca), Some(&ca.revoke(&[&caller])));
    let mut end = Vec::new();
    let _ = redis.stream.read_to_end(&mut end);
    assert_eq!(end, b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_connections_beyond_the_limit_are_closed() {
    let daemon = Daemon::spawn(kentd_in_memory().args(OPEN).args(["--connections-per-address", "2"]));
    let mut kept: Vec<_> = (0..2).map(|_| Raw::connect(&daemon)).collect();
    kept.iter_mut().for_each(|redis| assert_eq!(redis.ask("PING"), simple("PONG")));
    let mut third = TcpStream::connect(daemon.redis_address()).expect("connected");
    assert!(matches!(third.read(&mut [0; 16]), Ok(0) | Err(_)), "the third is closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_sigterm_ends_idle_connections_and_answers_what_is_in_progress() {
    let data = data_dir();
    let daemon = start(data.path()).await;
    let (mut idle, mut busy) = (Raw::connect(&daemon), Raw::connect(&daemon));
    assert_eq!(idle.ask("PING"), simple("PONG"));
    busy.send(array("INCR strict").repeat(2000));
    let first = busy.reply();
    assert_eq!(first, Some(Frame::Integer(1 << 58)));
    daemon.signal("TERM");
    let mut answered = 1;
    while let Some(reply) = busy.reply() {
        assert_eq!(reply, Frame::Integer((1 << 58) + answered));
        answered += 1;
    }
    assert_eq!(idle.reply(), None);
    assert!(daemon.wait().await.success());
    let daemon = Daemon::spawn(kentd(data.path()).args(OPEN));
    assert_eq!(Raw::connect(&daemon).integer("INCR strict"), (1 << 58) + answered, "no answer was lost");
}

#[test]
fn ok_the_port_is_closed_by_default() {
    let daemon = Daemon::spawn(&mut kentd_in_memory());
    assert!(!daemon.greeting().contains("Redis"), "{}", daemon.greeting());
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_no_identifier_is_issued_twice_over_crashes() {
    let data = data_dir();
    start(data.path()).await.kill();
    let mut runs = Vec::new();
    for _ in 0..8 {
        let daemon = Daemon::spawn(kentd(data.path()).args(OPEN));
        let (found, of_round) = mpsc::channel();
        let clients: Vec<_> = (0..6)
            .map(|client| {
                let (mut redis, found) = (Raw::connect(&daemon), found.clone());
                let (key, count) = [("orders", 1), ("strict", 1), ("orders", 700)][client % 3];
                thread::spawn(move || {
                    let commands = array(&format!("INCRBY {key} {count}")).repeat(10);
                    while redis.stream.write_all(&commands).is_ok() {
                        for _ in 0..10 {
                            let mut bytes = [0; 512];
                            let last = loop {
                                if let Ok(Some((frame, length))) = resp2::decode::decode(&redis.input) {
                                    redis.input.drain(..length);
                                    break frame;
                                }
                                match redis.stream.read(&mut bytes) {
                                    Ok(read @ 1..) => redis.input.extend_from_slice(&bytes[..read]),
                                    _ => return,
                                }
                            };
                            let Frame::Integer(last) = last else { panic!("{last:?}") };
                            found.send((last - count + 1, last)).expect("received");
                        }
                    }
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(rand::rng().random_range(50..400)));
        daemon.kill();
        drop(found);
        runs.extend(of_round);
        clients.into_iter().for_each(|client| client.join().expect("no panic"));
    }
    assert!(runs.len() > 1000, "the load was too small to show anything: {}", runs.len());
    runs.sort_unstable();
    for pair in runs.windows(2) {
        assert!(pair[0].1 < pair[1].0, "{} was issued twice", pair[1].0);
    }
}

/// Runs a program with the address of the port. Returns its output, or `None` if the program is not installed.
fn run(daemon: &Daemon, program: &str, arguments: &[&str]) -> Option<String> {
    let (host, port) = daemon.redis_address().rsplit_once(':').expect("a port");
    match Command::new(program).args(["-h", host, "-p", port]).args(arguments).output() {
        Ok(ran) => {
            let said = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
            assert!(ran.status.success(), "{program} {arguments:?}: {said}");
            Some(said)
        }
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "CI must have {program} (redis-tools): {error}");
            println!("skipped: {program} is not installed");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_redis_cli_and_redis_benchmark() {
    let data = data_dir();
    let daemon = start(data.path()).await;
    for (arguments, expected) in [
        (&["PING"][..], "PONG"),
        (&["INCR", "orders"], "144115188075855872"),
        (&["-3", "INCRBY", "orders", "10"], "144115188075855882"),
        (&["GET", "orders"], "144115188075855882"),
        (&["-a", "anything", "--no-auth-warning", "GET", "strict"], ""),
        (&["SET", "orders", "1"], "ERR unknown command 'SET'"),
    ] {
        let Some(said) = run(&daemon, "redis-cli", arguments) else { return };
        assert!(said.trim().starts_with(expected) && (!expected.is_empty() || said.trim().is_empty()), "{said}");
    }
    // A multiple of the depth, because redis-benchmark sends whole pipelines.
    for pipelined in ["1", "16"] {
        let arguments = ["-n", "1600", "-c", "8", "-P", pipelined, "-q", "INCR", "orders"];
        let Some(said) = run(&daemon, "redis-benchmark", &arguments) else { return };
        assert!(said.contains("requests per second") && !said.contains("rror"), "{said}");
    }
    let last = Raw::connect(&daemon).ask("GET orders");
    assert_eq!(last, text(&(144_115_188_075_855_882_u64 + 3200).to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn ok_redis_py() {
    let Some(interpreter) = python() else { return };
    let data = data_dir();
    let daemon = start(data.path()).await;
    daemon.regions().create_region(create("empty")).await.expect("created");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/redis_client.py");
    let ran = Command::new(interpreter).arg(script).arg(daemon.redis_address()).output().expect("the command runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("all checks passed"), "{said}");
}
