//! Reads of the log with filters, and watches of some tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use proto::Reason;
use proto::feed::v1::entry::Body;
use proto::feed::v1::feed_client::FeedClient;
use proto::feed::v1::{
    CommitRequest, CreateSessionRequest, LatestForRequest, Principal, ReadLogRequest, TableFilter, Target,
    WatchRequest, WatchResponse,
};
use tonic::transport::Channel;
use tonic::{Code, Streaming};

use super::{Served, check_refused, commit, put};
use crate::commit::{FAILS_BEFORE, FailingWriter, NO_FAILURE};
use crate::testing::{Bench, SDL, START_MS};

/// Commits one record of a table as a principal; returns its revision.
async fn write(feed: &mut FeedClient<Channel>, principal: &str, table: &str, key: &str) -> u64 {
    let mut operation = put(key, r#"{"name":"n"}"#);
    operation.table = table.to_owned();
    let request = CommitRequest {
        principal: Some(Principal {
            name: principal.to_owned(),
            ..Principal::default()
        }),
        ..commit(vec![operation])
    };
    feed.commit(request).await.unwrap().into_inner().head
}

fn target(table: &str, key: Option<&str>) -> Target {
    Target {
        database: "data".to_owned(),
        table: table.to_owned(),
        key: key.map(str::to_owned),
    }
}

#[tokio::test]
async fn a_watch_of_some_tables_tells_whether_the_store_can_be_written() {
    let bench = Bench::new();
    let failure = Arc::new(AtomicU8::default());
    let switch = Arc::clone(&failure);
    let service = bench.try_open_with(SDL, |inner| {
        Box::new(FailingWriter {
            inner,
            failure: switch,
        })
    });
    let served = Served::start(service.await.unwrap()).await;
    let mut feed = served.feed().await;
    let request = WatchRequest {
        from_head: true,
        tables: vec![TableFilter {
            database: "data".to_owned(),
            table: "Strict".to_owned(),
        }],
        ..WatchRequest::default()
    };
    let mut watch = feed.watch(request).await.unwrap().into_inner();
    let first = watch.message().await.unwrap().unwrap();
    assert_eq!(first.problem, "");
    failure.store(FAILS_BEFORE, Ordering::SeqCst);
    feed.commit(commit(vec![put("a", "{}")])).await.unwrap_err();
    let told = watch.message().await.unwrap().unwrap();
    assert!(!told.problem.is_empty() && told.entries.is_empty(), "{told:?}");
    failure.store(NO_FAILURE, Ordering::SeqCst);
    // Of another table: nothing of it is sent, but that it worked.
    feed.commit(commit(vec![put("a", "{}")])).await.unwrap();
    let told = watch.message().await.unwrap().unwrap();
    assert!(told.problem.is_empty() && told.entries.is_empty(), "{told:?}");
    served.stop().await;
}

#[tokio::test]
async fn the_log_is_read_by_table_record_principal_and_time() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    let mut feed = served.feed().await;
    // Revisions 3 to 8, a minute apart.
    for (principal, table, key) in [
        ("alice", "Product", "a"),
        ("bob", "Product", "b"),
        ("alice", "Strict", "a"),
        ("", "Product", "a"),
        ("bob", "Product", "a"),
        ("alice", "Product", "b"),
    ] {
        bench.clock.advance(Duration::from_secs(60));
        write(&mut feed, principal, table, key).await;
    }
    let minute = |minutes: i64| START_MS + minutes * 60_000;
    let all = ReadLogRequest {
        after_revision: 2,
        ..ReadLogRequest::default()
    };
    let cases = [
        (all.clone(), vec![3, 4, 5, 6, 7, 8]),
        (
            ReadLogRequest {
                targets: vec![target("Product", None)],
                ..all.clone()
            },
            vec![3, 4, 6, 7, 8],
        ),
        (
            ReadLogRequest {
                targets: vec![
                    target("Product", Some("b")),
                    target("Strict", Some("a")),
                    target("Nothing", None),
                ],
                ..all.clone()
            },
            vec![4, 5, 8],
        ),
        (
            ReadLogRequest {
                by_principal: Some("alice".to_owned()),
                ..all.clone()
            },
            vec![3, 5, 8],
        ),
        (
            ReadLogRequest {
                by_principal: Some(String::new()),
                ..all.clone()
            },
            vec![6],
        ),
        (
            ReadLogRequest {
                by_principal: Some("bob".to_owned()),
                targets: vec![target("Product", Some("a"))],
                ..all.clone()
            },
            vec![7],
        ),
        (
            ReadLogRequest {
                from_time_ms: minute(2),
                until_time_ms: minute(5),
                ..all.clone()
            },
            vec![4, 5, 6],
        ),
        (
            ReadLogRequest {
                from_time_ms: minute(3),
                until_revision: 7,
                targets: vec![target("Product", None)],
                ..all.clone()
            },
            vec![6, 7],
        ),
        (
            ReadLogRequest {
                from_time_ms: minute(9),
                ..all.clone()
            },
            vec![],
        ),
    ];
    for (request, expected) in cases {
        let page = feed.read_log(request.clone()).await.unwrap().into_inner();
        let found: Vec<u64> = page.entries.iter().map(|entry| entry.revision).collect();
        let end = if request.until_revision > 0 {
            request.until_revision
        } else {
            8
        };
        assert_eq!(
            (found, page.progress, page.head),
            (expected, end, 8),
            "{request:?}"
        );
    }
    served.stop().await;
}

