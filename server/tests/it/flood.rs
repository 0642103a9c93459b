//! Floods: hostile connections cost the daemon a bounded amount of memory, and other callers are still served.

use std::{
    fs,
    io::Write,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use kent_proto::v1::{AllocateRequest, Encoding};
use prost::Message;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::harness::{Daemon, data_dir, identifiers, kentd, request};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types and flags of frames.
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// A frame of HTTP/2.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("small").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header that is not compressed.
pub(super) fn header(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| match text.len() {
        short @ 0..127 => vec![u8::try_from(short).expect("small")],
        long => {
            let mut rest = long - 127;
            let mut bytes = vec![127];
            while rest >= 128 {
                bytes.push(u8::try_from(rest % 128).expect("small") | 128);
                rest /= 128;
            }
            bytes.push(u8::try_from(rest).expect("small"));
            bytes
        }
    };
    [vec![0], length(name), name.into(), length(value), value.into()].concat()
}

/// The headers of an `Allocate` call, followed by additional headers.
fn call(others: &[(&str, &str)]) -> Vec<u8> {
    let own = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/kent.v1.Allocator/Allocate"),
        (":authority", "kent"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ];
    own.iter().chain(others).flat_map(|(name, value)| header(name, value)).collect()
}

/// The bytes with which a client begins a connection.
pub(super) fn beginning() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[])].concat()
}

/// Connects from a separate address, because the daemon limits connections per address.
async fn connect(from: Ipv4Addr, to: &str) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to.parse::<SocketAddr>().expect("an address")).await
}

/// Waits until the daemon closes a connection. Returns false if the daemon does not close it within this time.
async fn is_closed(stream: &mut TcpStream, within: Duration) -> bool {
    let mut buffer = [0; 4096];
    let closed = async { while stream.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {} };
    timeout(within, closed).await.is_ok()
}

/// A field of /proc/PID/status, in bytes.
pub(super) fn memory(daemon: &Daemon, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).expect("a field");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

fn allow_many_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("raised");
}

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// What an attacker does on an open connection.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// Sends nothing.
    Silence,
    /// Sends only the beginning of the preface.
    HalfOpen,
    /// Sends nothing after the preface.
    Idle,
    /// Calls that never end.
    SlowCalls,
    /// Calls that are reset immediately.
    RapidReset,
    /// A header that never ends.
    Continuation,
    /// Calls with large headers.
    GiantHeaders,
    /// Slow headers on the HTTP port.
    SlowHttp,
}

const ATTACKS: [Attack; 8] = [
    Attack::Silence,
    Attack::HalfOpen,
    Attack::Idle,
    Attack::SlowCalls,
    Attack::RapidReset,
    Attack::Continuation,
    Attack::GiantHeaders,
    Attack::SlowHttp,
];

impl Attack {
    /// Attacks until the daemon closes the connection, or for a while.
    async fn run(self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut bytes = beginning();
        match self {
            Self::Silence => {}
            Self::HalfOpen => stream.write_all(&PREFACE[..10]).await?,
            Self::Idle => stream.write_all(&bytes).await?,
            Self::SlowCalls => {
                // The largest headers, and the beginning of a message.
                let headers = call(&[("x", &"a".repeat(7000))]);
                let part = [&[0, 0, 0, 16, 0][..], &[0; 300]].concat();
                for stream_id in (1..256).step_by(2) {
                    bytes.extend(frame(HEADERS, END_HEADERS, stream_id, &headers));
                    bytes.extend(frame(DATA, 0, stream_id, &part));
                }
                stream.write_all(&bytes).await?;
            }
            Self::RapidReset => {
                stream.write_all(&bytes).await?;
                let headers = call(&[]);
                for stream_id in (1..20_000).step_by(2) {
                    let open = frame(HEADERS, END_HEADERS, stream_id, &headers);
                    let reset = frame(RST_STREAM, 0, stream_id, &8_u32.to_be_bytes());
                    stream.write_all(&[open, reset].concat()).await?;
                }
            }
            Self::Continuation => {
                bytes.extend(frame(HEADERS, 0, 1, &call(&[])));
                stream.write_all(&bytes).await?;
                let more = frame(CONTINUATION, 0, 1, &header("x", &"a".repeat(1000)).repeat(16));
                for _ in 0..1000 {
                    stream.write_all(&more).await?;
                }
            }
            Self::GiantHeaders => {
                stream.write_all(&bytes).await?;
                let large = call(&[("x", &"a".repeat(15_000))]);
                for stream_id in (1..400).step_by(2) {
                    stream.write_all(&frame(HEADERS, END_HEADERS, stream_id, &large)).await?;
                }
            }
            Self::SlowHttp => {
                stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: kent\r\n").await?;
                for _ in 0..20 {
                    stream.write_all(b"X: y\r\n").await?;
                    sleep(Duration::from_millis(500)).await;
                }
            }
        }
        is_closed(&mut stream, Duration::from_secs(12)).await;
        Ok(())
    }
}

