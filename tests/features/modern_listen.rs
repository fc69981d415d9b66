//! B-6.3 to B-6.6: `subscriptions/listen`, an answer that stays open.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::event_stream::EventStream;
use crate::harness::http::Request;
use crate::harness::modern::{CURSOR, Listening, Modern, SUBSCRIPTION_ID, VERSION, cursor_id};
use crate::harness::stack::Stack;
use crate::harness::truth::{RECORD_SLOT, TABLE_SLOT, event_id, put};

#[test]
fn b_6_3_a_filter_that_is_none_is_refused() {
    let stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    for filter in [
        Value::Null,
        json!([]),
        json!({"toolsListChanged": 1}),
        json!({"resourceSubscriptions": [""]}),
        json!({"resourceSubscriptions": [7]}),
        json!({"resourceSubscriptions": "a"}),
    ] {
        let answer = modern.send("subscriptions/listen", json!({"notifications": filter}));
        assert_eq!(
            (answer.status, answer.error_code()),
            (400, -32602),
            "{filter}: {answer:?}"
        );
    }
    let answer = modern.send("subscriptions/listen", json!({}));
    assert_eq!((answer.status, answer.error_code()), (400, -32602), "{answer:?}");
    let many: Vec<String> = (0..1_001).map(|key| modern.uri(&format!("Item/{key}"))).collect();
    let answer = modern.send(
        "subscriptions/listen",
        json!({"notifications": {"resourceSubscriptions": many}}),
    );
    assert_eq!((answer.status, answer.error_code()), (400, -32602), "{answer:?}");
    assert!(answer.error_message().contains("1000"), "{answer:?}");
    let answer = modern
        .request(&json!(1), json!({}), None)
        .with("Accept", Some("application/json"))
        .send(modern.address);
    assert_eq!(answer.status, 406, "the answer is a stream: {answer:?}");
}

#[test]
fn field_case_a15_b_6_4_the_acknowledgement_comes_first_and_names_what_is_honoured() {
    let stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    let [item, table] = ["Item/a%2Fb", "Item"].map(|path| modern.uri(path));
    let cases = [
        (json!({}), json!({})),
        (json!({"resourceSubscriptions": []}), json!({})),
        (
            json!({"resourceSubscriptions": [modern.uri("None/1"), "feed://about", "x", "weather://berlin", modern.uri("Item/%zz")]}),
            json!({}),
        ),
        (
            json!({"promptsListChanged": true, "toolsListChanged": false}),
            json!({"promptsListChanged": true}),
        ),
        (
            json!({"toolsListChanged": true, "resourceSubscriptions": [
                "http://elsewhere:1/Item/a%2fb", modern.uri("None/1"), table, "feed+rest://x/%49tem/a%2Fb", format!("{table}/"),
            ]}),
            json!({"toolsListChanged": true, "resourceSubscriptions": [item, table]}),
        ),
    ];
    for (filter, expected) in cases {
        let listening = Listening::of(modern.open_filter(&json!("l"), filter.clone(), None), json!("l"));
        assert_eq!(listening.filter, expected, "{filter}");
        assert!(!listening.resumed);
        let head = &listening.stream.head;
        assert_eq!(head.header("x-accel-buffering").as_deref(), Some("no"));
        assert_eq!(
            head.header("cache-control").as_deref(),
            Some("no-cache, no-store, no-transform")
        );
        assert_eq!(head.header("mcp-session-id"), None);
    }
}

