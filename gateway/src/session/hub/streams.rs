//! The streams of this instance: how they come to the hub, go live, fall behind, and leave.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Hub, Local, State};
use crate::feed::{Body, Entry};
use crate::protocol::event_id::{EventId, Slot};
use crate::protocol::frame::EncodedUri;
use crate::sabotage::{self, Sabotage};
use crate::session::replies::ReplyStream;
use crate::session::stream::{Block, CloseReason, Stream};
use crate::session::subscriptions::Subscriptions;

/// How many entries a stream may be behind to be caught up under the hub's lock; a scan of so many takes microseconds.
const LAST_STEP_ENTRIES: usize = 256;

/// The subscriptions of a stream at one moment.
pub(in crate::session) struct Snapshot {
    /// What it was subscribed to.
    pub(in crate::session) subscriptions: Subscriptions,
    /// Everything up to this revision was handed on.
    pub(in crate::session) position: u64,
    generation: u64,
}

/// Why a stream cannot be adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum NotAdopted {
    /// Its reader is gone, or a newer stream of the session is open on this instance.
    Replaced,
    /// The ring no longer has what happened to the session since the open.
    Forgotten,
}

/// What is left to do for a stream that is to go live.
pub(in crate::session) enum Step {
    /// The stream is live.
    Live,
    /// It is still too far behind; it has to be caught up after this revision first.
    Further,
    /// The stream was closed or replaced.
    Gone,
}

impl Hub {
    /// Takes in a stream that is not open yet, and closes the session's older stream of this instance.
    pub(in crate::session) fn attach(&self, stream: &Arc<Stream>) {
        let mut state = self.lock();
        let older = state
            .streams
            .get(&*stream.session)
            .map(|local| (Arc::clone(&local.stream), local.opened));
        let opened = older.as_ref().map_or(0, |(_, opened)| *opened);
        if let Some((older, _)) = older {
            self.release(&mut state, &older);
            older.close(CloseReason::TakenOver);
        }
        let local = Local {
            stream: Arc::clone(stream),
            fence: None,
            opened,
            subscriptions: Subscriptions::default(),
            generation: 0,
            live: false,
        };
        state.streams.insert(Arc::clone(&stream.session), local);
    }

    /// Gives a stream its fence and the subscriptions as of then, with the commands that came since.
    ///
    /// # Errors
    /// [`NotAdopted`]; the stream stays as it was.
    pub(in crate::session) fn adopt(
        &self,
        stream: &Arc<Stream>,
        fence: u64,
        subscriptions: Subscriptions,
    ) -> Result<Snapshot, NotAdopted> {
        let mut state = self.lock();
        let position = state.position;
        let Some(local) = state
            .streams
            .get_mut(&*stream.session)
            .filter(|local| local.is(stream))
        else {
            return Err(NotAdopted::Replaced);
        };
        let mut commands = Vec::new();
        let seen = self
            .ring
            .visit(fence.min(position), position, usize::MAX, |entry| {
                if let Body::Session { id, command } = &entry.body
                    && **id == *stream.session
                {
                    commands.push((entry.revision, command.clone()));
                }
            });
        seen.map_err(|_behind| NotAdopted::Forgotten)?;
        local.fence = Some(fence);
        local.opened = local.opened.max(fence);
        local.subscriptions = subscriptions;
        local.generation += 1;
        for (revision, command) in commands {
            self.apply(&mut state, revision, &stream.session, &command);
        }
        state.snapshot(stream).ok_or(NotAdopted::Replaced)
    }

    /// Returns the present subscriptions of a stream; `None` if it is not this instance's any more.
    pub(in crate::session) fn snapshot(&self, stream: &Arc<Stream>) -> Option<Snapshot> {
        self.lock().snapshot(stream)
    }

    /// Appends the blocks that were made of `snapshot` for everything up to `until`, without those whose subscription has
    /// ended since.
    pub(in crate::session) fn prepare(
        &self,
        stream: &Arc<Stream>,
        snapshot: &Snapshot,
        mut blocks: Vec<Block>,
        until: EventId,
    ) {
        let state = self.lock();
        let Some(local) = state.local(stream) else {
            return;
        };
        if local.generation != snapshot.generation {
            let present: HashMap<&EncodedUri, u64> = local
                .subscriptions
                .iter()
                .map(|subscription| (&*subscription.spelling, subscription.revision))
                .collect();
            blocks.retain(|block| match &block.spelling {
                None => true,
                Some(spelling) => present
                    .get(&**spelling)
                    .is_some_and(|since| block.id.is_none_or(|id| id.revision() > *since)),
            });
        }
        stream.prepare(blocks, until);
    }

