//! The reading half: connections for short reads, each in one read transaction.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::open::connect_for_reading;
use super::rows::{self, SESSION_COLUMNS};
use crate::catalog::{TableId, TableName};
use crate::chain::ChainHash;
use crate::revision::Revision;
use crate::session::{SessionRecord, SessionState};
use crate::store::{
    Bounds, KeyedRecord, LogEntry, LogPage, LogQuery, Reader, Snapshot, StoreError, StoredRecord, Target,
};

/// Connections that are not in use; as many as reads ever ran at once.
pub(crate) struct SqliteReader {
    file: PathBuf,
    store_id: String,
    /// Held only to take a connection out or put it back.
    idle: Mutex<Vec<Connection>>,
}

impl SqliteReader {
    pub(super) fn open(file: PathBuf) -> Result<SqliteReader, rusqlite::Error> {
        let connection = connect_for_reading(&file)?;
        let store_id = connection.query_row("SELECT store_id FROM feed", [], |row| row.get(0))?;
        Ok(SqliteReader {
            file,
            store_id,
            idle: Mutex::new(vec![connection]),
        })
    }

    /// Runs a read in one read transaction, which ends with it.
    fn read<T>(
        &self,
        read: impl FnOnce(&Connection, Bounds) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => connect_for_reading(&self.file)?,
        };
        let outcome = {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
            // The first statement takes the snapshot that all others of the transaction see.
            let bounds = transaction
                .prepare_cached("SELECT head, oldest FROM feed")?
                .query_row([], |row| {
                    Ok(Bounds {
                        head: rows::revision(row, 0)?,
                        oldest: rows::revision(row, 1)?,
                    })
                })?;
            read(&transaction, bounds)
        };
        // A connection whose read failed by the database may be broken; it is closed instead.
        if !matches!(outcome, Err(StoreError::Database(_))) {
            self.idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
        }
        outcome
    }
}

impl Reader for SqliteReader {
    fn store_id(&self) -> &str {
        &self.store_id
    }

    fn bounds(&self) -> Result<Bounds, StoreError> {
        self.read(|_, bounds| Ok(bounds))
    }

    fn hash_at(&self, revision: Revision) -> Result<Snapshot<ChainHash>, StoreError> {
        self.read(|connection, bounds| {
            check_cursor(revision, bounds)?;
            let sql = if revision.next() == bounds.oldest {
                "SELECT base_hash FROM feed WHERE ?1 = oldest - 1"
            } else {
                "SELECT hash FROM log WHERE revision = ?1"
            };
            let mut statement = connection.prepare_cached(sql)?;
            let hash = statement
                .query_row([revision], |row| rows::bytes(row, 0))
                .optional()?;
            let hash = hash.ok_or(StoreError::Damaged {
                problem: "a missing entry",
                revision,
            })?;
            Ok(Snapshot {
                value: rows::hash(&hash, revision)?,
                revision: bounds.head,
            })
        })
    }

