//! Drops what has outlived its time: entries of the log, answers under request keys, ids of sessions that are gone.
//!
//! In small steps through the one pipeline, each a bounded number of rows beside the commits of its transaction, so that no writer
//! waits for a long one. Entries go from the oldest on, when they are older than the log's age or the log takes more than its
//! bytes, but never before they are as old as the floor.
//!
//! Session commands go with the changes around them and not earlier. Their own, shorter time would leave holes, and then three promises
//! would each need an exception: that revisions are dense, that the chain of hashes can be checked, and that a reader needs to know one oldest
//! revision only. What sessions leave behind elsewhere, the ids that never live again, has a time of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::clock::duration_ms;
use crate::commit::{REQUEST_KEY_LIFETIME_MS, TrimStep};
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::store::{Ages, LogTrim};

/// For how long the id of a session that is gone may not be used again (session.proto, `CreateSession`).
const SPENT_SESSION_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// What one step drops at most: a few milliseconds of the committer's time.
const STEP_ENTRIES: usize = 500;
const STEP_LIMIT_BYTES: u64 = 4 * 1024 * 1024;
const STEP_ROWS: usize = 500;

/// Looks again and again until `shutdown` is cancelled; cancelling loses nothing, the next start goes on.
pub(crate) async fn run(feed: Arc<Feed>, shutdown: CancellationToken) {
    let interval = feed.limits.retention_interval;
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shutdown.cancelled() => return,
        }
        // A sweep that is cut off has dropped less.
        let swept = tokio::select! {
            swept = sweep(&feed) => swept,
            () = shutdown.cancelled() => return,
        };
        match swept {
            Ok(0) => {}
            Ok(dropped) => debug!(
                entries = dropped,
                revision = feed.oldest().0,
                "the log was trimmed"
            ),
            Err(refusal) => warn!(error = %refusal, "what has outlived its time cannot be dropped"),
        }
    }
}

/// Drops everything that is due; returns how many entries of the log that were.
pub(crate) async fn sweep(feed: &Feed) -> Result<u64, Refusal> {
    let ages = feed.reads.run(|reader| reader.ages()).await?;
    let now_ms = feed.clock.now_ms();
    let due = Due::at(now_ms, feed);
    if !due.is_met(&ages) {
        return Ok(0);
    }
    let (until, floor) = feed
        .reads
        .run(move |reader| {
            Ok((
                reader.newest_before(due.entries_before_ms)?,
                reader.newest_before(due.floor_ms)?,
            ))
        })
        .await?;
    let step = TrimStep {
        log: LogTrim {
            until: until.min(floor),
            keep_bytes: feed.limits.log_bytes,
            floor,
            entry_limit: STEP_ENTRIES,
            limit_bytes: STEP_LIMIT_BYTES,
        },
        answers_before_ms: due.answers_before_ms,
        spent_sessions_before_ms: due.spent_sessions_before_ms,
        row_limit: STEP_ROWS,
    };
    let (_, dropped) = take_steps(feed, step).await?;
    Ok(dropped)
}

/// Drops the entries up to a revision, but none that is younger than the floor; returns the oldest that is left, and how many were
/// dropped. A future that is dropped has dropped less.
pub(crate) async fn compact(feed: &Feed, until: Revision) -> Result<(Revision, u64), Refusal> {
    let due = Due::at(feed.clock.now_ms(), feed);
    let floor = feed
        .reads
        .run(move |reader| reader.newest_before(due.floor_ms))
        .await?;
    let step = TrimStep {
        log: LogTrim {
            until: until.min(floor),
            keep_bytes: u64::MAX,
            floor,
            entry_limit: STEP_ENTRIES,
            limit_bytes: STEP_LIMIT_BYTES,
        },
        answers_before_ms: due.answers_before_ms,
        spent_sessions_before_ms: due.spent_sessions_before_ms,
        row_limit: STEP_ROWS,
    };
    take_steps(feed, step).await
}

async fn take_steps(feed: &Feed, step: TrimStep) -> Result<(Revision, u64), Refusal> {
    let mut dropped = 0;
    loop {
        let answer = feed.pipeline.trim(step).await?;
        dropped += answer.log.dropped;
        if !answer.has_more {
            return Ok((answer.log.oldest, dropped));
        }
    }
}

/// What is older than these times is due.
#[derive(Clone, Copy, Debug)]
struct Due {
    entries_before_ms: i64,
    /// What is younger stays whatever the size.
    floor_ms: i64,
    log_bytes: u64,
    answers_before_ms: i64,
    spent_sessions_before_ms: i64,
}

impl Due {
    fn at(now_ms: i64, feed: &Feed) -> Due {
        let before = |age: Duration| now_ms.saturating_sub(duration_ms(age));
        Due {
            entries_before_ms: before(feed.limits.log_age),
            floor_ms: before(feed.limits.log_floor),
            log_bytes: feed.limits.log_bytes,
            answers_before_ms: now_ms.saturating_sub(REQUEST_KEY_LIFETIME_MS),
            spent_sessions_before_ms: before(SPENT_SESSION_LIFETIME),
        }
    }

    /// Whether anything is due.
    fn is_met(&self, ages: &Ages) -> bool {
        let is_before = |time_ms: Option<i64>, due_ms: i64| time_ms.is_some_and(|time_ms| time_ms < due_ms);
        let is_trimmable = is_before(ages.oldest_entry_ms, self.floor_ms);
        let is_surplus =
            is_before(ages.oldest_entry_ms, self.entries_before_ms) || ages.log_bytes > self.log_bytes;
        (is_trimmable && is_surplus)
            || is_before(ages.oldest_request_key_ms, self.answers_before_ms)
            || is_before(ages.oldest_spent_session_ms, self.spent_sessions_before_ms)
    }
}
