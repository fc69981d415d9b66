//! Tests of the calls over real connections, in one process.

mod limits;
mod log;
mod maintenance;

use std::net::SocketAddr;
use std::time::Duration;

use prost::Message;
use proto::Reason;
use proto::feed::v1::entry::Body;
use proto::feed::v1::feed_client::FeedClient;
use proto::feed::v1::record_operation::Action;
use proto::feed::v1::sessions_client::SessionsClient;
use proto::feed::v1::{
    CommitRequest, CreateSessionRequest, Delete, Entry, GetCatalogRequest, GetRequest, LatestForRequest,
    OpenStreamRequest, Patch, Principal, Put, ReadLogRequest, RecordOperation, SubscribeRequest, Target,
    WatchRequest, WatchResponse,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;

use crate::service::{ServeError, Service};
use crate::testing::Bench;

/// A service that is served on a free port.
pub(super) struct Served {
    pub(super) address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), ServeError>>,
}

impl Served {
    pub(super) async fn start(service: Service) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(service.serve(listener, shutdown.clone()));
        Served {
            address,
            shutdown,
            task,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) async fn feed(&self) -> FeedClient<Channel> {
        FeedClient::connect(format!("http://{}", self.address))
            .await
            .unwrap()
            .max_decoding_message_size(1 << 26)
    }

    pub(super) async fn sessions(&self) -> SessionsClient<Channel> {
        SessionsClient::connect(format!("http://{}", self.address))
            .await
            .unwrap()
    }

