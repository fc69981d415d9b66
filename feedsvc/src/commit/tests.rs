//! Tests of the commit path on a real store, without sockets.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use proto::feed::v1::entry::Body;
use proto::feed::v1::session_command::Command;
use proto::feed::v1::{Entry, Operation};

use super::failing::{FAILS_AFTER, FAILS_BEFORE, FailingWriter, NO_FAILURE};
use super::{
    Condition, PutRules, RecordAction, RecordCommit, RecordOperation, RequestKey, SessionProposal, Touch,
};
use crate::access::{AccessMode, Principal};
use crate::catalog::{GivenTimes, SchemaSource, TableName, check_record};
use crate::entry::decode_with_values;
use crate::expiry;
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::service::{Options, Service};
use crate::session::{FenceNeed, SessionCommand, SessionRecord, StreamNeed};
use crate::store::LogQuery;
use crate::testing::{Bench, START_MS, command, commit, delete, put, revisions};

/// The tables of the tests are the first entries of every log.
const TABLES: u64 = 2;

async fn read_log(feed: &Feed) -> Vec<Entry> {
    let query = LogQuery {
        with_values: true,
        ..LogQuery::after(Revision::ZERO)
    };
    let page = feed
        .reads
        .run(move |reader| reader.read_log(&query))
        .await
        .unwrap();
    assert_eq!(page.progress, page.bounds.head);
    let decode =
        |entry: crate::store::LogEntry| decode_with_values(&entry.encoded, entry.before, entry.after);
    page.entries
        .into_iter()
        .map(|entry| decode(entry).unwrap())
        .collect()
}

async fn get(feed: &Feed, key: &str) -> Option<(u64, String)> {
    let table = feed.get_table(&TableName::new("data", "Product")).unwrap().id;
    let key = key.to_owned();
    let found = feed
        .reads
        .run(move |reader| reader.find_record(table, &key))
        .await
        .unwrap();
    found.value.map(|record| {
        (
            record.revision.0,
            String::from_utf8(record.value.to_vec()).unwrap(),
        )
    })
}

async fn count(feed: &Feed) -> u64 {
    let table = feed.get_table(&TableName::new("data", "Product")).unwrap().id;
    feed.reads
        .run(move |reader| reader.count_records(table))
        .await
        .unwrap()
        .value
}

#[tokio::test]
async fn digits_survive_from_write_to_read() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    for number in [
        "1.0",
        "1e2",
        "-0",
        "9007199254740993",
        "18446744073709551615",
        "0.1",
    ] {
        let value = format!(r#"{{"id":"a","n":{number},"list":[{number}]}}"#);
        commit(&feed, vec![put(&feed, "Product", "a", &value)])
            .await
            .unwrap();
        assert_eq!(get(&feed, "a").await.unwrap().1, value);
    }
    service.close().await;
}

