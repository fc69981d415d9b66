//! B-5: subscribe and unsubscribe, their errors word for word, and what a subscription promises.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::event_stream::{EventStream, Next};
use crate::harness::eventually;
use crate::harness::stack::{SCHEMA, Stack};
use crate::harness::truth::{RECORD_SLOT, event_id};

const ITEM: &str = "feed+rest://tidegate.test/Item/7";
const OTHER: &str = "feed+rest://tidegate.test/Item/8";

#[test]
fn b_5_1_what_cannot_be_subscribed_is_refused_word_for_word() {
    let stack = Stack::start(1);
    let client = stack.client();
    let _stream = client.listen_opened();
    let requires = "resources/subscribe requires params.uri".to_owned();
    let not_subscribable = |uri: &str| format!("resource is not subscribable: {uri}");
    let cases: Vec<(Value, String)> = vec![
        (json!({}), requires.clone()),
        (json!({"uri": 7}), requires.clone()),
        (json!({"uri": null}), requires.clone()),
        (json!({"uri": ["feed+rest://h/Item/7"]}), requires.clone()),
        (json!({"URI": "feed+rest://h/Item/7"}), requires),
    ];
    let uris = [
        "feed+rest://tidegate.test/Nowhere/1",
        "feed+rest://tidegate.test/Unseen/1",
        "feed+rest://tidegate.test/",
        "feed+rest://tidegate.test",
        "feed+rest://tidegate.test/item/7",
        "feed://about",
        "feed://schema/data/Product",
        "ftp://tidegate.test/Item/7",
        "Item/7",
        "/Item/7",
        "",
        "not a uri",
    ];
    for (params, message) in cases
        .into_iter()
        .chain(uris.map(|uri| (json!({"uri": uri}), not_subscribable(uri))))
    {
        assert_eq!(
            client.error("resources/subscribe", params.clone()),
            (-32602, message),
            "{params}"
        );
    }
}

#[test]
fn b_5_1_params_come_before_the_stream_and_the_stream_before_the_resource() {
    let stack = Stack::start(1);
    let client = stack.client();
    let begin = Instant::now();
    let requires = (-32602, "resources/subscribe requires params.uri".to_owned());
    assert_eq!(client.error("resources/subscribe", json!({})), requires);
    let no_stream = (
        -32602,
        "open the GET SSE stream before subscribing to resources".to_owned(),
    );
    for uri in [ITEM, "feed+rest://tidegate.test/Nowhere/1"] {
        assert_eq!(
            client.error("resources/subscribe", json!({"uri": uri})),
            no_stream,
            "{uri}"
        );
    }
    // Each waited up to a second for a stream; it is the waiting's upper end that a client would notice.
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn b_5_1_a_subscribe_waits_a_moment_for_the_stream_that_is_opened_at_the_same_time() {
    let stack = Stack::start(2);
    for listening in 0..2 {
        let client = stack.client();
        let mut connection = client.connect();
        connection.write(&client.call("resources/subscribe", &json!({"uri": ITEM})));
        let stream = client
            .on(stack.gateways[listening].application)
            .get(None)
            .open(stack.gateways[listening].application);
        let mut stream = EventStream::new(stream, None);
        let answer = connection.read("POST");
        assert_eq!(answer.json()["result"], json!({}), "{answer:?}");
        // Opened before or after the subscribe: with or without a gap's notices first.
        loop {
            let frame = stream.frame();
            if frame.is_position() {
                break;
            }
            assert_eq!(frame.id, None, "{frame:?}");
        }
        stack.put("Item/7", "{}");
        stream.update(ITEM);
    }
}

#[test]
fn b_5_1_a_stream_that_was_closed_does_not_count() {
    let stack = Stack::start(1);
    let client = stack.client();
    client.listen_opened().close();
    let expected = (
        -32602,
        "open the GET SSE stream before subscribing to resources".to_owned(),
    );
    eventually("the gateway sees that the stream is closed", || {
        let answer = client.send(&client.call("resources/subscribe", &json!({"uri": ITEM})));
        // Until then the subscribe is accepted.
        if answer.json().get("result").is_some() {
            return Err(format!("{answer:?}"));
        }
        assert_eq!((answer.error_code(), answer.error_message()), expected);
        Ok(())
    });
}

#[test]
fn b_5_2_every_change_after_the_answer_notifies() {
    let stack = Stack::start(2);
    let client = stack.client();
    let elsewhere = client.on(stack.gateways[1].application);
    let mut stream = client.listen_opened();
    for round in 0..50 {
        // Subscribed through the instance that does not hold the stream, written at once through the other.
        let uri = format!("feed+rest://tidegate.test/Item/{round}");
        elsewhere.subscribe(&uri);
        stack.gateways[round % 2].put(&format!("Item/{round}"), "{}");
        stream.update(&uri);
    }
}

#[test]
fn b_5_3_subscribing_again_changes_nothing() {
    let stack = Stack::start(2);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    let truth = stack.truth();
    let first = truth.session(&client.session).expect("a record").subscriptions;
    stack.put("Item/7", "{}");
    for gateway in &stack.gateways {
        client.on(gateway.application).subscribe(ITEM);
    }
    assert_eq!(
        truth.session(&client.session).expect("a record").subscriptions,
        first,
        "its revision stays"
    );
    stack.put("Item/7", "{}");
    let ids: Vec<u64> = truth
        .changes("Item", Some("7"))
        .iter()
        .map(|(revision, _)| event_id(*revision, RECORD_SLOT))
        .collect();
    assert_eq!(
        [stream.update(ITEM), stream.update(ITEM)],
        ids[..],
        "one notice per change"
    );
}

#[test]
fn b_5_3_a_record_that_does_not_exist_yet_can_be_subscribed() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe("feed+rest://tidegate.test/Product/not-yet");
    stack.put("Product/not-yet", r#"{"name":"Lamp"}"#);
    stream.update("feed+rest://tidegate.test/Product/not-yet");
}

#[test]
fn b_5_7_unsubscribe_is_always_answered_and_ends_the_notices() {
    let stack = Stack::start(2);
    let client = stack.client();
    // Never subscribed, and without a stream.
    client.unsubscribe(ITEM);
    let requires = (-32602, "resources/unsubscribe requires params.uri".to_owned());
    for params in [json!({}), json!({"uri": 7}), json!({"uri": null})] {
        assert_eq!(client.error("resources/unsubscribe", params), requires);
    }

    let mut stream = client.listen_opened();
    client.subscribe(OTHER);
    for gateway in &stack.gateways {
        client.subscribe(ITEM);
        stack.put("Item/7", "{}");
        stream.update(ITEM);
        client.on(gateway.application).unsubscribe(ITEM);
        stack.put("Item/7", "{}");
        stack.put("Item/8", "{}");
        // The other one's notice would come first.
        stream.update(OTHER);
    }
}

#[test]
fn b_5_8_subscriptions_outlive_the_stream() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    stack.put("Item/7", "{}");
    let last = stream.update(ITEM);
    stream.close();
    let mut stream = client.resume(last);
    stream.opening();
    stack.put("Item/7", "{}");
    stream.update(ITEM);
}

