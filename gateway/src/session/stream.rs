//! One open stream, a session's GET stream or a listen: what is to be written, and in which order.
//!
//! A plain value behind a short mutex. The hub appends positions, a catch-up appends blocks, the writer pulls; whoever
//! finds the writer waiting takes its waker and wakes it. Order: blocks of a catch-up first, live frames after them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use super::SessionId;
use super::counts::Counts;
use super::form::Form;
use super::frame_ring::FrameRing;
use super::positions::Positions;
use super::registry::Session;
use super::replies::{Door, Replies};
use super::takeovers::Takeovers;
use super::vigil::{self, Hold};
use super::write_progress::WriteProgress;
use crate::protocol::era::{self, Features, Version};
use crate::protocol::event_id::{EventId, Slot};
use crate::protocol::frame::{self, EncodedUri};

/// The most bytes that are handed to the socket at once: beyond it a larger piece makes no write cheaper.
const WRITE_BYTES: usize = 64 * 1024;

/// An open stream.
pub(super) struct Stream {
    /// The session that it belongs to; for a listen a name of its own.
    pub(super) session: SessionId,
    /// The principal that it belongs to.
    pub(super) principal: Box<str>,
    /// Whether the connection takes what is written.
    progress: Arc<WriteProgress>,
    /// What the stream may carry besides notices.
    pub(super) features: &'static Features,
    /// How its frames are written.
    pub(super) form: Form,
    takeovers: Arc<Takeovers>,
    counts: Arc<Counts>,
    /// Whether this process was stopped and does not know yet whether the stream is still its own.
    hold: Hold,
    inner: Mutex<Inner>,
}

/// Held only for a few moves in memory, never across an await: a std mutex is the cheapest that does that.
///
/// Invariant: ids rise in `blocks`, then in `live`; those in `live` are above `cursor`, those in `blocks` at or below.
struct Inner {
    /// The first bytes have left.
    begun: bool,
    /// What is answered on the stream, ahead of everything else; only where answers have no response of their own.
    replies: Option<Box<Replies>>,
    /// Blocks that this stream alone gets.
    blocks: VecDeque<Block>,
    /// Positions in the frame ring that are not written yet.
    live: Positions,
    /// Everything up to this id is written, in `blocks` or in `live`, or does not concern the stream.
    ///
    /// While `live` is empty this is where a catch-up goes on; a live frame that is written moves it.
    cursor: EventId,
    /// A line for the first frame of a client that gets no opening block.
    retry_line: Option<Duration>,
    /// No more live frames are appended: a catch-up has to bring the stream up again.
    behind: bool,
    closed: Option<CloseReason>,
    /// The stream is to be closed for this reason when everything is written; how long the client is to wait then.
    ending: Option<(CloseReason, Duration)>,
    /// Where a client goes on when the stream was ended so.
    ending_at: EventId,
    /// The last frame that the stream's form demands was written, or there is none.
    bade_farewell: bool,
    /// The writer waits for something to write.
    writer: Option<Waker>,
    /// The hub counts on the writer to come (see [`Stream::push`]).
    awaited: bool,
    /// A catch-up waits until the blocks are written.
    drained: Option<Waker>,
    keep_alive_due: bool,
    /// Since when the writer was seen not to come although something waits. On HTTP/2 a stream stalls by its own window while
    /// its connection goes on, so that the connection's progress says nothing about it.
    left_alone_since: Option<Instant>,
    /// When something was written last.
    written: Instant,
    /// When the client's cursor was moved on last by a bookmark, or the stream opened.
    bookmarked: Instant,
}

/// A block that one stream alone gets.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Its event id; `None` for one that cannot be replayed.
    pub(super) id: Option<EventId>,
    /// The spelling in which it names a URI, if it is a notice.
    pub(super) spelling: Option<Arc<EncodedUri>>,
    /// The bytes as they go out.
    pub(super) bytes: Bytes,
}

/// Why the server ended a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// A newer stream of the session was opened.
    TakenOver,
    /// The client did not take what was written.
    Slow,
    /// Its client cancelled the listen.
    Cancelled,
    /// The client is gone; nobody reads any more.
    ClientLeft,
    /// The session was deleted or expired.
    SessionEnded,
    /// The feed service has another history; the client opens again and is told the gap.
    LostHistory,
    /// The gateway ends.
    Shutdown,
}