    /// Lets a stream that was caught up after `revision` go live, if little enough came since.
    ///
    /// `blocks` makes the blocks of one change that came since; they are appended before the first live frame.
    pub(in crate::session) fn go_live(&self, stream: &Arc<Stream>, after: EventId, revision: u64) -> Step {
        let mut state = self.lock();
        let state = &mut *state;
        let position = state.position;
        let Some(local) = state
            .streams
            .get_mut(&*stream.session)
            .filter(|local| local.is(stream))
        else {
            return Step::Gone;
        };
        let mut blocks = Vec::new();
        let seen = self.ring.visit(revision, position, LAST_STEP_ENTRIES, |entry| {
            collect_blocks(entry, &local.subscriptions, after, &mut blocks);
        });
        if seen != Ok(position.max(revision)) {
            return Step::Further;
        }
        for subscription in local.subscriptions.iter_mut() {
            subscription.spelling = state
                .interest
                .add(&subscription.row, &subscription.spelling, stream);
        }
        local.live = true;
        if sabotage::is(Sabotage::LoseAtHandOver) {
            blocks.pop();
        }
        stream.go_live(blocks, EventId::new(position, Slot::Bookmark));
        Step::Live
    }

    /// Notes that a live stream lost a frame that it needed: it has to be caught up from its cursor.
    pub(in crate::session) fn fall_behind(&self, stream: &Arc<Stream>) {
        let mut state = self.lock();
        if stream.fall_behind() {
            self.leave(&mut state, stream);
            let _ = self.fallen_behind.send(Arc::clone(stream));
        }
    }

    /// Lets a stream go whose reader is gone; returns the open that has to be given back, if there was one and it stands.
    pub(in crate::session) fn detach(&self, stream: &Arc<Stream>) -> Option<u64> {
        let mut state = self.lock();
        let opened = state.local(stream)?.opened;
        self.release(&mut state, stream);
        (opened > 0).then_some(opened)
    }

    /// Says whether the hub reads this history.
    pub(in crate::session) fn is_in(&self, epoch: u64) -> bool {
        self.lock().epoch == epoch
    }

    /// Says whether this instance holds the session's stream.
    pub(in crate::session) fn holds(&self, session: &str) -> bool {
        self.lock().streams.contains_key(session)
    }

    /// Returns the stream of the session on this instance on which its calls are answered.
    pub(in crate::session) fn reply_stream(&self, session: &str) -> Option<ReplyStream> {
        let stream = self
            .lock()
            .streams
            .get(session)
            .map(|local| Arc::clone(&local.stream))?;
        ReplyStream::of(stream)
    }

    /// Returns how many streams this instance has.
    pub(in crate::session) fn stream_count(&self) -> usize {
        self.lock().streams.len()
    }

    /// Returns how many subscriptions its streams have.
    pub(in crate::session) fn subscription_count(&self) -> usize {
        let state = self.lock();
        state
            .streams
            .values()
            .map(|local| local.subscriptions.iter().count())
            .sum()
    }

    /// Returns every stream of this instance.
    pub(in crate::session) fn all(&self) -> Vec<Arc<Stream>> {
        self.lock()
            .streams
            .values()
            .map(|local| Arc::clone(&local.stream))
            .collect()
    }
}

impl State {
    fn snapshot(&self, stream: &Arc<Stream>) -> Option<Snapshot> {
        let local = self.local(stream)?;
        Some(Snapshot {
            subscriptions: local.subscriptions.clone(),
            position: self.position,
            generation: local.generation,
        })
    }
}

/// Appends the blocks that an entry causes for these subscriptions and that come after `after`.
pub(in crate::session) fn collect_blocks(
    entry: &Entry,
    subscriptions: &Subscriptions,
    after: EventId,
    blocks: &mut Vec<Block>,
) {
    let Body::Change { table, key } = &entry.body else {
        return;
    };
    for (id, subscription) in subscriptions.matching(entry.revision, &table.path, key) {
        if id > after {
            blocks.push(subscriptions.notice(Some(id), subscription));
        }
    }
}
