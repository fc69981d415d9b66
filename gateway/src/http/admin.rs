//! The admin listener: is the process alive, is it of use, and what happened in it.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use crate::dispatch::Dispatcher;
use crate::telemetry::{Metrics, TEXT_FORMAT};

/// Says that the process runs; depends on nothing else.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Says whether requests can be served: 503 with the reason while the watch on the feed service is not live, or that cannot commit.
pub(super) async fn readyz(State(dispatcher): State<Arc<Dispatcher>>) -> Response {
    match dispatcher.not_ready() {
        None => "ready\n".into_response(),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

/// Answers a scrape of Prometheus.
pub(super) async fn metrics(Extension(metrics): Extension<Arc<Metrics>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, TEXT_FORMAT)], metrics.text())
}
