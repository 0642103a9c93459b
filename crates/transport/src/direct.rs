//! Reads calls for identifiers and sends their answers without tonic's codec: most requests arrive as a whole, and most
//! can be granted without a wait.
//!
//! tonic's codec reads and writes streams of messages, which takes longer than a grant.

use std::{
    sync::{Arc, LazyLock},
    task::{Context, Poll},
};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use h2::{RecvStream, SendStream, server::SendResponse};
use kent_engine::grant::Wait;
use kent_proto::v1::{AllocateRequest, AllocateResponse};
use prost::Message;
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    codegen::http::{self, HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE, request::Parts},
};

use super::{
    allocator::{ALLOCATE, AllocatorService, Unanswered},
    pieces::{Large, large_body},
};

/// The header with the compression of the request.
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// The headers and the trailers of an answer. To copy them is faster than to build them.
static HEAD: LazyLock<HeaderMap> =
    LazyLock::new(|| HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/grpc"))]));
static TRAILERS: LazyLock<HeaderMap> =
    LazyLock::new(|| HeaderMap::from_iter([(Status::GRPC_STATUS, HeaderValue::from(Code::Ok as i32))]));

/// The bytes before each message (gRPC over HTTP/2, "Length-Prefixed-Message").
const PREFIX_BYTES: usize = 5;

/// The service, and the maximum size of its requests.
#[derive(Clone, Debug)]
pub(super) struct Direct {
    pub(super) service: Arc<AllocatorService>,
    pub(super) request_bytes: usize,
}

impl Direct {
    /// Whether this call can be answered directly. tonic refuses all compressed requests.
    pub(super) fn serves(head: &Parts) -> bool {
        head.uri.path().strip_prefix('/') == Some(ALLOCATE)
            && head.headers.get(ENCODING).is_none_or(|encoding| encoding == "identity")
    }

    /// Reads a request. If it has not arrived as a whole and in one frame, or is not valid, returns the bytes that were
    /// read.
    pub(super) fn read(&self, stream: &mut RecvStream, cx: &mut Context<'_>) -> Result<AllocateRequest, Bytes> {
        read(stream, self.request_bytes, cx)
    }

    /// Answers a call whose grant has to wait.
    pub(super) fn finish(
        &self,
        request: Request<AllocateRequest>,
        wait: Wait,
        unanswered: Box<Unanswered>,
    ) -> BoxFuture<'static, Outcome> {
        let service = self.service.clone();
        Box::pin(async move { service.finish(&request, wait, unanswered).await })
    }
}

fn read(stream: &mut RecvStream, max: usize, cx: &mut Context<'_>) -> Result<AllocateRequest, Bytes> {
    let mut arrived = Bytes::new();
    // Some clients end the call with an empty frame. To join many small frames here would be slow.
    while !stream.is_end_stream() {
        match stream.poll_data(cx) {
            Poll::Ready(Some(Ok(data))) => {
                // OK because it fails only for more bytes than have arrived.
                let _ = stream.flow_control().release_capacity(data.len());
                match arrived.is_empty() {
                    true => arrived = data,
                    false if data.is_empty() => {}
                    false => return Err([arrived, data].concat().into()),
                }
            }
            Poll::Ready(None) => break,
            Poll::Ready(Some(Err(_))) | Poll::Pending => return Err(arrived),
        }
    }
    decode(&arrived, max).ok_or(arrived)
}

/// Decodes a single message that is not compressed and has at most `max` bytes.
fn decode(bytes: &[u8], max: usize) -> Option<AllocateRequest> {
    let (&[0, a, b, c, d], message) = bytes.split_first_chunk::<PREFIX_BYTES>()? else { return None };
    let length = u32::from_be_bytes([a, b, c, d]) as usize; // OK because a usize has at least 32 bits
    let is_whole = length == message.len() && length <= max;
    if is_whole { AllocateRequest::decode(message).ok() } else { None }
}

/// The outcome of a call for identifiers.
pub(super) type Outcome = Result<Response<AllocateResponse>, Status>;

/// Sends the answer to a call. If it is created in pieces, returns the body that is still to be sent.
pub(super) fn send(outcome: Outcome, respond: &mut SendResponse<Bytes>) -> Option<(Body, SendStream<Bytes>)> {
    // If it failed, the caller has given up.
    try_send(outcome, respond).ok().flatten()
}

