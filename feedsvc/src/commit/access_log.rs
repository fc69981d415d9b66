//! Appends to the access log.

use super::draft::{Draft, NotApplied};
use crate::access_log::AccessRecord;
use crate::store::NewAccess;

/// Appends entries in their order; returns the number of the last.
pub(super) fn append(
    draft: &mut Draft<'_>,
    records: &[AccessRecord],
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
    Ok(number)
}
