//! The HTTP surface: the only place that knows axum, hyper, headers, status codes and SSE.
//!
//! The path of a request: [`accept`] (connection, [`http2`]) → [`guard`] (Host, Origin, CORS) → the router here → [`mcp`], [`http_sse`] or
//! [`rest`] → `dispatch` → [`answer`] (one exhaustive match from outcome to response). [`event_stream`] is the body of a
//! GET stream.

mod accept;
mod admin;
mod answer;
mod body;
mod event_stream;
mod guard;
mod http2;
mod http_sse;
mod limits;
mod mcp;
mod negotiate;
mod rest;
mod socket;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::{Extension, Router};

pub(crate) use accept::{Tasks, serve};
pub(crate) use limits::{Limits, Origin};

use crate::dispatch::Dispatcher;
use crate::telemetry::Metrics;

/// Makes the routes of the application listener that is bound to `address`.
pub(crate) fn application(dispatcher: Arc<Dispatcher>, address: SocketAddr, limits: &Limits) -> Router {
    let guard = guard::Guard::new(address, &limits.allowed_origins);
    Router::new()
        .route(
            "/mcp",
            post(mcp::post)
                .get(mcp::get)
                .head(mcp::not_allowed)
                .delete(mcp::delete)
                .fallback(mcp::not_allowed),
        )
        .route(
            http_sse::STREAM_PATH,
            get(http_sse::get)
                .head(http_sse::only_get)
                .fallback(http_sse::only_get),
        )
        .route(
            http_sse::MESSAGES_PATH,
            post(http_sse::post).fallback(http_sse::only_post),
        )
        .fallback(rest::serve)
        .layer(Extension(limits.body()))
        .layer(from_fn_with_state(guard, guard::check))
        .with_state(dispatcher)
}

/// Makes the routes of the admin listener that is bound to `address`.
pub(crate) fn admin(dispatcher: Arc<Dispatcher>, metrics: Metrics, address: SocketAddr) -> Router {
    Router::new()
        .route("/healthz", get(admin::healthz))
        .route("/readyz", get(admin::readyz))
        .route("/metrics", get(admin::metrics))
        .layer(Extension(Arc::new(metrics)))
        .layer(from_fn_with_state(guard::Guard::new(address, &[]), guard::check))
        .with_state(dispatcher)
}