#[test]
fn filtered_a_session_gets_what_it_subscribed_and_nothing_else() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    client.subscribe(ITEM);
    let noise = ["Item/8", "Item/77", "Item/07", "Product/7", "Number/7"];
    for path in noise {
        stack.put(
            path,
            if path.starts_with("Product") {
                r#"{"name":"noise"}"#
            } else {
                "{}"
            },
        );
    }
    stack.put("Item/7", "{}");
    stream.update(ITEM);
    // A session without subscriptions gets none of it: only the end of its stream.
    let idle = stack.client();
    let mut quiet = idle.listen_opened();
    stack.put("Item/7", "{}");
    stream.update(ITEM);
    assert_eq!(idle.delete().status, 204);
    assert!(matches!(quiet.next_within(Duration::from_secs(20)), Next::End));
}

#[test]
fn b_5_10_a_session_has_at_most_1000_subscriptions() {
    let stack = Stack::start(1);
    let client = stack.client();
    let mut stream = client.listen_opened();
    let mut connection = client.connect();
    let mut subscribe = |key: usize| {
        let uri = format!("feed+rest://tidegate.test/Item/{key}");
        connection.send(&client.call("resources/subscribe", &json!({"uri": uri})))
    };
    for key in 0..1_000 {
        let answer = subscribe(key);
        assert_eq!(answer.json()["result"], json!({}), "{key}: {answer:?}");
    }
    let answer = subscribe(1_000);
    assert_eq!(answer.error_code(), -32602, "{answer:?}");
    let message = answer.error_message();
    assert!(
        message.contains("1000") || message.contains("1,000"),
        "names the limit: {message}"
    );
    assert_eq!(
        subscribe(999).json()["result"],
        json!({}),
        "one that is there already"
    );
    // The refused one is none; the others are.
    stack.put("Item/1000", "{}");
    stack.put("Item/999", "{}");
    stream.update("feed+rest://tidegate.test/Item/999");
    client.unsubscribe("feed+rest://tidegate.test/Item/5");
    assert_eq!(subscribe(1_000).json()["result"], json!({}), "room again");
}

#[test]
fn b_5_8_a_uri_that_is_not_served_any_more_is_dropped_from_the_record_at_the_next_get() {
    let mut stack = Stack::start(1);
    let client = stack.client();
    let stream = client.listen_opened();
    let product = "feed+rest://tidegate.test/Product/1";
    for uri in [ITEM, "feed+rest://tidegate.test/Item", product] {
        client.subscribe(uri);
    }
    let last = stream.last_id.expect("an opening block");
    stream.close();
    stack.put("Item/7", "{}");
    stack.put("Product/1", r#"{"name":"x"}"#);
    // `Item` is there as before, but not exported.
    let hidden = SCHEMA.replace(
        r#"type Item @table(database: "data") @export {"#,
        r#"type Item @table(database: "data") {"#,
    );
    assert_ne!(hidden, SCHEMA);
    stack.feed.restart_with_schema(&hidden);
    stack.gateways[0].wait_until_ready();
    let subscribed = || {
        let record = stack.truth().session(&client.session).expect("a record");
        let uris = record.subscriptions.into_iter();
        uris.map(|subscription| subscription.spelling).collect::<Vec<_>>()
    };
    assert_eq!(subscribed().len(), 3, "not before the next GET");

    let mut stream = client.resume(last);
    // Nothing of what is not served is told, not even once more.
    stream.update(product);
    stream.opening();
    eventually("the record has what is left", || match subscribed() {
        uris if uris == [product] => Ok(()),
        uris => Err(format!("{uris:?}")),
    });
    // When it is served again, it is not subscribed.
    stack.feed.restart_with_schema(SCHEMA);
    stack.gateways[0].wait_until_ready();
    stack.put("Item/7", "{}");
    stack.put("Product/1", r#"{"name":"y"}"#);
    stream.update(product);
}
