//! Every call is refused without a credential, with an invalid one, or with one that lacks the permission.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use kent_proto::v1::{GetRegionRequest, GetStatusRequest, RevokeTokenRequest, WhoAmIRequest};
use prost::Message;
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    metadata::{AsciiMetadataValue, MetadataMap},
};
use tonic_prost::ProstCodec;

use super::{Guarded, Holder, anonymous, make, missing, refusal};
use crate::it::harness::{Daemon, data_dir, http_get, kentd};

/// Every method of every service, including those that are open to all callers.
fn methods() -> Vec<String> {
    let files = [kent_proto::DESCRIPTORS, tonic_health::pb::FILE_DESCRIPTOR_SET]
        .map(|set| prost_types::FileDescriptorSet::decode(set).expect("a descriptor set"));
    let mut methods: BTreeSet<String> = BTreeSet::new();
    for file in files.into_iter().flat_map(|set| set.file) {
        for service in &file.service {
            let method = |method: &prost_types::MethodDescriptorProto| {
                format!("/{}.{}/{}", file.package(), service.name(), method.name())
            };
            methods.extend(service.method.iter().map(method));
        }
    }
    for version in ["v1", "v1alpha"] {
        methods.insert(format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"));
    }
    methods.into_iter().collect()
}

/// Calls a method with an empty request, and returns how it ends.
async fn call(daemon: &Daemon, method: &str, metadata: MetadataMap) -> Result<(), Status> {
    let mut grpc = Grpc::new(daemon.channel());
    grpc.ready().await.expect("connected");
    let mut request = Request::new(tokio_stream::once(()));
    *request.metadata_mut() = metadata;
    let path: PathAndQuery = method.parse().expect("a path");
    // A bidirectional call works for every method: a unary call is a stream with one message.
    let answers = grpc.streaming(request, path, ProstCodec::<(), ()>::default()).await?;
    // Health watches never end.
    let first = tokio::time::timeout(std::time::Duration::from_millis(300), answers.into_inner().message()).await;
    first.map_or(Ok(()), |first| first.map(drop))
}

fn header(name: &'static str, value: &str) -> MetadataMap {
    let mut metadata = MetadataMap::new();
    metadata.insert(name, value.parse::<AsciiMetadataValue>().expect("ASCII"));
    metadata
}

#[tokio::test]
async fn err_no_method_answers_a_caller_without_a_credential() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let good = &guarded.admin.secret;
    let (id, secret) = (&good[5..17], &good[18..]);
    let flipped = if secret.starts_with('0') { '1' } else { '0' };
    let cases = [
        ("no credential", MetadataMap::new(), "NO_CREDENTIAL"),
        ("another header", header("kent-token", &format!("Bearer {good}")), "NO_CREDENTIAL"),
        ("another header", header("kent-principal", good), "NO_CREDENTIAL"),
        ("another scheme", header("authorization", &format!("Basic {good}")), "BAD_CREDENTIAL"),
        ("no scheme", header("authorization", good), "BAD_CREDENTIAL"),
        ("malformed", header("authorization", "Bearer kent_x"), "BAD_CREDENTIAL"),
        ("unknown", header("authorization", &format!("Bearer kent_ffffffffffff_{secret}")), "BAD_CREDENTIAL"),
        ("wrong", header("authorization", &format!("Bearer kent_{id}_{flipped}{}", &secret[1..])), "BAD_CREDENTIAL"),
    ];
    let methods = methods();
    assert!(methods.len() > 40, "{methods:?}");
    for method in &methods {
        let is_open = method.starts_with("/grpc.health.v1.Health/");
        for (what, metadata, reason) in &cases {
            let answer = call(&guarded.daemon, method, metadata.clone()).await;
            match is_open {
                true => assert!(answer.is_ok(), "{method} {what}"),
                false => assert_eq!(refusal(answer), (Code::Unauthenticated, (*reason).to_owned()), "{method} {what}"),
            }
        }
    }
    let texts = [&cases[5], &cases[6], &cases[7]].map(|(_, metadata, _)| metadata.clone());
    let mut answers = BTreeSet::new();
    for metadata in texts {
        let refused = call(&guarded.daemon, "/kent.v1.Access/WhoAmI", metadata).await.expect_err("refused");
        answers.insert(refused.message().to_owned());
    }
    assert_eq!(answers.len(), 1, "the answers differ: {answers:?}");
}

