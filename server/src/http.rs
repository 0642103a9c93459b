//! The HTTP port: `/livez`, `/readyz` and `/metrics`. It serves from the beginning, even while the daemon waits for its store.

use std::{
    future::{self, Future},
    io,
    net::SocketAddr,
    panic::resume_unwind,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use kent_access::Action;
use tokio::{
    net::TcpListener,
    select,
    sync::{Mutex, mpsc},
    time,
};
use tracing::warn;

use crate::{
    auth::{self, Credentials, Denied},
    engine::Engine,
    metrics::Exposition,
    transport::{connection::Connection, handshake::Handshakes, peer::authorization},
};

/// The stage of the daemon's start, which sets it for the HTTP port.
#[derive(Clone, Debug)]
pub(crate) struct Stage(Arc<RwLock<Reached>>);

#[derive(Clone, Debug)]
enum Reached {
    /// The daemon is starting; the text says what it does or waits for.
    Starting(String),
    Serving(Arc<Engine>),
}

impl Stage {
    /// The stage of a daemon that is starting.
    pub(crate) fn starting(doing: &str) -> Self {
        Self(Arc::new(RwLock::new(Reached::Starting(doing.to_owned()))))
    }

    /// Sets what the starting daemon does or waits for.
    pub(crate) fn set_doing(&self, doing: String) {
        self.set(Reached::Starting(doing));
    }

    /// Marks the daemon as serving.
    pub(crate) fn set_serving(&self, engine: Arc<Engine>) {
        self.set(Reached::Serving(engine));
    }

    fn set(&self, reached: Reached) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = reached;
    }

    fn get(&self) -> Reached {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves until `stop` is ready.
///
/// # Errors
///
/// If the socket fails.
pub(crate) async fn serve(
    listener: TcpListener,
    handshakes: Handshakes,
    (stage, asks): (Stage, bool),
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let routes = Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(Reports { stage, asks, writing: Mutex::default() }));
    axum::serve(Listener::new(listener, handshakes), routes).with_graceful_shutdown(stop).await
}

/// Accepts connections whose handshakes have succeeded.
struct Listener {
    sockets: TcpListener,
    handshakes: Handshakes,
    ready: mpsc::UnboundedReceiver<Connection>,
    pass_on: mpsc::UnboundedSender<Connection>,
}

impl Listener {
    fn new(sockets: TcpListener, handshakes: Handshakes) -> Self {
        let (pass_on, ready) = mpsc::unbounded_channel();
        Self { sockets, handshakes, ready, pass_on }
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            select! {
                Some(connection) = self.ready.recv() => {
                    let address = connection.peer().address;
                    return (connection, address);
                }
                accepted = self.sockets.accept() => match accepted {
                    Ok((socket, address)) => {
                        let pass_on = self.pass_on.clone();
                        // OK because the receiver lives as long as the port.
                        self.handshakes.begin(socket, address, move |connection| drop(pass_on.send(connection)));
                    }
                    Err(error) => {
                        warn!(%error, "cannot accept a connection");
                        time::sleep(PAUSE).await;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.sockets.local_addr()
    }
}

/// The pause after a failure to accept a connection, because too many open files do not close immediately.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers 200 if the daemon can grant from every source, otherwise 503 with one line for each reason. The lines after that show
/// the rest of the window and the chunks.
async fn readyz(State(reports): State<Arc<Reports>>, headers: HeaderMap) -> Response {
    match reports.write(&headers, Engine::report).await {
        Ok(readiness) => {
            let code = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            (code, readiness.to_string()).into_response()
        }
        Err(starting) => starting,
    }
}

/// Answers with the metrics in the format that the client prefers.
async fn metrics(State(reports): State<Arc<Reports>>, headers: HeaderMap) -> Response {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let exposition = Exposition::accepted(&accept.collect::<Vec<_>>().join(","));
    let written = match exposition {
        Exposition::OpenMetrics => {
            reports.write(&headers, |engine| engine.render_metrics(Exposition::OpenMetrics)).await
        }
        Exposition::Prometheus => reports.write(&headers, |engine| engine.render_metrics(Exposition::Prometheus)).await,
    };
    match written {
        Ok(text) => ([(header::CONTENT_TYPE, exposition.content_type())], text).into_response(),
        Err(starting) => starting,
    }
}

/// The answer to a caller that may not see a report.
fn refuse(denied: &Denied) -> Response {
    auth::denied(denied);
    let code = match denied {
        Denied::Missing(..) => StatusCode::FORBIDDEN,
        Denied::OutOfTouch(_) => StatusCode::SERVICE_UNAVAILABLE,
        Denied::NoCredential(_) | Denied::BadCredential(_) | Denied::Refused(..) => StatusCode::UNAUTHORIZED,
    };
    (code, [(header::WWW_AUTHENTICATE, "Bearer")], format!("{denied}\n")).into_response()
}

/// Writes reports on the runtime of calls, one at a time, because a report takes a few milliseconds.
struct Reports {
    stage: Stage,
    /// Whether callers need a token that may operate the daemon.
    asks: bool,
    writing: Mutex<()>,
}

impl Reports {
    /// Fails if the caller may not see reports.
    fn admit(&self, engine: &Engine, headers: &HeaderMap) -> Result<(), Denied> {
        if !self.asks {
            return Ok(());
        }
        let shown = Credentials::unknown(authorization(headers));
        engine.auth().identify(&shown, engine.clock().steady())?.check_daemon(Action::Operate)
    }

    /// Returns the report, or the answer to a caller that may not see it, or while the daemon is starting.
    async fn write<T: Send + 'static>(&self, headers: &HeaderMap, report: fn(&Engine) -> T) -> Result<T, Response> {
        let engine = match self.stage.get() {
            Reached::Serving(engine) => {
                self.admit(&engine, headers).map_err(|denied| refuse(&denied))?;
                engine
            }
            // Tokens are not known yet.
            Reached::Starting(_) if self.asks => {
                return Err((StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response());
            }
            Reached::Starting(doing) => {
                return Err((StatusCode::SERVICE_UNAVAILABLE, format!("not ready\nreason: {doing}\n")).into_response());
            }
        };
        let _writing = self.writing.lock().await;
        let tasks = engine.tasks().clone();
        let call = tasks.spawn_call(async move { report(&engine) });
        match call.await {
            Ok(written) => Ok(written),
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The daemon has stopped, so no caller is left to answer.
                Err(_) => future::pending().await,
            },
        }
    }
}
