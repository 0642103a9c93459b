//! The HTTP port: `/livez`, `/readyz` and `/metrics`. It serves from the beginning, even while the daemon waits for its store.

use std::{
    future::{self, Future},
    io,
    panic::resume_unwind,
    sync::{Arc, PoisonError, RwLock},
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{net::TcpListener, sync::Mutex};

use crate::{engine::Engine, metrics::Exposition};

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
    stage: Stage,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let routes = Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(Reports { stage, writing: Mutex::default() }));
    axum::serve(listener, routes).with_graceful_shutdown(stop).await
}

/// Answers 200 if the daemon can grant from every source, otherwise 503 with one line for each reason. The lines after that show
/// the rest of the window and the chunks.
async fn readyz(State(reports): State<Arc<Reports>>) -> Response {
    match reports.write(Engine::report).await {
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
        Exposition::OpenMetrics => reports.write(|engine| engine.render_metrics(Exposition::OpenMetrics)).await,
        Exposition::Prometheus => reports.write(|engine| engine.render_metrics(Exposition::Prometheus)).await,
    };
    match written {
        Ok(text) => ([(header::CONTENT_TYPE, exposition.content_type())], text).into_response(),
        Err(starting) => starting,
    }
}

/// Writes reports on the runtime of calls, one at a time, because a report takes a few milliseconds.
struct Reports {
    stage: Stage,
    writing: Mutex<()>,
}

impl Reports {
    /// Returns the report, or the answer while the daemon is starting.
    async fn write<T: Send + 'static>(&self, report: fn(&Engine) -> T) -> Result<T, Response> {
        let engine = match self.stage.get() {
            Reached::Serving(engine) => engine,
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
