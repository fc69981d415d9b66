//! The calls of `feed.v1.Feed`.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use proto::feed::v1::precondition::Condition as ConditionMessage;
use proto::feed::v1::record_operation::Action as ActionMessage;
use proto::feed::v1::server::feed_server::Feed as FeedService;
use proto::feed::v1::{
    Attribute, CommitRequest, CommitResponse, CountRequest, CountResponse, GetCatalogRequest,
    GetCatalogResponse, GetManyRequest, GetManyResponse, GetRequest, GetResponse, LatestForRequest,
    LatestForResponse, ReadLogRequest, ReadLogResponse, RecordOperation as OperationMessage, SearchRequest,
    SearchResponse, Table, WatchRequest,
};
use sha2::{Digest, Sha256};
use tonic::{Request, Response, Status};

use super::request::{Caller, admit, check_key, hash_principal, invalid};
use super::status::status;
use super::watch::WatchStream;
use super::watch_sight::WatchSight;
use super::{log, search};
use crate::access::{Action, Object, Operation, Principal, TableWriter};
use crate::catalog::{CatalogTable, GivenTimes, TableName, check_record, parse_object};
use crate::commit::{Condition, PutRules, RecordAction, RecordCommit, RecordOperation, RequestKey};
use crate::entry::checked_traceparent;
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::revision::Revision;

/// The most operations of a commit (feed.proto).
const OPERATIONS_MAX: usize = 100_000;
/// The longest idempotency key (feed.proto).
const IDEMPOTENCY_KEY_LIMIT_BYTES: usize = 200;
/// How much the service itself adds to a record at most, about: a key of escaped characters, and times.
const FILLED_IN_BYTES: usize = 16 * 1024;
/// From here on the check of records leaves the runtime: about half a millisecond of work.
const LONG_CHECK_BYTES: usize = 64 * 1024;

/// The service behind the calls.
pub(super) struct FeedApi {
    feed: Arc<Feed>,
}

impl FeedApi {
    pub(super) fn new(feed: Arc<Feed>) -> FeedApi {
        FeedApi { feed }
    }

    async fn commit(&self, request: CommitRequest) -> Result<CommitResponse, Refusal> {
        let caller = admit(
            &self.feed,
            &request.feed,
            request.principal,
            Action::Call,
            Object::Own,
        )?;
        if request.operations.is_empty() {
            return Err(invalid("operations", "there is none"));
        }
        if request.operations.len() > OPERATIONS_MAX {
            return Err(invalid("operations", "there are more than 100000"));
        }
        if request.idempotency_key.len() > IDEMPOTENCY_KEY_LIMIT_BYTES {
            return Err(Refusal::TooLarge {
                what: "the idempotency key",
                limit: IDEMPOTENCY_KEY_LIMIT_BYTES,
            });
        }
        let size_bytes: usize = request.operations.iter().map(value_bytes).sum();
        if size_bytes > self.feed.limits.commit_bytes {
            return Err(Refusal::TooLarge {
                what: "the commit",
                limit: self.feed.limits.commit_bytes,
            });
        }
        if request.keep_times {
            caller.check(Action::Call, Object::Operation(Operation::KeepTimes))?;
        }
        let puts = PutRules {
            skip_equal: request.skip_equal,
            times: if request.keep_times {
                GivenTimes::Kept
            } else {
                GivenTimes::Replaced
            },
        };
        let request_key = (!request.idempotency_key.is_empty()).then(|| RequestKey {
            request_hash: hash_request(&caller.principal, &request.operations, puts),
            key: request.idempotency_key,
        });

        let operations = if size_bytes < LONG_CHECK_BYTES {
            check_operations(&self.feed, &caller, request.operations, puts.times)?
        } else {
            let (feed, caller) = (Arc::clone(&self.feed), caller.clone());
            let check = tokio::task::spawn_blocking(move || {
                check_operations(&feed, &caller, request.operations, puts.times)
            });
            check.await.unwrap_or(Err(Refusal::Unavailable))?
        };
        let commit = RecordCommit {
            traceparent: checked_traceparent(&request.traceparent).to_owned(),
            principal: caller.principal,
            operations,
            request_key,
            puts,
        };
        self.feed.pipeline.commit_records(commit).await
    }

