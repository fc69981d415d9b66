//! Commits of records: digits, batches, preconditions, request keys, puts of what is there.

use super::shared::{count, get, read_log};
use crate::access::Principal;
use crate::commit::{Condition, PutRules, RecordCommit, RequestKey};
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::testing::{Bench, commit, delete, put, revisions};
use proto::feed::v1::Operation;
use proto::feed::v1::entry::Body;
use std::time::Duration;

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
