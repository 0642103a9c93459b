//! The HTTP port: `/livez`, `/readyz`, `/metrics` and the API. The port serves from the start of the daemon, even while
//! the daemon waits for its store.

use std::{
    convert::Infallible,
    future,
    panic::resume_unwind,
    pin::pin,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use axum::{
    Extension, Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use kent_access::Action;
use kent_engine::{
    auth::{self, Asked, Denied},
    engine::Engine,
    metrics::Exposition,
};
use kent_transport::{
    accept::{Serving, accept},
    connection::Connection,
    handshake::Handshakes,
    lanes::Lanes,
    peer::{Peer, authorization, on_behalf_of},
};
use tokio::{net::TcpListener, select, sync::Mutex};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;
use tower::ServiceExt;
use tracing::debug;

use crate::gateway::{self, Gateway};

/// The stage of the daemon's start. The startup code sets the stage, and the HTTP port reads it.
#[derive(Clone, Debug)]
pub struct Stage(Arc<RwLock<Reached>>);

#[derive(Clone, Debug)]
enum Reached {
    /// The daemon is starting; the string says what the daemon does or waits for.
    Starting(String),
    /// The API is absent if the settings exclude it from this port.
    Serving(Arc<Engine>, Option<Gateway>),
}

impl Stage {
    /// The stage of a daemon that is starting.
    pub fn starting(doing: &str) -> Self {
        Self(Arc::new(RwLock::new(Reached::Starting(doing.to_owned()))))
    }

    /// Sets what the starting daemon does or waits for.
    pub fn set_doing(&self, doing: String) {
        self.set(Reached::Starting(doing));
    }

    /// Marks the daemon as serving.
    pub fn set_serving(&self, engine: Arc<Engine>, gateway: Option<Gateway>) {
        self.set(Reached::Serving(engine, gateway));
    }

    fn set(&self, reached: Reached) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = reached;
    }

    /// The API, if the daemon serves it on this port.
    fn gateway(&self) -> Option<Gateway> {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Reached::Serving(_, gateway) => gateway.clone(),
            Reached::Starting(_) => None,
        }
    }

    fn get(&self) -> Reached {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The time for which a connection may wait for the next request, and in which the head of a request must arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum size of the head of a request, in bytes; hyper reads into a buffer of this size.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The maximum number of concurrent requests on an HTTP/2 connection, and the maximum size of the headers of a request,
/// in bytes.
const CALLS_MAX: u32 = 16;
const LIST_BYTES_MAX: u32 = 8 * 1024;

/// Serves until `stop` is canceled, and returns when the requests in flight have been answered.
pub fn serve(
    sockets: TcpListener,
    handshakes: Handshakes,
    (stage, asks): (Stage, bool),
    lanes: Arc<Lanes>,
    stop: CancellationToken,
) -> Serving {
    let routes = Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .fallback(api)
        .with_state(Arc::new(Reports { stage: stage.clone(), asks, writing: Mutex::default() }));
    accept(sockets, handshakes, lanes, stop.clone(), move |connection| {
        let entry = Entry { peer: connection.connect_info(), stage: stage.clone(), routes: routes.clone() };
        answer(connection, entry, stop.clone())
    })
}

/// Answers the requests of a connection. After `stop` is canceled, answers only the request in flight.
async fn answer(connection: Connection, entry: Entry, stop: CancellationToken) {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    // The other limits of HTTP/2 are hyper's defaults.
    server.http2().timer(TokioTimer::new()).max_concurrent_streams(CALLS_MAX).max_header_list_size(LIST_BYTES_MAX);
    let connection = TokioIo::new(connection.expecting_http());
    let service = service_fn(move |request| entry.clone().answer(request));
    let mut serving = pin!(server.serve_connection(connection, service));
    let served = select! {
        served = serving.as_mut() => served,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        debug!(%error, "a connection of the HTTP port failed");
    }
}

/// The way of the requests of one connection to their handlers.
#[derive(Clone)]
struct Entry {
    peer: Peer,
    stage: Stage,
    routes: Router,
}

impl Entry {
    /// Answers a request. Requests for identifiers go to the gateway directly, because the router takes longer than the
    /// grant.
    async fn answer(self, request: hyper::Request<Incoming>) -> Result<Response, Infallible> {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.peer);
        if gateway::is_brief(request.uri().path())
            && let Some(gateway) = self.stage.gateway()
        {
            return Ok(gateway.answer(request).await);
        }
        self.routes.oneshot(request).await
    }
}

/// Answers 200 if the daemon can grant from every source, otherwise 503 with one line for each reason. The last lines
/// show what is left of the window and of the chunks.
async fn readyz(State(reports): State<Arc<Reports>>, Extension(peer): Extension<Peer>, headers: HeaderMap) -> Response {
    match reports.admit("GET /readyz", (&peer, &headers)) {
        Ok(engine) => {
            let readiness = reports.write(engine, Engine::report).await;
            let code = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            (code, readiness.to_string()).into_response()
        }
        Err(refusal) => *refusal,
    }
}

/// Answers with the metrics in the format that the client prefers.
async fn metrics(
    State(reports): State<Arc<Reports>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    let engine = match reports.admit("GET /metrics", (&peer, &headers)) {
        Ok(engine) => engine,
        Err(refusal) => return *refusal,
    };
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let exposition = Exposition::accepted(&accept.collect::<Vec<_>>().join(","));
    // Read the budgets before the report, so that no other report waits for the store.
    let asked = engine.clone();
    let budgets = on_calls(&engine, async move { asked.access().budgets_left().await }).await;
    let text = reports.write(engine, move |engine| engine.render_metrics(exposition, &budgets)).await;
    ([(header::CONTENT_TYPE, exposition.content_type())], text).into_response()
}

/// Answers a request for the API.
async fn api(State(reports): State<Arc<Reports>>, request: Request) -> Response {
    match reports.stage.get() {
        Reached::Serving(_, Some(gateway)) => gateway.answer(request).await,
        Reached::Serving(_, None) => {
            (StatusCode::NOT_FOUND, "this port serves /livez, /readyz and /metrics\n").into_response()
        }
        // Do not show the reason here, because it may be private. /readyz shows it, unless reports need a credential.
        Reached::Starting(_) => (StatusCode::SERVICE_UNAVAILABLE, "not ready: see /readyz\n").into_response(),
    }
}

/// The answer while the daemon is starting.
fn not_ready(text: String) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

/// The answer to a caller that may not see a report.
fn refuse(denied: &Denied) -> Response {
    auth::denied(denied);
    let code = match denied {
        Denied::Missing(..) => StatusCode::FORBIDDEN,
        Denied::Limited(..) => StatusCode::TOO_MANY_REQUESTS,
        Denied::OutOfTouch(_) => StatusCode::SERVICE_UNAVAILABLE,
        Denied::NoCredential(_) | Denied::NamelessCertificate(_) | Denied::BadCredential(_) | Denied::Refused(..) => {
            StatusCode::UNAUTHORIZED
        }
    };
    (code, [(header::WWW_AUTHENTICATE, "Bearer")], format!("{denied}\n")).into_response()
}

/// Writes reports on the runtime of calls, one at a time, because a report takes a few milliseconds.
struct Reports {
    stage: Stage,
    /// Whether callers need a credential with permission to operate the daemon.
    asks: bool,
    writing: Mutex<()>,
}

impl Reports {
    /// Returns the engine. If the caller may not see reports, or the daemon is starting, returns the answer instead.
    fn admit(&self, method: &'static str, by: (&Peer, &HeaderMap)) -> Result<Arc<Engine>, Box<Response>> {
        match self.stage.get() {
            Reached::Serving(engine, _) => match self.check(&engine, method, by) {
                Ok(()) => Ok(engine),
                Err(denied) => Err(Box::new(refuse(&denied))),
            },
            // The tokens have not been read yet, so no caller can be authenticated.
            Reached::Starting(_) if self.asks => Err(Box::new(not_ready("not ready\n".to_owned()))),
            Reached::Starting(doing) => Err(Box::new(not_ready(format!("not ready\nreason: {doing}\n")))),
        }
    }

    /// Fails if the caller may not see reports.
    fn check(&self, engine: &Engine, method: &'static str, by: (&Peer, &HeaderMap)) -> Result<(), Denied> {
        if !self.asks {
            return Ok(());
        }
        let (peer, headers) = by;
        let asked = Arc::new(Asked { method, on_behalf_of: on_behalf_of(headers), ..Asked::default() });
        let caller = engine.auth().identify(&peer.credentials(authorization(headers)), engine.clock().steady());
        caller.map_err(|denied| denied.of_call(asked.clone()))?.asking(asked).check_daemon(Action::Operate)
    }

    /// Writes a report.
    async fn write<T: Send + 'static>(
        &self,
        engine: Arc<Engine>,
        report: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> T {
        let _writing = self.writing.lock().await;
        let reported = engine.clone();
        on_calls(&engine, async move { report(&reported) }).await
    }
}

/// Runs a part of a report on the runtime of calls.
async fn on_calls<T: Send + 'static>(engine: &Engine, part: impl Future<Output = T> + Send + 'static) -> T {
    match engine.tasks().spawn_call(part).await {
        Ok(done) => done,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The daemon has stopped, so no caller is left to answer.
            Err(_) => future::pending().await,
        },
    }
}
