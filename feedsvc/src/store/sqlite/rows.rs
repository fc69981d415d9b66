//! What reading and writing share: rows as values, and numbers as SQLite has them.

use bytes::Bytes;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, ToSql};

use crate::catalog::TableId;
use crate::chain::ChainHash;
use crate::revision::Revision;
use crate::session::{SessionRecord, Subscription};
use crate::store::{IndexId, SealingKey, StoreError, StoredRecord};

/// The columns of a session, in the order that [`session`] reads.
pub(super) const SESSION_COLUMNS: &str = "id, principal, protocol_version, client_info, client_capabilities, \
     created_ms, last_active_ms, idle_timeout_ms, owner_instance, fence, owner_address, log_level";

impl ToSql for Revision {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.cast_signed().into())
    }
}

impl ToSql for TableId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}

impl ToSql for IndexId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}

/// Reads the sealing keys, the newest first.
pub(super) fn sealing_keys(connection: &Connection) -> Result<Vec<SealingKey>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT id, secret, made_ms FROM sealing_key ORDER BY id DESC")?;
    let keys = statement.query_map([], |row| {
        Ok(SealingKey {
            id: row.get(0)?,
            secret: row.get(1)?,
            made_ms: row.get(2)?,
        })
    })?;
    Ok(keys.collect::<Result<_, _>>()?)
}

/// JSON that is known to be UTF-8, stored as text without a copy.
pub(super) struct JsonText<'a>(pub(super) &'a [u8]);

impl ToSql for JsonText<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

/// Returns a limit as SQLite has it.
pub(super) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Reads a revision.
pub(super) fn revision(row: &Row<'_>, column: usize) -> rusqlite::Result<Revision> {
    Ok(Revision(row.get::<_, i64>(column)?.cast_unsigned()))
}

/// Reads text or a blob as bytes.
pub(super) fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Bytes> {
    Ok(optional_bytes(row, column)?.unwrap_or_default())
}

/// Reads text or a blob as bytes; `None` for NULL.
pub(super) fn optional_bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Bytes>> {
    match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(Some(Bytes::copy_from_slice(bytes))),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => Ok(None),
    }
}

/// Reads text or a blob as bytes, where they are; nothing for anything else.
pub(super) fn text<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a [u8]> {
    match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => Ok(&[]),
    }
}

/// Reads a hash; damaged if it is none.
pub(super) fn hash(bytes: &[u8], revision: Revision) -> Result<ChainHash, StoreError> {
    ChainHash::from_bytes(bytes).ok_or(StoreError::Damaged {
        problem: "a hash of wrong length",
        revision,
    })
}

/// Names a record in an error.
pub(super) fn place_of_record(table: TableId, key: &str) -> String {
    format!("the record {key:?} in the SQL table record_{}", table.0)
}

/// Reads a record from the columns revision and value, which begin at `column`.
pub(super) fn record(row: &Row<'_>, column: usize) -> rusqlite::Result<StoredRecord> {
    Ok(StoredRecord {
        revision: revision(row, column)?,
        value: bytes(row, column + 1)?,
    })
}

/// Reads a session from [`SESSION_COLUMNS`].
pub(super) fn session(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
    Ok(SessionRecord {
        id: row.get(0)?,
        principal: row.get(1)?,
        protocol_version: row.get(2)?,
        client_info: row.get(3)?,
        client_capabilities: row.get(4)?,
        created_ms: row.get(5)?,
        last_active_ms: row.get(6)?,
        idle_timeout_ms: row.get(7)?,
        owner_instance: row.get(8)?,
        fence: revision(row, 9)?,
        owner_address: row.get(10)?,
        log_level: row.get(11)?,
    })
}

/// Reads a subscription from the columns uri, spelling, revision.
pub(super) fn subscription(row: &Row<'_>) -> rusqlite::Result<Subscription> {
    Ok(Subscription {
        uri: row.get(0)?,
        spelling: row.get(1)?,
        revision: revision(row, 2)?,
    })
}

/// Reads all subscriptions of a session, sorted by URI.
pub(super) fn read_subscriptions(
    connection: &Connection,
    session: &str,
) -> Result<Vec<Subscription>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT uri, spelling, revision FROM subscription WHERE session_id = ?1 ORDER BY uri",
    )?;
    let subscriptions = statement.query_map([session], subscription)?;
    Ok(subscriptions.collect::<Result<_, _>>()?)
}
