//! `Allocator`: blocks of identifiers, one by one or in a pipeline.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt};
use kent_proto::{
    model::{AllocateInput, code_name},
    v1::{
        self, AllocateRequest, AllocateResponse, AllocateStreamResponse, allocate_response::Identifiers,
        allocate_stream_response::Outcome, allocator_server::Allocator,
    },
};
use tonic::{Request, Response, Status, Streaming};

use crate::{
    deadline::deadline,
    engine::{Engine, Granted},
    error::AllocateError,
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
    type AllocateStreamStream = Pin<Box<dyn Stream<Item = Result<AllocateStreamResponse, Status>> + Send>>;

    async fn allocate(&self, request: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
        let deadline = deadline(request.metadata());
        answer(&self.engine, request.into_inner(), deadline).await.map(Response::new)
    }

    async fn allocate_stream(
        &self,
        request: Request<Streaming<AllocateRequest>>,
    ) -> Result<Response<Self::AllocateStreamStream>, Status> {
        let max = self.engine.limits().streams;
        let open = self.engine.metrics().gauges().open_stream(max).ok_or_else(|| status::too_many_streams(max))?;
        let engine = self.engine.clone();
        let draining = engine.draining().clone().cancelled_owned();
        // A request is taken in only after the one before it has been answered, and a block belongs to the one message that
        // carries it: a client that goes away in the middle leaves nothing behind that another could get.
        let replies = request.into_inner().then(move |request| {
            let engine = engine.clone();
            async move { reply(&engine, request?).await }
        });
        // The call counts as open until its stream is dropped.
        let counted = replies.take_until(draining).map(move |reply| {
            let _open = &open;
            reply
        });
        Ok(Response::new(Box::pin(counted)))
    }
}

/// Answers one request of a stream. A refusal does not end the stream.
async fn reply(engine: &Engine, request: AllocateRequest) -> Result<AllocateStreamResponse, Status> {
    let outcome = match answer(engine, request, None).await {
        Ok(granted) => Outcome::Granted(granted),
        Err(refused) => Outcome::Refused(status::to_wire(&refused)),
    };
    Ok(AllocateStreamResponse { outcome: Some(outcome) })
}

/// Answers one request, and counts it.
async fn answer(
    engine: &Engine,
    request: AllocateRequest,
    deadline: Option<Duration>,
) -> Result<AllocateResponse, Status> {
    let began = engine.clock().steady();
    match grant(engine, &request, deadline).await {
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
