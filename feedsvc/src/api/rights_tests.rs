//! Tests of rights over real connections: which call a role may make, what it sees, what it may write, and roles that change meanwhile.

use proto::Reason;
use proto::feed::v1::access_client::AccessClient;
use proto::feed::v1::entry::Body;
use proto::feed::v1::feed_client::FeedClient;
use proto::feed::v1::keys_client::KeysClient;
use proto::feed::v1::maintenance_client::MaintenanceClient;
use proto::feed::v1::precondition::Condition;
use proto::feed::v1::record_operation::Action;
use proto::feed::v1::sessions_client::SessionsClient;
use proto::feed::v1::{
    AccessEntry, BackupRequest, CloseStreamRequest, CommitRequest, CommitResponse, CompactRequest,
    CountRequest, CreateSessionRequest, Delete, DeleteSessionRequest, Entry, GetCatalogRequest,
    GetManyRequest, GetRequest, GetSealingKeysRequest, GetSessionRequest, LatestForRequest,
    OpenStreamRequest, Operation, Patch, Precondition, Principal, Put, ReadAccessRequest, ReadLogRequest,
    RecordAccessRequest, RecordOperation, SearchRequest, SetLogLevelRequest, SortStep, StatusRequest,
    SubscribeRequest, TableFilter, Target, TouchSessionsRequest, UnsubscribeRequest, VerifyRequest,
    WatchRequest,
};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::tests::{Served, check_refused};
use crate::access::AccessMode;
use crate::testing::Bench;

/// May do everything with the table `Product` and call everything, but is no super_user.
const FULL: &str = r#"{"operations":["watch","read_audit_log","record_access","read_access_log","touch_sessions","seal","get_status","compact","backup","verify"],
    "data":{"tables":{"Product":{"read":true,"insert":true,"update":true,"delete":true,"describe":true}}}}"#;
/// May do everything with its own records.
const MINE: &str = r#"{"data":{"tables":{"Product":{"read":true,"insert":true,"update":true,"delete":true,
    "row_filter":{"conditions":[{"attribute":"owner","value":"$principal.name"}]}}}}}"#;
/// Does not see `secret`, may set it only when it makes a record, and sees but never writes `state`.
const CLERK: &str = r#"{"data":{"tables":{"Product":{"read":true,"insert":true,"update":true,"attribute_permissions":[
    {"attribute_name":"secret","insert":true},{"attribute_name":"hidden"},{"attribute_name":"state","read":true}]},
    "Strict":{"read":true,"insert":true,"update":true,"attribute_permissions":[{"attribute_name":"name","insert":true}]}}}}"#;

fn principal(name: &str, role: &str) -> Option<Principal> {
    Some(Principal {
        name: name.to_owned(),
        role: role.to_owned(),
        ..Principal::default()
    })
}

fn root() -> Option<Principal> {
    principal("root", "super_user")
}

fn operation(table: &str, key: &str, action: Action) -> RecordOperation {
    RecordOperation {
        database: "data".to_owned(),
        table: table.to_owned(),
        key: key.to_owned(),
        precondition: None,
        action: Some(action),
    }
}

fn put(key: &str, value: &str) -> RecordOperation {
    let value = value.to_owned().into();
    operation("Product", key, Action::Put(Put { value }))
}

fn patch(key: &str, value: &str) -> RecordOperation {
    let value = value.to_owned().into();
    operation("Product", key, Action::Patch(Patch { value }))
}

fn delete(key: &str) -> RecordOperation {
    operation("Product", key, Action::Delete(Delete {}))
}

fn on_condition(operation: RecordOperation, condition: Condition) -> RecordOperation {
    RecordOperation {
        precondition: Some(Precondition {
            condition: Some(condition),
        }),
        ..operation
    }
}

/// A served service with clients for each of its parts.
struct Stage {
    served: Served,
    feed: FeedClient<Channel>,
    sessions: SessionsClient<Channel>,
    access: AccessClient<Channel>,
    maintenance: MaintenanceClient<Channel>,
    keys: KeysClient<Channel>,
}

