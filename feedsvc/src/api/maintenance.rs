//! The calls of `feed.v1.Maintenance`.

use std::convert::Infallible;
use std::sync::Arc;

use proto::feed::v1::server::maintenance_server::Maintenance as MaintenanceService;
use proto::feed::v1::{
    BackupRequest, BackupResponse, CompactRequest, CompactResponse, Principal, StatusRequest, StatusResponse,
    VerifyRequest, VerifyResponse,
};
use tonic::{Request, Response, Status};

use super::request::admit;
use super::status::status;
use crate::access::{Action, Object, Operation};
use crate::feed::Feed;

/// The service behind the calls.
pub(super) struct MaintenanceApi {
    feed: Arc<Feed>,
}

impl MaintenanceApi {
    pub(super) fn new(feed: Arc<Feed>) -> MaintenanceApi {
        MaintenanceApi { feed }
    }

    /// Admits a call, which is not served yet.
    fn admit(
        &self,
        feed: &str,
        principal: Option<Principal>,
        operation: Operation,
    ) -> Result<Infallible, Status> {
        let admitted = admit(
            &self.feed,
            feed,
            principal,
            Action::Call,
            Object::Operation(operation),
        );
        admitted.map_err(status)?;
        Err(Status::unimplemented("not served yet"))
    }
}

#[tonic::async_trait]
impl MaintenanceService for MaintenanceApi {
    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let request = request.into_inner();
        match self.admit(&request.feed, request.principal, Operation::GetStatus)? {}
    }

    async fn compact(&self, request: Request<CompactRequest>) -> Result<Response<CompactResponse>, Status> {
        let request = request.into_inner();
        match self.admit(&request.feed, request.principal, Operation::Compact)? {}
    }

    async fn backup(&self, request: Request<BackupRequest>) -> Result<Response<BackupResponse>, Status> {
        let request = request.into_inner();
        match self.admit(&request.feed, request.principal, Operation::Backup)? {}
    }

    async fn verify(&self, request: Request<VerifyRequest>) -> Result<Response<VerifyResponse>, Status> {
        let request = request.into_inner();
        match self.admit(&request.feed, request.principal, Operation::Verify)? {}
    }
}
