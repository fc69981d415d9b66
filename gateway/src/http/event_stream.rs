//! The body of a GET stream: polled by hyper straight over the session's list of frames.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};

use crate::session::StreamReader;

/// An SSE body. Dropping it ends the stream.
pub(super) struct EventStream(StreamReader);

impl EventStream {
    /// Makes the body of a stream.
    pub(super) fn new(reader: StreamReader) -> EventStream {
        EventStream(reader)
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_next(context)
            .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
