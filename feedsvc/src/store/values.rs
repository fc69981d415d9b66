//! What goes into a store and what comes out of it.

use bytes::Bytes;

use crate::catalog::TableId;
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
impl std::fmt::Debug for SealingKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
