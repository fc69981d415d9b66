//! Keeps the keys by which gateways seal, and makes a new one when the newest is old.

use tracing::info;

use super::draft::{Draft, NotApplied};
use crate::refusal::Refusal;
use crate::store::SealingKey;

/// How many keys are kept: the newest, and the one that sealed before it.
const KEYS_KEPT: usize = 2;

/// Returns the keys, the newest first. If the newest is older than `rotate_after_ms`, or there is none, a new one is made.
pub(super) fn run(
    draft: &mut Draft<'_>,
    rotate_after_ms: i64,
    now_ms: i64,
) -> Result<Vec<SealingKey>, NotApplied> {
    let now_ms = draft.commit_time_ms(now_ms);
    let keys = draft.transaction.read_sealing_keys()?;
    let is_fresh = |key: &SealingKey| key.made_ms.saturating_add(rotate_after_ms) > now_ms;
    if keys.first().is_some_and(is_fresh) {
        return Ok(keys);
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| {
        tracing::error!(%error, "cannot get random bytes for a key");
        Refusal::Unavailable
    })?;
    let id = draft.transaction.write_sealing_key(&secret, now_ms)?;
    draft.mark_dirty();
    for old in keys.iter().skip(KEYS_KEPT - 1) {
        draft.transaction.remove_sealing_key(old.id)?;
    }
    info!(key.id = id, "made a new sealing key");
    Ok(draft.transaction.read_sealing_keys()?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::testing::Bench;

    #[tokio::test]
    async fn sealing_keys_rotate_with_age_and_the_one_before_is_kept() {
        let bench = Bench::new();
        let service = bench.open().await;
        let feed = service.feed();
        let ids = async || -> Vec<i64> {
            let keys = feed.pipeline.sealing_keys(1_000).await.unwrap();
            assert!(keys.iter().all(|key| key.secret.len() == 32));
            keys.iter().map(|key| key.id).collect()
        };
        let first = ids().await;
        assert_eq!(first, [1]);
        bench.clock.advance(Duration::from_millis(999));
        assert_eq!(ids().await, first, "not old yet");
        bench.clock.advance(Duration::from_millis(1));
        assert_eq!(ids().await, [2, 1]);
        bench.clock.advance(Duration::from_millis(1_000));
        assert_eq!(ids().await, [3, 2]);
        let kept = feed.pipeline.sealing_keys(1_000).await.unwrap();
        drop(feed);
        service.close().await;
        let service = bench.open().await;
        let again = service.feed().pipeline.sealing_keys(1_000).await.unwrap();
        assert_eq!(again, kept, "they are durable");
        service.close().await;
    }
}
