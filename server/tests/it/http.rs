//! The API on the HTTP port: JSON, gRPC-Web, short paths, credentials, and cross-origin requests.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
};

use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use kent_proto::v1::{
    CreateSpaceRequest, Encoding, ListHistoryRequest, WatchTableRequest, allocator_client::AllocatorClient,
    regions_client::RegionsClient,
};
use prost::Message;
use prost_types::FileDescriptorSet;
use serde_json::{Value, json};
use tonic::Code;
use tonic_web::GrpcWebClientLayer;
use tower::ServiceBuilder;

use super::{
    auth::Guarded,
    harness::{Daemon, create, data_dir, identifiers, name, request},
};

/// An answer of the HTTP port.
pub(crate) struct Answer {
    pub(crate) code: u16,
    /// The head in lower case.
    pub(crate) head: String,
    /// The head as it was sent.
    pub(crate) raw: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Sends a request, with these headers.
pub(crate) fn send(daemon: &Daemon, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
    let mut stream = TcpStream::connect(daemon.http_address()).expect("connected");
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    if !headers.iter().any(|header| header.starts_with("host:")) {
        head += &format!("host: {}\r\n", daemon.http_address());
    }
    for header in headers {
        head += &format!("{header}\r\n");
    }
    // OK because a daemon may answer before it has read everything.
    let _ = write!(stream, "{head}\r\n{body}");
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let reply = String::from_utf8_lossy(&reply).into_owned();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {reply:?}"));
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
    Answer { code, head: head.to_ascii_lowercase(), raw: head.to_owned(), body: body.to_owned() }
}

pub(crate) const JSON: &str = "content-type: application/json";

fn call(daemon: &Daemon, method: &str, message: &Value) -> Answer {
    send(daemon, "POST", &format!("/kent.v1.{method}"), &[JSON], &message.to_string())
}

#[tokio::test]
async fn ok_identifiers_by_json_by_paths_and_by_grpc_are_distinct() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    daemon.regions().create_region(create("orders")).await.expect("created");
    let mut seen: Vec<u128> = Vec::new();
    for _ in 0..3 {
        let json = call(&daemon, "Allocator/Allocate", &json!({"source": "region:orders", "count": 5, "encoding": 3}));
        let ids = json.json()["text"]["ids"].clone();
        seen.extend(
            ids.as_array()
                .expect("a list")
                .iter()
                .map(|id| id.as_str().expect("text").parse::<u128>().expect("a number")),
        );
        let lines = send(&daemon, "POST", "/v1/alloc/region:orders@default?n=5", &[], "");
        assert_eq!(lines.code, 200);
        seen.extend(lines.body.lines().map(|line| line.parse::<u128>().expect("a number")));
        let reply = daemon.allocator().allocate(request("region:orders", 5, Encoding::Packed)).await.expect("granted");
        seen.extend(identifiers(reply.get_ref()));
    }
    assert_eq!(seen, (0..45).map(|suffix| seen[0] + suffix).collect::<Vec<_>>());
    let metrics = daemon.get("/metrics").1;
    assert!(metrics.contains("kent_identifiers_total{source=\"region:orders\"} 45"), "{metrics}");
}

#[tokio::test]
async fn ok_every_unary_method_has_a_path_and_every_refusal_is_that_of_grpc() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let descriptors = FileDescriptorSet::decode(kent_proto::DESCRIPTORS).expect("valid");
    let mut unary = 0;
    for file in descriptors.file.iter().filter(|file| file.package() == "kent.v1") {
        for service in &file.service {
            for method in &service.method {
                let answer = call(&daemon, &format!("{}/{}", service.name(), method.name()), &json!({}));
                let (json, name) = (answer.json(), method.name());
                if method.client_streaming() || method.server_streaming() {
                    assert_eq!((answer.code, json["code"].as_str()), (501, Some("unimplemented")), "{name}");
                } else {
                    unary += 1;
                    // An empty message lacks required fields of most methods.
                    let is_served = json["details"][0]["debug"]["reason"] != "NO_SUCH_PATH";
                    assert!(is_served && ![500, 501].contains(&answer.code), "{name}: {} {json}", answer.code);
                }
            }
        }
    }
    assert!(unary > 30, "{unary} methods");
}

