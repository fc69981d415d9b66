//! Runs steps of the retention, and probes.

use super::draft::{Draft, NotApplied};
use super::proposal::{TrimAnswer, TrimStep};
use crate::store::StoreError;

/// Drops what a step names.
pub(super) fn run(draft: &mut Draft<'_>, step: &TrimStep) -> Result<TrimAnswer, NotApplied> {
    let log = draft.trim_log(&step.log)?;
    let answers = draft
        .transaction
        .drop_answers(step.answers_before_ms, step.row_limit)?;
    let spent = draft
        .transaction
        .drop_spent_sessions(step.spent_sessions_before_ms, step.row_limit)?;
    if answers > 0 || spent > 0 {
        draft.mark_dirty();
    }
    Ok(TrimAnswer {
        log,
        has_more: log.has_more || answers == step.row_limit || spent == step.row_limit,
    })
}

/// Writes something, so that the transaction is committed.
pub(super) fn probe(draft: &mut Draft<'_>) -> Result<(), StoreError> {
    draft.transaction.probe()?;
    draft.mark_dirty();
    Ok(())
}
