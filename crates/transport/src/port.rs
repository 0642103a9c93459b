//! Dispatches the calls of the gRPC port to the services by name.
//!
//! tonic's router takes longer to find a service, and to box the request and the answer, than a grant takes.
//! Kent's own services are therefore found by a comparison of their names, `Allocator`, which gets a hundred thousand calls
//! per second, first. Only health and reflection go through the router.

use std::{
    convert::Infallible,
    future,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::{BoxFuture, Either};
use kent_engine::{
    auth::{Asked, Auth, Caller, Credentials, Denied},
    host::{
        clock::Clock,
        trace::{Trace, Traces},
    },
    status,
};
use kent_proto::v1::allocator_server::AllocatorServer;
use tonic::{
    Status,
    body::Body,
    codegen::{
        Service,
        http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE, request::Parts},
    },
    server::NamedService,
    service::Routes,
};

use super::{
    allocator::AllocatorService,
    calls::{Begun, CallMetrics},
    direct::Direct,
    methods,
    offload::Offload,
    peer::{Peer, authorization, on_behalf_of},
    pieces::Answer,
    traced::traced,
};

/// The dispatcher of the gRPC port: the frequently used service, Kent's other services, and the router for health and
/// reflection. The frequently used service identifies the callers of its unary calls and counts the calls itself.
#[derive(Clone)]
pub struct GrpcPort {
    pub(super) direct: Direct,
    allocator: AllocatorServer<AllocatorService>,
    services: Arc<[Offload]>,
    others: Routes,
    auth: Arc<Auth>,
    clock: Arc<dyn Clock>,
    /// The name of the port in metrics.
    name: &'static str,
    metrics: CallMetrics,
    traces: Option<Traces>,
}

impl GrpcPort {
    /// Returns the services for calls that come through another port, of this name in metrics.
    pub fn through(&self, name: &'static str) -> InnerPort {
        InnerPort(Self { name, ..self.clone() })
    }
}

/// The dispatcher of the gRPC port, for calls that come through another port of the daemon. Its futures are boxed, so
/// that the code of a call is compiled only once, in this crate.
#[derive(Clone)]
pub struct InnerPort(GrpcPort);

impl InnerPort {
    /// Whether some calls are traced.
    pub fn is_tracing(&self) -> bool {
        self.0.traces.is_some()
    }

    /// Refuses a call whose caller is unknown, before the caller's message has arrived. Otherwise, unknown callers could
    /// occupy a port with messages that they never finish.
    ///
    /// # Errors
    ///
    /// The status with which the service would refuse the call.
    pub fn check(&self, path: &str, headers: &HeaderMap, peer: Option<&Peer>) -> Result<(), Status> {
        let Self(port) = self;
        let begun = Begun::new(port.name, path, &*port.clock);
        let Err(denied) = port.identify(path, headers, peer, port.clock.steady()) else { return Ok(()) };
        let refusal = status::from_denied(&denied);
        if !path.ends_with(FREQUENT) {
            port.metrics.observe(begun, &*port.clock, refusal.code());
        }
        Err(refusal)
    }
}

impl Service<Request<Body>> for InnerPort {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.answer(request))
    }
}

/// A future of the answer to a call. The answer of the frequently used service is not boxed.
pub(super) type Dispatched = Either<
    Answer<<AllocatorServer<AllocatorService> as Service<Request<Body>>>::Future>,
    BoxFuture<'static, Result<Response<Body>, Infallible>>,
>;

/// The frequently called method, whose service identifies the callers itself.
const FREQUENT: &str = "/Allocate";

/// The health service, which needs no credentials because load balancers call it.
const OPEN: &str = "grpc.health.v1.Health";

impl GrpcPort {
    /// Creates the port from its services. A request for identifiers may have at most `request_bytes` bytes.
    pub fn new(
        (service, request_bytes): (Arc<AllocatorService>, usize),
        (services, others): (Vec<Offload>, Routes),
        (auth, clock): (Arc<Auth>, Arc<dyn Clock>),
        metrics: CallMetrics,
        traces: Option<Traces>,
    ) -> Self {
        let allocator = AllocatorServer::from_arc(service.clone()).max_decoding_message_size(request_bytes);
        Self {
            direct: Direct { service, request_bytes },
            allocator,
            services: services.into(),
            others: others.prepare(),
            auth,
            clock,
            name: "grpc",
            metrics,
            traces,
        }
    }

