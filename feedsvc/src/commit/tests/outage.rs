//! Transactions that are lost, and the outages that they make.

use super::shared::{get, read_log};
use crate::commit::Condition;
use crate::commit::failing::{FAILS_AFTER, FAILS_BEFORE, FailingWriter, NO_FAILURE};
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::testing::{Bench, commit, delete, put, revisions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

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
