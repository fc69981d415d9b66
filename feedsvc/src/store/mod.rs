//! What keeps the feed: records, log, sessions and request keys.
//!
//! The contract, for every implementation (the tests in `suite` and `model` hold it to it):
//!
//! - *dense*: the log has every revision from the oldest to the head, each once;
//! - *visible in order*: a reader that sees revision r sees everything before r;
//! - *atomic*: a record and its log entry are written together or not at all, and so is all of a transaction;
//! - *durable*: when `commit` has returned, the transaction survives the loss of power;
//! - *no silent skip*: a read of the log answers with what was asked for, or with an error;
//! - *whole when shorter*: trimming takes the oldest entries only, and keeps the hash before the first that is left;
//! - *once*: an answer that was kept under a request key is found again for as long as it is kept;
//! - *current*: a read reflects at least the last transaction that was committed when it began; what it returns and the
//!   revision that it returns it with belong to the same moment;
//! - *apart*: the access log has dense numbers and a chain of its own, and nothing of it is in the log;
//! - *short*: no read transaction outlives the call that began it, and none but that of a backup is longer than a page;
//! - *indexed*: an index that is ready has exactly one entry for every record of its table, with the sort key of the
//!   attribute as the record has it.
//!
//! There is one writer, on a thread of its own; readers are many. All calls block and belong off the async runtime.

mod access;
mod contract;
mod error;
#[cfg(test)]
mod model;
pub(crate) mod reads;
pub(crate) mod sqlite;
#[cfg(test)]
mod suite;
mod values;
mod view;

pub(crate) use access::{AccessBounds, AccessPage, AccessQuery, AccessRetention, NewAccess, StoredAccess};
pub(crate) use contract::{Reader, Transaction, Writer};
pub use error::StoreOpenError;
pub(crate) use error::{CopyError, RestoreError, StoreError, VerifyError};
pub(crate) use reads::Interrupt;
pub(crate) use values::{
    Ages, Bounds, Copied, EncodedPage, FeedHead, Finding, KeptAnswer, KeyedRecord, LogEntry, LogPage,
    LogQuery, LogTrim, NewEntry, Place, SealingKey, Snapshot, StoreStatus, StoredRecord, Subject, Target,
    Trimmed, Verification,
};
pub(crate) use view::{
    AttributeIndex, ByteRange, Direction, IndexId, IndexState, IndexWalk, IndexWork, RecordRow, RecordView,
    VisitRecord,
};
