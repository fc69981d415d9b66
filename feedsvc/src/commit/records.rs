//! Runs commits of records.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use proto::feed::v1::{CommitResponse, Operation, OperationResult};

use super::draft::{Draft, NotApplied};
use super::proposal::{Condition, PutRules, RecordAction, RecordCommit, RecordOperation};
use crate::access::{Intent, RightsChange, TableWriter};
use crate::catalog::json::{Json, JsonObject};
use crate::catalog::{
    CatalogTable, GivenTimes, TableId, ValidRecord, check_object, merge_patch, parse_object,
};
use crate::entry::{CommitHeader, encode_change};
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::store::{KeptAnswer, StoreError, StoredRecord, Subject};

/// For how long an answer is kept under its request key (feed.proto, `CommitRequest.idempotency_key`).
pub(crate) const REQUEST_KEY_LIFETIME_MS: i64 = 24 * 60 * 60 * 1_000;

/// The records that a commit writes may have so much together (feed.proto, "Limits"). What is sent has been held to it; a
/// patch is small and may make large records.
const RECORDS_LIMIT_BYTES: usize = 16 * 1024 * 1024;
/// The records that a commit replaces and removes may have so much together: they are in memory until it is written.
const REPLACED_LIMIT_BYTES: usize = 256 * 1024 * 1024;
/// How many limits more a record, and the patched records of a commit, may have with what their writer does not see (feed.proto,
/// "Rights"): so many roles may hide attributes from each other and each fill a record before one of them could notice the others.
const HIDDEN_RESERVE: usize = 3;
/// The same for what a commit replaces and removes, which is more in memory.
const HIDDEN_REPLACED_RESERVE: usize = 1;

/// Applies a commit, or gives the answer that it got before.
pub(super) fn run(
    draft: &mut Draft<'_>,
    commit: &RecordCommit,
    now_ms: i64,
) -> Result<CommitResponse, NotApplied> {
    let commit_time_ms = draft.commit_time_ms(now_ms);
    let expired_ms = commit_time_ms - REQUEST_KEY_LIFETIME_MS;
    if let Some(answer) = find_earlier_answer(draft, commit, expired_ms)? {
        return Ok(answer);
    }

    let plan = plan(draft, commit, commit_time_ms)?;
    write(draft, commit, &plan, commit_time_ms)?;
    if !plan.rights_changes.is_empty() {
        draft.rights = Arc::new(draft.rights.changed(plan.rights_changes));
    }

    let answer = CommitResponse {
        results: plan.results,
        commit_time_ms,
        head: draft.head().0,
        repeated: false,
    };
    if let Some(request) = &commit.request_key {
        let kept = KeptAnswer {
            request_hash: request.request_hash,
            made_ms: commit_time_ms,
            answer: answer.encode_to_vec(),
        };
        draft
            .transaction
            .keep_answer(&commit.principal.name, &request.key, &kept, expired_ms)?;
        draft.mark_dirty();
    }
    Ok(answer)
}

fn find_earlier_answer(
    draft: &Draft<'_>,
    commit: &RecordCommit,
    expired_ms: i64,
) -> Result<Option<CommitResponse>, NotApplied> {
    let Some(request) = &commit.request_key else {
        return Ok(None);
    };
    let kept = draft
        .transaction
        .find_answer(&commit.principal.name, &request.key)?;
    let Some(kept) = kept.filter(|kept| kept.made_ms >= expired_ms) else {
        return Ok(None);
    };
    if kept.request_hash != request.request_hash {
        return Err(Refusal::IdempotencyKeyReused.into());
    }
    let answer = CommitResponse::decode(kept.answer.as_slice()).map_err(|_| StoreError::Damaged {
        problem: "a kept answer that does not parse",
        revision: draft.head(),
    })?;
    Ok(Some(CommitResponse {
        repeated: true,
        ..answer
    }))
}

/// What a commit will write, in its order, and what it will answer.
struct Plan<'a> {
    changes: Vec<PlannedChange<'a>>,
    results: Vec<OperationResult>,
    /// What the changes mean for the rights of the proposals after this one.
    rights_changes: Vec<RightsChange>,
}

struct PlannedChange<'a> {
    table: TableId,
    request: &'a RecordOperation,
    before: Option<StoredRecord>,
    after: Option<StoredRecord>,
}

