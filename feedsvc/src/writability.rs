//! Whether the store can be written at the moment: what health, status and watches tell.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::feed::Feed;

/// How often a store that could not be written is tried. Nobody may propose anything meanwhile, since nobody sends traffic to a
/// service that is not ready.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Whether the last transaction that had something to write could be committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Writability {
    #[default]
    Writable,
    /// It could not, and this is why.
    Blocked { problem: Arc<str> },
}

impl Writability {
    /// Returns why the store cannot be written; empty if it can.
    pub(crate) fn problem(&self) -> &str {
        match self {
            Writability::Writable => "",
            Writability::Blocked { problem } => problem,
        }
    }
}

/// Tries a store that could not be written until it can be, again and again until `shutdown` is cancelled.
pub(crate) async fn run(feed: Arc<Feed>, shutdown: CancellationToken) {
    let watch_and_probe = async {
        let mut writability = feed.writability.clone();
        while writability
            .wait_for(|state| *state != Writability::Writable)
            .await
            .is_ok()
        {
            let mut ticks = interval(PROBE_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            // The first tick comes at once, and so right after the failure.
            ticks.tick().await;
            while *writability.borrow_and_update() != Writability::Writable {
                ticks.tick().await;
                // What it brings is told by the state.
                let _ = feed.pipeline.probe().await;
            }
        }
    };
    tokio::select! {
        () = watch_and_probe => {}
        // A probe that is cut off writes nothing that matters.
        () = shutdown.cancelled() => {}
    }
}
