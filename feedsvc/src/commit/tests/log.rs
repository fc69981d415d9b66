//! The log that commits make: dense, in the order of time, durable, with the changes of the schema.

use super::shared::{TABLES, count, create, get, read_log};
use crate::catalog::{SchemaSource, TableName};
use crate::commit::Condition;
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::service::{Options, Service};
use crate::testing::{Bench, START_MS, command, commit, delete, put, revisions};
use proto::feed::v1::Operation;
use proto::feed::v1::entry::Body;
use std::collections::BTreeMap;
use std::sync::Arc;

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