    /// Identifies the caller and attaches it to the call, or rejects the call. Even a new service that checks nothing
    /// itself therefore rejects unknown callers. With `--auth off`, and to the [`OPEN`] service, calls pass without
    /// identification.
    fn admit(&self, request: &mut Request<Body>) -> Result<(), Denied> {
        let now = self.clock.steady();
        let peer = request.extensions().get::<Peer>();
        if let Some(caller) = self.identify(request.uri().path(), request.headers(), peer, now)? {
            caller.charge_call(now)?;
            request.extensions_mut().insert(caller);
        }
        Ok(())
    }

    /// Identifies the caller of a method, if the method needs it.
    fn identify(
        &self,
        path: &str,
        headers: &HeaderMap,
        peer: Option<&Peer>,
        now: Duration,
    ) -> Result<Option<Caller>, Denied> {
        if !self.auth.is_required() || is_of(OPEN, path) {
            return Ok(None);
        }
        let header = authorization(headers);
        let shown = peer.map_or_else(|| Credentials::unknown(header), |peer| peer.credentials(header));
        let asked = Arc::new(Asked {
            method: methods::known(path),
            on_behalf_of: on_behalf_of(headers),
            request_id: String::new(),
        });
        let caller = self.auth.identify(&shown, now).map_err(|denied| denied.of_call(asked.clone()))?;
        Ok(Some(caller.asking(asked)))
    }

    /// Begins the span of a call, if it is traced.
    fn trace(&self, request: &mut Request<Body>) -> Option<Trace> {
        let trace = self.traces.as_ref()?.begin(methods::known(request.uri().path()), self.name, request.headers())?;
        request.extensions_mut().insert(trace.clone());
        Some(trace)
    }

    /// Whether this call can be answered directly. Calls that may be traced take the longer way.
    pub(super) fn answers_directly(&self, head: &Parts) -> bool {
        self.traces.is_none() && Direct::serves(head)
    }

    /// Answers a call. tonic's services are always ready for one.
    pub(super) fn answer(&self, mut request: Request<Body>) -> Dispatched {
        match self.trace(&mut request) {
            None => self.dispatch(request),
            Some(trace) => Either::Right(Box::pin(traced(trace, self.dispatch(request)))),
        }
    }

    /// Passes a call to its service.
    fn dispatch(&self, mut request: Request<Body>) -> Dispatched {
        let is_allocator = is_of(AllocatorServer::<AllocatorService>::NAME, request.uri().path());
        if is_allocator && request.uri().path().ends_with(FREQUENT) {
            return Either::Left(Answer(self.allocator.clone().call(request)));
        }
        if !is_grpc(request.headers()) {
            return Either::Right(Box::pin(future::ready(Ok(not_grpc()))));
        }
        let begun = Begun::new(self.name, request.uri().path(), &*self.clock);
        let answer = match self.admit(&mut request) {
            Ok(()) if is_allocator => Either::Left(Answer(self.allocator.clone().call(request))),
            Ok(()) => match self.services.iter().find(|service| is_of(service.name(), request.uri().path())) {
                Some(service) => Either::Right(Either::Left(service.call(request))),
                None => Either::Right(Either::Right(Either::Left(self.others.clone().call(request)))),
            },
            Err(denied) => {
                Either::Right(Either::Right(Either::Right(future::ready(Ok(status::from_denied(&denied).into_http())))))
            }
        };
        let (metrics, clock) = (self.metrics.clone(), self.clock.clone());
        Either::Right(Box::pin(async move { metrics.measured(begun, &*clock, answer).await }))
    }
}

/// Whether a request is a gRPC call. The content type decides this, because browsers and curl may speak HTTP/2 as well.
fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// The answer to a request that is not a gRPC call, as the specification of gRPC over HTTP/2 requires.
fn not_grpc() -> Response<Body> {
    let text = "This port speaks gRPC. For curl, use the HTTP port (kentd --http; by default port 7601).\n";
    let mut answer = Response::new(Body::new(text.to_owned()));
    *answer.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

/// Whether a path is `/SERVICE/METHOD` with this service and any method.
fn is_of(service: &str, path: &str) -> bool {
    let method =
        path.strip_prefix('/').and_then(|path| path.strip_prefix(service)).and_then(|path| path.strip_prefix('/'));
    method.is_some_and(|method| !method.is_empty())
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn ok_a_service_is_found_by_its_whole_name() {
        let paths = [
            ("/kent.v1.Allocator/Allocate", true),
            ("/kent.v1.Allocator/NoSuchMethod", true),
            ("/kent.v1.Allocators/Allocate", false),
            ("/kent.v1.Allocator/", false),
            ("/kent.v1.Allocator", false),
            ("kent.v1.Allocator/Allocate", false),
            ("/kent.v1.Regions/Find", false),
            ("/", false),
            ("", false),
        ];
        for (path, expected) in paths {
            assert_eq!(is_of("kent.v1.Allocator", path), expected, "{path:?}");
        }
    }
}
