//! The catch-up: brings a stream from a cursor to the present, and then lets it go live.
//!
//! The same for a stream that opens, one that resumes on whichever instance, and one that fell behind because its client
//! reads slowly. What was missed is a pure function of the log and of the subscriptions, so it comes from the ring while
//! that reaches back far enough, and from the feed service's log otherwise; of more than `catch_up_max` frames only the
//! newest of each URI is sent (it is *folded*). What a log no longer has is a *gap*, and told: each URI once, without id.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::Sessions;
use super::counts::ResumeOutcome;
use super::hub::{NotAdopted, Snapshot, Step, collect_blocks};
use super::stream::{Block, CloseReason, Stream};
use super::subscriptions::{Subscription, Subscriptions};
use crate::feed::{FeedError, Opened, Target};
use crate::protocol::event_id::{EventId, LastEventId, Slot};
use crate::protocol::frame::{self, ListKind};
use crate::sabotage::{self, Sabotage};

/// How many entries of the ring are looked at in one go; a go takes less than a millisecond.
const SCAN_ENTRIES: usize = 4096;

/// How many targets one call for newest revisions names (the contract allows 10,000).
const TARGETS_PER_CALL: usize = 5_000;

/// How long to pause after a call to the feed service failed, at first and at most.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// How often a wait for the hub looks whether there is still something to wait for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Opens a stream that was attached to the hub: takes its ownership, replays what `last` asks for, lets it go live.
/// `returning`: a stream of the session was on this instance before.
pub(super) async fn open(sessions: Arc<Sessions>, stream: Arc<Stream>, last: LastEventId, returning: bool) {
    let Some((opened, snapshot)) = adopt(&sessions, &stream).await else {
        return;
    };
    // What was subscribed since the open missed nothing.
    let before = snapshot.subscriptions.as_of(opened.fence);
    let (mut blocks, outcome) = missed(&sessions, &stream, &opened, &before, last).await;
    match outcome {
        Some(ResumeOutcome::Ring) if returning && blocks.len() <= sessions.limits.replay_frames => {
            sessions.note_resume(ResumeOutcome::Buffer, blocks.len());
        }
        Some(outcome) => sessions.note_resume(outcome, with_id(&blocks)),
        None => {}
    }
    let opening = EventId::new(opened.fence, Slot::Opening);
    if stream.features.opening_block {
        blocks.push(Block {
            id: Some(opening),
            spelling: None,
            bytes: frame::opening(opening, retry()),
        });
    }
    info!(session.id = %stream.session, revision = opened.fence, blocks = blocks.len(), "opened a stream");
    sessions.hub.prepare(&stream, &snapshot, blocks, opening);
    go_on(&sessions, &stream, opening).await;
}

/// Catches a stream up that lost its place in the live frames.
pub(super) async fn catch_up(sessions: Arc<Sessions>, stream: Arc<Stream>) {
    debug!(session.id = %stream.session, "a stream fell behind");
    let after = stream.cursor();
    go_on(&sessions, &stream, after).await;
}

/// Makes this instance the owner of the session's stream and hands the stream to the hub, with what it is subscribed to. What is
/// not there to be subscribed any more is dropped from the record.
///
/// `None`: the stream was closed or replaced meanwhile. The hub sees to it then that the ownership is given back.
async fn adopt(sessions: &Arc<Sessions>, stream: &Arc<Stream>) -> Option<(Opened, Snapshot)> {
    loop {
        let (epoch, _) = sessions.ring.beginning();
        let opened = take_ownership(sessions, stream).await?;
        while sessions.hub.position() < opened.fence {
            if stream.is_closed() {
                return None;
            }
            if sessions.ring.beginning().0 != epoch {
                break;
            }
            let _ = timeout(LOOK_INTERVAL, sessions.hub.reached(opened.fence)).await;
        }
        if epoch > 0 && sessions.ring.beginning().0 != epoch {
            // The open was in a history that the feed service no longer has.
            continue;
        }
        // Of the open's revision or later, since the hub has passed that.
        let catalog = sessions.watch.catalog();
        let is_served = |path: &str| catalog.find(path).is_some();
        let (subscriptions, unserved) = Subscriptions::read(&opened.session.subscriptions, is_served);
        match sessions.hub.adopt(stream, opened.fence, subscriptions) {
            Ok(snapshot) => {
                if !unserved.is_empty() {
                    sessions.drop_subscriptions(stream, opened.fence, unserved);
                }
                return Some((opened, snapshot));
            }
            // The watch began after the open, so nobody here saw what came in between: take it over once more.
            Err(NotAdopted::Forgotten) => {}
            Err(NotAdopted::Replaced) => return None,
        }
    }
}

