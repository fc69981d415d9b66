//! Sessions that were idle for too long, and clocks that jump.

use super::shared::{ID, create, open, read_log, touch};
use crate::commit::Touch;
use crate::expiry;
use crate::testing::{Bench, START_MS, command, commit, put};
use proto::feed::v1::entry::Body;
use proto::feed::v1::session_command::Command;
use std::time::Duration;

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
