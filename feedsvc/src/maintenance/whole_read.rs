//! Runs what reads all of a running store, one at a time, until it is done or nobody waits for it any more.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::store::{Copied, CopyError, Reader, StoreError, Verification};

/// Tells the thread that works to stop, when whoever waits for it is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Copies the store into a new file. A future that is dropped leaves no file behind, a moment later.
pub(crate) async fn back_up(feed: &Feed, file: PathBuf) -> Result<Copied, Refusal> {
    let copied = run(feed, move |reader, is_cancelled| {
        reader.copy_to(&file, is_cancelled)
    })
    .await?;
    copied.map_err(|error| match error {
        CopyError::Exists => Refusal::InvalidArgument {
            field: "path",
            problem: "there is a file already",
        },
        CopyError::File(error) => Refusal::NotCopied {
            problem: error.to_string(),
        },
        CopyError::Store(error) => Refusal::NotCopied {
            problem: error.to_string(),
        },
        CopyError::Cancelled => Refusal::Unavailable,
    })
}

/// Checks everything that the store holds.
pub(crate) async fn verify(feed: &Feed) -> Result<Verification, Refusal> {
    let verified: Result<_, StoreError> =
        run(feed, |reader, is_cancelled| reader.verify(is_cancelled)).await?;
    Ok(verified?)
}

async fn run<T: Send + 'static>(
    feed: &Feed,
    work: impl FnOnce(&dyn Reader, &dyn Fn() -> bool) -> T + Send + 'static,
) -> Result<T, Refusal> {
    let permit = Arc::clone(&feed.whole_reads).acquire_owned().await;
    let permit = permit.map_err(|_closed| Refusal::Unavailable)?;
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stop = StopOnDrop(Arc::clone(&is_stopped));
    let (reader, shutdown) = (feed.reads.reader(), feed.shutdown.clone());
    let task = tokio::task::spawn_blocking(move || {
        // The permit lives as long as the thread works, not as long as somebody waits for it.
        let _permit = permit;
        work(reader.as_ref(), &|| {
            is_stopped.load(Ordering::Relaxed) || shutdown.is_cancelled()
        })
    });
    let outcome = task.await.map_err(|_lost| Refusal::Unavailable);
    drop(stop);
    outcome
}
