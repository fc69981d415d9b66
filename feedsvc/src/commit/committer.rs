//! The thread that commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, watch};
use tracing::trace;

use super::draft::{Draft, NotApplied, Written};
use super::pipeline::ProposalQueue;
use super::proposal::{Proposal, Reply, Touch};
use super::writability::{Outage, Writability};
use super::{access_log, records, sealing_keys, sessions, tables, trim};
use crate::access::Rights;
use crate::catalog::Catalog;
use crate::clock::Clock;
use crate::lease::Leases;
use crate::refusal::Refusal;
use crate::ring::Ring;
use crate::service::Limits;
use crate::store::{FeedHead, IndexWork, StoreError, Writer};

/// How many proposals share a transaction at most.
const GROUP_PROPOSALS_MAX: usize = 256;
/// How much a transaction writes at most before it takes no further proposal, so that none waits long for its fsync.
const GROUP_LIMIT_BYTES: usize = 4 * 1024 * 1024;
/// How many entries one step adds to an index or removes from it: some milliseconds, for which commits wait.
const INDEX_STEP_ENTRIES: usize = 500;

/// What the committer works with and makes visible to others.
pub(crate) struct CommitterParts {
    pub(crate) writer: Box<dyn Writer>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) ring: Arc<Ring>,
    pub(crate) catalog: watch::Sender<Arc<Catalog>>,
    pub(crate) rights: watch::Sender<Arc<Rights>>,
    /// Reads the rights that the store has, for when it is not known what became of a transaction.
    pub(crate) load_rights: Box<dyn Fn() -> Result<Rights, StoreError> + Send>,
    pub(crate) limits: Limits,
    /// To [`give_answers`].
    pub(crate) answers: mpsc::Sender<GroupAnswers>,
    pub(crate) writability: watch::Sender<Writability>,
    /// The oldest revision that the log has.
    pub(crate) oldest: Arc<AtomicU64>,
}

/// The committer itself; it lives on a thread of its own.
pub(crate) struct Committer {
    parts: CommitterParts,
    /// Where the next transaction begins; `None` after a failure, when only the store knows.
    head: Option<FeedHead>,
    outage: Outage,
}

/// Answers one proposal, when it is known what became of the transaction.
type Answer = Box<dyn FnOnce(Durability) + Send>;

/// The answers of a group, on their way to the task that gives them.
pub(crate) struct GroupAnswers {
    answers: Vec<Answer>,
    durability: Durability,
}

/// From so many on a task of the runtime gives the answers: to wake a task from this thread costs a call of the system each, and the
/// next group waits meanwhile.
const ANSWERS_GIVEN_AWAY: usize = 8;

/// How many groups may wait to be answered: the callers of each wait too, so they are few.
const ANSWER_GROUPS_MAX: usize = 64;

/// Makes the way of the answers from the committer to [`give_answers`].
pub(crate) fn answer_channel() -> (mpsc::Sender<GroupAnswers>, mpsc::Receiver<GroupAnswers>) {
    mpsc::channel(ANSWER_GROUPS_MAX)
}

/// Gives answers until the committer has ended and all are given. It must not be cut off before.
pub(crate) async fn give_answers(mut groups: mpsc::Receiver<GroupAnswers>) {
    while let Some(GroupAnswers { answers, durability }) = groups.recv().await {
        for answer in answers {
            answer(durability);
        }
    }
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    Durable,
    Lost,
}

/// Whether the committer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    GoOn,
    Stop,
}

impl Committer {
    /// Makes a committer; its ring must stand at the head of its store.
    pub(crate) fn new(parts: CommitterParts) -> Committer {
        Committer {
            parts,
            head: None,
            outage: Outage::default(),
        }
    }

    /// Commits what is proposed until it is told to stop, or nobody can propose any more.
    pub(crate) fn run(mut self, mut queue: ProposalQueue) {
        while let Some(first) = queue.0.blocking_recv() {
            let (group, course) = take_group(first, &mut queue);
            self.commit(group);
            if course == Course::Stop {
                break;
            }
        }
    }

