//! Tests of the access log and of the rest of the sessions' calls over real connections.

use proto::Reason;
use proto::feed::v1::access_client::AccessClient;
use proto::feed::v1::{
    AccessEntry, CloseStreamRequest, CreateSessionRequest, GetSessionRequest, OpenStreamRequest,
    ReadAccessRequest, RecordAccessRequest, Session, SetLogLevelRequest, SubscribeRequest,
    UnsubscribeRequest,
};
use tonic::Code;

use super::tests::{Served, check_refused};
use crate::access_log::verify;
use crate::maintenance::retention;
use crate::testing::{Bench, START_MS};

const ID: &str = "0123456789abcdef";

fn entry(principal: &str, method: &str, time_ms: i64) -> AccessEntry {
    AccessEntry {
        time_ms,
        principal: principal.to_owned(),
        method: method.to_owned(),
        outcome: "ok".to_owned(),
        session: "0123456789abcdef".to_owned(),
        arguments: r#"{"name":"x","login":{"password":"hunter2"}}"#.into(),
        ..AccessEntry::default()
    }
}

#[tokio::test]
async fn b_15_3_the_access_log_has_its_own_numbers_and_chain_and_no_secrets() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    let head = feed.ring.head();
    let served = Served::start(service).await;
    let mut access = AccessClient::connect(format!("http://{}", served.address))
        .await
        .unwrap();
    let record = |entries: Vec<AccessEntry>| RecordAccessRequest {
        entries,
        ..RecordAccessRequest::default()
    };
    let first = record(vec![entry("alice", "tools/call", 1), entry("", "ping", 2)]);
    assert_eq!(
        access
            .record_access(first)
            .await
            .unwrap()
            .into_inner()
            .last_number,
        2
    );
    let second = record(vec![entry("bob", "tools/call", 3)]);
    assert_eq!(
        access
            .record_access(second)
            .await
            .unwrap()
            .into_inner()
            .last_number,
        3
    );
    assert_eq!(feed.ring.head(), head, "no revision was taken");

    for (request, expected) in [
        (ReadAccessRequest::default(), vec![1, 2, 3]),
        (
            ReadAccessRequest {
                after_number: 1,
                max_entries: 1,
                ..ReadAccessRequest::default()
            },
            vec![2],
        ),
        (
            ReadAccessRequest {
                by_principal: Some(String::new()),
                ..ReadAccessRequest::default()
            },
            vec![2],
        ),
        (
            ReadAccessRequest {
                method: "tools/call".to_owned(),
                ..ReadAccessRequest::default()
            },
            vec![1, 3],
        ),
        (
            ReadAccessRequest {
                from_time_ms: 2,
                until_time_ms: 3,
                ..ReadAccessRequest::default()
            },
            vec![2],
        ),
    ] {
        let page = access.read_access(request.clone()).await.unwrap().into_inner();
        let numbers: Vec<u64> = page.entries.iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, expected, "{request:?}");
        assert_eq!((page.newest, page.oldest), (3, 1));
        for entry in page.entries {
            assert_eq!(entry.session, "01234567");
            assert_eq!(
                entry.arguments.as_ref(),
                br#"{"name":"x","login":{"password":"[redacted]"}}"#
            );
        }
    }
    // A reader that knows more than there is, since an older log was brought back, begins again at its end.
    for after_number in [3, 4, u64::MAX] {
        let request = ReadAccessRequest {
            after_number,
            ..ReadAccessRequest::default()
        };
        let page = access.read_access(request).await.unwrap().into_inner();
        assert_eq!(
            (page.entries.len(), page.progress, page.newest),
            (0, 3, 3),
            "{after_number}"
        );
    }
    let early = access.record_access(record(vec![entry("", "ping", -1)])).await;
    check_refused(
        &early.unwrap_err(),
        Code::InvalidArgument,
        Reason::InvalidArgument,
        None,
    );
    let nothing = access.record_access(record(vec![])).await.unwrap_err();
    check_refused(&nothing, Code::InvalidArgument, Reason::InvalidArgument, None);
    let one_is_wrong = record(vec![entry("", "ping", 4), entry("", "", 4)]);
    let refused = access.record_access(one_is_wrong).await.unwrap_err();
    check_refused(&refused, Code::InvalidArgument, Reason::InvalidArgument, None);
    let verified = feed.reads.run(|reader| verify(reader, &|| Ok(()))).await.unwrap();
    assert_eq!((verified.entries, verified.finding), (3, None));
    served.stop().await;

    // The numbers go on after a restart, and what is too old goes by itself.
    bench
        .clock
        .advance(bench.limits.access_log_age_max + std::time::Duration::from_secs(1));
    let service = bench.open().await;
    let swept = retention::sweep(&service.feed()).await.unwrap();
    assert_eq!(swept.access_entries, 3);
    let served = Served::start(service).await;
    let mut access = AccessClient::connect(format!("http://{}", served.address))
        .await
        .unwrap();
    let later = record(vec![entry("", "ping", 5)]);
    assert_eq!(
        access
            .record_access(later)
            .await
            .unwrap()
            .into_inner()
            .last_number,
        4
    );
    let page = access
        .read_access(ReadAccessRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!((page.entries.len(), page.oldest, page.newest), (1, 4, 4));
    served.stop().await;
}

