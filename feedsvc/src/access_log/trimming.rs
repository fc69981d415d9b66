//! Drops what the access log keeps no longer, when nobody writes to it: a write does so by itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::feed::Feed;
use crate::refusal::Refusal;

/// How often it looks; what is kept for days may stay for minutes more.
const INTERVAL: Duration = Duration::from_secs(60);

/// Trims until `shutdown` is cancelled; cancelling loses nothing, the next start trims again.
pub(crate) async fn run(feed: Arc<Feed>, shutdown: CancellationToken) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shutdown.cancelled() => return,
        }
        // Steps are transactions of their own, so one that is cut off has trimmed less.
        let trimmed = tokio::select! {
            trimmed = trim(&feed) => trimmed,
            () = shutdown.cancelled() => return,
        };
        match trimmed {
            Ok(0) => {}
            Ok(entries) => info!(entries, "trimmed the access log"),
            Err(refusal) => warn!(error = %refusal, "cannot trim the access log"),
        }
    }
}

/// Trims step by step, with room for commits between the steps; returns how many entries went.
async fn trim(feed: &Feed) -> Result<u64, Refusal> {
    let mut dropped = 0;
    loop {
        match feed.pipeline.trim_access().await? {
            0 => return Ok(dropped),
            step => dropped += step,
        }
    }
}
