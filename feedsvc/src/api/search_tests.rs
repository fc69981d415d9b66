//! Tests of the calls that read many records, over real connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use proto::Reason;
use proto::feed::v1::record_operation::Action;
use proto::feed::v1::search_condition::Kind;
use proto::feed::v1::{
    Comparator, Comparison, ConditionGroup, CountRequest, GetManyRequest, Patch, Principal, SearchCondition,
    SearchRequest, SearchResponse, SortStep,
};
use tonic::Code;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServiceResponse};
use tonic_types::StatusExt;

use super::tests::{Served, check_refused, commit, operation, put};
use crate::commit::{FAILS_BEFORE, FailingWriter};
use crate::indexing;
use crate::testing::Bench;

const SDL: &str = "
    type Product @table @export { id: ID @primaryKey  price: Float @indexed  stock: Int  name: String  tags: [String] }
";

fn compare(attribute: &str, comparator: Comparator, value: &str) -> Option<SearchCondition> {
    Some(SearchCondition {
        kind: Some(Kind::Comparison(Comparison {
            attribute: attribute.to_owned(),
            comparator: comparator.into(),
            value: value.to_owned().into(),
        })),
    })
}

fn search(condition: Option<SearchCondition>) -> SearchRequest {
    SearchRequest {
        database: "data".to_owned(),
        table: "Product".to_owned(),
        condition,
        ..SearchRequest::default()
    }
}

fn by(attribute: &str, descending: bool) -> Vec<SortStep> {
    vec![SortStep {
        attribute: attribute.to_owned(),
        descending,
    }]
}

fn keys(response: &SearchResponse) -> Vec<&str> {
    response
        .records
        .iter()
        .map(|record| record.key.as_str())
        .collect()
}