    fn commit(&mut self, group: Vec<Proposal>) {
        trace!(proposals = group.len(), "committing a group");
        let mut answers: Vec<Answer> = Vec::with_capacity(group.len());
        let durability = match self.try_commit(group, &mut answers) {
            Ok(Written::Something) => {
                self.outage.note_success(&self.parts.writability);
                Durability::Durable
            }
            // It shows nothing about the disk.
            Ok(Written::Nothing) => Durability::Durable,
            Err(error) => {
                self.outage
                    .note_loss(&self.parts.writability, &error, self.parts.clock.monotonic());
                // What the store has now is not known, and so is not what to go on from.
                self.head = None;
                Durability::Lost
            }
        };
        self.answer(answers, durability);
    }

    fn answer(&self, answers: Vec<Answer>, durability: Durability) {
        let group = GroupAnswers { answers, durability };
        let here = if group.answers.len() < ANSWERS_GIVEN_AWAY {
            group
        } else {
            match self.parts.answers.blocking_send(group) {
                Ok(()) => return,
                // The runtime ends.
                Err(mpsc::error::SendError(group)) => group,
            }
        };
        for answer in here.answers {
            answer(durability);
        }
    }

    fn try_commit(&mut self, group: Vec<Proposal>, answers: &mut Vec<Answer>) -> Result<Written, StoreError> {
        // Whatever fails from here on, each proposal of the group has its answer in `answers` by the end.
        let head = match self.head {
            Some(head) => Ok(head),
            None => self.recover(),
        };
        let begun = head.and_then(|head| Ok((head, self.parts.writer.begin()?)));
        let (head, transaction) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                answers.extend(group.into_iter().map(lost));
                return Err(error);
            }
        };
        let catalog = Arc::clone(&self.parts.catalog.borrow());
        let rights = Arc::clone(&self.parts.rights.borrow());
        let mut draft = Draft::new(transaction, head, catalog, rights);
        let mut group = group.into_iter();
        while let Some(proposal) = group.next() {
            match run(
                &mut draft,
                proposal,
                &self.parts.leases,
                &self.parts.limits,
                self.parts.clock.now_ms(),
            ) {
                Ok(answer) => answers.push(answer),
                Err((error, answer)) => {
                    answers.push(answer);
                    answers.extend(group.map(lost));
                    return Err(error);
                }
            }
        }
        let committed = draft.commit()?;

        self.head = Some(committed.head);
        let has_new_catalog = !Arc::ptr_eq(&committed.catalog, &self.parts.catalog.borrow());
        if has_new_catalog {
            // Before the ring: who reads the head and then the catalogue finds no older one.
            self.parts.catalog.send_replace(committed.catalog);
        }
        if !Arc::ptr_eq(&committed.rights, &self.parts.rights.borrow()) {
            // Before the ring and the answers: who knows of the change is decided by it.
            self.parts.rights.send_replace(committed.rights);
        }
        if let Some(oldest) = committed.oldest {
            self.parts.oldest.fetch_max(oldest.0, Ordering::Relaxed);
        }
        if !committed.entries.is_empty() {
            self.parts.ring.publish(&committed.entries);
        }
        Ok(committed.written)
    }

    /// Finds out where the store stands; what was committed without being published is left to the readers of the store.
    fn recover(&mut self) -> Result<FeedHead, StoreError> {
        let head = self.parts.writer.head()?;
        if head.revision != self.parts.ring.head() {
            // A change of rights may be durable although its proposer was told nothing.
            self.parts
                .rights
                .send_replace(Arc::new((self.parts.load_rights)()?));
            self.parts.ring.reset(head.revision);
        }
        let oldest = self.parts.writer.oldest()?;
        self.parts.oldest.fetch_max(oldest.0, Ordering::Relaxed);
        Ok(head)
    }
}

/// Takes what waits behind the first proposal, up to the bounds of a transaction.
fn take_group(first: Proposal, queue: &mut ProposalQueue) -> (Vec<Proposal>, Course) {
    let mut group = Vec::new();
    let mut size_bytes = 0;
    let mut next = Some(first);
    while let Some(proposal) = next {
        if matches!(proposal, Proposal::Stop) {
            queue.0.close();
            return (group, Course::Stop);
        }
        size_bytes += proposal.size_bytes();
        group.push(proposal);
        let has_room = group.len() < GROUP_PROPOSALS_MAX && size_bytes < GROUP_LIMIT_BYTES;
        next = if has_room { queue.0.try_recv().ok() } else { None };
    }
    (group, Course::GoOn)
}