#[test]
fn ok_errors_have_the_forms_of_connect_and_of_aip_193() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let missing = call(&daemon, "Allocator/Allocate", &json!({"source": "region:nosuch", "count": 1}));
    let json = missing.json();
    assert_eq!((missing.code, &json["code"]), (404, &json!("not_found")));
    assert_eq!(json["details"][0]["debug"], json!({"domain": "kent", "reason": "NO_SUCH_REGION"}));
    let path = "/v1/alloc/region:nosuch";
    let aip = send(&daemon, "POST", path, &["accept: application/json"], "").json();
    assert_eq!((&aip["error"]["code"], &aip["error"]["status"]), (&json!(404), &json!("NOT_FOUND")));
    assert_eq!(aip["error"]["details"][0]["reason"], "NO_SUCH_REGION");
    let text = send(&daemon, "POST", path, &["accept: */*"], "");
    assert_eq!((text.code, text.body), (404, format!("{}\n", aip["error"]["message"].as_str().expect("text"))));
}

#[test]
fn err_bad_requests_say_what_is_allowed() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let allocate = "/kent.v1.Allocator/Allocate";
    let deep = "[".repeat(10_000);
    let large = format!("{{\"source\": \"{}\"}}", "x".repeat(2 << 20));
    for (method, path, headers, body, code, expected) in [
        ("POST", allocate, &[JSON][..], "{", 400, "the text ends within an object"),
        ("POST", allocate, &[JSON], "{} {}", 400, "trailing characters"),
        ("POST", allocate, &[JSON], "{\"sorce\": \"x\"}", 400, "there is no field \\\"sorce\\\": did you mean"),
        ("POST", allocate, &[JSON], "{\"count\": -1}", 400, "count: must be a whole number from 0 to 2^64 - 1"),
        ("POST", allocate, &[JSON], "{\"count\": 1e300}", 400, "count: must be a whole number from 0 to 2^64 - 1"),
        ("POST", allocate, &[JSON], &deep, 400, "the body is not a valid request"),
        ("POST", allocate, &[JSON], &large, 400, "more than 1_048_576 bytes"),
        ("POST", allocate, &[JSON, "content-encoding: gzip"], "{}", 501, "without content-encoding"),
        ("POST", allocate, &[JSON, "connect-timeout-ms: soon"], "{}", 400, "such as 2000"),
        ("POST", allocate, &[JSON, "connect-protocol-version: 2"], "{}", 400, "must be 1"),
        ("POST", allocate, &["content-type: application/proto"], "\n\u{7f}", 400, "is not valid Protobuf"),
        ("POST", allocate, &[], "{}", 415, "content-type: application/json"),
        ("GET", allocate, &[], "", 405, "with POST"),
        ("POST", "/kent.v1.Allocator/Alocate", &[JSON], "{}", 404, "there is nothing at /kent.v1.Allocator/Alocate"),
        (
            "POST",
            "/kent.v1.Regions/Classify",
            &[JSON],
            "{\"identifiers\": [\"x\"]}",
            400,
            "identifiers: expected a whole number",
        ),
        ("GET", "/v1/alloc/uuidv7?n=3", &[], "", 405, "curl -X POST 'http://127.0.0.1:"),
        ("POST", "/v1/alloc/uuidv7?n=3k", &[], "", 400, "such as n=3"),
        ("POST", "/v1/alloc/uuidv7?n=10001", &[], "", 400, "from 1 to 10000, such as n=3"),
        (
            "POST",
            "/v1/alloc/uuidv7?n=3&n=4",
            &[],
            "",
            400,
            "duplicate field `n`; this path takes n, request_id and tag, such as ?n=3",
        ),
        (
            "POST",
            "/v1/alloc/uuidv7?count=3",
            &[],
            "",
            400,
            "no parameter \"count\"; this path takes n, request_id and tag, such as ?n=3",
        ),
        (
            "GET",
            "/v1/alloc/uuidv7?count=3",
            &[],
            "",
            400,
            "no parameter \"count\"; this path takes n, request_id and tag",
        ),
        ("POST", "/v1/alloc/uuid7", &[], "", 400, "uuidv7"),
        ("GET", "/v1/inspect/nonsense", &[], "", 400, "is not a UUID"),
        ("GET", "/v1/nosuch", &[], "", 404, "there is nothing at /v1/nosuch"),
    ] {
        let answer = send(&daemon, method, path, headers, body);
        let what = format!("{method} {path} {headers:?} {}: {}", body.get(..40).unwrap_or(body), answer.body);
        assert_eq!(answer.code, code, "{what}");
        assert!(answer.body.contains(expected), "{what}");
    }
}

