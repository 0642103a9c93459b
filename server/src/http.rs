//! The HTTP port: `/livez`, `/readyz` and `/metrics`.

use std::{future::Future, io, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;

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
        .with_state(engine);
    axum::serve(listener, routes).with_graceful_shutdown(stop).await
}

/// 200 if every source can be granted from; otherwise 503, and a line a reason. The lines below say what is left.
async fn readyz(State(engine): State<Arc<Engine>>) -> impl IntoResponse {
    let readiness = engine.readiness();
    let code = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, readiness.to_string())
}

async fn metrics(State(engine): State<Arc<Engine>>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, OPEN_METRICS)], engine.render_metrics())
}
