//! Which trace a request belongs to, and the span by which every line of the log about it says so.

use tracing::{Span, error_span};

use super::Headers;
use crate::protocol::message::{Body, Message, Refusal};
use crate::protocol::trace::{TRACEPARENT, TraceId};

/// Returns the trace that the caller is in by its `traceparent` header, or one of its own.
pub(crate) fn of_header(traceparent: Option<&[u8]>) -> TraceId {
    let named = traceparent.and_then(|header| TraceId::read(std::str::from_utf8(header).ok()?));
    named.unwrap_or_else(fresh)
}

/// Returns the trace that the caller is in by its headers, as [`of_header`].
pub(super) fn of(headers: Headers<'_>) -> TraceId {
    of_header(headers.traceparent)
}

/// Returns the trace that the caller is in by what a single message says itself, which is nearer than its header (MCP
/// 2026-07-28, Overview, `_meta`); otherwise as [`of`].
pub(super) fn of_body(headers: Headers<'_>, parsed: &Result<Body, Refusal>) -> TraceId {
    let named = match parsed {
        Ok(Body::Single(message)) => of_message(message),
        Ok(Body::Batch(_)) | Err(_) => None,
    };
    named.unwrap_or_else(|| of(headers))
}

/// Returns the trace that a message says itself.
pub(super) fn of_message(message: &Message) -> Option<TraceId> {
    // One that cannot be read is dropped, never refused.
    let traceparent = message.params()?.meta().string(TRACEPARENT).ok().flatten()?;
    TraceId::read(&traceparent)
}

/// Returns the span of a request; at the highest level, so that it is there whatever is logged.
pub(crate) fn span(trace: TraceId) -> Span {
    error_span!("request", trace.id = %trace)
}

fn fresh() -> TraceId {
    // Without randomness an operator finds the lines by their time.
    let half = || u128::from(getrandom::u64().unwrap_or_default());
    TraceId::from_random(half() << 64 | half())
}
