//! Answers that go out on a session's stream: the HTTP+SSE transport of 2024-11-05 has no other place for them.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::registry::Session;
use super::stream::Stream;
use crate::protocol::era::Version;
use crate::protocol::frame;

/// Calls of one client that may run at a time.
const RUNNING_MAX: usize = 50;

/// Answers that may wait in one stream, in bytes. One answer always may: it can be as large as a record.
const WAITING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Up to this size answers are put together.
const TOGETHER_BYTES: usize = 16 * 1024;

/// By which transport a client opened its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// Streamable HTTP: answers go out as responses.
    Streamable,
    /// HTTP+SSE: answers go out on the stream.
    HttpSse,
}

/// What is answered on one stream.
///
/// Invariant: `size_bytes` is the sum of what waits.
pub(super) struct Replies {
    waiting: VecDeque<Bytes>,
    size_bytes: usize,
    /// Calls whose answers are still to come.
    running: usize,
    /// What the client negotiated on this stream: the session was made before it could.
    version: Version,
}

/// A stream on which a client's calls are answered.
#[derive(Clone)]
pub(crate) struct ReplyStream(Arc<Stream>);

/// A call whose answer goes out on a stream; dropped without one, there is none.
pub(crate) struct PendingReply {
    stream: Arc<Stream>,
    frame: Option<Bytes>,
}

impl Replies {
    /// Begins with the frame that tells the client where to POST.
    pub(super) fn new(session: &Session) -> Replies {
        let endpoint = frame::endpoint(&session.id);
        Replies {
            size_bytes: endpoint.len(),
            waiting: VecDeque::from([endpoint]),
            running: 0,
            version: session.version,
        }
    }

    /// Takes what waits, several small ones as one piece: a socket write of one is cheaper than that of many.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        let first = self.pop()?;
        if self.waiting.is_empty() {
            return Some(first);
        }
        let mut joined = BytesMut::from(&first[..]);
        while let Some(next) = self.waiting.front()
            && joined.len() + next.len() <= TOGETHER_BYTES
            && let Some(next) = self.pop()
        {
            joined.extend_from_slice(&next);
        }
        Some(joined.freeze())
    }

    fn pop(&mut self) -> Option<Bytes> {
        let reply = self.waiting.pop_front()?;
        self.size_bytes -= reply.len();
        Some(reply)
    }

    /// Says whether nothing waits and no answer is to come.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }

    fn has_room(&self) -> bool {
        self.running < RUNNING_MAX && self.size_bytes < WAITING_BYTES_MAX
    }

    fn push(&mut self, reply: Bytes) {
        self.size_bytes += reply.len();
        self.waiting.push_back(reply);
    }
}

impl ReplyStream {
    /// Takes a stream for its answers; `None` if its answers have responses of their own, or it was closed.
    pub(super) fn of(stream: Arc<Stream>) -> Option<ReplyStream> {
        stream.with_replies(|_| ())?;
        Some(ReplyStream(stream))
    }

    /// Begins a call; `None` if as many run or as much waits as may, or the stream was closed.
    pub(crate) fn begin(&self) -> Option<PendingReply> {
        let begun = self.0.with_replies(|replies| {
            let has_room = replies.has_room();
            replies.running += usize::from(has_room);
            has_room
        })?;
        begun.then(|| PendingReply {
            stream: Arc::clone(&self.0),
            frame: None,
        })
    }

    /// Returns the version that counts for the client's messages.
    pub(crate) fn version(&self) -> Version {
        self.0
            .with_replies(|replies| replies.version)
            .unwrap_or(Version::HTTP_SSE)
    }

    /// Notes which version was negotiated.
    pub(crate) fn negotiate(&self, version: Version) {
        self.0.with_replies(|replies| replies.version = version);
    }
}

impl PendingReply {
    /// Sends the answer, one line of JSON; `None`: there is none. It is lost if the stream was closed.
    pub(crate) fn finish(mut self, line: Option<Vec<u8>>) {
        self.frame = line.map(|line| frame::message(&line));
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        let frame = self.frame.take();
        self.stream.with_replies(|replies| {
            replies.running = replies.running.saturating_sub(1);
            if let Some(frame) = frame {
                replies.push(frame);
            }
        });
    }
}
