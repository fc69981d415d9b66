//! The door of the session layer: finds, makes, opens and ends sessions, and runs what they need in the background.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use super::SessionId;
use super::catch_up;
use super::counts::{Counts, ResumeOutcome, Transport};
use super::hub::{Hub, Told};
use super::listens::Listens;
use super::reader::StreamReader;
use super::registry::{Registry, Session};
use super::replies::{Door, ReplyStream};
use super::stream::{CloseReason, Stream};
use super::vigil::{self, Vigil};
use super::write_progress::WriteProgress;
use crate::feed::{Body, FeedClient, FeedError, Ring, SessionCommand, Watch};
use crate::protocol::era::Version;
use crate::protocol::event_id::LastEventId;

/// How old a cached record may be while the watch, which would tell of a deletion, is not live.
const CACHED_WITHOUT_WATCH_MAX: Duration = Duration::from_secs(5);

/// A cursor that is behind the head by this share of the kept log is moved on sooner: it must not become a gap while its stream
/// is open.
const BOOKMARK_LOG_SHARE: u64 = 4;

/// But not for fewer revisions than this: a small log is not trimmed soon.
const BOOKMARK_LAG_MIN: u64 = 1_000;

/// How often activity is told to the feed service at the longest: a crash forgets no more than that.
const TOUCH_INTERVAL_MAX: Duration = Duration::from_secs(5);

/// Within a session's idle time-out activity is told at least so often: once could come too late.
const TOUCHES_PER_IDLE_TIMEOUT: u32 = 3;

/// The least time between two planned ends: an instance that takes the streams over opens several hundred a second.
const END_INTERVAL: Duration = Duration::from_millis(20);

/// How often a drain looks for streams that were opened meanwhile, and whether all have ended.
const DRAIN_LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How long the hub may take for what was missed while the process was stopped, before the feed service is asked anew.
const CATCH_UP_MAX: Duration = Duration::from_secs(1);

/// How long to pause before that.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of randomness in a session id: 192 bits, written as 48 hexadecimal digits.
const SESSION_ID_BYTES: usize = 24;

/// The bounds of the session layer.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Sessions whose record is cached.
    pub(crate) cached_sessions: usize,
    /// Live frames that may wait in one stream (`stream.pending`).
    pub(crate) pending_max: usize,
    /// Missed frames that are replayed singly (`replay.catch_up`).
    pub(crate) catch_up_max: usize,
    /// Frames that are replayed to a cursor that cannot be read (`replay.frames`).
    pub(crate) replay_frames: usize,
    /// Memory for live frames, in bytes.
    pub(crate) frame_ring_bytes: usize,
    /// How long a session may be idle.
    pub(crate) idle_timeout: Duration,
    /// How long a client may take nothing of what is written to it (`stream.write_timeout`).
    pub(crate) write_timeout: Duration,
    /// After so much quiet a comment line goes out.
    pub(crate) keep_alive_after: Duration,
    /// How often the cursor of an idle stream is moved on, so that a resume does not look at what it cannot have missed.
    pub(crate) bookmark_interval: Duration,
    /// How many catch-ups read the feed service's log at a time.
    pub(crate) log_reads_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            cached_sessions: 200_000,
            pending_max: 10_000,
            catch_up_max: 1_000,
            replay_frames: 100,
            frame_ring_bytes: 32 * 1024 * 1024,
            idle_timeout: Duration::from_secs(30 * 60),
            write_timeout: Duration::from_secs(30),
            // Half of the shortest idle time-out of common proxies (30 s).
            keep_alive_after: Duration::from_secs(15),
            bookmark_interval: Duration::from_secs(60),
            log_reads_max: 8,
        }
    }
}

/// The sessions of this instance.
pub(crate) struct Sessions {
    pub(super) feed: FeedClient,
    pub(super) watch: Arc<Watch>,
    pub(super) ring: Arc<Ring>,
    pub(super) hub: Hub,
    pub(super) limits: Limits,
    pub(super) log_reads: Semaphore,
    pub(super) listens: Listens,
    pub(super) counts: Arc<Counts>,
    pub(super) vigil: Arc<Vigil>,
    registry: Registry,
    tasks: TaskTracker,
    /// The instance ends: streams are being ended one after the other, the rest still works.
    draining: CancellationToken,
    shutdown: CancellationToken,
}

