//! Services whose calls may take a long time: they run on the runtime for calls, not on the thread of the connection.
//!
//! A thread of the gRPC port answers each grant within microseconds, one after the other. A page of a table or ten
//! thousand classifications would delay all grants on the thread's connections. The runtime for calls therefore
//! computes such answers, and passes them to the connection in small pieces, as fast as the connection sends them.

use std::{
    convert::Infallible,
    future,
    panic::resume_unwind,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    thread,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::Frame;
use kent_engine::{
    auth::Caller,
    engine::Engine,
    host::{
        address::Address,
        call::{self, Call},
    },
    status,
};
use kent_proto::{
    codec::BytesCodec,
    methods::{Call as Answering, Methods},
};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time,
};
use tokio_util::task::AbortOnDropHandle;
use tonic::{
    Code, Status,
    body::Body,
    codegen::{
        Body as _, BoxStream,
        http::{Request, Response},
    },
    server::{Grpc, ServerStreamingService},
};

use super::{methods, peer::Peer};

/// The maximum number of concurrent calls of one service. Each call may hold an answer of several megabytes in memory.
const CALLS_MAX: usize = 256;

/// The time within which the whole request must arrive. Otherwise, callers that never finish their requests would take
/// all permits.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Calls that last as long as their caller wants; they have separate limits.
const STREAMS: [&str; 4] = ["/WatchTable", "/WatchLayouts", "/WatchConsole", "/Backup"];

/// Calls whose answers may be large, and are written only when no other thread needs the processor.
const LARGE: [&str; 8] = [
    "/Inspect",
    "/Encode",
    "/ListRegions",
    "/ListFullestRegions",
    "/MapRegions",
    "/ListFreeBlocks",
    "/Classify",
    "/DumpEvents",
];

/// The size of a piece of an answer: 16 KiB, the default size limit of an HTTP/2 frame. A grant on the same connection
/// waits for at most one piece.
const PIECE_BYTES: usize = 16 * 1024;
/// The maximum number of pieces that wait for the connection.
const PIECES_MAX: usize = 4;
/// The longest time that the connection may take to accept a piece before the answer is abandoned.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// While callers request identifiers, a large answer pauses after this many bytes, so that it sends at most 32 MiB per
/// second. Without the pauses, reading pages of an old table can double the 99th percentile of strict grants
/// (docs/performance.md).
const PAUSE_BYTES: usize = 32 * 1024;
const PAUSE: Duration = Duration::from_millis(1);

/// A service that runs on the runtime for calls.
#[derive(Clone)]
pub struct Offload {
    methods: Arc<dyn Methods>,
    /// The maximum size of a request, in bytes.
    bytes_max: usize,
    engine: Arc<Engine>,
    permits: Arc<Semaphore>,
}

impl Offload {
    /// Serves `methods`. A request may have up to `bytes_max` bytes.
    pub fn new(methods: impl Methods, bytes_max: usize, engine: &Arc<Engine>) -> Self {
        let permits = Arc::new(Semaphore::new(CALLS_MAX));
        Self { methods: Arc::new(methods), bytes_max, engine: engine.clone(), permits }
    }

    /// The full name of the service.
    pub(super) fn name(&self) -> &'static str {
        self.methods.service()
    }

    /// Answers a call of this service.
    pub(super) fn call(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, Infallible>> {
        let known = methods::known(request.uri().path());
        let Some((_, method)) = known.split_once('/') else {
            return Box::pin(future::ready(Ok(Status::new(Code::Unimplemented, "").into_http())));
        };
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            return Box::pin(future::ready(Ok(status::too_many(self.name(), CALLS_MAX).into_http())));
        };
        let called = Called { methods: self.methods.clone(), method };
        let is_one_of = |methods: &[&str]| methods.iter().any(|method| request.uri().path().ends_with(method));
        let (is_stream, is_large) = (is_one_of(&STREAMS), is_one_of(&LARGE));
        let request = request.map(|body| Body::new(TimelyBody { body, timeout: None }));
        let engine = self.engine.clone();
        let ((answer, answered), (pieces, arriving)) = (oneshot::channel(), mpsc::channel(PIECES_MAX));
        let of = Call::new(known, principal(&request), peer(&request));
        let of = of.with_trace(request.extensions().get().cloned());
        let bytes_max = self.bytes_max;
        let call = call::of(of, async move {
            let mut grpc = Grpc::new(BytesCodec).max_decoding_message_size(bytes_max);
            grpc.server_streaming(called, request).await
        });
        // The call is aborted when the caller disconnects, like a call on the connection's thread.
        let call = self.engine.tasks().spawn_call(async move {
            let response = call.await;
            let _permit = (!is_stream).then_some(permit);
            let (head, body) = response.into_parts();
            let is_empty = body.is_end_stream();
            // OK because a caller that has disconnected needs no answer.
            let _ = answer.send((head, is_empty));
            match (is_empty, is_large) {
                (true, _) => {}
                (false, false) => carry(body, pieces, || false).await,
                (false, true) => {
                    let tasks = engine.tasks().clone();
                    let carrying = carry(body, pieces, move || engine.arrivals().is_recent(engine.clock().steady()));
                    // OK because the task fails only after the daemon has stopped.
                    tasks.spawn_idle(carrying).await.unwrap_or_default();
                }
            }
        });
        Box::pin(async move {
            match answered.await {
                Ok((head, true)) => Ok(Response::from_parts(head, Body::empty())),
                Ok((head, false)) => {
                    Ok(Response::from_parts(head, Body::new(StreamedBody { pieces: arriving, _call: call })))
                }
                Err(_) => match call.await.map_err(tokio::task::JoinError::try_into_panic) {
                    Err(Ok(panic)) => resume_unwind(panic),
                    // The daemon has stopped, so no caller is left to answer.
                    Ok(()) | Err(Err(_)) => future::pending().await,
                },
            }
        })
    }
}

