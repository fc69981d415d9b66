//! The keys by which this service seals the cursors of searches: those that it gives to gateways, kept in memory until the newest is old.

use std::sync::{Arc, Mutex, PoisonError};

use tracing::warn;

use crate::clock::duration_ms;
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::search::CursorSeal;
use crate::store::SealingKey;

/// The keys as they were last read.
pub(crate) struct Sealing {
    /// Held only to take or replace the pointer.
    seal: Mutex<Arc<CursorSeal>>,
}

impl Sealing {
    /// Begins with the keys that a store has, the newest first.
    pub(crate) fn new(keys: Vec<SealingKey>) -> Sealing {
        Sealing {
            seal: Mutex::new(Arc::new(CursorSeal::new(keys))),
        }
    }

    fn get(&self) -> Arc<CursorSeal> {
        Arc::clone(&self.seal.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, seal: &Arc<CursorSeal>) {
        *self.seal.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(seal);
    }
}

/// Returns the keys to seal and to open by. If the newest is too old, or there is none, it waits until a new one is durable; while the store
/// cannot be written, the old ones go on, as all reads do.
///
/// # Errors
/// There is no key, and none can be made.
pub(crate) async fn current_seal(feed: &Feed) -> Result<Arc<CursorSeal>, Refusal> {
    let seal = feed.sealing.get();
    let age_ms = duration_ms(feed.limits.sealing_key_age);
    let is_fresh = |made_ms: i64| made_ms.saturating_add(age_ms) > feed.clock.now_ms();
    if seal.newest_made_ms().is_some_and(is_fresh) {
        return Ok(seal);
    }
    match feed.pipeline.sealing_keys(age_ms).await {
        Ok(keys) => {
            let seal = Arc::new(CursorSeal::new(keys));
            feed.sealing.set(&seal);
            Ok(seal)
        }
        Err(refusal) if seal.newest_made_ms().is_some() => {
            warn!(%refusal, "cursors are sealed by an old key, since no new one can be made");
            Ok(seal)
        }
        Err(refusal) => Err(refusal),
    }
}