#[tokio::test]
async fn ok_classify_answers_like_the_command() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    daemon.regions().create_region(create("orders")).await.expect("created");
    let wide = CreateSpaceRequest { space_id: "wide".to_owned(), bits: 128, ..CreateSpaceRequest::default() };
    daemon.regions().create_space(wide).await.expect("created");
    let grant = daemon.allocator().allocate(request("region:orders", 1, Encoding::Packed)).await.expect("granted");
    let id = identifiers(grant.get_ref())[0];
    let get = |path: &str, accept: &str| send(&daemon, "GET", &format!("/v1/classify/{path}"), &[accept], "");
    let text = "accept: text/plain";
    let member = get(&id.to_string(), text);
    let shown = format!("identifier  {id}\nstatus      member\npath        orders\nsuffix      0\nissued      yes\n");
    assert_eq!((member.code, member.body), (200, shown));
    let json = get(&format!("{id:#x}?space=default"), "accept: application/json").json();
    assert_eq!((&json["identifier"], &json["path"]), (&json!(id.to_string()), &json!([name("orders")])));
    let uuid = "00000000-0000-0000-0000-000000000005";
    let free = get(&format!("{uuid}?space=wide"), text);
    assert_eq!((free.code, &*free.body), (200, &*format!("identifier  {uuid}\nstatus      free\npath        -\n")));
    for (path, code, expected) in [
        (uuid, 400, "a UUID has 128 bits, but an identifier of space default has 64 bits"),
        ("x", 400, "is not a valid identifier"),
        ("18446744073709551616", 400, "more than the 64 bits of space"),
        ("7?space=nosuch", 404, "nosuch"),
        ("7?region=orders", 400, "this path takes space"),
    ] {
        let refused = get(path, text);
        assert_eq!(refused.code, code, "{path}: {}", refused.body);
        assert!(refused.body.contains(expected), "{path}: {}", refused.body);
    }
}

#[tokio::test]
async fn ok_callers_need_the_same_permissions_as_by_grpc() {
    let data = data_dir();
    let guarded = Guarded::start(data.path()).await;
    guarded.create(&guarded.admin, "orders").await.expect("created");
    guarded.create(&guarded.admin, "invoices").await.expect("created");
    let shop = guarded.token(&["allocate:region:default/orders"]).await;
    let bearer = format!("authorization: Bearer {}", shop.secret);
    let take =
        |headers: &[&str], source: &str| send(&guarded.daemon, "POST", &format!("/v1/alloc/{source}"), headers, "");
    assert_eq!(take(&[&bearer], "region:orders").code, 200);
    assert_eq!(take(&[&bearer], "region:invoices").code, 403);
    assert_eq!(take(&[&bearer], "region:nosuch").code, 403);
    let anonymous = take(&[], "region:orders");
    assert_eq!(anonymous.code, 401);
    assert!(anonymous.head.contains("www-authenticate: bearer"), "{}", anonymous.head);
    let lease = send(
        &guarded.daemon,
        "POST",
        "/kent.v1.Allocator/Allocate",
        &[JSON, &bearer],
        "{\"source\": \"region:orders\", \"count\": 1}",
    );
    assert_eq!((lease.code, lease.json()["code"].as_str()), (403, Some("permission_denied")));
    let classify = |headers: &[&str]| send(&guarded.daemon, "GET", "/v1/classify/7", headers, "").code;
    let admin = format!("authorization: Bearer {}", guarded.admin.secret);
    assert_eq!([classify(&[]), classify(&[&bearer]), classify(&[&admin])], [401, 403, 200]);
}

#[tokio::test]
async fn ok_an_edit_is_in_the_history_with_its_author_and_its_host() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let create = json!({"parent": "spaces/default", "regionId": "orders", "suffixBits": 20});
    let headers = [JSON, "kent-principal: ann"];
    let made = send(&daemon, "POST", "/kent.v1.Regions/CreateRegion", &headers, &create.to_string());
    assert_eq!(made.code, 200, "{}", made.body);
    let list = ListHistoryRequest { parent: "spaces/default".to_owned(), ..ListHistoryRequest::default() };
    let history = daemon.regions().list_history(list).await.expect("answered").into_inner();
    assert_eq!(history.entries[0].principal, "ann from 127.0.0.1");
}

#[test]
fn ok_pages_of_other_origins_are_refused_unless_listed() {
    let data = data_dir();
    let listed = "https://ops.example";
    let mut command = super::harness::kentd(data.path());
    let daemon = Daemon::spawn(command.args(["--http-origins", listed]));
    let own = daemon.http_address().to_owned();
    let post = |origin: &str, host: &str| {
        send(&daemon, "POST", "/v1/alloc/uuidv7", &[&format!("origin: {origin}"), &format!("host: {host}")], "")
    };
    assert_eq!(post("https://evil.example", &own).code, 403);
    // A host name of another site can resolve to this machine (DNS rebinding).
    assert_eq!(post("http://evil.example", "evil.example").code, 403);
    assert_eq!(post(&format!("http://{own}"), &own).code, 200);
    let allowed = post(listed, &own);
    assert_eq!(allowed.code, 200);
    assert!(allowed.head.contains("access-control-allow-origin: https://ops.example"), "{}", allowed.head);
    let ask = |origin: &str| {
        let origin = format!("origin: {origin}");
        let headers =
            [&*origin, "access-control-request-method: POST", "access-control-request-headers: authorization"];
        send(&daemon, "OPTIONS", "/kent.v1.Allocator/Allocate", &headers, "")
    };
    let preflight = ask(listed);
    assert_eq!(preflight.code, 200);
    assert!(preflight.head.contains("access-control-allow-headers: authorization,"), "{}", preflight.head);
    assert_eq!(ask("https://evil.example").code, 403);
}