#[tokio::test]
async fn a_batch_is_applied_in_its_order_or_not_at_all() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    let answer = commit(
        &feed,
        vec![
            put(&feed, "Product", "a", r#"{"v":1}"#),
            put(&feed, "Product", "a", r#"{"v":2}"#),
            delete("Product", "b"),
            delete("Product", "a"),
            delete("Product", "a"),
            put(&feed, "Product", "a", r#"{"v":3}"#),
        ],
    )
    .await
    .unwrap();
    assert_eq!(revisions(&answer), [3, 4, 0, 5, 0, 6]);
    assert_eq!(answer.head, 6);
    let existed: Vec<bool> = answer.results.iter().map(|result| result.existed).collect();
    assert_eq!(existed, [false, true, false, true, false, false]);
    assert_eq!(get(&feed, "a").await, Some((6, r#"{"id":"a","v":3}"#.to_owned())));

    let mut failing = put(&feed, "Product", "c", "{}");
    failing.condition = Condition::Exists;
    let refused = commit(&feed, vec![put(&feed, "Product", "b", "{}"), failing]).await;
    assert!(matches!(
        refused,
        Err(Refusal::PreconditionFailed {
            present: Revision(0),
            ..
        })
    ));
    assert_eq!(get(&feed, "b").await, None);
    assert_eq!(feed.ring.head(), Revision(6));
    assert_eq!(count(&feed).await, 1);

    let changes: Vec<(Operation, Vec<u8>, Vec<u8>, u64)> = read_log(&feed)
        .await
        .into_iter()
        .skip(2)
        .map(|entry| match entry.body {
            Some(Body::Change(change)) => (
                change.operation(),
                change.before.to_vec(),
                change.after.to_vec(),
                entry.commit_end,
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    let value = |v: u8| format!(r#"{{"id":"a","v":{v}}}"#).into_bytes();
    assert_eq!(
        changes,
        [
            (Operation::Insert, vec![], value(1), 6),
            (Operation::Update, value(1), value(2), 6),
            (Operation::Delete, value(2), vec![], 6),
            (Operation::Insert, vec![], value(3), 6),
        ]
    );
    service.close().await;
}

#[tokio::test]
async fn preconditions_are_checked_against_the_present_record() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    commit(&feed, vec![put(&feed, "Product", "a", "{}")])
        .await
        .unwrap();
    for (key, condition, holds) in [
        ("a", Condition::Exists, true),
        ("a", Condition::Absent, false),
        ("a", Condition::Revision(Revision(2)), false),
        ("b", Condition::Exists, false),
        ("b", Condition::Revision(Revision(0)), false),
        ("b", Condition::Absent, true),
    ] {
        let mut operation = put(&feed, "Product", key, "{}");
        operation.condition = condition;
        assert_eq!(
            commit(&feed, vec![operation]).await.is_ok(),
            holds,
            "{key} {condition:?}"
        );
    }
    let (revision, _) = get(&feed, "a").await.unwrap();
    let mut operation = delete("Product", "a");
    operation.condition = Condition::Revision(Revision(revision));
    commit(&feed, vec![operation]).await.unwrap();
    assert_eq!(get(&feed, "a").await, None);
    service.close().await;
}

#[tokio::test]
async fn a_request_key_is_applied_once_for_a_day() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    let request = |principal: &str, request_hash: u8| RecordCommit {
        principal: Principal::named(principal),
        traceparent: String::new(),
        operations: vec![put(&feed, "Product", "a", "{}")],
        request_key: Some(RequestKey {
            key: "k".to_owned(),
            request_hash: [request_hash; 32],
        }),
        puts: PutRules::default(),
    };
    let first = feed.pipeline.commit_records(request("alice", 1)).await.unwrap();
    bench.clock.advance(Duration::from_secs(24 * 3600));
    let again = feed.pipeline.commit_records(request("alice", 1)).await.unwrap();
    assert!(again.repeated && !first.repeated);
    assert_eq!(
        (again.results, again.commit_time_ms, again.head),
        (first.results, first.commit_time_ms, 3)
    );
    let other = feed.pipeline.commit_records(request("alice", 2)).await;
    assert!(matches!(other, Err(Refusal::IdempotencyKeyReused)));
    assert_eq!(
        feed.pipeline
            .commit_records(request("bob", 2))
            .await
            .unwrap()
            .head,
        4
    );
    bench.clock.advance(Duration::from_millis(1));
    let later = feed.pipeline.commit_records(request("alice", 2)).await.unwrap();
    assert!(!later.repeated);
    assert_eq!(later.head, 5);
    service.close().await;
}

#[tokio::test]
async fn commit_time_never_goes_back_not_even_across_a_restart() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    let time = async |feed: &Feed| {
        commit(feed, vec![put(feed, "Product", "a", "{}")])
            .await
            .unwrap()
            .commit_time_ms
    };
    assert_eq!(time(&feed).await, START_MS);
    bench.clock.set_wall_ms(START_MS - 1_000);
    assert_eq!(time(&feed).await, START_MS);
    drop(feed);
    service.close().await;
    bench.clock.set_wall_ms(5);
    let service = bench.open().await;
    assert_eq!(time(&service.feed()).await, START_MS);
    bench.clock.set_wall_ms(START_MS + 7);
    assert_eq!(time(&service.feed()).await, START_MS + 7);
    service.close().await;
}

/// Numbers that are the same in every run, and differ for each start.
fn numbers(start: u64) -> impl FnMut(u64) -> u64 {
    let mut state = start.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_make_a_dense_log_that_explains_every_record() {
    const WRITERS: u64 = 64;
    const COMMITS: u64 = 20;
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let feed = Arc::clone(&feed);
        writers.push(tokio::spawn(async move {
            let mut next = numbers(writer + 1);
            let mut given = Vec::new();
            for step in 0..COMMITS {
                let operations = (0..=next(3)).map(|index| {
                    let key = format!("k{}", next(20));
                    let mut operation = match next(3) {
                        0 => delete("Product", &key),
                        _ => put(
                            &feed,
                            "Product",
                            &key,
                            &format!(r#"{{"w":"{writer}.{step}.{index}"}}"#),
                        ),
                    };
                    operation.condition = match next(4) {
                        0 => Condition::Absent,
                        _ => Condition::None,
                    };
                    operation
                });
                match commit(&feed, operations.collect()).await {
                    Ok(answer) => {
                        given.extend(revisions(&answer).into_iter().filter(|revision| *revision > 0))
                    }
                    Err(Refusal::PreconditionFailed { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            given
        }));
    }
    let mut given = Vec::new();
    for writer in writers {
        given.extend(writer.await.unwrap());
    }
    given.sort_unstable();
    let head = feed.ring.head().0;
    assert_eq!(
        given,
        (TABLES + 1..=head).collect::<Vec<_>>(),
        "each revision was given once, without holes"
    );

    let mut model: BTreeMap<String, (u64, Vec<u8>)> = BTreeMap::new();
    for (index, entry) in read_log(&feed).await.into_iter().enumerate() {
        assert_eq!(entry.revision, index as u64 + 1);
        let Some(Body::Change(change)) = entry.body else {
            panic!("no change")
        };
        if change.database != "data" {
            continue;
        }
        let before = match change.operation() {
            Operation::Delete => model.remove(&change.key),
            _ => model.insert(change.key.clone(), (entry.revision, change.after.to_vec())),
        };
        assert_eq!(before.map(|(_, value)| value).unwrap_or_default(), change.before);
        assert_eq!(change.operation() == Operation::Insert, change.before.is_empty());
    }
    for key in (0..20).map(|key| format!("k{key}")) {
        let expected = model
            .get(&key)
            .map(|(revision, value)| (*revision, String::from_utf8(value.clone()).unwrap()));
        assert_eq!(get(&feed, &key).await, expected);
    }
    assert_eq!(count(&feed).await, model.len() as u64);
    service.close().await;
}

#[tokio::test]
async fn a_restart_keeps_everything() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    let store_id = feed.store_id.clone();
    commit(&feed, vec![put(&feed, "Product", "a", r#"{"v":1.0}"#)])
        .await
        .unwrap();
    command(&feed, "session-000000001", create(60_000)).await.unwrap();
    let log = read_log(&feed).await;
    drop(feed);
    service.close().await;

    let service = bench.open().await;
    let feed = service.feed();
    assert_eq!(feed.store_id, store_id);
    assert_eq!(read_log(&feed).await, log, "an unchanged schema writes no entry");
    assert_eq!(
        get(&feed, "a").await,
        Some((3, r#"{"id":"a","v":1.0}"#.to_owned()))
    );
    let answer = commit(&feed, vec![put(&feed, "Product", "a", "{}")])
        .await
        .unwrap();
    assert_eq!(revisions(&answer), [5]);
    drop(feed);
    service.close().await;

    let stored = Service::open(Options::new(bench.data(), SchemaSource::Stored))
        .await
        .unwrap();
    assert_eq!(stored.feed().catalog().tables().count(), 2);
    stored.close().await;
}

#[tokio::test]
async fn a_changed_schema_is_told_by_the_log() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    commit(&feed, vec![put(&feed, "Product", "a", "{}")])
        .await
        .unwrap();
    drop(feed);
    service.close().await;

    let without = "type Strict @table @export(name: \"strict\") { id: ID @primaryKey  name: String! }";
    let service = bench.try_open(without).await.unwrap();
    let feed = service.feed();
    let changes: Vec<(Operation, String)> = read_log(&feed)
        .await
        .into_iter()
        .skip(3)
        .map(|entry| match entry.body {
            Some(Body::Change(change)) => {
                assert_eq!(
                    (change.database.as_str(), change.table.as_str()),
                    ("system", "table")
                );
                (change.operation(), change.key)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        changes,
        [
            (Operation::Delete, "data.Product".to_owned()),
            (Operation::Update, "data.Strict".to_owned())
        ]
    );
    assert!(feed.get_table(&TableName::new("data", "Product")).is_err());
    drop(feed);
    service.close().await;

    let service = bench.open().await;
    let feed = service.feed();
    assert!(
        get(&feed, "a").await.is_some(),
        "the records of a table that left are kept"
    );
    service.close().await;
}

#[tokio::test]
async fn a_second_service_on_the_same_directory_is_refused() {
    let bench = Bench::new();
    let service = bench.open().await;
    let refused = bench.try_open(crate::testing::SDL).await.unwrap_err().to_string();
    assert!(refused.contains("another process has it open"), "{refused}");
    service.close().await;
    bench.open().await.close().await;
}

fn touch(id: &str) -> Touch {
    Touch {
        ids: vec![id.to_owned()],
        only_of: None,
    }
}

fn create(idle_timeout_ms: i64) -> SessionCommand {
    SessionCommand::Create {
        protocol_version: "2025-11-25".to_owned(),
        client_info: "{}".to_owned(),
        client_capabilities: String::new(),
        idle_timeout_ms,
    }
}

fn subscribe(uri: &str, stream: StreamNeed) -> SessionCommand {
    SessionCommand::Subscribe {
        uri: uri.to_owned(),
        spelling: uri.to_uppercase(),
        stream,
        subscriptions_max: 2,
        fence: FenceNeed::NotChecked,
    }
}

fn open(instance: &str) -> SessionCommand {
    SessionCommand::Open {
        instance: instance.to_owned(),
        address: String::new(),
    }
}

const ID: &str = "session-000000001";

#[tokio::test]
async fn the_last_opener_owns_the_stream() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    command(&feed, ID, create(60_000)).await.unwrap();
    let first = command(&feed, ID, open("a")).await.unwrap();
    let second = command(&feed, ID, open("b")).await.unwrap();
    let session = second.session.unwrap().record;
    assert_eq!(
        (session.owner_instance.as_str(), session.fence),
        ("b", second.revision)
    );
    let close = |fence| SessionCommand::Close { fence };
    assert!(matches!(
        command(&feed, ID, close(first.revision)).await,
        Err(Refusal::Fenced)
    ));
    command(&feed, ID, close(second.revision)).await.unwrap();
    assert!(matches!(
        command(&feed, ID, close(second.revision)).await,
        Err(Refusal::Fenced)
    ));
    service.close().await;
}

#[tokio::test]
async fn a_subscription_is_made_once_and_only_with_a_live_stream() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    command(&feed, ID, create(60_000)).await.unwrap();
    let required = |uri: &str| subscribe(uri, StreamNeed::Required);
    assert!(matches!(
        command(&feed, ID, required("u")).await,
        Err(Refusal::NoStream)
    ));
    command(&feed, ID, open("a")).await.unwrap();
    let lease = feed.leases.hold("a", "");
    bench.clock.advance(Duration::from_secs(60));
    let first = command(&feed, ID, required("u")).await.unwrap();
    let head = feed.ring.head();
    let again = command(&feed, ID, required("u")).await.unwrap();
    assert!(first.has_changed && !again.has_changed);
    assert_eq!((again.revision, feed.ring.head()), (first.revision, head));
    drop(lease);
    bench.clock.advance(Duration::from_secs(4));
    command(&feed, ID, required("v")).await.unwrap();
    let full = command(&feed, ID, required("w")).await;
    assert!(matches!(full, Err(Refusal::TooManySubscriptions { limit: 2 })));
    bench.clock.advance(Duration::from_secs(1));
    assert!(matches!(
        command(&feed, ID, required("u")).await,
        Err(Refusal::NoStream)
    ));

    let unsubscribe = || SessionCommand::Unsubscribe {
        uri: "u".to_owned(),
        fence: FenceNeed::NotChecked,
    };
    assert!(command(&feed, ID, unsubscribe()).await.unwrap().has_changed);
    let absent = command(&feed, ID, unsubscribe()).await.unwrap();
    assert_eq!((absent.has_changed, absent.revision), (false, feed.ring.head()));
    let stored = feed.reads.run(|reader| reader.find_session(ID)).await.unwrap();
    let uris: Vec<String> = stored
        .value
        .unwrap()
        .subscriptions
        .into_iter()
        .map(|subscription| subscription.spelling)
        .collect();
    assert_eq!(uris, ["V"]);
    service.close().await;
}

#[tokio::test]
async fn a_deleted_session_never_lives_again() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    command(&feed, ID, create(60_000)).await.unwrap();
    command(&feed, ID, subscribe("u", StreamNeed::NotRequired))
        .await
        .unwrap();
    command(&feed, ID, SessionCommand::Delete).await.unwrap();
    feed.pipeline.touch_sessions(touch(ID)).await.unwrap();
    assert!(matches!(
        command(&feed, ID, open("a")).await,
        Err(Refusal::UnknownSession)
    ));
    drop(feed);
    service.close().await;
    let service = bench.open().await;
    let feed = service.feed();
    assert!(matches!(
        command(&feed, ID, create(60_000)).await,
        Err(Refusal::InvalidArgument { .. })
    ));
    assert!(matches!(
        command(&feed, ID, SessionCommand::Delete).await,
        Err(Refusal::UnknownSession)
    ));
    let found = feed.reads.run(|reader| reader.find_session(ID)).await.unwrap();
    assert!(found.value.is_none());
    service.close().await;
}

#[tokio::test]
async fn idle_sessions_expire_while_live_and_touched_ones_stay() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    let ids = ["session-000000001", "session-000000002", "session-000000003"];
    for id in ids {
        command(&feed, id, create(60_000)).await.unwrap();
    }
    command(&feed, ids[1], open("a")).await.unwrap();
    let lease = feed.leases.hold("a", "");
    let sweep = async || expiry::sweep(&feed, bench.clock.as_ref()).await.unwrap();
    bench.clock.advance(Duration::from_secs(60));
    assert_eq!(sweep().await, 0);
    feed.pipeline.touch_sessions(touch(ids[2])).await.unwrap();
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(sweep().await, 1);
    let last = read_log(&feed).await.pop().unwrap();
    let Some(Body::Session(gone)) = last.body else {
        panic!("no session command")
    };
    assert_eq!(gone.session_id, ids[0]);
    let Some(Command::Deleted(deleted)) = gone.command else {
        panic!("not deleted")
    };
    assert_eq!(deleted.cause(), proto::feed::v1::session_deleted::Cause::Expired);

    bench.clock.advance(Duration::from_secs(60));
    assert_eq!(sweep().await, 1, "the touched one");
    drop(lease);
    bench.clock.advance(Duration::from_secs(60));
    assert_eq!(sweep().await, 0, "idle since its owner's watch broke");
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(sweep().await, 1);
    service.close().await;
}

#[tokio::test]
async fn the_time_that_the_service_was_down_is_no_idle_time() {
    let bench = Bench::new();
    let service = bench.open().await;
    command(&service.feed(), ID, create(60_000)).await.unwrap();
    service.close().await;
    bench.clock.advance(Duration::from_secs(3600));
    let service = bench.open().await;
    let feed = service.feed();
    assert_eq!(expiry::sweep(&feed, bench.clock.as_ref()).await.unwrap(), 0);
    bench.clock.advance(Duration::from_millis(60_001));
    assert_eq!(expiry::sweep(&feed, bench.clock.as_ref()).await.unwrap(), 1);
    drop(feed);
    service.close().await;
}

#[tokio::test]
async fn a_lost_transaction_leaves_no_trace_and_later_ones_go_on() {
    let bench = Bench::new();
    let failure = Arc::new(AtomicU8::new(NO_FAILURE));
    let switch = Arc::clone(&failure);
    let service = bench
        .try_open_with(crate::testing::SDL, |inner| {
            Box::new(FailingWriter {
                inner,
                failure: switch,
            })
        })
        .await
        .unwrap();
    let feed = service.feed();
    commit(&feed, vec![put(&feed, "Product", "a", "{}")])
        .await
        .unwrap();

    failure.store(FAILS_BEFORE, Ordering::SeqCst);
    let lost = commit(&feed, vec![put(&feed, "Product", "b", "{}")]).await;
    assert!(matches!(lost, Err(Refusal::Unavailable)));
    let mut refused = delete("Product", "b");
    refused.condition = Condition::Exists;
    assert!(matches!(
        commit(&feed, vec![refused]).await,
        Err(Refusal::PreconditionFailed { .. })
    ));
    assert_eq!((get(&feed, "b").await, feed.ring.head()), (None, Revision(3)));

    failure.store(NO_FAILURE, Ordering::SeqCst);
    let answer = commit(&feed, vec![put(&feed, "Product", "c", "{}")])
        .await
        .unwrap();
    assert_eq!(revisions(&answer), [4]);

    // Durable all the same, which nobody was told: found out before the next transaction.
    failure.store(FAILS_AFTER, Ordering::SeqCst);
    assert!(matches!(
        commit(&feed, vec![put(&feed, "Product", "d", "{}")]).await,
        Err(Refusal::Unavailable)
    ));
    failure.store(NO_FAILURE, Ordering::SeqCst);
    let answer = commit(&feed, vec![put(&feed, "Product", "e", "{}")])
        .await
        .unwrap();
    assert_eq!((revisions(&answer), feed.ring.head()), (vec![6], Revision(6)));
    assert_eq!(read_log(&feed).await.len(), 6);
    service.close().await;
}

#[tokio::test]
async fn a_clock_that_goes_back_moves_no_lease_and_expires_nothing_early() {
    const BACK: Duration = Duration::from_secs(3600);
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    let sweep = async || expiry::sweep(&feed, bench.clock.as_ref()).await.unwrap();
    command(&feed, ID, create(60_000)).await.unwrap();
    command(&feed, ID, open("a")).await.unwrap();
    let lease = feed.leases.hold("a", "");
    bench.clock.set_wall_ms(START_MS - 3_600_000);
    assert!(feed.leases.is_live("a"));
    drop(lease);
    bench.clock.advance(Duration::from_millis(4_999));
    assert!(feed.leases.is_live("a"), "the grace is no longer for it");
    bench.clock.advance(Duration::from_millis(1));
    assert!(!feed.leases.is_live("a"), "and no shorter");

    let touch = Touch {
        ids: vec![ID.to_owned()],
        only_of: None,
    };
    feed.pipeline.touch_sessions(touch).await.unwrap();
    assert_eq!(sweep().await, 0);
    // Later commits have the time of the newest one before, and the session is as old as that.
    let answer = commit(&feed, vec![put(&feed, "Product", "a", "{}")])
        .await
        .unwrap();
    assert_eq!(answer.commit_time_ms, START_MS);
    bench.clock.advance(BACK + Duration::from_secs(55));
    assert_eq!(sweep().await, 0);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(
        sweep().await,
        1,
        "once its idle time is over by the clock that it was touched by"
    );
    service.close().await;
}

#[tokio::test]
async fn a_clock_that_jumps_forward_is_no_idle_time() {
    const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
    for is_set_back in [false, true] {
        let bench = Bench::new();
        let service = bench.open().await;
        let feed = service.feed();
        let sweep = async || expiry::sweep(&feed, bench.clock.as_ref()).await.unwrap();
        let ids = ["session-000000001", "session-000000002"];
        for id in ids {
            command(&feed, id, create(60_000)).await.unwrap();
        }
        // One of them was owned until just now.
        command(&feed, ids[1], open("a")).await.unwrap();
        drop(feed.leases.hold("a", ""));
        bench.clock.advance(Duration::from_secs(30));
        assert_eq!(sweep().await, 0);
        bench.clock.set_wall_ms(START_MS + DAY_MS);
        assert_eq!(sweep().await, 0, "half an idle time ran, whatever the clock says");
        if is_set_back {
            bench.clock.set_wall_ms(START_MS + 30_000);
            assert_eq!(sweep().await, 0);
        }
        bench.clock.advance(Duration::from_secs(60));
        assert_eq!(sweep().await, 0);
        bench.clock.advance(Duration::from_millis(1));
        assert_eq!(sweep().await, 2, "after one more idle time");
        drop(feed);
        service.close().await;
    }
}

#[tokio::test]
async fn an_outage_is_told_once_and_ends_by_itself() {
    let bench = Bench::new();
    let failure = Arc::new(AtomicU8::new(NO_FAILURE));
    let switch = Arc::clone(&failure);
    let service = bench
        .try_open_with(crate::testing::SDL, |inner| {
            Box::new(FailingWriter {
                inner,
                failure: switch,
            })
        })
        .await
        .unwrap();
    let feed = service.feed();
    let mut writability = feed.writability.clone();
    assert_eq!(writability.borrow_and_update().problem(), "");
    failure.store(FAILS_BEFORE, Ordering::SeqCst);
    for _ in 0..3 {
        let lost = commit(&feed, vec![put(&feed, "Product", "a", "{}")]).await;
        assert!(matches!(lost, Err(Refusal::Unavailable)));
    }
    assert!(writability.has_changed().unwrap());
    assert_ne!(writability.borrow_and_update().problem(), "");

    // A transaction with nothing to write shows nothing about the disk.
    commit(&feed, vec![delete("Product", "never")]).await.unwrap();
    assert!(!writability.has_changed().unwrap());

    let ended = feed.shutdown.clone();
    let probes = tokio::spawn(crate::maintenance::probe::run(Arc::clone(&feed), ended.clone()));
    feed.pipeline.probe().await.unwrap_err();
    let head = feed.ring.head();
    assert!(!writability.has_changed().unwrap(), "the same problem is no news");
    failure.store(NO_FAILURE, Ordering::SeqCst);
    writability.changed().await.unwrap();
    assert_eq!(writability.borrow_and_update().problem(), "");
    assert_eq!(feed.ring.head(), head, "a probe is no entry");
    commit(&feed, vec![put(&feed, "Product", "b", "{}")])
        .await
        .unwrap();
    assert!(!writability.has_changed().unwrap());
    ended.cancel();
    probes.await.unwrap();
    assert_eq!(read_log(&feed).await.len(), 3);
    service.close().await;
}

#[tokio::test]
async fn a_put_of_what_is_there_leaves_no_trace_where_it_is_asked_to() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    let import = |values: &[(&str, &str)]| RecordCommit {
        principal: Principal::default(),
        traceparent: String::new(),
        operations: values
            .iter()
            .map(|(key, value)| put(&feed, "Product", key, value))
            .collect(),
        request_key: None,
        puts: PutRules {
            skip_equal: true,
            ..PutRules::default()
        },
    };
    // Revisions 1 and 2 are the tables.
    for (values, expected) in [
        (&[("a", r#"{"n":1}"#), ("b", "{}")][..], &[3, 4][..]),
        (&[("a", r#"{"n":1}"#), ("b", "{}")], &[0, 0]),
        (&[("a", r#"{"n":1.0}"#), ("b", "{}")], &[5, 0]),
        // Each against what the one before left.
        (
            &[("b", r#"{"n":1}"#), ("b", "{}"), ("b", "{}"), ("c", "{}")],
            &[6, 7, 0, 8],
        ),
    ] {
        let answer = feed.pipeline.commit_records(import(values)).await.unwrap();
        assert_eq!(revisions(&answer), expected, "{values:?}");
    }
    service.close().await;
}
const WRITER: &str = r#"{"data":{"tables":{"Product":{"insert":true,"update":true}}}}"#;

/// A commit of a principal; one of records of the service itself by a super_user.
fn commit_of(name: &str, operations: Vec<RecordOperation>) -> RecordCommit {
    let role = if name == "root" { "super_user" } else { "" };
    RecordCommit {
        principal: Principal {
            role: role.to_owned(),
            ..Principal::named(name)
        },
        traceparent: String::new(),
        operations,
        request_key: None,
        puts: PutRules::default(),
    }
}

fn system(feed: &Feed, table: TableName, key: &str, value: &str) -> RecordOperation {
    let found = feed.get_table(&table).unwrap();
    RecordOperation {
        key: key.to_owned(),
        condition: Condition::None,
        action: RecordAction::Put {
            value: Bytes::copy_from_slice(value.as_bytes()),
            record: check_record(&found, key, value.as_bytes(), GivenTimes::Replaced).unwrap(),
            table: found,
        },
        table,
    }
}

/// Which of these were denied, after all of them were proposed at once, in their order.
async fn denied(feed: &Feed, commits: Vec<RecordCommit>) -> Vec<bool> {
    let mut waiting = Vec::new();
    for commit in commits {
        let pipeline = feed.pipeline.clone();
        let mut proposed = Box::pin(async move { pipeline.commit_records(commit).await });
        // The first poll proposes.
        let first =
            std::future::poll_fn(|context| std::task::Poll::Ready(proposed.as_mut().poll(context))).await;
        waiting.push((proposed, first));
    }
    let mut denied = Vec::new();
    for (proposed, first) in waiting {
        let outcome = match first {
            std::task::Poll::Ready(outcome) => outcome,
            std::task::Poll::Pending => proposed.await,
        };
        denied.push(matches!(outcome, Err(Refusal::Denied(_))));
    }
    denied
}

#[tokio::test]
async fn rights_are_those_that_the_proposals_before_leave() {
    let mut bench = Bench::new();
    bench.access = AccessMode::Roles;
    let service = bench.open().await;
    let feed = service.feed();
    let role = |value: &str| system(&feed, TableName::system_role(), "writer", value);
    let user = |value: &str| system(&feed, TableName::system_user(), "alice", value);
    let write = || commit_of("alice", vec![put(&feed, "Product", "a", "{}")]);
    let is_writer = r#"{"role":"writer"}"#;
    let commits = vec![
        write(),
        commit_of("root", vec![role(WRITER), user(is_writer)]),
        write(),
        commit_of("root", vec![role("{}")]),
        write(),
        commit_of("root", vec![role(WRITER)]),
        write(),
        commit_of("alice", vec![role(r#"{"super_user":true}"#)]),
        commit_of("root", vec![user(r#"{"role":"other"}"#)]),
        write(),
        commit_of("root", vec![user(r#"{"role":"super_user"}"#)]),
        // As a whole by the rights before it: it may take them from itself and go on.
        commit_of("alice", vec![user(is_writer), role("{}")]),
        write(),
    ];
    let expected = [
        true, false, false, false, true, false, false, true, false, true, false, false, true,
    ];
    assert_eq!(denied(&feed, commits).await, expected);
    service.close().await;
}

#[tokio::test]
async fn rights_of_a_lost_transaction_are_not_held_and_durable_ones_are() {
    let mut bench = Bench::new();
    bench.access = AccessMode::Roles;
    let failure = Arc::new(AtomicU8::new(NO_FAILURE));
    let switch = Arc::clone(&failure);
    let service = bench
        .try_open_with(crate::testing::SDL, |inner| {
            Box::new(FailingWriter {
                inner,
                failure: switch,
            })
        })
        .await
        .unwrap();
    let feed = service.feed();
    let role = |value: &str| {
        commit_of(
            "root",
            vec![system(&feed, TableName::system_role(), "anonymous", value)],
        )
    };
    let write = || commit_of("", vec![put(&feed, "Product", "a", "{}")]);

    failure.store(FAILS_BEFORE, Ordering::SeqCst);
    feed.pipeline.commit_records(role(WRITER)).await.unwrap_err();
    failure.store(NO_FAILURE, Ordering::SeqCst);
    assert_eq!(denied(&feed, vec![write()]).await, [true], "it was never granted");

    feed.pipeline.commit_records(role(WRITER)).await.unwrap();
    assert_eq!(denied(&feed, vec![write()]).await, [false]);
    failure.store(FAILS_AFTER, Ordering::SeqCst);
    feed.pipeline.commit_records(role("{}")).await.unwrap_err();
    failure.store(NO_FAILURE, Ordering::SeqCst);
    assert_eq!(
        denied(&feed, vec![write()]).await,
        [true],
        "it was taken away, although nobody was told"
    );
    service.close().await;
}

#[tokio::test]
async fn b_15_2_sessions_are_counted_as_they_come_and_go() {
    let mut bench = Bench::new();
    (bench.limits.sessions_per_principal, bench.limits.sessions_in_all) = (2, 3);
    let service = bench.open().await;
    let feed = service.feed();
    let create_of = async |feed: &Feed, principal: &str, id: &str| {
        let proposal = SessionProposal {
            principal: principal.to_owned(),
            id: id.to_owned(),
            command: create(1_000),
        };
        match feed.pipeline.command_session(proposal).await {
            Ok(_) => "created",
            Err(Refusal::TooManySessions { whose, .. }) => whose.name(),
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(create_of(&feed, "alice", "a1").await, "created");
    assert_eq!(create_of(&feed, "alice", "a2").await, "created");
    assert_eq!(create_of(&feed, "alice", "a3").await, "principal");
    command(&feed, "a1", open("i")).await.unwrap();
    assert_eq!(
        create_of(&feed, "alice", "a3").await,
        "principal",
        "an open is no new session"
    );
    assert_eq!(create_of(&feed, "", "n1").await, "created");
    assert_eq!(create_of(&feed, "", "n2").await, "service");
    command(&feed, "a1", SessionCommand::Delete).await.unwrap();
    assert_eq!(create_of(&feed, "alice", "a4").await, "created");
    service.close().await;

    // Counted by the store, so also after a restart, and those that expire too.
    bench.clock.advance(Duration::from_secs(60));
    let service = bench.open().await;
    let feed = service.feed();
    assert_eq!(create_of(&feed, "bob", "b1").await, "service");
    bench.clock.advance(Duration::from_secs(60));
    assert_eq!(expiry::sweep(&feed, bench.clock.as_ref()).await.unwrap(), 3);
    for id in ["c1", "c2"] {
        assert_eq!(create_of(&feed, "alice", id).await, "created");
    }
    assert_eq!(create_of(&feed, "alice", "c3").await, "principal");
    service.close().await;
}

#[tokio::test]
async fn who_may_not_touch_all_sessions_touches_its_own() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    command(&feed, "a1", create(1_000_000)).await.unwrap();
    for (only_of, is_touched) in [(Some("bob"), false), (Some("alice"), true), (None, true)] {
        bench.clock.advance(Duration::from_secs(1));
        let before = session(&feed, "a1").await.last_active_ms;
        let touch = Touch {
            ids: vec!["a1".to_owned(), "gone".to_owned()],
            only_of: only_of.map(str::to_owned),
        };
        feed.pipeline.touch_sessions(touch).await.unwrap();
        assert_eq!(
            session(&feed, "a1").await.last_active_ms > before,
            is_touched,
            "{only_of:?}"
        );
    }
    service.close().await;
}

async fn session(feed: &Feed, id: &str) -> SessionRecord {
    let id = id.to_owned();
    let found = feed
        .reads
        .run(move |reader| reader.find_session(&id))
        .await
        .unwrap();
    found.value.unwrap().record
}