#[tokio::test]
async fn below_the_oldest_revision_every_read_says_so() {
    let bench = Bench::new();
    let service = bench.open().await;
    let shared = service.feed();
    let served = Served::start(service).await;
    let mut feed = served.feed().await;
    for key in ["a", "b", "a"] {
        write(&mut feed, "", "Product", key).await;
    }
    bench.clock.advance(Duration::from_secs(3600));
    crate::maintenance::retention::compact(&shared, crate::revision::Revision(3))
        .await
        .unwrap();
    drop(shared);
    let latest = |after_revision| LatestForRequest {
        targets: vec![target("Product", Some("a")), target("Product", Some("b"))],
        after_revision,
        ..LatestForRequest::default()
    };
    let read = |after_revision| ReadLogRequest {
        after_revision,
        targets: vec![target("Product", None)],
        ..ReadLogRequest::default()
    };
    let watch = |after_revision| WatchRequest {
        after_revision,
        ..WatchRequest::default()
    };
    let oldest = Some(("oldest", "4"));
    for after in [0, 2] {
        for status in [
            feed.latest_for(latest(after)).await.unwrap_err(),
            feed.read_log(read(after)).await.unwrap_err(),
            feed.watch(watch(after)).await.unwrap_err(),
        ] {
            check_refused(&status, Code::OutOfRange, Reason::Compacted, oldest);
        }
    }
    assert_eq!(
        feed.latest_for(latest(3)).await.unwrap().into_inner().revisions,
        [5, 4]
    );
    assert_eq!(
        feed.read_log(read(3)).await.unwrap().into_inner().entries.len(),
        2
    );
    let mut answers = feed.watch(watch(3)).await.unwrap().into_inner();
    assert_eq!(answers.message().await.unwrap().unwrap().oldest, 4);
    served.stop().await;
}

fn filter(database: &str, table: &str) -> TableFilter {
    TableFilter {
        database: database.to_owned(),
        table: table.to_owned(),
    }
}

/// Reads until the progress is reached; returns the revisions of the entries.
async fn read_until(watch: &mut Streaming<WatchResponse>, until: u64) -> Vec<u64> {
    let mut found = Vec::new();
    loop {
        let answer = watch.message().await.unwrap().unwrap();
        for entry in answer.entries {
            assert!(entry.revision <= answer.progress);
            found.push(entry.revision);
        }
        if answer.progress >= until {
            return found;
        }
    }
}

