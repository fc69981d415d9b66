//! The calls of `feed.v1.Feed`.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use proto::feed::v1::precondition::Condition as ConditionMessage;
use proto::feed::v1::record_operation::Action as ActionMessage;
use proto::feed::v1::server::feed_server::Feed as FeedService;
use proto::feed::v1::{
    Attribute, CommitRequest, CommitResponse, CountRequest, CountResponse, GetCatalogRequest,
    GetCatalogResponse, GetRequest, GetResponse, LatestForRequest, LatestForResponse, ReadLogRequest,
    ReadLogResponse, Record, RecordOperation as OperationMessage, Table, WatchRequest,
};
use sha2::{Digest, Sha256};
use tonic::{Request, Response, Status};

use super::request::{admit, check_key, find_targets, invalid};
use super::status::status;
use super::watch::WatchStream;
use crate::access::{Action, Object, decide};
use crate::catalog::{CatalogTable, TableId, TableName, check_record};
use crate::commit::{Condition, RecordAction, RecordCommit, RecordOperation, RequestKey};
use crate::entry::{checked_traceparent, decode_with_values};
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::store::{LogQuery, StoreError};

/// The most operations of a commit (feed.proto).
const OPERATIONS_MAX: usize = 100_000;
/// The longest idempotency key (feed.proto).
const IDEMPOTENCY_KEY_LIMIT_BYTES: usize = 200;
/// The most targets of a call (feed.proto).
const TARGETS_MAX: usize = 10_000;
/// The most entries of a page of the log, and how many it has if the request does not say (feed.proto).
const PAGE_ENTRIES_MAX: u32 = 10_000;
const PAGE_ENTRIES_DEFAULT: u32 = 1_000;
/// How large a page of the log becomes.
const PAGE_LIMIT_BYTES: usize = 1024 * 1024;
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
        let principal = admit(
            &self.feed,
            &request.feed,
            request.principal,
            Action::Write,
            Object::Feed,
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
        let request_key = (!request.idempotency_key.is_empty()).then(|| RequestKey {
            request_hash: hash_operations(&request.operations),
            key: request.idempotency_key,
        });

        let operations = if size_bytes < LONG_CHECK_BYTES {
            check_operations(&self.feed, &principal, request.operations)?
        } else {
            let (feed, principal) = (Arc::clone(&self.feed), principal.clone());
            let check =
                tokio::task::spawn_blocking(move || check_operations(&feed, &principal, request.operations));
            check.await.unwrap_or(Err(Refusal::Unavailable))?
        };
        let commit = RecordCommit {
            traceparent: checked_traceparent(&request.traceparent).to_owned(),
            principal,
            operations,
            request_key,
        };
        self.feed.pipeline.commit_records(commit).await
    }

    async fn get(&self, request: GetRequest) -> Result<GetResponse, Refusal> {
        let name = TableName::new(request.database, request.table);
        admit(
            &self.feed,
            &request.feed,
            request.principal,
            Action::Read,
            Object::Table(&name),
        )?;
        check_key(&request.key)?;
        let table = self.readable_table(&name)?;
        let key = request.key.clone();
        let found = self
            .feed
            .reads
            .run(move |reader| reader.find_record(table, &key))
            .await?;
        Ok(GetResponse {
            record: found.value.map(|record| Record {
                key: request.key,
                revision: record.revision.0,
                value: record.value,
            }),
            revision: found.revision.0,
        })
    }

    async fn count(&self, request: CountRequest) -> Result<CountResponse, Refusal> {
        let name = TableName::new(request.database, request.table);
        admit(
            &self.feed,
            &request.feed,
            request.principal,
            Action::Read,
            Object::Table(&name),
        )?;
        let table = self.readable_table(&name)?;
        let count = self
            .feed
            .reads
            .run(move |reader| reader.count_records(table))
            .await?;
        Ok(CountResponse {
            count: count.value,
            revision: count.revision.0,
        })
    }

    async fn get_catalog(&self, request: GetCatalogRequest) -> Result<GetCatalogResponse, Refusal> {
        admit(
            &self.feed,
            &request.feed,
            request.principal,
            Action::Read,
            Object::Feed,
        )?;
        // The head first: the catalogue is published before it, so it has everything up to this head.
        let head = self.feed.ring.head();
        let catalog = self.feed.catalog();
        Ok(GetCatalogResponse {
            tables: catalog.tables().map(|table| table_message(table)).collect(),
            revision: head.max(catalog.revision).0,
        })
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream, Refusal> {
        admit(
            &self.feed,
            &request.feed,
            request.principal.clone(),
            Action::Read,
            Object::Feed,
        )?;
        WatchStream::open(Arc::clone(&self.feed), request).await
    }

    async fn read_log(&self, request: ReadLogRequest) -> Result<ReadLogResponse, Refusal> {
        admit(
            &self.feed,
            &request.feed,
            request.principal,
            Action::Read,
            Object::Feed,
        )?;
        if request.targets.len() > TARGETS_MAX {
            return Err(invalid("targets", "there are more than 10000"));
        }
        if request.max_entries > PAGE_ENTRIES_MAX {
            return Err(invalid("max_entries", "it is above 10000"));
        }
        let max_entries = if request.max_entries == 0 {
            PAGE_ENTRIES_DEFAULT
        } else {
            request.max_entries
        };
        let targets = (!request.targets.is_empty()).then(|| {
            find_targets(&self.feed.catalog(), request.targets)
                .into_iter()
                .flatten()
                .collect()
        });
        let query = LogQuery {
            after: Revision(request.after_revision),
            until: until(request.until_revision),
            entry_limit: usize::try_from(max_entries).unwrap_or(usize::MAX),
            limit_bytes: PAGE_LIMIT_BYTES,
            with_values: request.include_values,
            targets,
        };
        let page = self.feed.reads.run(move |reader| reader.read_log(&query)).await?;
        let bounds = page.bounds;
        let entries = page.entries.into_iter().map(|entry| {
            decode_with_values(&entry.encoded, entry.before, entry.after).map_err(|_| StoreError::Damaged {
                problem: "an entry that does not parse",
                revision: entry.revision,
            })
        });
        Ok(ReadLogResponse {
            entries: entries.collect::<Result<_, _>>()?,
            progress: page.progress.0,
            head: bounds.head.0,
            oldest: bounds.oldest.0,
        })
    }

    async fn latest_for(&self, request: LatestForRequest) -> Result<LatestForResponse, Refusal> {
        admit(
            &self.feed,
            &request.feed,
            request.principal,
            Action::Read,
            Object::Feed,
        )?;
        if request.targets.len() > TARGETS_MAX {
            return Err(invalid("targets", "there are more than 10000"));
        }
        let targets = find_targets(&self.feed.catalog(), request.targets);
        let (after, until) = (Revision(request.after_revision), until(request.until_revision));
        let latest = self
            .feed
            .reads
            .run(move |reader| reader.find_latest(&targets, after, until))
            .await?;
        Ok(LatestForResponse {
            revisions: latest.value.into_iter().map(|revision| revision.0).collect(),
            until_revision: latest.revision.0,
        })
    }

    /// Returns the number of a table of the catalogue, or of one of the service's own.
    fn readable_table(&self, name: &TableName) -> Result<TableId, Refusal> {
        let own = (*name == TableName::system_table())
            .then(|| self.feed.catalog().find_id(name))
            .flatten();
        match own {
            Some(id) => Ok(id),
            None => Ok(self.feed.get_table(name)?.id),
        }
    }
}

