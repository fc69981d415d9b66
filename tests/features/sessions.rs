//! B-3: versions, capabilities, session ids and their status codes, the end of a session.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::event_stream::EventStream;
use crate::harness::eventually;
use crate::harness::http::Request;
use crate::harness::mcp::{Client, initialize_body};
use crate::harness::stack::{Gateway, Stack};
use crate::harness::wire::Proxy;

const ITEM: &str = "feed+rest://tidegate.test/Item/7";
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

#[test]
fn b_3_1_a_supported_version_is_answered_with_itself_and_another_with_the_preferred() {
    let stack = Stack::start(1);
    let cases = [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("1999-01-01", "2025-11-25"),
        ("2099-12-31", "2025-11-25"),
        ("DRAFT", "2025-11-25"),
        ("", "2025-11-25"),
    ];
    for (asked, negotiated) in cases {
        let answer = Request::mcp(initialize_body(&format!("{asked:?}"))).send(stack.gateways[0].application);
        assert_eq!(answer.status, 200, "{asked}: {answer:?}");
        assert_eq!(answer.json()["result"]["protocolVersion"], negotiated, "{asked}");
    }
}

#[test]
fn b_3_1_an_initialize_without_a_version_is_refused_and_makes_no_session() {
    let stack = Stack::start(1);
    let without = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let without_params = r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#;
    for body in [
        without.to_owned(),
        without_params.to_owned(),
        initialize_body("20251125"),
        initialize_body("null"),
    ] {
        let answer = Request::mcp(&body).send(stack.gateways[0].application);
        assert_eq!(
            (answer.status, answer.error_code()),
            (400, -32602),
            "{body}: {answer:?}"
        );
        assert_eq!(answer.header("mcp-session-id"), None, "{body}: {answer:?}");
        let supported = answer.json()["error"]["data"]["supported"].clone();
        for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
            assert!(
                supported
                    .as_array()
                    .is_some_and(|all| all.contains(&json!(version))),
                "{body}: {answer:?}"
            );
        }
    }
}

