//! The HTTP port: `/livez`, `/readyz` and `/metrics`.

use std::{
    future::{self, Future},
    io,
    panic::resume_unwind,
    sync::Arc,
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{net::TcpListener, sync::Mutex};

use crate::engine::Engine;

/// Serves until `stop` is ready.
///
/// # Errors
///
/// If the socket fails.
pub(crate) async fn serve(
    listener: TcpListener,
    engine: Arc<Engine>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let routes = Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(Reports { engine, writing: Mutex::default() }));
    axum::serve(listener, routes).with_graceful_shutdown(stop).await
}

/// Answers 200 if the daemon can grant from every source, otherwise 503 with one line for each reason. The lines after that show
/// the rest of the window and the chunks.
async fn readyz(State(reports): State<Arc<Reports>>) -> Response {
    let readiness = reports.write(Engine::report).await;
    let code = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, readiness.to_string()).into_response()
}

async fn metrics(State(reports): State<Arc<Reports>>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, OPEN_METRICS)], reports.write(Engine::render_metrics).await).into_response()
}

/// Writes reports on the runtime of calls, one at a time, because a report takes a few milliseconds.
struct Reports {
    engine: Arc<Engine>,
    writing: Mutex<()>,
}

impl Reports {
    async fn write<T: Send + 'static>(&self, report: fn(&Engine) -> T) -> T {
        let _writing = self.writing.lock().await;
        let engine = self.engine.clone();
        let call = self.engine.tasks().spawn_call(async move { report(&engine) });
        match call.await {
            Ok(written) => written,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The daemon has stopped, so no caller is left to answer.
                Err(_) => future::pending().await,
            },
        }
    }
}
