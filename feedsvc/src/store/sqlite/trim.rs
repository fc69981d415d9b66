//! Drops what has outlived its time, a bounded number of rows at a time.
//!
//! The freed pages stay in the file and are used again. There is no vacuum: it would copy pages at every commit, or stop the
//! writer for a while, to give space back that the log needs again soon.

use rusqlite::{Connection, OptionalExtension};

use super::blocks;
use super::rows;
use super::rows::sql_limit;
use crate::chain::ChainHash;
use crate::revision::Revision;
use crate::store::{LogTrim, NewEntry, StoreError, Subject, Trimmed};

/// What an entry takes besides its texts: the row's numbers and hash, and its places in two indexes.
const ENTRY_OVERHEAD_BYTES: usize = 128;

/// The size of an entry in SQL; the same as [`entry_bytes`].
macro_rules! entry_size {
    () => {
        "octet_length(entry) + coalesce(octet_length(before), 0) + coalesce(octet_length(after), 0)
         + octet_length(principal) + 2 * octet_length(key) + 128"
    };
}

/// Returns about what an entry takes.
pub(super) fn entry_bytes(entry: &NewEntry<'_>) -> i64 {
    let (Subject::Record { key, .. } | Subject::Session { id: key }) = entry.subject;
    let values = [entry.before, entry.after].map(|value| value.map_or(0, <[u8]>::len));
    let size_bytes = entry.encoded.len()
        + values[0]
        + values[1]
        + entry.principal.len()
        + 2 * key.len()
        + ENTRY_OVERHEAD_BYTES;
    i64::try_from(size_bytes).unwrap_or(i64::MAX)
}

/// Drops the oldest entries; `unwritten_bytes` is what the transaction has changed in the log's size so far, and is
/// brought up to date.
pub(super) fn trim_log(
    connection: &Connection,
    trim: &LogTrim,
    unwritten_bytes: &mut i64,
) -> Result<Trimmed, StoreError> {
    let (oldest, head, log_bytes) = connection
        .prepare_cached("SELECT oldest, head, log_bytes FROM feed")?
        .query_row([], |row| {
            Ok((
                rows::revision(row, 0)?,
                rows::revision(row, 1)?,
                row.get::<_, i64>(2)?,
            ))
        })?;
    let keep_bytes = i64::try_from(trim.keep_bytes).unwrap_or(i64::MAX);
    let limit_bytes = i64::try_from(trim.limit_bytes).unwrap_or(i64::MAX);
    // What this transaction itself appended is above the stored head, and stays.
    let floor = trim.floor.min(head);
    let mut kept_bytes = log_bytes.saturating_add(*unwritten_bytes);
    let (mut dropped, mut dropped_bytes) = (0, 0);
    let mut last: Option<(Revision, ChainHash)> = None;
    let mut has_more = false;
    {
        let mut statement = connection.prepare_cached(concat!(
            "SELECT revision, hash, ",
            entry_size!(),
            " FROM log WHERE revision >= ?1 AND revision <= ?2 ORDER BY revision LIMIT ?3"
        ))?;
        // One more than may go, to see whether there is more to do.
        let limit = sql_limit(trim.entry_limit.saturating_add(1));
        let mut found = statement.query((oldest, floor, limit))?;
        while let Some(row) = found.next()? {
            let revision = rows::revision(row, 0)?;
            if revision > trim.until && kept_bytes <= keep_bytes {
                break;
            }
            if dropped == trim.entry_limit || dropped_bytes >= limit_bytes {
                has_more = true;
                break;
            }
            let size_bytes: i64 = row.get(2)?;
            dropped += 1;
            dropped_bytes += size_bytes;
            kept_bytes -= size_bytes;
            last = Some((revision, rows::hash(&rows::bytes(row, 1)?, revision)?));
        }
    }
    let Some((last, hash)) = last else {
        return Ok(Trimmed {
            oldest,
            dropped: 0,
            has_more: false,
        });
    };
    connection
        .prepare_cached("DELETE FROM log WHERE revision >= ?1 AND revision <= ?2")?
        .execute((oldest, last))?;
    connection
        .prepare_cached("UPDATE feed SET oldest = ?1, base_hash = ?2")?
        .execute((last.next(), hash.as_bytes()))?;
    blocks::drop_before(connection, last.next())?;
    *unwritten_bytes -= dropped_bytes;
    Ok(Trimmed {
        oldest: last.next(),
        dropped: dropped as u64,
        has_more,
    })
}

/// Drops answers that were kept under request keys, the oldest first.
pub(super) fn drop_answers(
    connection: &Connection,
    made_before_ms: i64,
    limit: usize,
) -> Result<usize, StoreError> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM request_key WHERE (principal, key) IN
         (SELECT principal, key FROM request_key WHERE made_ms < ?1 ORDER BY made_ms LIMIT ?2)",
    )?;
    Ok(statement.execute((made_before_ms, sql_limit(limit)))?)
}

/// Drops ids of sessions that are gone, the oldest first.
pub(super) fn drop_spent_sessions(
    connection: &Connection,
    removed_before_ms: i64,
    limit: usize,
) -> Result<usize, StoreError> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM spent_session WHERE id IN
         (SELECT id FROM spent_session WHERE removed_ms < ?1 ORDER BY removed_ms LIMIT ?2)",
    )?;
    Ok(statement.execute((removed_before_ms, sql_limit(limit)))?)
}

/// Writes something, and something else the next time: an unchanged page would not be written at all.
pub(super) fn probe(connection: &Connection) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE feed SET probe = 1 - probe")?
        .execute([])?;
    Ok(())
}

/// Returns when the oldest answer was made, and when the oldest spent session was removed.
pub(super) fn oldest_times(connection: &Connection) -> Result<(Option<i64>, Option<i64>), StoreError> {
    let oldest = |sql: &str| {
        let mut statement = connection.prepare_cached(sql)?;
        statement.query_row([], |row| row.get(0)).optional()
    };
    Ok((
        oldest("SELECT made_ms FROM request_key ORDER BY made_ms LIMIT 1")?,
        oldest("SELECT removed_ms FROM spent_session ORDER BY removed_ms LIMIT 1")?,
    ))
}
