//! `Allocator`: blocks of identifiers, one by one or in a pipeline.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::Stream;
use kent_proto::{
    model::{AllocateInput, code_name},
    v1::{
        self, AllocateRequest, AllocateResponse, AllocateStreamResponse, allocate_response::Identifiers,
        allocate_stream_response::Outcome, allocator_server::Allocator,
    },
};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Request, Response, Status, Streaming};

use crate::{
    engine::{Engine, Granted},
    error::AllocateError,
    grant::held::AtOnce,
    host::deadline::{Patience, deadline},
    issuing::queue::Promise,
    metrics::{SourceMetrics, StreamGuard},
    status,
};

/// The service.
#[derive(Debug)]
pub(crate) struct AllocatorService {
    engine: Arc<Engine>,
}

impl AllocatorService {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

#[tonic::async_trait]
impl Allocator for AllocatorService {
    type AllocateStreamStream = Replies;

    async fn allocate(&self, request: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
        let call = Call::new(&self.engine, request.get_ref());
        let patience = || call.patience(deadline(request.metadata()));
        match call.begin(patience) {
            Ok(response) => Ok(Response::new(response)),
            Err(rest) => call.go_on(rest, patience()).await.map(Response::new),
        }
    }

    async fn allocate_stream(&self, request: Request<Streaming<AllocateRequest>>) -> Result<Response<Replies>, Status> {
        let max = self.engine.limits().streams;
        let open = self.engine.metrics().gauges().open_stream(max).ok_or_else(|| status::too_many_streams(max))?;
        Ok(Response::new(Replies {
            requests: request.into_inner(),
            draining: Box::pin(self.engine.draining().clone().cancelled_owned()),
            engine: self.engine.clone(),
            known: None,
            waiting: None,
            answered: 0,
            _open: open,
        }))
    }
}

/// The answers to a stream of requests, in their order.
///
/// A request is taken in only after the one before it has been answered, and a block belongs to the one message that carries
/// it: a client that goes away in the middle leaves nothing behind that another could get.
pub(crate) struct Replies {
    requests: Streaming<AllocateRequest>,
    draining: Pin<Box<WaitForCancellationFutureOwned>>,
    engine: Arc<Engine>,
    known: Option<Known>,
    /// The answer to a request that cannot be answered at once.
    waiting: Option<Pin<Box<dyn Future<Output = AllocateStreamResponse> + Send>>>,
    answered: u32,
    /// The call counts as open until its stream is dropped.
    _open: StreamGuard,
}

/// A stream that never runs out of requests looks as often as this whether the daemon is stopping.
const LOOK_EVERY: u32 = 64;

impl Stream for Replies {
    type Item = Result<AllocateStreamResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        // What was asked for is answered first, which takes no longer than patience: it may be durable already.
        let is_answered = this.waiting.is_none();
        if is_answered && this.answered.is_multiple_of(LOOK_EVERY) && this.draining.as_mut().poll(cx).is_ready() {
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
            let (began, begun) = (call.began, call.begin_next(&mut this.known));
            let rest = match begun {
                Ok(granted) => {
                    return this.reply(AllocateStreamResponse { outcome: Some(Outcome::Granted(granted)) });
                }
                Err(rest) => rest,
            };
            let engine = this.engine.clone();
            this.waiting = Some(Box::pin(async move {
                let call = Call { engine: &engine, request: &request, began };
                // A refusal does not end the stream.
                let outcome = match call.go_on(rest, call.patience(None)).await {
                    Ok(granted) => Outcome::Granted(granted),
                    Err(refused) => Outcome::Refused(status::to_wire(&refused)),
                };
                AllocateStreamResponse { outcome: Some(outcome) }
            }));
        }
    }
}

impl Replies {
    fn reply(&mut self, reply: AllocateStreamResponse) -> Poll<Option<Result<AllocateStreamResponse, Status>>> {
        self.answered = self.answered.wrapping_add(1);
        Poll::Ready(Some(Ok(reply)))
    }

    /// Nothing to answer for now: ends if the daemon is stopping.
    fn poll_draining<T>(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.draining.as_mut().poll(cx).map(|()| None)
    }
}

/// What a caller asked for last: it is likely to ask for it again, and then nothing needs to be looked up.
struct Known {
    source: String,
    input: AllocateInput,
    metrics: Arc<SourceMetrics>,
}

