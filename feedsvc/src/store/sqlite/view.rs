//! The records of one snapshot, for searches.

use std::ops::ControlFlow;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, ToSql};

use super::{indexes, rows};
use crate::catalog::TableId;
use crate::revision::Revision;
use crate::store::{
    AttributeIndex, ByteRange, Direction, IndexId, IndexWalk, RecordRow, RecordView, StoreError,
    StoredRecord, VisitRecord,
};

/// Above every key of an index, whose first bytes are types.
const ABOVE_SORT_KEYS: &[u8] = &[0xff];

/// What a read transaction sees.
pub(super) struct SqliteView<'a> {
    pub(super) connection: &'a Connection,
    pub(super) head: Revision,
}

/// A bound of keys. It may end within a character, which SQLite does not mind: it compares bytes.
struct KeyBound<'a>(Option<&'a [u8]>);

impl ToSql for KeyBound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Some(bytes) => ValueRef::Text(bytes),
            // Above every text.
            None => ValueRef::Blob(&[]),
        }))
    }
}

impl RecordView for SqliteView<'_> {
    fn head(&self) -> Revision {
        self.head
    }

    fn count_records(&self, table: TableId) -> Result<u64, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT record_count FROM feed_table WHERE id = ?1")?;
        let count: Option<i64> = statement.query_row([table], |row| row.get(0)).optional()?;
        Ok(count.unwrap_or_default().cast_unsigned())
    }

    fn find_record(&self, table: TableId, key: &str) -> Result<Option<StoredRecord>, StoreError> {
        let sql = format!("SELECT revision, value FROM record_{} WHERE key = ?1", table.0);
        let mut statement = self.connection.prepare_cached(&sql)?;
        Ok(statement
            .query_row([key], |row| rows::record(row, 0))
            .optional()?)
    }

    fn read_indexes(&self, table: TableId) -> Result<Vec<AttributeIndex>, StoreError> {
        indexes::read_indexes(self.connection, table)
    }

    fn count_in_keys(&self, table: TableId, range: &ByteRange, limit: u64) -> Result<u64, StoreError> {
        let sql = format!(
            "SELECT count(*) FROM (SELECT 1 FROM record_{} WHERE key >= ?1 AND key < ?2 LIMIT ?3)",
            table.0
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let bounds = (KeyBound(Some(&range.lower)), KeyBound(range.upper.as_deref()));
        let count: i64 = statement.query_row((bounds.0, bounds.1, sql_count(limit)), |row| row.get(0))?;
        Ok(count.cast_unsigned())
    }

    fn count_in_index(&self, index: IndexId, range: &ByteRange, limit: u64) -> Result<u64, StoreError> {
        let sql = format!(
            "SELECT count(*) FROM (SELECT 1 FROM index_{} WHERE sort_key >= ?1 AND sort_key < ?2 LIMIT ?3)",
            index.0
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let count: i64 = statement
            .query_row((&range.lower, upper_sort_key(range), sql_count(limit)), |row| {
                row.get(0)
            })?;
        Ok(count.cast_unsigned())
    }

    fn walk_records(
        &self,
        table: TableId,
        range: &ByteRange,
        direction: Direction,
        visit: &mut VisitRecord<'_>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let order = match direction {
            Direction::Rising => "ASC",
            Direction::Falling => "DESC",
        };
        let sql = format!(
            "SELECT x'', key, revision, value FROM record_{} WHERE key >= ?1 AND key < ?2 ORDER BY key {order}",
            table.0
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let bounds = (KeyBound(Some(&range.lower)), KeyBound(range.upper.as_deref()));
        visit_all(statement.query(bounds)?, visit)
    }

    fn walk_index(
        &self,
        walk: &IndexWalk<'_>,
        visit: &mut VisitRecord<'_>,
    ) -> Result<ControlFlow<()>, StoreError> {
        match walk.direction {
            Direction::Rising => self.walk_rising(walk, visit),
            Direction::Falling => self.walk_falling(walk, visit),
        }
    }
}

impl SqliteView<'_> {
    fn walk_rising(
        &self,
        walk: &IndexWalk<'_>,
        visit: &mut VisitRecord<'_>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let sql = format!(
            "SELECT entry.sort_key, record.key, record.revision, record.value
             FROM index_{} AS entry CROSS JOIN record_{} AS record ON record.key = entry.key
             WHERE (entry.sort_key, entry.key) >= (?1, ?2) AND entry.sort_key < ?3
             ORDER BY entry.sort_key, entry.key",
            walk.index.0, walk.table.0
        );
        let first_key = match walk.first {
            Some((sort_key, key)) if sort_key == walk.range.lower => key,
            Some(_) | None => &[],
        };
        let mut statement = self.connection.prepare_cached(&sql)?;
        let bounds = (
            &walk.range.lower,
            KeyBound(Some(first_key)),
            upper_sort_key(walk.range),
        );
        visit_all(statement.query(bounds)?, visit)
    }

    /// Goes from one value to the next lower one: within a value, keys rise.
    fn walk_falling(
        &self,
        walk: &IndexWalk<'_>,
        visit: &mut VisitRecord<'_>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let below = format!(
            "SELECT sort_key FROM index_{} WHERE sort_key >= ?1 AND sort_key < ?2 ORDER BY sort_key DESC LIMIT 1",
            walk.index.0
        );
        let within = format!(
            "SELECT entry.sort_key, record.key, record.revision, record.value
             FROM index_{} AS entry CROSS JOIN record_{} AS record ON record.key = entry.key
             WHERE entry.sort_key = ?1 AND entry.key >= ?2 ORDER BY entry.key",
            walk.index.0, walk.table.0
        );
        let mut upper = upper_sort_key(walk.range).to_vec();
        loop {
            let next: Option<Vec<u8>> = self
                .connection
                .prepare_cached(&below)?
                .query_row((&walk.range.lower, &upper), |row| row.get(0))
                .optional()?;
            let Some(sort_key) = next else {
                return Ok(ControlFlow::Continue(()));
            };
            let first_key = match walk.first {
                Some((first, key)) if first == sort_key => key,
                Some(_) | None => &[],
            };
            let mut statement = self.connection.prepare_cached(&within)?;
            let entries = statement.query((&sort_key, KeyBound(Some(first_key))))?;
            if visit_all(entries, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            upper = sort_key;
        }
    }
}

fn upper_sort_key(range: &ByteRange) -> &[u8] {
    range.upper.as_deref().unwrap_or(ABOVE_SORT_KEYS)
}

fn sql_count(limit: u64) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn visit_all(
    mut found: rusqlite::Rows<'_>,
    visit: &mut VisitRecord<'_>,
) -> Result<ControlFlow<()>, StoreError> {
    while let Some(row) = found.next()? {
        if visit(&record_row(row)?)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Reads the columns sort key, key, revision and value without a copy.
fn record_row<'a>(row: &'a Row<'_>) -> Result<RecordRow<'a>, StoreError> {
    let revision = rows::revision(row, 2)?;
    let text = |column: usize, problem: &'static str| match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => {
            Err(StoreError::Damaged { problem, revision })
        }
    };
    let key = std::str::from_utf8(text(1, "a record without a key")?).map_err(|_| StoreError::Damaged {
        problem: "a key that is no UTF-8",
        revision,
    })?;
    Ok(RecordRow {
        sort_key: text(0, "an index entry without a sort key")?,
        key,
        revision,
        value: text(3, "a record without a value")?,
    })
}
