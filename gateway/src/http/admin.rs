//! The admin listener: is the process alive, and is it of use.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::dispatch::Dispatcher;

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