/// The memory that docs/limits.md states for a thousand such connections.
const STATED: u64 = 1 << 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ok_a_thousand_hostile_connections_cost_bounded_memory_and_others_are_served() {
    allow_many_files();
    let dir = data_dir();
    let daemon = Daemon::spawn(kentd(&dir.path().join("data")).args(["--connections-per-address", "2000"]));
    let before = memory(&daemon, "VmRSS");
    let (granted, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut grants = JoinSet::new();
    grants.spawn({
        let (mut allocator, granted, done) = (daemon.allocator(), granted.clone(), done.clone());
        async move {
            let mut slowest = Duration::ZERO;
            while !done.load(Relaxed) {
                let began = tokio::time::Instant::now();
                let mut ask = tonic::Request::new(request("uuidv7", 10, Encoding::Packed));
                ask.set_timeout(Duration::from_secs(10));
                let reply = allocator.allocate(ask).await.expect("granted in spite of the flood");
                assert_eq!(identifiers(reply.get_ref()).len(), 10);
                slowest = slowest.max(began.elapsed());
                granted.fetch_add(1, Relaxed);
                sleep(Duration::from_millis(5)).await;
            }
            slowest
        }
    });
    let mut attacks = JoinSet::new();
    for number in 0..1000 {
        let attack = ATTACKS[number % ATTACKS.len()];
        let port = if matches!(attack, Attack::SlowHttp) { daemon.http_address() } else { daemon.grpc_address() };
        let port = port.to_owned();
        attacks.spawn(async move {
            let Ok(stream) = connect(ATTACKER, &port).await else { return };
            // OK because the daemon closes the connections of some attacks.
            let _ = attack.run(stream).await;
        });
    }
    let mut most = 0;
    while !attacks.is_empty() {
        // OK because the result of an attack does not matter.
        let _ = timeout(Duration::from_millis(100), attacks.join_next()).await;
        most = most.max(memory(&daemon, "VmRSS"));
    }
    done.store(true, Relaxed);
    let slowest = grants.join_next().await.expect("a task").expect("no panic");
    let cost = most.saturating_sub(before);
    writeln!(
        std::io::stderr(),
        "{} grants, the slowest took {slowest:?}; the flood cost {} MiB",
        granted.load(Relaxed),
        cost >> 20
    )
    .expect("written");
    assert!(granted.load(Relaxed) > 100);
    assert!(cost < STATED, "{cost} bytes");
    assert_eq!(daemon.get("/livez").0, 200);
}

/// The beginning of a connection with flow-control windows that are too large for any answer to fill.
fn large_windows() -> Vec<u8> {
    let initial_window = [&[0, 4][..], &(i32::MAX as u32).to_be_bytes()].concat();
    let connection = (i32::MAX as u32 - 65_535).to_be_bytes();
    [
        PREFACE,
        &frame(SETTINGS, 0, 0, &initial_window),
        &frame(SETTINGS, ACK, 0, &[]),
        &frame(WINDOW_UPDATE, 0, 0, &connection),
    ]
    .concat()
}

/// An `Allocate` call with this message.
fn unary(stream_id: u32, message: &AllocateRequest) -> Vec<u8> {
    let message = message.encode_to_vec();
    let prefix = [0, 0, 0, 0, u8::try_from(message.len()).expect("small")];
    let data = frame(DATA, END_STREAM, stream_id, &[&prefix[..], &message].concat());
    [frame(HEADERS, END_HEADERS, stream_id, &call(&[])), data].concat()
}

#[tokio::test]
async fn ok_unread_answers_take_bounded_memory() {
    // docs/limits.md states both numbers. The bytes that the kernel keeps for a socket are not part of the daemon's
    // memory.
    const CONNECTIONS: u64 = 8;
    const STATED: u64 = 4 << 20;
    let dir = data_dir();
    let daemon = Daemon::start(&dir.path().join("data"));
    let before = memory(&daemon, "VmRSS");
    for (grants, (count, encoding)) in (1..).zip([(1 << 17, Encoding::Packed), (10_000, Encoding::Text)]) {
        let asked = request("uuidv7", count, encoding);
        let calls: Vec<u8> = (1..256).step_by(2).flat_map(|stream_id| unary(stream_id, &asked)).collect();
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut stream = TcpStream::connect(daemon.grpc_address()).await.expect("connected");
            stream.write_all(&[large_windows(), calls.clone()].concat()).await.expect("written");
            open.push(stream);
        }
        let (mut most, mut granted) = (0, 0);
        while granted < grants * CONNECTIONS * 128 {
            sleep(Duration::from_millis(50)).await;
            most = most.max(memory(&daemon, "VmRSS"));
            let metrics = daemon.get("/metrics").1;
            let line = metrics.lines().find_map(|line| line.strip_prefix("kent_grants_total{source=\"uuidv7\"} "));
            granted = line.map_or(0, |number| number.parse::<u64>().expect("a number"));
        }
        let cost = most.saturating_sub(before);
        assert!(cost < CONNECTIONS * STATED, "{encoding:?}: {} MiB for {CONNECTIONS} connections", cost >> 20);
        // A client that reads its answer gets all of it.
        let mut first = open.swap_remove(0);
        let mut bytes = vec![0; 1 << 20];
        timeout(Duration::from_secs(30), first.read_exact(&mut bytes)).await.expect("in time").expect("read");
    }
    daemon.allocator().allocate(request("uuidv7", 1, Encoding::Lease)).await.expect("granted");
}

