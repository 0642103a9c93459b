//! Mutations of valid requests against the ports of a real daemon: no panic, no internal error, no hang, bounded
//! memory, and the daemon continues to serve.

use std::{
    fs::{self, File},
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::body::{Body, HttpBody};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use kent_fuzz::mutate;
use kent_proto::v1::Encoding;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};
use tonic::codegen::http::{HeaderMap, Request};

use super::{
    flood::memory,
    harness::{Daemon, create, data_dir, kentd_in_memory, request},
};

/// What is mutated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surface {
    /// Connect's JSON on the HTTP port.
    Json,
    /// Connect's Protobuf on the HTTP port.
    Proto,
    /// The frames of gRPC-Web on the HTTP port.
    Web,
    /// The frames of gRPC on the gRPC port.
    Grpc,
    /// Whole requests of HTTP/1.1, with their heads.
    Head,
    /// Whole connections of HTTP/2 on the gRPC port.
    Connection,
}

const SURFACES: [Surface; 6] =
    [Surface::Json, Surface::Proto, Surface::Web, Surface::Grpc, Surface::Head, Surface::Connection];

/// The requests that are mutated.
fn seeds() -> [(&'static str, Value); 12] {
    let (space, region) = ("spaces/default", "spaces/default/regions/orders");
    [
        ("Allocator/Allocate", json!({"source": "uuidv7", "count": "100", "encoding": "ENCODING_TEXT"})),
        (
            "Allocator/Allocate",
            json!({"source": "region:orders@default", "count": "3", "requestId": "a", "needed": "9"}),
        ),
        (
            "Codec/Inspect",
            json!({"texts": ["017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "5Jxqwr73FDS"], "format": "uuidv7"}),
        ),
        ("Codec/Encode", json!({"items": [{"format": "uuidv7", "fields": {"unix_ms": "1", "rand_a": "2"}}]})),
        ("Regions/Classify", json!({"parent": space, "identifiers": ["1", "340282366920938463463374607431768211455"]})),
        ("Regions/CreateRegion", json!({"parent": space, "regionId": "a", "suffixBits": 8, "policy": {"cap": "7"}})),
        ("Regions/ExpandRegion", json!({"name": region, "byBits": 1, "reason": "more", "validateOnly": true})),
        ("Regions/UpdateRegion", json!({"name": region, "policy": {"cap": "70"}, "policyMask": "cap", "next": "5"})),
        ("Regions/ListRegions", json!({"parent": space, "pageSize": 10, "pageToken": ""})),
        ("Regions/ListHistory", json!({"parent": space, "pageSize": 1000})),
        ("Access/PutRole", json!({"role": {"id": "clerk", "permissions": ["allocate:region:default/orders"]}})),
        ("Admin/Diagnose", json!({})),
    ]
}

/// A request, encoded for a surface.
struct Seed {
    path: String,
    bytes: Vec<u8>,
}

fn seeds_of(surface: Surface, host: &str) -> Vec<Seed> {
    let pool = DescriptorPool::decode(kent_proto::DESCRIPTORS).expect("valid");
    let methods: Vec<MethodDescriptor> =
        pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    let seeds = seeds().into_iter().map(|(name, json)| {
        let path = format!("/kent.v1.{name}");
        let (text, is_method) = (json.to_string(), |method: &&MethodDescriptor| {
            path == format!("/{}/{}", method.parent_service().full_name(), method.name())
        });
        let input = methods.iter().find(is_method).expect("a method").input();
        // `DynamicMessage` rejects Kent's JSON form of 128-bit numbers, so requests with such numbers become empty
        // messages. On the JSON surface, these requests are mutated in full.
        let message = DynamicMessage::deserialize_with_options(
            input.clone(),
            &json,
            &prost_reflect::DeserializeOptions::new().deny_unknown_fields(false),
        );
        let message = message.unwrap_or_else(|_| DynamicMessage::new(input)).encode_to_vec();
        let length = u32::try_from(message.len()).expect("small").to_be_bytes();
        let framed = [&[0], &length[..], &message].concat();
        let bytes = match surface {
            Surface::Json => text.into_bytes(),
            Surface::Proto => message,
            Surface::Web | Surface::Grpc => framed,
            Surface::Head => format!(
                "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\nkent-principal: ann\r\n\
                 connect-timeout-ms: 2000\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            )
            .into_bytes(),
            Surface::Connection => connection(&path, &framed),
        };
        Seed { path, bytes }
    });
    let mut seeds: Vec<Seed> = seeds.collect();
    if surface == Surface::Head {
        for line in
            ["POST /v1/alloc/region:orders@default?n=3", "GET /v1/inspect/%35?format=uuidv7", "GET /v1/classify/7"]
        {
            let head =
                format!("{line} HTTP/1.1\r\nhost: {host}\r\naccept: application/json\r\nconnection: close\r\n\r\n");
            seeds.push(Seed { path: String::new(), bytes: head.into_bytes() });
        }
    }
    seeds
}

/// A connection of HTTP/2 with one call.
fn connection(path: &str, framed: &[u8]) -> Vec<u8> {
    use super::flood::{DATA, END_HEADERS, HEADERS, beginning, frame, header};
    const END_STREAM: u8 = 1;
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "kent"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("grpc-timeout", "2S"),
    ];
    let headers: Vec<u8> = headers.iter().flat_map(|(name, value)| header(name, value)).collect();
    let headers = frame(HEADERS, END_HEADERS, 1, &headers);
    [beginning(), headers, frame(DATA, END_STREAM, 1, framed)].concat()
}

/// The time after which a call counts as hanging. The timeout of the call itself is 2 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time to wait for an answer to bytes that may be an incomplete request.
const WAIT: Duration = Duration::from_millis(50);

/// The beginnings of tonic's messages about invalid frames, for which the gRPC specification demands INTERNAL.
const FRAMING: [&str; 3] = ["protocol%20error", "Unexpected%20EOF%20decoding", "Missing%20request%20message"];

/// Sends bytes to a surface. Returns the problem with the answer, if any.
async fn send(
    surface: Surface,
    daemon: &Daemon,
    client: &Client<HttpConnector, Body>,
    path: &str,
    bytes: Vec<u8>,
) -> Option<String> {
    let (address, kind) = match surface {
        Surface::Json => (daemon.http_address(), "application/json"),
        Surface::Proto => (daemon.http_address(), "application/proto"),
        Surface::Web => (daemon.http_address(), "application/grpc-web+proto"),
        Surface::Grpc => (daemon.grpc_address(), "application/grpc"),
        Surface::Head => return raw(daemon.http_address(), &bytes).await,
        Surface::Connection => return raw(daemon.grpc_address(), &bytes).await,
    };
    let request = Request::post(format!("http://{address}{path}"))
        .header("content-type", kind)
        .header("te", "trailers")
        .header("grpc-timeout", "2S")
        .header("connect-timeout-ms", "2000")
        .body(Body::from(bytes))
        .expect("a request");
    let response = match client.request(request).await {
        Ok(response) => response,
        Err(error) => return Some(format!("no answer: {error:?}")),
    };
    let (head, mut body) = response.into_parts();
    let (mut said, mut trailers) = (Vec::new(), HeaderMap::new());
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        match frame.map(|frame| frame.into_data().map_err(|frame| frame.into_trailers())) {
            Ok(Ok(data)) => said.extend(data),
            Ok(Err(more)) => trailers.extend(more.unwrap_or_default()),
            Err(error) => return Some(format!("the answer is cut off: {error}")),
        }
    }
    let code = head.headers.get("grpc-status").or(trailers.get("grpc-status"));
    let web =
        String::from_utf8_lossy(&said).lines().find_map(|line| line.strip_prefix("grpc-status:")?.trim().parse().ok());
    let code: Option<u16> = code.and_then(|code| code.to_str().ok()?.parse().ok()).or(web);
    let message = head.headers.get("grpc-message").map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned());
    let message = message.unwrap_or_default();
    let is_bad = match code {
        // INTERNAL.
        Some(13) => !FRAMING.iter().any(|start| message.starts_with(start)),
        // UNKNOWN and DATA_LOSS.
        Some(code) => [2, 15].contains(&code),
        None => head.status.as_u16() == 500,
    };
    is_bad.then(|| format!("{} {code:?} {message} {}", head.status, String::from_utf8_lossy(&said)))
}

/// Sends bytes on a new connection.
async fn raw(address: &str, bytes: &[u8]) -> Option<String> {
    let talked = async {
        let mut stream = TcpStream::connect(address).await?;
        // OK because the daemon may close the connection first.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = timeout(WAIT, stream.read_to_end(&mut answer)).await;
        Ok::<_, io::Error>(answer)
    };
    match talked.await {
        Ok(answer) if answer.starts_with(b"HTTP/1.1 500") => Some(String::from_utf8_lossy(&answer).into_owned()),
        Ok(_) => None,
        Err(error) => Some(format!("no connection: {error}")),
    }
}

/// Reads the clock, which only decides when a long run ends.
#[expect(clippy::disallowed_methods, reason = "a test outside the daemon")]
fn now() -> Instant {
    Instant::now()
}

/// The time at which to stop.
#[derive(Clone, Copy)]
enum Until {
    Cases(u64),
    Elapsed(Duration),
}

/// The number of concurrent callers, and the maximum growth of the daemon's memory, in bytes.
const CALLERS: u64 = 4;
const GROWTH_MAX: u64 = 256 << 20;

/// Mutates the requests of a surface. Returns the number of executions.
async fn fuzz(surface: Surface, until: Until, seed: u64) -> u64 {
    let dir = data_dir();
    let log = dir.path().join("log");
    let daemon = Arc::new(Daemon::spawn(kentd_in_memory().stderr(File::create(&log).expect("made"))));
    daemon.regions().create_region(create("orders")).await.expect("created");
    let seeds = Arc::new(seeds_of(surface, daemon.http_address()));
    let before = memory(&daemon, "VmRSS");
    let began = now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (daemon, seeds, mut rng) = (daemon.clone(), seeds.clone(), StdRng::seed_from_u64(seed + caller));
        let (is_http2, mut connector) = (surface == Surface::Grpc, HttpConnector::new());
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).http2_only(is_http2).build::<_, Body>(connector);
        callers.spawn(async move {
            let mut cases = 0;
            while match until {
                Until::Cases(most) => cases < most / CALLERS,
                Until::Elapsed(most) => began.elapsed() < most,
            } {
                let (one, other) = (&seeds[rng.random_range(0..seeds.len())], &seeds[rng.random_range(0..seeds.len())]);
                let bytes = mutate(&one.bytes, &other.bytes, &mut rng);
                let shown = String::from_utf8_lossy(&bytes).into_owned();
                let wrong = timeout(PATIENCE, send(surface, &daemon, &client, &one.path, bytes)).await;
                let wrong = wrong.unwrap_or_else(|_| Some("the call hangs".to_owned()));
                assert!(wrong.is_none(), "{surface:?} {}: {shown:?}: {}", one.path, wrong.unwrap_or_default());
                cases += 1;
            }
            cases
        });
    }
    let cases = callers.join_all().await.into_iter().sum();
    let grown = memory(&daemon, "VmRSS").saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{surface:?}: the daemon has grown by {grown} bytes");
    daemon.allocator().allocate(request("uuidv7", 1, Encoding::Lease)).await.expect("the daemon serves");
    assert_eq!(daemon.get("/livez").0, 200);
    let log = fs::read_to_string(log).expect("read");
    assert!(!log.contains("panicked") && !log.contains(" ERROR "), "{surface:?}: {log}");
    cases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ok_mutated_requests_are_answered_or_refused() {
    for surface in SURFACES {
        assert_eq!(fuzz(surface, Until::Cases(600), 1).await, 600);
    }
}

/// Runs for five minutes per surface, with different mutations each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long"]
async fn ok_mutated_requests_for_minutes() {
    let seconds = std::env::var("KENT_FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(300);
    for surface in SURFACES {
        let seed: u64 = rand::rng().random();
        println!("{surface:?}, seed {seed}");
        let cases = fuzz(surface, Until::Elapsed(Duration::from_secs(seconds)), seed >> 8).await;
        println!("{surface:?}: {cases} executions");
    }
}
