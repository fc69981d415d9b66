//! The hub: reads the ring entry by entry and hands each change to the streams that want it.
//!
//! It owns the streams of this instance and the index of what they watch. Changes and session commands come to it in the
//! one order of the feed, so that there is no race between them: a subscription sees what comes after its own entry, a
//! stream is closed by the entry of the open that took it over. Nothing in it waits for a client; it only lets the
//! streams that it woke run before it wakes them again, so that frames that come in a burst go out together.

mod streams;

use std::collections::HashMap;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::debug;

pub(super) use streams::{NotAdopted, Snapshot, Step, collect_blocks};

use super::SessionId;
use super::frame_ring::{Frame, FrameRing};
use super::interest::{GroupId, Interest};
use super::stream::{CloseReason, Pushed, Stream};
use super::subscriptions::Subscriptions;
use crate::feed::{Body, Ring, SessionCommand};
use crate::protocol::cursor::FeedIdentity;
use crate::protocol::event_id::{EventId, Slot};
use crate::sabotage::{self, Sabotage};

/// How many entries one pass takes. The batch is the only large lever in a burst (measured); beyond 64 it gains nothing.
const PASS_ENTRIES: usize = 64;

/// How long a pass waits at most for the streams that it woke. Writing to 5,000 sockets takes one core 60 ms.
const PASS_WAIT_MAX: Duration = Duration::from_millis(250);

/// The streams of this instance, and what they watch.
pub(super) struct Hub {
    ring: Arc<Ring>,
    instance: Box<str>,
    pending_max: usize,
    pub(super) frames: FrameRing,
    /// Lock order: `state`, then a stream, then the frame ring. Held for one pass or one command.
    state: Mutex<State>,
    /// The revision up to which every entry was handed on; a bell, and nothing more.
    position: watch::Sender<u64>,
    /// Streams that were woken by the last pass and were not polled yet.
    awaited: AtomicIsize,
    all_polled: Notify,
    /// Streams that need a catch-up; taken by the session layer's one task that starts them.
    fallen_behind: mpsc::UnboundedSender<Arc<Stream>>,
}

struct State {
    interest: Interest,
    streams: HashMap<SessionId, Local>,
    /// Which history `position` is in (see [`Ring::beginning`]).
    epoch: u64,
    /// The feed of that history.
    feed: FeedIdentity,
    position: u64,
    touched: Vec<GroupId>,
    frames: Vec<Frame>,
    wakers: Vec<Waker>,
    busy: Vec<Arc<Stream>>,
    overflowed: Vec<Arc<Stream>>,
}

/// A stream of this instance.
struct Local {
    stream: Arc<Stream>,
    /// The revision of the open that `subscriptions` began with: commands at or below it are in them. `None`: not open yet.
    fence: Option<u64>,
    /// The newest open of the session by this instance that was seen, or 0: what has to be given back when the stream ends.
    opened: u64,
    subscriptions: Subscriptions,
    /// Rises with every change of `subscriptions`.
    generation: u64,
    /// The stream is in the index.
    live: bool,
}

/// What the hub tells of sessions that are not its own matter.
pub(super) enum Told<'a> {
    /// The session was deleted or expired.
    SessionEnded(&'a str),
    /// The feed has another history: nothing that was known of any session holds.
    HistoryLost,
    /// This instance became the owner of a stream that nobody here reads: its client left before.
    Orphaned {
        /// The session.
        session: &'a str,
        /// The principal that it belongs to.
        principal: &'a str,
        /// The fencing token.
        fence: u64,
    },
}

impl Hub {
    /// Makes a hub that reads `ring`, for streams that `instance` opens. Streams that need a catch-up go to `fallen_behind`.
    pub(super) fn new(
        ring: Arc<Ring>,
        instance: &str,
        position: watch::Sender<u64>,
        pending_max: usize,
        frame_ring_bytes: usize,
        fallen_behind: mpsc::UnboundedSender<Arc<Stream>>,
    ) -> Hub {
        let state = State {
            interest: Interest::default(),
            streams: HashMap::new(),
            epoch: 0,
            feed: FeedIdentity::NONE,
            position: 0,
            touched: Vec::new(),
            frames: Vec::new(),
            wakers: Vec::new(),
            busy: Vec::new(),
            overflowed: Vec::new(),
        };
        Hub {
            ring,
            instance: instance.into(),
            pending_max,
            frames: FrameRing::new(frame_ring_bytes),
            state: Mutex::new(state),
            position,
            awaited: AtomicIsize::new(0),
            all_polled: Notify::new(),
            fallen_behind,
        }
    }

    /// Returns the revision up to which every entry was handed on.
    pub(super) fn position(&self) -> u64 {
        *self.position.borrow()
    }

    /// Waits until every entry up to `revision` was handed on.
    pub(super) async fn reached(&self, revision: u64) {
        // The sender lives in `self`, so the wait cannot end by its drop.
        let _ = self
            .position
            .subscribe()
            .wait_for(|position| *position >= revision)
            .await;
    }

