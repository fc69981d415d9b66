//! Builds indexes that tables gained and removes those that they lost, in small steps between the commits.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::store::IndexWork;

/// How long to wait after a failure, which is the disk's or the end of the process.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Works on indexes whenever the catalogue has changed, until the service ends.
pub(crate) async fn run(feed: Arc<Feed>, shutdown: CancellationToken) {
    let mut catalog = feed.catalog.clone();
    loop {
        // Seen before the work: what comes later wakes it again.
        catalog.mark_unchanged();
        let work = tokio::select! {
            work = finish(&feed) => work,
            // A step that was proposed is done all the same.
            () = shutdown.cancelled() => return,
        };
        let retry = match work {
            Ok(()) => None,
            Err(refusal) => {
                warn!(error = %refusal, "cannot work on the indexes");
                Some(RETRY_DELAY)
            }
        };
        tokio::select! {
            changed = catalog.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(retry.unwrap_or_default()), if retry.is_some() => {}
            () = shutdown.cancelled() => return,
        }
    }
}

/// Works until nothing is left.
pub(crate) async fn finish(feed: &Feed) -> Result<(), Refusal> {
    while feed.pipeline.work_on_indexes().await? == IndexWork::Left {}
    Ok(())
}
