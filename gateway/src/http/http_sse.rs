//! The HTTP+SSE transport of 2024-11-05: GET `/sse` opens the stream, POST `/messages` takes what is answered on it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::ALLOW;
use http::request::Parts;
use http::{HeaderValue, Request, StatusCode};
use percent_encoding::percent_decode_str;

use super::answer::{AnswerForm, refusal, respond};
use super::mcp;
use super::negotiate::{EVENT_STREAM, JSON, accepts, is_json};
use super::{accept, body};
use crate::dispatch::{Dispatcher, Headers};
use crate::protocol::error::RpcError;

/// The path that opens the stream.
pub(super) const STREAM_PATH: &str = "/sse";

/// The path that messages go to.
pub(super) const MESSAGES_PATH: &str = "/messages";

/// The parameter of both that names the session.
const SESSION: &str = "session";

/// Opens the stream of a new session, or that of the session that the target names.
pub(super) async fn get(State(dispatcher): State<Arc<Dispatcher>>, request: Request<Body>) -> Response {
    let (parts, _) = request.into_parts();
    if !accepts(&parts.headers, EVENT_STREAM) {
        let error = RpcError::invalid_request("Accept must allow text/event-stream");
        return refusal(StatusCode::NOT_ACCEPTABLE, &error);
    }
    let session = session(&parts);
    let headers = Headers {
        session: session.as_deref(),
        ..mcp::read(&parts.headers)
    };
    let progress = accept::progress_of(&parts.extensions);
    respond(
        dispatcher.open_http_sse(headers, progress).await,
        AnswerForm::Json,
    )
}

/// Takes a message; its answer goes out on the stream.
pub(super) async fn post(State(dispatcher): State<Arc<Dispatcher>>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        let error = RpcError::invalid_request(format!("Content-Type must be {JSON}"));
        return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error);
    }
    let body = match body::read(&parts.extensions, body).await {
        Ok(body) => body,
        Err(error) => return refusal(error.status(), &RpcError::invalid_request(error.to_string())),
    };
    let session = session(&parts);
    let headers = Headers {
        session: session.as_deref(),
        ..mcp::read(&parts.headers)
    };
    respond(dispatcher.post_http_sse(headers, body).await, AnswerForm::Json)
}

/// Refuses any other method on the path of the stream; a HEAD too, as on `/mcp`.
pub(super) async fn only_get() -> Response {
    not_allowed(STREAM_PATH, "GET")
}

/// Refuses any other method on the path of the messages.
pub(super) async fn only_post() -> Response {
    not_allowed(MESSAGES_PATH, "POST")
}

fn not_allowed(path: &str, methods: &'static str) -> Response {
    let error = RpcError::invalid_request(format!("{path} serves {methods}"));
    let allow = [(ALLOW, HeaderValue::from_static(methods))];
    (allow, refusal(StatusCode::METHOD_NOT_ALLOWED, &error)).into_response()
}

/// Returns the session that the target's query names.
fn session(parts: &Parts) -> Option<Vec<u8>> {
    let parameters = parts.uri.query()?.split('&');
    parameters
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| *name == SESSION)
        .map(|(_, value)| percent_decode_str(value).collect())
}