/// What [`Sessions::run`] needs besides the sessions; made together with them.
pub(crate) struct Background {
    fallen_behind: mpsc::UnboundedReceiver<Arc<Stream>>,
}

impl Sessions {
    /// Makes the session layer on a watch and its ring. `position` is the bell that the watch was made with.
    pub(crate) fn new(
        feed: FeedClient,
        watch: Arc<Watch>,
        ring: Arc<Ring>,
        position: watch::Sender<u64>,
        limits: Limits,
        shutdown: CancellationToken,
    ) -> (Arc<Sessions>, Background) {
        // Not bounded by itself, but a stream stands in it at most once: it is behind until its catch-up is done.
        let (behind, fallen_behind) = mpsc::unbounded_channel();
        let hub = Hub::new(
            Arc::clone(&ring),
            feed.instance(),
            position,
            limits.pending_max,
            limits.frame_ring_bytes,
            behind,
        );
        let registry = Registry::new(limits.cached_sessions);
        let log_reads = Semaphore::new(limits.log_reads_max);
        let sessions = Sessions {
            feed,
            watch,
            ring,
            hub,
            limits,
            log_reads,
            listens: Listens::default(),
            counts: Arc::default(),
            vigil: Arc::default(),
            registry,
            tasks: TaskTracker::new(),
            draining: CancellationToken::new(),
            shutdown,
        };
        (Arc::new(sessions), Background { fallen_behind })
    }