/// A method, as tonic calls it.
struct Called {
    methods: Arc<dyn Methods>,
    method: &'static str,
}

impl ServerStreamingService<Bytes> for Called {
    type Response = Bytes;
    type ResponseStream = BoxStream<Bytes>;
    type Future = Answering;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Answering {
        // OK because the descriptors, from which the name comes, list the same methods.
        let missing = || -> Answering { Box::pin(future::ready(Err(Status::new(Code::Unimplemented, "")))) };
        self.methods.call(self.method, request).unwrap_or_else(missing)
    }
}

/// The caller's authenticated identity; empty if there is none.
fn principal(request: &Request<Body>) -> String {
    let proved = request.extensions().get::<Caller>().and_then(Caller::proved);
    proved.unwrap_or_default().to_owned()
}

fn peer(request: &Request<Body>) -> Option<Address> {
    request.extensions().get::<Peer>().map(|peer| peer.address)
}

/// A piece of an answer for the connection.
enum Piece {
    Frame(Result<Frame<Bytes>, Status>),
    End,
}

/// Passes an answer on piece by piece, as fast as the connection accepts it. After every [`PAUSE_BYTES`], pauses if
/// `must_pause` returns true.
async fn carry(body: Body, pieces: mpsc::Sender<Piece>, must_pause: impl Fn() -> bool) {
    let (mut body, mut unpaused) = (pin!(body), 0);
    let hand_over = async |piece| pieces.send_timeout(piece, READ_TIMEOUT).await.is_ok();
    while let Some(frame) = future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let taken = match frame.map(Frame::into_data) {
            Ok(Ok(mut data)) => {
                let mut taken = true;
                while taken && !data.is_empty() {
                    let piece = data.split_to(data.len().min(PIECE_BYTES));
                    // A grant may be waiting for the processor (see `yielding`).
                    thread::yield_now();
                    unpaused += piece.len();
                    taken = hand_over(Piece::Frame(Ok(Frame::data(piece)))).await;
                    if unpaused >= PAUSE_BYTES {
                        unpaused = 0;
                        if must_pause() {
                            time::sleep(PAUSE).await;
                        }
                    }
                }
                taken
            }
            Ok(Err(trailers)) => hand_over(Piece::Frame(Ok(trailers))).await,
            Err(status) => hand_over(Piece::Frame(Err(status))).await,
        };
        if !taken {
            return;
        }
    }
    hand_over(Piece::End).await;
}

/// The body of an answer that arrives in pieces.
struct StreamedBody {
    pieces: mpsc::Receiver<Piece>,
    _call: AbortOnDropHandle<()>,
}

impl http_body::Body for StreamedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(match ready!(self.pieces.poll_recv(cx)) {
            Some(Piece::Frame(frame)) => Some(frame),
            Some(Piece::End) => None,
            None => Some(Err(status::reader_too_slow())),
        })
    }
}

/// The body of a request. The whole body must arrive within [`REQUEST_TIMEOUT`].
struct TimelyBody {
    body: Body,
    /// The timeout is created on the first wait, because most bodies arrive together with the headers.
    timeout: Option<Pin<Box<time::Sleep>>>,
}

impl http_body::Body for TimelyBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let read = Pin::new(&mut self.body).poll_frame(cx);
        if read.is_ready() {
            return read;
        }
        let timeout = self.timeout.get_or_insert_with(|| Box::pin(time::sleep(REQUEST_TIMEOUT)));
        ready!(timeout.as_mut().poll(cx));
        Poll::Ready(Some(Err(status::request_too_slow(REQUEST_TIMEOUT))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use kent_engine::host::tasks::Tasks;

    use super::*;

    #[tokio::test]
    async fn ok_an_answer_arrives_in_small_pieces() {
        let (pieces, mut arriving) = mpsc::channel(PIECES_MAX);
        let answer = "0123456789".repeat(10_000);
        let carried = async {
            carry(Body::new(answer.clone()), pieces, || true).await;
        };
        let taken = async {
            let (mut taken, mut is_whole) = (Vec::new(), false);
            while let Some(piece) = arriving.recv().await {
                match piece {
                    Piece::Frame(frame) => {
                        let data = frame.expect("no error").into_data().expect("data");
                        assert!(data.len() <= PIECE_BYTES);
                        taken.extend(data);
                    }
                    Piece::End => is_whole = true,
                }
            }
            assert!(is_whole);
            taken
        };
        let ((), taken) = futures_util::future::join(carried, taken).await;
        assert!(taken == answer.as_bytes());
    }

    #[tokio::test]
    async fn err_a_truncated_answer_is_an_error() {
        let (pieces, arriving) = mpsc::channel(PIECES_MAX);
        let call = AbortOnDropHandle::new(Tasks::on_this_runtime().spawn_work(async {}));
        let mut arriving = pin!(StreamedBody { pieces: arriving, _call: call });
        drop(pieces);
        let frame = future::poll_fn(|cx| http_body::Body::poll_frame(arriving.as_mut(), cx)).await;
        assert!(matches!(frame, Some(Err(_))));
    }
}
