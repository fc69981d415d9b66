//! What goes into a store and what comes out of it.

use std::fmt;

use bytes::Bytes;

use crate::catalog::{TableId, TableName};
use crate::chain::ChainHash;
use crate::revision::Revision;

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

/// A key by which gateways seal.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SealingKey {
    pub(crate) id: i64,
    pub(crate) secret: Vec<u8>,
    pub(crate) made_ms: i64,
}

// By hand, so that no secret gets into a log.
impl fmt::Debug for SealingKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SealingKey")
            .field("id", &self.id)
            .field("made_ms", &self.made_ms)
            .finish_non_exhaustive()
    }
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
}

/// A record, or with no key a whole table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// How many entries are looked at, at most; a page without a match still moves on by that many.
    pub(crate) scan_limit: usize,
    pub(crate) with_values: bool,
    /// `None`: every entry; else only changes of these.
    pub(crate) targets: Option<Vec<Target>>,
    /// Whether session commands come besides the targets. Without targets they always do.
    pub(crate) with_sessions: bool,
    /// Only entries of the principal of this name.
    pub(crate) principal: Option<String>,
    /// Only entries with a commit time at or after this.
    pub(crate) from_time_ms: Option<i64>,
    /// Only entries with a commit time before this.
    pub(crate) until_time_ms: Option<i64>,
}

impl LogQuery {
    /// Returns the query for everything after a revision, on one page however large.
    pub(crate) fn after(after: Revision) -> LogQuery {
        LogQuery {
            after,
            until: None,
            entry_limit: usize::MAX,
            limit_bytes: usize::MAX,
            scan_limit: usize::MAX,
            with_values: false,
            targets: None,
            with_sessions: false,
            principal: None,
            from_time_ms: None,
            until_time_ms: None,
        }
    }
}

/// A page of everything, as answers of watches carry it.
#[derive(Clone, Debug)]
pub(crate) struct EncodedPage {
    /// Rising revisions without a hole, as `proto::put_entry` writes them, any number in a slice.
    pub(crate) entries: Vec<Bytes>,
    /// Every entry up to here is in this page or an earlier one.
    pub(crate) progress: Revision,
    /// The log's hash there.
    pub(crate) progress_hash: ChainHash,
    /// Where the log stood.
    pub(crate) bounds: Bounds,
}

/// A page of the log.
#[derive(Clone, Debug)]
pub(crate) struct LogPage {
    /// Rising revisions.
    pub(crate) entries: Vec<LogEntry>,
    /// Every entry that was asked for up to here is in this page or an earlier one.
    pub(crate) progress: Revision,
    /// The log's hash at `progress`.
    pub(crate) progress_hash: ChainHash,
    pub(crate) bounds: Bounds,
}

/// Which of the oldest entries of the log are to be dropped in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogTrim {
    /// Entries up to this one go.
    pub(crate) until: Revision,
    /// While the log takes more bytes than this, older entries go too.
    pub(crate) keep_bytes: u64,
    /// No entry above this one goes, whatever the others say.
    pub(crate) floor: Revision,
    /// How many entries the step drops at most.
    pub(crate) entry_limit: usize,
    /// The step ends with the entry with which it has dropped this much.
    pub(crate) limit_bytes: u64,
}

/// What a step dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trimmed {
    /// The oldest revision that the log has now.
    pub(crate) oldest: Revision,
    pub(crate) dropped: u64,
    /// The step ended at its limits: there may be more to drop.
    pub(crate) has_more: bool,
}

/// How old and how large the things are that go after a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ages {
    pub(crate) bounds: Bounds,
    /// What the kept entries take, about.
    pub(crate) log_bytes: u64,
    /// The commit time of the oldest entry.
    pub(crate) oldest_entry_ms: Option<i64>,
    /// When the oldest entry of the access log was recorded, and what its kept entries take, about.
    pub(crate) oldest_access_ms: Option<i64>,
    pub(crate) access_log_bytes: u64,
    pub(crate) oldest_request_key_ms: Option<i64>,
    pub(crate) oldest_spent_session_ms: Option<i64>,
}

/// How a store stands, for whoever operates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreStatus {
    pub(crate) bounds: Bounds,
    /// The time of the newest commit; `None`: there was none.
    pub(crate) commit_time_ms: Option<i64>,
    /// The size of the store's files.
    pub(crate) store_bytes: u64,
    /// How much of it is free to be used again.
    pub(crate) free_bytes: u64,
    pub(crate) log_bytes: u64,
    pub(crate) sessions: u64,
    pub(crate) subscriptions: u64,
    /// Every table that has records, by database and name.
    pub(crate) tables: Vec<(TableName, u64)>,
}

/// What a copy of the store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) head: Revision,
    pub(crate) size_bytes: u64,
}

/// Where something does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Log {
        revision: Revision,
    },
    AccessLog {
        number: u64,
    },
    Table {
        table: TableName,
        key: String,
    },
    /// The database's own structure.
    Database,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Log { revision } => write!(formatter, "log at revision {revision}"),
            Place::AccessLog { number } => write!(formatter, "access log at number {number}"),
            Place::Table { table, key } => write!(formatter, "table {table}, record `{key}`"),
            Place::Database => write!(formatter, "database"),
        }
    }
}

/// One thing that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) place: Place,
    pub(crate) problem: String,
}

/// What a check of the whole store found and looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verification {
    /// The first of them, in the order in which they were found.
    pub(crate) findings: Vec<Finding>,
    pub(crate) entries: u64,
    pub(crate) records: u64,
    pub(crate) access_entries: u64,
    /// The head when the check began.
    pub(crate) head: Revision,
}

/// The answer that was kept under a request key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptAnswer {
    pub(crate) request_hash: [u8; 32],
    pub(crate) made_ms: i64,
    pub(crate) answer: Vec<u8>,
}
