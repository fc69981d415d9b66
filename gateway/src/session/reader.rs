//! The reading end of a stream: what the body of a GET response pulls from.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tracing::info;

use super::Sessions;
use super::stream::{CloseReason, Next, Stream};

/// The one reader of a stream. Dropping it ends the stream: delivery stops, the session and its subscriptions stay.
pub(crate) struct StreamReader {
    sessions: Arc<Sessions>,
    stream: Arc<Stream>,
}

impl StreamReader {
    pub(super) fn new(sessions: Arc<Sessions>, stream: Arc<Stream>) -> StreamReader {
        StreamReader { sessions, stream }
    }

    /// Returns the next bytes to write, everything that waits at once up to 64 KiB; `None` when the server ended the stream.
    ///
    /// What was returned counts as written: it is not sent again, except to a resume from an older id.
    pub(crate) fn poll_next(&self, context: &Context<'_>) -> Poll<Option<Bytes>> {
        let hub = &self.sessions.hub;
        loop {
            let (next, awaited) = self.stream.poll_next(&hub.frames, context);
            if awaited {
                hub.note_polled();
            }
            match next {
                Poll::Ready(Next::Write(bytes)) => return Poll::Ready(Some(bytes)),
                Poll::Ready(Next::End(reason)) => {
                    info!(session.id = %self.stream.session, reason = reason.as_str(), "ended a stream");
                    return Poll::Ready(None);
                }
                Poll::Ready(Next::FellBehind) => hub.fall_behind(&self.stream),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        if self.stream.take_awaited() {
            self.sessions.hub.note_polled();
        }
        self.sessions.listens.remove(&self.stream);
        let opened = self.sessions.hub.detach(&self.stream);
        // A catch-up that works for the stream ends with it.
        self.stream.close(CloseReason::ClientLeft);
        if let Some(fence) = opened {
            self.sessions
                .give_back(Arc::clone(&self.stream.session), &self.stream.principal, fence);
        }
    }
}
