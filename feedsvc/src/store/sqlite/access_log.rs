//! The access log in SQLite.

use rusqlite::{Connection, OptionalExtension};

use super::rows;
use crate::chain::ChainHash;
use crate::revision::Revision;
use crate::store::{
    AccessBounds, AccessPage, AccessQuery, AccessRetention, NewAccess, StoreError, StoredAccess,
};

/// About what an entry takes besides its bytes: columns, hash and its share of a page.
const ENTRY_OVERHEAD_BYTES: u64 = 128;

/// Reads the ends; of a log that never had an entry they follow from the store's identity.
pub(super) fn read_bounds(connection: &Connection) -> Result<AccessBounds, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT newest, newest_hash, oldest, base_hash FROM access_bounds WHERE only = 1")?;
    let found = statement
        .query_row([], |row| {
            let (newest, oldest): (i64, i64) = (row.get(0)?, row.get(2)?);
            let hashes = (rows::bytes(row, 1)?, rows::bytes(row, 3)?);
            Ok((newest.cast_unsigned(), oldest.cast_unsigned(), hashes))
        })
        .optional()?;
    let Some((newest, oldest, (newest_hash, base_hash))) = found else {
        let mut statement = connection.prepare_cached("SELECT store_id FROM feed")?;
        let store_id: String = statement.query_row([], |row| row.get(0))?;
        let genesis = ChainHash::genesis(&format!("access log of {store_id}"));
        return Ok(AccessBounds {
            newest: 0,
            newest_hash: genesis,
            oldest: 1,
            base_hash: genesis,
        });
    };
    Ok(AccessBounds {
        newest,
        newest_hash: rows::hash(&newest_hash, Revision(newest))?,
        oldest,
        base_hash: rows::hash(&base_hash, Revision(oldest))?,
    })
}

/// Returns when the oldest entry was recorded, and what the kept entries take.
pub(super) fn age(connection: &Connection) -> Result<(Option<i64>, u64), StoreError> {
    let oldest_ms = connection
        .prepare_cached("SELECT recorded_ms FROM access_log ORDER BY number LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let kept_bytes: Option<i64> = connection
        .prepare_cached("SELECT kept_bytes FROM access_bounds WHERE only = 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok((oldest_ms, kept_bytes.unwrap_or_default().max(0).cast_unsigned()))
}

/// Appends an entry and moves the newest end to it.
pub(super) fn append(connection: &Connection, entry: &NewAccess<'_>) -> Result<(), StoreError> {
    let bounds = read_bounds(connection)?;
    connection
        .prepare_cached(
            "INSERT INTO access_log (number, time_ms, recorded_ms, principal, method, entry, hash)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute((
            entry.number.cast_signed(),
            entry.time_ms,
            entry.recorded_ms,
            entry.principal,
            entry.method,
            entry.encoded,
            entry.hash.as_bytes(),
        ))?;
    let taken_bytes = entry.encoded.len() as u64 + ENTRY_OVERHEAD_BYTES;
    connection
        .prepare_cached(
            "INSERT INTO access_bounds (only, newest, newest_hash, oldest, base_hash, kept_bytes)
             VALUES (1, ?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (only) DO UPDATE SET newest = ?1, newest_hash = ?2, kept_bytes = kept_bytes + ?5",
        )?
        .execute((
            entry.number.cast_signed(),
            entry.hash.as_bytes(),
            bounds.oldest.cast_signed(),
            bounds.base_hash.as_bytes(),
            taken_bytes.cast_signed(),
        ))?;
    Ok(())
}

/// Drops what the retention does not keep, at most a step of it; returns how many entries went.
pub(super) fn trim(connection: &Connection, retention: &AccessRetention) -> Result<u64, StoreError> {
    let kept: Option<i64> = connection
        .prepare_cached("SELECT kept_bytes FROM access_bounds WHERE only = 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let Some(kept) = kept else {
        return Ok(0);
    };
    let mut kept_bytes = kept.cast_unsigned();
    let mut dropped = 0;
    let mut last: Option<(i64, Vec<u8>)> = None;
    {
        let mut statement = connection.prepare_cached(
            "SELECT number, recorded_ms, length(entry), hash FROM access_log ORDER BY number LIMIT ?1",
        )?;
        let step = i64::try_from(retention.step).unwrap_or(i64::MAX);
        let mut found = statement.query([step])?;
        while let Some(row) = found.next()? {
            let is_old = row.get::<_, i64>(1)? < retention.recorded_from_ms;
            if !is_old && kept_bytes <= retention.kept_bytes_max {
                break;
            }
            let length: i64 = row.get(2)?;
            kept_bytes = kept_bytes.saturating_sub(length.cast_unsigned() + ENTRY_OVERHEAD_BYTES);
            last = Some((row.get(0)?, row.get(3)?));
            dropped += 1;
        }
    }
    let Some((number, hash)) = last else {
        return Ok(0);
    };
    connection
        .prepare_cached("DELETE FROM access_log WHERE number <= ?1")?
        .execute([number])?;
    connection
        .prepare_cached(
            "UPDATE access_bounds SET oldest = ?1 + 1, base_hash = ?2, kept_bytes = ?3 WHERE only = 1",
        )?
        .execute((number, hash, kept_bytes.cast_signed()))?;
    Ok(dropped)
}

/// Reads a page, looking at a bounded number of entries.
pub(super) fn read(connection: &Connection, query: &AccessQuery) -> Result<AccessPage, StoreError> {
    let bounds = read_bounds(connection)?;
    let mut statement = connection.prepare_cached(
        "SELECT number, time_ms, principal, method, entry, hash FROM access_log WHERE number > ?1 ORDER BY number LIMIT ?2",
    )?;
    let scan_limit = i64::try_from(query.scan_limit.max(1)).unwrap_or(i64::MAX);
    let mut found = statement.query((query.after.min(i64::MAX as u64).cast_signed(), scan_limit))?;
    let mut page = AccessPage {
        entries: Vec::new(),
        progress: query.after,
        bounds,
    };
    let (mut used_bytes, mut scanned) = (0, 0);
    while let Some(row) = found.next()? {
        let number = row.get::<_, i64>(0)?.cast_unsigned();
        let time_ms: i64 = row.get(1)?;
        let is_asked_for = query.from_ms.is_none_or(|from| time_ms >= from)
            && query.until_ms.is_none_or(|until| time_ms < until)
            && is_text(row, 2, query.principal.as_deref())?
            && is_text(row, 3, query.method.as_deref())?;
        if is_asked_for {
            let encoded = rows::bytes(row, 4)?;
            used_bytes += encoded.len();
            let is_full = page.entries.len() >= query.entry_limit.max(1) || used_bytes > query.limit_bytes;
            if is_full && !page.entries.is_empty() {
                return Ok(page);
            }
            page.entries.push(StoredAccess {
                number,
                encoded,
                hash: rows::hash(&rows::bytes(row, 5)?, Revision(number))?,
            });
        }
        page.progress = number;
        scanned += 1;
    }
    // The end of the log was reached.
    if scanned < scan_limit {
        page.progress = page.progress.max(bounds.newest);
    }
    Ok(page)
}

fn is_text(row: &rusqlite::Row<'_>, column: usize, wanted: Option<&str>) -> Result<bool, StoreError> {
    match wanted {
        None => Ok(true),
        Some(wanted) => Ok(row.get_ref(column)?.as_str().is_ok_and(|found| found == wanted)),
    }
}