#[tokio::test]
async fn a_watch_of_some_tables_gets_theirs_and_moves_on_over_the_others() {
    for (ring_bytes, include_values) in [
        (0, false),
        (700, false),
        (1 << 20, false),
        (700, true),
        (1 << 20, true),
    ] {
        let mut bench = Bench::new();
        bench.limits.ring_bytes = ring_bytes;
        bench.limits.bookmark_interval = Duration::from_millis(20);
        let served = Served::start(bench.open().await).await;
        let mut feed = served.feed().await;
        // Odd revisions are of `Product`, even ones of `Strict`.
        for key in 0..10 {
            write(&mut feed, "", "Product", &key.to_string()).await;
            write(&mut feed, "", "Strict", &key.to_string()).await;
        }
        let request = |tables: Vec<TableFilter>| WatchRequest {
            include_values,
            tables,
            ..WatchRequest::default()
        };
        let product = vec![filter("data", "Product")];
        let mut watch = feed.watch(request(product.clone())).await.unwrap().into_inner();
        assert_eq!(
            read_until(&mut watch, 22).await,
            (3..22).step_by(2).collect::<Vec<u64>>()
        );
        // What is committed while it is open: nothing of its table, and then something.
        write(&mut feed, "", "Strict", "x").await;
        assert_eq!(read_until(&mut watch, 23).await, Vec::<u64>::new());
        write(&mut feed, "", "Product", "x").await;
        assert_eq!(read_until(&mut watch, 24).await, [24]);

        let none = vec![filter("data", "Nothing")];
        let mut watch = feed.watch(request(none)).await.unwrap().into_inner();
        assert_eq!(read_until(&mut watch, 24).await, Vec::<u64>::new());
        let both = vec![
            filter("data", "Strict"),
            filter("data", "Product"),
            filter("system", "table"),
        ];
        let mut watch = feed.watch(request(both)).await.unwrap().into_inner();
        assert_eq!(read_until(&mut watch, 24).await, (1..=24).collect::<Vec<u64>>());

        // The sessions' commands are asked for by the empty name.
        let create = CreateSessionRequest {
            session_id: "0123456789abcdef".to_owned(),
            protocol_version: "2025-11-25".to_owned(),
            ..CreateSessionRequest::default()
        };
        served.sessions().await.create_session(create).await.unwrap();
        let with_sessions = vec![filter("data", "Product"), filter("", "")];
        let mut watch = feed.watch(request(with_sessions)).await.unwrap().into_inner();
        let found = read_until(&mut watch, 25).await;
        assert_eq!(found[found.len() - 2..], [24, 25]);
        let mut watch = feed.watch(request(product)).await.unwrap().into_inner();
        assert_eq!(read_until(&mut watch, 25).await.last(), Some(&24));
        served.stop().await;
    }
}

#[tokio::test]
async fn a_watch_of_a_table_that_comes_later_gets_it_from_its_first_record_on() {
    let bench = Bench::new();
    let service = bench.open().await;
    let shared = service.feed();
    let served = Served::start(service).await;
    let mut feed = served.feed().await;
    let request = WatchRequest {
        tables: vec![filter("data", "Later")],
        after_revision: 2,
        ..WatchRequest::default()
    };
    let mut watch = feed.watch(request).await.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();
    let sdl = format!("{} type Later @table(open: true) {{ id: ID @primaryKey }}", SDL);
    let source = crate::catalog::SchemaSource::Text {
        name: "later.graphql".to_owned(),
        sdl,
    };
    shared
        .pipeline
        .set_tables(source.read().unwrap().unwrap())
        .await
        .unwrap();
    drop(shared);
    let revision = write(&mut feed, "", "Later", "a").await;
    let answer = loop {
        let answer = watch.message().await.unwrap().unwrap();
        if !answer.entries.is_empty() {
            break answer;
        }
    };
    assert_eq!(
        (answer.entries[0].revision, answer.progress),
        (revision, revision)
    );
    assert!(matches!(answer.entries[0].body, Some(Body::Change(_))));
    served.stop().await;
}

#[tokio::test]
async fn a_watch_of_too_many_tables_is_refused() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    let mut feed = served.feed().await;
    let request = WatchRequest {
        tables: vec![filter("data", "Product"); 1_001],
        ..WatchRequest::default()
    };
    let status = feed.watch(request).await.unwrap_err();
    check_refused(&status, Code::InvalidArgument, Reason::InvalidArgument, None);
    served.stop().await;
}