fn until(revision: u64) -> Option<Revision> {
    (revision > 0).then_some(Revision(revision))
}

fn value_bytes(operation: &OperationMessage) -> usize {
    match &operation.action {
        Some(ActionMessage::Put(put)) => put.value.len(),
        Some(ActionMessage::Patch(patch)) => patch.value.len(),
        Some(ActionMessage::Delete(_)) | None => 0,
    }
}

/// Hashes operations as they were sent; each with its length, which keeps them apart.
fn hash_operations(operations: &[OperationMessage]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for operation in operations {
        hasher.update(operation.encode_length_delimited_to_vec());
    }
    hasher.finalize().into()
}

fn check_operations(
    feed: &Feed,
    principal: &str,
    operations: Vec<OperationMessage>,
) -> Result<Vec<RecordOperation>, Refusal> {
    operations
        .into_iter()
        .map(|operation| check_operation(feed, principal, operation))
        .collect()
}

fn check_operation(
    feed: &Feed,
    principal: &str,
    operation: OperationMessage,
) -> Result<RecordOperation, Refusal> {
    let name = TableName::new(operation.database, operation.table);
    decide(principal, Action::Write, Object::Table(&name))?;
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
        Some(ActionMessage::Put(put)) => check_put(feed, table, &operation.key, put.value)?,
        Some(ActionMessage::Delete(_)) => RecordAction::Delete,
        Some(ActionMessage::Patch(_)) => return Err(invalid("operations.patch", "it is not served yet")),
        None => return Err(invalid("operations.action", "it is missing")),
    };
    Ok(RecordOperation {
        table: name,
        key: operation.key,
        condition,
        action,
    })
}

fn check_put(
    feed: &Feed,
    table: Arc<CatalogTable>,
    key: &str,
    value: Bytes,
) -> Result<RecordAction, Refusal> {
    if value.len() > feed.limits.record_bytes {
        return Err(Refusal::TooLarge {
            what: "the record",
            limit: feed.limits.record_bytes,
        });
    }
    let record = check_record(&table, key, &value)?;
    Ok(RecordAction::Put { value, table, record })
}

fn table_message(table: &CatalogTable) -> Table {
    let definition = &table.definition;
    let attributes = definition.attributes.iter().map(|attribute| Attribute {
        name: attribute.name.clone(),
        r#type: attribute.attribute_type.to_string(),
        description: attribute.description.clone(),
        primary_key: attribute.primary_key,
        created_time: attribute.created_time,
        updated_time: attribute.updated_time,
        indexed: false,
    });
    Table {
        database: definition.database.clone(),
        name: definition.table.clone(),
        path: definition.path.clone().unwrap_or_default(),
        description: definition.description.clone(),
        attributes: attributes.collect(),
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
        FeedApi::get(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn get_many(
        &self,
        _request: Request<proto::feed::v1::GetManyRequest>,
    ) -> Result<Response<proto::feed::v1::GetManyResponse>, Status> {
        Err(Status::unimplemented("not served yet"))
    }

    async fn search(
        &self,
        _request: Request<proto::feed::v1::SearchRequest>,
    ) -> Result<Response<proto::feed::v1::SearchResponse>, Status> {
        Err(Status::unimplemented("not served yet"))
    }

    async fn count(&self, request: Request<CountRequest>) -> Result<Response<CountResponse>, Status> {
        FeedApi::count(self, request.into_inner())
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
        FeedApi::read_log(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn latest_for(
        &self,
        request: Request<LatestForRequest>,
    ) -> Result<Response<LatestForResponse>, Status> {
        FeedApi::latest_for(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }
}
