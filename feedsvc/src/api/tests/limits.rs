//! Every limit of a request: written in the contract, kept at its bound, refused above it with its name.

use std::collections::HashMap;

use proto::Reason;
use proto::feed::v1::access_client::AccessClient;
use proto::feed::v1::search_condition::Kind;
use proto::feed::v1::{
    AccessEntry, Comparator, Comparison, ConditionGroup, CreateSessionRequest, GetManyRequest, GetRequest,
    LatestForRequest, OpenStreamRequest, Principal, ReadAccessRequest, ReadLogRequest, RecordAccessRequest,
    SearchCondition, SearchRequest, SortStep, SubscribeRequest, TableFilter, Target, TouchSessionsRequest,
    UnsubscribeRequest, WatchRequest,
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{Served, commit, operation, put};
use crate::testing::Bench;

const FEED: &str = include_str!("../../../../proto/feed/v1/feed.proto");
const PRINCIPAL: &str = include_str!("../../../../proto/feed/v1/principal.proto");
const SESSION: &str = include_str!("../../../../proto/feed/v1/session.proto");
const ACCESS: &str = include_str!("../../../../proto/feed/v1/access.proto");

/// A request that is at a limit or above it.
enum Call {
    Commit(proto::feed::v1::CommitRequest),
    Get(GetRequest),
    GetMany(GetManyRequest),
    Search(SearchRequest),
    Watch(WatchRequest),
    ReadLog(ReadLogRequest),
    LatestFor(LatestForRequest),
    Create(CreateSessionRequest),
    Open(OpenStreamRequest),
    Subscribe(SubscribeRequest),
    Unsubscribe(UnsubscribeRequest),
    Touch(TouchSessionsRequest),
    Record(RecordAccessRequest),
    ReadAccess(ReadAccessRequest),
}

async fn call(served: &Served, call: Call) -> Result<(), Status> {
    let mut feed = served.feed().await;
    let mut sessions = served.sessions().await;
    let mut access = AccessClient::connect(format!("http://{}", served.address))
        .await
        .unwrap();
    match call {
        Call::Commit(request) => feed.commit(request).await.map(drop),
        Call::Get(request) => feed.get(request).await.map(drop),
        Call::GetMany(request) => feed.get_many(request).await.map(drop),
        Call::Search(request) => feed.search(request).await.map(drop),
        Call::Watch(request) => feed.watch(request).await.map(drop),
        Call::ReadLog(request) => feed.read_log(request).await.map(drop),
        Call::LatestFor(request) => feed.latest_for(request).await.map(drop),
        Call::Create(request) => sessions.create_session(request).await.map(drop),
        Call::Open(request) => sessions.open_stream(request).await.map(drop),
        Call::Subscribe(request) => sessions.subscribe(request).await.map(drop),
        Call::Unsubscribe(request) => sessions.unsubscribe(request).await.map(drop),
        Call::Touch(request) => sessions.touch_sessions(request).await.map(drop),
        Call::Record(request) => access.record_access(request).await.map(drop),
        Call::ReadAccess(request) => access.read_access(request).await.map(drop),
    }
}

/// A limit: what the contract says, the largest amount that is taken, and the request with an amount.
struct Limit {
    contract: &'static str,
    said: &'static str,
    /// Stands in the message of the refusal.
    name: &'static str,
    most: usize,
    /// Whether the largest amount is tried too; not where it is heavy and tried elsewhere.
    is_tried: bool,
    request: fn(usize) -> Call,
}

const fn limit(
    contract: &'static str,
    said: &'static str,
    name: &'static str,
    most: usize,
    request: fn(usize) -> Call,
) -> Limit {
    Limit {
        contract,
        said,
        name,
        most,
        is_tried: true,
        request,
    }
}

fn text(length: usize) -> String {
    "x".repeat(length)
}

fn get(principal: Principal) -> Call {
    Call::Get(GetRequest {
        principal: Some(principal),
        database: "data".to_owned(),
        table: "Product".to_owned(),
        key: "k".to_owned(),
        ..GetRequest::default()
    })
}

fn attributes(attributes: HashMap<String, String>) -> Call {
    get(Principal {
        attributes,
        ..Principal::default()
    })
}

fn search() -> SearchRequest {
    SearchRequest {
        database: "data".to_owned(),
        table: "Product".to_owned(),
        ..SearchRequest::default()
    }
}

fn comparison(attribute: String, comparator: Comparator, value: String) -> SearchCondition {
    SearchCondition {
        kind: Some(Kind::Comparison(Comparison {
            attribute,
            comparator: comparator.into(),
            value: value.into(),
        })),
    }
}

fn condition(condition: SearchCondition) -> Call {
    Call::Search(SearchRequest {
        condition: Some(condition),
        ..search()
    })
}

fn all(conditions: Vec<SearchCondition>) -> SearchCondition {
    SearchCondition {
        kind: Some(Kind::All(ConditionGroup { conditions })),
    }
}

fn equals(value: String) -> SearchCondition {
    comparison("a".to_owned(), Comparator::Equals, value)
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

fn create(request: CreateSessionRequest) -> Call {
    Call::Create(CreateSessionRequest {
        session_id: if request.session_id.is_empty() {
            // Another one for each call.
            format!("session-{:?}", std::time::Instant::now())
                .chars()
                .filter(char::is_ascii_alphanumeric)
                .collect()
        } else {
            request.session_id
        },
        protocol_version: if request.protocol_version.is_empty() {
            "2025-11-25".to_owned()
        } else {
            request.protocol_version
        },
        ..request
    })
}

/// A JSON object of so many bytes.
fn object(length: usize) -> String {
    format!(r#"{{"n":"{}"}}"#, text(length - 8))
}

fn entry(entry: AccessEntry) -> Call {
    let with_default = |text: String, default: &str| if text.is_empty() { default.to_owned() } else { text };
    Call::Record(RecordAccessRequest {
        entries: vec![AccessEntry {
            method: with_default(entry.method, "ping"),
            outcome: with_default(entry.outcome, "ok"),
            ..entry
        }],
        ..RecordAccessRequest::default()
    })
}

fn targets(count: usize) -> Vec<Target> {
    vec![
        Target {
            database: "data".to_owned(),
            table: "Product".to_owned(),
            key: None,
        };
        count
    ]
}

const LIMITS: &[Limit] = &[
    limit(
        PRINCIPAL,
        "`name` and `role` have at most",
        "the principal's name",
        1_024,
        |amount| {
            get(Principal {
                name: text(amount),
                ..Principal::default()
            })
        },
    ),
    limit(
        PRINCIPAL,
        "`name` and `role` have at most",
        "the principal's role",
        1_024,
        |amount| {
            get(Principal {
                role: text(amount),
                ..Principal::default()
            })
        },
    ),
    limit(PRINCIPAL, "At most 32;", "principal.attributes", 32, |amount| {
        attributes(
            (0..amount)
                .map(|number| (number.to_string(), String::new()))
                .collect(),
        )
    }),
    limit(
        PRINCIPAL,
        "their names and values have at most 1,024 bytes each",
        "an attribute of the principal",
        1_024,
        |amount| attributes([(text(amount), String::new())].into()),
    ),
    limit(
        PRINCIPAL,
        "their names and values have at most 1,024 bytes each",
        "an attribute of the principal",
        1_024,
        |amount| attributes([(String::new(), text(amount))].into()),
    ),
    limit(FEED, "1 to 1,024 bytes of UTF-8", "the key", 1_024, |amount| {
        Call::Commit(commit(vec![put(&text(amount), "{}")]))
    }),
    Limit {
        is_tried: false,
        ..limit(FEED, "1 to 100,000 operations", "operations", 100_000, |amount| {
            let delete = operation("k", super::Action::Delete(super::Delete {}));
            Call::Commit(commit(vec![delete; amount]))
        })
    },
    limit(FEED, "a record 1 MiB", "the record", 1024 * 1024, |amount| {
        Call::Commit(commit(vec![put("k", &object(amount))]))
    }),
    Limit {
        is_tried: false,
        ..limit(
            FEED,
            "the puts and patches of a commit 16 MiB together",
            "the commit",
            16 * 1024 * 1024,
            |amount| {
                let values = [vec![1024 * 1024; 15], vec![amount - 15 * 1024 * 1024]].concat();
                Call::Commit(commit(
                    values
                        .into_iter()
                        .map(|length| put("k", &object(length)))
                        .collect(),
                ))
            },
        )
    },
    limit(FEED, "nested at most 128 deep", "nested", 127, |amount| {
        Call::Commit(commit(vec![put("k", &format!(r#"{{"a":{}}}"#, nested(amount)))]))
    }),
    limit(
        FEED,
        "at most 200 bytes chosen by the caller",
        "the idempotency key",
        200,
        |amount| {
            Call::Commit(proto::feed::v1::CommitRequest {
                idempotency_key: text(amount),
                ..commit(vec![put("k", "{}")])
            })
        },
    ),
    limit(
        FEED,
        "// 1 to 1,000. The answer ends early",
        "keys",
        1_000,
        |amount| {
            Call::GetMany(GetManyRequest {
                database: "data".to_owned(),
                table: "Product".to_owned(),
                keys: vec!["k".to_owned(); amount],
                ..GetManyRequest::default()
            })
        },
    ),
    limit(
        FEED,
        "1 to 1,000 records; 0 means 100",
        "limit",
        1_000,
        |amount| {
            Call::Search(SearchRequest {
                limit: u32::try_from(amount).unwrap(),
                ..search()
            })
        },
    ),
    limit(
        FEED,
        "at most 1,000, 1 to 1,024 bytes each",
        "attributes",
        1_000,
        |amount| {
            Call::Search(SearchRequest {
                attributes: vec!["a".to_owned(); amount],
                ..search()
            })
        },
    ),
    limit(
        FEED,
        "at most 1,000, 1 to 1,024 bytes each",
        "attributes[0]",
        1_024,
        |amount| {
            Call::Search(SearchRequest {
                attributes: vec![text(amount)],
                ..search()
            })
        },
    ),
    limit(FEED, "At most 5 steps", "sort", 5, |amount| {
        let step = SortStep {
            attribute: "a".to_owned(),
            descending: false,
        };
        Call::Search(SearchRequest {
            sort: vec![step; amount],
            ..search()
        })
    }),
    limit(
        FEED,
        "1 to 1,024 bytes. A dot reaches",
        "condition.attribute",
        1_024,
        |amount| condition(comparison(text(amount), Comparator::Equals, "1".to_owned())),
    ),
    limit(
        FEED,
        "a condition 1 MiB",
        "the condition",
        1024 * 1024 - 64,
        |amount| {
            // A little more than the value is around it.
            let room = if amount > 1024 * 1024 - 64 {
                amount + 64
            } else {
                amount
            };
            condition(equals(format!("\"{}\"", text(room - 2))))
        },
    ),
    limit(FEED, "A tree has at most 8 levels", "condition", 8, |amount| {
        condition((1..amount).fold(equals("1".to_owned()), |inner, _| all(vec![inner])))
    }),
    limit(
        FEED,
        "100 comparisons and 100 groups",
        "condition",
        100,
        |amount| condition(all(vec![equals("1".to_owned()); amount])),
    ),
    limit(
        FEED,
        "100 comparisons and 100 groups",
        "condition",
        100,
        |amount| condition(all(vec![all(vec![]); amount - 1])),
    ),
    limit(
        FEED,
        "One JSON value, nested at most 128 deep",
        "condition.value",
        128,
        |amount| condition(equals(nested(amount))),
    ),
    limit(FEED, "of 0 to 1,000", "condition.value", 1_000, |amount| {
        let values = vec!["1"; amount].join(",");
        condition(comparison("a".to_owned(), Comparator::In, format!("[{values}]")))
    }),
    limit(
        FEED,
        "At most 200 bytes. Empty: a reader",
        "the instance's name",
        200,
        |amount| {
            Call::Watch(WatchRequest {
                instance: text(amount),
                ..WatchRequest::default()
            })
        },
    ),
    limit(
        FEED,
        "its changes are sent. At most 1,000.",
        "tables",
        1_000,
        |amount| {
            let filter = TableFilter {
                database: "data".to_owned(),
                table: "Product".to_owned(),
            };
            Call::Watch(WatchRequest {
                tables: vec![filter; amount],
                ..WatchRequest::default()
            })
        },
    ),
    limit(
        FEED,
        "1 to 10,000 entries; 0 means 1,000",
        "max_entries",
        10_000,
        |amount| {
            Call::ReadLog(ReadLogRequest {
                max_entries: u32::try_from(amount).unwrap(),
                ..ReadLogRequest::default()
            })
        },
    ),
    limit(FEED, "tables, at most 10,000;", "targets", 10_000, |amount| {
        Call::ReadLog(ReadLogRequest {
            targets: targets(amount),
            ..ReadLogRequest::default()
        })
    }),
    limit(
        FEED,
        "// At most 10,000. A table that never was",
        "targets",
        10_000,
        |amount| {
            Call::LatestFor(LatestForRequest {
                targets: targets(amount),
                ..LatestForRequest::default()
            })
        },
    ),
    limit(
        SESSION,
        "16 to 128 visible ASCII characters",
        "session_id",
        128,
        |amount| {
            create(CreateSessionRequest {
                session_id: text(amount),
                ..CreateSessionRequest::default()
            })
        },
    ),
    limit(
        SESSION,
        "// 1 to 200 bytes.\n  string protocol_version",
        "protocol_version",
        200,
        |amount| {
            create(CreateSessionRequest {
                protocol_version: text(amount),
                ..CreateSessionRequest::default()
            })
        },
    ),
    limit(
        SESSION,
        "or empty; at most 64 KiB",
        "client_info",
        64 * 1024,
        |amount| {
            create(CreateSessionRequest {
                client_info: object(amount),
                ..CreateSessionRequest::default()
            })
        },
    ),
    limit(
        SESSION,
        "or empty; at most 64 KiB",
        "client_capabilities",
        64 * 1024,
        |amount| {
            create(CreateSessionRequest {
                client_capabilities: object(amount),
                ..CreateSessionRequest::default()
            })
        },
    ),
    limit(
        SESSION,
        "a JSON object, nested at most 128 deep",
        "client_info",
        127,
        |amount| {
            let client_info = format!(r#"{{"a":{}}}"#, nested(amount));
            create(CreateSessionRequest {
                client_info,
                ..CreateSessionRequest::default()
            })
        },
    ),
    limit(
        SESSION,
        "// 1 to 200 bytes.\n  string instance",
        "instance",
        200,
        |amount| {
            Call::Open(OpenStreamRequest {
                instance: text(amount),
                ..OpenStreamRequest::default()
            })
        },
    ),
    limit(
        SESSION,
        "Where other instances reach this one; at most 200 bytes",
        "address",
        200,
        |amount| {
            Call::Open(OpenStreamRequest {
                instance: text(1),
                address: text(amount),
                ..OpenStreamRequest::default()
            })
        },
    ),
    limit(SESSION, "1 to 8,192 bytes each", "uri", 8_192, |amount| {
        Call::Subscribe(SubscribeRequest {
            uri: text(amount),
            spelling: text(1),
            ..SubscribeRequest::default()
        })
    }),
    limit(SESSION, "1 to 8,192 bytes each", "spelling", 8_192, |amount| {
        Call::Subscribe(SubscribeRequest {
            uri: text(1),
            spelling: text(amount),
            ..SubscribeRequest::default()
        })
    }),
    limit(
        SESSION,
        "// 1 to 8,192 bytes.\n  string uri",
        "uri",
        8_192,
        |amount| {
            Call::Unsubscribe(UnsubscribeRequest {
                uri: text(amount),
                ..UnsubscribeRequest::default()
            })
        },
    ),
    limit(SESSION, "// At most 100,000.", "session_ids", 100_000, |amount| {
        Call::Touch(TouchSessionsRequest {
            session_ids: vec![text(1); amount],
            ..TouchSessionsRequest::default()
        })
    }),
    limit(ACCESS, "// 1 to 10,000.", "entries", 10_000, |amount| {
        let entry = AccessEntry {
            method: text(1),
            outcome: text(1),
            ..AccessEntry::default()
        };
        Call::Record(RecordAccessRequest {
            entries: vec![entry; amount],
            ..RecordAccessRequest::default()
        })
    }),
    limit(
        ACCESS,
        "The name of the principal, at most 1,024 bytes",
        "entries.principal",
        1_024,
        |amount| {
            entry(AccessEntry {
                principal: text(amount),
                ..AccessEntry::default()
            })
        },
    ),
    limit(
        ACCESS,
        "The instance that recorded it. At most 200 bytes",
        "entries.instance",
        200,
        |amount| {
            entry(AccessEntry {
                instance: text(amount),
                ..AccessEntry::default()
            })
        },
    ),
    limit(
        ACCESS,
        "\"login\". 1 to 200 bytes",
        "entries.method",
        200,
        |amount| {
            entry(AccessEntry {
                method: text(amount),
                ..AccessEntry::default()
            })
        },
    ),
    limit(
        ACCESS,
        "a tool or a URI. At most 8,192 bytes",
        "entries.object",
        8_192,
        |amount| {
            entry(AccessEntry {
                object: text(amount),
                ..AccessEntry::default()
            })
        },
    ),
    limit(
        ACCESS,
        "the kind of the error or refusal. 1 to 200 bytes",
        "entries.outcome",
        200,
        |amount| {
            entry(AccessEntry {
                outcome: text(amount),
                ..AccessEntry::default()
            })
        },
    ),
    limit(
        ACCESS,
        "or empty; at most 16 KiB",
        "entries.arguments",
        16 * 1024,
        |amount| {
            entry(AccessEntry {
                arguments: object(amount).into(),
                ..AccessEntry::default()
            })
        },
    ),
    limit(
        ACCESS,
        "1 to 10,000; 0 means 1,000",
        "max_entries",
        10_000,
        |amount| {
            Call::ReadAccess(ReadAccessRequest {
                max_entries: u32::try_from(amount).unwrap(),
                ..ReadAccessRequest::default()
            })
        },
    ),
];

#[tokio::test]
async fn every_limit_is_written_in_the_contract_kept_and_named() {
    let bench = Bench::new();
    let served = Served::start(bench.open().await).await;
    for limit in LIMITS {
        let Limit { said, name, most, .. } = limit;
        assert!(limit.contract.contains(said), "the contract does not say: {said}");
        if limit.is_tried
            && let Err(status) = call(&served, (limit.request)(*most)).await
        {
            assert_ne!(
                status.code(),
                Code::InvalidArgument,
                "{name} at {most}: {status:?}"
            );
            assert_ne!(status.code(), Code::OutOfRange, "{name} at {most}: {status:?}");
        }
        let refused = call(&served, (limit.request)(most + 1)).await;
        let status = refused.expect_err(name);
        assert_eq!(status.code(), Code::InvalidArgument, "{name}: {status:?}");
        let reason = status.get_details_error_info().unwrap().reason;
        let is_expected = [Reason::InvalidArgument, Reason::TooLarge, Reason::InvalidRecord]
            .iter()
            .any(|expected| expected.as_str() == reason);
        assert!(is_expected, "{name}: {reason}");
        assert!(status.message().contains(name), "{name}: {}", status.message());
    }
    served.stop().await;
}
