//! The REST surface: one record of an exported table under `/{Path}/{key}`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH, IF_NONE_MATCH, LOCATION, RETRY_AFTER};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use serde_json::json;
use thiserror::Error;
use tracing::Instrument;

use super::answer::retry_after;
use super::body;
use super::negotiate::{JSON, is_json};
use crate::dispatch::{Dispatcher, Precondition, RecordFailure, traced};
use crate::protocol::resource_uri::{self, ResourceUri, RowUri};
use crate::protocol::trace::{TRACEPARENT, TraceId};

/// The media type of an error (RFC 9457).
const PROBLEM: &str = "application/problem+json";

/// The methods that a record's path serves.
const RECORD_METHODS: &str = "DELETE, GET, HEAD, PUT";

/// Serves a path that no other route has.
pub(super) async fn serve(State(dispatcher): State<Arc<Dispatcher>>, request: Request<Body>) -> Response {
    let header = request.headers().get(TRACEPARENT);
    let trace = traced::of_header(header.map(HeaderValue::as_bytes));
    serve_record(&dispatcher, request, trace)
        .instrument(traced::span(trace))
        .await
}

async fn serve_record(dispatcher: &Dispatcher, request: Request<Body>, trace: TraceId) -> Response {
    let row = match read_path(request.uri()) {
        Some(row) if dispatcher.serves_table(&row.path) => row,
        // Which tables there are is not known yet.
        Some(_) if !dispatcher.knows_tables() => return failed(trace, RecordFailure::Unavailable),
        _ => {
            return problem(
                StatusCode::NOT_FOUND,
                &format!("nothing is served under {}", request.uri().path()),
            );
        }
    };
    let Some(key) = &row.key else {
        return not_allowed("", &format!("name a record: /{}/{{key}}", row.path));
    };
    match *request.method() {
        Method::GET | Method::HEAD => get(dispatcher, &row, key, trace).await,
        Method::PUT => put(dispatcher, &row, key, request, trace).await,
        Method::DELETE => delete(dispatcher, &row, key, request.headers(), trace).await,
        _ => not_allowed(RECORD_METHODS, &format!("a record serves {RECORD_METHODS}")),
    }
}

async fn get(dispatcher: &Dispatcher, row: &RowUri, key: &str, trace: TraceId) -> Response {
    match dispatcher.read_record(&row.path, key).await {
        Ok(Some(record)) => ([etag(record.revision), content_type(JSON)], record.value).into_response(),
        Ok(None) => absent(row, key),
        Err(error) => failed(trace, error),
    }
}

