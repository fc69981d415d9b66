//! The calls of `feed.v1.Maintenance`.

use std::sync::Arc;

use proto::feed::v1::server::maintenance_server::Maintenance as MaintenanceService;
use proto::feed::v1::{
    BackupRequest, BackupResponse, CompactRequest, CompactResponse, StatusRequest, StatusResponse,
    VerifyRequest, VerifyResponse,
};
use tonic::{Request, Response, Status};

use crate::feed::Feed;

/// The service behind the calls.
pub(super) struct MaintenanceApi {
    _feed: Arc<Feed>,
}

impl MaintenanceApi {
    pub(super) fn new(feed: Arc<Feed>) -> MaintenanceApi {
        MaintenanceApi { _feed: feed }
    }
}

#[tonic::async_trait]
impl MaintenanceService for MaintenanceApi {
    async fn status(&self, _request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        Err(Status::unimplemented("not served yet"))
    }

    async fn compact(&self, _request: Request<CompactRequest>) -> Result<Response<CompactResponse>, Status> {
        Err(Status::unimplemented("not served yet"))
    }

    async fn backup(&self, _request: Request<BackupRequest>) -> Result<Response<BackupResponse>, Status> {
        Err(Status::unimplemented("not served yet"))
    }

    async fn verify(&self, _request: Request<VerifyRequest>) -> Result<Response<VerifyResponse>, Status> {
        Err(Status::unimplemented("not served yet"))
    }
}
