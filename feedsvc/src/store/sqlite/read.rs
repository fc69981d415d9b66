//! The reading half: connections for short reads, each in one read transaction.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::access_log;
use super::open::connect_for_reading;
use super::rows::{self, SESSION_COLUMNS, sql_limit};
use super::view::SqliteView;
use super::{blocks, copy, log, status, verify};
use crate::catalog::{TableId, TableName};
use crate::chain::ChainHash;
use crate::revision::Revision;
use crate::session::{SessionRecord, SessionState};
use crate::store::{
    AccessBounds, AccessPage, AccessQuery, Ages, Bounds, Copied, CopyError, EncodedPage, KeyedRecord,
    LogPage, LogQuery, Reader, RecordView, SealingKey, Snapshot, StoreError, StoreStatus, StoredRecord,
    Target, Verification,
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
    pub(super) fn read<T>(
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
            log::check_cursor(revision, bounds)?;
            Ok(Snapshot {
                value: log::hash_at(connection, revision, bounds)?,
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

    fn view(
        &self,
        read: &mut dyn FnMut(&dyn RecordView) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.read(|connection, bounds| {
            read(&SqliteView {
                connection,
                head: bounds.head,
            })
        })
    }

    fn sealing_keys(&self) -> Result<Vec<SealingKey>, StoreError> {
        self.read(|connection, _| rows::sealing_keys(connection))
    }

    fn read_log(&self, query: &LogQuery) -> Result<LogPage, StoreError> {
        self.read(|connection, bounds| log::read_page(connection, query, bounds))
            .map_err(|error| error.in_place(|| format!("the log after revision {}", query.after)))
    }

    fn read_encoded(&self, after: Revision, limit_bytes: usize) -> Result<EncodedPage, StoreError> {
        self.read(|connection, bounds| blocks::read(connection, after, limit_bytes, bounds))
    }

    fn find_latest(
        &self,
        targets: &[Option<Target>],
        after: Revision,
        until: Option<Revision>,
    ) -> Result<Snapshot<Vec<Revision>>, StoreError> {
        self.read(|connection, bounds| log::find_latest(connection, targets, after, until, bounds))
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

    fn access_bounds(&self) -> Result<AccessBounds, StoreError> {
        self.read(|connection, _| access_log::read_bounds(connection))
    }

    fn read_access(&self, query: &AccessQuery) -> Result<AccessPage, StoreError> {
        self.read(|connection, _| access_log::read(connection, query))
    }

    fn ages(&self) -> Result<Ages, StoreError> {
        self.read(status::ages)
    }

    fn newest_before(&self, time_ms: i64) -> Result<Revision, StoreError> {
        self.read(|connection, bounds| log::newest_before(connection, time_ms, bounds))
    }

    fn status(&self) -> Result<StoreStatus, StoreError> {
        let store_bytes = status::file_bytes(&self.file);
        self.read(|connection, bounds| status::status(connection, bounds, store_bytes))
    }

    fn copy_to(&self, file: &Path, is_cancelled: &dyn Fn() -> bool) -> Result<Copied, CopyError> {
        copy::copy(&self.file, file, is_cancelled)
    }

    fn verify(&self, is_cancelled: &dyn Fn() -> bool) -> Result<Verification, StoreError> {
        verify::verify(self, is_cancelled)
    }
}
