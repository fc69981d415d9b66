//! The floor: a plain SSE broadcast server without MCP.
//!
//! `GET /stream` answers with a stream of frames, `POST /publish?n=N` sends N of them to every stream and answers with the
//! first and the last id. Frames have the bytes of the gateway's, are encoded once, and reach the streams by a broadcast
//! channel under `axum::serve`.
//!
//! It comes in two forms, told apart by the type of what is broadcast. With [`Event`] it is what one writes with axum:
//! `Sse` over a broadcast stream; the bars are ratios to this one. With [`Bytes`] the body is a stream of the shared bytes
//! themselves; that saves a copy of every frame for every stream (which axum's `Sse` cannot do without) and halves the cost
//! of a burst. It is shown for orientation.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::{Stream, StreamExt as _};

use crate::URI;

/// More than the frames of any burst: a stream that lags is a failed run, not a cheaper one.
const CAPACITY: usize = 1 << 14;

/// Ids have as many digits as those of a gateway that has some thousand sessions behind it.
const FIRST_REVISION: u64 = 20_000;

/// A frame in the form in which it is broadcast.
pub trait Frame: Clone + Send + Sync + 'static {
    /// Encodes a frame.
    fn encode(event_id: u64) -> Self;

    /// Answers with a stream of frames.
    fn respond(frames: impl Stream<Item = Result<Self, Infallible>> + Send + 'static) -> Response;
}

impl Frame for Event {
    fn encode(event_id: u64) -> Event {
        Event::default()
            .id(event_id.to_string())
            .event("message")
            .data(notice())
    }

    fn respond(frames: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
        Sse::new(frames).into_response()
    }
}

impl Frame for Bytes {
    fn encode(event_id: u64) -> Bytes {
        Bytes::from(format!("id: {event_id}\nevent: message\ndata: {}\n\n", notice()))
    }

    fn respond(frames: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        (headers, Body::from_stream(frames)).into_response()
    }
}

fn notice() -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{URI}"}}}}"#)
}

struct Floor<F> {
    revision: AtomicU64,
    lagged: AtomicU64,
    frames: broadcast::Sender<F>,
}

/// Serves until the process is told to end.
///
/// # Errors
/// The listener fails.
pub async fn serve<F: Frame>(listener: TcpListener) -> anyhow::Result<()> {
    let floor = Arc::new(Floor::<F> {
        revision: AtomicU64::new(FIRST_REVISION),
        lagged: AtomicU64::new(0),
        frames: broadcast::channel(CAPACITY).0,
    });
    let router = Router::new()
        .route("/stream", get(stream::<F>))
        .route("/publish", post(publish::<F>))
        .with_state(floor);
    let listener = listener.tap_io(|connection| {
        // Without it the connection works as well, only slower: the figures would show it.
        let _ = connection.set_nodelay(true);
    });
    axum::serve(listener, router)
        .await
        .context("the floor stopped serving")
}

async fn stream<F: Frame>(State(floor): State<Arc<Floor<F>>>) -> Response {
    let frames = BroadcastStream::new(floor.frames.subscribe());
    F::respond(frames.filter_map(move |frame| match frame {
        Ok(frame) => Some(Ok(frame)),
        Err(_) => {
            floor.lagged.fetch_add(1, Ordering::Relaxed);
            None
        }
    }))
}

async fn publish<F: Frame>(State(floor): State<Arc<Floor<F>>>, RawQuery(query): RawQuery) -> Response {
    let Some(count) = frame_count(query.as_deref()) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let first = floor.revision.fetch_add(count, Ordering::Relaxed);
    for revision in first..first + count {
        // It fails only while there is no stream, and then there is nobody to miss the frame.
        let _ = floor.frames.send(F::encode(event_id(revision)));
    }
    let lagged = floor.lagged.load(Ordering::Relaxed);
    let (first, last) = (event_id(first), event_id(first + count - 1));
    format!("{{\"first\":{first},\"last\":{last},\"lagged\":{lagged}}}").into_response()
}

/// Reads `n=N`; 1 without a query, nothing where it is no count that the buffer can hold.
fn frame_count(query: Option<&str>) -> Option<u64> {
    let count = match query {
        None => 1,
        Some(query) => query.strip_prefix("n=")?.parse().ok()?,
    };
    (1..=CAPACITY as u64).contains(&count).then_some(count)
}

/// As the gateway makes it: `revision << 16 | slot`, with the slot of a record's URI.
fn event_id(revision: u64) -> u64 {
    revision << 16 | 1
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::to_bytes;
    use axum::response::sse::Event;
    use bytes::Bytes;

    use super::{CAPACITY, Frame, frame_count};

    #[test]
    fn a_count_is_one_or_what_the_query_says() {
        assert_eq!(frame_count(None), Some(1));
        assert_eq!(frame_count(Some("n=250")), Some(250));
        assert_eq!(frame_count(Some("n=0")), None);
        assert_eq!(frame_count(Some("m=1")), None);
        assert_eq!(frame_count(Some(&format!("n={}", CAPACITY + 1))), None);
    }

    async fn sent<F: Frame>() -> Bytes {
        let frames = tokio_stream::iter([Ok::<F, Infallible>(F::encode(65_537))]);
        to_bytes(F::respond(frames).into_body(), 1_000).await.unwrap()
    }

    #[tokio::test]
    async fn both_forms_send_the_same_bytes() {
        let expected = "id: 65537\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"feed+rest://127.0.0.1:9926/Product/42\"}}\n\n";
        assert_eq!(sent::<Event>().await, expected);
        assert_eq!(sent::<Bytes>().await, expected);
    }
}
