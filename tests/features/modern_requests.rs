//! B-6.1, B-6.2: requests of the era without sessions.

use proto::feed::v1::keys_client::KeysClient;
use proto::feed::v1::{GetSealingKeysRequest, Principal};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::http::{Answer, Request};
use crate::harness::mcp::initialize_body;
use crate::harness::modern::{CURSOR, Modern, VERSION, meta, request};
use crate::harness::stack::Stack;
use crate::harness::{RUNTIME, eventually};

fn check(answer: &Answer, status: u16, code: i64) {
    assert_eq!((answer.status, answer.error_code()), (status, code), "{answer:?}");
    assert_eq!(answer.header("mcp-session-id"), None, "{answer:?}");
}

#[test]
fn b_1_4_both_eras_are_served_on_one_endpoint() {
    let stack = Stack::start(1);
    let (client, modern) = (stack.client(), Modern::at(stack.gateways[0].application));
    // A session id changes nothing, not even one of nobody.
    for session in [client.session.as_str(), "0123456789abcdef0123"] {
        let answer = request(&json!(1), "server/discover", json!({}))
            .header("Mcp-Session-Id", session)
            .send(modern.address);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("mcp-session-id"), None, "{answer:?}");
    }
    // The header alone makes a request modern; then it lacks what a modern one needs.
    let old = client.sign(Request::mcp(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#));
    check(
        &old.clone()
            .with("MCP-Protocol-Version", Some(VERSION))
            .send(modern.address),
        400,
        -32602,
    );
    check(
        &old.clone()
            .with("MCP-Protocol-Version", Some("2027-01-01"))
            .send(modern.address),
        400,
        -32602,
    );
    let answer = Request::mcp(initialize_body("\"2026-07-28\"")).send(modern.address);
    assert_eq!(
        answer.json()["result"]["protocolVersion"],
        "2025-11-25",
        "an initialize is legacy"
    );
    assert_eq!(
        client.result("ping", json!({})),
        json!({}),
        "the session lives on"
    );
    assert_eq!(
        client
            .error("subscriptions/listen", json!({"notifications": {}}))
            .0,
        -32601,
        "a listen without the metadata is legacy"
    );
}

#[test]
fn b_6_1_get_and_delete_of_the_modern_era_are_405() {
    let stack = Stack::start(1);
    let client = stack.client();
    for method in ["GET", "DELETE"] {
        let request = client
            .sign(Request::new(method, "/mcp").header("Accept", "text/event-stream"))
            .with("MCP-Protocol-Version", Some(VERSION));
        let answer = request.send(client.address);
        assert_eq!(answer.status, 405, "{answer:?}");
        assert_eq!(answer.header("allow").as_deref(), Some("POST"), "{answer:?}");
    }
    assert_eq!(
        client.result("ping", json!({})),
        json!({}),
        "the session was not deleted"
    );
}

#[test]
fn b_6_1_b_2_8_every_refusal_has_its_code_and_status() {
    let stack = Stack::start(1);
    let address = stack.gateways[0].application;
    let good = || request(&json!("r"), "tools/list", json!({}));
    let with_meta = |meta: Value| request(&json!("r"), "tools/list", json!({"_meta": meta}));
    let without = |key: &str| {
        let mut meta = meta();
        meta.as_object_mut().expect("an object").remove(key);
        with_meta(meta)
    };
    let with = |key: &str, value: Value| {
        let mut meta = meta();
        meta[key] = value;
        with_meta(meta)
    };
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    assert_eq!(good().send(address).status, 200);
    assert_eq!(
        without("io.modelcontextprotocol/clientInfo").send(address).status,
        200
    );
    let cases = [
        (without(version), 400, -32602),
        (without(capabilities), 400, -32602),
        (with(capabilities, json!([])), 400, -32602),
        (
            with("io.modelcontextprotocol/logLevel", json!("loud")),
            400,
            -32602,
        ),
        (with(version, json!("2025-11-25")), 400, -32020),
        (
            with(version, json!("v999.0.0")).with("MCP-Protocol-Version", Some("v999.0.0")),
            400,
            -32022,
        ),
        (
            with(version, json!("2025-11-25")).with("MCP-Protocol-Version", Some("2025-11-25")),
            400,
            -32022,
        ),
        (good().with("MCP-Protocol-Version", None), 400, -32020),
        (
            good().with("MCP-Protocol-Version", Some("2025-11-25")),
            400,
            -32020,
        ),
        (good().with("Mcp-Method", None), 400, -32020),
        (good().with("Mcp-Method", Some("tools/call")), 400, -32020),
        (good().with("Mcp-Method", Some("TOOLS/LIST")), 400, -32020),
        (
            request(&json!("r"), "resources/read", json!({"uri": "feed://about"})).with("Mcp-Name", None),
            400,
            -32020,
        ),
        (
            request(&json!("r"), "resources/read", json!({"uri": "feed://about"}))
                .with("Mcp-Name", Some("feed://x")),
            400,
            -32020,
        ),
        (request(&json!("r"), "resources/read", json!({})), 400, -32602),
        (
            request(&json!("r"), "resources/list", json!({"cursor": "bogus"})),
            400,
            -32602,
        ),
        (
            request(&json!("r"), "prompts/get", json!({"name": "x"})),
            400,
            -32602,
        ),
        (
            request(&json!("r"), "tools/call", json!({"name": "x"})),
            400,
            -32602,
        ),
        (request(&json!("r"), "unknown/method", json!({})), 404, -32601),
        (
            request(&json!("r"), "initialize", json!({"protocolVersion": VERSION})),
            404,
            -32601,
        ),
        (request(&json!("r"), "ping", json!({})), 404, -32601),
        (
            request(&json!("r"), "logging/setLevel", json!({"level": "info"})),
            404,
            -32601,
        ),
        (
            request(
                &json!("r"),
                "resources/subscribe",
                json!({"uri": "feed+rest://h/Item/7"}),
            ),
            404,
            -32601,
        ),
        (
            request(
                &json!("r"),
                "resources/unsubscribe",
                json!({"uri": "feed+rest://h/Item/7"}),
            ),
            404,
            -32601,
        ),
    ];
    for (request, status, code) in cases {
        let answer = request.send(address);
        check(&answer, status, code);
        assert_eq!(answer.json()["id"], "r", "{answer:?}");
        if code == -32022 {
            let data = answer.json()["error"]["data"].clone();
            assert_eq!(data["supported"], json!([VERSION]), "{answer:?}");
            assert!(data["requested"].is_string(), "{answer:?}");
        }
    }
    // What cannot be read has no id.
    let raw = |body: &str| good().body(body).send(address);
    check(&raw("{"), 400, -32700);
    check(&raw("[]"), 400, -32600);
    check(
        &raw(r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#),
        400,
        -32600,
    );
    check(
        &raw(r#"{"jsonrpc":"2.0","id":null,"method":"subscriptions/listen"}"#),
        400,
        -32600,
    );
    check(&raw(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), 400, -32600);
    // The headers' names have no case; white space around a value is none of it.
    let other_case = good()
        .with("Mcp-Method", None)
        .header("mCP-mETHOD", "  tools/list\t")
        .send(address);
    assert_eq!(other_case.status, 200, "{other_case:?}");
    let twice = good().header("Mcp-Method", "tools/call").send(address);
    assert_eq!(twice.status, 400, "{twice:?}");
}

#[test]
fn field_case_a14_b_6_1_an_encoded_name_is_decoded_before_it_is_compared() {
    let stack = Stack::start(1);
    stack.put("Item/%C3%A9t%C3%A9%207", r#"{"name":"a"}"#);
    let address = stack.gateways[0].application;
    let uri = "feed+rest://host/Item/été 7";
    let read = |uri: &str, name: &[u8]| {
        request(&json!(1), "resources/read", json!({"uri": uri}))
            .with("Mcp-Name", None)
            .header("Mcp-Name", name)
            .send(address)
    };
    let encoded = |text: &str| format!("=?base64?{text}?=");
    assert_eq!(
        read(
            uri,
            encoded("ZmVlZCtyZXN0Oi8vaG9zdC9JdGVtL8OpdMOpIDc=").as_bytes()
        )
        .status,
        200
    );
    check(&read(uri, uri.as_bytes()), 400, -32020);
    check(
        &read(uri, encoded("ZmVlZCtyZXN0Oi8vaG9zdC9JdGVtL8OpdMOpIDc").as_bytes()),
        400,
        -32020,
    );
    check(&read(uri, encoded("wyg=").as_bytes()), 400, -32020);
    let looks_encoded = "=?base64?x?=";
    check(&read(looks_encoded, looks_encoded.as_bytes()), 400, -32020);
    let answer = read(looks_encoded, encoded("PT9iYXNlNjQ/eD89").as_bytes());
    check(&answer, 400, -32602);
}

#[test]
fn b_6_2_every_result_says_its_type_its_server_and_how_long_it_is_fresh() {
    let stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    stack.put("Item/7", r#"{"name":"a","data":1.0}"#);
    let discovered = modern.result("server/discover", json!({}));
    assert_eq!(discovered["supportedVersions"], json!([VERSION]));
    assert_eq!(discovered["cacheScope"], "public");
    assert_eq!(
        discovered["capabilities"]["resources"],
        json!({"subscribe": true, "listChanged": true})
    );
    assert_eq!(
        discovered["capabilities"]["extensions"],
        json!({"dev.tidegate/resume": {}})
    );
    let uri = modern.uri("Item/7");
    for (method, params, member) in [
        ("tools/list", json!({}), "tools"),
        ("prompts/list", json!({}), "prompts"),
        ("resources/list", json!({}), "resources"),
        ("resources/templates/list", json!({}), "resourceTemplates"),
        ("resources/read", json!({"uri": uri}), "contents"),
        ("resources/read", json!({"uri": "feed://about"}), "contents"),
    ] {
        let result = modern.result(method, params);
        assert!(result[member].is_array(), "{method}: {result}");
        assert!(result["ttlMs"].is_u64(), "{method}: {result}");
        assert_eq!(result["cacheScope"], "private", "{method}: {result}");
    }
    // The digits of a record are those that were written.
    let (text, _) = modern.read(&uri);
    assert!(text.contains(r#""data":1.0"#), "{text}");
    let answer = modern.send("resources/read", json!({"uri": modern.uri("Item/none")}));
    check(&answer, 400, -32602);
    assert_eq!(answer.json()["error"]["data"]["uri"], modern.uri("Item/none"));
    // What a session's client reads carries the cursor too, and nothing else of it.
    let legacy = stack.client().result("resources/read", json!({"uri": uri}));
    assert!(
        legacy["_meta"][CURSOR].is_string() && legacy.get("resultType").is_none(),
        "{legacy}"
    );
}

#[test]
fn b_6_1_a_notification_of_the_modern_era_is_202_and_empty() {
    let stack = Stack::start(1);
    let address = stack.gateways[0].application;
    for method in [
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/anything",
    ] {
        let body = json!({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}}).to_string();
        let answer = Request::mcp(body)
            .header("MCP-Protocol-Version", VERSION)
            .send(address);
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{answer:?}");
    }
}

#[test]
fn b_2_8_a_modern_request_says_that_the_feed_service_is_away() {
    let mut stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    stack.feed.kill();
    let answer = modern.send("resources/read", json!({"uri": modern.uri("Item/7")}));
    check(&answer, 503, -32603);
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    let answer = modern.send("subscriptions/listen", json!({"notifications": {}}));
    check(&answer, 503, -32603);
    assert_eq!(answer.error_message(), "feed service unavailable");
    // What needs no feed service is answered.
    modern.result("server/discover", json!({}));
}

#[test]
fn b_6_2_the_configured_title_is_told_in_every_result() {
    let mut stack = Stack::start_with(1, &[], &[("--set", "server.title=Shop of \"Ä\"")]);
    let modern = Modern::at(stack.gateways[0].application);
    for method in ["server/discover", "tools/list"] {
        let result = modern.result(method, json!({}));
        let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server["title"], "Shop of \"Ä\"", "{method}: {result}");
    }
    let listening = modern.listen(&[]);
    stack.gateways[0].service.end_by(Signal::TERM);
    let frames = listening.ends();
    let server = &frames[0]["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(server["title"], "Shop of \"Ä\"", "{frames:?}");
}

#[test]
fn b_6_7_what_the_server_tells_of_itself_and_of_its_tables_carries_a_cursor_too() {
    let stack = Stack::start(1);
    let client = stack.client();
    let modern = Modern::at(stack.gateways[0].application);
    stack.put("Item/7", "{}");
    for uri in ["feed://about", "feed://schema/data/Item"] {
        let (_, cursor) = modern.read(uri);
        // What is committed after the read is told from there.
        stack.put("Item/7", r#"{"name":"x"}"#);
        let mut listening = modern.resume(&[&modern.uri("Item/7")], &cursor);
        assert!(listening.resumed, "{uri}");
        assert_eq!(listening.updated(), modern.uri("Item/7"));
        let legacy = client.result("resources/read", json!({"uri": uri}));
        assert!(legacy["_meta"]["dev.tidegate/cursor"].is_string(), "{legacy}");
    }
}

/// A schema with so many tables that lists have two pages.
fn many_tables() -> String {
    let tables = (0..210).map(|number| {
        format!("type T{number:03} @table(database: \"data\") @export {{ id: ID @primaryKey }}\n")
    });
    tables.collect()
}

#[test]
fn b_8_1_b_6_1_a_cursor_of_a_list_is_good_on_every_instance_and_while_keys_rotate() {
    let mut stack = Stack::start_with(2, &[("--set", "sealing.key_age=8s")], &[]);
    stack.feed.restart_with_schema(&many_tables());
    let at = |index: usize| Modern::at(stack.gateways[index].application);
    let key_count = || {
        let request = GetSealingKeysRequest {
            principal: Some(Principal {
                role: "super_user".to_owned(),
                ..Principal::default()
            }),
            ..GetSealingKeysRequest::default()
        };
        let mut keys = KeysClient::new(stack.truth().channel());
        let answer = RUNTIME.block_on(keys.get_sealing_keys(request));
        answer.expect("the keys").into_inner().keys[0].id
    };
    let page = |index: usize, cursor: &Value| {
        let params = match cursor {
            Value::Null => json!({}),
            cursor => json!({"cursor": cursor}),
        };
        let result = at(index).result("resources/templates/list", params);
        let count = result["resourceTemplates"].as_array().expect("a list").len();
        (count, result["nextCursor"].clone())
    };
    for index in 0..2 {
        eventually("the new tables are known", || match page(index, &Value::Null) {
            (200, _) => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
    let (_, cursor) = page(0, &Value::Null);
    let first = key_count();
    for index in [1, 0] {
        assert_eq!(page(index, &cursor), (11, Value::Null), "on instance {index}");
    }
    // A key later, and after an instance began anew that never saw the older one made.
    eventually("the keys have rotated", || match key_count() {
        newest if newest > first => Ok(()),
        newest => Err(format!("{newest}")),
    });
    stack.gateways[1].kill();
    stack.gateways[1].restart();
    stack.gateways[1].wait_until_ready();
    let at_new = Modern::at(stack.gateways[1].application);
    let newer = at_new.result("resources/templates/list", json!({}))["nextCursor"].clone();
    for modern in [&at_new, &Modern::at(stack.gateways[0].application)] {
        for cursor in [&cursor, &newer] {
            let result = modern.result("resources/templates/list", json!({"cursor": cursor}));
            assert_eq!(
                result["resourceTemplates"].as_array().map(Vec::len),
                Some(11),
                "{result}"
            );
        }
    }
    // And not for another list.
    let answer = at_new.send("resources/list", json!({"cursor": cursor}));
    assert_eq!((answer.status, answer.error_code()), (400, -32602), "{answer:?}");
}
