//! The writing half.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::open::probe_room;
use super::rows::{self, JsonText, SESSION_COLUMNS};
use crate::catalog::{TableId, TableName};
use crate::session::{SessionRecord, Subscription};
use crate::store::{FeedHead, KeptAnswer, NewEntry, StoreError, StoredRecord, Subject, Transaction, Writer};

/// How many expired request keys one transaction drops at most, so that none gets long.
const EXPIRED_KEYS_PER_TRANSACTION: i64 = 100;

/// The one connection that writes.
pub(crate) struct SqliteWriter {
    connection: Connection,
    directory: PathBuf,
    /// Keeps other processes out of the data directory for as long as this one can write.
    _lock: File,
}

impl SqliteWriter {
    pub(super) fn new(connection: Connection, directory: PathBuf, lock: File) -> SqliteWriter {
        SqliteWriter {
            connection,
            directory,
            _lock: lock,
        }
    }
}

#[cfg(test)]
impl SqliteWriter {
    /// Returns a setting of the connection that writes.
    pub(super) fn pragma(&self, name: &str) -> rusqlite::types::Value {
        self.connection
            .pragma_query_value(None, name, |row| row.get(0))
            .unwrap()
    }
}

impl Writer for SqliteWriter {
    fn head(&mut self) -> Result<FeedHead, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT head, head_hash, commit_time_ms FROM feed")?;
        let (revision, hash, commit_time_ms) = statement.query_row([], |row| {
            Ok((rows::revision(row, 0)?, rows::bytes(row, 1)?, row.get(2)?))
        })?;
        Ok(FeedHead {
            revision,
            hash: rows::hash(&hash, revision)?,
            commit_time_ms,
        })
    }

    fn begin(&mut self) -> Result<Box<dyn Transaction + '_>, StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        Ok(Box::new(SqliteTransaction {
            transaction,
            directory: &self.directory,
            count_changes: BTreeMap::new(),
        }))
    }
}

struct SqliteTransaction<'a> {
    transaction: rusqlite::Transaction<'a>,
    directory: &'a Path,
    /// How many records each table has gained or lost; written once, at the commit.
    count_changes: BTreeMap<TableId, i64>,
}