#[tokio::test]
async fn b_3_8_the_record_of_a_session_has_level_owner_address_and_expiry() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    let mut sessions = served.sessions().await;
    let session_id = ID.to_owned();
    let create = CreateSessionRequest {
        session_id: session_id.clone(),
        protocol_version: "2025-11-25".to_owned(),
        idle_timeout_ms: 60_000,
        ..CreateSessionRequest::default()
    };
    sessions.create_session(create).await.unwrap();
    let open = OpenStreamRequest {
        session_id: session_id.clone(),
        instance: "gateway-1".to_owned(),
        address: "10.0.0.1:9".to_owned(),
        ..OpenStreamRequest::default()
    };
    let fence = sessions.open_stream(open).await.unwrap().into_inner().fence;
    let set = |level: &str| SetLogLevelRequest {
        session_id: ID.to_owned(),
        level: level.to_owned(),
        ..SetLogLevelRequest::default()
    };
    let revision = sessions
        .set_log_level(set("error"))
        .await
        .unwrap()
        .into_inner()
        .revision;
    assert_eq!(revision, fence + 1);
    assert_eq!(
        sessions
            .set_log_level(set("error"))
            .await
            .unwrap()
            .into_inner()
            .revision,
        revision
    );
    let unknown = sessions.set_log_level(set("loud")).await.unwrap_err();
    check_refused(&unknown, Code::InvalidArgument, Reason::InvalidArgument, None);
    let get = GetSessionRequest {
        session_id: session_id.clone(),
        ..GetSessionRequest::default()
    };
    let record = sessions
        .get_session(get.clone())
        .await
        .unwrap()
        .into_inner()
        .session
        .unwrap();
    let expected = Session {
        log_level: "error".to_owned(),
        owner_address: "10.0.0.1:9".to_owned(),
        owner_instance: "gateway-1".to_owned(),
        fence,
        expires_ms: START_MS + 60_000,
        ..record.clone()
    };
    assert_eq!(record, expected);

    let subscribe = |fence| SubscribeRequest {
        session_id: ID.to_owned(),
        uri: "u".to_owned(),
        spelling: "u".to_owned(),
        fence,
        ..SubscribeRequest::default()
    };
    let unsubscribe = |fence| UnsubscribeRequest {
        session_id: ID.to_owned(),
        uri: "u".to_owned(),
        fence,
        ..UnsubscribeRequest::default()
    };
    let late = sessions.subscribe(subscribe(fence - 1)).await.unwrap_err();
    check_refused(&late, Code::FailedPrecondition, Reason::Fenced, None);
    sessions.subscribe(subscribe(fence)).await.unwrap();
    let late = sessions.unsubscribe(unsubscribe(fence + 1)).await.unwrap_err();
    check_refused(&late, Code::FailedPrecondition, Reason::Fenced, None);
    assert!(
        sessions
            .unsubscribe(unsubscribe(fence))
            .await
            .unwrap()
            .into_inner()
            .existed
    );

    let close = CloseStreamRequest {
        session_id,
        fence,
        ..CloseStreamRequest::default()
    };
    sessions.close_stream(close).await.unwrap();
    let record = sessions
        .get_session(get)
        .await
        .unwrap()
        .into_inner()
        .session
        .unwrap();
    assert_eq!(
        (record.owner_address.as_str(), record.log_level.as_str()),
        ("", "error")
    );
    served.stop().await;
}