async fn put(
    dispatcher: &Dispatcher,
    row: &RowUri,
    key: &str,
    request: Request<Body>,
    trace: TraceId,
) -> Response {
    if !is_json(request.headers()) {
        return problem(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type must be application/json",
        );
    }
    let precondition = match precondition(request.headers()) {
        Ok(precondition) => precondition,
        Err(error) => return error.respond(),
    };
    let location = request.uri().path().to_owned();
    let (parts, body) = request.into_parts();
    let body = match body::read(&parts.extensions, body).await {
        Ok(body) => body,
        Err(error) => return problem(error.status(), &error.to_string()),
    };
    let written = match dispatcher.put_record(&row.path, key, body, precondition).await {
        Ok(written) => written,
        Err(error) => return failed(trace, error),
    };
    let body = json!({ "key": key, "revision": written.revision }).to_string();
    let headers = [etag(written.revision), content_type(JSON)];
    if written.existed {
        return (StatusCode::OK, headers, body).into_response();
    }
    let mut response = (StatusCode::CREATED, headers, body).into_response();
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

async fn delete(
    dispatcher: &Dispatcher,
    row: &RowUri,
    key: &str,
    headers: &HeaderMap,
    trace: TraceId,
) -> Response {
    let precondition = match precondition(headers) {
        Ok(precondition) => precondition,
        Err(error) => return error.respond(),
    };
    match dispatcher.delete_record(&row.path, key, precondition).await {
        Ok(written) if written.existed => StatusCode::NO_CONTENT.into_response(),
        Ok(_) => absent(row, key),
        Err(error) => failed(trace, error),
    }
}

/// Why the conditions of a write cannot hold, or are not served.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
enum ConditionError {
    /// No record ever had such a tag.
    #[error("no record has the entity tag {0}")]
    UnknownTag(String),
    /// A form of conditions that is not served.
    #[error("If-None-Match: {0} is not served on a write: use *, and not together with If-Match")]
    NotServed(String),
}

impl ConditionError {
    fn respond(&self) -> Response {
        let status = match self {
            ConditionError::UnknownTag(_) => StatusCode::PRECONDITION_FAILED,
            ConditionError::NotServed(_) => StatusCode::NOT_IMPLEMENTED,
        };
        problem(status, &self.to_string())
    }
}

/// Reads what a write asks for in `If-Match` and `If-None-Match` (RFC 9110, section 13.1): one entity tag, or `*`.
fn precondition(headers: &HeaderMap) -> Result<Precondition, ConditionError> {
    let value = |name| {
        let value = headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
    };
    match (value(IF_MATCH).as_deref(), value(IF_NONE_MATCH).as_deref()) {
        (None, None) => Ok(Precondition::None),
        (Some("*"), None) => Ok(Precondition::Exists),
        (None, Some("*")) => Ok(Precondition::Absent),
        (Some(tag), None) => {
            let revision = tag
                .strip_prefix('"')
                .and_then(|tag| tag.strip_suffix('"')?.parse().ok());
            revision
                .map(Precondition::Revision)
                .ok_or_else(|| ConditionError::UnknownTag(tag.to_owned()))
        }
        (_, Some(tag)) => Err(ConditionError::NotServed(tag.to_owned())),
    }
}

/// Reads the path as the URI of a record is read, so that both surfaces name a record by the same escapes.
fn read_path(uri: &Uri) -> Option<RowUri> {
    match resource_uri::parse(&format!("http://host{}", uri.path())) {
        Ok(ResourceUri::Row(row)) => Some(row),
        _ => None,
    }
}

fn absent(row: &RowUri, key: &str) -> Response {
    problem(
        StatusCode::NOT_FOUND,
        &format!("{} has no record {key}", row.path),
    )
}

fn not_allowed(methods: &'static str, detail: &str) -> Response {
    let allow = [(ALLOW, HeaderValue::from_static(methods))];
    (allow, problem(StatusCode::METHOD_NOT_ALLOWED, detail)).into_response()
}

/// Gives a failure its status.
fn failed(trace: TraceId, failure: RecordFailure) -> Response {
    let status = match &failure {
        RecordFailure::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        RecordFailure::UnknownTable(_) => StatusCode::NOT_FOUND,
        RecordFailure::Invalid(_) => StatusCode::BAD_REQUEST,
        RecordFailure::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        RecordFailure::Conflict(_) => StatusCode::PRECONDITION_FAILED,
        RecordFailure::PermissionDenied => StatusCode::FORBIDDEN,
        RecordFailure::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    };
    if failure == RecordFailure::Internal {
        // The cause is in the log, under this id.
        let body = json!({
            "title": "Internal Server Error",
            "status": status.as_u16(),
            "detail": failure.to_string(),
            "traceId": trace.to_string(),
        });
        return (status, [content_type(PROBLEM)], body.to_string()).into_response();
    }
    let response = problem(status, &failure.to_string());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        return ([(RETRY_AFTER, retry_after())], response).into_response();
    }
    response
}

/// Makes an error response (RFC 9457).
fn problem(status: StatusCode, detail: &str) -> Response {
    let title = status.canonical_reason().unwrap_or("error");
    let body = json!({ "title": title, "status": status.as_u16(), "detail": detail }).to_string();
    (status, [content_type(PROBLEM)], body).into_response()
}

fn content_type(media_type: &'static str) -> (http::HeaderName, HeaderValue) {
    (CONTENT_TYPE, HeaderValue::from_static(media_type))
}

/// The entity tag of a record is its revision.
fn etag(revision: u64) -> (http::HeaderName, HeaderValue) {
    let tag = HeaderValue::from_str(&format!("\"{revision}\"")).unwrap_or(HeaderValue::from_static("\"0\""));
    (ETAG, tag)
}
