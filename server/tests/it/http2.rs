//! The frames of calls on the gRPC port: requests that arrive in pieces, that are not one message, or that never end.

use bytes::Bytes;
use h2::{
    Reason, SendStream,
    client::{self, ResponseFuture, SendRequest},
};
use kent_proto::v1::{AllocateResponse, Encoding};
use prost::Message;
use tokio::{net::TcpStream, task::yield_now};
use tokio_util::task::TaskTracker;
use tonic::{
    Code, Status,
    codegen::http::{HeaderMap, Request},
};

use super::{
    backup::create,
    harness::{Daemon, Ledger, data_dir, identifiers, request},
};

const PATH: &str = "/kent.v1.Allocator/Allocate";

async fn connect(daemon: &Daemon) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(daemon.grpc_address()).await.expect("connected");
    let (caller, connection) = client::handshake(stream).await.expect("HTTP/2");
    TaskTracker::new().spawn(connection);
    caller
}

/// Sends a request in these pieces, and returns the message and the status. Each piece has a frame of its own; the last
/// frame ends the request.
async fn call(caller: &SendRequest<Bytes>, pieces: &[&[u8]]) -> (Vec<u8>, Option<Code>) {
    let (response, mut request) = begin(caller, PATH, &[]).await;
    for (number, piece) in pieces.iter().enumerate() {
        request.send_data(Bytes::copy_from_slice(piece), number + 1 == pieces.len()).expect("sent");
        for _ in 0..50 {
            yield_now().await;
        }
    }
    answer(response).await
}

/// Begins a call with these additional headers.
async fn begin(
    caller: &SendRequest<Bytes>,
    path: &str,
    headers: &[(&str, &str)],
) -> (ResponseFuture, SendStream<Bytes>) {
    let head = Request::post(format!("http://kent{path}")).header("content-type", "application/grpc");
    let head = headers.iter().fold(head, |head, (name, value)| head.header(*name, *value));
    let mut caller = caller.clone().ready().await.expect("ready");
    caller.send_request(head.body(()).expect("a request"), false).expect("sent")
}

/// Returns the message and the status of a call.
async fn answer(response: ResponseFuture) -> (Vec<u8>, Option<Code>) {
    let (head, mut body) = response.await.expect("an answer").into_parts();
    let (mut message, code) = (Vec::new(), |headers: &HeaderMap| Status::from_header_map(headers).map(|it| it.code()));
    while let Some(data) = body.data().await {
        message.extend(data.expect("the whole answer"));
    }
    let trailers = body.trailers().await.expect("the whole answer");
    (message, code(&head.headers).or_else(|| code(&trailers?)))
}

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    [&[flag], &length[..], message].concat()
}

#[tokio::test]
async fn ok_a_request_may_arrive_in_any_pieces() {
    let dir = data_dir();
    let daemon = Daemon::start(dir.path());
    let caller = connect(&daemon).await;
    let whole = framed(0, &request("uuidv7", 3, Encoding::Packed).encode_to_vec());
    let mut ledger = Ledger::default();
    let mut answers = 0;
    for split in 0..=whole.len() {
        let (first, second) = whole.split_at(split);
        for pieces in [&[first, second][..], &[first, second, &[]], &[&[], first, &[], second]] {
            let (message, code) = call(&caller, pieces).await;
            assert_eq!(code, Some(Code::Ok), "{pieces:?}");
            let reply = AllocateResponse::decode(&message[5..]).expect("one message");
            let granted = identifiers(&reply);
            assert_eq!(granted.len(), 3, "{pieces:?}");
            ledger.record("uuidv7", granted);
            answers += 1;
        }
    }
    assert_eq!(answers, 3 * (whole.len() + 1));
}

#[tokio::test]
async fn err_a_request_that_is_not_one_valid_message() {
    let dir = data_dir();
    let daemon = Daemon::start(dir.path());
    let caller = connect(&daemon).await;
    let message = request("uuidv7", 1, Encoding::Lease).encode_to_vec();
    let whole = framed(0, &message);
    let large = framed(0, &request(&"x".repeat(20_000), 1, Encoding::Lease).encode_to_vec());
    for (what, bytes, expected) in [
        ("whole", &whole, Code::Ok),
        ("compressed", &framed(1, &message), Code::Internal),
        ("no message", &Vec::new(), Code::Internal),
        ("cut off", &whole[..whole.len() - 1].to_vec(), Code::Internal),
        ("not Protobuf", &framed(0, &[0xff, 0xff]), Code::InvalidArgument),
        ("too large", &large, Code::OutOfRange),
        ("no source", &framed(0, &[]), Code::InvalidArgument),
        ("whole, on the same connection", &whole, Code::Ok),
    ] {
        let (message, code) = call(&caller, &[bytes]).await;
        assert_eq!(code, Some(expected), "{what}");
        assert_eq!(message.is_empty(), expected != Code::Ok, "{what}");
    }
}

/// Whether a request is served must not depend on its size or its frames.
#[tokio::test]
async fn err_a_request_that_may_be_compressed() {
    let dir = data_dir();
    let daemon = Daemon::start(dir.path());
    let caller = connect(&daemon).await;
    let whole = framed(0, &request("uuidv7", 1, Encoding::Lease).encode_to_vec());
    for (encoding, expected) in [("gzip", Code::Unimplemented), ("identity", Code::Ok)] {
        for split in [0, 3] {
            let (response, mut stream) = begin(&caller, PATH, &[("grpc-encoding", encoding)]).await;
            let (first, second) = whole.split_at(split);
            for (piece, is_last) in [(first, false), (second, true)] {
                stream.send_data(Bytes::copy_from_slice(piece), is_last).expect("sent");
            }
            assert_eq!(answer(response).await.1, Some(expected), "{encoding}, {split}");
        }
    }
}

/// Any call that is not answered when its deadline passes is answered then.
#[tokio::test]
async fn err_a_deadline_passes_before_the_request_has_arrived() {
    let dir = data_dir();
    let daemon = Daemon::start(dir.path());
    let caller = connect(&daemon).await;
    for path in [PATH, "/kent.v1.Regions/ListSpaces"] {
        let (response, _stream) = begin(&caller, path, &[("grpc-timeout", "20m")]).await;
        assert_eq!(answer(response).await, (Vec::new(), Some(Code::DeadlineExceeded)), "{path}");
    }
}

#[tokio::test]
async fn ok_a_request_that_is_cut_off_takes_no_identifiers() {
    let dir = data_dir();
    let daemon = Daemon::start(dir.path());
    create(&daemon, "orders").await;
    let caller = connect(&daemon).await;
    let whole = framed(0, &request("region:orders", 1, Encoding::Packed).encode_to_vec());
    let next = async || {
        let (message, code) = call(&caller, &[&whole]).await;
        assert_eq!(code, Some(Code::Ok));
        identifiers(&AllocateResponse::decode(&message[5..]).expect("one message"))[0]
    };
    let mut last = next().await;
    for reason in [Reason::CANCEL, Reason::NO_ERROR, Reason::INTERNAL_ERROR, Reason::PROTOCOL_ERROR] {
        let (_response, mut stream) = begin(&caller, PATH, &[]).await;
        stream.send_data(Bytes::copy_from_slice(&whole), false).expect("sent");
        // The daemon has read the message when it answers a later call.
        let after = next().await;
        assert_eq!(after, last + 1, "{reason:?}");
        stream.send_reset(reason);
        last = next().await;
        assert_eq!(last, after + 1, "{reason:?}");
    }
}
