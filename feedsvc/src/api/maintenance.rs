//! The calls of `feed.v1.Maintenance`.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::feed::v1::server::maintenance_server::Maintenance as MaintenanceService;
use proto::feed::v1::{
    BackupRequest, BackupResponse, CompactRequest, CompactResponse, Finding as FindingMessage, Principal,
    StatusRequest, StatusResponse, TableStatus, VerifyRequest, VerifyResponse,
};
use tonic::{Request, Response, Status};
use tracing::info;

use super::request::{admit, invalid};
use super::status::status;
use crate::access::{Action, Object, Operation};
use crate::commit::Writability;
use crate::feed::Feed;
use crate::maintenance::{retention, whole_read};
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::store::{Finding, Place};

/// The service behind the calls.
pub(super) struct MaintenanceApi {
    feed: Arc<Feed>,
}

impl MaintenanceApi {
    pub(super) fn new(feed: Arc<Feed>) -> MaintenanceApi {
        MaintenanceApi { feed }
    }

    /// Checks that the principal may call an operation.
    fn admit(&self, name: &str, principal: Option<Principal>, operation: Operation) -> Result<(), Refusal> {
        admit(
            &self.feed,
            name,
            principal,
            Action::Call,
            Object::Operation(operation),
        )?;
        Ok(())
    }

    async fn status(&self, request: StatusRequest) -> Result<StatusResponse, Refusal> {
        self.admit(&request.feed, request.principal, Operation::GetStatus)?;
        let store = self.feed.reads.run(|reader| reader.status()).await?;
        let writability = self.feed.writability.borrow().clone();
        let (ring_bytes, ring_oldest) = self.feed.ring.usage();
        let tables = store.tables.into_iter().map(|(name, records)| TableStatus {
            database: name.database,
            table: name.table,
            records,
        });
        Ok(StatusResponse {
            store_id: self.feed.store_id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            head: store.bounds.head.0,
            oldest: store.bounds.oldest.0,
            commit_time_ms: store.commit_time_ms.unwrap_or_default(),
            writable: writability == Writability::Writable,
            problem: writability.problem().to_owned(),
            store_bytes: store.store_bytes,
            free_bytes: store.free_bytes,
            log_bytes: store.log_bytes,
            sessions: store.sessions,
            subscriptions: store.subscriptions,
            watches: self.feed.watch_count.load(Ordering::Relaxed),
            ring_bytes: ring_bytes as u64,
            ring_oldest: ring_oldest.0,
            tables: tables.collect(),
        })
    }

    async fn compact(&self, request: CompactRequest) -> Result<CompactResponse, Refusal> {
        self.admit(&request.feed, request.principal, Operation::Compact)?;
        let until = Revision(request.until_revision);
        if until > self.feed.ring.head() {
            return Err(invalid("until_revision", "it is above the head"));
        }
        let (oldest, dropped) = retention::compact(&self.feed, until).await?;
        info!(entries = dropped, revision = oldest.0, "the log was compacted");
        Ok(CompactResponse {
            oldest: oldest.0,
            dropped,
        })
    }

    async fn backup(&self, request: BackupRequest) -> Result<BackupResponse, Refusal> {
        self.admit(&request.feed, request.principal, Operation::Backup)?;
        let path = PathBuf::from(request.path);
        let is_file_path =
            path.is_absolute() && path.file_name().is_some() && !path.as_os_str().as_bytes().contains(&0);
        if !is_file_path {
            let problem = "it is no absolute path of a file on the service's machine";
            return Err(Refusal::BackupPlace { path, problem });
        }
        let copied = whole_read::back_up(&self.feed, path.clone()).await?;
        info!(file = %path.display(), revision = copied.head.0, "made a backup");
        Ok(BackupResponse {
            head: copied.head.0,
            bytes: copied.size_bytes,
        })
    }

    async fn verify(&self, request: VerifyRequest) -> Result<VerifyResponse, Refusal> {
        self.admit(&request.feed, request.principal, Operation::Verify)?;
        let verification = whole_read::verify(&self.feed).await?;
        Ok(VerifyResponse {
            findings: verification.findings.into_iter().map(finding_message).collect(),
            entries: verification.entries,
            records: verification.records,
            access_entries: verification.access_entries,
            head: verification.head.0,
        })
    }
}

fn finding_message(finding: Finding) -> FindingMessage {
    let message = FindingMessage {
        problem: finding.problem,
        ..FindingMessage::default()
    };
    match finding.place {
        Place::Log { revision } => FindingMessage {
            r#where: "log".to_owned(),
            revision: revision.0,
            ..message
        },
        Place::Table { table, key } => FindingMessage {
            r#where: "table".to_owned(),
            database: table.database,
            table: table.table,
            key,
            ..message
        },
        Place::AccessLog { number } => FindingMessage {
            r#where: "access_log".to_owned(),
            revision: number,
            ..message
        },
        Place::Database => FindingMessage {
            r#where: "database".to_owned(),
            ..message
        },
    }
}

#[tonic::async_trait]
impl MaintenanceService for MaintenanceApi {
    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        MaintenanceApi::status(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn compact(&self, request: Request<CompactRequest>) -> Result<Response<CompactResponse>, Status> {
        MaintenanceApi::compact(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn backup(&self, request: Request<BackupRequest>) -> Result<Response<BackupResponse>, Status> {
        MaintenanceApi::backup(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn verify(&self, request: Request<VerifyRequest>) -> Result<Response<VerifyResponse>, Status> {
        MaintenanceApi::verify(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }
}
