//! What keeps the feed: records, log, sessions and request keys.
//!
//! The contract, for every implementation (the tests in `suite` hold it to it):
//!
//! - *dense*: the log has every revision from the oldest to the head, each once;
//! - *visible in order*: a reader that sees revision r sees everything before r;
//! - *atomic*: a record and its log entry are written together or not at all, and so is all of a transaction;
//! - *durable*: when `commit` has returned, the transaction survives the loss of power;
//! - *no silent skip*: a read of the log answers with what was asked for, or with an error;
//! - *once*: an answer that was kept under a request key is found again for as long as it is kept;
//! - *current*: a read reflects at least the last transaction that was committed when it began; what it returns and the
//!   revision that it returns it with belong to the same moment;
//! - *short*: no read transaction outlives the call that began it.
//!
//! There is one writer, on a thread of its own; readers are many. All calls block and belong off the async runtime.

pub(crate) mod reads;
pub(crate) mod sqlite;
#[cfg(test)]
mod suite;

use std::path::PathBuf;

use bytes::Bytes;

use crate::catalog::{TableId, TableName};
use crate::chain::ChainHash;
use crate::revision::Revision;
use crate::session::{SessionRecord, SessionState, Subscription};

/// Why a store could not do what it was asked to; nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The log no longer has what was asked for.
    #[error("the log begins at revision {oldest}")]
    Compacted { oldest: Revision },
    /// The position asked for is above the head.
    #[error("the log ends at revision {head}")]
    BeyondHead { head: Revision },
    /// What is stored contradicts the contract.
    #[error("the store is damaged: {problem} at revision {revision}")]
    Damaged {
        problem: &'static str,
        revision: Revision,
    },
    /// The database itself failed.
    #[error("the database failed: {0}")]
    Database(#[from] rusqlite::Error),
    /// The task that read was lost, at the end of the process.
    #[error("the read was interrupted")]
    Interrupted,
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// The data directory cannot be made or written.
    #[error("cannot use data directory `{}`: {source}; check the path and its permissions", directory.display())]
    Directory {
        /// The data directory.
        directory: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Another process has the data directory open.
    #[error("cannot use data directory `{}`: another process has it open; end that one or name another directory", directory.display())]
    Locked {
        /// The data directory.
        directory: PathBuf,
    },
    /// A newer version wrote the store.
    #[error("cannot open store `{}`: it has version {found}, this program knows up to {supported}; use a newer program", file.display())]
    Newer {
        /// The database file.
        file: PathBuf,
        /// The version of the store.
        found: i64,
        /// The newest version that this program knows.
        supported: i64,
    },
    /// The database cannot be opened.
    #[error("cannot open store `{}`: {problem}; restore it from a backup or name another directory", file.display())]
    Database {
        /// The database file.
        file: PathBuf,
        /// What the database said.
        problem: String,
    },
}

/// Where the feed stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The newest revision; 0 in an empty feed.
    pub(crate) head: Revision,
    /// The oldest revision that the log has; head + 1 when it has none.
    pub(crate) oldest: Revision,
}

/// What the writer goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeedHead {
    pub(crate) revision: Revision,
    /// The log's hash at `revision`.
    pub(crate) hash: ChainHash,
    /// Invariant: never falls.
    pub(crate) commit_time_ms: i64,
}

/// A value together with the revision whose state it is.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot<T> {
    pub(crate) value: T,
    pub(crate) revision: Revision,
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredRecord {
    /// The revision of its last change.
    pub(crate) revision: Revision,
    /// Compact JSON.
    pub(crate) value: Bytes,
}

/// A record of some table with its key.
#[derive(Clone, Debug)]
pub(crate) struct KeyedRecord {
    pub(crate) key: String,
    pub(crate) record: StoredRecord,
}

/// What a log entry is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    Record { table: TableId, key: &'a str },
    Session { id: &'a str },
}

/// An entry that is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry<'a> {
    pub(crate) revision: Revision,
    pub(crate) commit_time_ms: i64,
    pub(crate) principal: &'a str,
    pub(crate) subject: Subject<'a>,
    /// The encoded entry without values.
    pub(crate) encoded: &'a [u8],
    pub(crate) before: Option<&'a [u8]>,
    pub(crate) after: Option<&'a [u8]>,
    pub(crate) hash: ChainHash,
}

/// An entry that was read.
#[derive(Clone, Debug)]
pub(crate) struct LogEntry {
    pub(crate) revision: Revision,
    /// The encoded entry without values.
    pub(crate) encoded: Bytes,
    /// Only where values were asked for.
    pub(crate) before: Option<Bytes>,
    /// Only where values were asked for.
    pub(crate) after: Option<Bytes>,
    pub(crate) hash: ChainHash,
}

/// A record, or with no key a whole table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) table: TableId,
    pub(crate) key: Option<String>,
}

/// Which entries a read of the log is to bring.
#[derive(Clone, Debug)]
pub(crate) struct LogQuery {
    /// Exclusive.
    pub(crate) after: Revision,
    /// Inclusive; `None`: up to the head.
    pub(crate) until: Option<Revision>,
    pub(crate) entry_limit: usize,
    /// A page ends before the entry with which it would grow beyond this, but has at least one.
    pub(crate) limit_bytes: usize,
    pub(crate) with_values: bool,
    /// `None`: every entry; else only changes of these.
    pub(crate) targets: Option<Vec<Target>>,
}

/// A page of the log.
#[derive(Clone, Debug)]
pub(crate) struct LogPage {
    /// Rising revisions.
    pub(crate) entries: Vec<LogEntry>,
    /// Every entry that was asked for up to here is in this page or an earlier one.
    pub(crate) progress: Revision,
    pub(crate) bounds: Bounds,
}

/// The answer that was kept under a request key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptAnswer {
    pub(crate) request_hash: [u8; 32],
    pub(crate) made_ms: i64,
    pub(crate) answer: Vec<u8>,
}

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

    /// Makes everything durable and visible, with the new head; after an error it is unknown whether it became so.
    fn commit(self: Box<Self>, head: &FeedHead) -> Result<(), StoreError>;
}
