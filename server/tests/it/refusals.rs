//! Invalid requests get a status that tells the caller how to correct them, and the daemon stays up.

use bytes::Bytes;
use kent_proto::{
    codec::BytesCodec,
    v1::{
        AddSubregionsRequest, AllocateRequest, ClassifyRequest, CreateRegionRequest, CreateSpaceRequest, Encoding,
        ExpandRegionRequest, GetRegionRequest, InspectRequest, ListRegionsRequest, NewRegion, SplitRegionRequest,
        allocate_stream_response::Outcome,
    },
};
use prost::Message;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::harness::{Daemon, SPACE, create, data_dir, name, request};

/// Checks the code of a status, the field or reason in its details, and the help in its message.
#[track_caller]
fn check(refused: Result<impl Sized, Status>, code: Code, subject: &str, help: &str) {
    let Err(status) = refused else { panic!("{subject} was not refused") };
    assert_eq!(status.code(), code, "{status}");
    let details = status.get_error_details();
    let fields =
        details.bad_request().map(|bad| bad.field_violations.iter().map(|v| v.field.clone()).collect::<Vec<_>>());
    let reason = details.error_info().map(|info| info.reason.clone());
    let named = fields.iter().flatten().chain(&reason).any(|name| name == subject);
    assert!(named, "{subject} is not named by {fields:?} or {reason:?}: {status}");
    assert!(status.message().contains(help), "{:?} does not say {help:?}", status.message());
}

#[tokio::test]
async fn err_allocate() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut client = daemon.allocator();
    let mut ask = async |source: &str, count: u64| client.allocate(request(source, count, Encoding::Lease)).await;
    check(ask("uuidv7", 0).await, Code::InvalidArgument, "count", "at least 1");
    check(ask("uuidv7", 1_000_000_001).await, Code::InvalidArgument, "count", "1_000_000_000");
    check(ask("uuidv6", 20_000_000).await, Code::InvalidArgument, "count", "10_000_001");
    check(ask("uuidv9", 1).await, Code::InvalidArgument, "source", "uuidv7");
    check(ask("", 1).await, Code::InvalidArgument, "source", "uuidv7");
    check(ask("region:", 1).await, Code::InvalidArgument, "source", "name");
    check(ask("region:no\u{7}pe", 1).await, Code::InvalidArgument, "source", "a-z");
    check(ask(&format!("region:{}", "x".repeat(200)), 1).await, Code::InvalidArgument, "source", "63");
    check(ask(&"y".repeat(10_000), 1).await, Code::InvalidArgument, "source", "uuidv7");
    let large = ask(&"y".repeat(500_000), 1).await.expect_err("refused");
    assert!(large.code() == Code::OutOfRange && large.message().contains("the limit is: 16384 bytes"), "{large}");
    check(ask("region:nope", 1).await, Code::NotFound, "NO_SUCH_REGION", "nope");
    check(ask("region:nope@nowhere", 1).await, Code::NotFound, "NO_SUCH_SPACE", "nowhere");
    let packed = client.allocate(request("uuidv7", 200_000, Encoding::Packed)).await;
    check(packed, Code::InvalidArgument, "count", "131_072");
    let strange = AllocateRequest { encoding: 77, ..request("uuidv7", 1, Encoding::Lease) };
    check(client.allocate(strange).await, Code::InvalidArgument, "encoding", "LEASE");
    client.allocate(request("uuidv7", 1, Encoding::Lease)).await.expect("the daemon is up");
}

#[tokio::test]
async fn ok_a_refused_request_does_not_end_a_stream() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let requests = [0, 3, 0, 2].map(|count| request("xid", count, Encoding::Packed));
    let replies = daemon.allocator().allocate_stream(tokio_stream::iter(requests)).await.expect("a stream");
    let mut replies = replies.into_inner();
    let mut seen = Vec::new();
    while let Some(reply) = replies.message().await.expect("no error") {
        seen.push(matches!(reply.outcome, Some(Outcome::Granted(_))));
    }
    assert_eq!(seen, [false, true, false, true]);
}