impl Stage {
    async fn start(bench: &Bench) -> Stage {
        let served = Served::start(bench.open().await).await;
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
    async fn with_roles(bench: &mut Bench, roles: &[(&str, &str)]) -> Stage {
        bench.access = AccessMode::Roles;
        let mut stage = Stage::start(bench).await;
        for (name, role) in roles {
            stage.set("role", name, role).await;
        }
        stage
    }

    /// Writes a role or a user.
    async fn set(&mut self, table: &str, key: &str, value: &str) {
        let value = value.to_owned().into();
        let operation = RecordOperation {
            database: "system".to_owned(),
            ..operation(table, key, Action::Put(Put { value }))
        };
        self.commit(root(), vec![operation]).await.unwrap();
    }

    async fn commit(
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
    async fn get(&mut self, principal: Option<Principal>, table: &str, key: &str) -> Option<(u64, String)> {
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

    async fn read_log(&mut self, principal: Option<Principal>, include_values: bool) -> Vec<Entry> {
        let request = ReadLogRequest {
            principal,
            include_values,
            targets: vec![target(None)],
            ..ReadLogRequest::default()
        };
        self.feed.read_log(request).await.unwrap().into_inner().entries
    }

    async fn latest(&mut self, principal: Option<Principal>, keys: &[Option<&str>]) -> Vec<u64> {
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

fn target(key: Option<&str>) -> Target {
    Target {
        database: "data".to_owned(),
        table: "Product".to_owned(),
        key: key.map(str::to_owned),
    }
}

/// One call, as somebody makes it.
#[derive(Clone, Copy, Debug)]
enum Call {
    Put,
    Patch,
    Delete,
    PutRole,
    PutTable,
    Get,
    GetRole,
    GetMany,
    Search,
    Count,
    GetCatalog,
    WatchAll,
    WatchTable,
    WatchSessions,
    ReadLogAll,
    ReadLogTable,
    LatestFor,
    LatestForRole,
    CreateSession,
    GetSession,
    OpenStream,
    Subscribe,
    Unsubscribe,
    SetLogLevel,
    CloseStream,
    DeleteSession,
    Touch,
    GetSealingKeys,
    RecordAccess,
    ReadAccess,
    GetStatus,
    Compact,
    Backup,
    Verify,
}

/// Who may make a call, besides super_users and everybody in open mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowed {
    Everybody,
    WithTheRight,
    SuperUsersOnly,
    Nobody,
}

const CALLS: &[(Call, Allowed)] = &[
    (Call::Put, Allowed::WithTheRight),
    (Call::Patch, Allowed::WithTheRight),
    (Call::Delete, Allowed::WithTheRight),
    (Call::PutRole, Allowed::SuperUsersOnly),
    (Call::PutTable, Allowed::Nobody),
    (Call::Get, Allowed::WithTheRight),
    (Call::GetRole, Allowed::SuperUsersOnly),
    (Call::GetMany, Allowed::WithTheRight),
    (Call::Search, Allowed::WithTheRight),
    (Call::Count, Allowed::WithTheRight),
    (Call::GetCatalog, Allowed::Everybody),
    (Call::WatchAll, Allowed::WithTheRight),
    (Call::WatchTable, Allowed::WithTheRight),
    (Call::WatchSessions, Allowed::WithTheRight),
    (Call::ReadLogAll, Allowed::WithTheRight),
    (Call::ReadLogTable, Allowed::WithTheRight),
    (Call::LatestFor, Allowed::WithTheRight),
    // `read_audit_log` is everything, roles too.
    (Call::LatestForRole, Allowed::WithTheRight),
    (Call::CreateSession, Allowed::Everybody),
    (Call::GetSession, Allowed::Everybody),
    (Call::OpenStream, Allowed::Everybody),
    (Call::Subscribe, Allowed::Everybody),
    (Call::Unsubscribe, Allowed::Everybody),
    (Call::SetLogLevel, Allowed::Everybody),
    (Call::CloseStream, Allowed::Everybody),
    (Call::DeleteSession, Allowed::Everybody),
    (Call::Touch, Allowed::Everybody),
    (Call::GetSealingKeys, Allowed::WithTheRight),
    (Call::RecordAccess, Allowed::WithTheRight),
    (Call::ReadAccess, Allowed::WithTheRight),
    (Call::GetStatus, Allowed::WithTheRight),
    (Call::Compact, Allowed::WithTheRight),
    (Call::Backup, Allowed::WithTheRight),
    (Call::Verify, Allowed::WithTheRight),
];

impl Stage {
    async fn call(&mut self, call: Call, principal: Option<Principal>) -> Result<(), Status> {
        let (database, table) = ("data".to_owned(), "Product".to_owned());
        let system = |operation: RecordOperation| RecordOperation {
            database: "system".to_owned(),
            ..operation
        };
        let role_target = Target {
            database: "system".to_owned(),
            table: "role".to_owned(),
            key: None,
        };
        let filter = |database: &str, table: &str| TableFilter {
            database: database.to_owned(),
            table: table.to_owned(),
        };
        let watch = |tables| WatchRequest {
            principal: principal.clone(),
            from_head: true,
            tables,
            ..WatchRequest::default()
        };
        let key = "k".to_owned();
        let role = principal.clone().unwrap_or_default().role;
        let session_id = format!("session-of-{role}-0123456789");
        match call {
            Call::Put => self.commit(principal, vec![put("k", "{}")]).await.map(drop),
            Call::Patch => {
                let patched = vec![patch("k", r#"{"n":1}"#)];
                self.commit(principal, patched).await.map(drop)
            }
            Call::Delete => self.commit(principal, vec![delete("k")]).await.map(drop),
            Call::PutRole | Call::PutTable => {
                let table = if matches!(call, Call::PutRole) {
                    "role"
                } else {
                    "table"
                };
                let value = "{}".into();
                let operation = system(operation(table, "k", Action::Put(Put { value })));
                self.commit(principal, vec![operation]).await.map(drop)
            }
            Call::Get => {
                let request = GetRequest {
                    principal,
                    database,
                    table,
                    key,
                    ..GetRequest::default()
                };
                self.feed.get(request).await.map(drop)
            }
            Call::GetRole => {
                let (database, table) = ("system".to_owned(), "role".to_owned());
                let request = GetRequest {
                    principal,
                    database,
                    table,
                    key,
                    ..GetRequest::default()
                };
                self.feed.get(request).await.map(drop)
            }
            Call::GetMany => {
                let request = GetManyRequest {
                    principal,
                    database,
                    table,
                    keys: vec![key],
                    ..GetManyRequest::default()
                };
                self.feed.get_many(request).await.map(drop)
            }
            Call::Search => {
                let request = SearchRequest {
                    principal,
                    database,
                    table,
                    ..SearchRequest::default()
                };
                self.feed.search(request).await.map(drop)
            }
            Call::Count => {
                let request = CountRequest {
                    principal,
                    database,
                    table,
                    ..CountRequest::default()
                };
                self.feed.count(request).await.map(drop)
            }
            Call::GetCatalog => {
                let request = GetCatalogRequest {
                    principal,
                    ..GetCatalogRequest::default()
                };
                self.feed.get_catalog(request).await.map(drop)
            }
            Call::WatchAll => self.feed.watch(watch(vec![])).await.map(drop),
            Call::WatchTable => self
                .feed
                .watch(watch(vec![filter("data", "Product")]))
                .await
                .map(drop),
            Call::WatchSessions => {
                let tables = vec![filter("data", "Product"), filter("", "")];
                self.feed.watch(watch(tables)).await.map(drop)
            }
            Call::ReadLogAll => {
                let request = ReadLogRequest {
                    principal,
                    ..ReadLogRequest::default()
                };
                self.feed.read_log(request).await.map(drop)
            }
            Call::ReadLogTable => {
                let targets = vec![target(None)];
                let request = ReadLogRequest {
                    principal,
                    targets,
                    ..ReadLogRequest::default()
                };
                self.feed.read_log(request).await.map(drop)
            }
            Call::LatestFor | Call::LatestForRole => {
                let is_role = matches!(call, Call::LatestForRole);
                let targets = vec![if is_role { role_target } else { target(Some("k")) }];
                let request = LatestForRequest {
                    principal,
                    targets,
                    ..LatestForRequest::default()
                };
                self.feed.latest_for(request).await.map(drop)
            }
            Call::CreateSession => {
                let protocol_version = "2025-11-25".to_owned();
                let request = CreateSessionRequest {
                    principal,
                    session_id,
                    protocol_version,
                    ..CreateSessionRequest::default()
                };
                self.sessions.create_session(request).await.map(drop)
            }
            Call::GetSession => {
                let request = GetSessionRequest {
                    principal,
                    session_id,
                    ..GetSessionRequest::default()
                };
                self.sessions.get_session(request).await.map(drop)
            }
            Call::OpenStream => {
                let request = OpenStreamRequest {
                    principal,
                    session_id,
                    instance: "i".to_owned(),
                    ..OpenStreamRequest::default()
                };
                self.sessions.open_stream(request).await.map(drop)
            }
            Call::Subscribe => {
                let request = SubscribeRequest {
                    principal,
                    session_id,
                    uri: "u".to_owned(),
                    spelling: "u".to_owned(),
                    ..SubscribeRequest::default()
                };
                self.sessions.subscribe(request).await.map(drop)
            }
            Call::Unsubscribe => {
                let request = UnsubscribeRequest {
                    principal,
                    session_id,
                    uri: "u".to_owned(),
                    ..UnsubscribeRequest::default()
                };
                self.sessions.unsubscribe(request).await.map(drop)
            }
            Call::SetLogLevel => {
                let request = SetLogLevelRequest {
                    principal,
                    session_id,
                    level: "info".to_owned(),
                    ..SetLogLevelRequest::default()
                };
                self.sessions.set_log_level(request).await.map(drop)
            }
            Call::CloseStream => {
                let request = GetSessionRequest {
                    principal: principal.clone(),
                    session_id: session_id.clone(),
                    ..GetSessionRequest::default()
                };
                let found = self.sessions.get_session(request).await?.into_inner();
                let request = CloseStreamRequest {
                    principal,
                    session_id,
                    fence: found.session.unwrap_or_default().fence,
                    ..CloseStreamRequest::default()
                };
                self.sessions.close_stream(request).await.map(drop)
            }
            Call::DeleteSession => {
                let request = DeleteSessionRequest {
                    principal,
                    session_id,
                    ..DeleteSessionRequest::default()
                };
                self.sessions.delete_session(request).await.map(drop)
            }
            Call::GetSealingKeys => {
                let request = GetSealingKeysRequest {
                    principal,
                    ..GetSealingKeysRequest::default()
                };
                self.keys.get_sealing_keys(request).await.map(drop)
            }
            Call::Touch => {
                let session_ids = vec!["session-of-nobody".to_owned()];
                let request = TouchSessionsRequest {
                    principal,
                    session_ids,
                    ..TouchSessionsRequest::default()
                };
                self.sessions.touch_sessions(request).await.map(drop)
            }
            Call::RecordAccess => {
                let entries = vec![AccessEntry {
                    method: "ping".to_owned(),
                    outcome: "ok".to_owned(),
                    ..AccessEntry::default()
                }];
                let request = RecordAccessRequest {
                    principal,
                    entries,
                    ..RecordAccessRequest::default()
                };
                self.access.record_access(request).await.map(drop)
            }
            Call::ReadAccess => {
                let request = ReadAccessRequest {
                    principal,
                    ..ReadAccessRequest::default()
                };
                self.access.read_access(request).await.map(drop)
            }
            Call::GetStatus => {
                let request = StatusRequest {
                    principal,
                    ..StatusRequest::default()
                };
                self.maintenance.status(request).await.map(drop)
            }
            Call::Compact => {
                let request = CompactRequest {
                    principal,
                    until_revision: 1,
                    ..CompactRequest::default()
                };
                self.maintenance.compact(request).await.map(drop)
            }
            // No path: whoever may back up is told so.
            Call::Backup => {
                let request = BackupRequest {
                    principal,
                    ..BackupRequest::default()
                };
                self.maintenance.backup(request).await.map(drop)
            }
            Call::Verify => {
                let request = VerifyRequest {
                    principal,
                    ..VerifyRequest::default()
                };
                self.maintenance.verify(request).await.map(drop)
            }
        }
    }
}

#[tokio::test]
async fn b_14_3_every_call_is_decided_by_the_role() {
    let everybody = [
        ("ann", "full"),
        ("nick", "none"),
        ("una", "unknown"),
        ("", ""),
        ("root", "super_user"),
    ];
    for mode in [AccessMode::Roles, AccessMode::Open] {
        let mut bench = Bench::new();
        bench.access = mode;
        let mut stage = Stage::start(&bench).await;
        stage.set("role", "full", FULL).await;
        stage.set("role", "none", "{}").await;
        for (call, allowed) in CALLS {
            for (name, role) in everybody {
                let is_super_user = mode == AccessMode::Open || role == "super_user";
                let is_allowed = match allowed {
                    Allowed::Everybody => true,
                    Allowed::WithTheRight => is_super_user || role == "full",
                    Allowed::SuperUsersOnly => is_super_user,
                    Allowed::Nobody => false,
                };
                let outcome = stage.call(*call, principal(name, role)).await;
                let denied = outcome
                    .as_ref()
                    .err()
                    .filter(|status| status.code() == Code::PermissionDenied);
                assert_eq!(
                    denied.is_none(),
                    is_allowed,
                    "{mode:?} {call:?} by {name:?} as {role:?}: {outcome:?}"
                );
                if let Some(status) = denied {
                    check_refused(status, Code::PermissionDenied, Reason::PermissionDenied, None);
                }
                if let Err(status) = outcome
                    && is_allowed
                {
                    // What is allowed works, but for what the call itself gets wrong on purpose.
                    let is_expected = matches!(call, Call::Backup) && status.code() == Code::InvalidArgument;
                    assert!(is_expected, "{call:?}: {status:?}");
                }
            }
        }
        stage.served.stop().await;
    }
}

#[tokio::test]
async fn a_denial_names_action_object_and_attribute() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_roles(&mut bench, &[("clerk", CLERK)]).await;
    let clerk = || principal("c", "clerk");
    stage
        .commit(root(), vec![put("a", r#"{"state":"new"}"#)])
        .await
        .unwrap();
    let deleted = stage.commit(clerk(), vec![delete("a")]).await.unwrap_err();
    for (name, value) in [("action", "delete"), ("object", "data.Product")] {
        check_refused(
            &deleted,
            Code::PermissionDenied,
            Reason::PermissionDenied,
            Some((name, value)),
        );
    }
    let changed = stage
        .commit(clerk(), vec![put("a", r#"{"state":"old"}"#)])
        .await
        .unwrap_err();
    for (name, value) in [
        ("action", "update"),
        ("object", "data.Product"),
        ("attribute", "state"),
    ] {
        check_refused(
            &changed,
            Code::PermissionDenied,
            Reason::PermissionDenied,
            Some((name, value)),
        );
    }
    let watched = stage.call(Call::WatchAll, clerk()).await.unwrap_err();
    for (name, value) in [("action", "call"), ("object", "watch")] {
        check_refused(
            &watched,
            Code::PermissionDenied,
            Reason::PermissionDenied,
            Some((name, value)),
        );
    }
    stage.served.stop().await;
}

#[tokio::test]
async fn the_catalogue_shows_what_may_be_described_or_read() {
    let describes = r#"{"data":{"tables":{"Strict":{"describe":true,"attribute_permissions":[{"attribute_name":"name"}]}}}}"#;
    let mut bench = Bench::new();
    let mut stage = Stage::with_roles(&mut bench, &[("full", FULL), ("describes", describes)]).await;
    for (role, expected) in [
        ("full", vec!["Product id"]),
        ("describes", vec!["Strict id"]),
        ("super_user", vec!["Product id", "Strict id", "Strict name"]),
        ("unknown", vec![]),
    ] {
        let request = GetCatalogRequest {
            principal: principal("x", role),
            ..GetCatalogRequest::default()
        };
        let catalog = stage.feed.get_catalog(request).await.unwrap().into_inner();
        let shown = catalog.tables.iter().flat_map(|table| {
            let attributes = table.attributes.iter();
            attributes.map(|attribute| format!("{} {}", table.name, attribute.name))
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected, "{role}");
    }
    stage.served.stop().await;
}

#[tokio::test]
async fn b_14_9_a_record_outside_of_the_row_filter_is_absent_on_every_surface() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_roles(&mut bench, &[("mine", MINE)]).await;
    let alice = || principal("alice", "mine");
    let (mine, other) = (r#"{"owner":"alice"}"#, r#"{"owner":"bob"}"#);
    let mut revisions = Vec::new();
    // Inside, outside, from outside to inside and back, and outside from the first to the last.
    for operation in [
        put("in", mine),
        put("out", other),
        put("moves", other),
        put("moves", mine),
        put("moves", other),
        put("moves", r#"{"owner":"bob","more":1}"#),
        delete("out"),
        put("out", other),
    ] {
        revisions.push(stage.commit(root(), vec![operation]).await.unwrap().head);
    }
    assert!(stage.get(alice(), "Product", "in").await.is_some());
    assert_eq!(stage.get(alice(), "Product", "out").await, None);
    assert_eq!(stage.get(alice(), "Product", "moves").await, None);
    assert!(stage.get(root(), "Product", "out").await.is_some());

    let (inserted, moved_in, moved_out) = (revisions[0], revisions[3], revisions[4]);
    let keys = [Some("in"), Some("out"), Some("moves"), None];
    assert_eq!(
        stage.latest(alice(), &keys).await,
        [inserted, 0, moved_out, moved_out]
    );
    assert_eq!(
        stage.latest(root(), &keys).await,
        [inserted, revisions[7], revisions[5], revisions[7]]
    );

    let (database, table) = ("data".to_owned(), "Product".to_owned());
    let keys = ["in", "out", "moves"].map(str::to_owned).to_vec();
    let many = GetManyRequest {
        principal: alice(),
        database: database.clone(),
        table: table.clone(),
        keys,
        ..GetManyRequest::default()
    };
    let many = stage.feed.get_many(many).await.unwrap().into_inner();
    let found: Vec<&str> = many.records.iter().map(|record| record.key.as_str()).collect();
    assert_eq!((found, many.answered), (vec!["in"], 3));
    let search = SearchRequest {
        principal: alice(),
        database: database.clone(),
        table: table.clone(),
        ..SearchRequest::default()
    };
    let found = stage.feed.search(search).await.unwrap().into_inner();
    let found: Vec<&str> = found.records.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(found, ["in"]);
    for (who, expected) in [(alice(), 1), (root(), 3)] {
        let count = CountRequest {
            principal: who,
            database: database.clone(),
            table: table.clone(),
            ..CountRequest::default()
        };
        assert_eq!(
            stage.feed.count(count).await.unwrap().into_inner().count,
            expected
        );
    }

    let full = |owner: &str, key: &str| format!(r#"{{"id":"{key}","owner":"{owner}"}}"#);
    let expected = [
        (inserted, Operation::Insert, String::new(), full("alice", "in")),
        (moved_in, Operation::Insert, String::new(), full("alice", "moves")),
        (
            moved_out,
            Operation::Delete,
            full("alice", "moves"),
            String::new(),
        ),
    ];
    let seen = |entries: Vec<Entry>| {
        let changes = entries.into_iter().map(|entry| {
            let Some(Body::Change(change)) = entry.body else {
                panic!("no change: {:?}", entry.body)
            };
            let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
            (
                entry.revision,
                change.operation(),
                text(&change.before),
                text(&change.after),
            )
        });
        changes.collect::<Vec<_>>()
    };
    assert_eq!(seen(stage.read_log(alice(), true).await), expected);
    let without_values = expected
        .clone()
        .map(|(revision, operation, ..)| (revision, operation, String::new(), String::new()));
    assert_eq!(seen(stage.read_log(alice(), false).await), without_values);
    assert_eq!(stage.read_log(root(), false).await.len(), 8);

    for include_values in [true, false] {
        let request = WatchRequest {
            principal: alice(),
            include_values,
            include_filter_values: true,
            tables: vec![TableFilter {
                database: "data".to_owned(),
                table: "Product".to_owned(),
            }],
            ..WatchRequest::default()
        };
        let mut watch = stage.feed.watch(request).await.unwrap().into_inner();
        let (mut entries, mut progress) = (Vec::new(), 0);
        while progress < revisions[7] {
            let answer = watch.message().await.unwrap().unwrap();
            progress = answer.progress;
            entries.extend(answer.entries);
        }
        let has_filter_values = entries.iter().any(|entry| {
            matches!(&entry.body, Some(Body::Change(change)) if !change.filter_before.is_empty() || !change.filter_after.is_empty())
        });
        assert!(!has_filter_values, "whom a filter concerns is told nothing of it");
        assert_eq!(
            seen(entries),
            if include_values {
                expected.to_vec()
            } else {
                without_values.to_vec()
            }
        );
    }
    stage.served.stop().await;
}

#[tokio::test]
async fn b_14_9_writes_on_a_record_outside_of_the_row_filter_are_as_on_an_absent_one() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_roles(&mut bench, &[("mine", MINE)]).await;
    let alice = || principal("alice", "mine");
    let (mine, other) = (r#"{"owner":"alice"}"#, r#"{"owner":"bob"}"#);
    let revision = stage
        .commit(root(), vec![put("out", other), put("in", mine)])
        .await
        .unwrap()
        .head
        - 1;

    let conflict = Some(("revision", "0"));
    for operation in [
        // What would create it conflicts, and so does what expects it.
        put("out", mine),
        patch("out", mine),
        on_condition(put("out", mine), Condition::Exists(false)),
        on_condition(put("out", mine), Condition::Exists(true)),
        on_condition(put("out", mine), Condition::Revision(revision)),
        on_condition(delete("out"), Condition::Exists(true)),
        on_condition(delete("out"), Condition::Revision(revision)),
    ] {
        let refused = stage.commit(alice(), vec![operation]).await.unwrap_err();
        check_refused(
            &refused,
            Code::FailedPrecondition,
            Reason::PreconditionFailed,
            conflict,
        );
    }
    for operation in [
        delete("out"),
        on_condition(delete("out"), Condition::Exists(false)),
    ] {
        let answer = stage.commit(alice(), vec![operation]).await.unwrap();
        assert_eq!(
            (answer.results[0].revision, answer.results[0].existed),
            (0, false)
        );
    }
    // Nobody writes what it would not see.
    for operation in [
        put("new", other),
        put("in", other),
        put("new", "{}"),
        patch("in", other),
    ] {
        let refused = stage.commit(alice(), vec![operation]).await.unwrap_err();
        check_refused(
            &refused,
            Code::PermissionDenied,
            Reason::PermissionDenied,
            Some(("object", "data.Product")),
        );
    }
    assert_eq!(
        stage.get(root(), "Product", "out").await.unwrap().0,
        revision,
        "untouched"
    );
    let mut own = vec![
        put("in", r#"{"owner":"alice","n":1}"#),
        put("new", mine),
        delete("in"),
    ];
    own.push(on_condition(put("in", mine), Condition::Exists(false)));
    let answer = stage.commit(alice(), own).await.unwrap();
    assert!(
        answer.results.iter().all(|result| result.revision > 0),
        "{answer:?}"
    );
    stage.served.stop().await;
}

#[tokio::test]
async fn a_put_keeps_what_its_writer_does_not_see() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_roles(&mut bench, &[("clerk", CLERK)]).await;
    let clerk = || principal("c", "clerk");
    let stored = r#"{"id":"a","secret":"s","hidden":1.0,"state":"new","n":1}"#;
    stage.commit(root(), vec![put("a", stored)]).await.unwrap();
    let seen = stage.get(clerk(), "Product", "a").await.unwrap().1;
    assert_eq!(seen, r#"{"id":"a","state":"new","n":1}"#);

    stage
        .commit(clerk(), vec![put("a", r#"{"state":"new","n":2}"#)])
        .await
        .unwrap();
    let after = stage.get(root(), "Product", "a").await.unwrap().1;
    assert_eq!(
        after,
        r#"{"id":"a","state":"new","n":2,"secret":"s","hidden":1.0}"#
    );

    for (key, value, attribute) in [
        // Changed, removed, and set where it may not be.
        ("a", r#"{"state":"old"}"#, "state"),
        ("a", r#"{"n":2}"#, "state"),
        ("b", r#"{"state":"new"}"#, "state"),
        ("b", r#"{"hidden":1}"#, "hidden"),
        ("a", r#"{"state":"new","secret":"other"}"#, "secret"),
        // Told apart, the right guess and the wrong one would tell the value.
        ("a", r#"{"state":"new","secret":"s"}"#, "secret"),
        ("a", r#"{"state":"new","hidden":1.0}"#, "hidden"),
        ("a", r#"{"state":"new","hidden":2}"#, "hidden"),
    ] {
        let refused = stage.commit(clerk(), vec![put(key, value)]).await.unwrap_err();
        let denied = Some(("attribute", attribute));
        check_refused(&refused, Code::PermissionDenied, Reason::PermissionDenied, denied);
    }
    assert_eq!(
        stage.get(root(), "Product", "a").await.unwrap().1,
        after,
        "nothing was changed"
    );
    for (patched, attribute) in [
        (r#"{"state":"old"}"#, "state"),
        (r#"{"secret":"s"}"#, "secret"),
        (r#"{"hidden":null}"#, "hidden"),
    ] {
        let refused = stage
            .commit(clerk(), vec![patch("a", patched)])
            .await
            .unwrap_err();
        let denied = Some(("attribute", attribute));
        check_refused(&refused, Code::PermissionDenied, Reason::PermissionDenied, denied);
    }
    stage
        .commit(clerk(), vec![patch("a", r#"{"n":3}"#)])
        .await
        .unwrap();
    let by_secret = SearchRequest {
        principal: clerk(),
        database: "data".to_owned(),
        table: "Product".to_owned(),
        sort: vec![SortStep {
            attribute: "secret".to_owned(),
            descending: false,
        }],
        ..SearchRequest::default()
    };
    let refused = stage.feed.search(by_secret).await.unwrap_err();
    check_refused(&refused, Code::InvalidArgument, Reason::InvalidArgument, None);
    stage
        .commit(clerk(), vec![put("b", r#"{"secret":"mine","state":null}"#)])
        .await
        .unwrap();

    // A required attribute that the writer does not see is there already.
    let strict = |value: &str| {
        let value = value.to_owned().into();
        operation("Strict", "s", Action::Put(Put { value }))
    };
    stage
        .commit(clerk(), vec![strict(r#"{"name":"x"}"#)])
        .await
        .unwrap();
    stage.commit(clerk(), vec![strict("{}")]).await.unwrap();
    assert_eq!(
        stage.get(root(), "Strict", "s").await.unwrap().1,
        r#"{"id":"s","name":"x"}"#
    );
    stage.served.stop().await;
}

#[tokio::test]
async fn a_change_of_rights_holds_for_every_call_after_its_answer() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_roles(&mut bench, &[("full", FULL)]).await;
    let alice = || principal("alice", "");
    let denied = async |stage: &mut Stage, expected: bool| {
        for call in [
            Call::Put,
            Call::Get,
            Call::ReadLogTable,
            Call::WatchAll,
            Call::GetStatus,
        ] {
            let outcome = stage.call(call, alice()).await;
            let is_denied = outcome
                .err()
                .is_some_and(|status| status.code() == Code::PermissionDenied);
            assert_eq!(is_denied, expected, "{call:?}");
        }
    };
    denied(&mut stage, true).await;
    stage.set("user", "alice", r#"{"role":"full"}"#).await;
    denied(&mut stage, false).await;
    stage.set("role", "full", "{}").await;
    denied(&mut stage, true).await;
    stage.set("role", "full", FULL).await;
    denied(&mut stage, false).await;

    // They are in the log, and survive the service.
    stage.served.stop().await;
    let mut stage = Stage::start(&bench).await;
    denied(&mut stage, false).await;
    let user = RecordOperation {
        database: "system".to_owned(),
        ..operation("user", "alice", Action::Delete(Delete {}))
    };
    stage.commit(root(), vec![user]).await.unwrap();
    denied(&mut stage, true).await;
    let no_role = RecordOperation {
        database: "system".to_owned(),
        ..operation(
            "role",
            "bad",
            Action::Put(Put {
                value: r#"{"data":{"tables":{"T":{"read":1}}}}"#.into(),
            }),
        )
    };
    let refused = stage.commit(root(), vec![no_role]).await.unwrap_err();
    let place = Some(("attribute", "data.tables.T.read"));
    check_refused(&refused, Code::InvalidArgument, Reason::InvalidRecord, place);
    stage.served.stop().await;
}

#[tokio::test]
async fn an_open_watch_ends_when_the_right_goes() {
    let mut bench = Bench::new();
    let reader = r#"{"data":{"tables":{"Product":{"read":true}}}}"#;
    let mut stage = Stage::with_roles(
        &mut bench,
        &[("reader", reader), ("watcher", r#"{"operations":["watch"]}"#)],
    )
    .await;
    for (role, tables) in [
        (
            "reader",
            vec![TableFilter {
                database: "data".to_owned(),
                table: "Product".to_owned(),
            }],
        ),
        ("watcher", vec![]),
    ] {
        let request = WatchRequest {
            principal: principal("w", role),
            from_head: true,
            tables,
            ..WatchRequest::default()
        };
        let mut watch = stage.feed.watch(request).await.unwrap().into_inner();
        watch.message().await.unwrap().unwrap();
        let head = stage.commit(root(), vec![put("a", "{}")]).await.unwrap().head;
        let answer = watch.message().await.unwrap().unwrap();
        assert_eq!((answer.entries.len(), answer.progress), (1, head));
        stage.set("role", role, "{}").await;
        let ended = loop {
            match watch.message().await {
                Ok(answer) => assert!(answer.unwrap().entries.is_empty()),
                Err(status) => break status,
            }
        };
        check_refused(&ended, Code::PermissionDenied, Reason::PermissionDenied, None);
    }
    stage.served.stop().await;
}

#[tokio::test]
async fn a_trusted_watch_gets_what_row_filters_look_at() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_roles(&mut bench, &[]).await;
    let value = r#"{"owner":"alice","size":1.0,"inner":{"a":1}}"#;
    let filter_values = async |stage: &mut Stage, after: u64, include: bool| {
        let request = WatchRequest {
            principal: root(),
            after_revision: after,
            include_filter_values: include,
            ..WatchRequest::default()
        };
        let mut watch = stage.feed.watch(request).await.unwrap().into_inner();
        watch.message().await.unwrap().unwrap();
        let entry = watch.message().await.unwrap().unwrap().entries.pop().unwrap();
        let Some(Body::Change(change)) = entry.body else {
            panic!("no change")
        };
        assert!(change.before.is_empty() && change.after.is_empty());
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        (text(&change.filter_before), text(&change.filter_after))
    };
    let nothing = (String::new(), String::new());
    let head = stage.commit(root(), vec![put("a", value)]).await.unwrap().head;
    assert_eq!(
        filter_values(&mut stage, head - 1, true).await,
        nothing,
        "no role has a filter"
    );
    stage.set("role", "mine", MINE).await;
    let nested = r#"{"data":{"tables":{"Product":{"row_filter":{"attribute":"inner.a","value":1}}}}}"#;
    stage.set("role", "nested", nested).await;
    let head = stage
        .commit(root(), vec![put("a", r#"{"size":2}"#)])
        .await
        .unwrap()
        .head;
    let before = r#"{"owner":"alice","inner":{"a":1}}"#.to_owned();
    assert_eq!(
        filter_values(&mut stage, head - 1, true).await,
        (before, "{}".to_owned())
    );
    assert_eq!(filter_values(&mut stage, head - 1, false).await, nothing);
    let head = stage.commit(root(), vec![delete("a")]).await.unwrap().head;
    assert_eq!(
        filter_values(&mut stage, head - 1, true).await,
        ("{}".to_owned(), String::new())
    );
    stage.served.stop().await;
}