#[tokio::test]
async fn records_are_searched_counted_and_read_in_bulk() {
    let bench = Bench::new();
    let served = Served::start(bench.try_open(SDL).await.unwrap()).await;
    let mut feed = served.feed().await;
    let operations = (0..10).map(|number| {
        let value = format!(
            r#"{{"price":{number}.50,"stock":{},"name":"n{number}"}}"#,
            number % 3
        );
        put(&format!("k{number}"), &value)
    });
    let head = feed
        .commit(commit(operations.collect()))
        .await
        .unwrap()
        .into_inner()
        .head;

    let mut request = SearchRequest {
        sort: by("price", true),
        attributes: vec!["name".to_owned(), "price".to_owned()],
        limit: 2,
        ..search(compare("stock", Comparator::NotEquals, "0.0"))
    };
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let page = feed.search(request.clone()).await.unwrap().into_inner();
        assert_eq!((page.revision, page.plan.as_str()), (head, "index:price"));
        found.extend(keys(&page).into_iter().map(str::to_owned));
        let number = page.records[0].key.trim_start_matches('k');
        assert_eq!(
            page.records[0].value,
            format!(r#"{{"price":{number}.50,"name":"n{number}"}}"#)
        );
        pages += 1;
        if page.next_cursor.is_empty() {
            break;
        }
        request.cursor = page.next_cursor;
    }
    assert_eq!((found.join(" ").as_str(), pages), ("k8 k7 k5 k4 k2 k1", 3));

    let of_the_service = SearchRequest {
        database: "system".to_owned(),
        table: "table".to_owned(),
        ..search(compare("name", Comparator::StartsWith, r#""Pro""#))
    };
    assert_eq!(
        keys(feed.search(of_the_service).await.unwrap().get_ref()),
        ["data.Product"]
    );

    let count = CountRequest {
        database: "data".to_owned(),
        table: "Product".to_owned(),
        condition: compare("price", Comparator::Between, "[1.5, 3.500]"),
        ..CountRequest::default()
    };
    let counted = feed.count(count).await.unwrap().into_inner();
    assert_eq!((counted.count, counted.revision), (3, head));

    let many = GetManyRequest {
        database: "data".to_owned(),
        table: "Product".to_owned(),
        keys: ["k3", "absent", "k1", "k3"].map(str::to_owned).to_vec(),
        ..GetManyRequest::default()
    };
    let many = feed.get_many(many).await.unwrap().into_inner();
    let got: Vec<&str> = many.records.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(
        (got, many.answered, many.revision),
        (vec!["k3", "k1", "k3"], 4, head)
    );
    served.stop().await;
}

#[tokio::test]
async fn bulk_reads_end_at_their_bytes() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    let mut feed = served.feed().await;
    let large = format!(r#"{{"v":"{}"}}"#, "x".repeat(1_000_000));
    for number in 0..20 {
        feed.commit(commit(vec![put(&format!("k{number:02}"), &large)]))
            .await
            .unwrap();
    }
    let names: Vec<String> = (0..20).map(|number| format!("k{number:02}")).collect();
    let many = GetManyRequest {
        database: "data".to_owned(),
        table: "Product".to_owned(),
        keys: names.clone(),
        ..GetManyRequest::default()
    };
    let many = feed.get_many(many).await.unwrap().into_inner();
    assert_eq!((many.answered, many.records.len()), (16, 16));
    for sort in [Vec::new(), by("v", false)] {
        let mut request = SearchRequest {
            sort,
            limit: 1_000,
            ..search(None)
        };
        let first = feed.search(request.clone()).await.unwrap().into_inner();
        assert_eq!(keys(&first), names[..first.records.len()]);
        assert!(first.records.len() < 20, "{}", first.records.len());
        let mut rest = first.records.len();
        request.cursor = first.next_cursor;
        while !request.cursor.is_empty() {
            let page = feed.search(request.clone()).await.unwrap().into_inner();
            assert_eq!(keys(&page), names[rest..rest + page.records.len()]);
            rest += page.records.len();
            request.cursor = page.next_cursor;
        }
        assert_eq!(rest, 20);
        // By an attribute that all share, and cut down to what is small: one page.
        let small = SearchRequest {
            attributes: vec!["id".to_owned()],
            cursor: String::new(),
            ..request
        };
        let small = feed
            .search(SearchRequest {
                sort: Vec::new(),
                ..small
            })
            .await
            .unwrap()
            .into_inner();
        assert_eq!((small.records.len(), small.next_cursor.as_str()), (20, ""));
    }
    served.stop().await;
}

#[tokio::test]
async fn a_cursor_is_good_for_its_own_search_only_also_after_a_restart() {
    let bench = Bench::new();
    let served = Served::start(bench.try_open(SDL).await.unwrap()).await;
    let mut feed = served.feed().await;
    let operations = (0..5).map(|number| put(&format!("k{number}"), &format!(r#"{{"stock":{number}}}"#)));
    feed.commit(commit(operations.collect())).await.unwrap();
    let first = SearchRequest {
        limit: 2,
        sort: by("stock", false),
        ..search(compare("stock", Comparator::GreaterThan, "0"))
    };
    let cursor = feed.search(first.clone()).await.unwrap().into_inner().next_cursor;
    served.stop().await;

    let served = Served::start(bench.try_open(SDL).await.unwrap()).await;
    let mut feed = served.feed().await;
    let next = SearchRequest {
        cursor: cursor.clone(),
        ..first.clone()
    };
    let wider = SearchRequest {
        limit: 100,
        attributes: vec!["id".to_owned()],
        ..next.clone()
    };
    assert_eq!(keys(feed.search(wider).await.unwrap().get_ref()), ["k3", "k4"]);
    let mut altered = cursor.clone().into_bytes();
    altered[20] ^= 1;
    for other in [
        SearchRequest {
            cursor: String::from_utf8(altered).unwrap(),
            ..first.clone()
        },
        SearchRequest {
            cursor: "page 1".to_owned(),
            ..first.clone()
        },
        SearchRequest {
            condition: None,
            ..next.clone()
        },
        SearchRequest {
            condition: compare("stock", Comparator::GreaterThan, "1"),
            ..next.clone()
        },
        SearchRequest {
            sort: by("stock", true),
            ..next.clone()
        },
        SearchRequest {
            principal: Some(Principal {
                name: "bob".to_owned(),
                ..Principal::default()
            }),
            ..next.clone()
        },
        // The same name, but perhaps not the same view.
        SearchRequest {
            principal: Some(Principal {
                role: "other".to_owned(),
                ..Principal::default()
            }),
            ..next.clone()
        },
        SearchRequest {
            principal: Some(Principal {
                attributes: [("tenant".to_owned(), "b".to_owned())].into(),
                ..Principal::default()
            }),
            ..next.clone()
        },
    ] {
        let refused = feed.search(other).await.unwrap_err();
        check_refused(&refused, Code::InvalidArgument, Reason::InvalidCursor, None);
    }
    served.stop().await;
}

#[tokio::test]
async fn a_cursor_is_good_for_a_rotation_of_the_keys_and_a_pager_pages_through_all() {
    let mut bench = Bench::new();
    bench.limits.sealing_key_age = Duration::from_secs(1_000);
    let served = Served::start(bench.try_open(SDL).await.unwrap()).await;
    let mut feed = served.feed().await;
    let operations = (0..7).map(|number| put(&format!("k{number}"), "{}"));
    feed.commit(commit(operations.collect())).await.unwrap();
    let page = |cursor: String| SearchRequest {
        limit: 1,
        cursor,
        ..search(None)
    };
    let (mut cursor, mut found, mut cursors) = (String::new(), Vec::new(), Vec::new());
    loop {
        let answer = feed.search(page(cursor.clone())).await.unwrap().into_inner();
        found.extend(answer.records.into_iter().map(|record| record.key));
        if answer.next_cursor.is_empty() {
            break;
        }
        cursor = answer.next_cursor;
        cursors.push(cursor.clone());
        // So a new key is made at every other page.
        bench.clock.advance(Duration::from_millis(999_999));
    }
    assert_eq!(found, ["k0", "k1", "k2", "k3", "k4", "k5", "k6"]);
    // The first was sealed by a key that is gone, the last by the one before the newest at most.
    let refused = feed.search(page(cursors.remove(0))).await.unwrap_err();
    check_refused(&refused, Code::InvalidArgument, Reason::InvalidCursor, None);
    feed.search(page(cursors.pop().unwrap())).await.unwrap();
    served.stop().await;
}

#[tokio::test]
async fn cursors_go_on_while_no_new_key_can_be_made() {
    let mut bench = Bench::new();
    bench.limits.sealing_key_age = Duration::from_secs(1);
    let failure = Arc::new(AtomicU8::default());
    let switch = Arc::clone(&failure);
    let service = bench.try_open_with(SDL, |inner| {
        Box::new(FailingWriter {
            inner,
            failure: switch,
        })
    });
    let service = service.await.unwrap();
    let served = Served::start(service).await;
    let mut feed = served.feed().await;
    let operations = (0..3).map(|number| put(&format!("k{number}"), "{}"));
    feed.commit(commit(operations.collect())).await.unwrap();
    let page = |cursor: String| SearchRequest {
        limit: 1,
        cursor,
        ..search(None)
    };
    let first = feed.search(page(String::new())).await.unwrap().into_inner();
    bench.clock.advance(Duration::from_secs(10));
    failure.store(FAILS_BEFORE, Ordering::SeqCst);
    let second = feed.search(page(first.next_cursor)).await.unwrap().into_inner();
    let third = feed.search(page(second.next_cursor)).await.unwrap();
    assert_eq!(keys(third.get_ref()), ["k2"]);
    served.stop().await;
}

#[tokio::test]
async fn what_cannot_be_searched_is_refused_with_a_reason_and_what_to_do() {
    let mut bench = Bench::new();
    bench.limits.search_scan_max = 3;
    let service = bench.try_open(&SDL.replace("@indexed", "")).await.unwrap();
    let served = Served::start(service).await;
    let mut feed = served.feed().await;
    let operations = (0..5).map(|number| put(&format!("k{number}"), &format!(r#"{{"price":{number}}}"#)));
    feed.commit(commit(operations.collect())).await.unwrap();
    let deep = (0..9).fold(compare("price", Comparator::Equals, "1"), |inner, _| {
        Some(SearchCondition {
            kind: Some(Kind::All(ConditionGroup {
                conditions: inner.into_iter().collect(),
            })),
        })
    });
    for (request, message) in [
        (
            search(compare("colour", Comparator::Equals, "1")),
            "table data.Product has id, price, stock, name, tags",
        ),
        (
            search(compare("price", Comparator::Equals, r#""1""#)),
            "allowed is a number",
        ),
        (
            search(compare("price", Comparator::Equals, "1,")),
            "invalid `condition.value`: it is no JSON value",
        ),
        (
            search(compare("price", Comparator::Equals, "")),
            "invalid `condition.value`: it is no JSON value",
        ),
        (
            search(Some(SearchCondition::default())),
            "set `comparison`, `all` or `any`",
        ),
        (search(deep), "it has 10 levels; allowed are 8"),
        (
            SearchRequest {
                sort: by("colour", false),
                ..search(None)
            },
            "invalid `sort[0].attribute`",
        ),
        (
            SearchRequest {
                sort: vec![by("stock", false).remove(0); 6],
                ..search(None)
            },
            "it has 6 steps; allowed are 5",
        ),
        (
            SearchRequest {
                limit: 1_001,
                ..search(None)
            },
            "it is 1001; allowed are 1 to 1000",
        ),
        (
            SearchRequest {
                attributes: vec!["colour".to_owned()],
                ..search(None)
            },
            "invalid `attributes[0]`",
        ),
        (
            search(compare("price", Comparator::Between, r#"[1,"2"]"#)),
            r#"cannot compare `price` with the number 1 and the string "2"; allowed are two strings, two numbers or two booleans"#,
        ),
        (
            search(compare("price", Comparator::Between, "[1]")),
            "allowed is a list of two strings, two numbers or two booleans",
        ),
    ] {
        let refused = feed.search(request).await.unwrap_err();
        check_refused(&refused, Code::InvalidArgument, Reason::InvalidArgument, None);
        assert!(refused.message().contains(message), "{}", refused.message());
    }
    for path in ["price.", ".price", "price..x", "."] {
        for request in [
            search(compare(path, Comparator::Equals, "1")),
            SearchRequest {
                sort: by(path, false),
                ..search(None)
            },
        ] {
            let refused = feed.search(request).await.unwrap_err();
            check_refused(&refused, Code::InvalidArgument, Reason::InvalidArgument, None);
            let message = refused.message();
            assert!(message.contains("a name beside a dot is empty"), "{message}");
        }
    }
    let empty = GetManyRequest {
        database: "data".to_owned(),
        table: "Product".to_owned(),
        ..GetManyRequest::default()
    };
    let refused = feed.get_many(empty).await.unwrap_err();
    check_refused(&refused, Code::InvalidArgument, Reason::InvalidArgument, None);
    let unknown = SearchRequest {
        table: "None".to_owned(),
        ..search(None)
    };
    let refused = feed.search(unknown).await.unwrap_err();
    check_refused(&refused, Code::NotFound, Reason::UnknownTable, None);

    let refused = feed
        .search(search(compare("price", Comparator::Equals, "9")))
        .await
        .unwrap_err();
    check_refused(
        &refused,
        Code::ResourceExhausted,
        Reason::ScanLimit,
        Some(("attributes", "price")),
    );
    assert_eq!(refused.get_details_error_info().unwrap().metadata["limit"], "3");
    assert!(
        refused.message().contains("declare `price` @indexed"),
        "{}",
        refused.message()
    );
    // The key is its own index.
    for (condition, sort, expected) in [
        (
            compare("id", Comparator::StartsWith, r#""k""#),
            by("stock", false),
            "stock",
        ),
        (
            compare("id", Comparator::GreaterThan, r#""a""#),
            by("price", true),
            "price",
        ),
        (
            compare("id", Comparator::NotEquals, r#""k""#),
            by("price", true),
            "price",
        ),
    ] {
        let request = SearchRequest {
            sort,
            ..search(condition)
        };
        let refused = feed.search(request).await.unwrap_err();
        let told = Some(("attributes", expected));
        check_refused(&refused, Code::ResourceExhausted, Reason::ScanLimit, told);
    }
    let broken = feed
        .commit(commit(vec![operation(
            "k0",
            Action::Patch(Patch { value: "[]".into() }),
        )]))
        .await;
    check_refused(
        &broken.unwrap_err(),
        Code::InvalidArgument,
        Reason::InvalidRecord,
        None,
    );
    served.stop().await;
}

#[tokio::test]
async fn a_table_that_gains_an_index_has_it_built_behind_the_commits_and_one_that_loses_it_has_it_removed() {
    let mut bench = Bench::new();
    bench.limits.search_scan_max = 10;
    let without = SDL.replace("@indexed", "");
    let served = Served::start(bench.try_open(&without).await.unwrap()).await;
    let mut feed = served.feed().await;
    let operations = (0..2_000).map(|number| put(&format!("k{number}"), &format!(r#"{{"price":{number}}}"#)));
    feed.commit(commit(operations.collect())).await.unwrap();
    served.stop().await;

    let service = bench.try_open(SDL).await.unwrap();
    // Not served yet, so nothing is built.
    let within = service.feed();
    let request = || search(compare("price", Comparator::GreaterThanEqual, "1995"));
    let refused = super::search::search(&within, request())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("the index on `price` is still being built"),
        "{refused}"
    );
    indexing::finish(&within).await.unwrap();
    let found = super::search::search(&within, request()).await.unwrap();
    assert_eq!((found.plan.as_str(), found.records.len()), ("index:price", 5));
    drop(within);
    service.close().await;

    let service = bench.try_open(&without).await.unwrap();
    let within = service.feed();
    let refused = super::search::search(&within, request())
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("declare `price` @indexed"), "{refused}");
    indexing::finish(&within).await.unwrap();
    let file = rusqlite::Connection::open(bench.data().join("feed.sqlite")).unwrap();
    let left: i64 = file
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'index\\_%' ESCAPE '\\'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 0);
    drop(within);
    service.close().await;
}

#[tokio::test]
async fn a_search_whose_caller_goes_away_ends_and_leaves_room_for_others() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let mut searches = Vec::new();
    // More than may run at once; each goes on until it is interrupted.
    for _ in 0..20 {
        let (feed, started) = (Arc::clone(&feed), started.clone());
        searches.push(tokio::spawn(async move {
            let endless = feed.reads.run_search(move |_, interrupt| {
                let _ = started.send(());
                while interrupt.check().is_ok() {
                    std::thread::yield_now();
                }
                interrupt.check()
            });
            endless.await
        }));
    }
    starts.recv().await.unwrap();
    let found = feed.reads.run(|reader| reader.bounds()).await;
    assert!(found.is_ok(), "reads of single records have places of their own");
    for search in searches {
        search.abort();
        let _ = search.await;
    }
    super::search::search(&feed, search(None)).await.unwrap();
    service.close().await;
}

#[tokio::test]
async fn reflection_tells_the_contract() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", served.address()))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(channel)
        .server_reflection_info(tokio_stream::once(request))
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(listed)) = answer.message_response else {
        panic!("{answer:?}")
    };
    let names: Vec<String> = listed
        .service
        .into_iter()
        .map(|service: ServiceResponse| service.name)
        .collect();
    for name in [
        "feed.v1.Access",
        "feed.v1.Feed",
        "feed.v1.Maintenance",
        "feed.v1.Sessions",
        "grpc.health.v1.Health",
    ] {
        assert!(names.iter().any(|listed| listed == name), "{names:?}");
    }
    served.stop().await;
}
