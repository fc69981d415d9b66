//! Takes reads off the async runtime, a bounded number at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use super::{Reader, StoreError};

/// A store's reading half for async callers.
#[derive(Clone)]
pub(crate) struct Reads {
    reader: Arc<dyn Reader>,
    permits: Arc<Semaphore>,
    search_permits: Arc<Semaphore>,
}

/// Tells a search that nobody waits for it any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Tells the search to end.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Fails if the search is to end.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(StoreError::Interrupted),
            false => Ok(()),
        }
    }
}

/// Interrupts a search when the future that waits for it is dropped.
struct InterruptOnDrop(Interrupt);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl Reads {
    /// Wraps a reader, of which at most `concurrent` reads run at a time, at most `concurrent_searches` of them searches; each
    /// has a thread and a connection to the database.
    pub(crate) fn new(reader: Arc<dyn Reader>, concurrent: usize, concurrent_searches: usize) -> Reads {
        Reads {
            reader,
            permits: Arc::new(Semaphore::new(concurrent)),
            search_permits: Arc::new(Semaphore::new(concurrent_searches)),
        }
    }

    /// Returns the reader, for a thread that already is off the runtime.
    pub(crate) fn reader(&self) -> Arc<dyn Reader> {
        Arc::clone(&self.reader)
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

    /// Runs one search on a blocking thread. Dropping the future, as at a deadline, ends the search soon.
    pub(crate) async fn run_search<T: Send + 'static>(
        &self,
        search: impl FnOnce(&dyn Reader, &Interrupt) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.search_permits).acquire_owned().await;
        let permit = permit.map_err(|_closed| StoreError::Interrupted)?;
        let interrupt = Interrupt::default();
        let _interrupt_on_drop = InterruptOnDrop(interrupt.clone());
        self.run(move |reader| {
            let _permit = permit;
            search(reader, &interrupt)
        })
        .await
    }
}