    async fn get_catalog(&self, request: GetCatalogRequest) -> Result<GetCatalogResponse, Refusal> {
        let caller = admit(
            &self.feed,
            &request.feed,
            request.principal,
            Action::Call,
            Object::Own,
        )?;
        // The head first: the catalogue is published before it, so it has everything up to this head.
        let head = self.feed.ring.head();
        let catalog = self.feed.catalog();
        Ok(GetCatalogResponse {
            tables: catalog
                .tables()
                .filter(|table| caller.check(Action::Describe, Object::Table(&table.name)).is_ok())
                .map(|table| table_message(table, &caller))
                .collect(),
            revision: head.max(catalog.revision).0,
        })
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream, Refusal> {
        let caller = admit(
            &self.feed,
            &request.feed,
            request.principal.clone(),
            Action::Call,
            Object::Own,
        )?;
        let sight = WatchSight::new(caller, &request)?;
        WatchStream::open(Arc::clone(&self.feed), request, sight).await
    }
}

fn value_bytes(operation: &OperationMessage) -> usize {
    match &operation.action {
        Some(ActionMessage::Put(put)) => put.value.len(),
        Some(ActionMessage::Patch(patch)) => patch.value.len(),
        Some(ActionMessage::Delete(_)) | None => 0,
    }
}

/// Hashes what makes a request the same one: whose it is, with what decides what it sees and may write; how its operations are to be
/// applied; and these as they were sent, each with its length, which keeps them apart.
fn hash_request(principal: &Principal, operations: &[OperationMessage], puts: PutRules) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hash_principal(&mut hasher, principal);
    hasher.update([
        u8::from(puts.skip_equal),
        u8::from(puts.times == GivenTimes::Kept),
    ]);
    for operation in operations {
        hasher.update(operation.encode_length_delimited_to_vec());
    }
    hasher.finalize().into()
}

fn check_operations(
    feed: &Feed,
    caller: &Caller,
    operations: Vec<OperationMessage>,
    times: GivenTimes,
) -> Result<Vec<RecordOperation>, Refusal> {
    operations
        .into_iter()
        .map(|operation| check_operation(feed, caller, operation, times))
        .collect()
}

fn check_operation(
    feed: &Feed,
    caller: &Caller,
    operation: OperationMessage,
    times: GivenTimes,
) -> Result<RecordOperation, Refusal> {
    let name = TableName::new(operation.database, operation.table);
    check_may_write(caller, &name, operation.action.as_ref())?;
    check_key(&operation.key)?;
    let table = feed.get_table(&name)?;
    let condition = match operation
        .precondition
        .and_then(|precondition| precondition.condition)
    {
        None => Condition::None,
        Some(ConditionMessage::Exists(true)) => Condition::Exists,
        Some(ConditionMessage::Exists(false)) => Condition::Absent,
        Some(ConditionMessage::Revision(revision)) => Condition::Revision(Revision(revision)),
    };
    let action = match operation.action {
        Some(ActionMessage::Put(put)) => check_put(feed, caller, table, &operation.key, put.value, times)?,
        Some(ActionMessage::Delete(_)) => RecordAction::Delete,
        Some(ActionMessage::Patch(patch)) => check_patch(feed, &table, &patch.value)?,
        None => return Err(invalid("operations.action", "it is missing")),
    };
    Ok(RecordOperation {
        table: name,
        key: operation.key,
        condition,
        action,
    })
}

/// Denies what the role may not do whatever the record is, before anything is told of the table; the rest is decided where the record is
/// known (`commit::records`).
fn check_may_write(
    caller: &Caller,
    table: &TableName,
    action: Option<&ActionMessage>,
) -> Result<(), Refusal> {
    let may = |action| caller.check(action, Object::Table(table));
    match action {
        Some(ActionMessage::Put(_)) | None => {
            may(Action::Insert).or_else(|denied| may(Action::Update).map_err(|_| denied))?
        }
        Some(ActionMessage::Patch(_)) => may(Action::Update)?,
        Some(ActionMessage::Delete(_)) => may(Action::Delete)?,
    }
    Ok(())
}

