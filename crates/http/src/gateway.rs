//! The API on the HTTP port, for shells and browsers: JSON, gRPC-Web, and short paths for people.
//!
//! The gateway passes each call to the dispatcher of the gRPC port, within the process. The checks, limits, audit log
//! and metrics of the gRPC port therefore apply, with the real peer of the connection.

mod browser;
mod call;
mod connect;
mod console;
mod explain;
mod failure;
mod json;
mod methods;
mod openapi;
mod paths;
mod requests;
mod texts;
mod wide;

use std::{
    fmt, future,
    panic::resume_unwind,
    sync::{Arc, LazyLock, OnceLock},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use kent_engine::{
    host::{clock::Clock, entropy::Entropy, tasks::Tasks},
    status,
};
use kent_transport::{allocator::AllocatorService, peer::Peer, port::InnerPort};
use tonic::codegen::Service;
use tonic_web::{GrpcWebLayer, GrpcWebService};
use tower::{Layer, ServiceExt};
use tracing::error;

use self::{call::Calls, console::Sessions, methods::Methods};
use crate::origins::Origins;

/// The API on the HTTP port.
#[derive(Clone)]
pub struct Gateway(Arc<Parts>);

struct Parts {
    routes: Router,
    shared: Arc<Shared>,
    tasks: Tasks,
    /// Whether callers of the API need a certificate. On the gRPC port, the handshake already requires the certificate.
    needs_certificate: bool,
}

/// The state that all handlers share.
struct Shared {
    calls: Calls,
    /// Created when a request needs them: they take milliseconds and megabytes.
    methods: LazyLock<Methods>,
    web: GrpcWebService<InnerPort>,
    /// The OpenAPI document, built when it is first requested.
    document: OnceLock<Bytes>,
    sessions: Arc<Sessions>,
    clock: Arc<dyn Clock>,
}

/// The settings of the gateway.
#[derive(Debug)]
pub struct Options {
    /// The origins of web pages that may call the API.
    pub origins: Origins,
    /// The maximum size of a request in bytes.
    pub bytes_max: usize,
    /// Whether callers of the API need a certificate. On the gRPC port, the handshake already requires the certificate.
    pub needs_certificate: bool,
    /// Whether the HTTP port uses TLS.
    pub is_secure: bool,
    /// Whether the console is served.
    pub console: bool,
}

impl Shared {
    /// The wall clock, in milliseconds since 1970.
    fn now_unix_ms(&self) -> i64 {
        i64::try_from(self.clock.wall().get() / 1_000_000).unwrap_or(i64::MAX)
    }
}

/// The text for people who open the port in a browser.
const FRONT_PAGE: &str = "\
This is kentd, a service that issues identifiers and never issues one twice.

  curl -X POST http://HOST/v1/alloc/uuidv7?n=3       take three identifiers
  curl http://HOST/v1/inspect/ID                     decode an identifier
  curl http://HOST/v1/classify/ID                    show to which region an identifier belongs
  curl -H 'content-type: application/json' -d '{}' http://HOST/kent.v1.Regions/ListSpaces
                                                     call any method of the API with JSON

  /console/                                          look at the identifier space with a browser
  /openapi.json                                      the paths and messages, as OpenAPI 3.1
  /livez  /readyz  /metrics                          for monitoring
";

impl Gateway {
    /// Creates a gateway that passes calls to `port`.
    pub fn new(
        (port, allocator): (InnerPort, Arc<AllocatorService>),
        options: Options,
        (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>),
        tasks: Tasks,
    ) -> Self {
        let Options { origins, bytes_max, needs_certificate, is_secure, console } = options;
        let web = GrpcWebLayer::new().layer(port.clone());
        let sessions = Arc::new(Sessions::new(clock.clone(), entropy, is_secure));
        let shared = Arc::new(Shared {
            calls: Calls::new(port, allocator, bytes_max),
            methods: LazyLock::new(|| {
                // OK because a test shows that the descriptors are valid.
                let methods = Methods::of_api();
                methods.inspect_err(|error| error!(%error, "the API has no descriptors")).unwrap_or_default()
            }),
            web,
            document: OnceLock::new(),
            sessions: sessions.clone(),
            clock,
        });
        let cors = browser::cors(&origins);
        let console = if console { console::router() } else { Router::new() };
        let routes = Router::new()
            .route("/", get(async || FRONT_PAGE))
            .route("/openapi.json", get(document))
            .merge(paths::router())
            .merge(console)
            .fallback(dispatch)
            .with_state(shared.clone())
            .layer(middleware::from_fn_with_state(sessions, console::use_session))
            .layer(cors)
            .layer(middleware::from_fn_with_state(Arc::new(origins), browser::refuse_strangers));
        Self(Arc::new(Parts { routes, shared, tasks, needs_certificate }))
    }

    /// Answers a request. Requests for identifiers run on this thread. All others may take milliseconds, so they run on
    /// the runtime for calls.
    pub(crate) async fn answer(self, request: Request) -> Response {
        let Parts { routes, shared, tasks, needs_certificate } = &*self.0;
        let has_certificate = request.extensions().get::<Peer>().is_some_and(|peer| peer.certificate.is_some());
        if *needs_certificate && !has_certificate && !console::is_file(request.uri().path()) {
            let hint = "the API needs a client certificate, as on the gRPC port; only /livez, /readyz, /metrics and the files of the \
                        console need none\n";
            return (StatusCode::UNAUTHORIZED, hint).into_response();
        }
        if is_brief(request.uri().path()) {
            // The router and its layers take as long as the grant. Only requests of web pages need the layers.
            if request.method() == Method::POST && !browser::is_of_page(request.headers()) {
                return allocate(shared.clone(), request).await;
            }
            return match routes.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
        }
        // The call is aborted when the caller disconnects.
        let call = tasks.spawn_call(routes.clone().oneshot(request));
        match call.await {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The daemon has stopped, so no caller is left to answer.
                Err(_) => future::pending().await,
            },
        }
    }
}