impl CloseReason {
    /// Returns the reason as it stands in logs and metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            CloseReason::TakenOver => "taken_over",
            CloseReason::Slow => "slow",
            CloseReason::Cancelled => "cancelled",
            CloseReason::ClientLeft => "client_left",
            CloseReason::SessionEnded => "session_ended",
            CloseReason::LostHistory => "lost_history",
            CloseReason::Shutdown => "shutdown",
        }
    }
}

/// What came of handing frames to a stream.
pub(super) enum Pushed {
    /// They wait to be written; the writer is idle and is to be woken after the publication.
    Idle(Waker),
    /// They wait to be written; the writer was at work. It may look before the publication and find nothing, so it has to
    /// be asked again after it (see [`Stream::take_writer`]).
    Busy,
    /// The stream takes none: it is closed, or a catch-up brings them.
    Refused,
    /// The stream had too many waiting: it lost them all and has to be caught up from its cursor.
    Overflowed,
}

/// What a writer is to do next.
pub(super) enum Next {
    /// Write this.
    Write(Bytes),
    /// A frame that it needed is gone: it has to be caught up from its cursor.
    FellBehind,
    /// End the body.
    End(CloseReason),
}

impl Stream {
    /// Makes a stream that is not live yet; its first bytes leave at once. `retry` is how long its client is to wait
    /// before it opens the next one; `progress` is its connection's.
    pub(super) fn new(
        session: &Session,
        retry: Duration,
        door: Door,
        progress: Arc<WriteProgress>,
        counts: Arc<Counts>,
        hold: Hold,
    ) -> Stream {
        let (version, replies) = match door {
            Door::Streamable => (session.version, None),
            // Whatever was negotiated: its client libraries dispatch every event.
            Door::HttpSse => (Version::HTTP_SSE, Some(Box::new(Replies::new(session)))),
        };
        let features = version.features();
        let mut inner = Inner::new();
        inner.replies = replies;
        inner.retry_line = (!features.opening_block).then_some(retry);
        Stream {
            session: Arc::clone(&session.id),
            principal: session.principal.clone(),
            features,
            form: Form::Session,
            progress,
            takeovers: Arc::clone(&session.takeovers),
            counts,
            hold,
            inner: Mutex::new(inner),
        }
    }

    /// Makes the stream of a listen, which has no session: `name` stands in place of its id. It is not live yet.
    pub(super) fn listen(
        name: SessionId,
        principal: &str,
        form: Form,
        progress: Arc<WriteProgress>,
        counts: Arc<Counts>,
        hold: Hold,
    ) -> Stream {
        let mut inner = Inner::new();
        // Its first bytes are its acknowledgement, or the comment that is let out when that takes long.
        inner.begun = true;
        Stream {
            session: name,
            principal: principal.into(),
            features: era::LISTEN,
            form,
            progress,
            takeovers: Arc::default(),
            counts,
            hold,
            inner: Mutex::new(inner),
        }
    }

    /// Lets a comment out, before the first frame.
    pub(super) fn greet(&self) {
        let mut inner = self.lock();
        inner.blocks.push_front(greeting());
        let waker = inner.writer.take();
        drop(inner);
        wake(waker);
    }

    /// Appends live frames by their rising positions; the caller publishes them and then wakes the writer.
    ///
    /// Ordered within the pass: positions at or after `pass_start` are of the same pass and put into order.
    pub(super) fn push(&self, positions: &[u64], pass_start: u64, pending_max: usize) -> Pushed {
        let mut inner = self.lock();
        if inner.closed.is_some() || inner.behind {
            return Pushed::Refused;
        }
        if inner.live.len() + positions.len() > pending_max {
            inner.live.clear();
            inner.behind = true;
            return Pushed::Overflowed;
        }
        inner.live.append(positions, pass_start);
        match inner.writer.take() {
            Some(waker) => {
                inner.awaited = true;
                Pushed::Idle(waker)
            }
            None => Pushed::Busy,
        }
    }

    /// Takes the waker of a writer that went idle although live frames wait: it looked before they were published.
    pub(super) fn take_writer(&self) -> Option<Waker> {
        let mut inner = self.lock();
        if inner.live.is_empty() {
            return None;
        }
        let waker = inner.writer.take();
        inner.awaited |= waker.is_some();
        waker
    }