    fn table_ids(&self) -> Result<Vec<(TableName, TableId)>, StoreError> {
        self.read(|connection, _| {
            let mut statement = connection.prepare_cached("SELECT database, name, id FROM feed_table")?;
            let tables = statement.query_map([], |row| {
                let name = TableName::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?);
                Ok((name, TableId(row.get(2)?)))
            })?;
            Ok(tables.collect::<Result<_, _>>()?)
        })
    }

    fn find_record(&self, table: TableId, key: &str) -> Result<Snapshot<Option<StoredRecord>>, StoreError> {
        self.read(|connection, bounds| {
            let sql = format!("SELECT revision, value FROM record_{} WHERE key = ?1", table.0);
            let mut statement = connection.prepare_cached(&sql)?;
            Ok(Snapshot {
                value: statement
                    .query_row([key], |row| rows::record(row, 0))
                    .optional()?,
                revision: bounds.head,
            })
        })
        .map_err(|error| error.in_place(|| rows::place_of_record(table, key)))
    }

    fn count_records(&self, table: TableId) -> Result<Snapshot<u64>, StoreError> {
        self.read(|connection, bounds| {
            let mut statement =
                connection.prepare_cached("SELECT record_count FROM feed_table WHERE id = ?1")?;
            let count: Option<i64> = statement.query_row([table], |row| row.get(0)).optional()?;
            Ok(Snapshot {
                value: count.unwrap_or_default().cast_unsigned(),
                revision: bounds.head,
            })
        })
    }

    fn read_records(
        &self,
        table: TableId,
        after_key: &str,
        limit: usize,
    ) -> Result<Vec<KeyedRecord>, StoreError> {
        self.read(|connection, _| {
            let sql = format!(
                "SELECT key, revision, value FROM record_{} WHERE key > ?1 ORDER BY key LIMIT ?2",
                table.0
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let records = statement.query_map((after_key, sql_limit(limit)), |row| {
                Ok(KeyedRecord {
                    key: row.get(0)?,
                    record: rows::record(row, 1)?,
                })
            })?;
            Ok(records.collect::<Result<_, _>>()?)
        })
        .map_err(|error| error.in_place(|| format!("the SQL table record_{} after {after_key:?}", table.0)))
    }

    fn read_log(&self, query: &LogQuery) -> Result<LogPage, StoreError> {
        self.read(|connection, bounds| {
            check_cursor(query.after, bounds)?;
            let until = query.until.unwrap_or(bounds.head).min(bounds.head);
            match &query.targets {
                None => read_all(connection, query, until, bounds),
                Some(targets) => read_targets(connection, query, targets, until, bounds),
            }
        })
        .map_err(|error| error.in_place(|| format!("the log after revision {}", query.after)))
    }

    fn find_latest(
        &self,
        targets: &[Option<Target>],
        after: Revision,
        until: Option<Revision>,
    ) -> Result<Snapshot<Vec<Revision>>, StoreError> {
        self.read(|connection, bounds| {
            check_cursor(after, bounds)?;
            let until = until.unwrap_or(bounds.head).min(bounds.head);
            let latest = targets.iter().map(|target| match target {
                Some(target) => find_latest_of(connection, target, after, until),
                None => Ok(Revision::ZERO),
            });
            Ok(Snapshot {
                value: latest.collect::<Result<_, _>>()?,
                revision: until,
            })
        })
    }

    fn find_session(&self, id: &str) -> Result<Snapshot<Option<SessionState>>, StoreError> {
        self.read(|connection, bounds| {
            let sql = format!("SELECT {SESSION_COLUMNS} FROM session WHERE id = ?1");
            let session = connection
                .prepare_cached(&sql)?
                .query_row([id], rows::session)
                .optional()?;
            let value = match session {
                Some(record) => Some(SessionState {
                    record,
                    subscriptions: rows::read_subscriptions(connection, id)?,
                }),
                None => None,
            };
            Ok(Snapshot {
                value,
                revision: bounds.head,
            })
        })
    }

    fn read_idle_sessions(
        &self,
        after_id: &str,
        now_ms: i64,
        limit: usize,
    ) -> Result<Vec<SessionRecord>, StoreError> {
        self.read(|connection, _| {
            let sql = format!(
                "SELECT {SESSION_COLUMNS} FROM session
                 WHERE id > ?1 AND last_active_ms + idle_timeout_ms < ?2 ORDER BY id LIMIT ?3"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let sessions = statement.query_map((after_id, now_ms, sql_limit(limit)), rows::session)?;
            Ok(sessions.collect::<Result<_, _>>()?)
        })
    }
}

/// A cursor is good if everything after it is in the log.
fn check_cursor(after: Revision, bounds: Bounds) -> Result<(), StoreError> {
    if after > bounds.head {
        return Err(StoreError::BeyondHead { head: bounds.head });
    }
    if after.next() < bounds.oldest {
        return Err(StoreError::Compacted {
            oldest: bounds.oldest,
        });
    }
    Ok(())
}

fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Collects entries until the page is full.
struct Page {
    entries: Vec<LogEntry>,
    used_bytes: usize,
    entry_limit: usize,
    limit_bytes: usize,
}

impl Page {
    fn new(query: &LogQuery) -> Page {
        Page {
            entries: Vec::new(),
            used_bytes: 0,
            entry_limit: query.entry_limit.max(1),
            limit_bytes: query.limit_bytes,
        }
    }

    /// Takes the entry, or returns false if the page is full.
    fn push(&mut self, entry: LogEntry) -> bool {
        let values = entry.before.as_ref().map_or(0, |value| value.len())
            + entry.after.as_ref().map_or(0, |value| value.len());
        self.used_bytes += entry.encoded.len() + values;
        let is_full = self.entries.len() >= self.entry_limit || self.used_bytes > self.limit_bytes;
        if is_full && !self.entries.is_empty() {
            return false;
        }
        self.entries.push(entry);
        true
    }

    /// Ends the page; `is_complete` says that everything up to `until` was offered to it and taken.
    fn finish(self, is_complete: bool, until: Revision, after: Revision, bounds: Bounds) -> LogPage {
        let last = self.entries.last().map_or(after, |entry| entry.revision);
        LogPage {
            entries: self.entries,
            progress: if is_complete { until.max(after) } else { last },
            bounds,
        }
    }
}

const ENTRY_COLUMNS: &str = "revision, entry, hash";
const ENTRY_COLUMNS_WITH_VALUES: &str = "revision, entry, hash, before, after";

fn entry_columns(with_values: bool) -> &'static str {
    if with_values {
        ENTRY_COLUMNS_WITH_VALUES
    } else {
        ENTRY_COLUMNS
    }
}

