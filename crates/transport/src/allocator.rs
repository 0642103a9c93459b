//! `Allocator`: grants blocks of identifiers, by single calls or by a stream.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::Stream;
use kent_access::Charge;
use kent_engine::{
    auth::{Asked, Caller, Denied, Open},
    engine::Engine,
    error::{AllocateError, Exhausted},
    grant::{Granted, TryGrant, Wait, check_max},
    host::{
        call,
        deadline::{WaitLimit, deadline},
        trace::Trace,
    },
    issuing::queue::{self, PendingGrant},
    metrics::{SourceMetrics, StreamGuard},
    status,
};
use kent_ids::{Block, Source};
use kent_proto::{
    model::{AllocateInput, Encoding, Invalid, code_name, layout_texts, texts},
    pieces::Pieces,
    v1::{
        self, AllocateRequest, AllocateResponse, AllocateStreamResponse, allocate_response::Identifiers,
        allocate_stream_response::Outcome, allocator_server::Allocator,
    },
};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Request, Response, Status, Streaming};

use crate::{
    callers::{Session, identify, on_behalf_of},
    issued::{Form, Issued, TakesIssued},
    peer::Peer,
    pieces::Large,
};

/// The `Allocator` service.
#[derive(Debug)]
pub struct AllocatorService {
    engine: Arc<Engine>,
    /// Whether some calls are traced.
    is_tracing: bool,
    /// Whether unary calls get runs of integers, whatever their messages ask for.
    issues_integers: bool,
}

impl AllocatorService {
    /// Creates the service. `is_tracing` says whether some calls are traced.
    pub fn new(engine: Arc<Engine>, is_tracing: bool) -> Self {
        Self { engine, is_tracing, issues_integers: false }
    }

    /// Creates a service whose unary calls answer with [`Issued`], which holds a run of integers. Only callers in this
    /// process may reach it.
    pub fn of_integers(engine: Arc<Engine>) -> Self {
        Self { engine, is_tracing: false, issues_integers: true }
    }

    /// Answers a unary call, unless its grant has to wait.
    pub(crate) fn try_allocate(&self, request: &Request<AllocateRequest>) -> Result<Tried, Status> {
        let call = Call::new(&self.engine, request.get_ref());
        let denied = |denied: Denied| refuse_unary(call, request, denied.into());
        let caller = identify(self.engine.auth(), request, call.began).map_err(denied)?;
        let trace = self.trace(request, &caller);
        caller.charge_call(call.began).map_err(denied)?;
        let mut input = AllocateInput::try_from(request.get_ref()).map_err(|bad| call.refuse(&bad.into()))?;
        if self.issues_integers {
            input.encoding = Encoding::Integers;
        }
        let charge = caller.charge_ids(input.count, call.began).map_err(denied)?;
        match self.engine.grants().try_grant(&input, &caller, || call.unary_limit(request)) {
            Ok(TryGrant::Granted(granted, now)) => {
                call.metrics().granted(granted.block.count(), now.saturating_sub(call.began));
                Ok(Tried::Answered(call.answer(&granted, &input, request)))
            }
            Ok(TryGrant::Wait(wait)) => {
                self.engine.metrics().waited(wait.reason());
                let unanswered = Box::new(Unanswered { began: call.began, caller, trace, input, charge });
                Ok(match wait {
                    Wait::Strict(pending) => Tried::Strict(pending, unanswered),
                    wait => Tried::Waits(wait, unanswered),
                })
            }
            Err(error) => Err(refuse_unary(call.give_back(&caller, charge), request, error)),
        }
    }

    /// Answers a unary call whose strict grant has this outcome, unless the call needs [`finish`](Self::finish). The
    /// call must not be traced, because only `finish` ends the part of the trace for the wait.
    pub(crate) fn try_finish(
        &self,
        request: &Request<AllocateRequest>,
        mut unanswered: Box<Unanswered>,
        outcome: queue::Outcome,
    ) -> Result<Tried, Status> {
        let Ok(Some(block)) = outcome else {
            return Ok(Tried::Waits(Wait::Strict(PendingGrant::known(outcome)), unanswered));
        };
        let Unanswered { began, caller, input, charge, .. } = &mut *unanswered;
        let call = Call { engine: &self.engine, request: request.get_ref(), began: *began };
        match self.engine.grants().committed(input, block, *began) {
            Ok(granted) => Ok(Tried::Answered(call.answer(&call.record(granted), input, request))),
            Err(error) => Err(refuse_unary(call.give_back(caller, charge.take()), request, error)),
        }
    }

