//! Which call a role may make, what a refusal says, and roles that change meanwhile.

use proto::Reason;
use proto::feed::v1::record_operation::Action;
use proto::feed::v1::{
    AccessEntry, BackupRequest, CloseStreamRequest, CompactRequest, CountRequest, CreateSessionRequest,
    Delete, DeleteSessionRequest, GetCatalogRequest, GetManyRequest, GetRequest, GetSealingKeysRequest,
    GetSessionRequest, LatestForRequest, ListInstancesRequest, OpenStreamRequest, Principal, Put,
    ReadAccessRequest, ReadLogRequest, RecordAccessRequest, RecordOperation, SearchRequest,
    SetLogLevelRequest, StatusRequest, SubscribeRequest, TableFilter, Target, TouchSessionsRequest,
    UnsubscribeRequest, VerifyRequest, WatchRequest,
};
use tonic::{Code, Status};

use super::stage::{CLERK, FULL, Stage, delete, on_table, operation, patch, principal, put, root, target};
use crate::access::AccessMode;
use crate::api::tests::check_refused;
use crate::testing::{Bench, SDL};

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
    ListInstances,
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
    (Call::ListInstances, Allowed::WithTheRight),
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
            Call::ListInstances => {
                let request = ListInstancesRequest {
                    principal,
                    ..ListInstancesRequest::default()
                };
                self.sessions.list_instances(request).await.map(drop)
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
async fn what_a_role_names_that_is_not_there_is_listed_and_grants_nothing() {
    let mut bench = Bench::new();
    let mut stage = Stage::with_roles(&mut bench, &[]).await;
    let role = |value: &str| RecordOperation {
        database: "system".to_owned(),
        ..operation(
            "role",
            "r",
            Action::Put(Put {
                value: value.to_owned().into(),
            }),
        )
    };
    for (value, unknown) in [
        (FULL, vec![]),
        (
            r#"{"structure_user":true,"operations":["watch","Watch","","get_status "]}"#,
            vec![],
        ),
        (
            r#"{"structure_user":true,"operations":["watch","Watch","get_status "]}"#,
            vec!["operations[1]", "operations[2]"],
        ),
        (
            r#"{"data":{"tables":{"Prodct":{"read":true},"Product":{"attribute_permissions":[{"attribute_name":"any"}]},"Strict":{"read":true,
                "attribute_permissions":[{"attribute_name":"name"},{"attribute_name":"nmae"}],
                "row_filter":{"conditions":[{"attribute":"owner","value":"x"}]}}}},"dat":{"tables":{"Product":{"read":true}}}}"#,
            vec![
                "dat.tables.Product",
                "data.tables.Prodct",
                "data.tables.Strict.attribute_permissions.nmae",
                "data.tables.Strict.row_filter.owner",
            ],
        ),
    ] {
        match stage.commit(root(), vec![put("x", "{}"), role(value)]).await {
            Ok(answer) => {
                assert_eq!(answer.results[1].unknown, unknown, "{value}");
                assert!(answer.results[0].unknown.is_empty());
            }
            Err(status) => {
                let place = Some(("attribute", "operations[2]"));
                check_refused(&status, Code::InvalidArgument, Reason::InvalidRecord, place);
            }
        }
    }
    let who = || principal("x", "r");
    stage
        .set(
            "role",
            "r",
            r#"{"structure_user":true,"operations":["Watch","get_status "]}"#,
        )
        .await;
    for call in [
        Call::WatchAll,
        Call::GetStatus,
        Call::Put,
        Call::PutTable,
        Call::PutRole,
    ] {
        let refused = stage.call(call, who()).await.unwrap_err();
        check_refused(&refused, Code::PermissionDenied, Reason::PermissionDenied, None);
    }
    stage.served.stop().await;
}

#[tokio::test]
async fn a_watch_of_a_table_that_is_not_there_gets_it_when_it_comes() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    let mut stage = Stage::of(service).await;
    let request = WatchRequest {
        from_head: true,
        tables: vec![TableFilter {
            database: "data".to_owned(),
            table: "Later".to_owned(),
        }],
        ..WatchRequest::default()
    };
    let mut watch = stage.feed.watch(request).await.unwrap().into_inner();
    let first = watch.message().await.unwrap().unwrap();
    assert!(first.entries.is_empty(), "it is silent, not refused");
    let sdl = format!("{SDL} type Later @table(open: true) {{ id: ID @primaryKey }}");
    let definitions = crate::catalog::testing::definitions(&sdl);
    feed.pipeline.set_tables(definitions).await.unwrap();
    drop(feed);
    let later = on_table("Later", put("a", "{}"));
    let head = stage
        .commit(root(), vec![put("a", "{}"), later])
        .await
        .unwrap()
        .head;
    let answer = watch.message().await.unwrap().unwrap();
    let revisions: Vec<u64> = answer.entries.iter().map(|entry| entry.revision).collect();
    assert_eq!((revisions, answer.progress), (vec![head], head));
    stage.served.stop().await;
}