fn try_send(
    outcome: Outcome,
    respond: &mut SendResponse<Bytes>,
) -> Result<Option<(Body, SendStream<Bytes>)>, h2::Error> {
    let (_, message, mut extensions) = match outcome {
        Ok(response) => response.into_parts(),
        Err(status) => {
            let head = status.into_http::<()>();
            return respond.send_response(head, true).map(|_| None);
        }
    };
    let mut head = http::Response::new(());
    head.headers_mut().clone_from(&HEAD);
    let mut stream = respond.send_response(head, false)?;
    if let Some(large) = extensions.remove::<Large>() {
        return Ok(Some((large_body(large), stream)));
    }
    let length = message.encoded_len();
    let mut data = BytesMut::with_capacity(PREFIX_BYTES + length);
    data.put_u8(0);
    data.put_u32(length as u32); // OK because a message that is not in pieces is far below 4 GiB
    message.encode_raw(&mut data);
    stream.send_data(data.freeze(), false)?;
    stream.send_trailers(TRAILERS.clone())?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use h2::{client, server};
    use tokio::io::duplex;
    use tokio_util::task::TaskTracker;

    use super::*;

    /// Sends these frames as a request, and reads it once all of them have arrived.
    async fn read_frames(frames: &[(&[u8], bool)]) -> Result<AllocateRequest, Bytes> {
        let (near, far) = duplex(1 << 16);
        let connected = tokio::join!(client::handshake(near), server::handshake(far));
        let (caller, connection) = connected.0.expect("HTTP/2");
        let (mut server, tasks) = (connected.1.expect("HTTP/2"), TaskTracker::new());
        tasks.spawn(connection);
        let mut caller = caller.ready().await.expect("ready");
        let head = http::Request::post("http://kent").body(()).expect("a request");
        let (_response, mut request) = caller.send_request(head, frames.is_empty()).expect("sent");
        for (data, is_last) in frames {
            request.send_data(Bytes::copy_from_slice(data), *is_last).expect("sent");
        }
        let (call, _respond) = server.accept().await.expect("a call").expect("HTTP/2");
        // All frames were sent before, so they arrive as soon as both ends have worked for a while.
        for _ in 0..50 {
            poll_fn(|cx| {
                assert!(server.poll_accept(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            tokio::task::yield_now().await;
        }
        let mut stream = call.into_body();
        poll_fn(|cx| Poll::Ready(read(&mut stream, 100, cx))).await
    }

    #[tokio::test]
    async fn ok_a_request_is_read_directly_if_it_has_arrived_in_one_frame() {
        let message = AllocateRequest { source: "xid".to_owned(), count: 7, ..AllocateRequest::default() };
        let encoded = message.encode_to_vec();
        let whole = [&[0, 0, 0, 0, u8::try_from(encoded.len()).expect("short")], &*encoded].concat();
        let (first, second) = whole.split_at(7);
        for frames in [&[(&*whole, true)][..], &[(&whole, false), (&[], true)], &[(&[], false), (&whole, true)]] {
            assert_eq!(read_frames(frames).await, Ok(message.clone()), "{frames:?}");
        }
        for (frames, read) in [
            (&[(&*whole, false)][..], &*whole),
            (&[(first, false), (second, true)], &whole),
            (&[(first, false), (second, false)], &whole),
            (&[(first, true)], first),
            (&[(first, false)], first),
            (&[(&[], true)], &[]),
            (&[], &[]),
        ] {
            assert_eq!(read_frames(frames).await, Err(Bytes::copy_from_slice(read)), "{frames:?}");
        }
    }

    #[test]
    fn ok_only_one_whole_message_is_decoded() {
        let message = AllocateRequest { source: "xid".to_owned(), count: 7, ..AllocateRequest::default() };
        let encoded = message.encode_to_vec();
        let length = u8::try_from(encoded.len()).expect("short");
        let framed = |flag, length, encoded: &[u8]| [&[flag, 0, 0, 0, length], encoded].concat();
        let whole = framed(0, length, &encoded);
        let compressed = framed(1, length, &encoded);
        let (short, long) = (framed(0, length - 1, &encoded), framed(0, length + 1, &encoded));
        let (twice, not_valid) = (whole.repeat(2), framed(0, 2, &[0xff, 0xff]));
        for (bytes, max, expected) in [
            (&whole[..], 100, Some(message.clone())),
            (&whole, encoded.len(), Some(message.clone())),
            (&whole, encoded.len() - 1, None),
            (&framed(0, 0, &[]), 100, Some(AllocateRequest::default())),
            (&compressed, 100, None),
            (&short, 100, None),
            (&long, 100, None),
            (&twice, 100, None),
            (&not_valid, 100, None),
            (&whole[..4], 100, None),
            (&[], 100, None),
        ] {
            assert_eq!(decode(bytes, max), expected, "{bytes:?}, at most {max}");
        }
    }

    #[test]
    fn ok_only_calls_for_identifiers_without_compression_are_answered_directly() {
        for (path, encoding, expected) in [
            ("/kent.v1.Allocator/Allocate", None, true),
            ("/kent.v1.Allocator/Allocate", Some("identity"), true),
            ("/kent.v1.Allocator/Allocate", Some("gzip"), false),
            ("/kent.v1.Allocator/AllocateStream", None, false),
            ("/kent.v1.Regions/Find", None, false),
            ("/", None, false),
        ] {
            let head = http::Request::post(format!("http://kent{path}"));
            let head = encoding.into_iter().fold(head, |head, encoding| head.header(ENCODING, encoding));
            let (head, ()) = head.body(()).expect("a request").into_parts();
            assert_eq!(Direct::serves(&head), expected, "{path}, {encoding:?}");
        }
    }
}