    /// The time that the caller still allows for the answer; `None` if it is not limited.
    pub(crate) fn time_left(&self, request: &Request<AllocateRequest>, unanswered: &Unanswered) -> Option<Duration> {
        let waited = self.engine.clock().steady().saturating_sub(unanswered.began);
        Some(deadline(request.metadata().as_ref())?.saturating_sub(waited))
    }

    /// Answers a unary call whose grant has to wait.
    pub(crate) async fn finish(
        &self,
        request: &Request<AllocateRequest>,
        wait: Wait,
        unanswered: Box<Unanswered>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let Unanswered { began, caller, trace, input, charge } = *unanswered;
        let call = Call { engine: &self.engine, request: request.get_ref(), began };
        let caller = caller.asking(asked(request));
        let peer = request.extensions().get::<Peer>().map(|peer| peer.address);
        let of = call::Call::new(ALLOCATE, caller.proved().unwrap_or_default().to_owned(), peer);
        let of = of.with_request_id(&input.request_id).with_trace(trace.clone());
        let _part = trace.map(|trace| {
            let mut part = trace.part("wait");
            part.note("kent.reason", wait.reason());
            part
        });
        let granted = call.finish(&input, (&caller, charge), wait, call.unary_limit(request));
        Ok(call.answer(&call::of(of, granted).await?, &input, request))
    }

    /// Returns the span of a call for identifiers, with its attributes, if the call is traced.
    fn trace(&self, request: &Request<AllocateRequest>, caller: &Caller) -> Option<Trace> {
        if !self.is_tracing {
            return None;
        }
        let trace = request.extensions().get::<Trace>()?;
        let AllocateRequest { source, count, request_id, .. } = request.get_ref();
        trace.note("kent.principal", caller.proved().unwrap_or_default());
        trace.note("kent.source", source);
        trace.note_number("kent.count", *count);
        trace.note("kent.request_id", request_id);
        Some(trace.clone())
    }
}

/// The outcome of trying a unary call that was not refused.
pub(crate) enum Tried {
    Answered(Response<AllocateResponse>),
    /// The call waits for the outcome of a strict grant.
    Strict(PendingGrant, Box<Unanswered>),
    /// The call needs [`AllocatorService::finish`].
    Waits(Wait, Box<Unanswered>),
}

/// A unary call whose grant has to wait.
pub(crate) struct Unanswered {
    began: Duration,
    caller: Caller,
    trace: Option<Trace>,
    input: AllocateInput,
    charge: Option<Charge>,
}

#[tonic::async_trait]
impl Allocator for AllocatorService {
    type AllocateStreamStream = Replies;

    async fn allocate(&self, request: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
        match self.try_allocate(&request)? {
            Tried::Answered(response) => Ok(response),
            Tried::Strict(pending, unanswered) => self.finish(&request, Wait::Strict(pending), unanswered).await,
            Tried::Waits(wait, unanswered) => self.finish(&request, wait, unanswered).await,
        }
    }

    async fn allocate_stream(&self, request: Request<Streaming<AllocateRequest>>) -> Result<Response<Replies>, Status> {
        let session = Session::begin(&self.engine, &request)?;
        // The port has already counted the call, so only the open stream is counted here.
        let own = session.caller().open_stream().map_err(|denied| status::from_denied(&denied))?;
        let max = self.engine.streams();
        let open = self.engine.metrics().gauges().open_stream(max).ok_or_else(|| status::too_many_streams(max))?;
        Ok(Response::new(Replies {
            requests: request.into_inner(),
            session,
            draining: Box::pin(self.engine.draining().clone().cancelled_owned()),
            engine: self.engine.clone(),
            known: None,
            waiting: None,
            answered: 0,
            _open: (open, own),
        }))
    }
}