#[tokio::test]
async fn err_edits() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut client = daemon.regions();
    client.create_region(create("taken")).await.expect("created");
    let mut edit = async |request| client.create_region(request).await;
    let bad = Code::InvalidArgument;
    let without = CreateRegionRequest { suffix_bits: None, ..create("s") };
    check(edit(without).await, bad, "suffix_bits", "such as 40");
    check(edit(create("")).await, bad, "region_id", "1 to 63");
    check(edit(create(&"n".repeat(200))).await, bad, "BAD_NAME", "63");
    check(edit(create("a\u{1}b")).await, bad, "BAD_NAME", "a-z");
    check(edit(create("a/b")).await, bad, "BAD_NAME", "a-z");
    check(edit(create("taken")).await, Code::AlreadyExists, "NAME_TAKEN", "taken");
    let prefix = |text: &str| CreateRegionRequest { prefix: Some(text.to_owned()), ..create("p") };
    check(edit(prefix("10x1")).await, bad, "BAD_PREFIX", "'x'");
    check(edit(prefix(&"1".repeat(65))).await, bad, "prefix", "64");
    let suffix = |bits| CreateRegionRequest { suffix_bits: Some(bits), ..create("s") };
    check(edit(suffix(65)).await, Code::FailedPrecondition, "NO_FREE_PREFIX", "an identifier here has 64");
    check(edit(suffix(u32::MAX)).await, bad, "suffix_bits", "is 4294967295, but must be 0 to 128");
    let both = CreateRegionRequest { zone_bits: Some(3), ..prefix("11") };
    check(edit(both).await, bad, "zone_bits", "prefix");
    let stale = CreateRegionRequest { expected_revision: 99, ..create("late") };
    check(edit(stale).await, Code::Aborted, "STALE_REVISION", "1");
    let elsewhere = CreateRegionRequest { parent: "spaces/nowhere".to_owned(), ..create("x") };
    check(edit(elsewhere).await, Code::NotFound, "NO_SUCH_SPACE", "nowhere");
    let malformed = CreateRegionRequest { parent: "nowhere".to_owned(), ..create("x") };
    check(edit(malformed).await, bad, "parent", "spaces/");
    let next = CreateRegionRequest { next: Some((1u128 << 21).into()), ..create("x") };
    check(edit(next).await, bad, "next", "1_048_576");
}

#[tokio::test]
async fn err_expand_split_and_subdivide() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut client = daemon.regions();
    client.create_region(create("r")).await.expect("created");
    let region = || name("r");
    let expand = |by_bits| ExpandRegionRequest { name: region(), by_bits, ..ExpandRegionRequest::default() };
    check(client.expand_region(expand(9)).await, Code::FailedPrecondition, "ZONE_TOO_SMALL", "8");
    check(client.expand_region(expand(0)).await, Code::InvalidArgument, "by_bits", "at least 1");
    let gone = ExpandRegionRequest { name: name("gone"), by_bits: 1, ..ExpandRegionRequest::default() };
    check(client.expand_region(gone).await, Code::NotFound, "NO_SUCH_REGION", "gone");
    let split =
        |new_regions| SplitRegionRequest { name: region(), by_bits: 1, new_regions, ..SplitRegionRequest::default() };
    let new_region = |extension: &str| NewRegion {
        region_id: "new".to_owned(),
        suffix_bits: Some(4),
        extension: Some(extension.to_owned()),
        ..NewRegion::default()
    };
    check(client.split_region(split(vec![new_region("0")])).await, Code::InvalidArgument, "new_regions", "zero");
    check(client.split_region(split(vec![new_region("10")])).await, Code::InvalidArgument, "new_regions", "1 bit");
    let many = (0..200).map(|_| new_region("1")).collect();
    check(client.split_region(split(many)).await, Code::InvalidArgument, "new_regions", "56");
    let none = AddSubregionsRequest { name: region(), by_bits: 1, ..AddSubregionsRequest::default() };
    check(client.add_subregions(none).await, Code::InvalidArgument, "new_regions", "at least one");
    let get = GetRegionRequest { name: "regions/r".to_owned(), ..GetRegionRequest::default() };
    check(client.get_region(get).await, Code::InvalidArgument, "name", "spaces/");
}

