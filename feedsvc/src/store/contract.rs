//! The traits of a store; what every implementation promises stands in the folder's door.

use std::path::Path;

use super::access::{AccessBounds, AccessPage, AccessQuery, AccessRetention, NewAccess};
use super::error::{CopyError, StoreError};
use super::values::{
    Ages, Bounds, Copied, EncodedPage, FeedHead, KeptAnswer, KeyedRecord, LogPage, LogQuery, LogTrim,
    NewEntry, SealingKey, Snapshot, StoreStatus, StoredRecord, Target, Trimmed, Verification,
};
use super::view::{AttributeIndex, IndexId, IndexWork, RecordView};
use crate::catalog::{TableId, TableName};
use crate::chain::ChainHash;
use crate::revision::Revision;
use crate::session::{SessionCounts, SessionRecord, SessionState, Subscription};

/// The reading half of a store; many threads may call it at once.
pub(crate) trait Reader: Send + Sync + 'static {
    /// Returns the random name that the store got when it was made.
    fn store_id(&self) -> &str;

    /// Returns where the feed stands.
    fn bounds(&self) -> Result<Bounds, StoreError>;

    /// Returns the log's hash at a revision; `Compacted` and `BeyondHead` if the log does not know it.
    fn hash_at(&self, revision: Revision) -> Result<Snapshot<ChainHash>, StoreError>;

    /// Returns the number of every table that the store ever had.
    fn table_ids(&self) -> Result<Vec<(TableName, TableId)>, StoreError>;

    /// Finds a record.
    fn find_record(&self, table: TableId, key: &str) -> Result<Snapshot<Option<StoredRecord>>, StoreError>;

    /// Counts a table's records.
    #[allow(
        dead_code,
        reason = "searches count on a view; the status of the service will tell it"
    )]
    fn count_records(&self, table: TableId) -> Result<Snapshot<u64>, StoreError>;

    /// Returns up to `limit` records with higher keys than `after_key`, by rising key.
    fn read_records(
        &self,
        table: TableId,
        after_key: &str,
        limit: usize,
    ) -> Result<Vec<KeyedRecord>, StoreError>;

    /// Shows the records as they are at one moment, for as long as `read` runs.
    fn view(&self, read: &mut dyn FnMut(&dyn RecordView) -> Result<(), StoreError>)
    -> Result<(), StoreError>;

    /// Returns the sealing keys, the newest first.
    fn sealing_keys(&self) -> Result<Vec<SealingKey>, StoreError>;

    /// Reads a page of the log; `Compacted` and `BeyondHead` if it cannot begin where it was asked to.
    fn read_log(&self, query: &LogQuery) -> Result<LogPage, StoreError>;

    /// Reads a page of everything as answers of watches carry it, as many entries as the store has together and fit into
    /// `limit_bytes`, at least one if there is one; `Compacted` and `BeyondHead` if it cannot begin where it was asked to.
    fn read_encoded(&self, after: Revision, limit_bytes: usize) -> Result<EncodedPage, StoreError>;

    /// Returns for each target its newest revision in `after < revision <= until`, 0 if there is none, with the
    /// revision up to which it looked.
    fn find_latest(
        &self,
        targets: &[Option<Target>],
        after: Revision,
        until: Option<Revision>,
    ) -> Result<Snapshot<Vec<Revision>>, StoreError>;

    /// Finds a session with its subscriptions, sorted by URI.
    fn find_session(&self, id: &str) -> Result<Snapshot<Option<SessionState>>, StoreError>;

    /// Returns up to `limit` sessions with higher ids than `after_id` that were not touched for longer than their own
    /// time-out at `now_ms`, by rising id.
    fn read_idle_sessions(
        &self,
        after_id: &str,
        now_ms: i64,
        limit: usize,
    ) -> Result<Vec<SessionRecord>, StoreError>;

    /// Returns how old the oldest things are that go after a time.
    fn ages(&self) -> Result<Ages, StoreError>;

    /// Returns the newest revision with a commit time before `time_ms`; the one before the oldest if there is none.
    fn newest_before(&self, time_ms: i64) -> Result<Revision, StoreError>;

    /// Returns how the store stands.
    fn status(&self) -> Result<StoreStatus, StoreError>;

    /// Copies the store as it is now into a new file, and answers when that is durable. `Cancelled` as soon as
    /// `is_cancelled` says so; after any error there is no file.
    fn copy_to(&self, file: &Path, is_cancelled: &dyn Fn() -> bool) -> Result<Copied, CopyError>;

    /// Checks everything that the store holds against the contract, page by page, each in a read transaction of its own; ends
    /// early when `is_cancelled` says so.
    fn verify(&self, is_cancelled: &dyn Fn() -> bool) -> Result<Verification, StoreError>;

    /// Returns where the access log stands.
    fn access_bounds(&self) -> Result<AccessBounds, StoreError>;

    /// Reads a page of the access log; what was trimmed is left out, as the page's bounds tell.
    fn read_access(&self, query: &AccessQuery) -> Result<AccessPage, StoreError>;
}

/// The writing half of a store.
pub(crate) trait Writer: Send + 'static {
    /// Returns what the next transaction goes on from.
    fn head(&mut self) -> Result<FeedHead, StoreError>;

    /// Returns the oldest revision that the log has.
    fn oldest(&mut self) -> Result<Revision, StoreError>;

    /// Begins a transaction; dropped without a commit, it leaves no trace.
    fn begin(&mut self) -> Result<Box<dyn Transaction + '_>, StoreError>;
}