    /// Hands on what comes until `shutdown`.
    ///
    /// `tell` gets what concerns others; it runs under the hub's lock and must not call the hub.
    pub(super) async fn run(&self, shutdown: CancellationToken, tell: impl Fn(Told<'_>)) {
        let mut bell = self.ring.bell();
        loop {
            while self.pass(&tell) {
                self.wait_for_streams().await;
                if shutdown.is_cancelled() {
                    return;
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                rung = bell.changed() => if rung.is_err() { return },
            }
        }
    }

    /// Hands on one batch of entries; returns whether there were any.
    fn pass(&self, tell: &impl Fn(Told<'_>)) -> bool {
        if self.begin_anew() {
            tell(Told::HistoryLost);
        }
        let mut state = self.lock();
        let state = &mut *state;
        let pass_start = self.frames.next_position();
        let mut entries = Vec::with_capacity(PASS_ENTRIES);
        let after = state.position;
        let seen = self
            .ring
            .visit(after, u64::MAX, PASS_ENTRIES, |entry| entries.push(entry.clone()));
        // Behind the ring after all: the history began anew since the check above; the next pass sees to it.
        let Ok(progress) = seen else { return true };
        if progress == after {
            return false;
        }
        for entry in &entries {
            match &entry.body {
                Body::Change { table, key } => self.note_change(state, entry.revision, &table.path, key),
                Body::Session { id, command } => {
                    self.hand_out(state, pass_start);
                    match command {
                        SessionCommand::Opened { instance, principal }
                            if *instance == self.instance && !state.streams.contains_key(&**id) =>
                        {
                            tell(Told::Orphaned {
                                session: id,
                                principal,
                                fence: entry.revision,
                            });
                        }
                        SessionCommand::Deleted => tell(Told::SessionEnded(id)),
                        SessionCommand::Created
                        | SessionCommand::LogLevelSet { .. }
                        | SessionCommand::Opened { .. }
                        | SessionCommand::Closed
                        | SessionCommand::Subscribed { .. }
                        | SessionCommand::Unsubscribed { .. } => {}
                    }
                    self.apply(state, entry.revision, id, command);
                }
                Body::Other => {}
            }
        }
        self.hand_out(state, pass_start);
        state.position = progress;
        self.publish(state);
        for stream in std::mem::take(&mut state.overflowed) {
            self.leave(state, &stream);
            let _ = self.fallen_behind.send(stream);
        }
        self.position.send_replace(progress);
        true
    }

    /// Begins at the ring's beginning if the feed has another history than before, and ends every open stream: their
    /// clients open again and are told what the new history has for their cursor. Returns whether it was so.
    fn begin_anew(&self) -> bool {
        let (epoch, feed, after) = self.ring.start();
        let mut state = self.lock();
        let state = &mut *state;
        // The ring never lets go of what the hub has not seen, unless it began anew.
        if state.epoch == epoch && after <= state.position {
            return false;
        }
        state.epoch = epoch;
        state.feed = feed;
        state.position = after;
        // One that has no fence yet waits for the feed service and gets its place in the new history.
        let open: Vec<Arc<Stream>> = state
            .streams
            .values()
            .filter(|local| local.fence.is_some())
            .map(|local| Arc::clone(&local.stream))
            .collect();
        for stream in open {
            self.release(state, &stream);
            stream.close(CloseReason::LostHistory);
        }
        self.position.send_replace(after);
        true
    }

    /// Encodes the frames of one change, one per group that watches it.
    fn note_change(&self, state: &mut State, revision: u64, path: &str, key: &str) {
        let (whole, record) = state.interest.find(path, key);
        if whole.is_empty() && record.is_empty() {
            return;
        }
        let groups: Vec<(GroupId, Slot)> = whole
            .iter()
            .map(|&id| (id, Slot::Table))
            .chain(record.iter().map(|&id| (id, Slot::Record)))
            .collect();
        let first = self.frames.next_position() + state.frames.len() as u64;
        let feed = state.feed;
        for (position, (id, slot)) in (first..).zip(groups) {
            let Some(group) = state.interest.group_mut(id) else {
                continue;
            };
            if group.batch.is_empty() {
                state.touched.push(id);
            }
            group.batch.push(position);
            let event_id = match sabotage::is(Sabotage::ReuseId) && revision.is_multiple_of(8) {
                true => EventId::new(revision - 1, slot),
                false => EventId::new(revision, slot),
            };
            let bytes = group.form.shared(feed, event_id, &group.spelling);
            state.frames.push(Frame {
                id: event_id,
                spelling: Arc::clone(&group.spelling),
                bytes,
            });
        }
    }

    /// Hands the frames that were encoded so far to their streams; they are published and woken at the end of the pass.
    fn hand_out(&self, state: &mut State, pass_start: u64) {
        if state.frames.is_empty() {
            return;
        }
        self.frames.append(&mut state.frames);
        for id in state.touched.drain(..) {
            let Some(group) = state.interest.group_mut(id) else {
                continue;
            };
            for stream in &group.streams {
                match stream.push(&group.batch, pass_start, self.pending_max) {
                    Pushed::Idle(waker) => state.wakers.push(waker),
                    Pushed::Busy => state.busy.push(Arc::clone(stream)),
                    Pushed::Refused => {}
                    Pushed::Overflowed => state.overflowed.push(Arc::clone(stream)),
                }
            }
            group.batch.clear();
        }
    }

    /// Lets the frames of the pass be read, and wakes the writers of the streams that got some.
    fn publish(&self, state: &mut State) {
        self.frames.publish();
        state
            .wakers
            .extend(state.busy.drain(..).filter_map(|stream| stream.take_writer()));
        // Added, not stored: a stream that was polled in between is counted off already.
        let woken = isize::try_from(state.wakers.len()).unwrap_or(isize::MAX);
        self.awaited.fetch_add(woken, Ordering::AcqRel);
        for waker in state.wakers.drain(..) {
            waker.wake();
        }
    }

    /// Applies a command to the session's stream, if this instance holds it.
    fn apply(&self, state: &mut State, revision: u64, session: &str, command: &SessionCommand) {
        let Some(local) = state.streams.get_mut(session) else {
            return;
        };
        match command {
            SessionCommand::Deleted => {
                let stream = Arc::clone(&local.stream);
                self.release(state, &stream);
                stream.close(CloseReason::SessionEnded);
                return;
            }
            SessionCommand::Opened { instance, .. } if *instance == self.instance => {
                // By this stream, or by one of this instance that it replaced: either way it is the owner now.
                local.opened = local.opened.max(revision);
                return;
            }
            SessionCommand::Opened { .. } if sabotage::is(Sabotage::KeepWriting) => return,
            SessionCommand::Opened { .. } => {
                if local
                    .fence
                    .is_some_and(|fence| revision > fence.max(local.opened))
                {
                    let stream = Arc::clone(&local.stream);
                    self.release(state, &stream);
                    stream.close(CloseReason::TakenOver);
                }
                return;
            }
            SessionCommand::Subscribed { .. } | SessionCommand::Unsubscribed { .. } => {}
            SessionCommand::Created | SessionCommand::Closed | SessionCommand::LogLevelSet { .. } => return,
        }
        if local.fence.is_none_or(|fence| revision <= fence) {
            return;
        }
        local.generation += 1;
        match command {
            SessionCommand::Subscribed { uri, spelling } => {
                if let Some(subscription) = local.subscriptions.add(uri, spelling, revision)
                    && local.live
                {
                    subscription.spelling =
                        state
                            .interest
                            .add(&subscription.row, &subscription.spelling, &local.stream);
                }
            }
            SessionCommand::Unsubscribed { uri } => {
                if let Some(subscription) = local.subscriptions.remove(uri) {
                    if local.live {
                        state
                            .interest
                            .remove(&subscription.row, &subscription.spelling, &local.stream);
                    }
                    local.stream.discard(&self.frames, &subscription.spelling);
                }
            }
            SessionCommand::Created
            | SessionCommand::LogLevelSet { .. }
            | SessionCommand::Opened { .. }
            | SessionCommand::Closed
            | SessionCommand::Deleted => {}
        }
    }

    /// Lets the streams that the pass woke run, so that what comes meanwhile goes out together.
    async fn wait_for_streams(&self) {
        let polled = async {
            loop {
                let notified = self.all_polled.notified();
                if self.awaited.load(Ordering::Acquire) <= 0 {
                    return;
                }
                notified.await;
            }
        };
        if timeout(PASS_WAIT_MAX, polled).await.is_err() {
            debug!(
                awaited = self.awaited.load(Ordering::Relaxed),
                "streams that were woken did not run in time"
            );
        }
    }

    /// Notes that a stream that the hub waits for has run, or ended.
    pub(super) fn note_polled(&self) {
        // Each stream that was woken is counted off once: when it runs, or when it ends without.
        if self.awaited.fetch_sub(1, Ordering::AcqRel) <= 1 {
            self.all_polled.notify_one();
        }
    }

    /// Takes a stream out of the hub altogether.
    fn release(&self, state: &mut State, stream: &Arc<Stream>) {
        self.leave(state, stream);
        if state
            .streams
            .get(&*stream.session)
            .is_some_and(|local| local.is(stream))
        {
            state.streams.remove(&*stream.session);
        }
    }

    /// Takes a stream out of the index.
    fn leave(&self, state: &mut State, stream: &Arc<Stream>) {
        let Some(local) = state
            .streams
            .get_mut(&*stream.session)
            .filter(|local| local.is(stream))
        else {
            return;
        };
        if std::mem::take(&mut local.live) {
            for subscription in local.subscriptions.iter() {
                state
                    .interest
                    .remove(&subscription.row, &subscription.spelling, stream);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock would leave at worst a stream too many in the index; going on is better than ending.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn local(&self, stream: &Arc<Stream>) -> Option<&Local> {
        self.streams
            .get(&*stream.session)
            .filter(|local| local.is(stream))
    }
}

impl Local {
    fn is(&self, stream: &Arc<Stream>) -> bool {
        Arc::ptr_eq(&self.stream, stream)
    }
}

#[cfg(test)]
mod tests;
