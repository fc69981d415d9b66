//! Runs what reads all of a running store, one at a time, until it is done or nobody waits for it any more.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::warn;

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
    let path = file.clone();
    let copied = run(feed, move |reader, is_cancelled| {
        reader.copy_to(&file, is_cancelled)
    })
    .await?;
    copied.map_err(|error| not_copied(path, error))
}

/// Says why there is no copy: what is wrong with the place is the caller's, the system's words are for the log.
fn not_copied(path: PathBuf, error: CopyError) -> Refusal {
    let place = |path, problem| Refusal::BackupPlace { path, problem };
    match error {
        CopyError::Exists => place(path, "there is a file already; name a new one"),
        CopyError::NoDirectory => place(path, "its directory does not exist; make it, or name another"),
        CopyError::InsideStore => place(
            path,
            "it lies in the service's data directory; name a directory outside of it, best on another disk",
        ),
        CopyError::File(error) => match error.kind() {
            ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::InvalidFilename
            | ErrorKind::InvalidInput
            | ErrorKind::Unsupported => {
                warn!(file = %path.display(), %error, "a backup cannot be written");
                place(
                    path,
                    "it cannot be written by the service; check the name and the directory's permissions",
                )
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Refusal::BackupFailed {
                path,
                problem: "there is no room for it; free some, or name another disk",
            },
            _ => {
                warn!(file = %path.display(), %error, "a backup failed");
                Refusal::BackupFailed {
                    path,
                    problem: "the disk failed; the cause is in the service's log",
                }
            }
        },
        CopyError::Store(error) => error.into(),
        CopyError::Cancelled => Refusal::Unavailable,
    }
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

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::path::PathBuf;

    use super::not_copied;
    use crate::refusal::Refusal;
    use crate::store::CopyError;

    #[test]
    fn a_place_that_cannot_be_written_and_a_disk_that_is_full_are_told_apart() {
        for (kind, is_place) in [
            (ErrorKind::PermissionDenied, true),
            (ErrorKind::ReadOnlyFilesystem, true),
            (ErrorKind::InvalidFilename, true),
            (ErrorKind::StorageFull, false),
            (ErrorKind::QuotaExceeded, false),
            (ErrorKind::Other, false),
        ] {
            let refusal = not_copied(PathBuf::from("/b/f"), CopyError::File(kind.into()));
            assert_eq!(
                matches!(refusal, Refusal::BackupPlace { .. }),
                is_place,
                "{kind}: {refusal}"
            );
            assert!(refusal.to_string().contains("/b/f"));
        }
        let full =
            rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None);
        let refusal = not_copied(PathBuf::from("/b/f"), full.into());
        assert!(matches!(refusal, Refusal::BackupFailed { .. }), "{refusal}");
    }
}