#[test]
fn b_6_4_what_is_committed_after_the_acknowledgement_is_told_and_what_was_before_is_not() {
    let stack = Stack::start(2);
    let modern = Modern::at(stack.gateways[0].application);
    let (record, table) = (modern.uri("Item/7"), modern.uri("Item"));
    for _ in 0..20 {
        // By the other instance, so that this one may not have heard of it yet.
        stack.put("Item/7", r#"{"name":"before"}"#);
        let mut listening = modern.listen(&[&record, &table]);
        stack.put("Item/7", r#"{"name":"after"}"#);
        let revision = stack.truth().newest("Item", "7");
        assert_eq!(listening.updated(), table);
        assert_eq!(cursor_id(&listening.cursor), event_id(revision, TABLE_SLOT));
        assert_eq!(listening.updated(), record);
        assert_eq!(cursor_id(&listening.cursor), event_id(revision, RECORD_SLOT));
        listening.close();
    }
}

#[test]
fn b_6_5_every_frame_carries_the_id_in_its_type_and_only_what_was_asked_for_comes() {
    let stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    let record = modern.uri("Item/7");
    let ids = [
        json!(7),
        json!("7"),
        json!("a \"quoted\" \u{2028} id"),
        json!(-1),
        json!(18_446_744_073_709_551_615_u64),
    ];
    let mut listens: Vec<Listening> = ids
        .iter()
        .map(|id| Listening::of(modern.open(id, &[&record], None), id.clone()))
        .collect();
    stack.put("Item/8", "{}");
    stack.put("Product/7", r#"{"name":"x"}"#);
    stack.put("Item/7", "{}");
    for listening in &mut listens {
        assert_eq!(listening.updated(), record);
    }
}

#[test]
fn b_6_5_two_clients_with_one_id_never_meet() {
    let stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    let (one, other) = (modern.uri("Item/1"), modern.uri("Item/2"));
    let (mut first, mut second) = (modern.listen(&[&one]), modern.listen(&[&other]));
    // Both have the id 1, so a cancellation means nobody.
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        .to_string();
    let cancel = Request::mcp(cancel).header("MCP-Protocol-Version", VERSION);
    assert_eq!(cancel.send(modern.address).status, 202);
    for _ in 0..3 {
        stack.put("Item/2", "{}");
        stack.put("Item/1", "{}");
        assert_eq!((first.updated(), second.updated()), (one.clone(), other.clone()));
    }
    first.close();
    stack.put("Item/2", "{}");
    assert_eq!(second.updated(), other);
    // Once the gateway has seen that the first is gone, the id means the second.
    crate::harness::eventually("the listen is cancelled", || {
        assert_eq!(cancel.send(modern.address).status, 202);
        match second.stream.next_within(std::time::Duration::from_millis(100)) {
            crate::harness::event_stream::Next::End => Ok(()),
            next => Err(format!("{next:?}")),
        }
    });
}

#[test]
fn b_6_6_a_planned_end_is_the_result_and_nothing_before_it() {
    let mut stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    let record = modern.uri("Item/7");
    let mut listening = Listening::of(modern.open(&json!("l"), &[&record], None), json!("l"));
    stack.put("Item/7", "{}");
    listening.updated();
    let told = listening.cursor.clone();
    stack.gateways[0].service.end_by(Signal::TERM);
    let last = listening.ends();
    let [last] = &last[..] else {
        panic!("more than the result: {last:?}")
    };
    assert_eq!(last["id"], "l", "{last}");
    assert_eq!(last["result"]["resultType"], "complete", "{last}");
    assert_eq!(last["result"]["_meta"][SUBSCRIPTION_ID], "l", "{last}");
    let cursor = last["result"]["_meta"][CURSOR].as_str().expect("a cursor");
    assert!(cursor_id(cursor) >= cursor_id(&told), "{last}");
}

#[test]
fn b_4_3_b_6_5_a_change_reaches_a_session_and_a_listen_at_the_same_revision() {
    let mut stack = Stack::start(2);
    let client = stack.gateways[1].client();
    let mut stream: EventStream = client.listen_opened();
    let modern = Modern::at(stack.gateways[0].application);
    let record = modern.uri("Item/7");
    client.subscribe(&record);
    let mut listening = modern.listen(&[&record]);
    for round in 0..4 {
        if round == 2 {
            stack.feed.kill();
            stack.feed.restart();
            stack
                .gateways
                .iter()
                .for_each(|gateway| gateway.wait_until_ready());
        }
        stack.truth().commit(vec![put("Item", "7", "{}")]);
        assert_eq!(listening.updated(), record);
        assert_eq!(stream.update(&record), cursor_id(&listening.cursor));
    }
}

#[test]
fn b_6_1_a_modern_request_leaves_no_session_behind() {
    let stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    stack.put("Item/7", "{}");
    let before = stack.truth().log().len();
    let mut listening = modern.listen(&[&modern.uri("Item/7")]);
    modern.read(&modern.uri("Item/7"));
    modern.result("resources/list", json!({}));
    assert_eq!(
        stack.truth().log().len(),
        before,
        "nothing was written for a client"
    );
    stack.put("Item/7", "{}");
    listening.updated();
}

#[test]
fn b_4_9_bounded_a_listener_that_does_not_read_gets_the_newest_of_each_uri_in_the_end() {
    let stack = Stack::start(1);
    let modern = Modern::at(stack.gateways[0].application);
    let [hot, cold] = ["Item/hot", "Item/cold"].map(|path| modern.uri(path));
    let mut listening = modern.listen(&[&hot, &cold]);
    let truth = stack.truth();
    // More than the buffers of two sockets and the notices that may wait singly.
    const BATCHES: usize = 60;
    for batch in 0..BATCHES {
        let mut operations: Vec<_> = (0..1_000).map(|_| put("Item", "hot", "{}")).collect();
        if batch == BATCHES - 2 {
            operations.push(put("Item", "cold", "{}"));
        }
        truth.commit(operations);
    }
    let [last_hot, last_cold] = ["hot", "cold"].map(|key| event_id(truth.newest("Item", key), RECORD_SLOT));
    let (mut count, mut cold_at, mut before) = (0, None, 0);
    while cursor_id(&listening.cursor) < last_hot {
        let uri = listening.updated();
        let id = cursor_id(&listening.cursor);
        assert!(id > before, "cursors rise");
        (count, before) = (count + 1, id);
        if uri == cold {
            assert_eq!(cold_at.replace(id), None, "the cold one changed once");
        }
    }
    assert_eq!(cold_at, Some(last_cold));
    assert!(count < BATCHES * 1_000, "something was folded: {count}");
    // And live again.
    stack.put("Item/cold", "{}");
    assert_eq!(listening.updated(), cold);
}
