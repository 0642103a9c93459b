//! Serves the calls of HTTP/2 connections, on the crate h2.
//!
//! tonic's server runs each call in a task of its own, through layers that Kent does not need. Here, the task of the
//! connection answers the calls that can be answered at once, and waits for strict grants. Only calls that wait for
//! something else, or need another attempt, have a task of their own.

use std::{
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, future::BoxFuture};
use h2::{
    Reason, RecvStream, SendStream,
    server::{Builder, SendResponse},
};
use http_body::{Body as _, Frame};
use kent_engine::{host::deadline::deadline, issuing::queue::PendingGrant, status};
use kent_proto::v1::AllocateRequest;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    select,
    time::{Sleep, sleep},
};
use tokio_util::{
    sync::{CancellationToken, WaitForCancellationFutureOwned},
    task::TaskTracker,
};
use tonic::{
    Status,
    body::Body,
    codegen::http::{Request, Response},
    metadata::MetadataMap,
    transport::server::Connected,
};
use tracing::debug;

use super::{
    allocator::{Tried, Unanswered},
    connection::Connection,
    direct::{self, Outcome},
    peer::Peer,
    port::{Dispatched, GrpcPort},
    threads::Threads,
    waiting::{Ready, Waiting},
    workers::{Serve, Workers},
};

/// The maximum number of open calls on one connection; clients delay further calls.
pub const CALLS_MAX: u32 = 128;

/// The HTTP/2 receive window of a connection, in bytes. It suffices, because requests are small.
pub const CONNECTION_WINDOW: u32 = 1 << 20;

/// The HTTP/2 receive window of one call, in bytes.
pub const CALL_WINDOW: u32 = 256 << 10;

/// The maximum size of the headers of a request, in bytes.
pub const HEADER_BYTES_MAX: u32 = 8 << 10;

/// The maximum number of calls on a connection that the client has reset before the daemon has handled them. A client
/// that exceeds this or `RESETS_LOCAL_MAX` loses its connection.
pub const RESETS_PENDING_MAX: usize = 20;

/// The maximum number of calls on a connection that the daemon has reset because the client broke the protocol.
pub const RESETS_LOCAL_MAX: usize = 1024;

/// Starts the threads that serve a port. The code of a call is compiled here, because this crate is optimized for speed
/// and `kentd` is not.
///
/// # Errors
///
/// If a thread or a runtime cannot be started.
pub fn start(port: GrpcPort, threads: Threads, stop: &CancellationToken, work: &TaskTracker) -> io::Result<Workers> {
    Workers::start(threads, &Http2(Arc::new(port)), stop, work)
}

/// Serves connections with the dispatcher of the gRPC port.
#[derive(Clone)]
struct Http2(Arc<GrpcPort>);

impl Serve for Http2 {
    async fn serve(self, connections: impl Stream<Item = Connection> + Send, stop: CancellationToken) {
        // A token of its own, because the connections of all threads would contend for one.
        let (tasks, stop) = (TaskTracker::new(), stop.child_token());
        {
            // Dropped before the wait below, so that connections that have not begun are closed now.
            let mut connections = pin!(connections);
            loop {
                let connection = select! {
                    () = stop.cancelled() => break,
                    Some(connection) = connections.next() => connection,
                    else => break,
                };
                tasks.spawn(begin(connection, self.0.clone(), stop.clone(), tasks.clone()));
            }
        }
        tasks.close();
        tasks.wait().await;
    }
}

fn settings() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(CALLS_MAX)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_window_size(CALL_WINDOW)
        .max_header_list_size(HEADER_BYTES_MAX)
        .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
        .max_local_error_reset_streams(Some(RESETS_LOCAL_MAX));
    builder
}