    /// Appends the blocks for everything up to `until`.
    pub(super) fn prepare(&self, blocks: impl IntoIterator<Item = Block>, until: EventId) {
        self.append(blocks, until, false);
    }

    /// Appends the last blocks, for everything up to `until`; from now on live frames follow.
    pub(super) fn go_live(&self, blocks: impl IntoIterator<Item = Block>, until: EventId) {
        self.append(blocks, until, true);
    }

    fn append(&self, blocks: impl IntoIterator<Item = Block>, until: EventId, live: bool) {
        let mut inner = self.lock();
        if inner.closed.is_some() {
            return;
        }
        inner.blocks.extend(blocks);
        inner.cursor = inner.cursor.max(until);
        inner.behind = !live;
        let ends = live && inner.ending.is_some();
        let waker = if inner.blocks.is_empty() && !ends {
            None
        } else {
            inner.writer.take()
        };
        drop(inner);
        wake(waker);
    }

    /// Takes what comes next for the socket, or leaves the waker. Nothing is lost if the answer is dropped only after it was written.
    ///
    /// While the stream is held, nothing comes but the end of one that was closed; [`Stream::look_again`] after that.
    ///
    /// The second value says whether the hub was waiting for this call.
    pub(super) fn poll_next(&self, frames: &FrameRing, context: &Context<'_>) -> (Poll<Next>, bool) {
        let mut inner = self.lock();
        let awaited = std::mem::take(&mut inner.awaited);
        inner.left_alone_since = None;
        // Under the lock, so that the hold cannot end between this look and the waker that is left.
        let next = if inner.closed.is_none() && self.hold.is_on(vigil::now()) {
            inner.wait(context)
        } else {
            inner.poll_next(&self.form, frames, context)
        };
        if let Poll::Ready(Next::Write(_)) = &next {
            self.progress.note_given();
        }
        if let Poll::Ready(Next::End(reason)) = &next
            && inner.closed.is_none()
        {
            // A planned end is over here; whatever comes later is not why.
            inner.closed = Some(*reason);
            self.counts.stream_ends.add(*reason);
        }
        (next, awaited)
    }

