//! What the frames of a stream look like: those of a session's GET stream, or those of a listen.

use std::sync::Arc;

use bytes::Bytes;

use super::stream::CloseReason;
use crate::protocol::cursor::{Cursor, FeedIdentity};
use crate::protocol::event_id::EventId;
use crate::protocol::frame::{self, EncodedUri, ListKind};
use crate::protocol::listen::ListFlags;
use crate::protocol::listen_frame::{self, NoticeKind, SubscriptionTag};
use crate::protocol::message::RequestId;

/// How a stream's frames are written.
#[derive(Clone, Debug, Default)]
pub(super) enum Form {
    /// With event ids, as a session's GET stream.
    #[default]
    Session,
    /// With a subscription id, as the answer to a `subscriptions/listen`.
    Listen(Arc<ListenForm>),
}

/// What the frames of one listen have that those of another have not.
#[derive(Debug)]
pub(super) struct ListenForm {
    /// The id of the request.
    pub(super) request: RequestId,
    /// The same, as it stands in every frame.
    pub(super) tag: SubscriptionTag,
    /// The feed that its cursors are of.
    pub(super) feed: FeedIdentity,
    /// The lists that it hears of.
    pub(super) lists: ListFlags,
    /// Who the server is, as JSON.
    pub(super) server: Arc<str>,
}

/// Which streams can share a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormKind {
    /// The whole frame is shared.
    Session,
    /// What follows the subscription id is shared.
    Listen,
}

impl FormKind {
    /// Encodes what streams of this kind share of the notice of one change.
    pub(super) fn shared(self, feed: FeedIdentity, id: EventId, uri: &EncodedUri) -> Bytes {
        match self {
            FormKind::Session => frame::updated(Some(id), uri),
            FormKind::Listen => listen_frame::updated_tail(Cursor { feed, id }, uri),
        }
    }
}

impl Form {
    /// Returns with which streams frames are shared.
    pub(super) fn kind(&self) -> FormKind {
        match self {
            Form::Session => FormKind::Session,
            Form::Listen(_) => FormKind::Listen,
        }
    }

    /// Returns what stands before the shared part of the live frame with this id.
    pub(super) fn before(&self, id: EventId) -> (&'static [u8], &[u8]) {
        match self {
            Form::Session => (b"", b""),
            Form::Listen(listen) => (NoticeKind::of(id).head(), listen.tag.as_bytes()),
        }
    }

    /// Encodes the notice of a change for one stream alone; without an id it is that of a gap.
    pub(super) fn updated(&self, id: Option<EventId>, uri: &EncodedUri) -> Bytes {
        match self {
            Form::Session => frame::updated(id, uri),
            Form::Listen(listen) => {
                let tail = listen_frame::updated_tail(listen.cursor(id), uri);
                listen_frame::notice(NoticeKind::Updated, &listen.tag, &tail)
            }
        }
    }

    /// Returns the lists that the notices of a gap tell of.
    pub(super) fn gap_lists(&self) -> impl Iterator<Item = ListKind> {
        let lists = match self {
            Form::Session => None,
            Form::Listen(listen) => Some(listen.lists),
        };
        ListKind::ALL
            .into_iter()
            .filter(move |kind| lists.is_none_or(|lists| lists.has(*kind)))
    }

    /// Encodes a `list_changed` for one stream alone; without an id it is that of a gap.
    pub(super) fn list_changed(&self, id: Option<EventId>, kind: ListKind) -> Bytes {
        match self {
            Form::Session => frame::list_changed(id, kind),
            Form::Listen(listen) => {
                let tail = listen_frame::list_changed_tail(listen.cursor(id));
                listen_frame::notice(NoticeKind::List(kind), &listen.tag, &tail)
            }
        }
    }

    /// Says whether the last notice of a gap carries the place where a client goes on: the others do not, since a client
    /// that was told of one of them only is in the same gap again.
    pub(super) fn ends_gap_with_cursor(&self) -> bool {
        matches!(self, Form::Listen(_))
    }

    /// Encodes the last frame of a stream that the server ends; `id`: everything up to it was written.
    pub(super) fn farewell(&self, reason: CloseReason, id: Option<EventId>) -> Option<Bytes> {
        let Form::Listen(listen) = self else { return None };
        match reason {
            CloseReason::ClientLeft | CloseReason::Cancelled => None,
            CloseReason::Shutdown => Some(listen_frame::closed(&listen.tag, &listen.server, listen.feed, id)),
            CloseReason::TakenOver
            | CloseReason::SessionEnded
            | CloseReason::LostHistory
            | CloseReason::Slow => Some(listen_frame::cancelled(&listen.tag, reason.as_str())),
        }
    }
}

impl ListenForm {
    fn cursor(&self, id: Option<EventId>) -> Cursor {
        id.map_or(Cursor::GAP, |id| Cursor { feed: self.feed, id })
    }
}