/// Begins HTTP/2 on a connection, and serves it as another of the `tasks`. Its memory is then only what it needs.
async fn begin(connection: Connection, port: Arc<GrpcPort>, stop: CancellationToken, tasks: TaskTracker) {
    let calls = Calls { port, peer: connection.connect_info(), tasks: tasks.clone(), strict: Waiting::new() };
    let begun = select! {
        biased;
        begun = settings().handshake(connection) => begun,
        () = stop.cancelled() => return,
    };
    match begun {
        Ok(connection) => {
            tasks.spawn(Serving::new(connection, calls, stop));
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &h2::Error) {
    debug!(%error, "a connection of the gRPC port failed");
}

/// Serves a connection until it ends. Begins no more calls once `stopped` is ready.
struct Serving<T, C> {
    connection: h2::server::Connection<T, Bytes>,
    calls: C,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
    is_stopping: bool,
}

impl<T, C> Serving<T, C> {
    fn new(connection: h2::server::Connection<T, Bytes>, calls: C, stop: CancellationToken) -> Self {
        Self { connection, calls, stopped: Box::pin(stop.cancelled_owned()), is_stopping: false }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin, C: Begin> Future for Serving<T, C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { connection, calls, stopped, is_stopping } = &mut *self;
        if !*is_stopping && stopped.as_mut().poll(cx).is_ready() {
            *is_stopping = true;
            connection.graceful_shutdown();
        }
        calls.answer_ready(cx);
        loop {
            // Each time that h2 is asked for a call, it writes the answers so far. So all calls that have arrived are
            // accepted first, and their answers are written together.
            let mut arrived = Vec::new();
            let is_over = loop {
                match connection.poll_accept(cx) {
                    Poll::Ready(Some(Ok(call))) => arrived.push(call),
                    Poll::Ready(Some(Err(error))) => {
                        failed(&error);
                        break true;
                    }
                    Poll::Ready(None) => break true,
                    Poll::Pending => break false,
                }
            };
            if is_over {
                return Poll::Ready(());
            }
            if arrived.is_empty() {
                return Poll::Pending;
            }
            for (request, respond) in arrived {
                // A panic ends only this call, as it does in a task. The hook of the daemon has logged it.
                let _ = catch_unwind(AssertUnwindSafe(|| calls.begin(request, respond, cx)));
            }
        }
    }
}

/// Begins the calls of a connection.
trait Begin: Unpin {
    /// Answers a call, keeps it until it can be answered, or begins a task that answers it.
    fn begin(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>, cx: &mut Context<'_>);

    /// Answers the kept calls that can be answered now.
    fn answer_ready(&mut self, cx: &mut Context<'_>);
}

/// Begins calls to the services of the gRPC port.
struct Calls {
    port: Arc<GrpcPort>,
    peer: Peer,
    /// Runs the calls that take time.
    tasks: TaskTracker,
    /// The calls that wait for strict grants.
    strict: Waiting<PendingGrant, StrictCall>,
}

impl Begin for Calls {
    fn begin(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>, cx: &mut Context<'_>) {
        let (mut head, mut stream) = request.into_parts();
        head.extensions.insert(self.peer.clone());
        let mut arrived = Bytes::new();
        if self.port.answers_directly(&head) {
            match self.port.direct.read(&mut stream, cx) {
                Ok(message) => {
                    let metadata = MetadataMap::from_headers(head.headers);
                    let request = tonic::Request::from_parts(metadata, head.extensions, message);
                    let tried = self.port.direct.service.try_allocate(&request);
                    return self.proceed(tried, request, respond, cx);
                }
                Err(bytes) => arrived = bytes,
            }
        }
        let timeout = deadline(&head.headers);
        let answer = self.port.answer(Request::from_parts(head, Body::new(Received { arrived, stream })));
        self.run(Step::Answer(answer), respond, timeout, cx);
    }

    fn answer_ready(&mut self, cx: &mut Context<'_>) {
        if !self.strict.has_rung(cx) {
            return;
        }
        let mut next = 0;
        while let Some(ready) = self.strict.next_ready(&mut next) {
            // A panic ends only this call.
            let _ = catch_unwind(AssertUnwindSafe(|| self.decided(ready, cx)));
        }
    }
}

impl Calls {
    /// Answers a call for identifiers, or waits for its grant.
    fn proceed(
        &mut self,
        tried: Result<Tried, Status>,
        request: tonic::Request<AllocateRequest>,
        respond: SendResponse<Bytes>,
        cx: &mut Context<'_>,
    ) {
        match tried {
            Ok(Tried::Answered(response)) => self.answer(Ok(response), respond, cx),
            Ok(Tried::Strict(pending, unanswered)) => {
                if let Some(ready) = self.strict.add((pending, (request, unanswered), respond), cx) {
                    self.decided(ready, cx);
                }
            }
            Ok(Tried::Waits(wait, unanswered)) => {
                let timeout = self.port.direct.service.time_left(&request, &unanswered);
                let step = Step::Grant(self.port.direct.finish(request, wait, unanswered));
                self.spawn(Call { step, respond, timeout: None }, timeout);
            }
            Err(refusal) => self.answer(Err(refusal), respond, cx),
        }
    }

    /// Answers a call whose strict grant is decided, or waits for another attempt.
    fn decided(
        &mut self,
        (outcome, (request, unanswered), respond): Ready<PendingGrant, StrictCall>,
        cx: &mut Context<'_>,
    ) {
        let tried = self.port.direct.service.try_finish(&request, unanswered, outcome);
        self.proceed(tried, request, respond, cx);
    }

    /// Answers a call directly.
    fn answer(&self, outcome: Outcome, mut respond: SendResponse<Bytes>, cx: &mut Context<'_>) {
        if let Some((body, stream)) = direct::send(outcome, &mut respond) {
            self.run(Step::Send { body, stream, next: None }, respond, None, cx);
        }
    }

    /// Continues a call now and, if it has to wait, in a task of its own.
    fn run(&self, step: Step, respond: SendResponse<Bytes>, timeout: Option<Duration>, cx: &mut Context<'_>) {
        let mut call = Call { step, respond, timeout: None };
        if Pin::new(&mut call).poll(cx).is_pending() {
            self.spawn(call, timeout);
        }
    }

    /// Continues a call that has to wait, in a task of its own.
    fn spawn(&self, mut call: Call, timeout: Option<Duration>) {
        call.timeout = timeout.map(|timeout| Box::pin(sleep(timeout)));
        self.tasks.spawn(call);
    }
}

/// A call that waits for a strict grant.
type StrictCall = (tonic::Request<AllocateRequest>, Box<Unanswered>);

/// The body of a request.
struct Received {
    /// Bytes that were already read.
    arrived: Bytes,
    stream: RecvStream,
}

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Self { arrived, stream } = &mut *self;
        if !arrived.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(mem::take(arrived)))));
        }
        let failed = |_| Some(Err(status::request_cut_off()));
        Poll::Ready(match ready!(stream.poll_data(cx)) {
            Some(Ok(data)) => {
                // OK because it fails only for more bytes than have arrived.
                let _ = stream.flow_control().release_capacity(data.len());
                Some(Ok(Frame::data(data)))
            }
            Some(Err(error)) => failed(error),
            None => match ready!(stream.poll_trailers(cx)) {
                Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
                Err(error) => failed(error),
            },
        })
    }

    fn is_end_stream(&self) -> bool {
        self.arrived.is_empty() && self.stream.is_end_stream()
    }
}