/// Runs one proposal; an error is that of the whole transaction.
fn run(
    draft: &mut Draft<'_>,
    proposal: Proposal,
    leases: &Leases,
    limits: &Limits,
    now_ms: i64,
) -> Result<Answer, (StoreError, Answer)> {
    match proposal {
        Proposal::Records(commit, reply) => answer_with(reply, records::run(draft, &commit, now_ms)),
        Proposal::Session(command, reply) => {
            answer_with(reply, sessions::run(draft, &command, leases, limits, now_ms))
        }
        Proposal::Touch(touched, reply) => answer_with(reply, touch(draft, &touched, now_ms)),
        Proposal::Access(records, reply) => answer_with(reply, access_log::append(draft, &records, now_ms)),
        Proposal::Tables(definitions, reply) => answer_with(reply, tables::run(draft, &definitions, now_ms)),
        Proposal::Indexes(reply) => answer_with(reply, work_on_indexes(draft)),
        Proposal::Trim(step, reply) => answer_with(reply, trim::run(draft, &step)),
        Proposal::Probe(reply) => answer_with(reply, trim::probe(draft).map_err(NotApplied::Lost)),
        Proposal::SealingKeys(rotate_after_ms, reply) => {
            answer_with(reply, sealing_keys::run(draft, rotate_after_ms, now_ms))
        }
        Proposal::Stop => Ok(Box::new(|_| {})),
    }
}

fn work_on_indexes(draft: &mut Draft<'_>) -> Result<IndexWork, NotApplied> {
    let work = draft.transaction.work_on_indexes(INDEX_STEP_ENTRIES)?;
    if work == IndexWork::Left {
        draft.mark_dirty();
    }
    Ok(work)
}

fn touch(draft: &mut Draft<'_>, touch: &Touch, now_ms: i64) -> Result<(), NotApplied> {
    let now_ms = draft.commit_time_ms(now_ms);
    for id in &touch.ids {
        if let Some(name) = &touch.only_of {
            let session = draft.transaction.find_session(id)?;
            if session.is_none_or(|session| session.principal != *name) {
                continue;
            }
        }
        draft.transaction.touch_session(id, now_ms)?;
        draft.mark_dirty();
    }
    Ok(())
}

fn answer_with<T: Send + 'static>(
    reply: Reply<T>,
    outcome: Result<T, NotApplied>,
) -> Result<Answer, (StoreError, Answer)> {
    let (outcome, error) = match outcome {
        Ok(value) => (Ok(value), None),
        Err(NotApplied::Refused(refusal)) => (Err(refusal), None),
        Err(NotApplied::Lost(error)) => (Err(Refusal::Unavailable), Some(error)),
    };
    let answer: Answer = Box::new(move |durability| {
        // A refusal may rest on what the lost transaction had written, so it goes the same way.
        let outcome = match durability {
            Durability::Durable => outcome,
            Durability::Lost => Err(Refusal::Unavailable),
        };
        // Nobody may wait for it any more.
        let _ = reply.send(outcome);
    });
    match error {
        Some(error) => Err((error, answer)),
        None => Ok(answer),
    }
}

/// Answers a proposal that was not run.
fn lost(proposal: Proposal) -> Answer {
    fn unavailable<T: Send + 'static>(reply: Reply<T>) -> Answer {
        Box::new(move |_| {
            let _ = reply.send(Err(Refusal::Unavailable));
        })
    }
    match proposal {
        Proposal::Records(_, reply) => unavailable(reply),
        Proposal::Session(_, reply) => unavailable(reply),
        Proposal::Touch(_, reply) => unavailable(reply),
        Proposal::Access(_, reply) => unavailable(reply),
        Proposal::Tables(_, reply) => unavailable(reply),
        Proposal::Indexes(reply) => unavailable(reply),
        Proposal::Trim(_, reply) => unavailable(reply),
        Proposal::Probe(reply) => unavailable(reply),
        Proposal::SealingKeys(_, reply) => unavailable(reply),
        Proposal::Stop => Box::new(|_| {}),
    }
}
