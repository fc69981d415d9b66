//! Why a call is refused: one variant per thing that a caller may do differently.

use std::path::PathBuf;

use crate::access::Denied;
use crate::catalog::{RecordFault, TableName};
use crate::revision::Revision;
use crate::search::{ConditionFault, InvalidCursor, ScanLimit, SearchError};
use crate::session::SessionLimit;
use crate::store::StoreError;

/// Why a call is refused; nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// A field of the request is missing or has a form that the contract does not allow.
    #[error("invalid `{field}`: {problem}")]
    InvalidArgument {
        field: &'static str,
        problem: &'static str,
    },
    /// A condition, an order or a choice of attributes does not fit its table.
    #[error(transparent)]
    InvalidQuery(#[from] ConditionFault),
    #[error(
        "invalid `cursor`: it is none that was given out for this table, condition, sort and principal, or too old; begin without one"
    )]
    InvalidCursor,
    #[error("the search is refused: {0}")]
    ScanLimit(Box<ScanLimit>),
    #[error("more than {limit} changes of the targets cannot be shown; narrow the range of revisions")]
    HiddenLimit { limit: usize },
    #[error(transparent)]
    InvalidRecord(#[from] RecordFault),
    #[error("{what} is larger than {limit} bytes")]
    TooLarge { what: &'static str, limit: usize },
    #[error("unknown feed `{feed}`; this service has the feed `main`")]
    UnknownFeed { feed: String },
    #[error("unknown table {table}")]
    UnknownTable { table: TableName },
    /// `present` is the record's revision, 0 if there is none.
    #[error("precondition failed: record `{key}` of table {table} is at revision {present}")]
    PreconditionFailed {
        table: TableName,
        key: String,
        present: Revision,
    },
    #[error("this idempotency key was used for another request")]
    IdempotencyKeyReused,
    #[error("unknown session")]
    UnknownSession,
    #[error("the session belongs to another principal")]
    ForeignSession,
    #[error("the session has no live stream")]
    NoStream,
    #[error(
        "the stream's fence is another one: it was opened again or closed since; open it again, or leave the session to its owner"
    )]
    Fenced,
    #[error("the session has {limit} subscriptions, which is as many as it may have")]
    TooManySubscriptions { limit: u32 },
    #[error("{} has {limit} sessions, which is as many as it may have", whose.name())]
    TooManySessions { whose: SessionLimit, limit: u64 },
    #[error("the log begins at revision {oldest}")]
    Compacted { oldest: Revision },
    #[error("the revision or its hash is none of this log, which ends at revision {head}")]
    LostHistory { head: Revision },
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The service starts or ends, or its store cannot be written.
    #[error("the service cannot do this now; try again")]
    Unavailable,
    /// A backup cannot be made at this place; there is no file.
    #[error("cannot write a backup to `{}`: {problem}", path.display())]
    BackupPlace { path: PathBuf, problem: &'static str },
    /// A backup failed at a place that could take one; there is no file.
    #[error("cannot write a backup to `{}`: {problem}", path.display())]
    BackupFailed { path: PathBuf, problem: &'static str },
    /// Something failed that is not the caller's fault; the cause is for the log only.
    #[error("internal failure")]
    Internal(#[source] StoreError),
}

impl From<InvalidCursor> for Refusal {
    fn from(_: InvalidCursor) -> Refusal {
        Refusal::InvalidCursor
    }
}

impl From<SearchError> for Refusal {
    fn from(error: SearchError) -> Refusal {
        match error {
            SearchError::ScanLimit(limit) => Refusal::ScanLimit(Box::new(limit)),
            SearchError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        match error {
            StoreError::Compacted { oldest } => Refusal::Compacted { oldest },
            StoreError::BeyondHead { head } => Refusal::LostHistory { head },
            StoreError::Interrupted => Refusal::Unavailable,
            StoreError::Damaged { .. }
            | StoreError::DamagedFile { .. }
            | StoreError::Disk(_)
            | StoreError::Database(_) => Refusal::Internal(error),
        }
    }
}
