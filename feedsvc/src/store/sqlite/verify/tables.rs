//! The records: each is what the log says last of it, as far as the log reaches, and each table has as many as it says.

use rusqlite::{Connection, OptionalExtension};

use super::report::{PAGE_LIMIT_BYTES, PAGE_ROWS, Report};
use crate::catalog::json::Json;
use crate::catalog::{TableId, TableName};
use crate::revision::Revision;
use crate::store::sqlite::read::SqliteReader;
use crate::store::sqlite::rows;
use crate::store::sqlite::rows::sql_limit;
use crate::store::{Bounds, Place, Reader, StoreError};

/// Checks all tables that there ever were.
pub(super) fn check(reader: &SqliteReader, report: &mut Report<'_>) -> Result<(), StoreError> {
    for (name, id) in reader.table_ids()? {
        let outcome = check_table(reader, &Table { name, id }, report);
        report.take(outcome)?;
    }
    Ok(())
}

struct Table {
    name: TableName,
    id: TableId,
}

impl Table {
    fn place(&self, key: &str) -> Place {
        Place::Table {
            table: self.name.clone(),
            key: key.to_owned(),
        }
    }
}

fn check_table(reader: &SqliteReader, table: &Table, report: &mut Report<'_>) -> Result<(), StoreError> {
    reader.read(|connection, _| check_count(connection, table, report))?;
    for check_page in [check_records, check_last_words] {
        let mut after_key = Some(String::new());
        while let Some(key) = after_key {
            report.check_goes_on()?;
            after_key =
                reader.read(|connection, bounds| check_page(connection, bounds, table, &key, report))?;
        }
    }
    Ok(())
}

fn check_count(connection: &Connection, table: &Table, report: &mut Report<'_>) -> Result<(), StoreError> {
    let kept: i64 = connection.query_row(
        "SELECT record_count FROM feed_table WHERE id = ?1",
        [table.id],
        |row| row.get(0),
    )?;
    let sql = format!("SELECT count(*) FROM record_{}", table.id.0);
    let counted: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
    if kept != counted {
        let problem = format!("the table has {counted} records and says that it has {kept}");
        report.note(table.place(""), problem);
    }
    Ok(())
}

/// Checks a page of records against the log; returns where the next begins.
fn check_records(
    connection: &Connection,
    bounds: Bounds,
    table: &Table,
    after_key: &str,
    report: &mut Report<'_>,
) -> Result<Option<String>, StoreError> {
    let sql = format!(
        "SELECT key, revision, value FROM record_{} WHERE key > ?1 ORDER BY key LIMIT ?2",
        table.id.0
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut last_word = connection.prepare_cached(
        "SELECT revision, after FROM log INDEXED BY log_by_record WHERE table_id = ?1 AND key = ?2
         ORDER BY revision DESC LIMIT 1",
    )?;
    let mut found = statement.query((after_key, sql_limit(PAGE_ROWS)))?;
    let (mut row_count, mut used_bytes, mut last_key) = (0, 0, None);
    while let Some(row) = found.next()? {
        let key: String = row.get(0)?;
        let (revision, value) = (rows::revision(row, 1)?, rows::text(row, 2)?);
        let said = last_word
            .query_row((table.id, &key), |row| {
                Ok((rows::revision(row, 0)?, rows::optional_bytes(row, 1)?))
            })
            .optional()?;
        if let Some(problem) = find_contradiction(revision, value, said, bounds) {
            report.note(table.place(&key), problem);
        }
        report.verification.records += 1;
        row_count += 1;
        used_bytes += 2 * value.len();
        last_key = Some(key);
        if used_bytes > PAGE_LIMIT_BYTES {
            return Ok(last_key);
        }
    }
    Ok(last_key.filter(|_| row_count == PAGE_ROWS))
}

fn find_contradiction(
    revision: Revision,
    value: &[u8],
    said: Option<(Revision, Option<bytes::Bytes>)>,
    bounds: Bounds,
) -> Option<String> {
    match said {
        Some((said, _)) if said != revision => Some(format!(
            "the record has revision {revision}, the log's last word on it is {said}"
        )),
        Some((_, None)) => Some(format!("the log says at revision {revision} that it was deleted")),
        Some((_, Some(after))) if after.as_ref() != value => Some(format!(
            "the record is not what the log says at revision {revision}"
        )),
        Some(_) => None,
        None if revision >= bounds.oldest => {
            Some(format!("the log has no entry of it at revision {revision}"))
        }
        // Its last change has left the log: nothing says any more what it should be, but that it is a record.
        None if !matches!(Json::parse(value), Ok(Json::Object(_))) => {
            Some("the record is no JSON object".to_owned())
        }
        None => None,
    }
}

/// Checks a page of the keys that the log names: what it says last of a record that is not there must be that it was deleted.
fn check_last_words(
    connection: &Connection,
    _bounds: Bounds,
    table: &Table,
    after_key: &str,
    report: &mut Report<'_>,
) -> Result<Option<String>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT key, max(revision) FROM log INDEXED BY log_by_record WHERE table_id = ?1 AND key > ?2
         GROUP BY key ORDER BY key LIMIT ?3",
    )?;
    let record = format!("SELECT 1 FROM record_{} WHERE key = ?1", table.id.0);
    let mut record = connection.prepare_cached(&record)?;
    let mut deleted = connection.prepare_cached("SELECT after IS NULL FROM log WHERE revision = ?1")?;
    let mut found = statement.query((table.id, after_key, sql_limit(PAGE_ROWS)))?;
    let (mut row_count, mut last_key) = (0, None);
    while let Some(row) = found.next()? {
        let key: String = row.get(0)?;
        let revision = rows::revision(row, 1)?;
        if !record.exists([&key])? && !deleted.query_row([revision], |row| row.get::<_, bool>(0))? {
            let problem = format!("the record is missing; the log wrote it at revision {revision}");
            report.note(table.place(&key), problem);
        }
        row_count += 1;
        last_key = Some(key);
    }
    Ok(last_key.filter(|_| row_count == PAGE_ROWS))
}