/// The records that the operations before in the batch left; what is not there is as the transaction has it.
type Overlay<'a> = HashMap<(TableId, &'a str), Option<StoredRecord>>;

/// Checks all operations, each against what the ones before it leave, without writing. The writer's rights are those before the
/// commit, for all of it.
fn plan<'a>(
    draft: &Draft<'_>,
    commit: &'a RecordCommit,
    commit_time_ms: i64,
) -> Result<Plan<'a>, NotApplied> {
    let now = || timestamp(commit_time_ms);
    let role = draft.rights.role_of(&commit.principal);
    let mut overlay = Overlay::new();
    let mut rights_changes = Vec::new();
    let mut changes = Vec::with_capacity(commit.operations.len());
    let mut results = Vec::with_capacity(commit.operations.len());
    let mut sizes = Sizes::default();
    for request in &commit.operations {
        let table = draft
            .catalog
            .find(&request.table)
            .ok_or_else(|| Refusal::UnknownTable {
                table: request.table.clone(),
            })?;
        let place = (table.id, request.key.as_str());
        let before = match overlay.get(&place) {
            Some(record) => record.clone(),
            None => draft
                .transaction
                .find_record(table.id, &request.key)
                .map_err(not_read)?,
        };
        let writer = TableWriter::new(&role, &commit.principal, &request.table);
        let is_hidden = before.as_ref().is_some_and(|record| !writer.has(&record.value));
        let seen = before.as_ref().filter(|_| !is_hidden);
        let intent = intent(request, seen);
        writer.check(intent).map_err(Refusal::from)?;
        check_condition(request, seen)?;
        if is_hidden {
            match request.action {
                // A put would create what is there already, which is all that its writer learns of it; a patch finds nothing.
                RecordAction::Put { .. } | RecordAction::PartialPut { .. } | RecordAction::Patch { .. } => {
                    return Err(precondition_failed(request, None).into());
                }
                RecordAction::Delete => {
                    results.push(OperationResult::default());
                    continue;
                }
            }
        }

        let revision = Revision(draft.head().0 + changes.len() as u64 + 1);
        let after = match &request.action {
            RecordAction::Put { .. } | RecordAction::PartialPut { .. } | RecordAction::Patch { .. } => {
                let before = before.as_ref().map(|record| record.value.as_ref());
                let stored = record_to_store(table, request, intent, &writer, before, &now, commit.puts)?;
                // Before anything is left out: whether an attribute that its writer does not see is equal is not for it to learn.
                writer.check_row(intent, &stored.value).map_err(Refusal::from)?;
                if stored.is_as_before {
                    results.push(OperationResult {
                        existed: true,
                        ..OperationResult::default()
                    });
                    continue;
                }
                Some(StoredRecord {
                    revision,
                    value: stored.value,
                })
            }
            RecordAction::Delete => None,
        };
        sizes.add(request, &writer, before.as_ref(), after.as_ref())?;
        let existed = before.is_some();
        let has_changed = existed || after.is_some();
        let mut result = OperationResult {
            revision: if has_changed { revision.0 } else { 0 },
            existed,
            unknown: Vec::new(),
        };
        if has_changed {
            let value = after.as_ref().map(|record| record.value.as_ref());
            let rights_change =
                RightsChange::read(&request.table, &request.key, value).map_err(Refusal::from)?;
            if let Some(RightsChange::Role(_, Some(role))) = &rights_change {
                result.unknown = role.unknown(&draft.catalog);
            }
            rights_changes.extend(rights_change);
            if commit.operations.len() > 1 {
                overlay.insert(place, after.clone());
            }
            changes.push(PlannedChange {
                table: table.id,
                request,
                before,
                after,
            });
        }
        results.push(result);
    }
    Ok(Plan {
        changes,
        results,
        rights_changes,
    })
}

/// Returns the right that an operation needs, told by what it says of the record, else by whether its writer sees one.
fn intent(request: &RecordOperation, seen: Option<&StoredRecord>) -> Intent {
    match (&request.action, request.condition) {
        (RecordAction::Delete, _) => Intent::Delete,
        (RecordAction::Patch { .. }, _) => Intent::Update,
        (RecordAction::Put { .. } | RecordAction::PartialPut { .. }, Condition::Absent) => Intent::Insert,
        (
            RecordAction::Put { .. } | RecordAction::PartialPut { .. },
            Condition::Exists | Condition::Revision(_),
        ) => Intent::Update,
        (RecordAction::Put { .. } | RecordAction::PartialPut { .. }, Condition::None) => match seen {
            Some(_) => Intent::Update,
            None => Intent::Insert,
        },
    }
}