    pub(super) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

pub(super) fn put(key: &str, value: &str) -> RecordOperation {
    operation(
        key,
        Action::Put(Put {
            value: value.to_owned().into(),
        }),
    )
}

pub(super) fn operation(key: &str, action: Action) -> RecordOperation {
    RecordOperation {
        database: "data".to_owned(),
        table: "Product".to_owned(),
        key: key.to_owned(),
        precondition: None,
        action: Some(action),
    }
}

pub(super) fn commit(operations: Vec<RecordOperation>) -> CommitRequest {
    CommitRequest {
        operations,
        ..CommitRequest::default()
    }
}

/// Code, reason and one value of the metadata.
pub(super) fn check_refused(status: &Status, code: Code, reason: Reason, metadata: Option<(&str, &str)>) {
    assert_eq!(status.code(), code, "{status}");
    let info = status.get_details_error_info().unwrap();
    assert_eq!(
        (info.domain.as_str(), info.reason.as_str()),
        (proto::ERROR_DOMAIN, reason.as_str())
    );
    if let Some((name, value)) = metadata {
        assert_eq!(info.metadata.get(name).map(String::as_str), Some(value));
    }
}

/// Reads answers until the progress is reached; checks that they join without a hole.
async fn read_until(watch: &mut Streaming<WatchResponse>, cursor: &mut u64, until: u64) -> Vec<Entry> {
    let mut entries = Vec::new();
    while *cursor < until {
        let answer = watch.message().await.unwrap().unwrap();
        for entry in answer.entries {
            *cursor += 1;
            assert_eq!(entry.revision, *cursor);
            entries.push(entry);
        }
        assert_eq!(answer.progress, *cursor);
        assert!(answer.head >= *cursor);
    }
    entries
}

#[tokio::test]
async fn records_are_written_and_read() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    let mut feed = served.feed().await;
    let answer = feed
        .commit(commit(vec![put("a/ü", r#"{"price": 1.0}"#), put("b", "{}")]))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.head, 4);
    let get = |key: &str| GetRequest {
        database: "data".to_owned(),
        table: "Product".to_owned(),
        key: key.to_owned(),
        ..GetRequest::default()
    };
    let found = feed.get(get("a/ü")).await.unwrap().into_inner();
    let record = found.record.unwrap();
    assert_eq!(
        (record.revision, record.value.as_ref()),
        (3, r#"{"id":"a/ü","price":1.0}"#.as_bytes())
    );
    assert_eq!(found.revision, 4);
    assert!(feed.get(get("x")).await.unwrap().into_inner().record.is_none());

    let catalog = feed
        .get_catalog(GetCatalogRequest::default())
        .await
        .unwrap()
        .into_inner();
    let names: Vec<&str> = catalog.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["Product", "Strict"]);
    assert_eq!(catalog.tables[1].attributes[1].r#type, "String!");

    let target = |key: Option<&str>| Target {
        database: "data".to_owned(),
        table: "Product".to_owned(),
        key: key.map(str::to_owned),
    };
    let latest = LatestForRequest {
        targets: vec![target(Some("b")), target(None), target(Some("x"))],
        ..LatestForRequest::default()
    };
    assert_eq!(
        feed.latest_for(latest).await.unwrap().into_inner().revisions,
        [4, 4, 0]
    );
    served.stop().await;
}

#[tokio::test]
async fn refusals_carry_their_reason() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    let mut feed = served.feed().await;
    let mut refused = async |request: CommitRequest| feed.commit(request).await.unwrap_err();

    let other = CommitRequest {
        feed: "other".to_owned(),
        ..commit(vec![put("a", "{}")])
    };
    check_refused(&refused(other).await, Code::NotFound, Reason::UnknownFeed, None);
    check_refused(
        &refused(commit(vec![])).await,
        Code::InvalidArgument,
        Reason::InvalidArgument,
        None,
    );
    let patch = operation("a", Action::Patch(Patch::default()));
    check_refused(
        &refused(commit(vec![patch])).await,
        Code::InvalidArgument,
        Reason::InvalidRecord,
        None,
    );
    let strict = RecordOperation {
        table: "Strict".to_owned(),
        ..put("a", "{}")
    };
    let missing = Some(("attribute", "name"));
    check_refused(
        &refused(commit(vec![strict])).await,
        Code::InvalidArgument,
        Reason::InvalidRecord,
        missing,
    );
    let unknown = RecordOperation {
        table: "Nothing".to_owned(),
        ..put("a", "{}")
    };
    check_refused(
        &refused(commit(vec![unknown])).await,
        Code::NotFound,
        Reason::UnknownTable,
        None,
    );
    let system = RecordOperation {
        database: "system".to_owned(),
        table: "table".to_owned(),
        ..put("a", "{}")
    };
    check_refused(
        &refused(commit(vec![system])).await,
        Code::PermissionDenied,
        Reason::PermissionDenied,
        None,
    );
    let large = put("a", &format!(r#"{{"v":"{}"}}"#, "x".repeat(1 << 20)));
    let limit = Some(("limit_bytes", "1048576"));
    check_refused(
        &refused(commit(vec![large])).await,
        Code::InvalidArgument,
        Reason::TooLarge,
        limit,
    );
    let long_name = put("a", &format!(r#"{{"{}":1}}"#, "ü".repeat(100_000)));
    let strict = RecordOperation {
        table: "Strict".to_owned(),
        ..long_name
    };
    check_refused(
        &refused(commit(vec![strict])).await,
        Code::InvalidArgument,
        Reason::InvalidRecord,
        None,
    );
    let huge = (0..17).map(|key| {
        put(
            &key.to_string(),
            &format!(r#"{{"v":"{}"}}"#, "x".repeat(1_000_000)),
        )
    });
    let limit = Some(("limit_bytes", "16777216"));
    check_refused(
        &refused(commit(huge.collect())).await,
        Code::InvalidArgument,
        Reason::TooLarge,
        limit,
    );
    let beyond = ReadLogRequest {
        after_revision: 99,
        ..ReadLogRequest::default()
    };
    let status = feed.read_log(beyond).await.unwrap_err();
    check_refused(
        &status,
        Code::OutOfRange,
        Reason::LostHistory,
        Some(("head", "2")),
    );
    served.stop().await;
}

#[tokio::test]
async fn an_idempotency_key_belongs_to_a_name_and_its_request_to_role_and_attributes() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    let mut feed = served.feed().await;
    let principal = |name: &str, role: &str, tenant: &str| Principal {
        name: name.to_owned(),
        role: role.to_owned(),
        attributes: [("tenant".to_owned(), tenant.to_owned())].into(),
    };
    let request = |principal: Principal| CommitRequest {
        principal: Some(principal),
        idempotency_key: "k".to_owned(),
        ..commit(vec![put("a", "{}")])
    };
    let first = request(principal("svc", "r", "a"));
    let answer = feed.commit(first.clone()).await.unwrap().into_inner();
    let again = feed.commit(first).await.unwrap().into_inner();
    assert!(again.repeated && again.head == answer.head);
    // Not applied again, and not answered with what another view of the data got.
    for other in [
        principal("svc", "r", "b"),
        principal("svc", "other", "a"),
        principal("svc", "", "a"),
    ] {
        let refused = feed.commit(request(other)).await.unwrap_err();
        check_refused(&refused, Code::AlreadyExists, Reason::IdempotencyKeyReused, None);
    }
    // Another name has keys of its own; everybody without a name has them together.
    for (name, repeated) in [("bob", false), ("", false), ("", true)] {
        let answer = feed.commit(request(principal(name, "r", "a"))).await.unwrap();
        assert_eq!(answer.into_inner().repeated, repeated, "{name:?}");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_watch_joins_store_and_ring_without_a_hole() {
    for (ring_bytes, include_values) in [(0, false), (700, false), (1 << 20, false), (700, true)] {
        let mut bench = Bench::new();
        bench.limits.ring_bytes = ring_bytes;
        let served = Served::start(bench.open().await).await;
        let mut feed = served.feed().await;
        for key in 0..20 {
            feed.commit(commit(vec![put(&key.to_string(), r#"{"v":1.0}"#)]))
                .await
                .unwrap();
        }
        for start in [0, 11, 22] {
            let request = WatchRequest {
                after_revision: start,
                include_values,
                ..WatchRequest::default()
            };
            let mut watch = feed.watch(request).await.unwrap().into_inner();
            let first = watch.message().await.unwrap().unwrap();
            assert_eq!((first.progress, first.oldest, first.entries.len()), (start, 1, 0));
            let mut cursor = start;
            read_until(&mut watch, &mut cursor, 22).await;
            let mut last = 22;
            for _ in 0..3 {
                let operations = vec![put("a", r#"{"v":2}"#), operation("a", Action::Delete(Delete {}))];
                last = feed.commit(commit(operations)).await.unwrap().into_inner().head;
            }
            let entries = read_until(&mut watch, &mut cursor, last).await;
            for entry in &entries[entries.len() - 6..] {
                let Some(Body::Change(change)) = &entry.body else {
                    panic!("no change")
                };
                let has_values = !change.before.is_empty() || !change.after.is_empty();
                assert_eq!(has_values, include_values);
                assert_eq!(change.key, "a");
            }
        }
        served.stop().await;
    }
}

#[tokio::test]
async fn a_watch_goes_on_across_a_restart_and_notices_another_history() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    let mut feed = served.feed().await;
    feed.commit(commit(vec![put("a", "{}")])).await.unwrap();
    let from_head = WatchRequest {
        from_head: true,
        ..WatchRequest::default()
    };
    let mut watch = feed.watch(from_head).await.unwrap().into_inner();
    let first = watch.message().await.unwrap().unwrap();
    assert_eq!((first.progress, first.head), (3, 3));
    served.shutdown.cancel();
    let ended = watch.message().await.unwrap_err();
    check_refused(&ended, Code::Unavailable, Reason::Unavailable, None);
    served.stop().await;

    let served = Served::start(bench.open().await).await;
    let mut feed = served.feed().await;
    feed.commit(commit(vec![put("b", "{}")])).await.unwrap();
    let resume = |after_revision, after_hash: &[u8]| WatchRequest {
        after_revision,
        after_hash: after_hash.to_vec().into(),
        ..WatchRequest::default()
    };
    let mut watch = feed
        .watch(resume(3, &first.progress_hash))
        .await
        .unwrap()
        .into_inner();
    let again = watch.message().await.unwrap().unwrap();
    assert_eq!(
        (again.store_id, again.progress_hash),
        (first.store_id, first.progress_hash.clone())
    );
    let mut cursor = 3;
    read_until(&mut watch, &mut cursor, 4).await;
    for lost in [resume(4, &first.progress_hash), resume(5, &[])] {
        let status = feed.watch(lost).await.unwrap_err();
        check_refused(
            &status,
            Code::OutOfRange,
            Reason::LostHistory,
            Some(("head", "4")),
        );
    }
    served.stop().await;
}

#[tokio::test]
async fn session_commands_come_by_the_watch_in_order_with_the_changes() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    let (mut feed, mut sessions) = (served.feed().await, served.sessions().await);
    let request = WatchRequest {
        instance: "gateway-1".to_owned(),
        ..WatchRequest::default()
    };
    let mut watch = feed.watch(request).await.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();
    bench.clock.advance(Duration::from_secs(60));

    let session_id = "0123456789abcdef".to_owned();
    let create = CreateSessionRequest {
        session_id: session_id.clone(),
        protocol_version: "2025-11-25".to_owned(),
        ..CreateSessionRequest::default()
    };
    sessions.create_session(create.clone()).await.unwrap();
    let used = sessions.create_session(create).await.unwrap_err();
    check_refused(&used, Code::InvalidArgument, Reason::InvalidArgument, None);
    let open = OpenStreamRequest {
        session_id: session_id.clone(),
        instance: "gateway-1".to_owned(),
        ..OpenStreamRequest::default()
    };
    let opened = sessions.open_stream(open).await.unwrap().into_inner();
    assert_eq!(opened.fence, 4);
    feed.commit(commit(vec![put("a", "{}")])).await.unwrap();
    let subscribe = SubscribeRequest {
        session_id,
        uri: "feed+rest:///Product".to_owned(),
        spelling: "feed+rest://h/Product".to_owned(),
        require_stream: true,
        max_subscriptions: 1,
        ..SubscribeRequest::default()
    };
    assert_eq!(
        sessions
            .subscribe(subscribe.clone())
            .await
            .unwrap()
            .into_inner()
            .revision,
        6
    );
    assert!(
        sessions
            .subscribe(subscribe.clone())
            .await
            .unwrap()
            .into_inner()
            .existed
    );
    let second = SubscribeRequest {
        uri: "other".to_owned(),
        ..subscribe.clone()
    };
    let full = sessions.subscribe(second).await.unwrap_err();
    check_refused(
        &full,
        Code::ResourceExhausted,
        Reason::TooManySubscriptions,
        Some(("limit", "1")),
    );
    let foreign = SubscribeRequest {
        principal: Some(Principal {
            name: "bob".to_owned(),
            ..Default::default()
        }),
        ..subscribe
    };
    let foreign = sessions.subscribe(foreign).await.unwrap_err();
    check_refused(&foreign, Code::PermissionDenied, Reason::ForeignSession, None);

    let entries = read_until(&mut watch, &mut 0, 6).await;
    let is_command: Vec<bool> = entries
        .iter()
        .map(|entry| matches!(entry.body, Some(Body::Session(_))))
        .collect();
    assert_eq!(is_command, [false, false, true, true, false, true]);
    served.stop().await;
}

#[tokio::test]
async fn the_service_ends_although_a_reader_takes_nothing() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    let mut feed = served.feed().await;
    let large = format!(r#"{{"v":"{}"}}"#, "x".repeat(500_000));
    let request = WatchRequest {
        include_values: true,
        ..WatchRequest::default()
    };
    let stalled = feed.watch(request).await.unwrap().into_inner();
    for _ in 0..8 {
        feed.commit(commit(vec![put("a", &large)])).await.unwrap();
    }
    served.stop().await;
    drop(stalled);
    bench.open().await.close().await;
}

#[test]
fn an_entry_has_about_a_hundred_bytes() {
    let header = crate::entry::CommitHeader {
        commit_time_ms: crate::testing::START_MS,
        commit_end: crate::revision::Revision(1_000_000),
        principal: "",
        traceparent: "",
    };
    let table = crate::catalog::TableName::new("data", "Product");
    let operation = proto::feed::v1::Operation::Update;
    let encoded = crate::entry::encode_change(&header, header.commit_end, operation, &table, "123456");
    assert!(encoded.len() < 100);
    assert_eq!(Entry::decode(encoded).unwrap().revision, 1_000_000);
}
