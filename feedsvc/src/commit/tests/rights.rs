//! The rights by which commits are decided, one after the other.

use crate::access::{AccessMode, Principal};
use crate::catalog::{GivenTimes, TableName, check_record};
use crate::commit::failing::{FAILS_AFTER, FAILS_BEFORE, FailingWriter, NO_FAILURE};
use crate::commit::{Condition, PutRules, RecordAction, RecordCommit, RecordOperation};
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::testing::{Bench, put};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

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
