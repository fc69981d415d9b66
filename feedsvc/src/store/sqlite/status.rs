//! How the store stands: its ages and its sizes.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};

use super::trim::oldest_times;
use crate::catalog::TableName;
use crate::store::{Ages, Bounds, StoreError, StoreStatus};

/// Returns how old the oldest things are.
pub(super) fn ages(connection: &Connection, bounds: Bounds) -> Result<Ages, StoreError> {
    let oldest_entry_ms = connection
        .prepare_cached("SELECT commit_time_ms FROM log WHERE revision = ?1")?
        .query_row([bounds.oldest], |row| row.get(0))
        .optional()?;
    let (oldest_request_key_ms, oldest_spent_session_ms) = oldest_times(connection)?;
    Ok(Ages {
        bounds,
        log_bytes: number(connection, "SELECT log_bytes FROM feed")?,
        oldest_entry_ms,
        oldest_request_key_ms,
        oldest_spent_session_ms,
    })
}

/// Returns how the store stands; `store_bytes` is the size of its files.
pub(super) fn status(
    connection: &Connection,
    bounds: Bounds,
    store_bytes: u64,
) -> Result<StoreStatus, StoreError> {
    let newest_ms = connection
        .prepare_cached("SELECT commit_time_ms FROM log WHERE revision = ?1")?
        .query_row([bounds.head], |row| row.get(0))
        .optional()?;
    // With an empty log only the feed's own time is left, which activity of sessions moves too.
    let commit_time_ms = match newest_ms {
        Some(newest_ms) => Some(newest_ms),
        None if bounds.head.0 > 0 => {
            Some(connection.query_row("SELECT commit_time_ms FROM feed", [], |row| row.get(0))?)
        }
        None => None,
    };
    let mut statement = connection.prepare_cached(
        "SELECT database, name, record_count FROM feed_table WHERE record_count > 0 ORDER BY database, name",
    )?;
    let tables = statement.query_map([], |row| {
        let name = TableName::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?);
        Ok((name, row.get::<_, i64>(2)?.cast_unsigned()))
    })?;
    let page_bytes = number(connection, "PRAGMA page_size")?;
    Ok(StoreStatus {
        bounds,
        commit_time_ms,
        store_bytes,
        free_bytes: number(connection, "PRAGMA freelist_count")?.saturating_mul(page_bytes),
        log_bytes: number(connection, "SELECT log_bytes FROM feed")?,
        sessions: number(connection, "SELECT count(*) FROM session")?,
        subscriptions: number(connection, "SELECT count(*) FROM subscription")?,
        tables: tables.collect::<Result<_, _>>()?,
    })
}

/// Returns the size of the database with its write-ahead log; a file that is not there has none.
pub(super) fn file_bytes(file: &Path) -> u64 {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    let size = |file: &Path| std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    size(file) + size(&PathBuf::from(log))
}

fn number(connection: &Connection, sql: &str) -> Result<u64, StoreError> {
    let number: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(number.max(0).cast_unsigned())
}
