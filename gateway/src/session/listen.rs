//! A listen: a stream without a session, whose interest lives in the hub alone.
//!
//! It is live before its acknowledgement leaves: the feed service is asked for its head, the hub reads up to there, and
//! from then on the stream is in the hub. So exactly what is committed after the request came is told, on any instance.
//! A listen that goes on from a cursor is brought up by the same catch-up as a session's stream.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tracing::info;

use super::Sessions;
use super::catch_up::{Gap, collect, go_on, tell_gap, with_id};
use super::counts::{ResumeOutcome, Transport};
use super::form::{Form, ListenForm};
use super::hub::Step;
use super::reader::StreamReader;
use super::stream::{Block, CloseReason, Stream};
use super::subscriptions::Subscriptions;
use super::write_progress::WriteProgress;
use crate::feed::FeedError;
use crate::protocol::cursor::Cursor;
use crate::protocol::event_id::{EventId, Slot};
use crate::protocol::listen::ListFlags;
use crate::protocol::listen_frame::{self, Acknowledgement, SubscriptionTag};
use crate::protocol::message::RequestId;
use crate::protocol::resource_uri::RowUri;

/// How long a listen waits until this instance has read what the feed service has: it is milliseconds behind.
const CATCH_UP_MAX: Duration = Duration::from_secs(5);

/// How often a listen begins anew because the feed turned out to have another history meanwhile.
const ATTEMPTS_MAX: usize = 3;

/// What a listen is to hear of; all of it is honoured.
#[derive(Clone, Debug)]
pub(crate) struct Listen {
    /// The id of the request.
    pub(crate) request: RequestId,
    /// The lists.
    pub(crate) lists: ListFlags,
    /// Tables and records, each once.
    pub(crate) rows: Vec<RowUri>,
    /// How notices name them, in the same order.
    pub(crate) spellings: Vec<String>,
    /// Who the server is, as JSON.
    pub(crate) server: Arc<str>,
    /// Where its client is, as it was told earlier.
    pub(crate) resume_from: Option<String>,
}

/// Where a listen begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// At the present.
    Present,
    /// After the last frame that its client saw.
    After(EventId),
    /// At the present, and what its client missed cannot be known.
    Gap,
}

impl Sessions {
    /// Opens a listen of this principal; `progress` is its connection's. What its client missed follows behind the acknowledgement, and then it is live.
    ///
    /// Waits for the feed service; dropping the future opens nothing.
    ///
    /// # Errors
    /// [`FeedError::Unavailable`] if the feed service is away, or this instance is too far behind it.
    pub(crate) async fn listen(
        self: &Arc<Sessions>,
        principal: &str,
        listen: &Listen,
        progress: &Arc<WriteProgress>,
    ) -> Result<StreamReader, FeedError> {
        for _ in 0..ATTEMPTS_MAX {
            let (epoch, feed) = self.ring.history();
            let head = match self.feed.read_head(self.hub.position()).await {
                // The watch is about to find out by itself that the history is another one.
                Err(FeedError::LostHistory | FeedError::Compacted) => return Err(FeedError::Unavailable),
                head => head?,
            };
            if timeout(CATCH_UP_MAX, self.hub.reached(head)).await.is_err() {
                return Err(FeedError::Unavailable);
            }
            let start = match listen.resume_from.as_deref().map(Cursor::decode) {
                None => Start::Present,
                Some(Some(cursor)) if cursor.feed == feed && cursor.id.revision() <= head => {
                    Start::After(cursor.id)
                }
                Some(_) => Start::Gap,
            };
            let since = match start {
                Start::Present | Start::Gap => head,
                Start::After(_) => 0,
            };
            let form = Form::Listen(Arc::new(ListenForm {
                request: listen.request.clone(),
                tag: SubscriptionTag::new(&listen.request),
                feed,
                lists: listen.lists,
                server: Arc::clone(&listen.server),
            }));
            let subscriptions =
                Subscriptions::of_listen(form.clone(), &listen.rows, &listen.spellings, since);
            let stream = Arc::new(Stream::listen(
                self.listens.name(),
                principal,
                form,
                Arc::clone(progress),
                Arc::clone(&self.counts),
                self.vigil.hold(),
            ));
            let reader = StreamReader::new(Arc::clone(self), Arc::clone(&stream));
            self.hub.attach(&stream);
            let adopted = self.hub.adopt(&stream, head, subscriptions);
            if adopted.is_err() || self.ring.history() != (epoch, feed) || !self.hub.is_in(epoch) {
                // Dropping the reader takes the stream out again.
                drop(reader);
                continue;
            }
            self.listens.insert(&stream);
            self.counts.stream_opens.add(Transport::Listen);
            info!(session.id = %stream.session, revision = head, ?start, "opened a listen");
            self.begin(stream, listen, start, head);
            return Ok(reader);
        }
        Err(FeedError::Unavailable)
    }