/// Nothing was written yet: damage that only this commit meets is its own failure, not that of the transaction.
fn not_read(error: StoreError) -> NotApplied {
    if error.is_damage() {
        NotApplied::Refused(Refusal::Internal(error))
    } else {
        NotApplied::Lost(error)
    }
}

fn check_condition(request: &RecordOperation, present: Option<&StoredRecord>) -> Result<(), Refusal> {
    let holds = match request.condition {
        Condition::None => true,
        Condition::Exists => present.is_some(),
        Condition::Absent => present.is_none(),
        Condition::Revision(revision) => present.is_some_and(|record| record.revision == revision),
    };
    if holds {
        return Ok(());
    }
    Err(precondition_failed(request, present))
}

fn precondition_failed(request: &RecordOperation, present: Option<&StoredRecord>) -> Refusal {
    Refusal::PreconditionFailed {
        table: request.table.clone(),
        key: request.key.clone(),
        present: present.map_or(Revision::ZERO, |record| record.revision),
    }
}

/// How much a commit holds in memory before it is written.
#[derive(Default)]
struct Sizes {
    patched: Size,
    replaced: Size,
}

/// How much of something there is, in bytes.
#[derive(Clone, Copy, Default)]
struct Size {
    /// As the commit's writer sees it, who is held to that: the sum of what it does not see is not for it to learn.
    shown: usize,
    /// With what it does not see.
    whole: usize,
}

impl Size {
    fn add(&mut self, writer: &TableWriter<'_>, record: Option<&StoredRecord>) {
        if let Some(record) = record {
            self.shown += writer.shown_bytes(&record.value);
            self.whole += record.value.len();
        }
    }

    /// Checks both against a limit and the reserve for what is hidden.
    fn check(self, what: &'static str, limit: usize, reserve_limits: usize) -> Result<(), Refusal> {
        if self.shown > limit || self.whole > limit.saturating_mul(1 + reserve_limits) {
            return Err(Refusal::TooLarge { what, limit });
        }
        Ok(())
    }
}

impl Sizes {
    fn add(
        &mut self,
        request: &RecordOperation,
        writer: &TableWriter<'_>,
        before: Option<&StoredRecord>,
        after: Option<&StoredRecord>,
    ) -> Result<(), Refusal> {
        self.replaced.add(writer, before);
        if matches!(request.action, RecordAction::Patch { .. }) {
            self.patched.add(writer, after);
        }
        let what = "the sum of the commit's patched records";
        self.patched.check(what, RECORDS_LIMIT_BYTES, HIDDEN_RESERVE)?;
        let what = "the sum of the records that the commit replaces or removes";
        self.replaced
            .check(what, REPLACED_LIMIT_BYTES, HIDDEN_REPLACED_RESERVE)
    }
}

/// A record as it will be stored.
struct RecordToStore {
    value: Bytes,
    /// It is a put of what is stored already; looked at only where that matters.
    is_as_before: bool,
}

