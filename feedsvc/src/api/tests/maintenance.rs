//! What an operator does, over real connections.

use std::time::Duration;

use proto::Reason;
use proto::feed::v1::maintenance_client::MaintenanceClient;
use proto::feed::v1::{
    BackupRequest, CompactRequest, StatusRequest, StatusResponse, TableStatus, VerifyRequest, WatchRequest,
};
use tonic::Code;
use tonic::transport::Channel;

use super::{Served, check_refused, commit, put};
use crate::testing::{Bench, START_MS};

async fn client(served: &Served) -> MaintenanceClient<Channel> {
    MaintenanceClient::connect(format!("http://{}", served.address))
        .await
        .unwrap()
}

async fn status(client: &mut MaintenanceClient<Channel>) -> StatusResponse {
    client
        .status(StatusRequest::default())
        .await
        .unwrap()
        .into_inner()
}

#[tokio::test]
async fn the_status_says_how_the_store_stands() {
    let bench = Bench::new();
    let service = bench.open().await;
    let store_id = service.feed().store_id.clone();
    let served = Served::start(service).await;
    let (mut feed, mut operator) = (served.feed().await, client(&served).await);
    bench.clock.advance(Duration::from_secs(60));
    feed.commit(commit(vec![put("a", "{}"), put("b", "{}")]))
        .await
        .unwrap();
    let mut watch = feed.watch(WatchRequest::default()).await.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();
    let found = status(&mut operator).await;
    assert_eq!(
        (found.store_id, found.version.as_str()),
        (store_id, env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(
        (found.head, found.oldest, found.commit_time_ms),
        (4, 1, START_MS + 60_000)
    );
    assert_eq!((found.writable, found.problem.as_str()), (true, ""));
    let size_bytes: u64 = ["feed.sqlite", "feed.sqlite-wal"]
        .iter()
        .map(|name| std::fs::metadata(bench.data().join(name)).unwrap().len())
        .sum();
    assert_eq!(found.store_bytes, size_bytes);
    assert!(found.log_bytes > 4 * 128 && found.log_bytes < found.store_bytes);
    assert_eq!((found.sessions, found.subscriptions, found.watches), (0, 0, 1));
    // The ring holds what was committed since the start, which had the tables already.
    assert!(found.ring_bytes > 0 && found.ring_oldest <= 3);
    let table = |database: &str, table: &str, records| TableStatus {
        database: database.to_owned(),
        table: table.to_owned(),
        records,
    };
    assert_eq!(
        found.tables,
        [table("data", "Product", 2), table("system", "table", 2)]
    );
    drop(watch);
    while status(&mut operator).await.watches > 0 {
        tokio::task::yield_now().await;
    }
    served.stop().await;
}

#[tokio::test]
async fn a_compaction_answers_what_it_did() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    let (mut feed, mut operator) = (served.feed().await, client(&served).await);
    feed.commit(commit(vec![put("a", "{}"), put("b", "{}")]))
        .await
        .unwrap();
    let compact = |until_revision| CompactRequest {
        until_revision,
        ..CompactRequest::default()
    };
    let above = operator.compact(compact(5)).await.unwrap_err();
    check_refused(&above, Code::InvalidArgument, Reason::InvalidArgument, None);
    let young = operator.compact(compact(4)).await.unwrap().into_inner();
    assert_eq!((young.oldest, young.dropped), (1, 0), "younger than ten minutes");
    bench.clock.advance(Duration::from_secs(601));
    let done = operator.compact(compact(3)).await.unwrap().into_inner();
    assert_eq!((done.oldest, done.dropped), (4, 3));
    assert_eq!(status(&mut operator).await.oldest, 4);
    served.stop().await;
}

#[tokio::test]
async fn a_backup_is_made_where_it_may_be() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    let (mut feed, mut operator) = (served.feed().await, client(&served).await);
    feed.commit(commit(vec![put("a", "{}")])).await.unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut back_up = async |path: String| {
        operator
            .backup(BackupRequest {
                path,
                ..BackupRequest::default()
            })
            .await
    };
    let inside = |name: &str| place.path().join(name).display().to_string();
    let in_data = |name: &str| bench.data().join(name).display().to_string();
    std::fs::create_dir(bench.data().join("backups")).unwrap();
    std::fs::write(inside("file"), "x").unwrap();
    std::os::unix::fs::symlink(bench.data(), inside("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", inside("dangling")).unwrap();
    for (path, told) in [
        (String::new(), "no absolute path of a file"),
        ("backup".to_owned(), "no absolute path of a file"),
        ("/".to_owned(), "no absolute path of a file"),
        (inside(".."), "no absolute path of a file"),
        (inside("absent/backup"), "its directory does not exist"),
        (inside("file/backup"), "its directory does not exist"),
        (inside("file"), "there is a file already"),
        (inside("dangling"), "there is a file already"),
        (in_data("backup"), "outside of it"),
        (in_data("feed.sqlite"), "outside of it"),
        (in_data("backups/backup"), "outside of it"),
        (inside("link/backup"), "outside of it"),
        (inside(&"x".repeat(300)), "cannot be written"),
        ("/proc/backup".to_owned(), "cannot be written"),
        (inside("with\0zero"), "no absolute path of a file"),
    ] {
        let refused = back_up(path.clone()).await.unwrap_err();
        check_refused(&refused, Code::InvalidArgument, Reason::InvalidArgument, None);
        let message = refused.message();
        assert!(
            message.contains(told) && message.contains(&path),
            "{path:?}: {message}"
        );
        // Words of the operating system are for the service's log.
        assert!(!message.contains("os error"), "{message}");
    }
    let names = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(names, 3, "nothing was left behind");
    let done = back_up(inside("backup")).await.unwrap().into_inner();
    assert_eq!(
        (done.head, done.bytes),
        (3, std::fs::metadata(inside("backup")).unwrap().len())
    );
    let verified = operator
        .verify(VerifyRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (
            verified.findings,
            verified.entries,
            verified.records,
            verified.head
        ),
        (vec![], 3, 3, 3)
    );
    served.stop().await;
}