    /// Runs the hub and the background work until the shutdown; returns when every task of the layer has ended.
    pub(crate) async fn run(self: Arc<Sessions>, mut background: Background) {
        // A task by itself: it must not be late because another branch below is at work.
        let vigil = Arc::clone(&self.vigil);
        self.spawn(async move {
            let mut beat = interval(vigil::BEAT);
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                beat.tick().await;
                vigil.beat(vigil::now());
            }
        });
        let hub = self.hub.run(self.shutdown.clone(), |told| match told {
            Told::SessionEnded(session) => self.registry.remove(session),
            Told::HistoryLost => self.registry.clear(),
            Told::Orphaned {
                session,
                principal,
                fence,
            } => self.give_back(session.into(), principal, fence),
        });
        let catch_ups = async {
            while let Some(stream) = background.fallen_behind.recv().await {
                self.tasks
                    .spawn(self.until_shutdown(catch_up::catch_up(Arc::clone(&self), stream)));
            }
        };
        tokio::select! {
            () = hub => {}
            () = catch_ups => {}
            () = self.keep_alive() => {}
            () = self.tell_activity() => {}
            () = self.catch_up_after_gaps() => {}
        }
        for stream in self.hub.all() {
            stream.close(CloseReason::Shutdown);
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Ends every stream as planned, spread over at most `window`, so that clients do not all open their next one at the same
    /// moment; returns when none is left. Streams that are opened meanwhile get what they missed, and then end too.
    ///
    /// Dropping the future leaves the other streams as they are.
    pub(crate) async fn drain(&self, window: Duration) {
        self.draining.cancel();
        let deadline = Instant::now() + window;
        loop {
            let streams = self.hub.all();
            if streams.is_empty() {
                return;
            }
            let open: Vec<_> = streams.iter().filter(|stream| !stream.is_ending()).collect();
            let count = u32::try_from(open.len()).unwrap_or(u32::MAX).max(1);
            let left = deadline.saturating_duration_since(Instant::now());
            let interval = END_INTERVAL.min(left / count);
            for stream in open {
                stream.end(CloseReason::Shutdown, self.hub.position(), catch_up::retry());
                if !interval.is_zero() {
                    sleep(interval).await;
                }
            }
            sleep(DRAIN_LOOK_INTERVAL).await;
        }
    }

    /// Says whether the instance is ending.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Makes a session; returns when its record is durable.
    pub(crate) async fn create(
        &self,
        principal: &str,
        version: Version,
        client_info: String,
        client_capabilities: String,
    ) -> Result<SessionId, FeedError> {
        let id = mint()?;
        self.feed
            .create_session(
                principal,
                &id,
                version.as_str(),
                client_info,
                client_capabilities,
                self.limits.idle_timeout,
            )
            .await?;
        self.registry
            .insert(Session::new(Arc::clone(&id), principal, version));
        Ok(id)
    }

    /// Finds a session of this principal, wherever it was made; notes that it was active.
    pub(crate) async fn find(&self, principal: &str, id: &str) -> Result<Arc<Session>, FeedError> {
        let known = self
            .registry
            .find(id)
            .filter(|session| self.watch.is_live() || session.age() < CACHED_WITHOUT_WATCH_MAX);
        let session = match known {
            Some(session) => session,
            None => self.read(principal, id).await?,
        };
        if *session.principal != *principal {
            return Err(FeedError::UnknownSession);
        }
        self.registry.touch(&session.id);
        Ok(session)
    }

    /// Finds a session as [`Sessions::find`] does, but takes what is known here while the feed service is away, and
    /// otherwise waits for it up to `wait_max`: a client that is refused a stream twice gives up listening.
    pub(crate) async fn find_to_open(
        &self,
        principal: &str,
        id: &str,
        wait_max: Duration,
    ) -> Result<Arc<Session>, FeedError> {
        let deadline = Instant::now() + wait_max;
        loop {
            // Not longer than that either where the feed service takes the call and does not answer.
            match timeout_at(deadline, self.find(principal, id)).await {
                Err(_elapsed) => {}
                Ok(Err(FeedError::Unavailable | FeedError::Timeout)) => {}
                Ok(found) => return found,
            }
            if let Some(session) = self.find_known(principal, id) {
                return Ok(session);
            }
            if Instant::now() >= deadline || !self.pause(Duration::from_millis(200)).await {
                return Err(FeedError::Unavailable);
            }
        }
    }

    /// Finds a session of this principal that was met here, whatever became of it since.
    pub(crate) fn find_known(&self, principal: &str, id: &str) -> Option<Arc<Session>> {
        self.registry
            .find(id)
            .filter(|session| *session.principal == *principal)
    }

    /// Makes a session as [`Sessions::create`] does, for a client that has said nothing about itself yet; waits for the feed
    /// service up to `wait_max`.
    pub(crate) async fn create_to_open(
        &self,
        principal: &str,
        version: Version,
        wait_max: Duration,
    ) -> Result<Arc<Session>, FeedError> {
        let deadline = Instant::now() + wait_max;
        loop {
            let nothing = || "{}".to_owned();
            match self.create(principal, version, nothing(), nothing()).await {
                Ok(id) => return self.find(principal, &id).await,
                Err(FeedError::Unavailable | FeedError::Timeout) if Instant::now() < deadline => {}
                Err(error) => return Err(error),
            }
            if !self.pause(Duration::from_millis(200)).await {
                return Err(FeedError::Unavailable);
            }
        }
    }

    /// Waits for so long; returns `false` at once if the instance ends first.
    async fn pause(&self, duration: Duration) -> bool {
        tokio::select! {
            () = self.draining.cancelled() => false,
            () = self.shutdown.cancelled() => false,
            () = sleep(duration) => true,
        }
    }

    async fn read(&self, principal: &str, id: &str) -> Result<Arc<Session>, FeedError> {
        let (epoch, _) = self.ring.beginning();
        let position = self.hub.position();
        let record = self.feed.read_session(principal, id).await?;
        let Some(version) = Version::find(&record.protocol_version) else {
            warn!(
                session.id = id,
                version = record.protocol_version,
                "a session has a version that is not served"
            );
            return Err(FeedError::UnknownSession);
        };
        let session = self
            .registry
            .insert(Session::new(id.into(), &record.principal, version));
        // A deletion that came after the answer was made may have passed the hub before the session was known here.
        let mut deleted = false;
        let seen = self.ring.visit(position, u64::MAX, usize::MAX, |entry| {
            if let Body::Session {
                id: ended,
                command: SessionCommand::Deleted,
            } = &entry.body
            {
                deleted |= **ended == *id;
            }
        });
        if deleted || seen.is_err() || self.ring.beginning().0 != epoch {
            self.registry.remove(id);
        }
        if deleted {
            Err(FeedError::UnknownSession)
        } else {
            Ok(session)
        }
    }

    /// Opens the session's GET stream on this instance, in place of an older one wherever it is.
    ///
    /// Returns at once, except where clients take the session's stream from each other too often: then it is held. What
    /// was missed since `last` follows on the stream, and then it is live. Dropping the future opens nothing.
    /// `door` is the transport by which the client comes, `progress` that of its connection.
    pub(crate) async fn open(
        self: &Arc<Sessions>,
        session: &Session,
        last: LastEventId,
        door: Door,
        progress: Arc<WriteProgress>,
    ) -> StreamReader {
        let hold = session.takeovers.hold(Instant::now());
        if !hold.is_zero() {
            warn!(session.id = %session.id, ?hold, "the stream is taken over too often, holding the next open");
            self.pause(hold).await;
        }
        self.counts.stream_opens.add(match door {
            Door::Streamable => Transport::StreamableHttp,
            Door::HttpSse => Transport::HttpSse,
        });
        let hold = self.vigil.hold();
        progress.guard(hold.clone());
        let counts = Arc::clone(&self.counts);
        let stream = Arc::new(Stream::new(
            session,
            catch_up::retry(),
            door,
            progress,
            counts,
            hold,
        ));
        let returning = session.note_opened();
        self.hub.attach(&stream);
        let open = catch_up::open(Arc::clone(self), Arc::clone(&stream), last, returning);
        self.tasks.spawn(self.until_shutdown(open));
        StreamReader::new(Arc::clone(self), stream)
    }

    /// Returns the stream of this session on this instance on which its calls are answered.
    pub(crate) fn reply_stream(&self, session: &Session) -> Option<ReplyStream> {
        self.hub.reply_stream(&session.id)
    }

    /// Runs what goes on after its request was answered; bounded by the life of the session layer.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.until_shutdown(work));
    }

