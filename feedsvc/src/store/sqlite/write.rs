//! The writing half.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::access_log;
use super::blocks::OpenBlock;
use super::indexes;
use super::open::probe_room;
use super::rows::{self, JsonText, SESSION_COLUMNS};
use super::trim;
use crate::catalog::{TableId, TableName};
use crate::revision::Revision;
use crate::session::{SessionCounts, SessionRecord, Subscription};
use crate::store::{
    AccessBounds, AccessRetention, AttributeIndex, FeedHead, IndexId, IndexWork, KeptAnswer, LogTrim,
    NewAccess, NewEntry, SealingKey, StoreError, StoredRecord, Subject, Transaction, Trimmed, Writer,
};

/// How many expired request keys one transaction drops at most, so that none gets long.
const EXPIRED_KEYS_PER_TRANSACTION: usize = 100;

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

impl Drop for SqliteWriter {
    /// Leaves the database whole in its one file, as far as no reader is in the way: connections that only read cannot do
    /// it when they are closed. What fails here is made up for at the next start.
    fn drop(&mut self) {
        let _ = self
            .connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
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

    fn oldest(&mut self) -> Result<Revision, StoreError> {
        let mut statement = self.connection.prepare_cached("SELECT oldest FROM feed")?;
        Ok(statement.query_row([], |row| rows::revision(row, 0))?)
    }

    fn begin(&mut self) -> Result<Box<dyn Transaction + '_>, StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        Ok(Box::new(SqliteTransaction {
            transaction,
            directory: &self.directory,
            count_changes: BTreeMap::new(),
            indexes: RefCell::default(),
            log_bytes_change: 0,
            block: OpenBlock::default(),
        }))
    }
}

struct SqliteTransaction<'a> {
    transaction: rusqlite::Transaction<'a>,
    directory: &'a Path,
    /// How many records each table has gained or lost; written once, at the commit.
    count_changes: BTreeMap<TableId, i64>,
    /// By how much the log has grown or shrunk; written once, at the commit.
    log_bytes_change: i64,
    /// The entries that are in no block yet.
    block: OpenBlock,
    /// The indexes of the tables that the transaction has written to.
    indexes: RefCell<HashMap<TableId, Rc<[AttributeIndex]>>>,
}

impl SqliteTransaction<'_> {
    fn indexes_of(&self, table: TableId) -> Result<Rc<[AttributeIndex]>, StoreError> {
        if let Some(known) = self.indexes.borrow().get(&table) {
            return Ok(Rc::clone(known));
        }
        let read: Rc<[AttributeIndex]> = indexes::read_indexes(&self.transaction, table)?.into();
        self.indexes.borrow_mut().insert(table, Rc::clone(&read));
        Ok(read)
    }

    /// Brings the indexes of a table to what a record will be.
    fn update_indexes(
        &self,
        table: TableId,
        key: &str,
        existed: bool,
        after: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let indexes = self.indexes_of(table)?;
        if indexes.is_empty() {
            return Ok(());
        }
        let before = if existed {
            self.find_record(table, key)?
        } else {
            None
        };
        let before = before.as_ref().map(|record| record.value.as_ref());
        indexes::replace_entries(&self.transaction, &indexes, key, before, after)
    }
}