/// A request, and when it came.
#[derive(Clone, Copy)]
struct Call<'a> {
    engine: &'a Engine,
    request: &'a AllocateRequest,
    began: Duration,
}

/// What is left to be done of a call that is not answered at once.
enum Rest {
    /// To wait for a block that is promised, to be packed or not.
    Promised(Promise, bool),
    /// Everything: something has to be waited for, or is wrong.
    All,
}

impl<'a> Call<'a> {
    fn new(engine: &'a Engine, request: &'a AllocateRequest) -> Self {
        Self { engine, request, began: engine.clock().steady() }
    }

    /// As long as the caller waits at the most, and we for it.
    fn patience(&self, deadline: Option<Duration>) -> Patience {
        Patience::new(self.began, deadline)
    }

    /// Answers and counts the call, if nothing has to be waited for and nothing is wrong.
    fn begin(self, patience: impl FnOnce() -> Patience) -> Result<AllocateResponse, Rest> {
        let input = AllocateInput::try_from(self.request).map_err(|_| Rest::All)?;
        self.begin_with(&input, patience, |count, took| self.metrics().granted(count, took))
    }

    /// The next call of a stream, by what is known from the one before.
    fn begin_next(self, known: &mut Option<Known>) -> Result<AllocateResponse, Rest> {
        let patience = || self.patience(None);
        if let Some(Known { source, input, metrics }) = known
            && *source == self.request.source
        {
            input.ask_again(self.request).map_err(|_| Rest::All)?;
            return self.begin_with(input, patience, |count, took| metrics.granted(count, took));
        }
        let input = AllocateInput::try_from(self.request).map_err(|_| Rest::All)?;
        let begun = self.begin_with(&input, patience, |count, took| self.metrics().granted(count, took));
        if !matches!(begun, Err(Rest::All)) {
            *known = Some(Known { source: self.request.source.clone(), input, metrics: self.metrics() });
        }
        begun
    }

    fn begin_with(
        self,
        input: &AllocateInput,
        patience: impl FnOnce() -> Patience,
        count: impl FnOnce(u64, Duration),
    ) -> Result<AllocateResponse, Rest> {
        match self.engine.allocate_at_once(input, patience).ok_or(Rest::All)? {
            AtOnce::Granted(granted, now) => {
                count(granted.block.count(), now.saturating_sub(self.began));
                Ok(respond(&granted, input.packed))
            }
            AtOnce::Promised(promise) => Err(Rest::Promised(promise, input.packed)),
        }
    }

    /// Goes on with a call, waiting as long as the caller has patience.
    async fn go_on(self, rest: Rest, patience: Patience) -> Result<AllocateResponse, Status> {
        match rest {
            Rest::Promised(promise, packed) => match self.engine.await_promise(promise).await.transpose() {
                Some(granted) => self.conclude(granted, packed),
                None => self.grant(patience).await,
            },
            Rest::All => self.grant(patience).await,
        }
    }

    // Boxed, for it is large and seldom needed.
    fn grant(self, patience: Patience) -> Pin<Box<dyn Future<Output = Result<AllocateResponse, Status>> + Send + 'a>> {
        Box::pin(async move {
            match AllocateInput::try_from(self.request) {
                Ok(input) => self.conclude(self.engine.allocate(&input, patience).await, input.packed),
                Err(bad) => self.conclude(Err(bad.into()), false),
            }
        })
    }

    /// Answers, and counts.
    fn conclude(self, granted: Result<Granted, AllocateError>, packed: bool) -> Result<AllocateResponse, Status> {
        match granted {
            Ok(granted) => {
                let took = self.engine.clock().steady().saturating_sub(self.began);
                self.metrics().granted(granted.block.count(), took);
                Ok(respond(&granted, packed))
            }
            Err(error) => {
                let refused = status::from_allocate(&error);
                self.engine.metrics().refused(&self.request.source, code_name(refused.code()));
                Err(refused)
            }
        }
    }

    fn metrics(self) -> Arc<SourceMetrics> {
        self.engine.metrics().source(&self.request.source)
    }
}

fn respond(granted: &Granted, packed: bool) -> AllocateResponse {
    let identifiers = match packed {
        true => Identifiers::Packed(v1::PackedIdentifiers::from(&granted.block)),
        false => Identifiers::Lease(v1::Block::from(&granted.block)),
    };
    AllocateResponse { identifiers: Some(identifiers), clock_epoch: granted.clock_epoch }
}
