//! B-7, and of B-3.9 what concerns it: the transport of 2024-11-05, on one instance and on several.

use serde_json::json;

use crate::harness::event_stream::EventStream;
use crate::harness::http::{Answer, Request};
use crate::harness::http_sse::HttpSseClient;
use crate::harness::mcp::Client;
use crate::harness::stack::Stack;

const ITEM: &str = "feed+rest://tidegate.test/Item/7";
const TABLE: &str = "feed+rest://tidegate.test/Item";

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[test]
fn b_7_every_answer_and_notice_goes_out_on_the_stream() {
    let stack = Stack::start(1);
    let mut client = HttpSseClient::open(stack.gateways[0].application);
    let result = client.initialize("2024-11-05");
    assert_eq!(result["protocolVersion"], "2024-11-05");
    assert_eq!(result["serverInfo"]["name"], "tidegate");
    assert_eq!(client.result("ping", json!({})), json!({}));
    let unknown = client.call_at(client.address, "no/such", json!({}));
    assert_eq!(unknown["error"]["code"], -32601);

    client.subscribe(ITEM);
    client.subscribe(TABLE);
    stack.put("Item/7", "{\"name\":\"first\"}");
    client.stream.update(TABLE);
    client.stream.update(ITEM);
    let read = client.result("resources/read", json!({"uri": ITEM}));
    assert!(
        read["contents"][0]["text"].as_str().unwrap().contains("first"),
        "{read}"
    );
    assert_eq!(
        client.result("resources/unsubscribe", json!({"uri": TABLE})),
        json!({})
    );
    stack.put("Item/7", "{}");
    client.stream.update(ITEM);
    assert_eq!(client.result("ping", json!({})), json!({}));
}

#[test]
fn b_7_a_stream_has_no_empty_event_whatever_was_negotiated() {
    let mut stack = Stack::start(2);
    let mut client = HttpSseClient::open(stack.gateways[0].application);
    assert_eq!(client.initialize("2025-11-25")["protocolVersion"], "2025-11-25");
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    let last = client.stream.update(ITEM);
    // A planned end brings a bookmark to those who know it, and the resume an opening block.
    stack.gateways[0].service.end_by(rustix::process::Signal::TERM);
    assert_eq!(client.stream.ends().len(), 0);
    assert_eq!(client.stream.last_id, Some(last));
    let address = stack.gateways[1].application;
    let mut client = HttpSseClient::reopen(address, &client.session, Some(last));
    assert_eq!(client.result("ping", json!({})), json!({}));
    stack.put("Item/7", "{}");
    client.stream.update(ITEM);
}

#[test]
fn b_7_a_batch_is_answered_as_the_negotiated_version_says() {
    let stack = Stack::start(1);
    let batch = r#"[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"b","method":"ping"}]"#;
    let mut client = HttpSseClient::open(stack.gateways[0].application);
    client.initialize("2025-03-26");
    assert_eq!(client.post_at(client.address, batch).status, 202);
    let answer: serde_json::Value = serde_json::from_str(&client.stream.frame().data.unwrap()).unwrap();
    assert_eq!(
        answer,
        json!([{"jsonrpc": "2.0", "id": "a", "result": {}}, {"jsonrpc": "2.0", "id": "b", "result": {}}])
    );
    let mut client = HttpSseClient::open(stack.gateways[0].application);
    client.initialize("2024-11-05");
    let refused = client.post_at(client.address, batch);
    assert_eq!((refused.status, refused.error_code()), (400, -32600));
}

#[test]
fn b_7_resumable_a_session_goes_on_by_its_id_on_another_instance() {
    let stack = Stack::start(2);
    let mut client = HttpSseClient::open(stack.gateways[0].application);
    client.initialize("2024-11-05");
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    let last = client.stream.update(ITEM);
    let HttpSseClient { stream, session, .. } = client;
    stream.close();
    for _ in 0..3 {
        stack.put("Item/7", "{}");
    }
    let mut client = HttpSseClient::reopen(stack.gateways[1].application, &session, Some(last));
    assert_eq!(client.session, session);
    for _ in 0..3 {
        client.stream.update(ITEM);
    }
    assert_eq!(client.result("ping", json!({})), json!({}));
    // Without the id it is another session, which has subscribed to nothing.
    let other = HttpSseClient::open(stack.gateways[1].application);
    assert_ne!(other.session, session);
}