#[test]
fn ok_the_http_port_can_serve_monitoring_only() {
    let data = data_dir();
    let mut command = super::harness::kentd(data.path());
    let daemon = Daemon::spawn(command.args(["--http-api", "false"]));
    assert_eq!(send(&daemon, "POST", "/v1/alloc/uuidv7", &[], "").code, 404);
    assert_eq!(daemon.get("/").0, 404);
    assert_eq!(daemon.get("/livez").0, 200);
}

#[tokio::test]
async fn ok_grpc_web_has_calls_refusals_and_streams() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    daemon.regions().create_region(create("orders")).await.expect("created");
    let http = Client::builder(TokioExecutor::new()).build_http();

    let web = ServiceBuilder::new().layer(GrpcWebClientLayer::new()).service(http);
    let origin: tonic::codegen::http::Uri = format!("http://{}", daemon.http_address()).parse().expect("a URI");
    let mut allocator = AllocatorClient::with_origin(web.clone(), origin.clone());
    let reply = allocator.allocate(request("region:orders", 3, Encoding::Packed)).await.expect("granted");
    assert_eq!(identifiers(reply.get_ref()).len(), 3);
    let refused = allocator.allocate(request("region:nosuch", 1, Encoding::Packed)).await.expect_err("missing");
    assert_eq!(refused.code(), Code::NotFound);
    let watch = WatchTableRequest { parent: "spaces/default".to_owned(), ..WatchTableRequest::default() };
    let mut changes = RegionsClient::with_origin(web, origin).watch_table(watch).await.expect("watched").into_inner();
    let first = changes.message().await.expect("no error").expect("a snapshot");
    daemon.regions().create_region(create("invoices")).await.expect("created");
    let next = changes.message().await.expect("no error").expect("a change");
    assert_ne!(first, next);
}

#[test]
fn err_a_mistake_on_a_short_path_says_what_the_path_takes() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    for (method, path, body, code, part) in [
        ("POST", "/v1/alloc/uuidv7?n=0", "", 400, "n: must be a whole number from 1 to 10000, such as n=3"),
        ("POST", "/v1/alloc/uuidv7?n=10001", "", 400, "n: must be a whole number from 1 to 10000, such as n=3"),
        ("POST", "/v1/alloc/uuidv7?n=-1", "", 400, "n: must be a whole number from 1 to 10000, such as n=3"),
        (
            "POST",
            "/v1/alloc/uuidv7",
            "{\"n\": 3}",
            400,
            "this path takes no body; write n, request_id and tag as query parameters",
        ),
        ("POST", "/v1/inspect/42", "", 405, "decode identifiers with GET: curl 'http://"),
        ("DELETE", "/v1/inspect/42", "", 405, "decode identifiers with GET: curl 'http://"),
    ] {
        let answer = send(&daemon, method, path, &[], body);
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.body);
        assert!(answer.body.contains(part), "{method} {path}: {}", answer.body);
    }
    assert_eq!(send(&daemon, "POST", "/v1/alloc/uuidv7?n=10000", &[], "").body.lines().count(), 10_000);
    assert_eq!(send(&daemon, "HEAD", "/v1/inspect/42", &[], "").code, 200);
}

#[tokio::test]
async fn err_a_caller_of_the_grpc_port_that_does_not_speak_grpc_learns_of_the_http_port() {
    let dir = data_dir();
    let daemon = Daemon::start(&dir.path().join("data"));
    let url = format!("http://{}/v1/alloc/uuidv7", daemon.grpc_address());
    // Without `--http2-prior-knowledge`, curl uses HTTP/1.1.
    let calls = [
        (&["-X", "POST"][..], 400),
        (&["--http2-prior-knowledge"], 415),
        (&["--http2-prior-knowledge", "-X", "POST"], 415),
    ];
    for (options, expected) in calls {
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "20", "-w", "%{http_code}", &url])
            .args(options)
            .output()
            .expect("curl runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(
            said.starts_with("This port speaks gRPC") && said.ends_with(&expected.to_string()),
            "{options:?}: {said}"
        );
        assert!(said.contains("use the HTTP port (kentd --http; "), "{said}");
    }
    daemon.allocator().allocate(request("uuidv7", 1, Encoding::Lease)).await.expect("granted");
}