#[test]
fn b_3_2_initialize_tells_what_the_server_can() {
    let stack = Stack::start(1);
    let answer = Request::mcp(initialize_body(r#""2025-11-25""#)).send(stack.gateways[0].application);
    let result = answer.json()["result"].clone();
    let capabilities = &result["capabilities"];
    assert_eq!(capabilities["tools"]["listChanged"], true, "{result}");
    assert_eq!(capabilities["resources"]["listChanged"], true, "{result}");
    assert_eq!(capabilities["resources"]["subscribe"], true, "{result}");
    assert_eq!(capabilities["prompts"]["listChanged"], true, "{result}");
    assert!(
        capabilities["completions"].is_object() && capabilities["logging"].is_object(),
        "{result}"
    );
    for field in ["name", "title", "version"] {
        assert!(
            result["serverInfo"][field]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{field}: {result}"
        );
    }
}

#[test]
fn b_3_3_session_ids_are_long_visible_and_never_the_same() {
    let stack = Stack::start(1);
    let ids: HashSet<String> = (0..50).map(|_| stack.client().session).collect();
    assert_eq!(ids.len(), 50);
    for id in ids {
        // 128 bits take at least 22 characters of base64.
        assert!(
            id.len() >= 22 && id.bytes().all(|byte| byte.is_ascii_graphic()),
            "{id}"
        );
    }
}

#[test]
fn field_case_a06_b_3_3_a_request_without_a_session_is_400_and_of_an_unknown_one_404() {
    let stack = Stack::start(2);
    let (live, unknown) = (stack.client().session, "unknown-session-0123456789abcdef");
    let (get, delete) = (
        Request::get("/mcp").header("Accept", "text/event-stream"),
        Request::new("DELETE", "/mcp"),
    );
    for gateway in &stack.gateways {
        for request in [
            Request::mcp(PING),
            Request::mcp(INITIALIZED),
            get.clone(),
            delete.clone(),
        ] {
            for (session, status) in [(None, 400), (Some(unknown), 404)] {
                let answer = request
                    .clone()
                    .with("Mcp-Session-Id", session)
                    .send(gateway.application);
                assert_eq!(answer.status, status, "{request:?} with {session:?}: {answer:?}");
                // An error object, and no list of what would be valid.
                assert!(answer.json()["error"]["code"].is_i64(), "{request:?}: {answer:?}");
                assert!(!answer.text().contains(&live), "{answer:?}");
                if status == 400 {
                    assert_eq!(answer.error_code(), -32600, "{request:?}: {answer:?}");
                }
            }
        }
    }
}

#[test]
fn field_case_a06_b_3_3_initialize_with_a_session_id_makes_a_new_session_and_leaves_the_old_one() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    for stale in [client.session.as_str(), "unknown-session-0123456789abcdef"] {
        let request = Request::mcp(initialize_body(r#""2025-11-25""#)).header("Mcp-Session-Id", stale);
        let answer = client.send(&request);
        assert_eq!(answer.status, 200, "{answer:?}");
        let new = answer
            .header("mcp-session-id")
            .unwrap_or_else(|| panic!("no session id: {answer:?}"));
        assert_ne!(new, stale);
    }
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    stream.update(ITEM);
}

#[test]
fn field_case_a13_b_3_4_the_version_header_is_any_supported_legacy_one_or_absent() {
    let stack = Stack::start(1);
    let client = stack.client();
    let ping = client.call("ping", &json!({}));
    let served = [
        None,
        Some("2025-11-25"),
        Some("2025-06-18"),
        Some("2025-03-26"),
        Some("2024-11-05"),
    ];
    for version in served {
        let answer = client.send(&ping.clone().with("MCP-Protocol-Version", version));
        assert_eq!(answer.status, 200, "{version:?}: {answer:?}");
        let initialize =
            Request::mcp(initialize_body(r#""2025-11-25""#)).with("MCP-Protocol-Version", version);
        let answer = client.send(&initialize);
        assert_eq!(answer.status, 200, "initialize with {version:?}: {answer:?}");
        assert_eq!(
            answer.json()["result"]["protocolVersion"],
            "2025-11-25",
            "the body decides"
        );
    }
    for version in ["1999-01-01", "2025-11-26", "2025-11-25, 2025-06-18", "nonsense"] {
        for request in [
            ping.clone(),
            client.get(None),
            client.sign(Request::new("DELETE", "/mcp")),
        ] {
            let answer = client.send(&request.with("MCP-Protocol-Version", Some(version)));
            assert_eq!(
                (answer.status, answer.error_code()),
                (400, -32600),
                "{version}: {answer:?}"
            );
            let said = answer.text();
            assert!(
                said.contains(version) && said.contains("2025-11-25"),
                "names both: {answer:?}"
            );
        }
    }
    client.result("ping", json!({}));
}

#[test]
fn b_3_5_notifications_and_responses_are_202_and_empty() {
    let stack = Stack::start(1);
    let client = stack.client();
    let bodies = [
        INITIALIZED,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99,"reason":"x"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/unheard-of","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"no"}}"#,
    ];
    // One connection, so that a stray byte after an answer would be seen.
    let mut connection = client.connect();
    for body in bodies {
        let answer = connection.send(&client.post(body));
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{body}: {answer:?}");
        assert_eq!(answer.header("content-type"), None, "{body}: {answer:?}");
    }
    assert_eq!(connection.send(&client.call("ping", &json!({}))).status, 200);
}

#[test]
fn b_3_5_an_unknown_method_is_named() {
    let stack = Stack::start(1);
    let client = stack.client();
    for method in ["nope", "resources/unheard-of", "Ping", "subscriptions/listen"] {
        let expected = (-32601, format!("method not found: {method}"));
        assert_eq!(client.error(method, json!({})), expected);
    }
}

#[test]
fn b_3_5_requests_before_initialized_are_served() {
    let stack = Stack::start(1);
    let answer = Request::mcp(initialize_body(r#""2025-11-25""#)).send(stack.gateways[0].application);
    let session = answer.header("mcp-session-id").expect("a session id");
    let answer = Request::mcp(PING)
        .header("Mcp-Session-Id", session)
        .send(stack.gateways[0].application);
    assert_eq!(
        (answer.status, &answer.json()["result"]),
        (200, &json!({})),
        "{answer:?}"
    );
}

#[test]
fn b_3_6_delete_ends_the_session_and_its_stream_on_every_instance() {
    let stack = Stack::start(2);
    for deleting in 0..2 {
        let client = stack.client();
        let mut stream = client.listen_opened();
        client.subscribe(ITEM);
        let answer = client.on(stack.gateways[deleting].application).delete();
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{answer:?}");
        assert_eq!(stream.ends(), []);
        for gateway in &stack.gateways {
            let client = client.on(gateway.application);
            let requests = [
                client.call("ping", &json!({})),
                client.post(INITIALIZED),
                client.get(None),
                client.get(Some("1")),
                client.sign(Request::new("DELETE", "/mcp")),
            ];
            // The instance that did not delete learns it by its watch.
            eventually("404", || match client.send(&requests[0]) {
                answer if answer.status == 404 => Ok(()),
                answer => Err(format!("{answer:?}")),
            });
            for request in requests {
                assert_eq!(client.send(&request).status, 404, "{request:?}");
            }
        }
        assert_eq!(stack.truth().session(&client.session), None);
    }
}

#[test]
fn b_3_8_the_session_is_on_record_with_its_subscriptions() {
    let stack = Stack::start(1);
    let client = stack.client();
    let _stream = client.listen_opened();
    client.subscribe(ITEM);
    let truth = stack.truth();
    let record = truth.session(&client.session).expect("a record");
    assert_eq!(record.protocol_version, "2025-11-25");
    let client_info: Value = serde_json::from_str(&record.client_info).expect("JSON");
    assert_eq!(client_info, json!({"name": "tests", "version": "1"}));
    assert_eq!(record.fence, truth.newest_open(&client.session));
    assert!(!record.owner_instance.is_empty());
    let [subscription] = &record.subscriptions[..] else {
        panic!("{record:?}")
    };
    assert_eq!(subscription.spelling, ITEM);
}

#[test]
fn b_3_9_any_request_of_a_session_may_arrive_anywhere() {
    let stack = Stack::start(3);
    let client = Client::initialize(stack.gateways[0].application, "2025-11-25");
    let (second, third) = (
        client.on(stack.gateways[1].application),
        client.on(stack.gateways[2].application),
    );
    let mut stream = EventStream::new(second.get(None).open(second.address), None);
    stream.opening();
    third.subscribe(ITEM);
    stack.gateways[0].put("Item/7", "{}");
    stream.update(ITEM);
    client.unsubscribe(ITEM);
    third.subscribe("feed+rest://tidegate.test/Item/8");
    stack.gateways[2].put("Item/7", "{}");
    stack.gateways[2].put("Item/8", "{}");
    stream.update("feed+rest://tidegate.test/Item/8");
    assert_eq!(third.delete().status, 204);
    assert_eq!(stream.ends(), []);
}

#[test]
fn b_3_6_clients_may_be_kept_from_deleting() {
    let stack = Stack::start_with(1, &[], &[("--allow-client-delete", "false")]);
    let client = stack.client();
    let answer = client.delete();
    assert_eq!(
        (answer.status, answer.header("allow").as_deref()),
        (405, Some("GET, POST")),
        "{answer:?}"
    );
    assert_eq!(client.result("ping", json!({})), json!({}));
}

#[test]
fn field_case_a19_b_3_7_a_session_that_only_listens_is_kept_and_an_idle_one_expires() {
    let stack = Stack::start_with(
        2,
        &[("--expiry-grace", "1ms"), ("--expiry-interval", "100ms")],
        &[("--idle-timeout", "1500ms")],
    );
    let listening = stack.client();
    let mut stream = listening.listen_opened();
    listening.subscribe(ITEM);
    // Two sessions that do nothing, one made after the other was gone: more than twice the idle time-out.
    for _ in 0..2 {
        let idle = stack.client();
        let truth = stack.truth();
        // The record is asked for and not the session: a request would be activity.
        eventually("the idle session is gone", || {
            match truth.session(&idle.session) {
                None => Ok(()),
                Some(session) => Err(format!("{session:?}")),
            }
        });
        for gateway in &stack.gateways {
            // Its watch may be a moment behind; what is gone does not come back by being asked for.
            eventually("the gateway knows", || {
                let answer = idle.on(gateway.application).send(&idle.call("ping", &json!({})));
                if answer.status != 404 {
                    return Err(format!("{answer:?}"));
                }
                assert_eq!(answer.error_code(), -32001, "{answer:?}");
                Ok(())
            });
        }
        assert!(stack.truth().session(&idle.session).is_none());
    }
    stack.put("Item/7", "{}");
    stream.update(ITEM);
    assert_eq!(listening.result("ping", json!({})), json!({}));
}

#[test]
fn b_3_7_a_session_that_only_posts_is_kept() {
    let stack = Stack::start_with(
        2,
        &[("--expiry-grace", "1ms"), ("--expiry-interval", "100ms")],
        // Less than the longest time in which activity is told.
        &[("--idle-timeout", "4s")],
    );
    let (posting, idle) = (stack.client(), stack.client());
    let truth = stack.truth();
    let mut posts = 0;
    while truth.session(&idle.session).is_some() {
        // To whichever instance.
        let address = stack.gateways[posts % 2].application;
        assert_eq!(posting.on(address).result("ping", json!({})), json!({}));
        posts += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(posting.result("ping", json!({})), json!({}));
}

#[test]
fn b_6_9_a_cancelled_request_of_the_legacy_era_gets_no_answer() {
    let mut stack = Stack::start(1);
    let client = stack.client();
    // Held by the feed service, which is stopped.
    stack.feed.service().pause();
    let mut connection = client.connect();
    let read = json!({"jsonrpc": "2.0", "id": "held", "method": "resources/read", "params": {"uri": ITEM}});
    connection.write(&client.post(read.to_string()));
    let again = client.post(r#"{"jsonrpc":"2.0","id":"held","method":"ping"}"#);
    eventually("the request is under way", || match client.send(&again) {
        answer if answer.status == 400 => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    for id in ["\"other\"", "7", "null", "\"held\""] {
        let cancelled = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"test"}}}}"#
        );
        let answer = client.send(&client.post(cancelled));
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{answer:?}");
    }
    let answer = connection.read("POST");
    assert_eq!((answer.status, answer.body.len()), (202, 0), "{answer:?}");
    // Its id is free again.
    assert_eq!(client.send(&again).status, 200);
    stack.feed.service().resume();
}

#[test]
fn b_15_2_an_initialize_beyond_the_limit_of_the_service_is_told_to_come_back() {
    let stack = Stack::start_with(1, &[("--sessions-max", "2")], &[]);
    let initialize = || Request::mcp(initialize_body("\"2025-11-25\"")).send(stack.gateways[0].application);
    let first = Client::initialize(stack.gateways[0].application, "2025-11-25");
    let second = initialize();
    assert_eq!(second.status, 200, "{second:?}");
    let third = initialize();
    assert_eq!((third.status, third.error_code()), (503, -32603), "{third:?}");
    assert_eq!(third.header("mcp-session-id"), None, "{third:?}");
    let retry_after = third
        .header("retry-after")
        .and_then(|seconds| seconds.parse::<u64>().ok());
    assert!(retry_after.is_some_and(|seconds| seconds > 0), "{third:?}");
    let deleted = first.delete();
    assert_eq!(deleted.status, 204, "{deleted:?}");
    let again = initialize();
    assert_eq!(again.status, 200, "an end makes room: {again:?}");
}

#[test]
fn b_3_9_a_cancellation_reaches_the_call_on_whatever_instance_it_came_to() {
    let stack = Stack::start(2);
    let wire = Proxy::to(stack.feed.address);
    let busy = Gateway::start(wire.address);
    busy.wait_until_ready();
    let client = busy.client();
    let others = stack
        .gateways
        .iter()
        .map(|gateway| client.on(gateway.application));
    let others: Vec<Client> = others.collect();
    for (round, cancelling) in others.iter().enumerate() {
        // A read whose answer is on its way for as long as it takes.
        wire.set(|weather| weather.stalled_down = true);
        let id = format!("held-{round}");
        let mut connection = client.connect();
        connection.write(
            &client.post(
                json!({"jsonrpc": "2.0", "id": id, "method": "resources/read", "params": {"uri": ITEM}})
                    .to_string(),
            ),
        );
        let again = client.post(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string());
        eventually("the request is under way", || match client.send(&again) {
            answer if answer.status == 400 => Ok(()),
            answer => Err(format!("{answer:?}")),
        });
        // Another session's request of the same id is another one.
        let stranger = Client::initialize(cancelling.address, "2025-11-25");
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        let cancel = |from: &Client| {
            let answer = from.send(&from.post(cancelled.to_string()));
            assert_eq!((answer.status, answer.body.len()), (202, 0), "{answer:?}");
        };
        cancel(&stranger);
        assert_eq!(client.send(&again).status, 400, "it is still under way");
        cancel(cancelling);
        let answer = connection.read("POST");
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{answer:?}");
        wire.set(|weather| weather.stalled_down = false);
    }
}

#[test]
fn b_3_9_a_response_to_nothing_is_accepted_on_every_instance() {
    let stack = Stack::start(2);
    let client = stack.client();
    for gateway in &stack.gateways {
        let client = client.on(gateway.application);
        for body in [
            r#"{"jsonrpc":"2.0","id":"never-asked","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#,
        ] {
            let answer = client.send(&client.post(body));
            assert_eq!((answer.status, answer.body.len()), (202, 0), "{answer:?}");
        }
    }
}