/// Makes this instance the owner of the session's stream; waits for the feed service as long as the client does.
async fn take_ownership(sessions: &Sessions, stream: &Stream) -> Option<Opened> {
    let mut delay = RETRY_DELAY.0;
    loop {
        if stream.is_closed() {
            return None;
        }
        match sessions
            .feed
            .open_stream(&stream.principal, &stream.session)
            .await
        {
            Ok(opened) => return Some(opened),
            Err(FeedError::UnknownSession) => {
                stream.close(CloseReason::SessionEnded);
                return None;
            }
            Err(error) => {
                debug!(session.id = %stream.session, %error, "cannot open the stream yet");
                sleep(delay).await;
                delay = RETRY_DELAY.1.min(delay * 2);
            }
        }
    }
}

/// Returns how many of these are frames that can be replayed.
pub(super) fn with_id(blocks: &[Block]) -> usize {
    blocks.iter().filter(|block| block.id.is_some()).count()
}

/// Returns the blocks that come before the opening block: what was missed up to the open, or the notices of a gap; and
/// where they come from, `None` if nothing can have been missed.
async fn missed(
    sessions: &Sessions,
    stream: &Arc<Stream>,
    opened: &Opened,
    subscriptions: &Subscriptions,
    last: LastEventId,
) -> (Vec<Block>, Option<ResumeOutcome>) {
    let opening = EventId::new(opened.fence, Slot::Opening);
    let blocks = match last {
        LastEventId::Id(_) if sabotage::is(Sabotage::ResumeFromNow) => return (Vec::new(), None),
        LastEventId::Id(cursor)
            if sabotage::is(Sabotage::GapAsResume) && cursor.revision() + 1 < opened.oldest =>
        {
            return (Vec::new(), None);
        }
        LastEventId::Absent if subscriptions.iter().next().is_none() => return (Vec::new(), None),
        LastEventId::Id(cursor)
            if cursor.revision() <= opened.fence && cursor.revision() + 1 >= opened.oldest =>
        {
            match collect(sessions, stream, subscriptions, cursor, opened.fence).await {
                Ok((mut blocks, source)) => {
                    if sabotage::is(Sabotage::DropLast) {
                        blocks.pop();
                    }
                    return (blocks, Some(source.into()));
                }
                Err(Gap) => tell_gap(subscriptions, opening),
            }
        }
        LastEventId::NotANumber => {
            let mut blocks = newest_frames(sessions, subscriptions, opened.fence).await;
            blocks.extend(tell_gap(subscriptions, opening));
            blocks
        }
        LastEventId::Absent | LastEventId::Id(_) | LastEventId::AboveRange | LastEventId::PostStream => {
            tell_gap(subscriptions, opening)
        }
    };
    (blocks, Some(ResumeOutcome::Gap))
}

/// Brings a stream from `after` to the present, in passes while its client takes what they bring, and lets it go live.
pub(super) async fn go_on(sessions: &Sessions, stream: &Arc<Stream>, mut after: EventId) {
    let mut revision = start(after);
    loop {
        match sessions.hub.go_live(stream, after, revision) {
            Step::Live | Step::Gone => return,
            Step::Further => {}
        }
        stream.drained().await;
        // Frozen here, both at one moment: what comes later waits for the next pass, so that no URI is put off for ever.
        let Some(snapshot) = sessions.hub.snapshot(stream) else {
            return;
        };
        let until = snapshot.position;
        let end = EventId::new(until, Slot::Bookmark);
        let blocks = match collect(sessions, stream, &snapshot.subscriptions, after, until).await {
            Ok((blocks, _)) => blocks,
            Err(Gap) => tell_gap(&snapshot.subscriptions, end),
        };
        sessions.hub.prepare(stream, &snapshot, blocks, end);
        (after, revision) = (end, until);
    }
}

/// The log no longer has what came after the cursor.
pub(super) struct Gap;

/// Where the blocks of a catch-up come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// This instance's ring.
    Ring,
    /// The feed service's log.
    Log,
}