    /// Ends the listen of this principal and id, if there is exactly one here, because its client said so.
    pub(crate) fn cancel_listen(&self, principal: &str, request: &RequestId) {
        if let Some(stream) = self.listens.find_single(principal, request) {
            stream.close(CloseReason::Cancelled);
        }
    }

    /// Acknowledges a listen and lets it go live, at once where nothing was missed.
    fn begin(self: &Arc<Sessions>, stream: Arc<Stream>, listen: &Listen, start: Start, head: u64) {
        let present = EventId::new(head, Slot::Bookmark);
        match start {
            Start::Present => {
                stream.prepare([acknowledge(&stream, listen, false, present)], present);
                if !matches!(self.hub.go_live(&stream, present, head), Step::Further) {
                    return;
                }
                let sessions = Arc::clone(self);
                self.spawn(async move { go_on(&sessions, &stream, present).await });
            }
            Start::Gap | Start::After(_) => {
                // A comment, since the acknowledgement may take a moment.
                stream.greet();
                let (sessions, listen) = (Arc::clone(self), listen.clone());
                self.spawn(async move { resume(&sessions, &stream, &listen, start).await });
            }
        }
    }
}

/// Acknowledges a listen behind what its client missed was found, sends that, and lets it go live.
async fn resume(sessions: &Sessions, stream: &Arc<Stream>, listen: &Listen, start: Start) {
    let Some(snapshot) = sessions.hub.snapshot(stream) else {
        return;
    };
    let end = EventId::new(snapshot.position, Slot::Bookmark);
    let missed = match start {
        Start::After(id) => collect(sessions, stream, &snapshot.subscriptions, id, snapshot.position)
            .await
            .map(|(blocks, source)| (blocks, source, id)),
        Start::Gap | Start::Present => Err(Gap),
    };
    let (mut blocks, acknowledgement) = match missed {
        Ok((blocks, source, id)) => {
            sessions.note_resume(source.into(), with_id(&blocks));
            // Where nothing was missed, nothing up to the present is left to be told: so a listen that was quiet for long gets its
            // cursor moved on by opening it anew (there is no notice that might do it on an open one).
            let place = if blocks.is_empty() { end } else { id };
            (blocks, acknowledge(stream, listen, true, place))
        }
        Err(Gap) => {
            sessions.note_resume(ResumeOutcome::Gap, 0);
            let blocks = tell_gap(&snapshot.subscriptions, end);
            // With nothing to be told the gap is over with the acknowledgement.
            let place = if blocks.is_empty() { Some(end) } else { None };
            (blocks, acknowledge(stream, listen, false, place))
        }
    };
    blocks.insert(0, acknowledgement);
    sessions.hub.prepare(stream, &snapshot, blocks, end);
    go_on(sessions, stream, end).await;
}

/// Makes the acknowledgement; `place` is where its client goes on if the connection breaks right behind it, none within a gap.
fn acknowledge(stream: &Stream, listen: &Listen, resumed: bool, place: impl Into<Option<EventId>>) -> Block {
    let bytes = match &stream.form {
        Form::Listen(form) => {
            let cursor = place
                .into()
                .map_or(Cursor::GAP, |id| Cursor { feed: form.feed, id });
            listen_frame::acknowledged(
                &form.tag,
                &Acknowledgement {
                    lists: listen.lists,
                    uris: &listen.spellings,
                    cursor,
                    resumed,
                },
            )
        }
        Form::Session => bytes::Bytes::new(),
    };
    Block {
        id: None,
        spelling: None,
        bytes,
    }
}
