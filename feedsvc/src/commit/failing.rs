//! A store that fails when it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::catalog::{TableId, TableName};
use crate::revision::Revision;
use crate::session::{SessionCounts, SessionRecord, Subscription};
use crate::store::{
    AccessBounds, AccessRetention, AttributeIndex, FeedHead, IndexId, IndexWork, KeptAnswer, LogTrim,
    NewAccess, NewEntry, SealingKey, StoreError, StoredRecord, Transaction, Trimmed, Writer,
};

/// A writer whose commits fail while a switch is on, before or after they were made durable.
pub(crate) struct FailingWriter {
    pub(crate) inner: Box<dyn Writer>,
    pub(crate) failure: Arc<AtomicU8>,
}

pub(crate) const NO_FAILURE: u8 = 0;
pub(crate) const FAILS_BEFORE: u8 = 1;
pub(crate) const FAILS_AFTER: u8 = 2;

struct FailingTransaction<'a> {
    inner: Box<dyn Transaction + 'a>,
    failure: u8,
}

fn disk_full() -> StoreError {
    StoreError::Database(rusqlite::Error::InvalidQuery)
}

impl Writer for FailingWriter {
    fn head(&mut self) -> Result<FeedHead, StoreError> {
        self.inner.head()
    }

    fn oldest(&mut self) -> Result<Revision, StoreError> {
        self.inner.oldest()
    }

    fn begin(&mut self) -> Result<Box<dyn Transaction + '_>, StoreError> {
        let failure = self.failure.load(Ordering::SeqCst);
        Ok(Box::new(FailingTransaction {
            inner: self.inner.begin()?,
            failure,
        }))
    }
}

impl Transaction for FailingTransaction<'_> {
    fn find_record(&self, table: TableId, key: &str) -> Result<Option<StoredRecord>, StoreError> {
        self.inner.find_record(table, key)
    }
    fn write_record(
        &mut self,
        table: TableId,
        key: &str,
        record: &StoredRecord,
        existed: bool,
    ) -> Result<(), StoreError> {
        self.inner.write_record(table, key, record, existed)
    }
    fn remove_record(&mut self, table: TableId, key: &str) -> Result<(), StoreError> {
        self.inner.remove_record(table, key)
    }
    fn create_table(&mut self, name: &TableName) -> Result<TableId, StoreError> {
        self.inner.create_table(name)
    }
    fn append(&mut self, entry: &NewEntry<'_>) -> Result<(), StoreError> {
        self.inner.append(entry)
    }
    fn read_indexes(&self, table: TableId) -> Result<Vec<AttributeIndex>, StoreError> {
        self.inner.read_indexes(table)
    }
    fn create_index(&mut self, table: TableId, attribute: &str) -> Result<(), StoreError> {
        self.inner.create_index(table, attribute)
    }
    fn retire_index(&mut self, index: IndexId) -> Result<(), StoreError> {
        self.inner.retire_index(index)
    }
    fn work_on_indexes(&mut self, limit: usize) -> Result<IndexWork, StoreError> {
        self.inner.work_on_indexes(limit)
    }
    fn find_answer(&self, principal: &str, key: &str) -> Result<Option<KeptAnswer>, StoreError> {
        self.inner.find_answer(principal, key)
    }
    fn keep_answer(
        &mut self,
        principal: &str,
        key: &str,
        answer: &KeptAnswer,
        expired_ms: i64,
    ) -> Result<(), StoreError> {
        self.inner.keep_answer(principal, key, answer, expired_ms)
    }
    fn trim_log(&mut self, trim: &LogTrim) -> Result<Trimmed, StoreError> {
        self.inner.trim_log(trim)
    }
    fn drop_answers(&mut self, made_before_ms: i64, limit: usize) -> Result<usize, StoreError> {
        self.inner.drop_answers(made_before_ms, limit)
    }
    fn drop_spent_sessions(&mut self, removed_before_ms: i64, limit: usize) -> Result<usize, StoreError> {
        self.inner.drop_spent_sessions(removed_before_ms, limit)
    }
    fn find_session(&self, id: &str) -> Result<Option<SessionRecord>, StoreError> {
        self.inner.find_session(id)
    }
    fn count_sessions(&self, principal: &str) -> Result<SessionCounts, StoreError> {
        self.inner.count_sessions(principal)
    }
    fn is_spent(&self, id: &str) -> Result<bool, StoreError> {
        self.inner.is_spent(id)
    }
    fn write_session(&mut self, session: &SessionRecord) -> Result<(), StoreError> {
        self.inner.write_session(session)
    }
    fn touch_session(&mut self, id: &str, active_ms: i64) -> Result<(), StoreError> {
        self.inner.touch_session(id, active_ms)
    }
    fn remove_session(&mut self, id: &str, removed_ms: i64) -> Result<(), StoreError> {
        self.inner.remove_session(id, removed_ms)
    }
    fn find_subscription(&self, session: &str, uri: &str) -> Result<Option<Subscription>, StoreError> {
        self.inner.find_subscription(session, uri)
    }
    fn count_subscriptions(&self, session: &str) -> Result<u64, StoreError> {
        self.inner.count_subscriptions(session)
    }
    fn read_subscriptions(&self, session: &str) -> Result<Vec<Subscription>, StoreError> {
        self.inner.read_subscriptions(session)
    }
    fn write_subscription(&mut self, session: &str, subscription: &Subscription) -> Result<(), StoreError> {
        self.inner.write_subscription(session, subscription)
    }
    fn remove_subscription(&mut self, session: &str, uri: &str) -> Result<(), StoreError> {
        self.inner.remove_subscription(session, uri)
    }
    fn probe(&mut self) -> Result<(), StoreError> {
        self.inner.probe()
    }
    fn read_sealing_keys(&self) -> Result<Vec<SealingKey>, StoreError> {
        self.inner.read_sealing_keys()
    }
    fn write_sealing_key(&mut self, secret: &[u8], made_ms: i64) -> Result<i64, StoreError> {
        self.inner.write_sealing_key(secret, made_ms)
    }
    fn remove_sealing_key(&mut self, id: i64) -> Result<(), StoreError> {
        self.inner.remove_sealing_key(id)
    }
    fn access_bounds(&self) -> Result<AccessBounds, StoreError> {
        self.inner.access_bounds()
    }
    fn append_access(&mut self, entry: &NewAccess<'_>) -> Result<(), StoreError> {
        self.inner.append_access(entry)
    }
    fn trim_access(&mut self, retention: &AccessRetention) -> Result<u64, StoreError> {
        self.inner.trim_access(retention)
    }
    fn commit(self: Box<Self>, head: &FeedHead) -> Result<(), StoreError> {
        match self.failure {
            NO_FAILURE => self.inner.commit(head),
            FAILS_BEFORE => Err(disk_full()),
            _ => self.inner.commit(head).and(Err(disk_full())),
        }
    }
}