impl From<Source> for ResumeOutcome {
    fn from(source: Source) -> ResumeOutcome {
        match source {
            Source::Ring => ResumeOutcome::Ring,
            Source::Log => ResumeOutcome::Log,
        }
    }
}

/// Returns the blocks for everything after `after` up to revision `until`, in rising order.
pub(super) async fn collect(
    sessions: &Sessions,
    stream: &Stream,
    subscriptions: &Subscriptions,
    after: EventId,
    until: u64,
) -> Result<(Vec<Block>, Source), Gap> {
    if let Some(blocks) = collect_from_ring(sessions, subscriptions, after, until).await {
        return Ok((blocks, Source::Ring));
    }
    let mut delay = RETRY_DELAY.0;
    loop {
        // For one try only: a feed service that is away must not keep others from trying.
        let permit = sessions.log_reads.acquire().await;
        let collected = collect_from_log(sessions, subscriptions, after, until).await;
        drop(permit);
        match collected {
            Ok(blocks) => return Ok((blocks, Source::Log)),
            Err(FeedError::Compacted | FeedError::LostHistory) => return Err(Gap),
            Err(error) if stream.is_closed() => {
                debug!(%error, "gave a catch-up up");
                return Ok((Vec::new(), Source::Log));
            }
            Err(error) => {
                warn!(session.id = %stream.session, %error, "cannot read the log for a catch-up, trying again");
                sleep(delay).await;
                delay = RETRY_DELAY.1.min(delay * 2);
            }
        }
    }
}

/// Collects from the ring; `None` if that does not reach back to `after`.
async fn collect_from_ring(
    sessions: &Sessions,
    subscriptions: &Subscriptions,
    after: EventId,
    until: u64,
) -> Option<Vec<Block>> {
    let max = match sabotage::is(Sabotage::FoldSilently) {
        true => 2,
        false => sessions.limits.catch_up_max,
    };
    let mut folder = Folder::new(max);
    let mut revision = start(after);
    while revision < until {
        let mut found = Vec::new();
        let seen = sessions.ring.visit(revision, until, SCAN_ENTRIES, |entry| {
            collect_blocks(entry, subscriptions, after, &mut found);
        });
        match seen {
            Ok(progress) if progress > revision => revision = progress,
            // The ring ends before `until`, or begins after the cursor: another history, or simply too old.
            Ok(_) | Err(_) => return None,
        }
        folder.extend(found);
        tokio::task::yield_now().await;
    }
    let folded = folder.folded;
    let blocks = folder.finish();
    if folded {
        sessions.counts.folded_notices.add(blocks.len());
    }
    Some(blocks)
}

/// Collects from the feed service's log: frame by frame while there are few, else the newest of each URI.
async fn collect_from_log(
    sessions: &Sessions,
    subscriptions: &Subscriptions,
    after: EventId,
    until: u64,
) -> Result<Vec<Block>, FeedError> {
    let catalog = sessions.watch.catalog();
    let watched: Vec<(Target, &Subscription)> = subscriptions
        .iter()
        .filter_map(|subscription| {
            let table = catalog.find(&subscription.row.path)?;
            let target = Target {
                table: Arc::clone(table),
                key: subscription.row.key.clone(),
            };
            Some((target, subscription))
        })
        .collect();
    let targets: Vec<Target> = watched.iter().map(|(target, _)| target.clone()).collect();
    let mut blocks = Vec::new();
    let mut revision = start(after);
    let max = sessions.limits.catch_up_max;
    if !targets.is_empty() && targets.len() <= TARGETS_PER_CALL {
        while revision < until && blocks.len() <= max {
            let page = u32::try_from(max + 1).unwrap_or(u32::MAX);
            let (entries, progress) = sessions
                .feed
                .read_log(&targets, revision, until, page, &catalog)
                .await?;
            for entry in &entries {
                collect_blocks(entry, subscriptions, after, &mut blocks);
            }
            if progress <= revision {
                break;
            }
            revision = progress;
        }
        if blocks.len() <= max {
            return Ok(blocks);
        }
    }
    blocks.clear();
    for (targets, watched) in targets
        .chunks(TARGETS_PER_CALL)
        .zip(watched.chunks(TARGETS_PER_CALL))
    {
        let newest = sessions.feed.read_latest(targets, start(after), until).await?;
        for (revision, (target, subscription)) in newest.into_iter().zip(watched) {
            let slot = if target.key.is_some() {
                Slot::Record
            } else {
                Slot::Table
            };
            let id = EventId::new(revision, slot);
            if revision > subscription.revision && id > after {
                blocks.push(subscriptions.notice(Some(id), subscription));
            }
        }
    }
    blocks.sort_unstable_by_key(|block| block.id);
    sessions.counts.folded_notices.add(blocks.len());
    Ok(blocks)
}

