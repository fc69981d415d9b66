//! Commands on sessions: who owns a stream, subscriptions, deletions, counts, touches.

use super::shared::{ID, create, open, session, subscribe, touch};
use crate::commit::{SessionProposal, Touch};
use crate::expiry;
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::session::{FenceNeed, SessionCommand, StreamNeed};
use crate::testing::{Bench, command};
use std::time::Duration;

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