#[tokio::test]
async fn err_connections_beyond_the_limits_are_refused_and_counted() {
    let dir = data_dir();
    let daemon =
        Daemon::spawn(kentd(&dir.path().join("data")).args(["--connections", "6", "--connections-per-address", "3"]));
    let mut open = Vec::new();
    for port in [daemon.grpc_address(), daemon.http_address()] {
        for last in [2, 3] {
            for _ in 0..3 {
                open.push(connect(Ipv4Addr::new(127, 0, 0, last), port).await.expect("connected"));
            }
        }
        let own = &mut connect(Ipv4Addr::new(127, 0, 0, 2), port).await.expect("connected");
        assert!(is_closed(own, Duration::from_secs(5)).await, "a fourth connection from one address must be closed");
        let other = &mut connect(Ipv4Addr::new(127, 0, 0, 4), port).await.expect("connected");
        assert!(is_closed(other, Duration::from_secs(5)).await, "a seventh connection must be closed");
    }
    // The socket in the data directory has a separate limit.
    let socket = dir.path().join("data/kent.sock");
    let endpoint = tonic::transport::Endpoint::from_shared(format!("unix:{}", socket.display())).expect("valid");
    let mut local = kent_proto::v1::allocator_client::AllocatorClient::new(endpoint.connect_lazy());
    local.allocate(request("uuidv7", 1, Encoding::Lease)).await.expect("granted");
    drop(open);
    // The daemon notices only after a moment that connections are closed.
    let metrics = loop {
        match super::harness::http_get(daemon.http_address(), "/metrics", "*/*") {
            Some((200, _, metrics)) if metrics.contains("kent_connections{port=\"http\"} 1\n") => break metrics,
            _ => sleep(Duration::from_millis(50)).await,
        }
    };
    for line in [
        "kent_connections_refused_total{port=\"grpc\",limit=\"address\"} 1",
        "kent_connections_refused_total{port=\"grpc\",limit=\"total\"} 1",
        "kent_connections_refused_total{port=\"http\",limit=\"address\"} 1",
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line} in\n{metrics}");
    }
    daemon.allocator().allocate(request("uuidv7", 1, Encoding::Lease)).await.expect("granted");
}

#[tokio::test]
async fn err_silent_and_slow_connections_are_closed() {
    let dir = data_dir();
    let daemon = Daemon::start(&dir.path().join("data"));
    let cases: [(&str, &[u8], bool); 5] = [
        (daemon.grpc_address(), b"", true),
        (daemon.grpc_address(), &PREFACE[..23], true),
        (daemon.http_address(), b"", true),
        (daemon.http_address(), b"GET /livez HTTP/1.1\r\nHost: k\r\nX: ", true),
        // A client that is idle stays connected.
        (daemon.grpc_address(), &beginning(), false),
    ];
    let closed = cases.map(|(address, said, expected)| async move {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        stream.write_all(said).await.expect("written");
        assert!(!is_closed(&mut stream, Duration::from_secs(5)).await, "{said:?}");
        assert_eq!(is_closed(&mut stream, Duration::from_secs(10)).await, expected, "{said:?}");
    });
    futures_util::future::join_all(closed).await;
}

#[tokio::test]
async fn err_protocol_floods_end_their_connection() {
    let dir = data_dir();
    let daemon = Daemon::start(&dir.path().join("data"));
    for attack in [Attack::RapidReset, Attack::Continuation] {
        let stream = connect(ATTACKER, daemon.grpc_address()).await.expect("connected");
        let ended = timeout(Duration::from_secs(11), attack.run(stream)).await;
        assert!(ended.is_ok(), "{attack:?}");
    }
}
