//! What the tests of rights share: a served service in roles mode, roles, and short ways to say common things.

use proto::feed::v1::access_client::AccessClient;
use proto::feed::v1::feed_client::FeedClient;
use proto::feed::v1::keys_client::KeysClient;
use proto::feed::v1::maintenance_client::MaintenanceClient;
use proto::feed::v1::precondition::Condition;
use proto::feed::v1::record_operation::Action;
use proto::feed::v1::sessions_client::SessionsClient;
use proto::feed::v1::{
    CommitRequest, CommitResponse, Delete, Entry, GetRequest, LatestForRequest, Patch, Precondition,
    Principal, Put, ReadLogRequest, RecordOperation, Target,
};
use tonic::Status;
use tonic::transport::Channel;

use crate::access::AccessMode;
use crate::api::tests::Served;
use crate::service::Service;
use crate::testing::{Bench, SDL};

/// May do everything with the table `Product` and call everything, but is no super_user.
pub(super) const FULL: &str = r#"{"operations":["watch","read_audit_log","record_access","read_access_log","touch_sessions","seal","get_status","compact","backup","verify"],
    "data":{"tables":{"Product":{"read":true,"insert":true,"update":true,"delete":true,"describe":true}}}}"#;
/// May do everything with its own records.
pub(super) const MINE: &str = r#"{"data":{"tables":{"Product":{"read":true,"insert":true,"update":true,"delete":true,
    "row_filter":{"conditions":[{"attribute":"owner","value":"$principal.name"}]}}}}}"#;
/// Does not see `secret`, may set it only when it makes a record, and sees but never writes `state`.
pub(super) const CLERK: &str = r#"{"data":{"tables":{"Product":{"read":true,"insert":true,"update":true,"attribute_permissions":[
    {"attribute_name":"secret","insert":true},{"attribute_name":"hidden"},{"attribute_name":"state","read":true}]},
    "Strict":{"read":true,"insert":true,"update":true,"attribute_permissions":[{"attribute_name":"name","insert":true}]}}}}"#;

pub(super) fn principal(name: &str, role: &str) -> Option<Principal> {
    Some(Principal {
        name: name.to_owned(),
        role: role.to_owned(),
        ..Principal::default()
    })
}

pub(super) fn root() -> Option<Principal> {
    principal("root", "super_user")
}

pub(super) fn operation(table: &str, key: &str, action: Action) -> RecordOperation {
    RecordOperation {
        database: "data".to_owned(),
        table: table.to_owned(),
        key: key.to_owned(),
        precondition: None,
        action: Some(action),
    }
}

pub(super) fn put(key: &str, value: &str) -> RecordOperation {
    let value = value.to_owned().into();
    operation("Product", key, Action::Put(Put { value }))
}

pub(super) fn patch(key: &str, value: &str) -> RecordOperation {
    let value = value.to_owned().into();
    operation("Product", key, Action::Patch(Patch { value }))
}

pub(super) fn delete(key: &str) -> RecordOperation {
    operation("Product", key, Action::Delete(Delete {}))
}

/// The same operation on another table.
pub(super) fn on_table(table: &str, operation: RecordOperation) -> RecordOperation {
    RecordOperation {
        table: table.to_owned(),
        ..operation
    }
}

pub(super) fn on_condition(operation: RecordOperation, condition: Condition) -> RecordOperation {
    RecordOperation {
        precondition: Some(Precondition {
            condition: Some(condition),
        }),
        ..operation
    }
}

/// A served service with clients for each of its parts.
pub(super) struct Stage {
    pub(super) served: Served,
    pub(super) feed: FeedClient<Channel>,
    pub(super) sessions: SessionsClient<Channel>,
    pub(super) access: AccessClient<Channel>,
    pub(super) maintenance: MaintenanceClient<Channel>,
    pub(super) keys: KeysClient<Channel>,
}

impl Stage {
    pub(super) async fn start(bench: &Bench) -> Stage {
        Stage::of(bench.open().await).await
    }

    /// Serves a service.
    pub(super) async fn of(service: Service) -> Stage {
        let served = Served::start(service).await;
        let address = format!("http://{}", served.address);
        Stage {
            feed: served.feed().await,
            sessions: served.sessions().await,
            access: AccessClient::connect(address.clone()).await.unwrap(),
            maintenance: MaintenanceClient::connect(address.clone()).await.unwrap(),
            keys: KeysClient::connect(address).await.unwrap(),
            served,
        }
    }

    /// Starts one in roles mode, with these roles.
    pub(super) async fn with_roles(bench: &mut Bench, roles: &[(&str, &str)]) -> Stage {
        Stage::with_schema(bench, SDL, roles).await
    }

    /// Starts one in roles mode, with tables of its own and these roles.
    pub(super) async fn with_schema(bench: &mut Bench, sdl: &str, roles: &[(&str, &str)]) -> Stage {
        bench.access = AccessMode::Roles;
        let mut stage = Stage::of(bench.try_open(sdl).await.unwrap()).await;
        for (name, role) in roles {
            stage.set("role", name, role).await;
        }
        stage
    }

    /// Writes a role or a user.
    pub(super) async fn set(&mut self, table: &str, key: &str, value: &str) {
        let value = value.to_owned().into();
        let operation = RecordOperation {
            database: "system".to_owned(),
            ..operation(table, key, Action::Put(Put { value }))
        };
        self.commit(root(), vec![operation]).await.unwrap();
    }

    pub(super) async fn commit(
        &mut self,
        principal: Option<Principal>,
        operations: Vec<RecordOperation>,
    ) -> Result<CommitResponse, Status> {
        let request = CommitRequest {
            principal,
            operations,
            ..CommitRequest::default()
        };
        Ok(self.feed.commit(request).await?.into_inner())
    }

    /// The record as text, and its revision.
    pub(super) async fn get(
        &mut self,
        principal: Option<Principal>,
        table: &str,
        key: &str,
    ) -> Option<(u64, String)> {
        let request = GetRequest {
            principal,
            database: "data".to_owned(),
            table: table.to_owned(),
            key: key.to_owned(),
            ..GetRequest::default()
        };
        let record = self.feed.get(request).await.unwrap().into_inner().record?;
        Some((record.revision, String::from_utf8(record.value.to_vec()).unwrap()))
    }

    pub(super) async fn read_log(
        &mut self,
        principal: Option<Principal>,
        include_values: bool,
    ) -> Vec<Entry> {
        let request = ReadLogRequest {
            principal,
            include_values,
            targets: vec![target(None)],
            ..ReadLogRequest::default()
        };
        self.feed.read_log(request).await.unwrap().into_inner().entries
    }

    pub(super) async fn latest(&mut self, principal: Option<Principal>, keys: &[Option<&str>]) -> Vec<u64> {
        let request = LatestForRequest {
            principal,
            targets: keys.iter().map(|key| target(*key)).collect(),
            ..LatestForRequest::default()
        };
        self.feed
            .latest_for(request)
            .await
            .unwrap()
            .into_inner()
            .revisions
    }
}

pub(super) fn target(key: Option<&str>) -> Target {
    Target {
        database: "data".to_owned(),
        table: "Product".to_owned(),
        key: key.map(str::to_owned),
    }
}