fn log_entry(row: &rusqlite::Row<'_>, with_values: bool) -> Result<LogEntry, StoreError> {
    let revision = rows::revision(row, 0)?;
    let (before, after) = if with_values {
        (rows::optional_bytes(row, 3)?, rows::optional_bytes(row, 4)?)
    } else {
        (None, None)
    };
    Ok(LogEntry {
        revision,
        encoded: rows::bytes(row, 1)?,
        before,
        after,
        hash: rows::hash(&rows::bytes(row, 2)?, revision)?,
    })
}

fn read_all(
    connection: &Connection,
    query: &LogQuery,
    until: Revision,
    bounds: Bounds,
) -> Result<LogPage, StoreError> {
    let sql = format!(
        "SELECT {} FROM log WHERE revision > ?1 AND revision <= ?2 ORDER BY revision",
        entry_columns(query.with_values)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = statement.query((query.after, until))?;
    let mut page = Page::new(query);
    let mut expected = query.after.next();
    let mut is_complete = true;
    while let Some(row) = found.next()? {
        let entry = log_entry(row, query.with_values)?;
        if entry.revision != expected {
            return Err(StoreError::Damaged {
                problem: "a missing entry",
                revision: expected,
            });
        }
        expected = expected.next();
        if !page.push(entry) {
            is_complete = false;
            break;
        }
    }
    if is_complete && expected <= until {
        return Err(StoreError::Damaged {
            problem: "a missing entry",
            revision: expected,
        });
    }
    Ok(page.finish(is_complete, until, query.after, bounds))
}

/// Collects the lowest revisions of all targets by index, then reads these entries.
fn read_targets(
    connection: &Connection,
    query: &LogQuery,
    targets: &[Target],
    until: Revision,
    bounds: Bounds,
) -> Result<LogPage, StoreError> {
    let limit = query.entry_limit.max(1);
    let mut revisions = BTreeSet::new();
    let mut highest = until;
    for target in targets {
        let sql = match target.key {
            Some(_) => {
                "SELECT revision FROM log INDEXED BY log_by_record WHERE table_id = ?1 AND key = ?2 AND revision > ?3 AND revision <= ?4
                 ORDER BY revision LIMIT ?5"
            }
            None => {
                "SELECT revision FROM log INDEXED BY log_by_table WHERE table_id = ?1 AND ?2 IS NULL AND revision > ?3 AND revision <= ?4
                 ORDER BY revision LIMIT ?5"
            }
        };
        let mut statement = connection.prepare_cached(sql)?;
        let found = statement.query_map(
            (target.table, &target.key, query.after, highest, sql_limit(limit)),
            |row| rows::revision(row, 0),
        )?;
        for revision in found {
            revisions.insert(revision?);
        }
        while revisions.len() > limit {
            revisions.pop_last();
        }
        // What is above the page's present end cannot get into it any more.
        if let Some(last) = revisions.last().filter(|_| revisions.len() == limit) {
            highest = *last;
        }
    }
    let sql = format!(
        "SELECT {} FROM log WHERE revision = ?1",
        entry_columns(query.with_values)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut page = Page::new(query);
    let mut is_complete = revisions.len() < limit;
    for revision in revisions {
        let mut found = statement.query([revision])?;
        let Some(row) = found.next()? else {
            return Err(StoreError::Damaged {
                problem: "a missing entry",
                revision,
            });
        };
        if !page.push(log_entry(row, query.with_values)?) {
            is_complete = false;
            break;
        }
    }
    Ok(page.finish(is_complete, until, query.after, bounds))
}

fn find_latest_of(
    connection: &Connection,
    target: &Target,
    after: Revision,
    until: Revision,
) -> Result<Revision, StoreError> {
    let sql = match target.key {
        Some(_) => {
            "SELECT revision FROM log INDEXED BY log_by_record WHERE table_id = ?1 AND key = ?2 AND revision > ?3 AND revision <= ?4
             ORDER BY revision DESC LIMIT 1"
        }
        None => {
            "SELECT revision FROM log INDEXED BY log_by_table WHERE table_id = ?1 AND ?2 IS NULL AND revision > ?3 AND revision <= ?4
             ORDER BY revision DESC LIMIT 1"
        }
    };
    let mut statement = connection.prepare_cached(sql)?;
    let latest = statement
        .query_row((target.table, &target.key, after, until), |row| {
            rows::revision(row, 0)
        })
        .optional()?;
    Ok(latest.unwrap_or_default())
}
