//! Finds sessions that were idle for too long and proposes their end.
//!
//! What is found is only a candidate: the pipeline decides, against the state at that moment. Idle time counts only
//! while the service runs: the start counts as activity, so does a jump of the clock, and nothing expires soon after the start.

use std::sync::Arc;

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::commit::SessionProposal;
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::session::SessionCommand;

/// How many candidates are read at a time.
const SESSIONS_PER_READ: usize = 500;

/// Sweeps until `shutdown` is cancelled; cancelling loses nothing, the next start sweeps again.
pub(crate) async fn run(feed: Arc<Feed>, clock: Arc<dyn Clock>, shutdown: CancellationToken) {
    let first = Instant::now() + feed.limits.expiry_grace.max(feed.limits.expiry_interval);
    let mut ticks = interval_at(first, feed.limits.expiry_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shutdown.cancelled() => return,
        }
        // A sweep that is cut off has expired some sessions and not others, which is as good as a shorter one.
        let swept = tokio::select! {
            swept = sweep(&feed, clock.as_ref()) => swept,
            () = shutdown.cancelled() => return,
        };
        match swept {
            Ok(0) => {}
            Ok(expired) => info!(sessions = expired, "sessions expired"),
            Err(refusal) => warn!(error = %refusal, "the sweep for idle sessions failed"),
        }
    }
}

/// Looks at every session once; returns how many expired.
pub(crate) async fn sweep(feed: &Feed, clock: &dyn Clock) -> Result<usize, Refusal> {
    // Before anything is told idle by it.
    feed.leases.observe_clock();
    let now_ms = clock.now_ms();
    let mut expired = 0;
    let mut after_id = String::new();
    loop {
        let start = after_id.clone();
        let candidates = feed
            .reads
            .run(move |reader| reader.read_idle_sessions(&start, now_ms, SESSIONS_PER_READ))
            .await?;
        let Some(last) = candidates.last() else {
            return Ok(expired);
        };
        after_id = last.id.clone();
        for session in candidates {
            let owner = session.owner_instance.as_str();
            let is_owned = !owner.is_empty() && feed.leases.is_live(owner);
            let active_ms = session.last_active_ms.max(feed.leases.last_seen_ms(owner));
            if is_owned || active_ms.saturating_add(session.idle_timeout_ms) >= now_ms {
                continue;
            }
            let proposal = SessionProposal {
                principal: String::new(),
                id: session.id,
                command: SessionCommand::Expire,
            };
            match feed.pipeline.command_session(proposal).await {
                Ok(answer) if answer.has_changed => expired += 1,
                // Touched, or deleted by its client, since it was read.
                Ok(_) | Err(Refusal::UnknownSession) => {}
                Err(refusal) => return Err(refusal),
            }
        }
    }
}
