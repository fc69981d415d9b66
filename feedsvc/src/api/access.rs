//! The calls of `feed.v1.Access`.

use std::sync::Arc;

use proto::feed::v1::server::access_server::Access as AccessService;
use proto::feed::v1::{ReadAccessRequest, ReadAccessResponse, RecordAccessRequest, RecordAccessResponse};
use tonic::{Request, Response, Status};

use crate::feed::Feed;

/// The service behind the calls.
pub(super) struct AccessApi {
    _feed: Arc<Feed>,
}

impl AccessApi {
    pub(super) fn new(feed: Arc<Feed>) -> AccessApi {
        AccessApi { _feed: feed }
    }
}

#[tonic::async_trait]
impl AccessService for AccessApi {
    async fn record_access(
        &self,
        _request: Request<RecordAccessRequest>,
    ) -> Result<Response<RecordAccessResponse>, Status> {
        Err(Status::unimplemented("not served yet"))
    }

    async fn read_access(
        &self,
        _request: Request<ReadAccessRequest>,
    ) -> Result<Response<ReadAccessResponse>, Status> {
        Err(Status::unimplemented("not served yet"))
    }
}
