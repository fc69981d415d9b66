//! Indexes of attributes: one SQL table each, with an entry for every record, so that they serve conditions and orders.
//!
//! Invariant: whatever writes a record replaces its entries in the same transaction, also those of an index that is still
//! being built; what the builder adds then is there already.

use rusqlite::{Connection, OptionalExtension};

use super::rows;
use crate::catalog::TableId;
use crate::catalog::json::Json;
use crate::search::index_key;
use crate::store::{AttributeIndex, IndexId, IndexState, IndexWork, StoreError};

/// How much of records one step of building reads at most, so that no step holds up the commits behind it.
const STEP_LIMIT_BYTES: usize = 4 * 1024 * 1024;

const BUILDING: i64 = 0;
const READY: i64 = 1;
const RETIRED: i64 = 2;

/// Returns a table's indexes that are in use or being built, by rising number.
pub(super) fn read_indexes(
    connection: &Connection,
    table: TableId,
) -> Result<Vec<AttributeIndex>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, attribute, state FROM attribute_index WHERE table_id = ?1 AND state < 2 ORDER BY id",
    )?;
    let indexes = statement.query_map([table], |row| {
        let state: i64 = row.get(2)?;
        Ok(AttributeIndex {
            id: IndexId(row.get(0)?),
            attribute: row.get(1)?,
            state: if state == READY {
                IndexState::Ready
            } else {
                IndexState::Building
            },
        })
    })?;
    Ok(indexes.collect::<Result<_, _>>()?)
}

/// How far an index is that is in use or being built.
pub(super) struct IndexProgress {
    pub(super) state: IndexState,
    /// While it is being built: every record up to this key is in it.
    pub(super) built_key: String,
}

/// Returns how far an index is; `None`: it is out of use, or gone.
pub(super) fn read_progress(
    connection: &Connection,
    index: IndexId,
) -> Result<Option<IndexProgress>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT state, built_key FROM attribute_index WHERE id = ?1 AND state < 2")?;
    let progress = statement.query_row([index], |row| {
        let state: i64 = row.get(0)?;
        Ok(IndexProgress {
            state: if state == READY {
                IndexState::Ready
            } else {
                IndexState::Building
            },
            built_key: row.get(1)?,
        })
    });
    Ok(progress.optional()?)
}

/// Makes an index, which is ready at once if the table has no records.
pub(super) fn create(connection: &Connection, table: TableId, attribute: &str) -> Result<(), StoreError> {
    let sql = format!("SELECT 1 FROM record_{} LIMIT 1", table.0);
    let has_records = connection.prepare_cached(&sql)?.exists([])?;
    connection.execute(
        "INSERT INTO attribute_index (table_id, attribute, state, built_key) VALUES (?1, ?2, ?3, '')",
        (table, attribute, if has_records { BUILDING } else { READY }),
    )?;
    let id = connection.last_insert_rowid();
    connection.execute_batch(&format!(
        "CREATE TABLE index_{id} (sort_key BLOB NOT NULL, key TEXT NOT NULL, PRIMARY KEY (sort_key, key)) STRICT, WITHOUT ROWID"
    ))?;
    Ok(())
}

/// Takes an index out of use.
pub(super) fn retire(connection: &Connection, index: IndexId) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE attribute_index SET state = ?2 WHERE id = ?1")?
        .execute((index, RETIRED))?;
    Ok(())
}

/// Replaces the entries of a record.
pub(super) fn replace_entries(
    connection: &Connection,
    indexes: &[AttributeIndex],
    key: &str,
    before: Option<&[u8]>,
    after: Option<&[u8]>,
) -> Result<(), StoreError> {
    let (before, after) = (before.map(parse).transpose()?, after.map(parse).transpose()?);
    for index in indexes {
        let key_of = |record: &Json| index_key(record, &index.attribute);
        let (old, new) = (before.as_ref().map(key_of), after.as_ref().map(key_of));
        if old == new {
            continue;
        }
        if let Some(old) = old {
            let sql = format!(
                "DELETE FROM index_{} WHERE sort_key = ?1 AND key = ?2",
                index.id.0
            );
            connection.prepare_cached(&sql)?.execute((old, key))?;
        }
        if let Some(new) = new {
            insert(connection, index.id, &new, key)?;
        }
    }
    Ok(())
}

fn insert(connection: &Connection, index: IndexId, sort_key: &[u8], key: &str) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT OR IGNORE INTO index_{} (sort_key, key) VALUES (?1, ?2)",
        index.0
    );
    connection.prepare_cached(&sql)?.execute((sort_key, key))?;
    Ok(())
}

fn parse(value: &[u8]) -> Result<Json, StoreError> {
    Json::parse(value).map_err(|_| StoreError::Damaged {
        problem: "a record that does not parse",
        revision: crate::revision::Revision::ZERO,
    })
}

/// Goes on with the index that waits for longest.
pub(super) fn work(connection: &Connection, limit: usize) -> Result<IndexWork, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, table_id, attribute, state, built_key FROM attribute_index WHERE state <> 1 ORDER BY id LIMIT 1",
    )?;
    let mut found = statement.query([])?;
    let Some(row) = found.next()? else {
        return Ok(IndexWork::Done);
    };
    let (index, table) = (IndexId(row.get(0)?), TableId(row.get(1)?));
    let (attribute, state, built_key): (String, i64, String) = (row.get(2)?, row.get(3)?, row.get(4)?);
    drop(found);
    if state == RETIRED {
        remove_some(connection, index, limit)?;
    } else {
        build_some(connection, index, table, &attribute, &built_key, limit)?;
    }
    Ok(IndexWork::Left)
}

fn build_some(
    connection: &Connection,
    index: IndexId,
    table: TableId,
    attribute: &str,
    built_key: &str,
    limit: usize,
) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT key, value FROM record_{} WHERE key > ?1 ORDER BY key LIMIT ?2",
        table.0
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut records = statement.query((built_key, rows::sql_limit(limit)))?;
    let mut last_key = built_key.to_owned();
    let (mut count, mut used_bytes) = (0, 0);
    while used_bytes < STEP_LIMIT_BYTES {
        let Some(row) = records.next()? else { break };
        last_key = row.get(0)?;
        let value = rows::bytes(row, 1)?;
        insert(
            connection,
            index,
            &index_key(&parse(&value)?, attribute),
            &last_key,
        )?;
        count += 1;
        used_bytes += value.len();
    }
    let is_ready = count < limit && used_bytes < STEP_LIMIT_BYTES;
    connection
        .prepare_cached("UPDATE attribute_index SET state = ?2, built_key = ?3 WHERE id = ?1")?
        .execute((index, if is_ready { READY } else { BUILDING }, last_key))?;
    Ok(())
}

fn remove_some(connection: &Connection, index: IndexId, limit: usize) -> Result<(), StoreError> {
    let id = index.0;
    let removed = connection.execute(
        &format!(
            "DELETE FROM index_{id} WHERE (sort_key, key) IN (SELECT sort_key, key FROM index_{id} LIMIT ?1)"
        ),
        [rows::sql_limit(limit)],
    )?;
    if removed < limit {
        connection.execute_batch(&format!("DROP TABLE index_{id}"))?;
        connection.execute("DELETE FROM attribute_index WHERE id = ?1", [index])?;
    }
    Ok(())
}