impl Transaction for SqliteTransaction<'_> {
    fn find_record(&self, table: TableId, key: &str) -> Result<Option<StoredRecord>, StoreError> {
        let sql = format!("SELECT revision, value FROM record_{} WHERE key = ?1", table.0);
        let mut statement = self.transaction.prepare_cached(&sql)?;
        let found = statement.query_row([key], |row| rows::record(row, 0)).optional();
        found.map_err(|error| StoreError::from(error).in_place(|| rows::place_of_record(table, key)))
    }

    fn write_record(
        &mut self,
        table: TableId,
        key: &str,
        record: &StoredRecord,
        existed: bool,
    ) -> Result<(), StoreError> {
        let sql = if existed {
            format!(
                "UPDATE record_{} SET revision = ?2, value = ?3 WHERE key = ?1",
                table.0
            )
        } else {
            *self.count_changes.entry(table).or_default() += 1;
            format!(
                "INSERT INTO record_{} (key, revision, value) VALUES (?1, ?2, ?3)",
                table.0
            )
        };
        let mut statement = self.transaction.prepare_cached(&sql)?;
        statement.execute((key, record.revision, JsonText(&record.value)))?;
        Ok(())
    }

    fn remove_record(&mut self, table: TableId, key: &str) -> Result<(), StoreError> {
        let sql = format!("DELETE FROM record_{} WHERE key = ?1", table.0);
        self.transaction.prepare_cached(&sql)?.execute([key])?;
        *self.count_changes.entry(table).or_default() -= 1;
        Ok(())
    }

    fn create_table(&mut self, name: &TableName) -> Result<TableId, StoreError> {
        self.transaction.execute(
            "INSERT INTO feed_table (database, name, record_count) VALUES (?1, ?2, 0)",
            (&name.database, &name.table),
        )?;
        let id = TableId(self.transaction.last_insert_rowid());
        self.transaction.execute_batch(&format!(
            "CREATE TABLE record_{} (key TEXT PRIMARY KEY NOT NULL, revision INTEGER NOT NULL, value TEXT NOT NULL) STRICT",
            id.0
        ))?;
        Ok(id)
    }

    fn append(&mut self, entry: &NewEntry<'_>) -> Result<(), StoreError> {
        let (table, key) = match entry.subject {
            Subject::Record { table, key } => (Some(table), key),
            Subject::Session { id } => (None, id),
        };
        let mut statement = self.transaction.prepare_cached(
            "INSERT INTO log (revision, commit_time_ms, principal, table_id, key, entry, before, after, hash)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        statement.execute((
            entry.revision,
            entry.commit_time_ms,
            entry.principal,
            table,
            key,
            entry.encoded,
            entry.before,
            entry.after,
            entry.hash.as_bytes(),
        ))?;
        Ok(())
    }

    fn find_answer(&self, principal: &str, key: &str) -> Result<Option<KeptAnswer>, StoreError> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT request_hash, made_ms, answer FROM request_key WHERE principal = ?1 AND key = ?2",
        )?;
        let kept = statement.query_row((principal, key), |row| {
            Ok(KeptAnswer {
                request_hash: row.get(0)?,
                made_ms: row.get(1)?,
                answer: row.get(2)?,
            })
        });
        Ok(kept.optional()?)
    }

    fn keep_answer(
        &mut self,
        principal: &str,
        key: &str,
        answer: &KeptAnswer,
        expired_ms: i64,
    ) -> Result<(), StoreError> {
        self.transaction
            .prepare_cached(
                "DELETE FROM request_key WHERE (principal, key) IN
                 (SELECT principal, key FROM request_key WHERE made_ms < ?1 ORDER BY made_ms LIMIT ?2)",
            )?
            .execute((expired_ms, EXPIRED_KEYS_PER_TRANSACTION))?;
        self.transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO request_key (principal, key, request_hash, made_ms, answer)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((
                principal,
                key,
                answer.request_hash,
                answer.made_ms,
                &answer.answer,
            ))?;
        Ok(())
    }

    fn find_session(&self, id: &str) -> Result<Option<SessionRecord>, StoreError> {
        let sql = format!("SELECT {SESSION_COLUMNS} FROM session WHERE id = ?1");
        let mut statement = self.transaction.prepare_cached(&sql)?;
        Ok(statement.query_row([id], rows::session).optional()?)
    }

    fn is_spent(&self, id: &str) -> Result<bool, StoreError> {
        let mut statement = self
            .transaction
            .prepare_cached("SELECT 1 FROM spent_session WHERE id = ?1")?;
        Ok(statement.exists([id])?)
    }

    fn write_session(&mut self, session: &SessionRecord) -> Result<(), StoreError> {
        let sql = format!(
            "INSERT OR REPLACE INTO session ({SESSION_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
        );
        self.transaction.prepare_cached(&sql)?.execute((
            &session.id,
            &session.principal,
            &session.protocol_version,
            &session.client_info,
            &session.client_capabilities,
            session.created_ms,
            session.last_active_ms,
            session.idle_timeout_ms,
            &session.owner_instance,
            session.fence,
        ))?;
        Ok(())
    }

    fn touch_session(&mut self, id: &str, active_ms: i64) -> Result<(), StoreError> {
        self.transaction
            .prepare_cached("UPDATE session SET last_active_ms = ?2 WHERE id = ?1 AND last_active_ms < ?2")?
            .execute((id, active_ms))?;
        Ok(())
    }

    fn remove_session(&mut self, id: &str, removed_ms: i64) -> Result<(), StoreError> {
        self.transaction
            .prepare_cached("DELETE FROM subscription WHERE session_id = ?1")?
            .execute([id])?;
        self.transaction
            .prepare_cached("DELETE FROM session WHERE id = ?1")?
            .execute([id])?;
        self.transaction
            .prepare_cached("INSERT OR REPLACE INTO spent_session (id, removed_ms) VALUES (?1, ?2)")?
            .execute((id, removed_ms))?;
        Ok(())
    }

    fn find_subscription(&self, session: &str, uri: &str) -> Result<Option<Subscription>, StoreError> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT uri, spelling, revision FROM subscription WHERE session_id = ?1 AND uri = ?2",
        )?;
        Ok(statement
            .query_row((session, uri), rows::subscription)
            .optional()?)
    }

    fn count_subscriptions(&self, session: &str) -> Result<u64, StoreError> {
        let mut statement = self
            .transaction
            .prepare_cached("SELECT count(*) FROM subscription WHERE session_id = ?1")?;
        let count: i64 = statement.query_row([session], |row| row.get(0))?;
        Ok(count.cast_unsigned())
    }

    fn read_subscriptions(&self, session: &str) -> Result<Vec<Subscription>, StoreError> {
        rows::read_subscriptions(&self.transaction, session)
    }

    fn write_subscription(&mut self, session: &str, subscription: &Subscription) -> Result<(), StoreError> {
        self.transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO subscription (session_id, uri, spelling, revision) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute((session, &subscription.uri, &subscription.spelling, subscription.revision))?;
        Ok(())
    }

    fn remove_subscription(&mut self, session: &str, uri: &str) -> Result<(), StoreError> {
        self.transaction
            .prepare_cached("DELETE FROM subscription WHERE session_id = ?1 AND uri = ?2")?
            .execute((session, uri))?;
        Ok(())
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        probe_room(self.directory).map_err(StoreError::Disk)
    }

    fn commit(self: Box<Self>, head: &FeedHead) -> Result<(), StoreError> {
        for (table, change) in &self.count_changes {
            self.transaction
                .prepare_cached("UPDATE feed_table SET record_count = record_count + ?2 WHERE id = ?1")?
                .execute((table, change))?;
        }
        self.transaction
            .prepare_cached("UPDATE feed SET head = ?1, head_hash = ?2, commit_time_ms = ?3")?
            .execute((head.revision, head.hash.as_bytes(), head.commit_time_ms))?;
        self.transaction.commit()?;
        Ok(())
    }
}
