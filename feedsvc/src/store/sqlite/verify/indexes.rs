//! The indexes of attributes: an entry for each record, and none that is no record's.

use rusqlite::{Connection, OptionalExtension};

use super::report::{PAGE_LIMIT_BYTES, PAGE_ROWS, Report};
use crate::catalog::json::Json;
use crate::catalog::{TableId, TableName};
use crate::search::index_key;
use crate::store::sqlite::indexes::{IndexProgress, read_indexes, read_progress};
use crate::store::sqlite::read::SqliteReader;
use crate::store::sqlite::rows;
use crate::store::sqlite::rows::sql_limit;
use crate::store::{AttributeIndex, IndexId, IndexState, Place, Reader, StoreError};

/// Checks all indexes that searches use, and what is built of those that are being built.
pub(super) fn check(reader: &SqliteReader, report: &mut Report<'_>) -> Result<(), StoreError> {
    for (name, table) in reader.table_ids()? {
        let indexes = reader.read(|connection, _| read_indexes(connection, table))?;
        for AttributeIndex { id, attribute, .. } in indexes {
            let index = Index {
                name: name.clone(),
                table,
                id,
                attribute,
            };
            let outcome = index.check(reader, report);
            report.take(outcome)?;
        }
    }
    Ok(())
}

struct Index {
    name: TableName,
    table: TableId,
    id: IndexId,
    attribute: String,
}

impl Index {
    fn check(&self, reader: &SqliteReader, report: &mut Report<'_>) -> Result<(), StoreError> {
        let mut after_key = Some(String::new());
        while let Some(key) = after_key {
            report.check_goes_on()?;
            after_key = reader.read(|connection, _| self.check_records(connection, &key, report))?;
        }
        let mut after = Some((Vec::new(), String::new()));
        while let Some(place) = after {
            report.check_goes_on()?;
            after = reader.read(|connection, _| self.check_entries(connection, &place, report))?;
        }
        Ok(())
    }

    fn note(&self, report: &mut Report<'_>, key: &str, problem: &str) {
        let place = Place::Table {
            table: self.name.clone(),
            key: key.to_owned(),
        };
        report.note(place, format!("the index on `{}` {problem}", self.attribute));
    }

    /// Checks that a page of records have their entries; returns where the next begins.
    fn check_records(
        &self,
        connection: &Connection,
        after_key: &str,
        report: &mut Report<'_>,
    ) -> Result<Option<String>, StoreError> {
        // In this transaction: an index may be taken out of use while it is checked.
        let Some(progress) = read_progress(connection, self.id)? else {
            return Ok(None);
        };
        let mut statement = connection.prepare_cached(&format!(
            "SELECT key, value FROM record_{} WHERE key > ?1 ORDER BY key LIMIT ?2",
            self.table.0
        ))?;
        let mut entry = connection.prepare_cached(&format!(
            "SELECT 1 FROM index_{} WHERE sort_key = ?1 AND key = ?2",
            self.id.0
        ))?;
        let mut found = statement.query((after_key, sql_limit(PAGE_ROWS)))?;
        let (mut row_count, mut used_bytes, mut last_key) = (0, 0, None);
        while let Some(row) = found.next()? {
            let key: String = row.get(0)?;
            if !progress.has(&key) {
                return Ok(None);
            }
            let value = rows::text(row, 1)?;
            // What does not parse is a finding of the tables.
            if let Ok(record) = Json::parse(value)
                && !entry.exists((index_key(&record, &self.attribute), &key))?
            {
                self.note(report, &key, "has no entry of the record");
            }
            row_count += 1;
            used_bytes += value.len();
            last_key = Some(key);
            if used_bytes > PAGE_LIMIT_BYTES {
                return Ok(last_key);
            }
        }
        Ok(last_key.filter(|_| row_count == PAGE_ROWS))
    }

    /// Checks that a page of entries are those of records; returns where the next begins.
    fn check_entries(
        &self,
        connection: &Connection,
        after: &(Vec<u8>, String),
        report: &mut Report<'_>,
    ) -> Result<Option<(Vec<u8>, String)>, StoreError> {
        if read_progress(connection, self.id)?.is_none() {
            return Ok(None);
        }
        let mut statement = connection.prepare_cached(&format!(
            "SELECT sort_key, key FROM index_{} WHERE (sort_key, key) > (?1, ?2) ORDER BY sort_key, key LIMIT ?3",
            self.id.0
        ))?;
        let mut record = connection.prepare_cached(&format!(
            "SELECT value FROM record_{} WHERE key = ?1",
            self.table.0
        ))?;
        let mut found = statement.query((&after.0, &after.1, sql_limit(PAGE_ROWS)))?;
        let (mut row_count, mut used_bytes, mut last) = (0, 0, None);
        while let Some(row) = found.next()? {
            let (sort_key, key): (Vec<u8>, String) = (row.get(0)?, row.get(1)?);
            let value = record.query_row([&key], |row| rows::bytes(row, 0)).optional()?;
            match value.as_deref().map(Json::parse) {
                None => self.note(report, &key, "has an entry, and there is no such record"),
                Some(Ok(record)) if index_key(&record, &self.attribute) != sort_key => {
                    self.note(report, &key, "has an entry of another value than the record's");
                }
                Some(_) => {}
            }
            row_count += 1;
            used_bytes += value.map_or(0, |value| value.len());
            last = Some((sort_key, key));
            if used_bytes > PAGE_LIMIT_BYTES {
                return Ok(last);
            }
        }
        Ok(last.filter(|_| row_count == PAGE_ROWS))
    }
}

impl IndexProgress {
    /// Whether the index must have an entry of a record.
    fn has(&self, key: &str) -> bool {
        match self.state {
            IndexState::Ready => true,
            IndexState::Building => key <= self.built_key.as_str(),
        }
    }
}
