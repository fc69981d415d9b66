//! From an outcome to a response: the status codes and headers of the MCP endpoint.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

use super::event_stream::EventStream;
use crate::dispatch::{Outcome, RefusalCause};
use crate::protocol::error::RpcError;
use crate::protocol::{answer, frame};

/// The header that names a session.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// In which form a client takes the answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    /// As a JSON body.
    Json,
    /// As the one event of a stream: the client takes nothing else.
    EventStream,
}

/// Turns the outcome of a request into its response.
pub(super) fn respond(outcome: Outcome, form: AnswerForm) -> Response {
    match outcome {
        Outcome::Answer(body) => match form {
            AnswerForm::Json => json(StatusCode::OK, body),
            AnswerForm::EventStream => (event_stream_headers(), frame::message(&body)).into_response(),
        },
        Outcome::Initialized { session, answer } => match HeaderValue::from_str(&session) {
            Ok(id) => ([(SESSION_ID, id)], respond(Outcome::Answer(answer), form)).into_response(),
            // Ids are minted as hexadecimal digits.
            Err(_) => refusal(
                StatusCode::INTERNAL_SERVER_ERROR,
                &RpcError::internal("internal error"),
            ),
        },
        Outcome::Accepted => StatusCode::ACCEPTED.into_response(),
        Outcome::Deleted => StatusCode::NO_CONTENT.into_response(),
        Outcome::Stream(reader) => {
            (event_stream_headers(), Body::new(EventStream::new(reader))).into_response()
        }
        Outcome::Refused { cause, answer } => match cause {
            RefusalCause::Invalid => json(StatusCode::BAD_REQUEST, answer),
            RefusalCause::UnknownMethod | RefusalCause::UnknownSession => json(StatusCode::NOT_FOUND, answer),
            RefusalCause::Unavailable | RefusalCause::ServiceLimit => {
                let retry_after = [(RETRY_AFTER, retry_after())];
                (retry_after, json(StatusCode::SERVICE_UNAVAILABLE, answer)).into_response()
            }
            RefusalCause::PrincipalLimit => {
                let retry_after = [(RETRY_AFTER, retry_after())];
                (retry_after, json(StatusCode::TOO_MANY_REQUESTS, answer)).into_response()
            }
            RefusalCause::Internal => json(StatusCode::INTERNAL_SERVER_ERROR, answer),
        },
    }
}

/// Makes the response of a request that is refused before its message is read.
pub(super) fn refusal(status: StatusCode, error: &RpcError) -> Response {
    json(status, answer::error(None, error))
}

/// Returns after how many seconds to try again: jittered, so that clients do not come back in step.
pub(super) fn retry_after() -> HeaderValue {
    HeaderValue::from(1 + getrandom::u32().unwrap_or(0) % 3)
}

fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let content_type = HeaderValue::from_static("application/json");
    (status, [(CONTENT_TYPE, content_type)], body).into_response()
}

/// Returns the headers that let frames through proxies at once (B-2.6).
fn event_stream_headers() -> HeaderMap {
    HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (
            CACHE_CONTROL,
            HeaderValue::from_static("no-cache, no-store, no-transform"),
        ),
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::{AnswerForm, respond};
    use crate::dispatch::{Outcome, RefusalCause};

    #[test]
    fn b_2_8_b_6_8_what_is_refused_has_the_status_of_its_cause() {
        for (cause, status) in [
            (RefusalCause::Invalid, 400),
            (RefusalCause::UnknownMethod, 404),
            (RefusalCause::UnknownSession, 404),
            (RefusalCause::Unavailable, 503),
            (RefusalCause::Internal, 500),
        ] {
            let answer = Vec::new();
            let response = respond(Outcome::Refused { cause, answer }, AnswerForm::Json);
            assert_eq!(response.status().as_u16(), status, "{cause:?}");
            assert_eq!(response.headers()["content-type"], "application/json");
        }
    }

    #[test]
    fn b_15_2_a_limit_of_the_principal_is_429_and_one_of_the_service_503() {
        for (cause, status) in [
            (RefusalCause::PrincipalLimit, 429),
            (RefusalCause::ServiceLimit, 503),
        ] {
            let answer = Vec::new();
            let response = respond(Outcome::Refused { cause, answer }, AnswerForm::Json);
            assert_eq!(response.status().as_u16(), status);
            assert!(response.headers().contains_key("retry-after"), "{cause:?}");
        }
    }
}