#[tokio::test]
async fn err_a_token_without_rights_gets_nothing_from_any_method() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    guarded.role("empty", &[], &[]).await;
    let powerless = guarded.token(&["allocate:serial:NOTHING"]).await;
    for method in methods() {
        let answer = call(&guarded.daemon, &method, powerless.send(()).metadata().clone()).await;
        // These methods return only facts about the caller or the API, facts that every client needs, or lists of what
        // the caller may read.
        let open = [
            "/grpc.",
            "/kent.v1.Access/WhoAmI",
            "/kent.v1.Admin/GetStatus",
            "/kent.v1.Regions/ListSpaces",
            "/kent.v1.Layouts/ListLayouts",
        ];
        let is_open = open.iter().any(|open| method.starts_with(open));
        // An empty stream may be answered, and an empty request may be refused as invalid before the permission check.
        let is_stream = method == "/kent.v1.Allocator/AllocateStream";
        match answer {
            Ok(()) => assert!(is_open || is_stream, "{method}"),
            Err(status) => assert!(
                is_open || matches!(status.code(), Code::PermissionDenied | Code::InvalidArgument),
                "{method}: {status}"
            ),
        }
    }
    let status = guarded.daemon.admin().get_status(powerless.send(GetStatusRequest {})).await.expect("answered");
    let status = status.into_inner();
    assert!(status.limits.is_some() && status.store.is_none() && status.slots.is_empty() && status.clock.is_none());
}

#[tokio::test]
async fn err_a_caller_cannot_tell_whether_a_region_exists() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    guarded.create(&guarded.admin, "secret").await.expect("created");
    guarded.create(&guarded.admin, "team-a-1").await.expect("created");
    let other = guarded.token(&["admin:region:default/team-a-*", "allocate:uuidv7"]).await;
    // In every kind of request, the refusals for an existing region and for an absent one differ only in the name.
    let mut answers = Vec::new();
    for region in ["secret", "absent"] {
        let source = format!("region:{region}");
        let mut texts = Vec::new();
        let mut said = |status: Status| {
            assert_eq!(status.code(), Code::PermissionDenied, "{status}");
            texts.push(status.message().replace(region, "NAME"));
        };
        said(guarded.pack(&other, &source).await.expect_err("refused"));
        let many = kent_proto::v1::AllocateRequest { count: 1_000_000_000, ..super::packed(&source) };
        said(guarded.daemon.allocator().allocate(other.send(many)).await.expect_err("refused"));
        let again = kent_proto::v1::AllocateRequest { request_id: "a".to_owned(), ..super::packed(&source) };
        said(guarded.daemon.allocator().allocate(other.send(again)).await.expect_err("refused"));
        let get = GetRegionRequest { name: super::region(region), ..GetRegionRequest::default() };
        said(guarded.daemon.regions().get_region(other.send(get)).await.expect_err("refused"));
        said(guarded.create(&other, region).await.expect_err("refused"));
        let rename = kent_proto::v1::RenameRegionRequest {
            name: super::region(region),
            region_id: "team-a-2".to_owned(),
            ..Default::default()
        };
        said(guarded.daemon.regions().rename_region(other.send(rename)).await.expect_err("refused"));
        let rename = kent_proto::v1::RenameRegionRequest {
            name: super::region("team-a-1"),
            region_id: region.to_owned(),
            ..Default::default()
        };
        said(guarded.daemon.regions().rename_region(other.send(rename)).await.expect_err("refused"));
        let undo = kent_proto::v1::UndoEditRequest { name: super::region(region), ..Default::default() };
        said(guarded.daemon.regions().undo_edit(other.send(undo)).await.expect_err("refused"));
        let permission = format!("allocate:region:default/{region}");
        said(make(&mut guarded.access(), &other, &[&permission], 0).await.expect_err("refused"));
        answers.push(texts);
    }
    assert_eq!(answers[0], answers[1]);
    // The same holds for a space.
    let parents = ["spaces/shop", "spaces/absent"].map(str::to_owned);
    let space = kent_proto::v1::CreateSpaceRequest { space_id: "shop".to_owned(), bits: 32, ..Default::default() };
    guarded.daemon.regions().create_space(guarded.admin.send(space)).await.expect("created");
    for parent in parents {
        let list = kent_proto::v1::ListRegionsRequest { parent: parent.clone(), ..Default::default() };
        missing(guarded.daemon.regions().list_regions(other.send(list)).await);
        let get = kent_proto::v1::GetSpaceRequest { name: parent };
        missing(guarded.daemon.regions().get_space(other.send(get)).await);
    }
}

