//! The one commit path: everything that changes the feed goes through one queue to one thread.
//!
//! The committer takes what waits, runs one proposal after the other against the state that the earlier ones left, in
//! one transaction (group commit), and then, in this order: commits, publishes the entries to the ring, answers.
//!
//! `pipeline` is the queue and the handle to it, `proposal` what goes through it, `committer` the thread, `draft` the
//! transaction that is being made, `writability` whether the store took the last one; `records`, `sessions`, `tables`, `access_log`,
//! `trim` and `sealing_keys` run the kinds of proposals.

mod access_log;
mod committer;
mod draft;
#[cfg(test)]
mod failing;
#[cfg(test)]
mod patch_tests;
mod pipeline;
mod proposal;
mod records;
mod sealing_keys;
mod sessions;
mod tables;
#[cfg(test)]
mod tests;
mod trim;
mod writability;

pub(crate) use committer::{Committer, CommitterParts, answer_channel, give_answers};
#[cfg(test)]
pub(crate) use failing::{FAILS_BEFORE, FailingWriter, NO_FAILURE};
pub(crate) use pipeline::Pipeline;
pub(crate) use proposal::{
    Condition, PutRules, RecordAction, RecordCommit, RecordOperation, RequestKey, SessionAnswer,
    SessionProposal, Touch, TrimStep,
};
pub(crate) use records::REQUEST_KEY_LIFETIME_MS;
pub(crate) use writability::Writability;