/// Returns the record as it will be stored; checked again if its table has changed since it was checked, and completed if its
/// writer does not see all of it.
fn record_to_store(
    table: &Arc<CatalogTable>,
    request: &RecordOperation,
    intent: Intent,
    writer: &TableWriter<'_>,
    before: Option<&[u8]>,
    now: &dyn Fn() -> String,
    puts: PutRules,
) -> Result<RecordToStore, Refusal> {
    let check = |named: &JsonObject, after: JsonObject, times: GivenTimes| {
        if writer.limits_attributes() {
            writer.check_attributes(intent, table, named, before, &after)?;
        }
        check_object(table, &request.key, after, times, &|name| writer.knows(name)).map_err(Refusal::from)
    };
    match &request.action {
        RecordAction::Patch {
            patch,
            record_limit_bytes,
            ..
        } => {
            let Some(before) = before else {
                return Err(precondition_failed(request, None));
            };
            let mut patched = parse_object(table, before)?;
            merge_patch(&mut patched, patch);
            // The times in it are those of the record before.
            let record = check(patch, patched, GivenTimes::Replaced)?;
            let value = record.stamped(table, Some(before), now);
            check_size(
                "the patched record",
                table,
                writer,
                &record,
                &value,
                *record_limit_bytes,
            )?;
            Ok(RecordToStore {
                value,
                is_as_before: false,
            })
        }
        RecordAction::Put {
            table: checked_against,
            record,
            ..
        } if Arc::ptr_eq(checked_against, table) && !writer.limits_attributes() => Ok(RecordToStore {
            value: record.stamped(table, before, now),
            is_as_before: puts.skip_equal
                && before.is_some_and(|before| record.is_stored_as(table, before, &|_| true)),
        }),
        RecordAction::Put { value, .. } | RecordAction::PartialPut { value, .. } => {
            let put = parse_object(table, value)?;
            let after = match before {
                Some(before) => writer.completed(put.clone(), &object(before)),
                None => put.clone(),
            };
            let record = check(&put, after, puts.times)?;
            let value = record.stamped(table, before, now);
            if let RecordAction::PartialPut {
                record_limit_bytes, ..
            } = &request.action
            {
                check_size("the record", table, writer, &record, &value, *record_limit_bytes)?;
            }
            let shows = |name: &str| writer.shows(name);
            // What names an attribute that its writer does not see is a write: else equal or not would tell its value.
            let is_comparable = puts.skip_equal && put.keys().all(|name| shows(name));
            Ok(RecordToStore {
                value,
                is_as_before: is_comparable
                    && before.is_some_and(|before| record.is_stored_as(table, before, &shows)),
            })
        }
        RecordAction::Delete => Ok(RecordToStore {
            value: Bytes::new(),
            is_as_before: false,
        }),
    }
}

/// Checks how large a record is; what the service filled in and what its writer does not see does not count.
fn check_size(
    what: &'static str,
    table: &CatalogTable,
    writer: &TableWriter<'_>,
    record: &ValidRecord,
    value: &Bytes,
    limit: usize,
) -> Result<(), Refusal> {
    if value.len() <= limit {
        return Ok(());
    }
    let is_beyond_reserve =
        writer.hides_attributes() && value.len() > limit.saturating_mul(1 + HIDDEN_RESERVE);
    if is_beyond_reserve || record.written_bytes(table, &|name| writer.shows(name)) > limit {
        return Err(Refusal::TooLarge { what, limit });
    }
    Ok(())
}

/// Reads a record; what is none has no attributes.
fn object(record: &[u8]) -> JsonObject {
    match Json::parse(record) {
        Ok(Json::Object(object)) => object,
        Ok(_) | Err(_) => JsonObject::new(),
    }
}

fn write(
    draft: &mut Draft<'_>,
    commit: &RecordCommit,
    plan: &Plan<'_>,
    commit_time_ms: i64,
) -> Result<(), StoreError> {
    let header = CommitHeader {
        commit_time_ms,
        commit_end: Revision(draft.head().0 + plan.changes.len() as u64),
        principal: &commit.principal.name,
        traceparent: &commit.traceparent,
    };
    for change in &plan.changes {
        let key = change.request.key.as_str();
        let operation = match (&change.before, &change.after) {
            (None, _) => Operation::Insert,
            (Some(_), Some(_)) => Operation::Update,
            (Some(_), None) => Operation::Delete,
        };
        match &change.after {
            Some(record) => {
                draft
                    .transaction
                    .write_record(change.table, key, record, change.before.is_some())?
            }
            None => draft.transaction.remove_record(change.table, key)?,
        }
        let encoded = encode_change(
            &header,
            draft.head().next(),
            operation,
            &change.request.table,
            key,
        );
        draft.append(
            &commit.principal.name,
            Subject::Record {
                table: change.table,
                key,
            },
            encoded,
            change.before.as_ref().map(|record| record.value.as_ref()),
            change.after.as_ref().map(|record| record.value.as_ref()),
        )?;
    }
    Ok(())
}

/// Returns a time as the service writes it into records: RFC 3339, UTC, milliseconds.
fn timestamp(time_ms: i64) -> String {
    let timestamp = jiff::Timestamp::from_millisecond(time_ms).unwrap_or_default();
    format!("{timestamp:.3}")
}

#[cfg(test)]
mod tests {
    use super::timestamp;

    #[test]
    fn times_are_rfc3339_with_milliseconds() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(1_709_210_096_007), "2024-02-29T12:34:56.007Z");
    }
}