/// Whether a request asks for identifiers. Such a request takes microseconds.
pub(crate) fn is_brief(path: &str) -> bool {
    path == call::ALLOCATE.path() || path.starts_with(paths::ALLOC)
}

/// Answers a request for identifiers.
async fn allocate(shared: Arc<Shared>, request: Request) -> Response {
    match request.uri().path() == call::ALLOCATE.path() {
        true => dispatch(State(shared), request).await,
        false => paths::alloc(State(shared), request).await,
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gateway")
    }
}

/// Answers with the OpenAPI document.
async fn document(State(shared): State<Arc<Shared>>) -> Response {
    let document = shared.document.get_or_init(|| openapi::document(shared.methods.pool()).to_string().into());
    ([(header::CONTENT_TYPE, "application/json")], document.clone()).into_response()
}

/// How the messages of a request are encoded.
enum Encoding {
    /// One message, as the Connect protocol defines it.
    Connect(connect::Codec),
    GrpcWeb,
    Grpc,
    Other,
}

/// Answers a call to a method.
async fn dispatch(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    match encoding(request.headers()) {
        Encoding::GrpcWeb => match Service::call(&mut shared.web.clone(), request.map(tonic::body::Body::new)).await {
            Ok(response) => response.map(Body::new),
            Err(never) => match never {},
        },
        Encoding::Connect(codec) => connect::answer(&shared.calls, &shared.methods, codec, request).await,
        Encoding::Grpc => status::grpc_on_http_port().into_http(),
        Encoding::Other => connect::refuse_type(&shared.methods, &request),
    }
}

fn encoding(headers: &HeaderMap) -> Encoding {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/json" => Encoding::Connect(connect::Codec::Json),
        "application/proto" => Encoding::Connect(connect::Codec::Proto),
        kind if kind.starts_with("application/grpc-web") => Encoding::GrpcWeb,
        kind if kind.starts_with("application/grpc") => Encoding::Grpc,
        _ => Encoding::Other,
    }
}