/// The answers to a stream of requests, in the order of the requests.
///
/// A request is read only after the previous one is answered, and each block belongs to exactly one message. Another
/// client therefore cannot get a block that was meant for a client that has disconnected.
pub struct Replies {
    requests: Streaming<AllocateRequest>,
    session: Session,
    draining: Pin<Box<WaitForCancellationFutureOwned>>,
    engine: Arc<Engine>,
    known: Option<Known>,
    /// The future answer to a request that has to wait.
    waiting: Option<Pin<Box<dyn Future<Output = Outcome> + Send>>>,
    answered: u32,
    /// Counts the call as open, for the daemon and for its caller, until the stream is dropped.
    _open: (StreamGuard, Option<Open>),
}

/// After this many answers, a stream with a steady supply of requests checks whether the daemon is stopping.
const DRAIN_CHECK_INTERVAL: u32 = 64;

impl Stream for Replies {
    type Item = Result<AllocateStreamResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        // A pending request is answered first, because its grant may already be durable. The answer takes at most the
        // wait limit.
        let is_answered = this.waiting.is_none();
        if is_answered
            && this.answered.is_multiple_of(DRAIN_CHECK_INTERVAL)
            && this.draining.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        loop {
            if let Some(waiting) = &mut this.waiting {
                let reply = ready!(waiting.as_mut().poll(cx));
                this.waiting = None;
                return this.reply(reply);
            }
            let request = match Pin::new(&mut this.requests).poll_next(cx) {
                Poll::Ready(Some(Ok(request))) => request,
                Poll::Ready(Some(Err(broken))) => return Poll::Ready(Some(Err(broken))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return this.poll_draining(cx),
            };
            let call = Call::new(&this.engine, &request);
            let began = call.began;
            if let Err(denied) = this.session.renew(began) {
                return Poll::Ready(Some(Err(call.refuse(&denied.into()))));
            }
            let caller = this.session.caller();
            let started = call.start_next(&mut this.known, caller);
            let (input, charge, wait) = match started {
                Ok(Started::Granted(granted)) => return this.reply(Outcome::Granted(granted)),
                Ok(Started::Wait(input, charge, wait)) => (input, charge, wait),
                // An error of one request does not end the stream.
                Err(refused) => return this.reply(Outcome::Refused(status::to_wire(&refused))),
            };
            let (engine, caller) = (this.engine.clone(), caller.clone());
            this.waiting = Some(Box::pin(async move {
                let call = Call { engine: &engine, request: &request, began };
                match call.finish(&input, (&caller, charge), wait, call.wait_limit(None)).await {
                    Ok(granted) => Outcome::Granted(call.respond(&granted, &input)),
                    Err(refused) => Outcome::Refused(status::to_wire(&refused)),
                }
            }));
        }
    }
}

impl Replies {
    fn reply(&mut self, outcome: Outcome) -> Poll<Option<Result<AllocateStreamResponse, Status>>> {
        self.answered = self.answered.wrapping_add(1);
        Poll::Ready(Some(Ok(AllocateStreamResponse { outcome: Some(outcome) })))
    }

    /// Ends the stream if it has nothing to answer and the daemon is stopping.
    fn poll_draining<T>(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.draining.as_mut().poll(cx).map(|()| None)
    }
}

/// The source of a stream's last request. It is kept to save lookups, because the next request is likely to name it
/// again.
struct Known {
    source: String,
    input: Arc<AllocateInput>,
    metrics: Arc<SourceMetrics>,
}

/// A request, and its arrival time.
#[derive(Clone, Copy)]
struct Call<'a> {
    engine: &'a Engine,
    request: &'a AllocateRequest,
    began: Duration,
}

/// The outcome of starting a stream's next request, unless the request was rejected.
enum Started {
    Granted(AllocateResponse),
    Wait(Arc<AllocateInput>, Option<Charge>, Wait),
}

impl<'a> Call<'a> {
    fn new(engine: &'a Engine, request: &'a AllocateRequest) -> Self {
        let began = engine.clock().steady();
        engine.arrivals().note(began);
        Self { engine, request, began }
    }