#[tokio::test]
async fn err_the_http_port_requires_a_token_with_http_auth() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let (admin, weak) = (guarded.admin.secret.clone(), guarded.token(&["allocate:*"]).await.secret);
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(guarded.daemon.get(path).0, 200, "{path} is open by default");
    }
    guarded.daemon.kill();
    let mut command = kentd(dir.path());
    let daemon = Daemon::spawn(command.args(["--auth", "required", "--http-auth", "required"]));
    let get = |path: &str, token: &str| {
        let accept = format!("*/*\r\nAuthorization: Bearer {token}");
        http_get(daemon.http_address(), path, &accept).expect("answered").0
    };
    assert_eq!(daemon.get("/livez").0, 200);
    for path in ["/readyz", "/metrics"] {
        assert_eq!(daemon.get(path).0, 401);
        assert_eq!([get(path, "kent_x"), get(path, &weak), get(path, &admin)], [401, 403, 200], "{path}");
    }
}

#[tokio::test]
async fn err_an_unknown_caller_is_refused_before_its_message_arrives() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let token = guarded.token(&["allocate:*"]).await.secret;
    let whole = r#"{"source":"uuidv7","count":"2","encoding":"ENCODING_TEXT"}"#;
    // Returns the first line of the answer to a request that announces the whole body.
    let ask = |method: &str, token: &str, body: &str| {
        let mut stream = TcpStream::connect(guarded.daemon.http_address()).expect("connected");
        let head = format!("POST /kent.v1.{method} HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer {token}\r\n");
        let rest = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", whole.len());
        stream.write_all(format!("{head}{rest}").as_bytes()).expect("sent");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("answered");
        line
    };
    for method in ["Allocator/Allocate", "Regions/ListRegions"] {
        for body in ["", "{"] {
            assert_eq!(ask(method, "kent_x", body), "HTTP/1.1 401 Unauthorized\r\n", "{method} {body:?}");
        }
    }
    assert_eq!(ask("Allocator/Allocate", &token, whole), "HTTP/1.1 200 OK\r\n");
    // The service refuses a whole message, and counts its source.
    assert_eq!(ask("Allocator/Allocate", "kent_x", whole), "HTTP/1.1 401 Unauthorized\r\n");
    let (_, metrics) = guarded.daemon.get("/metrics");
    for refused in [
        "kent_call_duration_seconds_count{port=\"http\",method=\"kent.v1.Regions/ListRegions\",code=\"UNAUTHENTICATED\"} 2",
        "kent_errors_total{source=\"uuidv7\",code=\"UNAUTHENTICATED\"} 1",
    ] {
        assert!(metrics.lines().any(|line| line == refused), "{refused} {metrics}");
    }
}

#[tokio::test]
async fn ok_without_auth_anyone_may_do_everything() {
    let dir = data_dir();
    let daemon = Daemon::start(dir.path());
    let mut access = kent_proto::v1::access_client::AccessClient::new(daemon.channel());
    let token = make(&mut access, &anonymous(), &["allocate:uuidv7"], 0).await.expect("made");
    let stranger = Holder { secret: "kent_x".to_owned(), id: String::new() };
    for caller in [anonymous(), token.clone(), stranger] {
        let who = access.who_am_i(caller.send(WhoAmIRequest {})).await.expect("answered").into_inner();
        assert_eq!(
            (who.name.as_str(), who.permissions, who.auth_required),
            ("anyone", vec!["admin:*".to_owned()], false)
        );
    }
    access.revoke_token(anonymous().send(RevokeTokenRequest { id: token.id })).await.expect("revoked");
}