    /// Waits until every block was handed to the socket, or the stream was closed.
    pub(super) async fn drained(&self) {
        std::future::poll_fn(|context| {
            let mut inner = self.lock();
            if inner.blocks.is_empty() || inner.closed.is_some() {
                return Poll::Ready(());
            }
            inner.drained = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Ends the stream: what waits is dropped, the body ends. The first reason stands.
    pub(super) fn close(&self, reason: CloseReason) {
        let mut inner = self.lock();
        if inner.closed.is_some() {
            return;
        }
        inner.closed = Some(reason);
        self.counts.stream_ends.add(reason);
        if reason == CloseReason::TakenOver {
            self.progress.note_taken_over();
            self.takeovers.note(Instant::now());
            self.counts.takeovers.add(1);
            if !inner.blocks.is_empty() || !inner.live.is_empty() || inner.behind {
                self.counts.takeovers_with_pending.add(1);
            }
        }
        inner.blocks = VecDeque::new();
        inner.replies = None;
        inner.live.clear();
        let wakers = (inner.writer.take(), inner.drained.take());
        drop(inner);
        wake(wakers.0);
        wake(wakers.1);
    }

    /// Ends the stream as planned: after what waits is written and the calls that are answered on it are done, with a
    /// bookmark at `revision` before the end where the client takes one (see [`Stream::bookmark`]). One that is being
    /// caught up ends when it is. `retry` is how long the client is to wait before it opens the next one.
    pub(super) fn end(&self, reason: CloseReason, revision: u64, retry: Duration) {
        let mut inner = self.lock();
        if inner.closed.is_some() || inner.ending.is_some() {
            return;
        }
        inner.ending = Some((reason, retry));
        inner.ending_at = EventId::new(revision, Slot::Bookmark);
        if self.features.bookmarks {
            inner.bookmark(revision);
        }
        let waker = inner.writer.take();
        drop(inner);
        wake(waker);
    }

    /// Says whether the stream was closed, or is to end.
    pub(super) fn is_ending(&self) -> bool {
        let inner = self.lock();
        inner.closed.is_some() || inner.ending.is_some()
    }

    /// Returns for how long nothing was taken of what waits: by the connection, or by the stream itself, as far as that was seen at earlier
    /// calls.
    pub(super) fn stalled_for(&self, now: Instant) -> Duration {
        let mut inner = self.lock();
        let waits = !inner.blocks.is_empty() || !inner.live.is_empty();
        let left_alone = if waits && inner.writer.is_none() {
            now.saturating_duration_since(*inner.left_alone_since.get_or_insert(now))
        } else {
            Duration::ZERO
        };
        self.progress.stalled_for().max(left_alone)
    }

    /// Works on what is answered on this stream; `None` where answers have responses of their own, or it was closed.
    pub(super) fn with_replies<T>(&self, work: impl FnOnce(&mut Replies) -> T) -> Option<T> {
        let mut inner = self.lock();
        if inner.closed.is_some() {
            return None;
        }
        let done = inner.replies.as_deref_mut().map(work);
        let waker = inner.writer.take_if(|_| done.is_some());
        drop(inner);
        wake(waker);
        done
    }

    /// Moves the client's cursor on to `revision`, if nothing did so since `since` or it is behind by `lag_max` revisions, and
    /// everything up to there is written.
    ///
    /// Every change up to `revision` must have been pushed before.
    pub(super) fn bookmark(&self, revision: u64, since: Instant, lag_max: u64) {
        let mut inner = self.lock();
        let is_due = inner.bookmarked <= since || revision.saturating_sub(inner.cursor.revision()) >= lag_max;
        if !self.features.bookmarks || !is_due || inner.writer.is_none() {
            return;
        }
        if inner.bookmark(revision) {
            let waker = inner.writer.take();
            drop(inner);
            wake(waker);
        }
    }

    /// Returns whether the stream was closed.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed.is_some()
    }

    /// Returns where a catch-up goes on: everything up to this id is written or waits in blocks.
    pub(super) fn cursor(&self) -> EventId {
        self.lock().cursor
    }

    /// Returns whether the hub counts on the writer to come, and counts no more.
    pub(super) fn take_awaited(&self) -> bool {
        std::mem::take(&mut self.lock().awaited)
    }

    /// Takes the live frames away and returns whether they were flowing until now.
    pub(super) fn fall_behind(&self) -> bool {
        let mut inner = self.lock();
        inner.live.clear();
        !std::mem::replace(&mut inner.behind, true)
    }

    /// Drops the notices of one spelling that are not written yet.
    pub(super) fn discard(&self, frames: &FrameRing, spelling: &Arc<EncodedUri>) {
        let mut inner = self.lock();
        inner
            .blocks
            .retain(|block| block.spelling.as_ref() != Some(spelling));
        frames.discard(&mut inner.live, spelling);
        // A catch-up that waits for the blocks to be written has nothing to wait for any more.
        let waker = if inner.blocks.is_empty() {
            inner.drained.take()
        } else {
            None
        };
        drop(inner);
        wake(waker);
    }

    /// Lets a comment line out if nothing was written since `since`.
    pub(super) fn keep_alive(&self, since: Instant) {
        let mut inner = self.lock();
        if inner.written > since || inner.writer.is_none() {
            return;
        }
        inner.keep_alive_due = true;
        let waker = inner.writer.take();
        drop(inner);
        wake(waker);
    }

    /// Wakes the writer, which was held.
    pub(super) fn look_again(&self) {
        let waker = self.lock().writer.take();
        wake(waker);
    }

    /// Takes the waker away, as a poll does that finds something to write.
    #[cfg(test)]
    pub(super) fn forget_writer(&self) -> Option<Waker> {
        self.lock().writer.take()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every section leaves the state whole, so a poisoned lock is as good as another.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn new() -> Inner {
        let now = Instant::now();
        Inner {
            begun: false,
            replies: None,
            blocks: VecDeque::new(),
            live: Positions::default(),
            cursor: EventId::from_u64(0),
            retry_line: None,
            behind: true,
            closed: None,
            ending: None,
            ending_at: EventId::from_u64(0),
            bade_farewell: false,
            writer: None,
            awaited: false,
            drained: None,
            keep_alive_due: false,
            left_alone_since: None,
            written: now,
            bookmarked: now,
        }
    }

    fn poll_next(&mut self, form: &Form, frames: &FrameRing, context: &Context<'_>) -> Poll<Next> {
        if let Some(reason) = self.closed {
            return self.end(form, reason, None);
        }
        if !std::mem::replace(&mut self.begun, true) && self.replies.is_none() {
            return self.write(Bytes::from_static(frame::OPENED));
        }
        if let Some(bytes) = self.replies.as_deref_mut().and_then(Replies::take) {
            return self.write_frames(bytes);
        }
        if let Some(bytes) = self.take_blocks() {
            return self.write_frames(bytes);
        }
        if !self.live.is_empty() {
            match frames.take(&self.live, form, WRITE_BYTES) {
                Ok(Some(taken)) => {
                    self.live.remove_first(taken.count);
                    self.cursor = taken.last;
                    return self.write_frames(taken.bytes);
                }
                Ok(None) => {}
                Err(_dropped) => return Poll::Ready(Next::FellBehind),
            }
        }
        if let Some((reason, _)) = self.ending
            && self.live.is_empty()
            && !self.behind
            && self.replies.as_deref().is_none_or(Replies::is_done)
        {
            let written = self.cursor.max(self.ending_at);
            return self.end(form, reason, Some(written));
        }
        if std::mem::take(&mut self.keep_alive_due) {
            return self.write(Bytes::from_static(frame::COMMENT));
        }
        self.wait(context)
    }

    fn wait(&mut self, context: &Context<'_>) -> Poll<Next> {
        match &mut self.writer {
            Some(waker) => waker.clone_from(context.waker()),
            writer => *writer = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Writes the last frame where the form has one, and then ends; `written`: everything up to it was written.
    fn end(&mut self, form: &Form, reason: CloseReason, written: Option<EventId>) -> Poll<Next> {
        if !std::mem::replace(&mut self.bade_farewell, true)
            && let Some(bytes) = form.farewell(reason, written)
        {
            return self.write(bytes);
        }
        Poll::Ready(Next::End(reason))
    }

    /// Appends a bookmark if it would tell the client something new and nothing waits that comes before it.
    fn bookmark(&mut self, revision: u64) -> bool {
        let quiet = self.blocks.is_empty() && self.live.is_empty() && !self.behind && self.closed.is_none();
        if !quiet || revision <= self.cursor.revision() {
            return false;
        }
        let id = EventId::new(revision, Slot::Bookmark);
        let bookmark = frame::bookmark(id);
        self.blocks.push_back(Block {
            id: Some(id),
            spelling: None,
            bytes: match self.ending {
                Some((_, retry)) => frame::with_retry(&bookmark, retry),
                None => bookmark,
            },
        });
        self.cursor = id;
        self.bookmarked = Instant::now();
        true
    }

    fn write_frames(&mut self, bytes: Bytes) -> Poll<Next> {
        match self.retry_line.take() {
            Some(retry) => self.write(frame::with_retry(&bytes, retry)),
            None => self.write(bytes),
        }
    }

    fn write(&mut self, bytes: Bytes) -> Poll<Next> {
        self.keep_alive_due = false;
        self.written = Instant::now();
        Poll::Ready(Next::Write(bytes))
    }

    /// Takes the blocks that fit into one write; one at least.
    fn take_blocks(&mut self) -> Option<Bytes> {
        let first = self.blocks.pop_front()?;
        let mut bytes = first.bytes;
        if let Some(second) = self.blocks.front() {
            let mut joined = BytesMut::with_capacity(WRITE_BYTES.min(bytes.len() + second.bytes.len()));
            joined.extend_from_slice(&bytes);
            while let Some(block) = self.blocks.front()
                && joined.len() + block.bytes.len() <= WRITE_BYTES
            {
                joined.extend_from_slice(&block.bytes);
                self.blocks.pop_front();
            }
            bytes = joined.freeze();
        }
        if self.blocks.is_empty() {
            self.blocks = VecDeque::new();
            wake(self.drained.take());
        }
        Some(bytes)
    }
}

/// The first bytes of a stream that has nothing to say yet.
fn greeting() -> Block {
    Block {
        id: None,
        spelling: None,
        bytes: Bytes::from_static(frame::OPENED),
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