    /// The limit on how long this call may wait.
    fn wait_limit(&self, deadline: Option<Duration>) -> WaitLimit {
        WaitLimit::new(self.began, deadline)
    }

    /// The limit on how long this unary call may wait.
    fn unary_limit(&self, request: &Request<AllocateRequest>) -> WaitLimit {
        self.wait_limit(deadline(request.metadata().as_ref()))
    }

    /// Starts the next request of a stream, reusing the lookups of the previous one.
    fn start_next(self, known: &mut Option<Known>, caller: &Caller) -> Result<Started, Status> {
        caller.charge_call(self.began).map_err(|denied| self.refuse(&denied.into()))?;
        if known.as_ref().is_none_or(|known| known.source != self.request.source) {
            *known = None;
        }
        let input = match known {
            Some(known) => {
                Arc::make_mut(&mut known.input).ask_again(self.request).map_err(|bad| self.refuse(&bad.into()))?;
                known.input.clone()
            }
            None => Arc::new(AllocateInput::try_from(self.request).map_err(|bad| self.refuse(&bad.into()))?),
        };
        check_streamed(&input).map_err(|bad| self.refuse(&bad.into()))?;
        let charge = caller.charge_ids(input.count, self.began).map_err(|denied| self.refuse(&denied.into()))?;
        let tried = self.engine.grants().try_grant(&input, caller, || self.wait_limit(None));
        let tried = tried.map_err(|error| self.give_back(caller, charge).refuse(&error))?;
        // Metrics are kept only for sources that have granted, because callers can name any source.
        if known.is_none() && matches!(tried, TryGrant::Granted(..) | TryGrant::Wait(Wait::Strict(_))) {
            let (source, input) = (self.request.source.clone(), input.clone());
            *known = Some(Known { source, input, metrics: self.metrics() });
        }
        Ok(match tried {
            TryGrant::Granted(granted, now) => {
                if let Some(known) = known {
                    known.metrics.granted(granted.block.count(), now.saturating_sub(self.began));
                }
                Started::Granted(self.respond(&granted, &input))
            }
            TryGrant::Wait(wait) => {
                self.engine.metrics().waited(wait.reason());
                Started::Wait(input, charge, wait)
            }
        })
    }

    // Boxed, because the future is large and rarely needed.
    fn finish(
        self,
        input: &'a AllocateInput,
        (caller, charge): (&'a Caller, Option<Charge>),
        wait: Wait,
        wait_limit: WaitLimit,
    ) -> Pin<Box<dyn Future<Output = Result<Granted, Status>> + Send + 'a>> {
        Box::pin(async move {
            match self.engine.grants().finish(input, caller, wait, wait_limit).await {
                Ok(granted) => Ok(self.record(granted)),
                Err(error) => Err(self.give_back(caller, charge).refuse(&error)),
            }
        })
    }

    /// Records a grant that had to wait in the metrics.
    fn record(self, granted: Granted) -> Granted {
        let took = self.engine.clock().steady().saturating_sub(self.began);
        self.metrics().granted(granted.block.count(), took);
        granted
    }

    /// Credits the caller's limits with identifiers that were not granted.
    fn give_back(self, caller: &Caller, charge: Option<Charge>) -> Self {
        caller.give_back(charge, self.engine.clock().steady());
        self
    }

    /// Creates the status of an error, and counts the error.
    fn refuse(self, error: &AllocateError) -> Status {
        let refused = match error {
            AllocateError::Exhausted(full) => {
                let wanted = full.requested.max(self.request.needed);
                status::from_allocate(&AllocateError::Exhausted(Box::new(Exhausted { wanted, ..(**full).clone() })))
            }
            AllocateError::Denied(denied) => {
                status::from_denied(&denied.clone().with_request_id(&self.request.request_id))
            }
            error => status::from_allocate(error),
        };
        self.engine.metrics().refused(&self.request.source, code_name(refused.code()));
        refused
    }