    /// Notes how a client that came back was brought to the present, with so many frames that it had missed.
    pub(super) fn note_resume(&self, outcome: ResumeOutcome, frames: usize) {
        self.counts.resumes.add(outcome);
        self.counts.replayed_frames.add(frames);
    }

    /// Returns what happened to streams so far.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns how many sessions are known here.
    pub(crate) fn session_count(&self) -> usize {
        self.registry.len()
    }

    /// Returns how many streams are open here.
    pub(crate) fn stream_count(&self) -> usize {
        self.hub.stream_count()
    }

    /// Returns how many subscriptions these have.
    pub(crate) fn subscription_count(&self) -> usize {
        self.hub.subscription_count()
    }

    /// Deletes a session of this principal: its record, its subscriptions, and its stream on whatever instance.
    pub(crate) async fn delete(&self, session: &Session) -> Result<(), FeedError> {
        self.feed.delete_session(&session.principal, &session.id).await?;
        self.registry.remove(&session.id);
        Ok(())
    }

    /// Waits until the stream of this session, if this instance holds it, has passed `revision`; at most a second.
    pub(crate) async fn settle(&self, session: &Session, revision: u64) {
        if self.hub.holds(&session.id) {
            let _ = timeout(Duration::from_secs(1), self.hub.reached(revision)).await;
        }
    }

    /// Gives the ownership of a session's stream back that nobody reads here.
    pub(super) fn give_back(self: &Arc<Sessions>, session: SessionId, principal: &str, fence: u64) {
        if self.shutdown.is_cancelled() {
            // The lease ends with this instance's watch.
            return;
        }
        let (sessions, principal) = (Arc::clone(self), Box::<str>::from(principal));
        let give_back = async move {
            loop {
                match sessions.feed.close_stream(&principal, &session, fence).await {
                    Ok(()) | Err(FeedError::UnknownSession) => return,
                    Err(FeedError::Fenced) => {
                        sessions.counts.fences_refused.add(1);
                        return;
                    }
                    Err(error) => {
                        debug!(session.id = %session, %error, "cannot give a stream back yet");
                        sleep(Duration::from_secs(1)).await;
                    }
                }
            }
        };
        self.tasks.spawn(self.until_shutdown(give_back));
    }

    /// Drops subscriptions from the record of a stream's session, by their canonical URIs, as long as this stream owns it: whoever
    /// opens it next looks for itself.
    pub(super) fn drop_subscriptions(
        self: &Arc<Sessions>,
        stream: &Arc<Stream>,
        fence: u64,
        uris: Vec<String>,
    ) {
        info!(session.id = %stream.session, ?uris, "dropping subscriptions to what is not served any more");
        let (sessions, stream) = (Arc::clone(self), Arc::clone(stream));
        let drop_all = async move {
            for uri in uris {
                while !stream.is_closed() {
                    match sessions
                        .feed
                        .unsubscribe(&stream.principal, &stream.session, &uri, fence)
                        .await
                    {
                        Ok(_) => break,
                        Err(FeedError::Fenced | FeedError::UnknownSession) => return,
                        Err(error) => {
                            debug!(session.id = %stream.session, %error, "cannot drop a subscription yet");
                            sleep(Duration::from_secs(1)).await;
                        }
                    }
                }
            }
        };
        self.spawn(drop_all);
    }

