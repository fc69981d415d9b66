//! Finds out when a store that could not be written can be written again.
//!
//! While it cannot, callers are told so and stay away: without a try of its own the service would never notice that the disk has room again.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::commit::Writability;
use crate::feed::Feed;

/// How often it is tried.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Waits for failures and tries until it works, until `shutdown` is cancelled.
pub(crate) async fn run(feed: Arc<Feed>, shutdown: CancellationToken) {
    let mut writability = feed.writability.clone();
    let probing = async {
        let fails = |present: &Writability| *present != Writability::Writable;
        while writability.wait_for(fails).await.is_ok() {
            tokio::time::sleep(PROBE_INTERVAL).await;
            // What came of it is noted by the committer.
            let _ = feed.pipeline.probe().await;
        }
    };
    tokio::select! {
        () = probing => {}
        () = shutdown.cancelled() => {}
    }
}
