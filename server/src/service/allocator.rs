//! `Allocator`: blocks of identifiers, one by one or in a pipeline.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
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
    deadline::deadline,
    engine::{Engine, Granted},
    error::AllocateError,
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
        match answer_at_once(&self.engine, request.get_ref()) {
            Some((response, ..)) => Ok(Response::new(response)),
            None => {
                let deadline = deadline(request.metadata());
                // Boxed, for it is large and seldom needed.
                Box::pin(answer(&self.engine, request.get_ref(), deadline)).await.map(Response::new)
            }
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
        if this.answered.is_multiple_of(LOOK_EVERY) && this.draining.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        loop {
            if let Some(waiting) = &mut this.waiting {
                let reply = match waiting.as_mut().poll(cx) {
                    Poll::Ready(reply) => reply,
                    Poll::Pending => return this.poll_draining(cx),
                };
                this.waiting = None;
                return this.reply(reply);
            }
            let request = match Pin::new(&mut this.requests).poll_next(cx) {
                Poll::Ready(Some(Ok(request))) => request,
                Poll::Ready(Some(Err(broken))) => return Poll::Ready(Some(Err(broken))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return this.poll_draining(cx),
            };
            if let Some(granted) = answer_next(&this.engine, &request, &mut this.known) {
                return this.reply(AllocateStreamResponse { outcome: Some(Outcome::Granted(granted)) });
            }
            let engine = this.engine.clone();
            this.waiting = Some(Box::pin(async move {
                // A refusal does not end the stream.
                let outcome = match answer(&engine, &request, None).await {
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

/// Answers one request and counts it, if nothing has to be waited for and nothing is wrong; and says what had to be looked up.
fn answer_at_once(
    engine: &Engine,
    request: &AllocateRequest,
) -> Option<(AllocateResponse, AllocateInput, Arc<SourceMetrics>)> {
    let began = engine.clock().steady();
    let input = AllocateInput::try_from(request).ok()?;
    let (granted, took) = grant_at_once(engine, &input, began)?;
    let metrics = engine.metrics().source(&request.source);
    metrics.granted(granted.block.count(), took);
    Some((respond(&granted, input.packed), input, metrics))
}

/// Answers the next request of a stream in the same way, by what is known from the one before.
fn answer_next(engine: &Engine, request: &AllocateRequest, known: &mut Option<Known>) -> Option<AllocateResponse> {
    match known {
        Some(known) if known.source == request.source => {
            let began = engine.clock().steady();
            known.input.ask_again(request).ok()?;
            let (granted, took) = grant_at_once(engine, &known.input, began)?;
            known.metrics.granted(granted.block.count(), took);
            Some(respond(&granted, known.input.packed))
        }
        _ => {
            let (response, input, metrics) = answer_at_once(engine, request)?;
            *known = Some(Known { source: request.source.clone(), input, metrics });
            Some(response)
        }
    }
}

fn grant_at_once(engine: &Engine, input: &AllocateInput, began: Duration) -> Option<(Granted, Duration)> {
    let (granted, now) = engine.allocate_at_once(input)?;
    Some((granted, now.saturating_sub(began)))
}

/// Answers one request and counts it, waiting as long as `deadline` allows.
async fn answer(
    engine: &Engine,
    request: &AllocateRequest,
    deadline: Option<Duration>,
) -> Result<AllocateResponse, Status> {
    let began = engine.clock().steady();
    match grant(engine, request, deadline).await {
        Ok((granted, packed)) => {
            let took = engine.clock().steady().saturating_sub(began);
            engine.metrics().source(&request.source).granted(granted.block.count(), took);
            Ok(respond(&granted, packed))
        }
        Err(error) => {
            let refused = status::from_allocate(&error);
            engine.metrics().refused(&request.source, code_name(refused.code()));
            Err(refused)
        }
    }
}

async fn grant(
    engine: &Engine,
    request: &AllocateRequest,
    deadline: Option<Duration>,
) -> Result<(Granted, bool), AllocateError> {
    let input = AllocateInput::try_from(request)?;
    let granted = engine.allocate(&input, deadline).await?;
    Ok((granted, input.packed))
}

fn respond(granted: &Granted, packed: bool) -> AllocateResponse {
    let identifiers = match packed {
        true => Identifiers::Packed(v1::PackedIdentifiers::from(&granted.block)),
        false => Identifiers::Lease(v1::Block::from(&granted.block)),
    };
    AllocateResponse { identifiers: Some(identifiers), clock_epoch: granted.clock_epoch }
}