fn check_put(
    feed: &Feed,
    caller: &Caller,
    table: Arc<CatalogTable>,
    key: &str,
    value: Bytes,
    times: GivenTimes,
) -> Result<RecordAction, Refusal> {
    let limit = feed.limits.record_bytes;
    let too_large = || Refusal::TooLarge {
        what: "the record",
        limit,
    };
    if value.len() > limit.saturating_add(FILLED_IN_BYTES) {
        return Err(too_large());
    }
    if TableWriter::new(&caller.role, &caller.principal, &table.name).limits_attributes() {
        // It may lack what its writer does not see, and what it may write is said before what fits: so it is checked where the record
        // before is known.
        return Ok(RecordAction::PartialPut {
            value,
            record_limit_bytes: limit,
        });
    }
    let record = check_record(&table, key, &value, times)?;
    // What the service filled in does not count, so that a record that was read can be put again.
    if value.len() > limit && record.written_bytes(&table, &|_| true) > limit {
        return Err(too_large());
    }
    Ok(RecordAction::Put { value, table, record })
}

/// A patch alone says only whether it is an object; the rest is checked on the record that it meets.
fn check_patch(feed: &Feed, table: &CatalogTable, value: &[u8]) -> Result<RecordAction, Refusal> {
    if value.len() > feed.limits.record_bytes {
        return Err(Refusal::TooLarge {
            what: "the patch",
            limit: feed.limits.record_bytes,
        });
    }
    Ok(RecordAction::Patch {
        patch: parse_object(table, value)?,
        size_bytes: value.len(),
        record_limit_bytes: feed.limits.record_bytes,
    })
}

/// Returns a table as the caller may see it: without the attributes that it may not read.
fn table_message(table: &CatalogTable, caller: &Caller) -> Table {
    let definition = &table.definition;
    let describe = |name: &str| caller.check(Action::Describe, Object::Attribute(&table.name, name));
    let shown = definition
        .attributes
        .iter()
        .filter(|attribute| describe(&attribute.name).is_ok());
    let attributes = shown.map(|attribute| Attribute {
        name: attribute.name.clone(),
        r#type: attribute.attribute_type.to_string(),
        description: attribute.description.clone(),
        primary_key: attribute.primary_key,
        created_time: attribute.created_time,
        updated_time: attribute.updated_time,
        indexed: attribute.indexed,
    });
    Table {
        database: definition.database.clone(),
        name: definition.table.clone(),
        path: definition.path.clone().unwrap_or_default(),
        description: definition.description.clone(),
        attributes: attributes.collect(),
        open: definition.open,
    }
}

#[tonic::async_trait]
impl FeedService for FeedApi {
    type WatchStream = WatchStream;

    async fn commit(&self, request: Request<CommitRequest>) -> Result<Response<CommitResponse>, Status> {
        FeedApi::commit(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        search::get(&self.feed, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn get_many(&self, request: Request<GetManyRequest>) -> Result<Response<GetManyResponse>, Status> {
        search::get_many(&self.feed, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn search(&self, request: Request<SearchRequest>) -> Result<Response<SearchResponse>, Status> {
        search::search(&self.feed, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn count(&self, request: Request<CountRequest>) -> Result<Response<CountResponse>, Status> {
        search::count(&self.feed, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn get_catalog(
        &self,
        request: Request<GetCatalogRequest>,
    ) -> Result<Response<GetCatalogResponse>, Status> {
        FeedApi::get_catalog(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<WatchStream>, Status> {
        FeedApi::watch(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn read_log(&self, request: Request<ReadLogRequest>) -> Result<Response<ReadLogResponse>, Status> {
        log::read_log(&self.feed, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn latest_for(
        &self,
        request: Request<LatestForRequest>,
    ) -> Result<Response<LatestForResponse>, Status> {
        log::latest_for(&self.feed, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }
}