#[tokio::test]
async fn err_spaces_lists_and_queries() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut client = daemon.regions();
    let space =
        |space: &str, bits| CreateSpaceRequest { space_id: space.to_owned(), bits, ..CreateSpaceRequest::default() };
    check(client.create_space(space("wide", 129)).await, Code::InvalidArgument, "bits", "128");
    check(client.create_space(space("default", 64)).await, Code::AlreadyExists, "NAME_TAKEN", "default");
    check(client.create_space(space("?", 64)).await, Code::InvalidArgument, "space_id", "a-z");
    let list = ListRegionsRequest {
        parent: SPACE.to_owned(),
        page_size: 0,
        page_token: "forged".to_owned(),
        ..ListRegionsRequest::default()
    };
    check(client.list_regions(list).await, Code::InvalidArgument, "page_token", "page");
    let many = ClassifyRequest { parent: SPACE.to_owned(), identifiers: vec![1u128.into(); 10_001] };
    check(client.classify(many).await, Code::InvalidArgument, "identifiers", "10_000");
    client.create_space(space("small", 8)).await.expect("created");
    let outside = ClassifyRequest { parent: "spaces/small".to_owned(), identifiers: vec![256u128.into()] };
    check(client.classify(outside).await, Code::InvalidArgument, "identifiers", "8");
    for (texts, help) in [(vec![String::new(); 1001], "1000"), (vec!["z".repeat(2000)], "1024")] {
        check(
            daemon.codec().inspect(InspectRequest { texts, ..InspectRequest::default() }).await,
            Code::InvalidArgument,
            "texts",
            help,
        );
    }
    let long = GetRegionRequest { name: "n".repeat(500_000), ..GetRegionRequest::default() };
    check(client.get_region(long).await, Code::InvalidArgument, "name", "spaces/");
}

#[tokio::test]
async fn err_truncated_protobuf_does_not_stop_the_daemon() {
    use tonic::codegen::http::uri::PathAndQuery;

    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut raw = tonic::client::Grpc::new(daemon.channel());
    raw.ready().await.expect("connected");
    // Field 1 announces 100 bytes of text but has two.
    let truncated = Bytes::from(vec![0x0a, 100, b'u', b'u']);
    let path = PathAndQuery::from_static("/kent.v1.Allocator/Allocate");
    let refused = raw.unary(tonic::Request::new(truncated), path, BytesCodec).await;
    let status = refused.expect_err("not a message");
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert_eq!(status.get_details_error_info().expect("a reason").reason, "BAD_MESSAGE");
    daemon.allocator().allocate(request("uuidv7", 1, Encoding::Lease)).await.expect("the daemon is up");
}

#[tokio::test]
async fn err_a_second_message_is_refused_and_nothing_is_done() {
    use tonic::codegen::{http::uri::PathAndQuery, tokio_stream};

    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let create = CreateRegionRequest { suffix_bits: Some(40), ..create("r") }.encode_to_vec();
    for second in [create.clone(), vec![0xff, 0xff]] {
        let mut raw = tonic::client::Grpc::new(daemon.channel());
        raw.ready().await.expect("connected");
        let messages = [create.clone(), second].map(Bytes::from);
        let path = PathAndQuery::from_static("/kent.v1.Regions/CreateRegion");
        let request = tonic::Request::new(tokio_stream::iter(messages));
        let status = raw.client_streaming(request, path, BytesCodec).await.expect_err("two messages");
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().starts_with("there is more than one message"), "{status}");
    }
    let get = GetRegionRequest { name: name("r"), ..GetRegionRequest::default() };
    assert_eq!(daemon.regions().get_region(get).await.expect_err("not created").code(), Code::NotFound);
}