/// What one transaction reads and writes; it sees its own writes.
///
/// After an error from a writing call the transaction can only be dropped.
pub(crate) trait Transaction {
    fn find_record(&self, table: TableId, key: &str) -> Result<Option<StoredRecord>, StoreError>;
    /// Writes a record in the place of the one before, if there is one.
    fn write_record(
        &mut self,
        table: TableId,
        key: &str,
        record: &StoredRecord,
        existed: bool,
    ) -> Result<(), StoreError>;
    /// Removes a record that is there.
    fn remove_record(&mut self, table: TableId, key: &str) -> Result<(), StoreError>;
    /// Makes room for a table that the store never had.
    fn create_table(&mut self, name: &TableName) -> Result<TableId, StoreError>;
    fn append(&mut self, entry: &NewEntry<'_>) -> Result<(), StoreError>;

    /// Returns a table's indexes, ready or being built.
    fn read_indexes(&self, table: TableId) -> Result<Vec<AttributeIndex>, StoreError>;
    /// Makes an index of an attribute, which has none. It is ready at once if the table has no records; else
    /// `work_on_indexes` builds it.
    fn create_index(&mut self, table: TableId, attribute: &str) -> Result<(), StoreError>;
    /// Takes an index out of use; `work_on_indexes` removes its entries.
    fn retire_index(&mut self, index: IndexId) -> Result<(), StoreError>;
    /// Builds or removes a part of one index, at most `limit` entries; returns whether there was one to work on.
    fn work_on_indexes(&mut self, limit: usize) -> Result<IndexWork, StoreError>;

    fn find_answer(&self, principal: &str, key: &str) -> Result<Option<KeptAnswer>, StoreError>;
    /// Keeps an answer in the place of an earlier one, and drops some that were made before `expired_ms`.
    fn keep_answer(
        &mut self,
        principal: &str,
        key: &str,
        answer: &KeptAnswer,
        expired_ms: i64,
    ) -> Result<(), StoreError>;

    fn find_session(&self, id: &str) -> Result<Option<SessionRecord>, StoreError>;
    /// Counts the sessions of a principal and of all, without looking at each.
    fn count_sessions(&self, principal: &str) -> Result<SessionCounts, StoreError>;
    /// Whether a session of this id was there once and is gone.
    fn is_spent(&self, id: &str) -> Result<bool, StoreError>;
    /// Writes a session in the place of the one before; its subscriptions stay.
    fn write_session(&mut self, session: &SessionRecord) -> Result<(), StoreError>;
    /// Moves a session's last activity forward, if there is such a session.
    fn touch_session(&mut self, id: &str, active_ms: i64) -> Result<(), StoreError>;
    /// Removes a session with its subscriptions; the id is spent then, and some ids that were removed more than 30 days before are
    /// forgotten.
    fn remove_session(&mut self, id: &str, removed_ms: i64) -> Result<(), StoreError>;
    fn find_subscription(&self, session: &str, uri: &str) -> Result<Option<Subscription>, StoreError>;
    fn count_subscriptions(&self, session: &str) -> Result<u64, StoreError>;
    /// Returns all subscriptions, sorted by URI.
    fn read_subscriptions(&self, session: &str) -> Result<Vec<Subscription>, StoreError>;
    fn write_subscription(&mut self, session: &str, subscription: &Subscription) -> Result<(), StoreError>;
    fn remove_subscription(&mut self, session: &str, uri: &str) -> Result<(), StoreError>;

    /// Drops the oldest entries of the log.
    fn trim_log(&mut self, trim: &LogTrim) -> Result<Trimmed, StoreError>;
    /// Drops up to `limit` answers that were made before a time; returns how many.
    fn drop_answers(&mut self, made_before_ms: i64, limit: usize) -> Result<usize, StoreError>;
    /// Drops up to `limit` ids of sessions that were removed before a time, which may live again then; returns how many.
    fn drop_spent_sessions(&mut self, removed_before_ms: i64, limit: usize) -> Result<usize, StoreError>;
    /// Writes something that means nothing, to find out whether a commit works; fails where the disk has no room for a usual one.
    fn probe(&mut self) -> Result<(), StoreError>;
    /// Returns the sealing keys, the newest first.
    fn read_sealing_keys(&self) -> Result<Vec<SealingKey>, StoreError>;
    /// Writes a new sealing key and returns its number, which is above that of every earlier one.
    fn write_sealing_key(&mut self, secret: &[u8], made_ms: i64) -> Result<i64, StoreError>;
    fn remove_sealing_key(&mut self, id: i64) -> Result<(), StoreError>;
    fn access_bounds(&self) -> Result<AccessBounds, StoreError>;
    /// Appends an entry, which must carry the number after the newest, and the hash that follows from its bytes.
    fn append_access(&mut self, entry: &NewAccess<'_>) -> Result<(), StoreError>;
    /// Drops the oldest entries that are not kept, at most a step of them; returns how many.
    fn trim_access(&mut self, retention: &AccessRetention) -> Result<u64, StoreError>;

    /// Makes everything durable and visible, with the new head; after an error it is unknown whether it became so.
    fn commit(self: Box<Self>, head: &FeedHead) -> Result<(), StoreError>;
}
