//! The traits of a store; what every implementation promises stands in the folder's door.

use super::error::StoreError;
use super::values::{
    Bounds, FeedHead, KeptAnswer, KeyedRecord, LogPage, LogQuery, NewEntry, Snapshot, StoredRecord, Target,
};
use crate::catalog::{TableId, TableName};
use crate::chain::ChainHash;
use crate::revision::Revision;
use crate::session::{SessionRecord, SessionState, Subscription};

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
    fn count_records(&self, table: TableId) -> Result<Snapshot<u64>, StoreError>;

    /// Returns up to `limit` records with higher keys than `after_key`, by rising key.
    fn read_records(
        &self,
        table: TableId,
        after_key: &str,
        limit: usize,
    ) -> Result<Vec<KeyedRecord>, StoreError>;

    /// Reads a page of the log; `Compacted` and `BeyondHead` if it cannot begin where it was asked to.
    fn read_log(&self, query: &LogQuery) -> Result<LogPage, StoreError>;

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
}

/// The writing half of a store.
pub(crate) trait Writer: Send + 'static {
    /// Returns what the next transaction goes on from.
    fn head(&mut self) -> Result<FeedHead, StoreError>;

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
    /// Whether a session of this id was there once and is gone.
    fn is_spent(&self, id: &str) -> Result<bool, StoreError>;
    /// Writes a session in the place of the one before; its subscriptions stay.
    fn write_session(&mut self, session: &SessionRecord) -> Result<(), StoreError>;
    /// Moves a session's last activity forward, if there is such a session.
    fn touch_session(&mut self, id: &str, active_ms: i64) -> Result<(), StoreError>;
    /// Removes a session with its subscriptions; the id is spent then.
    fn remove_session(&mut self, id: &str, removed_ms: i64) -> Result<(), StoreError>;
    fn find_subscription(&self, session: &str, uri: &str) -> Result<Option<Subscription>, StoreError>;
    fn count_subscriptions(&self, session: &str) -> Result<u64, StoreError>;
    /// Returns all subscriptions, sorted by URI.
    fn read_subscriptions(&self, session: &str) -> Result<Vec<Subscription>, StoreError>;
    fn write_subscription(&mut self, session: &str, subscription: &Subscription) -> Result<(), StoreError>;
    fn remove_subscription(&mut self, session: &str, uri: &str) -> Result<(), StoreError>;

    /// Fails where the disk has no room for a usual transaction; leaves no trace.
    fn probe(&mut self) -> Result<(), StoreError>;

    /// Makes everything durable and visible, with the new head; after an error it is unknown whether it became so.
    fn commit(self: Box<Self>, head: &FeedHead) -> Result<(), StoreError>;
}
