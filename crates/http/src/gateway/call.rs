//! Calls the gRPC services within the process.

use std::{pin::pin, sync::Arc, time::Duration};

use axum::{
    body::{self, Body},
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, uri::PathAndQuery},
};
use bytes::Bytes;
use futures_util::future::poll_immediate;
use kent_engine::status;
use kent_proto::{
    codec::BytesCodec,
    v1::{self, AllocateRequest, allocator_server::Allocator},
};
use kent_transport::{
    allocator::AllocatorService,
    issued::{Issued, TakesIssued},
    peer::Peer,
    port::InnerPort,
};
use prost::Message;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time,
};
use tonic::{Status, client::Grpc, codegen::http::header::AUTHORIZATION, metadata::MetadataMap};

/// Calls the services.
#[derive(Clone)]
pub(super) struct Calls {
    port: InnerPort,
    /// The service to which the port passes calls for identifiers.
    allocator: Arc<AllocatorService>,
    /// The maximum size of a request, in bytes.
    bytes_max: usize,
    permits: Arc<Semaphore>,
}

/// The answer to a call for identifiers.
pub(super) enum Answered {
    Issued(Issued),
    /// An encoded message.
    Message(Bytes),
}

/// The caller of a request, as the services see it.
#[derive(Clone)]
pub(super) struct From {
    metadata: MetadataMap,
    peer: Option<Peer>,
}

/// The path of the gRPC method that issues identifiers.
pub(super) const ALLOCATE: PathAndQuery = PathAndQuery::from_static("/kent.v1.Allocator/Allocate");

/// The maximum number of concurrent calls. Converting a message keeps two copies of the message in memory.
const CALLS_MAX: usize = 128;

/// The time within which the whole request must arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The headers that the services read.
const PASSED_ON: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("kent-principal"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
];

impl From {
    /// The caller of an HTTP request. The caller waits for up to `timeout_ms`.
    pub(super) fn new(request: &Request, timeout_ms: Option<u64>) -> Self {
        let mut headers = HeaderMap::new();
        for name in PASSED_ON {
            if let Some(value) = request.headers().get(&name) {
                headers.insert(name, value.clone());
            }
        }
        if let Some(millis) = timeout_ms
            && let Ok(value) = HeaderValue::try_from(format!("{millis}m"))
        {
            headers.insert("grpc-timeout", value);
        }
        Self { metadata: MetadataMap::from_headers(headers), peer: request.extensions().get::<Peer>().cloned() }
    }

    /// Adds the caller to a request.
    fn on<T>(self, mut request: tonic::Request<T>) -> tonic::Request<T> {
        *request.metadata_mut() = self.metadata;
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        request
    }
}

impl Calls {
    pub(super) fn new(port: InnerPort, allocator: Arc<AllocatorService>, bytes_max: usize) -> Self {
        Self { port, allocator, bytes_max, permits: Arc::new(Semaphore::new(CALLS_MAX)) }
    }

    /// Counts a call until the permit is dropped.
    ///
    /// # Errors
    ///
    /// The status for a call beyond the limit.
    pub(super) fn begin(&self) -> Result<OwnedSemaphorePermit, Status> {
        self.permits.clone().try_acquire_owned().map_err(|_| status::too_many("HTTP", CALLS_MAX))
    }

    /// Reads the body of a call to a method. If the body has not arrived yet, the caller must be known. A service also
    /// refuses unknown callers, and counts what they asked for.
    ///
    /// # Errors
    ///
    /// The status for an unknown caller, or for a body that is too large or arrives too slowly.
    pub(super) async fn read(&self, path: &PathAndQuery, from: &From, body: Body) -> Result<Bytes, Status> {
        let mut reading = pin!(body::to_bytes(body, self.bytes_max));
        let read = match poll_immediate(&mut reading).await {
            Some(read) => read,
            None => {
                self.port.check(path.path(), from.metadata.as_ref(), from.peer.as_ref())?;
                let in_time = time::timeout(REQUEST_TIMEOUT, reading).await;
                in_time.map_err(|_| status::request_too_slow(REQUEST_TIMEOUT))?
            }
        };
        read.map_err(|_| status::request_too_large(self.bytes_max))
    }

    /// Calls a method with an encoded message, and returns the encoded answer.
    ///
    /// # Errors
    ///
    /// The status with which the service refuses the call.
    pub(super) async fn unary(&self, path: PathAndQuery, from: From, message: Bytes) -> Result<Bytes, Status> {
        Ok(self.call(path, from, tonic::Request::new(message)).await?.into_inner())
    }

    /// Requests identifiers. A request for text does not pass through the port, which would encode and decode the
    /// messages. The service does everything else itself: it identifies the caller, and counts and audits the call.
    ///
    /// # Errors
    ///
    /// The status with which the service refuses the call.
    pub(super) async fn allocate(&self, from: From, message: AllocateRequest) -> Result<Answered, Status> {
        if self.port.is_tracing() || message.encoding() != v1::Encoding::Text {
            return self.issue(ALLOCATE, from, message.encode_to_vec().into()).await;
        }
        let mut request = tonic::Request::new(message);
        request.extensions_mut().insert(TakesIssued);
        let mut response = self.allocator.allocate(from.on(request)).await?;
        Ok(match response.extensions_mut().remove() {
            Some(issued) => Answered::Issued(issued),
            None => Answered::Message(response.into_inner().encode_to_vec().into()),
        })
    }

    /// Like [`Calls::unary`], for a call that may answer with a block of identifiers.
    ///
    /// # Errors
    ///
    /// The status with which the service refuses the call.
    pub(super) async fn issue(&self, path: PathAndQuery, from: From, message: Bytes) -> Result<Answered, Status> {
        let mut request = tonic::Request::new(message);
        request.extensions_mut().insert(TakesIssued);
        let mut response = self.call(path, from, request).await?;
        Ok(match response.extensions_mut().remove() {
            Some(issued) => Answered::Issued(issued),
            None => Answered::Message(response.into_inner()),
        })
    }

    async fn call(
        &self,
        path: PathAndQuery,
        from: From,
        request: tonic::Request<Bytes>,
    ) -> Result<tonic::Response<Bytes>, Status> {
        // No limit is needed, because the answer comes from this process, which limits the size of its answers.
        let mut grpc = Grpc::new(self.port.clone()).max_decoding_message_size(usize::MAX);
        // OK because the dispatcher is always ready.
        let _ = grpc.ready().await;
        grpc.unary(from.on(request), path, BytesCodec).await
    }

    /// Calls a method with a message.
    ///
    /// # Errors
    ///
    /// The same as for [`Calls::unary`].
    pub(super) async fn typed<A: Message + Default>(
        &self,
        path: &'static str,
        from: From,
        message: &impl Message,
    ) -> Result<A, Status> {
        let answer = self.unary(PathAndQuery::from_static(path), from, message.encode_to_vec().into()).await?;
        A::decode(answer).map_err(|_| status::broken_answer())
    }
}
