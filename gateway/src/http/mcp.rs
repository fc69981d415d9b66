//! The MCP endpoint of the legacy era: POST a message, GET the stream, DELETE the session.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::header::HeaderName;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::BODY_LIMIT_BYTES;
use super::answer::{SESSION_ID, refusal, respond};
use super::negotiate::{EVENT_STREAM, JSON, accepts, is_json};
use crate::dispatch::{Dispatcher, Headers};
use crate::protocol::error::RpcError;

/// The header that names the protocol version.
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The header that names the last event that a client has seen.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Takes a message.
pub(super) async fn post(State(dispatcher): State<Arc<Dispatcher>>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        let error = RpcError::invalid_request("Content-Type must be application/json");
        return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error);
    }
    // Every answer here is JSON, so a client that takes only that is served.
    if !accepts(&parts.headers, JSON) {
        let error = RpcError::invalid_request("Accept must allow application/json and text/event-stream");
        return refusal(StatusCode::NOT_ACCEPTABLE, &error);
    }
    let body = match Limited::new(body, BODY_LIMIT_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let error = RpcError::invalid_request(format!("the body has more than {BODY_LIMIT_BYTES} bytes"));
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, &error);
        }
        Err(_) => {
            let error = RpcError::invalid_request("the body ended too early");
            return refusal(StatusCode::BAD_REQUEST, &error);
        }
    };
    respond(dispatcher.post(read(&parts.headers), body).await)
}

/// Opens the session's stream.
pub(super) async fn get(State(dispatcher): State<Arc<Dispatcher>>, headers: HeaderMap) -> Response {
    if !accepts(&headers, EVENT_STREAM) {
        let error = RpcError::invalid_request("Accept must allow text/event-stream");
        return refusal(StatusCode::NOT_ACCEPTABLE, &error);
    }
    respond(dispatcher.open(read(&headers)).await)
}

/// Ends the session.
pub(super) async fn delete(State(dispatcher): State<Arc<Dispatcher>>, headers: HeaderMap) -> Response {
    respond(dispatcher.delete(read(&headers)).await)
}

fn read(headers: &HeaderMap) -> Headers<'_> {
    let value = |name: &HeaderName| headers.get(name).map(|value| value.as_bytes());
    Headers {
        session: value(&SESSION_ID),
        version: value(&PROTOCOL_VERSION),
        last_event_id: value(&LAST_EVENT_ID),
    }
}