impl SqliteTransaction<'_> {
    fn add_to_session_counts(&mut self, principal: &str, change: i64) -> Result<(), StoreError> {
        self.transaction
            .prepare_cached("UPDATE session_total SET sessions = sessions + ?1")?
            .execute([change])?;
        self.transaction
            .prepare_cached(
                "INSERT INTO session_count (principal, sessions) VALUES (?1, ?2)
                 ON CONFLICT (principal) DO UPDATE SET sessions = sessions + ?2",
            )?
            .execute((principal, change))?;
        self.transaction
            .prepare_cached("DELETE FROM session_count WHERE principal = ?1 AND sessions = 0")?
            .execute([principal])?;
        Ok(())
    }
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
        self.update_indexes(table, key, existed, Some(&record.value))?;
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
        self.update_indexes(table, key, true, None)?;
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
        self.block.add(&self.transaction, entry.revision, entry.encoded)?;
        self.log_bytes_change += trim::entry_bytes(entry);
        Ok(())
    }

    fn read_indexes(&self, table: TableId) -> Result<Vec<AttributeIndex>, StoreError> {
        indexes::read_indexes(&self.transaction, table)
    }

    fn create_index(&mut self, table: TableId, attribute: &str) -> Result<(), StoreError> {
        self.indexes.borrow_mut().clear();
        indexes::create(&self.transaction, table, attribute)
    }

    fn retire_index(&mut self, index: IndexId) -> Result<(), StoreError> {
        self.indexes.borrow_mut().clear();
        indexes::retire(&self.transaction, index)
    }

    fn work_on_indexes(&mut self, limit: usize) -> Result<IndexWork, StoreError> {
        self.indexes.borrow_mut().clear();
        indexes::work(&self.transaction, limit)
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
        trim::drop_answers(&self.transaction, expired_ms, EXPIRED_KEYS_PER_TRANSACTION)?;
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

    fn count_sessions(&self, principal: &str) -> Result<SessionCounts, StoreError> {
        let of_principal: Option<i64> = self
            .transaction
            .prepare_cached("SELECT sessions FROM session_count WHERE principal = ?1")?
            .query_row([principal], |row| row.get(0))
            .optional()?;
        let in_all: i64 = self
            .transaction
            .prepare_cached("SELECT sessions FROM session_total")?
            .query_row([], |row| row.get(0))?;
        Ok(SessionCounts {
            of_principal: of_principal.unwrap_or_default().cast_unsigned(),
            in_all: in_all.cast_unsigned(),
        })
    }

    fn write_session(&mut self, session: &SessionRecord) -> Result<(), StoreError> {
        let exists = self
            .transaction
            .prepare_cached("SELECT 1 FROM session WHERE id = ?1")?
            .exists([&session.id])?;
        if !exists {
            self.add_to_session_counts(&session.principal, 1)?;
        }
        let sql = format!(
            "INSERT OR REPLACE INTO session ({SESSION_COLUMNS})
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
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
            &session.owner_address,
            &session.log_level,
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
        let principal: Option<String> = self
            .transaction
            .prepare_cached("DELETE FROM session WHERE id = ?1 RETURNING principal")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        if let Some(principal) = principal {
            self.add_to_session_counts(&principal, -1)?;
        }
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

    fn trim_log(&mut self, log_trim: &LogTrim) -> Result<Trimmed, StoreError> {
        trim::trim_log(&self.transaction, log_trim, &mut self.log_bytes_change)
    }

    fn drop_answers(&mut self, made_before_ms: i64, limit: usize) -> Result<usize, StoreError> {
        trim::drop_answers(&self.transaction, made_before_ms, limit)
    }

    fn drop_spent_sessions(&mut self, removed_before_ms: i64, limit: usize) -> Result<usize, StoreError> {
        trim::drop_spent_sessions(&self.transaction, removed_before_ms, limit)
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        // The room first: the write-ahead log reuses its file, so a small commit may work on a disk that is full.
        probe_room(self.directory).map_err(StoreError::Disk)?;
        trim::probe(&self.transaction)
    }

    fn read_sealing_keys(&self) -> Result<Vec<SealingKey>, StoreError> {
        rows::sealing_keys(&self.transaction)
    }

    fn write_sealing_key(&mut self, secret: &[u8], made_ms: i64) -> Result<i64, StoreError> {
        self.transaction
            .prepare_cached("INSERT INTO sealing_key (secret, made_ms) VALUES (?1, ?2)")?
            .execute((secret, made_ms))?;
        Ok(self.transaction.last_insert_rowid())
    }

    fn remove_sealing_key(&mut self, id: i64) -> Result<(), StoreError> {
        self.transaction
            .prepare_cached("DELETE FROM sealing_key WHERE id = ?1")?
            .execute([id])?;
        Ok(())
    }

    fn access_bounds(&self) -> Result<AccessBounds, StoreError> {
        access_log::read_bounds(&self.transaction)
    }

    fn append_access(&mut self, entry: &NewAccess<'_>) -> Result<(), StoreError> {
        access_log::append(&self.transaction, entry)
    }

    fn trim_access(&mut self, retention: &AccessRetention) -> Result<u64, StoreError> {
        access_log::trim(&self.transaction, retention)
    }

    fn commit(mut self: Box<Self>, head: &FeedHead) -> Result<(), StoreError> {
        self.block.write(&self.transaction)?;
        for (table, change) in &self.count_changes {
            self.transaction
                .prepare_cached("UPDATE feed_table SET record_count = record_count + ?2 WHERE id = ?1")?
                .execute((table, change))?;
        }
        self.transaction
            .prepare_cached(
                "UPDATE feed SET head = ?1, head_hash = ?2, commit_time_ms = ?3, log_bytes = log_bytes + ?4",
            )?
            .execute((
                head.revision,
                head.hash.as_bytes(),
                head.commit_time_ms,
                self.log_bytes_change,
            ))?;
        self.transaction.commit()?;
        Ok(())
    }
}
