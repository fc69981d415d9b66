//! The queue to the committer, and the handle by which everybody proposes.

use proto::feed::v1::CommitResponse;
use tokio::sync::{mpsc, oneshot};

use super::proposal::{
    Proposal, RecordCommit, Reply, SessionAnswer, SessionProposal, Touch, TrimAnswer, TrimStep,
};
use crate::access_log::AccessRecord;
use crate::catalog::TableDefinition;
use crate::refusal::Refusal;
use crate::store::{IndexWork, SealingKey};

/// How many proposals wait at most; beyond it a caller waits for room, with its own deadline.
const QUEUE_LIMIT: usize = 1_024;

/// A handle to the committer.
#[derive(Clone)]
pub(crate) struct Pipeline {
    proposals: mpsc::Sender<Proposal>,
}

/// The committer's end of the queue.
pub(crate) struct ProposalQueue(pub(super) mpsc::Receiver<Proposal>);

impl Pipeline {
    /// Makes the queue.
    pub(crate) fn new() -> (Pipeline, ProposalQueue) {
        let (proposals, queue) = mpsc::channel(QUEUE_LIMIT);
        (Pipeline { proposals }, ProposalQueue(queue))
    }

    /// Applies a batch of operations on records; returns when it is durable and published.
    ///
    /// Dropping the future after it was polled first may or may not keep the commit from happening.
    pub(crate) async fn commit_records(&self, commit: RecordCommit) -> Result<CommitResponse, Refusal> {
        self.propose(|reply| Proposal::Records(commit, reply)).await
    }

    /// Runs a command on a session; returns when it is durable and published.
    pub(crate) async fn command_session(&self, proposal: SessionProposal) -> Result<SessionAnswer, Refusal> {
        self.propose(|reply| Proposal::Session(proposal, reply)).await
    }

    /// Notes activity of sessions; unknown ids are left out.
    pub(crate) async fn touch_sessions(&self, touch: Touch) -> Result<(), Refusal> {
        self.propose(|reply| Proposal::Touch(touch, reply)).await
    }

    /// Appends entries to the access log, at least one; returns the number of the last once they are durable.
    pub(crate) async fn record_access(&self, records: Vec<AccessRecord>) -> Result<u64, Refusal> {
        self.propose(|reply| Proposal::Access(records, reply)).await
    }

    /// Makes the catalogue what `definitions` say; returns how many tables changed.
    pub(crate) async fn set_tables(&self, definitions: Vec<TableDefinition>) -> Result<usize, Refusal> {
        self.propose(|reply| Proposal::Tables(definitions, reply)).await
    }

    /// Builds or removes a part of an index; returns whether something may be left to do.
    pub(crate) async fn work_on_indexes(&self) -> Result<IndexWork, Refusal> {
        self.propose(Proposal::Indexes).await
    }

    /// Drops some of what has outlived its time.
    pub(crate) async fn trim(&self, step: TrimStep) -> Result<TrimAnswer, Refusal> {
        self.propose(|reply| Proposal::Trim(step, reply)).await
    }

    /// Finds out whether a commit works, by one that means nothing; what came of it is told by the feed's `writability`.
    pub(crate) async fn probe(&self) -> Result<(), Refusal> {
        self.propose(Proposal::Probe).await
    }

    /// Returns the sealing keys, the newest first; makes a new one if the newest is older than `rotate_after_ms`.
    pub(crate) async fn sealing_keys(&self, rotate_after_ms: i64) -> Result<Vec<SealingKey>, Refusal> {
        self.propose(|reply| Proposal::SealingKeys(rotate_after_ms, reply))
            .await
    }

    /// Tells the committer to end after what was proposed before; all later proposals are refused.
    pub(crate) async fn stop(&self) {
        // A failure means that it has ended already.
        let _ = self.proposals.send(Proposal::Stop).await;
    }

    async fn propose<T>(&self, proposal: impl FnOnce(Reply<T>) -> Proposal) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let sent = self.proposals.send(proposal(reply)).await;
        sent.map_err(|_closed| Refusal::Unavailable)?;
        answer.await.unwrap_or(Err(Refusal::Unavailable))
    }
}