    /// Answers a unary call.
    fn answer(
        self,
        granted: &Granted,
        input: &AllocateInput,
        request: &Request<AllocateRequest>,
    ) -> Response<AllocateResponse> {
        let count = granted.block.count();
        let takes_issued = match input.encoding {
            Encoding::Integers => true,
            Encoding::Text => request.extensions().get::<TakesIssued>().is_some(),
            Encoding::Lease | Encoding::Packed => false,
        };
        if takes_issued {
            let grants = self.engine.grants();
            let form = match grants.spelling(&input.source) {
                Some(layout) => Form::Layout(layout.spelling.clone()),
                None => Form::Space(grants.text_form(&input.source)),
            };
            let mut response = Response::new(AllocateResponse::default());
            let (block, clock_epoch) = (granted.block.clone(), granted.clock_epoch);
            response.extensions_mut().insert(Issued { block, form, clock_epoch });
            return response;
        }
        let pieces = match input.encoding {
            Encoding::Packed if count > PACKED_WHOLE => Pieces::packed(&granted.block, granted.clock_epoch),
            Encoding::Text if count > TEXT_WHOLE => {
                let (grants, block) = (self.engine.grants(), &granted.block);
                match grants.spelling(&input.source) {
                    Some(layout) => Pieces::spelled(block, &layout.spelling, granted.clock_epoch),
                    None => Pieces::texts(block, grants.text_form(&input.source), granted.clock_epoch),
                }
            }
            _ => return Response::new(self.respond(granted, input)),
        };
        let permits = request.extensions().get::<Peer>().map(Peer::unread);
        let mut response = Response::new(AllocateResponse::default());
        response.extensions_mut().insert(Large::new(pieces, permits));
        response
    }

    fn respond(self, granted: &Granted, input: &AllocateInput) -> AllocateResponse {
        let identifiers = match input.encoding {
            Encoding::Lease | Encoding::Integers => Identifiers::Lease(v1::Block::from(&granted.block)),
            Encoding::Packed => Identifiers::Packed(v1::PackedIdentifiers::from(&granted.block)),
            Encoding::Text => Identifiers::Text(self.texts(&granted.block, &input.source)),
        };
        AllocateResponse { identifiers: Some(identifiers), clock_epoch: granted.clock_epoch }
    }

    fn texts(self, block: &Block, source: &Source) -> v1::TextIdentifiers {
        let grants = self.engine.grants();
        match grants.spelling(source) {
            Some(layout) => layout_texts(block, &layout.spelling),
            None => texts(block, grants.text_form(source)),
        }
    }

    fn metrics(self) -> Arc<SourceMetrics> {
        self.engine.metrics().source(&self.request.source)
    }
}

/// Checks the size of an answer in a stream, where each answer is created as a whole.
fn check_streamed(input: &AllocateInput) -> Result<(), Invalid> {
    match input.encoding {
        Encoding::Lease | Encoding::Integers => Ok(()),
        Encoding::Packed => check_max(input.count.get(), PACKED_STREAMED, "packed in one reply of a stream"),
        Encoding::Text => check_max(input.count.get(), TEXT_STREAMED, "as text in one reply of a stream"),
    }
}

/// Returns the refusal of a unary call. The name of the method is added only here, because most calls are granted.
fn refuse_unary(call: Call<'_>, request: &Request<AllocateRequest>, error: AllocateError) -> Status {
    match error {
        AllocateError::Denied(denied) => call.refuse(&denied.of_call(asked(request)).into()),
        error => call.refuse(&error),
    }
}

/// The maximum number of identifiers in a unary call's answer that is created as a whole instead of in pieces.
const PACKED_WHOLE: u64 = 4096;
const TEXT_WHOLE: u64 = 1000;

/// The maximum number of identifiers in an answer of a stream. Such an answer, of up to 256 KiB, is created as a whole.
const PACKED_STREAMED: u64 = 16_384;
const TEXT_STREAMED: u64 = TEXT_WHOLE;

/// The full name of the unary method.
pub(crate) const ALLOCATE: &str = "kent.v1.Allocator/Allocate";

fn asked(request: &Request<AllocateRequest>) -> Arc<Asked> {
    Arc::new(Asked { method: ALLOCATE, on_behalf_of: on_behalf_of(request), ..Asked::default() })
}
