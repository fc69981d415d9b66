//! The MCP endpoint: POST a message; in the legacy era GET the stream and DELETE the session too.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, HeaderName};
use http::{HeaderMap, HeaderValue, Request, StatusCode};

use super::answer::{AnswerForm, SESSION_ID, refusal, respond};
use super::negotiate::{EVENT_STREAM, JSON, accepts, is_json};
use super::{accept, body};
use crate::dispatch::{Dispatcher, Headers, Outcome};
use crate::protocol::error::RpcError;
use crate::protocol::trace::TRACEPARENT;

/// The methods of the endpoint.
const METHODS: &str = "DELETE, GET, POST";

/// The same where clients may not delete their sessions.
const METHODS_WITHOUT_DELETE: &str = "GET, POST";
/// Those of the modern era, where a stream is the answer to a POST (MCP 2026-07-28, Streamable HTTP, Earlier Streamable HTTP
/// Revisions).
const MODERN_METHODS: &str = "POST";

/// The header that names the protocol version.
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The header that names the method, for who looks at headers only.
const METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// The header that names what the method is about.
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The header that carries the caller's trace (W3C Trace Context).
const TRACE_PARENT: HeaderName = HeaderName::from_static(TRACEPARENT);

/// The header that names the last event that a client has seen.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Takes a message.
pub(super) async fn post(State(dispatcher): State<Arc<Dispatcher>>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        let error = RpcError::invalid_request(format!("Content-Type must be {JSON}"));
        return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error);
    }
    let takes_streams = accepts(&parts.headers, EVENT_STREAM);
    let form = if accepts(&parts.headers, JSON) {
        AnswerForm::Json
    } else {
        AnswerForm::EventStream
    };
    if form == AnswerForm::EventStream && !takes_streams {
        let error = RpcError::invalid_request("Accept must allow application/json and text/event-stream");
        return refusal(StatusCode::NOT_ACCEPTABLE, &error);
    }
    let body = match body::read(&parts.extensions, body).await {
        Ok(body) => body,
        Err(error) => return refusal(error.status(), &RpcError::invalid_request(error.to_string())),
    };
    let progress = accept::progress_of(&parts.extensions);
    let outcome = dispatcher.post(read(&parts.headers), body, &progress).await;
    if matches!(outcome, Outcome::Stream(_)) && !takes_streams {
        let error = RpcError::invalid_request("Accept must allow text/event-stream: the answer is a stream");
        return refusal(StatusCode::NOT_ACCEPTABLE, &error);
    }
    respond(outcome, form)
}

/// Opens the session's stream.
pub(super) async fn get(State(dispatcher): State<Arc<Dispatcher>>, request: Request<Body>) -> Response {
    let (parts, _) = request.into_parts();
    let headers = parts.headers;
    if read(&headers).are_modern() {
        return refuse_method(MODERN_METHODS);
    }
    if !accepts(&headers, EVENT_STREAM) {
        let error = RpcError::invalid_request("Accept must allow text/event-stream");
        return refusal(StatusCode::NOT_ACCEPTABLE, &error);
    }
    let progress = accept::progress_of(&parts.extensions);
    respond(dispatcher.open(read(&headers), progress).await, AnswerForm::Json)
}

/// Ends the session.
pub(super) async fn delete(State(dispatcher): State<Arc<Dispatcher>>, headers: HeaderMap) -> Response {
    if read(&headers).are_modern() {
        return refuse_method(MODERN_METHODS);
    }
    if !dispatcher.allows_delete() {
        return refuse_method(METHODS_WITHOUT_DELETE);
    }
    respond(dispatcher.delete(read(&headers)).await, AnswerForm::Json)
}

/// Refuses any other method; a HEAD too, which a router would serve as a GET: it would take the stream over and drop it.
pub(super) async fn not_allowed(State(dispatcher): State<Arc<Dispatcher>>) -> Response {
    refuse_method(if dispatcher.allows_delete() {
        METHODS
    } else {
        METHODS_WITHOUT_DELETE
    })
}

fn refuse_method(methods: &'static str) -> Response {
    let error = RpcError::invalid_request(format!("/mcp serves {methods}"));
    let allow = [(ALLOW, HeaderValue::from_static(methods))];
    (allow, refusal(StatusCode::METHOD_NOT_ALLOWED, &error)).into_response()
}

pub(super) fn read(headers: &HeaderMap) -> Headers<'_> {
    let value = |name: &HeaderName| headers.get(name).map(|value| value.as_bytes());
    Headers {
        session: value(&SESSION_ID),
        version: value(&PROTOCOL_VERSION),
        last_event_id: value(&LAST_EVENT_ID),
        method: value(&METHOD),
        name: value(&NAME),
        traceparent: value(&TRACE_PARENT),
    }
}
