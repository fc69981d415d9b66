//! What goes through the pipeline.

use std::sync::Arc;

use bytes::Bytes;
use proto::feed::v1::CommitResponse;
use tokio::sync::oneshot;

use crate::access::Principal;
use crate::access_log::AccessRecord;
use crate::catalog::json::JsonObject;
use crate::catalog::{CatalogTable, GivenTimes, TableDefinition, TableName, ValidRecord};
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::session::{SessionCommand, SessionState};
use crate::store::{AccessRetention, IndexWork, LogTrim, SealingKey, Trimmed};

/// Where the outcome of a proposal goes, once it is durable.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// One thing to be done, and where to say that it is.
pub(super) enum Proposal {
    Records(RecordCommit, Reply<CommitResponse>),
    Session(SessionProposal, Reply<SessionAnswer>),
    /// Activity of sessions, by id.
    Touch(Touch, Reply<()>),
    /// Entries of the access log; answered with the number of the last.
    Access(Vec<AccessRecord>, Reply<u64>),
    /// The tables that there are to be; answered with the number of changes.
    Tables(Vec<TableDefinition>, Reply<usize>),
    /// One step of building or removing indexes.
    Indexes(Reply<IndexWork>),
    /// One step of the retention.
    Trim(TrimStep, Reply<TrimAnswer>),
    /// Write something, to find out whether that works.
    Probe(Reply<()>),
    /// The sealing keys, none of them that sealed for longer than this, in milliseconds.
    SealingKeys(i64, Reply<Vec<SealingKey>>),
    /// End after what was proposed before.
    Stop,
}

/// What a proposal costs besides its texts, for the bound of a transaction.
const PROPOSAL_OVERHEAD_BYTES: usize = 256;

impl Proposal {
    /// Returns about how much the proposal writes.
    pub(super) fn size_bytes(&self) -> usize {
        let texts = match self {
            Proposal::Records(commit, _) => commit.operations.iter().map(RecordOperation::size_bytes).sum(),
            Proposal::Touch(touch, _) => touch.ids.iter().map(String::len).sum(),
            Proposal::Access(records, _) => records.iter().map(AccessRecord::size_bytes).sum(),
            Proposal::Session(..)
            | Proposal::Tables(..)
            | Proposal::Indexes(_)
            | Proposal::Trim(..)
            | Proposal::Probe(..)
            | Proposal::SealingKeys(..)
            | Proposal::Stop => 0,
        };
        texts + PROPOSAL_OVERHEAD_BYTES
    }
}

/// A batch of operations that is applied as a whole or not at all.
#[derive(Clone, Debug)]
pub(crate) struct RecordCommit {
    /// Its rights are those that the commits before leave.
    pub(crate) principal: Principal,
    /// Valid, or empty.
    pub(crate) traceparent: String,
    pub(crate) operations: Vec<RecordOperation>,
    pub(crate) request_key: Option<RequestKey>,
    pub(crate) puts: PutRules,
}

/// How the puts of a commit are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PutRules {
    /// A put of what is there already changes nothing.
    pub(crate) skip_equal: bool,
    pub(crate) times: GivenTimes,
}

/// The caller's key for a request that may be sent again.
#[derive(Clone, Debug)]
pub(crate) struct RequestKey {
    pub(crate) key: String,
    /// Over the operations.
    pub(crate) request_hash: [u8; 32],
}

/// One operation on one record.
#[derive(Clone, Debug)]
pub(crate) struct RecordOperation {
    pub(crate) table: TableName,
    pub(crate) key: String,
    pub(crate) condition: Condition,
    pub(crate) action: RecordAction,
}

impl RecordOperation {
    fn size_bytes(&self) -> usize {
        let value = match &self.action {
            RecordAction::Put { value, .. } | RecordAction::PartialPut { value, .. } => value.len(),
            RecordAction::Patch { size_bytes, .. } => *size_bytes,
            RecordAction::Delete => 0,
        };
        self.key.len() + value + PROPOSAL_OVERHEAD_BYTES
    }
}

/// What must hold for a record before an operation on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    None,
    Exists,
    Absent,
    Revision(Revision),
}

/// What is done to a record.
#[derive(Clone, Debug)]
pub(crate) enum RecordAction {
    Put {
        /// As it was sent, for the case that the table has changed since it was checked.
        value: Bytes,
        table: Arc<CatalogTable>,
        /// `value`, checked against `table`.
        record: ValidRecord,
    },
    /// A put by a writer who may not see or write all attributes: checked once it is completed with those that it does not see.
    PartialPut {
        value: Bytes,
        /// How large the record may be, as its writer sees it.
        record_limit_bytes: usize,
    },
    /// A JSON Merge Patch, which can be checked only against the record that it meets.
    Patch {
        patch: JsonObject,
        /// How long it was when it was sent.
        size_bytes: usize,
        /// How large the patched record may be.
        record_limit_bytes: usize,
    },
    Delete,
}

/// What one step of the retention drops at most, each kind a bounded number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrimStep {
    pub(crate) log: LogTrim,
    pub(crate) access_log: AccessRetention,
    /// Answers that were kept under request keys before this time.
    pub(crate) answers_before_ms: i64,
    /// Ids of sessions that were removed before this time.
    pub(crate) spent_sessions_before_ms: i64,
    /// How many of each of these two.
    pub(crate) row_limit: usize,
}

/// What a step of the retention did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrimAnswer {
    pub(crate) log: Trimmed,
    /// How many entries of the access log went.
    pub(crate) access_entries: u64,
    /// The step ended at a limit: there may be more to drop.
    pub(crate) has_more: bool,
}

/// Sessions that were active.
#[derive(Clone, Debug)]
pub(crate) struct Touch {
    pub(crate) ids: Vec<String>,
    /// Only those of the principal of this name; `None`: whosever they are.
    pub(crate) only_of: Option<String>,
}

/// A command on a session.
#[derive(Clone, Debug)]
pub(crate) struct SessionProposal {
    pub(crate) principal: String,
    pub(crate) id: String,
    pub(crate) command: SessionCommand,
}

/// What a command on a session did.
#[derive(Clone, Debug)]
pub(crate) struct SessionAnswer {
    /// The entry's; if the command changed nothing, that of the subscription which is there, else the head.
    pub(crate) revision: Revision,
    /// Whether the command changed something.
    pub(crate) has_changed: bool,
    /// The record right after an open.
    pub(crate) session: Option<SessionState>,
}
