//! Appends to the access log and drops what it keeps no longer.

use super::draft::{Draft, NotApplied};
use crate::access_log::AccessRecord;
use crate::clock::duration_ms;
use crate::service::Limits;
use crate::store::{AccessRetention, NewAccess};

/// How many entries a step drops at most, so that no commit waits long for it.
const TRIM_STEP: usize = 1_000;

/// Appends entries in their order; returns the number of the last. As many old ones go as came, if they have to, so that the log
/// stays within its bounds by itself.
pub(super) fn append(
    draft: &mut Draft<'_>,
    records: &[AccessRecord],
    limits: &Limits,
    now_ms: i64,
) -> Result<u64, NotApplied> {
    let recorded_ms = draft.commit_time_ms(now_ms);
    let bounds = draft.transaction.access_bounds()?;
    let (mut number, mut hash) = (bounds.newest, bounds.newest_hash);
    for record in records {
        number += 1;
        let encoded = record.encode(number);
        hash = hash.followed_by(&encoded, None, None);
        draft.transaction.append_access(&NewAccess {
            number,
            time_ms: record.time_ms(),
            recorded_ms,
            principal: record.principal(),
            method: record.method(),
            encoded: &encoded,
            hash,
        })?;
        draft.mark_dirty();
    }
    let step = records.len().max(TRIM_STEP);
    draft
        .transaction
        .trim_access(&retention(limits, recorded_ms, step))?;
    Ok(number)
}

/// Drops a step of what is too old or too much; returns how many entries went.
pub(super) fn trim(draft: &mut Draft<'_>, limits: &Limits, now_ms: i64) -> Result<u64, NotApplied> {
    let now_ms = draft.commit_time_ms(now_ms);
    let dropped = draft
        .transaction
        .trim_access(&retention(limits, now_ms, TRIM_STEP))?;
    if dropped > 0 {
        draft.mark_dirty();
    }
    Ok(dropped)
}

fn retention(limits: &Limits, now_ms: i64, step: usize) -> AccessRetention {
    AccessRetention {
        recorded_from_ms: now_ms.saturating_sub(duration_ms(limits.access_log_age_max)),
        kept_bytes_max: limits.access_log_bytes_max,
        step,
    }
}