    /// Looks at every stream once a second: cheaper than a timer for each.
    async fn keep_alive(self: &Arc<Sessions>) {
        let mut sweep = interval(Duration::from_secs(1));
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            sweep.tick().await;
            let now = Instant::now();
            let (Some(quiet_since), Some(bookmarked_before)) = (
                now.checked_sub(self.limits.keep_alive_after),
                now.checked_sub(self.limits.bookmark_interval),
            ) else {
                continue;
            };
            // The position first: everything up to it was pushed by then.
            let position = self.hub.position();
            let kept = position.saturating_sub(self.watch.oldest());
            let lag_max = BOOKMARK_LAG_MIN.max(kept / BOOKMARK_LOG_SHARE);
            for stream in self.hub.all() {
                if stream.stalled_for(now) >= self.limits.write_timeout {
                    self.end_slow(&stream);
                    continue;
                }
                stream.bookmark(position, bookmarked_before, lag_max);
                stream.keep_alive(quiet_since);
            }
        }
    }

    /// Ends a stream whose client takes nothing. Its body ends when the client reads on; it may never do so, so the session's
    /// ownership is given back here and does not wait for that.
    fn end_slow(self: &Arc<Sessions>, stream: &Arc<Stream>) {
        info!(session.id = %stream.session, reason = CloseReason::Slow.as_str(), "ended a stream");
        let opened = self.hub.detach(stream);
        stream.close(CloseReason::Slow);
        if let Some(fence) = opened {
            self.give_back(Arc::clone(&stream.session), &stream.principal, fence);
        }
    }

    async fn tell_activity(&self) {
        let interval = TOUCH_INTERVAL_MAX.min(self.limits.idle_timeout / TOUCHES_PER_IDLE_TIMEOUT);
        loop {
            sleep(interval).await;
            let touched = self.registry.take_touched();
            if touched.is_empty() {
                continue;
            }
            let ids = touched.iter().map(|id| id.to_string()).collect();
            if let Err(error) = self.feed.touch_sessions(ids).await {
                debug!(%error, "cannot tell the feed service of active sessions, trying again");
                touched.iter().for_each(|id| self.registry.touch(id));
            }
        }
    }

    /// After each time that the process was stopped: holds the streams until this instance knows of every takeover that happened meanwhile,
    /// however long the feed service is away. They have what waits, so nothing is lost.
    async fn catch_up_after_gaps(&self) {
        loop {
            let gap = self.vigil.gap().await;
            let since = Instant::now();
            while !self.is_caught_up().await {
                sleep(CATCH_UP_PAUSE).await;
            }
            if !self.vigil.release(gap, vigil::now()) {
                continue;
            }
            for stream in self.hub.all() {
                stream.look_again();
            }
            info!(held = ?since.elapsed(), "the process was stopped for a while and has caught up");
        }
    }

    /// Reads the feed service's head anew, and waits some time for the hub to get there; returns whether it did.
    async fn is_caught_up(&self) -> bool {
        let history = self.ring.history();
        match self.feed.read_head(self.hub.position()).await {
            Ok(head) => {
                let reached = timeout(CATCH_UP_MAX, self.hub.reached(head)).await;
                // In another history the head is not the same moment.
                reached.is_ok() && self.ring.history() == history && self.hub.is_in(history.0)
            }
            Err(error) => {
                debug!(%error, "cannot catch up with the feed service yet");
                false
            }
        }
    }

    /// Bounds a task by the life of this layer.
    fn until_shutdown(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let shutdown = self.shutdown.clone();
        async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = work => {}
            }
        }
    }
}

/// Makes a new session id.
fn mint() -> Result<SessionId, FeedError> {
    let mut random = [0; SESSION_ID_BYTES];
    getrandom::fill(&mut random).map_err(|error| {
        warn!(%error, "cannot get random bytes for a session id");
        FeedError::Internal
    })?;
    Ok(random
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .into())
}
