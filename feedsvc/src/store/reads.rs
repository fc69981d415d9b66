//! Takes reads off the async runtime, a bounded number at a time.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{Reader, StoreError};

/// A store's reading half for async callers.
#[derive(Clone)]
pub(crate) struct Reads {
    reader: Arc<dyn Reader>,
    permits: Arc<Semaphore>,
}

impl Reads {
    /// Wraps a reader, of which at most `concurrent` reads run at a time; each has a thread and a connection to the database.
    pub(crate) fn new(reader: Arc<dyn Reader>, concurrent: usize) -> Reads {
        Reads {
            reader,
            permits: Arc::new(Semaphore::new(concurrent)),
        }
    }

    /// Runs one read on a blocking thread. Dropping the future loses only the answer.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_closed| StoreError::Interrupted)?;
        let reader = Arc::clone(&self.reader);
        let task = tokio::task::spawn_blocking(move || {
            // The permit lives as long as the thread works, not as long as somebody waits for it.
            let _permit = permit;
            read(reader.as_ref())
        });
        task.await.unwrap_or(Err(StoreError::Interrupted))
    }
}