/// Returns the newest frames that the session's stream carried, as far as the ring reaches, at most `replay_frames`.
async fn newest_frames(sessions: &Sessions, subscriptions: &Subscriptions, until: u64) -> Vec<Block> {
    let mut blocks = VecDeque::new();
    let (_, mut revision) = sessions.ring.beginning();
    while revision < until {
        let mut found = Vec::new();
        let seen = sessions.ring.visit(revision, until, SCAN_ENTRIES, |entry| {
            collect_blocks(entry, subscriptions, EventId::from_u64(0), &mut found);
        });
        match seen {
            Ok(progress) if progress > revision => revision = progress,
            // The oldest left the ring meanwhile.
            Ok(_) | Err(_) => revision = sessions.ring.beginning().1.max(revision + 1),
        }
        blocks.extend(found);
        let surplus = blocks.len().saturating_sub(sessions.limits.replay_frames);
        blocks.drain(..surplus);
        tokio::task::yield_now().await;
    }
    blocks.into()
}

/// Returns the notices of a gap: every subscribed URI and every list once, without id. `end` is where a client goes on
/// that was told all of them.
pub(super) fn tell_gap(subscriptions: &Subscriptions, end: EventId) -> Vec<Block> {
    let form = subscriptions.form();
    let mut watched: Vec<&Subscription> = subscriptions.iter().collect();
    watched.sort_unstable_by(|a, b| a.spelling.as_bytes().cmp(b.spelling.as_bytes()));
    let lists: Vec<ListKind> = form.gap_lists().collect();
    let count = watched.len() + lists.len();
    let place = |index: usize| (form.ends_gap_with_cursor() && index + 1 == count).then_some(end);
    let mut blocks = Vec::with_capacity(count);
    for subscription in watched {
        let block = subscriptions.notice(place(blocks.len()), subscription);
        blocks.push(Block { id: None, ..block });
    }
    for kind in lists {
        let bytes = form.list_changed(place(blocks.len()), kind);
        blocks.push(Block {
            id: None,
            spelling: None,
            bytes,
        });
    }
    blocks
}

/// Returns the revision after which entries can cause frames with ids above `after`.
fn start(after: EventId) -> u64 {
    let last_of_its_change = EventId::new(after.revision(), Slot::Record);
    if after >= last_of_its_change {
        after.revision()
    } else {
        after.revision().saturating_sub(1)
    }
}

/// Returns how long a client is to wait before it opens a stream again: jittered, so that clients do not come in step.
pub(super) fn retry() -> Duration {
    let jitter = getrandom::u32().unwrap_or(0) % 1_000;
    Duration::from_millis(500 + u64::from(jitter))
}

/// Keeps blocks as they come until there are too many, and from then on the newest of each URI.
struct Folder {
    max: usize,
    blocks: Vec<Block>,
    folded: bool,
}

impl Folder {
    fn new(max: usize) -> Folder {
        Folder {
            max,
            blocks: Vec::new(),
            folded: false,
        }
    }

    fn extend(&mut self, blocks: Vec<Block>) {
        self.blocks.extend(blocks);
        // Twice the limit once folded: folding again costs a pass over what is kept.
        let limit = if self.folded { self.max * 2 } else { self.max };
        if self.blocks.len() > limit {
            self.fold();
        }
    }

    fn fold(&mut self) {
        self.folded = true;
        let mut newest = HashMap::with_capacity(self.blocks.len());
        for block in self.blocks.drain(..) {
            let uri = block
                .spelling
                .as_ref()
                .map(|spelling| Arc::as_ptr(spelling) as usize);
            newest.insert(uri, block);
        }
        self.blocks.extend(newest.into_values());
        self.blocks.sort_unstable_by_key(|block| block.id);
    }

    fn finish(mut self) -> Vec<Block> {
        if self.folded {
            self.fold();
        }
        self.blocks
    }
}
