//! The calls of `feed.v1.Access`.

use std::sync::Arc;

use prost::Message;
use proto::feed::v1::server::access_server::Access as AccessService;
use proto::feed::v1::{
    AccessEntry, ReadAccessRequest, ReadAccessResponse, RecordAccessRequest, RecordAccessResponse,
};
use tonic::{Request, Response, Status};

use super::request::{admit, invalid};
use super::status::status;
use crate::access::{Action, Object, Operation};
use crate::access_log::AccessRecord;
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::store::{AccessQuery, StoreError};

/// The most entries of a call in either direction, and how many a page has if the request does not say (access.proto).
const ENTRIES_MAX: usize = 10_000;
const PAGE_ENTRIES_DEFAULT: usize = 1_000;
/// How large a page becomes.
const PAGE_LIMIT_BYTES: usize = 1024 * 1024;
/// How many entries one call looks at.
const SCAN_ENTRIES_MAX: usize = 50_000;
/// From here on the check of entries leaves the runtime: about half a millisecond of work.
const LONG_CHECK_BYTES: usize = 64 * 1024;

/// The service behind the calls.
pub(super) struct AccessApi {
    feed: Arc<Feed>,
}

impl AccessApi {
    pub(super) fn new(feed: Arc<Feed>) -> AccessApi {
        AccessApi { feed }
    }

    async fn record_access(&self, request: RecordAccessRequest) -> Result<RecordAccessResponse, Refusal> {
        admit(
            &self.feed,
            &request.feed,
            request.principal,
            Action::Call,
            Object::Operation(Operation::RecordAccess),
        )?;
        if request.entries.is_empty() {
            return Err(invalid("entries", "there is none"));
        }
        if request.entries.len() > ENTRIES_MAX {
            return Err(invalid("entries", "there are more than 10000"));
        }
        let size_bytes: usize = request.entries.iter().map(Message::encoded_len).sum();
        let records = if size_bytes < LONG_CHECK_BYTES {
            check_entries(request.entries)?
        } else {
            let check = tokio::task::spawn_blocking(move || check_entries(request.entries));
            check.await.unwrap_or(Err(Refusal::Unavailable))?
        };
        let last_number = self.feed.pipeline.record_access(records).await?;
        Ok(RecordAccessResponse { last_number })
    }

    async fn read_access(&self, request: ReadAccessRequest) -> Result<ReadAccessResponse, Refusal> {
        admit(
            &self.feed,
            &request.feed,
            request.principal,
            Action::Call,
            Object::Operation(Operation::ReadAccessLog),
        )?;
        let entry_limit = match usize::try_from(request.max_entries).unwrap_or(usize::MAX) {
            0 => PAGE_ENTRIES_DEFAULT,
            given if given > ENTRIES_MAX => return Err(invalid("max_entries", "it is above 10000")),
            given => given,
        };
        if request.from_time_ms < 0 || request.until_time_ms < 0 {
            return Err(invalid("from_time_ms, until_time_ms", "one of them is negative"));
        }
        let query = AccessQuery {
            after: request.after_number,
            entry_limit,
            limit_bytes: PAGE_LIMIT_BYTES,
            scan_limit: SCAN_ENTRIES_MAX,
            principal: request.by_principal,
            method: (!request.method.is_empty()).then_some(request.method),
            from_ms: (request.from_time_ms != 0).then_some(request.from_time_ms),
            until_ms: (request.until_time_ms != 0).then_some(request.until_time_ms),
        };
        let page = self
            .feed
            .reads
            .run(move |reader| reader.read_access(&query))
            .await?;
        let entries = page.entries.into_iter().map(|entry| {
            AccessEntry::decode(entry.encoded).map_err(|_| StoreError::Damaged {
                problem: "an entry of the access log that does not parse",
                revision: Revision(entry.number),
            })
        });
        Ok(ReadAccessResponse {
            entries: entries.collect::<Result<_, _>>()?,
            // Who asks for more than there is knows another log: it goes on at the end of this one.
            progress: page.progress.min(page.bounds.newest),
            newest: page.bounds.newest,
            oldest: page.bounds.oldest,
        })
    }
}

fn check_entries(entries: Vec<AccessEntry>) -> Result<Vec<AccessRecord>, Refusal> {
    entries.into_iter().map(AccessRecord::check).collect()
}

#[tonic::async_trait]
impl AccessService for AccessApi {
    async fn record_access(
        &self,
        request: Request<RecordAccessRequest>,
    ) -> Result<Response<RecordAccessResponse>, Status> {
        AccessApi::record_access(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn read_access(
        &self,
        request: Request<ReadAccessRequest>,
    ) -> Result<Response<ReadAccessResponse>, Status> {
        AccessApi::read_access(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }
}