#[test]
fn b_3_9_b_7_a_post_at_another_instance_is_answered_on_the_stream() {
    let stack = Stack::start(3);
    let [home, away, far] = [0, 1, 2].map(|index| stack.gateways[index].application);
    let mut client = HttpSseClient::open(home);
    client.initialize("2024-11-05");
    for address in [away, far, home, away] {
        assert_eq!(client.call_at(address, "ping", json!({}))["result"], json!({}));
    }
    assert_eq!(
        client.call_at(away, "resources/subscribe", json!({"uri": ITEM}))["result"],
        json!({})
    );
    stack.put("Item/7", "{}");
    client.stream.update(ITEM);
    let unknown = client.call_at(far, "no/such", json!({}));
    assert_eq!(unknown["error"]["code"], -32601);
    // What is refused as a whole is refused in the response, as where the stream is.
    for address in [home, away] {
        let refused = client.post_at(address, "{");
        assert_eq!(
            (refused.status, refused.error_code()),
            (400, -32700),
            "{refused:?}"
        );
    }
    // A client that moved on is followed.
    let mut moved = HttpSseClient::reopen(far, &client.session, client.stream.last_id);
    assert_eq!(client.stream.ends().len(), 0);
    assert_eq!(moved.call_at(home, "ping", json!({}))["result"], json!({}));
}

#[test]
fn b_3_9_b_7_a_post_for_a_stream_that_died_with_its_instance_is_refused_at_once() {
    let mut stack = Stack::start(2);
    let mut client = HttpSseClient::open(stack.gateways[0].application);
    client.initialize("2024-11-05");
    stack.gateways[0].kill();
    let away = stack.gateways[1].application;
    let refused = client.post_at(away, r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#);
    assert_eq!(
        (refused.status, refused.error_code()),
        (503, -32603),
        "{refused:?}"
    );
    assert_eq!(
        refused.error_message(),
        "the result of this call was lost, call again"
    );
    assert_eq!(refused.json()["id"], "x");
    // Called again on a new stream it is answered.
    let mut client = HttpSseClient::reopen(away, &client.session, None);
    assert_eq!(client.result("ping", json!({})), json!({}));
}

fn check_refused(answer: &Answer, status: u16, code: i64) {
    assert_eq!((answer.status, answer.error_code()), (status, code), "{answer:?}");
}

#[test]
fn b_7_what_names_no_session_or_none_that_is_there_is_refused() {
    let stack = Stack::start(1);
    let address = stack.gateways[0].application;
    let post = |target: &str| {
        Request::new("POST", target)
            .header("Content-Type", "application/json")
            .body(PING)
            .send(address)
    };
    let without = post("/messages");
    check_refused(&without, 400, -32600);
    assert_eq!(without.json()["id"], 1);
    check_refused(&post("/messages?session=nobody"), 404, -32001);
    check_refused(&post("/messages?session=%ff"), 404, -32001);
    check_refused(&Request::get("/sse?session=nobody").send(address), 404, -32001);
    check_refused(
        &Request::get("/sse")
            .header("Accept", "application/json")
            .send(address),
        406,
        -32600,
    );
    // A session whose stream is another transport's has no place for the answer.
    let streamable = Client::initialize(address, "2025-11-25");
    let _stream = streamable.listen_opened();
    check_refused(
        &post(&format!("/messages?session={}", streamable.session)),
        503,
        -32603,
    );

    let client = HttpSseClient::open(address);
    let no_json = Request::new("POST", &client.endpoint)
        .header("Content-Type", "text/plain")
        .body(PING)
        .send(address);
    check_refused(&no_json, 415, -32600);
    for (method, path, allowed) in [
        ("POST", "/sse", "GET"),
        ("HEAD", "/sse", "GET"),
        ("GET", "/messages", "POST"),
        ("DELETE", "/messages", "POST"),
    ] {
        let answer = Request::new(method, path).send(address);
        assert_eq!(
            (answer.status, answer.header("allow").as_deref()),
            (405, Some(allowed)),
            "{method} {path}: {answer:?}"
        );
    }
}

#[test]
fn b_7_a_session_may_change_its_transport() {
    let stack = Stack::start(2);
    let mut client = HttpSseClient::open(stack.gateways[0].application);
    client.initialize("2024-11-05");
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    let last = client.stream.update(ITEM);
    let request = Request::get("/mcp")
        .header("Accept", "text/event-stream")
        .header("Mcp-Session-Id", &client.session)
        .header("Last-Event-ID", last.to_string());
    let mut stream = EventStream::new(request.open(stack.gateways[1].application), Some(last));
    assert_eq!(client.stream.ends().len(), 0);
    stack.put("Item/7", "{}");
    stream.update(ITEM);
}
