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
    CatalogTable, GivenTimes, TableId, ValidRecord, check_object, check_record, merge_patch, parse_object,
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
                let stored = record_to_store(table, request, &writer, before, &now, commit.puts)?;
                // Before anything is left out: whether an attribute that its writer does not see is equal is not for it to learn.
                if writer.is_limited() {
                    let named = named_attributes(&request.action);
                    writer
                        .check_change(intent, table, &named, before, &stored.value)
                        .map_err(Refusal::from)?;
                }
                if stored.is_as_before {
                    results.push(OperationResult {
                        revision: 0,
                        existed: true,
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
        sizes.add(request, before.as_ref(), after.as_ref())?;
        let existed = before.is_some();
        let has_changed = existed || after.is_some();
        results.push(OperationResult {
            revision: if has_changed { revision.0 } else { 0 },
            existed,
        });
        if has_changed {
            let value = after.as_ref().map(|record| record.value.as_ref());
            let rights_change =
                RightsChange::read(&request.table, &request.key, value).map_err(Refusal::from)?;
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
    patched_bytes: usize,
    replaced_bytes: usize,
}

impl Sizes {
    fn add(
        &mut self,
        request: &RecordOperation,
        before: Option<&StoredRecord>,
        after: Option<&StoredRecord>,
    ) -> Result<(), Refusal> {
        self.replaced_bytes += before.map_or(0, |record| record.value.len());
        if matches!(request.action, RecordAction::Patch { .. }) {
            self.patched_bytes += after.map_or(0, |record| record.value.len());
        }
        for (bytes, limit, what) in [
            (
                self.patched_bytes,
                RECORDS_LIMIT_BYTES,
                "the sum of the commit's patched records",
            ),
            (
                self.replaced_bytes,
                REPLACED_LIMIT_BYTES,
                "the sum of the records that the commit replaces or removes",
            ),
        ] {
            if bytes > limit {
                return Err(Refusal::TooLarge { what, limit });
            }
        }
        Ok(())
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
    writer: &TableWriter<'_>,
    before: Option<&[u8]>,
    now: &dyn Fn() -> String,
    puts: PutRules,
) -> Result<RecordToStore, Refusal> {
    let value = match &request.action {
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
            let record = check_object(table, &request.key, patched, GivenTimes::Replaced)?;
            let value = record.stamped(table, Some(before), now);
            // A put of the same record would be as large without what the service fills in.
            if value.len() > *record_limit_bytes && record.written_bytes(table) > *record_limit_bytes {
                return Err(Refusal::TooLarge {
                    what: "the patched record",
                    limit: *record_limit_bytes,
                });
            }
            return Ok(RecordToStore {
                value,
                is_as_before: false,
            });
        }
        RecordAction::Put {
            table: checked_against,
            record,
            ..
        } if Arc::ptr_eq(checked_against, table) && !writer.hides_attributes() => {
            return Ok(put_to_store(record, table, before, now, puts));
        }
        RecordAction::Put { value, .. } | RecordAction::PartialPut { value } => value,
        RecordAction::Delete => {
            return Ok(RecordToStore {
                value: Bytes::new(),
                is_as_before: false,
            });
        }
    };
    let record = match (before, Json::parse(value)) {
        (Some(before), Ok(Json::Object(put))) if writer.hides_attributes() => {
            let completed = writer.completed(put, &object(before));
            check_object(table, &request.key, completed, puts.times)?
        }
        // What is no object is refused by the check.
        (_, _) => check_record(table, &request.key, value, puts.times)?,
    };
    Ok(put_to_store(&record, table, before, now, puts))
}

fn put_to_store(
    record: &ValidRecord,
    table: &CatalogTable,
    before: Option<&[u8]>,
    now: &dyn Fn() -> String,
    puts: PutRules,
) -> RecordToStore {
    RecordToStore {
        value: record.stamped(table, before, now),
        is_as_before: puts.skip_equal && before.is_some_and(|before| record.is_stored_as(table, before)),
    }
}

/// Returns the attributes that an operation itself names.
fn named_attributes(action: &RecordAction) -> JsonObject {
    match action {
        RecordAction::Put { value, .. } | RecordAction::PartialPut { value } => object(value),
        RecordAction::Patch { patch, .. } => patch.clone(),
        RecordAction::Delete => JsonObject::new(),
    }
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