/// A call: works out the answer, and sends it. Ends early if the caller gives up.
struct Call {
    step: Step,
    respond: SendResponse<Bytes>,
    /// The end of the time that the caller allows for the answer. Set once the call has to wait.
    timeout: Option<Pin<Box<Sleep>>>,
}

enum Step {
    Answer(Dispatched),
    Grant(BoxFuture<'static, Outcome>),
    Send {
        body: Body,
        stream: SendStream<Bytes>,
        /// The next piece, which waits for the caller's window.
        next: Option<Bytes>,
    },
}

impl Future for Call {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { step, respond, timeout } = &mut *self;
        loop {
            let begun = match step {
                Step::Answer(answer) => Pin::new(answer).poll(cx).map(|Ok(response)| send(response, respond)),
                Step::Grant(grant) => grant.as_mut().poll(cx).map(|outcome| direct::send(outcome, respond)),
                Step::Send { body, stream, next } => {
                    let sent = poll_send(body, stream, next, cx);
                    let has_given_up = sent.is_pending() && stream.poll_reset(cx).is_ready();
                    return if has_given_up { Poll::Ready(()) } else { sent };
                }
            };
            match begun {
                Poll::Ready(Some((body, stream))) => *step = Step::Send { body, stream, next: None },
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending if respond.poll_reset(cx).is_ready() => return Poll::Ready(()),
                Poll::Pending => {
                    let Some(timeout) = timeout else { return Poll::Pending };
                    ready!(timeout.as_mut().poll(cx));
                    direct::send(Err(status::deadline_passed()), respond);
                    return Poll::Ready(());
                }
            }
        }
    }
}

/// Begins to send a response. Returns the body that is still to be sent, unless the caller has given up.
fn send(response: Response<Body>, respond: &mut SendResponse<Bytes>) -> Option<(Body, SendStream<Bytes>)> {
    let (head, body) = response.into_parts();
    let is_whole = body.is_end_stream();
    let stream = respond.send_response(Response::from_parts(head, ()), is_whole).ok()?;
    if is_whole { None } else { Some((body, stream)) }
}

/// Sends a body, piece by piece, as the caller's window allows. The end of the body does not need the window.
fn poll_send(
    body: &mut Body,
    stream: &mut SendStream<Bytes>,
    next: &mut Option<Bytes>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        if let Some(data) = next {
            // A piece may be larger than the window: then h2 keeps the rest.
            stream.reserve_capacity(1);
            while stream.capacity() == 0 {
                match ready!(stream.poll_capacity(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Poll::Ready(()),
                }
            }
            let (data, is_last) = (mem::take(data), body.is_end_stream());
            *next = None;
            // If it failed, the caller has given up.
            if stream.send_data(data, is_last).is_err() || is_last {
                return Poll::Ready(());
            }
        }
        let sent = match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            None => stream.send_data(Bytes::new(), true),
            Some(Err(_)) => {
                stream.send_reset(Reason::INTERNAL_ERROR);
                Ok(())
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    *next = Some(data);
                    continue;
                }
                Err(frame) => stream.send_trailers(frame.into_trailers().unwrap_or_default()),
            },
        };
        // OK because it fails only if the caller has given up.
        let _ = sent;
        return Poll::Ready(());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        collections::VecDeque,
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use futures_util::future;
    use h2::client;
    use tokio::{
        io::duplex,
        sync::{mpsc, oneshot},
        task,
        time::timeout,
    };
    use tonic::{
        Code,
        codegen::http::{HeaderMap, HeaderValue},
    };

    use super::*;

    /// Begins each call of a connection with a function.
    struct Function(Box<BeginCall>);

    type BeginCall = dyn Fn(&Request<RecvStream>, SendResponse<Bytes>) + Send;

    impl Begin for Function {
        fn begin(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>, _: &mut Context<'_>) {
            self.0(&request, respond);
        }

        fn answer_ready(&mut self, _: &mut Context<'_>) {}
    }

    /// Opens a connection on which the caller's window has `window` bytes, and serves it. Returns the caller's end.
    async fn serve(window: u32, calls: impl Begin + Send + 'static, stop: CancellationToken) -> Caller {
        let (near, far) = duplex(1 << 16);
        let tasks = TaskTracker::new();
        let serving = tasks.clone();
        tasks.spawn(async move {
            let connection = settings().handshake(far).await.expect("a connection");
            serving.spawn(Serving::new(connection, calls, stop));
        });
        let (caller, connection) =
            client::Builder::new().initial_window_size(window).handshake(near).await.expect("a connection");
        tasks.spawn(connection);
        caller.ready().await.expect("ready")
    }

    type Caller = client::SendRequest<Bytes>;

    /// Opens a connection on which the caller's window has `window` bytes, and for whose only call `answer` is run as a
    /// task. Returns the caller's end.
    async fn open(window: u32, answer: impl FnOnce(SendResponse<Bytes>) -> Call + Send + 'static) -> Caller {
        let (answer, tasks) = (Cell::new(Some(answer)), TaskTracker::new());
        let begin = move |_: &_, respond| drop(tasks.spawn(answer.take().expect("one call")(respond)));
        serve(window, Function(Box::new(begin)), CancellationToken::new()).await
    }

    fn call() -> Request<()> {
        Request::post("http://kent/kent.v1.Allocator/Allocate").body(()).expect("a request")
    }

    fn step(step: Step) -> impl FnOnce(SendResponse<Bytes>) -> Call {
        |respond| Call { step, respond, timeout: None }
    }

    fn code(headers: &HeaderMap) -> Option<Code> {
        Status::from_header_map(headers).map(|status| status.code())
    }

    /// A body of pieces, which fails after the last one.
    struct Pieces {
        rest: VecDeque<Bytes>,
        /// Is told how many pieces are left.
        left: tokio::sync::watch::Sender<usize>,
    }

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            let piece = self.rest.pop_front();
            self.left.send_replace(self.rest.len());
            Poll::Ready(Some(piece.map(Frame::data).ok_or_else(|| Status::internal("the last piece was sent"))))
        }
    }

    #[tokio::test]
    async fn err_a_call_whose_deadline_passes_is_answered() {
        let grant = Step::Grant(Box::pin(future::pending()));
        let late = |respond| Call { step: grant, respond, timeout: Some(Box::pin(sleep(Duration::from_millis(1)))) };
        let mut caller = open(1 << 16, late).await;
        let (response, _request) = caller.send_request(call(), false).expect("sent");
        let response = response.await.expect("an answer");
        assert_eq!(code(response.headers()), Some(Code::DeadlineExceeded));
    }

    #[tokio::test]
    async fn ok_a_call_ends_when_its_caller_gives_up() {
        let (held, dropped) = oneshot::channel::<()>();
        let (began, begins) = oneshot::channel();
        let grant = async move {
            let _held = held;
            began.send(()).expect("the test waits");
            future::pending::<Outcome>().await
        };
        let mut caller = open(1 << 16, step(Step::Grant(Box::pin(grant)))).await;
        let (_response, mut request) = caller.send_request(call(), false).expect("sent");
        begins.await.expect("the call begins");
        request.send_reset(Reason::CANCEL);
        dropped.await.expect_err("the call is dropped");
    }

    #[tokio::test]
    async fn ok_the_next_piece_waits_for_the_caller_and_a_failure_resets_the_call() {
        let (left, mut pieces_left) = tokio::sync::watch::channel(4);
        let body = Pieces { rest: (1..=3).map(|piece| Bytes::from(vec![piece; 10])).collect(), left };
        let response = Response::new(Body::new(body));
        let answer = Box::pin(future::ready(Ok(response)));
        let mut caller = open(10, step(Step::Answer(future::Either::Right(answer)))).await;
        let (response, _request) = caller.send_request(call(), false).expect("sent");
        let mut body = response.await.expect("an answer").into_body();
        for (piece, left) in [(1, 1), (2, 0)] {
            assert_eq!(body.data().await.expect("a piece").expect("sent"), vec![piece; 10]);
            // The window is full, so the next piece waits, and the one after it is not made.
            for _ in 0..20 {
                task::yield_now().await;
            }
            assert_eq!(*pieces_left.borrow_and_update(), left);
            body.flow_control().release_capacity(10).expect("received");
        }
        // The failure comes right after the last piece, and may overtake it.
        let error = loop {
            if let Err(error) = body.data().await.expect("an end") {
                break error;
            }
        };
        assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));
    }

    #[tokio::test]
    async fn ok_an_answer_without_a_body_ends_at_once() {
        let mut response = Response::new(Body::empty());
        response.headers_mut().insert("grpc-status", HeaderValue::from_static("5"));
        let answer = Box::pin(future::ready(Ok(response)));
        let mut caller = open(10, step(Step::Answer(future::Either::Right(answer)))).await;
        let (response, _request) = caller.send_request(call(), false).expect("sent");
        let response = response.await.expect("an answer");
        assert_eq!((code(response.headers()), response.body().is_end_stream()), (Some(Code::NotFound), true));
    }

    /// Sends a call that is complete.
    fn send_call(caller: &mut Caller) -> client::ResponseFuture {
        caller.send_request(call(), true).expect("sent").0
    }

    #[tokio::test]
    async fn ok_a_panic_ends_only_its_call() {
        let begin = |request: &Request<RecvStream>, mut respond: SendResponse<Bytes>| {
            assert!(!request.headers().contains_key("fails"), "this panic is part of the test");
            respond.send_response(Response::new(()), true).expect("sent");
        };
        let mut caller = serve(1 << 16, Function(Box::new(begin)), CancellationToken::new()).await;
        let mut failing = call();
        failing.headers_mut().insert("fails", HeaderValue::from_static("1"));
        // All three arrive together.
        let before = send_call(&mut caller);
        let (failed, _) = caller.send_request(failing, true).expect("sent");
        let after = send_call(&mut caller);
        before.await.expect("an answer");
        assert!(failed.await.expect_err("no answer").is_reset());
        after.await.expect("an answer");
        send_call(&mut caller).await.expect("the connection is still open");
    }

    #[tokio::test]
    async fn ok_a_stop_answers_the_calls_that_have_begun() {
        let (stop, begun) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let (held, release) = (TaskTracker::new(), CancellationToken::new());
        let calls = (begun.clone(), release.clone());
        let begin = move |_: &_, mut respond: SendResponse<Bytes>| {
            calls.0.fetch_add(1, Relaxed);
            let release = calls.1.clone();
            held.spawn(async move {
                release.cancelled().await;
                // The test does not wait for the answers to later calls.
                drop(respond.send_response(Response::new(()), true));
            });
        };
        let mut caller = serve(1 << 16, Function(Box::new(begin)), stop.clone()).await;
        let answer = send_call(&mut caller);
        while begun.load(Relaxed) == 0 {
            task::yield_now().await;
        }
        stop.cancel();
        // The caller may send calls until it has heard of the stop.
        let hears = async {
            while let Ok(mut ready) = caller.clone().ready().await
                && ready.send_request(call(), true).is_ok()
            {
                task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), hears).await.expect("the caller hears of the stop");
        release.cancel();
        answer.await.expect("an answer");
    }

    /// Keeps each call until the test releases it.
    struct Keeps {
        kept: Waiting<oneshot::Receiver<()>, ()>,
        releases: mpsc::UnboundedSender<oneshot::Sender<()>>,
    }

    impl Begin for Keeps {
        fn begin(&mut self, _: Request<RecvStream>, respond: SendResponse<Bytes>, cx: &mut Context<'_>) {
            let (release, released) = oneshot::channel();
            assert!(self.kept.add((released, (), respond), cx).is_none());
            self.releases.send(release).expect("the test receives");
        }

        fn answer_ready(&mut self, cx: &mut Context<'_>) {
            if self.kept.has_rung(cx) {
                let mut next = 0;
                while let Some((_, (), mut respond)) = self.kept.next_ready(&mut next) {
                    respond.send_response(Response::new(()), true).expect("sent");
                }
            }
        }
    }

    #[tokio::test]
    async fn ok_kept_calls_are_answered_once_they_can_be_even_during_a_stop() {
        let (stop, (releases, mut begun)) = (CancellationToken::new(), mpsc::unbounded_channel());
        let mut caller = serve(1 << 16, Keeps { kept: Waiting::new(), releases }, stop.clone()).await;
        let (first, second) = (send_call(&mut caller), send_call(&mut caller));
        let (_response, mut third) = caller.send_request(call(), false).expect("sent");
        let release_first = begun.recv().await.expect("a call");
        begun.recv().await.expect("a call").send(()).expect("kept");
        second.await.expect("an answer");
        let mut release_third = begun.recv().await.expect("a call");
        third.send_reset(Reason::CANCEL);
        let dropped = timeout(Duration::from_secs(60), release_third.closed());
        dropped.await.expect("the connection drops a call whose caller has given up");
        stop.cancel();
        let hears = async {
            while caller.clone().ready().await.is_ok() {
                task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), hears).await.expect("the caller hears of the stop");
        release_first.send(()).expect("kept");
        first.await.expect("an answer");
    }
}
